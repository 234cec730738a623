//! The choice of a rung: error and cost that summaries promise of each, and whether to draw at all.
//!
//! Invariants:
//! - An estimate is begun only if what it is expected to cost, with the exact answer that has to follow where it is not
//!   good enough, is less than [`PAYS`] of the exact answer's cost.
//! - What is foreseen may be wrong for a box: conditions that go along with one another leave other rows than they seem
//!   to. So a first look costs at most [`VAIN`] of the exact answer, unless by what is foreseen it is [`SURE`] to
//!   suffice. Where a dearer rung is needed, a thin one is looked at first; what it saw, and no guess, says whether the
//!   second look is worth its cost.
//! - A wrong guess costs a second look, or one that was not needed; never the interval.
//!
//! The error of a stratum of N rows read at rate t is N S² (1/t - 1), S² from the expected share of matching rows as in
//! [`crate::estimate::next_allocation`]. Of G groups each is taken for a G-th of everything: its relative error is the
//! square root of G times as large. What costs is counted as [`super::cost::Work`], for rows as a
//! [`super::glimpse::Glimpse`] saw them.

use super::cost::{Kind, Work};
use super::facts::Facts;
use super::glimpse::Reading;
use super::{Goal, LOOKS, Otherwise, SampleRequest, draw, possible, strata};
use crate::answer::{Answer, BLOCKS_PER_THREAD};
use crate::estimate::{Aggregate, Plan};
use crate::layout::{BLOCK_ROWS, rung_rate};
use crate::visible::Laddered;
use std::collections::BTreeSet;

/// The expected cost of an estimate, of the exact answer's, up to which it is begun: what is foreseen may be a quarter
/// too little.
pub(super) const PAYS: f64 = 0.7;
/// The same while only a few nodes were looked at: to look at all costs something, too.
pub(super) const PAYS_AT_A_GLANCE: f64 = 0.6;
/// What a first look may cost in vain, of the exact answer.
const VAIN: f64 = 0.1;
/// What a first look may cost, of the exact answer, that is foreseen to suffice in all but so many cases.
const SURE_PAYS: f64 = 0.5;
const SURE: f64 = 0.02;
/// A thin first look tells how thick the second must be if its error is foreseen to be at most this.
const TELLING: f64 = 0.25;

/// An interval is about so many times as wide as foreseen: ours are wider than normal ones with the same error.
const WIDER: f64 = 1.1;
/// How sharply widths gather around that: of those that are foreseen at 0.8 of what is asked one in four is too wide,
/// at 0.7 one in nine, at 0.5 one in a hundred.
const SHARPNESS: f64 = 8.0;
/// A rung of which this is foreseen, of what is asked, promises to suffice.
const PROMISE: f64 = 1.0 / 1.3;

/// A second look is not good enough in one of so many cases: it is planned by what the first one saw.
const SECOND_MISSES: f64 = 0.25;

/// What is expected of one goal.
#[derive(Clone, Debug, Default)]
struct Expected {
    /// Value of all groups together, what is exact included.
    total: f64,
    /// By segment: N S² of its blocks.
    spread: Vec<f64>,
}

/// What was foreseen of an answer before it was drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Foreseen {
    /// The rung that it is about: the thinnest to be read.
    pub rung: u32,
    /// The largest error of a value, of the error asked for.
    pub error: f64,
    /// What the first look takes.
    pub work: Work,
    /// How many threads draw.
    pub threads: usize,
    /// What the exact answer takes, from here on.
    pub exact: Work,
    /// How many threads read then.
    pub exact_threads: usize,
}

impl Foreseen {
    /// How likely the first look is not good enough.
    pub fn misses(&self) -> f64 {
        if self.error == 0.0 {
            return 0.0;
        }
        // NaN is no promise.
        let misses = 1.0 / (1.0 + (WIDER * self.error).powf(-SHARPNESS));
        if misses.is_nan() { 1.0 } else { misses }
    }

    /// What the first look costs, in nanoseconds.
    pub fn nanos(&self) -> f64 {
        self.work.nanos(self.threads)
    }

    /// What the exact answer costs, in nanoseconds.
    pub fn exact_nanos(&self) -> f64 {
        self.exact.nanos(self.exact_threads)
    }

    /// What it is expected to cost until the answer is good enough, of what the exact answer costs.
    pub fn cost(&self) -> f64 {
        self.nanos() / self.exact_nanos() + self.misses()
    }

