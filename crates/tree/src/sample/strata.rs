//! Runs of cut nodes as strata, read at one rung after the other.
//!
//! Invariants:
//! - A run is of one segment, and its blocks ascend: so its rows of a rung do, too. Between them may lie what the box
//!   covers or excludes.
//! - What is drawn of a run is all of its rows of one rung. A run that is read in full is no stratum any more: its rows
//!   are in the exact answer, and its stratum is empty.

use super::facts::Facts;
use super::foresee::Second;
use super::glimpse::Reading;
use super::lacking::{Lacking, doubtful};
use super::tally::{Look, Tally};
use super::{Estimates, Foreseen, Otherwise, SampleRequest, draw};
use crate::answer::{Answer, Boxes, CutNode, read_cut};
use crate::estimate::{Hidden, Known, Plan, Stratum};
use crate::heavy::{Heavy, heavy_rows};
use crate::layout::rung_rate;
use crate::nodes::CodeSet;
use crate::segment::Segment;
use crate::visible::Laddered;
use alluvia_types::{ColumnId, Error, Result};
use std::cell::OnceCell;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// Rows to be drawn of a run at the rung that it is first read at, at least.
const DRAWN_MIN: f64 = 512.0;
/// Runs that so many drawn rows are cut into, where that leaves more of each than [`DRAWN_MIN`]: what a run costs must
/// not show.
const RUNS: f64 = 256.0;
/// A run of which so few would be drawn is read exactly.
pub(super) const DRAWN_TOO_FEW: f64 = 16.0;

/// Cut nodes of a segment.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) segment: usize,
    /// Its blocks: ranges that ascend and do not touch.
    pub(super) parts: Vec<Range<usize>>,
    /// Boxes that may have rows in any of its nodes.
    pub(super) boxes: u16,
    /// Filters that not all of its rows pass, as far as is known.
    pub(super) open: u64,
    pub(super) rows: u64,
    /// How many of them are dead.
    dead: u64,
    share: f64,
    known: Vec<Known>,
    /// Values of each measure that are not NULL, heavy ones among them.
    values: Vec<u64>,
    /// Indices of the groups that rows may be of, ascending.
    groups: Vec<u64>,
    lacking: Lacking,
    pub(super) cut: Vec<CutNode>,
    /// The rung that was read, 0 for everything.
    pub(super) rung: u32,
}

/// All strata of a question: of `n` runs, run `i` is stratum `i`, and its heavy rows, all of which are read, are
/// stratum `n + i`.
#[derive(Clone, Debug)]
pub(super) struct Strata {
    pub(super) runs: Vec<Run>,
    tally: Tally,
    /// Rungs that segments have.
    available: Vec<Vec<u32>>,
    /// Rungs that any segment has, the thinnest first; at its end 0, everything.
    ladder: Vec<u32>,
    pub(super) rows_cut: u64,
    rows_drawn: u64,
    rungs: u32,
}

/// Rows drawn of each run where so many are drawn in all.
fn drawn_min(drawn: f64) -> f64 {
    (drawn / RUNS).max(DRAWN_MIN)
}

/// About how many runs there are where so many rows are drawn in all.
pub(super) fn runs_of(drawn: f64) -> f64 {
    drawn / drawn_min(drawn)
}

/// Adds what is below cut nodes to an answer, box by box.
pub(super) fn read_nodes<'a>(
    asked: &SampleRequest<'_>,
    segments: &[Laddered],
    nodes: impl Iterator<Item = &'a CutNode> + Clone,
    into: &mut Answer,
) -> Result<()> {
    for (of_box, question) in asked.boxes.each().iter().enumerate() {
        let mut cut = Vec::new();
        for &node in nodes.clone().filter(|node| node.boxes >> of_box & 1 == 1) {
            asked.boxes.blocks_of_box(of_box, &segments[node.segment], node, into, &mut cut)?;
        }
        if !cut.is_empty() {
            read_cut(question, segments, &cut, asked.threads, into)?;
        }
    }
    Ok(())
}

