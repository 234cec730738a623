//! Members of a level by their own value, under whatever parent.
//!
//! Predicates and merges of text ask this, so the index is made when the first one does, and catches up with new
//! members when the next one does; levels that neither asks of never pay for it. Members of equal value are chained,
//! newest first.

use super::code_set::CodeSet;
use super::value::{Value, Values};
use hashbrown::HashTable;

/// Ends a chain. NULL is in none.
const END: u32 = 0;

/// The index of one level.
#[derive(Debug, Default)]
pub(crate) struct ByValue {
    /// 32 bits of a value's hash, and the newest member that has it.
    heads: HashTable<(u32, u32)>,
    /// By code: the next older member of the same value.
    older: Vec<u32>,
    /// By code: the oldest member of the same value.
    firsts: Vec<u32>,
}

fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl ByValue {
    /// Takes in so many of the members that came since the last call. Those without a value are in no chain.
    pub(crate) fn extend(&mut self, values: &Values, forgotten: &CodeSet, most: usize) {
        let known = self.older.len().max(1);
        let end = values.len().min(known.saturating_add(most));
        self.older.resize(end, END);
        self.firsts.extend(self.firsts.len() as u32..end as u32);
        for code in (known as u32..end as u32).filter(|&code| !forgotten.contains(code)) {
            let hash = (values.hash_at(code) >> 32) as u32;
            let same = |&(other, head): &(u32, u32)| other == hash && values.same(head, code);
            let entry = self.heads.entry(spread(hash), same, |&(hash, _)| spread(hash));
            entry
                .and_modify(|(_, head)| {
                    self.firsts[code as usize] = self.firsts[*head as usize];
                    self.older[code as usize] = std::mem::replace(head, code);
                })
                .or_insert((hash, code));
        }
    }

    /// For each code that was taken in the least code of the same value.
    pub(crate) fn firsts(&self) -> &[u32] {
        &self.firsts
    }

    /// Calls `each` with the place in `wanted` and the code of every member that has one of these values, by place.
    pub(crate) fn each<V: Value>(&self, values: &Values, wanted: &[V], mut each: impl FnMut(usize, u32)) {
        for (place, value) in wanted.iter().enumerate() {
            let hash = (value.hash() >> 32) as u32;
            let is = |&(other, head): &(u32, u32)| other == hash && value.is_at(values, head);
            let mut code = self.heads.find(spread(hash), is).map_or(END, |&(_, head)| head);
            while code != END {
                each(place, code);
                code = self.older[code as usize];
            }
        }
    }
}
