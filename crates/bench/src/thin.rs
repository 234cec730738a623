//! `thin`: the thinned rows of boxes in three dimensions, beside reading the whole box, and beside DuckDB's `USING SAMPLE` over it.
//!
//! Points lie in a thousand clusters. Each engine holds the same rows: ours merged on disk, DuckDB's in memory. Every question
//! adds up the rows that it gets, so that all their columns are read and none has to be shipped; boxes come in turns, engines
//! within them. The answers over whole boxes are checked against DuckDB's; what is sampled differs by its nature, and is checked
//! by the number of its rows.

use crate::boxes::answer::Answer;
use crate::boxes::peers::{KINDS, Peer};
use crate::machine::median;
use crate::{Anything, Places};
use alluvia_node::Database;
use alluvia_query::Session;
use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use clap::Args;
use serde_json::{Value, json};
use std::time::Instant;

#[derive(Args)]
pub struct ThinArgs {
    #[command(flatten)]
    places: Places,
    /// Points.
    #[arg(long, default_value_t = 20_000_000)]
    rows: u64,
    /// Boxes.
    #[arg(long, default_value_t = 10)]
    boxes: u64,
    /// Timed turns of every engine on each box.
    #[arg(long, default_value_t = 3)]
    turns: usize,
}

/// What is kept of a box.
const SHARES: [f64; 2] = [0.001, 0.01];

/// What a question adds up.
const SUMS: &str = "count(*), sum(x + y + z), avg(x)";

pub async fn run(args: ThinArgs) -> Anything<Value> {
    let scratch = tempfile::tempdir_in(&args.places.data)?;
    let db = Database::open(scratch.path().join("db"))?;
    let session = db.session();
    let file = scratch.path().join("points.parquet");
    let file = file.to_str().ok_or("the data folder's path is not UTF-8")?.to_owned();
    // Sums of three uniform numbers, which are nearly normal.
    let noise = "(random() + random() + random() - 1.5) * 6";
    for sql in [
        "CREATE TABLE points (id BIGINT, x DOUBLE, y DOUBLE, z DOUBLE) \
         WITH (dimensions = 'x(x: linear 0..100); y(y: linear 0..100); z(z: linear 0..100)')"
            .to_owned(),
        format!(
            "INSERT INTO points SELECT value, value % 1000 * 37 % 101 + {noise}, value % 1000 * 59 % 103 + {noise}, \
             value % 1000 * 83 % 107 + {noise} FROM generate_series(1, {})",
            args.rows
        ),
        "CALL alluvia.merge()".to_owned(),
        format!("COPY points TO '{file}'"),
        "SET short_path = off".to_owned(),
    ] {
        session.sql(&sql).await?.collect().await?;
    }
    eprintln!("{} points are merged", args.rows);
    let mut duckdb = Peer::start(&KINDS[0], &args.places, &file, scratch.path(), args.rows)?;
    let mut figures = Vec::new();
    for share in SHARES {
        let mut times: [Vec<f64>; 5] = Default::default();
        let (mut shown, mut matching) = (0, 0);
        for at in 0..args.boxes {
            let area = area(at);
            let rows = count(&session, &format!("SELECT count(*) FROM points WHERE {area}")).await?;
            let kept = ((rows as f64 * share).ceil() as i64).max(1);
            let ours = [
                format!("SELECT {SUMS} FROM thin(points, max_rows => {kept}) WHERE {area}"),
                format!("SELECT {SUMS} FROM points WHERE {area}"),
            ];
            let from = format!("FROM (SELECT * FROM retail WHERE {area})");
            let theirs = [
                format!("SELECT {SUMS} FROM (SELECT * {from} USING SAMPLE {kept} ROWS)"),
                format!("SELECT {SUMS} FROM (SELECT * {from} USING SAMPLE {} PERCENT (bernoulli))", share * 100.0),
                format!("SELECT {SUMS} {from}"),
            ];
            let thinned = count(&session, &ours[0]).await?;
            if thinned != kept.min(rows) {
                return Err(format!("thin gave {thinned} rows of {rows} instead of {kept}: {}", ours[0]).into());
            }
            // The first turn warms, and checks.
            for turn in 0..=args.turns {
                let whole = ask(&session, &ours[1]).await?;
                let mut took = vec![ask(&session, &ours[0]).await?.0, whole.0];
                let mut answers = Vec::new();
                for sql in &theirs {
                    let (ms, answer) = duckdb.ask(sql, false)?;
                    took.push(ms);
                    answers.push(answer);
                }
                if let Some(how) = answers[2].difference(&whole.1) {
                    return Err(format!("answers differ: {how}: {}", ours[1]).into());
                }
                if turn > 0 {
                    times.iter_mut().zip(took).for_each(|(times, took)| times.push(took));
                }
            }
            shown += thinned;
            matching += rows;
        }
        let [thin, whole, reservoir, bernoulli, peer_whole] = times.map(|mut times| median(&mut times));
        eprintln!(
            "{share}: thin {thin:.2} ms, whole box {whole:.2} ms; DuckDB rows {reservoir:.2} ms, percent {bernoulli:.2} ms, whole box {peer_whole:.2} ms"
        );
        figures.push(json!({
            "share": share, "boxes": args.boxes, "rows_matching": matching, "rows_shown": shown,
            "thin_ms": thin, "whole_ms": whole,
            "duckdb_rows_ms": reservoir, "duckdb_percent_ms": bernoulli, "duckdb_whole_ms": peer_whole,
            "whole_to_thin": whole / thin, "duckdb_to_thin": reservoir.min(bernoulli) / thin,
        }));
    }
    Ok(json!({ "bench": "thin", "rows": args.rows, "turns": args.turns, "shares": figures, "duckdb": duckdb.version }))
}

/// A box: of every third of them a side is 60, 40, 25 of about 100.
fn area(at: u64) -> String {
    let side = [60, 40, 25][at as usize % 3];
    let sides = [("x", 17), ("y", 29), ("z", 41)].map(|(name, step)| {
        let low = at * step % (100 - side);
        format!("{name} >= {low} AND {name} < {}", low + side)
    });
    sides.join(" AND ")
}

/// A question's milliseconds and its answer.
async fn ask(session: &Session, sql: &str) -> Anything<(f64, Answer)> {
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
