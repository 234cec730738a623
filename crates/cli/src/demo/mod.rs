//! `alluvia demo`: a stream at full speed, and the same question asked at three freshnesses.
//!
//! One task ingests durable batches as fast as it can; three sessions ask for the same aggregate with freshness 0 s, 5 s
//! and 'merged'. Every second the screen shows the ingest rate, how far each stage is, and what each answer cost and
//! how old it was. At the end everything is merged, the three answers must agree, and the process exits with 0.

mod retail;
mod screen;
mod stream;

use alluvia_node::{Database, DatabaseOptions};
use alluvia_types::{Error, Result};
use clap::Args;
use screen::{Asked, Screen};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use stream::Feed;

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

pub async fn run(args: DemoArgs) -> Result<ExitCode> {
    let scratch = tempfile::tempdir().map_err(|error| Error::io(std::env::temp_dir(), "making a folder in", &error))?;
    let dir = args.dir.clone().unwrap_or_else(|| scratch.path().join("demo"));
    println!("Alluvia demo: data directory {}", dir.display());
    let db = Arc::new(Database::open_with(&dir, DatabaseOptions::default())?);
    let feed = match &args.data {
        None => Feed::retail(&db).await?,
        Some(file) => Feed::file(&db, file).await?,
    };
    println!("\n{};\n\nThe question, asked again and again while rows stream in:\n  {}\n", feed.create, feed.question);

    let stop = Arc::new(AtomicBool::new(false));
    let ingested = Arc::new(AtomicU64::new(0));
    let writer = tokio::spawn(feed.clone().write(db.session(), Arc::clone(&stop), Arc::clone(&ingested)));
    let askers: Vec<_> = FRESHNESS.map(|freshness| Asked::start(&db, freshness, &feed.question, &stop)).into();
    let start = Instant::now();
    let mut screen = Screen::new();
    while start.elapsed() < Duration::from_secs(args.seconds) {
        tokio::time::sleep(Duration::from_secs(1)).await;
        screen.show(&db, start.elapsed(), ingested.load(Ordering::Relaxed), &askers).await?;
        if writer.is_finished() {
            break;
        }
    }
    stop.store(true, Ordering::Relaxed);
    writer.await.map_err(|error| Error::internal(format!("the demo's writer: {error}")))??;
    let took = start.elapsed();
    let mut answered = Vec::new();
    for asker in askers {
        answered.push(asker.finish().await?);
    }
    summary(&db, &feed, took, ingested.load(Ordering::Relaxed), &answered).await
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
    println!("\nSummary");
    println!(
        "  ingested  {ingested} rows in {:.1} s: {:.0} rows/s, every batch durable when acknowledged",
        took.as_secs_f64(),
        ingested as f64 / took.as_secs_f64()
    );
    for answer in answered {
        println!("  {answer}");
    }
    let mut answers = Vec::new();
    for freshness in FRESHNESS {
        let session = db.session();
        session.sql(&format!("SET freshness = '{freshness}'")).await?;
        answers.push(stream::answer(&session, &feed.question).await?);
    }
    println!("\n{}", answers[0]);
    if count != ingested.to_string() || answers.iter().any(|answer| *answer != answers[0]) {
        println!(
            "\nDEFECT: {ingested} rows went in, {count} are counted; the answers at each freshness should agree once all is merged:"
        );
        answers.iter().for_each(|answer| println!("{answer}"));
        return Ok(ExitCode::FAILURE);
    }
    println!("All {count} rows are there, and the answer is the same at every freshness now that all is merged.");
    Ok(ExitCode::SUCCESS)
}
