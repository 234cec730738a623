//! What is in rows that were found.

use super::SnapshotRow;
use crate::snapshot::TableRead;
use alluvia_space::TableDef;
use alluvia_tree::{RowColumns, Segment};
use alluvia_types::{Error, Result};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow::compute::{interleave, take};
use arrow::datatypes::Field;
use std::collections::BTreeMap;
use std::sync::Arc;

impl TableRead {
    /// Columns of the table, by their places in its definition, as rows are read in them.
    pub fn row_columns(&self, columns: &[usize]) -> Arc<RowColumns> {
        row_columns(&self.entry.def, columns)
    }

    /// What is in some rows: one row for each, in their order. `columns` are places of the definition's columns, and the
    /// batch has these by storage name. A column that a row's segment or run lacks is NULL.
    ///
    /// # Errors
    /// `Corrupt` if a segment is damaged, or ends before a row.
    pub fn rows_at(&self, rows: &[SnapshotRow], columns: &[usize]) -> Result<RecordBatch> {
        self.rows_in(rows, &self.row_columns(columns))
    }

    /// The same, in columns that are kept.
    ///
    /// # Errors
    /// As of [`TableRead::rows_at`].
    pub fn rows_in(&self, rows: &[SnapshotRow], columns: &Arc<RowColumns>) -> Result<RecordBatch> {
        let found = self.rows_by(rows, columns, |segment, rows| segment.rows_at(columns, rows).map(Some))?;
        found.ok_or_else(|| Error::internal("rows that were found by their keys were not read"))
    }

    /// The same, where all of it is in memory: no file is read for it.
    ///
    /// # Errors
    /// As of [`TableRead::rows_at`].
    pub fn rows_in_memory(&self, rows: &[SnapshotRow], columns: &Arc<RowColumns>) -> Result<Option<RecordBatch>> {
        self.rows_by(rows, columns, |segment, rows| segment.rows_in_memory(columns, rows))
    }

    /// Rows of which `read` gives those of a segment.
    fn rows_by(
        &self,
        rows: &[SnapshotRow],
        columns: &RowColumns,
        read: impl Fn(&Arc<Segment>, &[u32]) -> Result<Option<RecordBatch>>,
    ) -> Result<Option<RecordBatch>> {
        if let [SnapshotRow::Segment { segment, row }] = *rows {
            return read(&self.segments[segment].segment, &[row]);
        }
        let fields = columns.schema().fields();
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
            let Some(found) = read(&self.segments[segment].segment, &numbers)? else { return Ok(None) };
            sources.push(found.columns().to_vec());
            for (within, (_, at)) in wanted.into_iter().enumerate() {
                places[at] = (sources.len() - 1, within);
            }
        }
        for (run, wanted) in of_runs {
            let rows = &self.tail[run].rows;
            let numbers = UInt32Array::from_iter_values(wanted.iter().map(|(row, _)| *row));
            let column = |field: &Arc<Field>| match rows.column_by_name(field.name()) {
                Some(values) => take(values, &numbers, None).map_err(|error| misfit(&error)),
                None => Ok(new_null_array(field.data_type(), numbers.len())),
            };
            sources.push(fields.iter().map(column).collect::<Result<_>>()?);
            for (within, (_, at)) in wanted.into_iter().enumerate() {
                places[at] = (sources.len() - 1, within);
            }
        }
        let column = |(at, field): (usize, &Arc<Field>)| {
            let parts: Vec<_> = sources.iter().map(|columns| columns[at].as_ref()).collect();
            match parts.is_empty() {
                true => Ok(new_null_array(field.data_type(), 0)),
                false => interleave(&parts, &places).map_err(|error| misfit(&error)),
            }
        };
        let values = fields.iter().enumerate().map(column).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        RecordBatch::try_new_with_options(Arc::clone(columns.schema()), values, &options)
            .map(Some)
            .map_err(|error| misfit(&error))
    }
}

/// Columns of a table, by their places in its definition, as rows are read in them.
pub fn row_columns(def: &TableDef, columns: &[usize]) -> Arc<RowColumns> {
    RowColumns::new(columns.iter().map(|&at| {
        let column = &def.columns[at];
        (column.storage_name.clone(), column.data_type.to_arrow())
    }))
}

fn misfit(error: &arrow::error::ArrowError) -> Error {
    Error::internal(format!("rows that were found by their keys do not fit together: {error}"))
}
