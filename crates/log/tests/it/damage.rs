//! Damage is told from what a power loss leaves: refused with file and offset, never skipped, never a panic.

use crate::common::{Model, SALT, dir, file, open};
use alluvia_log::{END_SUFFIX, Log, LogEnd, LogSummary, TornEnd};
use alluvia_storage::{Disk, FaultDisk, Survival};
use alluvia_types::{Error, ErrorKind, Version};
use proptest::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;

const FILE_BYTES_MAX: u64 = 2000;

/// A log of two files, cleanly closed.
fn sealed_log() -> (Arc<FaultDisk>, Model) {
    let disk = FaultDisk::new();
    let (log, _) = open(&disk, FILE_BYTES_MAX, 0).unwrap();
    let mut model = Model::default();
    for sizes in [&[900, 30, 0][..], &[40], &[1100], &[50, 60], &[70]] {
        for &size in sizes {
            model.append(&log, size).unwrap();
        }
        model.sync(&log).unwrap();
    }
    log.seal().unwrap();
    assert!(disk.exists(&file(2)) && !disk.exists(&file(3)));
    (disk, model)
}

fn copy(disk: &Arc<FaultDisk>) -> Arc<FaultDisk> {
    disk.after_power_loss(Survival::Everything)
}

fn mark() -> PathBuf {
    PathBuf::from(format!("{}{END_SUFFIX}", dir().display()))
}

fn len(disk: &FaultDisk, number: u64) -> u64 {
    disk.open(&file(number)).unwrap().len().unwrap()
}

fn refusal(disk: &Arc<FaultDisk>) -> Error {
    let before = disk.fingerprint();
    let error = open(disk, FILE_BYTES_MAX, 0).expect_err("damage is refused");
    assert_eq!(disk.fingerprint(), before, "refusing changes nothing");
    assert!(error.hint().is_some());
    error
}

#[test]
fn every_flipped_byte_of_a_sealed_log_is_refused_with_file_and_offset() {
    let (disk, _) = sealed_log();
    for number in [1, 2] {
        // The statement that closes the log is itself stated by nothing.
        let stated = if number == 2 { len(&disk, 2) - 64 } else { len(&disk, 1) };
        for offset in 0..stated {
            let disk = copy(&disk);
            disk.corrupt(&file(number), offset, 1 << (offset % 8));
            let error = refusal(&disk);
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            assert!(error.message().contains(&file(number).display().to_string()), "{error}");
            let at = error.message().split("at offset ").nth(1).expect("names the offset");
            let at: u64 = at.split(':').next().unwrap().parse().unwrap();
            assert!(at <= offset && offset < at + 1300, "said {at}, was {offset}");
        }
    }
}

#[test]
fn a_flipped_byte_in_the_last_statement_loses_nothing() {
    let (disk, model) = sealed_log();
    let end = len(&disk, 2);
    for offset in end - 64..end {
        let disk = copy(&disk);
        disk.corrupt(&file(2), offset, 0x10);
        model.check_recovery(&disk, FILE_BYTES_MAX);
    }
}

/// A log of three groups of one record each, all of them durable.
fn three_groups() -> (Arc<FaultDisk>, Log) {
    let disk = FaultDisk::new();
    let (log, _) = open(&disk, 1 << 20, 0).unwrap();
    let mut model = Model::default();
    for size in [100, 200, 300] {
        model.append(&log, size).unwrap();
        model.sync(&log).unwrap();
    }
    (disk, log)
}

#[test]
fn without_a_seal_only_the_last_group_may_be_lost_to_damage() {
    let (disk, log) = three_groups();
    drop(log);
    let last_group = 64 + (100 + 144) + (200 + 144);
    for offset in 0..len(&disk, 1) {
        let disk = copy(&disk);
        disk.corrupt(&file(1), offset, 0x80);
        if offset < last_group {
            assert_eq!(refusal(&disk).kind(), ErrorKind::Corrupt);
        } else {
            let (_, found) = open(&disk, 1 << 20, 0).unwrap();
            assert_eq!(found.len(), 2, "the last group looks torn");
        }
    }
}

