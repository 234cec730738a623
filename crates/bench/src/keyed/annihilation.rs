//! `annihilation`: a few hot keys of a large table are updated all the time. Rows that came and were replaced before a sort go nowhere, so
//! the disk should grow by next to nothing of what came, and the tail should stay as long as it is.
//!
//! Writers share the keys, and each knows what it wrote last: that is what must be there afterwards, and after a merge. Meanwhile no row
//! may come or go. Growth is told with the log and without, for of a log only whole files go.

use crate::keyed::ours::{check, load, numbers, options, rows, state};
use crate::keyed::rows::{base, create, quantities, with_keys};
use crate::keyed::seconds;
use crate::machine::percentile;
use crate::retail::{DIMENSIONS, Retail};
use crate::{Anything, Folders};
use alluvia_node::Database;
use alluvia_query::Session;
use alluvia_snapshot::Admin;
use alluvia_types::Stage;
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use arrow::util::display::array_value_to_string;
use clap::Args;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[derive(Args)]
pub struct AnnihilationArgs {
    #[command(flatten)]
    folders: Folders,
    /// Rows of the table.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// Hot keys, spread over the table's.
    #[arg(long, default_value_t = 1_000)]
    keys: usize,
    /// Updates a second, all writers together.
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..))]
    rate: u64,
    /// Seconds of updates.
    #[arg(long, default_value_t = 30.0, value_parser = seconds)]
    seconds: f64,
    /// Writers that share keys and rate.
    #[arg(long, default_value_t = 2)]
    writers: usize,
    /// Rows of a durable batch, each of another key: at most a writer's share of the keys.
    #[arg(long, default_value_t = 500)]
    batch_rows: usize,
    /// Memory limit of the project.
    #[arg(long)]
    memory_limit: Option<String>,
}

/// Different batches of a writer.
const TEMPLATES: usize = 64;
/// Between looks at the files and the tail.
const LOOK: Duration = Duration::from_millis(250);
/// What of a hot row is compared.
const COMPARED: [&str; 3] = ["city", "price", "quantity"];

