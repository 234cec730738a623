//! Files of idempotency keys are those that the manifest names, whatever happens between two calls.

use super::*;
use crate::keys::BatchKey;
use alluvia_storage::{FaultDisk, Survival};
use alluvia_types::TableId;
use std::sync::Arc;

fn record(version: u64) -> KeyRecord {
    let key = BatchKey::new(TableId(3), &format!("key {version}"));
    KeyRecord { key, version: Version(version), commit_micros: version as i64 * 10, rows: version * 2 }
}

fn dir() -> &'static Path {
    Path::new("/db")
}

fn disk() -> Arc<FaultDisk> {
    let disk = FaultDisk::new();
    disk.create_dir_all(dir()).unwrap();
    disk
}

/// What a manifest does once it names the files: what is old goes.
fn named(disk: &FaultDisk, files: &mut KeyFiles) -> Vec<KeysFile> {
    let (named, old) = files.named();
    for path in files.forget_old(old) {
        disk.remove(&path).unwrap();
    }
    named
}

fn names(disk: &FaultDisk) -> Vec<String> {
    let mut names: Vec<String> = disk.read_dir(dir()).unwrap().into_iter().map(|entry| entry.name).collect();
    names.sort_unstable();
    names
}

#[test]
fn keys_are_read_back_and_old_files_go() {
    let disk = disk();
    let (mut files, none) = KeyFiles::load(disk.as_ref(), dir(), Some(&[])).unwrap();
    assert!(none.is_empty());
    let count = FILE_RECORDS_MAX as u64 + 10;
    let all: Vec<KeyRecord> = (1..=count).map(record).collect();
    files.add(disk.as_ref(), &all[..100], 0).unwrap();
    let first = files.named().0;
    // A sort that failed after this sends them again; what the manifest on disk names is there yet.
    files.add(disk.as_ref(), &all[50..], 0).unwrap();
    assert_eq!(KeyFiles::load(disk.as_ref(), dir(), Some(&first)).unwrap().1, all[..100]);
    let second = named(&disk, &mut files);
    assert_eq!(names(&disk), ["keys-00000002", "keys-00000003"]);
    let (mut files, read) = KeyFiles::load(disk.as_ref(), dir(), Some(&second)).unwrap();
    assert_eq!(read, all);
    files.add(disk.as_ref(), &[], FILE_RECORDS_MAX as i64 * 10).unwrap();
    assert_eq!(named(&disk, &mut files), second, "its newest record is not older than that");
    files.add(disk.as_ref(), &[record(count + 1)], FILE_RECORDS_MAX as i64 * 10 + 1).unwrap();
    let third = named(&disk, &mut files);
    assert_eq!(names(&disk), ["keys-00000004"]);
    let (_, read) = KeyFiles::load(disk.as_ref(), dir(), Some(&third)).unwrap();
    let versions: Vec<u64> = read.iter().map(|record| record.version.0).collect();
    assert_eq!(versions, (FILE_RECORDS_MAX as u64 + 1..=count + 1).collect::<Vec<_>>());
}

#[test]
fn a_write_that_fails_at_the_end_of_a_file_writes_no_key_twice() {
    let disk = disk();
    let (mut files, _) = KeyFiles::load(disk.as_ref(), dir(), Some(&[])).unwrap();
    let all: Vec<KeyRecord> = (1..=FILE_RECORDS_MAX as u64 + 10).map(record).collect();
    files.add(disk.as_ref(), &all[..FILE_RECORDS_MAX], 0).unwrap();
    // The sort is tried again with all that it takes out of the log: what the full file has is among that.
    for _ in 0..2 {
        disk.fail_write(1);
        assert!(files.add(disk.as_ref(), &all[10..], 0).is_err());
    }
    files.add(disk.as_ref(), &all[10..], 0).unwrap();
    let (named, old) = files.named();
    assert_eq!((named.len(), old), (2, 0));
    assert_eq!(KeyFiles::load(disk.as_ref(), dir(), Some(&named)).unwrap().1, all);
}

