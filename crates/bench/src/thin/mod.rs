//! `thin`: the thinned rows of boxes in three dimensions, beside reading the whole box, DuckDB's `USING SAMPLE` over it, and PostGIS
//! with a 3-D and a 4-D (priority) index (Qbeast, figure 4.17).
//!
//! Points are real ones (atoms of trajectories), or lie in a thousand clusters. Each engine holds the same rows: ours merged on disk,
//! DuckDB's in memory, PostGIS's in its own buffers. Every question adds up the rows that it gets, so that all their columns are
//! read and none has to be shipped; boxes come in turns, engines within them. The answers over whole boxes are checked against
//! DuckDB's; what is sampled differs by its nature, and is checked by the number of its rows. [`points`] are the points,
//! [`postgis`] is the peer.

mod points;
mod postgis;

use crate::boxes::answer::Answer;
use crate::boxes::peers::{KINDS, Peer};
use crate::machine::median;
use crate::{Anything, Folders};
use alluvia_node::Database;
use alluvia_query::Session;
use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use clap::Args;
use points::{Area, Points};
use postgis::{Index, PostGis};
use serde_json::{Value, json};
use std::time::Instant;

#[derive(Args)]
pub struct ThinArgs {
    #[command(flatten)]
    folders: Folders,
    /// Atoms of real trajectories (about 800,000) instead of clusters.
    #[arg(long)]
    real: bool,
    /// Points in clusters.
    #[arg(long, default_value_t = 5_000_000, conflicts_with = "real")]
    rows: u64,
    /// Boxes.
    #[arg(long, default_value_t = 12)]
    boxes: u64,
    /// Timed turns of every engine on each box.
    #[arg(long, default_value_t = 3)]
    turns: usize,
}

/// What is kept of a box.
const SHARES: [f64; 2] = [0.001, 0.01];

/// What a question adds up.
const SUMS: &str = "count(*), sum(x + y + z), avg(x)";

/// The questions, in the order of figures.
const WAYS: [&str; 9] = [
    "thin_max_rows",
    "thin_fraction",
    "whole",
    "duckdb_rows",
    "duckdb_percent",
    "duckdb_whole",
    "postgis_3d",
    "postgis_4d",
    "postgis_whole",
];

pub async fn run(args: ThinArgs) -> Anything<Value> {
    let points = match args.real {
        true => Points::atoms(&args.folders)?,
        false => Points::clusters(&args.folders.data, args.rows)?,
    };
    let file = points.file.to_str().ok_or("the data folder's path is not UTF-8")?;
    let scratch = tempfile::tempdir_in(&args.folders.data)?;
    let db = Database::open(scratch.path().join("db"))?;
    let session = db.session();
    let axis = |name: &str, at: usize| {
        let Area { low, high } = points.bounds;
        // The highest point belongs to the last part.
        format!("{name}({name}: linear {}..{})", low[at].floor(), high[at].ceil().max(low[at].floor() + 1.0))
    };
    let dimensions = [axis("x", 0), axis("y", 1), axis("z", 2)].join("; ");
    for sql in [
        format!("CREATE TABLE points (id BIGINT, x DOUBLE, y DOUBLE, z DOUBLE) WITH (dimensions = '{dimensions}')"),
        format!("COPY points FROM '{file}'"),
        "CALL alluvia.merge()".to_owned(),
    ] {
        session.sql(&sql).await?.collect().await?;
    }
    eprintln!("{} points are merged", points.count);
    let duckdb = Peer::start(&KINDS[0], &args.folders, file, scratch.path(), points.count)?;
    let postgis = match PostGis::load(&points.file).await {
        Ok(postgis) => Some(postgis),
        Err(error) => {
            eprintln!("PostGIS is not measured: {error}");
            None
        }
    };
    let mut engines = Engines { session, duckdb, postgis };
    let mut figures = Vec::new();
    for share in SHARES {
        let mut times: [Vec<f64>; WAYS.len()] = Default::default();
        let (mut shown, mut matching) = (0, 0);
        for at in 0..args.boxes {
            let area = points.bounds.part(at);
            let rows =
                count(&engines.session, &format!("SELECT count(*) FROM points WHERE {}", area.condition())).await?;
            let question = Question { area, rows, share, kept: ((rows as f64 * share).ceil() as i64).max(1) };
            // The first turn warms, and checks.
            for turn in 0..=args.turns {
                for step in 0..WAYS.len() {
                    let way = (step + turn + at as usize) % WAYS.len();
                    let Some(took_ms) = engines.ask(way, &question).await? else { continue };
                    if turn > 0 {
                        times[way].push(took_ms);
                    }
                }
            }
            shown += question.kept.min(rows);
            matching += rows;
        }
        let ms: Vec<Option<f64>> =
            times.into_iter().map(|mut times| (!times.is_empty()).then(|| median(&mut times))).collect();
        let mut figure = json!({ "share": share, "boxes": args.boxes, "rows_matching": matching, "rows_shown": shown });
        let mut line = format!("{share}:");
        for (way, ms) in WAYS.iter().zip(&ms) {
            figure[format!("{way}_ms")] = json!(ms);
            line += &ms.map_or_else(String::new, |ms| format!("  {way} {ms:.2}"));
        }
        eprintln!("{line} ms");
        let ratio = |other: usize, own: usize| ms[other].zip(ms[own]).map(|(other, own)| other / own);
        figure["whole_to_thin"] = json!(ratio(2, 0));
        figure["duckdb_to_thin"] = json!(ratio(4, 1));
        figure["postgis_3d_to_thin"] = json!(ratio(6, 1));
        figure["postgis_4d_to_thin"] = json!(ratio(7, 1));
        figures.push(figure);
    }
    Ok(json!({
        "bench": "thin", "real": args.real, "rows": points.count, "turns": args.turns, "shares": figures,
        "duckdb": engines.duckdb.version, "postgis": engines.postgis.map(|postgis| postgis.version),
    }))
}

