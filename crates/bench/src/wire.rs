//! `wire`: PostgreSQL's protocol, beside PostgreSQL itself on the same data.
//!
//! Both servers are processes of their own on loopback, and the same client asks both in turns: COPY in, a prepared aggregate by many
//! connections once its shape is resident, durable single-row inserts by many connections.

use crate::machine::percentile;
use crate::{Anything, Places};
use bytes::{BufMut, Bytes, BytesMut};
use clap::Args;
use futures::SinkExt;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Config, NoTls};

#[derive(Args)]
pub struct WireArgs {
    #[command(flatten)]
    places: Places,
    /// The server's program [default: `alluvia` beside this one].
    #[arg(long)]
    alluvia: Option<PathBuf>,
    /// Rows of the table.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// Connections that ask.
    #[arg(long, default_value_t = 16)]
    clients: usize,
    /// Connections that insert.
    #[arg(long, default_value_t = 64)]
    writers: usize,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
}

const COUNTRIES: u64 = 50;
const DAYS: u64 = 365;
/// 2025-01-01, in days since 2000-01-01.
const FIRST_DAY: i32 = 9_132;
const AGGREGATE: &str = "SELECT count(*), sum(price) FROM sales WHERE country = $1 AND day >= $2 AND day < $3";

/// A server that ends with its value.
struct Running {
    child: Child,
    config: Config,
    folder: Option<PathBuf>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let pid = self.child.id().to_string();
        // In order, so that it leaves nothing behind; a process that is gone already is as well.
        let _ = Command::new("kill").args(["-TERM", &pid]).status();
        let _ = self.child.wait();
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

pub async fn run(args: WireArgs) -> Anything<Value> {
    let scratch = tempfile::tempdir_in(&args.places.data)?;
    let program = match &args.alluvia {
        Some(program) => program.clone(),
        None => std::env::current_exe()?.with_file_name("alluvia"),
    };
    let mut figures = json!({
        "bench": "wire", "rows": args.rows, "clients": args.clients, "writers": args.writers, "seconds": args.seconds,
    });
    let start = Instant::now();
    let ours = alluvia(&program, &scratch.path().join("db"))?;
    figures["ready_ms"] = json!(start.elapsed().as_secs_f64() * 1e3);
    figures["idle_mib"] = json!(resident_mib(ours.child.id()));
    let peer = match postgres() {
        Ok(peer) => Some(peer),
        Err(error) => {
            eprintln!("PostgreSQL is not measured: {error}");
            None
        }
    };
    let create = "CREATE TABLE sales (country TEXT, day DATE, price DOUBLE PRECISION, quantity INT)";
    let with = " WITH (dimensions = 'country; day(day: year, month, day)', measures = 'price, quantity')";
    let mut servers = vec![("alluvia", &ours, format!("{create}{with}"))];
    if let Some(peer) = &peer {
        servers.push(("postgresql", peer, create.to_owned()));
    }
    let mut sums = Vec::new();
    for (name, server, create) in &servers {
        let client = connect(&server.config).await?;
        client.batch_execute(create).await?;
        let took = load(&client, args.rows).await?;
        let after = match *name {
            "alluvia" => "CALL alluvia.merge()",
            _ => "CREATE INDEX ON sales (country, day) INCLUDE (price); VACUUM ANALYZE sales",
        };
        for statement in after.split("; ") {
            client.batch_execute(statement).await?;
        }
        // Asked once, the shape is wanted; built, it is resident.
        sums.push(ask(&client, &client.prepare(AGGREGATE).await?, 7).await?);
        if *name == "alluvia" {
            client.batch_execute("CALL alluvia.build_cuboids()").await?;
        }
        figures[*name] = json!({ "copy_rows_per_s": args.rows as f64 / took });
        eprintln!("{name}: COPY {:.0} rows/s", args.rows as f64 / took);
    }
    if sums.windows(2).any(|pair| pair[0].0 != pair[1].0 || (pair[0].1 - pair[1].1).abs() > 1e-6 * pair[0].1.abs()) {
        return Err(format!("the servers answer differently: {sums:?}").into());
    }
    let time = Duration::from_secs(args.seconds);
    for (name, server, _) in &servers {
        let (rate, mut latencies) = ask_many(&server.config, args.clients, time).await?;
        let (p50, p99) = (percentile(&mut latencies, 0.5) * 1e3, percentile(&mut latencies, 0.99) * 1e3);
        eprintln!(
            "{name}: {rate:.0} prepared aggregates/s by {} connections, p50 {p50:.2} ms, p99 {p99:.2} ms",
            args.clients
        );
        figures[*name]["aggregates"] = json!({ "per_s": rate, "p50_ms": p50, "p99_ms": p99 });
    }
    for (name, server, _) in &servers {
        let (rate, mut latencies) = insert_many(&server.config, args.writers, time).await?;
        let (p50, p99) = (percentile(&mut latencies, 0.5) * 1e3, percentile(&mut latencies, 0.99) * 1e3);
        eprintln!(
            "{name}: {rate:.0} durable inserts/s by {} connections, p50 {p50:.2} ms, p99 {p99:.2} ms",
            args.writers
        );
        figures[*name]["inserts"] = json!({ "per_s": rate, "p50_ms": p50, "p99_ms": p99 });
    }
    Ok(figures)
}

/// Starts our server; ready when it says so.
fn alluvia(program: &Path, data: &Path) -> Anything<Running> {
    let mut child = Command::new(program)
        .arg("serve")
        .arg(data)
        .args(["--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{} could not be started: {error}", program.display()))?;
    let out = child.stdout.take().ok_or("the server has no output")?;
    let mut port = None;
    for line in BufReader::new(out).lines() {
        let line = line?;
        if let Some((_, rest)) = line.split_once(" -p ") {
            port = rest.split(' ').next().and_then(|port| port.parse::<u16>().ok());
            break;
        }
    }
    let mut config = Config::new();
    config.host("127.0.0.1").port(port.ok_or("the server did not start")?).user("alluvia").dbname("alluvia");
    // What each query used is for people.
    config.options("-c client_min_messages=warning");
    Ok(Running { child, config, folder: None })
}

/// A PostgreSQL of its own, if one is installed.
fn postgres() -> Anything<Running> {
    let programs = std::fs::read_dir("/usr/lib/postgresql").map_err(|_| "it is not installed")?;
    let bin = programs.flatten().map(|entry| entry.path().join("bin")).max().ok_or("it is not installed")?;
    // It refuses to run as root, and its files must be its own.
    let is_root = rustix::process::geteuid().is_root();
    let folder = std::env::temp_dir().join(format!("alluvia-bench-postgres-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    if is_root {
        Command::new("chown").arg("postgres").arg(&folder).status()?;
    }
    let command = |program: &str| {
        let path = bin.join(program);
        match is_root {
            true => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid", "postgres", "--regid", "postgres", "--clear-groups"]).arg(path);
                command
            }
            false => Command::new(path),
        }
    };
    let data = folder.join("data");
    let made = command("initdb").arg("-D").arg(&data).args(["-A", "trust", "-U", "alluvia"]).output()?;
    if !made.status.success() {
        return Err(format!("initdb failed: {}", String::from_utf8_lossy(&made.stderr)).into());
    }
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let child = command("postgres")
        .arg("-D")
        .arg(&data)
        .args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1", "-c", "shared_buffers=1GB"])
        .arg("-k")
        .arg(&folder)
        .stderr(Stdio::null())
        .spawn()?;
    let mut config = Config::new();
    config.host("127.0.0.1").port(port).user("alluvia").dbname("postgres");
    Ok(Running { child, config, folder: Some(folder) })
}

fn resident_mib(pid: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|kib| kib / 1024.0)
}