    /// Whether reading on pays after a first look.
    pub(super) fn second_pays(&self, reading: &Reading, second: Second, otherwise: Otherwise) -> bool {
        let Second { drawn, whole, left } = second;
        let exact = |rows: f64| (reading.exact * rows).nanos(self.exact_threads);
        let look = looking(&self.work).nanos(1);
        let cost = (reading.drawn * drawn).nanos(self.threads) + look + exact(whole);
        match otherwise {
            // What would have to be read after that, if it does not suffice, is less by what was read in full.
            Otherwise::Exact => cost + SECOND_MISSES * exact(left - whole) <= PAYS * exact(left),
            // Nothing is read after that: both looks together must cost less than the exact answer would have.
            Otherwise::Reached => self.nanos() + cost <= PAYS * self.exact_nanos() && cost <= PAYS * exact(left),
        }
    }

    /// Whether it costs so little that it may be drawn in vain.
    fn is_cheap(&self) -> bool {
        self.nanos() <= VAIN * self.exact_nanos()
    }

    /// Whether it may be drawn first, though it is dear.
    fn is_sure(&self) -> bool {
        self.misses() <= SURE && self.nanos() <= SURE_PAYS * self.exact_nanos()
    }
}

/// What a second look would read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Second {
    /// Rows of the runs that would be drawn again, at the rates of their rungs.
    pub(super) drawn: f64,
    /// Rows of runs that would be read in full.
    pub(super) whole: f64,
    /// Rows of all runs that were not read in full yet.
    pub(super) left: f64,
}

/// The part of work that is done once more at each look.
fn looking(work: &Work) -> Work {
    let mut looking = Work::default();
    for kind in [Kind::Stratum, Kind::Interval] {
        looking.count(kind, work.of(kind));
    }
    looking
}

/// What each rung that a segment has promises, the thinnest first. The facts' nodes have `1 / weight` of the rows that
/// they stand for.
pub(super) fn foresee(
    asked: &SampleRequest<'_>,
    segments: &[Laddered],
    facts: &[Facts],
    weight: f64,
    reading: &Reading,
    into: &Answer,
) -> Vec<Foreseen> {
    let rungs: BTreeSet<u32> = segments.iter().flat_map(|rows| rows.rungs()).copied().collect();
    let groups = possible::count(facts);
    let expected: Vec<Expected> =
        asked.goals.iter().map(|goal| expect(goal, segments.len(), facts, weight, into)).collect();
    let widest = Plan::new(LOOKS, asked.confidence).standard_errors() * (groups as f64).sqrt();
    let rows = weight * facts.iter().map(|facts| facts.rows as f64).sum::<f64>();
    let exact = reading.exact * rows;
    let exact_threads = asked.threads.min((reading.blocks * rows) as usize / BLOCKS_PER_THREAD + 1);
    let foreseen = rungs.into_iter().rev().map(|rung| {
        // NaN, where nothing is known, is larger than everything.
        let error = expected.iter().map(|expected| expected.error(segments, rung, widest) / asked.max_error);
        let error = error
            .fold(0.0, |most: f64, error| if error.is_nan() || most.is_nan() { f64::NAN } else { most.max(error) });
        let (work, drawn) = work_at(asked, segments, facts, weight, groups, reading, rung);
        let threads = asked.threads.min(drawn as usize / draw::ROWS_PER_THREAD as usize + 1);
        Foreseen { rung, error, work, threads, exact, exact_threads }
    });
    foreseen.collect()
}

/// The rung to read first, of an estimate that is expected to cost at most a share `pays` of the exact answer; `None`
/// where everything is better read at once.
pub(super) fn choose(asked: &SampleRequest<'_>, foreseen: &[Foreseen], pays: f64) -> Option<Foreseen> {
    if !asked.by_cost {
        let promising = foreseen.iter().find(|foreseen| foreseen.error <= PROMISE);
        return match asked.otherwise {
            Otherwise::Exact => promising.copied(),
            Otherwise::Reached => promising.or(foreseen.last()).copied(),
        };
    }
    let cheapest = |may_be_first: fn(&Foreseen) -> bool| {
        let paying = foreseen.iter().filter(|foreseen| foreseen.cost() <= pays && may_be_first(foreseen));
        paying.min_by(|a, b| a.cost().total_cmp(&b.cost()))
    };
    let before_dear = || {
        let second = cheapest(|_| true)?;
        let is_worth_it = |first: &&Foreseen| {
            let both = first.nanos() + second.cost() * second.exact_nanos();
            both <= pays * first.exact_nanos() && first.error * asked.max_error <= TELLING
        };
        foreseen.iter().rfind(|first| first.is_cheap()).filter(is_worth_it)
    };
    let begun = cheapest(|foreseen| foreseen.is_cheap() || foreseen.is_sure()).or_else(before_dear);
    let reached = || match asked.otherwise {
        Otherwise::Exact => None,
        // Of what suffices the exact answer is the cheapest.
        Otherwise::Reached if foreseen.iter().any(|foreseen| foreseen.error <= PROMISE) => None,
        // What does not suffice is given, so nothing has to follow it: the thickest rung that costs less tells most.
        Otherwise::Reached => foreseen.iter().rfind(|foreseen| foreseen.nanos() <= pays * foreseen.exact_nanos()),
    };
    begun.or_else(reached).copied()
}

