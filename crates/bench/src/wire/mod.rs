//! `wire`: PostgreSQL's protocol, HTTP and Flight SQL, beside PostgreSQL itself on the same data, and beside pyarrow.
//!
//! Both servers are processes of their own on loopback, and the same client asks both in turns: COPY in, a prepared aggregate by many
//! connections once its shape is resident, durable single-row inserts by many connections. Rows are made before the clock runs, since the
//! client shares the cores. Ours also takes Arrow streams over HTTP, and is started on a directory of many rows. [`data`] makes rows, [`http`]
//! posts them. What comes back through Flight SQL as Arrow is measured beside Parquet of the same rows ([`flight`]).

mod data;
mod flight;
mod http;

use crate::machine::{median, percentile};
use crate::retail::{create, parquet_file};
use crate::servers::{Running, alluvia, beside, connect, postgres, version};
use crate::{Anything, Folders};
use alluvia_node::Database;
use bytes::{BufMut, Bytes, BytesMut};
use clap::Args;
use data::{COUNTRIES, FIRSTS, arrow, mix, text};
use futures::SinkExt;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::{Duration, Instant};
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Config};

#[derive(Args)]
pub struct WireArgs {
    #[command(flatten)]
    folders: Folders,
    /// The server's program [default: `alluvia` beside this one].
    #[arg(long)]
    alluvia: Option<PathBuf>,
    /// Rows of the table, and of those that come over HTTP.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// Turns of COPY and of /ingest, each into a table of its own; medians are shown.
    #[arg(long, default_value_t = 3)]
    turns: usize,
    /// Rows of one request of /ingest.
    #[arg(long, default_value_t = 250_000)]
    body_rows: u64,
    /// Connections that ask.
    #[arg(long, default_value_t = 16)]
    clients: usize,
    /// Connections that insert.
    #[arg(long, default_value_t = 64)]
    writers: usize,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Rows that come back through Flight SQL [default: ten times the rows]; 0 for none.
    #[arg(long)]
    flight_rows: Option<u64>,
    /// Turns of Flight SQL and of Parquet; medians are shown.
    #[arg(long, default_value_t = 5)]
    flight_turns: usize,
    /// Rows of the directory that a server is started on; 0 for none.
    #[arg(long, default_value_t = 20_000_000)]
    ready_rows: u64,
}

/// 2025-01-01, in days since 2000-01-01.
const FIRST_DAY: i32 = 9_132;
const AGGREGATE: &str = "SELECT count(*), sum(price) FROM sales WHERE country = $1 AND day >= $2 AND day < $3";
/// Starts of a server on the directory of many rows; the middle one is shown.
const STARTS: usize = 5;

