//! Power is lost at every I/O call of a workload, and again at every call of the recovery that follows.

use crate::common::{Model, open, open_with, options};
use alluvia_log::{Log, LogOptions};
use alluvia_storage::{FaultDisk, Survival};
use alluvia_types::{ErrorKind, Result};
use std::collections::HashSet;
use std::sync::Arc;

const FILE_BYTES_MAX: u64 = 3000;
/// More calls than the workload or a recovery has.
const CALLS_MAX: u64 = 1000;
/// Groups grow the file, and groups of up to an eighth of this are written over zeros.
const ROOMS: [u64; 2] = [0, 8000];

/// Everything that a log does: groups of one and of many, bodies empty, small and large, several files, a full disk in
/// the middle of a group and while a file is begun, removal, a clean end, reopening.
fn workload(disk: &Arc<FaultDisk>, model: &mut Model, room_bytes: u64) -> Result<()> {
    let open = |after| open_with(disk.clone(), LogOptions { room_bytes, ..options(FILE_BYTES_MAX) }, after);
    let (log, found) = open(0)?;
    assert!(found.is_empty());
    for sizes in [&[0][..], &[700, 1, 600], &[512, 512], &[1500]] {
        for &size in sizes {
            model.append(&log, size)?;
        }
        model.sync(&log)?;
    }
    // A full disk: the first record would fit, the group does not.
    disk.limit_bytes(Some(log.bytes_on_disk() + 900));
    refused(&log, model, &[300, 300, 2000])?;
    disk.limit_bytes(None);
    model.append(&log, 310)?;
    model.append(&log, 70_000)?;
    model.sync(&log)?;
    // The current file is over its size, so the next group begins another, and not even its header fits.
    disk.limit_bytes(Some(log.bytes_on_disk() + 10));
    refused(&log, model, &[20])?;
    disk.limit_bytes(None);
    model.append(&log, 25)?;
    model.sync(&log)?;
    model.remove_through(&log, model.acknowledged - 1)?;
    model.append(&log, 2900)?;
    model.sync(&log)?;
    model.remove_through(&log, model.acknowledged)?;
    model.append(&log, 5)?;
    model.append(&log, 1200)?;
    model.sync(&log)?;
    log.seal()?;
    log.mark_end(0)?;
    drop(log);

    let (log, found) = open(model.removed)?;
    model.check(&found);
    model.append(&log, 40)?;
    model.sync(&log)?;
    // The first group of a file fits, the zeros behind it do not, and what lies in that place must not come back.
    model.append(&log, 2000)?;
    model.sync(&log)?;
    disk.limit_bytes(Some(log.bytes_on_disk() + 800));
    for size in [300, 60] {
        model.append(&log, size)?;
        model.sync(&log)?;
    }
    disk.limit_bytes(None);
    model.append(&log, 90)?;
    model.sync(&log)
}

fn refused(log: &Log, model: &mut Model, sizes: &[usize]) -> Result<()> {
    for &size in sizes {
        model.append(log, size)?;
    }
    match model.sync(log) {
        Err(error) if error.kind() == ErrorKind::DiskFull => {}
        other => return other.map(|()| panic!("the disk was full")),
    }
    assert_eq!(log.append(alluvia_types::Version(1), 0, b"").unwrap_err().kind(), ErrorKind::DiskFull);
    model.rewind(log);
    Ok(())
}

fn survivals(torn: u64) -> impl Iterator<Item = Survival> {
    [Survival::SyncedOnly, Survival::Everything].into_iter().chain((0..torn).map(|seed| Survival::Torn { seed }))
}

/// The disk after a power loss at the `n`-th call of the workload; `None` if it has fewer.
fn crashed_at(n: u64, room_bytes: u64) -> Option<(Arc<FaultDisk>, Model)> {
    let disk = FaultDisk::new();
    disk.fail_after(n);
    let mut model = Model::default();
    match workload(&disk, &mut model, room_bytes) {
        Ok(()) => None,
        Err(error) => {
            assert_ne!(error.kind(), ErrorKind::Corrupt, "{error}");
            assert!(n <= CALLS_MAX, "no call was to fail, and yet: {error}");
            Some((disk, model))
        }
    }
}

#[test]
fn every_call_of_a_workload_and_of_its_recovery() {
    for room_bytes in ROOMS {
        let mut seen = HashSet::new();
        let (mut calls, mut recoveries) = (0, 0);
        while let Some((disk, model)) = crashed_at(calls + 1, room_bytes) {
            calls += 1;
            for survival in survivals(400) {
                let left = disk.after_power_loss(survival);
                if seen.insert((left.fingerprint(), model.acknowledged, model.attempted.len(), model.removed)) {
                    recoveries += 1 + crash_recovery(&left, &model);
                }
            }
        }
        assert!(calls > 40, "the workload has {calls} calls");
        assert!(recoveries > 1000, "{recoveries} recoveries");
    }
}

/// Loses power at every call of the recovery from `left`, and recovers from that. Returns the number of recoveries.
fn crash_recovery(left: &Arc<FaultDisk>, model: &Model) -> u64 {
    let mut seen = HashSet::from([left.fingerprint()]);
    model.check_recovery(&left.after_power_loss(Survival::SyncedOnly), FILE_BYTES_MAX);
    for n in 1..=CALLS_MAX {
        let disk = left.after_power_loss(Survival::SyncedOnly);
        disk.fail_after(n);
        if open(&disk, FILE_BYTES_MAX, model.removed).is_ok() {
            return seen.len() as u64;
        }
        for survival in survivals(12) {
            let left = disk.after_power_loss(survival);
            if seen.insert(left.fingerprint()) {
                model.check_recovery(&left, FILE_BYTES_MAX);
            }
        }
    }
    panic!("no call of the recovery was to fail, and yet it does");
}

#[test]
fn a_file_that_was_being_begun_is_forgotten() {
    let disk = FaultDisk::new();
    let (log, _) = open(&disk, 100, 0).unwrap();
    let mut model = Model::default();
    model.append(&log, 200).unwrap();
    model.sync(&log).unwrap();
    drop(log);
    for garbage in [&[][..], &[0; 64], b"ALLULG01 and no more"] {
        use alluvia_storage::Disk;
        let disk = disk.after_power_loss(Survival::SyncedOnly);
        disk.create(&crate::common::file(2)).unwrap().write_all_at(garbage, 0).unwrap();
        model.check_recovery(&disk.after_power_loss(Survival::Everything), 100);
    }
}
