//! Definitions that change while other sessions use them: none of what they do is lost, and no row comes that a condition is false of.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::row_locks::all;
use crate::support::real::{block_on, open, run, tag};
use crate::support::shown_rows as rows;
use alluvia_node::{Database, DatabaseOptions};
use alluvia_query::Session;
use alluvia_types::ErrorKind;
use std::time::Duration;

async fn refused(session: &Session, sql: &str) -> ErrorKind {
    run(session, sql).await.expect_err(sql).kind()
}

#[test]
fn no_row_comes_beside_a_condition_that_a_transaction_adds() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir.path().join("db"));
    let (one, other) = (db.session(), db.session());
    block_on(async {
        tag(&one, "CREATE TABLE t (a INT)").await;
        tag(&one, "INSERT INTO t VALUES (1)").await;
        for add in ["ALTER TABLE t ADD CHECK (a > 0)", "ALTER TABLE t ADD CHECK (a > 0), ADD CHECK (a < 9)"] {
            all(&one, &["BEGIN", add]).await;
            tag(&other, "INSERT INTO t VALUES (-1)").await;
            assert_eq!(refused(&one, "COMMIT").await, ErrorKind::Conflict, "{add}");
            tag(&other, "DELETE FROM t WHERE a = -1").await;
        }
        // Without a transaction, and where nobody writes.
        tag(&one, "ALTER TABLE t ADD CHECK (a > 0)").await;
        all(&one, &["BEGIN", "ALTER TABLE t ADD CHECK (a < 9)", "COMMIT"]).await;
        for value in [-1, 9] {
            assert_eq!(refused(&other, &format!("INSERT INTO t VALUES ({value})")).await, ErrorKind::CheckViolation);
        }
        assert_eq!(rows(&one, "SELECT * FROM t").await, ["1"]);
    });
}

#[test]
fn a_key_of_another_type_loses_nothing_that_others_do_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir.path().join("db"));
    let (one, other) = (db.session(), db.session());
    block_on(async {
        tag(&one, "CREATE TABLE t (id INT PRIMARY KEY, a INT)").await;
        tag(&one, "INSERT INTO t VALUES (1, 10)").await;
        for meanwhile in ["ALTER TABLE t ADD COLUMN b INT", "INSERT INTO t VALUES (2, 20)"] {
            all(&one, &["BEGIN", "ALTER TABLE t ALTER id TYPE BIGINT"]).await;
            tag(&other, meanwhile).await;
            assert_eq!(refused(&one, "COMMIT").await, ErrorKind::Conflict, "{meanwhile}");
        }
        tag(&one, "ALTER TABLE t ALTER id TYPE BIGINT").await;
        assert_eq!(rows(&other, "SELECT id, a, b FROM t ORDER BY id").await, ["1|10|NULL", "2|20|NULL"]);
    });
}

#[test]
fn who_may_not_truncate_a_table_does_not_wait_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir.path().join("db"));
    let (one, other) = (db.session(), db.session());
    block_on(async {
        all(
            &one,
            &[
                "CREATE TABLE tree (id INT PRIMARY KEY, up INT REFERENCES tree)",
                "INSERT INTO tree VALUES (1, NULL)",
                "CREATE ROLE bob",
                "BEGIN",
                "INSERT INTO tree VALUES (2, 1)",
            ],
        )
        .await;
        tag(&other, "SET ROLE bob").await;
        let refused = tokio::time::timeout(Duration::from_secs(60), run(&other, "TRUNCATE tree")).await;
        assert_eq!(refused.expect("it waits for nobody").unwrap_err().kind().sqlstate(), "42501");
        all(&one, &["COMMIT", "TRUNCATE tree"]).await;
        assert_eq!(rows(&one, "SELECT count(*) FROM tree").await, ["0"]);
    });
}

