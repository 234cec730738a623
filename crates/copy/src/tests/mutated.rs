//! Bodies of Arrow and Parquet that are damaged: they end in rows or in an error of the input, never in a panic, and nothing makes room for
//! what a body merely says.
//!
//! The seed is fixed; ALLUVIA_TEST_SEED draws another one, ALLUVIA_TEST_SECONDS goes on for so long.

use super::*;
use crate::caught::{contained, is_within};
use alluvia_types::{Clock, SystemClock};
use arrow::array::*;
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{DataType as ArrowType, Field, Fields, Int32Type, TimeUnit};
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterVersion};
use std::collections::BTreeMap;
use std::io::Cursor;
use std::panic;
use std::time::Duration;

const ROWS: usize = 40;
const TABLE: &str = "a BIGINT, b TEXT, c TEXT, d DECIMAL, e JSON, f JSON, g TIMESTAMP, h BOOLEAN, i BYTEA, j DOUBLE, k JSON, l TEXT, m DATE";
/// Of each body.
const MUTATIONS: usize = 250;

/// Draws numbers; what it draws depends on the seed alone.
struct Random(u64);

impl Random {
    fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.number() % bound.max(1) as u64) as usize
    }

    /// Changes a bit or a byte, states another number, cuts, leaves out, or puts one part in another's place.
    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        const NUMBERS: [i64; 12] =
            [0, -1, 1, 7, 1 << 16, 1 << 31, (1 << 31) - 1, 1 << 40, i64::MAX, i64::MIN, i64::MAX - 7, -(1 << 31)];
        if bytes.len() < 16 {
            return;
        }
        let at = self.below(bytes.len());
        let end = (at + 1 + self.below(48)).min(bytes.len());
        let number = NUMBERS[self.below(NUMBERS.len())].to_le_bytes();
        let other = self.below(bytes.len() - 8);
        match self.below(10) {
            0 | 1 => bytes[at] = self.number() as u8,
            2 | 3 => bytes[at] ^= 1 << self.below(8),
            4 => bytes.truncate(at),
            5 => drop(bytes.drain(at..end)),
            // Numbers of messages lie at their own multiples.
            6 => bytes[other & !3..][..4].copy_from_slice(&number[..4]),
            7 => bytes[other & !7..][..8].copy_from_slice(&number),
            // Those of Thrift are as long as they have to be.
            8 => drop(bytes.splice(at..end.min(at + 1), [0xff, 0xff, 0xff, 0xff, 0x0f])),
            _ => {
                let part = bytes[at..end].to_vec();
                let to = other.min(bytes.len() - part.len());
                bytes[to..to + part.len()].copy_from_slice(&part);
            }
        }
    }
}

fn of<T: Array + 'static>(array: T) -> ArrayRef {
    Arc::new(array)
}

/// A column of nearly every kind. `is_arrow`: also those that Parquet has not.
fn batch(is_arrow: bool) -> RecordBatch {
    let rows = 0..ROWS as i64;
    let some = |row: i64| row % 5 > 0;
    let texts: Vec<Option<String>> =
        rows.clone().map(|row| some(row).then(|| format!("text number {}", row % 9))).collect();
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(
        rows.clone().map(|row| some(row).then(|| (0..row as i32 % 4).map(Some))),
    );
    let inner = Fields::from(vec![
        Field::new("x", ArrowType::Int32, true),
        Field::new("y", ArrowType::Utf8, true),
        Field::new("z", lists.data_type().clone(), true),
    ]);
    let nested = StructArray::new(
        inner,
        vec![
            of(Int32Array::from_iter(rows.clone().map(|row| some(row).then_some(row as i32)))),
            of(StringArray::from(texts.clone())),
            of(lists.clone()),
        ],
        Some(NullBuffer::from_iter(rows.clone().map(|row| row % 7 > 0))),
    );
    let decimals = Decimal128Array::from_iter(rows.clone().map(|row| some(row).then_some(i128::from(row) * 100)));
    let keys = Int32Array::from_iter(rows.clone().map(|row| some(row).then_some(row as i32 % 3)));
    let dictionary = DictionaryArray::<Int32Type>::new(keys, of(StringArray::from(vec!["red", "green", "blue"])));
    let moments = TimestampMicrosecondArray::from_iter(rows.clone().map(|row| some(row).then_some(row * 1_000_000)));
    let mut maps = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    for row in rows.clone() {
        maps.keys().append_value(format!("key {row}"));
        maps.values().append_value(row);
        maps.append(some(row)).unwrap();
    }
    let bytes = BinaryArray::from_iter(rows.clone().map(|row| some(row).then(|| vec![row as u8; row as usize % 11])));
    let truths = BooleanArray::from_iter(rows.clone().map(|row| some(row).then_some(row % 2 == 0)));
    let views = StringViewArray::from_iter(texts.iter().map(|text| text.as_ref().map(|text| text.repeat(2))));
    let mut columns = vec![
        ("a", of(Int64Array::from_iter(rows.clone().map(|row| some(row).then_some(row))))),
        ("b", of(StringArray::from(texts.clone()))),
        ("c", of(dictionary)),
        ("d", of(decimals.with_precision_and_scale(10, 2).unwrap())),
        ("e", of(nested)),
        ("f", of(lists)),
        ("g", of(moments)),
        ("h", of(truths)),
        ("i", of(bytes)),
        ("j", of(Float64Array::from_iter(rows.clone().map(|row| some(row).then_some(row as f64))))),
        ("k", of(maps.finish())),
        ("l", of(views)),
        ("m", of(Date32Array::from_iter(rows.clone().map(|row| some(row).then_some(row as i32))))),
    ];
    if is_arrow {
        let ends = Int32Array::from_iter_values((1..=ROWS as i32 / 4).map(|run| run * 4));
        let values = StringArray::from_iter_values((0..ROWS / 4).map(|run| format!("run {run}")));
        columns[1].1 = of(RunArray::<Int32Type>::try_new(&ends, &values).unwrap());
        let item = Arc::new(Field::new_list_field(ArrowType::Int64, true));
        let long = LargeListArray::from_iter_primitive::<Int32Type, _, _>(
            rows.clone().map(|row| some(row).then(|| (0..row as i32 % 3).map(Some))),
        );
        columns[5].1 = of(long);
        let pairs = FixedSizeListArray::new(item, 2, of(Int64Array::from_iter_values(0..2 * ROWS as i64)), None);
        columns[4].1 = of(pairs);
        columns[8].1 = of(BinaryViewArray::from_iter_values(rows.clone().map(|row| vec![7; row as usize])));
        let zone = TimestampNanosecondArray::from_iter_values(rows).with_timezone("UTC");
        assert_eq!(zone.data_type(), &ArrowType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())));
        columns[6].1 = of(zone);
        columns[11].1 = of(LargeStringArray::from(texts));
        columns[3].1 = of(Int16Array::from_iter_values((0..ROWS).map(|row| row as i16)));
    }
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

