//! The pipeline where something fails: no row is lost, nothing is left behind, and nobody waits for what will not come.

use crate::support::{self, contents, create, insert, open, rows, table};
use alluvia_catalog::Change;
use alluvia_node::{Core, Database};
use alluvia_pipeline::{Job, Workers};
use alluvia_snapshot::{Admin, Durability, Ingest, NewBatch, Read, StagedLoad};
use alluvia_storage::{Disk, FaultDisk, Survival, Watch, WatchedDisk};
use alluvia_types::{Error, ErrorKind, ManualClock, Result, Stage, SystemClock, TableId, Version};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn new_core(disk: &Arc<FaultDisk>) -> Core {
    open(disk, &Arc::new(ManualClock::default())).expect("opens")
}

fn many(first: i64, count: i64) -> Vec<(i64, &'static str)> {
    (first..first + count).map(|at| (at, ["red", "green", "blue"][at as usize % 3])).collect()
}

/// Names in a folder of the data directory that begin so.
fn names(disk: &FaultDisk, folder: &str, prefix: &str) -> BTreeSet<String> {
    let entries = disk.read_dir(&Path::new(support::DIR).join(folder)).expect("lists");
    entries.into_iter().map(|entry| entry.name).filter(|name| name.starts_with(prefix)).collect()
}

fn segments(disk: &FaultDisk) -> BTreeSet<String> {
    names(disk, "segments", "seg-")
}

/// All files of tables.
fn files_of_tables(disk: &FaultDisk) -> BTreeSet<String> {
    &segments(disk) | &names(disk, "", "dict-")
}

/// The files of all segments that the newest snapshot names.
fn named(core: &Core) -> BTreeSet<String> {
    let segments = core.segments();
    let ids = segments.iter().flat_map(|segment| segment.meta.with_rungs()).map(|meta| meta.id);
    ids.flat_map(|id| [format!("seg-{id}.parquet"), format!("seg-{id}.side")]).collect()
}

fn drop_table(core: &Core, id: TableId) {
    let changes = vec![Change::DropTable { id }];
    core.submit(NewBatch { changes, ..NewBatch::default() }, Durability::Sync).expect("drops");
}

/// Stages rows for a table, which need not be there yet.
fn stage(core: &Core, id: TableId, name: &str, rows: &[(i64, &str)]) -> StagedLoad {
    let entry = core.catalog().by_id(id).cloned();
    let (def, checked_at) = match entry {
        Some(entry) => (Arc::clone(&entry.def), entry.changed_at),
        None => (Arc::new(table(id, name)), Version(0)),
    };
    let mut load = core.begin_load(&def, checked_at).expect("begins");
    load.append(support::rows(rows)).expect("appends");
    load.finish().expect("finishes")
}

/// The manifest of the sort is in place, or may be, and what readers have is older: a merge must not take the one for the other.
#[test]
fn a_merge_after_a_sort_whose_names_were_not_synced_keeps_every_row() {
    let mut failed = 0;
    for failing in 1.. {
        let disk = FaultDisk::new();
        let core = new_core(&disk);
        let (t, _) = create(&core, "t").unwrap();
        insert(&core, &[(t, rows(&many(0, 70)))]).unwrap();
        core.sort().unwrap();
        insert(&core, &[(t, rows(&many(100, 70)))]).unwrap();
        let expected = contents(&core);
        let before = disk.dir_syncs();
        disk.fail_sync_dir(failing);
        let sorted = core.sort();
        if disk.dir_syncs() - before < failing {
            sorted.unwrap();
            break;
        }
        // Once its manifest is durable a sort lets go of the log, which may begin a file then; that it cannot is the log's failure.
        let is_sorted = sorted.is_ok();
        failed += u64::from(!is_sorted);
        assert!(core.merge(true).unwrap(), "sync {failing}: the first sort's rows are merged");
        assert_eq!(contents(&core), expected, "sync {failing}");
        for survival in [Survival::SyncedOnly, Survival::Everything, Survival::Torn { seed: failing }] {
            let survivor = disk.after_power_loss(survival);
            assert_eq!(contents(&new_core(&survivor)), expected, "sync {failing}, {survival:?}");
        }
        if !is_sorted {
            // The next try sorts them, and whatever the failed one had written goes.
            core.sort().unwrap();
            core.merge(true).unwrap();
            assert_eq!(contents(&core), expected, "sync {failing}");
            assert_eq!(segments(&disk), named(&core), "sync {failing}");
        }
        drop(core);
        assert_eq!(contents(&new_core(&disk)), expected, "sync {failing}");
    }
    assert!(failed >= 2, "a sort syncs the names of segments, and that of the manifest: {failed}");
}