#[test]
fn missing_cut_and_foreign_files_are_refused() {
    let (disk, model) = sealed_log();

    let missing = copy(&disk);
    missing.remove(&file(1)).unwrap();
    let error = refusal(&missing);
    assert!(error.message().contains("0000000000000001.log is missing"), "{error}");

    let newest_missing = copy(&disk);
    newest_missing.remove(&file(2)).unwrap();
    let error = open(&newest_missing, FILE_BYTES_MAX, model.acknowledged).expect_err("ends too early");
    assert!(error.message().contains(&format!("the database at version {}", model.acknowledged)), "{error}");

    let cut = copy(&disk);
    let old_len = len(&cut, 1);
    cut.open(&file(1)).unwrap().set_len(old_len - 40).unwrap();
    let error = refusal(&cut);
    assert!(error.message().contains(&format!("offset {}", old_len - 40)), "{error}");

    let empty = FaultDisk::new();
    let error = open(&empty, FILE_BYTES_MAX, 7).expect_err("the log is gone");
    assert_eq!(error.kind(), ErrorKind::Corrupt);

    let mut options = crate::common::options(FILE_BYTES_MAX);
    options.salt = SALT + 1;
    let foreign = copy(&disk);
    let error = Log::open(foreign, dir(), options, Version(0), &mut |_| Ok(())).expect_err("another database's");
    assert!(error.message().contains("another database"), "{error}");
}

