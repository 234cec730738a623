//! Tables and rows for the tests of segments.
#![allow(clippy::disallowed_methods)] // tests may run for a time

use alluvia_catalog::Dictionaries;
use alluvia_space::weight::weight;
use alluvia_space::{
    CalendarUnit, Column, DataType, Dimension, KeyRange, Level, LevelCodes, LevelSource, ORDINAL_COLUMN, TableDef,
    TableOptions, VERSION_COLUMN,
};
use alluvia_storage::{Cache, Disk, FaultDisk};
use alluvia_tree::{BLOCK_ROWS, Dead, DeadRows, RowChunk, TreeContext, by_band};
use alluvia_types::{ColumnId, TableId, Version};
use arrow::array::*;
use arrow::compute::{cast, concat_batches, take};
use arrow::datatypes::{DataType as Arrow, Field, IntervalMonthDayNano, Schema, UInt64Type};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Where the tests' segments live.
pub const DIR: &str = "/db/segments";

/// A fresh in-memory disk with the segments' directory.
pub fn disk() -> Arc<FaultDisk> {
    let disk = FaultDisk::new();
    disk.create_dir_all(Path::new(DIR)).expect("a directory");
    disk
}

/// A context on a disk.
pub fn context(disk: &Arc<FaultDisk>) -> TreeContext {
    TreeContext::new(Arc::clone(disk) as Arc<dyn Disk>, Arc::new(Cache::new(64 << 20)), DIR)
}

/// Dictionaries on a disk.
pub fn dictionaries(disk: &Arc<FaultDisk>, table: &TableDef) -> Dictionaries {
    Dictionaries::create(Arc::clone(disk) as Arc<dyn Disk>, PathBuf::from("/db/dict-1"), table).expect("dictionaries")
}

/// Every type a column can have.
pub const TYPES: [DataType; 20] = [
    DataType::Boolean,
    DataType::Int16,
    DataType::Int32,
    DataType::Int64,
    DataType::Real,
    DataType::Double,
    DataType::Decimal { precision: 9, scale: 2 },
    DataType::Decimal { precision: 38, scale: 10 },
    DataType::Date,
    DataType::Timestamp,
    DataType::TimestampTz,
    DataType::Text,
    DataType::Binary,
    DataType::Uuid,
    DataType::Json,
    DataType::Jsonb,
    DataType::Time,
    DataType::Interval,
    DataType::Numeric,
    DataType::Char,
];

