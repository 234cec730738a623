//! `alluvia demo`: in a minute, what the database is for.
//!
//! One task ingests durable batches at the pace that the machine keeps; three sessions ask for the same aggregate with freshness 0 s, 5 s
//! and 'merged', and the screen shows every second how far each stage is. Then the stream stops: the answers must agree, a cuboid answers
//! in microseconds, an estimate closes, and a process that ingests is killed and loses nothing. Exits with 0 if all of it held.
//!
//! Invariant: once the database is open Ctrl-C ends it wherever it is, with 130, after what is being written; a temporary directory is
//! removed however it ends, once the database is closed.

mod killed;
mod pace;
mod retail;
mod scenes;
mod screen;
mod stream;

use crate::{note, say};
use alluvia_node::{Database, DatabaseOptions};
use alluvia_types::{Error, ErrorKind, Result};
use clap::Args;
use pace::Pace;
use screen::{FreshnessProbe, Screen};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use stream::Feed;
use tempfile::TempDir;
use tokio::signal::unix::{Signal, SignalKind, signal};

#[derive(Args)]
pub struct DemoArgs {
    /// Streams the rows of this file (CSV, NDJSON, Parquet, Arrow) instead of the built-in retail stream.
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// How long to ingest.
    #[arg(long, default_value_t = 15)]
    seconds: u64,
    /// Keeps the database here [default: a temporary folder, which is removed].
    #[arg(long, alias = "dir", value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Ingests into this table of the kept database until it is killed: the process that the demo kills.
    #[arg(long, hide = true, requires = "keep")]
    until_killed: Option<String>,
}

/// The freshness settings that are compared.
const FRESHNESS: [&str; 3] = ["0s", "5s", "merged"];

/// The exit code after Ctrl-C, as shells have it.
const INTERRUPTED: u8 = 130;
/// How often, and how long apart, it is tried to remove the temporary directory.
const REMOVE_TRIES: u32 = 40;
const REMOVE_PAUSE: Duration = Duration::from_millis(50);

