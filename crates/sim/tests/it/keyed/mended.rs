//! Files that are damaged: rungs and side files are made anew, and no row is missed; a Parquet file is lost with its rows, and with no others.
//!
//! The model of all of it: what the tables had before, without the rows of segments that were forgotten.

use super::model::{Change, Part};
use super::tables::{KeyKind, key, row};
use super::world::{KEYED, KEYLESS, NEWEST, Setup, create, new_batch, open};
use alluvia_sim::rows::{FoundRow, Row, rows_of, rows_of_segment};
use alluvia_sim::{DIR, Engine, Random};
use alluvia_snapshot::Durability;
use alluvia_space::OnConflict;
use alluvia_storage::{Disk, FaultDisk, Survival};
use alluvia_types::{ErrorKind, Result, SegmentId, TableId, Version};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const KINDS: [KeyKind; 4] = [KeyKind::Number, KeyKind::Pair, KeyKind::Ordered, KeyKind::Unordered];
const SURVIVALS: [Survival; 3] = [Survival::SyncedOnly, Survival::Everything, Survival::Torn { seed: 5 }];

/// A database, what its tables have, and which of it each segment has.
pub struct Whole {
    pub setup: Setup,
    disk: Arc<FaultDisk>,
    pub tables: Vec<TableId>,
    rows: [Vec<FoundRow>; 2],
    pub by_segment: BTreeMap<(TableId, SegmentId), Vec<FoundRow>>,
    /// Ids of segments that are rungs.
    rungs: BTreeSet<SegmentId>,
}

fn reopen(setup: &Setup, disk: &Arc<FaultDisk>) -> Result<Engine> {
    open(disk, &Arc::default(), &Arc::default(), setup)
}

pub fn rows(engine: &Engine, table: TableId) -> Result<Vec<FoundRow>> {
    let snapshot = engine.snapshot(NEWEST, Version(0), &[table])?;
    rows_of(&snapshot, table)
}

pub fn submit(engine: &Engine, tables: &[TableId], table: usize, change: Change) {
    let batch = new_batch(engine, tables, &[Part::new(table, change)]).expect("a batch");
    engine.submit(batch, Durability::Sync).expect("let in");
}

/// Merged segments with ladders, sorted ones, dead rows in both; and rows of the table without a key in the log.
pub fn database(kind: KeyKind) -> Whole {
    let (setup, disk, mut random) = (Setup::new(kind, OnConflict::Error), FaultDisk::new(), Random::new(11));
    let engine = reopen(&setup, &disk).expect("opened");
    let tables = create(&engine, &setup).expect("tables");
    for part in 0..3 {
        for (table, kind) in [(KEYED, kind), (KEYLESS, KeyKind::None)] {
            let rows: Vec<Row> = (part * 50..part * 50 + 50).map(|number| row(kind, number, &mut random)).collect();
            submit(&engine, &tables, table, Change::Insert(rows));
        }
        if part < 2 {
            engine.sort().expect("sorted");
            engine.merge().expect("merged");
        }
    }
    let gone = [3, 60, 61, 110].map(|number| key(kind, number)).to_vec();
    submit(&engine, &tables, KEYED, Change::Delete(gone));
    submit(&engine, &tables, KEYLESS, Change::DeleteRows(vec![(2, 1), (4, 7)]));
    engine.sort().expect("sorted");
    let rest: Vec<Row> = (200..205).map(|number| row(KeyKind::None, number, &mut random)).collect();
    submit(&engine, &tables, KEYLESS, Change::Insert(rest));
    let rows = [KEYED, KEYLESS].map(|table| rows(&engine, tables[table]).expect("read"));
    let (mut by_segment, mut rungs) = (BTreeMap::new(), BTreeSet::new());
    for &table in &tables {
        let snapshot = engine.snapshot(NEWEST, Version(0), &[table]).expect("a snapshot");
        let read = &snapshot.tables[&table];
        for part in &read.segments {
            let meta = part.segment.meta();
            rungs.extend(meta.rungs.iter().map(|rung| rung.segment.id));
            by_segment.insert((table, meta.id), rows_of_segment(read, part).expect("read"));
        }
    }
    Whole { setup, disk, tables, rows, by_segment, rungs }
}

