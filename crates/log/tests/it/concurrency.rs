//! Many writers at once: groups, overlapping fsyncs in any order of completion, power loss and failures under load.

use crate::common::gate::Gate;
use crate::common::{Found, Model, SALT, body, dir, micros, open, open_with, options, with_room};
use alluvia_log::{Log, LogOptions};
use alluvia_storage::{Disk, FaultDisk, RealDisk, SlowSync, Survival, WatchedDisk};
use alluvia_types::{ErrorKind, Version};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const WRITERS: u64 = 64;

/// Appends records from `WRITERS` threads until each has written `rounds` or met an error; returns the highest version
/// acknowledged, and the number of versions appended.
fn write_from_many_threads(log: &Log, rounds: u64) -> (u64, u64) {
    let next = Mutex::new(log.durable().0 + 1);
    let acknowledged = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                for _ in 0..rounds {
                    let ticket = {
                        let mut next = next.lock();
                        let bytes = body(*next, 0, (*next * 337 % 900) as usize);
                        let Ok(ticket) = log.append(Version(*next), micros(*next), &bytes) else { return };
                        *next += 1;
                        ticket
                    };
                    if log.sync(ticket).is_err() {
                        return;
                    }
                    assert!(log.durable() >= ticket.version());
                    acknowledged.fetch_max(ticket.version().0, Ordering::SeqCst);
                }
            });
        }
    });
    (acknowledged.into_inner(), next.into_inner() - 1)
}

/// With room in every other round.
fn options_of(round: u64, file_bytes_max: u64) -> LogOptions {
    if round.is_multiple_of(2) { options(file_bytes_max) } else { with_room(file_bytes_max) }
}

fn check(found: &Found, acknowledged: u64, appended: u64) {
    let attempted = (1..=appended).map(|version| body(version, 0, (version * 337 % 900) as usize)).collect();
    let mut model = Model { attempted, acknowledged, ..Model::default() };
    model.check(found);
}

#[test]
fn every_record_of_many_writers_comes_back_once_in_order() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path();
    let disk: Arc<dyn Disk> =
        Arc::new(WatchedDisk::new(Arc::new(RealDisk::new()), Arc::new(SlowSync(Duration::from_micros(300)))));
    let options = LogOptions { file_bytes_max: 100_000, ..LogOptions::new(SALT) };
    let log = Log::open(disk.clone(), path, options.clone(), Version(0), &mut |_| Ok(())).unwrap();
    let (acknowledged, appended) = write_from_many_threads(&log, 30);
    assert_eq!((acknowledged, appended), (WRITERS * 30, WRITERS * 30));
    assert_eq!(log.bytes_pending(), 0);
    drop(log);
    let mut found = Found::new();
    Log::open(disk, path, options, Version(0), &mut |record| {
        found.push((record.version.0, record.commit_micros, record.body.to_vec()));
        Ok(())
    })
    .unwrap();
    check(&found, acknowledged, appended);
}

#[test]
fn power_loss_under_load_keeps_what_was_acknowledged() {
    for round in 0..40 {
        let disk = FaultDisk::new();
        let slow: Arc<dyn Disk> =
            Arc::new(WatchedDisk::new(disk.clone(), Arc::new(SlowSync(Duration::from_micros(100)))));
        let (log, _) = open_with(slow, options_of(round, 20_000), 0).unwrap();
        disk.fail_after(5 + round * 3);
        let (acknowledged, appended) = write_from_many_threads(&log, 20);
        drop(log);
        for survival in [Survival::SyncedOnly, Survival::Everything, Survival::Torn { seed: round }] {
            let (_, found) = open(&disk.after_power_loss(survival), 20_000, 0).unwrap();
            check(&found, acknowledged, appended);
        }
    }
}

#[test]
fn a_disk_that_fills_up_under_load_can_be_rewound() {
    for round in 0..20 {
        let disk = FaultDisk::new();
        let slow: Arc<dyn Disk> =
            Arc::new(WatchedDisk::new(disk.clone(), Arc::new(SlowSync(Duration::from_micros(100)))));
        let (log, _) = open_with(slow, options_of(round, 20_000), 0).unwrap();
        disk.limit_bytes(Some(10_000 + round * 3_500));
        let (acknowledged, appended) = write_from_many_threads(&log, 20);
        assert!(appended > acknowledged);
        // All the threads have returned, so what is durable is exactly what was acknowledged.
        assert_eq!(log.rewind(), Version(acknowledged));
        disk.limit_bytes(None);
        let (acknowledged, appended) = write_from_many_threads(&log, 2);
        drop(log);
        let (_, found) = open(&disk.after_power_loss(Survival::SyncedOnly), 20_000, 0).unwrap();
        assert_eq!(acknowledged, appended);
        check(&found, acknowledged, appended);
    }
}

