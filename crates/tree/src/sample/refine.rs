//! Estimates that get better while somebody looks at them, until they are exact.
//!
//! Invariants:
//! - Looks are planned before the first row is drawn, from summaries alone: one at each rung from the first one down (of rungs that lie close some are left
//!   out), then some while the runs that are left are read in full. Each spends the same share of the error ([`crate::estimate::Plan`]), so *all* intervals of one
//!   value hold together with the confidence asked for, and one may stop at whichever, for whatever reason, also for what was seen.
//! - Which runs are read in full first depends on their places alone, never on what was drawn.
//! - Bounds of a value never widen from one look to the next: where all looks hold, so does what they have in common. Only where two looks
//!   contradict one another, of which one is then wrong, the later stands alone.
//! - A step is a bounded piece of work; between steps nothing runs, and a [`Refiner`] that is dropped has left nothing behind.
//! - What ends [`Step::Exact`] is the exact answer, with every row added once.
//!
//! Why the union bound (Bonferroni; as O'Brien and Fleming's boundaries, 1979, a rule for looks fixed in advance) and no confidence
//! sequence: the module documentation of [`crate::estimate`] says why for two looks, and at most some ten change little. With seven
//! looks at 95 % an interval is 1.2 times as wide as with two. Pocock's (1977) and O'Brien and Fleming's boundaries are a few per cent
//! narrower than the union bound, because looks at one growing sample agree with one another, but need normal estimates: ours are not.
//! Alpha spending (Lan and DeMets 1983) allows looks that were not planned; ours all are.
//!
//! The intersection is that of Howard et al. (2021, "Time-uniform, nonparametric, nonasymptotic confidence sequences"): of intervals that
//! hold together.

use super::facts::{self, Facts};
use super::strata::{self, Strata};
use super::{Asked, Estimates, Goal, Otherwise, Source};
use crate::answer::{Answer, BoxQuery, CodeSet, CutBlock, SegmentRows, can_answer, walk};
use crate::estimate::{Kind, Plan};
use crate::ladder::rung_rate;
use alluvia_types::Result;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

/// Parts in which the runs that are left after the thickest rung are read in full; after each but the last there is a look.
const PARTS: usize = 4;

/// Between two looks so many times as many rows are drawn, at least.
const STEP_RATE: f64 = 4.0;

/// Rows that one step reads in full, or draws: a drawn one costs some times as much.
const STEP_ROWS: f64 = (4 << 20) as f64;
const STEP_ROWS_DRAWN: f64 = (1 << 20) as f64;

/// Rows that the first look expects to match: of fewer nothing useful can be said.
const MATCHES_MIN: f64 = 64.0;

/// Stretches of neighbouring blocks of which so few rows would be drawn are better read in full.
const DRAWN_TOO_FEW: f64 = 16.0;
/// The first rung leaves at most this share of rows in such stretches.
const FEW_SHARE: f64 = 0.1;

/// What is asked of a [`Refiner`].
#[derive(Clone, Debug)]
pub struct Refine {
    /// The box, the groups and the measures.
    pub question: BoxQuery,
    /// As [`Asked::group_codes`].
    pub group_codes: Vec<Option<CodeSet>>,
    /// The values of each group.
    pub goals: Vec<Goal>,
    /// The relative error at which [`Estimates::holds`] says that it is enough; 0 is the exact answer.
    pub max_error: f64,
    /// How often *all* intervals of one value, of all looks, hold the truth, over the choice of the seed.
    pub confidence: f64,
    /// Rows drawn under another seed, to try how good intervals are; `None` reads the ladder.
    pub reseeded: Option<Reseeded>,
    /// Cut rows below which nothing is drawn: [`super::SAMPLE_ROWS_MIN`].
    pub rows_min: u64,
    /// Threads for what is read in full.
    pub threads: usize,
}

/// As [`Source::Seeded`].
#[derive(Clone, Debug)]
pub struct Reseeded {
    /// The seed.
    pub seed: u64,
    /// Which rows they are, by segment.
    pub identities: Arc<Vec<Vec<(u64, u64)>>>,
}

