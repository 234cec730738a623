//! Local ids of a path's members, made of the local ids of its levels.
//!
//! A member is (parent, own value). The rows have the parent's local id and the value's local id; what comes out is one
//! local id per row for the pair, in order of first appearance. NULL is one member at every level, under whatever
//! parent: id 0 where the value's id is 0.
//!
//! Most children have one parent, so each value keeps its first parent at hand, and only others go through a hash
//! table; where there are few pairs (months under years) all go through a plain table instead.

use super::value::mix;
use hashbrown::HashTable;

/// Pairs up to which a plain table of all is used: it fits the second-level cache.
const TABLE_MAX: usize = 1 << 16;
/// Pairs that a row pays for.
const PAIRS_PER_ROW: usize = 16;
/// The value has not been met.
const UNMET: u64 = u64::MAX;

/// Turns `ids`, the rows' local ids of own values (at most `values`), into local ids of members. `parents` are the
/// rows' local ids of parents, each below `parents_end`. Returns (parent id, value id) of each member, from id 1 on.
pub(crate) fn combine(ids: &mut [u32], values: usize, parents: &[u32], parents_end: usize) -> Vec<(u32, u32)> {
    assert_eq!(ids.len(), parents.len(), "a value and a parent for every row");
    let mut members: Vec<(u32, u32)> = Vec::new();
    let mut add = |parent: u32, value: u32| {
        members.push((parent, value));
        members.len() as u32
    };
    let width = values + 1;
    let pairs_max = TABLE_MAX.min(ids.len() * PAIRS_PER_ROW);
    if width.checked_mul(parents_end).is_some_and(|pairs| pairs <= pairs_max) {
        let mut table = vec![0u32; width * parents_end];
        for (id, &parent) in ids.iter_mut().zip(parents) {
            let pair = &mut table[parent as usize * width + *id as usize];
            if *pair == 0 && *id != 0 {
                *pair = add(parent, *id);
            }
            *id = *pair;
        }
        return members;
    }
    let pack = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
    // Per value: its first parent and that member's id.
    let mut first = vec![UNMET; width];
    let mut others: HashTable<(u64, u32)> = HashTable::new();
    for (id, &parent) in ids.iter_mut().zip(parents) {
        let value = *id;
        if value == 0 {
            continue;
        }
        let known = &mut first[value as usize];
        if (*known >> 32) as u32 == parent && *known != UNMET {
            *id = *known as u32;
        } else if *known == UNMET {
            *id = add(parent, value);
            *known = pack(parent, *id);
        } else {
            let pair = pack(parent, value);
            let entry = others.entry(hash(pair), |&(other, _)| other == pair, |&(other, _)| hash(other));
            *id = entry.or_insert_with(|| (pair, add(parent, value))).get().1;
        }
    }
    members
}

fn hash(pair: u64) -> u64 {
    mix(pair, 0x9E37_79B9_7F4A_7C15)
}

#[cfg(test)]
mod tests {
    use super::combine;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn model(ids: &[u32], parents: &[u32]) -> (Vec<u32>, Vec<(u32, u32)>) {
        let mut known = HashMap::new();
        let mut members = Vec::new();
        let of = |(&value, &parent): (&u32, &u32)| match value {
            0 => 0,
            _ => *known.entry((parent, value)).or_insert_with(|| {
                members.push((parent, value));
                members.len() as u32
            }),
        };
        let ids = ids.iter().zip(parents).map(of).collect();
        (ids, members)
    }

    proptest! {
        #[test]
        fn pairs_are_numbered_as_they_appear(
            rows in prop::collection::vec((0u32..40, 0u32..30), 0..300),
            wide in any::<bool>(),
        ) {
            let (mut ids, parents): (Vec<u32>, Vec<u32>) = rows.into_iter().unzip();
            let (expected, members) = model(&ids, &parents);
            let values = if wide { 1 << 20 } else { 39 };
            let found = combine(&mut ids, values, &parents, 30);
            prop_assert_eq!(ids, expected);
            prop_assert_eq!(found, members);
        }
    }
}