/// What they are called, the format as options say it, and their bytes.
fn bodies() -> Vec<(String, &'static str, Vec<u8>)> {
    let mut bodies = Vec::new();
    for is_arrow in [false, true] {
        let batch = batch(is_arrow);
        for packing in [None, Some(CompressionType::ZSTD), Some(CompressionType::LZ4_FRAME)] {
            let options = || IpcWriteOptions::default().try_with_compression(packing).unwrap();
            let mut stream = StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options()).unwrap();
            let mut file = FileWriter::try_new_with_options(Vec::new(), &batch.schema(), options()).unwrap();
            for at in [0, ROWS / 2] {
                stream.write(&batch.slice(at, ROWS / 2)).unwrap();
                file.write(&batch.slice(at, ROWS / 2)).unwrap();
            }
            bodies.push((format!("stream {is_arrow} {packing:?}"), "arrow", stream.into_inner().unwrap()));
            bodies.push((format!("file {is_arrow} {packing:?}"), "arrow", file.into_inner().unwrap()));
        }
    }
    let batch = batch(false);
    let packings =
        [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::ZSTD(ZstdLevel::default()), Compression::LZ4_RAW];
    for (packing, version, is_delta) in [
        (packings[0], WriterVersion::PARQUET_1_0, false),
        (packings[1], WriterVersion::PARQUET_1_0, false),
        (packings[0], WriterVersion::PARQUET_2_0, true),
        (packings[2], WriterVersion::PARQUET_2_0, false),
        (packings[3], WriterVersion::PARQUET_2_0, true),
    ] {
        let mut properties = WriterProperties::builder().set_compression(packing).set_writer_version(version);
        if is_delta {
            properties = properties.set_dictionary_enabled(false);
            for (column, encoding) in [("b", Encoding::DELTA_BYTE_ARRAY), ("i", Encoding::DELTA_LENGTH_BYTE_ARRAY)] {
                properties = properties.set_column_encoding(column.into(), encoding);
            }
        }
        let properties = properties.set_max_row_group_row_count(Some(ROWS / 2)).build();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        bodies.push((format!("parquet {packing:?} {version:?}"), "parquet", writer.into_inner().unwrap()));
    }
    bodies
}

/// What a load of the body comes to.
fn loaded(bench: &Bench, format: &str, body: Vec<u8>) -> Result<u64> {
    bench.store.state.lock().batches.clear();
    let mut job = bench.job(Source::Stdin, &format!("(FORMAT {format})"));
    job.body.bytes_max = Some(64 << 20);
    job.body.is_kept = true;
    job.stdin = Some(Box::new(Cursor::new(body)));
    bench.run(job).map(|report| report.rows)
}

/// Counts panics by their places: those that were contained, and all others.
type Panics = Arc<Mutex<BTreeMap<(bool, String), usize>>>;