pub async fn run(args: AnnihilationArgs) -> Anything<Value> {
    let writers = writers(&args)?;
    let base = base(&args.folders.data, args.rows)?;
    let scratch = tempfile::tempdir_in(&args.folders.data)?;
    let dir = scratch.path().join("db");
    let db = Arc::new(Database::open_with(&dir, options(args.memory_limit.as_ref())?)?);
    let session = db.session();
    load(&session, &create(DIMENSIONS, true), &base).await?;
    let (before, published) = (settled(&dir).await, db.core().info().published.bytes);

    let stop = Arc::new(AtomicBool::new(false));
    let looks = tokio::spawn(look(Arc::clone(&db), dir.clone(), before, Arc::clone(&stop)));
    let start = Instant::now();
    let time = Duration::from_secs_f64(args.seconds);
    let rate = args.rate as f64 / args.writers as f64;
    let tasks: Vec<_> =
        writers.iter().map(|writer| tokio::spawn(Arc::clone(writer).write(db.session(), rate, time))).collect();
    let mut asked = 0;
    while start.elapsed() < time {
        let found = numbers(&session, "SELECT count(*) FROM t").await?;
        check("alluvia", "rows, while keys are updated", &found, &vec![args.rows as i64])?;
        asked += 1;
        let pause = (time / 10).min(Duration::from_secs(1));
        tokio::time::sleep(pause.min(time.saturating_sub(start.elapsed()))).await;
    }
    let (mut batches, mut latencies) = (Vec::new(), Vec::new());
    for task in tasks {
        let of_writer = task.await??;
        batches.push(of_writer.len() as u64);
        latencies.extend(of_writer);
    }
    let took = start.elapsed().as_secs_f64();
    let end = bytes_of(&dir);
    stop.store(true, Ordering::Relaxed);
    let looks = looks.await?;
    let update_bytes = db.core().info().published.bytes - published;

    let wanted = last_rows(&writers, &batches)?;
    let step = args.rows / args.keys as u64;
    let sums = wanted_state(&quantities(&base)?, &wanted)?;
    check("alluvia", "rows and quantity", &state(&session).await?, &sums)?;
    check_hot("alluvia", &hot_rows(&session, step, args.keys, &wanted).await?, &wanted)?;
    session.sql("CALL alluvia.flush()").await?;
    session.sql("CALL alluvia.merge()").await?;
    check("alluvia, merged", "rows and quantity", &state(&session).await?, &sums)?;
    check_hot("alluvia, merged", &hot_rows(&session, step, args.keys, &wanted).await?, &wanted)?;
    let merged = settled(&dir).await;
    let log = [before.log, merged.log];
    let growth = merged.all as f64 - before.all as f64;
    let growth_without_log = growth - (log[1] as f64 - log[0] as f64);
    let updates = batches.iter().sum::<u64>() * args.batch_rows as u64;
    let ratio = |bytes: f64| bytes / update_bytes.max(1) as f64;
    eprintln!(
        "{updates} updates of {:.1} MB, {:.0} a second: the disk grew by {:.2} MB, {:.3} % of them; without the log {:.2} MB, {:.3} %",
        update_bytes as f64 / 1e6,
        updates as f64 / took,
        growth / 1e6,
        ratio(growth) * 100.0,
        growth_without_log / 1e6,
        ratio(growth_without_log) * 100.0
    );
    Ok(json!({
        "bench": "annihilation", "rows": args.rows, "keys": args.keys, "writers": args.writers, "batch_rows": args.batch_rows,
        "seconds": args.seconds, "asked_rows_per_s": args.rate, "rows_per_s": updates as f64 / took, "updates": updates,
        "update_bytes": update_bytes, "counted_meanwhile": asked,
        "batch_p50_ms": percentile(&mut latencies, 0.5) * 1e3, "batch_p99_ms": percentile(&mut latencies, 0.99) * 1e3,
        "disk_bytes": {
            "before": before.all, "max": looks.max(|look| look.files.all), "end": end.all, "merged": merged.all,
            "log_max": looks.max(|look| look.files.log), "log_before": log[0], "log_merged": log[1],
        },
        "growth_bytes": growth, "growth_to_updates": ratio(growth),
        "growth_without_log_bytes": growth_without_log, "growth_without_log_to_updates": ratio(growth_without_log),
        "tail_rows": {
            "max": looks.max(|look| look.tail_rows), "end": looks.0.last().map(|look| look.tail_rows),
            "max_of_quarters": looks.quarters(|look| look.tail_rows),
        },
        "tail_bytes_max": looks.max(|look| look.tail_bytes),
        "over_time": looks.over_time(),
    }))
}

/// The writers, of which each has its share of the keys.
fn writers(args: &AnnihilationArgs) -> Anything<Vec<Arc<Writer>>> {
    if args.keys == 0 || args.keys as u64 > args.rows {
        return Err(format!("--keys cannot be {}: from 1 to --rows, {}", args.keys, args.rows).into());
    }
    if args.writers == 0 || args.writers > args.keys {
        return Err(format!("--writers cannot be {}: from 1 to --keys, {}", args.writers, args.keys).into());
    }
    let share = args.keys / args.writers;
    if args.batch_rows == 0 || args.batch_rows > share {
        return Err(format!("--batch-rows cannot be {}: from 1 to a writer's keys, {share}", args.batch_rows).into());
    }
    let step = args.rows / args.keys as u64;
    let writer = |number: usize| -> Anything<Arc<Writer>> {
        let keys = (number..args.keys).step_by(args.writers).map(|key| (key as u64 * step) as i64).collect();
        let mut retail = Retail::new(2_000 + number as u64);
        let template = |_| with_keys(&retail.batch(args.batch_rows)?, vec![0; args.batch_rows]);
        let templates = (0..TEMPLATES).map(template).collect::<Anything<_>>()?;
        Ok(Arc::new(Writer { keys, batch_rows: args.batch_rows, templates }))
    };
    (0..args.writers).map(writer).collect()
}

/// One that updates its keys, in turns.
struct Writer {
    keys: Vec<i64>,
    batch_rows: usize,
    templates: Vec<RecordBatch>,
}

impl Writer {
    fn ids(&self, number: u64) -> impl Iterator<Item = i64> {
        let first = (number * self.batch_rows as u64 % self.keys.len() as u64) as usize;
        (first..first + self.batch_rows).map(|at| self.keys[at % self.keys.len()])
    }

