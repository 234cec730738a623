//! Definitions that change while other sessions use them: none of what they do is lost, and no row comes that a condition is false of.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::row_locks::all;
use crate::support::real::{block_on, open, run, tag};
use crate::support::shown_rows as rows;
use alluvia_node::{Database, DatabaseOptions};
use alluvia_query::Session;
use alluvia_types::ErrorKind;

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
