//! Purges: what was deleted is in no file of the database, also where the power goes during the purge.
//!
//! What is to be forgotten has marks in it: random bytes, which nothing compresses, so that they are found in every file that has
//! them.

use super::model::{Change, Part};
use super::tables::{KeyKind, key, row};
use super::world::{KEYED, KEYLESS, NEWEST, Setup, create, new_batch, open};
use alluvia_sim::rows::{Row, Value, rows_of, table_batch};
use alluvia_sim::{Engine, Gate, Random};
use alluvia_snapshot::{Durability, NewBatch, PurgeWait, Snapshot};
use alluvia_space::OnConflict;
use alluvia_storage::{Disk, FaultDisk, Survival};
use alluvia_types::{Error, ErrorKind, ManualClock, Result, TableId, Version};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// In a column that no dimension has.
const NOTE: &str = "q7Vx0TzLk9w2mHc4";
/// In a dimension.
const KIND: &str = "Jd83nPs6Yb1oRf5u";

/// Every file below a directory that has one of the marks.
fn marked(disk: &dyn Disk, dir: &Path, marks: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in disk.read_dir(dir).expect("a directory is listed") {
        let path = dir.join(&entry.name);
        if entry.is_dir {
            found.extend(marked(disk, &path, marks));
            continue;
        }
        let file = disk.open(&path).expect("a file is opened");
        let mut bytes = vec![0; file.len().expect("a file has a length") as usize];
        file.read_exact_at(&mut bytes, 0).expect("a file is read");
        let has = |mark: &&str| bytes.windows(mark.len()).any(|window| window == mark.as_bytes());
        if marks.iter().any(has) {
            found.push(path);
        }
    }
    found
}

fn all_marked(disk: &FaultDisk) -> Vec<PathBuf> {
    marked(disk, Path::new(alluvia_sim::DIR), &[NOTE, KIND])
}

fn marked_row(kind: KeyKind, number: u64, random: &mut Random) -> Row {
    let mut row = row(kind, number, random);
    let keys = kind.columns();
    row[keys] = Value::text(format!("{KIND} {number}"));
    row[keys + 3] = Value::text(format!("{NOTE} {number}"));
    row
}

/// Makes the tables and fills them: marked rows are in merged and in sorted segments, in loads and in the tail when they go.
fn fill(engine: &Engine, setup: &Setup) -> Result<Vec<TableId>> {
    let mut random = Random::new(3);
    let tables = create(engine, setup)?;
    let submit = |table: usize, change: Change| {
        engine.submit(new_batch(engine, &tables, &[Part::new(table, change)])?, Durability::Sync).map(drop)
    };
    let mut rows = |kind: KeyKind, plain: std::ops::Range<u64>, marks: std::ops::Range<u64>| -> Vec<Row> {
        let plain: Vec<Row> = plain.map(|number| row(kind, number, &mut random)).collect();
        let marked = marks.map(|number| marked_row(kind, number, &mut random));
        plain.into_iter().chain(marked.collect::<Vec<_>>()).collect()
    };
    let kind = setup.kind;
    submit(KEYED, Change::Insert(rows(kind, 0..20, 20..24)))?;
    // Version 3.
    submit(KEYLESS, Change::Insert(rows(KeyKind::None, 0..9, 9..12)))?;
    engine.sort()?;
    engine.merge()?;
    submit(KEYED, Change::Load(rows(kind, 24..30, 30..33)))?;
    engine.sort()?;
    submit(KEYED, Change::Upsert(rows(kind, 0..2, 33..36)))?;
    // Replaced by another row with its key.
    submit(KEYED, Change::Upsert(rows(kind, 20..21, 36..36)))?;
    let keys = (21..24).chain(30..36).map(|number| key(kind, number)).collect();
    submit(KEYED, Change::Delete(keys))?;
    submit(KEYLESS, Change::DeleteRows(vec![(3, 9), (3, 10), (3, 11)]))?;
    Ok(tables)
}

fn contents(snapshot: &Snapshot, tables: &[TableId]) -> Vec<Vec<Row>> {
    let rows = |&table: &TableId| {
        let mut rows: Vec<Row> =
            rows_of(snapshot, table).expect("rows are read").into_iter().map(|found| found.row).collect();
        rows.sort();
        rows
    };
    tables.iter().map(rows).collect()
}

fn newest(engine: &Engine, tables: &[TableId]) -> Vec<Vec<Row>> {
    contents(&engine.snapshot(NEWEST, Version(0), tables).expect("a snapshot"), tables)
}

fn never(wait: &PurgeWait) -> Result<()> {
    if *wait == PurgeWait::Working {
        return Ok(());
    }
    Err(Error::internal(format!("nobody reads, and it waits: {wait:?}")))
}

