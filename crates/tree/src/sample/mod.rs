//! Estimates of box queries: counts, sums and averages from the ladder, with intervals, as few rows as the error
//! allows.
//!
//! Invariants:
//! - Covered nodes, the tail, rows of some versions only, and segments without a ladder are counted exactly; only cut
//!   blocks all of whose rows are visible become strata. What may be spoilt by NaN, infinities or sums that are not
//!   known is read exactly, too.
//! - Rungs, heavy rows and facts are of all rows of a segment, dead ones among them, and so are strata: a dead row is one
//!   of a stratum's rows that does not match, as one beside the box. What is known of a stratum's rows is known of all of
//!   them, and is held against all that were drawn, never against those alone that match: so neither estimates nor
//!   intervals know of the dead. No node with dead rows is covered, and one all of whose rows are is left out.
//! - [`Laddered`] says which rungs there are for who asks: where rows are dead, those that say which rows they have.
//! - Rows whose values outweigh all others are apart: each stratum has a second one of its heavy rows, by measure, all
//!   of which are read (`heavy`).
//! - A rung is chosen before anything is drawn, by summaries alone (`foresee`); there are [`LOOKS`] looks at samples,
//!   planned; then everything is read, and the answer is exact.
//! - No group is lost: one that summaries say may be in a stratum, and that was not seen, has that stratum read in
//!   full, or everything is, or the answer says that it may lack groups.
//! - A sample that is not clearly expected to pay is not drawn: what the exact answer and each rung cost is counted
//!   (`cost`) from a few of the cut nodes (`glimpse`) before all are looked at, and where few rows are cut the answer
//!   is exact without asking. A first look that may be drawn in vain costs little of the exact answer (`foresee`).
//! - Of several boxes a node that more than one cuts is one stratum, of which a row is drawn once, and matches if it is
//!   of any of them.
//!
//! A stratum is a run of cut nodes of a segment, long enough to have some hundred drawn rows at the rung it is first
//! read at: then filters and sums work on packed codes and values as in exact answers, and what each stratum costs
//! beside them hardly shows. Nodes are looked into, down to blocks, only where so many rows are drawn of each that this
//! pays: where few are, walking over all blocks would cost more than the sample. For the same reason large tables are
//! walked to nodes of nodes first, and further only if a few of these have much below that is not cut (`descend`).
//!
//! [`sample`] reads until the error asked for is reached; a [`Refiner`] tells of every step on the way to the exact
//! answer.

mod cost;
mod descend;
mod draw;
mod facts;
mod foresee;
mod glimpse;
mod knowns;
mod lacking;
mod moments;
mod possible;
mod refine;
mod rung_sums;
mod strata;
mod tally;

use crate::answer::{Answer, BoxQuery, Boxes, CutNode, can_answer};
use crate::estimate::{Aggregate, Interval, Plan, next_allocation};
use crate::layout::rung_rate;
use crate::nodes::CodeSet;
use crate::visible::{Laddered, SegmentRows};
use alluvia_types::Result;
pub use descend::STRATA_MIN;
use descend::walk_all;
use facts::Facts;
use glimpse::{Reading, glimpse};
use strata::Strata;
use tally::Look;

pub use cost::{Kind, Work};
pub use foresee::Foreseen;
pub use refine::{Refine, Refiner, Reseeded, Step};

/// Looks at samples; a look at everything does not count.
pub const LOOKS: u32 = 2;

/// Cut rows below which a sample cannot pay: then nothing is foreseen, either.
pub const SAMPLE_ROWS_MIN: u64 = 64 * crate::layout::BLOCK_ROWS as u64;

/// Groups in nodes are looked for up to so many times as many as were foreseen, and this many always.
const CELLS_TIMES: f64 = 2.0;
const CELLS_MIN: f64 = 4096.0;

/// One value of each group of an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// What it is.
    pub aggregate: Aggregate,
    /// Of which of the question's measures; `None` counts rows.
    pub measure: Option<usize>,
}

/// What to do where a sample does not suffice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Otherwise {
    /// Read everything.
    Exact,
    /// Give what was reached, where no sample is expected to suffice. Where one is, and reading everything costs less,
    /// read everything.
    Reached,
}

/// Where drawn rows come from.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// The rungs of the segments' ladders: one sample, that of the table's seed.
    Ladder,
    /// The segments themselves, by weights under another seed: as if the ladder had been written with it. Slow; to try
    /// how good intervals are.
    Seeded {
        /// The seed.
        seed: u64,
        /// Which rows they are, by segment ([`crate::Segment::identities`] of all rows).
        identities: &'a [Vec<(u64, u64)>],
    },
}