/// The rate at which a segment's rows are drawn at a rung; `None` where they are read in full.
fn rate_of(rows: &Laddered, rung: u32) -> Option<f64> {
    rows.rungs().iter().copied().filter(|&has| has <= rung).max().map(rung_rate)
}

/// The work of drawing and looking at a rung, and the rows drawn.
fn work_at(
    asked: &SampleRequest<'_>,
    segments: &[Laddered],
    facts: &[Facts],
    weight: f64,
    groups: usize,
    reading: &Reading,
    rung: u32,
) -> (Work, f64) {
    let question = asked.shape();
    let mut work = Work::default();
    let (mut drawn, mut whole, mut nodes, mut cells, mut shares) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for facts in facts {
        let rows = facts.rows as f64;
        cells += facts.groups.len() as f64;
        nodes += reading.nodes * rows;
        let Some(rate) = rate_of(&segments[facts.cut.segment], rung) else {
            whole += rows;
            continue;
        };
        shares += facts.share * rows * rate;
        if facts.is_looked_into(rate) {
            work.count(Kind::Node, weight * facts.blocks.len() as f64 * f64::from(asked.boxes.tested(&facts.cut)));
            nodes += facts.blocks.len() as f64 * reading.cut;
            drawn += rows * rate * reading.cut;
        } else {
            drawn += rows * rate;
        }
    }
    let (drawn, whole) = (drawn * weight, whole * weight);
    let rows = weight * facts.iter().map(|facts| facts.rows as f64).sum::<f64>();
    let runs = strata::runs_of(drawn) + segments.len() as f64;
    work.count(Kind::Fact, weight * nodes * (1 + question.measures.len()) as f64);
    work.count(Kind::Cell, weight * cells);
    work.count(Kind::Piece, drawn / BLOCK_ROWS as f64 + runs);
    work.count(Kind::Heavy, reading.heavy * rows);
    // A group is in so many strata as it has drawn rows, at most; each has a second one, of heavy rows.
    let values = (groups * asked.goals.len()) as f64;
    let seen = (2.0 * runs).min(1.0 + shares * weight / groups as f64);
    work.count(Kind::Stratum, values * seen);
    work.count(Kind::Interval, values);
    (work + reading.drawn * drawn + reading.exact * whole, drawn)
}

impl Expected {
    /// The relative error of the total at a rung, so many standard errors wide.
    fn error(&self, segments: &[Laddered], rung: u32, widest: f64) -> f64 {
        let spread = self.spread.iter().zip(segments).filter(|(spread, _)| **spread > 0.0);
        let variance: f64 =
            spread.map(|(spread, rows)| spread * (1.0 / rate_of(rows, rung).unwrap_or(1.0) - 1.0)).sum();
        if variance == 0.0 { 0.0 } else { widest * variance.sqrt() / self.total.abs() }
    }
}

