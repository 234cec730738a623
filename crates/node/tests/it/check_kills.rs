//! `check` of tables with keys: what is dead is dead by right, what was left out is counted, and no key is there twice.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::support;
use alluvia_catalog::Change;
use alluvia_node::{CheckReport, Core, Database, DatabaseOptions, check};
use alluvia_pipeline::PipelineOptions;
use alluvia_snapshot::{Admin, Durability, Ingest, KillsFile, Manifest, NewBatch, NewRows, Read, RowChange, kills};
use alluvia_space::{OnConflict, PrimaryKey, TableDef};
use alluvia_storage::RealDisk;
use alluvia_types::{ColumnId, SegmentId, Stage, TableId, Version};
use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::RecordBatch;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The kills of a segment.
type Told = Vec<(SegmentId, Vec<(u64, Version)>)>;

/// `name(id BIGINT PRIMARY KEY, kind TEXT)`.
fn keyed(id: TableId, name: &str) -> TableDef {
    let mut def = support::table(id, name);
    def.columns[0].nullable = false;
    def.key = Some(PrimaryKey { columns: vec![ColumnId(0)], secret: [1, 2], on_conflict: OnConflict::Error });
    def
}

fn change(core: &Core, table: TableId, change: RowChange, rows: RecordBatch) {
    let checked_at = core.catalog().by_id(table).expect("it is there").changed_at;
    let rows = vec![NewRows { change, ..NewRows::insert(table, checked_at, vec![rows]) }];
    core.submit(NewBatch { rows, ..NewBatch::default() }, Durability::Sync).expect("it is let in");
}

fn upsert(core: &Core, table: TableId, ids: std::ops::Range<i64>, kind: &str) {
    let rows: Vec<(i64, &str)> = ids.map(|id| (id, kind)).collect();
    let schema = keyed(table, "any").storage_schema();
    let rows = RecordBatch::try_new(schema, support::rows(&rows).columns().to_vec()).expect("rows fit");
    change(core, table, RowChange::Upsert, rows);
}

fn delete(core: &Core, table: TableId, ids: std::ops::Range<i64>) {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(ids));
    let schema = Schema::new(vec![Field::new("id", DataType::Int64, false)]);
    change(core, table, RowChange::Delete, RecordBatch::try_new(Arc::new(schema), vec![ids]).expect("one column"));
}

/// A database with dead rows in merged and sorted segments, rows that were left out, and kills that the log alone has.
fn database(dir: &Path) {
    let never = Duration::from_secs(3600);
    let pipeline = PipelineOptions { sort_interval: never, merge_interval: never, ..PipelineOptions::default() };
    let db = Database::open_with(dir, DatabaseOptions { pipeline, ..DatabaseOptions::default() }).unwrap();
    let core = db.core();
    let table = core.new_table_id();
    let changes = vec![Change::CreateTable { def: keyed(table, "keyed") }];
    core.submit(NewBatch { changes, ..NewBatch::default() }, Durability::Sync).unwrap();
    upsert(core, table, 0..100, "first");
    core.organise(Stage::Merged).unwrap();
    // Most of these come and go within one sort; of each batch the last ones stay, so that the first ones are missed.
    (0..5).for_each(|at| upsert(core, table, 10 - 2 * at..30 - 2 * at, "again"));
    delete(core, table, 40..45);
    core.organise(Stage::Sorted).unwrap();
    upsert(core, table, 25..35, "third");
    core.organise(Stage::Sorted).unwrap();
    upsert(core, table, 0..3, "in the log");
    delete(core, table, 90..92);
}

fn checked(dir: &Path) -> CheckReport {
    check(dir, &mut |_| {}).unwrap()
}

fn manifest(dir: &Path) -> Manifest {
    Manifest::load(&RealDisk::new(), dir).unwrap().unwrap()
}

/// Changes the manifest, which is written with a good checksum.
fn edit(dir: &Path, change: impl FnOnce(&mut Manifest)) {
    let mut manifest = manifest(dir);
    change(&mut manifest);
    manifest.store(&RealDisk::new(), dir).unwrap();
}

fn table_of(manifest: &Manifest) -> TableId {
    *manifest.tables.keys().next().expect("the one table has files")
}

/// The files of kills that the manifest names.
fn files(dir: &Path) -> Vec<PathBuf> {
    let manifest = manifest(dir);
    let table = table_of(&manifest);
    manifest.tables[&table].kills.iter().map(|file| kills::path(dir, table, file.number)).collect()
}

/// All kills are written anew as one file, as `change` leaves them, with good checksums.
fn rewrite(dir: &Path, change: impl FnOnce(&mut Told, &Manifest)) {
    let disk = RealDisk::new();
    edit(dir, |manifest| {
        let table = table_of(manifest);
        let named = std::mem::take(&mut manifest.tables.get_mut(&table).unwrap().kills);
        let mut told: Told = Vec::new();
        for file in &named {
            for (segment, rows) in kills::read(&disk, dir, table, file).unwrap() {
                match told.iter_mut().find(|(known, _)| *known == segment) {
                    Some((_, known)) => known.extend(rows),
                    None => told.push((segment, rows)),
                }
            }
        }
        told.sort();
        told.iter_mut().for_each(|(_, rows)| rows.sort());
        change(&mut told, manifest);
        let number = manifest.next_kills;
        manifest.next_kills += 1;
        let checks = kills::write(&disk, dir, table, number, &told).unwrap();
        manifest.tables.get_mut(&table).unwrap().kills.push(KillsFile { number, checks });
    });
}