impl Strata {
    /// Strata of which the thinnest rung to be read is `rung`, and the nodes of which too few rows would be drawn, or
    /// whose rows tell that there are no values: these are to be read.
    pub(super) fn new(
        asked: &SampleRequest<'_>,
        segments: &[Laddered],
        facts: Vec<Facts>,
        rung: u32,
    ) -> Result<(Strata, Vec<CutNode>)> {
        let available: Vec<Vec<u32>> = segments.iter().map(|rows| rows.rungs().to_vec()).collect();
        let rows_cut: u64 = facts.iter().map(|facts| facts.rows).sum();
        let drawn_min = drawn_min(rows_cut as f64 * rung_rate(rung));
        let doubtful = doubtful(&facts);
        let (mut runs, mut read): (Vec<Run>, Vec<CutNode>) = (Vec::new(), Vec::new());
        for (facts, is_doubtful) in facts.into_iter().zip(doubtful) {
            match runs.last_mut() {
                _ if is_doubtful => read.push(facts.cut),
                Some(run) if run.takes(&facts, drawn_min) => run.add(facts),
                // A rung may be lost: then the next thicker one is read.
                _ => runs.push(Run::new(facts, at_most(&available, rung))),
            }
        }
        let (runs, few): (Vec<Run>, Vec<Run>) =
            runs.into_iter().partition(|run| run.rung > 0 && run.rows as f64 * rung_rate(run.rung) >= DRAWN_TOO_FEW);
        read.extend(few.into_iter().flat_map(|run| run.cut));
        let mut ladder: Vec<u32> = available.iter().flatten().copied().chain([0]).collect();
        ladder.sort_unstable_by(|a, b| b.cmp(a));
        ladder.dedup();
        let mut strata = Strata { runs, tally: Tally::default(), available, ladder, rows_cut, rows_drawn: 0, rungs: 0 };
        let measures = asked.shape().measures.iter().enumerate();
        let of_measures = measures.map(|(at, of)| strata.strata_of(segments, Some((at, of.column))));
        let frames: Result<Vec<_>> = std::iter::once(strata.strata_of(segments, None)).chain(of_measures).collect();
        let frames = frames?;
        strata.tally = Tally::new(frames);
        Ok((strata, read))
    }

    /// The strata of one frame: of a measure, or of rows.
    fn strata_of(&self, segments: &[Laddered], measure: Option<(usize, ColumnId)>) -> Result<Vec<Stratum>> {
        let (mut light, mut heavy) = (Vec::with_capacity(2 * self.runs.len()), Vec::with_capacity(self.runs.len()));
        let whole = self.ladder.len() as u32 - 1;
        let mut heavy_rows = measure.map(|(_, column)| HeavyRows { segments, column, last: None });
        for run in &self.runs {
            let segment = &segments[run.segment].segment;
            let found = heavy_rows.as_mut().map(|rows| rows.of(run.segment)).transpose()?.flatten();
            let count = |heavy: Arc<Heavy>| run.places(segment, &heavy).map(|places| places.len() as u64).sum::<u64>();
            let apart = found.map_or(0, count);
            let mut own = Stratum::new(run.rows - apart, measure.map(|(at, _)| run.known[at]));
            own.values = measure.map_or(run.rows, |(at, _)| run.values[at]) - apart;
            // Heavy ones may be among them: then a little more is left unsure.
            own.dead = run.dead.min(own.rows);
            own.expected_share = Some(run.share);
            own.restart(self.number_of(run.rung));
            light.push(own);
            heavy.push(Stratum {
                rung: whole,
                sampled: apart,
                expected_share: Some(run.share),
                ..Stratum::new(apart, None)
            });
        }
        light.append(&mut heavy);
        Ok(light)
    }

    /// What estimates call a rung.
    fn number_of(&self, rung: u32) -> u32 {
        self.ladder.iter().take_while(|&&has| has > rung).count() as u32
    }

