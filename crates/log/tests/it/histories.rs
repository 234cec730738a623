//! Histories of processes over one disk: work, full disks, failed writes and fsyncs, kills, power losses, reopenings that fail half-way,
//! in any order. What was acknowledged, or handed out at an opening, stays; what an opening did not hand out never comes back.

use crate::common::gate::Gate;
use crate::common::{Model, file, open, open_with, options};
use alluvia_log::{Log, LogOptions};
use alluvia_storage::{Disk, FaultDisk, Survival, WatchedDisk};
use alluvia_types::{ErrorKind, Version};
use proptest::prelude::*;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const FILE_BYTES_MAX: u64 = 3000;
/// Few lengths, so that groups come to lie where others lay: sectors have 512 bytes, headers 64, frames of a record 80.
const LENGTHS: [usize; 6] = [0, 48, 50, 112, 240, 1300];

/// What one process does between two openings.
#[derive(Clone, Debug)]
enum Step {
    /// Appends records of these lengths, and syncs them.
    Write(Vec<usize>),
    Seal,
    /// Writes with so many bytes left on the disk, and rewinds if they do not suffice.
    WriteInto(u64, Vec<usize>),
    FailSync(u64),
    FailWrite(u64),
}

/// How a process ends. Its last groups may be under way then, each by itself.
#[derive(Clone, Debug)]
enum End {
    Closed,
    Killed,
    PowerLoss(Survival),
    PowerLossOf(Vec<usize>, Survival),
}

#[derive(Clone, Debug)]
struct Process {
    has_room: bool,
    /// Fails this fsync, or this write, of the opening.
    failing_sync: Option<u64>,
    failing_write: Option<u64>,
    steps: Vec<Step>,
    end: End,
}

fn options_of(process: &Process) -> LogOptions {
    // At the gate groups are to arrive, and not the mark before them.
    let is_marked = !matches!(process.end, End::PowerLossOf(..));
    LogOptions { is_marked, room_bytes: if process.has_room { 8000 } else { 0 }, ..options(FILE_BYTES_MAX) }
}

/// Runs a process from its opening to its end. Returns the disk that the next one finds.
fn run(disk: Arc<FaultDisk>, model: &mut Model, process: &Process) -> Arc<FaultDisk> {
    let gate = Arc::<Gate>::default();
    let gated: Arc<dyn Disk> = Arc::new(WatchedDisk::new(disk.clone(), gate.clone()));
    process.failing_sync.into_iter().for_each(|n| disk.fail_sync(n));
    process.failing_write.into_iter().for_each(|n| disk.fail_write(n));
    let log = match open_with(gated, options_of(process), model.removed) {
        Ok((log, found)) => {
            model.check(&found);
            Arc::new(log)
        }
        Err(error) => {
            assert_ne!(error.kind(), ErrorKind::Corrupt, "{error}");
            return disk;
        }
    };
    for step in &process.steps {
        let done = match step {
            Step::Write(lengths) => write(&log, model, lengths),
            // A mark that fails leaves another one, which holds.
            Step::Seal => log.seal().inspect(|()| drop(log.mark_end(0))),
            Step::WriteInto(bytes, lengths) => {
                disk.limit_bytes(Some(log.bytes_on_disk() + bytes));
                let written = write(&log, model, lengths);
                disk.limit_bytes(None);
                written
            }
            Step::FailSync(n) => {
                disk.fail_sync(*n);
                Ok(())
            }
            Step::FailWrite(n) => {
                disk.fail_write(*n);
                Ok(())
            }
        };
        match done {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::DiskFull => model.rewind(&log),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}"),
        }
    }
    match &process.end {
        End::Closed => {
            let _ = log.seal();
            let _ = log.mark_end(0);
            disk
        }
        End::Killed => disk,
        End::PowerLoss(survival) => disk.after_power_loss(*survival),
        End::PowerLossOf(lengths, survival) => {
            gate.shut();
            let mut waiting = Vec::new();
            for (at, &length) in lengths.iter().enumerate() {
                if log.failure().is_some() || model.append(&log, length).is_err() {
                    break;
                }
                let (last, log) = (model.attempted.len() as u64, log.clone());
                waiting.push(thread::spawn(move || drop(log.sync_through(Version(last)))));
                // One that would have to begin a file first waits for those before it.
                for _ in 0..200 {
                    if gate.arrived() > at || waiting[at].is_finished() {
                        break;
                    }
                    thread::sleep(Duration::from_micros(50));
                }
            }
            let left = disk.after_power_loss(*survival);
            gate.open();
            waiting.into_iter().for_each(|thread| thread.join().unwrap());
            left
        }
    }
}

fn write(log: &Log, model: &mut Model, lengths: &[usize]) -> alluvia_types::Result<()> {
    for &length in lengths {
        model.append(log, length)?;
    }
    model.sync(log)
}

