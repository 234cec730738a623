//! Procedures of several sessions at once: each CALL is one transaction, whatever others do meanwhile, and however it ends.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::row_locks::{all, all_is_free};
use crate::support::real::{block_on, open, run};
use crate::support::shown_rows as rows;
use alluvia_query::{ScalarValue, Session, TransactionStatus};
use alluvia_types::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

const ACCOUNTS: i32 = 8;

const TRANSFER: &str =
    "CREATE PROCEDURE transfer(source INT, target INT, amount BIGINT, OUT has_left BIGINT) LANGUAGE plpgsql AS $$
DECLARE had BIGINT;
BEGIN
  INSERT INTO ledger (source, target, amount) VALUES (source, target, amount);
  SELECT cents INTO STRICT had FROM account WHERE id = source FOR UPDATE;
  IF had < amount THEN
    RAISE EXCEPTION 'account % has %', source, had USING ERRCODE = '22003';
  END IF;
  UPDATE account SET cents = cents - amount WHERE id = source RETURNING cents INTO has_left;
  UPDATE account SET cents = cents + amount WHERE id = target;
END $$";

async fn bank(session: &Session) {
    all(
        session,
        &[
            "CREATE TABLE account (id INT PRIMARY KEY, cents BIGINT NOT NULL)",
            "CREATE TABLE ledger (source INT, target INT, amount BIGINT)",
            TRANSFER,
        ],
    )
    .await;
    for id in 1..=ACCOUNTS {
        run(session, &format!("INSERT INTO account VALUES ({id}, 1000)")).await.unwrap();
    }
}

/// Transfers between accounts as a number says; how many were made, and how many met an end that is none of the bank's.
async fn transfers(session: &Session, seed: i32, count: i32) -> (i64, Vec<String>) {
    let (mut made, mut others) = (0, Vec::new());
    let prepared = session.prepare("CALL transfer($1, $2, $3, NULL)").unwrap();
    let mut state = u32::try_from(seed).unwrap();
    for _ in 0..count {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let at = |shift: u32, below: u32| i32::try_from((state >> shift) % below).unwrap();
        let (source, step) = (at(8, 8), at(16, 7) + 1);
        let target = (source + step) % ACCOUNTS;
        let values = [
            ScalarValue::Int32(Some(source + 1)),
            ScalarValue::Int32(Some(target + 1)),
            ScalarValue::Int64(Some(i64::from(at(20, 400)))),
        ];
        let done = match session.execute_prepared(&prepared, &values).await {
            Ok(outcome) => outcome.collect().await.map(|_| ()),
            Err(error) => Err(error),
        };
        match done {
            Ok(()) => made += 1,
            Err(error) if error.sqlstate() == "22003" || error.kind() == ErrorKind::Deadlock => {}
            Err(error) => others.push(format!("{error:?}")),
        }
        assert_eq!(session.transaction_status(), TransactionStatus::Idle);
    }
    (made, others)
}

#[test]
fn transfers_of_several_sessions_keep_the_sum() {
    let dir = tempfile::tempdir().unwrap();
    let db = Arc::new(open(&dir.path().join("db")));
    let watcher = db.session();
    block_on(async {
        bank(&watcher).await;
        let tasks: Vec<_> = (1..=4)
            .map(|seed| {
                let session = db.session();
                tokio::spawn(async move { transfers(&session, seed, 60).await })
            })
            .collect();
        let mut made = 0;
        for task in tasks {
            let (own, others) = task.await.unwrap();
            assert_eq!(others, Vec::<String>::new());
            made += own;
        }
        assert!(made > 60, "{made}");
        assert_eq!(rows(&watcher, "SELECT sum(cents), min(cents) >= 0 FROM account").await, ["8000|true"]);
        // What failed has left nothing of what it had done before.
        assert_eq!(rows(&watcher, "SELECT count(*) FROM ledger").await, [made.to_string()]);
        all_is_free(&watcher).await;
    });
}