fn count_panics() -> Panics {
    // Its hook is below this one.
    contained(|| ());
    let counts = Panics::default();
    let (counted, told) = (Arc::clone(&counts), panic::take_hook());
    panic::set_hook(Box::new(move |panicked| {
        let place = panicked.location().map_or_else(String::new, ToString::to_string);
        // Other tests panic on purpose.
        if !["copy/src/parallel.rs", "copy/src/caught.rs"].iter().any(|file| place.contains(file)) {
            *counted.lock().entry((is_within(), place)).or_default() += 1;
        }
        told(panicked);
    }));
    counts
}

#[test]
fn damaged_bodies_are_errors_of_the_input() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let mut random = Random(number("ALLUVIA_TEST_SEED").unwrap_or(20_261_129) | 1);
    let time = Duration::from_secs(number("ALLUVIA_TEST_SECONDS").unwrap_or(0));
    let (panics, clock, bodies, bench) = (count_panics(), SystemClock::default(), bodies(), Bench::new(TABLE));
    for (name, format, body) in &bodies {
        assert_eq!(loaded(&bench, format, body.clone()).unwrap(), ROWS as u64, "{name}");
    }
    let (mut whole, mut refused) = (0, BTreeMap::<&str, usize>::new());
    for round in 0.. {
        if round >= MUTATIONS && clock.monotonic() >= time {
            break;
        }
        for (name, format, body) in &bodies {
            let mut damaged = body.clone();
            for _ in 0..1 + random.below(3) {
                random.mutate(&mut damaged);
            }
            match loaded(&bench, format, damaged) {
                Ok(_) => whole += 1,
                Err(error) => {
                    *refused.entry(format).or_default() += 1;
                    let kind = error.kind();
                    assert!(!matches!(kind, ErrorKind::Internal | ErrorKind::Io), "{round} {name}: {error}");
                }
            }
        }
    }
    let panics = panics.lock().clone();
    println!("{whole} loaded, {refused:?} refused in {:?}; panics: {panics:#?}", clock.monotonic());
    assert!(whole > 0 && refused.len() == 2);
    let told: Vec<_> = panics.iter().filter(|((is_contained, _), _)| !is_contained).collect();
    assert!(told.is_empty(), "outside of what is contained: {told:#?}");
    let of_arrow: Vec<_> = panics.iter().filter(|((_, place), _)| !place.contains("/parquet-")).collect();
    assert!(of_arrow.is_empty(), "what no check has foreseen: {of_arrow:#?}");
}

/// What a body says is not what is made room for.
#[test]
fn lengths_that_are_merely_said_are_refused() {
    let bench = Bench::new("a BIGINT, i BYTEA");
    let batch = batch(false).project(&[0, 8]).unwrap();
    // The length of a packed buffer, of eight bytes, is the only one that lies so.
    for packing in [CompressionType::ZSTD, CompressionType::LZ4_FRAME] {
        let options = IpcWriteOptions::default().try_with_compression(Some(packing)).unwrap();
        let mut stream = StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
        stream.write(&batch).unwrap();
        let body = stream.into_inner().unwrap();
        let length = (ROWS as u64 * 8).to_le_bytes();
        let at = body.windows(8).rposition(|eight| eight == length).expect("the numbers are packed");
        for said in [1_i64 << 20, 1 << 29, i64::MAX, -2] {
            let mut body = body.clone();
            body[at..at + 8].copy_from_slice(&said.to_le_bytes());
            let error = loaded(&bench, "arrow", body).unwrap_err();
            let told = error.message();
            assert!(
                told.contains("unpack") || told.contains("LZ4") || told.contains("length"),
                "{packing:?} {said}: {told}"
            );
        }
    }
}

#[test]
fn unions_are_refused_by_name() {
    use arrow::datatypes::{Schema, UnionFields, UnionMode};
    let bench = Bench::new("a BIGINT");
    let fields = UnionFields::try_new([0], [Field::new("x", ArrowType::Int64, true)]).unwrap();
    let ids = ScalarBuffer::from(vec![0_i8; 2]);
    for mode in [UnionMode::Sparse, UnionMode::Dense] {
        let offsets = (mode == UnionMode::Dense).then(|| ScalarBuffer::from(vec![0, 1]));
        let union =
            UnionArray::try_new(fields.clone(), ids.clone(), offsets, vec![of(Int64Array::from(vec![1, 2]))]).unwrap();
        let schema = Arc::new(Schema::new(vec![Field::new("a", union.data_type().clone(), true)]));
        let batch = RecordBatch::try_new(schema, vec![of(union)]).unwrap();
        let mut stream = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
        stream.write(&batch).unwrap();
        let error = loaded(&bench, "arrow", stream.into_inner().unwrap()).unwrap_err();
        assert!(error.kind() == ErrorKind::NotSupported && error.message().contains("union"), "{error}");
    }
}
