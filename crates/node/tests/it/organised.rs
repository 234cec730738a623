//! `CALL alluvia.merge()` ends, also where rows were staged and nothing else ever sorts or merges.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use alluvia_node::{Database, DatabaseOptions};
use alluvia_pipeline::PipelineOptions;
use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use std::time::Duration;

/// Loads, each of which is merged at once. A merge that looked before the sort had come found nothing in some of them.
const LOADS: i64 = 12;

#[test]
fn what_was_staged_is_merged_by_whom_it_is_asked_of() {
    let scratch = tempfile::tempdir().unwrap();
    let never = Duration::from_secs(86_400);
    let pipeline = PipelineOptions { sort_interval: never, merge_interval: never, ..PipelineOptions::default() };
    // Little memory, so that few rows are staged.
    let options = DatabaseOptions { pipeline, memory_limit_bytes: 128 << 20, threads: 2, ..DatabaseOptions::default() };
    let db = Database::open_with(scratch.path().join("db"), options).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(8 << 20).build().unwrap();
    runtime.block_on(async {
        let session = db.session();
        let run = async |sql: &str| session.sql(sql).await.unwrap().collect().await.unwrap();
        run("CREATE TABLE t (k BIGINT, a DOUBLE, b DOUBLE) WITH (dimensions = 'k(k: hash)')").await;
        for load in 1..=LOADS {
            run("INSERT INTO t SELECT i, i, i FROM generate_series(1, 600000) s(i)").await;
            let merged = tokio::time::timeout(Duration::from_secs(120), run("CALL alluvia.merge()")).await;
            assert!(merged.is_ok(), "load {load} is not merged after two minutes");
            run("SET freshness = 'merged'").await;
            let rows = run("SELECT count(*) FROM t").await;
            assert_eq!(rows[0].column(0).as_primitive::<Int64Type>().value(0), load * 600_000);
        }
    });
}
