//! Rows on their way into a batch: few travel in the log, many are staged as segments.
//!
//! Invariants:
//! - Memory holds at most `inline_bytes_max` of rows, and what the store's own staging holds.
//! - A sink that is dropped before it is committed leaves nothing: its staged segments are removed with it.

use alluvia_snapshot::{Load, NewBatch, NewRows, StagedLoad, Store};
use alluvia_space::TableDef;
use alluvia_types::{Error, Result, Version};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use std::sync::Arc;

/// What a COPY keeps in memory before it stages: below this, a log record is cheaper than a segment.
pub(crate) const INLINE_BYTES_MAX: usize = 8 << 20;

/// Takes the rows of one table for one batch.
pub(crate) struct Sink {
    store: Arc<dyn Store>,
    table: Arc<TableDef>,
    checked_at: Version,
    inline_bytes_max: usize,
    held: Vec<RecordBatch>,
    held_bytes: usize,
    load: Option<Box<dyn Load>>,
}

/// The rows of a finished sink.
#[derive(Debug)]
pub(crate) enum SinkRows {
    /// There were none.
    Nothing,
    /// For the log.
    Inline(NewRows),
    /// Already in synced segments.
    Staged(StagedLoad),
}

impl Sink {
    /// Empty. `checked_at` as in [`NewRows::checked_at`].
    pub(crate) fn new(
        store: Arc<dyn Store>,
        table: Arc<TableDef>,
        checked_at: Version,
        inline_bytes_max: usize,
    ) -> Sink {
        Sink { store, table, checked_at, inline_bytes_max, held: Vec::new(), held_bytes: 0, load: None }
    }

    /// Adds rows in the table's storage schema, text as plain or dictionary. Blocks while segments are written.
    pub(crate) fn append(&mut self, rows: RecordBatch) -> Result<()> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        if let Some(load) = &mut self.load {
            return load.append(rows);
        }
        self.held_bytes += rows.get_array_memory_size();
        self.held.push(rows);
        if self.held_bytes > self.inline_bytes_max {
            let mut load = self.store.begin_load(&self.table, self.checked_at)?;
            self.held_bytes = 0;
            for rows in self.held.drain(..) {
                load.append(rows)?;
            }
            self.load = Some(load);
        }
        Ok(())
    }

    /// Syncs what is staged. Blocks.
    pub(crate) fn finish(self) -> Result<SinkRows> {
        if let Some(load) = self.load {
            return Ok(SinkRows::Staged(load.finish()?));
        }
        if self.held.is_empty() {
            return Ok(SinkRows::Nothing);
        }
        let batches = self.held.iter().map(compact).collect::<Result<Vec<RecordBatch>>>()?;
        Ok(SinkRows::Inline(NewRows { table: self.table.id, checked_at: self.checked_at, batches }))
    }
}

impl SinkRows {
    /// Puts the rows into a batch.
    pub(crate) fn add_to(self, batch: &mut NewBatch) {
        match self {
            SinkRows::Nothing => {}
            SinkRows::Inline(rows) => batch.rows.push(rows),
            SinkRows::Staged(load) => batch.loads.push(load),
        }
    }
}

/// Views of text that point into large buffers (a whole page for a few values) are copied, so that what waits in memory is what is
/// counted. Other arrays stay as they are.
pub(crate) fn tight(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        _ => Arc::clone(array),
    }
}

/// A copy of a slice, in the plain storage types: what waits in memory, or travels in the log, is then no more than its rows.
/// Without it a slice keeps (and a log record holds) the texts of the whole batch that it was cut from.
pub(crate) fn compact(slice: &RecordBatch) -> Result<RecordBatch> {
    let internal = |error| Error::internal(format!("rows could not be copied: {error}"));
    let all: UInt64Array = (0..slice.num_rows() as u64).collect();
    let copied = |array: &ArrayRef| -> Result<ArrayRef, ArrowError> {
        let plain = match array.data_type() {
            DataType::Dictionary(..) => cast(array, &DataType::Utf8View)?,
            _ => array.clone(),
        };
        Ok(match plain.data_type() {
            // Short texts lie in the views themselves, which only taking copies.
            DataType::Utf8View | DataType::BinaryView => tight(&take(&plain, &all, None)?),
            _ => take(&plain, &all, None)?,
        })
    };
    let arrays = slice.columns().iter().map(copied).collect::<Result<Vec<ArrayRef>, _>>().map_err(internal)?;
    let field =
        |(field, array): (&Arc<Field>, &ArrayRef)| field.as_ref().clone().with_data_type(array.data_type().clone());
    let fields: Vec<Field> = slice.schema().fields().iter().zip(&arrays).map(field).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(slice.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options).map_err(internal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{DictionaryArray, Int64Array, StringViewArray};
    use arrow::datatypes::Int32Type;

    #[test]
    fn a_compact_slice_holds_only_its_rows() {
        let texts: Vec<String> = (0..10_000).map(|row| format!("a text that is too long for a view: {row}")).collect();
        let dictionary: DictionaryArray<Int32Type> = texts.iter().map(|text| Some(text.as_str())).collect();
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(StringViewArray::from_iter_values(&texts)),
            Arc::new(dictionary),
            Arc::new((0..10_000).collect::<Int64Array>()),
        ];
        let fields: Vec<Field> = arrays
            .iter()
            .enumerate()
            .map(|(at, array)| Field::new(at.to_string(), array.data_type().clone(), true))
            .collect();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
        let slice = compact(&batch.slice(5_000, 2)).unwrap();
        assert!(slice.get_array_memory_size() < 2_000, "{}", slice.get_array_memory_size());
        assert_eq!(slice.column(0).as_string_view().value(1), texts[5_001]);
        assert_eq!(slice.column(0), slice.column(1));
        assert_eq!(slice.column(2).as_ref(), &Int64Array::from(vec![5_000, 5_001]) as &dyn Array);
    }
}
