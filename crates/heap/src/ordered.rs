//! An index by the order of some columns: NULL behind all values, texts by their bytes.
//!
//! Keys are Arrow's row format, whose bytes ascend as the values of the columns do, one column behind the other: so the first columns
//! alone are a range of bytes.

use crate::layout::misfit;
use alluvia_space::{DataType, TableDef};
use alluvia_types::{Error, Result};
use arrow::array::ArrayRef;
use arrow::compute::SortOptions;
use arrow::row::{RowConverter, Rows as KeyRows, SortField};
use std::collections::BTreeSet;
use std::ops::Bound;

/// Rows that have some values in the first columns of an index.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct KeyRange {
    /// The first key.
    pub(crate) from: Vec<u8>,
    /// The first one that is not in it any more; `None` of what goes to the end.
    pub(crate) to: Option<Vec<u8>>,
}

/// An index.
#[derive(Debug)]
pub struct Ordered {
    /// Places of the columns in the definition.
    pub(crate) columns: Vec<usize>,
    /// Of the first column, the first two, and so on.
    converters: Vec<RowConverter>,
    /// Keys, each with the slot of its row behind it.
    entries: BTreeSet<Box<[u8]>>,
}

/// Bytes of a slot's number behind a key.
const SLOT_BYTES: usize = 4;

impl Ordered {
    /// Of columns of a table; `None` where values of one are not found by their bytes.
    pub fn new(def: &TableDef, columns: &[usize]) -> Option<Ordered> {
        let options = SortOptions { descending: false, nulls_first: false };
        let mut fields = Vec::with_capacity(columns.len());
        let mut converters = Vec::with_capacity(columns.len());
        for &column in columns {
            let data_type = def.columns.get(column)?.data_type;
            // Zeros have two signs, and one JSON has many texts.
            if matches!(data_type, DataType::Real | DataType::Double | DataType::Json | DataType::Interval) {
                return None;
            }
            fields.push(SortField::new_with_options(data_type.to_arrow(), options));
            converters.push(RowConverter::new(fields.clone()).ok()?);
        }
        Some(Ordered { columns: columns.to_vec(), converters, entries: BTreeSet::new() })
    }

    /// The keys of rows that have these values in all columns of the definition.
    pub(crate) fn keys(&self, columns: &[ArrayRef]) -> Result<KeyRows> {
        let own: Vec<ArrayRef> = self.columns.iter().filter_map(|&at| columns.get(at).cloned()).collect();
        let whole = self.converters.last().ok_or_else(|| Error::internal("an index is of no columns"))?;
        whole.convert_columns(&own).map_err(|error| misfit(&error))
    }

    /// Adds a key of a row. Gives the bytes that it takes, none where it is there.
    pub(crate) fn add(&mut self, key: &[u8], slot: u32) -> usize {
        let entry = entry(key, slot);
        let bytes = entry.len() + size_of::<Box<[u8]>>();
        if self.entries.insert(entry) { bytes } else { 0 }
    }

    pub(crate) fn remove(&mut self, key: &[u8], slot: u32) -> usize {
        let entry = entry(key, slot);
        let bytes = entry.len() + size_of::<Box<[u8]>>();
        if self.entries.remove(&entry) { bytes } else { 0 }
    }

    /// The ranges of keys whose first columns have the values of each row of `values`, and whose next one lies between two others, where
    /// these are given, with whether they count.
    pub(crate) fn ranges(
        &self,
        values: &[ArrayRef],
        low: Option<(ArrayRef, bool)>,
        high: Option<(ArrayRef, bool)>,
        rows: usize,
    ) -> Result<Vec<KeyRange>> {
        let exact = self.bytes(values, None)?;
        let lows = low.map(|(value, counts)| Ok::<_, Error>((self.bytes(values, Some(value))?, counts))).transpose()?;
        let highs =
            high.map(|(value, counts)| Ok::<_, Error>((self.bytes(values, Some(value))?, counts))).transpose()?;
        let of_row = |keys: &Option<KeyRows>, row: usize| {
            keys.as_ref().map_or(Vec::new(), |keys| keys.row(row).as_ref().to_vec())
        };
        let range = |row: usize| {
            let all = of_row(&exact, row);
            let from = match &lows {
                None => all.clone(),
                Some((keys, true)) => of_row(keys, row),
                Some((keys, false)) => match behind(of_row(keys, row)) {
                    Some(from) => from,
                    None => return KeyRange { from: all.clone(), to: Some(all) },
                },
            };
            let to = match &highs {
                None => behind(all),
                Some((keys, true)) => behind(of_row(keys, row)),
                Some((keys, false)) => Some(of_row(keys, row)),
            };
            KeyRange { from, to }
        };
        Ok((0..rows).map(range).collect())
    }

    fn bytes(&self, values: &[ArrayRef], next: Option<ArrayRef>) -> Result<Option<KeyRows>> {
        let columns: Vec<ArrayRef> = values.iter().cloned().chain(next).collect();
        let Some(last) = columns.len().checked_sub(1) else { return Ok(None) };
        let converter = self.converters.get(last).ok_or_else(|| Error::internal("an index has not so many columns"))?;
        converter.convert_columns(&columns).map(Some).map_err(|error| misfit(&error))
    }

    /// The slots of the keys of a range, in their order, or in the other.
    pub(crate) fn slots<'a>(&'a self, range: &KeyRange, is_reverse: bool) -> Box<dyn Iterator<Item = u32> + 'a> {
        let end = match &range.to {
            Some(to) if *to <= range.from => return Box::new(std::iter::empty()),
            Some(to) => Bound::Excluded(to.as_slice()),
            None => Bound::Unbounded,
        };
        let entries = self.entries.range::<[u8], _>((Bound::Included(range.from.as_slice()), end));
        let entries = entries.map(AsRef::as_ref);
        if is_reverse { Box::new(entries.rev().map(slot_of)) } else { Box::new(entries.map(slot_of)) }
    }
}

fn entry(key: &[u8], slot: u32) -> Box<[u8]> {
    let mut entry = Vec::with_capacity(key.len() + SLOT_BYTES);
    entry.extend_from_slice(key);
    entry.extend_from_slice(&slot.to_be_bytes());
    entry.into_boxed_slice()
}

fn slot_of(entry: &[u8]) -> u32 {
    u32::from_be_bytes(entry.last_chunk::<SLOT_BYTES>().copied().unwrap_or_default())
}

/// The first bytes behind all that begin with these; `None` if there are none.
fn behind(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    while let Some(last) = bytes.pop() {
        if last < u8::MAX {
            bytes.push(last + 1);
            return Some(bytes);
        }
    }
    None
}
