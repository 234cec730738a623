//! What heaps take in memory is bounded, whatever they were foreseen to take, and however it comes.

use super::{Batch, Rest, entry, fed, rows};
use crate::{FedBatch, FedKey, Heap, Heaps};
use alluvia_catalog::TableEntry;
use alluvia_space::key_code::KeyCoder;
use alluvia_types::{ManualClock, TableId, Version};
use arrow::compute::concat_batches;
use std::sync::Arc;
use std::time::Duration;

const KIB: usize = 1 << 10;

/// A row with a text of so many bytes.
fn wide(bytes: usize) -> Rest {
    (None, Some("x".repeat(bytes)), None, None, None)
}

/// The same table under another number.
fn table(number: u32) -> Arc<TableEntry> {
    let entry = entry();
    let mut def = entry.def.as_ref().clone();
    def.id = TableId(number);
    Arc::new(TableEntry::new(Arc::new(def), Version(1)))
}

fn heaps(bytes_max: usize) -> (Arc<ManualClock>, Heaps) {
    let clock = Arc::new(ManualClock::default());
    let heaps = Heaps::new(Arc::<ManualClock>::clone(&clock));
    heaps.set_bytes_max(bytes_max);
    (clock, heaps)
}

fn begun(heaps: &Heaps, entry: &Arc<TableEntry>, foreseen: usize) -> Option<Arc<Heap>> {
    heaps.begin(entry, Version(1), foreseen, &mut Vec::new())
}

#[test]
fn what_nobody_reads_is_given_up_at_its_bound() {
    let entry = entry();
    let coder = KeyCoder::new(&entry.def).unwrap();
    let heap = Heap::new(&entry, Version(1), 0, usize::MAX).unwrap();
    heap.loaded();
    let one = rows(&[((1, "a".to_owned()), (None, None, None, None, None))]);
    let code = coder.codes(&one).unwrap()[0];
    let many = concat_batches(one.schema_ref(), std::iter::repeat_n(&one, 2)).unwrap();
    let key = |at: u128| FedKey { code: code + at, ordinal: None };
    for version in 2..20 {
        let keys = (0..10_000).map(|at| key(at + u128::from(version) * 10_000)).collect();
        heap.feed(FedBatch { version: Version(version), rows: Some(many.clone()), bytes: 100, keys });
    }
    assert!(heap.is_given_up() && heap.read(Version(1)).is_none());
}

#[test]
fn a_heap_that_grows_beyond_its_share_is_given_up_by_who_reads() {
    let entry = entry();
    let coder = KeyCoder::new(&entry.def).unwrap();
    let heap = Heap::new(&entry, Version(1), 0, 256 * KIB).unwrap();
    heap.loaded();
    for version in 2..100 {
        let batch: Batch = vec![((version as i32, "a".to_owned()), Some(wide(16 * KIB)))];
        // What rows take shows when they are applied.
        heap.feed(FedBatch { bytes: 0, ..fed(version, &batch, &coder) });
        let is_read = heap.read(Version(version)).is_some();
        assert_eq!(is_read, !heap.is_given_up());
        assert!(heap.bytes() <= 256 * KIB);
        if !is_read {
            // What it had went at once.
            assert_eq!((heap.bytes(), heap.read_followed().is_none()), (0, true));
            return;
        }
    }
    panic!("it has grown without a bound");
}

#[test]
fn a_heap_that_is_loaded_beyond_its_share_is_given_up() {
    let heap = Heap::new(&entry(), Version(1), 10, 64 * KIB).unwrap();
    assert_eq!(heap.bytes(), 10);
    let one = |a: i32| rows(&[((a, "a".to_owned()), wide(40 * KIB))]);
    assert!(heap.load(&one(1)).unwrap() && !heap.load(&one(2)).unwrap());
    assert!(heap.is_given_up() && heap.bytes() == 10);
}

#[test]
fn rows_that_wait_count_and_are_bounded_by_bytes() {
    let (_, heaps) = heaps(512 * KIB);
    let entry = entry();
    let coder = KeyCoder::new(&entry.def).unwrap();
    let heap = begun(&heaps, &entry, 0).unwrap();
    heap.loaded();
    let mut gone = Vec::new();
    for version in 2..100 {
        let batch: Batch = vec![((1, "a".to_owned()), Some(wide(16 * KIB)))];
        let before = heaps.bytes();
        gone = heaps.feed(entry.def.id, Some(fed(version, &batch, &coder)));
        if !gone.is_empty() {
            break;
        }
        assert!(heaps.bytes() >= before + 16 * KIB && heaps.bytes() <= 256 * KIB);
    }
    assert!(gone.len() == 1 && Arc::ptr_eq(&gone[0], &heap));
    assert!(heap.is_given_up() && heap.read(Version(1)).is_none() && heaps.bytes() == 0);
}