/// Connects; a server that is starting is waited for.
async fn connect(config: &Config) -> Anything<Client> {
    let mut tries = 0;
    loop {
        match config.connect(NoTls).await {
            Ok((client, connection)) => {
                tokio::spawn(connection);
                return Ok(client);
            }
            Err(error) if tries >= 200 => return Err(error.into()),
            Err(_) => {
                tries += 1;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// A pseudo-random number of a row.
fn mix(at: u64) -> u64 {
    let x = (at + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (x ^ x >> 31).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 17
}

/// COPY FROM STDIN of all rows, as text; gives seconds.
async fn load(client: &Client, rows: u64) -> Anything<f64> {
    let start = Instant::now();
    let mut sink = pin!(client.copy_in::<_, Bytes>("COPY sales FROM STDIN").await?);
    let mut buffer = BytesMut::with_capacity(1 << 16);
    for row in 0..rows {
        let random = mix(row);
        let (country, day) = (random % COUNTRIES, random / 64 % DAYS);
        let (month, day) = (1 + day / 31, 1 + day % 28);
        let line = format!("country {country}\t2025-{month:02}-{day:02}\t{}.25\t{}\n", random / 7 % 1000, random % 9);
        buffer.put_slice(line.as_bytes());
        if buffer.len() > 60_000 {
            sink.send(buffer.split().freeze()).await?;
        }
    }
    sink.send(buffer.freeze()).await?;
    let copied = sink.finish().await?;
    if copied != rows {
        return Err(format!("{copied} of {rows} rows were copied").into());
    }
    Ok(start.elapsed().as_secs_f64())
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
    let firsts = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365];
    let low = (random / 64 % 12) as usize;
    let high = low + 1 + (random / 1024 % (12 - low as u64)) as usize;
    let row =
        client.query_one(statement, &[&country, &Day(FIRST_DAY + firsts[low]), &Day(FIRST_DAY + firsts[high])]).await?;
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
