//! Progressive answers: a table that is drawn again and again until it is exact.
//!
//! Invariants:
//! - Standard output gets the last answer alone, in the form asked for; what is drawn before it is on the terminal's error stream, and only
//!   where both are a terminal.
//! - What Ctrl-C leaves is printed with its bounds and never without, and the statement counts as cancelled.

use super::connection::{Connection, Watch};
use super::estimate::{Estimate, is_bounded, rounded, table_of_estimate, with_bounds, with_errors};
use super::output::{write, write_batches};
use super::output_settings::OutputSettings;
use super::statement::{Refining, Statement};
use super::{Format, interrupt};
use crate::note;
use alluvia_query::Refinement;
use alluvia_types::{Error, ErrorKind, Result};
use futures::StreamExt;
use futures::stream::BoxStream;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// Rows of a table that is drawn again and again.
const ROWS_SHOWN: usize = 20;
/// The bar's length; its position is in thousandths.
const BAR: u64 = 1_000;

/// Runs a query and shows its refinements; Ctrl-C prints the best so far.
pub async fn run(connection: &Connection, statement: Statement, settings: &OutputSettings) -> Result<()> {
    match connection.cancellable(connection.refine(statement)).await? {
        Refining::Rows(answer) => {
            connection.cancellable(write(answer, settings)).await?;
            note(format_args!("NOTICE: nothing here is refined: this is the answer"));
            Ok(())
        }
        Refining::Looks(refinements) => {
            let is_seen = std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
            let bar = bar(is_seen && settings.format == Format::Table);
            // A server is asked how far it is: only for a bar that is seen.
            let watch = (!bar.is_hidden()).then(|| connection.watch());
            let (best, is_whole) = best_of(watch.as_ref(), refinements, &bar).await?;
            bar.finish_and_clear();
            let estimate = Estimate::from(best.clone());
            match settings.format {
                Format::Table if !best.is_exact() => table_of_estimate(&estimate, settings)?,
                _ if is_whole => write_batches(best.rows.schema(), std::slice::from_ref(&best.rows), settings)?,
                _ => {
                    let rows = with_bounds(&estimate)?;
                    write_batches(rows.schema(), &[rows], settings)?;
                }
            }
            if is_whole { Ok(()) } else { Err(Error::new(ErrorKind::Cancelled, stopped(&best)?)) }
        }
    }
}

/// The last refinement, and whether it is the answer: Ctrl-C ends the statement where it is.
async fn best_of(
    watch: Option<&Watch<'_>>,
    mut refinements: BoxStream<'static, Result<Refinement>>,
    bar: &ProgressBar,
) -> Result<(Refinement, bool)> {
    let mut ticks = tokio::time::interval(Duration::from_millis(100));
    let mut best: Option<Refinement> = None;
    loop {
        tokio::select! {
            biased;
            () = interrupt::pressed() => {
                drop(refinements);
                let cancelled = || Error::new(ErrorKind::Cancelled, "the statement was cancelled before its first estimate");
                return best.map(|best| (best, false)).ok_or_else(cancelled);
            }
            next = refinements.next() => match next {
                None => {
                    let none = || Error::internal("a statement was refined to nothing");
                    return best.map(|best| (best, true)).ok_or_else(none);
                }
                Some(refinement) => {
                    let refinement = refinement?;
                    if !bar.is_hidden() {
                        bar.set_position(position(refinement.fraction));
                        bar.set_message(frame(&refinement)?);
                    }
                    best = Some(refinement);
                }
            },
            _ = ticks.tick(), if !bar.is_hidden() => {
                let told = best.as_ref().map_or(0.0, |best| best.fraction);
                bar.set_position(position(watch.map_or(0.0, Watch::fraction).max(told)));
                bar.tick();
            }
        }
    }
}

/// Where the bar stands at a share of the rows.
fn position(fraction: f64) -> u64 {
    (fraction * BAR as f64) as u64
}

fn bar(is_shown: bool) -> ProgressBar {
    let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style = ProgressStyle::with_template("{msg}[{bar:40}] {percent}% of rows read, {elapsed}");
    ProgressBar::with_draw_target(Some(BAR), target).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// What is drawn of a refinement.
fn frame(refinement: &Refinement) -> Result<String> {
    let shown = with_errors(&Estimate::from(refinement.clone()), ROWS_SHOWN)?;
    let drawn = arrow::util::pretty::pretty_format_batches(&[shown]);
    let drawn = drawn.map_err(|error| Error::internal(format!("an estimate cannot be shown: {error}")))?;
    let more = match refinement.rows.num_rows().saturating_sub(ROWS_SHOWN) {
        0 => String::new(),
        more => format!("... {more} more rows\n"),
    };
    Ok(format!("{drawn}\n{more}{}\n", summary(refinement)?))
}

/// `look 2 of 6: at most 1.3 % off at confidence 0.95, version 12`
fn summary(refinement: &Refinement) -> Result<String> {
    let version = refinement.version.map_or_else(String::new, |version| format!(", version {version}"));
    if refinement.is_exact() {
        return Ok(format!("exact{version}"));
    }
    let error = match refinement.error {
        error if error.is_finite() => format!("at most {} % off", rounded(100.0 * error, 3)),
        // Nothing is a share of an estimate of 0.
        _ if is_bounded(&Estimate::from(refinement.clone()))? => "some values may be 0".to_owned(),
        _ => "some values are not known yet".to_owned(),
    };
    let unseen = match refinement.groups_unseen {
        0 => String::new(),
        groups => format!(", may lack {groups} groups"),
    };
    let Refinement { look, looks, confidence, .. } = refinement;
    Ok(format!("look {look} of {looks}: {error} at confidence {confidence}{unseen}{version}"))
}

fn stopped(best: &Refinement) -> Result<String> {
    let (read, summary) = (rounded(100.0 * best.fraction, 3), summary(best)?);
    Ok(format!(
        "stopped when {read} % of the rows were read: what is printed is an estimate with its bounds ({summary})"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::estimate::tests::estimate;
    use alluvia_query::Bounds;
    use arrow::array::{ArrayRef, AsArray, Float64Array, RecordBatch};
    use std::sync::Arc;

    #[test]
    fn a_frame_says_how_sure_its_values_are() {
        let drawn = frame(&estimate()).unwrap();
        let line = "look 2 of 6: some values are not known yet at confidence 0.95, may lack 3 groups, version 12";
        assert!(drawn.trim_end().ends_with(line), "{drawn}");
        assert!(stopped(&estimate()).unwrap().contains("12.5 % of the rows"));
        let mut sum = estimate();
        sum.error = 0.013_04;
        assert!(summary(&sum).unwrap().starts_with("look 2 of 6: at most 1.31 % off at confidence 0.95"));
        // What is bounded is known, though no share of it bounds how much it is off.
        sum.error = f64::INFINITY;
        let bounds = |values: [f64; 2]| Arc::new(Float64Array::from(values.to_vec())) as ArrayRef;
        let columns = [sum.rows.columns()[..2].to_vec(), vec![bounds([1.5, 0.0])]].concat();
        sum.rows = RecordBatch::try_new(sum.rows.schema(), columns).unwrap();
        sum.bounds[2] = Some(Bounds { lower: bounds([1.25, -1.0]), upper: bounds([1.5, 0.5]) });
        let shown = with_errors(&sum.clone().into(), 20).unwrap();
        assert_eq!(shown.column(2).as_string::<i32>().value(1), "0.0 \u{b1} 1");
        assert!(summary(&sum).unwrap().starts_with("look 2 of 6: some values may be 0 at confidence 0.95"));
    }
}