#[test]
fn commit_refuses_no_foreign_key_of_another_owner_that_goes_or_follows() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir.path().join("db"));
    let (one, other) = (db.session(), db.session());
    block_on(async {
        all(
            &one,
            &[
                "CREATE ROLE ann",
                "CREATE ROLE bob",
                "CREATE TABLE p (id INT PRIMARY KEY, u INT UNIQUE)",
                "CREATE TABLE c (id INT PRIMARY KEY, p INT REFERENCES p, u INT REFERENCES p (u))",
                "INSERT INTO p VALUES (1, 10)",
                "INSERT INTO c VALUES (1, 1, 10)",
                "ALTER TABLE p OWNER TO ann",
                "ALTER TABLE c OWNER TO bob",
            ],
        )
        .await;
        tag(&other, "SET ROLE ann").await;
        all(&other, &["BEGIN", "ALTER TABLE p ALTER id TYPE BIGINT", "COMMIT"]).await;
        assert_eq!(refused(&one, "INSERT INTO c VALUES (2, 2, 10)").await, ErrorKind::ForeignKeyViolation);
        all(&other, &["BEGIN", "ALTER TABLE p ALTER u TYPE BIGINT", "COMMIT"]).await;
        assert_eq!(refused(&one, "INSERT INTO c VALUES (2, 1, 20)").await, ErrorKind::ForeignKeyViolation);
        all(&other, &["BEGIN", "ALTER TABLE p DROP COLUMN u CASCADE", "COMMIT"]).await;
        tag(&one, "INSERT INTO c VALUES (2, 1, 20)").await;
        all(&other, &["BEGIN", "DROP TABLE p CASCADE", "COMMIT"]).await;
        tag(&one, "INSERT INTO c VALUES (3, 30, 30)").await;
        // What its owner has changed is refused where it is theirs no more.
        all(&one, &["CREATE TABLE q (id INT PRIMARY KEY)", "CREATE TABLE d (q INT REFERENCES q)"]).await;
        all(&one, &["ALTER TABLE d OWNER TO ann"]).await;
        all(&other, &["BEGIN", "ALTER TABLE d DROP CONSTRAINT d_q_fkey"]).await;
        tag(&one, "ALTER TABLE d OWNER TO bob").await;
        assert_eq!(run(&other, "COMMIT").await.unwrap_err().kind().sqlstate(), "42501");
    });
}

#[test]
fn of_two_sessions_one_gives_an_index_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir.path().join("db"));
    let (one, other) = (db.session(), db.session());
    block_on(async {
        all(&one, &["CREATE TABLE t (id INT PRIMARY KEY, a INT)", "CREATE TABLE u (id INT PRIMARY KEY, a INT)"]).await;
        for meanwhile in ["CREATE INDEX i ON u (a)", "CREATE TABLE i (a INT)", "ALTER TABLE u RENAME TO i"] {
            all(&one, &["BEGIN", "CREATE INDEX i ON t (a)"]).await;
            tag(&other, meanwhile).await;
            assert_eq!(refused(&one, "COMMIT").await, ErrorKind::Conflict, "{meanwhile}");
            let back = match meanwhile {
                "CREATE TABLE i (a INT)" => "DROP TABLE i",
                "ALTER TABLE u RENAME TO i" => "ALTER TABLE i RENAME TO u",
                _ => "DROP INDEX i",
            };
            tag(&other, back).await;
        }
        all(&one, &["BEGIN", "CREATE INDEX i ON t (a)", "COMMIT"]).await;
    });
}

#[test]
fn a_key_gets_another_type_in_a_table_that_no_transaction_holds() {
    let dir = tempfile::tempdir().unwrap();
    let options = || DatabaseOptions { memory_limit_bytes: 256 << 20, threads: 2, ..DatabaseOptions::default() };
    let db = Database::open_with(dir.path().join("db"), options()).unwrap();
    let session = db.session();
    block_on(async {
        tag(&session, "CREATE TABLE t (id INT PRIMARY KEY, a BIGINT, b BIGINT, c BIGINT CHECK (c > 0))").await;
        let most = options().tail_bytes_max() / 4 / 32 + 10_000;
        let insert = format!("INSERT INTO t SELECT value, value, value, value FROM generate_series(1, {most})");
        tag(&session, &insert).await;
        all(&session, &["BEGIN", "SAVEPOINT s"]).await;
        assert_eq!(refused(&session, "ALTER TABLE t ALTER id TYPE BIGINT").await, ErrorKind::OutOfMemory);
        all(&session, &["ROLLBACK", "ALTER TABLE t ALTER id TYPE BIGINT USING id + 5000000000"]).await;
        let asked = "SELECT count(*), min(id), pg_typeof(min(id)) FROM t";
        assert_eq!(rows(&session, asked).await, [format!("{most}|5000000001|bigint")]);
        assert_eq!(rows(&session, "SELECT a FROM t WHERE id = 5000000007").await, ["7"]);
    });
}
