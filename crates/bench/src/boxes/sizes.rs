//! Resident questions on tables of two sizes: a cuboid's cells do not depend on the rows, so its answers should take the same time.
//!
//! The other table is a database of its own, drawn from the same distribution; its answers are checked against DuckDB's over
//! its file. Both are asked in turns, through the Rust API and as SQL text that is repeated.

use crate::Anything;
use crate::boxes::answer::Answer;
use crate::boxes::data::Data;
use crate::boxes::ours::{Ours, Way};
use crate::boxes::peers::{FILES, Peer};
use crate::boxes::questions::Question;
use crate::boxes::{BoxArgs, options};
use crate::machine::median;
use serde_json::{Value, json};
use std::path::Path;

/// Least turns: answers take microseconds.
const TURNS_MIN: usize = 200;

/// Asks the questions that are resident in both.
pub async fn compare(
    args: &BoxArgs,
    ours: &Ours,
    rows: u64,
    scratch: &Path,
    questions: &[Question],
) -> Anything<Value> {
    let data = Data { rows, zipf: args.zipf, correlated: args.correlated };
    let file = data.parquet(&args.folders.data)?;
    let file = file.to_str().ok_or("the data folder's path is not UTF-8")?;
    let other = Ours::load(&scratch.join("other"), file, rows, options(args)?).await?;
    let mut peer = Peer::start(&FILES, &args.folders, file, scratch, rows)?;
    let mut figures = Vec::new();
    for way in [Way::ResidentApi, Way::ResidentSql] {
        let (mut these, mut those, mut worst) = (Vec::new(), Vec::new(), 0.0f64);
        for question in questions {
            // Of few rows a shape may not be worth a cuboid.
            if !ours.make_resident(question).await? || !other.make_resident(question).await? {
                continue;
            }
            let prepared = [ours.prepare(question)?, other.prepare(question)?];
            let reference: Answer = peer.ask(&question.sql, question.grouped)?.1;
            let (mut own, mut others) = (Vec::new(), Vec::new());
            for turn in 0..args.turns.max(TURNS_MIN) {
                own.push(ours.ask(way, question, &prepared[0]).await?.0);
                let (took_ms, answer) = other.ask(way, question, &prepared[1]).await?;
                others.push(took_ms);
                if turn == 0
                    && let Some(how) = reference.difference(&answer)
                {
                    return Err(format!("of {rows} rows: {how}: {}", question.sql).into());
                }
            }
            let (own, others) = (median(&mut own), median(&mut others));
            worst = worst.max(own / others);
            these.push(own);
            those.push(others);
        }
        let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
        let (own, others) = (mean(&these), mean(&those));
        eprintln!(
            "{}: {} shapes resident in both; mean {own:.4} ms of {} rows, {others:.4} ms of {rows} rows, ratio {:.2}, at worst {worst:.2}",
            way.name(),
            these.len(),
            args.rows,
            own / others
        );
        figures.push(json!({
            "way": way.name(), "questions": these.len(), "mean_ms": own, "other_mean_ms": others,
            "ratio_of_means": own / others, "worst_ratio": worst,
        }));
    }
    Ok(json!({ "rows": rows, "ways": figures }))
}
