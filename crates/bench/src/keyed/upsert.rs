//! `upsert`: durable batches of which half replace rows and half are new, beside PostgreSQL, DuckDB and RocksDB, in turns of some
//! seconds; then boxes over the table beside the same rows in a table of which nothing was ever replaced.
//!
//! Every engine's count and sum are checked against what its batches come to.

use crate::keyed::ours::{check, load, options, rows, state};
use crate::keyed::peers::{Child, Files};
use crate::keyed::postgres::{Postgres, Upserts};
use crate::keyed::rows::{Keyed, create, quantities};
use crate::keyed::seconds;
use crate::machine::{median, percentile};
use crate::retail::{DIMENSIONS, Random};
use crate::{Anything, Folders};
use alluvia_node::{Database, DatabaseOptions};
use alluvia_query::Session;
use clap::Args;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Args)]
pub struct UpsertArgs {
    #[command(flatten)]
    folders: Folders,
    /// Rows in place before.
    #[arg(long, default_value_t = 20_000_000)]
    rows: u64,
    /// Rows of a durable batch.
    #[arg(long, default_value_t = 10_000)]
    batch_rows: usize,
    /// Turns of each engine; medians are shown.
    #[arg(long, default_value_t = 6)]
    turns: usize,
    /// Seconds of a turn.
    #[arg(long, default_value_t = 10.0, value_parser = seconds)]
    seconds: f64,
    /// Draws the keys that are replaced by Zipf's law with exponent 1.
    #[arg(long)]
    zipf: bool,
    /// Boxes that are asked afterwards.
    #[arg(long, default_value_t = 24)]
    boxes: usize,
    /// Leaves the peers out.
    #[arg(long)]
    alone: bool,
    /// Memory limit of the project.
    #[arg(long)]
    memory_limit: Option<String>,
}

/// Answers of a box that are timed; the middle one counts.
const ASKED: usize = 9;

pub async fn run(args: UpsertArgs) -> Anything<Value> {
    let keyed = Keyed::new(args.rows, args.batch_rows, args.zipf)?;
    let base = keyed.base(&args.folders.data)?;
    let scratch = tempfile::tempdir_in(&args.folders.data)?;
    let db = Arc::new(Database::open_with(scratch.path().join("db"), options(args.memory_limit.as_ref())?)?);
    let session = db.session();
    load(&session, &create(DIMENSIONS, true), &base).await?;
    let (mut postgres, mut children) = (None, Vec::new());
    if !args.alone {
        match Postgres::start(&create(DIMENSIONS, false), &base, "*").await {
            Ok(peer) => postgres = Some((peer, Upserts::new(&keyed)?)),
            Err(error) => eprintln!("PostgreSQL is not measured: {error}"),
        }
        let batches = keyed.batches(&args.folders.data)?;
        let files = Files { base: base.clone(), batches, batch_rows: args.batch_rows };
        for engine in ["duckdb", "rocksdb"] {
            let package = if engine == "rocksdb" { "rocksdict" } else { engine };
            match Child::start(engine, package, &args.folders, &files, scratch.path()) {
                Ok(child) => children.push((engine, child, 0, Vec::new())),
                Err(error) => eprintln!("{engine} is not measured: {error}"),
            }
        }
    }
    let (mut applied, mut speeds, mut latencies) = (0, Vec::new(), Vec::new());
    let (mut applied_there, mut speeds_there) = (0, Vec::new());
    for turn in 0..args.turns {
        let (batches, speed) = ours(&session, &keyed, applied, args.seconds, &mut latencies).await?;
        eprintln!("turn {turn}: alluvia {speed:.0} rows/s");
        applied += batches;
        speeds.push(speed);
        if let Some((postgres, upserts)) = &postgres {
            let (batches, speed) = upserts.apply_for(postgres, applied_there, args.seconds).await?;
            eprintln!("turn {turn}: postgresql {speed:.0} rows/s");
            applied_there += batches;
            speeds_there.push(speed);
        }
        for (engine, child, applied, speeds) in &mut children {
            let (batches, speed) = child.apply("upsert", *applied, args.seconds)?;
            eprintln!("turn {turn}: {engine} {speed:.0} rows/s");
            *applied += batches;
            speeds.push(speed);
        }
    }
    let quantities = quantities(&base)?;
    let check = |name: &str, batches: u64, found: (u64, i64)| {
        check(name, "rows and quantity", &found, &keyed.state(quantities.clone(), batches))
    };
    check("alluvia", applied, state(&session).await?)?;
    let rate = median(&mut speeds);
    let mut figures = json!({
        "bench": "upsert", "rows": args.rows, "batch_rows": args.batch_rows, "turns": args.turns, "seconds": args.seconds,
        "zipf": args.zipf, "rows_per_s": rate, "turns_rows_per_s": speeds, "rows_after": keyed.rows_after(applied),
        "batch_p50_ms": percentile(&mut latencies, 0.5) * 1e3, "batch_p99_ms": percentile(&mut latencies, 0.99) * 1e3,
    });
    if let Some((postgres, _)) = &postgres {
        check("postgresql", applied_there, postgres.state().await?)?;
        let theirs = median(&mut speeds_there);
        figures["postgresql"] = json!({ "version": postgres.version, "rows_per_s": theirs });
        figures["to_postgresql"] = json!(rate / theirs);
    }
    for (engine, child, applied, speeds) in &mut children {
        check(engine, *applied, child.state()?)?;
        let theirs = median(speeds);
        figures[*engine] = json!({ "version": child.version, "rows_per_s": theirs });
        let name = if *engine == "rocksdb" { "to_lsm" } else { "to_duckdb" };
        figures[name] = json!(rate / theirs);
    }
    drop((postgres, children));
    if args.boxes > 0 {
        figures["boxes"] = boxes(&session, scratch.path(), args.boxes).await?;
        for ratio in ["cold_to_clean", "resident_to_clean"] {
            figures[ratio] = figures["boxes"][ratio].clone();
        }
    }
    Ok(figures)
}

