//! Failed fsyncs, full disks, damage: nothing acknowledged is lost, and what cannot go on says so.

use crate::support::{self, contents, create, insert, open, rows};
use alluvia_node::{Core, Database};
use alluvia_snapshot::{Admin, BatchKey, Durability, Ingest, Memo, NewBatch, Read};
use alluvia_storage::{Disk, FaultDisk, Survival};
use alluvia_types::{ErrorKind, ManualClock, ProducerMark, SystemClock};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A database with its threads, which make batches durable for writers that do not wait themselves, and a table `t`.
async fn served(disk: &Arc<FaultDisk>) -> (Arc<Database>, tempfile::TempDir) {
    let spill = tempfile::tempdir().expect("a directory");
    let options = alluvia_node::DatabaseOptions { spill_dir: Some(spill.path().into()), ..support::options() };
    let disk = Arc::clone(disk) as Arc<dyn Disk>;
    let db = Database::open_on(disk, Arc::new(SystemClock::default()), support::DIR, options).expect("opens");
    db.session().sql("CREATE TABLE t (id BIGINT, kind TEXT)").await.expect("creates");
    (Arc::new(db), spill)
}

/// Sixteen writers of single rows, each until it was refused `refusals_max` times. Gives the rows that were acknowledged, and the
/// errors of the others.
async fn write_until_refused(db: &Arc<Database>, refusals_max: usize) -> (Vec<String>, Vec<alluvia_types::Error>) {
    let writer = |writer: u64| {
        let session = db.session();
        async move {
            let (mut kept, mut errors) = (Vec::new(), Vec::new());
            for at in 0..5_000 {
                let id = writer * 10_000 + at;
                match session.sql(&format!("INSERT INTO t VALUES ({id}, 'row')")).await {
                    Ok(_) => kept.push(format!("{id}|row")),
                    Err(error) => errors.push(error),
                }
                if errors.len() == refusals_max {
                    break;
                }
            }
            (kept, errors)
        }
    };
    let writers: Vec<_> = (1..=16).map(|at| tokio::spawn(writer(at))).collect();
    let (mut kept, mut errors) = (Vec::new(), Vec::new());
    for writer in writers {
        let (of_one, refused) = writer.await.expect("a writer ends");
        kept.extend(of_one);
        errors.extend(refused);
    }
    kept.sort();
    (kept, errors)
}

