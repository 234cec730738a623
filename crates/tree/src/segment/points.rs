//! Values of few rows, each decoded by itself.

use super::Segment;
use super::columns::Source;
use crate::context::Slot;
use crate::parquet_file::{Decoded, DictionaryPage, ParquetInput, PointColumn, read_error};
use alluvia_types::{Error, Result};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array, new_null_array};
use arrow::datatypes::{DataType, SchemaRef};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Dictionaries of column chunks, by row group and column, held in memory while there is room.
pub(super) type DictionariesByChunk = HashMap<(usize, usize), Arc<Slot<DictionaryPage>>>;

impl Segment {
    /// The values of columns in some rows: ranges of row numbers that ascend, do not meet, and are in the file. `None` where
    /// that is for the general reader.
    pub(super) fn points(
        &self,
        schema: SchemaRef,
        columns: &[(&str, DataType)],
        sources: &[Source],
        rows: &[Range<u64>],
    ) -> Result<Option<RecordBatch>> {
        let metadata = self.parquet_metadata()?;
        let input = ParquetInput(self.parquet_file()?);
        let in_file = metadata.file_metadata().schema_descr().columns();
        let count = rows.iter().map(|rows| rows.end - rows.start).sum::<u64>() as usize;
        let mut values: Vec<ArrayRef> = Vec::with_capacity(columns.len());
        for ((_, data_type), source) in columns.iter().zip(sources) {
            values.push(match source {
                Source::Version(version) => Arc::new(UInt64Array::from_value(*version, count)),
                Source::Absent(data_type) => new_null_array(data_type, count),
                Source::Parquet(name) => {
                    let Some(leaf) = in_file.iter().position(|column| column.name() == name) else { return Ok(None) };
                    let column = PointColumn { input: &input, metadata: &metadata, leaf };
                    let decoded = column.values(data_type, rows, &|group| self.dictionary(column, group));
                    let failed = |error| read_error(&self.context.parquet_path(self.meta.id), error);
                    match decoded.map_err(failed)? {
                        Decoded::Values(values) => values,
                        Decoded::Unknown => return Ok(None),
                    }
                }
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let batch = RecordBatch::try_new_with_options(schema, values, &options);
        batch.map(Some).map_err(|error| Error::internal(format!("rows of segment {}: {error}", self.meta.id)))
    }

    fn dictionary(&self, column: PointColumn<'_>, group: usize) -> Result<Arc<DictionaryPage>> {
        let slot = Arc::clone(self.dictionaries.lock().entry((group, column.leaf)).or_default());
        Slot::get(&slot, &self.context.pool, || {
            let failed = |error| read_error(&self.context.parquet_path(self.meta.id), error);
            let dictionary = column.dictionary(group).map_err(failed)?;
            let bytes = dictionary.bytes();
            Ok((dictionary, bytes))
        })
    }
}
