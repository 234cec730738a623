//! B3: the 22 TPC-H queries on two workers beside one process: equal answers, CPU seconds of all processes, and wall time.

use super::boxed::{BATCH_ROWS, copy_all};
use super::processes::{Cluster, Serves, Shape, Single, cpu_s, session, settled, since};
use super::sql::{as_json, asked, rows, timed};
use super::{ClusterArgs, Scratch};
use crate::Anything;
use crate::cells::equal_rows;
use crate::machine::median;
use crate::tpch::{QUERIES, TABLES, generate};
use serde_json::{Value, json};
use std::path::Path;
use tokio_postgres::Client;

/// Timed turns; one before them warms.
const TURNS: usize = 3;

/// What the queries took.
struct Taken {
    /// Medians, in milliseconds; none where it is refused.
    wall_ms: Vec<Option<f64>>,
    cpu_s: Vec<f64>,
}

/// CPU seconds of all 22 queries on so many workers, for the model.
pub struct Work {
    pub workers: usize,
    pub workers_s: f64,
    pub gateway_s: f64,
    pub bytes: u64,
    /// Parts of plans that shards were asked for.
    pub parts: u64,
}

pub async fn run(args: &ClusterArgs, scratch: &Scratch) -> Anything<(Value, Vec<Work>)> {
    let folder = generate(&args.folders, args.sf)?;
    let alone = Single::start(&scratch.dir("tpch-alone")?, &args.folders.data, args.memory_mb)?;
    let client = load(&alone, &folder, "").await?;
    let (mut figures, mut works) = (Value::Null, Vec::new());
    for (workers, options) in shapes(args) {
        // Joins are the gateway's.
        let shape = Shape { gateway_mb: args.memory_mb, ..Shape::new(workers, 1, args.memory_mb) };
        let dir = scratch.dir(&format!("tpch-{}", works.len()))?;
        let cluster = Cluster::start(&dir, &args.folders.data, &shape)?;
        let at_cluster = load(&cluster, &folder, &options).await?;
        let (of_cluster, work) = beside((&alone, &client), &cluster, &at_cluster, workers).await?;
        match figures.is_null() {
            true => figures = of_cluster,
            false => figures[format!("also_{workers}_workers{options}")] = of_cluster,
        }
        works.push(work);
    }
    figures["sf"] = args.sf.into();
    Ok((figures, works))
}

/// Clusters by workers and options of tables: that of the bar, and those that the model wants.
fn shapes(args: &ClusterArgs) -> Vec<(usize, String)> {
    let mut shapes = vec![(2, String::new())];
    if args.model {
        let many = format!(" WITH (placement = 'rows', shards = '{}')", 4 * super::SHARDS_PER_WORKER);
        shapes.extend([(4, String::new()), (2, many)]);
    }
    shapes
}

/// The tables in a server, merged.
async fn load(server: &impl Serves, folder: &Path, options: &str) -> Anything<Client> {
    let client = session(server).await?;
    for (table, columns) in TABLES {
        rows(&client, &format!("CREATE TABLE {table} ({columns}){options}")).await?;
        let file = folder.join(format!("{table}.parquet"));
        let copy = format!("COPY {table} FROM '{}' (BATCH_ROWS {})", file.display(), BATCH_ROWS);
        copy_all(&client, &copy).await?;
    }
    rows(&client, "CALL alluvia.merge()").await?;
    settled(server).await?;
    Ok(client)
}

/// Both in turns, query by query.
async fn beside(
    (alone, own): (&Single, &Client),
    cluster: &Cluster,
    client: &Client,
    workers: usize,
) -> Anything<(Value, Work)> {
    let new = || Taken { wall_ms: Vec::new(), cpu_s: Vec::new() };
    let mut taken = [new(), new()];
    let mut work = Work { workers, workers_s: 0.0, gateway_s: 0.0, bytes: 0, parts: 0 };
    let (mut wrong, mut refused) = (Vec::new(), json!({}));
    for (at, query) in QUERIES.iter().enumerate() {
        let number = at + 1;
        let (mut times, mut used_s) = ([Vec::new(), Vec::new()], [0.0; 2]);
        let mut is_wrong = false;
        for turn in 0..=TURNS {
            let mut before = cpu_s(alone);
            let (took_ms, right) = timed(own, query).await?;
            if turn > 0 {
                times[0].push(took_ms);
                used_s[0] += cpu_s(alone) - before;
            }
            before = cpu_s(cluster);
            let of_nodes = cluster.cpus();
            match timed(client, query).await {
                Ok((took_ms, got)) => {
                    is_wrong |= !equal_rows(&as_json(&right), &as_json(&got))?;
                    if turn > 0 {
                        times[1].push(took_ms);
                        used_s[1] += cpu_s(cluster) - before;
                        work.workers_s += since(cluster, &of_nodes, "worker").iter().sum::<f64>() / TURNS as f64;
                        work.gateway_s += since(cluster, &of_nodes, "gateway").iter().sum::<f64>() / TURNS as f64;
                    }
                }
                Err(error) => {
                    refused[number.to_string()] = error.to_string().into();
                    is_wrong = true;
                    break;
                }
            }
        }
        let asked = if refused[number.to_string()].is_null() { asked(client, query).await? } else { (0, 0) };
        work.bytes += asked.1;
        work.parts += asked.0;
        if is_wrong {
            wrong.push(number);
        }
        for (who, times) in times.iter_mut().enumerate() {
            taken[who].wall_ms.push((!times.is_empty()).then(|| median(times)));
            taken[who].cpu_s.push(used_s[who] / TURNS as f64);
        }
        let shown = |who: usize| taken[who].wall_ms[at].map_or("refused".to_owned(), |ms| format!("{ms:.0} ms"));
        eprintln!(
            "tpch: {workers} workers, Q{number:<2} {:>8} alone {:>9} in the cluster, CPU {:.2} s and {:.2} s, {} bytes of {} shards{}",
            shown(0),
            shown(1),
            taken[0].cpu_s[at],
            taken[1].cpu_s[at],
            asked.1,
            asked.0,
            if is_wrong { ": WRONG" } else { "" }
        );
    }
    // Queries that were refused have no time, and are left out on both sides.
    let counts = |at: &usize| taken[1].wall_ms[*at].is_some();
    let wall_ms = |who: usize| (0..QUERIES.len()).filter(counts).filter_map(|at| taken[who].wall_ms[at]).sum::<f64>();
    let cpu_s = |who: usize| (0..QUERIES.len()).filter(counts).map(|at| taken[who].cpu_s[at]).sum::<f64>();
    let (cpu_ratio, wall_ratio) = (cpu_s(1) / cpu_s(0), wall_ms(1) / wall_ms(0));
    eprintln!("tpch: {workers} workers: CPU {cpu_ratio:.2} times, wall {wall_ratio:.2} times; wrong {wrong:?}");
    let figures = json!({
        "tpch_wrong": wrong, "refused": refused, "workers": workers, "cpu_ratio": cpu_ratio, "wall_ratio": wall_ratio,
        "alone_wall_ms": taken[0].wall_ms, "cluster_wall_ms": taken[1].wall_ms,
        "alone_cpu_s": taken[0].cpu_s, "cluster_cpu_s": taken[1].cpu_s,
        "workers_cpu_s": work.workers_s, "gateway_cpu_s": work.gateway_s, "bytes": work.bytes,
    });
    Ok((figures, work))
}
