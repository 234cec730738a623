//! Estimates that get better while somebody looks at them, until they are exact.
//!
//! Invariants:
//! - Looks are planned before the first row is drawn, from summaries alone: one at the first rung, one at each rung
//!   from there on that has at least [`STEP_RATE`] times as many rows as the one before, one at the thickest (of those
//!   up to [`LOOK_RATE_MAX`]), then some while the runs that are left are read in full. Each spends the same share of
//!   the error ([`crate::estimate::Plan`]), so *all* intervals of one value hold together with the confidence asked
//!   for, and one may stop at whichever, for whatever reason, also for what was seen. What lies in segments that have
//!   only thicker rungs is read in full before the first.
//! - Which runs are read in full first depends on their places alone, never on what was drawn.
//! - Bounds of a value never widen from one look to the next: where all looks hold, so does what they have in common.
//!   Only where two looks contradict one another, of which one is then wrong, the later stands alone.
//! - Strata are the same at all looks: runs as of the first rung, and their heavy rows, which are taken in once.
//! - A step is a bounded piece of work: of a few million rows, or one run's draw; between steps nothing runs, and a
//!   [`Refiner`] that is dropped has left nothing behind. What has to be known of a measure before anything can be
//!   planned (its heavy rows) is found step by step, too, a segment at a time.
//! - What ends [`Step::Exact`] is the exact answer, with every row added once. Where that is spoilt (NaN), nobody is
//!   given it, nor any look: then nothing more is read.
//!
//! Why the union bound (Bonferroni; as O'Brien and Fleming's boundaries, 1979, a rule for looks fixed in advance) and
//! no confidence sequence: the module documentation of [`crate::estimate`] says why for two looks, and at most some ten
//! change little. With seven looks at 95 % an interval is 1.2 times as wide as with two. Pocock's (1977) and O'Brien
//! and Fleming's boundaries are a few per cent narrower than the union bound, because looks at one growing sample agree
//! with one another, but need normal estimates: ours are not. Alpha spending (Lan and DeMets 1983) allows looks that
//! were not planned; ours all are.
//!
//! The intersection is that of Howard et al. (2021, "Time-uniform, nonparametric, nonasymptotic confidence sequences"):
//! of intervals that hold together.

use super::facts::{self, Facts, Gathered};
use super::knowns::NodeKnowns;
use super::strata::{self, Run, Strata};
use super::{Estimates, Goal, Otherwise, SampleRequest, Source, possible};
use crate::answer::{Answer, Boxes, CutNode, can_answer};
use crate::estimate::{Kind, Plan};
use crate::layout::rung_rate;
use crate::nodes::CodeSet;
use crate::visible::{Laddered, SegmentRows};
use alluvia_types::{ColumnId, Result};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

/// Parts in which the runs that are left after the thickest rung are read in full; after each but the last there is a
/// look.
const PARTS: usize = 4;

/// From one rung that is looked at to the next so many times as many rows are drawn, at least: of rungs that halve
/// every other one.
const STEP_RATE: f64 = 4.0;

/// Thicker rungs are not looked at: everything is read in the end, and reading it in parts shows as much as drawing
/// half of it first.
const LOOK_RATE_MAX: f64 = 0.125;

/// Rows that one step reads in full, or draws: a drawn one costs some times as much.
const STEP_ROWS: f64 = (4 << 20) as f64;
const STEP_ROWS_DRAWN: f64 = (1 << 20) as f64;

/// Rows that the first look expects to match: of fewer nothing useful can be said.
const MATCHES_MIN: f64 = 64.0;

/// The first rung leaves at most this share of rows in segments of which so few would be drawn that they are read in
/// full.
const FEW_SHARE: f64 = 0.1;

