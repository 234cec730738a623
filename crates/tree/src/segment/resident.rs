//! Whole columns in memory, of segments of which single rows are read again and again.
//!
//! Reading one row decodes a page of each column. After as many as decoding all pages would cost, all are decoded, once: so the
//! two together cost at most twice what the cheaper one would have (the rent-or-buy rule; Karlin et al., "Competitive snoopy caching",
//! 1988). What is decoded lies in the pool of what segments keep loaded, and is given up for what is of more use; then it is paid for
//! anew.
//!
//! Invariant: what is read here is what [`Segment::rows_at`] reads of the file.

use super::Segment;
use super::columns::{Source, schema_of};
use alluvia_types::{Error, Result};
use arrow::array::{
    Array, ArrayRef, AsArray, GenericByteViewArray, GenericByteViewBuilder, RecordBatch, RecordBatchOptions,
    UInt32Array, UInt64Array, new_null_array,
};
use arrow::compute::{concat, take};
use arrow::datatypes::{ByteViewType, DataType};
use arrow::error::ArrowError;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Rows of a page, of which a point read decodes one for each column.
const PAGE_ROWS: u64 = 1_024;

/// The share of the pool that one column may take.
const POOL_SHARE: u64 = 16;

/// A column of all rows of a segment.
#[derive(Debug)]
struct WholeColumn(ArrayRef);

impl Segment {
    /// The values of columns in some rows, if the columns are in memory already: no file is read for it.
    ///
    /// # Errors
    /// `Corrupt` if the segment's metadata is damaged.
    pub fn rows_in_memory(
        self: &Arc<Segment>,
        columns: &[(&str, DataType)],
        rows: &[u32],
    ) -> Result<Option<RecordBatch>> {
        self.resident(columns, rows, |leaf, _| Ok(self.held::<WholeColumn>(leaf)))
    }

    /// The values of columns in some rows, if the columns are in memory, or enough was read of them to bring them there.
    pub(super) fn resident_rows(
        self: &Arc<Segment>,
        columns: &[(&str, DataType)],
        rows: &[u32],
    ) -> Result<Option<RecordBatch>> {
        // Neighbours share a page.
        let pages = rows.chunk_by(|row, next| u64::from(*row) / PAGE_ROWS == u64::from(*next) / PAGE_ROWS).count();
        self.resident(columns, rows, |leaf, column| self.whole_column(leaf, column, pages))
    }

    /// The values of columns in some rows; `whole` gives a whole column by its place in the file, its name and its type.
    fn resident<'c>(
        &self,
        columns: &'c [(&'c str, DataType)],
        rows: &[u32],
        whole: impl Fn(usize, (&'c str, &'c DataType)) -> Result<Option<Arc<WholeColumn>>>,
    ) -> Result<Option<RecordBatch>> {
        // What is behind the end is the general reader's to refuse.
        if rows.iter().any(|row| u64::from(*row) >= self.meta.rows) {
            return Ok(None);
        }
        let sources = self.sources(columns)?;
        let metadata = self.parquet_metadata()?;
        let leaves = metadata.file_metadata().schema_descr().columns();
        let places = UInt32Array::from(rows.to_vec());
        let mut values: Vec<ArrayRef> = Vec::with_capacity(columns.len());
        for ((name, data_type), source) in columns.iter().zip(&sources) {
            values.push(match source {
                Source::Version(version) => Arc::new(UInt64Array::from_value(*version, rows.len())),
                Source::Absent(data_type) => new_null_array(data_type, rows.len()),
                Source::Parquet(_) => {
                    let Some(leaf) = leaves.iter().position(|column| column.name() == *name) else { return Ok(None) };
                    let Some(column) = whole(leaf, (*name, data_type))? else { return Ok(None) };
                    taken(&column.0, &places).map_err(|error| self.misfit(&error))?
                }
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let batch = RecordBatch::try_new_with_options(schema_of(columns), values, &options);
        batch.map(Some).map_err(|error| self.misfit(&error))
    }

    /// A whole column, of which so many pages are wanted, if it is in memory or has been paid for.
    fn whole_column(
        self: &Arc<Segment>,
        leaf: usize,
        (name, data_type): (&str, &DataType),
        pages: usize,
    ) -> Result<Option<Arc<WholeColumn>>> {
        if let Some(held) = self.held::<WholeColumn>(leaf) {
            return Ok(Some(held));
        }
        let metadata = self.parquet_metadata()?;
        // In the file names may be told once; in memory each row has at least a view.
        let encoded: i64 = metadata.row_groups().iter().map(|group| group.column(leaf).uncompressed_size()).sum();
        let width = data_type.primitive_width().unwrap_or(size_of::<u128>()) as u64;
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
        let load = || {
            let batches = self.column_batches(&[(name, data_type.clone())])?;
            let parts = batches.map(|batch| Ok(Arc::clone(batch?.column(0)))).collect::<Result<Vec<ArrayRef>>>()?;
            let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
            let whole = concat(&parts).map_err(|error| self.misfit(&error))?;
            let bytes = whole.get_array_memory_size() as u64;
            Ok((WholeColumn(whole), bytes))
        };
        self.derived(leaf, load).map(Some)
    }

    fn misfit(&self, error: &ArrowError) -> Error {
        Error::internal(format!("rows of segment {}: {error}", self.meta.id))
    }
}

/// Some of the values. A whole column of texts has hundreds of buffers, which Arrow's kernel would hand on with each row: texts are copied.
fn taken(values: &ArrayRef, places: &UInt32Array) -> Result<ArrayRef, ArrowError> {
    Ok(match values.data_type() {
        DataType::Utf8View => Arc::new(copied(values.as_string_view(), places)),
        DataType::BinaryView => Arc::new(copied(values.as_binary_view(), places)),
        _ => take(values, places, None)?,
    })
}

fn copied<T: ByteViewType>(values: &GenericByteViewArray<T>, places: &UInt32Array) -> GenericByteViewArray<T> {
    let mut copies = GenericByteViewBuilder::<T>::with_capacity(places.len());
    for &place in places.values() {
        let place = place as usize;
        copies.append_option(values.is_valid(place).then(|| values.value(place)));
    }
    copies.finish()
}