pub async fn run(args: WireArgs) -> Anything<Value> {
    if args.rows == 0 || args.turns == 0 || args.body_rows == 0 {
        return Err("wire wants at least 1 row, 1 turn and 1 row a request".into());
    }
    if args.flight_turns == 0 {
        return Err("wire wants at least 1 turn of Flight SQL; --flight-rows 0 leaves it out".into());
    }
    let scratch = tempfile::tempdir_in(&args.folders.data)?;
    let program = args.alluvia.clone().map_or_else(beside, Ok)?;
    let mut figures = json!({
        "bench": "wire", "rows": args.rows, "turns": args.turns, "clients": args.clients, "writers": args.writers,
        "seconds": args.seconds,
    });
    if args.ready_rows > 0 {
        figures["many_rows"] = ready(&args, &program, &scratch.path().join("many")).await?;
    }
    let flight_rows = args.flight_rows.unwrap_or_else(|| args.rows.saturating_mul(10));
    if flight_rows > 0 {
        let dir = scratch.path().join("flown");
        figures["flight"] = flight::measured(&args.folders, &program, &dir, flight_rows, args.flight_turns).await?;
    }
    let ours = alluvia(&program, &scratch.path().join("db"))?;
    figures["empty"] = json!({ "ready_ms": ours.ready_ms, "idle_mib": ours.resident_mib() });
    let peer = match postgres() {
        Ok(peer) => Some(peer),
        Err(error) => {
            eprintln!("PostgreSQL is not measured: {error}");
            None
        }
    };
    let mut servers = vec![("alluvia", &ours)];
    servers.extend(peer.as_ref().map(|peer| ("postgresql", peer)));
    let pieces = text(0..args.rows);
    let mut copied = vec![Vec::new(); servers.len()];
    for (name, server) in &servers {
        figures[*name] = json!({ "version": version(&connect(&server.config).await?).await? });
    }
    for turn in 0..args.turns {
        for (at, (name, server)) in servers.iter().enumerate() {
            let client = connect(&server.config).await?;
            let table = format!("copied_{turn}");
            client.batch_execute(&definition(&table, name)).await?;
            copied[at].push(args.rows as f64 / copy(&client, &table, &pieces, args.rows).await?);
        }
    }
    for ((name, _), speeds) in servers.iter().zip(&mut copied) {
        let speed = median(speeds);
        figures[*name]["copy_rows_per_s"] = speed.into();
        eprintln!("{name}: COPY of text {speed:.0} rows/s");
    }
    figures["alluvia"]["ingest"] = over_http(&args, &ours).await?;

    let mut sums = Vec::new();
    for (name, server) in &servers {
        let client = connect(&server.config).await?;
        client.batch_execute(&definition("sales", name)).await?;
        copy(&client, "sales", &pieces, args.rows).await?;
        let after = match *name {
            "alluvia" => "CALL alluvia.merge()",
            _ => "CREATE INDEX ON sales (country, day) INCLUDE (price); VACUUM ANALYZE sales",
        };
        for statement in after.split("; ") {
            client.batch_execute(statement).await?;
        }
        // Asked once, the shape is wanted; built, it is resident.
        let statement = client.prepare(AGGREGATE).await?;
        let mut asked = vec![ask(&client, &statement, 0).await?];
        if *name == "alluvia" {
            client.batch_execute("CALL alluvia.build_cuboids()").await?;
        }
        for at in 0..100 {
            asked.push(ask(&client, &statement, at).await?);
        }
        sums.push(asked);
    }
    if sums.windows(2).any(|pair| pair[0] != pair[1]) {
        return Err(format!("the servers answer differently: {sums:?}").into());
    }
    let time = Duration::from_secs(args.seconds);
    for (name, server) in &servers {
        let (rate, mut latencies) = ask_many(&server.config, args.clients, time).await?;
        let (p50, p99) = (percentile(&mut latencies, 0.5) * 1e3, percentile(&mut latencies, 0.99) * 1e3);
        eprintln!(
            "{name}: {rate:.0} prepared aggregates/s by {} connections, p50 {p50:.2} ms, p99 {p99:.2} ms",
            args.clients
        );
        figures[*name]["aggregates"] = json!({ "per_s": rate, "p50_ms": p50, "p99_ms": p99 });
    }
    for (name, server) in &servers {
        let (rate, mut latencies) = insert_many(&server.config, args.writers, time).await?;
        let (p50, p99) = (percentile(&mut latencies, 0.5) * 1e3, percentile(&mut latencies, 0.99) * 1e3);
        eprintln!(
            "{name}: {rate:.0} durable inserts/s by {} connections, p50 {p50:.2} ms, p99 {p99:.2} ms",
            args.writers
        );
        figures[*name]["inserts"] = json!({ "per_s": rate, "p50_ms": p50, "p99_ms": p99 });
    }
    for (what, path) in
        [("copy", "/copy_rows_per_s"), ("aggregates", "/aggregates/per_s"), ("inserts", "/inserts/per_s")]
    {
        let of = |server: &str| figures[server].pointer(path).and_then(Value::as_f64);
        let ratio = of("alluvia").zip(of("postgresql")).map(|(ours, theirs)| ours / theirs);
        figures["alluvia_to_postgresql"][what] = ratio.into();
    }
    Ok(figures)
}