/// What is asked of a [`Refiner`].
#[derive(Clone, Debug)]
pub struct Refine {
    /// The boxes, the groups and the measures.
    pub boxes: Boxes,
    /// As [`SampleRequest::group_codes`].
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
    /// As [`SampleRequest::strata_min`].
    pub strata_min: usize,
    /// Threads for what is drawn or read in full, at most.
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
    fn asked(&self) -> SampleRequest<'_> {
        SampleRequest {
            boxes: &self.boxes,
            group_codes: &self.group_codes,
            goals: &self.goals,
            max_error: self.max_error,
            confidence: self.confidence,
            otherwise: Otherwise::Exact,
            source: match &self.reseeded {
                None => Source::Ladder,
                Some(Reseeded { seed, identities }) => Source::Seeded { seed: *seed, identities },
            },
            by_cost: false,
            strata_min: self.strata_min,
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
    /// Finds out what must be known of a measure of a segment.
    Know(usize, ColumnId),
    /// Answers what summaries can, and plans the rest.
    Plan,
    /// Adds what is below cut nodes to the answer.
    Nodes(Vec<CutNode>),
    /// Forgets what was drawn of runs, to read them again at these rungs; of those of rung 0 all nodes are read next.
    Restart(Vec<(usize, u32)>),
    /// Draws runs.
    Draw(Vec<usize>),
    /// Takes in heavy rows.
    Heavy,
    /// Looks, by number from 1.
    Look(u32),
}

/// A question on its way from its first estimate to its exact answer.
#[derive(Debug)]
pub struct Refiner {
    refine: Refine,
    segments: Vec<Laddered>,
    into: Answer,
    strata: Option<Strata>,
    plan: Option<Plan>,
    /// With how much of [`Refiner::rows`] each brings, drawn rows by the rates of their rungs.
    work: VecDeque<(Work, f64)>,
    rows_cut: u64,
    rows_read: f64,
    /// The bounds of each goal of each group so far.
    known: HashMap<usize, Vec<(f64, f64)>>,
}

impl Refiner {
    /// Nothing is read yet: the first steps find out what there is to do. `into` has the rows of the tail. `None` if a
    /// segment cannot answer.
    pub fn new(refine: Refine, segments: Vec<SegmentRows>, into: Answer) -> Result<Option<Refiner>> {
        for rows in &segments {
            if !can_answer(refine.boxes.all(), &rows.segment)? {
                return Ok(None);
            }
        }
        let segments = Laddered::all(&segments)?;
        let has_ladder = |at: &usize| !segments[*at].rungs().is_empty();
        let columns = || refine.boxes.all().measures.iter().map(|of| of.column);
        let known = (0..segments.len()).filter(has_ladder).flat_map(|at| columns().map(move |of| Work::Know(at, of)));
        let work = known.chain([Work::Plan]).map(|work| (work, 0.0)).collect();
        Ok(Some(Refiner {
            refine,
            segments,
            into,
            strata: None,
            plan: None,
            work,
            rows_cut: 0,
            rows_read: 0.0,
            known: HashMap::new(),
        }))
    }

    /// Answers what summaries can, and plans all work.
    fn begin(&mut self) -> Result<()> {
        let cut = super::walk_all(&self.refine.asked(), &self.segments, &mut self.into)?;
        self.plan_all(&cut)?;
        self.rows_cut = self.work.iter().map(|(_, rows)| rows).sum::<f64>().round() as u64;
        Ok(())
    }

