//! What goes into a segment comes out of it, whatever the types, the pieces and the ranges.

use crate::common::*;
use alluvia_space::{Column, DataType, TableDef, VERSION_COLUMN};
use alluvia_tree::{BLOCK_ROWS, RowChunk, Segment, SegmentCursor, SegmentWriter};
use alluvia_types::{ColumnId, SegmentId, Stage, Version};
use arrow::array::*;
use arrow::compute::cast;
use arrow::datatypes::{DataType as Arrow, Field, Schema, UInt32Type, UInt64Type};
use proptest::prelude::*;
use std::sync::Arc;

/// Some TEXT columns as dictionaries, as a load or a merge hands them over.
fn with_dictionaries(chunk: &RowChunk, which: u64) -> RowChunk {
    let mut fields = Vec::new();
    let mut columns = Vec::new();
    for (at, (field, column)) in chunk.rows.schema().fields().iter().zip(chunk.rows.columns()).enumerate() {
        let text = *field.data_type() == Arrow::Utf8View;
        let column = match (text, which >> (2 * at) & 3) {
            (true, 1) => dictionary(column, Arrow::UInt32),
            (true, 2) => dictionary(column, Arrow::Int32),
            (true, 3) => cast(column, &Arrow::Utf8).expect("casts"),
            _ => Arc::clone(column),
        };
        fields.push(Field::new(field.name(), column.data_type().clone(), field.is_nullable()));
        columns.push(column);
    }
    let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("fits");
    RowChunk::new(rows, chunk.keys.clone(), chunk.codes.clone())
}

fn dictionary(column: &ArrayRef, keys: Arrow) -> ArrayRef {
    cast(column, &Arrow::Dictionary(Box::new(keys), Box::new(Arrow::Utf8))).expect("casts")
}

/// Writes the chunk in pieces of these lengths, over and over.
fn write(mut writer: SegmentWriter, chunk: &RowChunk, pieces: &[usize], which: u64) -> alluvia_tree::SegmentMeta {
    let mut done = 0;
    let mut turn = 0;
    while done < chunk.len() {
        let len = pieces[turn % pieces.len()].min(chunk.len() - done);
        writer.write(&with_dictionaries(&slice(chunk, done, len), which.rotate_left(turn as u32))).expect("writes");
        done += len;
        turn += 1;
    }
    assert_eq!(writer.rows(), chunk.len() as u64);
    writer.finish().expect("finishes")
}

/// Compares summaries with what the rows say, the slow way.
fn check_summaries(segment: &Segment, table: &TableDef, all: &RowChunk) {
    let summaries = segment.summaries().expect("summaries");
    assert_eq!(summaries.blocks(), all.len().div_ceil(BLOCK_ROWS));
    for block in 0..summaries.blocks() {
        let rows = summaries.block_rows(block);
        let (start, len) = (rows.start as usize, (rows.end - rows.start) as usize);
        let part = slice(all, start, len);
        assert_eq!(summaries.key_bounds(block), (part.keys[0], part.keys[len - 1]));
        for (level, codes) in part.codes.levels.iter().enumerate() {
            let summary = summaries.level(level).expect("a level");
            assert!(codes.iter().all(|&code| summary.may_contain(block, code)));
            assert_eq!(summary.holds_null(block), codes.contains(&0));
            assert!(!summary.may_contain(block, codes.iter().max().unwrap() + 1));
            let known = codes.iter().copied().filter(|&code| code > 0);
            assert_eq!(summary.bounds(block).0, known.clone().min().unwrap_or(0));
            assert_eq!(summary.bounds(block).1, known.max().unwrap_or(0));
        }
        for column in &table.columns {
            let values = part.rows.column_by_name(&column.storage_name).expect("a column");
            let summary = summaries.column(column.id).expect("a summary");
            assert_eq!(summary.nulls.as_primitive::<UInt32Type>().value(block), values.null_count() as u32);
            assert_eq!(summary.mins.data_type(), &column.data_type.to_arrow());
            check_bounds(values, &summary.mins.slice(block, 1), &summary.maxs.slice(block, 1));
        }
        for id in &table.measures {
            let measure = summaries.measure(*id).expect("a measure");
            let column = table.columns.iter().find(|column| column.id == *id).expect("a column");
            let values = part.rows.column_by_name(&column.storage_name).expect("a column");
            let count = measure.counts.as_primitive::<UInt32Type>().value(block);
            assert_eq!(count as usize, len - values.null_count());
        }
    }
}

