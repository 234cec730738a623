//! The manifest, byte for byte: `golden/manifest-NN/manifest` is what format version NN is; each is read for ever.
//!
//! Neither they nor [`manifest`] may change. A new format gets a folder of its own, written once with
//! `ALLUVIA_WRITE_GOLDEN=1 cargo test -p alluvia-snapshot --test manifest_golden`.

use alluvia_catalog::rights::{Object, PUBLIC, Privilege, Privileges, READ_FILES, RightsChange, RoleId, Secret};
use alluvia_catalog::{Catalog, Change, DictionaryMark, alter};
use alluvia_snapshot::{Held, KeysFile, KillsFile, MANIFEST_NAME, Manifest, PartitionFiles, ProducerState, TableFiles};
use alluvia_space::{
    Check, Column, ColumnDefault, Curve, DataType, Identity, IdentityKind, KeyRange, OnConflict, PrimaryKey, TableDef,
    TableOptions, TableRules, dimensions,
};
use alluvia_storage::{Disk, FaultDisk, FileChecks, RealDisk};
use alluvia_tree::{RungMeta, SegmentMeta};
use alluvia_types::{ColumnId, SegmentId, Stage, TableId, Version};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn golden_dir(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/manifest-{version:02}"))
}

/// Every type, and every sort of level.
fn wide() -> TableDef {
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
        ("Note \"ü\"", DataType::Text),
        ("data", DataType::Binary),
    ];
    let column = |(at, (name, data_type)): (usize, (&str, DataType))| Column {
        id: ColumnId(at as u32),
        name: name.to_owned(),
        storage_name: name.to_owned(),
        data_type,
        nullable: at != 3,
        chars_max: None,
    };
    let columns: Vec<Column> = types.into_iter().enumerate().map(column).collect();
    let declared = "path(medium, data); flag; time(at: year, quarter, month, day, hour, minute); \
                    day(day: year, month from 2020-01-01 to 2030-01-01); large(large: hash 4, 8); \
                    double(double: linear 0..1000, 4, 8); amount(amount: quantiles (1, 5, 25), 1, 2); \
                    real(real: linear); small(small: quantiles, 3)";
    TableDef {
        id: TableId(3),
        schema: "public".to_owned(),
        name: "wide".to_owned(),
        dimensions: dimensions::parse(declared, &columns).expect("a good declaration"),
        next_column_id: columns.len() as u32,
        rules: TableRules::default(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        key: None,
        columns,
        measures: vec![ColumnId(2), ColumnId(5), ColumnId(6)],
        seed: 0xfeed_beef_0123_4567,
        options: TableOptions { freshness: Some("5s".to_owned()), curve: Curve::Z, ..TableOptions::default() },
    }
}

