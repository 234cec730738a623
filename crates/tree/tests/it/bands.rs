//! Banded segments: merges read them back in key order, samples are their blocks' first rows, and a check finds what lies elsewhere.

use crate::common::*;
use alluvia_space::weight::weight_limit;
use alluvia_space::{Ladder, ORDINAL_COLUMN, TableDef, TableOptions};
use alluvia_tree::{BLOCK_ROWS, LadderWriter, RowChunk, Segment, SegmentCursor, TreeContext};
use alluvia_types::{ErrorKind, SegmentId, Stage};
use arrow::array::*;
use arrow::datatypes::{DataType, UInt64Type};
use proptest::prelude::*;
use std::sync::Arc;

/// A segment of rows that lie in bands, with its ladder.
fn write(context: &TreeContext, table: &TableDef, chunk: &RowChunk, piece: usize) -> Arc<Segment> {
    let mut ids = 1..;
    let new_id = || SegmentId(ids.next().expect("without end"));
    let rows = chunk.len() as u64;
    let writer = LadderWriter::create(context, new_id, table, Stage::Merged, None, rows, 20).expect("creates");
    let mut writer = writer.banded();
    for at in (0..chunk.len()).step_by(piece) {
        writer.write(&slice(chunk, at, piece.min(chunk.len() - at))).expect("writes");
    }
    Segment::open(context, writer.finish().expect("finishes")).expect("opens")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn rows_come_back_in_key_order_and_samples_come_first(
        seed: u64,
        count in prop_oneof![1usize..3_000, 1usize..40_000],
        shared in prop::sample::select(vec![0u32, 100, 128]),
        blocks in 1usize..4,
        cut in (0.0f64..1.0, 0.0f64..1.0),
        chunk_rows in prop::sample::select(vec![1usize, 5_000, 65_536]),
    ) {
        let mut random = Random(seed | 1);
        let disk = disk();
        let (context, table) = (context(&disk), table(true));
        let dictionaries = dictionaries(&disk, &table);
        let rows = rows(&table, &mut random, count, 50, 9, 5);
        let keys = keys(&mut random, count, shared);
        let ordered = chunk(&table, &dictionaries, rows, keys);
        let lying = banded(&ordered, table.seed);
        let segment = write(&context, &table, &lying, blocks * BLOCK_ROWS);
        segment.verify(&table).expect("verifies");
        let meta = segment.meta();
        prop_assert_eq!((meta.key_min, meta.key_max), (ordered.keys[0], ordered.keys[count - 1]));

        // Rows of one key come in bands.
        let by_key = |chunk: &RowChunk| {
            let mut rows: Vec<(u128, u64)> = chunk.keys.iter().copied().zip(weights(chunk, table.seed)).collect();
            rows.sort_unstable();
            rows
        };
        let (from, to) = ((cut.0 * count as f64) as u64, (cut.1 * count as f64) as u64);
        for range in [0..count as u64, from.min(to)..from.max(to)] {
            let cursor = SegmentCursor::new(&segment, &table, &dictionaries, range.clone(), chunk_rows).expect("a cursor");
            let read: Vec<RowChunk> = cursor.map(|chunk| chunk.expect("a chunk")).filter(|chunk| !chunk.is_empty()).collect();
            prop_assert_eq!(read.iter().map(RowChunk::len).sum::<usize>() as u64, range.end - range.start);
            if range.is_empty() {
                continue;
            }
            let read = join(&read);
            prop_assert_eq!(&read.keys, &ordered.keys[range.start as usize..range.end as usize]);
            if range.end - range.start == count as u64 {
                prop_assert_eq!(by_key(&read), by_key(&ordered));
                // Whole rows, not only their keys: each identity has its values.
                let in_order = |chunk: &RowChunk| {
                    let weights = weights(chunk, table.seed);
                    let mut places: Vec<u32> = (0..chunk.len() as u32).collect();
                    places.sort_by_key(|&place| weights[place as usize]);
                    taken(chunk, &places, Vec::new())
                };
                let (read, expected) = (in_order(&read), in_order(&ordered));
                prop_assert_eq!(&read.rows, &plain(&expected.rows));
                prop_assert_eq!(&read.codes, &expected.codes);
            }
        }

        // Each row has its number, wherever it lies.
        let ordinals = |rows: &RecordBatch| {
            rows.column_by_name(ORDINAL_COLUMN).expect("hidden").as_primitive::<UInt64Type>().values().to_vec()
        };
        let as_they_lie = ordinals(&lying.rows);
        let range = from.min(to)..from.max(to);
        let mut cursor = SegmentCursor::new(&segment, &table, &dictionaries, range.clone(), chunk_rows).expect("a cursor");
        let mut numbers = Vec::new();
        while let Some(chunk) = cursor.next_ordered().expect("a chunk") {
            let first = chunk.number(0) as usize;
            prop_assert_eq!(ordinals(&chunk.rows().rows), &as_they_lie[first..first + chunk.rows().len()]);
            numbers.extend((0..chunk.len()).map(|at| first + chunk.place(at)));
        }
        prop_assert_eq!(numbers.len() as u64, range.end - range.start);
        prop_assert!(numbers.iter().zip(&ordered.keys[range.start as usize..]).all(|(&row, &key)| lying.keys[row] == key));
        let batches = segment.column_batches(&[(ORDINAL_COLUMN, DataType::UInt64)]).expect("reads");
        let read: Vec<u64> = batches.flat_map(|batch| ordinals(&batch.expect("a batch"))).collect();
        prop_assert_eq!(read, as_they_lie);

        // Ranges of keys, counted in key order.
        for _ in 0..4 {
            let mut pick = || ordered.keys[random.below(count as u64) as usize];
            let (low, high) = (pick(), pick());
            let before = ordered.keys.partition_point(|&key| key < low) as u64;
            let through = ordered.keys.partition_point(|&key| key <= high) as u64;
            let found = segment.rows_in(low, high).expect("rows");
            prop_assert_eq!(found.end - found.start, through.saturating_sub(before));
            prop_assert!(found.is_empty() || found.start == before);
        }

        // A sample is in the first rows of each block.
        let bands = segment.bands().expect("reads");
        let bands = bands.as_ref().as_ref().expect("the segment is banded");
        let weights = segment.weights(0..count as u64, table.seed).expect("weights");
        for fraction in [0.0, 0.01, 0.125, 0.3, 0.9375, 0.95] {
            let limit = weight_limit(fraction).expect("a part");
            for (block, weights) in weights.chunks(BLOCK_ROWS).enumerate() {
                let first = bands.rows_below(block, limit) as usize;
                prop_assert!(weights[first..].iter().all(|&weight| weight >= limit));
                let most = (fraction * 16.0).ceil() / 16.0;
                prop_assert!(weights[..first].iter().all(|&weight| weight_limit(most).is_none_or(|most| weight < most)));
            }
        }
    }
}

