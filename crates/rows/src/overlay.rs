//! What the changes of a table come to, one after the other: which of the transaction's own rows are left, and which rows
//! of its snapshot are gone.
//!
//! Invariants:
//! - Own rows are numbered in the order in which they came, from 0. A number stands for one row as long as nothing before
//!   it is taken back.
//! - It follows from the changes alone, and never from what the snapshot has: that a key was free is said by whoever adds
//!   its row.
//! - COMMIT makes the same changes in the same order (`alluvia_commit`'s changes of rows), and so comes to the same.

use alluvia_space::key_code::KeyCode;
use alluvia_types::{Error, Result};
use std::collections::HashMap;
use std::ops::Range;

/// What it takes in memory for a key, about.
pub(crate) const KEY_BYTES: u64 = 64;

/// What the changes of a table come to.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    /// Of each own row, whether it is left.
    is_left: Vec<bool>,
    /// The keys that were changed, of a table that has one.
    keys: HashMap<KeyCode, Changed>,
}

/// What became of a key.
#[derive(Clone, Copy, Debug)]
struct Changed {
    /// The own row that has it; `None` if none has.
    row: Option<usize>,
    /// Whether the snapshot's row, if it has one, is gone.
    kills: bool,
}

impl Overlay {
    /// Rows come, of a table without a key.
    pub(crate) fn come(&mut self, rows: usize) {
        self.is_left.resize(self.is_left.len() + rows, true);
    }

    /// A row comes whose key is free.
    pub(crate) fn insert(&mut self, code: KeyCode) {
        self.put(code, false);
    }

    /// A row comes in the place of the one that has its key, if one has.
    pub(crate) fn replace(&mut self, code: KeyCode) {
        self.put(code, true);
    }

    fn put(&mut self, code: KeyCode, kills: bool) {
        let row = self.is_left.len();
        self.is_left.push(true);
        self.change(code, Some(row), kills);
    }

    /// The row with a key goes, if one has it.
    pub(crate) fn delete(&mut self, code: KeyCode) {
        self.change(code, None, true);
    }

    fn change(&mut self, code: KeyCode, row: Option<usize>, kills: bool) {
        let before = self.keys.insert(code, Changed { row, kills });
        let Some(before) = before else { return };
        if before.kills
            && let Some(changed) = self.keys.get_mut(&code)
        {
            changed.kills = true;
        }
        if let Some(gone) = before.row {
            self.is_left[gone] = false;
        }
    }

    /// Own rows go, by their numbers, as [`Overlay::numbers`] has given them.
    pub(crate) fn delete_own(&mut self, rows: &[usize]) {
        rows.iter().for_each(|&row| self.is_left[row] = false);
    }

    /// The numbers of the own rows that stand at some places among those that are left.
    ///
    /// # Errors
    /// `Internal` if there are not so many.
    pub(crate) fn numbers(&self, places: &[u64]) -> Result<Vec<usize>> {
        let left: Vec<usize> = (0..self.is_left.len()).filter(|&row| self.is_left[row]).collect();
        let number = |place: &u64| left.get(usize::try_from(*place).ok()?).copied();
        places.iter().map(|place| number(place).ok_or_else(no_such_row)).collect()
    }

    /// Of a range of own rows, whether each is left; `None` if all are.
    pub(crate) fn left_of(&self, rows: Range<usize>) -> Option<&[bool]> {
        let of_rows = self.is_left.get(rows)?;
        of_rows.contains(&false).then_some(of_rows)
    }

    /// Whether a row has a key by the changes; `None` if nothing was changed under it.
    pub(crate) fn has_key(&self, code: KeyCode) -> Option<bool> {
        self.keys.get(&code).map(|changed| changed.row.is_some())
    }

    /// The number of the own row that has a key; inside, `None` if none has. `None` if nothing was changed under it.
    pub(crate) fn row(&self, code: KeyCode) -> Option<Option<usize>> {
        self.keys.get(&code).map(|changed| changed.row)
    }

    /// At least as many as there are own rows, and keys that were changed.
    pub(crate) fn touched(&self) -> usize {
        self.is_left.len().max(self.keys.len())
    }