/// A box, how many rows match, and what is to be kept.
struct Question {
    area: Area,
    rows: i64,
    share: f64,
    kept: i64,
}

struct Engines {
    session: Session,
    duckdb: Peer,
    postgis: Option<PostGis>,
}

impl Engines {
    /// Milliseconds of a question put in one of [`WAYS`], its answer checked; `None` without its engine.
    async fn ask(&mut self, way: usize, question: &Question) -> Anything<Option<f64>> {
        let Question { area, rows, share, kept } = question;
        let condition = area.condition();
        let theirs = format!("FROM (SELECT * FROM retail WHERE {condition})");
        let (took_ms, got) = match way {
            0 => self.ours(&format!("SELECT {SUMS} FROM thin(points, max_rows => {kept}) WHERE {condition}")).await?,
            1 => self.ours(&format!("SELECT {SUMS} FROM thin(points, fraction => {share}) WHERE {condition}")).await?,
            2 => {
                let sql = format!("SELECT {SUMS} FROM points WHERE {condition}");
                let (took_ms, whole) = timed(&self.session, &sql).await?;
                let right = self.duckdb.ask(&format!("SELECT {SUMS} {theirs}"), false)?.1;
                if let Some(how) = right.difference(&whole) {
                    return Err(format!("answers differ: {how}: {sql}").into());
                }
                (took_ms, whole.count())
            }
            3 => self.theirs(&format!("SELECT {SUMS} FROM (SELECT * {theirs} USING SAMPLE {kept} ROWS)"))?,
            4 => {
                let percent = share * 100.0;
                self.theirs(&format!(
                    "SELECT {SUMS} FROM (SELECT * {theirs} USING SAMPLE {percent} PERCENT (bernoulli))"
                ))?
            }
            5 => self.theirs(&format!("SELECT {SUMS} {theirs}"))?,
            _ => {
                let Some(postgis) = &self.postgis else { return Ok(None) };
                let (index, below) = match way {
                    6 => (Index::Space, *share),
                    7 => (Index::SpaceAndPriority, *share),
                    _ => (Index::Space, 1.0),
                };
                let (took_ms, count, sum) = postgis.ask(index, area, below).await?;
                if way == 7 {
                    let (_, other_count, other_sum) = postgis.ask(Index::Space, area, below).await?;
                    if count != other_count || (sum - other_sum).abs() > 1e-9 * sum.abs().max(1.0) {
                        return Err(
                            format!("PostGIS's indexes differ: {count} and {other_count} rows of {condition}").into()
                        );
                    }
                }
                (took_ms, count as u64)
            }
        };
        // What is drawn by weight is near to its share, within six standard deviations; what is counted is exact.
        let (wanted, off) = match way {
            0 | 3 => ((*kept).min(*rows) as f64, 0.0),
            2 | 5 | 8 => (*rows as f64, 0.0),
            _ => (*rows as f64 * share, 6.0 * (*rows as f64 * share).sqrt() + 6.0),
        };
        if (got as f64 - wanted).abs() > off {
            return Err(format!("{} gave {got} rows of {rows}, {wanted} are expected: {condition}", WAYS[way]).into());
        }
        Ok(Some(took_ms))
    }

    async fn ours(&self, sql: &str) -> Anything<(f64, u64)> {
        let (took_ms, answer) = timed(&self.session, sql).await?;
        Ok((took_ms, answer.count()))
    }

    fn theirs(&mut self, sql: &str) -> Anything<(f64, u64)> {
        let (took_ms, answer) = self.duckdb.ask(sql, false)?;
        Ok((took_ms, answer.count()))
    }
}

/// A question's milliseconds and its answer.
async fn timed(session: &Session, sql: &str) -> Anything<(f64, Answer)> {
    let start = Instant::now();
    let batches = session.sql(sql).await?.collect().await?;
    Ok((start.elapsed().as_secs_f64() * 1e3, Answer::of_batches(&batches, false)?))
}

/// The first number of an answer.
async fn count(session: &Session, sql: &str) -> Anything<i64> {
    let batches = session.sql(sql).await?.collect().await?;
    let first = batches.iter().find(|batch| batch.num_rows() > 0).ok_or("an answer has no rows")?;
    Ok(first.column(0).as_primitive::<Int64Type>().value(0))
}
