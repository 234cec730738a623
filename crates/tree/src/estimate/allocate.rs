//! Allocation: the strata to read at a thicker rung.
//!
//! Invariant: a stratum is never chosen for what was drawn *in it*. Strata whose draw was large by chance show a large
//! variance, would be read again and corrected downwards, while those whose draw was small by chance would stay: with
//! forty equal strata this bias exceeds two standard errors (the simulation covers 19 %). So
//! the choice is made from summaries, from the share of the block that the box covers, and from what was drawn in all
//! strata together.
//!
//! A row of a stratum of N rows, read at rate t, adds A (1/t - 1) to the variance, A = N S² (Neyman 1934). Reading goes
//! where this falls most per row read; each further rung of a stratum gains less per row than the one before, so the
//! greedy choice is the best one up to its last step.

use super::interval::interval;
use super::{Aggregate, Frame, GroupSample, Plan, Stratum};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// The goals farthest from their error decide; the others follow them closely enough.
const GOALS: usize = 64;
/// A predicted error is wrong about half of the time: aim below.
const MARGIN: f64 = 0.9;

/// A stratum to read, from the start, at a rung.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Read {
    /// The stratum's place in its frame.
    pub stratum: u32,
    /// The rung, which contains those before it.
    pub rung: u32,
}

/// One goal's part in each stratum.
struct Goal {
    parts: Vec<f64>,
    variance: f64,
    target: f64,
}

/// A stratum's next rung.
struct Step {
    gain: f64,
    read: Read,
}

impl PartialEq for Step {
    fn eq(&self, other: &Step) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Step {}
impl PartialOrd for Step {
    fn partial_cmp(&self, other: &Step) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Step {
    fn cmp(&self, other: &Step) -> Ordering {
        // Of equal gains the earlier stratum, so that the same query reads the same rows.
        self.gain.total_cmp(&other.gain).then(other.read.stratum.cmp(&self.read.stratum))
    }
}

/// The cheapest reading that should bring every goal to `max_error`; empty when all are there.
///
/// `rates` are those of the rungs, the last of them 1. Strata of a goal whose error cannot be foreseen, because it was
/// not seen or its sign is open, are all read one rung on.
pub fn next_allocation(
    frame: &Frame,
    goals: &[(Aggregate, &GroupSample)],
    rates: &[f64],
    plan: &Plan,
    max_error: f64,
) -> Vec<Read> {
    assert_eq!(rates.last(), Some(&1.0), "the last rung is not the whole");
    let mut errors: Vec<(f64, Aggregate, &GroupSample)> = goals
        .iter()
        .map(|&(aggregate, group)| (aggregate, group, interval(aggregate, frame, group, plan)))
        .filter(|(_, _, interval)| !interval.is_good_enough(max_error))
        .map(|(aggregate, group, interval)| (interval.relative_error(), aggregate, group))
        .collect();
    if errors.is_empty() {
        return Vec::new();
    }
    let last = rates.len() as u32 - 1;
    let mut rungs: Vec<u32> = frame.strata().iter().map(|stratum| stratum.rung).collect();
    if errors.iter().any(|(error, ..)| error.is_infinite()) {
        for (rung, stratum) in rungs.iter_mut().zip(frame.strata()) {
            // A stratum that was not drawn from is read at the rung it stands at.
            *rung = if stratum.sampled == 0 { *rung } else { (*rung + 1).min(last) };
        }
        errors.retain(|(error, ..)| error.is_finite());
    }
    errors.sort_by(|a, b| b.0.total_cmp(&a.0));
    errors.truncate(GOALS);
    let mut goals: Vec<Goal> = errors
        .iter()
        .map(|&(error, aggregate, group)| goal(frame, aggregate, group, rates, max_error / error))
        .collect();
    for goal in &mut goals {
        goal.variance = goal.parts.iter().zip(&rungs).map(|(part, rung)| part * left(rates[*rung as usize])).sum();
    }
    let step = |stratum: usize, rung: u32, goals: &[Goal]| -> Option<Step> {
        let rows = frame.strata()[stratum].rows as f64;
        let next = rung + 1;
        if next > last || rows == 0.0 {
            return None;
        }
        let (from, to) = (rates[rung as usize], rates[next as usize]);
        let part: f64 = goals.iter().map(|goal| goal.parts[stratum] / goal.target).sum();
        Some(Step {
            gain: part * (left(from) - left(to)) / (rows * to),
            read: Read { stratum: stratum as u32, rung: next },
        })
    };
    let mut steps: BinaryHeap<Step> =
        (0..rungs.len()).filter_map(|stratum| step(stratum, rungs[stratum], &goals)).collect();
    while goals.iter().any(|goal| goal.variance > goal.target) {
        let Some(Step { read, .. }) = steps.pop() else { break };
        let stratum = read.stratum as usize;
        let (from, to) = (rates[rungs[stratum] as usize], rates[read.rung as usize]);
        for goal in &mut goals {
            goal.variance -= goal.parts[stratum] * (left(from) - left(to));
        }
        rungs[stratum] = read.rung;
        steps.extend(step(stratum, read.rung, &goals));
    }
    let strata = frame.strata().iter().zip(rungs).enumerate();
    strata
        .filter(|(_, (stratum, rung))| *rung > stratum.rung || stratum.sampled == 0 && stratum.rows > 0)
        .map(|(stratum, (_, rung))| Read { stratum: stratum as u32, rung })
        .collect()
}

/// What a row read at a rate leaves of its variance, in rows.
fn left(rate: f64) -> f64 {
    1.0 / rate - 1.0
}

fn goal(frame: &Frame, aggregate: Aggregate, group: &GroupSample, rates: &[f64], ratio: f64) -> Goal {
    let strata = frame.strata();
    let all: f64 = strata.iter().map(|stratum| stratum.rows as f64).sum();
    let (count, sum) = group.cells().iter().fold((0.0, 0.0), |(count, sum), cell| {
        let stratum = &strata[cell.stratum as usize];
        let weight = stratum.rows as f64 / stratum.sampled as f64;
        (count + weight * cell.matches as f64, sum + weight * cell.sum)
    });
    // The share over all strata, and how far the boxes say that strata differ.
    let expected: f64 = strata.iter().map(|stratum| stratum.rows as f64 * stratum.expected_share.unwrap_or(1.0)).sum();
    let scale = if expected > 0.0 { count / expected } else { count / all };
    let mean = if count > 0.0 { sum / count } else { 0.0 };
    let part = |stratum: &Stratum| {
        let rows = stratum.rows as f64;
        let share = (scale * if expected > 0.0 { stratum.expected_share.unwrap_or(1.0) } else { 1.0 }).clamp(0.0, 1.0);
        // Without a summary, as if all values were the mean.
        let (x, squares) = stratum.known.map_or((mean, mean * mean), |known| (known.sum / rows, known.squares / rows));
        let spread = match aggregate {
            Aggregate::Count => share * (1.0 - share),
            Aggregate::Sum => share * squares - (share * x).powi(2),
            Aggregate::Avg => share * (squares - 2.0 * mean * x + mean * mean) - (share * (x - mean)).powi(2),
        };
        rows * spread.max(0.0)
    };
    let parts: Vec<f64> = strata.iter().map(|stratum| if stratum.rows == 0 { 0.0 } else { part(stratum) }).collect();
    let now: f64 = parts.iter().zip(strata).map(|(part, stratum)| part * left(rates[stratum.rung as usize])).sum();
    Goal { parts, variance: now, target: now * (ratio * MARGIN).powi(2) }
}