#[test]
fn a_failed_fsync_under_load_wakes_everyone_and_acknowledges_nothing_after_it() {
    for round in 1..20 {
        let disk = FaultDisk::new();
        let slow: Arc<dyn Disk> =
            Arc::new(WatchedDisk::new(disk.clone(), Arc::new(SlowSync(Duration::from_micros(100)))));
        let (log, _) = open_with(slow, options_of(round, 20_000), 0).unwrap();
        disk.fail_sync(round);
        let (acknowledged, appended) = write_from_many_threads(&log, 20);
        assert!(appended > acknowledged);
        assert_eq!(log.sync_through(Version(appended)).unwrap_err().kind(), ErrorKind::Poisoned);
        drop(log);
        let (_, found) = open(&disk.after_power_loss(Survival::SyncedOnly), 20_000, 0).unwrap();
        check(&found, acknowledged, appended);
        let (_, found) = open(&disk, 20_000, 0).unwrap();
        check(&found, acknowledged, appended);
    }
}

fn gated_log(file_bytes_max: u64) -> (Arc<FaultDisk>, Arc<Gate>, Arc<Log>) {
    gated_log_of(options(file_bytes_max))
}

fn gated_log_of(options: LogOptions) -> (Arc<FaultDisk>, Arc<Gate>, Arc<Log>) {
    let (inner, gate) = (FaultDisk::new(), Arc::<Gate>::default());
    let disk = Arc::new(WatchedDisk::new(inner.clone(), gate.clone()));
    // Without a mark, whose writing would come to the gate, too.
    let (log, _) = open_with(disk, LogOptions { is_marked: false, ..options }, 0).unwrap();
    gate.shut();
    (inner, gate, Arc::new(log))
}

/// Appends and syncs `version` on a thread of its own; its fsync is the next one at the gate.
fn commit(log: &Arc<Log>, version: u64) -> thread::JoinHandle<alluvia_types::Result<()>> {
    log.append(Version(version), micros(version), &body(version, 0, (version * 337 % 900) as usize)).unwrap();
    let log = log.clone();
    thread::spawn(move || log.sync_through(Version(version)))
}

#[test]
fn a_group_is_acknowledged_only_after_those_before_it() {
    for round in 0..6 {
        let first_released = round as usize / 2;
        let (disk, gate, log) = gated_log_of(options_of(round, 1 << 20));
        let waiting: Vec<_> = (1..=3)
            .map(|version| {
                let thread = commit(&log, version);
                gate.wait_for(version as usize);
                thread
            })
            .collect();
        gate.release(first_released);
        while first_released == 0 && log.durable() < Version(1) {
            thread::yield_now();
        }
        let expected = if first_released == 0 { 1 } else { 0 };
        assert_eq!(log.durable(), Version(expected));
        for seed in 0..200 {
            let (_, found) = open(&disk.after_power_loss(Survival::Torn { seed }), 1 << 20, 0).unwrap();
            check(&found, expected, 3);
        }
        (0..3).for_each(|index| gate.release(index));
        for thread in waiting {
            thread.join().unwrap().unwrap();
        }
        assert_eq!(log.durable(), Version(3));
    }
}

#[test]
fn a_group_behind_a_torn_one_does_not_come_back_behind_its_successor() {
    let (disk, gate, log) = gated_log(1 << 20);
    let threads: Vec<_> = (1..=2)
        .map(|version| {
            let thread = commit(&log, version);
            gate.wait_for(version as usize);
            thread
        })
        .collect();
    let torn = disk.after_power_loss(Survival::Everything);
    torn.corrupt(&crate::common::file(1), 64 + 64 + 40 + 5, 1);
    let (log, found) = open(&torn, 1 << 20, 0).unwrap();
    assert!(found.is_empty(), "the first group is torn");
    // As long as the record that was there, so that the old second group lies right behind it.
    let successor = body(1, 1, 337);
    log.append(Version(1), micros(1), &successor).unwrap();
    log.sync_through(Version(1)).unwrap();
    drop(log);
    let (_, found) = open(&torn, 1 << 20, 0).unwrap();
    assert_eq!(found, [(1, micros(1), successor)]);
    (0..2).for_each(|index| gate.release(index));
    threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
}

