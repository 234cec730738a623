//! Rows of a snapshot by their keys: which rows have them, and what is in these.
//!
//! Invariants:
//! - A key has at most one row in a snapshot, and what is found is that one, whatever was written since.
//! - What the [`TableRead`] leaves out is not found, for whatever reason: a row that the transaction of the reader has
//!   killed is dead in it, as one that everybody sees dead.

use crate::snapshot::TableRead;
use alluvia_space::VERSION_COLUMN;
use alluvia_space::key_code::{KeyCode, KeyCoder};
use alluvia_tree::SegmentRows;
use alluvia_types::{Error, Result};
use arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow::compute::{interleave, take};
use arrow::datatypes::{DataType, Field, Schema, UInt64Type};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Where a row is in a [`TableRead`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SnapshotRow {
    /// In a segment.
    Segment {
        /// The segment's place in [`TableRead::segments`].
        segment: usize,
        /// The row's number in it.
        row: u32,
    },
    /// In the tail.
    Tail {
        /// The run's place in [`TableRead::tail`].
        run: usize,
        /// The row's place in it.
        row: u32,
    },
}

impl TableRead {
    /// Where the rows with these keys are, `None` where there is none, by reading the keys of all rows: slow, and right
    /// at every version.
    ///
    /// # Errors
    /// `Corrupt` if a segment is damaged.
    pub fn find_by_scan(&self, coder: &KeyCoder, codes: &[KeyCode]) -> Result<Vec<Option<SnapshotRow>>> {
        let mut wanted: HashMap<KeyCode, Vec<usize>> = HashMap::with_capacity(codes.len());
        for (at, code) in codes.iter().enumerate() {
            wanted.entry(*code).or_default().push(at);
        }
        let mut found = vec![None; codes.len()];
        let mut place = |code: KeyCode, row: SnapshotRow| {
            for &at in wanted.get(&code).into_iter().flatten() {
                found[at] = Some(row);
            }
        };
        let keys: Vec<(&str, DataType)> = coder.columns().collect();
        for (segment, rows) in self.segments.iter().enumerate() {
            let is_cut = rows.above.is_some() || rows.through.is_some();
            let versions = is_cut.then_some((VERSION_COLUMN, DataType::UInt64));
            let columns: Vec<_> = keys.iter().cloned().chain(versions).collect();
            let mut row = 0;
            for batch in rows.segment.column_batches(&columns)? {
                let batch = batch?;
                for (at, code) in coder.codes(&batch)?.into_iter().enumerate() {
                    if is_alive(rows, row) && is_of_versions(rows, &batch, at) {
                        place(code, SnapshotRow::Segment { segment, row: row as u32 });
                    }
                    row += 1;
                }
            }
        }
        for (run, rows) in self.tail.iter().enumerate() {
            for (row, code) in (0..).zip(coder.codes(&rows.rows)?) {
                place(code, SnapshotRow::Tail { run, row });
            }
        }
        Ok(found)
    }

    /// What is in some rows: one row for each, in their order. `columns` are places of the definition's columns, and the
    /// batch has these by storage name. A column that a row's segment or run lacks is NULL.
    ///
    /// # Errors
    /// `Corrupt` if a segment is damaged, or ends before a row.
    pub fn rows_at(&self, rows: &[SnapshotRow], columns: &[usize]) -> Result<RecordBatch> {
        let fields: Vec<Field> = columns
            .iter()
            .map(|&at| {
                let column = &self.entry.def.columns[at];
                Field::new(&column.storage_name, column.data_type.to_arrow(), true)
            })
            .collect();
        // What was read of each segment and run, and where each row stands among it.
        let mut sources: Vec<Vec<ArrayRef>> = Vec::new();
        let mut places = vec![(0, 0); rows.len()];
        let mut of_segments: BTreeMap<usize, Vec<(u32, usize)>> = BTreeMap::new();
        let mut of_runs: BTreeMap<usize, Vec<(u32, usize)>> = BTreeMap::new();
        for (at, row) in rows.iter().enumerate() {
            match *row {
                SnapshotRow::Segment { segment, row } => of_segments.entry(segment).or_default().push((row, at)),
                SnapshotRow::Tail { run, row } => of_runs.entry(run).or_default().push((row, at)),
            }
        }
        for (segment, mut wanted) in of_segments {
            wanted.sort_unstable();
            let numbers: Vec<u32> = wanted.iter().map(|(row, _)| *row).collect();
            let names: Vec<(&str, DataType)> =
                fields.iter().map(|field| (field.name().as_str(), field.data_type().clone())).collect();
            sources.push(self.segments[segment].segment.rows_at(&names, &numbers)?.columns().to_vec());
            for (within, (_, at)) in wanted.into_iter().enumerate() {
                places[at] = (sources.len() - 1, within);
            }
        }
        for (run, wanted) in of_runs {
            let rows = &self.tail[run].rows;
            let numbers = UInt32Array::from_iter_values(wanted.iter().map(|(row, _)| *row));
            let column = |field: &Field| match rows.column_by_name(field.name()) {
                Some(values) => take(values, &numbers, None).map_err(|error| misfit(&error)),
                None => Ok(new_null_array(field.data_type(), numbers.len())),
            };
            sources.push(fields.iter().map(column).collect::<Result<_>>()?);
            for (within, (_, at)) in wanted.into_iter().enumerate() {
                places[at] = (sources.len() - 1, within);
            }
        }
        let column = |(at, field): (usize, &Field)| {
            let parts: Vec<_> = sources.iter().map(|columns| columns[at].as_ref()).collect();
            match parts.is_empty() {
                true => Ok(new_null_array(field.data_type(), 0)),
                false => interleave(&parts, &places).map_err(|error| misfit(&error)),
            }
        };
        let values = fields.iter().enumerate().map(column).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), values, &options)
            .map_err(|error| misfit(&error))
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

fn misfit(error: &arrow::error::ArrowError) -> Error {
    Error::internal(format!("rows that were found by their keys do not fit together: {error}"))
}
