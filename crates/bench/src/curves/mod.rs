//! `curves`: VOLAP's figures 12 and 13. Speed of insertion, and of aggregates over boxes by coverage, of four structures in 4 to
//! 64 hierarchical dimensions: Alluvia with Hilbert and with Z order, a Hilbert PDC tree and an R-tree with totals in its
//! nodes, the latter two one row at a time and in memory.
//!
//! Every structure holds the same [`cube`] rows and is asked the same [`question`]s in rotating order; every answer must equal
//! the sum row by row. The trees get leaves as numbers and use one thread; Alluvia gets texts, writes to disk, and uses as many
//! threads as it wants. Writes `curves.json`, `curves-insert.svg` and `curves-query.svg` beside the data.

mod cube;
mod mds;
mod ours;
mod pdc;
mod question;
mod rtree;

use crate::draw::{Line, Panel, draw};
use crate::machine::median;
use crate::retail::Random;
use crate::{Anything, Folders};
use alluvia_query::Prepared;
use alluvia_space::Curve;
use alluvia_space::curve::{CurveMap, KEY_BITS_MAX};
use clap::Args;
use cube::{LEAF_BITS, LEAVES, Rows, Totals};
use ours::{BATCH_ROWS, Ours};
use pdc::PdcTree;
use question::{Coverage, Question, random_box};
use rtree::RTree;
use serde_json::{Value, json};
use std::time::Instant;

#[derive(Args)]
pub struct CurvesArgs {
    #[command(flatten)]
    folders: Folders,
    /// Rows that every structure holds.
    #[arg(long, default_value_t = 1_000_000)]
    rows: usize,
    /// Numbers of dimensions, from 2 to 64.
    #[arg(long, value_delimiter = ',', default_values_t = [4, 8, 16, 32, 64])]
    dimensions: Vec<usize>,
    /// Questions of each coverage.
    #[arg(long, default_value_t = 20)]
    queries: usize,
    /// Timed turns of every structure on each question.
    #[arg(long, default_value_t = 3)]
    turns: usize,
    /// Exponent of Zipf's law by which members are drawn; 0 is uniform.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=2))]
    zipf: u32,
    /// Seed of rows and questions.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The structures, in the order of figures.
const NAMES: [&str; 4] = ["Alluvia, Hilbert", "Alluvia, Z", "Hilbert PDC tree", "R-tree"];

pub async fn run(args: CurvesArgs) -> Anything<Value> {
    if args.rows == 0 || args.queries == 0 || args.turns == 0 {
        return Err("curves wants at least 1 row, 1 query and 1 turn".into());
    }
    if let Some(wrong) = args.dimensions.iter().find(|dimensions| !(2..=64).contains(*dimensions)) {
        return Err(format!("{wrong} dimensions: from 2 to 64 can be measured").into());
    }
    let mut all = Vec::new();
    for dimensions in &args.dimensions {
        all.push(measure(&args, *dimensions).await?);
    }
    let figures = json!({
        "bench": "curves", "rows": args.rows, "zipf": args.zipf, "seed": args.seed, "turns": args.turns,
        "leaves_of_a_dimension": LEAVES, "batch_rows": BATCH_ROWS, "by_dimensions": all,
    });
    let folder = &args.folders.data;
    std::fs::write(folder.join("curves.json"), figures.to_string())?;
    std::fs::write(folder.join("curves-insert.svg"), draw(&[insertion(&all)]))?;
    std::fs::write(folder.join("curves-query.svg"), draw(&Coverage::ALL.map(|coverage| queries(&all, coverage))))?;
    eprintln!("drawn: {}/curves-insert.svg, curves-query.svg", folder.display());
    Ok(figures)
}

/// All structures in so many dimensions.
async fn measure(args: &CurvesArgs, dimensions: usize) -> Anything<Value> {
    let rows = Rows::random(dimensions, args.rows, args.zipf, args.seed);
    let scratch = tempfile::tempdir_in(&args.folders.data)?;
    let hilbert = Ours::load(&scratch.path().join("hilbert"), "hilbert", &rows).await?;
    let z = Ours::load(&scratch.path().join("z"), "z", &rows).await?;
    let start = Instant::now();
    let pdc = pdc_tree(&rows);
    let pdc_s = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let mut rtree = RTree::new(dimensions);
    for at in 0..rows.len() {
        rtree.insert(rows.row(at), rows.values[at]);
    }
    let rtree_s = start.elapsed().as_secs_f64();
    let per_s = |seconds: f64| args.rows as f64 / seconds;
    let inserted = [hilbert.merged_s, z.merged_s, pdc_s, rtree_s].map(per_s);
    let visible = [hilbert.visible_s, z.visible_s].map(per_s);
    for (name, per_s) in NAMES.iter().zip(inserted) {
        eprintln!("{dimensions} dimensions, {name}: {per_s:.0} rows/s");
    }

    let structures = Structures { hilbert, z, pdc, rtree };
    let mut random = Random(args.seed ^ dimensions as u64);
    let mut bins = Vec::new();
    for coverage in Coverage::ALL {
        let mut questions = Vec::new();
        while questions.len() < args.queries {
            let question = random_box(dimensions, args.zipf, coverage, &mut random)
                .ok_or_else(|| format!("no box of {} coverage was found", coverage.name()))?;
            questions.push(question);
        }
        let measured = structures.bin(&rows, &questions, args.turns).await?;
        let [hilbert, z, pdc, rtree] = measured.ms;
        eprintln!(
            "{dimensions} dimensions, {} coverage ({:.1} % of the rows): Hilbert {hilbert:.3} ms, Z {z:.3} ms, PDC tree {pdc:.3} ms, R-tree {rtree:.3} ms; a scan {:.3} ms",
            coverage.name(),
            measured.coverage * 100.0,
            measured.scan_ms
        );
        bins.push(json!({
            "bin": coverage.name(), "questions": questions.len(), "coverage_mean": measured.coverage,
            "mean_ms": measured.ms, "scan_mean_ms": measured.scan_ms,
        }));
    }
    Ok(json!({
        "dimensions": dimensions, "structures": NAMES, "inserted_rows_per_s": inserted,
        "alluvia_visible_rows_per_s": visible, "queries": bins,
    }))
}

/// Rows one by one, each with its key: of dimensions whose leaves are too many for a key, the top bits.
fn pdc_tree(rows: &Rows) -> PdcTree {
    let bits = LEAF_BITS.min(KEY_BITS_MAX / rows.dimensions as u32);
    let curve = CurveMap::new(Curve::Hilbert, &vec![bits as u8; rows.dimensions]);
    let mut tree = PdcTree::new(rows.dimensions);
    let mut point = vec![0; rows.dimensions];
    for at in 0..rows.len() {
        let leaves = rows.row(at);
        point.iter_mut().zip(leaves).for_each(|(at, leaf)| *at = u32::from(*leaf) >> (LEAF_BITS - bits));
        tree.insert(curve.encode(&point), leaves, rows.values[at]);
    }
    tree
}

struct Structures {
    hilbert: Ours,
    z: Ours,
    pdc: PdcTree,
    rtree: RTree,
}

/// Of one bin: means over its questions of the median of turns.
struct Measured {
    coverage: f64,
    ms: [f64; NAMES.len()],
    scan_ms: f64,
}

impl Structures {
    async fn bin(&self, rows: &Rows, questions: &[Question], turns: usize) -> Anything<Measured> {
        let mut measured = Measured { coverage: 0.0, ms: [0.0; NAMES.len()], scan_ms: 0.0 };
        for (number, question) in questions.iter().enumerate() {
            let prepared = [self.hilbert.prepare(question)?, self.z.prepare(question)?];
            let start = Instant::now();
            let right = question.scan(rows);
            measured.scan_ms += start.elapsed().as_secs_f64() * 1e3 / questions.len() as f64;
            measured.coverage += right.count as f64 / rows.len() as f64 / questions.len() as f64;
            let mut times: [Vec<f64>; NAMES.len()] = Default::default();
            // The first turn warms, and checks.
            for turn in 0..=turns {
                for step in 0..NAMES.len() {
                    let at = (step + number + turn) % NAMES.len();
                    let start = Instant::now();
                    let got = self.ask(at, question, &prepared).await?;
                    let took = start.elapsed().as_secs_f64() * 1e3;
                    if got != right {
                        return Err(format!("{} answers {got:?} instead of {right:?}: {question:?}", NAMES[at]).into());
                    }
                    if turn > 0 {
                        times[at].push(took);
                    }
                }
            }
            for (mean, times) in measured.ms.iter_mut().zip(&mut times) {
                *mean += median(times) / questions.len() as f64;
            }
        }
        Ok(measured)
    }

