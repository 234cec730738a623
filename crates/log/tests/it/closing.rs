//! A file is closed when somebody asks for it, however short it is: then it can go, with every record that was in it.

use crate::common::{Model, dir, file, open, open_with, options, with_room};
use alluvia_storage::{Disk, FaultDisk, Survival};
use alluvia_types::{Result, Version};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const FILE_BYTES_MAX: u64 = 100_000;

fn files(disk: &FaultDisk) -> Vec<String> {
    disk.read_dir(dir()).unwrap().into_iter().map(|entry| entry.name).collect()
}

#[test]
fn a_short_file_is_closed_and_can_be_removed() {
    let disk = FaultDisk::new();
    let (log, _) = open_with(disk.clone(), with_room(FILE_BYTES_MAX), 0).unwrap();
    let mut model = Model::default();
    assert_eq!(log.close_file().unwrap(), Version(0), "without records there is nothing to close");
    assert_eq!(files(&disk).len(), 1);
    for _ in 0..3 {
        model.append(&log, 10).unwrap();
    }
    // What was appended is synced.
    assert_eq!(log.close_file().unwrap(), Version(3));
    model.acknowledged = 3;
    assert_eq!(files(&disk).len(), 2);
    assert_eq!(log.close_file().unwrap(), Version(3));
    assert_eq!(files(&disk).len(), 2);
    model.append(&log, 10).unwrap();
    model.sync(&log).unwrap();
    model.remove_through(&log, 3).unwrap();
    log.sync_removals().unwrap();
    assert!(!disk.exists(&file(1)) && disk.exists(&file(2)));
    let after = disk.after_power_loss(Survival::SyncedOnly);
    assert!(!after.exists(&file(1)));
    model.check_recovery(&after, FILE_BYTES_MAX);
}

fn workload(disk: &Arc<FaultDisk>, model: &mut Model) -> Result<()> {
    let (log, _) = open_with(disk.clone(), with_room(FILE_BYTES_MAX), 0)?;
    for size in [10, 700, 0] {
        model.append(&log, size)?;
        model.sync(&log)?;
        log.close_file()?;
    }
    model.append(&log, 20)?;
    model.sync(&log)?;
    model.remove_through(&log, 2)?;
    log.sync_removals()?;
    model.append(&log, 30)?;
    log.close_file()?;
    model.acknowledged = model.attempted.len() as u64;
    Ok(())
}

#[test]
fn power_loss_at_every_call() {
    for at in 1.. {
        let (disk, mut model) = (FaultDisk::new(), Model::default());
        disk.fail_after(at);
        let is_whole = workload(&disk, &mut model).is_ok();
        for survival in [Survival::SyncedOnly, Survival::Everything, Survival::Torn { seed: at }] {
            model.check_recovery(&disk.after_power_loss(survival), FILE_BYTES_MAX);
        }
        if is_whole {
            assert!(at > 10);
            break;
        }
    }
}

/// Groups follow each other without a pause in which nothing is written.
#[test]
fn writers_do_not_keep_a_file_open() {
    let disk = FaultDisk::new();
    let (log, _) = open_with(disk.clone(), options(FILE_BYTES_MAX), 0).unwrap();
    let (appended, is_over) = (Mutex::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let ticket = {
                        let mut last = appended.lock();
                        *last += 1;
                        log.append(Version(*last), 0, b"record").unwrap()
                    };
                    log.sync(ticket).unwrap();
                }
            });
        }
        for _ in 0..30 {
            let before = *appended.lock();
            let closed = log.close_file().unwrap();
            assert!(closed.0 >= before);
            log.remove_through(closed).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    log.close_file().unwrap();
    let last = *appended.lock();
    log.remove_through(Version(last)).unwrap();
    assert_eq!(files(&disk).len(), 1);
    drop(log);
    let (log, found) = open(&disk, FILE_BYTES_MAX, last).unwrap();
    assert!(found.is_empty());
    assert_eq!(log.durable(), Version(last));
}
