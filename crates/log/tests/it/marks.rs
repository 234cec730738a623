//! Whether a log was stopped cleanly is told by its mark, and never by how it ends alone.

use crate::common::{Model, SALT, dir, file, open};
use alluvia_log::{END_SUFFIX, Log, LogEnd};
use alluvia_storage::{Disk, FaultDisk, Survival};
use alluvia_types::{ErrorKind, Version};
use std::path::PathBuf;
use std::sync::Arc;

const LARGE: u64 = 1 << 20;

fn mark() -> PathBuf {
    PathBuf::from(format!("{}{END_SUFFIX}", dir().display()))
}

fn copy(disk: &Arc<FaultDisk>) -> Arc<FaultDisk> {
    disk.after_power_loss(Survival::Everything)
}

fn len(disk: &FaultDisk) -> u64 {
    disk.open(&file(1)).unwrap().len().unwrap()
}

/// How a log ends, by opening it and by a check, which say the same.
fn end(disk: &Arc<FaultDisk>) -> LogEnd {
    let checked = Log::check(&**disk, dir(), SALT, Version(0)).unwrap().end;
    assert_eq!(open(&copy(disk), LARGE, 0).unwrap().0.found(), checked);
    checked
}

fn write(disk: &Arc<FaultDisk>, model: &mut Model, is_stopped: bool) -> u64 {
    let (log, _) = open(disk, LARGE, 0).unwrap();
    for _ in 0..3 {
        model.append(&log, 100).unwrap();
        model.sync(&log).unwrap();
    }
    let written = len(disk);
    if is_stopped {
        log.seal().unwrap();
        log.mark_end(7).unwrap();
    }
    written
}

#[test]
fn a_log_is_stopped_where_its_mark_says_so_and_nowhere_else() {
    let (disk, mut model) = (FaultDisk::new(), Model::default());
    drop(open(&disk, LARGE, 0).unwrap());
    assert!(end(&disk).is_closed, "nobody has written anything");
    write(&disk, &mut model, true);
    let stopped = len(&disk);
    let closed = LogEnd { is_closed: true, is_behind_header: true, has_mark: true, note: Some((7, true)), torn: None };
    assert_eq!(end(&disk), closed);
    drop(open(&disk, LARGE, 0).unwrap());
    assert_eq!(end(&disk), closed, "nothing was written since");

    // Killed, and cut behind each of its groups' headers, behind each record, and where it was last stopped.
    write(&disk, &mut model, false);
    let group = (len(&disk) - stopped) / 3;
    for groups in 0..3 {
        for behind in [0, 64] {
            let cut = copy(&disk);
            cut.open(&file(1)).unwrap().set_len(stopped + groups * group + behind).unwrap();
            let end = end(&cut);
            let is_header = behind == 64 || groups == 0;
            assert_eq!((end.is_closed, end.is_behind_header, end.note), (false, is_header, Some((7, false))));
            // It is told once.
            drop(open(&cut, LARGE, 0).unwrap());
            assert_eq!((self::end(&cut).is_closed, self::end(&cut).note), (true, Some((7, false))));
        }
    }
    // The next clean stop says so again.
    write(&disk, &mut model, true);
    assert_eq!(end(&disk), closed);
}

#[test]
fn a_process_that_dies_as_it_has_begun_a_file_was_not_stopped() {
    let (disk, mut model) = (FaultDisk::new(), Model::default());
    let (log, _) = open(&disk, LARGE, 0).unwrap();
    model.append(&log, 100).unwrap();
    log.close_file().unwrap();
    drop(log);
    assert!(disk.exists(&file(2)));
    let end = end(&disk);
    assert_eq!((end.is_closed, end.is_behind_header), (false, true));
}

#[test]
fn a_mark_that_is_missing_or_a_copy_from_before_is_told() {
    let (disk, mut model) = (FaultDisk::new(), Model::default());
    write(&disk, &mut model, true);
    let older = copy(&disk);
    write(&disk, &mut model, true);
    let read = |disk: &FaultDisk| {
        let file = disk.open(&mark()).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    };
    let copied = copy(&disk);
    copied.remove(&mark()).unwrap();
    assert_eq!((end(&copied).is_closed, end(&copied).has_mark), (false, false));
    copied.create(&mark()).unwrap().write_all_at(&read(&older), 0).unwrap();
    let summary = Log::check(&*copied, dir(), SALT, Version(0)).unwrap();
    let told = summary.damaged_mark.expect("it is told");
    assert!(
        told.message().contains("nothing was written behind version 3, and the log goes through version 6"),
        "{told}"
    );
    assert!(!summary.end.is_closed);
    let (log, found) = open(&copied, LARGE, 0).unwrap();
    assert_eq!((found.len(), log.damaged_mark().unwrap().kind()), (6, ErrorKind::Corrupt));
    // Who writes makes it anew.
    log.append(Version(7), 0, b"record").unwrap();
    log.sync_through(Version(7)).unwrap();
    drop(log);
    assert!(open(&copied, LARGE, 0).unwrap().0.damaged_mark().is_none());
}

#[test]
fn a_mark_that_finds_no_room_refuses_the_batch_and_the_log_goes_on() {
    let (disk, mut model) = (FaultDisk::new(), Model::default());
    write(&disk, &mut model, true);
    let (log, _) = open(&disk, LARGE, 0).unwrap();
    disk.limit_bytes(Some(0));
    model.append(&log, 10).unwrap();
    assert_eq!(model.sync(&log).unwrap_err().kind(), ErrorKind::DiskFull);
    assert!(end(&copy(&disk)).is_closed, "nothing was written");
    model.rewind(&log);
    disk.limit_bytes(None);
    model.append(&log, 10).unwrap();
    model.sync(&log).unwrap();
    assert!(!end(&copy(&disk)).is_closed);
    model.check_recovery(&disk.after_power_loss(Survival::SyncedOnly), LARGE);
    // Nobody says stopped while others append.
    model.append(&log, 10).unwrap();
    log.mark_end(1).unwrap();
    assert!(!end(&copy(&disk)).is_closed);
}

/// Power is lost at every call between two clean stops: what is found is told as it is.
#[test]
fn power_loss_around_a_clean_stop() {
    let run = |disk: &Arc<FaultDisk>, model: &mut Model| -> alluvia_types::Result<()> {
        for _ in 0..2 {
            let (log, _) = open(disk, LARGE, 0)?;
            model.append(&log, 100)?;
            model.sync(&log)?;
            log.seal()?;
            log.mark_end(1)?;
        }
        Ok(())
    };
    for calls in 1.. {
        let (disk, mut model) = (FaultDisk::new(), Model::default());
        disk.fail_after(calls);
        let is_whole = run(&disk, &mut model).is_ok();
        for survival in [Survival::SyncedOnly, Survival::Everything, Survival::Torn { seed: calls }] {
            let left = disk.after_power_loss(survival);
            if let Ok(summary) = Log::check(&*left, dir(), SALT, Version(0)) {
                assert!(summary.damaged_mark.is_none(), "no mark is taken for a copy: {:?}", summary.damaged_mark);
                assert!(!summary.end.is_closed || summary.last_version >= Version(model.acknowledged));
            }
            model.check_recovery(&left, LARGE);
        }
        if is_whole {
            assert!(calls > 20);
            break;
        }
    }
}
