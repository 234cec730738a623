//! `scu`: LazyBase's figure 2 and table 2 (Cipar et al., EuroSys 2012): what batches of 1 to 1M rows cost, stage by stage. A batch is what
//! LazyBase calls a self-consistent update (SCU): applied as a whole, durable when it is acknowledged.
//!
//! For each size, over rows of its own: batches for some seconds while neither sorts nor merges run, then the sort of what came, then its
//! merge; and one batch alone through all stages, for their latency. A batch that is too large for the log is staged as sorted segments, as
//! COPY would, and then the sort is a part of its ingest. In turns PostgreSQL has the same batches. Stages are asked for by CALL: their
//! threads look for work every 20 and 50 ms, which is a part of the latencies.
//!
//! Writes `scu.json` and `scu.svg` beside the data. Every engine's count and sum are checked.

use crate::draw::{Line, Panel, draw};
use crate::keyed::ours::{check, load, options, state};
use crate::keyed::postgres::{Postgres, Upserts};
use crate::keyed::rows::{Keyed, create, quantities};
use crate::keyed::seconds;
use crate::machine::{median, percentile};
use crate::retail::DIMENSIONS;
use crate::{Anything, Folders};
use alluvia_node::{Database, DatabaseOptions};
use alluvia_query::{RowPolicy, Session};
use alluvia_snapshot::Admin;
use alluvia_types::{ErrorKind, Stage};
use arrow::array::RecordBatch;
use clap::Args;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Args)]
pub struct ScuArgs {
    #[command(flatten)]
    folders: Folders,
    /// Rows in place before the batches of each size.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// Rows of a batch, one size after the other, ascending.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000])]
    sizes: Vec<usize>,
    /// Turns of each engine at each size; medians are shown.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    turns: u32,
    /// Seconds of batches in a turn.
    #[arg(long, default_value_t = 5.0, value_parser = seconds)]
    seconds: f64,
    /// Rows of a turn at most: a turn ends with the batch that reaches them. It ends earlier where a sort would have to begin.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    rows_max: u64,
    /// Leaves PostgreSQL out.
    #[arg(long)]
    alone: bool,
    /// Memory limit of the project.
    #[arg(long)]
    memory_limit: Option<String>,
}

pub async fn run(args: ScuArgs) -> Anything<Value> {
    if args.sizes.is_empty() || !args.sizes.is_sorted_by(|one, next| one < next) {
        return Err("--sizes wants numbers that ascend, such as 1,100,10000".into());
    }
    if let Some(wrong) = args.sizes.iter().find(|size| **size == 0 || **size as u64 > args.rows) {
        return Err(format!("--sizes cannot have {wrong}: a batch has from 1 to --rows, {}, rows", args.rows).into());
    }
    let mut options = options(args.memory_limit.as_ref())?;
    // Nothing is sorted or merged before it is asked for.
    options.pipeline.sort_interval = Duration::from_secs(86_400);
    options.pipeline.sort_bytes = u64::MAX;
    options.pipeline.merge_interval = Duration::from_secs(86_400);
    options.pipeline.merge_segments = usize::MAX;
    let mut all = Vec::new();
    for size in &args.sizes {
        all.push(measure(&args, &options, *size).await?);
    }
    print(&all);
    let figures = json!({
        "bench": "scu", "rows": args.rows, "turns": args.turns, "seconds": args.seconds, "rows_max": args.rows_max, "sizes": all,
    });
    let folder = &args.folders.data;
    std::fs::write(folder.join("scu.json"), figures.to_string())?;
    std::fs::write(folder.join("scu.svg"), draw(&[throughput(&all), latency(&all)]))?;
    eprintln!("drawn: {}/scu.svg", folder.display());
    Ok(figures)
}

/// Different batches of a size: few of large ones, whose rows are in memory, and of small ones not so many that each is a small piece of a
/// large array, which would be copied.
fn templates(size: usize) -> usize {
    match size {
        0..1_000 => (4_096 / size.max(1)).max(32),
        _ => (1_000_000 / size).clamp(2, 32),
    }
}

