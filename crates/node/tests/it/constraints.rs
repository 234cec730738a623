//! Unique values and foreign keys between sessions: of several that want one value one has it, and nobody refers to what is gone.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::row_locks::{all, all_is_free, outcome, refused, waiting};
use crate::support::real::{block_on, open, run, tag};
use crate::support::shown_rows as rows;
use alluvia_node::Database;
use alluvia_query::Session;
use alluvia_types::{Error, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

fn database() -> (tempfile::TempDir, Database, Session) {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir.path().join("db"));
    let watcher = db.session();
    block_on(all(
        &watcher,
        &[
            "CREATE TABLE p (id INT PRIMARY KEY, u INT UNIQUE)",
            "CREATE TABLE c (id INT PRIMARY KEY, p INT REFERENCES p)",
            "INSERT INTO p VALUES (1, 10), (2, 20)",
        ],
    ));
    (dir, db, watcher)
}

#[test]
fn a_unique_value_is_waited_for() {
    let (_dir, db, watcher) = database();
    block_on(async {
        for (end, wanted, value) in [("COMMIT", "23505", "1"), ("ROLLBACK", "INSERT 0 1", "1")] {
            let (first, second) = (db.session(), Arc::new(db.session()));
            all(&first, &["BEGIN", "INSERT INTO p VALUES (30, 300)"]).await;
            let task = waiting(&watcher, &second, "INSERT INTO p VALUES (31, 300)").await;
            tag(&first, end).await;
            assert_eq!(outcome(task).await, wanted, "{end}");
            assert_eq!(rows(&watcher, "SELECT count(*) FROM p WHERE u = 300").await, [value]);
            tag(&watcher, "DELETE FROM p WHERE u = 300").await;
        }
        // And who takes such a row away, too.
        for (end, wanted) in [("COMMIT", "INSERT 0 1"), ("ROLLBACK", "23505")] {
            let (first, second) = (db.session(), Arc::new(db.session()));
            tag(&watcher, "INSERT INTO p VALUES (40, 400)").await;
            all(&first, &["BEGIN", "DELETE FROM p WHERE id = 40"]).await;
            let task = waiting(&watcher, &second, "INSERT INTO p VALUES (41, 400)").await;
            tag(&first, end).await;
            assert_eq!(outcome(task).await, wanted, "{end}");
            tag(&watcher, "DELETE FROM p WHERE u = 400").await;
        }
        all_is_free(&watcher).await;
    });
}

#[test]
fn a_parent_is_there_or_its_child_is_not() {
    let (_dir, db, watcher) = database();
    block_on(async {
        for (end, deleted) in [("COMMIT", "23503"), ("ROLLBACK", "DELETE 1")] {
            let (first, second) = (db.session(), Arc::new(db.session()));
            all(&first, &["BEGIN", "INSERT INTO c VALUES (1, 1)"]).await;
            // What the parent is not known by may change meanwhile.
            tag(&watcher, "UPDATE p SET u = u + 1 WHERE id = 1").await;
            let task = waiting(&watcher, &second, "DELETE FROM p WHERE id = 1").await;
            tag(&first, end).await;
            assert_eq!(outcome(task).await, deleted, "{end}");
            all(&watcher, &["DELETE FROM c", "INSERT INTO p VALUES (1, 10) ON CONFLICT DO NOTHING"]).await;
        }
        for (end, inserted) in [("COMMIT", "23503"), ("ROLLBACK", "INSERT 0 1")] {
            let (first, second) = (db.session(), Arc::new(db.session()));
            all(&first, &["BEGIN", "DELETE FROM p WHERE id = 2"]).await;
            let task = waiting(&watcher, &second, "INSERT INTO c VALUES (2, 2)").await;
            tag(&first, end).await;
            assert_eq!(outcome(task).await, inserted, "{end}");
            all(&watcher, &["DELETE FROM c", "INSERT INTO p VALUES (2, 20) ON CONFLICT DO NOTHING"]).await;
        }
        all_is_free(&watcher).await;
    });
}

