//! The batch body, byte for byte: `golden/body-01-*.bin` are what the log holds in format version 01; they are read for ever.
//!
//! Neither they nor the batches here may change. A new format gets files of its own, written once with
//! `ALLUVIA_WRITE_GOLDEN=1 cargo test -p alluvia-commit --test body_golden`.

use alluvia_catalog::rights::{
    NewPassword, Object, PUBLIC, Privileges, READ_FILES, RightsChange, RoleId, Secret, WRITE_FILES,
};
use alluvia_catalog::{Catalog, Change, DictionaryMark, alter};
use alluvia_commit::{decode, encode};
use alluvia_snapshot::{BatchKey, NewBatch, NewRows, RowChange, StagedLoad};
use alluvia_space::{Column, DataType, KeyRange, TableDef, TableOptions, dimensions};
use alluvia_storage::{Disk, FileChecks, RealDisk};
use alluvia_tree::SegmentMeta;
use alluvia_types::{ColumnId, ProducerMark, SegmentId, Stage, TableId, Version};
use arrow::array::{
    ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float32Array,
    Float64Array, Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray, RecordBatch, StringViewArray,
    Time64MicrosecondArray, TimestampMicrosecondArray,
};
use arrow::datatypes::IntervalMonthDayNano;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const TYPES: [(&str, DataType); 12] = [
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
];

fn table(id: u32, name: &str, types: &[(&str, DataType)], declared: &str) -> TableDef {
    let column = |(at, &(name, data_type)): (usize, &(&str, DataType))| Column {
        id: ColumnId(at as u32),
        name: name.to_owned(),
        storage_name: name.to_owned(),
        data_type,
        nullable: true,
        chars_max: None,
    };
    let columns: Vec<Column> = types.iter().enumerate().map(column).collect();
    TableDef {
        id: TableId(id),
        schema: "public".to_owned(),
        name: name.to_owned(),
        dimensions: dimensions::parse(declared, &columns).expect("a good declaration"),
        next_column_id: columns.len() as u32,
        rules: alluvia_space::TableRules::default(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        key: None,
        columns,
        measures: Vec::new(),
        seed: 99,
        options: TableOptions::default(),
    }
}

fn wide() -> TableDef {
    table(3, "wide", &TYPES, "note; time(at: year, month)")
}

fn narrow() -> TableDef {
    table(4, "narrow", &TYPES[3..4], "large(large: hash)")
}

/// Tables 3, 4 and 5, as of version 2.
fn before() -> Catalog {
    let created = [wide(), narrow(), table(5, "old", &TYPES[..1], "")];
    let created = created.map(|def| Change::CreateTable { def });
    Catalog::default().apply(Version(2), &created).expect("three tables")
}

/// Values of every type; every other row is NULL, from `first` on.
fn values(first: usize) -> RecordBatch {
    fn each<T>(first: usize, value: impl Fn(i64) -> T) -> Vec<Option<T>> {
        (first..first + 4).map(|row| (row % 2 == 0).then(|| value(row as i64))).collect()
    }
    let amount = Decimal128Array::from(each(first, |row| i128::from(row) * -1_000_003));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(BooleanArray::from(each(first, |row| row % 4 == 0))),
        Arc::new(Int16Array::from(each(first, |row| row as i16 - 2))),
        Arc::new(Int32Array::from(each(first, |row| row as i32 * 1_000_000))),
        Arc::new(Int64Array::from(each(first, |row| row * 123_456_789_012))),
        Arc::new(Float32Array::from(each(first, |row| row as f32 / 8.0))),
        Arc::new(Float64Array::from(each(first, |row| row as f64 / -16.0))),
        Arc::new(amount.with_precision_and_scale(20, 2).expect("it fits")),
        Arc::new(Date32Array::from(each(first, |row| row as i32 * 365))),
        Arc::new(TimestampMicrosecondArray::from(each(first, |row| row * 86_400_000_001))),
        Arc::new(TimestampMicrosecondArray::from(each(first, |row| -row)).with_timezone("UTC")),
        Arc::new(StringViewArray::from_iter(each(first, |row| format!("note {row}, longer than a view holds: ü")))),
        Arc::new(BinaryViewArray::from_iter(each(first, |row| vec![row as u8; row as usize]))),
    ];
    RecordBatch::try_new(wide().storage_schema(), columns).expect("it fits")
}