#[test]
fn a_later_fsync_does_not_cover_up_a_failed_one() {
    let (disk, gate, log) = gated_log(1 << 20);
    let first = commit(&log, 1);
    gate.wait_for(1);
    let second = commit(&log, 2);
    gate.wait_for(2);
    disk.fail_sync(2); // the second to get there, which is the first group's
    let calls = disk.calls();
    gate.release(1);
    while disk.calls() == calls {
        thread::yield_now(); // until the second group's fsync has succeeded
    }
    gate.release(0);
    for thread in [first, second] {
        assert_eq!(thread.join().unwrap().unwrap_err().kind(), ErrorKind::Poisoned);
    }
    assert_eq!(log.durable(), Version(0));
}

#[test]
fn appending_goes_on_while_a_group_is_synced_and_followers_share_the_next_one() {
    let (disk, gate, log) = gated_log(1 << 20);
    let leader = commit(&log, 1);
    gate.wait_for(1);
    for version in 2..=40 {
        log.append(Version(version), micros(version), &body(version, 0, (version * 337 % 900) as usize)).unwrap();
    }
    let followers: Vec<_> = (2..=40)
        .map(|version| {
            let log = log.clone();
            thread::spawn(move || log.sync_through(Version(version)))
        })
        .collect();
    gate.wait_for(2);
    gate.release(1);
    gate.release(0);
    leader.join().unwrap().unwrap();
    for thread in followers {
        thread.join().unwrap().unwrap();
    }
    assert_eq!(gate.arrived(), 2, "one fsync for 39 records");
    let (_, found) = open(&disk.after_power_loss(Survival::SyncedOnly), 1 << 20, 0).unwrap();
    check(&found, 40, 40);
}

#[test]
fn who_writes_a_group_is_told_of_all_of_it_before_the_fsync_and_others_of_their_own_record() {
    let (_, gate, log) = gated_log(1 << 20);
    let first = commit(&log, 1);
    gate.wait_for(1);
    for version in 2..=10 {
        log.append(Version(version), micros(version), b"more").unwrap();
    }
    let told = Arc::new(Mutex::new(Vec::new()));
    let telling = |version: u64| {
        let (log, told) = (log.clone(), told.clone());
        thread::spawn(move || {
            let ticket = log.ticket(Version(version));
            log.sync_telling(ticket, &mut |through| told.lock().push((version, through.0)))
        })
    };
    let leader = telling(2);
    gate.wait_for(2);
    assert_eq!(*told.lock(), [(2, 10)], "nothing is durable yet");
    let follower = telling(5);
    while told.lock().len() < 2 {
        thread::yield_now();
    }
    (0..2).for_each(|index| gate.release(index));
    for thread in [first, leader, follower] {
        thread.join().unwrap().unwrap();
    }
    telling(7).join().unwrap().unwrap();
    assert_eq!(*told.lock(), [(2, 10), (5, 5)], "what is durable is not waited for");
}

#[test]
fn a_full_disk_waits_for_groups_under_way_before_it_cuts() {
    let (disk, gate, log) = gated_log(1 << 20);
    let first = commit(&log, 1);
    gate.wait_for(1);
    disk.limit_bytes(Some(log.bytes_on_disk() + 100)); // less than the second group
    let second = commit(&log, 2);
    thread::sleep(Duration::from_millis(5));
    gate.release(0);
    gate.release(1); // of the cut
    first.join().unwrap().expect("the first group fits");
    assert_eq!(second.join().unwrap().unwrap_err().kind(), ErrorKind::DiskFull);
    assert_eq!(log.rewind(), Version(1));
    let (_, found) = open(&disk.after_power_loss(Survival::Everything), 1 << 20, 0).unwrap();
    check(&found, 1, 1);
}

#[test]
fn a_file_is_begun_only_when_the_one_before_is_durable() {
    let (disk, gate, log) = gated_log(100);
    let first = commit(&log, 1);
    gate.wait_for(1);
    let second = commit(&log, 2);
    thread::sleep(Duration::from_millis(5));
    assert!(!disk.exists(&crate::common::file(2)), "{:?} exists", dir());
    (0..4).for_each(|index| gate.release(index));
    first.join().unwrap().unwrap();
    second.join().unwrap().unwrap();
    assert!(disk.exists(&crate::common::file(2)));
}
