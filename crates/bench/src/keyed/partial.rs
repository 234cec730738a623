//! `partial`: durable batches that give 2 of the 12 columns of rows that are there, beside PostgreSQL and DuckDB, in turns of some
//! seconds.
//!
//! Ours takes them in two ways: as rows with `op = patch`, and by `INSERT ... ON CONFLICT DO UPDATE` from a temporary table, which is what
//! the peers do. Counts and sums are checked against what the batches come to, and that the other columns are as they were.

use crate::keyed::ours::{check, load, numbers, options, rows, state};
use crate::keyed::peers::{Child, Files};
use crate::keyed::postgres::{Postgres, copied};
use crate::keyed::rows::{Dimension, columns, create, with_keys};
use crate::keyed::seconds;
use crate::machine::{median, percentile};
use crate::retail::{DIMENSIONS, Random, Retail, write_once};
use crate::{Anything, Folders};
use alluvia_node::Database;
use alluvia_query::{RowPolicy, Session};
use arrow::array::{AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{Float64Type, Int32Type, Int64Type};
use arrow::util::pretty::pretty_format_batches;
use clap::Args;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Args)]
pub struct PartialArgs {
    #[command(flatten)]
    folders: Folders,
    /// Rows of the table.
    #[arg(long, default_value_t = 5_000_000)]
    rows: u64,
    /// Rows of a durable batch.
    #[arg(long, default_value_t = 10_000)]
    batch_rows: usize,
    /// Turns of each engine; medians are shown.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..))]
    turns: u32,
    /// Seconds of a turn.
    #[arg(long, default_value_t = 10.0, value_parser = seconds)]
    seconds: f64,
    /// Leaves the peers out.
    #[arg(long)]
    alone: bool,
    /// Memory limit of the project.
    #[arg(long)]
    memory_limit: Option<String>,
}

/// Dimensions of a table of twelve columns: nine levels, beside key, price and quantity.
const NARROW: [&str; 4] = ["store", "item", "channel", "payment"];
/// Different batches.
const TEMPLATES: usize = 32;
/// What a peer does with rows in a table beside, and ours with a temporary one.
const ON_CONFLICT: &str = "INSERT INTO t (id, price, quantity) SELECT id, price, quantity FROM staged \
                           ON CONFLICT (id) DO UPDATE SET price = excluded.price, quantity = excluded.quantity";
/// The columns that no batch gives.
const OTHERS: &str =
    "SELECT country, category, channel, count(*) FROM t GROUP BY country, category, channel ORDER BY 1, 2, 3";