fn one(value: i64) -> RecordBatch {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values([value]));
    RecordBatch::try_new(narrow().storage_schema(), vec![column]).expect("it fits")
}

/// Rows of the types that bodies have since manifests of version 06.
fn typed_rows() -> NewBatch {
    let types = [
        ("id", DataType::Uuid),
        ("json", DataType::Json),
        ("jsonb", DataType::Jsonb),
        ("time", DataType::Time),
        ("interval", DataType::Interval),
        ("numeric", DataType::Numeric),
        ("char", DataType::Char),
    ];
    let mut def = table(6, "typed", &types, "");
    def.columns[6].chars_max = Some(12);
    let span = |months| IntervalMonthDayNano::new(months, -1, 1_000);
    let uuids = [Some([0xa0; 16]), None].into_iter();
    let numeric = Decimal128Array::from(vec![Some(15_000_000_000_000_000), None]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(uuids, 16).expect("16 bytes")),
        Arc::new(StringViewArray::from(vec![Some(" {\"b\":1, \"a\":2}"), None])),
        Arc::new(StringViewArray::from(vec![Some("{\"a\": 2, \"b\": 1}"), None])),
        Arc::new(Time64MicrosecondArray::from(vec![Some(86_400_000_000), None])),
        Arc::new(IntervalMonthDayNanoArray::from(vec![Some(span(14)), None])),
        Arc::new(numeric.with_precision_and_scale(38, 16).expect("it fits")),
        Arc::new(StringViewArray::from(vec![Some("blanks end"), None])),
    ];
    let rows = RecordBatch::try_new(def.storage_schema(), columns).expect("it fits");
    let rows = vec![NewRows::insert(TableId(6), Version(2), vec![rows])];
    NewBatch { changes: vec![Change::CreateTable { def }], rows, ..NewBatch::default() }
}

/// The common case: rows and nothing else.
fn rows_alone() -> NewBatch {
    let rows = vec![NewRows::insert(TableId(4), Version(2), vec![one(-7)])];
    NewBatch { rows, ..NewBatch::default() }
}

/// Changes of roles, owners and grants, of every sort.
fn rights() -> NewBatch {
    let first = RoleId(16_384);
    let (on, privileges) = (Object::Table(TableId(3)), Privileges::OF_TABLE);
    let secret = || Secret::new("SCRAM-SHA-256$4096:AA==$AA==:AA==");
    let create = |name: &str, superuser, verifier, member_of: &[RoleId]| RightsChange::CreateRole {
        name: name.to_owned(),
        login: true,
        superuser,
        verifier,
        member_of: member_of.iter().copied().collect(),
    };
    let alter = |name: Option<&str>, password| RightsChange::AlterRole {
        id: first,
        name: name.map(str::to_owned),
        login: Some(false),
        superuser: None,
        password,
    };
    let changes = [
        create("first", false, Some(secret()), &[READ_FILES]),
        create("\"ü\"", true, None, &[]),
        alter(Some("one"), Some(NewPassword::Verifier(secret()))),
        alter(None, Some(NewPassword::None)),
        RightsChange::SetForRole { id: first, name: "max_error".into(), value: Some("0.01".into()) },
        RightsChange::SetForRole { id: first, name: "freshness".into(), value: None },
        RightsChange::Join { role: WRITE_FILES, member: first },
        RightsChange::Leave { role: READ_FILES, member: first },
        RightsChange::Grant { on, privileges, to: PUBLIC },
        RightsChange::Revoke { on: Object::Database, privileges: Privileges::OF_DATABASE, from: PUBLIC },
        RightsChange::Own { table: TableId(3), owner: first },
        RightsChange::ResetForRole { id: first },
        RightsChange::DropRole { id: RoleId(16_385) },
    ];
    let changes = changes.into_iter().map(|change| Change::Rights { change }).collect();
    NewBatch { changes, ..NewBatch::default() }
}

