//! Segments of every format version stay readable for ever.
//!
//! `tests/golden/v1` was written by the first build of format 1, `tests/golden/ladder` by the first that wrote ladders,
//! `tests/golden/heavy` by the first that wrote heavy rows down, `tests/golden/bands` by the first that wrote banded segments,
//! `tests/golden/places` by the first whose rungs say where their rows lie. Neither they nor [`golden_rows`] and [`spiky`] may change; a new format
//! gets a directory of its own, written once with `ALLUVIA_WRITE_GOLDEN=v2 cargo test -p alluvia-tree --test it golden`.

use crate::common::{join, plain};
use alluvia_catalog::Dictionaries;
use alluvia_space::{
    CalendarUnit, Column, Curve, DataType, Dimension, KeyRange, Level, LevelSource, TableDef, TableOptions,
};
use alluvia_storage::{Cache, Disk, RealDisk, read_atomic, write_atomic};
use alluvia_tree::estimate::Aggregate;
use alluvia_tree::sample::{Goal, Otherwise, SampleRequest, Sampled, Source, sample};
use alluvia_tree::{
    Answer, BoxQuery, Boxes, CodeSet, Dead, DeadRows, GroupKeys, LadderWriter, LevelFilter, RowChunk, Segment,
    SegmentCursor, SegmentMeta, SegmentRows, SegmentWriter, TreeContext, answer, segment_schema,
};
use alluvia_types::{ColumnId, SegmentId, Stage, TableId, Version};
use arrow::array::*;
use arrow::datatypes::{Decimal256Type, UInt32Type, i256};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"GOLDEN01";
const ROWS: usize = 20_000;
/// The golden ladder is of the first rows.
const LADDER: &str = "ladder";
const LADDER_ROWS: usize = 9_000;
/// The golden ladder whose segment has heavy rows.
const HEAVY: &str = "heavy";
/// The golden banded segment, of as many rows as the golden ladder.
const BANDS: &str = "bands";
/// The golden ladder whose rungs say where their rows lie in their blocks; it is of the golden ladder's rows.
const PLACES: &str = "places";