/// One size.
async fn measure(args: &ScuArgs, options: &DatabaseOptions, size: usize) -> Anything<Value> {
    let keyed = Keyed::of_templates(args.rows, size, false, templates(size))?;
    let base = keyed.base(&args.folders.data)?;
    let scratch = tempfile::tempdir_in(&args.folders.data)?;
    let db = Arc::new(Database::open_with(scratch.path().join("db"), options.clone())?);
    let session = db.session();
    load(&session, &create(DIMENSIONS, true), &base).await?;
    let mut theirs = None;
    if !args.alone {
        match Postgres::start(&create(DIMENSIONS, false), &base, "*").await {
            Ok(peer) => theirs = Some((peer, Upserts::new(&keyed)?, Ingest::default())),
            Err(error) => eprintln!("PostgreSQL is not measured: {error}"),
        }
    }
    let mut ours = Ours {
        db,
        session,
        keyed: &keyed,
        batches: 0,
        is_staged: false,
        stages: Stages::default(),
        ingest: Ingest::default(),
    };
    for turn in 0..args.turns {
        ours.one_batch().await?;
        ours.turn(args).await?;
        eprintln!("{size} rows, turn {turn}: alluvia {:.0} rows/s", ours.ingest.speeds.last().unwrap_or(&f64::NAN));
        if let Some((peer, upserts, ingest)) = &mut theirs {
            let (start, first) = (Instant::now(), ingest.batches);
            while ingest.goes_on(args, start, first, size) {
                let sent = Instant::now();
                upserts.apply(peer, ingest.batches).await?;
                ingest.add(sent);
            }
            ingest.end(start, first, size);
            eprintln!("{size} rows, turn {turn}: postgresql {:.0} rows/s", ingest.speeds.last().unwrap_or(&f64::NAN));
        }
    }
    let quantities = quantities(&base)?;
    check(
        "alluvia",
        "rows and quantity",
        &state(&ours.session).await?,
        &keyed.state(quantities.clone(), ours.batches),
    )?;
    let mut figures = ours.figures(size);
    if let Some((peer, _, ingest)) = &mut theirs {
        check("postgresql", "rows and quantity", &peer.state().await?, &keyed.state(quantities, ingest.batches))?;
        figures["postgresql"] = ingest.figures();
        figures["postgresql"]["version"] = peer.version.as_str().into();
        let [one, other] = [&figures["ingest"], &figures["postgresql"]].map(|of| of["rows_per_s"].as_f64());
        figures["to_postgresql"] = json!(one.zip(other).map(|(ours, theirs)| ours / theirs));
    }
    Ok(figures)
}

/// Batches of an engine.
#[derive(Default)]
struct Ingest {
    batches: u64,
    speeds: Vec<f64>,
    latencies: Vec<f64>,
}

impl Ingest {
    /// Whether a turn that began at `start`, with this batch, is not over.
    fn goes_on(&self, args: &ScuArgs, start: Instant, first: u64, size: usize) -> bool {
        let rows = (self.batches - first) * size as u64;
        rows == 0 || rows < args.rows_max && start.elapsed() < Duration::from_secs_f64(args.seconds)
    }

    fn add(&mut self, sent: Instant) {
        self.latencies.push(sent.elapsed().as_secs_f64());
        self.batches += 1;
    }

    fn end(&mut self, start: Instant, first: u64, size: usize) {
        self.speeds.push(((self.batches - first) * size as u64) as f64 / start.elapsed().as_secs_f64());
    }

    fn figures(&mut self) -> Value {
        let [p50, p99] = [0.5, 0.99].map(|share| percentile(&mut self.latencies, share) * 1e3);
        let turns = self.speeds.clone();
        json!({
            "batches": self.batches, "rows_per_s": median(&mut self.speeds), "turns_rows_per_s": turns, "p50_ms": p50, "p99_ms": p99,
        })
    }
}

/// Of each turn: rows a second of sort, merge and of all stages together; and of one batch the milliseconds of each.
#[derive(Default)]
struct Stages {
    sort: Vec<f64>,
    merge: Vec<f64>,
    all: Vec<f64>,
    rows: Vec<f64>,
    sort_s: Vec<f64>,
    merge_s: Vec<f64>,
    one_ms: [Vec<f64>; 3],
    /// Turns in which a sort began before it was asked for.
    sorted_early: u64,
}

