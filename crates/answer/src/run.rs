//! Answering a bound statement at a snapshot.
//!
//! Invariants:
//! - A row is added once: those of the tail as they are, then those of segments, box by box; boxes have no rows in common.
//! - A box is one pass over the segments, the rows at the edges of its ranges of times among the others. Only where something is estimated are
//!   edges read by themselves: samples know of codes alone.
//! - Who cannot answer says so before anybody sees an answer; the general way gives it then.

use super::bound::{Bound, Now};
use super::damage::going_on;
use super::tail::TailRows;
use super::{Kept, columns, names};
use alluvia_snapshot::TableRead;
use alluvia_space::TableDef;
use alluvia_tree::{
    Answer, BoxQuery, Counters, GroupKeys, GroupSpan, SegmentRows, TimeRange, WantedMeasure, add_rows_with_times,
    answer, rows_cut,
};
use alluvia_types::{Result, Version};
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use std::borrow::Cow;

/// Where edges have at least this share of all rows that are read, an exact answer, which reads each block once, costs no more than they and
/// an estimate of the rest.
const EDGES_SHARE: f64 = 0.5;

/// A bound statement, and what it is asked of.
#[derive(Clone, Copy)]
pub struct Asking<'a> {
    /// The statement.
    pub bound: &'a Bound,
    /// The table.
    pub read: &'a TableRead,
    /// That of the snapshot.
    pub version: Version,
    /// What is kept between statements.
    pub kept: &'a Kept,
    /// How many threads it may take.
    pub threads: usize,
}

/// The answer's rows and what they took; `None` where the general way must answer.
pub fn run(asking: &Asking<'_>, schema: &SchemaRef) -> Result<Option<(RecordBatch, Counters)>> {
    going_on(asking.read, || run_once(asking, schema))
}

fn run_once(asking: &Asking<'_>, schema: &SchemaRef) -> Result<Option<(RecordBatch, Counters)>> {
    let Some(begun) = asking.begin()? else { return Ok(None) };
    let Some(found) = begun.all(asking.threads)? else { return Ok(None) };
    Ok(columns::batch(asking.bound, &found, schema).map(|batch| (batch, found.counters)))
}

/// An answer that has the tail's rows, and lacks those of segments.
pub(super) struct Begun<'a> {
    pub(super) segments: Vec<SegmentRows>,
    pub(super) questions: Cow<'a, [BoxQuery]>,
    pub(super) found: Answer,
}

impl<'a> Asking<'a> {
    /// Adds up the tail; `None` where the general way must answer.
    pub(super) fn begin(&self) -> Result<Option<Begun<'a>>> {
        let Asking { bound, read, version, kept, .. } = *self;
        let tail = kept.tails.read(read, &bound.dictionaries, version)?;
        let segments = segment_rows(read, None);
        let Some(Now { questions, maps }) = bound.now() else { return Ok(None) };
        // Now that all rows have their codes.
        let Some(maps) = names::with_names(bound, &kept.names, maps) else { return Ok(None) };
        let mut spans = Vec::with_capacity(bound.groups.len());
        for &level in &bound.groups {
            spans.push(span_of(bound, level, &segments, &tail)?);
        }
        let Some(keys) = GroupKeys::mapped(spans, maps) else { return Ok(None) };
        let mut found = Answer::new(&questions[0], keys);
        for (chunk, rows) in &tail {
            let measures = measure_columns(&bound.def, &bound.measures, &chunk.rows);
            for question in questions.iter() {
                let values = |range: &TimeRange| chunk.rows.column_by_name(&range.storage_name).cloned();
                let times: Vec<Option<ArrayRef>> = question.times.iter().map(values).collect();
                add_rows_with_times(question, &chunk.codes, (&measures, &times), rows.clone(), &mut found)?;
            }
        }
        // Each box has looked at them.
        found.counters.tail_rows = tail.iter().map(|(_, rows)| rows.len() as u64).sum();
        Ok(Some(Begun { segments, questions, found }))
    }
}

impl Begun<'_> {
    /// With the rows of the segments.
    pub(super) fn all(self, threads: usize) -> Result<Option<Answer>> {
        add_segments(&self.questions, &self.segments, threads, self.found)
    }

    /// Whether reading edges by themselves costs more than an estimate of the rest can spare.
    pub(super) fn is_mostly(&self, edges: &[BoxQuery]) -> Result<bool> {
        if edges.is_empty() {
            return Ok(false);
        }
        let rows = |questions: &[BoxQuery]| -> Result<u64> {
            questions.iter().map(|question| rows_cut(question, &self.segments, self.found.keys.clone())).sum()
        };
        Ok(rows(edges)? as f64 >= EDGES_SHARE * rows(&self.questions)? as f64)
    }
}

/// Adds the rows of segments that are of these questions; `None` where the general way must answer.
pub(super) fn add_segments(
    questions: &[BoxQuery],
    segments: &[SegmentRows],
    threads: usize,
    mut found: Answer,
) -> Result<Option<Answer>> {
    for question in questions {
        if !answer(question, segments, threads, &mut found)? {
            return Ok(None);
        }
    }
    Ok(Some(found))
}

/// The segments' rows of a table of a snapshot, those above a version.
pub(super) fn segment_rows(read: &TableRead, above: Option<Version>) -> Vec<SegmentRows> {
    let rows = |rows: &SegmentRows| SegmentRows { above, ..rows.clone() };
    read.segments.iter().map(rows).collect()
}

/// The values of each measure.
pub(super) fn measure_columns(def: &TableDef, measures: &[WantedMeasure], rows: &RecordBatch) -> Vec<Option<ArrayRef>> {
    let column = |measure: &WantedMeasure| {
        let column = def.column_by_id(measure.column)?;
        rows.column_by_name(&column.storage_name).cloned()
    };
    measures.iter().map(column).collect()
}

/// The codes that rows can have at a level.
fn span_of(bound: &Bound, level: usize, segments: &[SegmentRows], tail: &[TailRows]) -> Result<GroupSpan> {
    if bound.dictionaries.has_members(level) {
        return Ok(GroupSpan { level, first: 1, count: bound.dictionaries.len(level) - 1 });
    }
    Ok(match code_bounds(level, segments, tail)? {
        None => GroupSpan { level, first: 1, count: 0 },
        Some((low, high)) => GroupSpan { level, first: low, count: high - low + 1 },
    })
}

/// The least and the greatest code beside NULL that rows have at a level; `None` if they have none.
pub(super) fn code_bounds(level: usize, segments: &[SegmentRows], tail: &[TailRows]) -> Result<Option<(u32, u32)>> {
    let mut bounds: Option<(u32, u32)> = None;
    let mut widen = |low: u32, high: u32| {
        let (min, max) = bounds.unwrap_or((low, high));
        bounds = Some((min.min(low), max.max(high)));
    };
    for SegmentRows { segment, .. } in segments {
        let summaries = segment.summaries()?;
        let Some(summary) = summaries.level(level) else { continue };
        for (low, high) in (0..summaries.blocks()).map(|block| summary.bounds(block)).filter(|bounds| bounds.0 > 0) {
            widen(low, high);
        }
    }
    for (chunk, rows) in tail {
        for &code in chunk.codes.levels[level][rows.clone()].iter().filter(|&&code| code > 0) {
            widen(code, code);
        }
    }
    Ok(bounds)
}