fn golden_table() -> TableDef {
    let types = [
        ("flag", DataType::Boolean),
        ("small", DataType::Int16),
        ("medium", DataType::Int32),
        ("large", DataType::Int64),
        ("real", DataType::Real),
        ("double", DataType::Double),
        ("amount", DataType::Decimal { precision: 20, scale: 2 }),
        ("day", DataType::Date),
        ("at", DataType::Timestamp),
        ("at_zone", DataType::TimestampTz),
        ("note", DataType::Text),
        ("data", DataType::Binary),
        ("country", DataType::Text),
        ("city", DataType::Text),
    ];
    let column = |(at, (name, data_type)): (usize, (&str, DataType))| Column {
        id: ColumnId(at as u32),
        name: name.to_owned(),
        storage_name: name.to_owned(),
        data_type,
        nullable: true,
        chars_max: None,
    };
    let level = |name: &str, source| Level { name: name.to_owned(), source, bits: 3 };
    let store =
        vec![level("country", LevelSource::Column(ColumnId(12))), level("city", LevelSource::Column(ColumnId(13)))];
    let time = vec![level("year", LevelSource::Calendar(ColumnId(8), CalendarUnit::Year))];
    TableDef {
        id: TableId(3),
        schema: "public".to_owned(),
        name: "golden".to_owned(),
        columns: types.into_iter().enumerate().map(column).collect(),
        next_column_id: types.len() as u32,
        key: None,
        rules: alluvia_space::TableRules::default(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        dimensions: vec![
            Dimension { name: "store".to_owned(), levels: store, range: KeyRange::None, zone: None },
            Dimension { name: "time".to_owned(), levels: time, range: KeyRange::None, zone: None },
        ],
        measures: vec![ColumnId(2), ColumnId(5), ColumnId(6)],
        seed: 1,
        options: TableOptions { curve: Curve::Hilbert, ..TableOptions::default() },
    }
}

/// Row `n` of the golden segment; every seventh value of a column is NULL, another column's turn in each row.
fn golden_rows() -> RecordBatch {
    let known = |n: usize, column: usize| !(n + column).is_multiple_of(7);
    fn each<T>(column: usize, known: impl Fn(usize, usize) -> bool, value: impl Fn(i64) -> T) -> Vec<Option<T>> {
        (0..ROWS).map(|n| known(n, column).then(|| value(n as i64))).collect()
    }
    let amount = Decimal128Array::from(each(6, known, |n| i128::from(n) * i128::from(n) * 1_000_003));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(BooleanArray::from(each(0, known, |n| n % 3 == 0))),
        Arc::new(Int16Array::from(each(1, known, |n| (n % 30_000 - 15_000) as i16))),
        Arc::new(Int32Array::from(each(2, known, |n| (n % 100) as i32))),
        Arc::new(Int64Array::from(each(3, known, |n| n * 123_456_789_012 - 5))),
        Arc::new(Float32Array::from(each(4, known, |n| n as f32 / 8.0))),
        Arc::new(Float64Array::from(each(5, known, |n| if n == 9_999 { f64::NAN } else { n as f64 / 16.0 }))),
        Arc::new(amount.with_precision_and_scale(20, 2).expect("fits")),
        Arc::new(Date32Array::from(each(7, known, |n| (n / 10) as i32))),
        Arc::new(TimestampMicrosecondArray::from(each(8, known, |n| n * 86_400_000_000 / 3))),
        Arc::new(TimestampMicrosecondArray::from(each(9, known, |n| n * 1_000_000)).with_timezone("UTC")),
        Arc::new(StringViewArray::from_iter(each(10, known, |n| format!("note {n} naïve")))),
        Arc::new(BinaryViewArray::from_iter(each(11, known, |n| vec![n as u8; (n % 80) as usize]))),
        Arc::new(StringViewArray::from_iter(each(12, known, |n| format!("country {}", n / 4000)))),
        Arc::new(StringViewArray::from_iter(each(13, known, |n| format!("city {}", n % 5000)))),
        Arc::new(UInt64Array::from_iter_values((0..ROWS as u64).map(|n| 10 + n / 1000))),
        Arc::new(UInt64Array::from_iter_values((0..ROWS as u64).map(|n| n % 1000))),
    ];
    RecordBatch::try_new(segment_schema(&golden_table()), columns).expect("fits")
}

/// The dictionaries live in memory: their codes follow from the order of the rows.
fn golden_chunk() -> (RowChunk, Dictionaries) {
    let (table, rows) = (golden_table(), golden_rows());
    let disk = crate::common::disk();
    let dictionaries = crate::common::dictionaries(&disk, &table);
    let codes = dictionaries.remap(&table, &rows).expect("codes");
    let keys = (0..ROWS as u128).map(|n| ((n / 2) << 40) | 0xabcd).collect();
    (RowChunk::new(rows, keys, codes), dictionaries)
}

fn context(version: &str) -> (Arc<RealDisk>, PathBuf, TreeContext) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(version);
    let disk = Arc::new(RealDisk::new());
    let context = TreeContext::new(Arc::clone(&disk) as Arc<dyn Disk>, Arc::new(Cache::new(16 << 20)), &dir);
    (disk, dir, context)
}

