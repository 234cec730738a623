//! Keys and codes that belong to other values: seen by whoever has the dictionaries, though every checksum and summary holds.

use crate::common::{Random, context, dictionaries, disk, rows, table, taken};
use alluvia_catalog::Dictionaries;
use alluvia_space::{KeyLayout, KeyRange, TableDef};
use alluvia_storage::Disk;
use alluvia_tree::{BLOCK_ROWS, LadderWriter, Mapping, RowChunk, Segment};
use alluvia_types::{ErrorKind, Result, SegmentId, Stage};
use std::path::PathBuf;
use std::sync::Arc;

const ROWS: usize = BLOCK_ROWS + 800;

/// Writes rows with a ladder after `change` was made to them, and verifies them by the dictionaries that their codes are of, and by
/// empty ones.
fn verified(seed: u64, with_dimensions: bool, change: impl FnOnce(&mut RowChunk)) -> (Result<()>, Result<()>) {
    let (disk, mut table) = (disk(), table(with_dimensions));
    if let Some(time) = table.dimensions.get_mut(3) {
        time.range = KeyRange::Linear { low: -1e13, high: 1e13 };
    }
    let (context, dictionaries) = (context(&disk), dictionaries(&disk, &table));
    let mut chunk = in_key_order(&table, &dictionaries, seed);
    change(&mut chunk);
    let mut ids = 1..;
    let new_id = || SegmentId(ids.next().expect("without end"));
    let mut writer =
        LadderWriter::create(&context, new_id, &table, Stage::Merged, None, ROWS as u64, 100).expect("creates");
    writer.write(&chunk).expect("writes");
    let segment = Segment::open(&context, writer.finish().expect("finishes")).expect("opens");
    assert!(!segment.rungs().is_empty());
    segment.verify(&table).expect("sound in itself");
    let none = Dictionaries::create(Arc::clone(&disk) as Arc<dyn Disk>, PathBuf::from("/db/dict-2"), &table);
    let none = none.expect("dictionaries");
    let by = |dictionaries: &Dictionaries| segment.verify_mapped(&table, &Mapping::new(&table, dictionaries));
    (by(&dictionaries), by(&none))
}

fn in_key_order(table: &TableDef, dictionaries: &Dictionaries, seed: u64) -> RowChunk {
    let rows = rows(table, &mut Random(seed), ROWS, 50, 9, 5);
    let keys = KeyLayout::new(table).keys(&rows).expect("keys");
    let codes = dictionaries.remap(table, &rows).expect("codes");
    let mut order: Vec<u32> = (0..ROWS as u32).collect();
    order.sort_by_key(|&row| keys[row as usize]);
    let sorted = order.iter().map(|&row| keys[row as usize]).collect();
    taken(&RowChunk::new(rows, keys, codes), &order, sorted)
}

#[test]
fn what_the_values_make_is_sound() {
    for seed in 1..5 {
        let (by_members, by_none) = verified(seed, true, |_| {});
        by_members.expect("sound");
        let error = by_none.expect_err("members that a dictionary does not have are none");
        assert!(error.message().contains("its value is in no dictionary"), "{error}");
        let (by_members, by_none) = verified(seed, false, |_| {});
        by_members.and(by_none).expect("sound without dimensions");
    }
}

#[test]
fn a_code_of_another_member_is_found_at_every_level() {
    let names = ["store.country", "store.city", "item.item", "number.c3", "time.year", "time.day"];
    for (level, name) in names.into_iter().enumerate() {
        let row = BLOCK_ROWS + 300 + level;
        let swap = |chunk: &mut RowChunk| {
            let codes = &mut chunk.codes.levels[level];
            let other = codes.iter().copied().find(|&code| code > 0 && code != codes[row]).expect("two members");
            codes[row] = other;
        };
        let error = verified(7, true, swap).0.expect_err("another member's");
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        let place = format!("/db/segments/seg-1.side, block 1, row {}: the code of level '{name}'", 300 + level);
        assert!(error.message().contains(&place), "{error}");
    }
}

#[test]
fn a_key_of_another_place_is_found() {
    let error = verified(8, true, |chunk| chunk.keys[ROWS - 1] += 1).0.expect_err("another key");
    let place = format!("block 1, row {}: the key is", ROWS - 1 - BLOCK_ROWS);
    assert!(error.message().contains(&place), "{error}");
    // A table without dimensions has one key.
    let error = verified(9, false, |chunk| chunk.keys[ROWS - 1] = 1).0.expect_err("another key");
    assert!(error.message().contains(&place), "{error}");
}