    /// Keys whose rows in the snapshot are gone.
    pub(crate) fn killed(&self) -> Vec<KeyCode> {
        self.keys.iter().filter(|(_, changed)| changed.kills).map(|(code, _)| *code).collect()
    }
}

fn no_such_row() -> Error {
    Error::internal("a row of the transaction that goes is not among its rows")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[derive(Clone, Debug)]
    enum Op {
        Insert(KeyCode),
        Replace(KeyCode),
        Delete(KeyCode),
    }

    fn op() -> impl Strategy<Value = Op> {
        let key = || 0..12u128;
        prop_oneof![key().prop_map(Op::Insert), key().prop_map(Op::Replace), key().prop_map(Op::Delete)]
    }

    #[test]
    fn rows_that_are_gone_again_and_keys_that_were_only_deleted_count_as_touched() {
        let mut overlay = Overlay::default();
        assert_eq!(overlay.touched(), 0);
        (0..3).for_each(|_| overlay.replace(1));
        assert_eq!((overlay.touched(), overlay.killed()), (3, vec![1]));
        (2..9).for_each(|code| overlay.delete(code));
        assert_eq!((overlay.touched(), overlay.killed().len()), (8, 8));
    }

    proptest! {
        /// Against a map from keys to rows: those of the snapshot, and numbers of own ones.
        #[test]
        fn changes_by_key_come_to_what_a_map_has(
            there in prop::collection::btree_set(0..12u128, 0..12),
            ops in prop::collection::vec(op(), 0..60),
        ) {
            let mut overlay = Overlay::default();
            let mut model: BTreeMap<KeyCode, Option<usize>> = there.iter().map(|&key| (key, None)).collect();
            let mut own = 0;
            for op in ops {
                match op {
                    Op::Insert(key) => {
                        let has_key = overlay.has_key(key).unwrap_or(there.contains(&key));
                        prop_assert_eq!(has_key, model.contains_key(&key));
                        if !has_key {
                            overlay.insert(key);
                            model.insert(key, Some(own));
                            own += 1;
                        }
                    }
                    Op::Replace(key) => {
                        overlay.replace(key);
                        model.insert(key, Some(own));
                        own += 1;
                    }
                    Op::Delete(key) => {
                        overlay.delete(key);
                        model.remove(&key);
                    }
                }
                let left: BTreeSet<usize> = (0..own).filter(|&row| overlay.left_of(row..row + 1).is_none()).collect();
                prop_assert_eq!(left, model.values().flatten().copied().collect::<BTreeSet<_>>());
                let killed: BTreeSet<KeyCode> = overlay.killed().into_iter().collect();
                let seen: BTreeSet<KeyCode> = there.difference(&killed).copied().collect();
                let of_snapshot = model.iter().filter(|(_, row)| row.is_none()).map(|(key, _)| *key);
                prop_assert_eq!(seen, of_snapshot.collect::<BTreeSet<_>>());
            }
        }

        /// Against the list of rows that are left.
        #[test]
        fn own_rows_go_by_where_they_stand_among_those_that_are_left(
            steps in prop::collection::vec((0usize..5, prop::collection::btree_set(0u64..20, 0..4)), 0..30),
        ) {
            let (mut overlay, mut left, mut own) = (Overlay::default(), Vec::new(), 0);
            for (rows, gone) in steps {
                overlay.come(rows);
                left.extend(own..own + rows);
                own += rows;
                let places: Vec<u64> = gone.into_iter().filter(|&place| place < left.len() as u64).collect();
                let numbers = overlay.numbers(&places).unwrap();
                prop_assert_eq!(&numbers, &places.iter().map(|&place| left[place as usize]).collect::<Vec<_>>());
                overlay.delete_own(&numbers);
                left.retain(|row| !numbers.contains(row));
                prop_assert!(overlay.numbers(&[left.len() as u64]).is_err());
                let shown: Vec<usize> = (0..own).filter(|&row| overlay.left_of(row..row + 1).is_none()).collect();
                prop_assert_eq!(&shown, &left);
            }
        }
    }
}
