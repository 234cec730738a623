//! The disk of a simulation: a disk in memory that loses power, with faults that last, reads that fail, time that
//! syncs take, and somebody who comes between.
//!
//! Invariants:
//! - Every call that changes something is said in the trace, with what came of it.
//! - One thread calls it. So the one who comes between does what he does on the same thread, before a segment's sync:
//!   there no lock is held that writers, readers or the other stage need (`keyed::handover` holds threads there, too).
//! - A sync that fails for ever fails as one that fails once does: what was to be synced is never durable.

use super::trace::Trace;
use alluvia_storage::{Disk, DiskEntry, DiskFile, DiskLock, FaultDisk};
use alluvia_types::ManualClock;
use parking_lot::Mutex;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Who comes between.
pub trait Between: Debug + Send + Sync {
    /// A segment's file is about to be synced.
    fn between(&self);
}

/// What is to go wrong, and when; each counts down.
#[derive(Debug, Default)]
struct Plan {
    /// All calls that change something fail, from the one after so many on.
    forever_after: Option<u64>,
    /// The read after so many fails.
    read_after: Option<u64>,
    /// What a sync takes.
    sync_takes: Duration,
    /// Somebody comes before the segment's sync after so many.
    between_after: Option<u64>,
}

#[derive(Debug)]
struct Shared {
    disk: Arc<FaultDisk>,
    clock: Arc<ManualClock>,
    trace: Arc<Trace>,
    plan: Mutex<Plan>,
    between: Weak<dyn Between>,
}

/// A disk of one run of the database.
#[derive(Clone, Debug)]
pub struct SimDisk(Arc<Shared>);

impl SimDisk {
    pub fn new(
        disk: Arc<FaultDisk>,
        clock: Arc<ManualClock>,
        trace: Arc<Trace>,
        between: Weak<dyn Between>,
    ) -> SimDisk {
        SimDisk(Arc::new(Shared { disk, clock, trace, plan: Mutex::default(), between }))
    }

    /// Fails all calls that change something, after so many.
    pub fn fail_for_ever(&self, after: u64) {
        self.0.plan.lock().forever_after = Some(after);
    }

    /// Fails one read, after so many.
    pub fn fail_read(&self, after: u64) {
        self.0.plan.lock().read_after = Some(after);
    }

    /// Lets each sync take so long.
    pub fn slow_down(&self, sync_takes: Duration) {
        self.0.plan.lock().sync_takes = sync_takes;
    }

    /// Lets somebody come before a segment's sync, after so many; `None`: nobody.
    pub fn come_between(&self, after: Option<u64>) {
        self.0.plan.lock().between_after = after;
    }

    /// Whether calls fail since power was lost.
    pub fn is_off(&self) -> bool {
        !self.0.disk.exists(Path::new("/"))
    }
}

impl Shared {
    /// Before a call that changes something.
    fn change(&self) -> io::Result<()> {
        match &mut self.plan.lock().forever_after {
            Some(0) => Err(io::Error::other("the device is gone")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn read(&self) -> io::Result<()> {
        let mut plan = self.plan.lock();
        match &mut plan.read_after {
            Some(0) => {
                plan.read_after = None;
                self.trace.say(format_args!("  a read fails"));
                Err(io::Error::other("the device failed while reading"))
            }
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Makes a call that changes something, and says what came of it.
    fn said<T>(&self, what: &str, path: &Path, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let result = self.change().and_then(|()| call());
        match &result {
            Ok(_) => self.trace.say(format_args!("  {what} {}", path.display())),
            Err(error) => self.trace.say(format_args!("  {what} {}: {error}", path.display())),
        }
        result
    }

    fn come_between(&self) {
        let is_due = match &mut self.plan.lock().between_after {
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        };
        if is_due && let Some(who) = self.between.upgrade() {
            self.plan.lock().between_after = None;
            who.between();
        }
    }
}

impl SimDisk {
    fn file(&self, inner: Arc<dyn DiskFile>, path: &Path) -> Arc<dyn DiskFile> {
        Arc::new(SimFile { inner, path: path.into(), shared: Arc::clone(&self.0) })
    }
}

impl Disk for SimDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(self.0.said("create", path, || self.0.disk.create(path))?, path))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(self.0.disk.open(path)?, path))
    }

    fn read_dir(&self, dir: &Path) -> io::Result<Vec<DiskEntry>> {
        self.0.disk.read_dir(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.0.disk.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.said("rename to", to, || self.0.disk.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.said("remove", path, || self.0.disk.remove(path))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.said("sync names in", dir, || self.0.disk.sync_dir(dir))
    }

    fn exists(&self, path: &Path) -> bool {
        self.0.disk.exists(path)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.0.disk.free_bytes(path)
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>> {
        self.0.disk.try_lock(path)
    }
}

#[derive(Debug)]
struct SimFile {
    inner: Arc<dyn DiskFile>,
    path: PathBuf,
    shared: Arc<Shared>,
}

impl DiskFile for SimFile {
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let what = format!("write {} bytes at {offset} of", buf.len());
        self.shared.said(&what, &self.path, || self.inner.write_all_at(buf, offset))
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.shared.read()?;
        self.inner.read_exact_at(buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.shared.said(&format!("cut to {len} bytes"), &self.path, || self.inner.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.path.iter().any(|part| part == "segments") {
            self.shared.come_between();
        }
        let takes = self.shared.plan.lock().sync_takes;
        self.shared.clock.advance(takes);
        if let Err(error) = self.shared.change() {
            self.shared.trace.say(format_args!("  sync {}: {error}", self.path.display()));
            // The kernel takes the pages for clean.
            self.shared.disk.fail_sync(1);
            return self.inner.sync_data();
        }
        let synced = self.inner.sync_data();
        match &synced {
            Ok(()) => self.shared.trace.say(format_args!("  sync {}", self.path.display())),
            Err(error) => self.shared.trace.say(format_args!("  sync {}: {error}", self.path.display())),
        }
        synced
    }
}