#[test]
fn format_1_is_readable() {
    if let Ok(version) = std::env::var("ALLUVIA_WRITE_GOLDEN").as_deref()
        && ![LADDER, HEAVY, BANDS, PLACES].contains(&version)
    {
        write_golden(version);
    }
    let (disk, dir, context) = context("v1");
    let table = golden_table();
    let (expected, dictionaries) = golden_chunk();
    let meta = read_atomic(&*disk, &dir.join("meta.json"), MAGIC).expect("the meta");
    let meta: SegmentMeta = serde_json::from_slice(&meta).expect("parses");
    assert_eq!((meta.rows, meta.min_version, meta.max_version), (ROWS as u64, Version(10), Version(29)));
    let segment = Segment::open(&context, meta).expect("opens");
    segment.verify(&table).expect("verifies");
    let cursor = SegmentCursor::new(&segment, &table, &dictionaries, 0..ROWS as u64, 5_000).expect("a cursor");
    let read = join(&cursor.map(|chunk| chunk.expect("a chunk")).collect::<Vec<_>>());
    assert_eq!(read.keys, expected.keys);
    assert_eq!(read.codes, expected.codes);
    assert_eq!(read.rows, plain(&expected.rows));

    let summaries = segment.summaries().expect("summaries");
    let medium = summaries.measure(ColumnId(2)).expect("a measure");
    let known = (0..8192).filter(|n| (n + 2) % 7 > 0);
    assert_eq!(medium.counts.as_primitive::<UInt32Type>().value(0) as usize, known.clone().count());
    let sum: i64 = known.map(|n| n % 100).sum();
    assert_eq!(medium.sums.as_primitive::<Decimal256Type>().value(0), i256::from_i128(sum.into()));
    let double = summaries.measure(ColumnId(5)).expect("a measure");
    let nans = &double.floats.as_ref().expect("floats").nans;
    assert_eq!(nans.as_primitive::<UInt32Type>().values(), &[0, 1, 0]);
    let metadata = segment.parquet_metadata().expect("a footer");
    let pairs = metadata.file_metadata().key_value_metadata().expect("pairs");
    let value = |key: &str| pairs.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.clone());
    assert_eq!(value("alluvia.format").as_deref(), Some("1"));
    assert_eq!(value("alluvia.table_id").as_deref(), Some("3"));
    assert_eq!(value("alluvia.table_name").as_deref(), Some("golden"));
    assert_eq!(value("alluvia.segment_id").as_deref(), Some("1"));
}

fn write_golden(version: &str) {
    let (disk, dir, context) = context(version);
    disk.create_dir_all(&dir).expect("a directory");
    let (chunk, _) = golden_chunk();
    let mut writer = SegmentWriter::create(&context, SegmentId(1), &golden_table(), Stage::Sorted, None)
        .expect("no golden file yet");
    writer.write(&chunk).expect("writes");
    let meta = serde_json::to_vec_pretty(&writer.finish().expect("finishes")).expect("serialises");
    write_atomic(&*disk, &dir.join("meta.json"), MAGIC, &meta).expect("writes");
}

#[test]
fn ladders_are_readable() {
    if std::env::var("ALLUVIA_WRITE_GOLDEN").as_deref() == Ok(LADDER) {
        write_golden_ladder(LADDER, &golden_table(), &crate::common::slice(&golden_chunk().0, 0, LADDER_ROWS));
    }
    let (disk, dir, context) = context(LADDER);
    let meta = read_atomic(&*disk, &dir.join("meta.json"), MAGIC).expect("the meta");
    let meta: SegmentMeta = serde_json::from_slice(&meta).expect("parses");
    let segment = Segment::open(&context, meta).expect("opens");
    segment.verify(&golden_table()).expect("verifies");
    let sizes: Vec<(u32, u64)> = segment.rungs().iter().map(|rung| (rung.rung, rung.segment.meta().rows)).collect();
    assert_eq!(sizes, [(3, 1_118), (6, 140)]);
    assert_eq!(*segment.rungs()[0].segment.first_rows().expect("known"), [0, 1_020, 1_118]);
}

/// A dozen rows in ten thousand have nearly all of the sum of squares of the amounts; of the counts all are alike.
fn spiky() -> (TableDef, RowChunk) {
    let mut table = golden_table();
    let column = |at: u32, name: &str, data_type| Column {
        id: ColumnId(at),
        name: name.to_owned(),
        storage_name: name.to_owned(),
        data_type,
        nullable: true,
        chars_max: None,
    };
    table.columns = vec![
        column(0, "country", DataType::Text),
        column(1, "count", DataType::Int32),
        column(2, "amount", DataType::Double),
    ];
    let level = Level { name: "country".to_owned(), source: LevelSource::Column(ColumnId(0)), bits: 3 };
    table.dimensions =
        vec![Dimension { name: "store".to_owned(), levels: vec![level], range: KeyRange::None, zone: None }];
    (table.next_column_id, table.measures) = (3, vec![ColumnId(1), ColumnId(2)]);
    let rows = 0..10_000u64;
    let amount = |n: u64| {
        (!n.is_multiple_of(5)).then(|| if n % 800 == 1 { 1e6 - n as f64 / 3.0 } else { (n % 90) as f64 / 7.0 })
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringViewArray::from_iter_values(rows.clone().map(|n| format!("country {}", n / 4_000)))),
        Arc::new(Int32Array::from_iter(rows.clone().map(|n| (n % 6 > 0).then_some((n % 50) as i32)))),
        Arc::new(Float64Array::from_iter(rows.clone().map(amount))),
        Arc::new(UInt64Array::from_iter_values(rows.clone().map(|n| 10 + n / 1000))),
        Arc::new(UInt64Array::from_iter_values(rows.clone().map(|n| n % 1000))),
    ];
    let batch = RecordBatch::try_new(segment_schema(&table), columns).expect("fits");
    let disk = crate::common::disk();
    let codes = crate::common::dictionaries(&disk, &table).remap(&table, &batch).expect("codes");
    (table, RowChunk::new(batch, rows.map(u128::from).collect(), codes))
}