    async fn ask(&self, at: usize, question: &Question, prepared: &[Prepared; 2]) -> Anything<Totals> {
        match at {
            0 => self.hilbert.ask(&prepared[0]).await,
            1 => self.z.ask(&prepared[1]).await,
            2 => Ok(self.pdc.ask(question)),
            _ => Ok(self.rtree.ask(question)),
        }
    }
}

/// One line for each structure: its figure by dimensions.
fn lines(all: &[Value], figure: impl Fn(&Value, usize) -> Option<f64>) -> Vec<Line> {
    let points = |at: usize| {
        let point = |one: &Value| Some((one["dimensions"].as_f64()?, figure(one, at)?));
        all.iter().filter_map(point).collect()
    };
    NAMES.iter().enumerate().map(|(at, name)| Line { name: (*name).to_owned(), points: points(at) }).collect()
}

/// Figure 12.
fn insertion(all: &[Value]) -> Panel {
    let mut lines = lines(all, |one, at| one["inserted_rows_per_s"][at].as_f64());
    lines.iter_mut().take(2).for_each(|line| line.name.push_str(" (durable, merged)"));
    lines.iter_mut().skip(2).for_each(|line| line.name.push_str(" (row by row, in memory)"));
    Panel { title: "Insertion".to_owned(), x: "dimensions".to_owned(), y: "rows a second".to_owned(), lines }
}

/// Figure 13, one bin of coverage.
fn queries(all: &[Value], coverage: Coverage) -> Panel {
    let at_bin = Coverage::ALL.iter().position(|other| *other == coverage).unwrap_or(0);
    Panel {
        title: format!("Queries of {} coverage", coverage.name()),
        x: "dimensions".to_owned(),
        y: "mean ms of a query".to_owned(),
        lines: lines(all, |one, at| one["queries"][at_bin]["mean_ms"][at].as_f64()),
    }
}
