//! A table is closed, and the log has changes of it that cannot be applied without the file that is gone: they stay in the log, whatever the
//! other table does meanwhile, and once the file is back all is there.
//!
//! The model: the same directory without damage.

use super::model::{Change, Part};
use super::tables::{KeyKind, key, row};
use super::world::{KEYED, KEYLESS, NEWEST, Setup, bytes, create, files, new_batch, open};
use alluvia_catalog::Change as DefinitionChange;
use alluvia_sim::rows::{FoundRow, Row, rows_of};
use alluvia_sim::{DIR, Engine, Random};
use alluvia_snapshot::{Durability, Manifest, NewBatch};
use alluvia_space::OnConflict;
use alluvia_storage::{Disk, FaultDisk, Survival};
use alluvia_types::{Error, ErrorKind, Result, SegmentId, TableId, Version};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const KIND: KeyKind = KeyKind::Number;

fn setup() -> Setup {
    let mut setup = Setup::new(KIND, OnConflict::Replace);
    // So that files of the log come and go.
    setup.options.log_file_bytes_max = 1 << 10;
    setup
}

fn reopen(disk: &Arc<FaultDisk>) -> Result<Engine> {
    open(disk, &Arc::default(), &Arc::default(), &setup())
}

fn copy(disk: &Arc<FaultDisk>) -> Arc<FaultDisk> {
    disk.after_power_loss(Survival::Everything)
}

fn rows(engine: &Engine, table: TableId) -> Result<Vec<FoundRow>> {
    rows_of(&engine.snapshot(NEWEST, Version(0), &[table])?, table)
}

fn some(kind: KeyKind, numbers: std::ops::Range<u64>) -> Vec<Row> {
    numbers.map(|number| row(kind, number, &mut Random::new(number + 1))).collect()
}

fn submit(engine: &Engine, tables: &[TableId], parts: &[Part]) {
    let batch = new_batch(engine, tables, parts).expect("a batch");
    engine.submit(batch, Durability::Sync).expect("let in");
}

/// The other table is written, sorted and merged, so that the log would go.
fn write_other(engine: &Engine, tables: &[TableId], round: u64) {
    for at in 0..6 {
        let from = 1000 + round * 1000 + at * 10;
        submit(engine, tables, &[Part::new(KEYLESS, Change::Insert(some(KeyKind::None, from..from + 8)))]);
        engine.sort().expect("sorted");
    }
    engine.merge().expect("merged");
}

fn put_back(disk: &FaultDisk, path: &Path, bytes: &[u8]) {
    if disk.exists(path) {
        disk.remove(path).expect("removed");
    }
    disk.create(path).expect("made").write_all_at(bytes, 0).expect("written");
}

fn manifest(disk: &FaultDisk) -> Manifest {
    Manifest::load(disk, Path::new(DIR)).expect("read").expect("there")
}

/// Two tables with rows and dead rows in segments; and in the log, of both: rows that come, go and are replaced, and a staged load.
struct Whole {
    disk: Arc<FaultDisk>,
    tables: Vec<TableId>,
    /// What the tables have.
    rows: [Vec<FoundRow>; 2],
    /// Files of segments that the manifest names.
    named: BTreeSet<PathBuf>,
    /// Those of the staged loads.
    staged: Vec<(usize, PathBuf)>,
}

impl Whole {
    fn new() -> Whole {
        let disk = FaultDisk::new();
        let engine = reopen(&disk).expect("opened");
        let tables = create(&engine, &setup()).expect("tables");
        for round in 0..3 {
            let from = round * 10;
            submit(&engine, &tables, &[Part::new(KEYED, Change::Upsert(some(KIND, from..from + 10)))]);
            submit(&engine, &tables, &[Part::new(KEYLESS, Change::Insert(some(KeyKind::None, from..from + 10)))]);
            engine.sort().expect("sorted");
        }
        engine.merge().expect("merged");
        submit(&engine, &tables, &[Part::new(KEYED, Change::Delete(vec![key(KIND, 3)]))]);
        submit(&engine, &tables, &[Part::new(KEYLESS, Change::DeleteRows(vec![(3, 2)]))]);
        engine.sort().expect("sorted");
        let named: BTreeSet<PathBuf> = files(&disk, "segments", "seg-").into_iter().collect();
        submit(&engine, &tables, &[Part::new(KEYED, Change::Upsert(some(KIND, 8..12)))]);
        submit(
            &engine,
            &tables,
            &[
                Part::new(KEYED, Change::Delete(vec![key(KIND, 9), key(KIND, 21)])),
                Part::new(KEYLESS, Change::Insert(some(KeyKind::None, 50..52))),
            ],
        );
        submit(&engine, &tables, &[Part::new(KEYLESS, Change::DeleteRows(vec![(5, 1), (7, 4)]))]);
        let mut staged = Vec::new();
        for (table, kind, from) in [(KEYED, KIND, 20), (KEYLESS, KeyKind::None, 60)] {
            let before = files(&disk, "segments", "seg-");
            submit(&engine, &tables, &[Part::new(table, Change::Load(some(kind, from..from + 15)))]);
            let after = files(&disk, "segments", "seg-").into_iter();
            staged.extend(after.filter(|path| !before.contains(path)).map(|path| (table, path)));
        }
        submit(&engine, &tables, &[Part::new(KEYED, Change::Delete(vec![key(KIND, 22), key(KIND, 1)]))]);
        let rows = [KEYED, KEYLESS].map(|table| rows(&engine, tables[table]).expect("read"));
        Whole { disk, tables, rows, named, staged }
    }