/// A process that ends between the renaming of a manifest and the syncing of its name: the next one must not remove what only the older
/// manifest names before that is out of the way.
#[test]
fn a_start_makes_the_manifest_durable_before_it_removes_what_that_does_not_name() {
    let mut failed = 0;
    for failing in 1.. {
        let disk = FaultDisk::new();
        let core = new_core(&disk);
        let (t, _) = create(&core, "t").unwrap();
        insert(&core, &[(t, rows(&many(0, 70)))]).unwrap();
        core.sort().unwrap();
        let expected = contents(&core);
        let before = disk.dir_syncs();
        disk.fail_sync_dir(failing);
        let merged = core.merge(true);
        if disk.dir_syncs() - before < failing {
            merged.unwrap();
            break;
        }
        merged.unwrap_err();
        failed += 1;
        drop(core);
        let core = new_core(&disk);
        // Staging syncs the names of segments, and so the removals among them.
        let _staged = stage(&core, t, "t", &many(0, 10));
        let survivor = disk.after_power_loss(Survival::SyncedOnly);
        assert_eq!(contents(&new_core(&survivor)), expected, "sync {failing}");
    }
    assert!(failed >= 2, "a merge syncs the names of segments, and that of the manifest: {failed}");
}

/// Tries something with ever more room until it is done. What fails leaves no segment behind, also where the manifest alone lacks room.
fn with_ever_more_room(disk: &FaultDisk, core: &Core, attempt: impl Fn(&Core) -> Result<bool>) {
    let before = segments(disk);
    let mut for_manifest = 0;
    for room in (0..).step_by(256) {
        disk.limit_bytes(Some(1 << 40));
        let used = (1 << 40) - disk.free_bytes(Path::new(support::DIR)).unwrap();
        disk.limit_bytes(Some(used + room));
        let attempted = attempt(core);
        disk.limit_bytes(None);
        match attempted {
            Ok(any) => {
                assert!(any, "there was something to do");
                break;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
                for_manifest += usize::from(error.message().contains("manifest"));
                assert_eq!(segments(disk), before, "{room} bytes of room: {error}");
            }
        }
    }
    assert!(for_manifest >= 2, "the manifest lacked room after the segments were written: {for_manifest}");
    assert_eq!(segments(disk), named(core));
}

#[test]
fn a_manifest_that_does_not_fit_leaves_no_segments() {
    let disk = FaultDisk::new();
    let core = new_core(&disk);
    let (t, _) = create(&core, "t").unwrap();
    insert(&core, &[(t, rows(&many(0, 200)))]).unwrap();
    let expected = contents(&core);
    with_ever_more_room(&disk, &core, Core::sort);
    with_ever_more_room(&disk, &core, |core| core.merge(true));
    assert_eq!(contents(&core), expected);
    drop(core);
    assert_eq!(contents(&new_core(&disk)), expected);
}

#[test]
fn a_dropped_table_gives_its_space_back_though_no_row_comes() {
    for reopened in [false, true] {
        let disk = FaultDisk::new();
        let mut core = new_core(&disk);
        let (t, _) = create(&core, "t").unwrap();
        insert(&core, &[(t, rows(&many(0, 200)))]).unwrap();
        core.sort().unwrap();
        core.merge(true).unwrap();
        assert!(!core.sort_is_due());
        drop_table(&core, t);
        if reopened {
            drop(core);
            core = new_core(&disk);
        }
        assert!(core.sort_is_due(), "reopened: {reopened}");
        core.sort().unwrap();
        assert!(!core.sort_is_due(), "reopened: {reopened}");
        assert_eq!(files_of_tables(&disk), BTreeSet::new(), "reopened: {reopened}");
    }
}

#[test]
fn what_was_staged_for_a_table_that_is_dropped_goes_with_the_next_sort() {
    let disk = FaultDisk::new();
    let core = new_core(&disk);
    let (t, _) = create(&core, "t").unwrap();
    let loads = vec![stage(&core, t, "t", &many(0, 200))];
    core.submit(NewBatch { loads, ..NewBatch::default() }, Durability::Sync).unwrap();
    assert!(files_of_tables(&disk).len() > 1, "segments, and dictionaries");
    drop_table(&core, t);
    core.sort().unwrap();
    assert_eq!(files_of_tables(&disk), BTreeSet::new());
}