impl Refine {
    fn asked(&self) -> Asked<'_> {
        Asked {
            question: &self.question,
            group_codes: &self.group_codes,
            goals: &self.goals,
            max_error: self.max_error,
            confidence: self.confidence,
            otherwise: Otherwise::Exact,
            source: match &self.reseeded {
                None => Source::Ladder,
                Some(Reseeded { seed, identities }) => Source::Seeded { seed: *seed, identities },
            },
            rows_min: self.rows_min,
            threads: self.threads,
        }
    }
}

/// What a step has come to.
#[derive(Clone, Debug)]
pub enum Step {
    /// More was read; there is nothing new to say.
    Read,
    /// A planned look. The estimates include what [`Refiner::answer`] has exactly.
    Look(Estimates),
    /// Everything was read: the answer is exact, unless it is spoilt.
    Exact,
}

/// A piece of work.
#[derive(Debug)]
enum Work {
    /// Adds cut blocks to the answer.
    Whole(Vec<CutBlock>),
    /// The first draw of all runs.
    Draw,
    /// Reads runs again, at these rungs; 0 is everything.
    Runs(Vec<(usize, u32)>),
    /// Looks, by number from 1.
    Look(u32),
}

/// A question on its way from its first estimate to its exact answer.
#[derive(Debug)]
pub struct Refiner {
    refine: Refine,
    segments: Vec<SegmentRows>,
    into: Answer,
    strata: Option<Strata>,
    plan: Option<Plan>,
    work: VecDeque<Work>,
    /// Rows of all cut blocks, and of those that are neither read nor in a run.
    rows_cut: u64,
    rows_waiting: u64,
    /// The bounds of each goal of each group so far.
    known: HashMap<usize, Vec<(f64, f64)>>,
}

impl Refiner {
    /// Answers what summaries can, and plans the rest. `into` has the rows of the tail. `None` if a segment cannot answer.
    pub fn new(refine: Refine, segments: Vec<SegmentRows>, mut into: Answer) -> Result<Option<Refiner>> {
        for rows in &segments {
            if !can_answer(&refine.question, &rows.segment)? {
                return Ok(None);
            }
        }
        let mut cut = Vec::new();
        for (at, rows) in segments.iter().enumerate() {
            walk(&refine.question, at, rows, &mut into, &mut cut)?;
        }
        let rows_cut = rows_of(&segments, &cut);
        let mut refiner = Refiner {
            refine,
            segments,
            into,
            strata: None,
            plan: None,
            work: VecDeque::new(),
            rows_cut,
            rows_waiting: rows_cut,
            known: HashMap::new(),
        };
        refiner.begin(cut)?;
        Ok(Some(refiner))
    }

    fn begin(&mut self, cut: Vec<CutBlock>) -> Result<()> {
        let asked = self.refine.asked();
        let gathered = facts::gather(&asked, &self.segments, &self.into.keys, &cut)?;
        let planned = gathered.and_then(|(facts, exact)| {
            let rung = first_rung(&self.refine, &self.segments, &facts)?;
            Some((facts, exact, rung))
        });
        let Some((facts, exact, rung)) = planned else {
            self.read_whole(cut);
            return Ok(());
        };
        let strata = Strata::new(&asked, &self.segments, &facts, rung, &mut self.into)?;
        self.rows_waiting = rows_of(&self.segments, &exact);
        self.read_whole(exact);
        self.work.push_back(Work::Draw);
        self.work.push_back(Work::Look(1));
        let mut looks = 1;
        let mut rungs: Vec<u32> = strata.runs.iter().map(|run| run.rung).collect();
        for rung in later_rungs(&self.segments, rung) {
            let thicker = |(at, run): (usize, &strata::Run)| {
                let available = self.segments[run.segment].segment.rungs().iter().map(|has| has.rung);
                let next = available.filter(|&has| has <= rung).max()?;
                (next < rungs[at]).then_some((at, next))
            };
            let reads: Vec<(usize, u32)> = strata.runs.iter().enumerate().filter_map(thicker).collect();
            reads.iter().for_each(|&(at, rung)| rungs[at] = rung);
            looks += u32::from(self.read_runs(&strata, reads));
            self.look_after(looks);
        }
        for part in 0..PARTS {
            // Neighbours go to different parts, so that each is spread over the box.
            let reads = (0..strata.runs.len()).filter(|at| at % PARTS == part).map(|at| (at, 0)).collect();
            let has_read = self.read_runs(&strata, reads);
            if part + 1 < PARTS.min(strata.runs.len()) {
                looks += u32::from(has_read);
                self.look_after(looks);
            }
        }
        self.plan = Some(Plan::new(looks, self.refine.confidence));
        self.strata = Some(strata);
        Ok(())
    }