#[test]
fn a_call_that_is_stopped_leaves_no_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir.path().join("db"));
    let watcher = db.session();
    block_on(async {
        bank(&watcher).await;
        let forever = "DO $$ DECLARE n INT := 0; BEGIN UPDATE account SET cents = 0 WHERE id = 1; LOOP n := n % 7 + 1; END LOOP; END $$";
        let session = Arc::new(db.session());
        run(&session, "SET statement_timeout = '100ms'").await.unwrap();
        assert_eq!(run(&session, forever).await.unwrap_err().kind().sqlstate(), "57014");
        assert_eq!(session.transaction_status(), TransactionStatus::Idle);
        run(&session, "RESET statement_timeout").await.unwrap();
        let of_task = Arc::clone(&session);
        let task = tokio::spawn(async move { run(&of_task, forever).await });
        while rows(&watcher, "SELECT count(*) FROM pg_locks").await == ["0"] {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        session.cancel_handle().cancel();
        assert_eq!(task.await.unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
        assert_eq!(session.transaction_status(), TransactionStatus::Idle);
        // A client that goes takes it with it.
        {
            let gone = db.session();
            let _ = tokio::time::timeout(Duration::from_millis(50), run(&gone, forever)).await;
            assert_eq!(gone.transaction_status(), TransactionStatus::Idle);
        }
        assert_eq!(rows(&watcher, "SELECT sum(cents) FROM account").await, ["8000"]);
        all_is_free(&watcher).await;
    });
}

#[test]
fn calls_without_loops_are_stopped_too() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir.path().join("db"));
    let session = Arc::new(db.session());
    block_on(async {
        let made = "CREATE PROCEDURE p(n INT) LANGUAGE plpgsql AS $$ DECLARE m INT := n + 1; BEGIN \
                    IF n < 31 THEN CALL p(m); CALL p(m); END IF; END $$";
        run(&session, made).await.unwrap();
        run(&session, "SET statement_timeout = '100ms'").await.unwrap();
        assert_eq!(run(&session, "CALL p(0)").await.unwrap_err().kind().sqlstate(), "57014");
        run(&session, "RESET statement_timeout").await.unwrap();
        let of_task = Arc::clone(&session);
        let task = tokio::spawn(async move { run(&of_task, "CALL p(0)").await });
        tokio::time::sleep(Duration::from_millis(20)).await;
        session.cancel_handle().cancel();
        assert_eq!(task.await.unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
        assert_eq!(session.transaction_status(), TransactionStatus::Idle);
    });
}

#[test]
fn what_a_call_raises_is_bounded_and_the_client_hears_of_that() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir.path().join("db"));
    let session = db.session();
    block_on(async {
        let block = "DO $$ DECLARE x TEXT := 'a'; BEGIN FOR i IN 1..22 LOOP x := x || x; END LOOP; \
                     FOR i IN 1..100 LOOP RAISE NOTICE '%', x; END LOOP; END $$";
        let outcome = session.sql(block).await.unwrap();
        let told = outcome.notices().to_vec();
        outcome.collect().await.unwrap();
        // 64 MiB of them, and the word that there were more.
        assert_eq!(told.len(), 17);
        assert!(told[16].contains("not told"), "{}", told[16]);
    });
}

#[test]
fn procedures_are_there_after_a_start() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let of_log = {
        let db = open(&path);
        let session = db.session();
        block_on(async {
            bank(&session).await;
            run(&session, "CALL alluvia.merge()").await.unwrap();
            all(
                &session,
                &[
                    "CREATE OR REPLACE PROCEDURE reset() LANGUAGE sql AS $$ UPDATE account SET cents = 1; DELETE FROM ledger $$",
                    "CREATE PROCEDURE gone() LANGUAGE sql AS $$ DELETE FROM ledger $$",
                    "DROP PROCEDURE gone",
                ],
            )
            .await;
            rows(&session, "SELECT proname, pg_get_functiondef(oid) FROM pg_proc WHERE prokind = 'p' ORDER BY 1").await
        })
    };
    assert_eq!(of_log.len(), 2);
    for merges in [true, false] {
        let db = open(&path);
        let session = db.session();
        block_on(async {
            let now =
                rows(&session, "SELECT proname, pg_get_functiondef(oid) FROM pg_proc WHERE prokind = 'p' ORDER BY 1");
            assert_eq!(now.await, of_log);
            run(&session, "CALL reset()").await.unwrap();
            assert_eq!(rows(&session, "SELECT sum(cents) FROM account").await, ["8"]);
            if merges {
                run(&session, "CALL alluvia.merge()").await.unwrap();
            }
        });
    }
}
