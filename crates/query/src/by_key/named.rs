//! Keys that are named, and the rows that have them.

use crate::used::UsedCounters;
use alluvia_skipping::{fixed_keys, value_for};
use alluvia_snapshot::{Read, SnapshotRow, TableRead};
use alluvia_space::TableDef;
use alluvia_space::key_code::{KeyCode, KeyCoder};
use alluvia_tree::BLOCK_ROWS;
use alluvia_types::{Error, Result, Version};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Expr;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Keys of one table, each once.
#[derive(Clone, Debug)]
pub(crate) struct NamedKeys {
    coder: KeyCoder,
    /// Ascending.
    codes: Vec<KeyCode>,
}

impl NamedKeys {
    fn new(coder: KeyCoder, mut codes: Vec<KeyCode>) -> NamedKeys {
        codes.sort_unstable();
        codes.dedup();
        NamedKeys { coder, codes }
    }

    /// The keys that rows which pass these filters may have; `None` where the filters do not say.
    pub(crate) fn of_filters(filters: &[Expr], def: &TableDef) -> Option<NamedKeys> {
        NamedKeys::of_values(&fixed_keys(filters, def)?, def)
    }

    /// The key that has these values, in the order of the key; `None` where one is not of its column's type, or is NULL.
    pub(crate) fn of_key(values: &[ScalarValue], def: &TableDef) -> Option<NamedKeys> {
        let columns = def.key_columns()?;
        if columns.len() != values.len() {
            return None;
        }
        let value = |(value, &at): (&ScalarValue, &usize)| match value.is_null() {
            true => None,
            false => value_for(value, def.columns[at].data_type),
        };
        let key = values.iter().zip(&columns).map(value).collect::<Option<Vec<_>>>()?;
        NamedKeys::of_values(&[key], def)
    }

    /// The keys of rows, which have the key's columns by storage name; `None` of a table without keys.
    ///
    /// # Errors
    /// Those of [`KeyCoder::codes`].
    pub(crate) fn of_rows(rows: &[RecordBatch], def: &TableDef) -> Result<Option<NamedKeys>> {
        let Some(coder) = KeyCoder::new(def) else { return Ok(None) };
        let mut codes = Vec::with_capacity(rows.iter().map(RecordBatch::num_rows).sum());
        for rows in rows {
            codes.extend(coder.codes(rows)?);
        }
        Ok(Some(NamedKeys::new(coder, codes)))
    }

    fn of_values(keys: &[Vec<ScalarValue>], def: &TableDef) -> Option<NamedKeys> {
        let coder = KeyCoder::new(def)?;
        if keys.is_empty() {
            return Some(NamedKeys { coder, codes: Vec::new() });
        }
        let (mut fields, mut columns): (Vec<Field>, Vec<ArrayRef>) = (Vec::new(), Vec::new());
        for (at, (name, data_type)) in coder.columns().enumerate() {
            let values = keys.iter().map(|key| key.get(at).cloned()).collect::<Option<Vec<_>>>()?;
            fields.push(Field::new(name, data_type, true));
            columns.push(ScalarValue::iter_to_array(values).ok()?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(keys.len()));
        let rows = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options).ok()?;
        // One may be larger than a key can be.
        let codes = coder.codes(&rows).ok()?;
        Some(NamedKeys::new(coder, codes))
    }

    /// Whether others are the same.
    pub(crate) fn is_same_as(&self, others: &NamedKeys) -> bool {
        self.codes == others.codes
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.codes.len()
    }

    /// Whether a row has one of them, for each of some rows, which have the key's columns by storage name.
    ///
    /// # Errors
    /// Those of [`KeyCoder::codes`].
    pub(crate) fn hold(&self, rows: &RecordBatch) -> Result<Vec<bool>> {
        Ok(self.coder.codes(rows)?.iter().map(|code| self.codes.binary_search(code).is_ok()).collect())
    }

    /// The rows of a table that have them, in a snapshot of this version. May read files.
    ///
    /// # Errors
    /// `Corrupt` if a segment is damaged.
    pub(crate) fn find(&self, store: &dyn Read, version: Version, read: &TableRead) -> Result<FoundRows> {
        if self.codes.is_empty() || (read.segments.is_empty() && read.tail.is_empty()) {
            return Ok(FoundRows::default());
        }
        self.found(store.find_keys(version, read, &self.coder, &self.codes)?)
    }

    /// The same, if nothing is waited for and no file is read.
    ///
    /// # Errors
    /// As of [`Read::find_keys_now`].
    pub(crate) fn find_now(&self, store: &dyn Read, version: Version, read: &TableRead) -> Result<Option<FoundRows>> {
        let found = store.find_keys_now(version, read, &self.coder, &self.codes)?;
        found.map(|found| self.found(found)).transpose()
    }

    fn found(&self, found: Vec<Option<SnapshotRow>>) -> Result<FoundRows> {
        if found.len() != self.codes.len() {
            return Err(Error::internal("not every key was looked for"));
        }
        let rows: BTreeSet<SnapshotRow> = found.into_iter().flatten().collect();
        Ok(FoundRows { rows: rows.into_iter().collect() })
    }
}

/// Rows that were found by their keys, in the order in which they lie, each once.
#[derive(Clone, Default, Debug)]
pub(crate) struct FoundRows {
    pub(super) rows: Vec<SnapshotRow>,
}

impl FoundRows {
    /// Where they are.
    pub(crate) fn rows(&self) -> &[SnapshotRow] {
        &self.rows
    }

    /// What reading them takes.
    pub(crate) fn cost(&self, read: &TableRead) -> LookupCost {
        LookupCost::of(&self.rows, read)
    }
}

impl LookupCost {
    /// Of rows of a table.
    pub(crate) fn of(rows: &[SnapshotRow], read: &TableRead) -> LookupCost {
        let in_segments = rows.iter().filter_map(|row| match *row {
            SnapshotRow::Segment { segment, row } => Some((segment, row)),
            SnapshotRow::Tail { .. } => None,
        });
        let segments: BTreeSet<usize> = in_segments.clone().map(|(segment, _)| segment).collect();
        let blocks: BTreeSet<(usize, usize)> =
            in_segments.clone().map(|(segment, row)| (segment, row as usize / BLOCK_ROWS)).collect();
        let all: usize = read.segments.iter().map(|rows| rows.segment.blocks()).sum();
        let (all_rows, rows) = (rows.len() as u64, in_segments.count() as u64);
        LookupCost {
            segments: segments.len() as u64,
            segments_skipped: (read.segments.len() - segments.len()) as u64,
            blocks: blocks.len() as u64,
            blocks_skipped: (all - blocks.len()) as u64,
            rows,
            tail_rows: all_rows - rows,
        }
    }
}

/// What reading rows by their keys takes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct LookupCost {
    pub(crate) segments: u64,
    pub(crate) segments_skipped: u64,
    pub(crate) blocks: u64,
    pub(crate) blocks_skipped: u64,
    /// Of segments.
    pub(crate) rows: u64,
    pub(crate) tail_rows: u64,
}

impl LookupCost {
    /// Counts what is left out, which is known before anything is read.
    pub(crate) fn count_planned(&self, used: &UsedCounters) {
        used.add_segments(self.segments, self.segments_skipped);
        used.add_blocks(0, self.blocks_skipped);
    }

    /// Counts what is read.
    pub(crate) fn count_read(&self, used: &UsedCounters) {
        used.add_blocks(self.blocks, 0);
        used.add_rows(self.rows);
        used.add_tail_rows(self.tail_rows);
    }
}