    /// Takes in the heavy rows that match, once. Dead ones match nothing.
    pub(super) fn add_heavy(
        &mut self,
        asked: &SampleRequest<'_>,
        segments: &[Laddered],
        into: &mut Answer,
    ) -> Result<()> {
        let question = asked.shape();
        for (measure, of) in question.measures.iter().enumerate() {
            let mut heavy_rows = HeavyRows { segments, column: of.column, last: None };
            for (at, run) in self.runs.iter().enumerate() {
                let segment = &segments[run.segment].segment;
                let Some(heavy) = heavy_rows.of(run.segment)? else { continue };
                let of_box = |(_, bits): (usize, u64)| {
                    let filters = Boxes::open_of(bits, run.open).map(|place| &question.filters[place]);
                    let with_codes = filters.map(|filter| Ok((&filter.codes, heavy.codes(segment, filter.level)?)));
                    with_codes.collect::<Result<Vec<_>>>()
                };
                let boxes = asked.boxes.among(run.boxes).map(of_box).collect::<Result<Vec<_>>>()?;
                let all_rows = heavy.rows(heavy.places(0..segment.meta().rows));
                let passes = |place: usize| {
                    if segments[run.segment].is_dead(all_rows[place].into()) {
                        return false;
                    }
                    let of_box =
                        |filters: &Vec<(&CodeSet, &[u32])>| filters.iter().all(|(set, of)| set.contains(of[place]));
                    boxes.iter().any(of_box)
                };
                let groups = question.groups.iter().map(|&level| heavy.codes(segment, level));
                let groups = groups.collect::<Result<Vec<_>>>()?;
                let stratum = (self.runs.len() + at) as u32;
                // Of one group what matches is added up first.
                let mut all = (0, 0.0, 0.0);
                for places in run.places(segment, &heavy) {
                    for (place, &value) in places.clone().zip(heavy.values(places)) {
                        if !passes(place) {
                            continue;
                        }
                        if groups.is_empty() {
                            all = (all.0 + 1, all.1 + value, all.2 + value * value);
                            continue;
                        }
                        let index = into.keys.index_of(groups.iter().map(|codes| codes[place]));
                        let index = index.ok_or_else(|| Error::internal("a row has a code that its table does not"))?;
                        let group = into.group(index);
                        self.tally.samples.of_group(group)[1 + measure].add(stratum, value);
                    }
                }
                if all.0 > 0 {
                    let group = into.group(0);
                    self.tally.samples.of_group(group)[1 + measure].add_many(stratum, all.0, all.1, all.2);
                }
            }
        }
        Ok(())
    }

    /// Rates by the numbers that estimates give to rungs: the thinnest first, the whole last.
    pub(super) fn rates(&self) -> Vec<f64> {
        self.ladder.iter().copied().map(rung_rate).collect()
    }

    /// The rung to read of a run for such a number.
    pub(super) fn rung_of(&self, run: usize, number: u32) -> u32 {
        at_most(&self.available, self.ladder[number as usize])(self.runs[run].segment)
    }

    /// The next thicker rung of a run; 0 is everything.
    pub(super) fn thicker(&self, run: usize) -> u32 {
        let Run { segment, rung, .. } = self.runs[run];
        self.available[segment].iter().copied().filter(|&has| has < rung).max().unwrap_or(0)
    }

    /// Whether everything was read: then the answer is exact.
    pub(super) fn is_read(&self) -> bool {
        self.runs.iter().all(|run| run.rung == 0)
    }

    /// The first draw.
    pub(super) fn draw_first(
        &mut self,
        asked: &SampleRequest<'_>,
        segments: &[Laddered],
        into: &mut Answer,
    ) -> Result<()> {
        let all: Vec<usize> = (0..self.runs.len()).collect();
        self.draw(asked, segments, &all, into)?;
        self.add_heavy(asked, segments, into)
    }

    /// Draws runs of which nothing was drawn, or which were restarted.
    pub(super) fn draw(
        &mut self,
        asked: &SampleRequest<'_>,
        segments: &[Laddered],
        runs: &[usize],
        into: &mut Answer,
    ) -> Result<()> {
        runs.iter().for_each(|&run| self.rungs |= 1 << self.runs[run].rung);
        self.rows_drawn += draw::draw(asked, segments, &self.runs, runs, &mut self.tally, into)?;
        Ok(())
    }

    /// Reads runs again at thicker rungs; rung 0 is everything.
    pub(super) fn read_on(
        &mut self,
        asked: &SampleRequest<'_>,
        segments: &[Laddered],
        reads: &[(usize, u32)],
        into: &mut Answer,
    ) -> Result<()> {
        self.restart(reads);
        let whole = reads.iter().filter(|(_, rung)| *rung == 0).flat_map(|&(at, _)| &self.runs[at].cut);
        read_nodes(asked, segments, whole, into)?;
        let drawn: Vec<usize> = reads.iter().filter(|(_, rung)| *rung > 0).map(|&(at, _)| at).collect();
        self.draw(asked, segments, &drawn, into)
    }

    /// Whether reading runs again at these rungs pays, rather than reading everything that is left.
    pub(super) fn second_pays(
        &self,
        reads: &[(usize, u32)],
        foreseen: &Foreseen,
        reading: &Reading,
        otherwise: Otherwise,
    ) -> bool {
        let rows = |run: usize| self.runs[run].rows as f64;
        let (whole, drawn): (Vec<_>, Vec<_>) = reads.iter().partition(|(_, rung)| *rung == 0);
        let drawn = drawn.into_iter().map(|&(run, rung)| rows(run) * rung_rate(rung)).sum();
        let whole = whole.into_iter().map(|&(run, _)| rows(run)).sum();
        let left = self.runs.iter().filter(|run| run.rung > 0).map(|run| run.rows as f64).sum();
        foreseen.second_pays(reading, Second { drawn, whole, left }, otherwise)
    }