impl Whole {
    pub fn copy(&self) -> Arc<FaultDisk> {
        self.disk.after_power_loss(Survival::Everything)
    }

    pub fn open(&self, disk: &Arc<FaultDisk>) -> Engine {
        reopen(&self.setup, disk).expect("opened")
    }

    /// Files of segments: those of rungs, or the others, with this ending.
    pub fn files(&self, ending: &str, of_rungs: bool) -> Vec<(SegmentId, PathBuf)> {
        let folder = Path::new(DIR).join("segments");
        let entries = self.disk.read_dir(&folder).expect("listed").into_iter();
        let named =
            entries.filter_map(|entry| Some((alluvia_tree::segment_of_file(&entry.name)?, folder.join(entry.name))));
        let is_wanted = |(id, path): &(SegmentId, PathBuf)| {
            self.rungs.contains(id) == of_rungs && path.to_string_lossy().ends_with(ending)
        };
        named.filter(is_wanted).collect()
    }

    pub fn table_of(&self, segment: SegmentId) -> TableId {
        self.by_segment.keys().find(|(_, id)| *id == segment).expect("a segment").0
    }

    pub fn check_all(&self, engine: &Engine, what: &str) {
        for (at, rows_before) in self.rows.iter().enumerate() {
            assert_eq!(&rows(engine, self.tables[at]).expect("open"), rows_before, "{what}");
        }
    }

    /// What a table has without these segments.
    pub fn without(&self, at: usize, segments: &BTreeSet<SegmentId>) -> Vec<FoundRow> {
        let lost = self.by_segment.iter().filter(|((_, id), _)| segments.contains(id));
        let lost: BTreeSet<&FoundRow> =
            lost.filter(|((table, _), _)| *table == self.tables[at]).flat_map(|(_, rows)| rows).collect();
        self.rows[at].iter().filter(|row| !lost.contains(row)).cloned().collect()
    }
}

pub fn bytes(disk: &FaultDisk, path: &Path) -> Vec<u8> {
    let file = disk.open(path).expect("there");
    let mut bytes = vec![0; file.len().expect("a length") as usize];
    file.read_exact_at(&mut bytes, 0).expect("read");
    bytes
}

/// Ways to damage a file: it is gone, cut to a part, or a byte of it is another.
pub fn damage(disk: &FaultDisk, path: &Path, way: u64, at: u64) {
    let file = disk.open(path).expect("there");
    let len = file.len().expect("a length");
    match way {
        0 => disk.remove(path).expect("removed"),
        1 => file.set_len(at % len).expect("cut"),
        _ => disk.corrupt(path, at % len, 1 << (at % 7)),
    }
}

#[test]
fn a_side_file_that_is_gone_or_cut_is_made_anew_byte_by_byte() {
    let mut met = 0;
    for kind in KINDS {
        let whole = database(kind);
        assert!(!whole.rungs.is_empty(), "{kind:?} has ladders");
        for (id, path) in whole.files(".side", false) {
            for way in [0, 1] {
                let disk = whole.copy();
                let before = bytes(&disk, &path);
                damage(&disk, &path, way, 70 * id.0);
                let what = format!("{kind:?}, {}, way {way}", path.display());
                let engine = whole.open(&disk);
                whole.check_all(&engine, &what);
                assert!(bytes(&disk, &path) == before, "{what}: it is another file");
                assert_eq!(engine.mend().expect("nothing to do"), Vec::<String>::new());
                met += 1;
            }
        }
    }
    assert!(met > 10, "{met}");
}

/// All side files together, and the power goes at each call meanwhile.
#[test]
fn side_files_are_made_anew_wherever_the_power_goes() {
    let whole = database(KeyKind::Number);
    let damaged = whole.copy();
    for (_, path) in whole.files(".side", false) {
        damaged.remove(&path).expect("removed");
    }
    damaged.sync_dir(&Path::new(DIR).join("segments")).expect("synced");
    let mut n = 0;
    loop {
        n += 1;
        let disk = damaged.after_power_loss(Survival::Everything);
        disk.fail_after(n);
        let opened = reopen(&whole.setup, &disk);
        for survival in SURVIVALS {
            let after = disk.after_power_loss(survival);
            whole.check_all(&whole.open(&after), &format!("call {n}, {survival:?}"));
        }
        if opened.is_ok() {
            break;
        }
    }
    assert!(n > 8, "{n} calls");
}

