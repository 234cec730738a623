//! Reading of rows from a segment's Parquet file, as record batches of the table's types.

use super::intervals::{INTERVAL, intervals, stored_type};
use super::{ParquetInput, read_error};
use alluvia_storage::CheckedFile;
use alluvia_types::{Error, Result};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelection,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How some columns of a file are read: finding that out costs more than a row to read.
#[derive(Debug)]
pub(crate) struct ColumnReaders {
    typed: ArrowReaderMetadata,
    mask: ProjectionMask,
    /// Names of those that are.
    intervals: Arc<[String]>,
}

impl ColumnReaders {
    /// Of a file at a path with this footer. `columns` are names and Arrow types.
    pub(crate) fn new(
        path: &Path,
        metadata: &Arc<ParquetMetaData>,
        columns: &[(&str, DataType)],
    ) -> Result<ColumnReaders> {
        let failed = |error: ParquetError| read_error(path, error);
        let found = ArrowReaderMetadata::try_new(Arc::clone(metadata), ArrowReaderOptions::new()).map_err(failed)?;
        let mut wanted = Vec::with_capacity(columns.len());
        let mut fields: Vec<Field> = found.schema().fields().iter().map(|field| field.as_ref().clone()).collect();
        for (name, data_type) in columns {
            let at = fields.iter().position(|field| field.name() == name);
            let at = at.ok_or_else(|| Error::internal(format!("{} lacks the column {name}", path.display())))?;
            fields[at] = fields[at].clone().with_data_type(stored_type(data_type));
            wanted.push(at);
        }
        let options = ArrowReaderOptions::new().with_schema(Arc::new(Schema::new(fields)));
        let typed = ArrowReaderMetadata::try_new(Arc::clone(metadata), options).map_err(failed)?;
        let mask = ProjectionMask::roots(typed.parquet_schema(), wanted);
        let intervals = columns.iter().filter(|(_, data_type)| *data_type == INTERVAL);
        let intervals = intervals.map(|(name, _)| (*name).to_owned()).collect();
        Ok(ColumnReaders { typed, mask, intervals })
    }

    /// About how many bytes they take beside the footer, which is counted by itself.
    pub(crate) fn bytes(&self) -> u64 {
        // A field of the schema, one of the readers, and their names.
        512 * self.typed.schema().fields().len() as u64
    }
}

/// Reads some columns of some rows in order.
pub(crate) struct RowReader {
    path: PathBuf,
    reader: ParquetRecordBatchReader,
    intervals: Arc<[String]>,
}

impl RowReader {
    /// Of a file at a path. Ranges of rows ascend and do not meet. The batches have the columns in file order.
    pub(crate) fn open(
        path: PathBuf,
        file: CheckedFile,
        columns: &ColumnReaders,
        rows: &[Range<u64>],
        batch_rows: usize,
    ) -> Result<RowReader> {
        let mut groups = Vec::new();
        let mut selected: Vec<Range<usize>> = Vec::with_capacity(rows.len());
        // Counted over the chosen row groups.
        let (mut chosen_rows, mut selected_rows) = (0, 0);
        let (mut start, mut next) = (0, 0);
        for (at, group) in columns.typed.metadata().row_groups().iter().enumerate() {
            let end = start + group.num_rows() as u64;
            let before = selected.len();
            while let Some(range) = rows.get(next).filter(|range| range.start < end) {
                let from = |row: u64| (chosen_rows + row - start) as usize;
                let within = range.start.max(start)..range.end.min(end);
                if within.start < within.end {
                    selected.push(from(within.start)..from(within.end));
                    selected_rows += within.end - within.start;
                }
                if range.end > end {
                    break;
                }
                next += 1;
            }
            if selected.len() > before {
                groups.push(at);
                chosen_rows += group.num_rows() as u64;
            }
            start = end;
        }
        let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(ParquetInput(file), columns.typed.clone())
            .with_projection(columns.mask.clone())
            .with_row_groups(groups)
            .with_batch_size(batch_rows);
        if chosen_rows != selected_rows {
            let selection = RowSelection::from_consecutive_ranges(selected.into_iter(), chosen_rows as usize);
            builder = builder.with_row_selection(selection);
        }
        let reader = builder.build().map_err(|error| read_error(&path, error))?;
        Ok(RowReader { path, reader, intervals: Arc::clone(&columns.intervals) })
    }

    /// The next rows; `None` at the end.
    pub(crate) fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let next = self.reader.next().transpose().map_err(|error| match error {
            ArrowError::ExternalError(source) => match source.downcast::<ParquetError>() {
                Ok(error) => read_error(&self.path, *error),
                Err(other) => read_error(&self.path, ParquetError::External(other)),
            },
            ArrowError::ParquetError(what) => read_error(&self.path, ParquetError::General(what)),
            other => read_error(&self.path, ParquetError::General(other.to_string())),
        })?;
        next.map(|batch| self.with_intervals(batch)).transpose()
    }

    /// The rows with intervals where the file has their bytes.
    fn with_intervals(&self, batch: RecordBatch) -> Result<RecordBatch> {
        if self.intervals.is_empty() {
            return Ok(batch);
        }
        let damaged =
            || read_error(&self.path, ParquetError::General("a column of intervals has other values".to_owned()));
        let mut fields = Vec::with_capacity(batch.num_columns());
        let mut columns = Vec::with_capacity(batch.num_columns());
        for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            if self.intervals.contains(field.name()) {
                fields.push(Arc::new(field.as_ref().clone().with_data_type(INTERVAL)));
                columns.push(intervals(column).ok_or_else(damaged)?);
            } else {
                fields.push(Arc::clone(field));
                columns.push(Arc::clone(column));
            }
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(|_| damaged())
    }
}