/// A table with every type, and optionally with dimensions of each kind; three further TEXT columns are levels.
pub fn table(with_dimensions: bool) -> TableDef {
    let mut columns = Vec::new();
    let mut column = |name: String, data_type, nullable| {
        let id = ColumnId(columns.len() as u32 + 1);
        let chars_max = (data_type == DataType::Char).then_some(400);
        columns.push(Column { id, storage_name: name.clone(), name, data_type, nullable, chars_max });
        id
    };
    let plain: Vec<ColumnId> =
        TYPES.iter().enumerate().map(|(at, &data_type)| column(format!("c{at}"), data_type, true)).collect();
    let country = column("country".to_owned(), DataType::Text, true);
    let city = column("city".to_owned(), DataType::Text, true);
    let item = column("item".to_owned(), DataType::Text, false);
    let level = |name: &str, source| Level { name: name.to_owned(), source, bits: 4 };
    let dimension = |name: &str, levels| Dimension { name: name.to_owned(), levels, range: KeyRange::None, zone: None };
    let dimensions = vec![
        dimension(
            "store",
            vec![level("country", LevelSource::Column(country)), level("city", LevelSource::Column(city))],
        ),
        dimension("item", vec![level("item", LevelSource::Column(item))]),
        dimension("number", vec![level("c3", LevelSource::Column(plain[3]))]),
        dimension(
            "time",
            vec![
                level("year", LevelSource::Calendar(plain[9], CalendarUnit::Year)),
                level("day", LevelSource::Calendar(plain[9], CalendarUnit::Day)),
            ],
        ),
    ];
    let next_column_id = columns.len() as u32 + 1;
    TableDef {
        id: TableId(1),
        schema: "public".to_owned(),
        name: "everything".to_owned(),
        columns,
        next_column_id,
        key: None,
        rules: alluvia_space::TableRules::default(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        dimensions: if with_dimensions { dimensions } else { Vec::new() },
        measures: plain[1..8].to_vec(),
        seed: 42,
        options: TableOptions::default(),
    }
}

/// A small deterministic generator (xorshift).
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    /// The next number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Random rows of a table, with the hidden columns. `distinct` bounds how many values a column has; one row in `nulls` is
/// NULL (0: none). `versions` is the number of versions, 0 for rows of a staged segment.
pub fn rows(
    table: &TableDef,
    random: &mut Random,
    count: usize,
    distinct: u64,
    nulls: u64,
    versions: u64,
) -> RecordBatch {
    let mut columns: Vec<ArrayRef> = Vec::new();
    let mut fields: Vec<Field> = Vec::new();
    for column in &table.columns {
        let nulls = if column.nullable { nulls } else { 0 };
        let picks: Vec<Option<u64>> = (0..count)
            .map(|_| {
                let pick = random.below(distinct);
                (nulls == 0 || random.below(nulls) > 0).then_some(pick)
            })
            .collect();
        let array = values(column.data_type, &picks);
        fields.push(Field::new(&column.storage_name, array.data_type().clone(), column.nullable));
        columns.push(array);
    }
    let version: Vec<Option<u64>> =
        (0..count as u64).map(|row| (versions > 0).then(|| 7 + row * versions / count as u64)).collect();
    columns.push(Arc::new(UInt64Array::from(version)));
    fields.push(Field::new(VERSION_COLUMN, Arrow::UInt64, true));
    columns.push(Arc::new(UInt64Array::from_iter_values((0..count as u64).map(|row| row * 3))));
    fields.push(Field::new(ORDINAL_COLUMN, Arrow::UInt64, false));
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("fits the schema")
}

/// Values of a type for these picks; extremes and odd floats are among them.
fn values(data_type: DataType, picks: &[Option<u64>]) -> ArrayRef {
    let spread = |pick: u64| pick.wrapping_mul(0x9e37_79b9_7f4a_7c15) as i64;
    let each = |value: &dyn Fn(u64) -> i64| picks.iter().map(|pick| pick.map(value)).collect::<Vec<Option<i64>>>();
    let float = |pick: u64| match pick {
        0 => f64::NAN,
        1 => f64::INFINITY,
        2 => f64::NEG_INFINITY,
        3 => -0.0,
        4 => 0.0,
        5 => f64::MAX,
        pick => spread(pick) as f64 / 1e15,
    };
    let text = |pick: u64| match pick % 7 {
        0 => String::new(),
        1 => format!("größe {pick}"),
        2 => "long ".repeat(pick as usize % 40) + &pick.to_string(),
        3 => "\u{10ffff}".repeat(pick as usize % 30),
        _ => format!("value {pick}"),
    };
    match data_type {
        DataType::Boolean => Arc::new(BooleanArray::from_iter(picks.iter().map(|pick| pick.map(|pick| pick % 2 == 1)))),
        DataType::Int16 => {
            Arc::new(Int16Array::from_iter(each(&|pick| spread(pick) >> 48).iter().map(|v| v.map(|v| v as i16))))
        }
        DataType::Int32 => {
            Arc::new(Int32Array::from_iter(each(&|pick| spread(pick) >> 32).iter().map(|v| v.map(|v| v as i32))))
        }
        DataType::Int64 => Arc::new(Int64Array::from(each(&spread))),
        DataType::Real => {
            Arc::new(Float32Array::from_iter(picks.iter().map(|pick| pick.map(|pick| float(pick) as f32))))
        }
        DataType::Double => Arc::new(Float64Array::from_iter(picks.iter().map(|pick| pick.map(float)))),
        DataType::Time => {
            let times = each(&|pick| spread(pick).rem_euclid(86_400_000_001));
            Arc::new(Time64MicrosecondArray::from(times))
        }
        DataType::Uuid => {
            let bytes = |pick: u64| (u128::from(spread(pick) as u64) << 64 | u128::from(pick)).to_be_bytes();
            let values = picks.iter().map(|pick| pick.map(bytes));
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, 16).expect("16 bytes"))
        }
        DataType::Interval => {
            let span = |pick: u64| {
                IntervalMonthDayNano::new(
                    (pick % 7) as i32 - 3,
                    (spread(pick) >> 40) as i32,
                    spread(pick) / 1_000 * 1_000,
                )
            };
            Arc::new(IntervalMonthDayNanoArray::from_iter(picks.iter().map(|pick| pick.map(span))))
        }
        DataType::Numeric => {
            let wide = |pick: u64| i128::from(spread(pick)) * i128::from(spread(pick + 1)) % 10i128.pow(38);
            let array = Decimal128Array::from_iter(picks.iter().map(|pick| pick.map(wide)));
            Arc::new(array.with_data_type(data_type.to_arrow()))
        }
        DataType::Decimal { precision, scale } => {
            let bound = 10i128.pow(precision.into());
            let wide = |pick: u64| i128::from(spread(pick)) * i128::from(spread(pick + 1)) % bound;
            let array = Decimal128Array::from_iter(picks.iter().map(|pick| pick.map(wide)));
            Arc::new(array.with_precision_and_scale(precision, scale as i8).expect("fits"))
        }
        DataType::Date => {
            Arc::new(Date32Array::from_iter(each(&|pick| spread(pick) >> 48).iter().map(|v| v.map(|v| v as i32))))
        }
        DataType::Timestamp => Arc::new(TimestampMicrosecondArray::from(each(&|pick| spread(pick) >> 10))),
        DataType::TimestampTz => {
            Arc::new(TimestampMicrosecondArray::from(each(&|pick| spread(pick) >> 10)).with_timezone("UTC"))
        }
        DataType::Text | DataType::Json | DataType::Jsonb | DataType::Char => {
            Arc::new(StringViewArray::from_iter(picks.iter().map(|pick| pick.map(text))))
        }
        DataType::Binary => {
            let bytes = |pick: u64| vec![(pick % 3) as u8 * 127 + (pick % 2) as u8; pick as usize % 90];
            Arc::new(BinaryViewArray::from_iter(picks.iter().map(|pick| pick.map(bytes))))
        }
    }
}