/// No manifest has had the table, so none that comes tells by itself that it is gone.
#[test]
fn dictionaries_of_a_table_whose_first_sort_failed_go_with_the_table() {
    let disk = FaultDisk::new();
    let core = new_core(&disk);
    let (t, _) = create(&core, "t").unwrap();
    insert(&core, &[(t, rows(&many(0, 200)))]).unwrap();
    let used = (1 << 40) - {
        disk.limit_bytes(Some(1 << 40));
        disk.free_bytes(Path::new(support::DIR)).unwrap()
    };
    for room in (0..).step_by(256) {
        disk.limit_bytes(Some(used + room));
        let error = core.sort().expect_err("it does not fit yet");
        if error.message().contains("manifest") {
            break;
        }
    }
    disk.limit_bytes(None);
    assert_eq!(files_of_tables(&disk), BTreeSet::from([format!("dict-{t}")]), "of the failed sort these are left");
    drop_table(&core, t);
    core.sort().unwrap();
    assert_eq!(files_of_tables(&disk), BTreeSet::new());
}

/// A load may be of a table that its own batch is to make: no catalog has it while others sort and merge.
#[test]
fn dictionaries_of_tables_that_are_not_there_go_or_stay_with_their_load() {
    let disk = FaultDisk::new();
    let core = new_core(&disk);
    let (t, _) = create(&core, "t").unwrap();
    let [abandoned, made] = [core.new_table_id(), core.new_table_id()];
    let file = |id: TableId| PathBuf::from(format!("{}/dict-{id}", support::DIR));
    let load = stage(&core, abandoned, "abandoned", &many(0, 200));
    core.discard(NewBatch { loads: vec![load], ..NewBatch::default() });
    let loads = vec![stage(&core, made, "made", &many(0, 200))];
    assert!(disk.exists(&file(abandoned)) && disk.exists(&file(made)));
    for step in 0..2 {
        insert(&core, &[(t, rows(&many(step, 10)))]).unwrap();
        core.sort().unwrap();
        core.merge(true).unwrap();
        assert!(!disk.exists(&file(abandoned)) && disk.exists(&file(made)));
    }
    let changes = vec![Change::CreateTable { def: table(made, "made") }];
    core.submit(NewBatch { changes, loads, ..NewBatch::default() }, Durability::Sync).unwrap();
    core.sort().unwrap();
    let expected = contents(&core);
    assert_eq!(expected["made"].len(), 200);
    drop(core);
    assert_eq!(contents(&new_core(&disk)), expected);
}

#[test]
fn a_table_that_cannot_be_merged_keeps_no_other_from_it() {
    let disk = FaultDisk::new();
    let core = new_core(&disk);
    let [rotten, sound] = ["rotten", "sound"].map(|name| create(&core, name).unwrap().0);
    insert(&core, &[(rotten, rows(&many(0, 60))), (sound, rows(&many(0, 60)))]).unwrap();
    core.sort().unwrap();
    let expected = contents(&core);
    let segment = core.segments().into_iter().find(|segment| segment.meta.table == rotten);
    let segment = segment.expect("a sorted segment").meta.id;
    // Nothing of it is in memory any more.
    drop(core);
    let damage = || {
        for kind in ["parquet", "side"] {
            let path = Path::new(support::DIR).join(format!("segments/seg-{segment}.{kind}"));
            let len = disk.open(&path).unwrap().len().unwrap();
            (0..len).step_by(16).for_each(|offset| disk.corrupt(&path, offset, 0x20));
        }
    };
    damage();
    let core = new_core(&disk);
    assert_eq!(core.merge(true).unwrap_err().kind(), ErrorKind::Corrupt);
    let merged = |table: TableId| {
        let stages = core.stages();
        let of_table = stages.iter().find(|stage| stage.table == table && stage.stage == Stage::Merged);
        of_table.expect("every stage is told of").rows
    };
    assert_eq!((merged(rotten), merged(sound)), (0, 60));
    damage(); // the same bits: it is whole again
    assert!(core.merge(true).unwrap());
    assert_eq!((merged(rotten), merged(sound)), (60, 60));
    assert_eq!(contents(&core), expected);
}

