//! Rows that many sessions write at the same time go together: each is there once, each session sees its own, and an error is its sender's.

use super::sessions::{row, run, shown};
use alluvia_node::DatabaseOptions;
use alluvia_node::cluster::Within;
use alluvia_types::ErrorKind;
use std::sync::Arc;

const WRITERS: usize = 12;
const EACH: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn rows_that_go_together_are_there_once_each() {
    let scratch = tempfile::tempdir().unwrap();
    let within = Within::open(scratch.path().join("cluster"), DatabaseOptions::default(), 2, 2).unwrap();
    let within = Arc::new(within);
    let session = within.gateway(0).session();
    run(&session, "CREATE TABLE visits (who BIGINT NOT NULL, n BIGINT) WITH (placement = 'rows', shards = 3)").await;
    run(&session, "CREATE TABLE others (who BIGINT, n BIGINT) WITH (placement = 'hash(who)', shards = 3)").await;
    let writers: Vec<_> = (0..WRITERS)
        .map(|who| {
            let within = Arc::clone(&within);
            tokio::spawn(async move {
                let session = within.gateway(who % 2).session();
                for n in 0..EACH {
                    let table = if n % 4 == 3 { "others" } else { "visits" };
                    run(&session, &format!("INSERT INTO {table} VALUES ({who}, {n})")).await;
                    let own =
                        row(&session, &format!("SELECT count(*) FROM {table} WHERE who = {who} AND n = {n}")).await;
                    assert_eq!(own, ["1"], "who has written sees it");
                    let refused = shown(&session, &format!("INSERT INTO visits VALUES (NULL, {n})")).await;
                    assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotNull);
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let count = |rows: usize| [rows.to_string(), rows.to_string()];
    let counted = "SELECT count(*), count(DISTINCT who * 1000 + n) FROM";
    assert_eq!(row(&session, &format!("{counted} visits")).await, count(WRITERS * EACH / 4 * 3));
    assert_eq!(row(&session, &format!("{counted} others")).await, count(WRITERS * EACH / 4));
    // No two rows of a batch have one identity: samples of all are all.
    assert_eq!(
        row(&session, "SELECT count(*) FROM visits TABLESAMPLE BERNOULLI (100)").await,
        [(WRITERS * EACH / 4 * 3).to_string()]
    );
}