fn plain() -> TableDef {
    let column = Column {
        id: ColumnId(0),
        name: "a".into(),
        storage_name: "a".into(),
        data_type: DataType::Text,
        nullable: true,
        chars_max: None,
    };
    TableDef {
        id: TableId(7),
        schema: "public".to_owned(),
        name: "plain".to_owned(),
        columns: vec![column],
        next_column_id: 1,
        key: None,
        rules: TableRules::default(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        dimensions: Vec::new(),
        measures: Vec::new(),
        seed: 1,
        options: TableOptions::default(),
    }
}

/// Tables with keys of every sort, as manifests from version 05 on have them.
fn with_keys(catalog: &Catalog) -> Catalog {
    let policies = [OnConflict::Error, OnConflict::Nothing, OnConflict::Replace];
    let keyed = (9..).zip(policies).map(|(id, on_conflict)| {
        let column = |at: u32| Column {
            id: ColumnId(at),
            name: format!("k{at}"),
            storage_name: format!("k{at}"),
            data_type: DataType::Int64,
            nullable: at == 1,
            chars_max: None,
        };
        let key = PrimaryKey { columns: vec![ColumnId(2), ColumnId(0)], secret: [u64::MAX, 7], on_conflict };
        Change::CreateTable {
            def: TableDef {
                id: TableId(id),
                name: format!("keyed_{id}"),
                columns: (0..3).map(column).collect(),
                next_column_id: 3,
                rules: TableRules::default(),
                indexes: Vec::new(),
                foreign_keys: Vec::new(),
                key: Some(key),
                ..plain()
            },
        }
    });
    let mut changes: Vec<Change> = keyed.collect();
    if let Some(Change::CreateTable { def }) = changes.first_mut() {
        let kind = IdentityKind::ByDefault;
        let identity = Identity::of_type(ColumnId(0), DataType::Int64, kind, "keyed_9_k0_seq".to_owned());
        def.rules = TableRules {
            defaults: vec![ColumnDefault { column: ColumnId(1), sql: "1 + 1".to_owned() }],
            identities: identity.into_iter().collect(),
            checks: vec![Check { name: "k".to_owned(), sql: "k1 > 0".to_owned(), columns: vec![ColumnId(1)] }],
            not_null: Vec::new(),
        };
    }
    changes.push(Change::Sequence { table: TableId(9), column: ColumnId(0), through: Some(1_000), only_after: None });
    catalog.apply(Version(12), &changes).expect("tables with keys")
}

/// A table with a column of each type that manifests have from version 06 on.
fn with_types(catalog: &Catalog) -> Catalog {
    let types = [
        ("id", DataType::Uuid),
        ("json", DataType::Json),
        ("jsonb", DataType::Jsonb),
        ("time", DataType::Time),
        ("interval", DataType::Interval),
        ("numeric", DataType::Numeric),
        ("char", DataType::Char),
    ];
    let column = |(at, (name, data_type)): (usize, (&str, DataType))| Column {
        id: ColumnId(at as u32),
        name: name.to_owned(),
        storage_name: name.to_owned(),
        data_type,
        nullable: at > 0,
        chars_max: (data_type == DataType::Char).then_some(12),
    };
    let columns: Vec<Column> = types.into_iter().enumerate().map(column).collect();
    let key = PrimaryKey { columns: vec![ColumnId(0)], secret: [3, 4], on_conflict: OnConflict::Error };
    let def = TableDef {
        id: TableId(12),
        name: "typed".to_owned(),
        dimensions: dimensions::parse("id; time; char", &columns).expect("a good declaration"),
        next_column_id: columns.len() as u32,
        measures: vec![ColumnId(5)],
        columns,
        key: Some(key),
        ..plain()
    };
    catalog.apply(Version(14), &[Change::CreateTable { def }]).expect("a table of every type")
}

fn segment(id: u64, stage: Stage, keys: (u128, u128)) -> SegmentMeta {
    SegmentMeta {
        id: SegmentId(id),
        table: TableId(3),
        stage,
        rows: 1_000 + id,
        min_version: Version(id),
        max_version: Version(id + 5),
        fixed_version: (id == 11).then_some(Version(16)),
        key_min: keys.0,
        key_max: keys.1,
        parquet_bytes: 70_000 + id,
        side: FileChecks { len: 300_000, chunk_crcs: vec![0xdead_beef, id as u32] },
        columns: (0..12).map(ColumnId).collect(),
        rungs: Vec::new(),
    }
}

/// A segment with a ladder, as manifests from version 02 on have it: rungs of 1/8 and 1/64.
fn laddered(id: u64, keys: (u128, u128)) -> SegmentMeta {
    let rung = |at: u64, rung: u32| RungMeta { rung, segment: segment(id + at, Stage::Merged, keys) };
    SegmentMeta { rungs: vec![rung(1, 3), rung(2, 6)], ..segment(id, Stage::Merged, keys) }
}

/// Roles of every sort, as manifests from version 03 on have them.
fn with_rights(catalog: &Catalog) -> Catalog {
    let role = |name: &str, member_of: &[RoleId], verifier: Option<Secret>| RightsChange::CreateRole {
        name: name.to_owned(),
        login: verifier.is_some(),
        superuser: name == "\"ü\"",
        verifier,
        member_of: member_of.iter().copied().collect(),
    };
    let (first, second) = (RoleId(16_384), RoleId(16_385));
    let table = Object::Table(TableId(3));
    let changes = [
        role("readers", &[READ_FILES], None),
        role("grafana", &[first], Some(Secret::new("SCRAM-SHA-256$4096:AA==$AA==:AA=="))),
        role("\"ü\"", &[], None),
        role("gone", &[], None),
        RightsChange::DropRole { id: RoleId(16_387) },
        RightsChange::SetForRole { id: second, name: "max_error".into(), value: Some("0.01".into()) },
        RightsChange::Grant { on: table, privileges: [Privilege::Select].into_iter().collect(), to: first },
        RightsChange::Grant { on: table, privileges: Privileges::OF_TABLE, to: PUBLIC },
        RightsChange::Revoke { on: Object::Database, privileges: Privileges::OF_DATABASE, from: PUBLIC },
        RightsChange::Own { table: TableId(7), owner: second },
    ];
    let changes = changes.map(|change| Change::Rights { change });
    catalog.apply(Version(9), &changes).expect("roles")
}

/// The manifest of a version: later ones have what that version brought.
fn manifest(version: u32) -> Manifest {
    let created = [Change::CreateTable { def: wide() }, Change::CreateTable { def: plain() }];
    let catalog = Catalog::default().apply(Version(1), &created).expect("two tables");
    let held = (version >= 8).then(|| Held { after: Version(1), catalog: catalog.clone() });
    let wider = alter::add_column(&plain(), "b", DataType::Double, true).expect("a column");
    let altered = Change::AlterTable { def: wider, was: Version(1) };
    let catalog = catalog.apply(Version(4), &[altered]).expect("an altered table");
    let catalog = if version < 3 { catalog } else { with_rights(&catalog) };
    let catalog = if version < 5 { catalog } else { with_keys(&catalog) };
    let catalog = if version < 6 { catalog } else { with_types(&catalog) };
    let kills = |number: u64| KillsFile {
        number,
        checks: FileChecks { len: 262_145, chunk_crcs: vec![0xcafe_0000, number as u32] },
    };
    let keys = |number: u64, bytes: u64| KeysFile { number, bytes, crc: 0xfade_0000 + number as u32 };
    let half = u128::MAX >> 1;
    let upper = if version < 2 { Vec::new() } else { vec![laddered(5, (half + 9, u128::MAX))] };
    let files = TableFiles {
        dictionary: Some(DictionaryMark { bytes: 4_096, members: vec![12, 70, 0, 3], crc: 0x0bad_cafe, generation: 0 }),
        ranges: Some(vec![
            KeyRange::None,
            KeyRange::Learnt,
            KeyRange::Linear { low: -0.5, high: 1e6 },
            KeyRange::LearntQuantiles,
            KeyRange::Quantiles { cuts: vec![1.0, 2.5, 1e3] },
        ]),
        kills: if version < 5 { Vec::new() } else { vec![kills(1), kills(4)] },
        dropped: if version < 5 { 0 } else { 1 << 40 },
        forgotten: Vec::new(),
        held: (version >= 8).then_some(Version(2)),
        sorted: vec![segment(10, Stage::Sorted, (0, u128::MAX)), segment(11, Stage::Sorted, (5, 5))],
        buffer: vec![segment(9, Stage::Merged, (1 << 100, u128::MAX - 1))],
        partitions: vec![
            PartitionFiles { low: 0, high: half, segments: vec![segment(3, Stage::Merged, (7, half))] },
            PartitionFiles { low: half + 1, high: u128::MAX, segments: upper },
        ],
    };
    let producer = |epoch, sequence, version| ProducerState { epoch, sequence, version: Version(version) };
    Manifest {
        database: 0x0123_4567_89ab_cdef,
        through: Version(16),
        next_segment: 12,
        next_table: match version {
            ..5 => 8,
            5 => 12,
            _ => 13,
        },
        next_kills: if version < 5 { 0 } else { 5 },
        keys: (version >= 7).then(|| vec![keys(3, 327_680), keys(9, 40)]),
        marked: version >= 8,
        held,
        catalog,
        producers: BTreeMap::from([
            ("loader".to_owned(), producer(1, 2, 3)),
            ("\"ü\"".to_owned(), producer(u64::MAX, 1, 16)),
        ]),
        tables: BTreeMap::from([(TableId(3), files), (TableId(7), TableFiles::default())]),
    }
}

fn bytes(disk: &dyn Disk, dir: &Path) -> Vec<u8> {
    let file = disk.open(&dir.join(MANIFEST_NAME)).expect("a manifest");
    let mut bytes = vec![0; file.len().expect("a length") as usize];
    file.read_exact_at(&mut bytes, 0).expect("readable");
    bytes
}

#[test]
fn format_01_is_read() {
    let read = Manifest::load(&RealDisk::new(), &golden_dir(1)).expect("readable").expect("the golden file");
    assert_eq!(format!("{read:?}"), format!("{:?}", manifest(1)), "what is read is what was written");
}

#[test]
fn format_02_is_read() {
    let read = Manifest::load(&RealDisk::new(), &golden_dir(2)).expect("readable").expect("the golden file");
    assert_eq!(format!("{read:?}"), format!("{:?}", manifest(2)), "what is read is what was written");
}

#[test]
fn format_03_is_read() {
    let read = Manifest::load(&RealDisk::new(), &golden_dir(3)).expect("readable").expect("the golden file");
    assert_eq!(format!("{read:?}"), format!("{:?}", manifest(3)), "what is read is what was written");
}

/// Its bytes are version 03's: what is new are the segments that it may name.
#[test]
fn format_04_is_read() {
    let read = Manifest::load(&RealDisk::new(), &golden_dir(4)).expect("readable").expect("the golden file");
    assert_eq!(format!("{read:?}"), format!("{:?}", manifest(4)), "what is read is what was written");
}

#[test]
fn format_05_is_read() {
    let read = Manifest::load(&RealDisk::new(), &golden_dir(5)).expect("readable").expect("the golden file");
    assert_eq!(format!("{read:?}"), format!("{:?}", manifest(5)), "what is read is what was written");
    assert_eq!(read.catalog, manifest(5).catalog, "verifiers, too, which are not printed");
}

#[test]
fn format_06_is_read() {
    let read = Manifest::load(&RealDisk::new(), &golden_dir(6)).expect("readable").expect("the golden file");
    assert_eq!(format!("{read:?}"), format!("{:?}", manifest(6)), "what is read is what was written");
    assert_eq!(read.catalog, manifest(6).catalog, "verifiers, too, which are not printed");
    assert_eq!(read.keys, None, "it names none, which is another thing than that there are none");
}

#[test]
fn format_07_is_read() {
    let read = Manifest::load(&RealDisk::new(), &golden_dir(7)).expect("readable").expect("the golden file");
    assert_eq!(format!("{read:?}"), format!("{:?}", manifest(7)), "what is read is what was written");
    assert_eq!(read.catalog, manifest(7).catalog, "verifiers, too, which are not printed");
}

#[test]
fn format_08_is_written_as_it_was_and_read() {
    let (disk, dir) = (RealDisk::new(), golden_dir(8));
    if std::env::var_os("ALLUVIA_WRITE_GOLDEN").is_some() {
        disk.create_dir_all(&dir).expect("a folder");
        manifest(8).store(&disk, &dir).expect("writes");
    }
    let read = Manifest::load(&disk, &dir).expect("readable").expect("the golden file");
    assert_eq!(format!("{read:?}"), format!("{:?}", manifest(8)), "what is read is what was written");
    assert_eq!(read.catalog, manifest(8).catalog, "verifiers, too, which are not printed");

    let memory = FaultDisk::new();
    memory.create_dir_all(Path::new("/db")).expect("a folder");
    manifest(8).store(&*memory, Path::new("/db")).expect("writes");
    let (written, golden) = (bytes(&*memory, Path::new("/db")), bytes(&disk, &dir));
    let differs = written.iter().zip(&golden).position(|(written, golden)| written != golden);
    assert_eq!(differs, None, "the first byte that differs; a new format needs a new magic and its own golden file");
    assert_eq!(written.len(), golden.len());
}