fn expect(goal: &Goal, segments: usize, facts: &[Facts], weight: f64, into: &Answer) -> Expected {
    let (mut count, mut sum) = (0.0, 0.0);
    for group in 0..into.totals.groups() {
        let (of_group, sum_of_group) = exact_of(into, group, goal.measure);
        count += of_group as f64;
        sum += sum_of_group;
    }
    for facts in facts {
        count += weight * facts.share * facts.rows as f64;
        sum += goal.measure.map_or(0.0, |measure| weight * facts.share * facts.known[measure].sum);
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
        spread[facts.cut.segment] += weight * rows * of_block.max(0.0);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::{BoxQuery, Boxes};
    use crate::sample::Source;
    use proptest::prelude::*;

    /// Counts of work of any size, and threads.
    fn work() -> impl Strategy<Value = (Work, usize)> {
        let kinds = Kind::ALL.len();
        (prop::collection::vec((0..kinds, 0u32..30), 1..6), 1usize..9).prop_map(|(counts, threads)| {
            let mut work = Work::default();
            counts.into_iter().for_each(|(kind, size)| work.count(Kind::ALL[kind], 2f64.powi(size as i32)));
            (work, threads)
        })
    }

    /// What may be foreseen of the rungs of a ladder, the thinnest first.
    fn frame() -> impl Strategy<Value = Vec<Foreseen>> {
        let error = prop_oneof![Just(0.0), Just(f64::NAN), Just(f64::INFINITY), 0.001..2.0f64];
        (work(), prop::collection::vec((work(), error), 0..6)).prop_map(|((exact, exact_threads), rungs)| {
            let rung = |(at, ((work, threads), error))| Foreseen {
                rung: 20 - at as u32,
                error,
                work,
                threads,
                exact,
                exact_threads,
            };
            rungs.into_iter().enumerate().map(rung).collect()
        })
    }

    fn asked(boxes: &Boxes, otherwise: Otherwise) -> SampleRequest<'_> {
        SampleRequest {
            boxes,
            group_codes: &[],
            goals: &[],
            max_error: 0.01,
            confidence: 0.95,
            otherwise,
            source: Source::Ladder,
            by_cost: true,
            strata_min: crate::sample::STRATA_MIN,
            threads: 2,
        }
    }

    proptest! {
        #[test]
        fn what_is_begun_is_expected_to_cost_less_than_the_exact_answer(frame in frame()) {
            let boxes = Boxes::from(BoxQuery::default());
            let found = choose(&asked(&boxes, Otherwise::Exact), &frame, PAYS);
            let least = frame.iter().map(Foreseen::cost).filter(|cost| !cost.is_nan()).fold(f64::INFINITY, f64::min);
            match found {
                Some(found) => {
                    let exact = found.exact_nanos() * (1.0 + 1e-9);
                    // Alone, or with what is expected to be enough after it.
                    let is_alone = found.nanos() + found.misses() * exact <= PAYS * exact;
                    prop_assert!(is_alone || found.nanos() + least * exact <= PAYS * exact * (1.0 + 1e-9), "{:?}", found);
                    // Nothing dear is drawn in vain, but where that was not to be expected at all.
                    let is_sure = found.misses() <= SURE && found.nanos() <= SURE_PAYS * exact;
                    prop_assert!(found.nanos() <= VAIN * exact || is_sure, "{:?}", found);
                    // Of those that may be begun with it is the cheapest.
                    let dearer = |other: &Foreseen| other.cost() >= found.cost() || !other.is_cheap() && !other.is_sure();
                    prop_assert!(!is_alone || frame.iter().all(|other| other.cost().is_nan() || dearer(other)));
                }
                None => {
                    let may_be_first = |other: &Foreseen| other.is_cheap() || other.is_sure();
                    prop_assert!(!frame.iter().any(|other| other.cost() <= PAYS && may_be_first(other)));
                }
            }
            // Less is begun where less may be spent.
            let fewer = choose(&asked(&boxes, Otherwise::Exact), &frame, PAYS_AT_A_GLANCE);
            prop_assert!(fewer.is_none() || found.is_some());
            // What is given whatever it reaches is never dearer, either, and only where no rung promises more.
            if let Some(reached) = choose(&asked(&boxes, Otherwise::Reached), &frame, PAYS) {
                prop_assert!(reached.nanos() <= PAYS * reached.exact_nanos() * (1.0 + 1e-9), "{:?}", reached);
                prop_assert!(found.is_some() || !frame.iter().any(|rung| rung.error <= PROMISE));
            }
        }

        #[test]
        fn a_second_look_is_never_dearer_than_what_is_left(
            (exact, exact_threads) in work(),
            (drawing, threads) in work(),
            (first, _) in work(),
            rows in (1.0..1e6f64, 0.0..1e6f64, 0.0..1.0f64),
        ) {
            let foreseen = Foreseen { rung: 3, error: 0.5, work: first, threads, exact, exact_threads };
            let reading = Reading { exact: exact * 1e-6, drawn: drawing * 1e-6, ..Reading::default() };
            let (left, drawn, share) = rows;
            let pays = |drawn, whole, otherwise| foreseen.second_pays(&reading, Second { drawn, whole, left }, otherwise);
            let all = (reading.exact * left).nanos(exact_threads);
            let drawing = (reading.drawn * drawn).nanos(threads) + (reading.exact * (share * left)).nanos(exact_threads);
            let is_given = pays(drawn, share * left, Otherwise::Reached);
            prop_assert!(!pays(drawn, share * left, Otherwise::Exact) && !is_given || drawing <= PAYS * all);
            prop_assert!(!is_given || foreseen.nanos() + drawing <= foreseen.exact_nanos());
            // To read everything is no second look.
            prop_assert!(!pays(0.0, left, Otherwise::Exact) && !pays(0.0, left, Otherwise::Reached) || all == 0.0);
        }
    }

    #[test]
    fn the_nearer_what_is_foreseen_to_what_is_asked_the_likelier_it_misses() {
        let misses = |error| {
            let (work, threads) = (Work::default(), 1);
            Foreseen { rung: 3, error, work, threads, exact: work, exact_threads: threads }.misses()
        };
        assert_eq!((misses(0.0), misses(f64::NAN), misses(f64::INFINITY)), (0.0, 1.0, 1.0));
        assert!(misses(0.5) < 0.01 && misses(PROMISE) < 0.25 && misses(2.0) > 0.9);
        assert!((1..100).all(|at| misses(f64::from(at) / 50.0) < misses(f64::from(at + 1) / 50.0)));
    }
}
