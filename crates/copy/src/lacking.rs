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
    /// one. Those that say what they do have more columns, and keep them: their conditions are looked at once it is known
    /// which rows they make. May block.
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

    /// Leaves what those rows lack of which this is true, of so many.
    pub(crate) fn only(&mut self, rows: usize, is_such: impl Fn(usize) -> bool) {
        if (0..rows).all(&is_such) {
            return;
        }
        for lacking in self.columns.values_mut() {
            let such = match lacking.take() {
                None => (0..rows).filter(|row| is_such(*row)).collect(),
                Some(lacking) => lacking.into_iter().filter(|row| is_such(*row)).collect(),
            };
            *lacking = Some(such);
        }
        self.columns.retain(|_, rows| rows.as_ref().is_none_or(|rows| !rows.is_empty()));
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

    #[test]
    fn rows_that_are_not_asked_for_lack_nothing() {
        let mut lacking = Lacking { columns: BTreeMap::from([(0, None), (2, Some(vec![0, 3]))]) };
        lacking.only(4, |_| true);
        assert_eq!(lacking.columns().collect::<Vec<_>>(), [(0, None), (2, Some([0, 3].as_slice()))]);
        lacking.only(4, |row| row == 1 || row == 2);
        assert_eq!(lacking.columns().collect::<Vec<_>>(), [(0, Some([1, 2].as_slice()))]);
    }
}
