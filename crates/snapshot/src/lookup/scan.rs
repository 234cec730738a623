//! Keys that are looked for among all that a snapshot has.

use super::SnapshotRow;
use crate::snapshot::TableRead;
use alluvia_space::VERSION_COLUMN;
use alluvia_space::key_code::{KeyCode, KeyCoder};
use alluvia_tree::SegmentRows;
use alluvia_types::Result;
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, UInt64Type};
use std::ops::Range;

/// Codes that are looked for, and what was found.
struct Search {
    /// Ascending, with their places among those that were asked for.
    codes: Vec<(KeyCode, usize)>,
    found: Vec<Option<SnapshotRow>>,
}

impl Search {
    fn new(codes: &[KeyCode]) -> Search {
        let mut sorted: Vec<(KeyCode, usize)> = codes.iter().copied().zip(0..).collect();
        sorted.sort_unstable();
        Search { codes: sorted, found: vec![None; codes.len()] }
    }

    fn place(&mut self, code: KeyCode, row: SnapshotRow) {
        let first = self.codes.partition_point(|(wanted, _)| *wanted < code);
        for (_, at) in self.codes[first..].iter().take_while(|(wanted, _)| *wanted == code) {
            self.found[*at] = Some(row);
        }
    }

    /// Leaves out what was found. Returns whether that is all.
    fn is_done(&mut self) -> bool {
        let found = &self.found;
        self.codes.retain(|(_, at)| found[*at].is_none());
        self.codes.is_empty()
    }

    /// Whether a code that is looked for lies between two.
    fn has_between(&self, (low, high): (KeyCode, KeyCode)) -> bool {
        let first = self.codes.partition_point(|(wanted, _)| *wanted < low);
        self.codes.get(first).is_some_and(|(wanted, _)| *wanted <= high)
    }
}

impl TableRead {
    /// Where the rows with these keys are, `None` where there is none, by reading the keys of all rows: slow, and right
    /// at every version.
    ///
    /// # Errors
    /// `Corrupt` if a segment is damaged.
    pub fn find_by_scan(&self, coder: &KeyCoder, codes: &[KeyCode]) -> Result<Vec<Option<SnapshotRow>>> {
        let mut search = Search::new(codes);
        self.search_tail(coder, &mut search)?;
        for segment in 0..self.segments.len() {
            let all = 0..self.segments[segment].segment.meta().rows;
            self.search_segment(segment, &[all], coder, &mut search)?;
        }
        Ok(search.found)
    }

    /// The same by reading the keys of blocks that may hold one of them, from the newest rows on, until all are found.
    /// Where codes are hashed, any block may hold any key.
    pub(super) fn find_in_blocks(&self, coder: &KeyCoder, codes: &[KeyCode]) -> Result<Vec<Option<SnapshotRow>>> {
        let mut search = Search::new(codes);
        self.search_tail(coder, &mut search)?;
        for segment in (0..self.segments.len()).rev() {
            if search.is_done() {
                break;
            }
            let blocks = self.blocks_with(segment, coder, &search)?;
            if !blocks.is_empty() {
                self.search_segment(segment, &blocks, coder, &mut search)?;
            }
        }
        Ok(search.found)
    }

    fn search_tail(&self, coder: &KeyCoder, search: &mut Search) -> Result<()> {
        for (run, rows) in self.tail.iter().enumerate() {
            for (row, code) in (0..).zip(coder.codes(&rows.rows)?) {
                search.place(code, SnapshotRow::Tail { run, row });
            }
        }
        Ok(())
    }

    /// Looks among some rows of a segment: ranges that ascend and do not meet.
    fn search_segment(
        &self,
        segment: usize,
        ranges: &[Range<u64>],
        coder: &KeyCoder,
        search: &mut Search,
    ) -> Result<()> {
        let rows = &self.segments[segment];
        let is_cut = rows.above.is_some() || rows.through.is_some();
        let versions = is_cut.then_some((VERSION_COLUMN, DataType::UInt64));
        let columns: Vec<_> = coder.columns().chain(versions).collect();
        let mut numbers = ranges.iter().cloned().flatten();
        for batch in rows.segment.column_batches_of(&columns, ranges)? {
            let batch = batch?;
            for (at, (code, row)) in coder.codes(&batch)?.into_iter().zip(&mut numbers).enumerate() {
                if search.has_between((code, code)) && is_alive(rows, row) && is_of_versions(rows, &batch, at) {
                    search.place(code, SnapshotRow::Segment { segment, row: row as u32 });
                }
            }
        }
        Ok(())
    }

    /// The rows of a segment's blocks that may hold a key that is looked for.
    fn blocks_with(&self, segment: usize, coder: &KeyCoder, search: &Search) -> Result<Vec<Range<u64>>> {
        let segment = &self.segments[segment].segment;
        let summaries = segment.summaries()?;
        let first = coder.first_column().and_then(|name| {
            let column = self.entry.def.columns.iter().find(|column| column.storage_name == name)?;
            summaries.column(column.id)
        });
        let bounds = match first {
            Some(bounds) => coder.code_bounds(&bounds.mins, &bounds.maxs)?,
            None => None,
        };
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for block in 0..segment.blocks() {
            // What has no bounds may hold anything.
            let may_hold = match &bounds {
                Some(bounds) => bounds.get(block).copied().flatten().is_none_or(|bounds| search.has_between(bounds)),
                None => true,
            };
            let rows = segment.block_rows(block);
            match ranges.last_mut() {
                _ if !may_hold => {}
                Some(last) if last.end == rows.start => last.end = rows.end,
                _ => ranges.push(rows),
            }
        }
        Ok(ranges)
    }
}

fn is_alive(rows: &SegmentRows, row: u64) -> bool {
    rows.dead.as_ref().is_none_or(|dead| !dead.contains(row))
}

fn is_of_versions(rows: &SegmentRows, batch: &RecordBatch, at: usize) -> bool {
    let Some(versions) = batch.column_by_name(VERSION_COLUMN) else { return true };
    let version = versions.as_primitive::<UInt64Type>().value(at);
    rows.above.is_none_or(|above| version > above.0) && rows.through.is_none_or(|through| version <= through.0)
}
