//! The rows of a segment in the order of their keys: where those lie whose keys are between two.
//!
//! Segments are sorted along the curve, so neighbouring keys lie anywhere. Making the order reads the key's columns of all rows; it is
//! done once a segment was asked for it some times (rent or buy, as in [`super::resident`]), and lies in the pool of what segments keep.
//!
//! Invariant: what is between two codes is among what [`KeyOrder::between`] gives. It may give some rows more, at both ends.

use super::Segment;
use alluvia_space::key_code::{CodeRange, KeyCode, KeyCoder};
use alluvia_types::Result;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Reading a segment so many times takes about as long as making its order.
const ASKED_MAX: u32 = 4;

/// The share of the pool that one order may take.
const POOL_SHARE: u64 = 16;

/// Of so many rows one code is kept.
const GROUP_ROWS: usize = 32;

/// Rows in the order of their keys.
#[derive(Debug)]
pub(crate) struct KeyOrder {
    /// The code of each group's first row.
    first: Vec<KeyCode>,
    rows: Vec<u32>,
}

impl KeyOrder {
    fn new(codes: &[KeyCode]) -> KeyOrder {
        let mut rows: Vec<u32> = (0..codes.len() as u32).collect();
        rows.sort_unstable_by_key(|&row| codes[row as usize]);
        let first = rows.iter().step_by(GROUP_ROWS).map(|&row| codes[row as usize]).collect();
        KeyOrder { first, rows }
    }

    /// Rows among which are all whose codes lie between two.
    fn between(&self, (low, high): CodeRange) -> &[u32] {
        // Rows with the least code may end the group before the first that begins with it: dead ones share it.
        let begin = self.first.partition_point(|&first| first < low).saturating_sub(1);
        let end = self.first.partition_point(|&first| first <= high);
        let rows = begin * GROUP_ROWS..(end * GROUP_ROWS).min(self.rows.len());
        self.rows.get(rows).unwrap_or_default()
    }

    fn bytes(rows: u64) -> u64 {
        rows * size_of::<u32>() as u64 + rows.div_ceil(GROUP_ROWS as u64) * size_of::<KeyCode>() as u64
    }
}

impl Segment {
    /// Rows among which are all whose keys' codes lie between two, at most so many, ascending; `None` where there are more, or the order is
    /// not known yet.
    ///
    /// # Errors
    /// `Corrupt` if the file is damaged.
    pub fn rows_between(
        self: &Arc<Segment>,
        coder: &KeyCoder,
        codes: CodeRange,
        most: usize,
    ) -> Result<Option<Vec<u32>>> {
        let columns: Vec<_> = coder.columns().collect();
        // A table may get another key.
        let mut names = DefaultHasher::new();
        columns.iter().for_each(|(name, _)| name.hash(&mut names));
        let number = names.finish() as usize;
        let order = match self.held::<KeyOrder>(number) {
            Some(order) => order,
            None => {
                let bytes = KeyOrder::bytes(self.meta.rows);
                if bytes > self.context.pool.bytes_max() / POOL_SHARE
                    || self.key_order_asked.fetch_add(1, Ordering::Relaxed) < ASKED_MAX
                {
                    return Ok(None);
                }
                self.derived(number, || {
                    let mut all = Vec::with_capacity(self.meta.rows as usize);
                    for keys in self.column_batches(&columns)? {
                        all.extend(coder.codes(&keys?)?);
                    }
                    // One that was given up is paid for anew.
                    self.key_order_asked.store(0, Ordering::Relaxed);
                    Ok((KeyOrder::new(&all), bytes))
                })?
            }
        };
        let rows = order.between(codes);
        if rows.len() > most {
            return Ok(None);
        }
        let mut rows = rows.to_vec();
        rows.sort_unstable();
        Ok(Some(rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against looking at each row: none is missed, and few are told that should not be.
        #[test]
        fn what_lies_between_is_found(
            codes in prop::collection::vec(0u128..400, 0..300),
            low in 0u128..420,
            width in 0u128..200,
        ) {
            let order = KeyOrder::new(&codes);
            let high = low + width;
            let found = order.between((low, high));
            let is_between = |row: &&u32| (low..=high).contains(&codes[**row as usize]);
            let wanted = (0..codes.len() as u32).filter(|row| is_between(&row)).count();
            let between = found.iter().filter(is_between).count();
            prop_assert_eq!(between, wanted);
            prop_assert!(found.len() <= wanted + 2 * GROUP_ROWS);
            prop_assert!(order.first.len() * size_of::<KeyCode>() + order.rows.len() * 4 <= KeyOrder::bytes(codes.len() as u64) as usize);
        }
    }
}
