//! Tests of heavy rows: those written beside those that a pass finds, and beside all values in order of their sizes.

use super::section;
use super::verify::difference;
use super::{Heavy, ROWS_PER_HEAVY, SHARE_MIN, encode, find, heavy_rows};
use crate::estimate::Known;
use crate::layout::{BLOCK_ROWS, segment_schema};
use crate::{LadderWriter, RowChunk, Segment, TreeContext};
use alluvia_space::{Column, DataType, Dimension, KeyRange, Level, LevelCodes, LevelSource, TableDef, TableOptions};
use alluvia_storage::{Cache, Disk, FaultDisk};
use alluvia_types::{ColumnId, SegmentId, Stage, TableId};
use arrow::array::{ArrayRef, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringViewArray, UInt64Array};
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/db/segments";
/// Measures: a DOUBLE, a BIGINT, a DECIMAL.
const MEASURES: usize = 3;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn table() -> TableDef {
    let column = |(at, (name, data_type)): (usize, (&str, DataType))| Column {
        id: ColumnId(at as u32),
        name: name.to_owned(),
        storage_name: name.to_owned(),
        data_type,
        nullable: true,
        chars_max: None,
    };
    let columns = [
        ("place", DataType::Text),
        ("value", DataType::Double),
        ("count", DataType::Int64),
        ("amount", DataType::Decimal { precision: 20, scale: 2 }),
    ];
    let level = Level { name: "place".to_owned(), source: LevelSource::Column(ColumnId(0)), bits: 6 };
    TableDef {
        id: TableId(1),
        schema: "public".to_owned(),
        name: "heavy".to_owned(),
        columns: columns.into_iter().enumerate().map(column).collect(),
        next_column_id: 4,
        key: None,
        rules: alluvia_space::TableRules::default(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        dimensions: vec![Dimension {
            name: "place".to_owned(),
            levels: vec![level],
            range: KeyRange::None,
            zone: None,
        }],
        measures: (1..4).map(ColumnId).collect(),
        seed: 7,
        options: TableOptions::default(),
    }
}

/// Values of three measures, NULL where they are, that add up exactly as doubles; NaN in some block, perhaps.
struct Rows {
    values: [Vec<Option<i64>>; MEASURES],
    nan: Option<usize>,
    codes: Vec<u32>,
}

fn random_rows(random: &mut Random, count: usize) -> Rows {
    let mut column = || {
        // Rare and large, or not so rare, or all alike.
        let one_in = [40, 300, 2_000, u64::MAX][random.below(4) as usize];
        let power = random.below(12);
        let value = |random: &mut Random| {
            let size = random.below(5) as i64 - 2;
            if random.below(one_in) == 0 { (size + 3) << power } else { size }
        };
        (0..count).map(|_| (random.below(9) > 0).then(|| value(random))).collect::<Vec<_>>()
    };
    let values = [column(), column(), column()];
    let nan = (random.below(3) == 0).then(|| random.below(count as u64) as usize);
    Rows { values, nan, codes: (0..count).map(|_| 1 + random.below(40) as u32).collect() }
}

fn chunk(rows: &Rows) -> RowChunk {
    let count = rows.codes.len();
    let [value, number, amount] = &rows.values;
    let float = |(row, value): (usize, &Option<i64>)| {
        if rows.nan == Some(row) { Some(f64::NAN) } else { value.map(|value| value as f64) }
    };
    let amounts: Decimal128Array = amount.iter().map(|value| value.map(i128::from)).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringViewArray::from_iter_values(rows.codes.iter().map(|code| format!("place {code}")))),
        Arc::new(value.iter().enumerate().map(float).collect::<Float64Array>()),
        Arc::new(number.iter().copied().collect::<Int64Array>()),
        Arc::new(amounts.with_precision_and_scale(20, 2).expect("fits")),
        Arc::new(UInt64Array::from(vec![9; count])),
        Arc::new(UInt64Array::from_iter_values(0..count as u64)),
    ];
    let batch = RecordBatch::try_new(segment_schema(&table()), columns).expect("fits");
    let codes = LevelCodes { levels: vec![rows.codes.clone()] };
    RowChunk::new(batch, (0..count as u128).collect(), codes)
}

