//! The last scene: a process that ingests is killed, and nothing that it acknowledged is lost.
//!
//! Invariants:
//! - Whoever ingests is another process of this program, which is ended by SIGKILL in the middle of its work.
//! - What it says is said after the acknowledgement: so the count after the restart may be one batch more, and never less.

use super::stream::single;
use crate::recovery::in_words;
use crate::say;
use alluvia_node::{Database, DatabaseOptions};
use alluvia_types::{Error, ErrorKind, Result};
use arrow::record_batch::RecordBatch;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Rows of its batches.
const BATCH_ROWS: usize = 1_000;
/// How long it ingests.
const LIFE: Duration = Duration::from_secs(2);
/// What it says before the number of rows.
const SAID: &str = "acknowledged ";

/// Ingests until it is killed: rows of the table, over and over. Says after each batch how many rows were acknowledged.
pub async fn ingest(dir: &Path, table: &str) -> Result<()> {
    let db = Database::open_with(dir, DatabaseOptions::default())?;
    let session = db.session();
    let rows = session.sql(&format!("SELECT * FROM {table} LIMIT {BATCH_ROWS}")).await?.collect().await?;
    let each: usize = rows.iter().map(RecordBatch::num_rows).sum();
    let mut all = 0;
    loop {
        session.append(table, rows.clone()).await?;
        all += each;
        say(&format!("{SAID}{all}\n"))?;
    }
}

/// Shows it; `dir` has the database, which nobody has open. Whether nothing was lost.
pub async fn scene(dir: &Path, table: &'static str, before: u64) -> Result<bool> {
    say("\n== kill -9: a process of its own ingests, and is killed in the middle of it\n")?;
    let path = dir.to_owned();
    let acknowledged = tokio::task::spawn_blocking(move || killed(&path, table)).await;
    let acknowledged = acknowledged.map_err(|error| Error::internal(format!("the process to kill: {error}")))??;
    let start = Instant::now();
    let db = Database::open_with(dir, DatabaseOptions::default())?;
    let took = start.elapsed();
    if let Some(recovery) = db.recovery() {
        say(&format!("   Opened again: {}.\n", in_words(recovery)))?;
    }
    let count = single(&db.session(), &format!("SELECT count(*) FROM {table}")).await?;
    let counted: u64 = count.parse().map_err(|_| Error::internal(format!("a count is {count}")))?;
    let expected = before + acknowledged;
    say(&format!(
        "   It had acknowledged {acknowledged} more rows. Opened again in {:.2} s: {counted} rows are there, {expected} must be.\n",
        took.as_secs_f64()
    ))?;
    if counted < expected {
        say(&format!("   DEFECT: {} rows are lost.\n", expected - counted))?;
        return Ok(false);
    }
    match counted - expected {
        0 => say("   Nothing is lost.\n")?,
        more => say(&format!(
            "   Nothing is lost. ({more} rows more: a batch was durable, and the process died before it could say so.)\n"
        ))?,
    }
    Ok(true)
}

/// Runs the process and kills it. Gives the rows that were acknowledged.
fn killed(dir: &Path, table: &str) -> Result<u64> {
    let failed = |what: &str, error: &std::io::Error| Error::new(ErrorKind::Io, format!("{what}: {error}"));
    let program = std::env::current_exe().map_err(|error| failed("finding this program", &error))?;
    let mut child = Command::new(program)
        .args(["demo", "--until-killed", table, "--keep"])
        .arg(dir)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| failed("starting the process that is to be killed", &error))?;
    let lines = child.stdout.take().map(BufReader::new);
    let (mut acknowledged, mut began) = (0, None);
    for line in lines.into_iter().flat_map(BufRead::lines) {
        let line = line.map_err(|error| failed("reading what the process says", &error))?;
        let Some(rows) = line.strip_prefix(SAID).and_then(|rows| rows.parse().ok()) else { continue };
        acknowledged = rows;
        // What it has said before it dies is still read.
        if began.get_or_insert_with(Instant::now).elapsed() > LIFE {
            child.kill().map_err(|error| failed("killing the process", &error))?;
        }
    }
    let ended = child.wait().map_err(|error| failed("waiting for the process", &error))?;
    if ended.code().is_some() {
        return Err(Error::internal(format!("the process that was to be killed ended by itself: {ended}")));
    }
    Ok(acknowledged)
}