#[test]
fn a_failed_merge_turns_no_writer_away_and_a_failed_sort_does() {
    let disk = FaultDisk::new();
    let core = new_core(&disk);
    let (t, _) = create(&core, "t").unwrap();
    let large = "x".repeat(4 << 20);
    let fill = || {
        while core.views().try_room(5 << 20).is_some() {
            insert(&core, &[(t, rows(&[(1, &large)]))]).unwrap();
        }
    };
    let failure = || Some(Error::new(ErrorKind::Corrupt, "a segment is rotten"));
    fill();
    core.views().merge_ended(failure());
    assert!(core.info().pipeline_error.is_some());
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| insert(&core, &[(t, rows(&[(2, &large)]))]));
        while core.views().room().1 == 0 {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(300));
        assert!(!waits.is_finished(), "it waits for the next sort");
        core.sort().unwrap();
        waits.join().expect("no panic").expect("there is room now");
    });
    fill();
    core.views().sort_ended(failure());
    let error = insert(&core, &[(t, rows(&[(3, &large)]))]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.message().contains("the tail is full"), "{error}");
    core.views().sort_ended(None);
    core.sort().unwrap();
    insert(&core, &[(t, rows(&[(3, &large)]))]).unwrap();
}

/// Workers that lose every job, as if it had panicked.
#[derive(Debug)]
struct Lost;

impl Workers for Lost {
    fn spawn(&self, job: Job) {
        drop(job);
    }

    fn width(&self) -> usize {
        1
    }
}

#[test]
fn nobody_waits_for_a_job_that_is_lost() {
    let disk = FaultDisk::new();
    let clock = Arc::new(ManualClock::default());
    let core = Core::open(disk, Path::new(support::DIR), clock, &support::options(), Arc::new(Lost), 42).unwrap();
    let (t, _) = create(&core, "t").unwrap();
    let entry = core.catalog().by_id(t).cloned().unwrap();
    // While rows come, at the end, and where it is abandoned.
    let mut load = core.begin_load(&entry.def, entry.changed_at).unwrap();
    assert_eq!(load.append(rows(&many(0, 300))).unwrap_err().kind(), ErrorKind::Internal);
    drop(load);
    let mut load = core.begin_load(&entry.def, entry.changed_at).unwrap();
    load.append(rows(&many(0, 10))).unwrap();
    assert_eq!(load.finish().unwrap_err().kind(), ErrorKind::Internal);
    insert(&core, &[(t, rows(&many(0, 10)))]).unwrap();
    assert_eq!(core.sort().unwrap_err().kind(), ErrorKind::Internal);
}

/// Panics at a sync of the sorter's while it is set.
#[derive(Debug, Default)]
struct Trap {
    is_set: AtomicBool,
}

impl Watch for Trap {
    fn before_sync(&self) {
        let is_sorter = std::thread::current().name() == Some("alluvia-sort");
        assert!(!(is_sorter && self.is_set.load(Ordering::SeqCst)), "a defect of the sorter's");
    }
}

#[test]
fn a_sort_that_panics_is_told_of_and_tried_again() {
    let trap = Arc::new(Trap::default());
    let disk = WatchedDisk::new(FaultDisk::new(), Arc::clone(&trap) as Arc<dyn Watch>);
    let spill = tempfile::tempdir().unwrap();
    let options = alluvia_node::DatabaseOptions { spill_dir: Some(spill.path().into()), ..support::options() };
    let db = Database::open_on(Arc::new(disk), Arc::new(SystemClock::default()), support::DIR, options).unwrap();
    let (t, _) = create(db.core(), "t").unwrap();
    trap.is_set.store(true, Ordering::SeqCst);
    insert(db.core(), &[(t, rows(&many(0, 10)))]).unwrap();
    for _ in 0..2 {
        let error = db.core().organise(Stage::Sorted).unwrap_err();
        assert!(error.kind() == ErrorKind::Internal && error.message().contains("panicked"), "{error}");
        assert!(db.core().info().pipeline_error.is_some());
    }
    trap.is_set.store(false, Ordering::SeqCst);
    db.core().organise(Stage::Sorted).unwrap();
    assert_eq!(contents(db.core())["t"].len(), 10);
    // The sorter tells of its success once it has ended, which is after what it sorted is there.
    while db.core().info().pipeline_error.is_some() {
        std::thread::sleep(Duration::from_millis(5));
    }
}