/// What a check finds after a change of a fresh database.
fn found_after(change: impl FnOnce(&Path)) -> Vec<String> {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("db");
    database(&dir);
    change(&dir);
    checked(&dir).findings
}

/// Exactly one finding, which says all of this.
#[track_caller]
fn assert_one(findings: &[String], parts: &[&str]) {
    assert!(findings.len() == 1 && parts.iter().all(|part| findings[0].contains(part)), "{parts:?}: {findings:#?}");
}

#[test]
fn what_is_dead_and_what_was_left_out_is_sound() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("db");
    database(&dir);
    let report = checked(&dir);
    assert_eq!((&report.findings, &report.notices), (&Vec::<String>::new(), &Vec::<String>::new()));
    // Of 100, 28 and 10 rows: 28 and 5 were replaced or deleted, then 10 were replaced. The first row of a sort stays.
    assert_eq!((report.rows, report.dead_rows), (139, 44));
    let files = manifest(&dir);
    assert_eq!(files.tables[&table_of(&files)].dropped, 71, "of four batches 18 rows came and went, but for the first");
    // Written anew as they are, they say the same.
    rewrite(&dir, |_, _| {});
    let report = checked(&dir);
    assert_eq!((report.findings, report.dead_rows), (Vec::new(), 44));
    // Those that were named before are what an interrupted run leaves.
    assert!(!report.notices.is_empty() && report.notices.iter().all(|notice| notice.contains("the next start")));
    // Merged, which leaves out what is dead.
    let db = Database::open(&dir).unwrap();
    db.core().organise(Stage::Merged).unwrap();
    drop(db);
    let report = checked(&dir);
    assert_eq!((&report.findings, &report.notices), (&Vec::<String>::new(), &Vec::<String>::new()));
    assert!(report.rows - report.dead_rows == 93, "95 rows were there, and two were deleted: {report:?}");
}

#[test]
fn damaged_and_missing_files_of_kills_are_named() {
    let findings = found_after(|dir| fs::remove_file(&files(dir)[0]).unwrap());
    assert_one(&findings, &["kills-"]);
    for at in [3, 20] {
        let findings = found_after(|dir| {
            let path = files(dir).remove(0);
            let mut bytes = fs::read(&path).unwrap();
            bytes[at] ^= 0x10;
            fs::write(path, bytes).unwrap();
        });
        assert_one(&findings, &["kills-"]);
    }
}

#[test]
fn kills_that_cannot_be_are_found() {
    let findings = found_after(|dir| {
        rewrite(dir, |told, _| told[0].1.push((1 << 20, Version(5))));
    });
    assert_one(&findings, &["kills-", "row 1048576 of segment", "is dead, which has"]);
    let findings = found_after(|dir| {
        rewrite(dir, |told, manifest| {
            let through = manifest.through;
            told[0].1[0].1 = through.next();
        });
    });
    // A row that was replaced is alive then, and its key is there twice.
    assert!((1..=2).contains(&findings.len()) && findings[0].contains("after the watermark"), "{findings:#?}");
    let findings = found_after(|dir| rewrite(dir, |told, _| told[0].1[0].1 = Version(1)));
    assert_one(&findings, &["is killed by version 1", "of version 2"]);
    // The same kill in two files.
    let findings = found_after(|dir| {
        edit(dir, |manifest| {
            let table = table_of(manifest);
            let number = manifest.next_kills;
            manifest.next_kills += 1;
            let named = &mut manifest.tables.get_mut(&table).unwrap().kills;
            let told = kills::read(&RealDisk::new(), dir, table, &named[0]).unwrap();
            let checks = kills::write(&RealDisk::new(), dir, table, number, &told[..1]).unwrap();
            named.push(KillsFile { number, checks });
        });
    });
    assert_one(&findings, &["kills-", "is killed twice"]);
}

#[test]
fn lost_kills_and_rows_that_are_missing_are_found() {
    // The row that was replaced is alive again, beside the one that replaced it.
    let findings = found_after(|dir| {
        rewrite(dir, |told, _| {
            // The last kills are of rows that were replaced by the last sort.
            let newest = told.iter().flat_map(|(_, rows)| rows).map(|kill| kill.1).max().unwrap();
            told.iter_mut().for_each(|(_, rows)| rows.retain(|kill| kill.1 != newest));
            told.retain(|(_, rows)| !rows.is_empty());
        });
    });
    assert_one(&findings, &["table 'keyed': 10 live rows have a key that another one has", "row ", "segment "]);
    let findings = found_after(|dir| {
        edit(dir, |manifest| {
            let table = table_of(manifest);
            manifest.tables.get_mut(&table).unwrap().dropped = 0;
        });
    });
    assert_one(&findings, &["table 'keyed': 71 rows are in no segment, first number 1 of version 3"]);
    let findings = found_after(|dir| {
        edit(dir, |manifest| {
            let table = table_of(manifest);
            manifest.tables.get_mut(&table).unwrap().dropped -= 1;
        });
    });
    assert_one(&findings, &["71 rows are in no segment", "70 were left out because they were dead"]);
    let findings = found_after(|dir| edit(dir, |manifest| manifest.next_kills = 0));
    assert!(findings.iter().all(|finding| finding.contains("is the next")) && !findings.is_empty(), "{findings:#?}");
}
