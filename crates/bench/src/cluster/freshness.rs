//! B9: a row goes in at one gateway, and is asked for at another. At freshness 0 whatever was acknowledged before must be there; at 20 ms
//! whatever was acknowledged 20 ms before.
//!
//! A client knows when each of its rows was acknowledged, and nobody else writes under its name; so a count tells which row is the oldest
//! that an answer lacks, and the answer is as stale as that row is old.

use super::processes::{Cluster, Serves, Shape, session};
use super::sql::{rows, told};
use super::{ClusterArgs, Scratch};
use crate::Anything;
use crate::machine::percentile;
use crate::retail::Random;
use crate::servers::connect;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio_postgres::Config;

const CLIENTS: usize = 16;
/// The freshness that is asked for.
const ASKED: Duration = Duration::from_millis(20);
/// A question comes at most so long after its row.
const PAUSE_MAX_MS: u64 = 30;
/// Ages of the newest row by which what is missed is told, in milliseconds.
const AGES_MS: [f64; 7] = [1.0, 2.0, 5.0, 7.0, 10.0, 20.0, f64::INFINITY];

/// One pair: how old the newest acknowledged row was when it was asked for, and how old the oldest one that the answer lacks.
struct Pair {
    age_ms: f64,
    stale_ms: Option<f64>,
    took_ms: f64,
}

pub async fn run(args: &ClusterArgs, scratch: &Scratch) -> Anything<Value> {
    let shape = Shape::new(2, 2, args.memory_mb.min(2048));
    let cluster = Cluster::start(&scratch.dir("freshness")?, &args.folders.data, &shape)?;
    let client = session(&cluster).await?;
    rows(&client, "CREATE TABLE pairs (who TEXT, n BIGINT) WITH (dimensions = 'who', measures = 'n')").await?;
    let gateways = cluster.gateways();
    let newest = pairs(&gateways, "zero", Duration::ZERO, args).await?;
    let missed_at_0 = newest.iter().filter(|pair| pair.stale_ms.is_some()).count();
    let at_zero = told_of(&newest);
    eprintln!("freshness 0: {} pairs, {missed_at_0} missed; {at_zero}", newest.len());
    let older = pairs(&gateways, "twenty", ASKED, args).await?;
    let limit_ms = ASKED.as_secs_f64() * 1e3;
    let too_old = older.iter().filter(|pair| pair.stale_ms.is_some_and(|stale| stale >= limit_ms)).count();
    let at_twenty = told_of(&older);
    let greatest = older.iter().filter_map(|pair| pair.stale_ms).fold(0.0, f64::max);
    eprintln!(
        "freshness 20 ms: {} pairs, {too_old} lack a row acknowledged 20 ms before, the greatest staleness is {greatest:.2} ms; {at_twenty}",
        older.len()
    );
    let by_age = by_age(&older);
    Ok(json!({
        "pairs": newest.len(), "missed_at_0": missed_at_0, "at_0": at_zero,
        "missed_after_20_ms": too_old, "greatest_staleness_ms": greatest, "at_20_ms": at_twenty, "missed_by_age": by_age,
    }))
}

/// How long answers took.
fn told_of(pairs: &[Pair]) -> Value {
    let mut took: Vec<f64> = pairs.iter().map(|pair| pair.took_ms).collect();
    json!({ "answer_p50_ms": percentile(&mut took, 0.5), "answer_p99_ms": percentile(&mut took, 0.99) })
}

/// The share of questions that do not see the newest row, by how old it is.
fn by_age(pairs: &[Pair]) -> Value {
    let mut least = 0.0;
    let shares = AGES_MS.iter().map(|&most| {
        let of_age = pairs.iter().filter(|pair| pair.age_ms >= least && pair.age_ms < most);
        let (count, missed) =
            of_age.fold((0, 0), |(count, missed), pair| (count + 1, missed + usize::from(pair.stale_ms.is_some())));
        let told = json!({
            "age_from_ms": least, "pairs": count, "missed": missed,
            "missed_share": (count > 0).then(|| missed as f64 / count as f64),
        });
        least = most;
        told
    });
    json!(shares.collect::<Vec<Value>>())
}

/// All clients' pairs at one freshness.
async fn pairs(gateways: &[Config], phase: &str, freshness: Duration, args: &ClusterArgs) -> Anything<Vec<Pair>> {
    let tasks: Vec<_> = (0..CLIENTS)
        .map(|client| {
            // Half of them the other way round.
            let (into, at) = (gateways[client % 2].clone(), gateways[(client + 1) % 2].clone());
            let own = Client {
                who: format!("{phase} {client}"),
                freshness,
                pairs: args.pairs.div_ceil(CLIENTS),
                random: Random(args.seed ^ (client as u64) << 32),
            };
            tokio::spawn(own.run(into, at))
        })
        .collect();
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await??);
    }
    Ok(all)
}

struct Client {
    who: String,
    freshness: Duration,
    pairs: usize,
    random: Random,
}

impl Client {
    async fn run(mut self, into: Config, at: Config) -> Anything<Vec<Pair>> {
        const INSERT: &str = "INSERT INTO pairs VALUES ($1, $2)";
        const COUNT: &str = "SELECT count(*) FROM pairs WHERE who = $1";
        let (into, at) = (connect(&into).await?, connect(&at).await?);
        // The table was made at one gateway. A question at freshness 0 knows it at once; what only goes by its name may not yet.
        rows(&into, "SELECT count(*) FROM pairs").await?;
        rows(&at, "SELECT count(*) FROM pairs").await?;
        rows(&at, &format!("SET freshness = '{}ms'", self.freshness.as_millis())).await?;
        let insert = into.prepare(INSERT).await.map_err(|error| told(&error, INSERT))?;
        let count = at.prepare(COUNT).await.map_err(|error| told(&error, COUNT))?;
        let (mut acknowledged, mut pairs) = (Vec::with_capacity(self.pairs), Vec::with_capacity(self.pairs));
        for number in 0..self.pairs {
            into.execute(&insert, &[&self.who, &(number as i64)]).await.map_err(|error| told(&error, INSERT))?;
            acknowledged.push(Instant::now());
            if !self.freshness.is_zero() {
                tokio::time::sleep(Duration::from_micros(self.random.next() % (PAUSE_MAX_MS * 1000))).await;
            }
            let asked = Instant::now();
            let row = at.query_one(&count, &[&self.who]).await.map_err(|error| told(&error, COUNT))?;
            let took_ms = asked.elapsed().as_secs_f64() * 1e3;
            let seen = row.get::<_, i64>(0) as usize;
            if seen > acknowledged.len() {
                return Err(
                    format!("{} rows of {} were written, {seen} are there", acknowledged.len(), self.who).into()
                );
            }
            let ms = |then: &Instant| (asked - *then).as_secs_f64() * 1e3;
            let age_ms = acknowledged.last().map_or(0.0, ms);
            pairs.push(Pair { age_ms, stale_ms: acknowledged.get(seen).map(ms), took_ms });
        }
        Ok(pairs)
    }
}