#[test]
fn a_damaged_rung_is_done_without_and_made_anew() {
    let mut met = 0;
    for kind in [KeyKind::Number, KeyKind::Ordered] {
        let whole = database(kind);
        for ending in [".side", ".parquet"] {
            for (id, path) in whole.files(ending, true) {
                let way = id.0 % 2;
                let disk = whole.copy();
                damage(&disk, &path, way, 50 * id.0);
                let engine = whole.open(&disk);
                whole.check_all(&engine, "before");
                let told = engine.mend().expect("mended");
                assert!(told.len() == 1 && told[0].contains("rung"), "{told:?}");
                whole.check_all(&engine, "after");
                let segments = engine.views().segments();
                assert!(segments.iter().all(|segment| segment.rungs().len() == segment.meta().rungs.len()));
                let def = |table| engine.entry(table).expect("there").def.clone();
                segments.iter().for_each(|segment| segment.verify(&def(segment.meta().table)).expect("a whole ladder"));
                drop(segments);
                drop(engine);
                let engine = whole.open(&disk);
                assert_eq!(engine.mend().expect("nothing to do"), Vec::<String>::new());
                whole.check_all(&engine, "again");
                engine.merge().expect("merged");
                whole.check_all(&engine, "merged");
                met += 1;
            }
        }
    }
    assert!(met > 3, "{met}");
}

#[test]
fn rungs_are_made_anew_wherever_the_power_goes() {
    let whole = database(KeyKind::Number);
    let damaged = whole.copy();
    for (_, path) in whole.files(".side", true) {
        damaged.remove(&path).expect("removed");
    }
    damaged.sync_dir(&Path::new(DIR).join("segments")).expect("synced");
    let mut n = 0;
    loop {
        n += 1;
        let disk = damaged.after_power_loss(Survival::Everything);
        let engine = whole.open(&disk);
        disk.fail_after(n);
        let mended = engine.mend();
        drop(engine);
        for survival in SURVIVALS {
            let after = disk.after_power_loss(survival);
            let engine = whole.open(&after);
            engine.mend().expect("mended");
            whole.check_all(&engine, &format!("call {n}, {survival:?}"));
            assert_eq!(engine.mend().expect("nothing to do"), Vec::<String>::new());
        }
        if mended.is_ok() {
            break;
        }
    }
    assert!(n > 5, "{n} calls");
}

/// Each byte of a small side file, as often as there is time: read, mended, and right.
#[test]
fn a_side_file_with_another_byte_is_refused_and_then_made_anew() {
    let whole = database(KeyKind::Number);
    let (mut refused, mut mended) = (0, 0);
    for (_, path) in whole.files(".side", false) {
        let len = bytes(&whole.disk, &path).len() as u64;
        for at in (0..len).step_by(97) {
            let disk = whole.copy();
            disk.corrupt(&path, at, 0x10);
            let engine = whole.open(&disk);
            for (at, before) in whole.rows.iter().enumerate() {
                match rows(&engine, whole.tables[at]) {
                    Ok(found) => assert_eq!(&found, before),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                        assert!(error.hint().is_some_and(|hint| hint.contains("run the statement again")), "{error}");
                        refused += 1;
                    }
                }
            }
            mended += engine.mend().expect("mended").len();
            whole.check_all(&engine, &format!("{} at {at}", path.display()));
        }
    }
    assert!(refused > 20 && refused == mended, "{refused} refused, {mended} mended");
}