    fn plan_all(&mut self, cut: &[CutNode]) -> Result<()> {
        let Refiner { refine, segments, into, .. } = self;
        let asked = refine.asked();
        let Some(Gathered { facts, exact }) = facts::gather(&asked, segments, cut, possible::CELLS_MAX, into)? else {
            return self.read_nodes(cut);
        };
        let Some(rung) = first_rung(refine, segments, &facts) else {
            let nodes: Vec<CutNode> = exact.into_iter().chain(facts.iter().map(|facts| facts.cut)).collect();
            return self.read_nodes(&nodes);
        };
        let is_drawn = |facts: &Facts| looked_at(&segments[facts.cut.segment], rung).is_some();
        let (drawn, whole): (Vec<Facts>, Vec<Facts>) = facts.into_iter().partition(is_drawn);
        let whole = whole.into_iter().map(|facts| facts.cut);
        let refined = facts::refine(&asked, segments, drawn, rung_rate(rung), into)?;
        let (strata, few) = Strata::new(&asked, segments, refined.facts, rung)?;
        let exact: Vec<CutNode> = exact.into_iter().chain(whole).chain(refined.exact).chain(few).collect();
        self.read_nodes(&exact)?;
        if !strata.runs.is_empty() {
            self.plan_looks(&strata.runs, rung)?;
            self.strata = Some(strata);
        }
        Ok(())
    }

    /// Plans reading runs, and the looks meanwhile.
    fn plan_looks(&mut self, runs: &[Run], first: u32) -> Result<()> {
        let mut rungs: Vec<u32> = runs.iter().map(|run| run.rung).collect();
        let draws: Vec<_> = runs.iter().enumerate().map(|(at, run)| (at, run.rung, rung_rate(run.rung))).collect();
        self.draw(runs, &draws);
        self.work.push_back((Work::Heavy, 0.0));
        self.work.push_back((Work::Look(1), 0.0));
        let mut looks = 1;
        for rung in later_rungs(rungs_of(&self.segments), first) {
            let mut reads = Vec::new();
            for ((at, run), old) in runs.iter().enumerate().zip(&mut rungs) {
                // A rung that a segment lacks is left out: the run stays as it is, or goes to the next thicker one.
                if let Some(next) = looked_at(&self.segments[run.segment], rung).filter(|&next| next < *old) {
                    reads.push((at, next, rung_rate(next) - rung_rate(*old)));
                    *old = next;
                }
            }
            if !reads.is_empty() {
                self.restart(&reads);
                self.draw(runs, &reads);
                looks += 1;
                self.work.push_back((Work::Look(looks), 0.0));
            }
        }
        let parts = PARTS.min(runs.len());
        for part in 0..parts {
            // Neighbours go to different parts, so that each is spread over the box.
            let reads: Vec<_> =
                (part..runs.len()).step_by(parts).map(|at| (at, 0, 1.0 - rung_rate(rungs[at]))).collect();
            self.restart(&reads);
            for &(at, _, share) in &reads {
                self.read_share_of_nodes(&runs[at].cut, share)?;
            }
            if part + 1 < parts {
                looks += 1;
                self.work.push_back((Work::Look(looks), 0.0));
            }
        }
        self.plan = Some(Plan::new(looks, self.refine.confidence));
        Ok(())
    }

    fn restart(&mut self, reads: &[(usize, u32, f64)]) {
        self.work.push_back((Work::Restart(reads.iter().map(|&(at, rung, _)| (at, rung)).collect()), 0.0));
    }

    /// Plans drawing runs, in steps: each at a rung, which brings a share of its rows.
    fn draw(&mut self, runs: &[Run], draws: &[(usize, u32, f64)]) {
        let draws = draws.iter().map(|&(at, rung, share)| {
            let rows = runs[at].rows as f64;
            (at, rows * rung_rate(rung), rows * share)
        });
        let steps = in_steps(draws, STEP_ROWS_DRAWN);
        self.work.extend(steps.into_iter().map(|(runs, rows)| (Work::Draw(runs), rows)));
    }

    fn read_nodes(&mut self, cut: &[CutNode]) -> Result<()> {
        self.read_share_of_nodes(cut, 1.0)
    }

