//! How often intervals hold: the statement asked again and again, each time with rows drawn under another seed.
//!
//! Invariant: a trial takes the statement's own way, from the choice of a rung to where it stops; only where drawn rows come from differs:
//! from full segments by new weights, as if every ladder had been written with that seed.

use super::run::{Begun, Bound, begin};
use super::sampled::{Accuracy, Missed, goals_of};
use super::{Kept, group_codes};
use alluvia_snapshot::TableRead;
use alluvia_tree::estimate::{Aggregate, Interval};
use alluvia_tree::sample::{Asked, Goal, Otherwise, Sampled, Source, sample};
use alluvia_tree::{Answer, answer};
use alluvia_types::{Error, ErrorKind, Result, Version};
use std::collections::HashMap;

/// What trials found. Values are those of all groups of all trials that were answered from samples.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Verified {
    /// Trials answered from samples.
    pub(crate) sampled: u64,
    /// Trials that were exact: no sample promised to pay, or none sufficed.
    pub(crate) exact: u64,
    /// Values that were estimated.
    pub(crate) values: u64,
    /// Of these, values whose interval holds the exact one.
    pub(crate) held: u64,
    /// The same of normal-theory intervals at the look at which reading stopped.
    pub(crate) textbook_held: u64,
    /// Groups of the exact answer that an estimated one lacks.
    pub(crate) lost: u64,
    /// Values that are not 0, of whose intervals the widths are summed.
    pub(crate) widths: u64,
    /// Sum of the widths of intervals, each relative to the exact value.
    pub(crate) width: f64,
    pub(crate) textbook_width: f64,
    /// Sum of the shares of cut rows that were drawn.
    pub(crate) drawn: f64,
}

/// Tries a statement under so many seeds; `stopped` is asked between them.
#[allow(clippy::too_many_arguments)]
pub(crate) fn verify(
    bound: &Bound,
    read: &TableRead,
    version: Version,
    kept: &Kept,
    threads: usize,
    accuracy: &Accuracy,
    trials: u64,
    stopped: impl Fn() -> Result<()>,
) -> Result<Verified> {
    let refused = |what: &str| Err(Error::new(ErrorKind::NotSupported, format!("verify: {what} is not supported")));
    let Some(Begun { segments, questions, found: tail }) = begin(bound, read, version, kept, threads)? else {
        return refused("a statement of so many groups");
    };
    let Some(goals) = goals_of(bound, kept, &questions) else {
        return refused("a statement that is never estimated");
    };
    let mut exact = tail.clone();
    for question in goals.boxes.each() {
        if !answer(question, &segments, threads, &mut exact)? {
            return refused("a statement that the index cannot answer");
        }
    }
    if exact.totals.is_spoilt() {
        return refused("a statement that the index cannot answer");
    }
    let truths = truths(&exact, &goals.values);
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
        let asked = Asked {
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
        let mut into = tail.clone();
        match sample(&asked, &segments, &mut into)? {
            Sampled::Cannot => return refused("a statement that the index cannot answer"),
            Sampled::Exact => verified.exact += 1,
            Sampled::Estimates(estimates) => {
                verified.sampled += 1;
                verified.drawn += estimates.rows_drawn as f64 / estimates.rows_cut.max(1) as f64;
                let mut there = 0;
                for (group, cells) in &estimates.groups {
                    let Some(truths) = truths.get(&into.keys.codes(*group)) else { continue };
                    there += 1;
                    for (cell, &truth) in cells.iter().zip(truths) {
                        // NULL: there is nothing to hold.
                        if truth.is_nan() {
                            continue;
                        }
                        let width = |interval: &Interval| (interval.upper - interval.lower) / truth.abs();
                        verified.values += 1;
                        verified.held += u64::from(holds(&cell.interval, truth));
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
    Ok(verified)
}

/// But for the rounding of sums.
fn holds(interval: &Interval, truth: f64) -> bool {
    let slack = 1e-9 * truth.abs();
    interval.lower <= truth + slack && truth <= interval.upper + slack
}

/// The exact values of each group, by its codes.
fn truths(exact: &Answer, goals: &[Goal]) -> HashMap<Vec<u32>, Vec<f64>> {
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
    groups.map(|group| (exact.keys.codes(group), goals.iter().map(|goal| value(group, goal)).collect())).collect()
}