/// Whatever call fails, and whatever a loss of power leaves: the manifest that is there names files that are there.
#[test]
fn a_crash_at_any_call_leaves_what_the_manifest_names() {
    for n in 1.. {
        let disk = disk();
        let (mut files, _) = KeyFiles::load(disk.as_ref(), dir(), Some(&[])).unwrap();
        files.add(disk.as_ref(), &[record(1), record(2)], 0).unwrap();
        let mut manifest = named(&disk, &mut files);
        let mut kept = 2;
        disk.fail_after(n);
        let mut is_done = true;
        for version in 3..6 {
            if files.add(disk.as_ref(), &[record(version)], 0).is_err() {
                is_done = false;
                break;
            }
            // Of every second one the manifest fails.
            if version % 2 == 1 {
                let (now, old) = files.named();
                (manifest, kept) = (now, version);
                for path in files.forget_old(old) {
                    let _ = disk.remove(&path);
                }
            }
        }
        for survival in [Survival::SyncedOnly, Survival::Everything, Survival::Torn { seed: n }] {
            let disk = disk.after_power_loss(survival);
            let (mut files, read) = KeyFiles::load(disk.as_ref(), dir(), Some(&manifest)).unwrap();
            assert_eq!(read, (1..=kept).map(record).collect::<Vec<_>>(), "call {n}, {survival:?}");
            files.remove_orphans(disk.as_ref()).unwrap();
            assert_eq!(names(&disk).len(), 1);
            files.add(disk.as_ref(), &[record(9)], 0).unwrap();
            let now = named(&disk, &mut files);
            assert_eq!(KeyFiles::load(disk.as_ref(), dir(), Some(&now)).unwrap().1.last(), Some(&record(9)));
        }
        if is_done {
            assert!(n > 10);
            break;
        }
    }
}

#[test]
fn a_file_that_is_missing_damaged_or_older_is_refused_and_named() {
    let disk = disk();
    let (mut files, _) = KeyFiles::load(disk.as_ref(), dir(), Some(&[])).unwrap();
    files.add(disk.as_ref(), &[record(1)], 0).unwrap();
    let older = disk.open(&path(dir(), 1)).unwrap();
    let mut copy = vec![0; older.len().unwrap() as usize];
    older.read_exact_at(&mut copy, 0).unwrap();
    files.add(disk.as_ref(), &[record(2)], 0).unwrap();
    let manifest = named(&disk, &mut files);
    let refusal = |disk: &FaultDisk| {
        let error = KeyFiles::load(disk, dir(), Some(&manifest)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.message().contains("/db/keys-00000002") && error.hint().is_some(), "{error}");
        error.message().to_owned()
    };
    assert_eq!(KeyFiles::load(disk.as_ref(), dir(), Some(&manifest)).unwrap().1, [record(1), record(2)]);
    disk.corrupt(&path(dir(), 2), 25, 4);
    refusal(&disk);
    disk.remove(&path(dir(), 2)).unwrap();
    assert!(refusal(&disk).contains("is missing"));
    disk.create(&path(dir(), 2)).unwrap().write_all_at(&copy, 0).unwrap();
    assert!(refusal(&disk).contains("it may be an older copy"));
    // The same length, and other keys.
    write_atomic(disk.as_ref(), &path(dir(), 2), KEYS_MAGIC, &encode(&[record(1), record(3)])).unwrap();
    assert!(refusal(&disk).contains("is not the file that the manifest names"));
}

#[test]
fn whoever_allows_it_opens_without_what_is_lost() {
    let disk = disk();
    let (mut files, _) = KeyFiles::load(disk.as_ref(), dir(), Some(&[])).unwrap();
    let count = FILE_RECORDS_MAX as u64 + 1;
    files.add(disk.as_ref(), &(1..=count).map(record).collect::<Vec<_>>(), 0).unwrap();
    let manifest = named(&disk, &mut files);
    disk.corrupt(&path(dir(), 1), 25, 4);
    KeyFiles::load(disk.as_ref(), dir(), Some(&manifest)).unwrap_err();
    disk.create(&dir().join(KEYS_LOST_NAME)).unwrap();
    // As often as it is opened, until a manifest is written.
    for _ in 0..2 {
        let (files, read) = KeyFiles::load(disk.as_ref(), dir(), Some(&manifest)).unwrap();
        assert_eq!(read, [record(count)]);
        assert!(files.lost()[0].message().contains("keys-00000001"), "{:?}", files.lost());
        files.remove_orphans(disk.as_ref()).unwrap();
    }
    let (mut files, _) = KeyFiles::load(disk.as_ref(), dir(), Some(&manifest)).unwrap();
    let manifest = named(&disk, &mut files);
    assert_eq!(names(&disk), ["keys-00000002"]);
    assert_eq!(KeyFiles::load(disk.as_ref(), dir(), Some(&manifest)).unwrap().1, [record(count)]);
}

