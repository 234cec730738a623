//! Whole columns in memory, of segments of which single rows are read again and again.
//!
//! Reading one row decodes a page of each column. After as many as decoding all pages would cost, all are decoded, once: so the
//! two together cost at most twice what the cheaper one would have (the rent-or-buy rule; Karlin et al., "Competitive snoopy caching",
//! 1988). What is decoded lies in the pool of what segments keep loaded, and is given up for what is of more use; then it is paid for
//! anew.
//!
//! Invariant: what is read here is what [`Segment::rows_at`] reads of the file.

use super::Segment;
use super::row_columns::{ColumnPlace, RowColumns};
use super::whole_column::{WholeColumn, has_dictionaries, misfit};
use crate::context::Slot;
use alluvia_types::Result;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, UInt64Array, new_null_array};
use arrow::datatypes::DataType;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Rows of a page, of which a point read decodes one for each column.
const PAGE_ROWS: u64 = 1_024;

/// The share of the pool that one column may take.
const POOL_SHARE: u64 = 16;

impl Segment {
    /// The values of columns in some rows, if the columns are in memory already: no file is read for it.
    ///
    /// # Errors
    /// `Corrupt` if the segment's metadata is damaged.
    pub fn rows_in_memory(self: &Arc<Segment>, columns: &Arc<RowColumns>, rows: &[u32]) -> Result<Option<RecordBatch>> {
        let places = self.places_of(columns)?;
        let slots = self.whole_columns()?;
        let mut held = Vec::with_capacity(places.len());
        for place in places.iter() {
            held.push(match place {
                ColumnPlace::File(leaf) => {
                    let Some(column) = slots.get(*leaf).and_then(Slot::held) else { return Ok(None) };
                    Some(column)
                }
                ColumnPlace::Version(_) | ColumnPlace::Absent => None,
            });
        }
        match *rows {
            [row] => self.gathered(columns, &places, &held, 1, |column| Ok(column.one(row as usize))),
            _ => self.taken(columns, &places, &held, rows),
        }
    }

    /// The values of columns in some rows, if the columns are in memory, or enough was read of them to bring them there.
    pub(super) fn resident_rows(
        self: &Arc<Segment>,
        columns: &Arc<RowColumns>,
        rows: &[u32],
    ) -> Result<Option<RecordBatch>> {
        let places = self.places_of(columns)?;
        // Neighbours share a page.
        let pages = rows.chunk_by(|row, next| u64::from(*row) / PAGE_ROWS == u64::from(*next) / PAGE_ROWS).count();
        let mut held = Vec::with_capacity(places.len());
        let mut is_whole = true;
        // All columns are asked: each counts what would be decoded of it.
        for (place, (name, data_type)) in places.iter().zip(columns.iter()) {
            let column = match place {
                ColumnPlace::File(leaf) => {
                    let column = self.whole_column(*leaf, (name, data_type), pages)?;
                    is_whole &= column.is_some();
                    column
                }
                ColumnPlace::Version(_) | ColumnPlace::Absent => None,
            };
            held.push(column);
        }
        if is_whole { self.taken(columns, &places, &held, rows) } else { Ok(None) }
    }

    /// The values in some rows, of columns that are in memory.
    fn taken(
        &self,
        columns: &RowColumns,
        places: &[ColumnPlace],
        held: &[Option<Arc<WholeColumn>>],
        rows: &[u32],
    ) -> Result<Option<RecordBatch>> {
        // What is behind the end is the general reader's to refuse.
        if rows.iter().any(|row| u64::from(*row) >= self.meta.rows) {
            return Ok(None);
        }
        let wanted = UInt32Array::from(rows.to_vec());
        self.gathered(columns, places, held, rows.len(), |column| {
            column.taken(&wanted).map(Some).map_err(|error| misfit(self, &error))
        })
    }

    /// So many rows, of which `values` gives what columns in memory have; `None` where one does not have them.
    fn gathered(
        &self,
        columns: &RowColumns,
        places: &[ColumnPlace],
        held: &[Option<Arc<WholeColumn>>],
        rows: usize,
        values: impl Fn(&WholeColumn) -> Result<Option<ArrayRef>>,
    ) -> Result<Option<RecordBatch>> {
        let mut gathered: Vec<ArrayRef> = Vec::with_capacity(held.len());
        for ((place, held), (_, data_type)) in places.iter().zip(held).zip(columns.iter()) {
            gathered.push(match (place, held) {
                (ColumnPlace::Version(version), _) => Arc::new(UInt64Array::from_value(*version, rows)),
                (ColumnPlace::File(_), Some(column)) => {
                    let Some(found) = values(column)? else { return Ok(None) };
                    found
                }
                (ColumnPlace::File(_), None) => return Ok(None),
                (ColumnPlace::Absent, _) => new_null_array(data_type, rows),
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(columns.schema()), gathered, &options);
        batch.map(Some).map_err(|error| misfit(self, &error))
    }

    /// A whole column, of which so many pages are wanted, if it is in memory or has been paid for.
    fn whole_column(
        self: &Arc<Segment>,
        leaf: usize,
        (name, data_type): (&str, &DataType),
        pages: usize,
    ) -> Result<Option<Arc<WholeColumn>>> {
        let Some(slot) = self.whole_columns()?.get(leaf) else { return Ok(None) };
        if let Some(held) = Slot::held(slot) {
            return Ok(Some(held));
        }
        let metadata = self.parquet_metadata()?;
        // In the file names may be told once; in memory each row has at least a number, a view, or its value.
        let encoded: i64 = metadata.row_groups().iter().map(|group| group.column(leaf).uncompressed_size()).sum();
        let of_text = if has_dictionaries(&metadata, leaf) { size_of::<u32>() } else { size_of::<u128>() };
        let width = data_type.primitive_width().unwrap_or(of_text) as u64;
        let bytes = (encoded.max(0) as u64).max(self.meta.rows * width);
        // What would be decoded now counts.
        self.credit.fetch_add(PAGE_ROWS * pages as u64, Ordering::Relaxed);
        let cost = self.meta.rows;
        let pay = |credit: u64| credit.checked_sub(cost);
        if bytes > self.context.pool.bytes_max() / POOL_SHARE
            || self.credit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, pay).is_err()
        {
            return Ok(None);
        }
        let load = || WholeColumn::load(self, leaf, name, data_type);
        Slot::get(slot, &self.context.pool, load).map(Some)
    }

    /// The slots of whole columns, by their places in the file.
    fn whole_columns(&self) -> Result<&[Arc<Slot<WholeColumn>>]> {
        if let Some(slots) = self.whole_columns.get() {
            return Ok(slots);
        }
        let leaves = self.parquet_metadata()?.file_metadata().schema_descr().num_columns();
        Ok(self.whole_columns.get_or_init(|| (0..leaves).map(|_| Arc::default()).collect()))
    }
}
