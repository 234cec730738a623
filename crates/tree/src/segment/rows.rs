//! Rows of a segment's Parquet file: values, versions, and the identities that weights are made of.

use super::Segment;
use crate::context::Slot;
use crate::layout::BLOCK_ROWS;
use crate::parquet_file::{ColumnReaders, ParquetInput, RowReader, read_error};
use alluvia_space::weight::weight;
use alluvia_space::{ORDINAL_COLUMN, VERSION_COLUMN};
use alluvia_storage::CheckedFile;
use alluvia_types::{Error, ErrorKind, Result, Version};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::concat;
use arrow::datatypes::{DataType, UInt64Type};
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// How many lists of columns a segment knows how to read.
const COLUMN_LISTS: usize = 4;

/// Lists of columns, the one that was read last first, and how they are read.
pub(super) type ReadersByColumns = Vec<(Vec<(String, DataType)>, Arc<Slot<ColumnReaders>>)>;

/// A row's version (0 where it is not known) and ordinal.
pub(crate) type Identity = (u64, u64);

impl Segment {
    /// The Parquet file.
    pub fn parquet_file(&self) -> Result<CheckedFile> {
        Ok(self.files()?.parquet.clone())
    }

    /// The Parquet file's footer, with the page indexes.
    pub fn parquet_metadata(&self) -> Result<Arc<ParquetMetaData>> {
        let metadata = Slot::get(&self.parquet, &self.context.pool, || {
            let path = self.context.parquet_path(self.meta.id);
            let input = ParquetInput(self.parquet_file()?);
            let reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Optional);
            let metadata = reader.parse_and_finish(&input).map_err(|error| read_error(&path, error))?;
            if metadata.file_metadata().num_rows() as u64 != self.meta.rows {
                let rows = metadata.file_metadata().num_rows();
                let message = format!("{} has {rows} rows instead of {}", path.display(), self.meta.rows);
                return Err(Error::new(ErrorKind::Corrupt, message));
            }
            let bytes = metadata.memory_size() as u64;
            Ok((Arc::new(metadata), bytes))
        })?;
        Ok(Arc::clone(&metadata))
    }

    /// Reads some columns of some rows in order; `columns` are names and Arrow types.
    pub(crate) fn read_rows(
        &self,
        columns: &[(&str, DataType)],
        rows: Range<u64>,
        batch_rows: usize,
    ) -> Result<RowReader> {
        self.read_ranges(columns, &[rows], batch_rows)
    }

    /// The same of several ranges, which ascend and do not meet.
    pub(crate) fn read_ranges(
        &self,
        columns: &[(&str, DataType)],
        rows: &[Range<u64>],
        batch_rows: usize,
    ) -> Result<RowReader> {
        let path = self.context.parquet_path(self.meta.id);
        let readers = self.column_readers(&path, columns)?;
        RowReader::open(path, self.parquet_file()?, &readers, rows, batch_rows)
    }

    /// How these columns are read, held in memory while there is room, as of the [`COLUMN_LISTS`] lists of columns that
    /// were asked for last.
    fn column_readers(&self, path: &Path, columns: &[(&str, DataType)]) -> Result<Arc<ColumnReaders>> {
        let is_of = |list: &Vec<(String, DataType)>| {
            let alike = |(known, asked): (&(String, DataType), &(&str, DataType))| {
                (known.0.as_str(), &known.1) == (asked.0, &asked.1)
            };
            list.len() == columns.len() && list.iter().zip(columns).all(alike)
        };
        let slot = {
            let mut lists = self.readers.lock();
            let known = lists.iter().position(|(list, _)| is_of(list));
            let list = match known {
                Some(known) => lists.remove(known),
                None => {
                    lists.truncate(COLUMN_LISTS - 1);
                    let list = columns.iter().map(|(name, data_type)| ((*name).to_owned(), data_type.clone()));
                    (list.collect(), Arc::default())
                }
            };
            let slot = Arc::clone(&list.1);
            lists.insert(0, list);
            slot
        };
        Slot::get(&slot, &self.context.pool, || {
            let readers = ColumnReaders::new(path, &self.parquet_metadata()?, columns)?;
            let bytes = readers.bytes();
            Ok((readers, bytes))
        })
    }

    /// The versions of a block's rows.
    pub(crate) fn versions(self: &Arc<Segment>, block: usize) -> Result<Vec<u64>> {
        if let Some(version) = self.meta.fixed_version {
            let rows = self.block_rows(block);
            return Ok(vec![version.0; (rows.end - rows.start) as usize]);
        }
        let versions = self.values(VERSION_COLUMN, &DataType::UInt64, block)?;
        Ok(versions.as_primitive::<UInt64Type>().values().to_vec())
    }

    /// The values of a column of the Parquet file in a block's rows.
    pub(crate) fn values(self: &Arc<Segment>, name: &str, data_type: &DataType, block: usize) -> Result<ArrayRef> {
        let rows = self.block_rows(block);
        let count = (rows.end - rows.start) as usize;
        let mut reader = self.read_rows(&[(name, data_type.clone())], rows, count)?;
        let mut parts = Vec::new();
        while let Some(batch) = reader.next_batch()? {
            parts.push(Arc::clone(batch.column(0)));
        }
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        match concat(&parts) {
            Ok(values) if values.len() == count => Ok(values),
            _ => {
                let message = format!("the Parquet file of segment {} ends within block {block}", self.meta.id);
                Err(Error::new(ErrorKind::Corrupt, message))
            }
        }
    }

    /// The weights of some rows under a seed: the table's, or another one's to draw another sample.
    pub fn weights(&self, rows: Range<u64>, seed: u64) -> Result<Vec<u64>> {
        let identities = self.identities(rows)?;
        Ok(identities.into_iter().map(|(version, ordinal)| weight(Version(version), ordinal, seed)).collect())
    }

    /// Which rows they are.
    pub fn identities(&self, rows: Range<u64>) -> Result<Vec<Identity>> {
        let count = (rows.end - rows.start) as usize;
        let columns = [(VERSION_COLUMN, DataType::UInt64), (ORDINAL_COLUMN, DataType::UInt64)];
        let mut reader = self.read_rows(&columns, rows, BLOCK_ROWS)?;
        let mut identities = Vec::with_capacity(count);
        while let Some(batch) = reader.next_batch()? {
            identities.extend(identities_of(&batch));
        }
        if identities.len() == count {
            return Ok(identities);
        }
        let message = format!("the Parquet file of segment {} ends early", self.meta().id);
        Err(Error::new(ErrorKind::Corrupt, message))
    }
}

/// Which rows they are, of a batch that ends with the hidden columns.
pub(crate) fn identities_of(batch: &RecordBatch) -> impl Iterator<Item = Identity> + '_ {
    let hidden = batch.num_columns() - 2;
    let versions = batch.column(hidden).as_primitive::<UInt64Type>();
    let ordinals = batch.column(hidden + 1).as_primitive::<UInt64Type>();
    (0..batch.num_rows()).map(move |row| {
        let version = if versions.is_valid(row) { versions.value(row) } else { 0 };
        (version, ordinals.value(row))
    })
}