/// A chunk of these rows with these keys, which ascend.
pub fn chunk(table: &TableDef, dictionaries: &Dictionaries, rows: RecordBatch, keys: Vec<u128>) -> RowChunk {
    let codes = dictionaries.remap(table, &rows).expect("codes");
    RowChunk::new(rows, keys, codes)
}

/// Ascending keys that share `shared` high bits.
pub fn keys(random: &mut Random, count: usize, shared: u32) -> Vec<u128> {
    let mut keys: Vec<u128> = (0..count)
        .map(|_| {
            let key = u128::from(random.below(u64::MAX)) << 64 | u128::from(random.below(u64::MAX));
            if shared >= 128 { 5 } else { key >> shared }
        })
        .collect();
    keys.sort_unstable();
    keys
}

/// Part of a chunk.
pub fn slice(chunk: &RowChunk, start: usize, len: usize) -> RowChunk {
    RowChunk {
        rows: chunk.rows.slice(start, len),
        keys: chunk.keys[start..start + len].to_vec(),
        codes: alluvia_space::LevelCodes {
            levels: chunk.codes.levels.iter().map(|level| level[start..start + len].to_vec()).collect(),
        },
        coded: Arc::clone(&chunk.coded),
    }
}

/// Every column in its storage type.
pub fn plain(batch: &RecordBatch) -> RecordBatch {
    let mut fields = Vec::new();
    let mut columns = Vec::new();
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        let column = match column.data_type() {
            Arrow::Dictionary(_, values) => {
                let to = if **values == Arrow::Binary { Arrow::BinaryView } else { Arrow::Utf8View };
                let dictionary = column.as_any_dictionary();
                cast(&take(dictionary.values(), dictionary.keys(), None).expect("takes"), &to).expect("casts")
            }
            _ => Arc::clone(column),
        };
        fields.push(Field::new(field.name(), column.data_type().clone(), field.is_nullable()));
        columns.push(column);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("fits the schema")
}

/// All rows of chunks.
pub fn join(chunks: &[RowChunk]) -> RowChunk {
    let batches: Vec<RecordBatch> = chunks.iter().map(|chunk| plain(&chunk.whole().expect("columns"))).collect();
    let rows = concat_batches(&batches[0].schema(), &batches).expect("one schema");
    let levels = (0..chunks[0].codes.levels.len())
        .map(|level| chunks.iter().flat_map(|chunk| chunk.codes.levels[level].clone()).collect())
        .collect();
    RowChunk {
        rows,
        keys: chunks.iter().flat_map(|chunk| chunk.keys.clone()).collect(),
        codes: alluvia_space::LevelCodes { levels },
        coded: Arc::default(),
    }
}

