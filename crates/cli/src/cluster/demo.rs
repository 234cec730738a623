//! `alluvia cluster demo`: a database on six processes, one of which is killed.
//!
//! A keeper, three workers and two gateways on loopback. Rows stream in through both gateways, and the same question is asked through both,
//! at two freshnesses. A worker is killed with SIGKILL while they come, and started again. Then another one is killed for good: what it had
//! is copied to those that are left. Exits with 0 if no acknowledged row was lost, none is there twice, both gateways agree, and so do all
//! replicas.

use super::processes::{Asker, Node, Start};
use crate::say;
use alluvia_types::{Error, ErrorKind, Result};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[derive(Args)]
pub struct DemoArgs {
    /// How long rows stream in.
    #[arg(long, default_value_t = 12)]
    seconds: u64,
    /// Keeps the nodes' directories here [default: a temporary folder, which is removed].
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

const CREATE: &str = "CREATE TABLE sales (
  id BIGINT, sold_at TIMESTAMP, country TEXT, category TEXT, price DECIMAL(10, 2), quantity INT
) WITH (
  dimensions = 'item(category); store(country); time(sold_at: year, month, day)', measures = 'price, quantity',
  placement = 'rows', shards = '6', replicas = '2', write_quorum = '1'
)";

const QUESTION: &str =
    "SELECT country, count(*) AS sales, sum(price * quantity) AS revenue FROM sales GROUP BY country ORDER BY country";

/// Rows of a batch.
const BATCH: u64 = 500;
/// A worker that has come back has all again within this.
const CAUGHT_UP: Duration = Duration::from_secs(60);
/// The exit code after Ctrl-C, as shells have it.
const INTERRUPTED: u8 = 130;

/// The rows of one batch. Of each row the number tells all.
fn batch(first: u64) -> String {
    let last = first + BATCH - 1;
    format!(
        "INSERT INTO sales SELECT i, TIMESTAMP '2026-01-01' + i * INTERVAL '1 second', \
         CASE i % 4 WHEN 0 THEN 'Brazil' WHEN 1 THEN 'France' WHEN 2 THEN 'Japan' ELSE 'Kenya' END, \
         CASE i % 3 WHEN 0 THEN 'Books' WHEN 1 THEN 'Music' ELSE 'Tools' END, (i % 9973) / 100.0, 1 + i % 5 \
         FROM generate_series({first}, {last}) AS g(i)"
    )
}