pub async fn run(args: PartialArgs) -> Anything<Value> {
    let patches = Patches::new(args.rows, args.batch_rows)?;
    let dimensions = dimensions();
    let base = base(&args.folders.data, args.rows, &dimensions)?;
    let scratch = tempfile::tempdir_in(&args.folders.data)?;
    let db = Arc::new(Database::open_with(scratch.path().join("db"), options(args.memory_limit.as_ref())?)?);
    let session = db.session();
    load(&session, &create(&dimensions, true), &base).await?;
    session.sql("CREATE TEMPORARY TABLE staged (id BIGINT, price DOUBLE PRECISION, quantity INT)").await?;
    let others = pretty_format_batches(&rows(&session, OTHERS).await?)?.to_string();

    let (mut postgres, mut duckdb) = (None, None);
    if !args.alone {
        match Postgres::start(&create(&dimensions, false), &base, "id, price, quantity").await {
            Ok(peer) => postgres = Some((peer, patches.copied()?)),
            Err(error) => eprintln!("PostgreSQL is not measured: {error}"),
        }
        let batches = patches.write(&args.folders.data)?;
        let files = Files { base: base.clone(), batches, batch_rows: args.batch_rows };
        match Child::start("duckdb", "duckdb", &args.folders, &files, scratch.path()) {
            Ok(peer) => duckdb = Some(peer),
            Err(error) => eprintln!("DuckDB is not measured: {error}"),
        }
    }
    let mut ours = [Measured::default(), Measured::default()];
    let mut applied = 0;
    let (mut of_postgres, mut of_duckdb) = (Measured::default(), Measured::default());
    for turn in 0..args.turns {
        for (way, measured) in Way::ALL.into_iter().zip(&mut ours) {
            let (start, first) = (Instant::now(), applied);
            while start.elapsed() < Duration::from_secs_f64(args.seconds) {
                let sent = Instant::now();
                way.apply(&session, patches.batch(applied)).await?;
                measured.latencies.push(sent.elapsed().as_secs_f64());
                applied += 1;
            }
            measured.turn(&format!("turn {turn}: alluvia, {}", way.name()), applied - first, args.batch_rows, start);
        }
        if let Some((peer, texts)) = &postgres {
            let (start, first) = (Instant::now(), of_postgres.batches);
            let mut number = first;
            while start.elapsed() < Duration::from_secs_f64(args.seconds) {
                let sent = Instant::now();
                peer.stage_and(texts[number as usize % TEMPLATES].clone(), ON_CONFLICT).await?;
                of_postgres.latencies.push(sent.elapsed().as_secs_f64());
                number += 1;
            }
            of_postgres.turn(&format!("turn {turn}: postgresql"), number - first, args.batch_rows, start);
        }
        if let Some(peer) = &mut duckdb {
            let (batches, speed) = peer.apply("patch", of_duckdb.batches, args.seconds)?;
            eprintln!("turn {turn}: duckdb {speed:.0} rows/s");
            of_duckdb.batches += batches;
            of_duckdb.speeds.push(speed);
        }
    }

    let before = Columns::of(&base)?;
    let wanted = patches.state(&before, applied);
    check("alluvia", "rows, quantity and price", &sums(&session).await?, &wanted)?;
    session.sql("CALL alluvia.merge()").await?;
    check("alluvia, merged", "rows, quantity and price", &sums(&session).await?, &wanted)?;
    check("alluvia, merged", "rows and quantity", &state(&session).await?, &(wanted.0, wanted.1))?;
    let after = pretty_format_batches(&rows(&session, OTHERS).await?)?.to_string();
    if after != others {
        return Err(format!("columns that no batch gave are not as they were: {OTHERS}").into());
    }
    let [patch, on_conflict] = ours.each_mut().map(Measured::figures);
    let rate = patch["rows_per_s"].as_f64().unwrap_or(f64::NAN);
    let by_statement = on_conflict["rows_per_s"].as_f64().unwrap_or(f64::NAN);
    let mut figures = json!({
        "bench": "partial", "rows": args.rows, "batch_rows": args.batch_rows, "turns": args.turns, "seconds": args.seconds,
        "columns": columns(&dimensions).len(), "columns_given": 2,
        "rows_per_s": rate, "patch": patch, "on_conflict": on_conflict,
    });
    if let Some((peer, _)) = &postgres {
        let wanted = patches.state(&before, of_postgres.batches);
        check("postgresql", "rows and quantity", &peer.state().await?, &(wanted.0, wanted.1))?;
        let theirs = median(&mut of_postgres.speeds.clone());
        figures["postgresql"] = of_postgres.figures();
        figures["postgresql"]["version"] = peer.version.as_str().into();
        figures["to_postgresql"] = json!(rate / theirs);
        figures["on_conflict_to_postgresql"] = json!(by_statement / theirs);
    }
    if let Some(peer) = &mut duckdb {
        let wanted = patches.state(&before, of_duckdb.batches);
        check("duckdb", "rows and quantity", &peer.state()?, &(wanted.0, wanted.1))?;
        let theirs = median(&mut of_duckdb.speeds);
        figures["duckdb"] = json!({ "version": peer.version, "rows_per_s": theirs });
        figures["to_duckdb"] = json!(rate / theirs);
        figures["on_conflict_to_duckdb"] = json!(by_statement / theirs);
    }
    Ok(figures)
}

/// How ours is given a batch.
#[derive(Clone, Copy)]
enum Way {
    Patch,
    OnConflict,
}