/// Batches from one on for so many seconds: how many, and rows a second.
async fn ours(
    session: &Session,
    keyed: &Keyed,
    from: u64,
    seconds: f64,
    latencies: &mut Vec<f64>,
) -> Anything<(u64, f64)> {
    let (start, mut number) = (Instant::now(), from);
    while start.elapsed() < Duration::from_secs_f64(seconds) {
        let sent = Instant::now();
        session.append("t", vec![keyed.batch(number)?]).await?;
        latencies.push(sent.elapsed().as_secs_f64());
        number += 1;
    }
    let batches = number - from;
    Ok((batches, (batches * keyed.batch_rows as u64) as f64 / start.elapsed().as_secs_f64()))
}

/// Some boxes over the table as it is, and over its rows in a database of their own: without cuboids, and with.
async fn boxes(session: &Session, scratch: &Path, count: usize) -> Anything<Value> {
    let file = scratch.join("rows.parquet");
    session.sql(&format!("COPY t TO '{}'", file.display())).await?;
    let db = Arc::new(Database::open_with(scratch.join("clean"), DatabaseOptions::default())?);
    let clean = db.session();
    load(&clean, &create(DIMENSIONS, true), &file).await?;
    let sessions = [session, &clean];
    let mut random = Random(5);
    let questions: Vec<String> = (0..count).map(|_| question(&mut random)).collect();
    let mut figures = json!({ "boxes": count });
    for (name, cuboids) in [("cold", "off"), ("resident", "on")] {
        for session in sessions {
            session.sql(&format!("SET cuboids = {cuboids}")).await?;
        }
        if cuboids == "on" {
            for session in sessions {
                for question in &questions {
                    rows(session, question).await?;
                }
                session.sql("CALL alluvia.build_cuboids()").await?;
            }
        }
        let (mut all, mut of_clean, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for question in &questions {
            let mut times = [Vec::new(), Vec::new()];
            let mut answers = Vec::new();
            for turn in 0..ASKED {
                for (session, times) in sessions.into_iter().zip(&mut times) {
                    let asked = Instant::now();
                    let answer = rows(session, question).await?;
                    times.push(asked.elapsed().as_secs_f64());
                    if turn == 0 {
                        answers.push(arrow::util::pretty::pretty_format_batches(&answer)?.to_string());
                    }
                }
            }
            if answers.windows(2).any(|pair| pair[0] != pair[1]) {
                return Err(format!("answers differ: {question}: {answers:?}").into());
            }
            let [dirty, clean] = times.each_mut().map(|times| median(times));
            ratios.push(dirty / clean);
            all.push(dirty);
            of_clean.push(clean);
        }
        let (dirty_ms, clean_ms) = (median(&mut all) * 1e3, median(&mut of_clean) * 1e3);
        eprintln!("{name}: boxes {dirty_ms:.3} ms, {clean_ms:.3} ms where no row was replaced");
        figures[format!("{name}_ms")] = json!(dirty_ms);
        figures[format!("{name}_clean_ms")] = json!(clean_ms);
        figures[format!("{name}_to_clean")] = json!(median(&mut ratios));
    }
    Ok(figures)
}

/// A box of members of one to three dimensions.
fn question(random: &mut Random) -> String {
    let mut parts: Vec<String> = Vec::new();
    for _ in 0..1 + random.next() % 3 {
        let (_, levels) = DIMENSIONS[(random.next() % DIMENSIONS.len() as u64) as usize];
        let level = (random.next() % levels.len() as u64) as usize;
        let members: usize = levels[..=level].iter().map(|level| level.1).product();
        let name = levels[level].0;
        if parts.iter().all(|part| !part.starts_with(&format!("{name} "))) {
            parts.push(format!("{name} = '{name}-{:05}'", random.next() % members as u64));
        }
    }
    format!("SELECT count(*), sum(quantity) FROM t WHERE {}", parts.join(" AND "))
}