    /// Which table is closed, if the other one is whole.
    #[track_caller]
    fn closed(&self, engine: &Engine) -> Option<usize> {
        let closed = engine.views().base().closed.keys().next().copied()?;
        let closed = self.tables.iter().position(|&table| table == closed).expect("one of these");
        let found = [KEYED, KEYLESS].map(|table| rows(engine, self.tables[table]));
        let error = found[closed].as_ref().expect_err("closed");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.message().contains("is closed") && error.message().contains(DIR), "{error}");
        assert_eq!(found[1 - closed].as_ref().expect("open"), &self.rows[1 - closed]);
        Some(closed)
    }

    /// A file without which a table is closed.
    fn closing(&self) -> PathBuf {
        let closes = |path: &&PathBuf| {
            let disk = copy(&self.disk);
            disk.remove(path).expect("removed");
            self.closed(&reopen(&disk).expect("opened")).is_some()
        };
        self.named.iter().find(closes).expect("a file").clone()
    }

    fn check(&self, engine: &Engine, what: &str) {
        for table in [KEYED, KEYLESS] {
            assert_eq!(rows(engine, self.tables[table]).expect("open"), self.rows[table], "{what}");
        }
    }

    /// Opens it, closed; writes the other table for a while, through more starts; puts the file back.
    fn through(&self, disk: &Arc<FaultDisk>, path: &Path, what: &str) -> Option<usize> {
        let kept = bytes(&self.disk, path);
        let engine = reopen(disk).unwrap_or_else(|error| panic!("{what}: {error}"));
        let which = self.closed(&engine)?;
        let refused = engine.submit(
            new_batch(&engine, &self.tables, &[Part::new(which, Change::Insert(Vec::new()))]).expect("a batch"),
            Durability::Sync,
        );
        assert_eq!(refused.expect_err("closed").kind(), ErrorKind::Corrupt, "{what}");
        let mut other = self.rows[1 - which].len();
        let mut engine = engine;
        for round in 0..3 {
            if which == KEYED {
                write_other(&engine, &self.tables, round);
                other += 48;
            } else {
                submit(&engine, &self.tables, &[Part::new(KEYED, Change::Upsert(some(KIND, 3..4)))]);
                engine.sort().expect("sorted");
            }
            drop(engine);
            engine = reopen(disk).unwrap_or_else(|error| panic!("{what}, start {round}: {error}"));
            assert!(rows(&engine, self.tables[which]).is_err(), "{what}: it is closed");
        }
        drop(engine);
        put_back(disk, path, &kept);
        for start in 0..2 {
            let engine = reopen(disk).unwrap_or_else(|error| panic!("{what}, put back: {error}"));
            let found = rows(&engine, self.tables[which]).expect("open again");
            assert_eq!(found, self.rows[which], "{what}, start {start}");
            if which == KEYED {
                assert_eq!(rows(&engine, self.tables[KEYLESS]).expect("open").len(), other, "{what}");
            }
            #[cfg(feature = "paranoid")]
            for table in &self.tables {
                engine.views().check_key_index(&engine.entry(*table).expect("there").def).expect("an index");
            }
            engine.sort().expect("sorted");
            engine.merge().expect("merged");
            assert_eq!(rows(&engine, self.tables[which]).expect("merged"), self.rows[which], "{what}");
            assert!(manifest(disk).held.is_none(), "{what}: the log may go");
        }
        Some(which)
    }
}

