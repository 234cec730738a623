//! A ladder's rungs are the rows of low weight, whatever the pieces they were written in; losing one loses no row.
#![allow(clippy::disallowed_methods)] // this test damages files

use crate::common::{DIR, Random, context, dictionaries, disk, join, keys, plain, rows, slice, table, weights};
use alluvia_space::weight::{STAGED_ORDINAL_MIN, weight, weight_limit};
use alluvia_space::{Ladder, TableDef, TableOptions};
use alluvia_storage::{Disk, FaultDisk};
use alluvia_tree::{BLOCK_ROWS, LadderWriter, RowChunk, Segment, SegmentCursor, SegmentMeta, TreeContext, rung_limit};
use alluvia_types::{ErrorKind, Result, SegmentId, Stage, Version};
use arrow::array::*;
use std::path::Path;
use std::sync::Arc;

const ROWS_MIN: u64 = 20;

fn write(context: &TreeContext, table: &TableDef, chunk: &RowChunk, pieces: &[usize]) -> Result<SegmentMeta> {
    let mut ids = 1..;
    let new_id = || SegmentId(ids.next().expect("without end"));
    let rows = chunk.len() as u64;
    let mut writer = LadderWriter::create(context, new_id, table, Stage::Merged, None, rows, ROWS_MIN)?;
    let (mut at, mut piece) = (0, 0);
    while at < chunk.len() {
        let len = pieces[piece % pieces.len()].min(chunk.len() - at);
        writer.write(&slice(chunk, at, len))?;
        (at, piece) = (at + len, piece + 1);
    }
    writer.finish()
}

struct Written {
    disk: Arc<FaultDisk>,
    context: TreeContext,
    table: TableDef,
    chunk: RowChunk,
    dictionaries: alluvia_catalog::Dictionaries,
    meta: SegmentMeta,
}

fn written(seed: u64, count: usize, pieces: &[usize], shared_key_bits: u32) -> Written {
    written_from(Ladder::default(), seed, count, pieces, shared_key_bits)
}

fn written_from(ladder: Ladder, seed: u64, count: usize, pieces: &[usize], shared_key_bits: u32) -> Written {
    let options = TableOptions { ladder, ..TableOptions::default() };
    let (disk, table) = (disk(), TableDef { options, ..table(true) });
    let (context, dictionaries) = (context(&disk), dictionaries(&disk, &table));
    let mut random = Random(seed);
    let rows = rows(&table, &mut random, count, 50, 9, 5);
    let keys = keys(&mut random, count, shared_key_bits);
    let chunk = crate::common::chunk(&table, &dictionaries, rows, keys);
    let meta = write(&context, &table, &chunk, pieces).expect("writes");
    Written { disk, context, table, chunk, dictionaries, meta }
}