fn purge_all(engine: &Engine, tables: &[TableId]) -> Result<u64> {
    let purge = |&table: &TableId| engine.purge(table, &mut never).map(|purged| purged.rows);
    tables.iter().map(purge).sum()
}

fn opened(disk: &Arc<FaultDisk>, setup: &Setup) -> Engine {
    open(disk, &Arc::new(Gate::default()), &Arc::new(ManualClock::default()), setup).expect("it opens")
}

fn nothing_is_left(kind: KeyKind) {
    let setup = Setup::new(kind, OnConflict::Replace);
    let disk = FaultDisk::new();
    let engine = opened(&disk, &setup);
    let tables = fill(&engine, &setup).expect("a disk without faults");
    assert!(!all_marked(&disk).is_empty(), "the test has marks to look for");
    let rows = newest(&engine, &tables);
    let is_marked = |value: &Value| matches!(value, Value::Text(text) if text.contains(NOTE) || text.contains(KIND));
    assert!(!rows.iter().flatten().flatten().any(is_marked), "what is marked was deleted");
    let purged = purge_all(&engine, &tables).expect("nobody reads");
    assert!(purged > 0);
    assert_eq!(all_marked(&disk), Vec::<PathBuf>::new());
    // For good.
    assert_eq!(all_marked(&disk.after_power_loss(Survival::SyncedOnly)), Vec::<PathBuf>::new());
    assert_eq!(newest(&engine, &tables), rows);
    for &table in &tables {
        assert_eq!(engine.views().kills_of(table).segments().count(), 0, "no row is dead");
    }
    assert_eq!(purge_all(&engine, &tables).expect("again"), 0);
    drop(engine);
    let engine = opened(&disk, &setup);
    assert_eq!(newest(&engine, &tables), rows);
    // What was forgotten comes again as something new.
    let change = Change::Upsert(vec![marked_row(kind, 21, &mut Random::new(9))]);
    let batch = new_batch(&engine, &tables, &[Part::new(KEYED, change)]).expect("a batch");
    engine.submit(batch, Durability::Sync).expect("it is let in");
    for _ in 0..2 {
        let again = newest(&engine, &tables);
        assert_eq!(again[KEYED].len(), rows[KEYED].len() + 1);
        assert!(again[KEYED].iter().flatten().any(is_marked));
        engine.sort().expect("sorts");
        engine.merge().expect("merges");
    }
    drop(engine);
    assert!(newest(&opened(&disk, &setup), &tables)[KEYED].iter().flatten().any(is_marked));
}

#[test]
fn what_is_deleted_and_purged_is_in_no_file() {
    for kind in [KeyKind::Number, KeyKind::Pair, KeyKind::Unordered] {
        nothing_is_left(kind);
    }
}

#[test]
fn a_purge_waits_for_who_reads_and_says_so() {
    let setup = Setup::new(KeyKind::Number, OnConflict::Replace);
    let disk = FaultDisk::new();
    let engine = opened(&disk, &setup);
    let tables = create(&engine, &setup).expect("the tables are made");
    let submit = |change: Change| {
        let batch = new_batch(&engine, &tables, &[Part::new(KEYED, change)]).expect("a batch");
        engine.submit(batch, Durability::Sync).expect("it is let in").version
    };
    let random = &mut Random::new(5);
    submit(Change::Insert((0..6).map(|number| marked_row(setup.kind, number, random)).collect()));
    engine.sort().expect("sorts");
    engine.merge().expect("merges");
    let before = engine.snapshot(NEWEST, Version(0), &tables).expect("a snapshot");
    let seen = contents(&before, &tables);
    let killed = submit(Change::Delete((0..6).map(|number| key(setup.kind, number)).collect()));
    let after = engine.snapshot(NEWEST, Version(0), &tables).expect("a snapshot");

    // At once, and when it waits.
    for gives_up in [|_: &PurgeWait| true, |wait: &PurgeWait| *wait != PurgeWait::Working] {
        let given_up = |wait: &PurgeWait| match gives_up(wait) {
            true => Err(Error::new(ErrorKind::Cancelled, "no longer wanted")),
            false => Ok(()),
        };
        let error = engine.purge(tables[KEYED], &mut { given_up }).expect_err("somebody reads");
        assert_eq!(error.message(), "no longer wanted");
    }
    assert_eq!(contents(&before, &tables), seen, "who reads keeps what was there");
    assert!(!all_marked(&disk).is_empty());

    let (mut before, mut after) = (Some(before), Some(after));
    let mut waited = Vec::new();
    let purged = engine.purge(tables[KEYED], &mut |wait| {
        if *wait != PurgeWait::Working {
            waited.push(wait.clone());
        }
        match wait {
            PurgeWait::Working => {}
            PurgeWait::Snapshots { .. } => {
                assert_eq!(before.take().map(|held| contents(&held, &tables)), Some(seen.clone()))
            }
            PurgeWait::Files(_) => drop(after.take()),
            PurgeWait::Another | PurgeWait::Loads => panic!("nobody else purges, nobody loads"),
        }
        Ok(())
    });
    assert_eq!(purged.expect("all is let go").rows, 6);
    let pinned = vec![Version(killed.0 - 1)];
    assert_eq!(waited[0], PurgeWait::Snapshots { killed, pinned });
    assert!(waited[1..].iter().all(|wait| matches!(wait, PurgeWait::Files(_))), "{waited:?}");
    assert!(before.is_none() && after.is_none(), "{waited:?}");
    assert_eq!(all_marked(&disk), Vec::<PathBuf>::new());
}