impl Way {
    const ALL: [Way; 2] = [Way::Patch, Way::OnConflict];

    fn name(self) -> &'static str {
        match self {
            Way::Patch => "op = patch",
            Way::OnConflict => "ON CONFLICT",
        }
    }

    async fn apply(self, session: &Session, batch: RecordBatch) -> Anything<()> {
        match self {
            Way::Patch => {
                let policy = RowPolicy::of_options(None, Some("patch"))?;
                session.append_stream_as("t", policy, futures::stream::iter([Ok(batch)])).await?;
            }
            Way::OnConflict => {
                session.sql("TRUNCATE staged").await?;
                session.append_stream("staged", futures::stream::iter([Ok(batch)])).await?;
                session.sql(ON_CONFLICT).await?;
            }
        }
        Ok(())
    }
}

/// What was measured of an engine.
#[derive(Default)]
struct Measured {
    batches: u64,
    speeds: Vec<f64>,
    latencies: Vec<f64>,
}

impl Measured {
    /// Adds a turn that began at `start` and ends now.
    fn turn(&mut self, who: &str, batches: u64, batch_rows: usize, start: Instant) {
        let speed = (batches * batch_rows as u64) as f64 / start.elapsed().as_secs_f64();
        eprintln!("{who} {speed:.0} rows/s");
        self.batches += batches;
        self.speeds.push(speed);
    }

    fn figures(&mut self) -> Value {
        let turns = self.speeds.clone();
        let [p50, p99] = [0.5, 0.99].map(|share| percentile(&mut self.latencies, share) * 1e3);
        json!({ "rows_per_s": median(&mut self.speeds), "turns_rows_per_s": turns, "batch_p50_ms": p50, "batch_p99_ms": p99 })
    }
}

/// Rows, the sum of quantities, and that of prices in hundredths.
async fn sums(session: &Session) -> Anything<(u64, i64, i64)> {
    let sql = "SELECT count(*), CAST(sum(quantity) AS BIGINT), CAST(sum(CAST(round(price * 100) AS BIGINT)) AS BIGINT) FROM t";
    let found = numbers(session, sql).await?;
    Ok((found[0] as u64, found[1], found[2]))
}

fn dimensions() -> Vec<Dimension> {
    DIMENSIONS.iter().filter(|dimension| NARROW.contains(&dimension.0)).copied().collect()
}

/// The Parquet file of the rows that are there, whose keys count from 0, made the first time.
fn base(folder: &Path, rows: u64, dimensions: &[Dimension]) -> Anything<PathBuf> {
    let (mut retail, mut next) = (Retail::new(76), 0);
    let names = columns(dimensions);
    let narrow = |rows: RecordBatch| -> Anything<RecordBatch> {
        let schema = rows.schema();
        let places = names.iter().map(|name| schema.index_of(name)).collect::<Result<Vec<_>, _>>()?;
        Ok(rows.project(&places)?)
    };
    let schema = narrow(with_keys(&Retail::new(76).batch(0)?, Vec::new())?)?.schema();
    write_once(folder.join(format!("keyed-{}-columns-{rows}.parquet", names.len())), &schema, rows, |count| {
        let ids = (next..next + count as i64).collect();
        next += count as i64;
        narrow(with_keys(&retail.batch(count)?, ids)?)
    })
}

/// The last two columns of rows whose keys count from 0; prices in hundredths.
struct Columns {
    prices: Vec<i64>,
    quantities: Vec<i32>,
}

impl Columns {
    fn of(base: &Path) -> Anything<Columns> {
        let mut all = Columns { prices: Vec::new(), quantities: Vec::new() };
        for batch in ParquetRecordBatchReaderBuilder::try_new(File::open(base)?)?.build()? {
            let batch = batch?;
            let (prices, quantities) = given(&batch);
            all.prices.extend(prices);
            all.quantities.extend(quantities);
        }
        Ok(all)
    }
}

