//! Workers that are lost for good: what they had is copied to others while everything goes on, with the identities that rows have, and one
//! that comes back is given some again.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use super::sessions::{row, run, shown};
use alluvia_cluster::Limits;
use alluvia_node::DatabaseOptions;
use alluvia_node::cluster::Within;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const LIMITS: Limits = Limits { suspect_after: Duration::from_millis(400), dead_after: Duration::from_millis(800) };

/// Has the keeper look until all shards have two replicas, on workers that are there, and all of these have followed.
fn replicated(within: &Within, workers: usize) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        assert!(Instant::now() < deadline, "replicas are not made anew");
        within.manage(LIMITS).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let gateway = within.gateway(0).gateway();
        let newest = gateway.now().unwrap();
        let image = gateway.caught_up(newest).unwrap();
        let mut shards = image.placed.values().flat_map(|placed| &placed.shards);
        if image.workers().len() == workers
            && shards.all(|shard| shard.replicas.len() == 2)
            && within.wait_followed(newest, Duration::from_millis(50)).is_ok()
        {
            return;
        }
    }
}

const MADE: &str = "CREATE TABLE plain (id BIGINT, kind TEXT, price DECIMAL(10, 2))
        WITH (dimensions = 'kind', measures = 'price', placement = 'rows', shards = 3, replicas = 2);
    CREATE TABLE keyed (id BIGINT PRIMARY KEY, n BIGINT) WITH (placement = 'hash(id)', shards = 3, replicas = 2);
    INSERT INTO plain SELECT i, CASE i % 3 WHEN 0 THEN 'a' WHEN 1 THEN 'b' ELSE 'c' END, i / 100.0
        FROM generate_series(1, 5000) AS g(i);
    INSERT INTO keyed SELECT i, 0 FROM generate_series(0, 999) AS g(i);
    UPDATE keyed SET n = n + 1 WHERE id % 2 = 0; DELETE FROM keyed WHERE id % 10 = 5; DELETE FROM plain WHERE id % 10 = 3";

const ASKED: [&str; 3] = [
    "SELECT count(*), sum(id), sum(price), min(price), max(price), count(DISTINCT kind) FROM plain",
    "SELECT count(*), sum(price) FROM plain WHERE kind = 'b'",
    "SELECT count(*), sum(id), sum(n) FROM keyed",
];

async fn answers(within: &Within) -> Vec<Vec<String>> {
    let session = within.gateway(1).session();
    let mut found = Vec::new();
    for sql in ASKED {
        found.push(row(&session, sql).await);
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn what_a_lost_worker_had_is_copied_and_changes_no_answer() {
    let scratch = tempfile::tempdir().unwrap();
    let within = Within::open(scratch.path().join("cluster"), DatabaseOptions::default(), 3, 2).unwrap();
    let within = Arc::new(within);
    let session = within.gateway(0).session();
    for statement in MADE.split(';') {
        run(&session, statement).await;
    }
    let mut expected = answers(&within).await;
    // All three are lost in turn, one after the other comes back with what it had: each shard lies elsewhere in the end.
    for (round, stage) in ["flush", "merge", "flush"].iter().enumerate() {
        run(&session, &format!("CALL alluvia.{stage}()")).await;
        let (writing, stop) = (Arc::clone(&within), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let writer = tokio::spawn(async move {
            let session = writing.gateway(1).session();
            let mut written = 0;
            while !stopped.load(Ordering::Relaxed) {
                // All replicas are to have it, as long as there are two.
                let key = 10_000 * (round + 1) + written;
                match shown(&session, &format!("INSERT INTO keyed VALUES ({key}, 7)")).await {
                    Ok(_) => written += 1,
                    Err(error) => assert_eq!(error.kind(), alluvia_types::ErrorKind::Busy, "{error}"),
                }
            }
            written
        });
        within.stop_worker(round);
        let waiting = Arc::clone(&within);
        tokio::task::spawn_blocking(move || replicated(&waiting, 2)).await.unwrap();
        stop.store(true, Ordering::Relaxed);
        let written = writer.await.unwrap();
        assert!(written > 0, "writes go on");
        let keys = row(&session, &format!("SELECT count(*) FROM keyed WHERE id >= {}", 10_000 * (round + 1))).await;
        assert_eq!(keys, [written.to_string()], "what was acknowledged is there once");
        run(&session, &format!("DELETE FROM keyed WHERE id >= {}", 10_000 * (round + 1))).await;
        assert_eq!(answers(&within).await, expected, "round {round}");
        // Rows are changed by the identities and the keys that they have.
        run(&session, &format!("DELETE FROM plain WHERE id % 100 = {}", 10 + round)).await;
        run(&session, &format!("UPDATE keyed SET n = n + 100 WHERE id % 100 = {round}")).await;
        expected = answers(&within).await;
        within.start_worker(round).unwrap();
        let waiting = Arc::clone(&within);
        tokio::task::spawn_blocking(move || replicated(&waiting, 3)).await.unwrap();
        assert_eq!(answers(&within).await, expected, "round {round}, it is back");
    }
    let plain: u64 = expected[0][0].parse().unwrap();
    assert_eq!(plain, 5000 - 500 - 3 * 50);
}
