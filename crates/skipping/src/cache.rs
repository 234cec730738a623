//! What is remembered: of predicates, which blocks of which segments they were seen to match nowhere.
//!
//! Invariants:
//! - An entry is of a segment, which never changes, and says nothing of versions: it holds for every reader.
//! - What all entries hold is bounded. Past the bound those predicates go that never spared a block, then those that were asked for
//!   longest ago.
//! - Nothing here is needed: whatever is lost is seen anew.
//! - What is TRUE for no row, whatever the rows are, is not remembered, and uses nothing of what is: no block is read for it.

use crate::blocks::BlockSet;
use crate::chosen::Chosen;
use crate::form::Form;
use alluvia_tree::{Segment, SegmentMeta};
use alluvia_types::{SegmentId, TableId};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Predicates remembered of one table: each is held against each statement's.
const PREDICATES_MAX: usize = 1_024;
/// What an entry costs beside its blocks, in a map that is half empty.
const ENTRY_BYTES: usize = 2 * (size_of::<SegmentId>() + size_of::<Known>());
/// What a predicate costs beside its form and entries.
const PREDICATE_BYTES: usize = 2 * size_of::<Remembered>();

/// What is remembered of all tables.
#[derive(Debug)]
pub struct PredicateCache {
    bytes_max: usize,
    pub(crate) state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) tables: HashMap<TableId, HashMap<Arc<Form>, Remembered>>,
    pub(crate) bytes: usize,
    /// Counts statements.
    pub(crate) turn: u64,
    /// Counts changes, so that it is known whether there is something new to keep across restarts.
    pub(crate) changes: u64,
}

/// A predicate of a table.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    pub(crate) segments: HashMap<SegmentId, Known>,
    /// The turn of the last statement that asked for it.
    pub(crate) asked: u64,
}

/// What is known of one segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Known {
    pub(crate) of: Seal,
    /// Blocks that it has.
    pub(crate) blocks: usize,
    /// Blocks without a match.
    pub(crate) empty: BlockSet,
    /// Blocks that were looked at, `empty` among them.
    pub(crate) seen: BlockSet,
    /// Statements for which it spared blocks.
    pub(crate) hits: u64,
    /// Blocks that it spared them, in all.
    pub(crate) skipped: u64,
}

/// By what a segment's files are told from others that had its number in a database restored from a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seal {
    pub(crate) rows: u64,
    pub(crate) parquet_bytes: u64,
    pub(crate) checksum: u32,
}

impl Seal {
    pub(crate) fn of(meta: &SegmentMeta) -> Seal {
        let checksum = meta.side.chunk_crcs.last().copied().unwrap_or(0);
        Seal { rows: meta.rows, parquet_bytes: meta.parquet_bytes, checksum }
    }
}

impl Known {
    fn bytes(&self) -> usize {
        ENTRY_BYTES + self.empty.heap_bytes() + self.seen.heap_bytes()
    }
}

/// What the cache did for one scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spared {
    /// Blocks left out.
    pub blocks: u64,
    /// Entries that left out a block.
    pub hits: u64,
    /// Whether every block that is left was seen to match: there is nothing more to learn.
    pub is_known: bool,
}

/// One entry, for `alluvia.predicate_cache`.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Of which table it is.
    pub table: TableId,
    /// And of which of its segments.
    pub segment: SegmentId,
    /// The predicate.
    pub form: Arc<Form>,
    /// Blocks of the segment.
    pub blocks: usize,
    /// Those that were looked at.
    pub blocks_seen: usize,
    /// And those of them without a match.
    pub blocks_empty: usize,
    /// Scans for which it spared blocks.
    pub hits: u64,
    /// Blocks that it spared them, in all.
    pub skipped: u64,
    /// Memory that it holds.
    pub bytes: usize,
}

impl PredicateCache {
    /// Nothing is remembered yet; all together holds at most `bytes_max`.
    pub fn new(bytes_max: u64) -> PredicateCache {
        PredicateCache { bytes_max: usize::try_from(bytes_max).unwrap_or(usize::MAX), state: Mutex::default() }
    }

