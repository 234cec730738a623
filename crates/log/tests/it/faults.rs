//! Full disks, failed writes and failed fsyncs: what is refused stays away, what is unknown is not acknowledged.

use crate::common::{Model, file, open};
use alluvia_storage::{Disk, FaultDisk, Survival};
use alluvia_types::{ErrorKind, Version};
use std::sync::Arc;

const LARGE: u64 = 1 << 20;

fn log_with_two_records() -> (Arc<FaultDisk>, alluvia_log::Log, Model) {
    let disk = FaultDisk::new();
    let (log, _) = open(&disk, LARGE, 0).unwrap();
    let mut model = Model::default();
    for size in [100, 200] {
        model.append(&log, size).unwrap();
        model.sync(&log).unwrap();
    }
    (disk, log, model)
}

#[test]
fn a_full_disk_refuses_and_a_rewound_log_goes_on() {
    for room in (0..700).step_by(7) {
        let (disk, log, mut model) = log_with_two_records();
        let before = log.bytes_on_disk();
        disk.limit_bytes(Some(before + room));
        for size in [100, 200, 300] {
            model.append(&log, size).unwrap();
        }
        assert!(log.bytes_pending() > 600);
        let error = model.sync(&log).expect_err("the disk is full");
        assert_eq!(error.kind(), ErrorKind::DiskFull);
        assert_eq!(log.append(Version(6), 0, b"").unwrap_err().kind(), ErrorKind::DiskFull);
        assert_eq!(log.sync_through(Version(5)).unwrap_err().kind(), ErrorKind::DiskFull);
        log.sync_through(Version(2)).expect("what is durable stays so");
        assert_eq!((log.bytes_on_disk(), log.bytes_pending(), log.durable()), (before, 0, Version(2)));
        // What was refused is gone whatever the disk keeps, before anyone rewinds.
        for survival in [Survival::SyncedOnly, Survival::Everything, Survival::Torn { seed: room }] {
            model.check_recovery(&disk.after_power_loss(survival), LARGE);
        }
        model.rewind(&log);
        assert_eq!(log.rewind(), Version(2), "a second rewind changes nothing");
        disk.limit_bytes(None);
        model.append(&log, 150).unwrap();
        model.sync(&log).unwrap();
        model.check_recovery(&disk.after_power_loss(Survival::SyncedOnly), LARGE);
    }
}

#[test]
fn a_record_that_a_rewind_dropped_is_never_acknowledged_as_its_successor() {
    let (disk, log, _) = log_with_two_records();
    let kept = log.append(Version(3), 0, b"kept").unwrap();
    log.sync(kept).unwrap();
    disk.limit_bytes(Some(log.bytes_on_disk()));
    let dropped = log.append(Version(4), 0, b"dropped").unwrap();
    assert_eq!(log.sync(dropped).unwrap_err().kind(), ErrorKind::DiskFull);
    assert_eq!(log.rewind(), Version(3));
    disk.limit_bytes(None);
    let successor = log.append(Version(4), 0, b"successor").unwrap();
    log.sync(successor).unwrap();
    assert_eq!(log.sync(dropped).unwrap_err().kind(), ErrorKind::DiskFull);
    log.sync(kept).unwrap();
    assert_eq!(dropped.version(), successor.version());
}

#[test]
fn a_failed_fsync_poisons_for_ever_and_reopening_makes_durable_what_it_hands_out() {
    let (disk, log, mut model) = log_with_two_records();
    disk.fail_sync(1);
    model.append(&log, 5000).unwrap();
    model.append(&log, 70_000).unwrap();
    let error = model.sync(&log).expect_err("the fsync failed");
    assert_eq!(error.kind(), ErrorKind::Poisoned);
    for _ in 0..2 {
        assert_eq!(log.append(Version(5), 0, b"").unwrap_err().kind(), ErrorKind::Poisoned);
        assert_eq!(log.sync_through(Version(4)).unwrap_err().kind(), ErrorKind::Poisoned);
        assert_eq!(log.seal().unwrap_err().kind(), ErrorKind::Poisoned);
        assert_eq!(log.rewind(), Version(2), "a rewind does not end it");
    }
    log.sync_through(Version(2)).expect("what is durable stays so");
    drop(log);
    // The failed fsync left bytes that readers see and that no later fsync writes.
    let lost = disk.after_power_loss(Survival::SyncedOnly);
    let (_, found) = open(&lost, LARGE, 0).unwrap();
    assert_eq!(found.len(), 2);
    model.check_recovery(&disk, LARGE);
}

#[test]
fn power_loss_while_reopening_after_a_failed_fsync_is_recovered_from() {
    for calls in 1.. {
        let (disk, log, mut model) = log_with_two_records();
        disk.fail_sync(1);
        model.append(&log, 1500).unwrap();
        model.append(&log, 1500).unwrap();
        assert_eq!(model.sync(&log).unwrap_err().kind(), ErrorKind::Poisoned);
        drop(log);
        disk.fail_after(calls);
        if open(&disk, LARGE, 0).is_ok() {
            assert!(calls > 4);
            break;
        }
        for seed in 0..100 {
            model.check_recovery(&disk.after_power_loss(Survival::Torn { seed }), LARGE);
        }
    }
}