    fn template(&self, number: u64) -> &RecordBatch {
        &self.templates[(number % TEMPLATES as u64) as usize]
    }

    fn batch(&self, number: u64) -> Anything<RecordBatch> {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(self.ids(number)));
        let template = self.template(number);
        let columns = std::iter::once(ids).chain(template.columns()[1..].iter().cloned()).collect();
        Ok(RecordBatch::try_new(template.schema(), columns)?)
    }

    /// Updates at a rate for so long, and gives what each batch took.
    async fn write(self: Arc<Writer>, session: Session, rate: f64, time: Duration) -> Anything<Vec<f64>> {
        let (start, mut latencies) = (Instant::now(), Vec::new());
        while start.elapsed() < time {
            let number = latencies.len() as u64;
            let due = Duration::from_secs_f64((number * self.batch_rows as u64) as f64 / rate);
            if let Some(early) = due.checked_sub(start.elapsed()) {
                // At a slow rate the next one may be due only when all is over.
                tokio::time::sleep(early.min(time)).await;
            }
            let batch = self.batch(number)?;
            let sent = Instant::now();
            session.append("t", vec![batch]).await?;
            latencies.push(sent.elapsed().as_secs_f64());
        }
        Ok(latencies)
    }
}

/// Rows by their keys, as text.
type Rows = BTreeMap<i64, Vec<String>>;

fn texts(batch: &RecordBatch, row: usize) -> Anything<Vec<String>> {
    let text = |name: &&str| -> Anything<String> {
        let column = batch.column_by_name(name).ok_or_else(|| format!("there is no column {name}"))?;
        Ok(array_value_to_string(column, row)?)
    };
    COMPARED.iter().map(text).collect()
}

/// The hot rows after so many batches of each writer; those that none has written yet are left out.
fn last_rows(writers: &[Arc<Writer>], batches: &[u64]) -> Anything<Rows> {
    let mut all = Rows::new();
    for (writer, batches) in writers.iter().zip(batches) {
        let mut last = BTreeMap::new();
        for number in 0..*batches {
            last.extend(writer.ids(number).enumerate().map(|(row, id)| (id, (number, row))));
        }
        for (id, (number, row)) in last {
            all.insert(id, texts(writer.template(number), row)?);
        }
    }
    Ok(all)
}

/// Rows and sum of quantities of the whole table, from what there was.
fn wanted_state(quantities: &[i32], hot: &Rows) -> Anything<(u64, i64)> {
    let mut sum: i64 = quantities.iter().map(|&quantity| i64::from(quantity)).sum();
    for (id, texts) in hot {
        sum += texts[2].parse::<i64>()? - i64::from(quantities[*id as usize]);
    }
    Ok((quantities.len() as u64, sum))
}

/// The hot rows in the database, of keys that were written.
async fn hot_rows(session: &Session, step: u64, keys: usize, written: &Rows) -> Anything<Rows> {
    let sql =
        format!("SELECT id, {} FROM t WHERE id % {step} = 0 AND id < {}", COMPARED.join(", "), step * keys as u64);
    let mut all = Rows::new();
    for batch in rows(session, &sql).await? {
        let ids = batch.column(0).as_primitive::<Int64Type>();
        for row in (0..batch.num_rows()).filter(|&row| written.contains_key(&ids.value(row))) {
            all.insert(ids.value(row), texts(&batch, row)?);
        }
    }
    Ok(all)
}

/// Refuses the first hot row that is not as it should be.
fn check_hot(name: &str, found: &Rows, wanted: &Rows) -> Anything<()> {
    match wanted.iter().find(|(id, row)| found.get(id) != Some(*row)) {
        Some((id, row)) => check(name, &format!("row {id}, {COMPARED:?},"), &found.get(id), &Some(row)),
        None => Ok(()),
    }
}

/// Bytes of the database's files, and of the log's among them.
#[derive(Clone, Copy, PartialEq, Default)]
struct Files {
    all: u64,
    log: u64,
}