    /// Forgets what was drawn of runs that are read again, at these rungs. Those of rung 0 are no strata any more.
    pub(super) fn restart(&mut self, reads: &[(usize, u32)]) {
        let runs = self.runs.len();
        let mut is_read_again = vec![false; 2 * runs];
        for &(at, rung) in reads {
            is_read_again[at] = true;
            is_read_again[runs + at] = rung == 0;
            self.runs[at].rung = rung;
            let number = self.number_of(rung);
            for strata in &mut self.tally.strata {
                match rung {
                    0 => {
                        let empty = Stratum { rung: number, ..Stratum::new(0, None) };
                        (strata[at], strata[runs + at]) = (empty, empty);
                    }
                    _ => strata[at].restart(number),
                }
            }
        }
        self.tally.forget(&is_read_again);
    }

    /// Reads all that was not read in full.
    pub(super) fn read_rest(&self, asked: &SampleRequest<'_>, segments: &[Laddered], into: &mut Answer) -> Result<()> {
        let rest = self.runs.iter().filter(|run| run.rung > 0).flat_map(|run| &run.cut);
        read_nodes(asked, segments, rest, into)
    }

    /// What drawn rows say.
    pub(super) fn look(&self, asked: &SampleRequest<'_>, plan: &Plan, into: &Answer) -> Look {
        let open: HashSet<u64> =
            self.runs.iter().filter(|run| run.rung > 0).flat_map(|run| &run.groups).copied().collect();
        // Of each measure the groups that may have values, where that is asked: mostly a value was drawn.
        let valued: Vec<OnceCell<HashSet<u64>>> = asked.shape().measures.iter().map(|_| OnceCell::new()).collect();
        let has_groups = !asked.shape().groups.is_empty();
        let may_have_more = |group: usize, measure: Option<usize>| match measure {
            None => !has_groups || open.contains(&into.keys.index(group)),
            Some(measure) if !has_groups => self.runs.iter().any(|run| run.rung > 0 && run.values[measure] > 0),
            Some(measure) => valued[measure].get_or_init(|| self.valued(measure)).contains(&into.keys.index(group)),
        };
        let mut look = self.tally.look(asked, plan, into, &self.hidden(asked, into), may_have_more);
        let exact = (0..into.totals.groups()).filter(|&group| into.totals.rows(group) > 0);
        let seen: HashSet<u64> = self.tally.drawn_groups().chain(exact).map(|group| into.keys.index(group)).collect();
        look.unseen = open.difference(&seen).copied().collect();
        look.unseen.sort_unstable();
        look.holds &= look.unseen.is_empty();
        look
    }

    /// Indices of the groups that may have values of a measure in runs that were not read in full.
    fn valued(&self, measure: usize) -> HashSet<u64> {
        let open = self.runs.iter().filter(|run| run.rung > 0);
        open.flat_map(|run| run.groups.iter().copied().filter(move |&index| !run.lacking.has(measure, index))).collect()
    }

    /// Of each measure, and of each group of which anything was drawn: the runs where its rows may be and none was
    /// drawn.
    fn hidden(&self, asked: &SampleRequest<'_>, into: &Answer) -> Vec<Vec<Hidden>> {
        let drawn = self.tally.samples.all();
        let mut by_index: Vec<(u64, usize)> =
            drawn.iter().enumerate().map(|(slot, (group, _))| (into.keys.index(*group), slot)).collect();
        by_index.sort_unstable();
        let all: Vec<usize> = (0..drawn.len()).collect();
        let slot_of =
            |index: &u64| by_index.binary_search_by_key(index, |&(index, _)| index).ok().map(|at| by_index[at].1);
        // Of each run the groups that its rows may be of. Of a question without groups there is one.
        let in_runs: Vec<Vec<usize>> = match asked.shape().groups.is_empty() {
            true => vec![all; self.runs.len()],
            false => self.runs.iter().map(|run| run.groups.iter().filter_map(slot_of).collect()).collect(),
        };
        let of_measure = |frame: usize| {
            let mut hidden = vec![Hidden::NOWHERE; drawn.len()];
            // Of each group the next run where rows were drawn; runs come in order.
            let mut next: Vec<_> = drawn.iter().map(|(_, samples)| samples[frame].strata().peekable()).collect();
            for (at, slots) in in_runs.iter().enumerate().filter(|(at, _)| self.runs[*at].rung > 0) {
                let stratum = &self.tally.strata[frame][at];
                for &slot in slots {
                    while next[slot].next_if(|&other| (other as usize) < at).is_some() {}
                    if next[slot].peek() != Some(&(at as u32)) {
                        hidden[slot].add(stratum);
                    }
                }
            }
            hidden
        };
        (1..self.tally.strata.len()).map(of_measure).collect()
    }