#[test]
fn a_failed_fsync_while_a_file_is_begun_leaves_a_usable_log() {
    for failing in 1..=2 {
        let disk = FaultDisk::new();
        let (log, _) = open(&disk, 300, 0).unwrap();
        let mut model = Model::default();
        model.append(&log, 400).unwrap();
        model.sync(&log).unwrap();
        disk.fail_sync(failing);
        model.append(&log, 50).unwrap();
        assert_eq!(model.sync(&log).unwrap_err().kind(), ErrorKind::Poisoned);
        drop(log);
        model.check_recovery(&disk, 300);
    }
}

#[test]
fn a_failed_write_poisons() {
    let (disk, log, mut model) = log_with_two_records();
    disk.fail_write(1);
    model.append(&log, 300).unwrap();
    assert_eq!(model.sync(&log).unwrap_err().kind(), ErrorKind::Poisoned);
    drop(log);
    model.check_recovery(&disk, LARGE);
}

#[test]
fn a_full_disk_does_not_keep_a_log_closed() {
    let (disk, log, mut model) = log_with_two_records();
    drop(log);
    disk.limit_bytes(Some(0));
    let (log, found) = open(&disk, LARGE, 0).unwrap();
    model.check(&found);
    model.append(&log, 10).unwrap();
    assert_eq!(model.sync(&log).unwrap_err().kind(), ErrorKind::DiskFull);
    model.rewind(&log);
    disk.limit_bytes(None);
    model.append(&log, 10).unwrap();
    model.sync(&log).unwrap();
    model.check_recovery(&disk.after_power_loss(Survival::SyncedOnly), LARGE);
}

#[test]
fn removal_frees_a_full_disk() {
    let disk = FaultDisk::new();
    let (log, _) = open(&disk, 500, 0).unwrap();
    let mut model = Model::default();
    for _ in 0..6 {
        model.append(&log, 400).unwrap();
        model.sync(&log).unwrap();
    }
    let full = log.bytes_on_disk();
    disk.limit_bytes(Some(full));
    model.remove_through(&log, 5).unwrap();
    assert!(!disk.exists(&file(4)) && disk.exists(&file(6)), "whole files only, never the current one");
    assert!(log.bytes_on_disk() < full / 2);
    model.append(&log, 400).unwrap();
    model.sync(&log).expect("there is room again");
    model.remove_through(&log, 7).unwrap();
    assert!(!disk.exists(&file(7)) && disk.exists(&file(8)), "the current file was closed first");
    model.check_recovery(&disk.after_power_loss(Survival::SyncedOnly), 500);
}

#[test]
fn removal_keeps_every_file_with_a_newer_record() {
    let disk = FaultDisk::new();
    let (log, _) = open(&disk, 500, 0).unwrap();
    let mut model = Model::default();
    for _ in 0..4 {
        model.append(&log, 100).unwrap();
        model.append(&log, 200).unwrap();
        model.sync(&log).unwrap();
    }
    for version in 1..=7 {
        model.remove_through(&log, version).unwrap();
        for number in 1..=4 {
            assert_eq!(
                disk.exists(&file(number)),
                2 * number > version,
                "file {number} after removing through {version}"
            );
        }
        assert!(!disk.exists(&file(5)), "a file with newer records is not closed");
        model.check_recovery(&disk.after_power_loss(Survival::Everything), 500);
    }
}

#[test]
fn a_seal_after_a_rewind_states_what_the_refused_group_would_have_stated() {
    let (disk, log, mut model) = log_with_two_records();
    let end = log.bytes_on_disk();
    disk.limit_bytes(Some(end));
    model.append(&log, 10).unwrap();
    model.sync(&log).unwrap_err();
    model.rewind(&log);
    disk.limit_bytes(None);
    log.seal().unwrap();
    assert_eq!(log.bytes_on_disk(), end + 64);
    drop(log);
    disk.corrupt(&file(1), end - 1, 1);
    assert_eq!(open(&disk, LARGE, 0).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn reopening_again_and_again_does_not_grow_the_log() {
    let (disk, log, model) = log_with_two_records();
    drop(log);
    let (log, _) = open(&disk, LARGE, 0).unwrap();
    let (bytes, groups) = (log.bytes_on_disk(), log.groups());
    drop(log);
    for _ in 0..3 {
        let (log, found) = open(&disk, LARGE, 0).unwrap();
        model.clone().check(&found);
        assert_eq!((log.bytes_on_disk(), log.groups()), (bytes, groups), "what is stated is not stated again");
    }
}

#[test]
fn an_error_of_the_callback_ends_opening() {
    let (disk, log, _) = log_with_two_records();
    drop(log);
    let error =
        alluvia_log::Log::open(disk, crate::common::dir(), crate::common::options(LARGE), Version(0), &mut |record| {
            Err(alluvia_types::Error::internal(format!("version {}", record.version)))
        });
    assert_eq!(error.expect_err("refused").message(), "version 1");
}

#[test]
#[should_panic(expected = "without a gap")]
fn a_skipped_version_is_a_defect_of_the_caller() {
    let (_, log, _) = log_with_two_records();
    let _ = log.append(Version(4), 0, b"");
}

#[test]
#[should_panic(expected = "was not appended")]
fn waiting_for_what_was_not_appended_is_a_defect_of_the_caller() {
    let (_, log, _) = log_with_two_records();
    let _ = log.sync_through(Version(3));
}
