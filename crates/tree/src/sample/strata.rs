//! Runs of cut blocks as strata, read at one rung after the other.
//!
//! Invariants:
//! - A run is of one segment, and its blocks are neighbours: so its rows of a rung are, too.
//! - What is drawn of a run is all of its rows of one rung. A run that is read in full is no stratum any more: its rows are in the
//!   exact answer, and its stratum is empty.

use super::facts::Facts;
use super::tally::{Look, Tally};
use super::{Asked, Estimates, draw};
use crate::answer::{Answer, CutBlock, SegmentRows, read_cut};
use crate::estimate::{Known, Plan, Stratum};
use crate::ladder::rung_rate;
use alluvia_types::Result;
use std::collections::HashSet;
use std::ops::Range;

/// Rows to be drawn of a run at the rung that it is first read at.
const DRAWN_MIN: f64 = 512.0;
/// A run of which so few would be drawn is read exactly.
const DRAWN_TOO_FEW: f64 = 16.0;

/// Neighbouring cut blocks of a segment.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) segment: usize,
    pub(super) blocks: Range<usize>,
    /// Filters that not all of its blocks cover, by place.
    pub(super) open: u64,
    pub(super) rows: u64,
    share: f64,
    known: Vec<Known>,
    /// Indices of the groups that rows may be of, ascending.
    groups: Vec<u64>,
    cut: Vec<CutBlock>,
    /// Rungs that its segment has.
    pub(super) available: Vec<u32>,
    /// The rung that was read, 0 for everything.
    pub(super) rung: u32,
}

/// All strata of a question.
#[derive(Clone, Debug)]
pub(super) struct Strata {
    pub(super) runs: Vec<Run>,
    tally: Tally,
    /// The thinnest rung that any run may be read at.
    rung_max: u32,
    pub(super) rows_cut: u64,
    rows_drawn: u64,
    rungs: u32,
}

/// Adds cut blocks to an answer.
pub(super) fn read_exactly(
    asked: &Asked<'_>,
    segments: &[SegmentRows],
    cut: &[CutBlock],
    into: &mut Answer,
) -> Result<()> {
    read_cut(asked.question, segments, cut, asked.threads, into)
}

impl Strata {
    /// Strata of which the thinnest rung to be read is `rung`.
    pub(super) fn new(
        asked: &Asked<'_>,
        segments: &[SegmentRows],
        facts: &[Facts],
        rung: u32,
        into: &mut Answer,
    ) -> Result<Strata> {
        let mut runs: Vec<Run> = Vec::new();
        for facts in facts {
            match runs.last_mut() {
                Some(run) if run.takes(facts) => run.add(facts),
                _ => {
                    let rungs = segments[facts.cut.segment].segment.rungs();
                    let available: Vec<u32> = rungs.iter().map(|rung| rung.rung).collect();
                    // A rung may be lost: then the next thicker one is read.
                    let rung = available.iter().copied().filter(|&has| has <= rung).max().unwrap_or(0);
                    runs.push(Run::new(facts, available, rung));
                }
            }
        }
        let rows_cut = runs.iter().map(|run| run.rows).sum();
        let (runs, few): (Vec<Run>, Vec<Run>) =
            runs.into_iter().partition(|run| run.rung > 0 && run.rows as f64 * rung_rate(run.rung) >= DRAWN_TOO_FEW);
        let few: Vec<CutBlock> = few.into_iter().flat_map(|run| run.cut).collect();
        read_exactly(asked, segments, &few, into)?;
        let rung_max = runs.iter().flat_map(|run| run.available.iter().copied()).max().unwrap_or(1);
        let mut strata = vec![Vec::with_capacity(runs.len()); asked.question.measures.len() + 1];
        for run in &runs {
            for (at, strata) in strata.iter_mut().enumerate() {
                let known = at.checked_sub(1).map(|measure| run.known[measure]);
                let mut stratum = Stratum::new(run.rows, known);
                stratum.expected_share = Some(run.share);
                stratum.restart(rung_max - run.rung);
                strata.push(stratum);
            }
        }
        let tally = Tally::new(strata);
        Ok(Strata { runs, tally, rung_max, rows_cut, rows_drawn: 0, rungs: 0 })
    }

    /// Rates by the numbers that estimates give to rungs: the thinnest first, the whole last.
    pub(super) fn rates(&self) -> Vec<f64> {
        (0..=self.rung_max).rev().map(rung_rate).collect()
    }

    /// The rung to read of a run for such a number.
    pub(super) fn rung_of(&self, run: usize, number: u32) -> u32 {
        let rung = self.rung_max - number;
        self.runs[run].available.iter().copied().filter(|&has| has <= rung).max().unwrap_or(0)
    }

    /// Whether everything was read: then the answer is exact.
    pub(super) fn is_read(&self) -> bool {
        self.runs.iter().all(|run| run.rung == 0)
    }

    /// The first draw.
    pub(super) fn draw_first(&mut self, asked: &Asked<'_>, segments: &[SegmentRows], into: &mut Answer) -> Result<()> {
        let all: Vec<usize> = (0..self.runs.len()).collect();
        self.draw(asked, segments, &all, into)
    }

