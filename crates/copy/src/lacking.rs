//! Values that rows lack, and that their table's definition gives.
//!
//! Invariants:
//! - What rows lack is NULL until it is given, whatever its column says of NULL. Whoever fits rows to a table tells what
//!   they lack ([`Lacking`]), and hands both to a [`RowRules`] before anybody else sees the rows.
//! - Only columns are lacking to which the definition gives something: all else that a row does not have is NULL.

use alluvia_space::TableDef;
use alluvia_types::Result;
use arrow::array::RecordBatch;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// Which values of rows their table's definition is to give.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lacking {
    /// By the columns' places in the table; no rows are all rows.
    columns: BTreeMap<usize, Option<Vec<usize>>>,
}

/// What a table's definition does with rows that were fitted to it.
pub trait RowRules: Send + Sync + Debug {
    /// The rows with what they lack, in the table's storage schema; refused where a condition of the table is false of
    /// one. May block.
    fn complete(&self, rows: RecordBatch, lacking: &Lacking) -> Result<RecordBatch>;
}

impl Lacking {
    /// All rows lack those of `columns` to which the definition gives something.
    pub fn of(def: &TableDef, columns: impl IntoIterator<Item = usize>) -> Lacking {
        let columns = columns.into_iter().filter(|&at| def.fills(def.columns[at].id));
        Lacking { columns: columns.map(|at| (at, None)).collect() }
    }

    /// A row lacks its value of this column; rows of a column are added in their order.
    pub fn add(&mut self, column: usize, row: usize) {
        if let Some(rows) = self.columns.entry(column).or_insert_with(|| Some(Vec::new())) {
            rows.push(row);
        }
    }

    /// Whether nothing is lacking.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Whether any row lacks its value of this column.
    pub fn has(&self, column: usize) -> bool {
        self.columns.contains_key(&column)
    }

    /// The columns, and the rows of each that lack their values; all rows where there is no list.
    pub fn columns(&self) -> impl Iterator<Item = (usize, Option<&[usize]>)> {
        self.columns.iter().map(|(column, rows)| (*column, rows.as_deref()))
    }

    /// What the rows lack that are left where those of `bad` are taken out, which ascend.
    pub(crate) fn without(self, bad: &[usize]) -> Lacking {
        let left = |rows: Vec<usize>| -> Vec<usize> {
            let good = rows.into_iter().filter(|row| bad.binary_search(row).is_err());
            good.map(|row| row - bad.partition_point(|bad| *bad < row)).collect()
        };
        let columns = self.columns.into_iter().map(|(column, rows)| (column, rows.map(left)));
        Lacking { columns: columns.filter(|(_, rows)| rows.as_ref().is_none_or(|rows| !rows.is_empty())).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_left_keep_what_they_lack() {
        let mut lacking = Lacking::default();
        [0, 2, 3, 5].into_iter().for_each(|row| lacking.add(1, row));
        lacking.add(2, 3);
        let left = lacking.without(&[1, 3, 4]);
        assert_eq!(left.columns().collect::<Vec<_>>(), [(1, Some([0, 1, 2].as_slice()))]);
    }
}
