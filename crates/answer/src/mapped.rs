//! Keys of joined small tables, as codes of the table's own levels: filters, and what rows are grouped by.
//!
//! Invariant: a row of the table passes a side's filter if and only if its value at the side's level is one of the keys; it is of the
//! ordinal of that key. A key that members share under several parents has several codes, and members that no row has yet no key.

use alluvia_catalog::Dictionaries;
use alluvia_tree::{CodeMap, CodeSet};
use arrow::array::ArrayRef;
use std::sync::Arc;

/// A small table, seen from the column that it is joined by.
#[derive(Debug)]
pub struct Side {
    /// The table's column.
    pub column: String,
    /// In the column's type, none of them NULL.
    pub keys: ArrayRef,
    /// What rows are grouped by; `None` for a side that only leaves out rows.
    pub groups: Option<Ordinals>,
    /// Whether a key may come several times without a row's counting so often.
    pub may_repeat: bool,
}

/// What keys stand for, as numbers from 1 on.
#[derive(Debug)]
pub struct Ordinals {
    /// One for each key.
    pub of_keys: Vec<u32>,
    /// The greatest.
    pub count: u32,
}

impl Side {
    /// The codes at a level that the side's keys have now, and the map to ordinals of a side that is grouped by. `None` if a key
    /// comes several times and must not, or codes say nothing of keys.
    pub(super) fn codes(&self, dictionaries: &Dictionaries, level: usize) -> Option<(CodeSet, Option<Arc<CodeMap>>)> {
        let pairs = dictionaries.codes_by_row(level, &self.keys).ok()?;
        if self.may_repeat && self.groups.is_none() {
            return Some((CodeSet::of_codes(pairs.into_iter().map(|(_, code)| code).collect()), None));
        }
        let count = self.groups.as_ref().map_or(1, |groups| groups.count);
        let ordinal = |row: u32| self.groups.as_ref().map_or(1, |groups| groups.of_keys[row as usize]);
        let digits = pairs.into_iter().map(|(row, code)| (code, ordinal(row)));
        // Read after the pairs: there are no fewer members than they name.
        let map = CodeMap::new(digits, dictionaries.len(level), count)?;
        let codes = CodeSet::of_codes(map.codes().collect());
        Some((codes, self.groups.is_some().then(|| Arc::new(map))))
    }
}