#[test]
fn a_lost_segment_is_forgotten_with_its_rows_and_no_others() {
    for kind in KINDS {
        let whole = database(kind);
        for (id, path) in whole.files(".parquet", false) {
            for way in [0, 1, 2] {
                let disk = whole.copy();
                damage(&disk, &path, way, 131 * id.0);
                let what = format!("{kind:?}, {}, way {way}", path.display());
                let engine = whole.open(&disk);
                let table = whole.table_of(id);
                let at = whole.tables.iter().position(|of| *of == table).expect("a table");
                let staying = whole.without(at, &[id].into());
                let lost = engine.forget_segment(table, id, false).expect("it is damaged");
                let (alive, had) = (lost.forgotten.rows - lost.forgotten.dead, whole.by_segment[&(table, id)].len());
                assert_eq!((alive as usize, staying.len() + had), (had, whole.rows[at].len()), "{what}");
                assert!(lost.why.message().contains(".parquet"), "{what}: {}", lost.why);
                assert!(rows(&engine, table).is_err(), "{what}: nothing was done yet");
                for (other, segment) in whole.by_segment.keys().filter(|(_, other)| *other != id) {
                    let refused = engine.forget_segment(*other, *segment, true).expect_err("it is whole");
                    assert_eq!(refused.kind(), ErrorKind::InvalidValue, "{what}: {refused}");
                }
                let lost = engine.forget_segment(table, id, true).expect("forgotten");
                assert!(lost.still_closed.is_none(), "{what}");
                let check = |engine: &Engine, what: &str| {
                    assert_eq!(rows(engine, table).expect("open"), staying, "{what}");
                    let other = 1 - at;
                    assert_eq!(rows(engine, whole.tables[other]).expect("open"), whole.rows[other], "{what}");
                };
                check(&engine, &what);
                drop(engine);
                let engine = whole.open(&disk);
                check(&engine, &what);
                engine.sort().expect("sorted");
                engine.merge().expect("merged");
                check(&engine, &what);
                assert!(!disk.exists(&path), "{what}: its file is gone");
                let again = engine.forget_segment(table, id, true).expect_err("it is gone");
                assert_eq!(again.kind(), ErrorKind::UndefinedObject);
                if at == KEYED {
                    // Its keys are free, those of others are not.
                    let keys = kind.columns();
                    let with_key = |found: &FoundRow| {
                        let mut row = row(kind, 0, &mut Random::new(9));
                        row[..keys].clone_from_slice(&found.row[..keys]);
                        row
                    };
                    let anew: Vec<Row> = whole.by_segment[&(table, id)].iter().map(with_key).collect();
                    let count = anew.len();
                    if count > 0 {
                        submit(&engine, &whole.tables, KEYED, Change::Insert(anew));
                    }
                    if let Some(there) = staying.first() {
                        let batch = Change::Insert(vec![with_key(there)]);
                        let batch = new_batch(&engine, &whole.tables, &[Part::new(KEYED, batch)]).expect("a batch");
                        let refused = engine.submit(batch, Durability::Sync).expect_err("the key is there");
                        assert_eq!(refused.kind(), ErrorKind::UniqueViolation, "{what}");
                    }
                    assert_eq!(rows(&engine, table).expect("open").len(), staying.len() + count, "{what}");
                }
            }
        }
    }
}

/// The table is open, and its key index and heap have been used: both are made anew.
#[test]
fn a_segment_of_an_open_table_is_forgotten_with_what_was_made_of_it() {
    let kind = KeyKind::Number;
    let whole = database(kind);
    let mut met = 0;
    for (id, path) in whole.files(".parquet", false) {
        let table = whole.table_of(id);
        if table != whole.tables[KEYED] || whole.by_segment[&(table, id)].is_empty() {
            continue;
        }
        let disk = whole.copy();
        let engine = whole.open(&disk);
        // By key, so that there is an index.
        submit(&engine, &whole.tables, KEYED, Change::Upsert(vec![row(kind, 300, &mut Random::new(2))]));
        damage(&disk, &path, 2, 40);
        drop(engine.forget_segment(table, id, true).expect("forgotten"));
        let keys: Vec<Row> = whole.by_segment[&(table, id)].iter().map(|found| found.row[..1].to_vec()).collect();
        // Nobody is there to be deleted, and the keys may come again.
        submit(&engine, &whole.tables, KEYED, Change::Delete(keys.clone()));
        let anew = |key: &Row| [key.clone(), row(kind, 0, &mut Random::new(4))[1..].to_vec()].concat();
        submit(&engine, &whole.tables, KEYED, Change::Insert(keys.iter().map(anew).collect()));
        let expected = whole.without(KEYED, &[id].into()).len() + 1 + keys.len();
        assert_eq!(rows(&engine, table).expect("open").len(), expected);
        drop(engine);
        let engine = whole.open(&disk);
        assert_eq!(rows(&engine, table).expect("open").len(), expected, "replayed");
        met += 1;
    }
    assert!(met > 1, "{met}");
}