fn bytes_of(dir: &Path) -> Files {
    /// A file that goes meanwhile counts nothing.
    fn below(folder: &Path) -> u64 {
        let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
        let bytes = |entry: std::fs::DirEntry| match entry.metadata() {
            Ok(found) if found.is_dir() => below(&entry.path()),
            Ok(found) => found.len(),
            Err(_) => 0,
        };
        entries.flatten().map(bytes).sum()
    }
    Files { all: below(dir), log: below(&dir.join("log")) }
}

/// The same once files that were replaced are gone: when it stays as it is for a second, or after ten.
async fn settled(dir: &Path) -> Files {
    let mut last = bytes_of(dir);
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let next = bytes_of(dir);
        if next == last {
            break;
        }
        last = next;
    }
    last
}

/// What was seen at one time.
struct Look {
    at_s: f64,
    files: Files,
    tail_rows: u64,
    tail_bytes: u64,
}

struct Looks(Vec<Look>);

/// Looks until it is to stop, and tells of it each second.
async fn look(db: Arc<Database>, dir: PathBuf, before: Files, stop: Arc<AtomicBool>) -> Looks {
    let (start, mut looks, mut told) = (Instant::now(), Vec::new(), 0.0);
    while !stop.load(Ordering::Relaxed) {
        let files = bytes_of(&dir);
        let stages = db.core().stages();
        let tail = stages.iter().filter(|info| info.stage == Stage::Ingested);
        let (tail_rows, tail_bytes) = tail.fold((0, 0), |(rows, bytes), info| (rows + info.rows, bytes + info.bytes));
        let at_s = start.elapsed().as_secs_f64();
        if at_s >= told {
            let grown = files.all as f64 - before.all as f64;
            eprintln!(
                "{at_s:.0} s: disk {:+.1} MB, of it log {:.1} MB; tail {tail_rows} rows",
                grown / 1e6,
                files.log as f64 / 1e6
            );
            told += 1.0;
        }
        looks.push(Look { at_s, files, tail_rows, tail_bytes });
        tokio::time::sleep(LOOK).await;
    }
    Looks(looks)
}

impl Looks {
    fn max(&self, of: fn(&Look) -> u64) -> u64 {
        self.0.iter().map(of).max().unwrap_or(0)
    }

    /// The greatest of each quarter of the time: what stays flat is the same in each.
    fn quarters(&self, of: fn(&Look) -> u64) -> Vec<u64> {
        let quarter = self.0.len().div_ceil(4).max(1);
        self.0.chunks(quarter).map(|looks| looks.iter().map(of).max().unwrap_or(0)).collect()
    }

    fn over_time(&self) -> Value {
        let all = |of: fn(&Look) -> u64| self.0.iter().map(of).collect::<Vec<u64>>();
        json!({
            "at_s": self.0.iter().map(|look| look.at_s).collect::<Vec<f64>>(),
            "disk_bytes": all(|look| look.files.all), "log_bytes": all(|look| look.files.log),
            "tail_rows": all(|look| look.tail_rows), "tail_bytes": all(|look| look.tail_bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writer() -> Writer {
        let mut retail = Retail::new(1);
        let templates = (0..TEMPLATES).map(|_| with_keys(&retail.batch(2).unwrap(), vec![0; 2]).unwrap()).collect();
        Writer { keys: vec![0, 10, 20], batch_rows: 2, templates }
    }

    #[test]
    fn what_was_written_last_is_wanted() {
        let writer = Arc::new(writer());
        let ids: Vec<Vec<i64>> = (0..4).map(|number| writer.ids(number).collect()).collect();
        assert_eq!(ids, [vec![0, 10], vec![20, 0], vec![10, 20], vec![0, 10]]);
        let wanted = last_rows(&[Arc::clone(&writer)], &[3]).unwrap();
        let of = |number, row| texts(&writer.batch(number).unwrap(), row).unwrap();
        assert_eq!(wanted, Rows::from([(0, of(1, 1)), (10, of(2, 0)), (20, of(2, 1))]));
        let quantities: Vec<i32> = vec![5; 30];
        let new: i64 = wanted.values().map(|texts| texts[2].parse::<i64>().unwrap()).sum();
        assert_eq!(wanted_state(&quantities, &wanted).unwrap(), (30, 27 * 5 + new));
    }
}