/// A segment with a ladder, of which so many rows were announced.
fn written(rows: &Rows, announced: u64) -> Arc<Segment> {
    let disk = FaultDisk::new();
    disk.create_dir_all(Path::new(DIR)).expect("a directory");
    let context = TreeContext::new(disk as Arc<dyn Disk>, Arc::new(Cache::new(16 << 20)), DIR);
    let mut ids = 1..;
    let new_id = || SegmentId(ids.next().expect("without end"));
    let mut writer =
        LadderWriter::create(&context, new_id, &table(), Stage::Merged, None, announced, 20).expect("creates");
    writer.write(&chunk(rows)).expect("writes");
    Segment::open(&context, writer.finish().expect("finishes")).expect("opens")
}

/// The heavy rows of a measure by all values in order of their sizes.
fn naive(rows: &Rows, measure: usize) -> Heavy {
    let count = rows.codes.len();
    let is_special = |row: usize| measure == 0 && rows.nan.is_some_and(|nan| nan / BLOCK_ROWS == row / BLOCK_ROWS);
    let value = |row: usize| rows.values[measure][row].unwrap_or(0) as f64;
    let all: Vec<usize> = (0..count).filter(|&row| !is_special(row)).collect();
    let mut sizes: Vec<f64> = all.iter().map(|&row| value(row).abs()).collect();
    sizes.sort_by(|a, b| b.total_cmp(a));
    let most = count / ROWS_PER_HEAVY as usize;
    let Some(&limit) = sizes.get(most).filter(|_| most > 0) else { return Heavy::none() };
    let heavy: Vec<usize> = all.iter().copied().filter(|&row| value(row).abs() > limit).collect();
    let squares = |rows: &[usize]| rows.iter().map(|&row| value(row) * value(row)).sum::<f64>();
    if heavy.is_empty() || squares(&heavy) < SHARE_MIN * squares(&all) {
        return Heavy::none();
    }
    let light = |block: usize| {
        let of_block = all.iter().filter(|&&row| row / BLOCK_ROWS == block && value(row).abs() <= limit);
        of_block.fold(Known::NOTHING, |known, &row| known.and(Known::of(value(row))))
    };
    let codes: Vec<u32> = heavy.iter().map(|&row| rows.codes[row]).collect();
    let values = heavy.iter().map(|&row| value(row)).collect();
    Heavy::new(limit, heavy.into_iter().map(|row| row as u32).collect(), values, light, vec![codes.into()])
}

fn assert_same(found: &Heavy, expected: &Heavy, segment: &Segment) {
    assert_eq!(found.limit, expected.limit);
    assert_eq!((&found.rows, &found.values), (&expected.rows, &expected.values));
    // Whole numbers add up exactly in any order.
    assert_eq!(found.light, expected.light);
    if !expected.is_empty() {
        assert_eq!(found.codes(segment, 0).expect("reads"), expected.codes(segment, 0).expect("known"));
    }
}

#[test]
fn what_is_written_is_what_a_pass_finds() {
    let mut random = Random(0xa11);
    let (mut heavy, mut none) = (0, 0);
    for round in 0..40 {
        let count = [300, 5_000, 9_000, 20_000][round % 4] + random.below(3_000) as usize;
        let rows = random_rows(&mut random, count);
        let announced = count as u64 + [0, 0, 1_000][round % 3];
        let segment = written(&rows, announced);
        segment.verify(&table()).expect("verifies");
        for measure in 0..MEASURES {
            let expected = naive(&rows, measure);
            let stored = section::written(&segment, measure).expect("reads").expect("it was written");
            assert_same(&stored, &expected, &segment);
            assert_same(&find(&segment, measure).expect("reads"), &expected, &segment);
            assert_same(&heavy_rows(&segment, measure).expect("reads"), &expected, &segment);
            (heavy, none) = (heavy + usize::from(!expected.is_empty()), none + usize::from(expected.is_empty()));
        }
    }
    assert!(heavy > 20 && none > 20, "{heavy} measures have heavy rows, {none} have none");
}

