//! `alluvia demo`: a stream at full speed, and the same question asked at three freshnesses.
//!
//! One task ingests durable batches as fast as it can; three sessions ask for the same aggregate with freshness 0 s, 5 s
//! and 'merged'. Every second the screen shows the ingest rate, how far each stage is, and what each answer cost and
//! how old it was. At the end everything is merged, the three answers must agree, and the process exits with 0.
//!
//! Invariant: once the database is open Ctrl-C ends it wherever it is, with 130, after what is being written; a temporary directory is
//! removed however it ends, once the database is closed.

mod retail;
mod screen;
mod stream;

use crate::{note, say};
use alluvia_node::{Database, DatabaseOptions};
use alluvia_types::{Error, ErrorKind, Result};
use clap::Args;
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
    /// Keeps the database here [default: a temporary folder].
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// The freshness settings that are compared.
const FRESHNESS: [&str; 3] = ["0s", "5s", "merged"];

/// The exit code after Ctrl-C, as shells have it.
const INTERRUPTED: u8 = 130;
/// How often, and how long apart, it is tried to remove the temporary directory.
const REMOVE_TRIES: u32 = 40;
const REMOVE_PAUSE: Duration = Duration::from_millis(50);

pub async fn run(args: DemoArgs) -> Result<ExitCode> {
    // First of all: until it is listened to, Ctrl-C ends the process where it is.
    let failed = |error| Error::new(ErrorKind::Io, format!("signals cannot be listened to: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let scratch = tempfile::tempdir().map_err(|error| Error::io(std::env::temp_dir(), "making a folder in", &error))?;
    let dir = args.dir.clone().unwrap_or_else(|| scratch.path().join("demo"));
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
    say(&format!(
        "\n{};\n\nThe question, asked again and again while rows stream in:\n  {}\n\n",
        feed.create, feed.question
    ))?;

    let stop = Arc::new(AtomicBool::new(false));
    let ingested = Arc::new(AtomicU64::new(0));
    let writer = tokio::spawn(feed.clone().write(db.session(), Arc::clone(&stop), Arc::clone(&ingested)));
    let askers: Vec<_> = FRESHNESS.map(|freshness| FreshnessProbe::start(&db, freshness, &feed.question, &stop)).into();
    let start = Instant::now();
    let watched = async {
        let mut screen = Screen::new();
        while start.elapsed() < Duration::from_secs(args.seconds) && !writer.is_finished() {
            tokio::time::sleep(Duration::from_secs(1)).await;
            screen.show(&db, start.elapsed(), ingested.load(Ordering::Relaxed), &askers).await?;
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
    tokio::select! {
        code = summary(&db, &feed, took, ingested.load(Ordering::Relaxed), &answered) => code.map(Some),
        _ = interrupt.recv() => Ok(None),
    }
}

/// Merges everything, asks once more at each freshness, and holds the answers against each other and the count of rows.
async fn summary(
    db: &Database,
    feed: &Feed,
    took: Duration,
    ingested: u64,
    answered: &[screen::Answered],
) -> Result<ExitCode> {
    let session = db.session();
    session.sql("CALL alluvia.merge()").await?;
    let count = stream::single(&session, &format!("SELECT count(*) FROM {}", feed.table)).await?;
    say("\nSummary\n")?;
    say(&format!(
        "  ingested  {ingested} rows in {:.1} s: {:.0} rows/s, every batch durable when acknowledged\n",
        took.as_secs_f64(),
        ingested as f64 / took.as_secs_f64()
    ))?;
    for answer in answered {
        say(&format!("  {answer}\n"))?;
    }
    let mut answers = Vec::new();
    for freshness in FRESHNESS {
        let session = db.session();
        session.sql(&format!("SET freshness = '{freshness}'")).await?;
        answers.push(stream::answer(&session, &feed.question).await?);
    }
    say(&format!("\n{}\n", answers[0]))?;
    if count != ingested.to_string() || answers.iter().any(|answer| *answer != answers[0]) {
        say(&format!(
            "\nDEFECT: {ingested} rows went in, {count} are counted; the answers at each freshness should agree once all is merged:\n"
        ))?;
        for answer in &answers {
            say(&format!("{answer}\n"))?;
        }
        return Ok(ExitCode::FAILURE);
    }
    say(&format!(
        "All {count} rows are there, and the answer is the same at every freshness now that all is merged.\n"
    ))?;
    Ok(ExitCode::SUCCESS)
}