/// Rungs of several blocks, which begin where blocks of the segment do not.
#[test]
fn thick_rungs_pass_a_check() {
    for seed in 1..=6 {
        let disk = disk();
        let (context, table) = (context(&disk), table(true));
        let table = TableDef { options: TableOptions { ladder: Ladder::Half, ..TableOptions::default() }, ..table };
        let dictionaries = dictionaries(&disk, &table);
        let mut random = Random(seed);
        let rows = rows(&table, &mut random, 40_000, 50, 9, 5);
        let keys = keys(&mut random, 40_000, 0);
        let ordered = chunk(&table, &dictionaries, rows, keys);
        let segment = write(&context, &table, &banded(&ordered, table.seed), 2 * BLOCK_ROWS);
        assert!(segment.rungs()[0].segment.blocks() > 2, "{} rows", segment.rungs()[0].segment.meta().rows);
        segment.verify(&table).expect("verifies");
    }
}

#[test]
#[should_panic(expected = "lie in bands")]
fn rows_in_key_order_are_no_banded_ones() {
    let disk = disk();
    let (context, table) = (context(&disk), table(true));
    let dictionaries = dictionaries(&disk, &table);
    let mut random = Random(3);
    let rows = rows(&table, &mut random, 1_000, 50, 9, 5);
    let keys = keys(&mut random, 1_000, 0);
    write(&context, &table, &chunk(&table, &dictionaries, rows, keys), BLOCK_ROWS);
}

/// Under another seed the rows would lie elsewhere.
#[test]
fn a_check_finds_rows_that_lie_in_other_bands() {
    let disk = disk();
    let (context, table) = (context(&disk), table(true));
    let dictionaries = dictionaries(&disk, &table);
    let mut random = Random(4);
    let rows = rows(&table, &mut random, 9_000, 50, 9, 5);
    let keys = keys(&mut random, 9_000, 0);
    let segment = write(&context, &table, &banded(&chunk(&table, &dictionaries, rows, keys), table.seed), BLOCK_ROWS);
    segment.verify(&table).expect("verifies");
    let other = TableDef { seed: table.seed + 1, ..table };
    let error = segment.verify(&other).expect_err("is found");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.message().contains("the rows of block 0 do not lie in bands by weight"), "{error}");
}
