//! The cost of spans in a short statement: `cargo run --example span_cost [STATEMENTS]`.
//!
//! Three processes in turns, each with a database of its own and one session in it, which asks the same aggregate again and again, answered
//! from memory: *off* makes no spans, as a server without `otlp_endpoint`; *unsent* makes them and sends none (`otlp_share = 0`); *sent*
//! gives all of them to a collector that takes whatever comes. The figures are medians of the statements' times, and their ratio to *off*.
//! A subscriber holds for its process, so that the three cannot be one.
#![allow(clippy::disallowed_methods)] // an example measures with the machine's clock

use alluvia_node::{Database, DatabaseOptions};
use alluvia_telemetry::{Endpoint, Spans, traces};
use alluvia_types::{Error, ErrorKind, Result};
use futures::TryStreamExt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::time::Instant;
use tracing_subscriber::Layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

const MODES: [&str; 3] = ["off", "unsent", "sent"];
const TURNS: usize = 5;
const ROWS: u64 = 200_000;
const QUESTION: &str = "SELECT country, sum(price), count(*) FROM sales WHERE item = 'item 7' GROUP BY country";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [mode, statements] if MODES.contains(&mode.as_str()) => {
            println!("{}", measured(mode, statements.parse().unwrap_or(20_000))?);
            Ok(())
        }
        rest => compared(rest.first().map_or("20000", String::as_str)),
    }
}

fn failed(what: &str, error: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::Io, format!("{what} failed: {error}"))
}

/// Runs the three in turns, and prints what they say.
fn compared(statements: &str) -> Result<()> {
    let program = std::env::current_exe().map_err(|error| failed("finding this program", &error))?;
    let mut found = [const { Vec::new() }; 3];
    for turn in 0..TURNS {
        // The first of a turn is another each time.
        for at in (0..MODES.len()).map(|at| (at + turn) % MODES.len()) {
            let out = Command::new(&program).args([MODES[at], statements]).output();
            let out = out.map_err(|error| failed("running it", &error))?;
            let text = String::from_utf8_lossy(&out.stdout);
            let micros: f64 = text
                .trim()
                .parse()
                .map_err(|_| failed(MODES[at], &format!("{text}{}", String::from_utf8_lossy(&out.stderr))))?;
            found[at].push(micros);
        }
    }
    let [off, ..] = found.each_ref().map(|micros| median(micros.clone()));
    for (mode, micros) in MODES.iter().zip(found) {
        let micros = median(micros);
        println!("{mode:>6}: {micros:7.2} us a statement, {:.3} of off", micros / off);
    }
    Ok(())
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// The median of the statements' times in one mode, in microseconds.
fn measured(mode: &str, statements: usize) -> Result<f64> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| failed("making threads", &error))?;
    runtime.block_on(async {
        let exporter = match mode {
            "off" => None,
            _ => {
                let endpoint = Endpoint::parse(&format!("http://{}", collector()?), || {
                    Err(Error::new(ErrorKind::InvalidSetting, "nothing is sent over TLS"))
                })?;
                let (spans, exporter) = traces(endpoint, if mode == "sent" { 1.0 } else { 0.0 });
                tracing_subscriber::registry().with(spans.with_filter(Spans::filter())).init();
                Some(exporter)
            }
        };
        let dir = tempfile::tempdir().map_err(|error| failed("making a folder", &error))?;
        let db = Database::open_with(dir.path().join("db"), DatabaseOptions::default())?;
        let session = db.session();
        let rows = format!(
            "INSERT INTO sales SELECT 'country ' || (value % 20), 'item ' || (value % 300), (value % 1000) * 0.25 FROM generate_series(1, {ROWS})"
        );
        for sql in [
            "CREATE TABLE sales (country TEXT, item TEXT, price DOUBLE) WITH (dimensions = 'country; item', measures = 'price')",
            rows.as_str(),
            "CALL alluvia.merge()",
        ] {
            for statement in session.parse(sql)? {
                session.execute(statement).await?;
            }
        }
        let prepared = session.prepare(QUESTION)?;
        let mut micros = Vec::with_capacity(statements);
        // The first half warms what is kept: plans, cuboids.
        for _ in 0..2 * statements {
            let start = Instant::now();
            let mut outcome = session.execute_prepared(&prepared, &[]).await?;
            if let Some(rows) = outcome.rows.take() {
                let all: Vec<_> = rows.try_collect().await.map_err(alluvia_query::from_datafusion)?;
                drop(all);
            }
            drop(outcome);
            micros.push(start.elapsed().as_secs_f64() * 1e6);
        }
        let median = median(micros.split_off(statements));
        if let Some(exporter) = exporter {
            exporter.stop().await;
        }
        Ok(median)
    })
}

/// A collector that takes whatever comes.
fn collector() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| failed("listening", &error))?;
    let address = listener.local_addr().map_err(|error| failed("listening", &error))?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(&stream);
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).is_ok_and(|count| count > 2) {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                    length = value.trim().parse().unwrap_or(0);
                }
                line.clear();
            }
            let mut body = vec![0; length];
            let _ = reader.read_exact(&mut body);
            let _ = (&stream).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        }
    });
    Ok(address)
}
