//! B5: single rows by many clients, and COPY with one and two replicas, beside one process.
//!
//! All is durable when it is acknowledged. One process writes a row once; a cluster stages it, decides about it, and follows it, so it has two
//! fsyncs one after the other.

use super::boxed::load;
use super::processes::{Cluster, Serves, Shape, Single, cpu_s, session, settled};
use super::sql::{number, rows, told};
use super::{ClusterArgs, Scratch};
use crate::Anything;
use crate::boxes::data::Data;
use crate::machine::{median, percentile};
use crate::servers::connect;
use serde_json::{Value, json};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio_postgres::Config;

/// Turns of single rows; the middle one counts.
const TURNS: usize = 3;

/// What clients that insert single rows have seen.
pub struct Inserted {
    pub rows: usize,
    pub per_s: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    /// CPU microseconds of all processes for a row.
    pub cpu_us: f64,
}

impl Inserted {
    pub fn json(&self) -> Value {
        json!({ "per_s": self.per_s, "p50_ms": self.p50_ms, "p99_ms": self.p99_ms, "cpu_us_per_row": self.cpu_us })
    }
}

/// Has clients insert single rows by a prepared statement into a table of their own, for so long. All that was acknowledged is there.
pub async fn single_rows(
    server: &impl Serves,
    table: &str,
    options: &str,
    writers: usize,
    time: Duration,
) -> Anything<Inserted> {
    let client = session(server).await?;
    let with = if options.is_empty() { String::new() } else { format!(" WITH ({options})") };
    rows(&client, &format!("CREATE TABLE {table} (at BIGINT, who TEXT, amount DOUBLE PRECISION){with}")).await?;
    let gateways = server.gateways();
    let before = cpu_s(server);
    let (begun, until) = (Instant::now(), Instant::now() + time);
    let tasks: Vec<_> = (0..writers)
        .map(|writer| {
            let config = gateways[writer % gateways.len()].clone();
            tokio::spawn(insert_until(config, table.to_owned(), writer, until))
        })
        .collect();
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await??);
    }
    let (took, used) = (begun.elapsed().as_secs_f64(), cpu_s(server) - before);
    let count = latencies.len();
    let found = number(&client, &format!("SELECT count(*) FROM {table}")).await?;
    if found != count as u64 {
        return Err(format!("{count} inserts into {table} were acknowledged, {found} rows are there").into());
    }
    Ok(Inserted {
        rows: count,
        per_s: count as f64 / took,
        p50_ms: percentile(&mut latencies, 0.5),
        p99_ms: percentile(&mut latencies, 0.99),
        cpu_us: used * 1e6 / count as f64,
    })
}

/// Milliseconds of each insert.
async fn insert_until(config: Config, table: String, writer: usize, until: Instant) -> Anything<Vec<f64>> {
    let client = connect(&config).await?;
    let sql = format!("INSERT INTO {table} VALUES ($1, $2, $3)");
    let statement = client.prepare(&sql).await.map_err(|error| told(&error, &sql))?;
    let who = format!("writer {writer}");
    let mut latencies = Vec::new();
    while Instant::now() < until {
        let start = Instant::now();
        let at = latencies.len() as i64;
        client.execute(&statement, &[&at, &who, &(at as f64 / 2.0)]).await.map_err(|error| told(&error, &sql))?;
        latencies.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(latencies)
}

/// Milliseconds that a small write takes to be durable on the disk of a folder.
fn fsync_ms(folder: &Path) -> Anything<f64> {
    const PROBES: u64 = 200;
    let file = File::create(folder.join("fsync-probe"))?;
    let mut times = Vec::new();
    for at in 0..PROBES {
        file.write_all_at(&[7; 4096], at * 4096)?;
        let start = Instant::now();
        file.sync_data()?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(&mut times))
}

pub async fn run(args: &ClusterArgs, scratch: &Scratch) -> Anything<Value> {
    let fsync_ms = fsync_ms(&scratch.dir("insert-alone")?)?;
    let alone = Single::start(&scratch.dir("insert-alone")?, &args.folders.data, args.memory_mb)?;
    let shape = Shape::new(2, 1, args.memory_mb);
    let cluster = Cluster::start(&scratch.dir("insert-cluster")?, &args.folders.data, &shape)?;
    let time = Duration::from_secs(args.seconds);
    let mut turns = [Vec::new(), Vec::new()];
    for turn in 0..TURNS {
        for step in 0..2 {
            let table = format!("events_{turn}");
            if (step + turn) % 2 == 0 {
                turns[0].push(single_rows(&alone, &table, "", args.writers, time).await?);
                settled(&alone).await?;
            } else {
                turns[1].push(single_rows(&cluster, &table, &args.placement(2), args.writers, time).await?);
                settled(&cluster).await?;
            }
        }
    }
    let rates = turns.each_ref().map(|turns| median(&mut turns.iter().map(|turn| turn.per_s).collect::<Vec<f64>>()));
    let insert_ratio = rates[1] / rates[0];
    let middle = |who: usize| turns[who].iter().find(|turn| turn.per_s == rates[who]).map(Inserted::json);
    eprintln!(
        "insert: {} clients: {:.0} rows/s alone, {:.0} in the cluster, ratio {insert_ratio:.3}; fsync {fsync_ms:.3} ms",
        args.writers, rates[0], rates[1]
    );
    let mut figures = json!({
        "insert_ratio": insert_ratio, "writers": args.writers, "fsync_ms": fsync_ms, "turns": TURNS,
        "alone": middle(0), "cluster_2_workers": middle(1),
    });
    figures["copy"] = copies(args, &alone, &cluster).await?;
    Ok(figures)
}

/// COPY of the retail table's file, with one replica and with two.
async fn copies(args: &ClusterArgs, alone: &Single, cluster: &Cluster) -> Anything<Value> {
    let file = Data { rows: args.rows, zipf: 0, correlated: false }.parquet(&args.folders.data)?;
    let mut figures = json!({});
    let own = load(alone, &file, args.rows, "").await?;
    figures["alone"] = own.json(args.rows);
    drop_retail(alone).await?;
    for replicas in [1, 2] {
        let options = format!("{}, replicas = '{replicas}'", args.placement(2));
        let loaded = load(cluster, &file, args.rows, &options).await?;
        drop_retail(cluster).await?;
        let (ratio, cpu_ratio) = (own.copied_s / loaded.copied_s, loaded.cpu_s / own.cpu_s);
        eprintln!(
            "insert: COPY with {replicas} replicas: {:.0} rows/s, alone {:.0}, ratio {ratio:.3}; CPU {cpu_ratio:.2} times, merged {:.2} times",
            args.rows as f64 / loaded.copied_s,
            args.rows as f64 / own.copied_s,
            loaded.merged_s / own.merged_s
        );
        let name = format!("replicas_{replicas}");
        figures[&name] = loaded.json(args.rows);
        figures[&name]["copy_ratio"] = ratio.into();
        figures[&name]["cpu_ratio"] = cpu_ratio.into();
    }
    Ok(figures)
}

async fn drop_retail(server: &impl Serves) -> Anything<()> {
    let client = session(server).await?;
    rows(&client, "DROP TABLE retail").await?;
    settled(server).await?;
    Ok(())
}
