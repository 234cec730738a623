//! Advisory locks between sessions: held by a session or its transaction, waited for, freed at their end.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::support::real::block_on;
use crate::support::shown_rows as rows;
use alluvia_node::{Database, DatabaseOptions};
use alluvia_query::Session;
use alluvia_types::{ErrorKind, Result};
use std::sync::Arc;
use std::time::Duration;

async fn run(session: &Session, sql: &str) -> Result<()> {
    session.sql(sql).await?.collect().await.map(|_| ())
}

async fn is_free(session: &Session, key: &str) -> bool {
    let taken = rows(session, &format!("SELECT pg_try_advisory_lock({key})")).await == ["true"];
    if taken {
        assert_eq!(rows(session, &format!("SELECT pg_advisory_unlock({key})")).await, ["true"]);
    }
    taken
}

fn database() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let options = DatabaseOptions { memory_limit_bytes: 256 << 20, threads: 2, ..DatabaseOptions::default() };
    let db = Database::open_with(dir.path().join("db"), options).unwrap();
    (dir, db)
}

#[test]
fn locks_are_a_sessions_or_its_transactions() {
    let (_dir, db) = database();
    block_on(async {
        let (one, other) = (db.session(), db.session());
        // Flyway's.
        run(&one, "BEGIN").await.unwrap();
        assert_eq!(rows(&one, "SELECT pg_try_advisory_xact_lock(77433833903597)").await, ["true"]);
        assert!(!is_free(&other, "77433833903597").await && is_free(&other, "1, 2").await);
        assert_eq!(
            rows(
                &other,
                "SELECT locktype, classid, objid, objsubid, mode, granted FROM pg_locks WHERE pid <> pg_backend_pid()"
            )
            .await,
            ["advisory|18028|4163491309|1|ExclusiveLock|true"]
        );
        run(&one, "COMMIT").await.unwrap();
        assert!(is_free(&other, "77433833903597").await);
        // Outside of a transaction it is the statement's.
        assert_eq!(rows(&one, "SELECT pg_try_advisory_xact_lock(1)").await, ["true"]);
        assert!(is_free(&other, "1").await);
        // A session gives back as often as it has taken.
        run(&one, "SELECT pg_advisory_lock(7), pg_advisory_lock(7)").await.unwrap();
        assert_eq!(rows(&one, "SELECT pg_advisory_unlock(7)").await, ["true"]);
        assert!(!is_free(&other, "7").await);
        assert_eq!(rows(&one, "SELECT pg_advisory_unlock(7)").await, ["true"]);
        assert_eq!(rows(&one, "SELECT pg_advisory_unlock(7)").await, ["false"]);
        assert!(is_free(&other, "7").await);
        // Shared ones go together.
        run(&one, "SELECT pg_advisory_lock_shared(-5)").await.unwrap();
        assert_eq!(rows(&other, "SELECT pg_try_advisory_lock_shared(-5)").await, ["true"]);
        assert!(!is_free(&one, "-5").await);
        assert_eq!(rows(&other, "SELECT pg_advisory_unlock_shared(-5)").await, ["true"]);
        run(&one, "SELECT pg_advisory_lock(a, 1) FROM (VALUES (1), (2), (NULL)) AS v(a)").await.unwrap();
        assert!(!is_free(&other, "2, 1").await);
        run(&one, "SELECT pg_advisory_unlock_all()").await.unwrap();
        assert!(is_free(&other, "2, 1").await && is_free(&other, "-5").await);
        // A savepoint gives back what came after it, and an error all.
        run(&one, "BEGIN").await.unwrap();
        run(&one, "SELECT pg_advisory_xact_lock(1)").await.unwrap();
        run(&one, "SAVEPOINT s").await.unwrap();
        run(&one, "SELECT pg_advisory_xact_lock(2)").await.unwrap();
        run(&one, "ROLLBACK TO s").await.unwrap();
        assert!(!is_free(&other, "1").await && is_free(&other, "2").await);
        run(&one, "ROLLBACK").await.unwrap();
        assert!(is_free(&other, "1").await);
        run(&one, "SELECT pg_advisory_lock(9)").await.unwrap();
        drop(one);
        assert!(is_free(&other, "9").await);
        assert!(rows(&other, "SELECT pid FROM pg_locks").await.is_empty());
    });
}

#[test]
fn who_waits_goes_on_gives_up_or_is_refused() {
    let (_dir, db) = database();
    block_on(async {
        let (one, other) = (db.session(), Arc::new(db.session()));
        run(&one, "SELECT pg_advisory_lock(1)").await.unwrap();
        let waits = |sql: &'static str| {
            let session = Arc::clone(&other);
            tokio::spawn(async move { run(&session, sql).await })
        };
        let until_waiting = async || {
            while rows(&one, "SELECT pid FROM pg_locks WHERE NOT granted").await.is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let waiting = waits("SELECT pg_advisory_lock(1)");
        until_waiting().await;
        run(&one, "SELECT pg_advisory_unlock(1)").await.unwrap();
        waiting.await.unwrap().unwrap();
        // Now the other one has it.
        run(&one, "SET statement_timeout = '50ms'").await.unwrap();
        let error = run(&one, "SELECT pg_advisory_lock(1)").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        run(&one, "RESET statement_timeout").await.unwrap();
        // Who gave up goes from among those who wait a moment after it was told.
        while !rows(&one, "SELECT pid FROM pg_locks WHERE NOT granted").await.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // Each has what the other wants.
        run(&one, "SELECT pg_advisory_lock(2)").await.unwrap();
        let waiting = waits("SELECT pg_advisory_lock(2)");
        until_waiting().await;
        let error = run(&one, "SELECT pg_advisory_lock(1)").await.unwrap_err();
        assert_eq!((error.kind(), error.kind().sqlstate()), (ErrorKind::Deadlock, "40P01"), "{error}");
        other.cancel_handle().cancel();
        assert_eq!(waiting.await.unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
        // So does who was cancelled.
        while rows(&one, "SELECT count(*) FROM pg_locks").await != ["2"] {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}