    /// Plans a look, unless nothing was read since the last one.
    fn look_after(&mut self, number: u32) {
        if !matches!(self.work.back(), Some(Work::Look(_))) {
            self.work.push_back(Work::Look(number));
        }
    }

    fn read_whole(&mut self, cut: Vec<CutBlock>) {
        let blocks = (STEP_ROWS as usize) / crate::layout::BLOCK_ROWS;
        self.work.extend(cut.chunks(blocks).map(|blocks| Work::Whole(blocks.to_vec())));
    }

    /// Plans reading runs, in steps; whether there is anything to read.
    fn read_runs(&mut self, strata: &Strata, reads: Vec<(usize, u32)>) -> bool {
        let mut step: Vec<(usize, u32)> = Vec::new();
        let mut cost = 0.0;
        let is_any = !reads.is_empty();
        for (at, rung) in reads {
            let rows = strata.runs[at].rows as f64 * rung_rate(rung);
            let of_step = rows / if rung == 0 { STEP_ROWS } else { STEP_ROWS_DRAWN };
            if cost + of_step > 1.0 && !step.is_empty() {
                self.work.push_back(Work::Runs(std::mem::take(&mut step)));
                cost = 0.0;
            }
            cost += of_step;
            step.push((at, rung));
        }
        if !step.is_empty() {
            self.work.push_back(Work::Runs(step));
        }
        is_any
    }

    /// The next piece of work. After [`Step::Exact`] there is none, and it is said again.
    pub fn step(&mut self) -> Result<Step> {
        let Some(work) = self.work.pop_front() else { return Ok(Step::Exact) };
        let Refiner { refine, segments, into, strata, .. } = self;
        let asked = refine.asked();
        let mut told = None;
        match (work, strata) {
            (Work::Whole(cut), _) => {
                strata::read_exactly(&asked, segments, &cut, into)?;
                self.rows_waiting -= rows_of(segments, &cut);
            }
            (Work::Draw, Some(strata)) => strata.draw_first(&asked, segments, into)?,
            (Work::Runs(reads), Some(strata)) => strata.read_on(&asked, segments, &reads, into)?,
            (Work::Look(number), Some(strata)) => {
                // What is spoilt is not given; what was read as a whole is about to be exact.
                if let (Some(plan), false, false) = (&self.plan, strata.is_read(), into.totals.is_spoilt()) {
                    told = Some(strata.estimates(strata.look(&asked, plan, into), number));
                }
            }
            (_, None) => unreachable!("work on strata without strata"),
        }
        if let Some(mut estimates) = told {
            self.narrow(&mut estimates);
            return Ok(Step::Look(estimates));
        }
        Ok(if self.work.is_empty() { Step::Exact } else { Step::Read })
    }

    /// What was counted exactly so far.
    pub fn answer(&self) -> &Answer {
        &self.into
    }

    /// Looks at samples that are planned; 0 if nothing is drawn.
    pub fn looks(&self) -> u32 {
        self.plan.map_or(0, |plan| plan.looks())
    }

    /// Rows that the exact answer reads.
    pub fn rows(&self) -> u64 {
        self.rows_cut
    }

