//! What a scan sees of its blocks while it filters.
//!
//! Invariants:
//! - A block counts as looked at only when every one of its rows has been evaluated in this stream: what a LIMIT, a cancelled
//!   statement or a dynamic filter leaves out is not known.
//! - Rows are told by segment and row number, which the reader gives, never by the order in which batches come.
//! - Dead rows are not read, and a reader of an older version, for whom they live, may find matches among them: a block with dead rows
//!   never counts as one without a match. It counts as looked at where a live row matched.

use crate::cache::PredicateCache;
use crate::form::Form;
use alluvia_tree::{BLOCK_ROWS, DeadRows, Segment};
use alluvia_types::TableId;
use arrow::array::{BooleanArray, Int64Array};
use std::collections::HashMap;
use std::sync::Arc;

/// Parts of a predicate that are looked at by themselves, beside all of them together: each takes memory for every block.
const PARTS_MAX: usize = 16;

/// What all streams of a scan tell the cache.
#[derive(Debug)]
pub struct Observer {
    /// Who remembers it.
    pub cache: Arc<PredicateCache>,
    /// The table that is scanned.
    pub table: TableId,
    /// By the number under which the scan's rows name them; and their dead rows, which are not among those.
    pub segments: Vec<(Arc<Segment>, Option<DeadRows>)>,
    /// As [`crate::predicate::Parts::forms`] gives them: those of parts, and that of all of them at the end.
    pub forms: Vec<Arc<Form>>,
}

/// What one stream has seen so far; told to the cache when it is dropped.
#[derive(Debug)]
pub(crate) struct Observation {
    observer: Arc<Observer>,
    /// By segment and form.
    seen: HashMap<(u32, usize), Vec<Block>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Block {
    /// Rows that were evaluated.
    rows: u32,
    matches: bool,
}

impl Observation {
    pub(crate) fn new(observer: &Arc<Observer>) -> Observation {
        Observation { observer: Arc::clone(observer), seen: HashMap::new() }
    }

    /// For each row, by its number in the segment, whether the form is TRUE.
    pub(crate) fn tell(&mut self, segment: u32, numbers: &Int64Array, form: usize, mask: &BooleanArray) {
        assert_eq!(numbers.len(), mask.len(), "one number for each row");
        // The whole predicate always; of the parts the first.
        if form >= PARTS_MAX && form + 1 != self.observer.forms.len() {
            return;
        }
        let Some((of, _)) = self.observer.segments.get(segment as usize) else { return };
        let blocks = self.seen.entry((segment, form)).or_insert_with(|| vec![Block::default(); of.blocks()]);
        let numbers = numbers.values();
        let mut at = 0;
        while at < numbers.len() {
            let block = numbers[at] as usize / BLOCK_ROWS;
            let is_here = |number: i64| number as usize / BLOCK_ROWS == block;
            // Row numbers mostly ascend by one, so most of a batch is of one block.
            let end = match numbers.last() {
                Some(&last) if is_here(last) && (last - numbers[at]) as usize == numbers.len() - 1 - at => {
                    numbers.len()
                }
                _ => at + numbers[at..].iter().take_while(|&&number| is_here(number)).count(),
            };
            blocks[block].rows += (end - at) as u32;
            blocks[block].matches = blocks[block].matches || mask.slice(at, end - at).has_true();
            at = end;
        }
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        let observer = &self.observer;
        let whole = observer.forms.len() - 1;
        for ((segment, form), blocks) in &self.seen {
            let (of, dead) = &observer.segments[*segment as usize];
            let is_whole = |(at, block): (usize, &Block)| {
                let rows = of.block_rows(at);
                let dead = dead.as_ref().map_or(0, |dead| dead.count_in(at) as u64);
                u64::from(block.rows) + dead == rows.end - rows.start && (dead == 0 || block.matches)
            };
            let seen: Vec<bool> = blocks.iter().enumerate().map(is_whole).collect();
            let empty: Vec<bool> = seen.iter().zip(blocks).map(|(&seen, block)| seen && !block.matches).collect();
            // A part of a predicate that matches everywhere is of no use to anyone; that the whole does is known then.
            if *form == whole || empty.contains(&true) && observer.forms[*form] != observer.forms[whole] {
                observer.cache.learn(observer.table, &observer.forms[*form], of, seen, empty);
            }
        }
    }
}
