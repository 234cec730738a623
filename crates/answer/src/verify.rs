//! How often intervals hold: the statement asked again and again, each time with rows drawn under another seed.
//!
//! Invariant: a trial takes the statement's own way, from the choice of a rung to where it stops; only where drawn rows come from differs:
//! from full segments by new weights, as if every ladder had been written with that seed.

use super::bound::{Bound, without_edges};
use super::run::{Asking, Begun, add_segments};
use super::sampled::{Accuracy, Missed, goals_of};
use super::{columns, group_codes};
use alluvia_tree::Answer;
use alluvia_tree::estimate::{Aggregate, Interval};
use alluvia_tree::sample::{Goal, Otherwise, SampleRequest, Sampled, Source, sample};
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::Array;
use arrow::datatypes::{DataType, TimeUnit};
use arrow::util::display::array_value_to_string;
use std::collections::{BTreeMap, HashMap};

/// What trials found. Values are those of all groups of all trials that were answered from samples.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    /// Trials answered from samples.
    pub sampled: u64,
    /// Trials that were exact: no sample promised to pay, or none sufficed.
    pub exact: u64,
    /// Values that were estimated.
    pub values: u64,
    /// Of these, values whose interval holds the exact one.
    pub held: u64,
    /// The same of normal-theory intervals at the look at which reading stopped.
    pub textbook_held: u64,
    /// Groups of the exact answer that an estimated one lacks.
    pub lost: u64,
    /// Values that are not 0, of whose intervals the widths are summed.
    pub widths: u64,
    /// Sum of the widths of intervals, each relative to the exact value.
    pub width: f64,
    /// The same of normal-theory intervals.
    pub textbook_width: f64,
    /// Sum of the shares of cut rows that were drawn.
    pub drawn: f64,
    /// The same values by the look at which reading stopped, from 1: who stops at a look because what he saw there pleased him must hold as often as others.
    pub by_look: BTreeMap<u32, Held>,
    /// The value that held least often of those that were estimated often enough to say so, with its name: what all values do together
    /// says little of a small group among large ones.
    pub least: Option<(String, Held)>,
}

/// Of how many estimated values the interval holds the exact one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Held {
    /// Estimated values.
    pub values: u64,
    /// Those of which the interval holds the exact one.
    pub held: u64,
}

impl Held {
    fn count(&mut self, holds: bool) {
        self.values += 1;
        self.held += u64::from(holds);
    }

    /// From 0 to 1.
    pub fn share(&self) -> f64 {
        self.held as f64 / self.values.max(1) as f64
    }
}

/// A group of the exact answer.
struct Truth {
    group: usize,
    /// One for each goal.
    values: Vec<f64>,
    held: Vec<Held>,
}

/// Tries a statement under so many seeds; `stopped` is asked between them.
pub fn verify(
    asking: &Asking<'_>,
    accuracy: &Accuracy,
    trials: u64,
    stopped: impl Fn() -> Result<()>,
) -> Result<Verified> {
    let refused = |what: &str| Err(Error::new(ErrorKind::NotSupported, format!("verify: {what} is not supported")));
    let Asking { bound, threads, .. } = *asking;
    let Some(begun) = asking.begin()? else {
        return refused("a statement of so many groups");
    };
    let (questions, edges) = without_edges(&begun.questions);
    let Some(goals) = goals_of(bound, &questions) else {
        return refused("a statement that is never estimated");
    };
    if begun.is_mostly(&edges)? {
        return Ok(Verified { exact: trials, ..Verified::default() });
    }
    let Begun { segments, found, .. } = begun;
    let Some(begun) = add_segments(&edges, &segments, threads, found)? else {
        return refused("a statement that the index cannot answer");
    };
    let exact = add_segments(&questions, &segments, threads, begun.clone())?;
    let Some(exact) = exact.filter(|exact| !exact.totals.is_spoilt()) else {
        return refused("a statement that the index cannot answer");
    };
    let mut truths = truths(&exact, &goals.values);
    let mut identities = Vec::with_capacity(segments.len());
    for rows in &segments {
        stopped()?;
        let has_ladder = !rows.segment.rungs().is_empty();
        identities.push(if has_ladder { rows.segment.identities(0..rows.segment.meta().rows)? } else { Vec::new() });
    }
    let codes = group_codes::of(bound, &questions);
    let mut verified = Verified::default();
    for trial in 0..trials {
        stopped()?;
        let asked = SampleRequest {
            boxes: &goals.boxes,
            group_codes: &codes,
            goals: &goals.values,
            max_error: accuracy.max_error,
            confidence: accuracy.confidence,
            otherwise: if accuracy.missed == Missed::Escalate { Otherwise::Exact } else { Otherwise::Reached },
            // Neighbouring numbers make seeds that have nothing to do with one another: weights are hashes.
            source: Source::Seeded { seed: bound.def.seed.wrapping_add(1 + trial), identities: &identities },
            by_cost: true,
            strata_min: alluvia_tree::sample::STRATA_MIN,
            threads,
        };
        let mut into = begun.clone();
        match sample(&asked, &segments, &mut into)? {
            Sampled::Cannot => return refused("a statement that the index cannot answer"),
            Sampled::Exact => verified.exact += 1,
            Sampled::Estimates(estimates) => {
                verified.sampled += 1;
                verified.drawn += estimates.rows_drawn as f64 / estimates.rows_cut.max(1) as f64;
                let mut there = 0;
                for (group, cells) in &estimates.groups {
                    let Some(of_group) = truths.get_mut(&into.keys.codes(*group)) else { continue };
                    there += 1;
                    for ((cell, &truth), of_value) in cells.iter().zip(&of_group.values).zip(&mut of_group.held) {
                        // NULL: there is nothing to hold.
                        if truth.is_nan() {
                            continue;
                        }
                        let width = |interval: &Interval| (interval.upper - interval.lower) / truth.abs();
                        verified.values += 1;
                        verified.held += u64::from(holds(&cell.interval, truth));
                        of_value.count(holds(&cell.interval, truth));
                        verified.by_look.entry(estimates.look).or_default().count(holds(&cell.interval, truth));
                        verified.textbook_held += u64::from(holds(&cell.textbook, truth));
                        if truth != 0.0 {
                            verified.widths += 1;
                            verified.width += width(&cell.interval);
                            verified.textbook_width += width(&cell.textbook);
                        }
                    }
                }
                verified.lost += truths.len() as u64 - there;
            }
        }
    }
    verified.least = least(bound, &exact, &goals.values, &truths);
    Ok(verified)
}