    /// Leaves out blocks of which it is known that `asked` matches nothing in them.
    pub fn spare(&self, table: TableId, asked: &Form, segments: &[Arc<Segment>], chosen: &mut [Chosen]) -> Spared {
        assert_eq!(segments.len(), chosen.len(), "one choice for each segment");
        if asked.is_void() {
            chosen.iter_mut().for_each(|chosen| chosen.retain(|_| false));
            return Spared { is_known: true, ..Spared::default() };
        }
        let mut state = self.state.lock();
        state.turn += 1;
        let turn = state.turn;
        let mut spared = Spared::default();
        let Some(predicates) = state.tables.get_mut(&table) else { return spared };
        for (form, remembered) in predicates.iter_mut().filter(|(form, _)| asked.implies(form)) {
            let mut is_known = **form == *asked;
            remembered.asked = if is_known { turn } else { remembered.asked };
            for (segment, chosen) in segments.iter().zip(chosen.iter_mut()).filter(|(_, chosen)| chosen.count() > 0) {
                let known = remembered.segments.get_mut(&segment.meta().id);
                let Some(known) = known.filter(|known| known.of == Seal::of(segment.meta())) else {
                    is_known = false;
                    continue;
                };
                let before = chosen.count();
                chosen.retain(|block| !known.empty.contains(block));
                let left_out = (before - chosen.count()) as u64;
                if left_out > 0 {
                    known.hits += 1;
                    known.skipped += left_out;
                    spared.hits += 1;
                    spared.blocks += left_out;
                    remembered.asked = turn;
                }
                is_known &= chosen.as_slice().iter().enumerate().all(|(at, &is_in)| !is_in || known.seen.contains(at));
            }
            spared.is_known |= is_known;
        }
        spared.is_known |= chosen.iter().all(|chosen| chosen.count() == 0);
        spared
    }

    /// Remembers of a segment's blocks which were looked at, and which of these hold no row for which `form` is TRUE. What was known
    /// before stays known.
    pub(crate) fn learn(
        &self,
        table: TableId,
        form: &Arc<Form>,
        segment: &Segment,
        mut seen: Vec<bool>,
        mut empty: Vec<bool>,
    ) {
        let blocks = segment.blocks();
        assert!(seen.len() == blocks && empty.len() == blocks, "one place for each block");
        assert!(seen.iter().zip(&empty).all(|(seen, empty)| *seen || !*empty), "what is empty was looked at");
        let form_bytes = form.bytes();
        if form.is_empty() || form.is_void() || form_bytes > self.bytes_max / 8 || !seen.contains(&true) {
            return;
        }
        let (id, of) = (segment.meta().id, Seal::of(segment.meta()));
        let mut state = self.state.lock();
        let turn = state.turn;
        let predicates = state.tables.entry(table).or_default();
        let is_new = !predicates.contains_key(form);
        let remembered = predicates.entry(Arc::clone(form)).or_default();
        remembered.asked = if is_new { turn } else { remembered.asked };
        let old = remembered.segments.get(&id).filter(|known| known.of == of);
        if let Some(old) = old {
            seen.iter_mut().enumerate().for_each(|(at, seen)| *seen |= old.seen.contains(at));
            empty.iter_mut().enumerate().for_each(|(at, empty)| *empty |= old.empty.contains(at));
        }
        let (hits, skipped) = old.map_or((0, 0), |old| (old.hits, old.skipped));
        let (seen, empty) = (BlockSet::new(&seen), BlockSet::new(&empty));
        if old.is_some_and(|old| old.seen == seen) {
            return;
        }
        let new = Known { of, blocks, empty, seen, hits, skipped };
        let added = new.bytes() + if is_new { form_bytes + PREDICATE_BYTES } else { 0 };
        let replaced = remembered.segments.insert(id, new).map_or(0, |old| old.bytes());
        let is_full = predicates.len() > PREDICATES_MAX;
        state.bytes = state.bytes + added - replaced;
        state.changes += 1;
        if is_full {
            state.evict(self.bytes_max, Some(table));
        }
        if state.bytes > self.bytes_max {
            state.evict(self.bytes_max, None);
        }
    }