/// Stops the threads, which is a clean end, and opens the engine alone.
fn reopened(db: Arc<Database>, disk: &Arc<FaultDisk>) -> Core {
    drop(Arc::into_inner(db).expect("nobody else has it"));
    open(disk, &Arc::new(ManualClock::default())).expect("opens again")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_that_do_not_wait_themselves_keep_what_was_acknowledged_on_a_full_disk() {
    let disk = FaultDisk::new();
    let (db, _spill) = served(&disk).await;
    disk.limit_bytes(Some(48 << 10));
    let (mut kept, errors) = write_until_refused(&db, 3).await;
    assert!(!errors.is_empty() && !kept.is_empty(), "the disk filled up");
    assert!(errors.iter().all(|error| error.kind() == ErrorKind::DiskFull), "{:?}", errors[0]);
    disk.limit_bytes(None);
    db.session().sql("INSERT INTO t VALUES (9, 'resumed')").await.expect("there is room again");
    kept.push("9|resumed".into());
    kept.sort();
    assert_eq!(contents(db.core())["t"], kept, "nothing refused is there, and nothing acknowledged is missing");
    assert_eq!(contents(&reopened(db, &disk))["t"], kept, "and all of it was durable");
}

/// Writers go on while others are still being refused: then a refusal is handled when the next batches are on their way already.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_disk_that_is_full_for_moments_loses_nothing_that_was_acknowledged() {
    let disk = FaultDisk::new();
    let (db, _spill) = served(&disk).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let writer = |writer: u64| {
        let (session, is_over) = (db.session(), Arc::clone(&is_over));
        async move {
            let mut kept = Vec::new();
            for id in writer * 10_000_000.. {
                match session.sql(&format!("INSERT INTO t VALUES ({id}, 'row')")).await {
                    Ok(_) => kept.push(format!("{id}|row")),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}"),
                }
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
            }
            kept
        }
    };
    let writers: Vec<_> = (1..=16).map(|at| tokio::spawn(writer(at))).collect();
    for _ in 0..400 {
        disk.limit_bytes(Some(0));
        tokio::time::sleep(Duration::from_micros(700)).await;
        disk.limit_bytes(None);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    is_over.store(true, Ordering::Relaxed);
    let mut kept = Vec::new();
    for writer in writers {
        kept.extend(writer.await.expect("a writer ends"));
    }
    kept.sort();
    assert_eq!(contents(db.core())["t"], kept, "nothing refused is there, and nothing acknowledged is missing");
    assert_eq!(contents(&reopened(db, &disk))["t"], kept, "and all of it was durable");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_that_do_not_wait_themselves_are_told_of_a_failed_fsync() {
    for failing in [1, 2, 5, 17] {
        let disk = FaultDisk::new();
        let (db, _spill) = served(&disk).await;
        disk.fail_sync(failing);
        let (kept, errors) = write_until_refused(&db, 1).await;
        assert_eq!(errors.len(), 16, "every writer is told");
        assert!(errors.iter().all(|error| error.kind() == ErrorKind::Poisoned), "{:?}", errors[0]);
        assert_eq!(contents(db.core())["t"], kept, "what is visible was acknowledged");
        let found = contents(&reopened(db, &disk))["t"].clone();
        let distinct: std::collections::BTreeSet<&String> = found.iter().collect();
        assert_eq!(distinct.len(), found.len(), "no row is there twice");
        assert!(kept.iter().all(|row| distinct.contains(row)), "nothing acknowledged is lost");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_is_sent_twice_at_once_is_applied_once() {
    let disk = FaultDisk::new();
    let (db, _spill) = served(&disk).await;
    for sequence in 1..=200 {
        let mark = ProducerMark { name: "p".into(), epoch: 1, sequence };
        let send = || {
            let (session, mark) = (db.session(), mark.clone());
            tokio::spawn(async move { session.append_with(mark, "t", vec![rows(&[(sequence as i64, "once")])]).await })
        };
        let (a, b) = (send(), send());
        let (a, b) = (a.await.expect("ends").expect("commits"), b.await.expect("ends").expect("commits"));
        assert_eq!(a.version, b.version, "both are told of the one version");
        assert!(a.duplicate != b.duplicate, "one of them was the first");
    }
    assert_eq!(contents(&reopened(db, &disk))["t"].len(), 200);
}

#[test]
fn after_a_failed_fsync_nothing_is_acknowledged_until_reopened() {
    let disk = FaultDisk::new();
    let clock = Arc::new(ManualClock::default());
    let core = open(&disk, &clock).unwrap();
    let (table, _) = create(&core, "t").unwrap();
    insert(&core, &[(table, rows(&[(1, "kept")]))]).unwrap();
    disk.fail_sync(1);
    let error = insert(&core, &[(table, rows(&[(2, "unsure")]))]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
    let error = insert(&core, &[(table, rows(&[(3, "refused")]))]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
    assert!(core.info().read_only.is_some());
    assert_eq!(contents(&core)["t"], ["1|kept"], "reads go on");
    drop(core);
    let core = open(&disk, &clock).unwrap();
    let found = contents(&core)["t"].clone();
    assert!(found == ["1|kept"] || found == ["1|kept", "2|unsure"], "{found:?}");
    insert(&core, &[(table, rows(&[(4, "new")]))]).unwrap();
    assert!(contents(&core)["t"].contains(&"4|new".to_owned()));
}

#[test]
fn a_full_disk_makes_it_read_only_and_room_makes_it_resume() {
    let disk = FaultDisk::new();
    let clock = Arc::new(ManualClock::default());
    let core = open(&disk, &clock).unwrap();
    let (table, _) = create(&core, "t").unwrap();
    let mut kept = Vec::new();
    disk.limit_bytes(Some(24 << 10));
    let mut refused = 0;
    for at in 0..2_000 {
        match insert(&core, &[(table, rows(&[(at, "row")]))]) {
            Ok(_) => kept.push(format!("{at}|row")),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
                assert!(error.hint().is_some(), "it says what to do");
                refused += 1;
                if refused == 3 {
                    break;
                }
            }
        }
    }
    assert!(refused == 3, "the disk never filled up");
    assert!(core.sort().is_err(), "there is no room for a segment either");
    kept.sort();
    assert_eq!(contents(&core)["t"], kept, "reads go on, and nothing refused is there");
    disk.limit_bytes(None);
    insert(&core, &[(table, rows(&[(9_999, "resumed")]))]).unwrap();
    core.sort().unwrap();
    core.merge(true).unwrap();
    kept.push("9999|resumed".into());
    kept.sort();
    assert_eq!(contents(&core)["t"], kept);
    drop(core);
    let core = open(&disk, &clock).unwrap();
    assert_eq!(contents(&core)["t"], kept, "and all of it was durable");
}

#[test]
fn damage_is_refused_by_file_and_place_and_changes_nothing() {
    let disk = FaultDisk::new();
    let clock = Arc::new(ManualClock::default());
    let core = open(&disk, &clock).unwrap();
    let (table, _) = create(&core, "t").unwrap();
    for at in 0..50 {
        insert(&core, &[(table, rows(&[(at, "row")]))]).unwrap();
    }
    drop(core);
    // In the middle of the log's first file: later groups state that it was durable.
    let log = std::path::Path::new(support::DIR).join("log");
    let files = alluvia_storage::Disk::read_dir(disk.as_ref(), &log).unwrap();
    let first = files.first().expect("a log file");
    disk.corrupt(&log.join(&first.name), first.len / 2, 0x40);
    let error = open(&disk, &clock).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.message().contains(&first.name), "it names the file: {error}");
    disk.corrupt(&log.join(&first.name), first.len / 2, 0x40);
    let core = open(&disk, &clock).unwrap();
    assert_eq!(contents(&core)["t"].len(), 50, "the refusal changed nothing");
}

/// Every file below a folder with its bytes.
fn files(disk: &FaultDisk, folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in disk.read_dir(folder).unwrap() {
        let path = folder.join(&entry.name);
        if entry.is_dir {
            found.extend(files(disk, &path));
        } else {
            let file = disk.open(&path).unwrap();
            let mut bytes = vec![0; file.len().unwrap() as usize];
            file.read_exact_at(&mut bytes, 0).unwrap();
            found.insert(path, bytes);
        }
    }
    found
}

/// Files of segments.
fn segments(disk: &FaultDisk) -> Vec<PathBuf> {
    let all = files(disk, Path::new(support::DIR)).into_keys();
    all.filter(|path| path.components().any(|part| part.as_os_str() == "segments")).collect()
}

/// Fills the log's file: what is written next wants space, and does not come to lie in zeros that are there.
fn leave_no_room_in_the_log(core: &Core) {
    let (table, _) = create(core, "filler").unwrap();
    insert(core, &[(table, rows(&[(1, &"x".repeat(5000))]))]).unwrap();
}

#[test]
fn a_load_that_finds_the_disk_full_leaves_no_segments() {
    let disk = FaultDisk::new();
    let clock = Arc::new(ManualClock::default());
    let core = open(&disk, &clock).unwrap();
    let (table, _) = create(&core, "t").unwrap();
    insert(&core, &[(table, rows(&[(1, "kept")]))]).unwrap();
    leave_no_room_in_the_log(&core);
    let segments = || segments(&disk);
    let many: Vec<(i64, &str)> = (100..400).map(|at| (at, ["red", "green"][at as usize % 2])).collect();
    let staged = || {
        let entry = core.catalog().by_id(table).cloned().unwrap();
        let mut load = core.begin_load(&entry.def, entry.changed_at)?;
        load.append(rows(&many))?;
        Ok::<_, alluvia_types::Error>(NewBatch { loads: vec![load.finish()?], ..NewBatch::default() })
    };
    let before = segments();
    // While its segments are written, and when they are there and the log has no room for the record that names them.
    disk.limit_bytes(Some(0));
    assert_eq!(staged().unwrap_err().kind(), ErrorKind::DiskFull);
    assert_eq!(segments(), before);
    disk.limit_bytes(None);
    let batch = staged().unwrap();
    assert_ne!(segments(), before, "segments are there before their record");
    disk.limit_bytes(Some(0));
    let error = core.submit(batch, Durability::Sync).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
    assert_eq!(segments(), before, "they went at once");
    for survival in [Survival::SyncedOnly, Survival::Everything, Survival::Torn { seed: 7 }] {
        let survivor = disk.after_power_loss(survival);
        let core = open(&survivor, &Arc::new(ManualClock::default())).expect("nothing in the log names them");
        assert_eq!(contents(&core)["t"], ["1|kept"]);
    }
    disk.limit_bytes(None);
    core.submit(staged().unwrap(), Durability::Sync).unwrap();
    assert_eq!(contents(&core)["t"].len(), 301);
    drop(core);
    assert_eq!(contents(&open(&disk, &clock).unwrap())["t"].len(), 301);
}

#[test]
fn a_full_disk_beside_a_segment_that_cannot_be_opened_is_told_and_ends_with_both() {
    let disk = FaultDisk::new();
    let clock = Arc::new(ManualClock::default());
    let core = open(&disk, &clock).unwrap();
    let (table, _) = create(&core, "t").unwrap();
    let (filler, _) = create(&core, "filler").unwrap();
    insert(&core, &[(table, rows(&[(1, "kept")]))]).unwrap();
    let before = segments(&disk);
    let many: Vec<(i64, &str)> = (100..400).map(|at| (at, "many")).collect();
    let entry = core.catalog().by_id(table).cloned().unwrap();
    let mut load = core.begin_load(&entry.def, entry.changed_at).unwrap();
    load.append(rows(&many)).unwrap();
    let batch = NewBatch { loads: vec![load.finish().unwrap()], ..NewBatch::default() };
    core.submit(batch, Durability::Relaxed).unwrap();
    // Its record becomes durable, and what that names is not there.
    let staged: Vec<PathBuf> = segments(&disk).into_iter().filter(|path| !before.contains(path)).collect();
    let aside = |path: &Path| PathBuf::from(format!("{}.aside", path.display()));
    staged.iter().for_each(|path| disk.rename(path, &aside(path)).unwrap());
    core.flush().unwrap_err();
    // The log's file is full, so what comes next wants space.
    insert(&core, &[(filler, rows(&[(1, &"x".repeat(5000))]))]).unwrap_err();
    disk.limit_bytes(Some(0));
    for at in 2..5 {
        insert(&core, &[(table, rows(&[(at, "refused")]))]).unwrap_err();
        assert!(core.info().read_only.is_some(), "it says that it takes nothing");
    }
    assert_eq!(contents(&core)["t"], ["1|kept"], "reads go on");
    staged.iter().for_each(|path| disk.rename(&aside(path), path).unwrap());
    disk.limit_bytes(None);
    // Whoever comes first makes it writable again.
    let error = insert(&core, &[(table, rows(&[(5, "refused")]))]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
    insert(&core, &[(table, rows(&[(6, "resumed")]))]).unwrap();
    let expected = contents(&core);
    assert_eq!((expected["t"].len(), expected["filler"].len()), (302, 1));
    assert!(!expected["t"].iter().any(|row| row.ends_with("refused")));
    drop(core);
    assert_eq!(contents(&open(&disk, &clock).unwrap()), expected);
}

#[test]
fn a_load_that_was_staged_and_is_not_committed_leaves_no_segments() {
    let disk = FaultDisk::new();
    let clock = Arc::new(ManualClock::default());
    let core = open(&disk, &clock).unwrap();
    let (table, _) = create(&core, "t").unwrap();
    insert(&core, &[(table, rows(&[(1, "kept")]))]).unwrap();
    leave_no_room_in_the_log(&core);
    let segments = || segments(&disk);
    let many: Vec<(i64, &str)> = (100..400).map(|at| (at, "many")).collect();
    let staged = || {
        let entry = core.catalog().by_id(table).cloned().unwrap();
        let mut load = core.begin_load(&entry.def, entry.changed_at).unwrap();
        load.append(rows(&many)).unwrap();
        NewBatch { loads: vec![load.finish().unwrap()], ..NewBatch::default() }
    };
    let before = segments();
    let batch = staged();
    assert_ne!(segments(), before);
    core.discard(batch);
    assert_eq!(segments(), before, "it was never submitted");
    // Acknowledged, and taken back when the disk fills up: found out by a flush, or by another writer.
    for by_flush in [true, false] {
        core.submit(staged(), Durability::Relaxed).unwrap();
        assert_ne!(segments(), before);
        disk.limit_bytes(Some(0));
        let met = match by_flush {
            true => core.flush(),
            false => insert(&core, &[(table, rows(&[(2, "refused")]))]).map(|_| ()),
        };
        assert_eq!(met.unwrap_err().kind(), ErrorKind::DiskFull);
        assert_eq!(segments(), before, "by a flush: {by_flush}");
        for survival in [Survival::SyncedOnly, Survival::Everything, Survival::Torn { seed: 7 }] {
            let survivor = disk.after_power_loss(survival);
            let core = open(&survivor, &Arc::new(ManualClock::default())).expect("nothing in the log names them");
            assert_eq!(contents(&core)["t"], ["1|kept"]);
        }
        disk.limit_bytes(None);
    }
    // What does become durable stays.
    core.submit(staged(), Durability::Relaxed).unwrap();
    core.flush().unwrap();
    assert_eq!(contents(&core)["t"].len(), 301);
    drop(core);
    assert_eq!(contents(&open(&disk, &clock).unwrap())["t"].len(), 301);
}

#[test]
fn a_directory_that_lost_its_manifest_is_refused_and_left_as_it_is() {
    let disk = FaultDisk::new();
    let clock = Arc::new(ManualClock::default());
    let dir = Path::new(support::DIR);
    let core = open(&disk, &clock).unwrap();
    let (table, _) = create(&core, "t").unwrap();
    let many: Vec<(i64, &str)> = (0..300).map(|at| (at, ["red", "green"][at as usize % 2])).collect();
    let keyed = NewBatch {
        rows: vec![support::new_rows(&core.catalog(), table, rows(&many))],
        key: Some(BatchKey::new(table, "sent once")),
        ..NewBatch::default()
    };
    core.submit(keyed, Durability::Sync).unwrap();
    core.sort().unwrap();
    core.merge(true).unwrap();
    insert(&core, &[(table, rows(&[(1, "in the log")]))]).unwrap();
    core.memorise(&Memo { name: "cuboids", magic: b"ALVCUB01" }, b"[]").unwrap();
    core.audit(b"{\"event\":\"ddl\"}\n").unwrap();
    drop(core);
    disk.remove(&dir.join("manifest")).unwrap();

    // Whatever else is gone with it: each of these says by itself that there was a database.
    let kinds = ["/log/", "/segments/", "/dict-", "/keys-", "/cuboids", "/audit/"];
    let is_of = |path: &Path, kind: &str| path.to_string_lossy().contains(kind);
    let all = files(&disk, dir);
    for kept in kinds.iter().map(|&kind| vec![kind]).chain([kinds.to_vec(), kinds[1..].to_vec()]) {
        let damaged = disk.after_power_loss(Survival::Everything);
        for path in all.keys().filter(|path| !path.ends_with("lock")) {
            if !kept.iter().any(|&kind| is_of(path, kind)) {
                damaged.remove(path).unwrap();
            }
        }
        let before = files(&damaged, dir);
        assert!(kept.iter().all(|kind| before.keys().any(|path| is_of(path, kind))), "{kept:?}: {:?}", before.keys());
        let error = open(&damaged, &clock).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{kept:?}: {error}");
        assert!(error.message().contains("/db/manifest is missing although /db/"), "{kept:?}: {error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("restore")), "{error}");
        assert_eq!(files(&damaged, dir), before, "{kept:?}: the refusal changed something");
    }

    // Folders, the lock and the passwords of users make no database.
    for path in all.keys().filter(|path| !path.ends_with("lock")) {
        disk.remove(path).unwrap();
    }
    disk.create(&dir.join("passwords")).unwrap();
    assert_eq!(contents(&open(&disk, &clock).unwrap()).len(), 0, "a new database");
}

#[test]
fn a_second_opener_is_refused() {
    let disk = FaultDisk::new();
    let clock = Arc::new(ManualClock::default());
    let core = open(&disk, &clock).unwrap();
    let error = open(&disk, &clock).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
    drop(core);
    open(&disk, &clock).unwrap();
}
