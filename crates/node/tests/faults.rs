//! Failed fsyncs, full disks, damage: nothing acknowledged is lost, and what cannot go on says so.

mod support;

use alluvia_snapshot::Store;
use alluvia_storage::FaultDisk;
use alluvia_types::{ErrorKind, ManualClock};
use std::sync::Arc;
use support::{contents, create, insert, open, rows};

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