#[test]
fn a_gap_before_what_is_needed_is_an_old_removal() {
    let disk = FaultDisk::new();
    let (log, _) = open(&disk, 100, 0).unwrap();
    let mut model = Model::default();
    for size in [100, 110, 120, 130] {
        model.append(&log, size).unwrap();
        model.sync(&log).unwrap();
    }
    drop(log);
    disk.remove(&file(2)).unwrap();
    assert_eq!(open(&copy(&disk), 100, 0).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(open(&copy(&disk), 100, 1).unwrap_err().kind(), ErrorKind::Corrupt);
    model.removed = 2;
    let opened = copy(&disk);
    model.check_recovery(&opened, 100);
    assert!(!opened.exists(&file(1)), "what reappeared is removed again");
}

#[test]
fn what_is_older_than_asked_for_is_not_read() {
    let (disk, mut model) = sealed_log();
    let in_first_file = 4;
    disk.corrupt(&file(1), 300, 1);
    model.removed = in_first_file + 1;
    model.check_recovery(&disk, FILE_BYTES_MAX);
}

#[test]
fn checking_reads_everything_and_changes_nothing() {
    let (disk, model) = sealed_log();
    let before = disk.fingerprint();
    let summary = Log::check(&*disk, dir(), SALT, Version(3)).unwrap();
    let bytes = len(&disk, 1) + len(&disk, 2);
    let last_version = Version(model.acknowledged);
    let end = LogEnd { is_closed: false, is_behind_header: true, has_mark: true, note: Some((0, false)), torn: None };
    let expected = LogSummary { files: 2, bytes, first_version: Version(1), last_version, end, damaged_mark: None };
    assert_eq!(format!("{summary:?}"), format!("{expected:?}"));
    disk.open(&file(2)).unwrap().write_all_at(b"torn", len(&disk, 2)).unwrap();
    let torn = Log::check(&*disk, dir(), SALT, Version(3)).unwrap().end.torn;
    assert_eq!(torn, Some(TornEnd { file: 2, offset: len(&disk, 2) - 4, bytes: 4, groups: 0 }));
    disk.open(&file(2)).unwrap().set_len(len(&disk, 2) - 4).unwrap();
    assert_eq!(disk.after_power_loss(Survival::Everything).fingerprint(), before);
    disk.corrupt(&file(1), 300, 1);
    let error = Log::check(&*disk, dir(), SALT, Version(8)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "also where opening need not read: {error}");
}

/// The end of a log that was ended cleanly is not taken for a torn write, wherever it is cut.
#[test]
fn a_log_that_was_cut_since_its_clean_end_is_refused_and_what_is_missing_named() {
    let (disk, log) = three_groups();
    log.seal().unwrap();
    log.mark_end(0).unwrap();
    drop(log);
    let end = len(&disk, 1);
    let records_end = end - 64;
    for cut in 0..=end {
        let disk = copy(&disk);
        disk.open(&file(1)).unwrap().set_len(cut).unwrap();
        if cut >= records_end {
            // The last statement says nothing that the mark does not say.
            assert_eq!(open(&disk, 1 << 20, 0).unwrap().1.len(), 3);
            continue;
        }
        let before = disk.fingerprint();
        let error = open(&disk, 1 << 20, 0).expect_err("something is missing");
        assert_eq!((error.kind(), disk.fingerprint()), (ErrorKind::Corrupt, before), "{error}");
        assert!(error.message().contains("to 3 are missing"), "cut at {cut}: {error}");
        assert_eq!(Log::check(&*disk, dir(), SALT, Version(0)).unwrap_err().kind(), ErrorKind::Corrupt);
        // Whoever wants to goes on without.
        disk.remove(&mark()).unwrap();
        assert!(open(&disk, 1 << 20, 0).unwrap().1.len() < 3);
    }
    for offset in 0..records_end {
        let disk = copy(&disk);
        disk.corrupt(&file(1), offset, 0x80);
        assert!(open(&disk, 1 << 20, 0).is_err(), "byte {offset} of what the mark says is there");
    }
    let gone = copy(&disk);
    gone.remove(&file(1)).unwrap();
    let error = open(&gone, 1 << 20, 0).expect_err("all is missing");
    assert!(error.message().contains("versions 1 to 3 are missing"), "{error}");

    // A mark that is damaged keeps nobody from opening, and is told.
    disk.corrupt(&mark(), 30, 1);
    assert_eq!(Log::check(&*disk, dir(), SALT, Version(0)).unwrap().damaged_mark.unwrap().kind(), ErrorKind::Corrupt);
    let (log, found) = open(&disk, 1 << 20, 0).unwrap();
    assert_eq!((found.len(), log.damaged_mark().unwrap().kind()), (3, ErrorKind::Corrupt));
    log.mark_end(0).unwrap();
    drop(log);
    assert!(open(&disk, 1 << 20, 0).unwrap().0.damaged_mark().is_none());
}

#[test]
fn what_is_cut_after_a_crash_is_told() {
    let (disk, log) = three_groups();
    drop(log);
    let whole = copy(&disk);
    assert_eq!(open(&whole, 1 << 20, 0).unwrap().0.found().torn, None);
    // The last group has its header and half a body.
    let last_group = 64 + (100 + 144) + (200 + 144);
    let cut = copy(&disk);
    cut.open(&file(1)).unwrap().set_len(last_group + 200).unwrap();
    let expected = TornEnd { file: 1, offset: last_group + 64, bytes: 136, groups: 0 };
    let (log, found) = open(&cut, 1 << 20, 0).unwrap();
    assert_eq!((log.found().torn, found.len()), (Some(expected), 2));
    assert!(expected.to_string().contains("0000000000000001.log, from byte 716 on: 136 bytes"), "{expected}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is done to the files, opening gives a prefix of what was appended, or an error.
    #[test]
    fn any_damage_gives_a_prefix_or_an_error(
        edits in prop::collection::vec((1..=2u64, 0..2600u64, prop::collection::vec(any::<u8>(), 1..80)), 1..4),
        cut in prop::option::of((1..=2u64, 0..2600u64)),
    ) {
        let (disk, mut model) = sealed_log();
        for (number, offset, bytes) in edits {
            disk.open(&file(number)).unwrap().write_all_at(&bytes, offset).unwrap();
        }
        if let Some((number, len)) = cut {
            disk.open(&file(number)).unwrap().set_len(len).unwrap();
        }
        if let Ok((_, found)) = open(&disk, FILE_BYTES_MAX, 0) {
            model.acknowledged = 0;
            model.check(&found);
        }
    }
}
