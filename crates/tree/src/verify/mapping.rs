//! Verification of keys and codes: they belong to the values beside which they are stored.
//!
//! Invariants:
//! - A key follows from a row's values and the table's layout, a code from its values and the table's dictionaries:
//!   both are made anew of what the Parquet file holds, and compared row by row.
//! - What the dictionaries did not hold when the check began is no member, whatever code it would get now.

use alluvia_catalog::Dictionaries;
use alluvia_space::{KeyLayout, TableDef};
use alluvia_types::Result;
use arrow::record_batch::RecordBatch;

/// What the keys and codes of a table's rows are made of.
#[derive(Debug)]
pub struct Mapping<'a> {
    table: &'a TableDef,
    dictionaries: &'a Dictionaries,
    layout: KeyLayout,
    /// Codes that each level had given out, where it has members.
    members: Vec<Option<u32>>,
    /// Each level's name with its dimension's.
    names: Vec<String>,
}

impl<'a> Mapping<'a> {
    /// Of a table whose key ranges are fixed. Its dictionaries are as they were opened.
    pub fn new(table: &'a TableDef, dictionaries: &'a Dictionaries) -> Mapping<'a> {
        let levels = table.levels().count();
        let members = (0..levels).map(|level| dictionaries.has_members(level).then(|| dictionaries.len(level)));
        let names = table.levels().map(|(at, _, level)| format!("{}.{}", table.dimensions[at].name, level.name));
        Mapping {
            table,
            dictionaries,
            layout: KeyLayout::new(table),
            members: members.collect(),
            names: names.collect(),
        }
    }

    /// The first row whose key or code, as it is stored, is not what its values make; and what is wrong with it.
    /// `codes` has those of every level.
    pub(super) fn difference(
        &self,
        rows: &RecordBatch,
        keys: &[u128],
        codes: &[&[u32]],
    ) -> Result<Option<(usize, String)>> {
        let expected = self.layout.keys(rows)?;
        // Earlier builds knew no order by primary key.
        let is_without_order = self.table.dimensions.is_empty() && keys.iter().all(|key| *key == 0);
        if let Some((row, (stored, made))) = first_other(keys, &expected).filter(|_| !is_without_order) {
            return Ok(Some((row, format!("the key is {stored:x}, of its values it is {made:x}"))));
        }
        let expected = self.dictionaries.remap(self.table, rows)?;
        for (level, (stored, made)) in codes.iter().zip(&expected.levels).enumerate() {
            let name = &self.names[level];
            if let Some(members) = self.members[level]
                && let Some(row) = made.iter().position(|&code| code >= members)
            {
                let what = format!("the code of level '{name}' is {}, its value is in no dictionary", stored[row]);
                return Ok(Some((row, what)));
            }
            if let Some((row, (stored, made))) = first_other(stored, made) {
                return Ok(Some((row, format!("the code of level '{name}' is {stored}, of its value it is {made}"))));
            }
        }
        Ok(None)
    }
}

/// Where two lists of one length differ first, and what they have there.
fn first_other<T: Copy + PartialEq>(stored: &[T], made: &[T]) -> Option<(usize, (T, T))> {
    let pairs = stored.iter().copied().zip(made.iter().copied());
    pairs.enumerate().find(|(_, (stored, made))| stored != made)
}
