//! Answering from segments: what nodes say, and what blocks add.

use super::blocks::{Reading, Scratch, read};
use super::groups::GroupKeys;
use super::pass::Passes;
use super::question::{BoxQuery, Counters, TESTS_MAX};
use super::totals::Totals;
use super::walk::walk;
use crate::segment::Segment;
use crate::visible::{KilledRows, SegmentRows, Versions};
use alluvia_types::Result;
use std::borrow::Borrow;

/// Blocks below which a second thread costs more than it saves.
pub(crate) const BLOCKS_PER_THREAD: usize = 64;
/// Blocks up to which a question is done before others could join it.
const ALONE_MAX: usize = 2;

/// Totals by groups, and what they took.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Which group is which.
    pub keys: GroupKeys,
    /// Their totals.
    pub totals: Totals,
    /// What it took.
    pub counters: Counters,
}

impl Answer {
    /// Of no rows.
    pub fn new(query: &BoxQuery, keys: GroupKeys) -> Answer {
        let totals = Totals::new(&query.measures, keys.places());
        Answer { keys, totals, counters: Counters::default() }
    }

    /// The number of the group with this index, with room for its totals.
    #[inline]
    pub(crate) fn group(&mut self, index: u64) -> usize {
        let group = self.keys.number(index);
        if self.keys.is_sparse() && group == self.totals.groups() {
            self.totals.grow((group + 1).next_power_of_two());
        }
        group
    }

    /// Adds one group of totals over the same measures to a group of this answer, which has that place.
    pub fn add_group(&mut self, group: usize, totals: &Totals, from: usize, measures: &[usize]) {
        if self.totals.groups() <= group {
            self.totals.grow(group + 1);
        }
        self.totals.add_group(group, totals, from, measures);
    }

    /// Adds another answer to the same question over other rows.
    pub fn add(&mut self, other: &Answer) {
        let measures: Vec<usize> = (0..other.totals.measures().len()).collect();
        if other.totals.is_spoilt() {
            self.totals.spoil();
        }
        for group in 0..other.totals.groups().min(other.keys.places()) {
            if other.totals.rows(group) > 0 {
                let own = self.group(other.keys.index(group));
                self.totals.add_group(own, &other.totals, group, &measures);
            }
        }
        self.counters.add(&other.counters);
    }
}

/// A block to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CutBlock {
    pub(crate) segment: usize,
    pub(crate) block: usize,
    /// Tests that the block does not cover, by place: filters, then ranges of times.
    pub(crate) open: u64,
    /// Only rows of these versions count.
    pub(super) versions: Versions,
}

/// Adds the rows of segments that lie in a box to an answer, those at its edges in the same pass, with up to `threads`
/// threads. `false`, with the answer as it was, if a segment cannot answer: a column was no measure when it was
/// written.
pub fn answer(query: &BoxQuery, segments: &[SegmentRows], threads: usize, into: &mut Answer) -> Result<bool> {
    let Some(cut) = cut_blocks(query, segments, into)? else { return Ok(false) };
    read_cut(query, segments, &cut, threads, into).map(|()| true)
}

/// Rows of the blocks that answering by groups reads, those among them that hold several groups; none is read.
pub fn rows_cut(query: &BoxQuery, segments: &[SegmentRows], keys: GroupKeys) -> Result<u64> {
    let question = BoxQuery { measures: Vec::new(), ..query.clone() };
    let cut = cut_blocks(&question, segments, &mut Answer::new(&question, keys))?.unwrap_or_default();
    let rows = |cut: &CutBlock| {
        let rows = segments[cut.segment].segment.block_rows(cut.block);
        rows.end - rows.start
    };
    Ok(cut.iter().map(rows).sum())
}

/// As [`answer`], for cuboids: nobody's threads read for it but its own, and those that ask are not held up by it.
pub(crate) fn answer_apart(
    query: &BoxQuery,
    segments: &[SegmentRows],
    threads: usize,
    into: &mut Answer,
) -> Result<bool> {
    let Some(cut) = cut_blocks(query, segments, into)? else { return Ok(false) };
    let readings = readings(query, segments, &cut)?;
    Passes::default().read(query, readings, &cut, threads, into).map(|()| true)
}

/// Adds rows of segments that were killed to an answer: what it would take to have them off. The question has no filters.
/// `false`, with the answer as it was, if a segment cannot answer.
pub(crate) fn answer_killed(query: &BoxQuery, killed: &[KilledRows], into: &mut Answer) -> Result<bool> {
    assert_eq!(query.tests(), 0, "killed rows are read whatever they are");
    for rows in killed {
        if !can_answer(query, rows.segment())? {
            return Ok(false);
        }
    }
    let of_segment = |(segment, rows): (usize, &KilledRows)| {
        let versions = rows.versions();
        rows.blocks().map(|block| CutBlock { segment, block, open: 0, versions }).collect::<Vec<_>>()
    };
    let cut: Vec<CutBlock> = killed.iter().enumerate().flat_map(of_segment).collect();
    let readings = killed.iter().map(|rows| Reading::of_killed(query, rows).map(Some)).collect::<Result<Vec<_>>>()?;
    read(query, &readings, &cut, &mut Scratch::default(), into).map(|()| true)
}

/// Answers what summaries can; the blocks that are cut. `None`, with the answer as it was, if a segment cannot answer.
fn cut_blocks(query: &BoxQuery, segments: &[SegmentRows], into: &mut Answer) -> Result<Option<Vec<CutBlock>>> {
    assert!(query.tests() <= TESTS_MAX, "a bit for each test");
    for rows in segments {
        if !can_answer(query, &rows.segment)? {
            return Ok(None);
        }
    }
    let mut cut = Vec::new();
    for (at, rows) in segments.iter().enumerate() {
        walk(query, at, rows, into, &mut cut)?;
    }
    Ok(Some(cut))
}

/// Adds the rows of cut blocks, together with whoever asks of the same blocks. An error leaves no answer.
pub(crate) fn read_cut<R: Borrow<SegmentRows>>(
    query: &BoxQuery,
    segments: &[R],
    cut: &[CutBlock],
    threads: usize,
    into: &mut Answer,
) -> Result<()> {
    let readings = readings(query, segments, cut)?;
    match cut {
        [first, ..] if cut.len() > ALONE_MAX => {
            let passes = segments[first.segment].borrow().segment.context().shared::<Passes>();
            passes.read(query, readings, cut, threads, into)
        }
        _ => read(query, &readings, cut, &mut Scratch::default(), into),
    }
}

/// What is read of each segment that has cut blocks.
fn readings<R: Borrow<SegmentRows>>(
    query: &BoxQuery,
    segments: &[R],
    cut: &[CutBlock],
) -> Result<Vec<Option<Reading>>> {
    // Of each segment with cut blocks, the tests that any of them needs.
    let mut opens: Vec<Option<u64>> = vec![None; segments.len()];
    for block in cut {
        *opens[block.segment].get_or_insert(0) |= block.open;
    }
    let reading =
        |(rows, open): (&R, Option<u64>)| open.map(|open| Reading::of_rows(query, rows.borrow(), open)).transpose();
    segments.iter().zip(opens).map(reading).collect()
}

/// Whether the segment has every measure that it has the column of.
pub(crate) fn can_answer(query: &BoxQuery, segment: &Segment) -> Result<bool> {
    let index = segment.index()?;
    Ok(query.measures.iter().all(|measure| {
        let is_measure = index.table.measures.iter().any(|(id, _)| *id == measure.column);
        is_measure || !segment.meta().columns.contains(&measure.column)
    }))
}