    fn draw(&mut self, asked: &Asked<'_>, segments: &[SegmentRows], runs: &[usize], into: &mut Answer) -> Result<()> {
        runs.iter().for_each(|&run| self.rungs |= 1 << self.runs[run].rung);
        self.rows_drawn += draw::draw(asked, segments, &self.runs, runs, &mut self.tally, into)?;
        Ok(())
    }

    /// Reads runs again at thicker rungs; rung 0 is everything.
    pub(super) fn read_on(
        &mut self,
        asked: &Asked<'_>,
        segments: &[SegmentRows],
        reads: &[(usize, u32)],
        into: &mut Answer,
    ) -> Result<()> {
        let mut is_read_again = vec![false; self.runs.len()];
        let (mut whole, mut drawn) = (Vec::new(), Vec::new());
        for &(at, rung) in reads {
            let run = &mut self.runs[at];
            is_read_again[at] = true;
            run.rung = rung;
            let number = self.rung_max - rung;
            for strata in &mut self.tally.strata {
                match rung {
                    0 => strata[at] = Stratum { rung: number, ..Stratum::new(0, None) },
                    _ => strata[at].restart(number),
                }
            }
            match rung {
                0 => whole.extend_from_slice(&run.cut),
                _ => drawn.push(at),
            }
        }
        self.tally.forget(&is_read_again);
        read_exactly(asked, segments, &whole, into)?;
        self.draw(asked, segments, &drawn, into)
    }

    /// Reads all that was not read in full.
    pub(super) fn read_rest(&self, asked: &Asked<'_>, segments: &[SegmentRows], into: &mut Answer) -> Result<()> {
        let rest: Vec<CutBlock> = self.runs.iter().filter(|run| run.rung > 0).flat_map(|run| run.cut.clone()).collect();
        read_exactly(asked, segments, &rest, into)
    }

    /// What drawn rows say.
    pub(super) fn look(&self, asked: &Asked<'_>, plan: &Plan, into: &Answer) -> Look {
        let mut look = self.tally.look(asked, plan, into);
        let exact = (0..into.totals.groups()).filter(|&group| into.totals.rows(group) > 0);
        let seen: HashSet<u64> = self.tally.drawn_groups().chain(exact).map(|group| into.keys.index(group)).collect();
        let open = self.runs.iter().filter(|run| run.rung > 0);
        look.unseen = open.flat_map(|run| &run.groups).copied().filter(|index| !seen.contains(index)).collect();
        look.unseen.sort_unstable();
        look.unseen.dedup();
        look.holds &= look.unseen.is_empty();
        look
    }

    /// Runs that groups may be in which were not seen.
    pub(super) fn with_unseen(&self, look: &Look) -> Vec<usize> {
        let may_hide =
            |run: &Run| run.rung > 0 && run.groups.iter().any(|index| look.unseen.binary_search(index).is_ok());
        (0..self.runs.len()).filter(|&at| may_hide(&self.runs[at])).collect()
    }

    /// What is given of a look.
    pub(super) fn estimates(&self, look: Look, number: u32) -> Estimates {
        Estimates {
            look: number,
            rungs: self.rungs,
            rows_drawn: self.rows_drawn,
            rows_cut: self.rows_cut,
            error: look.error,
            groups_unseen: look.unseen.len() as u64,
            holds: look.holds,
            groups: look.groups,
        }
    }
}

impl Run {
    fn new(facts: &Facts, available: Vec<u32>, rung: u32) -> Run {
        let block = facts.cut.block;
        Run {
            segment: facts.cut.segment,
            blocks: block..block + 1,
            open: facts.cut.open,
            rows: facts.rows,
            share: facts.share,
            known: facts.known.clone(),
            groups: facts.groups.clone(),
            cut: vec![facts.cut],
            available,
            rung,
        }
    }

    /// Whether the block is the next one of the run, and the run is too short yet.
    fn takes(&self, facts: &Facts) -> bool {
        let is_next = self.segment == facts.cut.segment && self.blocks.end == facts.cut.block;
        is_next && self.rung > 0 && (self.rows as f64 * rung_rate(self.rung)) < DRAWN_MIN
    }

    fn add(&mut self, facts: &Facts) {
        let (rows, more) = (self.rows as f64, facts.rows as f64);
        self.share = (self.share * rows + facts.share * more) / (rows + more);
        self.rows += facts.rows;
        self.blocks.end += 1;
        self.open |= facts.cut.open;
        self.cut.push(facts.cut);
        for (own, more) in self.known.iter_mut().zip(&facts.known) {
            *own = Known {
                sum: own.sum + more.sum,
                squares: own.squares + more.squares,
                min: own.min.min(more.min),
                max: own.max.max(more.max),
            };
        }
        if self.groups != facts.groups {
            self.groups.extend_from_slice(&facts.groups);
            self.groups.sort_unstable();
            self.groups.dedup();
        }
    }
}
