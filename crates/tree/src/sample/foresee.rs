//! Which rung promises to suffice, by what summaries say.
//!
//! The error of a stratum of N rows read at rate t is N S² (1/t - 1), S² from the expected share of matching rows as in
//! [`crate::estimate::next_allocation`]. Of G groups each is taken for a G-th of everything: its relative error is the square root of G
//! times as large. A wrong guess costs a second look, or one that was not needed; never the interval.

use super::facts::Facts;
use super::{Asked, Goal, LOOKS, SegmentRows};
use crate::answer::Answer;
use crate::estimate::{Aggregate, Plan};
use crate::ladder::rung_rate;
use std::collections::BTreeSet;

/// Our intervals are wider than a normal one with the same error, and half of all guesses are too low.
const MARGIN: f64 = 1.3;

/// What is expected of one goal.
#[derive(Clone, Debug, Default)]
struct Expected {
    /// Value of all groups together, what is exact included.
    total: f64,
    /// By segment: N S² of its blocks.
    spread: Vec<f64>,
}

/// The thinnest rung that promises to bring every goal to its error; `None` if only everything does.
pub(super) fn rung(
    asked: &Asked<'_>,
    segments: &[SegmentRows],
    facts: &[Facts],
    groups: usize,
    into: &Answer,
) -> Option<u32> {
    let rungs: BTreeSet<u32> = segments.iter().flat_map(|rows| rows.segment.rungs()).map(|rung| rung.rung).collect();
    let expected: Vec<Expected> = asked.goals.iter().map(|goal| expect(goal, segments.len(), facts, into)).collect();
    let widest = Plan::new(LOOKS, asked.confidence).standard_errors() * MARGIN * (groups as f64).sqrt();
    rungs.into_iter().rev().find(|&rung| {
        expected.iter().all(|expected| {
            let spread = expected.spread.iter().zip(segments).filter(|(spread, _)| **spread > 0.0);
            let variance: f64 = spread
                .map(|(spread, rows)| {
                    let read = rows.segment.rungs().iter().map(|has| has.rung).filter(|&has| has <= rung).max();
                    spread * (1.0 / rung_rate(read.unwrap_or(0)) - 1.0)
                })
                .sum();
            // NaN is no promise.
            widest * variance.sqrt() <= asked.max_error * expected.total.abs()
        })
    })
}

fn expect(goal: &Goal, segments: usize, facts: &[Facts], into: &Answer) -> Expected {
    let (mut count, mut sum) = (0.0, 0.0);
    for group in 0..into.totals.groups() {
        let (of_group, sum_of_group) = exact_of(into, group, goal.measure);
        count += of_group as f64;
        sum += sum_of_group;
    }
    for facts in facts {
        count += facts.share * facts.rows as f64;
        sum += goal.measure.map_or(0.0, |measure| facts.share * facts.known[measure].sum);
    }
    let mean = if count > 0.0 { sum / count } else { 0.0 };
    let mut spread = vec![0.0; segments];
    for facts in facts {
        let (share, rows) = (facts.share, facts.rows as f64);
        let of_row = |measure: usize| (facts.known[measure].sum / rows, facts.known[measure].squares / rows);
        let (x, squares) = goal.measure.map_or((1.0, 1.0), of_row);
        let of_block = match goal.aggregate {
            Aggregate::Count => share * (1.0 - share),
            Aggregate::Sum => share * squares - (share * x).powi(2),
            Aggregate::Avg => share * (squares - 2.0 * mean * x + mean * mean) - (share * (x - mean)).powi(2),
        };
        spread[facts.cut.segment] += rows * of_block.max(0.0);
    }
    Expected { total: if goal.aggregate == Aggregate::Count { count } else { sum }, spread }
}

/// Count and sum of a group, of a measure or of rows, as far as they are counted exactly.
pub(super) fn exact_of(into: &Answer, group: usize, measure: Option<usize>) -> (u64, f64) {
    if group >= into.totals.groups() {
        return (0, 0.0);
    }
    let Some(measure) = measure else {
        let rows = into.totals.rows(group);
        return (rows, rows as f64);
    };
    let totals = &into.totals.measures()[measure];
    let sum = match (totals.of().wanted.sum, totals.of().is_float) {
        (false, _) => 0.0,
        (true, true) => totals.float_sum(group),
        (true, false) => totals.exact_sum(group) as f64,
    };
    (totals.count(group), sum)
}
