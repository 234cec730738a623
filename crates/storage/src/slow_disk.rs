//! A disk whose `sync_data` takes longer, to measure group commit as on a slower device.
//!
//! Invariants:
//! - Everything but `sync_data` passes through unchanged and at once.
//! - Syncs of different files wait side by side, as they do on a device with a queue.

use crate::disk::{Disk, DiskEntry, DiskFile, DiskLock};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Another disk with a delay added to every `sync_data`.
#[derive(Debug)]
pub struct SlowSyncDisk {
    inner: Arc<dyn Disk>,
    delay: Duration,
}

impl SlowSyncDisk {
    /// `inner`, with `delay` added to every `sync_data`.
    pub fn new(inner: Arc<dyn Disk>, delay: Duration) -> SlowSyncDisk {
        SlowSyncDisk { inner, delay }
    }

    fn slow(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(SlowSyncFile { inner: file, delay: self.delay })
    }
}

impl Disk for SlowSyncDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.slow(self.inner.create(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.slow(self.inner.open(path)?))
    }

    fn read_dir(&self, dir: &Path) -> io::Result<Vec<DiskEntry>> {
        self.inner.read_dir(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.inner.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.sync_dir(dir)
    }

    fn exists(&self, path: &Path) -> bool {
        self.inner.exists(path)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.inner.free_bytes(path)
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>> {
        self.inner.try_lock(path)
    }
}

#[derive(Debug)]
struct SlowSyncFile {
    inner: Arc<dyn DiskFile>,
    delay: Duration,
}

impl DiskFile for SlowSyncFile {
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.inner.write_all_at(buf, offset)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.inner.read_exact_at(buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        std::thread::sleep(self.delay);
        self.inner.sync_data()
    }
}