/// That they are those of the rows is what a check finds; that they are there at all is seen in the file.
#[test]
fn heavy_rows_that_were_written_are_readable() {
    let (table, chunk) = spiky();
    if std::env::var("ALLUVIA_WRITE_GOLDEN").as_deref() == Ok(HEAVY) {
        write_golden_ladder(HEAVY, &table, &chunk);
    }
    let (disk, dir, context) = context(HEAVY);
    let meta = read_atomic(&*disk, &dir.join("meta.json"), MAGIC).expect("the meta");
    let meta: SegmentMeta = serde_json::from_slice(&meta).expect("parses");
    let side = disk.open(&dir.join("seg-1.side")).expect("opens");
    let mut end = [0; 24 + 24];
    side.read_exact_at(&mut end, meta.side.len - 48).expect("reads");
    let number = |at: usize| u64::from_le_bytes(end[at..at + 8].try_into().expect("8 bytes"));
    assert_eq!(u32::from_le_bytes(end[..4].try_into().expect("4 bytes")), 6, "the last section is `heavy`");
    let mut section = vec![0; number(16) as usize];
    side.read_exact_at(&mut section, number(8)).expect("reads");
    // Of the counts none; of the amounts 13, of both blocks: rows, values, four sums of each block, codes of a level.
    assert_eq!(section.len(), 12 + 12 + 13 * (4 + 8 + 4) + 2 * 32);
    assert_eq!(section[..12], [&f64::INFINITY.to_le_bytes()[..], &[0; 4]].concat());
    let rows = section[24..24 + 13 * 4].chunks(4).map(|row| u32::from_le_bytes(row.try_into().expect("4 bytes")));
    assert_eq!(rows.collect::<Vec<_>>(), (0..13).map(|n| 1 + 800 * n).collect::<Vec<_>>());
    Segment::open(&context, meta).expect("opens").verify(&table).expect("verifies");
}

#[test]
fn bands_are_readable() {
    let table = golden_table();
    if std::env::var("ALLUVIA_WRITE_GOLDEN").as_deref() == Ok(BANDS) {
        let chunk = crate::common::slice(&golden_chunk().0, 0, LADDER_ROWS);
        write_laddered(BANDS, &table, &crate::common::banded(&chunk, table.seed), LadderWriter::banded);
    }
    let (disk, dir, context) = context(BANDS);
    let meta = read_atomic(&*disk, &dir.join("meta.json"), MAGIC).expect("the meta");
    let meta: SegmentMeta = serde_json::from_slice(&meta).expect("parses");
    let segment = Segment::open(&context, meta).expect("opens");
    segment.verify(&table).expect("verifies");
    let bands = segment.bands().expect("reads");
    let bands = bands.as_ref().as_ref().expect("the segment is banded");
    // Of both blocks: nothing, the rows of two bands (among them the thickest rung's), all.
    let found = [0, 1 << 61, u64::MAX].map(|limit| [0, 1].map(|block| bands.rows_below(block, limit)));
    assert_eq!(found, [[0, 0], [1_020, 98], [8_192, 808]]);
}