fn check_bounds(values: &ArrayRef, min: &ArrayRef, max: &ArrayRef) {
    use arrow::compute::kernels::cmp::{gt_eq, lt_eq};
    if matches!(values.data_type(), Arrow::Interval(_)) {
        assert!(min.is_null(0) && max.is_null(0), "intervals have no bounds");
        return;
    }
    if values.null_count() == values.len() {
        assert!(min.is_null(0) && max.is_null(0));
        return;
    }
    assert!(min.is_valid(0));
    let holds = |result: BooleanArray| result.iter().flatten().all(|holds| holds);
    assert!(holds(gt_eq(values, &Scalar::new(Arc::clone(min))).expect("compares")));
    assert!(holds(lt_eq(values, &Scalar::new(Arc::clone(max))).expect("compares")));
    if !matches!(values.data_type(), Arrow::Utf8View | Arrow::BinaryView | Arrow::Float32 | Arrow::Float64) {
        let least = lt_eq(values, &Scalar::new(Arc::clone(min))).expect("compares");
        let most = gt_eq(values, &Scalar::new(Arc::clone(max))).expect("compares");
        assert!(least.iter().flatten().any(|is| is) && most.iter().flatten().any(|is| is), "bounds are values");
    }
}

fn read(
    segment: &Arc<Segment>,
    table: &TableDef,
    dictionaries: &alluvia_catalog::Dictionaries,
    rows: std::ops::Range<u64>,
    chunk_rows: usize,
) -> Vec<RowChunk> {
    let cursor = SegmentCursor::new(segment, table, dictionaries, rows, chunk_rows).expect("a cursor");
    cursor.map(|chunk| chunk.expect("a chunk")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn rows_keys_codes_and_summaries_come_back(
        seed in 1u64..u64::MAX,
        count in prop::sample::select(vec![1usize, 2, 100, 8191, 8192, 8193, 20_000, 140_000]),
        distinct in prop::sample::select(vec![1u64, 3, 60, 5_000, 1_000_000]),
        nulls in prop::sample::select(vec![0u64, 0, 1, 2, 50]),
        shared in prop::sample::select(vec![0u32, 40, 100, 128]),
        pieces in prop::collection::vec(prop::sample::select(vec![1usize, 777, 8192, 50_000]), 1..4),
        with_dimensions: bool,
        staged: bool,
        which: u64,
        cut in (0.0f64..1.0, 0.0f64..1.0),
        chunk_rows in prop::sample::select(vec![1000usize, 8192, 65_536]),
        // What waits does not fit: short pages, small row groups, stripes that wait in a file.
        waiting in prop::sample::select(vec![50_000usize, 2_000_000, 256 << 20]),
    ) {
        // Single rows as pieces of a large segment only cost time.
        let pieces: Vec<usize> = pieces.into_iter().map(|piece| piece.max(count / 50)).collect();
        let mut random = Random(seed);
        let disk = disk();
        let context = context(&disk).with_waiting_bytes_max(waiting);
        let table = table(with_dimensions);
        let dictionaries = dictionaries(&disk, &table);
        let batch = rows(&table, &mut random, count, distinct, nulls, if staged { 0 } else { 5 });
        let keys = if with_dimensions { keys(&mut random, count, shared) } else { vec![0; count] };
        let all = chunk(&table, &dictionaries, batch, keys);
        let fixed = staged.then_some(Version(99));
        let writer = SegmentWriter::create(&context, SegmentId(4), &table, Stage::Sorted, fixed).expect("creates");
        let meta = write(writer, &all, &pieces, which);
        prop_assert_eq!(meta.rows, count as u64);
        prop_assert_eq!((meta.key_min, meta.key_max), (all.keys[0], all.keys[count - 1]));
        let json = serde_json::to_string(&meta).expect("serialises");
        prop_assert_eq!(&serde_json::from_str::<alluvia_tree::SegmentMeta>(&json).expect("parses"), &meta);

        let segment = Segment::open(&context, meta).expect("opens");
        check_summaries(&segment, &table, &all);
        segment.verify(&table).expect("verifies");

        // All rows, then some.
        let mut expected = all.clone();
        if staged {
            let mut columns = expected.rows.columns().to_vec();
            let at = columns.len() - 2;
            columns[at] = Arc::new(UInt64Array::from_value(99, count));
            expected.rows = RecordBatch::try_new(expected.rows.schema(), columns).expect("fits");
        }
        let (from, to) = ((cut.0 * count as f64) as u64, (cut.1 * count as f64) as u64);
        for range in [0..count as u64, from.min(to)..from.max(to)] {
            let chunks = read(&segment, &table, &dictionaries, range.clone(), chunk_rows);
            prop_assert_eq!(chunks.iter().map(RowChunk::len).sum::<usize>() as u64, range.end - range.start);
            if range.is_empty() {
                continue;
            }
            let read = join(&chunks);
            let wanted = slice(&expected, range.start as usize, (range.end - range.start) as usize);
            prop_assert_eq!(&read.keys, &wanted.keys);
            prop_assert_eq!(&read.codes, &wanted.codes);
            prop_assert_eq!(&read.rows, &plain(&wanted.rows));
        }

        // Some columns, and one that the segment never had.
        let mut asked: Vec<(&str, Arrow)> =
            table.columns.iter().map(|column| (&*column.storage_name, column.data_type.to_arrow())).collect();
        asked.extend([(VERSION_COLUMN, Arrow::UInt64), ("later", Arrow::Int32)]);
        let (turn, all_columns) = (which as usize % asked.len(), plain(&expected.rows));
        asked.rotate_left(turn);
        for asked in [&asked[..1 + turn], &[("later", Arrow::Int32)], &[]] {
            let batches: Vec<RecordBatch> =
                segment.column_batches(asked).expect("reads").map(|batch| batch.expect("a batch")).collect();
            let mut first = 0;
            for batch in &batches {
                prop_assert_eq!(batch.num_rows(), BLOCK_ROWS.min(count - first));
                for ((name, data_type), values) in asked.iter().zip(batch.columns()) {
                    match all_columns.column_by_name(name) {
                        Some(all) => prop_assert_eq!(values, &all.slice(first, batch.num_rows())),
                        None => prop_assert_eq!((values.null_count(), values.data_type()), (batch.num_rows(), data_type)),
                    }
                }
                first += batch.num_rows();
            }
            prop_assert_eq!(first, count);
        }

        // Blocks, and rows by key.
        let blocks = segment.blocks();
        prop_assert_eq!(segment.keys(0..blocks).expect("keys"), all.keys.clone());
        let low = all.keys[random.below(count as u64) as usize];
        let high = all.keys[random.below(count as u64) as usize];
        for (low, high) in [(low, high), (low + 1, high), (0, low), (high, u128::MAX)] {
            let within = all.keys.iter().filter(|key| (low..=high).contains(key)).count() as u64;
            let found = segment.rows_in(low, high).expect("rows");
            prop_assert_eq!(found.end - found.start, within);
            prop_assert!(within == 0 || all.keys[found.start as usize] >= low);
            prop_assert!(within == 0 || all.keys[found.end as usize - 1] <= high);
        }
        for block in 0..blocks {
            let rows = segment.block_rows(block);
            for (level, codes) in all.codes.levels.iter().enumerate() {
                let expected = &codes[rows.start as usize..rows.end as usize];
                prop_assert_eq!(&segment.codes(level, block).expect("codes"), expected);
            }
        }
    }
}

#[test]
fn a_segment_without_rows_is_a_segment() {
    let disk = disk();
    let context = context(&disk);
    let table = table(true);
    let dictionaries = dictionaries(&disk, &table);
    let writer = SegmentWriter::create(&context, SegmentId(1), &table, Stage::Sorted, None).expect("creates");
    let segment = Segment::open(&context, writer.finish().expect("finishes")).expect("opens");
    assert_eq!((segment.meta().rows, segment.blocks()), (0, 0));
    assert!(read(&segment, &table, &dictionaries, 0..0, 100).is_empty());
    assert_eq!(segment.rows_in(0, u128::MAX).expect("rows"), 0..0);
    segment.verify(&table).expect("verifies");
}

#[test]
fn columns_added_and_dropped_later() {
    let disk = disk();
    let context = context(&disk);
    let old = table(true);
    let dictionaries = dictionaries(&disk, &old);
    let mut random = Random(9);
    let batch = rows(&old, &mut random, 10_000, 50, 5, 3);
    let all = chunk(&old, &dictionaries, batch, keys(&mut random, 10_000, 0));
    let mut writer = SegmentWriter::create(&context, SegmentId(1), &old, Stage::Merged, None).expect("creates");
    writer.write(&all).expect("writes");
    let segment = Segment::open(&context, writer.finish().expect("finishes")).expect("opens");
    let mut new = old.clone();
    new.columns.retain(|column| column.storage_name != "c0" && column.storage_name != "c11");
    for (id, data_type) in [(100, DataType::Text), (101, DataType::Double)] {
        let name = format!("new{id}");
        new.columns.insert(
            2,
            Column { id: ColumnId(id), storage_name: name.clone(), name, data_type, nullable: true, chars_max: None },
        );
    }
    let chunks = read(&segment, &new, &dictionaries, 0..10_000, 4096);
    let names: Vec<&str> = new.columns.iter().map(|column| column.storage_name.as_str()).collect();
    for part in &chunks {
        let whole = part.whole().expect("columns");
        let schema = whole.schema();
        let found: Vec<&String> = schema.fields().iter().map(|field| field.name()).collect();
        assert_eq!(found[..found.len() - 2], names);
        assert_eq!(whole.column_by_name("new100").expect("there").null_count(), part.len());
    }
    let read = join(&chunks);
    for name in ["c1", "c12", "country", "_ordinal"] {
        assert_eq!(read.rows.column_by_name(name), plain(&all.rows).column_by_name(name), "{name}");
    }
    let summaries = segment.summaries().expect("summaries");
    assert!(summaries.column(ColumnId(100)).is_none());
    segment.verify(&new).expect("verifies");
    // And on: what was read is what the next merge writes.
    let mut writer = SegmentWriter::create(&context, SegmentId(2), &new, Stage::Merged, None).expect("creates");
    chunks.iter().for_each(|part| writer.write(part).expect("writes"));
    let merged = Segment::open(&context, writer.finish().expect("finishes")).expect("opens");
    merged.verify(&new).expect("verifies");
    assert_eq!(join(&self::read(&merged, &new, &dictionaries, 0..10_000, 8192)).rows, read.rows);
}

#[test]
fn versions_are_in_the_summaries() {
    let disk = disk();
    let context = context(&disk);
    let table = table(false);
    let dictionaries = dictionaries(&disk, &table);
    let mut random = Random(3);
    let batch = rows(&table, &mut random, 20_000, 50, 0, 20_000);
    let all = chunk(&table, &dictionaries, batch, vec![0; 20_000]);
    let mut writer = SegmentWriter::create(&context, SegmentId(1), &table, Stage::Sorted, None).expect("creates");
    writer.write(&all).expect("writes");
    let meta = writer.finish().expect("finishes");
    assert_eq!((meta.min_version, meta.max_version), (Version(7), Version(20_006)));
    let segment = Segment::open(&context, meta).expect("opens");
    let summaries = segment.summaries().expect("summaries");
    assert_eq!(summaries.versions().mins.as_primitive::<UInt64Type>().values(), &[7, 8199, 16_391]);
}

#[test]
fn very_long_values_take_several_pages() {
    let disk = disk();
    let context = context(&disk);
    let mut table = table(false);
    table.columns.retain(|column| column.storage_name == "c11" || column.storage_name == "c12");
    table.measures.clear();
    let count = 600;
    let text = StringViewArray::from_iter((0..count).map(|at| (at % 9 > 0).then(|| format!("{at} ").repeat(70_000))));
    let bytes = BinaryViewArray::from_iter((0..count).map(|at| (at % 5 > 0).then(|| vec![at as u8; 150_000])));
    let versions = UInt64Array::from_value(1, count);
    let ordinals = UInt64Array::from_iter_values(0..count as u64);
    let columns: Vec<ArrayRef> = vec![Arc::new(text), Arc::new(bytes), Arc::new(versions), Arc::new(ordinals)];
    let batch = RecordBatch::try_new(alluvia_tree::segment_schema(&table), columns).expect("fits");
    let dictionaries = dictionaries(&disk, &table);
    let all = chunk(&table, &dictionaries, batch, vec![0; count]);
    let mut writer = SegmentWriter::create(&context, SegmentId(1), &table, Stage::Sorted, None).expect("creates");
    writer.write(&all).expect("writes");
    let segment = Segment::open(&context, writer.finish().expect("finishes")).expect("opens");
    assert_eq!(join(&read(&segment, &table, &dictionaries, 0..count as u64, 50)).rows, all.rows);
    segment.verify(&table).expect("verifies");
}
