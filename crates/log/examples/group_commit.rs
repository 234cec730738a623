//! Measures group commit: writers that each append a small record and wait until it is durable.
//!
//! `cargo run -p alluvia-log --example group_commit [WRITERS] [FSYNC_MICROS] [DIR]`: with `FSYNC_MICROS` at 0 the disk is
//! as it is; above, the log lies in memory and every fsync takes that long. Prints records a second, and their ratio to
//! writers / fsync time.

use alluvia_log::{Log, LogOptions};
use alluvia_storage::{Disk, FaultDisk, RealDisk, SlowSync, WatchedDisk};
use alluvia_types::{Clock, Result, SystemClock, Version};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const MEASURED: Duration = Duration::from_secs(3);

fn main() -> Result<()> {
    let arg = |i: usize, default: &str| std::env::args().nth(i).unwrap_or_else(|| default.to_owned());
    let number = |i: usize, default: &str| arg(i, default).parse::<u64>().expect("a number");
    let (writers, fsync_micros) = (number(1, "64"), number(2, "1000"));
    let dir = tempfile::tempdir_in(arg(3, ".")).expect("a temporary directory");
    let (disk, dir): (Arc<dyn Disk>, &Path) = match fsync_micros {
        0 => (Arc::new(RealDisk::new()), dir.path()),
        _ => (
            Arc::new(WatchedDisk::new(FaultDisk::new(), Arc::new(SlowSync(Duration::from_micros(fsync_micros))))),
            Path::new("/"),
        ),
    };
    let clock = SystemClock::default();
    let fsync = mean_fsync(&*disk, &dir.join("probe"), &clock);
    let dir = dir.join("log");
    disk.create_dir_all(&dir).expect("a directory");
    let log = Log::open(disk, &dir, LogOptions::new(1), Version(0), &mut |_| Ok(()))?;
    let (next, stop, done) = (Mutex::new(Version(1)), AtomicBool::new(false), AtomicU64::new(0));
    let start = clock.monotonic();
    std::thread::scope(|scope| {
        for _ in 0..writers {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let ticket = {
                        let mut next = next.lock();
                        let version = *next;
                        *next = version.next();
                        log.append(version, 0, &[7; 100]).expect("the log takes it")
                    };
                    log.sync(ticket).expect("the log is synced");
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(MEASURED);
        stop.store(true, Ordering::Relaxed);
    });
    let rate = done.into_inner() as f64 / (clock.monotonic() - start).as_secs_f64();
    let ratio = rate * fsync.as_secs_f64() / writers as f64;
    println!("{writers} writers, fsync {fsync:?}: {rate:.0} records/s = {ratio:.2} * writers / fsync time");
    Ok(())
}

fn mean_fsync(disk: &dyn Disk, path: &Path, clock: &dyn Clock) -> Duration {
    const ROUNDS: u32 = 200;
    let file = disk.create(path).expect("creates");
    let start = clock.monotonic();
    for i in 0..ROUNDS {
        file.write_all_at(&[1; 200], u64::from(i) * 200).expect("writes");
        file.sync_data().expect("syncs");
    }
    (clock.monotonic() - start) / ROUNDS
}
