//! Zeros behind the end, in which groups come to lie: they change no answer, and only the newest file has them.

use crate::common::{Model, SALT, dir, file, open, open_with, options};
use alluvia_log::{Log, LogOptions};
use alluvia_storage::{Disk, FaultDisk, Survival};
use alluvia_types::{ErrorKind, Version};

const FILE_BYTES_MAX: u64 = 10_000;
const ROOM: u64 = 4096;

fn with_room() -> LogOptions {
    LogOptions { room_bytes: ROOM, ..options(FILE_BYTES_MAX) }
}

fn len_of(disk: &FaultDisk, number: u64) -> u64 {
    disk.open(&file(number)).unwrap().len().unwrap()
}

/// Appends a record of `len` bytes and syncs it.
fn write(model: &mut Model, log: &Log, len: usize) {
    model.append(log, len).unwrap();
    model.sync(log).unwrap();
}

#[test]
fn small_groups_come_to_lie_in_room_and_large_ones_get_none() {
    let disk = FaultDisk::new();
    let (log, _) = open_with(disk.clone(), with_room(), 0).unwrap();
    let mut model = Model::default();
    write(&mut model, &log, 600);
    let alone = len_of(&disk, 1);
    assert!(alone < 1000, "a group of more than an eighth of the room grows the file by itself");
    write(&mut model, &log, 10);
    let begun = len_of(&disk, 1);
    assert!(begun > alone + ROOM, "{begun}");
    for _ in 0..10 {
        write(&mut model, &log, 10);
        assert_eq!(len_of(&disk, 1), begun, "this group lies in the room");
    }
    assert_eq!(log.bytes_on_disk(), begun);
    // Room that is synced is durable as zeros; a group that is not may be there in part.
    for seed in 0..200 {
        model.append(&log, 10).unwrap();
        model.check_recovery(&disk.after_power_loss(Survival::Torn { seed }), FILE_BYTES_MAX);
    }
}

#[test]
fn room_is_no_torn_write_and_is_cut_at_reopening() {
    let disk = FaultDisk::new();
    let mut model = Model::default();
    let (log, _) = open_with(disk.clone(), with_room(), 0).unwrap();
    write(&mut model, &log, 10);
    log.seal().unwrap();
    let groups = log.groups();
    assert!(len_of(&disk, 1) > ROOM);
    drop(log);
    let summary = Log::check(&*disk, dir(), SALT, Version(0)).unwrap();
    assert_eq!((summary.end.torn, summary.last_version), (None, Version(1)));
    let (log, found) = open_with(disk.clone(), with_room(), 0).unwrap();
    model.check(&found);
    assert_eq!(log.groups(), groups);
    assert!(len_of(&disk, 1) < 1000, "nobody knows whether the zeros of an earlier process are durable");
    write(&mut model, &log, 10);
    let len = len_of(&disk, 1);
    assert!(len > ROOM, "there is room again");
    drop(log);
    // One byte behind the end that is no zero: somebody began to write there.
    let newest = disk.open(&file(1)).unwrap();
    newest.write_all_at(b"x", len - 1).unwrap();
    assert!(Log::check(&*disk, dir(), SALT, Version(0)).unwrap().end.torn.unwrap().bytes > 1000);
    let (log, found) = open_with(disk.clone(), with_room(), 0).unwrap();
    model.check(&found);
    assert!(len_of(&disk, 1) < 1000, "it is cut, and the room with it");
    drop(log);
    model.check_recovery(&disk.after_power_loss(Survival::SyncedOnly), FILE_BYTES_MAX);
}

#[test]
fn a_file_that_is_closed_has_no_room_and_room_ends_where_files_do() {
    let disk = FaultDisk::new();
    let mut model = Model::default();
    let (log, _) = open_with(disk.clone(), with_room(), 0).unwrap();
    write(&mut model, &log, 10);
    write(&mut model, &log, 7000);
    write(&mut model, &log, 10);
    assert_eq!(len_of(&disk, 1), FILE_BYTES_MAX);
    write(&mut model, &log, 3000);
    let end = len_of(&disk, 1);
    assert!(end > FILE_BYTES_MAX, "a group is never split");
    write(&mut model, &log, 10);
    assert_eq!(len_of(&disk, 1), end);
    drop(log);
    model.check_recovery(&disk.after_power_loss(Survival::SyncedOnly), FILE_BYTES_MAX);

    // Closed while there is room: cut, so that its length is what the next file says.
    let disk = FaultDisk::new();
    let mut model = Model::default();
    let (log, _) = open_with(disk.clone(), with_room(), 0).unwrap();
    write(&mut model, &log, 3000);
    write(&mut model, &log, 10);
    let len = len_of(&disk, 1);
    model.remove_through(&log, 2).unwrap();
    assert!(!disk.exists(&file(1)) && disk.exists(&file(2)), "it was closed, and then removed");
    assert!(len > 3000 + ROOM);
    write(&mut model, &log, 10);
    drop(log);
    model.check_recovery(&disk.after_power_loss(Survival::SyncedOnly), FILE_BYTES_MAX);
}