pub async fn run(args: DemoArgs) -> Result<ExitCode> {
    let scratch = tempfile::tempdir().map_err(|error| Error::io(std::env::temp_dir(), "making a folder in", &error))?;
    let dir = args.keep.clone().unwrap_or_else(|| scratch.path().to_owned());
    if args.keep.is_some() && dir.join("keeper").exists() {
        return Err(Error::new(ErrorKind::InvalidSetting, format!("{} has a cluster already", dir.display()))
            .with_hint("name a folder that does not exist yet"));
    }
    std::fs::create_dir_all(&dir).map_err(|error| Error::io(&dir, "creating", &error))?;
    let told = tokio::select! {
        told = tell(&dir, args.seconds) => told?,
        _ = tokio::signal::ctrl_c() => return Ok(ExitCode::from(INTERRUPTED)),
    };
    if let Some(kept) = &args.keep {
        go_on(kept)?;
    }
    Ok(if told { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The nodes, in the order in which they stop.
struct Cluster {
    gateways: [Node; 2],
    workers: Vec<(Start, Node)>,
    _keeper: Node,
}

async fn start(dir: &Path, dead_after: Duration) -> Result<Cluster> {
    let node = |name, role, keeper: Option<&str>| {
        let (dir, keeper) = (dir.to_owned(), keeper.map(str::to_owned));
        Start { dir, name, role, keeper, dead_after: None }
    };
    let keeper = Start { dead_after: Some(dead_after), ..node("keeper", "keeper", None) }.run().await?;
    let at = keeper.address()?;
    say(&format!("   keeper     process {}: decides which batches there are, in one order\n", keeper.process()))?;
    let mut workers = Vec::new();
    for name in ["worker-1", "worker-2", "worker-3"] {
        let start = node(name, "worker", Some(&at));
        let worker = start.clone().run().await?;
        say(&format!("   {name}   process {}: keeps rows\n", worker.process()))?;
        workers.push((start, worker));
    }
    let first = node("gateway-a", "gateway", Some(&at)).run().await?;
    let second = node("gateway-b", "gateway", Some(&at)).run().await?;
    for (name, gateway) in [("gateway-a", &first), ("gateway-b", &second)] {
        say(&format!("   {name}  process {}: serves clients, and keeps nothing\n", gateway.process()))?;
    }
    Ok(Cluster { gateways: [first, second], workers, _keeper: keeper })
}

/// The whole story. Whether all of it held.
async fn tell(dir: &Path, seconds: u64) -> Result<bool> {
    say(&format!("Alluvia on several machines: six processes on this one, in {}\n\n", dir.display()))?;
    let time = Duration::from_secs(seconds.max(3));
    // Longer than the first one that is killed is away.
    let dead_after = time / 3 + Duration::from_secs(3);
    let mut cluster = start(dir, dead_after).await?;
    let [a, b] = [cluster.gateways[0].connect().await?, cluster.gateways[1].connect().await?];
    a.rows(CREATE).await?;
    say(&format!(
        "\n== Rows stream in through both gateways, each batch on at least one of two replicas before it is committed\n\n{CREATE};\n\n"
    ))?;
    let acknowledged = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let writers = [cluster.gateways[0].connect().await?, cluster.gateways[1].connect().await?];
    let writer = tokio::spawn(write(writers, Arc::clone(&acknowledged), Arc::clone(&stop)));
    let watched = watch(&mut cluster, [&a, &b], &acknowledged, time).await;
    stop.store(true, Ordering::Relaxed);
    let wrote = writer.await.map_err(|error| Error::internal(format!("the demo's writer: {error}")))?;
    let seen = watched?;
    wrote?;
    let rows = acknowledged.load(Ordering::Relaxed);
    let caught_up = caught_up(&a).await?;
    let right = all_right([&a, &b], rows).await?;
    let replaced = replace(&mut cluster, &a, dead_after).await?;
    let still_right = all_right([&a, &b], rows).await?;
    say("\nWhere the rows lie: SELECT * FROM alluvia.shards; alluvia.replicas; alluvia.nodes\n")?;
    Ok(seen && caught_up && right && replaced && still_right)
}

/// Kills a worker for good, and waits until all shards have two replicas again, on those that are left.
async fn replace(cluster: &mut Cluster, gateway: &Asker, dead_after: Duration) -> Result<bool> {
    let worker = &mut cluster.workers[0].1;
    say(&format!(
        "\n== A worker is lost for good: after {} s of silence what it had is copied to the others\n\n   \
         kill -9 {}     # worker-1\n",
        dead_after.as_secs(),
        worker.process()
    ))?;
    worker.kill()?;
    let began = Instant::now();
    // Replicas of a worker that does not answer have no rows to tell of.
    const REPLICAS: &str = "SELECT count(*) FROM alluvia.replicas WHERE table_name = 'sales' AND rows > 0";
    let mut told = gateway.number(REPLICAS).await?;
    say(&format!("{:7.1} s   {told} of 12 replicas are there\n", began.elapsed().as_secs_f64()))?;
    while told < 12 {
        if began.elapsed() > dead_after + CAUGHT_UP {
            say("   DEFECT: its replicas are not made anew\n")?;
            return Ok(false);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = gateway.number(REPLICAS).await?;
        if now != told {
            told = now;
            say(&format!("{:7.1} s   {told} of 12 replicas are there\n", began.elapsed().as_secs_f64()))?;
        }
    }
    caught_up(gateway).await
}

/// Writes batches, through one gateway and the other, until it is told to stop.
async fn write(gateways: [Asker; 2], acknowledged: Arc<AtomicU64>, stop: Arc<AtomicBool>) -> Result<()> {
    let mut turn = 0;
    while !stop.load(Ordering::Relaxed) {
        gateways[turn % 2].rows(&batch(acknowledged.load(Ordering::Relaxed) + 1)).await?;
        acknowledged.fetch_add(BATCH, Ordering::Relaxed);
        turn += 1;
    }
    Ok(())
}

/// Tells each second what is read, kills a worker after a third of the time, and starts it again after two thirds. Whether what is read at
/// freshness 0 always had what was acknowledged before.
async fn watch(cluster: &mut Cluster, [a, b]: [&Asker; 2], acknowledged: &AtomicU64, time: Duration) -> Result<bool> {
    const COUNT: &str = "SELECT count(*) FROM sales";
    let (began, mut second, mut is_right) = (Instant::now(), 0, true);
    let (mut is_killed, mut is_back) = (false, false);
    say("        acknowledged   gateway a at 0s   gateway b at 0s   gateway b at 2s\n")?;
    while began.elapsed() < time {
        second += 1;
        tokio::time::sleep_until((began + Duration::from_secs(second)).into()).await;
        if !is_killed && began.elapsed() >= time / 3 {
            is_killed = true;
            let worker = &mut cluster.workers[1].1;
            say(&format!("   kill -9 {}     # worker-2\n", worker.process()))?;
            worker.kill()?;
        }
        if !is_back && began.elapsed() >= time * 2 / 3 {
            is_back = true;
            let start = cluster.workers[1].0.clone();
            cluster.workers[1].1 = start.run().await?;
            say(&format!("   worker-2 is started again: process {}\n", cluster.workers[1].1.process()))?;
        }
        let before = acknowledged.load(Ordering::Relaxed);
        let (of_a, of_b) = (a.number(COUNT).await?, b.number(COUNT).await?);
        b.rows("SET freshness = '2s'").await?;
        let older = b.number(COUNT).await?;
        b.rows("SET freshness = '0s'").await?;
        say(&format!("{second:5} s {before:13} {of_a:17} {of_b:17} {older:17}\n"))?;
        if of_a < before || of_b < before {
            say("   DEFECT: rows that were acknowledged are not read at freshness 0\n")?;
            is_right = false;
        }
    }
    Ok(is_right)
}

/// Waits until all workers have followed to the newest version.
async fn caught_up(gateway: &Asker) -> Result<bool> {
    const BEHIND: &str = "SELECT count(*) FROM alluvia.nodes WHERE roles = 'worker' AND is_dead = 'NO' \
                          AND (answers = 'NO' OR through < (SELECT max(version) FROM alluvia.batches))";
    let began = Instant::now();
    while gateway.number(BEHIND).await? > 0 {
        if began.elapsed() > CAUGHT_UP {
            say("   DEFECT: a worker has not caught up\n")?;
            return Ok(false);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    say(&format!("\n== All workers have all batches again, {:.1} s after the last\n", began.elapsed().as_secs_f64()))?;
    Ok(true)
}

/// Whether all rows are there once, both gateways say the same, and all replicas have the same number of rows.
async fn all_right([a, b]: [&Asker; 2], rows: u64) -> Result<bool> {
    let (of_a, of_b) = (a.rows(QUESTION).await?, b.rows(QUESTION).await?);
    say(&format!("\n{QUESTION}\n"))?;
    for row in &of_a {
        say(&format!("   {:8} {:>9} sales {:>16} revenue\n", row[0], row[1], row[2]))?;
    }
    let whole = a.rows("SELECT count(*), sum(id), count(DISTINCT id) FROM sales").await?;
    let expected = [rows, rows * (rows + 1) / 2, rows].map(|number| number.to_string());
    let differing = "SELECT count(*) FROM (SELECT shard FROM alluvia.replicas WHERE table_name = 'sales' \
                     GROUP BY shard HAVING count(*) <> 2 OR min(rows) <> max(rows)) AS differing";
    let differing = a.number(differing).await?;
    let is_right = of_a == of_b && whole == [expected.to_vec()] && differing == 0;
    say(&match is_right {
        true => format!("\n{rows} rows were acknowledged, and are there once; both gateways and all replicas agree.\n"),
        false => format!(
            "\nDEFECT: count, sum and numbers of {rows} rows are {whole:?}, and must be {expected:?}; gateway b says {of_b:?}; \
             {differing} shards have replicas that differ\n"
        ),
    })?;
    Ok(is_right)
}

/// What one can do next.
fn go_on(dir: &Path) -> Result<()> {
    let dir = dir.display();
    say(&format!(
        "\nGo on with the cluster that this has left, each in a terminal of its own:\n  \
         alluvia node {dir}/keeper --roles keeper --node-listen 127.0.0.1:7400\n  \
         alluvia node {dir}/worker-1 --roles worker --join 127.0.0.1:7400 --secret-file {dir}/keeper/secret    # and 2, and 3\n  \
         alluvia node {dir}/gateway-a --roles gateway --join 127.0.0.1:7400 --secret-file {dir}/keeper/secret --set authentication=trust\n  \
         psql -h 127.0.0.1 -U alluvia alluvia\n"
    ))
}
