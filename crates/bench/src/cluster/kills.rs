//! B8: `kill -9` of a random node under load, again and again. Nothing that was acknowledged may be lost, nothing may be there twice.
//!
//! Writers write rows of numbers that nobody else writes, several in a batch. What is not acknowledged is not sent again: it may be there or
//! not, but whole.

use super::processes::{Cluster, Role, Serves, Shape, session, settled};
use super::sql::{Row, number, rows};
use super::{ClusterArgs, Scratch};
use crate::Anything;
use crate::boxes::data::shuffle;
use crate::retail::Random;
use crate::servers::connect;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio_postgres::Config;

const WRITERS: usize = 8;
/// Rows of a batch; they lie on several shards.
const BATCH: u64 = 3;
/// Load before a kill, and while a node is dead.
const PAUSE: Duration = Duration::from_millis(1500);
/// All have followed again within this.
const BACK: Duration = Duration::from_secs(60);
/// A writer whose gateway does not answer tries again.
const RETRY: Duration = Duration::from_millis(50);

/// Numbers of batches, by what was said of them.
#[derive(Default)]
struct Written {
    acknowledged: Vec<u64>,
    unknown: u64,
}

pub async fn run(args: &ClusterArgs, scratch: &Scratch) -> Anything<Value> {
    let shape = Shape::new(3, 2, args.memory_mb.min(2048));
    let mut cluster = Cluster::start(&scratch.dir("kills")?, &args.folders.data, &shape)?;
    let client = session(&cluster).await?;
    rows(
        &client,
        "CREATE TABLE kept (id BIGINT, part INT) WITH (placement = 'rows', replicas = '2', write_quorum = '1')",
    )
    .await?;
    drop(client);
    let stop = Arc::new(AtomicBool::new(false));
    let gateways = cluster.gateways();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let config = gateways[writer % gateways.len()].clone();
            tokio::spawn(write(config, writer as u64, Arc::clone(&stop)))
        })
        .collect();
    let mut random = Random(args.seed);
    // Each has its turn among three, in random order.
    let mut roles = [Role::Keeper, Role::Worker, Role::Gateway];
    let mut killed: HashMap<&str, u64> = HashMap::new();
    for round in 0..args.rounds {
        tokio::time::sleep(PAUSE).await;
        if round % roles.len() == 0 {
            shuffle(&mut roles, &mut random);
        }
        let role = roles[round % roles.len()];
        let places = cluster.places(role);
        let at = places[random.next() as usize % places.len()];
        cluster.kill(at);
        tokio::time::sleep(PAUSE).await;
        cluster.revive(at)?;
        *killed.entry(role.name()).or_default() += 1;
        eprintln!("kills: round {}: {} was killed and is back", round + 1, cluster.name(at));
    }
    tokio::time::sleep(PAUSE).await;
    stop.store(true, Ordering::Relaxed);
    let mut written = Written::default();
    for writer in writers {
        let of_writer = writer.await??;
        written.acknowledged.extend(of_writer.acknowledged);
        written.unknown += of_writer.unknown;
    }
    let back_s = all_back(&cluster).await?;
    let mut figures = judged(&cluster, &written).await?;
    figures["rounds"] = args.rounds.into();
    figures["killed"] = json!(killed);
    figures["followed_again_s"] = back_s.into();
    Ok(figures)
}

/// Writes until it is told to stop.
async fn write(config: Config, writer: u64, stop: Arc<AtomicBool>) -> Anything<Written> {
    let (mut written, mut next) = (Written::default(), 0u64);
    while !stop.load(Ordering::Relaxed) {
        let Ok((client, connection)) = config.connect(tokio_postgres::NoTls).await else {
            tokio::time::sleep(RETRY).await;
            continue;
        };
        tokio::spawn(connection);
        while !stop.load(Ordering::Relaxed) {
            next += 1;
            let id = writer << 40 | next;
            let values: Vec<String> = (0..BATCH).map(|part| format!("({id}, {part})")).collect();
            match client.simple_query(&format!("INSERT INTO kept VALUES {}", values.join(", "))).await {
                Ok(_) => written.acknowledged.push(id),
                Err(error) => {
                    written.unknown += 1;
                    if error.as_db_error().is_none() {
                        break;
                    }
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }
    Ok(written)
}

/// Seconds until all workers are through the newest version.
async fn all_back(cluster: &Cluster) -> Anything<f64> {
    const BEHIND: &str = "SELECT count(*) FROM alluvia.nodes WHERE roles = 'worker' \
                          AND (answers = 'NO' OR through < (SELECT max(version) FROM alluvia.batches))";
    let client = connect(&cluster.gateways()[0]).await?;
    let begun = Instant::now();
    while number(&client, BEHIND).await? > 0 {
        if begun.elapsed() > BACK {
            return Err("a worker has not followed after the kills".into());
        }
        tokio::time::sleep(RETRY).await;
    }
    Ok(begun.elapsed().as_secs_f64())
}

/// Looks for each batch at each gateway, and whether replicas have the same number of rows.
async fn judged(cluster: &Cluster, written: &Written) -> Anything<Value> {
    settled(cluster).await?;
    let (mut lost, mut doubled, mut torn) = (0u64, 0u64, 0u64);
    let mut batches = 0;
    for config in cluster.gateways() {
        let client = connect(&config).await?;
        let sql = "SELECT id, count(*), count(DISTINCT part) FROM kept GROUP BY id";
        let found: HashMap<u64, [u64; 2]> = rows(&client, sql).await?.iter().map(counted).collect::<Anything<_>>()?;
        let of_gateway = written.acknowledged.iter().filter(|id| !found.contains_key(id)).count() as u64;
        lost = lost.max(of_gateway);
        doubled = doubled.max(found.values().filter(|[rows, parts]| rows > parts).count() as u64);
        torn = torn.max(found.values().filter(|[_, parts]| *parts != BATCH).count() as u64);
        batches = found.len();
    }
    let client = session(cluster).await?;
    let differing = "SELECT count(*) FROM (SELECT shard FROM alluvia.replicas WHERE table_name = 'kept' \
                     GROUP BY shard HAVING count(*) <> 2 OR min(rows) <> max(rows)) AS differing";
    let differing = number(&client, differing).await?;
    eprintln!(
        "kills: {} batches acknowledged, {} not, {batches} there: {lost} lost, {doubled} doubled, {torn} in part; replicas of {differing} shards differ",
        written.acknowledged.len(),
        written.unknown
    );
    Ok(json!({
        "lost": lost, "doubled": doubled, "torn": torn, "shards_whose_replicas_differ": differing,
        "acknowledged_batches": written.acknowledged.len(), "unknown_batches": written.unknown, "batches_there": batches,
    }))
}

fn counted(row: &Row) -> Anything<(u64, [u64; 2])> {
    let mut cells = row.iter().map(|cell| cell.as_deref().unwrap_or_default().parse::<u64>());
    let mut next = || cells.next().ok_or("a row of too few columns");
    Ok((next()??, [next()??, next()??]))
}