    /// Forgets what is of tables and segments that are gone.
    pub(crate) fn retain(&self, is_table: impl Fn(TableId) -> bool, segments: &HashSet<SegmentId>) {
        let mut state = self.state.lock();
        let State { tables, bytes, changes, .. } = &mut *state;
        let before = *bytes;
        tables.retain(|table, predicates| {
            let lives = is_table(*table);
            predicates.retain(|form, remembered| {
                remembered.segments.retain(|id, known| {
                    let stays = lives && segments.contains(id);
                    *bytes -= if stays { 0 } else { known.bytes() };
                    stays
                });
                let stays = !remembered.segments.is_empty();
                *bytes -= if stays { 0 } else { form.bytes() + PREDICATE_BYTES };
                stays
            });
            !predicates.is_empty()
        });
        *changes += u64::from(*bytes != before);
    }

    /// Forgets what is of one table.
    pub(crate) fn forget_table(&self, table: TableId) {
        let mut state = self.state.lock();
        let Some(predicates) = state.tables.remove(&table) else { return };
        state.bytes -= predicates.iter().map(|(form, of)| of.bytes(form)).sum::<usize>();
        state.changes += 1;
    }

    /// Whether nothing is remembered.
    pub(crate) fn is_empty(&self) -> bool {
        self.state.lock().tables.is_empty()
    }

    /// All entries.
    pub fn list(&self) -> Vec<Listed> {
        let state = self.state.lock();
        let mut listed = Vec::new();
        for (&table, predicates) in &state.tables {
            for (form, remembered) in predicates {
                listed.extend(remembered.segments.iter().map(|(&segment, known)| Listed {
                    table,
                    segment,
                    form: Arc::clone(form),
                    blocks: known.blocks,
                    blocks_seen: known.seen.count(),
                    blocks_empty: known.empty.count(),
                    hits: known.hits,
                    skipped: known.skipped,
                    bytes: known.bytes(),
                }));
            }
        }
        listed.sort_by(|a, b| (a.table, a.segment, &a.form).cmp(&(b.table, b.segment, &b.form)));
        listed
    }

    /// All predicates, the most useful first.
    pub(crate) fn ranked(&self) -> Vec<(TableId, Arc<Form>)> {
        let state = self.state.lock();
        let of_table = |(&table, predicates): (&TableId, &HashMap<Arc<Form>, Remembered>)| {
            let rank = |(form, of): (&Arc<Form>, &Remembered)| (of.skipped() > 0, of.asked, table, Arc::clone(form));
            predicates.iter().map(rank).collect::<Vec<_>>()
        };
        let mut ranked: Vec<_> = state.tables.iter().flat_map(of_table).collect();
        drop(state);
        ranked.sort_unstable_by(|a, b| (b.0, b.1, a.2, &a.3).cmp(&(a.0, a.1, b.2, &b.3)));
        ranked.into_iter().map(|(_, _, table, form)| (table, form)).collect()
    }

    /// What is known of a predicate, by segment; `None` if it was forgotten.
    pub(crate) fn known(&self, table: TableId, form: &Form) -> Option<Vec<(SegmentId, Known)>> {
        let state = self.state.lock();
        let remembered = state.tables.get(&table)?.get(form)?;
        Some(remembered.segments.iter().map(|(&id, known)| (id, known.clone())).collect())
    }

    /// Takes in what was kept across a restart, unless there is no room.
    pub(crate) fn admit(&self, table: TableId, form: Form, segments: Vec<(SegmentId, Known)>) {
        if form.is_void() {
            return;
        }
        let mut state = self.state.lock();
        let bytes = form.bytes() + PREDICATE_BYTES + segments.iter().map(|(_, known)| known.bytes()).sum::<usize>();
        let predicates = state.tables.entry(table).or_default();
        if bytes > self.bytes_max || predicates.len() >= PREDICATES_MAX || predicates.contains_key(&form) {
            return;
        }
        predicates.insert(Arc::new(form), Remembered { segments: segments.into_iter().collect(), asked: 0 });
        state.bytes += bytes;
        if state.bytes > self.bytes_max {
            state.evict(self.bytes_max, None);
        }
    }

    #[cfg(test)]
    fn bytes(&self) -> (usize, usize) {
        let state = self.state.lock();
        (
            state.bytes,
            state.tables.values().flat_map(|predicates| predicates.iter()).map(|(form, of)| of.bytes(form)).sum(),
        )
    }
}

impl Remembered {
    /// Blocks that it spared statements.
    pub(crate) fn skipped(&self) -> u64 {
        self.segments.values().map(|known| known.skipped).sum()
    }