struct Ours<'a> {
    db: Arc<Database>,
    session: Session,
    keyed: &'a Keyed,
    /// That were applied in all.
    batches: u64,
    /// Batches of this size do not fit in the log.
    is_staged: bool,
    stages: Stages,
    ingest: Ingest,
}

impl Ours<'_> {
    /// Applies the next batch, durably.
    async fn apply(&mut self) -> Anything<()> {
        let batch = self.keyed.batch(self.batches)?;
        if !self.is_staged {
            match self.session.append("t", vec![batch.clone()]).await {
                Err(error) if error.kind() == ErrorKind::OutOfMemory && self.batches == 0 => {
                    eprintln!("batches of {} rows are staged: {error}", batch.num_rows());
                    self.is_staged = true;
                }
                appended => {
                    appended?;
                    self.batches += 1;
                    return Ok(());
                }
            }
        }
        self.stage(batch).await?;
        self.batches += 1;
        Ok(())
    }

    async fn stage(&self, batch: RecordBatch) -> Anything<()> {
        let rows = futures::stream::iter([Ok(batch)]);
        self.session.append_stream_as("t", RowPolicy::default(), rows).await?;
        Ok(())
    }

    /// Does a stage, and gives how long it took.
    async fn call(&self, stage: &str) -> Anything<f64> {
        let start = Instant::now();
        self.session.sql(&format!("CALL alluvia.{stage}()")).await?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// One batch through all stages. The first one of a size also shows whether it fits in the log.
    async fn one_batch(&mut self) -> Anything<()> {
        if self.batches == 0 {
            self.apply().await?;
            self.call("merge").await?;
        }
        let start = Instant::now();
        self.apply().await?;
        let times = [start.elapsed().as_secs_f64(), self.call("flush").await?, self.call("merge").await?];
        self.stages.one_ms.iter_mut().zip(times).for_each(|(all, time)| all.push(time * 1e3));
        Ok(())
    }

    /// Whether another batch could make a sort begin, which does at half of what the tail may have.
    fn is_near_sort(&self, batches: u64) -> bool {
        let info = self.db.core().info();
        info.tail_bytes + info.tail_bytes / batches.max(1) > info.tail_bytes_max / 2
    }

    async fn turn(&mut self, args: &ScuArgs) -> Anything<()> {
        let size = self.keyed.batch_rows;
        let (start, first) = (Instant::now(), self.ingest.batches);
        while self.ingest.goes_on(args, start, first, size) && !self.is_near_sort(self.ingest.batches - first) {
            let sent = Instant::now();
            self.apply().await?;
            self.ingest.add(sent);
        }
        let ingest_s = start.elapsed().as_secs_f64();
        self.ingest.end(start, first, size);
        let rows = ((self.ingest.batches - first) * size as u64) as f64;
        let is_sorted = |info: &alluvia_snapshot::StageInfo| info.stage == Stage::Sorted && info.rows > 0;
        if !self.is_staged && self.db.core().stages().iter().any(is_sorted) {
            self.stages.sorted_early += 1;
        }
        let (sort_s, merge_s) = (self.call("flush").await?, self.call("merge").await?);
        self.stages.rows.push(rows);
        self.stages.sort_s.push(sort_s);
        self.stages.merge_s.push(merge_s);
        self.stages.sort.push(rows / sort_s);
        self.stages.merge.push(rows / merge_s);
        self.stages.all.push(rows / (ingest_s + sort_s + merge_s));
        Ok(())
    }

    fn figures(&mut self, size: usize) -> Value {
        let stages = &mut self.stages;
        let [ingest_ms, sort_ms, merge_ms] = stages.one_ms.each_mut().map(|times| median(times));
        // The sort of staged rows is a part of their ingest.
        let sort = (!self.is_staged).then(|| median(&mut stages.sort));
        json!({
            "batch_rows": size, "is_staged": self.is_staged, "ingest": self.ingest.figures(),
            "turn_rows": median(&mut stages.rows), "sort_s": median(&mut stages.sort_s), "merge_s": median(&mut stages.merge_s),
            "sort_rows_per_s": sort, "merge_rows_per_s": median(&mut stages.merge), "all_stages_rows_per_s": median(&mut stages.all),
            "one_batch": { "ingest_ms": ingest_ms, "sort_ms": sort_ms, "merge_ms": merge_ms },
            "turns_sorted_early": stages.sorted_early,
        })
    }
}

