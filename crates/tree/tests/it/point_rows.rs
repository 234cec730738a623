//! Rows by their numbers are those of a whole reading, whatever the pages; in tables with a key these are short.

use crate::common::*;
use alluvia_space::{ORDINAL_COLUMN, OnConflict, PrimaryKey, TableDef, VERSION_COLUMN};
use alluvia_storage::FaultDisk;
use alluvia_tree::{RowColumns, Segment, SegmentWriter};
use alluvia_types::{ErrorKind, SegmentId, Stage};
use arrow::array::*;
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::DataType as Arrow;
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;

/// The table of all types, with a key if it is to have one.
fn table_with(is_keyed: bool) -> TableDef {
    let mut table = table(false);
    let key = PrimaryKey { columns: vec![table.columns[3].id], secret: [1, 2], on_conflict: OnConflict::Error };
    table.key = is_keyed.then_some(key);
    table
}

/// A segment of random rows, written in pieces of so many.
fn written(disk: &Arc<FaultDisk>, table: &TableDef, random: &mut Random, count: usize, piece: usize) -> Arc<Segment> {
    let dictionaries = dictionaries(disk, table);
    let distinct = [3, 300, 1_000_000][random.below(3) as usize];
    let batch = rows(table, random, count, distinct, 5, 3);
    let all = chunk(table, &dictionaries, batch, vec![0; count]);
    let context = context(disk);
    let mut writer = SegmentWriter::create(&context, SegmentId(1), table, Stage::Sorted, None).expect("creates");
    for start in (0..count).step_by(piece) {
        writer.write(&slice(&all, start, piece.min(count - start))).expect("writes");
    }
    Segment::open(&context, writer.finish().expect("finishes")).expect("opens")
}

/// Some of the columns, a hidden one, and one that the segment lacks.
fn some_columns(table: &TableDef, random: &mut Random) -> Vec<(String, Arrow)> {
    let mut columns: Vec<(String, Arrow)> = Vec::new();
    for column in &table.columns {
        if random.below(3) > 0 {
            columns.push((column.storage_name.clone(), column.data_type.to_arrow()));
        }
    }
    for name in [VERSION_COLUMN, ORDINAL_COLUMN, "added later"] {
        if random.below(2) > 0 {
            columns.push((name.to_owned(), Arrow::UInt64));
        }
    }
    columns
}

fn listed(columns: &[(&str, Arrow)]) -> Arc<RowColumns> {
    RowColumns::new(columns.iter().map(|(name, data_type)| ((*name).to_owned(), data_type.clone())))
}

fn check_rows(segment: &Arc<Segment>, table: &TableDef, random: &mut Random) {
    let columns = some_columns(table, random);
    let columns: Vec<(&str, Arrow)> = columns.iter().map(|(name, kind)| (name.as_str(), kind.clone())).collect();
    let batches: Vec<RecordBatch> =
        segment.column_batches(&columns).expect("reads").collect::<Result<_, _>>().expect("reads");
    let all = concat_batches(&batches[0].schema(), &batches).expect("one schema");
    let count = segment.meta().rows;
    let some = [1, 2, 40, 3 * count][random.below(4) as usize];
    let mut numbers: Vec<u32> = (0..some).map(|_| random.below(count) as u32).collect();
    numbers.sort_unstable();
    let expected = take_record_batch(&all, &UInt32Array::from(numbers.clone())).expect("takes");
    let found = segment.rows_at(&listed(&columns), &numbers).expect("reads");
    // Floats may be NaN.
    assert_eq!(format!("{found:?}"), format!("{expected:?}"));
    assert_eq!(found.num_rows(), numbers.len());
    if let Some(found) = segment.rows_in_memory(&listed(&columns), &numbers).expect("reads") {
        assert_eq!(format!("{found:?}"), format!("{expected:?}"));
    }
}