    fn bytes(&self, form: &Form) -> usize {
        form.bytes() + PREDICATE_BYTES + self.segments.values().map(Known::bytes).sum::<usize>()
    }
}

impl State {
    /// Drops the least useful predicates: of one table an eighth of the most it may have, or of all until an eighth of the bound is
    /// free, so that this is done seldom.
    fn evict(&mut self, bytes_max: usize, of: Option<TableId>) {
        let tables = self.tables.iter().filter(|(table, _)| of.is_none_or(|of| of == **table));
        let mut order: Vec<(bool, u64, TableId, Arc<Form>)> = tables
            .flat_map(|(&table, predicates)| {
                let rank =
                    move |(form, of): (&Arc<Form>, &Remembered)| (of.skipped() > 0, of.asked, table, Arc::clone(form));
                predicates.iter().map(rank)
            })
            .collect();
        order.sort_unstable();
        let mut left = order.len();
        for (_, _, table, form) in order {
            let is_enough = match of {
                Some(_) => left <= PREDICATES_MAX / 8 * 7,
                None => self.bytes <= bytes_max / 8 * 7,
            };
            if is_enough {
                break;
            }
            let Some(predicates) = self.tables.get_mut(&table) else { continue };
            if let Some(remembered) = predicates.remove(&form) {
                self.bytes -= remembered.bytes(&form);
                left -= 1;
            }
            if predicates.is_empty() {
                self.tables.remove(&table);
            }
        }
        self.changes += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constraint::Constraint;
    use crate::value::Value;
    use alluvia_fixture::{Fixture, table};
    use alluvia_space::DataType;
    use alluvia_types::ColumnId;
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};

    const TABLE: TableId = TableId(1);

    fn segments(count: usize) -> Vec<Arc<Segment>> {
        let def = table("t", &[("a", DataType::Int64)]);
        let values = Arc::new(Int64Array::from_iter_values(0..20_000)) as ArrayRef;
        let rows = RecordBatch::try_new(def.storage_schema(), vec![values]).expect("one column");
        let fixture = Fixture::new(def, "a(a: linear 0..20000)", &rows);
        (0..count).map(|_| fixture.segment(&rows, &vec![1; rows.num_rows()])).collect()
    }

    fn equal(value: i128) -> Arc<Form> {
        Arc::new(Form::of_column(ColumnId(0), Constraint::OneOf([Value::Whole(value)].into())))
    }

    fn all(segments: &[Arc<Segment>]) -> Vec<Chosen> {
        segments.iter().map(|segment| Chosen::all(segment.blocks())).collect()
    }

    #[test]
    fn blocks_are_spared_by_what_is_implied_and_only_in_segments_that_were_seen() {
        let segments = segments(2);
        assert_eq!(segments[0].blocks(), 3);
        let cache = PredicateCache::new(1 << 20);
        let (five, not_null) = (equal(5), Arc::new(Form::of_column(ColumnId(0), Constraint::not_null())));
        assert_eq!(cache.spare(TABLE, &five, &segments, &mut all(&segments)), Spared::default());
        cache.learn(TABLE, &not_null, &segments[0], vec![true, true, false], vec![false, true, false]);
        let mut chosen = all(&segments);
        let spared = cache.spare(TABLE, &five, &segments, &mut chosen);
        assert_eq!(spared, Spared { blocks: 1, hits: 1, is_known: false });
        assert_eq!((chosen[0].as_slice(), chosen[1].count()), ([true, false, true].as_slice(), 3));
        // Known in part, then all of it.
        assert!(!cache.spare(TABLE, &not_null, &segments[..1], &mut all(&segments[..1])).is_known);
        cache.learn(TABLE, &not_null, &segments[0], vec![false, false, true], vec![false; 3]);
        let spared = cache.spare(TABLE, &not_null, &segments[..1], &mut all(&segments[..1]));
        assert_eq!(spared, Spared { blocks: 1, hits: 1, is_known: true });
        assert!(!cache.spare(TABLE, &not_null, &segments, &mut all(&segments)).is_known);
        // Another table, and what is not implied.
        assert_eq!(cache.spare(TableId(2), &five, &segments, &mut all(&segments)).blocks, 0);
        let null = Form::of_column(ColumnId(0), Constraint::Null);
        assert_eq!(cache.spare(TABLE, &null, &segments, &mut all(&segments)).blocks, 0);
        let listed = cache.list();
        assert_eq!(listed.len(), 1);
        let one = &listed[0];
        assert_eq!((one.blocks, one.blocks_seen, one.blocks_empty, one.hits, one.skipped), (3, 3, 1, 4, 4));
    }