#[test]
fn together_heaps_take_no_more_than_they_may() {
    let (clock, heaps) = heaps(200 * KIB);
    let tables = [table(1), table(2), table(3)];
    let coder = KeyCoder::new(&tables[0].def).unwrap();
    for entry in &tables {
        begun(&heaps, entry, 0).unwrap().loaded();
        clock.advance(Duration::from_secs(1));
    }
    // The first one was asked for last.
    assert!(heaps.of(&tables[0]).is_some());
    let mut gone = Vec::new();
    for entry in &tables {
        let batch: Batch = vec![((1, "a".to_owned()), Some(wide(80 * KIB)))];
        gone.extend(heaps.feed(entry.def.id, Some(fed(2, &batch, &coder))));
    }
    let gone: Vec<TableId> = gone.iter().map(|heap| heap.entry().def.id).collect();
    assert_eq!(gone, [TableId(2)]);
    assert!(!heaps.is_over() && heaps.of(&tables[0]).is_some() && heaps.of(&tables[2]).is_some());
}

#[test]
fn what_is_foreseen_counts_until_it_is_loaded() {
    let (_, heaps) = heaps(100);
    assert!(begun(&heaps, &table(1), 51).is_none(), "more than a share");
    assert!(begun(&heaps, &table(2), 50).is_some() && begun(&heaps, &table(3), 50).is_some());
    assert!(begun(&heaps, &table(4), 1).is_none(), "the others are loading");
    assert!(begun(&heaps, &table(3), 1).is_none() && !heaps.is_refused(&table(3)), "it has one");
}

#[test]
fn a_heap_that_nobody_asks_for_makes_room_for_another() {
    let (clock, heaps) = heaps(200 * KIB);
    let tables = [table(1), table(2), table(3)];
    for entry in &tables[..2] {
        let heap = begun(&heaps, entry, 90 * KIB).unwrap();
        assert!(heap.load(&rows(&[((1, "a".to_owned()), wide(80 * KIB))])).unwrap());
        heap.loaded();
    }
    assert!(begun(&heaps, &tables[2], 60 * KIB).is_none(), "both were asked for lately");
    clock.advance(Duration::from_secs(60));
    // The first one is asked for again.
    assert!(heaps.of(&tables[0]).is_some());
    let mut gone = Vec::new();
    assert!(heaps.begin(&tables[2], Version(1), 60 * KIB, &mut gone).is_some());
    let gone: Vec<(TableId, bool)> = gone.iter().map(|heap| (heap.entry().def.id, heap.is_given_up())).collect();
    assert_eq!(gone, [(TableId(2), true)]);
    assert!(heaps.of(&tables[0]).is_some() && heaps.of(&tables[1]).is_none() && !heaps.is_over());
}

#[test]
fn a_table_that_is_refused_is_tried_again_later_and_by_another_definition() {
    let (clock, heaps) = heaps(100);
    let entry = table(1);
    assert!(begun(&heaps, &entry, 51).is_none() && heaps.is_refused(&entry));
    let changed = TableEntry::new(Arc::clone(&entry.def), Version(9));
    assert!(!heaps.is_refused(&changed) && !heaps.is_refused(&table(2)));
    clock.advance(Duration::from_secs(59));
    assert!(heaps.is_refused(&entry));
    clock.advance(Duration::from_secs(1));
    assert!(!heaps.is_refused(&entry));
    heaps.refuse(&entry);
    assert!(heaps.keep(|_| Some(Version(9))).is_empty() && !heaps.is_refused(&entry));
}

#[test]
fn one_that_is_given_up_does_not_take_its_successor_along() {
    let (_, heaps) = heaps(100);
    let entry = table(1);
    let first = begun(&heaps, &entry, 10).unwrap();
    heaps.end(&first);
    let second = begun(&heaps, &entry, 10).unwrap();
    heaps.end(&first);
    assert!(first.is_given_up() && !second.is_given_up() && heaps.of(&entry).is_some());
    drop(heaps.feed(entry.def.id, None));
    assert!(second.is_given_up() && heaps.of(&entry).is_none());
}