#[test]
fn what_the_log_has_of_a_closed_table_is_there_once_the_file_is_back() {
    let whole = Whole::new();
    let mut met = [0, 0];
    let kills = files(&whole.disk, "", "kills-");
    assert!(kills.len() > 1, "{kills:?}");
    for path in whole.named.iter().chain(&kills) {
        let disk = copy(&whole.disk);
        disk.remove(path).expect("removed");
        // Rungs are done without, and side files are made anew.
        if let Some(which) = whole.through(&disk, path, &path.display().to_string()) {
            met[which] += 1;
        }
    }
    assert!(met[KEYED] > 1 && met[KEYLESS] > 1, "{met:?}");
}

#[test]
fn a_staged_file_that_the_log_names_closes_its_table_alone() {
    let whole = Whole::new();
    assert_eq!(whole.staged.len(), 4, "{:?}", whole.staged);
    for (table, path) in &whole.staged {
        let what = path.display().to_string();
        let disk = copy(&whole.disk);
        disk.remove(path).expect("removed");
        if what.ends_with(".side") {
            // It is made anew of the Parquet file.
            whole.check(&reopen(&disk).expect("opened"), &what);
            continue;
        }
        assert_eq!(whole.through(&disk, path, &what), Some(*table), "{what}");

        // Or it is forgotten, with its rows and no others.
        let disk = copy(&whole.disk);
        disk.remove(path).expect("removed");
        let engine = reopen(&disk).expect("opened");
        assert_eq!(whole.closed(&engine), Some(*table));
        let id =
            alluvia_tree::segment_of_file(&path.file_name().expect("a name").to_string_lossy()).expect("a segment");
        let lost = engine.forget_segment(whole.tables[*table], id, false).expect("it is damaged");
        assert_eq!(lost.forgotten.rows, 15, "{what}");
        let lost = engine.forget_segment(whole.tables[*table], id, true).expect("forgotten");
        assert!(lost.still_closed.is_some_and(|why| why.message().contains("at the next start")), "{what}");
        assert!(rows(&engine, whole.tables[*table]).is_err());
        drop(engine);
        for start in 0..2 {
            let engine = reopen(&disk).expect("opened");
            let mut found = rows(&engine, whole.tables[*table]).expect("open again");
            found.sort();
            let staged = |row: &&FoundRow| row.ordinal >> 32 == id.0;
            let expected: Vec<FoundRow> = without_load(&whole, *table, id);
            assert_eq!(found.iter().filter(staged).count(), 0);
            assert_eq!(found, expected, "{what}, start {start}");
            engine.merge().expect("merged");
        }
    }
}

/// What a table has without a staged load: of the keys that it replaced the rows of before are there, but for what was deleted since.
fn without_load(whole: &Whole, table: usize, id: SegmentId) -> Vec<FoundRow> {
    let mut left: Vec<FoundRow> = whole.rows[table].iter().filter(|row| row.ordinal >> 32 != id.0).cloned().collect();
    if table == KEYED {
        // 20 to 29 were there: 21 was deleted before the load, and 22 after it.
        let before = Whole::new_rows_of_segments();
        left.extend(before.into_iter().filter(|row| ![21, 22].contains(&number_of(row))));
    }
    left.sort();
    left
}

fn number_of(row: &FoundRow) -> u64 {
    (0..100).find(|&number| key(KIND, number)[..] == row.row[..1]).expect("a key of these")
}

impl Whole {
    /// Rows 20 to 29 of the table with a key as they came at first.
    fn new_rows_of_segments() -> Vec<FoundRow> {
        let disk = FaultDisk::new();
        let engine = reopen(&disk).expect("opened");
        let tables = create(&engine, &setup()).expect("tables");
        for round in 0..3 {
            let from = round * 10;
            submit(&engine, &tables, &[Part::new(KEYED, Change::Upsert(some(KIND, from..from + 10)))]);
            submit(&engine, &tables, &[Part::new(KEYLESS, Change::Insert(some(KeyKind::None, from..from + 10)))]);
        }
        let all = rows(&engine, tables[KEYED]).expect("read");
        all.into_iter().filter(|row| number_of(row) >= 20).collect()
    }
}

/// A byte of the Parquet file is another: the start meets it where the log needs the keys of what is there.
#[test]
fn damage_that_the_log_meets_closes_the_table() {
    let whole = Whole::new();
    let mut met = 0;
    for path in whole.named.iter().filter(|path| path.to_string_lossy().ends_with(".parquet")) {
        let len = bytes(&whole.disk, path).len() as u64;
        for at in (4..len).step_by(211) {
            let disk = copy(&whole.disk);
            disk.corrupt(path, at, 0x20);
            met += usize::from(whole.through(&disk, path, &format!("{} at {at}", path.display())).is_some());
        }
    }
    assert!(met > 3, "{met}");
}