/// The table of sales under some name; in ours with dimensions.
fn definition(table: &str, server: &str) -> String {
    let with = match server {
        "alluvia" => " WITH (dimensions = 'country; day(day: year, month, day)', measures = 'price, quantity')",
        _ => "",
    };
    format!("CREATE TABLE {table} (country TEXT, day DATE, price DOUBLE PRECISION, quantity INT){with}")
}

/// COPY FROM STDIN of all rows, as text; gives seconds.
async fn copy(client: &Client, table: &str, pieces: &[Bytes], rows: u64) -> Anything<f64> {
    let start = Instant::now();
    let mut sink = pin!(client.copy_in::<_, Bytes>(&format!("COPY {table} FROM STDIN")).await?);
    for piece in pieces {
        sink.send(piece.clone()).await?;
    }
    let copied = sink.finish().await?;
    if copied != rows {
        return Err(format!("{copied} of {rows} rows were copied").into());
    }
    Ok(start.elapsed().as_secs_f64())
}

/// Arrow streams over HTTP, one request after the other; durable and visible when answered.
async fn over_http(args: &WireArgs, ours: &Running) -> Anything<Value> {
    let server = ours.http.ok_or("the server says of no HTTP")?;
    let starts = (0..args.rows).step_by(args.body_rows as usize);
    let bodies: Vec<Bytes> =
        starts.map(|first| arrow(first..(first + args.body_rows).min(args.rows))).collect::<Anything<_>>()?;
    let client = connect(&ours.config).await?;
    let mut speeds = Vec::new();
    for turn in 0..args.turns {
        let table = format!("posted_{turn}");
        client.batch_execute(&definition(&table, "alluvia")).await?;
        let start = Instant::now();
        let mut posted = 0;
        for body in &bodies {
            let said = http::ingest(server, &table, "application/vnd.apache.arrow.stream", body.clone()).await?;
            posted += said["rows"].as_u64().unwrap_or(0);
        }
        speeds.push(args.rows as f64 / start.elapsed().as_secs_f64());
        let count: i64 = client.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await?.get(0);
        if posted != args.rows || count as u64 != args.rows {
            return Err(format!("{posted} of {} rows were acknowledged, {count} are there", args.rows).into());
        }
        // What came as Arrow is what came as text.
        let difference = format!("SELECT count(*) FROM (SELECT * FROM {table} EXCEPT SELECT * FROM copied_0) AS d");
        let different: i64 = client.query_one(&difference, &[]).await?.get(0);
        if different != 0 {
            return Err(format!("{different} rows differ from those of COPY").into());
        }
    }
    let speed = median(&mut speeds);
    eprintln!("alluvia: /ingest of Arrow {speed:.0} rows/s in requests of {} rows", args.body_rows);
    Ok(json!({ "rows_per_s": speed, "body_rows": args.body_rows }))
}

/// How long a server takes to be ready on a directory of many merged rows, to its first answer, and what it holds when idle.
async fn ready(args: &WireArgs, program: &Path, dir: &Path) -> Anything<Value> {
    let file = parquet_file(&args.folders.data, args.ready_rows)?;
    {
        let db = Database::open(dir)?;
        let session = db.session();
        session.sql(&create("retail")).await?;
        session.sql(&format!("COPY retail FROM '{}'", file.display())).await?;
        session.sql("CALL alluvia.merge()").await?;
    }
    let (mut ready_ms, mut first_ms, mut idle_mib) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let server = alluvia(program, dir)?;
        ready_ms.push(server.ready_ms);
        let start = Instant::now();
        let client = connect(&server.config).await?;
        let count: i64 = client.query_one("SELECT count(*) FROM retail", &[]).await?.get(0);
        if count as u64 != args.ready_rows {
            return Err(format!("{count} of {} rows are there", args.ready_rows).into());
        }
        first_ms.push(start.elapsed().as_secs_f64() * 1e3);
        tokio::time::sleep(Duration::from_secs(1)).await;
        idle_mib.extend(server.resident_mib());
    }
    let [ready_ms, first_ms, idle_mib] = [ready_ms, first_ms, idle_mib].map(|mut times| median(&mut times));
    eprintln!(
        "{} rows: ready after {ready_ms:.0} ms, connected and counted {first_ms:.1} ms later, idle with {idle_mib:.0} MiB",
        args.ready_rows
    );
    Ok(json!({ "rows": args.ready_rows, "ready_ms": ready_ms, "first_answer_ms": first_ms, "idle_mib": idle_mib }))
}

