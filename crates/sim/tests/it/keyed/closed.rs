//! A segment file or a file of kills that is gone or damaged closes its table, and the other one goes on; once the file is back all is there.

use super::model::{Change, Part};
use super::tables::{KeyKind, key, row};
use super::world::{KEYED, KEYLESS, NEWEST, Setup, bytes, create, files, new_batch, open};
use alluvia_catalog::Change as DefinitionChange;
use alluvia_sim::rows::{Row, rows_of};
use alluvia_sim::{Engine, Random};
use alluvia_snapshot::{Durability, NewBatch};
use alluvia_space::OnConflict;
use alluvia_storage::{Disk, FaultDisk, Survival};
use alluvia_types::{Error, ErrorKind, Result, TableId, Version};
use std::path::Path;
use std::sync::Arc;

fn setup() -> Setup {
    Setup::new(KeyKind::Number, OnConflict::Error)
}

fn reopen(disk: &Arc<FaultDisk>) -> Engine {
    open(disk, &Arc::default(), &Arc::default(), &setup()).expect("the others open")
}

fn insert(engine: &Engine, tables: &[TableId], table: usize, number: u64) -> Result<()> {
    let kind = if table == KEYED { KeyKind::Number } else { KeyKind::None };
    let part = Part::new(table, Change::Insert(vec![row(kind, number, &mut Random::new(number))]));
    engine.submit(new_batch(engine, tables, &[part])?, Durability::Sync).map(drop)
}

fn count(engine: &Engine, table: TableId) -> Result<usize> {
    let snapshot = engine.snapshot(NEWEST, Version(0), &[table])?;
    Ok(rows_of(&snapshot, table)?.len())
}

/// Two tables with rows in segments, and dead ones in that with a key.
fn database() -> (Arc<FaultDisk>, Vec<TableId>) {
    let disk = FaultDisk::new();
    let engine = reopen(&disk);
    let tables = create(&engine, &setup()).expect("tables");
    for number in 0..20 {
        insert(&engine, &tables, KEYED, number).expect("a row");
        insert(&engine, &tables, KEYLESS, number).expect("a row");
    }
    engine.sort().expect("sorted");
    engine.merge().expect("merged");
    let gone: Vec<Row> = vec![key(KeyKind::Number, 3)];
    let part = Part::new(KEYED, Change::Delete(gone));
    engine.submit(new_batch(&engine, &tables, &[part]).expect("a batch"), Durability::Sync).expect("deleted");
    engine.sort().expect("sorted");
    (disk, tables)
}

fn closed(error: &Error, path: &Path) {
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    let name = path.file_name().expect("a name").to_string_lossy().into_owned();
    assert!(error.message().contains(&name) && error.message().contains("is closed"), "{name}: {error}");
}

#[test]
fn every_file_closes_its_table_and_no_other() {
    let (whole, tables) = database();
    let all = [files(&whole, "segments", "seg-"), files(&whole, "", "kills-")].concat();
    assert!(all.len() > 4 && !files(&whole, "", "kills-").is_empty(), "{all:?}");
    let mut met = [0, 0];
    for path in &all {
        let disk = whole.after_power_loss(Survival::Everything);
        let kept = bytes(&disk, path);
        disk.remove(path).expect("removed");
        let engine = reopen(&disk);
        let counts = tables.iter().map(|&table| count(&engine, table)).collect::<Vec<_>>();
        let which = match counts.iter().position(Result::is_err) {
            Some(which) => which,
            // A rung is done without.
            None => continue,
        };
        met[which] += 1;
        closed(counts[which].as_ref().expect_err("closed"), path);
        let other = 1 - which;
        let before = *counts[other].as_ref().expect("open");
        closed(&insert(&engine, &tables, which, 100).expect_err("closed"), path);
        insert(&engine, &tables, other, 100).expect("open");
        // Stages leave it alone, and so do starts.
        engine.sort().expect("sorted");
        engine.merge().expect("merged");
        drop(engine);
        let engine = reopen(&disk);
        closed(&count(&engine, tables[which]).expect_err("closed"), path);
        assert_eq!(count(&engine, tables[other]).expect("open"), before + 1);
        drop(engine);

        let restored = disk.after_power_loss(Survival::Everything);
        restored.create(path).expect("made").write_all_at(&kept, 0).expect("written");
        let engine = reopen(&restored);
        assert_eq!(count(&engine, tables[which]).expect("open again"), if which == KEYED { 19 } else { 20 });
        insert(&engine, &tables, which, 200).expect("open again");
        drop(engine);

        // Or it is dropped, with its files.
        let engine = reopen(&disk);
        let dropped = DefinitionChange::DropTable { id: tables[which] };
        engine.submit(NewBatch { changes: vec![dropped], ..NewBatch::default() }, Durability::Sync).expect("dropped");
        engine.sort().expect("sorted");
        drop(engine);
        let engine = reopen(&disk);
        assert_eq!(count(&engine, tables[other]).expect("open"), before + 1);
        assert_eq!(engine.catalog().tables().count(), 1);
    }
    assert!(met.iter().all(|&met| met > 0), "{met:?}");
}

/// What came after the manifest is in the log alone, and is not lost when a sort lets the log go.
#[test]
fn rows_of_the_log_are_kept_for_a_table_that_is_closed() {
    let (disk, tables) = database();
    let engine = reopen(&disk);
    insert(&engine, &tables, KEYLESS, 50).expect("a row");
    drop(engine);
    let mut met = 0;
    for path in files(&disk, "segments", "seg-") {
        let kept = bytes(&disk, &path);
        let damaged = disk.after_power_loss(Survival::Everything);
        damaged.remove(&path).expect("removed");
        let engine = reopen(&damaged);
        if count(&engine, tables[KEYLESS]).is_ok() {
            continue;
        }
        met += 1;
        insert(&engine, &tables, KEYED, 60).expect("open");
        engine.sort().expect("sorted");
        engine.merge().expect("merged");
        drop(engine);
        let engine = reopen(&damaged);
        count(&engine, tables[KEYLESS]).expect_err("closed");
        drop(engine);
        damaged.create(&path).expect("made").write_all_at(&kept, 0).expect("written");
        let engine = reopen(&damaged);
        assert_eq!(count(&engine, tables[KEYLESS]).expect("open again"), 21);
        engine.merge().expect("merged");
        assert_eq!(count(&engine, tables[KEYLESS]).expect("merged"), 21);
    }
    assert!(met > 0);
}