/// Definitions that come and go meanwhile, and the table that the log is kept for.
#[test]
fn definitions_change_while_the_log_is_kept() {
    let whole = Whole::new();
    let path = &whole.closing();
    let kept = bytes(&whole.disk, path);
    let damaged = copy(&whole.disk);
    damaged.remove(path).expect("removed");
    let drop_table = |engine: &Engine, id: TableId| {
        let changes = vec![DefinitionChange::DropTable { id }];
        engine.submit(NewBatch { changes, ..NewBatch::default() }, Durability::Sync).expect("dropped");
    };
    for closed_goes in [false, true] {
        let disk = copy(&damaged);
        let engine = reopen(&disk).expect("opened");
        let which = whole.closed(&engine).expect("a table is closed");
        let more = create(&engine, &Setup::new(KIND, OnConflict::Error));
        // Names are taken: what is refused leaves no trace.
        assert!(more.is_err());
        write_other_of(&engine, &whole, which);
        drop_table(&engine, whole.tables[if closed_goes { which } else { 1 - which }]);
        engine.sort().expect("sorted");
        drop(engine);
        let engine = reopen(&disk).expect("opened");
        assert_eq!(engine.catalog().tables().count(), 1);
        if closed_goes {
            assert!(manifest(&disk).held.is_none() && manifest(&disk).tables.len() == 1);
            let left = rows(&engine, whole.tables[1 - which]).expect("open");
            engine.merge().expect("merged");
            assert_eq!(rows(&engine, whole.tables[1 - which]).expect("merged"), left);
            continue;
        }
        assert!(rows(&engine, whole.tables[which]).is_err());
        drop(engine);
        put_back(&disk, path, &kept);
        let engine = reopen(&disk).expect("opened");
        assert_eq!(rows(&engine, whole.tables[which]).expect("open"), whole.rows[which]);
        assert_eq!(engine.catalog().tables().count(), 1);
    }
}

fn write_other_of(engine: &Engine, whole: &Whole, closed: usize) {
    let part = match closed {
        KEYED => Part::new(KEYLESS, Change::Insert(some(KeyKind::None, 90..95))),
        _ => Part::new(KEYED, Change::Upsert(some(KIND, 90..95))),
    };
    submit(engine, &whole.tables, &[part]);
}

/// The power goes at each call of a start that finds the table closed, and of one that finds it open again.
#[test]
fn power_loss_while_a_table_is_closed_and_opened_again() {
    let whole = Whole::new();
    let path = &whole.closing();
    let kept = bytes(&whole.disk, path);
    let closed = copy(&whole.disk);
    closed.remove(path).expect("removed");
    closed.sync_dir(&Path::new(DIR).join("segments")).expect("synced");
    let work = |disk: &Arc<FaultDisk>| -> Result<()> {
        let engine = reopen(disk)?;
        engine.sort()?;
        engine.merge().map(drop)
    };
    let begun = copy(&closed);
    let engine = reopen(&begun).expect("opened");
    let which = whole.closed(&engine).expect("a table is closed");
    write_other_of(&engine, &whole, which);
    engine.sort().expect("sorted");
    let other = rows(&engine, whole.tables[1 - which]).expect("open");
    drop(engine);
    for (from, is_back, left) in
        [(&closed, false, &whole.rows[1 - which]), (&begun, false, &other), (&begun, true, &other)]
    {
        let from = copy(from);
        if is_back {
            put_back(&from, path, &kept);
            from.open(path).and_then(|file| file.sync_data()).expect("synced");
            from.sync_dir(&Path::new(DIR).join("segments")).expect("synced");
        }
        for calls in 1.. {
            let disk = copy(&from);
            disk.fail_after(calls);
            let worked: Result<(), Error> = work(&disk);
            for survival in [Survival::SyncedOnly, Survival::Everything, Survival::Torn { seed: calls }] {
                let what = format!("call {calls}, {survival:?}, back: {is_back}");
                let disk = disk.after_power_loss(survival);
                if !is_back {
                    let engine = reopen(&disk).unwrap_or_else(|error| panic!("{what}: {error}"));
                    assert!(rows(&engine, whole.tables[which]).is_err(), "{what}");
                    drop(engine);
                    put_back(&disk, path, &kept);
                }
                let engine = reopen(&disk).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(rows(&engine, whole.tables[which]).expect("open"), whole.rows[which], "{what}");
                assert_eq!(&rows(&engine, whole.tables[1 - which]).expect("open"), left, "{what}");
            }
            if worked.is_ok() {
                assert!(calls > 10, "{calls}");
                break;
            }
        }
    }
}
