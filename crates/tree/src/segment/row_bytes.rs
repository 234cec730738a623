//! What reading a segment's rows takes: by which a merge knows how many rows of how many segments it may hold.

use super::Segment;
use crate::chunk::CodedColumn;
use crate::layout::BLOCK_ROWS;
use alluvia_space::{Column, TableDef};
use alluvia_types::Result;
use std::collections::HashMap;

/// Bytes of a row beside its values: its key, version and ordinal.
const BESIDE_BYTES: usize = 32;
/// Bytes of a field of the schemas by which columns are read, for each that the file has.
const READER_BYTES: usize = 1024;

/// What a cursor over a segment holds, about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowBytes {
    /// Bytes of a row, in all columns.
    pub row: usize,
    /// Rows of which values are unpacked at a time, whatever is asked for: those of a page.
    pub page_rows: usize,
    /// Bytes of its footer, and of how some of its columns are read.
    pub footer: usize,
}

impl RowBytes {
    /// Bytes of all columns' open pages.
    pub fn of_pages(self) -> usize {
        self.row * self.page_rows
    }
}

impl Segment {
    /// What a cursor over it holds, under a definition: told by its footer.
    ///
    /// # Errors
    /// Those of reading the footer.
    pub fn row_bytes(&self, table: &TableDef) -> Result<RowBytes> {
        let metadata = self.parquet_metadata()?;
        let rows = (self.meta.rows as usize).max(1);
        let beside = BESIDE_BYTES + size_of::<u32>() * table.levels().count();
        let row = beside + self.column_widths(table)?.into_iter().sum::<usize>();
        // The hidden columns come last, and their pages end where all do.
        let pages = metadata.offset_index().and_then(|groups| groups.first()).and_then(|columns| columns.last());
        let group_rows = metadata.row_groups().first().map_or(0, |group| group.num_rows() as usize);
        let page_rows = pages.map_or(BLOCK_ROWS, |pages| group_rows.div_ceil(pages.page_locations().len().max(1)));
        let columns = metadata.file_metadata().schema_descr().num_columns();
        let footer = metadata.memory_size() + READER_BYTES * columns;
        Ok(RowBytes { row, page_rows: page_rows.min(rows), footer })
    }

    /// Bytes of a row's value in each of a table's columns, about; none of those of which codes say all.
    ///
    /// # Errors
    /// Those of reading the footer.
    pub(crate) fn column_widths(&self, table: &TableDef) -> Result<Vec<usize>> {
        let metadata = self.parquet_metadata()?;
        let rows = (self.meta.rows as usize).max(1);
        let columns = metadata.file_metadata().schema_descr().columns();
        let stored: HashMap<&str, usize> = columns.iter().map(|column| column.name()).zip(0..).collect();
        let width = |(place, column): (usize, &Column)| {
            let data_type = column.data_type.to_arrow();
            match stored.get(column.storage_name.as_str()) {
                _ if CodedColumn::level_of(table, place).is_some() => 0,
                Some(&leaf) if data_type.primitive_width().is_none() => {
                    let bytes = metadata.row_groups().iter().map(|group| group.column(leaf).uncompressed_size());
                    size_of::<u128>() + bytes.sum::<i64>().max(0) as usize / rows
                }
                _ => data_type.primitive_width().unwrap_or(size_of::<u128>()),
            }
        };
        Ok(table.columns.iter().enumerate().map(width).collect())
    }
}