/// Everything that a body can hold.
fn everything() -> NewBatch {
    let wider = alter::add_column(&narrow(), "more", DataType::Text, true).expect("a column");
    let changes = vec![
        Change::CreateTable { def: table(6, "fresh", &TYPES[3..4], "large(large: hash 3)") },
        Change::AlterTable { def: wider, was: Version(2) },
        Change::DropTable { id: TableId(5) },
    ];
    let rows = vec![
        NewRows::insert(TableId(3), Version(2), vec![values(0), values(5), values(2).slice(1, 2)]),
        NewRows::insert(TableId(6), Version(0), vec![one(i64::MIN)]),
    ];
    let segment = SegmentMeta {
        id: SegmentId(17),
        table: TableId(3),
        stage: Stage::Sorted,
        rows: 5,
        min_version: Version(0),
        max_version: Version(0),
        fixed_version: None,
        key_min: 1,
        key_max: u128::MAX,
        parquet_bytes: 4_321,
        side: FileChecks { len: 600, chunk_crcs: vec![0xdead_beef] },
        columns: (0..12).map(ColumnId).collect(),
        rungs: Vec::new(),
    };
    let load = StagedLoad {
        table: TableId(3),
        checked_at: Version(2),
        segments: vec![segment],
        dictionary: DictionaryMark { bytes: 512, members: vec![6, 0], crc: 0x0bad_cafe, generation: 0 },
        ranges: vec![KeyRange::None, KeyRange::Linear { low: 0.0, high: 1e15 }],
        rows: 5,
        change: RowChange::Insert,
        staging: Default::default(),
    };
    let producer = Some(ProducerMark { name: "lädt".to_owned(), epoch: 2, sequence: 41 });
    NewBatch { changes, rows, loads: vec![load], producer, key: None, unwritten: Vec::new(), heeds: None }
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn golden(name: &str, written: &[u8]) -> Vec<u8> {
    let (disk, path) = (RealDisk::new(), path(name));
    if std::env::var_os("ALLUVIA_WRITE_GOLDEN").is_some() {
        disk.create_dir_all(path.parent().expect("a folder")).expect("a folder");
        let file = if disk.exists(&path) { disk.open(&path) } else { disk.create(&path) }.expect("a file");
        file.set_len(written.len() as u64).expect("a length");
        file.write_all_at(written, 0).expect("writes");
    }
    let file = disk.open(&path).expect("the golden file");
    let mut bytes = vec![0; file.len().expect("a length") as usize];
    file.read_exact_at(&mut bytes, 0).expect("readable");
    bytes
}

fn holds(name: &str, batch: NewBatch) {
    let written = encode(&batch).expect("it encodes");
    let golden = golden(name, &written);
    let body = decode(&golden).expect("it decodes");
    assert_eq!(body.changes, batch.changes, "{name}");
    assert_eq!(body.producer, batch.producer, "{name}");
    let json = |loads: &[StagedLoad]| serde_json::to_string(loads).expect("it serialises");
    assert_eq!(json(&body.loads), json(&batch.loads), "{name}");
    let catalog = match batch.changes.as_slice() {
        [] => before(),
        changes => before().apply(Version(3), changes).expect("they apply"),
    };
    let rows = body.rows(&catalog).expect("its rows decode");
    assert_eq!(rows.len(), batch.rows.len(), "{name}");
    for (read, expected) in rows.iter().zip(&batch.rows) {
        assert_eq!((read.table, read.checked_at), (expected.table, expected.checked_at), "{name}");
        assert_eq!(read.batches, expected.batches, "{name}");
    }
    let differs = written.iter().zip(&golden).position(|(written, golden)| written != golden);
    assert_eq!(
        (differs, written.len()),
        (None, golden.len()),
        "{name}: the first byte that differs. What means the same to every reader (another release of Arrow) is written anew \
         beside it; what does not is a new format"
    );
}

#[test]
fn format_01_is_written_as_it_was_and_read() {
    holds("body-01-rows.bin", rows_alone());
    holds("body-01-all.bin", everything());
}

#[test]
fn changes_of_rights_are_written_as_they_were_and_read() {
    holds("body-01-rights.bin", rights());
}

#[test]
fn a_length_is_written_as_it_was_and_read() {
    let mut def = table(6, "fresh", &TYPES[10..11], "");
    def.columns[0].chars_max = Some(255);
    holds("body-01-lengths.bin", NewBatch { changes: vec![Change::CreateTable { def }], ..NewBatch::default() });
}

#[test]
fn rows_of_every_type_are_written_as_they_were_and_read() {
    holds("body-01-types.bin", typed_rows());
}

#[test]
fn a_key_is_written_as_it_was_and_read() {
    let key = BatchKey(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
    let written = encode(&NewBatch { key: Some(key), ..NewBatch::default() }).expect("it encodes");
    assert_eq!(written, golden("body-01-key.bin", &written));
    assert_eq!(decode(&written).expect("it decodes").key, Some(key));
}