#[test]
fn places_of_rungs_are_readable() {
    if std::env::var("ALLUVIA_WRITE_GOLDEN").as_deref() == Ok(PLACES) {
        write_golden_ladder(PLACES, &golden_table(), &crate::common::slice(&golden_chunk().0, 0, LADDER_ROWS));
    }
    let segment = golden_segment(PLACES);
    segment.verify(&golden_table()).expect("verifies");
    let rung = &segment.rungs()[0].segment;
    assert_eq!(*rung.first_rows().expect("known"), [0, 1_020, 1_118]);
    let places = rung.places().expect("reads");
    let places = places.as_ref().as_ref().expect("it has them");
    let weights = segment.weights(0..LADDER_ROWS as u64, golden_table().seed).expect("reads");
    let light = (0..LADDER_ROWS).filter(|&row| weights[row] < 1 << 61);
    assert_eq!(*places, light.map(|row| (row % 8_192) as u16).collect::<Vec<_>>());
    // Older rungs do not tell.
    let older = golden_segment(LADDER);
    assert!(older.rungs().iter().all(|rung| rung.segment.places().expect("reads").is_none()));
}

/// Where rows of a segment are dead, rungs that do not tell which rows they have are not drawn from.
#[test]
fn older_ladders_of_segments_with_dead_rows_are_not_drawn_from() {
    for (version, has_places) in [(LADDER, false), (PLACES, true)] {
        let segment = golden_segment(version);
        let dead = (0..LADDER_ROWS as u64).step_by(3).map(|row| (row, Version(20)));
        let dead = DeadRows::new(&Arc::new(Dead::new(dead)), Version(20));
        let whole = SegmentRows::all(segment);
        let killed = SegmentRows { dead, ..whole.clone() };
        for (rows, is_drawn) in [(&whole, true), (&killed, has_places)] {
            let question = BoxQuery {
                filters: vec![LevelFilter { level: 1, codes: CodeSet::of_range(1, 4_000) }],
                ..BoxQuery::default()
            };
            let asked = SampleRequest {
                boxes: &Boxes::from(question.clone()),
                group_codes: &[],
                goals: &[Goal { aggregate: Aggregate::Count, measure: None }],
                max_error: 1e9,
                confidence: 0.95,
                otherwise: Otherwise::Reached,
                source: Source::Ladder,
                by_cost: false,
                strata_min: 2,
                threads: 1,
            };
            let keys = || GroupKeys::new(Vec::new()).expect("one group");
            let mut exact = Answer::new(&question, keys());
            assert!(answer(&question, std::slice::from_ref(rows), 1, &mut exact).expect("answers"));
            let truth = exact.totals.rows(0) as f64;
            let mut into = Answer::new(&question, keys());
            match sample(&asked, std::slice::from_ref(rows), &mut into).expect("samples") {
                Sampled::Estimates(found) => {
                    let cell = found.groups[0].1[0].interval;
                    assert!(is_drawn, "{version}");
                    assert!(cell.lower <= truth && truth <= cell.upper, "{truth} in {cell:?}");
                }
                Sampled::Exact => {
                    assert!(!is_drawn, "{version}");
                    assert_eq!(into.totals.rows(0) as f64, truth);
                }
                Sampled::Cannot => panic!("it can"),
            }
            // So do scans.
            assert_eq!(rows.rung_for(1 << 58).expect("asks").is_some(), is_drawn, "{version}");
        }
    }
}

fn golden_segment(version: &str) -> Arc<Segment> {
    let (disk, dir, context) = context(version);
    let meta = read_atomic(&*disk, &dir.join("meta.json"), MAGIC).expect("the meta");
    Segment::open(&context, serde_json::from_slice(&meta).expect("parses")).expect("opens")
}

fn write_golden_ladder(version: &str, table: &TableDef, chunk: &RowChunk) {
    write_laddered(version, table, chunk, |writer| writer);
}

fn write_laddered(version: &str, table: &TableDef, chunk: &RowChunk, lying: fn(LadderWriter) -> LadderWriter) {
    let (disk, dir, context) = context(version);
    disk.create_dir_all(&dir).expect("a directory");
    let mut ids = (1..).map(SegmentId);
    let new_id = || ids.next().expect("without end");
    let rows = chunk.len() as u64;
    let writer =
        LadderWriter::create(&context, new_id, table, Stage::Merged, None, rows, 100).expect("no golden file yet");
    let mut writer = lying(writer);
    writer.write(chunk).expect("writes");
    let meta = serde_json::to_vec_pretty(&writer.finish().expect("finishes")).expect("serialises");
    write_atomic(&*disk, &dir.join("meta.json"), MAGIC, &meta).expect("writes");
}
