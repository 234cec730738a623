//! Columns of chunks and batches: values from the Parquet file, and what stands for those that it does not have.

use super::Segment;
use super::row_columns::RowColumns;
use crate::layout::BLOCK_ROWS;
use crate::parquet_file::RowReader;
use alluvia_space::VERSION_COLUMN;
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, UInt64Array, new_null_array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// So many rows are decoded one by one; of more the general reader makes less.
const POINT_ROWS_MAX: u32 = 64;

/// Where a column of a chunk comes from.
pub(super) enum Source {
    /// The Parquet file.
    Parquet(String),
    /// One version for all rows.
    Version(u64),
    /// NULL.
    Absent(DataType),
}

impl Source {
    /// Its values in so many rows of the Parquet file, of which the columns are told by name.
    pub(super) fn values(&self, columns: &HashMap<&str, &ArrayRef>, rows: usize) -> Result<ArrayRef> {
        Ok(match self {
            Source::Parquet(name) => {
                let column = columns.get(name.as_str()).copied();
                Arc::clone(column.ok_or_else(|| Error::internal(format!("the column {name} was not read")))?)
            }
            Source::Version(version) => Arc::new(UInt64Array::from_value(*version, rows)),
            Source::Absent(data_type) => new_null_array(data_type, rows),
        })
    }
}

/// The columns of a batch. Where there are a thousand, each is not looked for among all.
pub(super) fn by_name(batch: &RecordBatch) -> HashMap<&str, &ArrayRef> {
    let names = batch.schema_ref().fields().iter().map(|field| field.name().as_str());
    names.zip(batch.columns()).collect()
}

/// Columns of some rows of a segment.
struct Columns {
    segment: Arc<Segment>,
    reader: RowReader,
    schema: SchemaRef,
    sources: Vec<Source>,
    rows_left: u64,
}

impl Segment {
    /// The values of some columns, by storage names and Arrow types, of all rows in the order in which they lie in the
    /// file: row `i` of batch `b` is the segment's row `b * BLOCK_ROWS + i`. `_version` and `_ordinal` may be asked
    /// for; the version is the one that all rows have, where the segment has such. A column that the segment lacks is
    /// NULL.
    ///
    /// # Errors
    /// `Corrupt` if the file is damaged; after an error there are no more batches.
    pub fn column_batches(
        self: &Arc<Segment>,
        columns: &[(&str, DataType)],
    ) -> Result<impl Iterator<Item = Result<RecordBatch>> + use<>> {
        self.column_batches_of(columns, std::slice::from_ref(&(0..self.meta.rows)))
    }

    /// The same of some rows, which are read as one after the other: ranges of row numbers that ascend and do not meet.
    /// All batches but the last have [`BLOCK_ROWS`] rows.
    ///
    /// # Errors
    /// `Corrupt` if the file is damaged or ends before a row; after an error there are no more batches.
    pub fn column_batches_of(
        self: &Arc<Segment>,
        columns: &[(&str, DataType)],
        rows: &[Range<u64>],
    ) -> Result<impl Iterator<Item = Result<RecordBatch>> + use<>> {
        self.check_ranges(rows)?;
        let sources = self.sources(columns)?;
        let is_read = |source: &Source| matches!(source, Source::Parquet(_));
        let read = columns.iter().zip(&sources).filter(|(_, source)| is_read(source)).map(|(column, _)| column.clone());
        Ok(Columns {
            reader: self.read_ranges(&read.collect::<Vec<_>>(), rows, BLOCK_ROWS)?,
            segment: Arc::clone(self),
            schema: schema_of(columns),
            sources,
            rows_left: rows.iter().map(|rows| rows.end - rows.start).sum(),
        })
    }