pub async fn run(args: DemoArgs) -> Result<ExitCode> {
    if let (Some(table), Some(dir)) = (&args.until_killed, &args.keep) {
        killed::ingest(dir, table).await?;
    }
    // First of all: until it is listened to, Ctrl-C ends the process where it is.
    let failed = |error| Error::new(ErrorKind::Io, format!("signals cannot be listened to: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let scratch = tempfile::tempdir().map_err(|error| Error::io(std::env::temp_dir(), "making a folder in", &error))?;
    let dir = args.keep.clone().unwrap_or_else(|| scratch.path().join("demo"));
    say(&format!("Alluvia demo: data directory {}\n", dir.display()))?;
    let ended = show(&args, &dir, &mut interrupt).await;
    remove(scratch).await;
    Ok(ended?.unwrap_or(ExitCode::from(INTERRUPTED)))
}

/// Removes the temporary directory. A statement that was stopped may write into it for another moment.
async fn remove(scratch: TempDir) {
    let path = scratch.path().to_owned();
    for _ in 0..REMOVE_TRIES {
        if std::fs::remove_dir_all(&path).is_ok() || !path.exists() {
            return;
        }
        tokio::time::sleep(REMOVE_PAUSE).await;
    }
    note(format_args!("NOTICE: {} could not be removed", path.display()));
}

/// The demo in this directory; `None` if Ctrl-C ended it. The database is closed when it returns.
async fn show(args: &DemoArgs, dir: &Path, interrupt: &mut Signal) -> Result<Option<ExitCode>> {
    let db = Arc::new(Database::open_with(dir, DatabaseOptions::default())?);
    let fed = async {
        match &args.data {
            None => Feed::retail(&db).await,
            Some(file) => Feed::file(&db, file).await,
        }
    };
    let feed = tokio::select! {
        feed = fed => feed?,
        _ = interrupt.recv() => return Ok(None),
    };
    let Some(ingested) = stream(args, &db, &feed, interrupt).await? else { return Ok(None) };
    let told = async {
        let is_right = scenes::all_the_same(&db, &feed, ingested).await?;
        scenes::by_cuboid(&db, &feed).await?;
        scenes::estimated(&db, &feed).await?;
        Ok::<bool, Error>(is_right)
    };
    let is_right = tokio::select! {
        is_right = told => is_right?,
        _ = interrupt.recv() => return Ok(None),
    };
    drop(db);
    let is_whole = tokio::select! {
        is_whole = killed::scene(dir, feed.table, ingested) => is_whole?,
        _ = interrupt.recv() => return Ok(None),
    };
    go_on(args, dir)?;
    Ok(Some(if is_right && is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE }))
}

/// The stream and the questions beside it. How many rows came; `None` if Ctrl-C ended it.
async fn stream(args: &DemoArgs, db: &Arc<Database>, feed: &Feed, interrupt: &mut Signal) -> Result<Option<u64>> {
    say(&format!(
        "\n== A stream of rows, each batch atomic and durable when it is acknowledged, into\n\n{};\n\n   and one question, asked again and again while they come:\n     {}\n\n",
        feed.create, feed.question
    ))?;
    let stop = Arc::new(AtomicBool::new(false));
    let ingested = Arc::new(AtomicU64::new(0));
    let pace = Arc::new(Pace::new());
    let writer = feed.clone().write(db.session(), Arc::clone(&pace), Arc::clone(&stop), Arc::clone(&ingested));
    let writer = tokio::spawn(writer);
    let askers: Vec<_> = FRESHNESS.map(|freshness| FreshnessProbe::start(db, freshness, &feed.question, &stop)).into();
    let start = Instant::now();
    let watched = async {
        let mut screen = Screen::new();
        while start.elapsed() < Duration::from_secs(args.seconds) && !writer.is_finished() {
            tokio::time::sleep(Duration::from_secs(1)).await;
            screen.show(db, start.elapsed(), ingested.load(Ordering::Relaxed), &askers, &pace).await?;
        }
        Ok::<(), Error>(())
    };
    let watched = tokio::select! {
        watched = watched => Some(watched),
        _ = interrupt.recv() => None,
    };
    // Whatever has ended it: nobody works on the database when its directory goes.
    stop.store(true, Ordering::Relaxed);
    let wrote = writer.await.map_err(|error| Error::internal(format!("the demo's writer: {error}")));
    let took = start.elapsed();
    let mut answered = Vec::new();
    for asker in askers {
        answered.push(asker.finish().await);
    }
    let Some(watched) = watched else { return Ok(None) };
    watched?;
    wrote??;
    let answered: Vec<screen::Answered> = answered.into_iter().collect::<Result<_>>()?;
    let rows = ingested.load(Ordering::Relaxed);
    say(&format!(
        "\n== How fresh, says the reader\n   {rows} rows came in {:.1} s: {:.0} a second, at the pace that this machine keeps beside the questions.\n",
        took.as_secs_f64(),
        rows as f64 / took.as_secs_f64()
    ))?;
    for answer in answered {
        say(&format!("   {answer}\n"))?;
    }
    Ok(Some(rows))
}

/// What one can do next.
fn go_on(args: &DemoArgs, dir: &Path) -> Result<()> {
    if args.keep.is_none() {
        return say("\nGo on: `alluvia demo --keep ./demo` leaves its database, and says how to ask it more.\n");
    }
    let dir = dir.display();
    say(&format!(
        "\nGo on with the database that this has left:\n  alluvia sql {dir}      # a prompt: SHOW TABLES; EXPLAIN ANALYZE SELECT ...\n  alluvia serve {dir}    # for psql and every driver of PostgreSQL, HTTP, Flight SQL\n  alluvia check {dir}    # every checksum and invariant\n"
    ))
}