#[test]
fn a_segment_is_forgotten_or_not_wherever_the_power_goes() {
    let whole = database(KeyKind::Pair);
    for (id, path) in whole.files(".parquet", false) {
        let damaged = whole.copy();
        damage(&damaged, &path, 0, 0);
        damaged.sync_dir(&Path::new(DIR).join("segments")).expect("synced");
        let table = whole.table_of(id);
        let at = whole.tables.iter().position(|of| *of == table).expect("a table");
        let staying = whole.without(at, &[id].into());
        let mut n = 0;
        loop {
            n += 1;
            let disk = damaged.after_power_loss(Survival::Everything);
            let engine = whole.open(&disk);
            disk.fail_after(n);
            let is_forgotten = engine.forget_segment(table, id, true).is_ok();
            // The last call that it makes may fail without a word.
            let is_over = is_forgotten && disk.calls() > 0 && n > 6;
            drop(engine);
            for survival in SURVIVALS {
                let engine = whole.open(&disk.after_power_loss(survival));
                if rows(&engine, table).is_err() {
                    assert!(!is_forgotten, "call {n}, {survival:?}: it was said that it was done");
                    drop(engine.forget_segment(table, id, true).expect("forgotten"));
                }
                assert_eq!(rows(&engine, table).expect("open"), staying, "call {n}, {survival:?}");
                assert_eq!(rows(&engine, whole.tables[1 - at]).expect("open"), whole.rows[1 - at]);
            }
            if is_over {
                break;
            }
        }
    }
}

/// Some files at once, damaged at random: no answer is wrong, what can be mended is, and the rest is lost with its rows alone.
#[test]
fn random_damage_costs_the_rows_of_lost_segments_and_no_others() {
    let wholes = KINDS.map(database);
    let first = alluvia_sim::variable("ALLUVIA_TEST_SEED").unwrap_or(1);
    let (mut lost_segments, mut mended) = (0, 0);
    for seed in first..first + 120 {
        let mut random = Random::new(seed);
        let whole = random.pick(&wholes);
        let disk = whole.copy();
        let mut all = Vec::new();
        for ending in [".side", ".parquet"] {
            for of_rungs in [false, true] {
                all.extend(whole.files(ending, of_rungs));
            }
        }
        for _ in 0..random.within(1..5) {
            let path = &random.pick(&all).1;
            if disk.exists(path) && disk.open(path).and_then(|file| file.len()).is_ok_and(|len| len > 0) {
                damage(&disk, path, random.below(3), random.number());
            }
        }
        let mut engine = whole.open(&disk);
        let mut forgotten: BTreeSet<SegmentId> = BTreeSet::new();
        for round in 0..4 {
            for (at, &table) in whole.tables.iter().enumerate() {
                match rows(&engine, table) {
                    Ok(found) => assert_eq!(found, whole.without(at, &forgotten), "seed {seed}, round {round}"),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "seed {seed}: {error}"),
                }
            }
            mended += engine.mend().expect("mended").len();
            if round == 1 {
                let is_as_it_was = |path: &Path| disk.exists(path) && bytes(&disk, path) == bytes(&whole.disk, path);
                let whole_files = whole.files(".parquet", false).into_iter().filter(|(_, path)| is_as_it_was(path));
                let whole_rows: BTreeSet<SegmentId> = whole_files.map(|(id, _)| id).collect();
                for &(table, id) in whole.by_segment.keys() {
                    if engine.forget_segment(table, id, true).is_ok() {
                        assert!(!whole_rows.contains(&id), "seed {seed}: the rows of {id} are whole");
                        forgotten.insert(id);
                    }
                }
                lost_segments += forgotten.len();
            }
            if round == 2 {
                drop(engine);
                engine = whole.open(&disk);
            }
        }
        for (at, &table) in whole.tables.iter().enumerate() {
            let found = rows(&engine, table).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert_eq!(found, whole.without(at, &forgotten), "seed {seed}");
        }
    }
    assert!(lost_segments > 20 && mended > 10, "{lost_segments} lost, {mended} mended");
}