#[test]
fn files_of_an_earlier_build_are_read_and_named_from_then_on() {
    let disk = disk();
    for number in 1..=3 {
        write_atomic(disk.as_ref(), &path(dir(), number), KEYS_MAGIC, &encode(&[record(number)])).unwrap();
    }
    let (mut files, read) = KeyFiles::load(disk.as_ref(), dir(), None).unwrap();
    assert_eq!(read.len(), 3);
    files.remove_orphans(disk.as_ref()).unwrap();
    files.add(disk.as_ref(), &[record(4)], 0).unwrap();
    let manifest = named(&disk, &mut files);
    assert_eq!(names(&disk), ["keys-00000001", "keys-00000002", "keys-00000004"]);
    let (_, read) = KeyFiles::load(disk.as_ref(), dir(), Some(&manifest)).unwrap();
    assert_eq!(read, (1..=4).map(record).collect::<Vec<_>>());

    let refused = |disk: &FaultDisk| KeyFiles::load(disk, dir(), None).unwrap_err();
    disk.remove(&path(dir(), 2)).unwrap();
    assert!(refused(&disk).message().contains("keys-00000002 is missing"));
    write_atomic(disk.as_ref(), &path(dir(), 2), KEYS_MAGIC, &[0; 41]).unwrap();
    assert!(refused(&disk).message().contains("half a record"));
    disk.corrupt(&path(dir(), 2), 25, 4);
    assert_eq!(refused(&disk).kind(), ErrorKind::Corrupt);
}

/// The golden file never changes: it is what this version writes, and every later one reads.
#[test]
fn the_golden_file_is_read_and_is_what_is_written() {
    const GOLDEN: &[u8] = include_bytes!("../../tests/golden/keys-01/keys-00000001");
    let record = |key, version, commit_micros, rows| KeyRecord {
        key: BatchKey(key),
        version: Version(version),
        commit_micros,
        rows,
    };
    let records = [
        record(1, 2, -4, 0),
        record(0x0123_4567_89ab_cdef_fedc_ba98_7654_3210, 3, 1_767_225_600_000_000, 5),
        record(u128::MAX, (1 << 40) + 7, 1_767_225_600_000_001, 1 << 33),
    ];
    let disk = disk();
    disk.create(&path(dir(), 1)).unwrap().write_all_at(GOLDEN, 0).unwrap();
    assert_eq!(KeyFiles::load(disk.as_ref(), dir(), None).unwrap().1, records);

    disk.remove(&path(dir(), 1)).unwrap();
    let (mut files, _) = KeyFiles::load(disk.as_ref(), dir(), None).unwrap();
    files.add(disk.as_ref(), &records, i64::MIN).unwrap();
    let file = disk.open(&path(dir(), 1)).unwrap();
    let mut written = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut written, 0).unwrap();
    assert_eq!(written, GOLDEN);
}

#[test]
fn files_are_known_by_their_whole_names() {
    assert_eq!(KeyFiles::number_of_file("keys-00000001"), Some(1));
    assert_eq!(KeyFiles::number_of_file("keys-123456789"), Some(123_456_789));
    for other in ["keys-", "keys-1", "keys-+0000001", "keys-000000001", "keys-00000001.tmp", "keys-0000000a", "keys"] {
        assert_eq!(KeyFiles::number_of_file(other), None, "{other}");
    }
    // One of somebody else's is neither read nor taken for a gap, and stays.
    let disk = disk();
    disk.create(&dir().join("keys-7")).unwrap();
    disk.create(&dir().join("keys-00000004.tmp")).unwrap();
    let (mut files, none) = KeyFiles::load(disk.as_ref(), dir(), None).unwrap();
    assert!(none.is_empty());
    files.add(disk.as_ref(), &[record(1)], 0).unwrap();
    files.remove_orphans(disk.as_ref()).unwrap();
    assert_eq!(names(&disk), ["keys-00000001", "keys-7"]);
    assert_eq!(KeyFiles::load(disk.as_ref(), dir(), None).unwrap().1, [record(1)]);
}