#[test]
fn zeros_where_a_durable_group_was_are_damage() {
    let disk = FaultDisk::new();
    let mut model = Model::default();
    let (log, _) = open_with(disk.clone(), with_room(), 0).unwrap();
    write(&mut model, &log, 10);
    let first = log.groups();
    for _ in 0..3 {
        write(&mut model, &log, 10);
    }
    assert!(log.groups() > first);
    drop(log);
    disk.open(&file(1)).unwrap().write_all_at(&[0; 64], 64).unwrap();
    let error = open_with(disk, with_room(), 0).expect_err("a later group states that it was durable");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.message().contains("offset 64"), "{error}");
}

#[test]
fn without_space_for_room_groups_grow_the_file() {
    let disk = FaultDisk::new();
    let mut model = Model::default();
    let (log, _) = open_with(disk.clone(), with_room(), 0).unwrap();
    write(&mut model, &log, 1000);
    let before = len_of(&disk, 1);
    disk.limit_bytes(Some(before + 1000));
    for _ in 0..3 {
        write(&mut model, &log, 10);
    }
    let grown = len_of(&disk, 1);
    assert!(grown > before && grown < before + 1000, "no zeros are left that take the last space: {grown}");
    model.append(&log, 3000).unwrap();
    assert_eq!(model.sync(&log).unwrap_err().kind(), ErrorKind::DiskFull);
    model.rewind(&log);
    disk.limit_bytes(None);
    write(&mut model, &log, 10);
    for survival in [Survival::SyncedOnly, Survival::Everything] {
        model.check_recovery(&disk.after_power_loss(survival), FILE_BYTES_MAX);
    }
}

/// A file is closed at a length that is durable, whatever an earlier process left: here a cut that was seen, and whose sync failed.
#[test]
fn a_cut_whose_sync_failed_is_made_again_before_the_next_file_is_begun() {
    let disk = FaultDisk::new();
    let mut model = Model::default();
    let (log, _) = open_with(disk.clone(), with_room(), 0).unwrap();
    write(&mut model, &log, 3000);
    write(&mut model, &log, 10);
    log.seal().unwrap();
    disk.fail_sync(1);
    model.removed = 2;
    log.remove_through(Version(2)).expect("what cannot be closed is kept");
    assert_eq!(log.failure().map(|error| error.kind()), Some(ErrorKind::Poisoned));
    drop(log);
    let (log, found) = open_with(disk.clone(), with_room(), 2).unwrap();
    model.check(&found);
    model.remove_through(&log, 2).unwrap();
    assert!(disk.exists(&file(2)));
    write(&mut model, &log, 10);
    drop(log);
    for seed in 0..100 {
        model.check_recovery(&disk.after_power_loss(Survival::Torn { seed }), FILE_BYTES_MAX);
    }
    model.check_recovery(&disk.after_power_loss(Survival::SyncedOnly), FILE_BYTES_MAX);
}

/// A statement that is seen, and whose sync failed, is not built upon.
#[test]
fn nothing_is_said_of_a_statement_that_may_not_be_durable() {
    for room_bytes in [0, ROOM] {
        let options = LogOptions { room_bytes, ..with_room() };
        let disk = FaultDisk::new();
        let mut model = Model::default();
        let (log, _) = open_with(disk.clone(), options.clone(), 0).unwrap();
        write(&mut model, &log, 100);
        disk.fail_sync(1);
        assert_eq!(log.seal().unwrap_err().kind(), ErrorKind::Poisoned);
        drop(log);
        for _ in 0..3 {
            let (log, found) = open_with(disk.clone(), options.clone(), 0).unwrap();
            model.check(&found);
            write(&mut model, &log, 50);
            for seed in 0..100 {
                model.check_recovery(&disk.after_power_loss(Survival::Torn { seed }), FILE_BYTES_MAX);
            }
            model.check_recovery(&disk.after_power_loss(Survival::SyncedOnly), FILE_BYTES_MAX);
            log.seal().unwrap();
        }
        assert_eq!(open(&disk, FILE_BYTES_MAX, 0).unwrap().1.len(), 4);
    }
}
