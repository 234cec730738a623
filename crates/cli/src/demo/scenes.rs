//! The scenes of the demo once the stream has stopped: the same answer at every freshness, an answer in microseconds, an estimate that
//! closes.

use super::FRESHNESS;
use super::stream::{Feed, answer, single};
use crate::say;
use alluvia_node::Database;
use alluvia_query::Refinement;
use alluvia_types::{Error, Result};
use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use futures::StreamExt;
use std::time::{Duration, Instant};

/// How often a cuboid is asked.
const ASKED: usize = 200;

/// Merges everything and asks once more at each freshness. Whether the answers are the same, and count what came.
pub async fn all_the_same(db: &Database, feed: &Feed, ingested: u64) -> Result<bool> {
    let session = db.session();
    session.sql("CALL alluvia.merge()").await?;
    let count = single(&session, &format!("SELECT count(*) FROM {}", feed.table)).await?;
    let mut answers = Vec::new();
    for freshness in FRESHNESS {
        let session = db.session();
        session.sql(&format!("SET freshness = '{freshness}'")).await?;
        answers.push(answer(&session, &feed.question).await?);
    }
    say(&format!("\n{}\n", answers[0]))?;
    if count == ingested.to_string() && answers.iter().all(|answer| *answer == answers[0]) {
        say(&format!(
            "All {count} rows are there, and the answer is the same at every freshness now that all is merged.\n"
        ))?;
        return Ok(true);
    }
    say(&format!(
        "\nDEFECT: {ingested} rows went in, {count} are counted; the answers at each freshness should agree once all is merged:\n"
    ))?;
    for answer in &answers {
        say(&format!("{answer}\n"))?;
    }
    Ok(false)
}

/// A question that a cuboid answers without reading a row.
pub async fn by_cuboid(db: &Database, feed: &Feed) -> Result<()> {
    let Some((levels, question)) = &feed.cuboid else { return Ok(()) };
    say(&format!("\n== Totals that are kept: an answer in microseconds\n     {question}\n"))?;
    let session = db.session();
    let pinned = format!("CALL alluvia.pin_cuboid('{}', '{}')", feed.table, levels.replace('\'', "''"));
    if let Err(error) = session.sql(&pinned).await {
        return say(&format!("   Its levels have too many members for a cuboid here: {}\n", error.message()));
    }
    let mut times = Vec::with_capacity(ASKED);
    for _ in 0..ASKED {
        let start = Instant::now();
        session.sql(question).await?.collect().await?;
        times.push(start.elapsed());
    }
    times.sort();
    say(&format!(
        "   A cuboid holds the totals of {levels}, and follows the stream. Asked {ASKED} times: {} each (median), and no row is read.\n",
        shown(times[ASKED / 2])
    ))
}

/// An estimate whose error falls while more of the sample is read.
pub async fn estimated(db: &Database, feed: &Feed) -> Result<()> {
    let Some(question) = &feed.estimated else { return Ok(()) };
    say(&format!("\n== As exact as you ask: an estimate that closes\n     {question}\n"))?;
    let session = db.session();
    let start = Instant::now();
    let mut looks = session.refine(question).await?;
    while let Some(look) = looks.next().await {
        let look = look?;
        let (value, off) = value_of(&look)?;
        let read = 100.0 * look.fraction;
        let line = match off {
            _ if look.is_exact() => format!("{value:.5}  exactly"),
            Some(off) => format!("{value:.5}  within {:.2} %, in 95 of 100", 100.0 * off / value.abs()),
            None => "not known yet".to_owned(),
        };
        say(&format!("   {read:>5.1} % of the rows read, {:>9}:  {line}\n", shown(start.elapsed())))?;
    }
    say("   SET max_error = 0.01 ends it where 1 % is reached.\n")
}

/// The one value of a look, and what it may be off; `None` where nothing is known.
fn value_of(look: &Refinement) -> Result<(f64, Option<f64>)> {
    let number = |array: &dyn Array| -> Result<Option<f64>> {
        let numbers = cast(array, &DataType::Float64).map_err(|error| Error::internal(error.to_string()))?;
        let numbers = numbers.as_primitive::<Float64Type>();
        Ok((!numbers.is_empty() && numbers.is_valid(0)).then(|| numbers.value(0)))
    };
    let value = number(look.rows.column(0))?.unwrap_or(f64::NAN);
    let Some(Some(bounds)) = look.bounds.first() else { return Ok((value, None)) };
    let off = match (number(&bounds.lower)?, number(&bounds.upper)?) {
        (Some(lower), Some(upper)) => Some((value - lower).max(upper - value)),
        _ => None,
    };
    Ok((value, off.filter(|off| off.is_finite())))
}

/// A time, in the unit that reads best.
fn shown(time: Duration) -> String {
    match time.as_micros() {
        micros @ ..1_000 => format!("{micros} µs"),
        micros @ ..1_000_000 => format!("{:.1} ms", micros as f64 / 1e3),
        micros => format!("{:.1} s", micros as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_the_unit_that_reads_best() {
        let times = [(999, "999 µs"), (1_000, "1.0 ms"), (38_240, "38.2 ms"), (2_500_000, "2.5 s")];
        for (micros, expected) in times {
            assert_eq!(shown(Duration::from_micros(micros)), expected);
        }
    }
}