/// A figure of one size by its path.
fn of(figures: &Value, path: &str) -> Option<f64> {
    figures.pointer(path).and_then(Value::as_f64)
}

/// Table 2.
fn print(all: &[Value]) {
    const COLUMNS: [(&str, &str); 11] = [
        ("batch", "/batch_rows"),
        ("ingest/s", "/ingest/rows_per_s"),
        ("p50 ms", "/ingest/p50_ms"),
        ("p99 ms", "/ingest/p99_ms"),
        ("sort/s", "/sort_rows_per_s"),
        ("merge/s", "/merge_rows_per_s"),
        ("all/s", "/all_stages_rows_per_s"),
        ("1: ack ms", "/one_batch/ingest_ms"),
        ("1: sort ms", "/one_batch/sort_ms"),
        ("1: merge ms", "/one_batch/merge_ms"),
        ("PostgreSQL/s", "/postgresql/rows_per_s"),
    ];
    let line = |cells: Vec<String>| cells.iter().map(|cell| format!("{cell:>13}")).collect::<String>();
    eprintln!("rows a second of each stage, latency of a batch, and of one batch (1:) through each stage");
    eprintln!("{}", line(COLUMNS.iter().map(|(name, _)| (*name).to_owned()).collect()));
    for figures in all {
        let cell = |(name, path): &(&str, &str)| match of(figures, path) {
            Some(value) if name.ends_with("ms") => format!("{value:.3}"),
            Some(value) => format!("{value:.0}"),
            None => "-".to_owned(),
        };
        eprintln!("{}", line(COLUMNS.iter().map(cell).collect()));
    }
}

/// Lines of figures by the size of a batch.
fn lines(all: &[Value], paths: [(&str, &str); 5]) -> Vec<Line> {
    let points = |path: &str| {
        let point = |figures: &Value| Some((of(figures, "/batch_rows")?, of(figures, path)?));
        all.iter().filter_map(point).collect()
    };
    paths.into_iter().map(|(name, path)| Line { name: name.to_owned(), points: points(path) }).collect()
}

/// Figure 2, with a line for each stage.
fn throughput(all: &[Value]) -> Panel {
    let paths = [
        ("ingest", "/ingest/rows_per_s"),
        ("sort", "/sort_rows_per_s"),
        ("merge", "/merge_rows_per_s"),
        ("ingest, then sort, then merge", "/all_stages_rows_per_s"),
        ("PostgreSQL, ingest", "/postgresql/rows_per_s"),
    ];
    Panel {
        title: "Throughput".to_owned(),
        x: "rows of a batch".to_owned(),
        y: "rows a second".to_owned(),
        lines: lines(all, paths),
    }
}

/// The latencies of table 2.
fn latency(all: &[Value]) -> Panel {
    let paths = [
        ("ingest, median", "/ingest/p50_ms"),
        ("ingest, 99 %", "/ingest/p99_ms"),
        ("sort of one batch", "/one_batch/sort_ms"),
        ("merge of one batch", "/one_batch/merge_ms"),
        ("PostgreSQL, ingest, median", "/postgresql/p50_ms"),
    ];
    Panel { title: "Latency".to_owned(), x: "rows of a batch".to_owned(), y: "ms".to_owned(), lines: lines(all, paths) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_that_is_missing_is_not_drawn() {
        let all = [1.0, 1_000.0].map(|size| {
            let sort = (size > 1.0).then_some(size);
            json!({ "batch_rows": size, "ingest": { "rows_per_s": size, "p50_ms": 1.0, "p99_ms": 2.0 }, "sort_rows_per_s": sort })
        });
        let drawn = throughput(&all).lines;
        assert_eq!(drawn[0].points, [(1.0, 1.0), (1_000.0, 1_000.0)]);
        assert_eq!(drawn[1].points, [(1_000.0, 1_000.0)]);
        assert!(drawn[4].points.is_empty());
        assert!(draw(&[throughput(&all), latency(&all)]).contains("1k"));
        print(&all);
    }

    #[test]
    fn few_rows_of_templates_are_in_memory() {
        for size in [1, 10, 100, 999, 1_000, 10_000, 100_000, 1_000_000] {
            assert!((4_000..=2_000_000).contains(&(size * templates(size))), "{size}");
        }
    }
}
