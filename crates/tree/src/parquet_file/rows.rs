//! Reading of rows from a segment's Parquet file, as record batches of the table's types.

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
use std::path::PathBuf;
use std::sync::Arc;

/// Reads some columns of some rows in order.
pub(crate) struct RowReader {
    path: PathBuf,
    reader: ParquetRecordBatchReader,
}

impl RowReader {
    /// Of a file at a path with this footer. `columns` are names and Arrow types; the batches have them in file order.
    pub(crate) fn open(
        path: PathBuf,
        file: CheckedFile,
        metadata: &Arc<ParquetMetaData>,
        columns: &[(&str, DataType)],
        rows: Range<u64>,
        batch_rows: usize,
    ) -> Result<RowReader> {
        let failed = |error: ParquetError| read_error(&path, error);
        let found = ArrowReaderMetadata::try_new(Arc::clone(metadata), ArrowReaderOptions::new()).map_err(failed)?;
        let mut wanted = Vec::with_capacity(columns.len());
        let mut fields: Vec<Field> = found.schema().fields().iter().map(|field| field.as_ref().clone()).collect();
        for (name, data_type) in columns {
            let at = fields.iter().position(|field| field.name() == name);
            let at = at.ok_or_else(|| Error::internal(format!("{} lacks the column {name}", path.display())))?;
            fields[at] = fields[at].clone().with_data_type(data_type.clone());
            wanted.push(at);
        }
        let options = ArrowReaderOptions::new().with_schema(Arc::new(Schema::new(fields)));
        let typed = ArrowReaderMetadata::try_new(Arc::clone(metadata), options).map_err(failed)?;
        let mut groups = Vec::new();
        let mut selected = Vec::new();
        // Counted over the chosen row groups.
        let mut chosen_rows = 0;
        let mut start = 0;
        for (at, group) in metadata.row_groups().iter().enumerate() {
            let end = start + group.num_rows() as u64;
            let within = rows.start.max(start)..rows.end.min(end);
            if within.start < within.end {
                let from = |row: u64| (chosen_rows + row - start) as usize;
                selected.push(from(within.start)..from(within.end));
                groups.push(at);
                chosen_rows += group.num_rows() as u64;
            }
            start = end;
        }
        let mask = ProjectionMask::roots(typed.parquet_schema(), wanted);
        let input = ParquetInput(file);
        let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(input, typed)
            .with_projection(mask)
            .with_row_groups(groups)
            .with_batch_size(batch_rows);
        if chosen_rows != rows.end - rows.start {
            let selection = RowSelection::from_consecutive_ranges(selected.into_iter(), chosen_rows as usize);
            builder = builder.with_row_selection(selection);
        }
        let reader = builder.build().map_err(failed)?;
        Ok(RowReader { path, reader })
    }

    /// The next rows; `None` at the end.
    pub(crate) fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        self.reader.next().transpose().map_err(|error| match error {
            ArrowError::ExternalError(source) => match source.downcast::<ParquetError>() {
                Ok(error) => read_error(&self.path, *error),
                Err(other) => read_error(&self.path, ParquetError::External(other)),
            },
            ArrowError::ParquetError(what) => read_error(&self.path, ParquetError::General(what)),
            other => read_error(&self.path, ParquetError::General(other.to_string())),
        })
    }
}