    #[test]
    fn a_table_is_forgotten_alone() {
        let segments = segments(2);
        let cache = PredicateCache::new(1 << 20);
        for (table, value) in [(TABLE, 5), (TABLE, 6), (TableId(2), 5)] {
            cache.learn(table, &equal(value), &segments[0], vec![true; 3], vec![true, false, true]);
        }
        cache.forget_table(TABLE);
        let listed = cache.list();
        assert_eq!(listed.iter().map(|one| one.table).collect::<Vec<_>>(), [TableId(2)]);
        let (counted, summed) = cache.bytes();
        assert_eq!(counted, summed);
        cache.forget_table(TableId(2));
        assert!(cache.is_empty() && cache.bytes() == (0, 0));
    }

    #[test]
    fn what_is_never_true_is_not_remembered_and_reads_nothing() {
        let segments = segments(1);
        let cache = PredicateCache::new(1 << 20);
        cache.learn(TABLE, &equal(1), &segments[0], vec![true; 3], vec![true; 3]);
        let of_text = Form::of_text("{Boolean|NULL}".to_owned());
        let known = cache.list()[0].hits;
        for never in [of_text.and(Form::clone(&equal(3))), Form::clone(&equal(5)).and(Form::clone(&equal(6)))] {
            let mut chosen = all(&segments);
            let spared = cache.spare(TABLE, &never, &segments, &mut chosen);
            assert_eq!(spared, Spared { blocks: 0, hits: 0, is_known: true });
            assert_eq!(chosen[0].count(), 0);
            cache.learn(TABLE, &Arc::new(never.clone()), &segments[0], vec![true; 3], vec![true; 3]);
            cache.admit(TableId(2), never, Vec::new());
        }
        let listed = cache.list();
        assert_eq!((listed.len(), listed[0].hits), (1, known), "nothing is remembered, and nothing was used");
        let (counted, held) = cache.bytes();
        assert_eq!(counted, held);
    }

    #[test]
    fn memory_is_bounded_and_counted_and_what_spared_blocks_stays_longest() {
        let segments = segments(3);
        let cache = PredicateCache::new(200_000);
        let useful = equal(-1);
        cache.learn(TABLE, &useful, &segments[0], vec![true; 3], vec![true; 3]);
        cache.spare(TABLE, &useful, &segments, &mut all(&segments));
        for round in 0..3_000 {
            cache.learn(TABLE, &equal(round), &segments[round as usize % 3], vec![true; 3], vec![false, true, false]);
            let (counted, held) = cache.bytes();
            assert_eq!(counted, held);
            assert!(counted <= 200_000, "{counted}");
        }
        assert!(cache.list().iter().any(|one| one.form == useful), "it has spared blocks");
        assert!(cache.list().iter().any(|one| one.form == equal(2_999)), "it is the newest");
        assert!(!cache.list().iter().any(|one| one.form == equal(0)));
        let large = PredicateCache::new(1 << 30);
        (0..2_000).for_each(|round| large.learn(TABLE, &equal(round), &segments[0], vec![true; 3], vec![true; 3]));
        assert!(large.list().len() <= PREDICATES_MAX);
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let segments = segments(2);
        let cache = PredicateCache::new(1 << 20);
        for segment in &segments {
            cache.learn(TABLE, &equal(1), segment, vec![true; 3], vec![true; 3]);
            cache.learn(TableId(2), &equal(1), segment, vec![true; 3], vec![true; 3]);
        }
        let ids: HashSet<SegmentId> = [segments[1].meta().id].into();
        cache.retain(|table| table == TABLE, &ids);
        assert_eq!(
            cache.list().iter().map(|one| (one.table, one.segment)).collect::<Vec<_>>(),
            [(TABLE, segments[1].meta().id)]
        );
        let (counted, held) = cache.bytes();
        assert_eq!(counted, held);
        cache.retain(|_| true, &HashSet::new());
        assert_eq!((cache.bytes(), cache.is_empty()), ((0, 0), true));
    }
}