    /// Plans reading nodes, of which all but a share of the rows was drawn.
    fn read_share_of_nodes(&mut self, cut: &[CutNode], share: f64) -> Result<()> {
        let mut nodes = Vec::with_capacity(cut.len());
        for cut in cut {
            let segment = &self.segments[cut.segment].segment;
            let blocks = segment.nodes()?.blocks_below(cut.height, cut.node);
            let rows = (segment.block_rows(blocks.end - 1).end - segment.block_rows(blocks.start).start) as f64;
            nodes.push((*cut, rows, rows * share));
        }
        let steps = in_steps(nodes.into_iter(), STEP_ROWS);
        self.work.extend(steps.into_iter().map(|(nodes, rows)| (Work::Nodes(nodes), rows)));
        Ok(())
    }

    /// The next piece of work. After [`Step::Exact`] there is none, and it is said again.
    pub fn step(&mut self) -> Result<Step> {
        let Some((work, rows)) = self.work.pop_front() else { return Ok(Step::Exact) };
        let told = self.work_on(work)?;
        self.rows_read += rows;
        if self.into.totals.is_spoilt() {
            self.work.clear();
        }
        if let Some(mut estimates) = told {
            self.narrow(&mut estimates);
            return Ok(Step::Look(estimates));
        }
        Ok(if self.work.is_empty() { Step::Exact } else { Step::Read })
    }

    /// Does a piece of work; gives what a look says.
    fn work_on(&mut self, work: Work) -> Result<Option<Estimates>> {
        if let Work::Plan = work {
            return self.begin().map(|()| None);
        }
        let Refiner { refine, segments, into, strata, .. } = self;
        let asked = refine.asked();
        match (work, strata) {
            (Work::Know(at, column), _) => drop(NodeKnowns::of_column(&segments[at].segment, column)?),
            (Work::Nodes(cut), _) => strata::read_nodes(&asked, segments, cut.iter(), into)?,
            (Work::Restart(reads), Some(strata)) => strata.restart(&reads),
            (Work::Draw(runs), Some(strata)) => strata.draw(&asked, segments, &runs, into)?,
            (Work::Heavy, Some(strata)) => strata.add_heavy(&asked, segments, into)?,
            (Work::Look(number), Some(strata)) => {
                if let Some(plan) = &self.plan {
                    return Ok(Some(strata.estimates(strata.look(&asked, plan, into), number, None)));
                }
            }
            (Work::Plan, _) => unreachable!("what is to be done was planned"),
            (_, None) => unreachable!("work on strata without strata"),
        }
        Ok(None)
    }

    /// What was counted exactly so far.
    pub fn answer(&self) -> &Answer {
        &self.into
    }

    /// Looks at samples that are planned; 0 if nothing is drawn, or nothing is planned yet.
    pub fn looks(&self) -> u32 {
        self.plan.map_or(0, |plan| plan.looks())
    }

    /// Rows of all nodes that are cut: the exact answer reads no more. 0 as long as nothing is planned.
    pub fn rows(&self) -> u64 {
        self.rows_cut
    }

    /// Of these, rows that were read so far, drawn ones by the rates of their rungs.
    pub fn rows_read(&self) -> u64 {
        if self.work.is_empty() { self.rows_cut } else { (self.rows_read as u64).min(self.rows_cut) }
    }

    /// Brings each value's bounds within those of the looks before.
    fn narrow(&mut self, estimates: &mut Estimates) {
        let goals = self.refine.goals.len();
        (estimates.error, estimates.share_off) = (0.0, 0.0);
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
                estimates.share_off = estimates.share_off.max(interval.share_off());
            }
        }
        estimates.holds = estimates.error <= self.refine.max_error && estimates.groups_unseen == 0;
    }
}

/// Cuts work into steps of so many rows: of each item the rows that it costs and those that it brings. A step has one
/// item at least.
fn in_steps<T>(items: impl Iterator<Item = (T, f64, f64)>, rows_max: f64) -> Vec<(Vec<T>, f64)> {
    let mut steps: Vec<(Vec<T>, f64)> = Vec::new();
    let mut cost_of_last = 0.0;
    for (item, cost, rows) in items {
        match steps.last_mut() {
            Some(last) if cost_of_last + cost <= rows_max => {
                last.0.push(item);
                last.1 += rows;
                cost_of_last += cost;
            }
            _ => {
                steps.push((vec![item], rows));
                cost_of_last = cost;
            }
        }
    }
    steps
}