    /// Runs that groups may be in which were not seen.
    pub(super) fn with_unseen(&self, look: &Look) -> Vec<usize> {
        let may_hide =
            |run: &Run| run.rung > 0 && run.groups.iter().any(|index| look.unseen.binary_search(index).is_ok());
        (0..self.runs.len()).filter(|&at| may_hide(&self.runs[at])).collect()
    }

    /// What is given of a look.
    pub(super) fn estimates(&self, look: Look, number: u32, foreseen: Option<Box<Foreseen>>) -> Estimates {
        Estimates {
            look: number,
            rungs: self.rungs,
            rows_drawn: self.rows_drawn,
            rows_cut: self.rows_cut,
            nodes_drawn: self.runs.iter().filter(|run| run.rung > 0).map(|run| run.cut.len() as u64).sum(),
            error: look.error,
            share_off: look.share_off,
            groups_unseen: look.unseen.len() as u64,
            holds: look.holds,
            groups: look.groups,
            foreseen,
        }
    }
}

/// Of each segment the thinnest rung that is not thinner than this one; 0 if it has none.
fn at_most(available: &[Vec<u32>], rung: u32) -> impl Fn(usize) -> u32 {
    move |segment| available[segment].iter().copied().filter(|&has| has <= rung).max().unwrap_or(0)
}

/// The heavy rows of a column, looked up once for neighbours of a segment.
struct HeavyRows<'a> {
    segments: &'a [Laddered],
    column: ColumnId,
    last: Option<(usize, Option<Arc<Heavy>>)>,
}

impl HeavyRows<'_> {
    /// Those of a segment, if there are any.
    fn of(&mut self, at: usize) -> Result<Option<Arc<Heavy>>> {
        if let Some((last, heavy)) = &self.last
            && *last == at
        {
            return Ok(heavy.clone());
        }
        let segment = &self.segments[at].segment;
        let place = segment.index()?.table.measures.iter().position(|(id, _)| *id == self.column);
        let heavy = place.map(|place| heavy_rows(segment, place)).transpose()?.filter(|heavy| !heavy.is_empty());
        Ok(self.last.insert((at, heavy)).1.clone())
    }
}

impl Run {
    /// Places of its heavy rows.
    fn places<'a>(&'a self, segment: &'a Segment, heavy: &'a Heavy) -> impl Iterator<Item = Range<usize>> + 'a {
        let rows = |part: &Range<usize>| segment.block_rows(part.start).start..segment.block_rows(part.end - 1).end;
        self.parts.iter().map(move |part| heavy.places(rows(part)))
    }

    fn new(facts: Facts, rung_of: impl Fn(usize) -> u32) -> Run {
        let (segment, lacking) = (facts.cut.segment, Lacking::new(&facts));
        Run {
            segment,
            lacking,
            parts: vec![facts.blocks],
            boxes: facts.cut.boxes,
            open: facts.cut.open,
            rows: facts.rows,
            dead: facts.dead,
            share: facts.share,
            known: facts.known,
            values: facts.values,
            groups: facts.groups,
            cut: vec![facts.cut],
            rung: rung_of(segment),
        }
    }

    /// Whether the node lies behind the run in its segment, and the run is too short yet.
    fn takes(&self, facts: &Facts, drawn_min: f64) -> bool {
        self.segment == facts.cut.segment && self.rung > 0 && (self.rows as f64 * rung_rate(self.rung)) < drawn_min
    }

    fn add(&mut self, facts: Facts) {
        self.lacking.add(&self.groups, &facts);
        let (rows, more) = (self.rows as f64, facts.rows as f64);
        self.share = (self.share * rows + facts.share * more) / (rows + more);
        self.rows += facts.rows;
        self.dead += facts.dead;
        match self.parts.last_mut() {
            Some(last) if last.end == facts.blocks.start => last.end = facts.blocks.end,
            _ => self.parts.push(facts.blocks),
        }
        self.boxes |= facts.cut.boxes;
        self.open |= facts.cut.open;
        self.cut.push(facts.cut);
        for (own, more) in self.known.iter_mut().zip(&facts.known) {
            *own = own.and(*more);
        }
        self.values.iter_mut().zip(&facts.values).for_each(|(own, more)| *own += more);
        if self.groups != facts.groups {
            self.groups.extend_from_slice(&facts.groups);
            self.groups.sort_unstable();
            self.groups.dedup();
        }
    }
}
