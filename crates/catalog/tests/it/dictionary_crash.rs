//! Power loss at every I/O call of a life of a dictionary file, and at every call of the recovery that follows.

use crate::common::{Model, assert_codes, batch, table};
use alluvia_catalog::{Dictionaries, DictionaryMark};
use alluvia_space::{DataType, TableDef};
use alluvia_storage::{Disk, FaultDisk, Survival};
use alluvia_types::{ErrorKind, Result};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Rows = Vec<Vec<Option<u8>>>;

const PATH: &str = "/dict-7";
const ROUNDS: usize = 4;

fn def() -> TableDef {
    table(
        &[vec![DataType::Text, DataType::Text], vec![DataType::Int64, DataType::Decimal { precision: 38, scale: 4 }]],
        true,
    )
}

fn rows(round: usize) -> Rows {
    let draw = |at: usize| (at % 7 != 6).then_some((at * 13 % 50) as u8);
    (round * 20..round * 20 + 40).map(|at| vec![draw(at / 9), draw(at), draw(at / 5), draw(at + 1), draw(at)]).collect()
}

/// What a manifest would hold, and how many rounds it covers.
#[derive(Clone, Default)]
struct Manifest {
    mark: Option<DictionaryMark>,
    rounds: usize,
}

fn start(disk: &Arc<FaultDisk>, manifest: &Manifest) -> Result<Dictionaries> {
    let disk: Arc<dyn Disk> = disk.clone();
    match &manifest.mark {
        Some(mark) => Dictionaries::open(disk, PathBuf::from(PATH), &def(), mark),
        None => Dictionaries::create(disk, PathBuf::from(PATH), &def()),
    }
}

/// Goes on from a manifest to the last round, checking all codes on the way; keeps the manifest as a commit would.
fn live(disk: &Arc<FaultDisk>, manifest: &mut Manifest) -> Result<()> {
    let dictionaries = start(disk, manifest)?;
    let mut model = Model::default();
    for round in 0..manifest.rounds {
        // Everything that the manifest covers has kept its code: nothing here is new.
        let expected = model.remap(&def(), &rows(round));
        assert_codes(&dictionaries.remap(&def(), &batch(&def(), &rows(round), 0))?, &expected);
    }
    assert_eq!(dictionaries.persist()?, manifest.mark.clone().unwrap_or(dictionaries.persist()?));
    for round in manifest.rounds..ROUNDS {
        let expected = model.remap(&def(), &rows(round));
        assert_codes(&dictionaries.remap(&def(), &batch(&def(), &rows(round), 1))?, &expected);
        let mark = dictionaries.persist()?;
        *manifest = Manifest { mark: Some(mark), rounds: round + 1 };
    }
    Ok(())
}

fn survivals() -> impl Iterator<Item = Survival> {
    [Survival::SyncedOnly, Survival::Everything].into_iter().chain((0..12).map(|seed| Survival::Torn { seed }))
}

#[test]
fn every_code_that_a_mark_covers_survives_power_loss_at_every_call() {
    let calls = {
        let disk = FaultDisk::new();
        live(&disk, &mut Manifest::default()).unwrap();
        disk.calls()
    };
    assert!(calls > 2 * ROUNDS as u64, "the workload writes and syncs in every round");
    let mut seen = HashSet::new();
    for n in 1..=calls {
        let disk = FaultDisk::new();
        disk.fail_after(n);
        let mut manifest = Manifest::default();
        assert!(live(&disk, &mut manifest).is_err(), "call {n} fails");
        for survival in survivals() {
            let left = disk.after_power_loss(survival);
            if !seen.insert((left.fingerprint(), manifest.rounds)) {
                continue;
            }
            let mut recovered = manifest.clone();
            live(&left.after_power_loss(Survival::Everything), &mut recovered).unwrap();
            assert_eq!(recovered.rounds, ROUNDS);
            // And again with power loss during the recovery and what follows it.
            for m in 1.. {
                let again = left.after_power_loss(Survival::Everything);
                again.fail_after(m);
                let mut second = manifest.clone();
                if live(&again, &mut second).is_ok() {
                    break;
                }
                for survival in [Survival::SyncedOnly, Survival::Everything, Survival::Torn { seed: m }] {
                    let mut third = second.clone();
                    live(&again.after_power_loss(survival), &mut third).unwrap();
                }
            }
        }
    }
}

#[test]
fn after_a_failed_sync_nothing_is_persisted_until_reopened() {
    for sync in 1..=ROUNDS as u64 {
        let disk = FaultDisk::new();
        disk.fail_sync(sync);
        let mut manifest = Manifest::default();
        let dictionaries = start(&disk, &manifest).unwrap();
        let mut failed = 0;
        for round in 0..ROUNDS {
            dictionaries.remap(&def(), &batch(&def(), &rows(round), 0)).unwrap();
            match dictionaries.persist() {
                Ok(mark) if failed == 0 => manifest = Manifest { mark: Some(mark), rounds: round + 1 },
                Ok(_) => panic!("a failed sync was forgotten"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Poisoned);
                    failed += 1;
                }
            }
        }
        assert_eq!(failed, ROUNDS - (sync as usize - 1));
        live(&disk.after_power_loss(Survival::SyncedOnly), &mut manifest).unwrap();
    }
}