/// Rungs that any segment has and that may be looked at.
fn rungs_of(segments: &[Laddered]) -> BTreeSet<u32> {
    segments.iter().flat_map(lookable).collect()
}

/// Rungs of a segment that may be looked at.
fn lookable(rows: &Laddered) -> impl Iterator<Item = u32> {
    rows.rungs().iter().copied().filter(|&rung| rung_rate(rung) <= LOOK_RATE_MAX)
}

/// What of a segment is drawn for a look at a rung: that, or where it is missing the next thicker one.
fn looked_at(rows: &Laddered, rung: u32) -> Option<u32> {
    lookable(rows).filter(|&has| has <= rung).max()
}

/// Rungs of the looks after the first, the thickest last: it is always looked at; of the others those between which,
/// and between which and the first, there are steps that are worth a share of the error.
fn later_rungs(available: BTreeSet<u32>, first: u32) -> Vec<u32> {
    let mut later: Vec<u32> = Vec::new();
    for rung in available.into_iter().filter(|&rung| rung < first) {
        let is_far = |thick: u32, thin: u32| rung_rate(thick) >= STEP_RATE * rung_rate(thin);
        if later.last().is_none_or(|&last| is_far(last, rung) && is_far(rung, first)) {
            later.push(rung);
        }
    }
    later.reverse();
    later
}

/// The thinnest rung from which something can be said; `None` if everything is better read at once.
fn first_rung(refine: &Refine, segments: &[Laddered], facts: &[Facts]) -> Option<u32> {
    let rows: u64 = facts.iter().map(|facts| facts.rows).sum();
    if rows < refine.rows_min || refine.goals.is_empty() {
        return None;
    }
    // By segment: its rows, and those of them that are expected to match.
    let mut of_segments = vec![(0.0, 0.0); segments.len()];
    for facts in facts {
        let (all, matches) = &mut of_segments[facts.cut.segment];
        *all += facts.rows as f64;
        *matches += facts.share * facts.rows as f64;
    }
    rungs_of(segments).into_iter().rev().find(|&rung| {
        let (mut drawn, mut few) = (0.0, 0.0);
        for ((all, matches), rows) in of_segments.iter().zip(segments) {
            match looked_at(rows, rung).map(rung_rate).filter(|rate| all * rate >= strata::DRAWN_TOO_FEW) {
                Some(rate) => drawn += matches * rate,
                None => few += all,
            }
        }
        drawn >= MATCHES_MIN && few <= FEW_SHARE * rows as f64
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_few_however_close_rungs_lie() {
        let later = |available: &[u32], first| later_rungs(available.iter().copied().collect(), first);
        let halves: Vec<u32> = (3..=31).collect();
        assert!(later(&halves, 3).is_empty());
        assert_eq!(later(&halves, 4), [3]);
        assert_eq!(later(&halves, 6), [3]);
        assert_eq!(later(&halves, 7), [5, 3]);
        assert_eq!(later(&halves, 11), [9, 7, 5, 3]);
        // An older ladder, which steps by eight.
        assert_eq!(later(&[3, 6, 9, 12], 12), [9, 6, 3]);
    }

    #[test]
    fn steps_are_bounded_and_bring_all_rows() {
        let items = [3.0, 3.0, 5.0, 11.0, 1.0, 2.0];
        let steps = in_steps(items.iter().map(|&rows| (rows, rows, 0.5 * rows)), 8.0);
        let expected = [(vec![3.0, 3.0], 3.0), (vec![5.0], 2.5), (vec![11.0], 5.5), (vec![1.0, 2.0], 1.5)];
        assert_eq!(steps, expected);
    }
}