fn lengths() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop::sample::select(&LENGTHS[..]), 1..4)
}

fn survival() -> impl Strategy<Value = Survival> {
    prop_oneof![
        1 => Just(Survival::SyncedOnly),
        1 => Just(Survival::Everything),
        3 => (0..10_000u64).prop_map(|seed| Survival::Torn { seed }),
    ]
}

fn process() -> impl Strategy<Value = Process> {
    let step = prop_oneof![
        5 => lengths().prop_map(Step::Write),
        1 => Just(Step::Seal),
        2 => (0..700u64, lengths()).prop_map(|(bytes, lengths)| Step::WriteInto(bytes, lengths)),
        1 => (1..4u64).prop_map(Step::FailSync),
        1 => (1..4u64).prop_map(Step::FailWrite),
    ];
    let end = prop_oneof![
        1 => Just(End::Closed),
        2 => Just(End::Killed),
        2 => survival().prop_map(End::PowerLoss),
        3 => (lengths(), survival()).prop_map(|(lengths, survival)| End::PowerLossOf(lengths, survival)),
    ];
    let failing = || prop::option::weighted(0.3, 1..5u64);
    let parts = (any::<bool>(), failing(), failing(), prop::collection::vec(step, 0..4), end);
    parts.prop_map(|(has_room, failing_sync, failing_write, steps, end)| Process {
        has_room,
        failing_sync,
        failing_write,
        steps,
        end,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_history_loses_what_was_promised_or_brings_back_what_was_not(processes in prop::collection::vec(process(), 1..8)) {
        let mut model = Model::default();
        let disk = processes.iter().fold(FaultDisk::new(), |disk, process| run(disk, &mut model, process));
        model.check_recovery(&disk.after_power_loss(Survival::SyncedOnly), FILE_BYTES_MAX);
        // A failure that was asked for and did not come yet must not meet what follows.
        model.check_recovery(&disk.after_power_loss(Survival::Everything), FILE_BYTES_MAX);
    }
}

/// The end of the records of a log that was closed is under a statement, whatever a full disk did in between.
#[test]
fn damage_to_a_closed_log_is_found_also_after_a_full_disk() {
    for (length, left, room_bytes) in [(100, 0, 0), (100, 64, 0), (100, 0, 4000), (2900, 0, 0), (2900, 70, 4000)] {
        let disk = FaultDisk::new();
        let options = LogOptions { room_bytes, ..options(FILE_BYTES_MAX) };
        let mut model = Model::default();
        let (log, _) = open_with(disk.clone(), options.clone(), 0).unwrap();
        write(&log, &mut model, &[length]).unwrap();
        log.seal().unwrap();
        drop(log);
        let (log, _) = open_with(disk.clone(), options, 0).unwrap();
        disk.limit_bytes(Some(log.bytes_on_disk() + left));
        assert_eq!(write(&log, &mut model, &[200]).unwrap_err().kind(), ErrorKind::DiskFull);
        model.rewind(&log);
        disk.limit_bytes(None);
        log.seal().unwrap();
        drop(log);
        disk.corrupt(&file(1), 64 + 64 + 80 + length as u64 - 50, 1);
        assert_eq!(open(&disk, FILE_BYTES_MAX, 0).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}

/// Two groups under way, of which the first is torn: the second is cut off, and does not come back although the fsync of the cut failed.
#[test]
fn a_cut_whose_sync_failed_is_made_again_at_the_next_opening() {
    let disk = FaultDisk::new();
    let mut model = Model::default();
    let (log, _) = open(&disk, FILE_BYTES_MAX, 0).unwrap();
    write(&log, &mut model, &[240]).unwrap();
    log.seal().unwrap();
    drop(log);
    let torn = |model: &mut Model| {
        let process = Process {
            has_room: false,
            failing_sync: None,
            failing_write: None,
            steps: Vec::new(),
            end: End::PowerLossOf(vec![50, 112], Survival::Everything),
        };
        run(disk.clone(), model, &process)
    };
    let disk = torn(&mut model);
    disk.corrupt(&file(1), 448 + 64 + 64 + 45, 1);
    disk.fail_sync(1);
    assert_eq!(open(&disk, FILE_BYTES_MAX, 0).unwrap_err().kind(), ErrorKind::Io);
    let (log, found) = open(&disk, FILE_BYTES_MAX, 0).unwrap();
    model.check(&found);
    assert_eq!(model.acknowledged, 1);
    write(&log, &mut model, &[50]).unwrap();
    drop(log);
    let (_, found) = open(&disk.after_power_loss(Survival::SyncedOnly), FILE_BYTES_MAX, 0).unwrap();
    model.check(&found);
    assert_eq!(model.acknowledged, 2);
}