/// A DATE, in days since 2000-01-01.
#[derive(Debug)]
struct Day(i32);

impl ToSql for Day {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.put_i32(self.0);
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::DATE
    }

    to_sql_checked!();
}

/// The aggregate, of the `at`-th country and months.
async fn ask(client: &Client, statement: &tokio_postgres::Statement, at: u64) -> Anything<(i64, f64)> {
    let random = mix(at);
    let country = format!("country {}", random % COUNTRIES);
    // From the first of one month to the first of a later one.
    let low = (random / 64 % 12) as usize;
    let high = low + 1 + (random / 1024 % (12 - low as u64)) as usize;
    let row =
        client.query_one(statement, &[&country, &Day(FIRST_DAY + FIRSTS[low]), &Day(FIRST_DAY + FIRSTS[high])]).await?;
    Ok((row.get(0), row.get::<_, Option<f64>>(1).unwrap_or(0.0)))
}

async fn ask_many(config: &Config, clients: usize, time: Duration) -> Anything<(f64, Vec<f64>)> {
    let ask_until = |client: u64, until: Instant, config: Config| async move {
        let connection = connect(&config).await?;
        let statement = connection.prepare(AGGREGATE).await?;
        let mut latencies = Vec::new();
        while Instant::now() < until {
            let start = Instant::now();
            ask(&connection, &statement, client << 32 | latencies.len() as u64).await?;
            latencies.push(start.elapsed().as_secs_f64());
        }
        Anything::Ok(latencies)
    };
    let (start, until) = (Instant::now(), Instant::now() + time);
    let tasks: Vec<_> =
        (0..clients as u64).map(|client| tokio::spawn(ask_until(client, until, config.clone()))).collect();
    gather(tasks, start).await
}

async fn insert_many(config: &Config, writers: usize, time: Duration) -> Anything<(f64, Vec<f64>)> {
    let client = connect(config).await?;
    client.batch_execute("CREATE TABLE events (at BIGINT, who TEXT, amount DOUBLE PRECISION)").await?;
    let insert_until = |writer: i64, until: Instant, config: Config| async move {
        let connection = connect(&config).await?;
        let statement = connection.prepare("INSERT INTO events VALUES ($1, $2, $3)").await?;
        let who = format!("writer {writer}");
        let mut latencies = Vec::new();
        while Instant::now() < until {
            let start = Instant::now();
            let at = latencies.len() as i64;
            connection.execute(&statement, &[&at, &who, &(at as f64 / 2.0)]).await?;
            latencies.push(start.elapsed().as_secs_f64());
        }
        Anything::Ok(latencies)
    };
    let (start, until) = (Instant::now(), Instant::now() + time);
    let tasks: Vec<_> =
        (0..writers as i64).map(|writer| tokio::spawn(insert_until(writer, until, config.clone()))).collect();
    let (rate, latencies) = gather(tasks, start).await?;
    let count: i64 = client.query_one("SELECT count(*) FROM events", &[]).await?.get(0);
    if count as usize != latencies.len() {
        return Err(format!("{} inserts were acknowledged, {count} rows are there", latencies.len()).into());
    }
    Ok((rate, latencies))
}

async fn gather(tasks: Vec<tokio::task::JoinHandle<Anything<Vec<f64>>>>, start: Instant) -> Anything<(f64, Vec<f64>)> {
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await??);
    }
    Ok((all.len() as f64 / start.elapsed().as_secs_f64(), all))
}