#[test]
fn rungs_are_the_rows_of_low_weight_in_order() {
    for (ladder, seed, count, pieces, shared) in [
        (Ladder::Eighth, 1, 30_000, vec![30_000], 0),
        (Ladder::Eighth, 2, 30_000, vec![1, 8_191, 1, 5_000], 64),
        (Ladder::Eighth, 3, 2 * BLOCK_ROWS, vec![BLOCK_ROWS], 128),
        (Ladder::Eighth, 4, 3_000, vec![7, 100], 0),
        (Ladder::Quarter, 1, 30_000, vec![30_000], 0),
        (Ladder::Quarter, 4, 3_000, vec![7, 100], 0),
        (Ladder::Half, 2, 30_000, vec![1, 8_191, 1, 5_000], 64),
        (Ladder::Half, 3, 2 * BLOCK_ROWS, vec![BLOCK_ROWS], 128),
    ] {
        let Written { context, table, chunk, dictionaries, meta, .. } =
            written_from(ladder, seed, count, &pieces, shared);
        let segment = Segment::open(&context, meta.clone()).expect("opens");
        segment.verify(&table).expect("verifies");
        let weights = weights(&chunk, table.seed);
        assert_eq!(segment.weights(0..count as u64, table.seed).expect("weights"), weights);
        let thinnest = (count as f64 / ROWS_MIN as f64).log2() as u32;
        let rungs: Vec<u32> = segment.rungs().iter().map(|rung| rung.rung).collect();
        assert_eq!(rungs, (ladder.first_rung()..=thinnest).collect::<Vec<_>>(), "{count} rows");
        for rung in segment.rungs() {
            let limit = rung_limit(rung.rung).expect("a limit");
            let kept: BooleanArray = weights.iter().map(|&weight| Some(weight < limit)).collect();
            let expected = arrow::compute::filter_record_batch(&plain(&chunk.rows), &kept).expect("filters");
            let all = 0..rung.segment.meta().rows;
            let cursor = SegmentCursor::new(&rung.segment, &table, &dictionaries, all, 1_000).expect("a cursor");
            let read = join(&cursor.map(|chunk| chunk.expect("a chunk")).collect::<Vec<_>>());
            assert_eq!(read.rows, expected);
            let keys: Vec<u128> =
                chunk.keys.iter().zip(&weights).filter(|(_, weight)| **weight < limit).map(|(key, _)| *key).collect();
            assert_eq!(read.keys, keys);
            let first_rows = rung.segment.first_rows().expect("known");
            let before = |row: usize| weights[..row].iter().filter(|&&weight| weight < limit).count() as u32;
            let starts = (0..count).step_by(BLOCK_ROWS).chain([count]);
            assert_eq!(*first_rows, starts.map(before).collect::<Vec<_>>());
            let light = (0..count).filter(|&row| weights[row] < limit);
            let places: Vec<u16> = light.map(|row| (row % BLOCK_ROWS) as u16).collect();
            assert_eq!(rung.segment.places().expect("known").as_ref(), &Some(places));
        }
    }
}

#[test]
fn the_thinnest_rung_that_holds_a_fraction_is_found() {
    let fractions = [0.51, 0.5, 0.3, 0.25, 0.126, 0.125, 0.1, 0.06, 0.015625, 0.001, 1e-9];
    let thin: [Option<u32>; 6] = [Some(3), Some(3), Some(4), Some(6), Some(9), Some(9)];
    for (ladder, thick) in [
        (Ladder::Half, [None, Some(1), Some(1), Some(2), Some(2)]),
        (Ladder::Quarter, [None, None, None, Some(2), Some(2)]),
        (Ladder::Eighth, [None; 5]),
    ] {
        let Written { context, meta, .. } = written_from(ladder, 5, 20_000, &[20_000], 0);
        let segment = Segment::open(&context, meta).expect("opens");
        let rung = |fraction: f64| segment.rung_for(weight_limit(fraction).expect("a part")).map(|rung| rung.rung);
        assert_eq!(fractions.map(rung)[..], [&thick[..], &thin[..]].concat(), "from {} on", ladder.name());
    }
}

#[test]
fn every_region_has_its_share_of_every_sample() {
    // Ordinals and versions go along with the key, as in data that comes in the order of a dimension.
    let count = 1 << 20;
    for seed in [1, 42] {
        let weights: Vec<u64> =
            (0..count).map(|row: u64| weight(Version(1 + row / 5_000), row % 5_000, seed)).collect();
        for fraction in [0.001, 0.01, 0.05, 0.125, 0.3, 0.5, 0.9, 0.99] {
            let limit = weight_limit(fraction).expect("a part");
            for region in [1 << 14, 1 << 16, 1 << 18, 1 << 20] {
                for rows in weights.chunks(region) {
                    let taken = rows.iter().filter(|&&weight| weight < limit).count() as f64;
                    let sigma = (region as f64 * fraction * (1.0 - fraction)).sqrt();
                    let off = (taken - region as f64 * fraction) / sigma;
                    assert!(off.abs() < 4.0, "fraction {fraction}, regions of {region}: {off} sigma");
                }
            }
        }
    }
}

