//! Keys on several machines: whoever writes at the same time, through whichever gateway, each key is there once, and no change is lost.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use super::sessions::{row, run, shown};
use alluvia_node::DatabaseOptions;
use alluvia_node::cluster::Within;
use alluvia_query::Session;
use alluvia_types::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

const WRITERS: usize = 6;
const ROUNDS: usize = 15;

fn cluster() -> (tempfile::TempDir, Arc<Within>) {
    let scratch = tempfile::tempdir().unwrap();
    let within = Within::open(scratch.path().join("cluster"), DatabaseOptions::default(), 3, 2).unwrap();
    (scratch, Arc::new(within))
}

/// Runs a statement until it is not refused for what others have written meanwhile. Its error, if it has another one.
async fn settled(session: &Session, sql: &str) -> Result<(), ErrorKind> {
    loop {
        match shown(session, sql).await {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            Err(error) => return Err(error.kind()),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn of_those_who_take_a_key_at_once_one_has_it() {
    let (_scratch, within) = cluster();
    let session = within.gateway(0).session();
    let placed = |key: &str| format!("WITH (placement = 'hash({key})', shards = 4, replicas = 2)");
    run(&session, &format!("CREATE TABLE seats (seat BIGINT PRIMARY KEY, who BIGINT) {}", placed("seat"))).await;
    run(&session, &format!("CREATE TABLE sums (id BIGINT PRIMARY KEY, n BIGINT) {}", placed("id"))).await;
    run(&session, "INSERT INTO sums SELECT i, 0 FROM generate_series(0, 4) AS g(i)").await;
    let newest = within.gateway(0).gateway().now().unwrap();
    within.wait_followed(newest, Duration::from_secs(20)).unwrap();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let within = Arc::clone(&within);
            tokio::spawn(async move {
                let session = within.gateway(writer % 2).session();
                let mut taken = 0;
                for round in 0..ROUNDS {
                    match settled(&session, &format!("INSERT INTO seats VALUES ({round}, {writer})")).await {
                        Ok(()) => taken += 1,
                        Err(kind) => assert_eq!(kind, ErrorKind::UniqueViolation),
                    }
                    let add = format!("UPDATE sums SET n = n + 1 WHERE id = {}", round % 5);
                    settled(&session, &add).await.expect("it is changed");
                    let count = "INSERT INTO sums VALUES (100, 1) ON CONFLICT (id) DO UPDATE SET n = sums.n + 1";
                    settled(&session, count).await.expect("it is changed");
                }
                taken
            })
        })
        .collect();
    let mut taken = 0;
    for writer in writers {
        taken += writer.await.unwrap();
    }
    assert_eq!(taken, ROUNDS, "each seat is one's");
    let other = within.gateway(1).session();
    let all = (ROUNDS * WRITERS).to_string();
    assert_eq!(row(&other, "SELECT count(*), count(DISTINCT seat) FROM seats").await, ["15", "15"]);
    assert_eq!(row(&other, "SELECT sum(n) FROM sums WHERE id < 100").await, [all.as_str()]);
    assert_eq!(row(&other, "SELECT n FROM sums WHERE id = 100").await, [all.as_str()]);
    // What replicas have found for themselves is the same, whichever are there to be asked.
    run(&session, "CALL alluvia.merge()").await;
    for worker in 0..3 {
        // What gateways have gathered before is not of now.
        run(&session, "UPDATE sums SET n = n").await;
        run(&session, "UPDATE seats SET who = who").await;
        let newest = within.gateway(0).gateway().now().unwrap();
        within.wait_followed(newest, Duration::from_secs(20)).unwrap();
        within.stop_worker(worker);
        let read = row(&session, "SELECT sum(n), count(*), (SELECT sum(who * seat) FROM seats) FROM sums").await;
        let expected = row(&other, "SELECT sum(n), count(*), (SELECT sum(who * seat) FROM seats) FROM sums").await;
        assert_eq!(read, expected);
        assert_eq!(read[..2], [(2 * ROUNDS * WRITERS).to_string(), "6".to_owned()]);
        within.start_worker(worker).unwrap();
        let newest = within.gateway(0).gateway().now().unwrap();
        within.wait_followed(newest, Duration::from_secs(20)).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_changed_and_deleted_with_keys_and_without() {
    let (_scratch, within) = cluster();
    let (one, other) = (within.gateway(0).session(), within.gateway(1).session());
    run(&one, "CREATE TABLE people (id BIGINT PRIMARY KEY, name TEXT) WITH (placement = 'hash(id)', shards = 5, replicas = 2)").await;
    run(&one, "CREATE TABLE visits (id BIGINT, page TEXT) WITH (placement = 'rows', shards = 5, replicas = 2)").await;
    run(&one, "INSERT INTO people SELECT i, 'p' || i FROM generate_series(1, 100) AS g(i)").await;
    run(&one, "INSERT INTO visits SELECT i % 100 + 1, 'page ' || i % 7 FROM generate_series(1, 1000) AS g(i)").await;
    for stage in ["", "CALL alluvia.flush()", "CALL alluvia.merge()"] {
        if !stage.is_empty() {
            run(&other, stage).await;
        }
        let before = row(&other, "SELECT (SELECT count(*) FROM people), (SELECT count(*) FROM visits)").await;
        let [people, visits] = [0, 1].map(|at: usize| before[at].parse::<u64>().unwrap());
        // A person is forgotten.
        let who = row(&other, "SELECT min(id) FROM people").await.remove(0);
        run(&other, &format!("DELETE FROM people WHERE id = {who}")).await;
        run(&other, &format!("DELETE FROM visits WHERE id = {who}")).await;
        let after = row(&one, "SELECT (SELECT count(*) FROM people), (SELECT count(*) FROM visits)").await;
        assert_eq!(after, [(people - 1).to_string(), (visits - 10).to_string()], "after {stage:?}");
        run(&one, "UPDATE visits SET page = 'moved' WHERE page = 'page 3'").await;
        assert_eq!(row(&other, "SELECT count(*) FROM visits WHERE page = 'page 3'").await, ["0"]);
        assert_eq!(row(&other, "SELECT count(*) FROM visits").await, [after[1].as_str()]);
        // Keys move to other shards.
        run(&one, "UPDATE people SET id = id + 1000 WHERE id % 10 = 5 AND id < 1000").await;
        assert_eq!(row(&other, "SELECT count(*), count(DISTINCT id) FROM people").await, [after[0].as_str(); 2]);
        let taken = shown(&one, "INSERT INTO people VALUES (1015, 'x'), (50000, 'y')").await.expect_err("it is there");
        assert_eq!(taken.kind(), ErrorKind::UniqueViolation, "{taken}");
        let none = row(&other, "SELECT count(*) FROM people WHERE id = 50000").await;
        assert_eq!(none, ["0"], "a batch is refused as a whole");
    }
    // In a transaction, over both, and once more by its key.
    run(&one, "BEGIN").await;
    run(&one, "DELETE FROM people WHERE id > 50").await;
    run(&one, "UPDATE visits SET page = 'gone' WHERE id > 50").await;
    // It sees what it has done itself, and nobody else does.
    let left = row(&one, "SELECT count(*) FROM visits WHERE id <= 50").await;
    run(&one, "DELETE FROM visits WHERE id <= 50").await;
    assert_eq!(row(&one, "SELECT count(*) FROM visits WHERE id <= 50").await, ["0"]);
    let gone = row(&one, "SELECT count(*), count(*) FILTER (WHERE page = 'gone') FROM visits").await;
    assert_eq!(gone[0], gone[1], "each row is there once");
    assert_eq!(row(&other, "SELECT count(*) FROM visits WHERE id <= 50").await, left);
    run(&one, "ROLLBACK").await;
    assert_eq!(row(&other, "SELECT count(*) FROM visits WHERE page = 'gone'").await, ["0"]);
    run(&one, "CREATE TABLE made AS SELECT id, name FROM people").await;
    assert_eq!(row(&other, "SELECT count(*) FROM made").await, row(&one, "SELECT count(*) FROM people").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_just_decided_is_known_and_what_comes_again_is_applied_once() {
    let (_scratch, within) = cluster();
    let (one, other) = (within.gateway(0).session(), within.gateway(1).session());
    run(&one, "CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT)").await;
    for n in 0..20 {
        let (first, second) = if n % 2 == 0 { (&one, &other) } else { (&other, &one) };
        run(first, &format!("INSERT INTO t VALUES (1, {n})")).await;
        run(second, "DELETE FROM t WHERE id = 1").await;
    }
    for session in [&one, &other, &one] {
        run(session, "SET producer = 'p'").await;
        run(session, "SET producer_sequence = 1").await;
        run(session, "INSERT INTO t VALUES (7, 7)").await;
    }
    assert_eq!(row(&other, "SELECT count(*), sum(n) FROM t").await, ["1", "7"]);
    let both = "BEGIN; ALTER TABLE t ADD COLUMN m BIGINT; INSERT INTO t (id) VALUES (8); COMMIT";
    let mut refused = None;
    for sql in both.split("; ") {
        refused = shown(&one, sql).await.err().or(refused);
    }
    assert_eq!(refused.expect("both at once are not taken").kind(), ErrorKind::NotSupported);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn numbers_of_a_column_are_given_once_whichever_gateways_take_them() {
    let (_scratch, within) = cluster();
    let session = within.gateway(0).session();
    run(&session, "CREATE TABLE orders (id SERIAL PRIMARY KEY, who BIGINT)").await;
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let within = Arc::clone(&within);
            tokio::spawn(async move {
                let session = within.gateway(writer % 2).session();
                for round in 0..ROUNDS {
                    let rows = vec![format!("({writer})"); 1 + round % 4].join(", ");
                    settled(&session, &format!("INSERT INTO orders (who) VALUES {rows}"))
                        .await
                        .expect("no key comes twice");
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let rows = WRITERS * (0..ROUNDS).map(|round| 1 + round % 4).sum::<usize>();
    let all = row(&session, "SELECT count(*), count(DISTINCT id) FROM orders").await;
    assert_eq!(all, [rows.to_string(), rows.to_string()]);
    // Begun anew at one, it goes on so at the other.
    let other = within.gateway(1).session();
    run(&session, "TRUNCATE orders RESTART IDENTITY").await;
    // Which knows that once it has asked for definitions.
    run(&other, "SHOW TABLES").await;
    run(&other, "INSERT INTO orders (who) VALUES (1)").await;
    assert_eq!(row(&session, "SELECT id FROM orders").await, ["1"]);
}