/// Reads rows of all columns until they lie in memory.
fn bring_to_memory(segment: &Arc<Segment>, table: &TableDef, random: &mut Random) {
    let columns = table.columns.iter().map(|column| (column.storage_name.clone(), column.data_type.to_arrow()));
    let columns = RowColumns::new(columns);
    let count = segment.meta().rows;
    for _ in 0..100_000 {
        let row = random.below(count) as u32;
        if segment.rows_in_memory(&columns, &[row]).expect("reads").is_some() {
            return;
        }
        segment.rows_at(&columns, &[row]).expect("reads");
    }
    panic!("columns of {count} rows were never brought to memory");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn rows_by_number_are_those_of_a_whole_reading(
        seed in 1u64..u64::MAX,
        count in prop::sample::select(vec![1usize, 1_023, 1_024, 1_025, 8_193, 20_000]),
        piece in prop::sample::select(vec![700usize, 1_024, 8_192, 100_000]),
        is_keyed in any::<bool>(),
    ) {
        let (disk, mut random) = (disk(), Random(seed));
        let table = table_with(is_keyed);
        let segment = written(&disk, &table, &mut random, count, piece);
        for _ in 0..6 {
            check_rows(&segment, &table, &mut random);
        }
        bring_to_memory(&segment, &table, &mut random);
        for _ in 0..3 {
            check_rows(&segment, &table, &mut random);
        }
        let behind = segment.rows_at(&listed(&[("c3", Arrow::Int64)]), &[0, count as u32]);
        prop_assert_eq!(behind.expect_err("there is no such row").kind(), ErrorKind::Corrupt);
        segment.verify(&table).expect("verifies");
    }
}

/// The rows of the pages of each column chunk.
fn pages(segment: &Segment) -> Vec<Vec<i64>> {
    let metadata = segment.parquet_metadata().expect("a footer");
    let groups = metadata.row_groups();
    let index = metadata.offset_index().expect("an offset index");
    let chunks = index.iter().zip(groups).flat_map(|(columns, group)| {
        columns.iter().map(|column| {
            let firsts = column.page_locations().iter().map(|page| page.first_row_index);
            let ends: Vec<i64> = firsts.clone().skip(1).chain([group.num_rows()]).collect();
            firsts.zip(ends).map(|(first, end)| end - first).collect()
        })
    });
    chunks.collect()
}

#[test]
fn pages_of_a_table_with_a_key_have_1024_rows() {
    for piece in [500, 1_024, 9_000, 20_000] {
        for (is_keyed, expected) in [(true, vec![1_024; 8]), (false, vec![8_192])] {
            let (disk, table) = (disk(), table_with(is_keyed));
            let segment = written(&disk, &table, &mut Random(5), 2 * 8_192 + 100, piece);
            let expected: Vec<i64> = expected.repeat(2).into_iter().chain([100]).collect();
            for found in pages(&segment) {
                assert_eq!(found, expected, "keyed {is_keyed}, in pieces of {piece}");
            }
        }
    }
}

#[test]
fn rows_of_a_damaged_file_are_an_error_or_as_they_were() {
    let (disk, mut random) = (disk(), Random(9));
    let table = table_with(true);
    let segment = written(&disk, &table, &mut random, 5_000, 5_000);
    let columns: Vec<(&str, Arrow)> =
        table.columns.iter().map(|column| (column.storage_name.as_str(), column.data_type.to_arrow())).collect();
    let numbers = [3, 2_000, 4_999];
    let expected = format!("{:?}", segment.rows_at(&listed(&columns), &numbers).expect("reads"));
    let path = Path::new(DIR).join("seg-1.parquet");
    let mut errors = 0;
    for offset in (0..segment.meta().parquet_bytes).step_by(997) {
        disk.corrupt(&path, offset, 0x40);
        // Nothing of what was read before is in its caches.
        let opened = Segment::open(&context(&disk), segment.meta().clone()).expect("only lengths are looked at");
        match opened.rows_at(&listed(&columns), &numbers) {
            Ok(found) => assert_eq!(format!("{found:?}"), expected, "byte {offset}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {offset}: {error}");
                errors += 1;
            }
        }
        disk.corrupt(&path, offset, 0x40);
    }
    assert!(errors > 0, "no damage was met");
}