/// How often a value must have been estimated to be compared: so many times less than the one that was most often. A group that
/// few trials saw misses all or none of them by chance.
const SELDOM: u64 = 10;

/// Of several that hold as seldom, the one that comes first by its group's codes.
fn least(bound: &Bound, exact: &Answer, goals: &[Goal], truths: &HashMap<Vec<u32>, Truth>) -> Option<(String, Held)> {
    let most = truths.values().flat_map(|truth| &truth.held).map(|held| held.values).max()?;
    let each = truths.iter().flat_map(|(codes, truth)| {
        let held = truth.held.iter().enumerate().filter(|(_, held)| held.values > 0 && held.values >= most / SELDOM);
        held.map(move |(goal, held)| (held, codes, goal, truth.group))
    });
    let (held, _, goal, group) =
        each.min_by(|a, b| a.0.share().total_cmp(&b.0.share()).then_with(|| (a.1, a.2).cmp(&(b.1, b.2))))?;
    Some((format!("{}{}", name_of(bound, &goals[goal]), group_of(bound, exact, group)), *held))
}

fn name_of(bound: &Bound, goal: &Goal) -> String {
    let column = goal.measure.and_then(|at| {
        let id = bound.measures[at].column;
        bound.def.columns.iter().find(|column| column.id == id)
    });
    let of = column.map_or("*", |column| column.name.as_str());
    match goal.aggregate {
        Aggregate::Count => format!("count({of})"),
        Aggregate::Sum => format!("sum({of})"),
        Aggregate::Avg => format!("avg({of})"),
    }
}

/// ` of (Chile, 2024-01-01 00:00:00)`; nothing where there are no groups.
fn group_of(bound: &Bound, exact: &Answer, group: usize) -> String {
    if bound.groups.is_empty() {
        return String::new();
    }
    let shown = |at: usize| {
        // Calendars' units have no text of their own; what cannot be named at all is told by its code.
        [DataType::Utf8, DataType::Timestamp(TimeUnit::Microsecond, None)]
            .iter()
            .find_map(|to| columns::group_column(bound, exact, at, &[group], to))
            .filter(|value| value.len() == 1)
            .map_or_else(
                || exact.keys.codes(group)[at].to_string(),
                |value| match value.is_null(0) {
                    true => "NULL".to_owned(),
                    false => array_value_to_string(&value, 0).unwrap_or_default(),
                },
            )
    };
    let members: Vec<String> = (0..bound.groups.len()).map(shown).collect();
    format!(" of ({})", members.join(", "))
}

/// But for the rounding of sums.
fn holds(interval: &Interval, truth: f64) -> bool {
    let slack = 1e-9 * truth.abs();
    interval.lower <= truth + slack && truth <= interval.upper + slack
}

/// The exact values of each group, by its codes.
fn truths(exact: &Answer, goals: &[Goal]) -> HashMap<Vec<u32>, Truth> {
    let value = |group: usize, goal: &Goal| {
        let Some(measure) = goal.measure else { return exact.totals.rows(group) as f64 };
        let totals = &exact.totals.measures()[measure];
        let sum = || if totals.of().is_float { totals.float_sum(group) } else { totals.exact_sum(group) as f64 };
        match goal.aggregate {
            Aggregate::Count => totals.count(group) as f64,
            Aggregate::Sum => sum(),
            Aggregate::Avg => sum() / totals.count(group) as f64,
        }
    };
    let groups = (0..exact.totals.groups()).filter(|&group| exact.totals.rows(group) > 0);
    let truth = |group: usize| Truth {
        group,
        values: goals.iter().map(|goal| value(group, goal)).collect(),
        held: vec![Held::default(); goals.len()],
    };
    groups.map(|group| (exact.keys.codes(group), truth(group))).collect()
}
