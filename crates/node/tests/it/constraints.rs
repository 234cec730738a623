//! Unique values and foreign keys between sessions: of several that want one value one has it, and nobody refers to what is gone.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::row_locks::{all, all_is_free, outcome, waiting};
use crate::support::real::{block_on, open, run, tag};
use crate::support::shown_rows as rows;
use alluvia_node::Database;
use alluvia_query::Session;
use std::sync::Arc;

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