/// Prices in hundredths and quantities, which are the last two columns.
fn given(batch: &RecordBatch) -> (Vec<i64>, Vec<i32>) {
    let count = batch.num_columns();
    let prices = batch.column(count - 2).as_primitive::<Float64Type>().values();
    let quantities = batch.column(count - 1).as_primitive::<Int32Type>().values();
    (prices.iter().map(|price| (price * 100.0).round() as i64).collect(), quantities.to_vec())
}

/// Batches of keys that are there, each with a price and a quantity. Batch `n` is template `n` modulo their number.
struct Patches {
    rows: u64,
    batch_rows: usize,
    templates: Vec<RecordBatch>,
}

impl Patches {
    fn new(rows: u64, batch_rows: usize) -> Anything<Patches> {
        if batch_rows == 0 || rows < batch_rows as u64 {
            return Err(format!("--batch-rows cannot be {batch_rows}: from 1 to --rows, {rows}").into());
        }
        let (mut retail, mut random) = (Retail::new(79), Random(80));
        let template = |_| -> Anything<RecordBatch> {
            let mut known = HashSet::new();
            // A statement changes a row once.
            while known.len() < batch_rows {
                known.insert((random.next() % rows) as i64);
            }
            let mut known: Vec<i64> = known.into_iter().collect();
            known.sort_unstable();
            let all = with_keys(&retail.batch(batch_rows)?, known)?;
            Ok(all.project(&[0, all.num_columns() - 2, all.num_columns() - 1])?)
        };
        let templates = (0..TEMPLATES).map(template).collect::<Anything<_>>()?;
        Ok(Patches { rows, batch_rows, templates })
    }

    fn batch(&self, number: u64) -> RecordBatch {
        self.templates[number as usize % TEMPLATES].clone()
    }

    /// Each template as COPY takes it.
    fn copied(&self) -> Anything<Vec<String>> {
        let text = |template| -> Anything<String> { Ok(copied(template)?.concat()) };
        self.templates.iter().map(text).collect()
    }

    /// The Parquet file of the templates, made the first time.
    fn write(&self, folder: &Path) -> Anything<PathBuf> {
        let name = format!("keyed-{}-patches-{}.parquet", self.rows, self.batch_rows);
        let all = concat_batches(&self.templates[0].schema(), &self.templates)?;
        let mut at = 0;
        write_once(folder.join(name), &all.schema(), all.num_rows() as u64, |count| {
            at += count;
            Ok(all.slice(at - count, count))
        })
    }

    /// Rows, the sum of quantities and that of prices after so many batches.
    fn state(&self, before: &Columns, batches: u64) -> (u64, i64, i64) {
        let (mut prices, mut quantities) = (before.prices.clone(), before.quantities.clone());
        for number in 0..batches {
            let batch = self.batch(number);
            let (new_prices, new_quantities) = given(&batch);
            for (at, id) in batch.column(0).as_primitive::<Int64Type>().values().iter().enumerate() {
                prices[*id as usize] = new_prices[at];
                quantities[*id as usize] = new_quantities[at];
            }
        }
        (prices.len() as u64, quantities.iter().map(|&quantity| i64::from(quantity)).sum(), prices.iter().sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_of_twelve_columns_are_given() {
        assert_eq!(columns(&dimensions()).len(), 12);
        let patches = Patches::new(1_000, 100).unwrap();
        assert_eq!(patches.batch(33), patches.batch(1));
        assert_eq!(patches.batch(0).num_columns(), 3);
        let before = Columns { prices: vec![0; 1_000], quantities: vec![0; 1_000] };
        let (rows, quantities, prices) = patches.state(&before, 1);
        let (new_prices, new_quantities) = given(&patches.batch(0));
        assert_eq!(rows, 1_000, "no row comes");
        assert_eq!(quantities, new_quantities.into_iter().map(i64::from).sum::<i64>());
        assert_eq!(prices, new_prices.into_iter().sum::<i64>());
        assert!(Patches::new(10, 11).is_err() && Patches::new(10, 0).is_err());
    }
}