/// What a load has staged is in no view; the names of its members stay all the same.
#[test]
fn a_load_that_began_before_is_waited_for() {
    let setup = Setup::new(KeyKind::Number, OnConflict::Replace);
    let disk = FaultDisk::new();
    let engine = opened(&disk, &setup);
    let tables = create(&engine, &setup).expect("the tables are made");
    let random = &mut Random::new(5);
    let submit = |batch: NewBatch| engine.submit(batch, Durability::Sync).expect("it is let in").version.0;
    let submit_part =
        |change: Change| submit(new_batch(&engine, &tables, &[Part::new(KEYLESS, change)]).expect("a batch"));
    let one = marked_row(KeyKind::None, 1, random);
    let version = submit_part(Change::Insert(vec![one.clone(), marked_row(KeyKind::None, 2, random)]));
    engine.sort().expect("sorts");
    submit_part(Change::DeleteRows(vec![(version, 0), (version, 1)]));
    let entry = engine.entry(tables[KEYLESS]).expect("it is there");
    let mut load = engine.begin_load(&entry).expect("a load");
    load.append(table_batch(&entry.def, std::slice::from_ref(&one))).expect("rows");
    let mut staged = Some(load.finish().expect("staged"));
    let mut waited = Vec::new();
    let purged = engine.purge(tables[KEYLESS], &mut |wait| {
        if *wait != PurgeWait::Working {
            waited.push(wait.clone());
        }
        if *wait == PurgeWait::Loads
            && let Some(load) = staged.take()
        {
            submit(NewBatch { loads: vec![load], ..NewBatch::default() });
        }
        Ok(())
    });
    assert_eq!(purged.expect("the load is over").members, 1, "the other one's name");
    assert_eq!(waited, [PurgeWait::Loads]);
    let check = |engine: Engine| {
        assert_eq!(newest(&engine, &tables)[KEYLESS], std::slice::from_ref(&one));
        engine.sort().expect("sorts");
        assert_eq!(newest(&engine, &tables)[KEYLESS], std::slice::from_ref(&one));
    };
    let before = disk.after_power_loss(Survival::SyncedOnly);
    check(engine);
    check(opened(&before, &setup));
    check(opened(&disk, &setup));
}

#[test]
fn power_loss_at_every_call_of_a_purge() {
    let setup = Setup::new(KeyKind::Number, OnConflict::Replace);
    let expected = {
        let disk = FaultDisk::new();
        let engine = opened(&disk, &setup);
        let tables = fill(&engine, &setup).expect("a disk without faults");
        newest(&engine, &tables)
    };
    let mut seen = HashSet::new();
    for at in 1.. {
        let disk = FaultDisk::new();
        let engine = opened(&disk, &setup);
        let tables = fill(&engine, &setup).expect("a disk without faults");
        disk.fail_after(at);
        let calls = disk.calls();
        let _ = purge_all(&engine, &tables);
        let is_whole = disk.calls() - calls < at;
        drop(engine);
        for survival in [Survival::SyncedOnly, Survival::Everything, Survival::Torn { seed: at }] {
            let survivor = disk.after_power_loss(survival);
            if !seen.insert(survivor.fingerprint()) {
                continue;
            }
            let what = format!("call {at}, {survival:?}");
            let engine = opened(&survivor, &setup);
            assert_eq!(newest(&engine, &tables), expected, "{what}");
            purge_all(&engine, &tables).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(newest(&engine, &tables), expected, "{what}: purged");
            drop(engine);
            assert_eq!(all_marked(&survivor), Vec::<PathBuf>::new(), "{what}");
            assert_eq!(newest(&opened(&survivor, &setup), &tables), expected, "{what}: opened again");
        }
        if is_whole {
            println!("{at} calls, {} states", seen.len());
            assert!(at > 20 && seen.len() > 10);
            break;
        }
    }
}