#[test]
fn a_failed_sync_of_the_directory_is_made_good_by_the_next_persist() {
    let disk = FaultDisk::new();
    let dictionaries = start(&disk, &Manifest::default()).unwrap();
    dictionaries.remap(&def(), &batch(&def(), &rows(0), 0)).unwrap();
    disk.fail_sync_dir(1);
    let error = dictionaries.persist().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert!(!disk.after_power_loss(Survival::SyncedOnly).exists(Path::new(PATH)), "its name is not durable");
    // Members that came meanwhile are in the next mark, too.
    dictionaries.remap(&def(), &batch(&def(), &rows(1), 0)).unwrap();
    let mark = dictionaries.persist().unwrap();
    assert_eq!(disk.dir_syncs(), 2);
    let mut manifest = Manifest { mark: Some(mark), rounds: 2 };
    live(&disk.after_power_loss(Survival::SyncedOnly), &mut manifest).unwrap();
    assert_eq!(manifest.rounds, ROUNDS);
}

#[test]
fn a_full_disk_is_an_error_until_there_is_room() {
    for limit in [0, 5, 100, 700] {
        let disk = FaultDisk::new();
        disk.limit_bytes(Some(limit));
        let dictionaries = start(&disk, &Manifest::default()).unwrap();
        let mut model = Model::default();
        for round in 0..ROUNDS {
            let expected = model.remap(&def(), &rows(round));
            assert_codes(&dictionaries.remap(&def(), &batch(&def(), &rows(round), 0)).unwrap(), &expected);
            if let Err(error) = dictionaries.persist() {
                assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
            }
        }
        assert_eq!(dictionaries.persist().unwrap_err().kind(), ErrorKind::DiskFull);
        disk.limit_bytes(None);
        let mark = dictionaries.persist().unwrap();
        let mut manifest = Manifest { mark: Some(mark), rounds: ROUNDS };
        live(&disk.after_power_loss(Survival::SyncedOnly), &mut manifest).unwrap();
    }
}

#[test]
fn a_failed_write_poisons() {
    let disk = FaultDisk::new();
    disk.fail_write(1);
    let dictionaries = start(&disk, &Manifest::default()).unwrap();
    dictionaries.remap(&def(), &batch(&def(), &rows(0), 0)).unwrap();
    assert_eq!(dictionaries.persist().unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(dictionaries.persist().unwrap_err().kind(), ErrorKind::Poisoned);
}

#[test]
fn damage_below_the_mark_is_refused_by_file_and_offset() {
    let disk = FaultDisk::new();
    let mut manifest = Manifest::default();
    live(&disk, &mut manifest).unwrap();
    let bytes = manifest.mark.as_ref().unwrap().bytes;
    for offset in 0..bytes {
        let damaged = disk.after_power_loss(Survival::SyncedOnly);
        damaged.corrupt(Path::new(PATH), offset, 1 << (offset % 8));
        let error = start(&damaged, &manifest).unwrap_err();
        let expected = if (6..8).contains(&offset) { ErrorKind::IncompatibleFormat } else { ErrorKind::Corrupt };
        assert_eq!(error.kind(), expected, "byte {offset}: {error}");
        assert!(error.message().contains(PATH) && error.hint().is_some(), "{error}");
        assert!(error.kind() != ErrorKind::Corrupt || error.message().contains("at byte "), "{error}");
    }
    for len in [0, 1, bytes / 2, bytes - 1] {
        let cut = disk.after_power_loss(Survival::SyncedOnly);
        cut.open(Path::new(PATH)).unwrap().set_len(len).unwrap();
        let error = start(&cut, &manifest).unwrap_err();
        assert!(error.kind() == ErrorKind::Corrupt && error.message().contains(&format!("byte {len}")), "{error}");
    }
    let gone = disk.after_power_loss(Survival::SyncedOnly);
    gone.remove(Path::new(PATH)).unwrap();
    assert_eq!(start(&gone, &manifest).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn a_mark_of_another_file_is_refused() {
    let disk = FaultDisk::new();
    let mut manifest = Manifest::default();
    live(&disk, &mut manifest).unwrap();
    let mark = manifest.mark.clone().unwrap();
    let mut wrong_crc = manifest.clone();
    wrong_crc.mark = Some(DictionaryMark { crc: mark.crc ^ 1, ..mark.clone() });
    let mut wrong_members = manifest.clone();
    let mut members = mark.members.clone();
    members[1] += 1;
    wrong_members.mark = Some(DictionaryMark { members, ..mark.clone() });
    let mut in_a_group = manifest.clone();
    in_a_group.mark = Some(DictionaryMark { bytes: mark.bytes - 3, ..mark });
    for manifest in [wrong_crc, wrong_members, in_a_group] {
        let left = disk.after_power_loss(Survival::SyncedOnly);
        assert_eq!(start(&left, &manifest).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}

#[test]
fn a_table_without_members_has_no_file() {
    let disk = FaultDisk::new();
    let dictionaries = start(&disk, &Manifest::default()).unwrap();
    let mark = dictionaries.persist().unwrap();
    assert_eq!((mark.bytes, disk.calls()), (0, 0));
    start(&disk, &Manifest { mark: Some(mark), rounds: 0 }).unwrap();
}