#[test]
fn of_many_one_has_a_value_and_nobody_is_without_a_parent() {
    let (_dir, db, watcher) = database();
    block_on(async {
        for round in 0..20 {
            let mut tasks = Vec::new();
            for session in 0..6 {
                let (of_task, id) = (db.session(), 100 + round * 10 + session);
                tasks.push(tokio::spawn(async move {
                    let text = match session {
                        0..=2 => format!("INSERT INTO p VALUES ({id}, {})", 1_000 + round),
                        3 => "DELETE FROM p WHERE id = 2".to_owned(),
                        _ => format!("INSERT INTO c VALUES ({id}, 2)"),
                    };
                    run(&of_task, &text).await.map(|_| session).map_err(|error| error.kind().sqlstate())
                }));
            }
            let mut came = 0;
            for task in tasks {
                match task.await.unwrap() {
                    Ok(0..=2) => came += 1,
                    Ok(_) => {}
                    Err(state) => assert!(["23505", "23503"].contains(&state), "{state}"),
                }
            }
            assert_eq!(came, 1, "round {round}");
            let orphans = "SELECT count(*) FROM c WHERE NOT EXISTS (SELECT 1 FROM p WHERE p.id = c.p)";
            assert_eq!(rows(&watcher, orphans).await, ["0"]);
            all(&watcher, &["DELETE FROM c", "INSERT INTO p VALUES (2, 20) ON CONFLICT DO NOTHING"]).await;
        }
        all_is_free(&watcher).await;
    });
}

/// What is left of children `k`, of which the rows are known by nothing but themselves, and of those that refer to nothing.
async fn children(watcher: &Session) -> (Vec<String>, Vec<String>) {
    let orphans = "SELECT count(*) FROM k WHERE NOT EXISTS (SELECT 1 FROM p WHERE p.id = k.p)";
    (rows(watcher, "SELECT p, note FROM k ORDER BY p, note").await, rows(watcher, orphans).await)
}

#[test]
fn children_without_keys_that_others_write_meanwhile_refuse_the_commit() {
    let (_dir, db, watcher) = database();
    block_on(async {
        for action in ["CASCADE", "SET NULL"] {
            let table = format!("CREATE TABLE k (p INT REFERENCES p ON DELETE {action}, note TEXT)");
            all(&watcher, &[&table, "INSERT INTO k VALUES (1, 'old'), (2, 'other')"]).await;
            let (first, second) = (db.session(), db.session());
            all(&first, &["BEGIN", "DELETE FROM p WHERE id = 1"]).await;
            assert_eq!(tag(&second, "UPDATE k SET note = 'new' WHERE p = 1").await, "UPDATE 1");
            assert_eq!(refused(&first, "COMMIT").await.sqlstate(), "40001", "{action}");
            assert_eq!(
                children(&watcher).await,
                (vec!["1|new".to_owned(), "2|other".to_owned()], vec!["0".to_owned()])
            );
            assert_eq!(tag(&second, "DELETE FROM p WHERE id = 1").await, "DELETE 1");
            let left = rows(&watcher, "SELECT count(*), count(p) FROM k").await;
            assert_eq!(left, [if action == "CASCADE" { "1|1" } else { "2|1" }]);
            all(&watcher, &["DROP TABLE k", "INSERT INTO p VALUES (1, 10)"]).await;
        }
        all_is_free(&watcher).await;
    });
}

#[test]
fn a_child_that_got_another_parent_meanwhile_is_left_to_that_one() {
    let (_dir, db, watcher) = database();
    let cases = [
        ("ON DELETE CASCADE", "DELETE FROM p WHERE id = 1"),
        ("ON DELETE SET NULL", "DELETE FROM p WHERE id = 1"),
        ("ON UPDATE CASCADE", "UPDATE p SET id = 7 WHERE id = 1"),
    ];
    block_on(async {
        for (action, statement) in cases {
            for (other, left) in
                [("UPDATE a SET p = 2 WHERE id = 5", vec!["5|2"]), ("DELETE FROM a WHERE id = 5", vec![])]
            {
                let table = format!("CREATE TABLE a (id INT PRIMARY KEY, p INT REFERENCES p {action})");
                all(&watcher, &[&table, "INSERT INTO a VALUES (5, 1)"]).await;
                let (first, second) = (Arc::new(db.session()), db.session());
                all(&second, &["BEGIN", other]).await;
                let task = waiting(&watcher, &first, statement).await;
                tag(&second, "COMMIT").await;
                assert!(["DELETE 1", "UPDATE 1"].contains(&outcome(task).await.as_str()), "{action}, {other}");
                assert_eq!(rows(&watcher, "SELECT id, p FROM a").await, left, "{action}, {other}");
                all(&watcher, &["DROP TABLE a", "DELETE FROM p WHERE id = 7"]).await;
                all(&watcher, &["INSERT INTO p VALUES (1, 10) ON CONFLICT DO NOTHING"]).await;
            }
        }
        all_is_free(&watcher).await;
    });
}