/// More rows than were announced: then more of them may be heavy than were held, and nothing is written.
#[test]
fn a_segment_without_them_finds_them_in_a_pass() {
    let mut random = Random(0xb0b);
    for round in 0..12 {
        let count = 3_000 + random.below(9_000) as usize;
        let rows = random_rows(&mut random, count);
        let segment = written(&rows, count as u64 - 300);
        assert!(!segment.rungs().is_empty(), "round {round}");
        segment.verify(&table()).expect("verifies");
        for measure in 0..MEASURES {
            assert!(section::written(&segment, measure).expect("reads").is_none());
            assert_same(&heavy_rows(&segment, measure).expect("reads"), &naive(&rows, measure), &segment);
        }
    }
    let rows = random_rows(&mut random, 4_000);
    let segment = written(&rows, 100);
    assert!(segment.rungs().is_empty() && section::written(&segment, 0).expect("reads").is_none());
}

/// Three measures, of which the second has none.
fn some() -> Vec<Heavy> {
    let light = |block: usize| Known { sum: block as f64, squares: 9.5, min: -1.0, max: 2.0 };
    let of = |rows: Vec<u32>| {
        let values = rows.iter().map(|&row| 5.0 + f64::from(row)).collect();
        let codes = vec![rows.iter().map(|row| row % 7).collect::<Vec<_>>().into(), vec![0; rows.len()].into()];
        Heavy::new(4.5, rows, values, light, codes)
    };
    vec![of(vec![3, 8_191, 8_192, 30_000]), Heavy::none(), of(vec![7])]
}

#[test]
fn sections_come_back_and_what_is_cut_off_is_refused() {
    let (levels, rows) = (2, 30_001);
    let bytes = encode(&some());
    for (measure, expected) in some().iter().enumerate() {
        let found = Heavy::decode(&bytes, measure, 3, levels, rows).expect("decodes");
        assert_eq!(difference(&found, expected, rows), None);
        assert_eq!(format!("{:?}", found.codes), format!("{:?}", expected.codes));
        for end in 0..bytes.len() {
            Heavy::decode(&bytes[..end], measure, 3, levels, rows).expect_err("it is cut off");
        }
        let longer = [&bytes[..], &[0]].concat();
        Heavy::decode(&longer, measure, 3, levels, rows).expect_err("it is too long");
        Heavy::decode(&bytes, measure, 3, levels, 30_000).expect_err("a row is not in the segment");
    }
    Heavy::decode(&bytes, 3, 3, levels, rows).expect_err("there are three measures");
    let mut not_beyond = some();
    not_beyond[0].values[2] = 4.5;
    let what = Heavy::decode(&encode(&not_beyond), 1, 3, levels, rows).expect_err("a light row");
    assert!(what.starts_with("measure 0: a value is not beyond"), "{what}");
}

#[test]
fn what_differs_is_told() {
    let change = |change: &dyn Fn(&mut Heavy)| {
        let mut changed = some().swap_remove(0);
        change(&mut changed);
        difference(&changed, &some()[0], 30_001)
    };
    assert_eq!(change(&|_| {}), None);
    for other in [
        &(|heavy: &mut Heavy| heavy.limit = 4.6) as &dyn Fn(&mut Heavy),
        &|heavy: &mut Heavy| heavy.rows[1] += 1,
        &|heavy: &mut Heavy| heavy.values[1] += 1.0,
    ] {
        assert_eq!(change(other), Some("heavy rows"));
    }
    for other in [
        &(|heavy: &mut Heavy| heavy.light[0].1.sum += 0.1) as &dyn Fn(&mut Heavy),
        &|heavy: &mut Heavy| heavy.light[1].1.squares *= 1.001,
        &|heavy: &mut Heavy| heavy.light[1].1.min -= 1.0,
    ] {
        assert_eq!(change(other), Some("sums without the heavy rows"));
    }
    // As much as another order of additions makes.
    assert_eq!(change(&|heavy: &mut Heavy| heavy.light[1].1.squares *= 1.0 + 1e-13), None);
}