    /// The values of some columns, as [`Segment::column_batches`] has them, of some rows, whose numbers ascend; a number
    /// may come again. Only pages are read that hold one of the rows.
    ///
    /// # Errors
    /// `Corrupt` if the file is damaged or ends before a row.
    pub fn rows_at(self: &Arc<Segment>, columns: &Arc<RowColumns>, rows: &[u32]) -> Result<RecordBatch> {
        debug_assert!(rows.is_sorted(), "rows are read in the order of the file");
        let failed = |error: ArrowError| Error::internal(format!("rows of segment {}: {error}", self.meta.id));
        let mut ranges: Vec<Range<u64>> = Vec::new();
        // Where each row is among those that are read.
        let mut places: Vec<u32> = Vec::with_capacity(rows.len());
        let mut read = 0;
        for &row in rows {
            let row = u64::from(row);
            match ranges.last_mut() {
                Some(last) if row < last.end => {}
                Some(last) if row == last.end => {
                    last.end += 1;
                    read += 1;
                }
                _ => {
                    ranges.push(row..row + 1);
                    read += 1;
                }
            }
            places.push(read - 1);
        }
        if let Some(found) = self.resident_rows(columns, rows)? {
            return Ok(found);
        }
        let columns = &columns.named();
        let found = self.read_few(columns, &ranges, read)?;
        let found = match found {
            Some(found) => found,
            None => {
                let batches = self.column_batches_of(columns, &ranges)?.collect::<Result<Vec<_>>>()?;
                match batches.as_slice() {
                    [one] => one.clone(),
                    several => concat_batches(&schema_of(columns), several).map_err(failed)?,
                }
            }
        };
        match read as usize == rows.len() {
            true => Ok(found),
            false => take_record_batch(&found, &UInt32Array::from(places)).map_err(failed),
        }
    }
}

impl Segment {
    /// The values in few rows; `None` where that is for the general reader.
    fn read_few(&self, columns: &[(&str, DataType)], rows: &[Range<u64>], count: u32) -> Result<Option<RecordBatch>> {
        if count > POINT_ROWS_MAX {
            return Ok(None);
        }
        self.check_ranges(rows)?;
        self.points(schema_of(columns), columns, &self.sources(columns)?, rows)
    }

    /// Where the columns come from.
    pub(super) fn sources(&self, columns: &[(&str, DataType)]) -> Result<Vec<Source>> {
        let metadata = self.parquet_metadata()?;
        let in_file = metadata.file_metadata().schema().get_fields();
        let source = |(name, data_type): &(&str, DataType)| match self.meta.fixed_version {
            Some(version) if *name == VERSION_COLUMN => Source::Version(version.0),
            _ if in_file.iter().any(|field| field.name() == *name) => Source::Parquet((*name).to_owned()),
            _ => Source::Absent(data_type.clone()),
        };
        Ok(columns.iter().map(source).collect())
    }

    /// Rows are in the segment.
    fn check_ranges(&self, rows: &[Range<u64>]) -> Result<()> {
        if rows.iter().any(|rows| rows.end > self.meta.rows) {
            let message =
                format!("segment {} has {} rows, and one behind them is wanted", self.meta.id, self.meta.rows);
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        Ok(())
    }
}

pub(super) fn schema_of(columns: &[(&str, DataType)]) -> SchemaRef {
    let field = |(name, data_type): &(&str, DataType)| Field::new(*name, data_type.clone(), true);
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

impl Columns {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if self.rows_left == 0 {
            return Ok(None);
        }
        let id = self.segment.meta.id;
        let batch = self.reader.next_batch()?;
        let expected = self.rows_left.min(BLOCK_ROWS as u64);
        let batch = batch.filter(|batch| batch.num_rows() as u64 == expected).ok_or_else(|| {
            let message = format!("the Parquet file of segment {id} ends within its last {} rows", self.rows_left);
            Error::new(ErrorKind::Corrupt, message)
        })?;
        self.rows_left -= expected;
        let named = by_name(&batch);
        let values = |source: &Source| source.values(&named, batch.num_rows());
        let columns = self.sources.iter().map(values).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| Error::internal(format!("columns of segment {id}: {error}")))?;
        Ok(Some(batch))
    }
}

impl Iterator for Columns {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        let next = self.next_batch();
        if next.is_err() {
            self.rows_left = 0;
        }
        next.transpose()
    }
}