#[test]
fn staged_rows_have_the_ladder_that_they_will_have_when_merged() {
    let (disk, table) = (disk(), table(false));
    let (context, dictionaries) = (context(&disk), dictionaries(&disk, &table));
    let mut random = Random(9);
    let batch = rows(&table, &mut random, 9_000, 30, 5, 0);
    let mut columns = batch.columns().to_vec();
    let last = columns.len() - 1;
    let ordinals: ArrayRef =
        Arc::new(UInt64Array::from_iter_values((0..9_000).map(|row| STAGED_ORDINAL_MIN * 3 + row)));
    columns[last] = Arc::clone(&ordinals);
    let staged = RecordBatch::try_new(batch.schema(), columns.clone()).expect("fits");
    columns[last - 1] = Arc::new(UInt64Array::from(vec![77; 9_000]));
    let merged = RecordBatch::try_new(batch.schema(), columns).expect("fits");
    let mut ids = 1..;
    let mut rungs = Vec::new();
    for (rows, fixed) in [(staged, Some(Version(0))), (merged, None)] {
        let chunk = crate::common::chunk(&table, &dictionaries, rows, vec![0; 9_000]);
        let new_id = || SegmentId(ids.next().expect("without end"));
        let mut writer =
            LadderWriter::create(&context, new_id, &table, Stage::Sorted, fixed, 9_000, ROWS_MIN).expect("creates");
        writer.write(&chunk).expect("writes");
        let mut meta = writer.finish().expect("finishes");
        if fixed.is_some() {
            meta = meta.committed_as(Version(77));
            assert!(meta.with_rungs().all(|meta| meta.fixed_version == Some(Version(77))));
        }
        let segment = Segment::open(&context, meta).expect("opens");
        segment.verify(&table).expect("verifies");
        let ordinals = |rung: &alluvia_tree::Rung| -> Vec<u64> {
            let identities = rung.segment.identities(0..rung.segment.meta().rows).expect("identities");
            identities.into_iter().map(|(_, ordinal)| ordinal).collect()
        };
        rungs.push(segment.rungs().iter().map(ordinals).collect::<Vec<_>>());
    }
    assert_eq!(rungs[0].len(), 6);
    assert_eq!(rungs[0], rungs[1]);
}

#[test]
fn a_lost_rung_is_done_without_and_found_by_a_check() {
    let Written { disk, context, table, meta, .. } = written(6, 20_000, &[20_000], 0);
    assert_eq!(meta.rungs.len(), 7);
    let lost = meta.rungs[1].segment.id;
    disk.remove(&Path::new(DIR).join(format!("seg-{lost}.side"))).expect("removes");
    let segment = Segment::open(&context, meta.clone()).expect("opens all the same");
    assert_eq!(segment.rungs().iter().map(|rung| rung.rung).collect::<Vec<_>>(), [3, 5, 6, 7, 8, 9]);
    let error = segment.verify(&table).expect_err("a rung is missing");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.message().starts_with("rung 4 of segment 1: "), "{error}");
}

#[test]
fn a_damaged_rung_is_found() {
    let Written { disk, context, table, chunk, meta, .. } = written(7, 20_000, &[20_000], 0);
    let rung = &meta.rungs[0].segment;
    disk.corrupt(&Path::new(DIR).join(format!("seg-{}.parquet", rung.id)), rung.parquet_bytes / 2, 4);
    let error = Segment::open(&context, meta.clone()).and_then(|segment| segment.verify(&table)).expect_err("damaged");
    assert!(error.message().contains(&format!("seg-{}.parquet", rung.id)), "{error}");

    // Sound files that are not this segment's ladder.
    let other = SegmentMeta { rungs: written_into(&context, &table, &chunk, 19_000), ..meta };
    let error = Segment::open(&context, other).and_then(|segment| segment.verify(&table)).expect_err("another's");
    assert!(error.message().contains("its rows are not those of low weight"), "{error}");
}

