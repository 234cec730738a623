//! How long the values of a text or binary column are: by which a statement knows how many of a segment's rows it may hold.
//!
//! Invariants:
//! - The length is that of the row group whose values are longest, not of the whole file: batches come of one group at a time.
//! - A group's length times its rows is no more than about what its values take in memory, each row's counted by itself.
//! - Beside the footer a header of a dictionary's page is read, where it is long, and nothing else.
//! - A segment's lengths never change, so they are kept between statements; the longest, for the segments that it is one of.

use super::Segment;
use crate::chunk::row_bytes;
use crate::parquet_file::{ParquetInput, PointColumn, read_error};
use alluvia_space::Column;
use alluvia_types::{ColumnId, Result, SegmentId, TableId};
use arrow::array::ArrayRef;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};

/// Of fewer rows than these a long value says little of a batch, which has them all and many others.
const ROWS_MIN: u64 = 64;
/// A dictionary of fewer bytes has no value that is longer than they, and is not looked at.
const DICTIONARY_BYTES_MIN: u64 = 64 << 10;
/// Tables whose lengths are kept.
const TABLES_MAX: usize = 1_024;
/// Rows of an array that are looked at, about.
const LOOKED_ROWS: usize = 1_024;

impl Segment {
    /// Bytes of a value of the text or binary column that is stored by this name, about; 0 if the segment lacks it.
    ///
    /// # Errors
    /// Those of reading the footer, and of reading dictionaries' headers.
    pub fn value_bytes(&self, name: &str) -> Result<u64> {
        let metadata = self.parquet_metadata()?;
        let mut columns = metadata.file_metadata().schema_descr().columns().iter();
        let Some(leaf) = columns.position(|column| column.name() == name) else { return Ok(0) };
        let mut input = None;
        let mut longest = 0;
        for (at, group) in metadata.row_groups().iter().enumerate() {
            let chunk = group.column(leaf);
            let rows = group.num_rows().max(1) as u64;
            let written = chunk.uncompressed_size().max(0) as u64;
            // A value that comes again is written once, and its rows by a number.
            let is_coded = chunk.dictionary_page_offset().is_some() && written >= DICTIONARY_BYTES_MIN;
            let coded = match is_coded {
                true => {
                    let input = match &mut input {
                        Some(opened) => opened,
                        none => none.insert(ParquetInput(self.parquet_file()?)),
                    };
                    let column = PointColumn { input, metadata: &metadata, leaf };
                    let failed = |error| read_error(&self.context.parquet_path(self.meta.id), error);
                    let (bytes, values) = column.dictionary_size(at).map_err(failed)?;
                    if bytes < DICTIONARY_BYTES_MIN { 0 } else { bytes / values.max(1) * rows }
                }
                false => 0,
            };
            longest = longest.max(written.max(coded) / rows.max(ROWS_MIN));
        }
        Ok(longest)
    }
}

/// Lengths of values in immutable segments, kept between statements.
#[derive(Debug, Default)]
pub struct KeptLengths {
    tables: Mutex<HashMap<TableId, OfTable>>,
}

#[derive(Debug, Default)]
struct OfTable {
    segments: Vec<SegmentId>,
    /// Over these segments.
    longest: HashMap<ColumnId, u64>,
    by_segment: HashMap<(SegmentId, ColumnId), u64>,
}

impl OfTable {
    /// Of these segments alone from now on.
    fn turn_to(&mut self, segments: &[SegmentId]) {
        if self.segments == segments {
            return;
        }
        let kept: HashSet<SegmentId> = segments.iter().copied().collect();
        self.by_segment.retain(|(segment, _), _| kept.contains(segment));
        self.longest.clear();
        self.segments = segments.to_vec();
    }
}

impl KeptLengths {
    /// Bytes of a value of text or binary columns of a table, about, in those of the segments where it is longest.
    ///
    /// # Errors
    /// Those of [`Segment::value_bytes`].
    pub fn longest(&self, table: TableId, segments: &[&Segment], columns: &[&Column]) -> Result<Vec<u64>> {
        let ids: Vec<SegmentId> = segments.iter().map(|segment| segment.meta().id).collect();
        let mut found = vec![0; columns.len()];
        let mut unknown: Vec<(usize, &Segment)> = Vec::new();
        let mut is_kept = true;
        {
            let mut tables = self.tables.lock();
            if tables.len() >= TABLES_MAX && !tables.contains_key(&table) {
                tables.clear();
            }
            let of_table = tables.entry(table).or_default();
            of_table.turn_to(&ids);
            for (at, column) in columns.iter().enumerate() {
                if let Some(&longest) = of_table.longest.get(&column.id) {
                    found[at] = longest;
                    continue;
                }
                is_kept = false;
                for segment in segments {
                    match of_table.by_segment.get(&(segment.meta().id, column.id)) {
                        Some(&bytes) => found[at] = bytes.max(found[at]),
                        None => unknown.push((at, segment)),
                    }
                }
            }
        }
        if is_kept {
            return Ok(found);
        }
        let mut learnt = Vec::with_capacity(unknown.len());
        for (at, segment) in unknown {
            let bytes = segment.value_bytes(&columns[at].storage_name)?;
            found[at] = bytes.max(found[at]);
            learnt.push(((segment.meta().id, columns[at].id), bytes));
        }
        // Another statement may have read other segments since.
        if let Some(of_table) = self.tables.lock().get_mut(&table).filter(|of_table| of_table.segments == ids) {
            of_table.by_segment.extend(learnt);
            of_table.longest.extend(columns.iter().map(|column| column.id).zip(found.iter().copied()));
        }
        Ok(found)
    }
}

/// Bytes of a value of arrays of texts that follow one another, about, where they are longest.
pub fn value_bytes<'a>(arrays: impl Iterator<Item = &'a ArrayRef>) -> u64 {
    let (mut bytes, mut rows, mut longest) = (0, 0, 0);
    for array in arrays {
        let looked = array.slice(0, array.len().min(LOOKED_ROWS));
        bytes += row_bytes(&looked) as u64 * array.len() as u64;
        rows += array.len() as u64;
        if rows >= ROWS_MIN {
            longest = longest.max(bytes / rows);
            (bytes, rows) = (0, 0);
        }
    }
    longest.max(bytes / ROWS_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::StringViewArray;
    use std::sync::Arc;

    #[test]
    fn values_are_as_long_as_where_they_are_longest() {
        let texts =
            |rows: usize, bytes: usize| Arc::new(StringViewArray::from(vec!["x".repeat(bytes); rows])) as ArrayRef;
        let view = size_of::<u128>() as u64;
        let of = |arrays: &[ArrayRef]| value_bytes(arrays.iter());
        assert_eq!(of(&[]), 0);
        assert_eq!(of(&[texts(3_000, 84)]), 84 + view);
        assert_eq!(of(&[texts(3_000, 4), texts(100, 2_000), texts(3_000, 4)]), 2_000 + view);
        assert_eq!(of(&[texts(1, 64_000 - view as usize)]), 1_000, "one long text makes no small batches");
        assert_eq!(of(&vec![texts(1, 84); 200]), 84 + view, "rows that came one by one");
    }
}
