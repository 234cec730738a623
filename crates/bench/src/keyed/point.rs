//! `point`: whole rows of random keys, and aggregates over neighbouring keys, beside PostgreSQL, DataFusion over Parquet and RocksDB.
//!
//! Ours is asked through the Rust API, in this process, and through PostgreSQL's protocol, as PostgreSQL is, by the same clients.
//! RocksDB is asked from Python, one key after the other.

use crate::boxes::peers::{KINDS, Peer};
use crate::keyed::ours::load;
use crate::keyed::peers::{Child, Files};
use crate::keyed::postgres::Postgres;
use crate::keyed::rows::{Keyed, create};
use crate::keyed::seconds;
use crate::machine::percentile;
use crate::retail::{DIMENSIONS, Random};
use crate::servers::{alluvia, beside, connect};
use crate::{Anything, Folders};
use alluvia_node::{Database, DatabaseOptions};
use arrow::array::RecordBatch;
use clap::Args;
use datafusion::common::ScalarValue;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_postgres::Config;

#[derive(Args)]
pub struct PointArgs {
    #[command(flatten)]
    folders: Folders,
    /// The server's program [default: `alluvia` beside this one].
    #[arg(long)]
    alluvia: Option<PathBuf>,
    /// Rows of the table.
    #[arg(long, default_value_t = 20_000_000)]
    rows: u64,
    /// Clients that ask.
    #[arg(long, default_value_t = 16)]
    clients: usize,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 10.0, value_parser = seconds)]
    seconds: f64,
    /// Turns; medians are shown.
    #[arg(long, default_value_t = 3)]
    turns: usize,
    /// Leaves the peers out.
    #[arg(long)]
    alone: bool,
}

const POINT: &str = "SELECT * FROM t WHERE id = $1";
const RANGE: &str = "SELECT count(*), sum(quantity) FROM t WHERE id >= $1 AND id < $2";

pub async fn run(args: PointArgs) -> Anything<Value> {
    let keyed = Keyed::new(args.rows, 1_000, false)?;
    let base = keyed.base(&args.folders.data)?;
    let scratch = tempfile::tempdir_in(&args.folders.data)?;
    let dir = scratch.path().join("db");
    {
        let db = Database::open_with(&dir, DatabaseOptions::default())?;
        load(&db.session(), &create(DIMENSIONS, true), &base).await?;
    }
    let time = Duration::from_secs_f64(args.seconds);
    let width = (args.rows / 1_000).max(1);
    let mut figures = json!({
        "bench": "point", "rows": args.rows, "clients": args.clients, "seconds": args.seconds, "range_rows": width,
    });

    let db = Arc::new(Database::open_with(&dir, DatabaseOptions::default())?);
    let ready = Instant::now();
    embedded_once(&db).await?;
    figures["ready_s"] = ready.elapsed().as_secs_f64().into();
    let (reads, mut latencies) = embedded(&db, &args, time).await?;
    figures["api"] = figure(reads, &mut latencies);
    let ranges = embedded_ranges(&db, args.rows, width, time).await?;
    figures["ranges_per_s"] = ranges.into();
    drop(db);

    let program = args.alluvia.clone().map_or_else(beside, Ok)?;
    let ours = alluvia(&program, &dir)?;
    let postgres = match args.alone {
        true => None,
        false => match Postgres::start(&create(DIMENSIONS, false), &base, "*").await {
            Ok(peer) => Some(peer),
            Err(error) => {
                eprintln!("PostgreSQL is not measured: {error}");
                None
            }
        },
    };
    let mut servers = vec![("alluvia", &ours.config)];
    servers.extend(postgres.as_ref().map(|peer| ("postgresql", &peer.server.config)));
    let mut points: Vec<Vec<f64>> = vec![Vec::new(); servers.len()];
    let mut wide: Vec<Vec<f64>> = vec![Vec::new(); servers.len()];
    let mut waits: Vec<Vec<f64>> = vec![Vec::new(); servers.len()];
    for _ in 0..args.turns {
        for (at, (name, config)) in servers.iter().enumerate() {
            let (rate, latencies) = over_the_wire(config, &args, time).await?;
            eprintln!("{name}: {rate:.0} prepared point reads/s by {} connections", args.clients);
            points[at].push(rate);
            waits[at].extend(latencies);
            wide[at].push(ranges_over_the_wire(config, args.rows, width, time).await?);
        }
    }
    for (at, (name, _)) in servers.iter().enumerate() {
        figures[*name] = figure(crate::machine::median(&mut points[at]), &mut waits[at]);
        figures[*name]["ranges_per_s"] = json!(crate::machine::median(&mut wide[at]));
    }
    figures["reads_per_s"] = figures["alluvia"]["reads_per_s"].clone();
    let ratio = |figures: &Value, path: &str| {
        let of = |server: &str| figures[server].pointer(path).and_then(Value::as_f64);
        of("alluvia").zip(of("postgresql")).map(|(ours, theirs)| ours / theirs)
    };
    figures["to_postgresql"] = json!(ratio(&figures, "/reads_per_s"));
    figures["ranges_to_postgresql"] = json!(ratio(&figures, "/ranges_per_s"));
    drop((ours, postgres));

    if !args.alone {
        let batches = keyed.batches(&args.folders.data)?;
        let files = Files { base: base.clone(), batches, batch_rows: keyed.batch_rows };
        let mut child = Child::start("rocksdb", "rocksdict", &args.folders, &files, scratch.path())?;
        let said = child.ask(&json!({ "point": args.seconds, "seed": 3 }))?;
        let rate = said["reads"].as_f64().zip(said["s"].as_f64()).map(|(reads, seconds)| reads / seconds);
        let said = child.ask(&json!({ "range": width, "seconds": args.seconds, "seed": 3 }))?;
        let wide = said["ranges"].as_f64().zip(said["s"].as_f64()).map(|(ranges, seconds)| ranges / seconds);
        figures["rocksdb"] = json!({ "version": child.version, "reads_per_s": rate, "ranges_per_s": wide });
        figures["to_lsm"] = json!(rate.map(|theirs| reads / theirs));
        figures["ranges_to_lsm"] = json!(wide.map(|theirs| ranges / theirs));
        drop(child);
        let file = base.to_str().ok_or("the data folder's path is not UTF-8")?;
        match Peer::start(&KINDS[2], &args.folders, file, scratch.path(), args.rows) {
            Ok(mut peer) => {
                let mut random = Random(11);
                let texts: Vec<String> = (0..64)
                    .map(|_| {
                        let low = random.next() % (args.rows - width).max(1);
                        format!("SELECT count(*), sum(quantity) FROM retail WHERE id >= {low} AND id < {}", low + width)
                    })
                    .collect();
                let theirs = peer.throughput(&texts, args.seconds)?;
                figures["datafusion"] = json!({ "version": peer.version, "ranges_per_s": theirs });
                figures["ranges_to_datafusion"] = json!(ranges / theirs);
            }
            Err(error) => eprintln!("DataFusion is not measured: {error}"),
        }
    }
    Ok(figures)
}