#[test]
fn a_rung_of_the_same_rows_with_other_values_is_found() {
    let Written { context, table, mut chunk, meta, .. } = written(8, 20_000, &[20_000], 0);
    let mut columns = chunk.rows.columns().to_vec();
    let place = chunk.rows.schema().index_of("c2").expect("a column");
    columns[place] = Arc::new(Int32Array::from(vec![7; chunk.len()]));
    chunk.rows = RecordBatch::try_new(chunk.rows.schema(), columns).expect("fits");
    let other = SegmentMeta { rungs: written_into(&context, &table, &chunk, 20_000), ..meta };
    let error = Segment::open(&context, other).and_then(|segment| segment.verify(&table)).expect_err("another's");
    assert!(error.message().starts_with("rung 3 of segment 1: "), "{error}");
    assert!(error.message().contains("row 0: column c2 has another value"), "{error}");
}

/// Where rows of other weights lie between them, the rungs have the same rows, and as many of each block.
#[test]
fn a_rung_whose_rows_lie_elsewhere_in_their_blocks_is_found() {
    // All keys are alike, so that any order will do.
    let Written { context, table, chunk, meta, .. } = written(8, 2 * BLOCK_ROWS, &[2 * BLOCK_ROWS], 128);
    let weights = weights(&chunk, table.seed);
    let limit = rung_limit(3).expect("a limit");
    let mut order: Vec<u32> = (0..chunk.len() as u32).collect();
    order.sort_by_key(|&row| (row as usize / BLOCK_ROWS, weights[row as usize] >= limit));
    let reordered = crate::common::taken(&chunk, &order, chunk.keys.clone());
    let other = SegmentMeta { rungs: written_into(&context, &table, &reordered, chunk.len()), ..meta };
    let error = Segment::open(&context, other).and_then(|segment| segment.verify(&table)).expect_err("another's");
    assert!(error.message().starts_with("rung 3 of segment 1: "), "{error}");
    assert!(error.message().contains("where its rows lie in their blocks"), "{error}");
}

/// The ladder of another segment over a part of the rows.
fn written_into(
    context: &TreeContext,
    table: &TableDef,
    chunk: &RowChunk,
    count: usize,
) -> Vec<alluvia_tree::RungMeta> {
    let mut ids = 100..;
    let new_id = || SegmentId(ids.next().expect("without end"));
    let mut writer =
        LadderWriter::create(context, new_id, table, Stage::Merged, None, 20_000, ROWS_MIN).expect("creates");
    writer.write(&slice(chunk, 0, count)).expect("writes");
    writer.finish().expect("finishes").rungs
}

#[test]
fn retired_segments_take_their_ladders_along() {
    let Written { disk, context, meta, .. } = written(8, 5_000, &[5_000], 0);
    let files = || disk.read_dir(Path::new(DIR)).expect("lists").len();
    assert_eq!(files(), 2 * (1 + meta.rungs.len()));
    let segment = Segment::open(&context, meta).expect("opens");
    let reading = segment.rungs()[0].clone();
    segment.retire();
    drop(segment);
    assert_eq!(files(), 2, "a rung that is still read");
    drop(reading);
    assert_eq!(files(), 0);
}

#[test]
fn a_ladder_that_fails_at_any_call_leaves_no_file() {
    let (table, mut random) = (table(true), Random(10));
    let rows = rows(&table, &mut random, 3_000, 20, 5, 3);
    let keys = keys(&mut random, 3_000, 0);
    for call in 0.. {
        let disk = disk();
        let (context, dictionaries) = (context(&disk), dictionaries(&disk, &table));
        let chunk = crate::common::chunk(&table, &dictionaries, rows.clone(), keys.clone());
        disk.limit_bytes(Some(call * 4_096));
        match write(&context, &table, &chunk, &[1_000]) {
            Ok(meta) => return assert_eq!(meta.rungs.len(), 5),
            Err(error) => assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}"),
        }
        assert!(disk.read_dir(Path::new(DIR)).expect("lists").is_empty(), "files are left behind at {call}");
    }
}