/// What is asked, and how sure the answer must be.
#[derive(Clone, Copy, Debug)]
pub struct SampleRequest<'a> {
    /// The boxes, the groups and the measures.
    pub boxes: &'a Boxes,
    /// For each of the groups the codes that its rows can have, where more is known than summaries tell.
    pub group_codes: &'a [Option<CodeSet>],
    /// The values of each group.
    pub goals: &'a [Goal],
    /// The largest relative error of a value.
    pub max_error: f64,
    /// How often an interval holds the truth: of each value, over the choice of the seed.
    pub confidence: f64,
    /// Where the sample does not suffice.
    pub otherwise: Otherwise,
    /// Where rows are drawn from.
    pub source: Source<'a>,
    /// Whether an estimate is only made of [`SAMPLE_ROWS_MIN`] rows and more, and where it is expected to cost less
    /// than the exact answer. If not, it is made wherever it promises to be good enough, to try how good intervals are.
    pub by_cost: bool,
    /// Nodes of all segments that are looked at before any is looked into, at least: [`STRATA_MIN`], fewer to try it on
    /// small segments.
    pub strata_min: usize,
    /// Threads for what is drawn or read exactly, at most.
    pub threads: usize,
}

impl<'a> SampleRequest<'a> {
    /// The groups and measures, which all boxes share, and the filters of all of them.
    fn shape(&self) -> &'a BoxQuery {
        self.boxes.all()
    }
}

/// A value and where the truth is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimated {
    /// The interval that holds through planned looks.
    pub interval: Interval,
    /// The textbook's, for comparison.
    pub textbook: Interval,
}