#[test]
fn who_takes_a_child_away_is_waited_for() {
    let (_dir, db, watcher) = database();
    block_on(async {
        for (end, wanted) in [("ROLLBACK", "23503"), ("COMMIT", "DELETE 1")] {
            let (first, second) = (db.session(), Arc::new(db.session()));
            tag(&watcher, "INSERT INTO c VALUES (1, 1) ON CONFLICT DO NOTHING").await;
            all(&first, &["BEGIN", "DELETE FROM c WHERE id = 1"]).await;
            let task = waiting(&watcher, &second, "DELETE FROM p WHERE id = 1").await;
            tag(&first, end).await;
            assert_eq!(outcome(task).await, wanted, "{end}");
        }
        all_is_free(&watcher).await;
    });
}

#[test]
fn a_statement_that_is_run_again_goes_by_the_constraints_of_then() {
    let (_dir, db, watcher) = database();
    let cases = [
        ("ALTER TABLE e ADD FOREIGN KEY (f) REFERENCES f", "DELETE FROM f WHERE id = 1", "23503"),
        ("CREATE UNIQUE INDEX f_n ON f (n)", "UPDATE f SET n = 20 WHERE id = 1", "23505"),
    ];
    block_on(async {
        for (definition, statement, wanted) in cases {
            all(
                &watcher,
                &["CREATE TABLE f (id INT PRIMARY KEY, n INT)", "CREATE TABLE e (id INT PRIMARY KEY, f INT)"],
            )
            .await;
            all(&watcher, &["INSERT INTO f VALUES (1, 10), (2, 20)", "INSERT INTO e VALUES (1, 1)"]).await;
            let (first, second) = (db.session(), Arc::new(db.session()));
            all(&first, &["BEGIN", "UPDATE f SET n = 30 WHERE id = 1"]).await;
            let task = waiting(&watcher, &second, statement).await;
            tag(&watcher, definition).await;
            tag(&first, "ROLLBACK").await;
            assert_eq!(outcome(task).await, wanted, "{statement}");
            assert_eq!(rows(&watcher, "SELECT id, n FROM f ORDER BY id").await, ["1|10", "2|20"]);
            all(&watcher, &["DROP TABLE e", "DROP TABLE f"]).await;
        }
        all_is_free(&watcher).await;
    });
}

#[test]
fn statements_that_are_transactions_of_their_own_leave_no_orphans_behind() {
    let (_dir, db, watcher) = database();
    block_on(async {
        all(&watcher, &["CREATE TABLE k (p INT REFERENCES p ON DELETE CASCADE, note TEXT)"]).await;
        for id in 100..120 {
            all(
                &watcher,
                &[&format!("INSERT INTO p VALUES ({id}, {id})"), &format!("INSERT INTO k VALUES ({id}, 'a')")],
            )
            .await;
        }
        let (deletes, updates) = (db.session(), db.session());
        let writer = tokio::spawn(async move {
            for _ in 0..40 {
                run(&updates, "UPDATE k SET note = note || 'x'")
                    .await
                    .map(|_| ())
                    .or_else(|error| if error.kind() == ErrorKind::Conflict { Ok(()) } else { Err(error) })?;
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            Ok::<(), Error>(())
        });
        for id in 100..120 {
            match run(&deletes, &format!("DELETE FROM p WHERE id = {id}")).await {
                Ok(tag) => assert_eq!(tag, "DELETE 1"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
            }
        }
        writer.await.unwrap().unwrap();
        assert_eq!(children(&watcher).await.1, ["0"]);
        all_is_free(&watcher).await;
    });
}

#[test]
fn two_that_pass_over_the_same_rows_wait_for_one_another() {
    let (_dir, db, watcher) = database();
    block_on(async {
        for (end, left) in [("COMMIT", ["30|300", "32|400"]), ("ROLLBACK", ["30|400", "31|300"])] {
            let (first, second) = (db.session(), Arc::new(db.session()));
            all(&first, &["BEGIN", "INSERT INTO p VALUES (30, 300)"]).await;
            let passes = "INSERT INTO p VALUES (30, 400), (31, 300), (32, 400) ON CONFLICT DO NOTHING";
            let task = waiting(&watcher, &second, passes).await;
            tag(&first, end).await;
            assert_eq!(outcome(task).await, if end == "COMMIT" { "INSERT 0 1" } else { "INSERT 0 2" });
            assert_eq!(rows(&watcher, "SELECT id, u FROM p WHERE id >= 30 ORDER BY id").await, left, "{end}");
            tag(&watcher, "DELETE FROM p WHERE id >= 30").await;
        }
        all_is_free(&watcher).await;
    });
}
