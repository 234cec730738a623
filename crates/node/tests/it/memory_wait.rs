//! Statements that do not fit side by side wait for each other's memory, and each is answered.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use alluvia_node::{Database, DatabaseOptions};
use alluvia_types::ErrorKind;
use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use std::sync::Arc;

/// Some 30 MB of groups, which do not spill: an aggregate of arrays keeps what it has.
const HUNGRY: &str = "SELECT count(*), sum(cardinality(a))::bigint FROM ( \
     SELECT x % 20000 AS g, array_agg(x) AS a FROM generate_series(1, 400000) s(x) GROUP BY 1)";

const STATEMENTS: usize = 12;

fn database() -> (tempfile::TempDir, Arc<Database>) {
    let scratch = tempfile::tempdir().unwrap();
    let options = DatabaseOptions { memory_limit_bytes: 128 << 20, threads: 2, ..DatabaseOptions::default() };
    let db = Database::open_with(scratch.path().join("db"), options).unwrap();
    (scratch, Arc::new(db))
}

/// Groups of many keys, which spill where they are refused memory.
const MANY_KEYS: &str = "SELECT count(*), sum(c)::bigint FROM ( \
     SELECT x % 150000 AS g, count(*) AS c, sum(x) AS s, min(md5(x::text)) AS m FROM generate_series(1, 400000) s(x) GROUP BY 1)";

#[test]
fn many_statements_of_many_groups_are_all_answered() {
    let (_scratch, db) = database();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(8 << 20).build().unwrap();
    assert_eq!(runtime.block_on(all(&db, "5min", MANY_KEYS, 150_000)), 0);
}

#[test]
fn hungry_statements_are_answered_one_after_the_other() {
    let (_scratch, db) = database();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(8 << 20).build().unwrap();
    let refused = runtime.block_on(all(&db, "0", HUNGRY, 20_000));
    assert!(refused > 0, "side by side they do not fit, or this shows nothing");
    assert_eq!(runtime.block_on(all(&db, "5min", HUNGRY, 20_000)), 0);
}

/// Runs them side by side, and counts those that are refused.
async fn all(db: &Arc<Database>, memory_wait_timeout: &str, sql: &'static str, groups: i64) -> usize {
    let run = |_| {
        let (db, setting) = (Arc::clone(db), format!("SET memory_wait_timeout = '{memory_wait_timeout}'"));
        tokio::spawn(async move {
            let session = db.session();
            session.sql(&setting).await.unwrap().collect().await.unwrap();
            match async { session.sql(sql).await?.collect().await }.await {
                Ok(rows) => {
                    let figure = |column: usize| rows[0].column(column).as_primitive::<Int64Type>().value(0);
                    assert_eq!((figure(0), figure(1)), (groups, 400_000));
                    0
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
                    1
                }
            }
        })
    };
    let mut refused = 0;
    for statement in (0..STATEMENTS).map(run).collect::<Vec<_>>() {
        refused += statement.await.unwrap();
    }
    refused
}