/// Rows in the order of their codes, so that blocks are neighbourhoods.
pub fn by_codes(chunk: &RowChunk) -> RowChunk {
    let mut order: Vec<u32> = (0..chunk.len() as u32).collect();
    let levels = &chunk.codes.levels;
    order.sort_by_key(|&row| levels.iter().map(|level| level[row as usize]).collect::<Vec<_>>());
    taken(chunk, &order, (0..chunk.len() as u128).collect())
}

/// Each row's weight.
pub fn weights(chunk: &RowChunk, seed: u64) -> Vec<u64> {
    let column = |name| chunk.rows.column_by_name(name).expect("hidden").as_primitive::<UInt64Type>().clone();
    let (versions, ordinals) = (column(VERSION_COLUMN), column(ORDINAL_COLUMN));
    (0..chunk.len()).map(|row| weight(Version(versions.value(row)), ordinals.value(row), seed)).collect()
}

/// Rows in key order, with those of each block in bands.
pub fn banded(chunk: &RowChunk, seed: u64) -> RowChunk {
    let mut order: Vec<u32> = Vec::with_capacity(chunk.len());
    for weights in weights(chunk, seed).chunks(BLOCK_ROWS) {
        let first = order.len() as u32;
        order.extend(by_band(weights).into_iter().map(|place| first + place));
    }
    taken(chunk, &order, order.iter().map(|&row| chunk.keys[row as usize]).collect())
}

/// These rows of a chunk, with these keys.
pub fn taken(chunk: &RowChunk, order: &[u32], keys: Vec<u128>) -> RowChunk {
    let indices = UInt32Array::from(order.to_vec());
    let columns = chunk.rows.columns().iter().map(|column| take(column, &indices, None).expect("takes")).collect();
    let level = |level: &Vec<u32>| order.iter().map(|&row| level[row as usize]).collect();
    RowChunk {
        rows: RecordBatch::try_new(chunk.rows.schema(), columns).expect("fits"),
        keys,
        codes: LevelCodes { levels: chunk.codes.levels.iter().map(level).collect() },
        coded: Arc::clone(&chunk.coded),
    }
}

/// Rows of a segment that are killed, each with one of these versions: single ones, runs that begin and end within blocks, whole blocks,
/// a few here and there, rarely all.
pub fn kills(random: &mut Random, rows: u64, versions: Range<u64>) -> BTreeMap<u64, u64> {
    let (block, mut kills) = (BLOCK_ROWS as u64, BTreeMap::new());
    for _ in 0..1 + random.below(4) {
        let at = random.below(rows);
        let killed: Vec<u64> = match random.below(8) {
            0 | 1 => vec![at],
            2 => (at..rows.min(at + 1 + random.below(500))).collect(),
            3 => (at..rows.min(at + 1 + random.below(2 * block))).collect(),
            4 | 5 => (at / block * block..rows.min((at / block + 1) * block)).collect(),
            6 => (at..rows).step_by(1 + random.below(3_000) as usize).collect(),
            _ if random.below(4) == 0 => (0..rows).collect(),
            _ => vec![rows - 1],
        };
        // By one batch, or by several.
        let mut version = || versions.start + random.below(versions.end - versions.start);
        let of_batch = version();
        let is_one = version() % 2 == 0;
        for row in killed {
            kills.entry(row).or_insert_with(|| if is_one { of_batch } else { version() });
        }
    }
    kills
}

/// The same as a segment's reader at a version has them.
pub fn dead_rows(kills: &BTreeMap<u64, u64>, at: u64) -> Option<DeadRows> {
    let dead = Dead::new(kills.iter().map(|(&row, &version)| (row, Version(version))));
    DeadRows::new(&Arc::new(dead), Version(at))
}

/// Calls `run` with one seed after the other: so many, or for `ALLUVIA_TEST_SECONDS`. `ALLUVIA_TEST_SEED` is the first, so that a
/// failure, which says its seed, replays.
pub fn each_seed(count: u64, mut run: impl FnMut(u64)) {
    let variable = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let first: u64 = variable("ALLUVIA_TEST_SEED").unwrap_or(1);
    let until = variable("ALLUVIA_TEST_SECONDS").map(|seconds| Instant::now() + Duration::from_secs(seconds));
    for seed in first.. {
        if seed - first >= count && until.is_none_or(|until| Instant::now() >= until) {
            return;
        }
        println!("ALLUVIA_TEST_SEED={seed}");
        run(seed);
    }
}