/// Estimates of all groups.
#[derive(Clone, Debug)]
pub struct Estimates {
    /// By group's number in the answer: its values, one for each goal.
    pub groups: Vec<(usize, Vec<Estimated>)>,
    /// The look at which reading stopped, from 1.
    pub look: u32,
    /// Bit `k` is set if rung `k` was read.
    pub rungs: u32,
    /// Rows drawn.
    pub rows_drawn: u64,
    /// Rows of all nodes that are cut. An exact answer reads those of their blocks that are.
    pub rows_cut: u64,
    /// Cut nodes that values are estimated of: those of which rows were drawn, and not all were read since.
    pub nodes_drawn: u64,
    /// The largest relative error of a value.
    pub error: f64,
    /// The most that a value is off, as a share ([`Interval::share_off`]).
    pub share_off: f64,
    /// Groups that may exist and were not seen.
    pub groups_unseen: u64,
    /// Whether every value is good enough and no group may lack.
    pub holds: bool,
    /// What was foreseen of the first look; `None` of a refinement, which is made whatever it costs.
    pub foreseen: Option<Box<Foreseen>>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub enum Sampled {
    /// A segment cannot answer; nothing was added to the answer.
    Cannot,
    /// The answer now has all rows of the segments: it is exact, unless it is spoilt.
    Exact,
    /// The answer has what was counted exactly; the estimates include that.
    Estimates(Estimates),
}

/// Estimates a question over segments. `into` has the rows of the tail, and those at the edges of ranges of times; what
/// is counted exactly is added to it.
pub fn sample(asked: &SampleRequest<'_>, segments: &[SegmentRows], into: &mut Answer) -> Result<Sampled> {
    for rows in segments {
        if !can_answer(asked.shape(), &rows.segment)? {
            return Ok(Sampled::Cannot);
        }
    }
    let segments = &Laddered::all(segments)?[..];
    let cut = walk_all(asked, segments, into)?;
    let Some((reading, cells_max)) = first_glance(asked, segments, &cut, into)? else {
        strata::read_nodes(asked, segments, cut.iter(), into)?;
        return Ok(Sampled::Exact);
    };
    let Some(gathered) = facts::gather(asked, segments, &cut, cells_max, into)? else {
        strata::read_nodes(asked, segments, cut.iter(), into)?;
        return Ok(Sampled::Exact);
    };
    strata::read_nodes(asked, segments, gathered.exact.iter(), into)?;
    let facts = gathered.facts;
    // Now of all nodes: what was seen of a few may have misled.
    let Some(foreseen) = foreseen_of(asked, segments, (&facts, 1.0), &reading, foresee::PAYS, into) else {
        // What is spoilt is not given, exact or not.
        if into.totals.is_spoilt() {
            return Ok(Sampled::Exact);
        }
        strata::read_nodes(asked, segments, facts.iter().map(|facts| &facts.cut), into)?;
        return Ok(Sampled::Exact);
    };
    let refined = facts::refine(asked, segments, facts, rung_rate(foreseen.rung), into)?;
    let (strata, few) = Strata::new(asked, segments, refined.facts, foreseen.rung)?;
    strata::read_nodes(asked, segments, refined.exact.iter().chain(&few), into)?;
    look_on(asked, segments, strata, (&foreseen, &reading), into)
}

/// What reading takes, by a few of the cut nodes, and how many groups in nodes are worth looking for; `None` where
/// everything is better read at once.
fn first_glance(
    asked: &SampleRequest<'_>,
    segments: &[Laddered],
    cut: &[CutNode],
    into: &Answer,
) -> Result<Option<(Reading, usize)>> {
    if into.totals.is_spoilt() || asked.goals.is_empty() {
        return Ok(None);
    }
    let may_be_drawn = |cut: &&CutNode| cut.is_of_all_versions() && !segments[cut.segment].rungs().is_empty();
    let nodes: Vec<CutNode> = cut.iter().filter(may_be_drawn).copied().collect();
    let rows_of_nodes = nodes.iter().map(|&node| glimpse::rows_of(segments, node)).collect::<Result<Vec<u64>>>()?;
    let rows: u64 = rows_of_nodes.iter().sum();
    if rows == 0 || asked.by_cost && rows < SAMPLE_ROWS_MIN {
        return Ok(None);
    }
    let seen = glimpse(asked, segments, &nodes, &rows_of_nodes, into)?;
    if !asked.by_cost {
        let reading = seen.map_or_else(Reading::default, |seen| seen.reading);
        return Ok(Some((reading, possible::CELLS_MAX)));
    }
    let Some(seen) = seen else { return Ok(None) };
    // Of what was read before, and had to be, nothing is spared: where that is more than what may be, a sample gains
    // little, and may cost more.
    if seen.reading.cut * (rows as f64) < into.counters.rows_filtered as f64 {
        return Ok(None);
    }
    let facts = (seen.facts.as_slice(), seen.weight);
    let foreseen = foreseen_of(asked, segments, facts, &seen.reading, foresee::PAYS_AT_A_GLANCE, into);
    let cells_max = (CELLS_TIMES * seen.cells).max(CELLS_MIN) as usize;
    Ok(foreseen.map(|_| (seen.reading, cells_max.min(possible::CELLS_MAX))))
}

/// What is foreseen of the rung to begin with; `None` where everything is better read at once: where no estimate is
/// expected to cost less than a share `pays` of that.
fn foreseen_of(
    asked: &SampleRequest<'_>,
    segments: &[Laddered],
    (facts, weight): (&[Facts], f64),
    reading: &Reading,
    pays: f64,
    into: &Answer,
) -> Option<Foreseen> {
    if facts.is_empty() || into.totals.is_spoilt() {
        return None;
    }
    foresee::choose(asked, &foresee::foresee(asked, segments, facts, weight, reading, into), pays)
}

/// Looks as often as planned, reading more between the looks.
fn look_on(
    asked: &SampleRequest<'_>,
    segments: &[Laddered],
    mut strata: Strata,
    (foreseen, reading): (&Foreseen, &Reading),
    into: &mut Answer,
) -> Result<Sampled> {
    let plan = Plan::new(LOOKS, asked.confidence);
    strata.draw_first(asked, segments, into)?;
    for number in 1..=LOOKS {
        // What is spoilt is not given, exact or not.
        if strata.is_read() || into.totals.is_spoilt() {
            return Ok(Sampled::Exact);
        }
        let look = strata.look(asked, &plan, into);
        let is_last = number == LOOKS;
        if look.holds || is_last && asked.otherwise == Otherwise::Reached {
            return Ok(Sampled::Estimates(strata.estimates(look, number, Some(Box::new(*foreseen)))));
        }
        let reads = if is_last { Vec::new() } else { next_reads(asked, &strata, &look, &plan) };
        let pays =
            !reads.is_empty() && (!asked.by_cost || strata.second_pays(&reads, foreseen, reading, asked.otherwise));
        // Where a thicker rung is expected to suffice, and everything costs less than that, everything is read.
        let would_do = !reads.is_empty() && reads.iter().all(|(_, rung)| *rung > 0);
        match (pays, asked.otherwise) {
            (true, _) => strata.read_on(asked, segments, &reads, into)?,
            (false, Otherwise::Exact) => break,
            (false, Otherwise::Reached) if would_do => break,
            (false, Otherwise::Reached) => {
                return Ok(Sampled::Estimates(strata.estimates(look, number, Some(Box::new(*foreseen)))));
            }
        }
    }
    strata.read_rest(asked, segments, into)?;
    Ok(Sampled::Exact)
}

/// Which runs to read at which rungs before the next look; rung 0 is everything.
fn next_reads(asked: &SampleRequest<'_>, strata: &Strata, look: &Look, plan: &Plan) -> Vec<(usize, u32)> {
    let rates = strata.rates();
    let mut rungs: Vec<Option<u32>> = vec![None; strata.runs.len()];
    for (at, frame) in look.frames.iter().enumerate() {
        let of_frame = |goal: &&Goal| goal.measure.map_or(0, |measure| measure + 1) == at;
        let goals: Vec<_> = look.samples[at]
            .iter()
            .flat_map(|sample| asked.goals.iter().filter(of_frame).map(move |goal| (goal.aggregate, sample)))
            .collect();
        for read in next_allocation(frame, &goals, &rates, plan, asked.max_error) {
            let (run, rung) = (read.stratum as usize, strata.rung_of(read.stratum as usize, read.rung));
            rungs[run] = Some(rungs[run].map_or(rung, |known| known.min(rung)));
        }
    }
    for run in strata.with_unseen(look) {
        rungs[run] = Some(0);
    }
    // A rung that a segment lacks may be the one that was read: then there is nothing to gain but by the next.
    let deeper = |(run, rung): (usize, Option<u32>)| {
        let rung = rung?;
        Some((run, if rung < strata.runs[run].rung { rung } else { strata.thicker(run) }))
    };
    rungs.into_iter().enumerate().filter_map(deeper).collect()
}