    /// Of these, rows that were read so far, drawn ones by the rates of their rungs.
    pub fn rows_read(&self) -> u64 {
        if self.work.is_empty() {
            return self.rows_cut;
        }
        let Some(strata) = &self.strata else { return self.rows_cut - self.rows_waiting };
        let is_drawn = !self.work.iter().any(|work| matches!(work, Work::Draw));
        let of_runs: u64 = strata.runs.iter().map(|run| run.rows).sum();
        let rate = |rung: u32| if rung > 0 && !is_drawn { 0.0 } else { rung_rate(rung) };
        let drawn: f64 = strata.runs.iter().map(|run| run.rows as f64 * rate(run.rung)).sum();
        (self.rows_cut - self.rows_waiting - of_runs) + drawn as u64
    }

    /// Brings each value's bounds within those of the looks before.
    fn narrow(&mut self, estimates: &mut Estimates) {
        let goals = self.refine.goals.len();
        estimates.error = 0.0;
        for (group, cells) in &mut estimates.groups {
            let known = self.known.entry(*group).or_insert_with(|| vec![(f64::NEG_INFINITY, f64::INFINITY); goals]);
            for (cell, known) in cells.iter_mut().zip(known) {
                let interval = &mut cell.interval;
                let (lower, upper) = (interval.lower.max(known.0), interval.upper.min(known.1));
                if interval.kind != Kind::Exact && lower <= upper {
                    (interval.lower, interval.upper) = (lower, upper);
                    // NaN stays.
                    if !interval.estimate.is_nan() {
                        interval.estimate = interval.estimate.clamp(lower, upper);
                    }
                }
                *known = (interval.lower, interval.upper);
                estimates.error = estimates.error.max(interval.relative_error());
            }
        }
        estimates.holds = estimates.error <= self.refine.max_error && estimates.groups_unseen == 0;
    }
}

fn rows_of(segments: &[SegmentRows], cut: &[CutBlock]) -> u64 {
    let rows = |cut: &CutBlock| {
        let rows = segments[cut.segment].segment.block_rows(cut.block);
        rows.end - rows.start
    };
    cut.iter().map(rows).sum()
}

/// Rungs of the looks after the first, the thickest last: each worth a share of the error.
fn later_rungs(segments: &[SegmentRows], first: u32) -> Vec<u32> {
    let rungs = segments.iter().flat_map(|rows| rows.segment.rungs()).map(|rung| rung.rung);
    let thicker: BTreeSet<u32> = rungs.filter(|&rung| rung < first).collect();
    let thickest = thicker.first().copied();
    let mut last = first;
    let is_worth_it = |&rung: &u32| {
        let is_far = rung_rate(rung) >= STEP_RATE * rung_rate(last) || Some(rung) == thickest;
        last = if is_far { rung } else { last };
        is_far
    };
    thicker.iter().rev().copied().filter(is_worth_it).collect()
}

/// The thinnest rung from which something can be said; `None` if everything is better read at once.
fn first_rung(refine: &Refine, segments: &[SegmentRows], facts: &[Facts]) -> Option<u32> {
    let rows: u64 = facts.iter().map(|facts| facts.rows).sum();
    if rows < refine.rows_min || refine.goals.is_empty() {
        return None;
    }
    let most = segments.iter().flat_map(|rows| rows.segment.rungs()).map(|rung| rung.rung).max()?;
    (1..=most).rev().find(|&rung| {
        let rate = |segment: usize| {
            let available = segments[segment].segment.rungs().iter().map(|has| has.rung);
            rung_rate(available.filter(|&has| has <= rung).max().unwrap_or(0))
        };
        let matches: f64 = facts.iter().map(|facts| facts.share * facts.rows as f64 * rate(facts.cut.segment)).sum();
        let is_next = |a: &Facts, b: &Facts| a.cut.segment == b.cut.segment && a.cut.block + 1 == b.cut.block;
        let few: u64 = facts
            .chunk_by(is_next)
            .map(|stretch| (stretch[0].cut.segment, stretch.iter().map(|facts| facts.rows).sum::<u64>()))
            .filter(|(segment, rows)| (*rows as f64) * rate(*segment) < DRAWN_TOO_FEW)
            .map(|(_, rows)| rows)
            .sum();
        matches >= MATCHES_MIN && few as f64 <= FEW_SHARE * rows as f64
    })
}