fn figure(rate: f64, latencies: &mut [f64]) -> Value {
    let [p50, p99] = [0.5, 0.99].map(|share| percentile(latencies, share) * 1e6);
    json!({ "reads_per_s": rate, "p50_us": p50, "p99_us": p99 })
}

/// The first read of a key.
async fn embedded_once(db: &Arc<Database>) -> Anything<()> {
    let session = db.session();
    let found = session.sql("SELECT * FROM t WHERE id = 0").await?.collect().await?;
    one_row(&found)
}

fn one_row(found: &[RecordBatch]) -> Anything<()> {
    match found.iter().map(RecordBatch::num_rows).sum::<usize>() {
        1 => Ok(()),
        rows => Err(format!("a key that is there has {rows} rows").into()),
    }
}

async fn embedded(db: &Arc<Database>, args: &PointArgs, time: Duration) -> Anything<(f64, Vec<f64>)> {
    let (start, until) = (Instant::now(), Instant::now() + time);
    let tasks = (0..args.clients as u64).map(|client| {
        let (session, mut random, rows) = (db.session(), Random(client), args.rows);
        tokio::spawn(async move {
            let prepared = session.prepare(POINT)?;
            let mut latencies = Vec::new();
            while Instant::now() < until {
                let asked = Instant::now();
                let key = ScalarValue::Int64(Some((random.next() % rows) as i64));
                one_row(&session.execute_prepared(&prepared, &[key]).await?.collect().await?)?;
                latencies.push(asked.elapsed().as_secs_f64());
            }
            Anything::Ok(latencies)
        })
    });
    gather(tasks.collect(), start).await
}

async fn embedded_ranges(db: &Arc<Database>, rows: u64, width: u64, time: Duration) -> Anything<f64> {
    let (session, mut random) = (db.session(), Random(9));
    let (start, mut asked) = (Instant::now(), 0u64);
    while start.elapsed() < time {
        let low = random.next() % (rows - width).max(1);
        let sql = format!("SELECT count(*), sum(quantity) FROM t WHERE id >= {low} AND id < {}", low + width);
        one_row(&session.sql(&sql).await?.collect().await?)?;
        asked += 1;
    }
    Ok(asked as f64 / start.elapsed().as_secs_f64())
}

async fn over_the_wire(config: &Config, args: &PointArgs, time: Duration) -> Anything<(f64, Vec<f64>)> {
    let (start, until) = (Instant::now(), Instant::now() + time);
    let tasks = (0..args.clients as u64).map(|client| {
        let (config, mut random, rows) = (config.clone(), Random(client), args.rows);
        tokio::spawn(async move {
            let connection = connect(&config).await?;
            let statement = connection.prepare(POINT).await?;
            let mut latencies = Vec::new();
            while Instant::now() < until {
                let asked = Instant::now();
                connection.query_one(&statement, &[&((random.next() % rows) as i64)]).await?;
                latencies.push(asked.elapsed().as_secs_f64());
            }
            Anything::Ok(latencies)
        })
    });
    gather(tasks.collect(), start).await
}

async fn ranges_over_the_wire(config: &Config, rows: u64, width: u64, time: Duration) -> Anything<f64> {
    let connection = connect(config).await?;
    let statement = connection.prepare(RANGE).await?;
    let mut random = Random(9);
    let (start, mut asked) = (Instant::now(), 0u64);
    while start.elapsed() < time {
        let low = (random.next() % (rows - width).max(1)) as i64;
        let row = connection.query_one(&statement, &[&low, &(low + width as i64)]).await?;
        if row.get::<_, i64>(0) as u64 != width {
            return Err(format!("{width} neighbouring keys have {} rows", row.get::<_, i64>(0)).into());
        }
        asked += 1;
    }
    Ok(asked as f64 / start.elapsed().as_secs_f64())
}

async fn gather(tasks: Vec<tokio::task::JoinHandle<Anything<Vec<f64>>>>, start: Instant) -> Anything<(f64, Vec<f64>)> {
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await??);
    }
    Ok((all.len() as f64 / start.elapsed().as_secs_f64(), all))
}
