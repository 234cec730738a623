//! A disk that tells somebody before it syncs or reads: to count, to hold up, to slow down.
//!
//! Invariants:
//! - Everything passes through unchanged, after the watch has returned.
//! - Syncs of different files are told of side by side, as they happen on a device with a queue.

use crate::disk::{Disk, DiskEntry, DiskFile, DiskLock};
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Who is told. May block.
pub trait Watch: Debug + Send + Sync {
    /// A `sync_data` is about to begin.
    fn before_sync(&self) {}
    /// The same of the file that was opened by this name, for who tells files apart.
    fn before_sync_of(&self, _path: &Path) {
        self.before_sync();
    }
    /// A read is about to begin.
    fn before_read(&self) {}
}

/// Every `sync_data` takes this much longer: group commit as on a slower device.
#[derive(Clone, Copy, Debug)]
pub struct SlowSync(pub Duration);

impl Watch for SlowSync {
    fn before_sync(&self) {
        std::thread::sleep(self.0);
    }
}

/// Another disk with a watch on it.
#[derive(Debug)]
pub struct WatchedDisk {
    inner: Arc<dyn Disk>,
    watch: Arc<dyn Watch>,
}

impl WatchedDisk {
    /// `inner`, watched.
    pub fn new(inner: Arc<dyn Disk>, watch: Arc<dyn Watch>) -> WatchedDisk {
        WatchedDisk { inner, watch }
    }

    fn watched(&self, inner: Arc<dyn DiskFile>, path: &Path) -> Arc<dyn DiskFile> {
        Arc::new(WatchedFile { inner, path: path.into(), watch: Arc::clone(&self.watch) })
    }
}

impl Disk for WatchedDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.watched(self.inner.create(path)?, path))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.watched(self.inner.open(path)?, path))
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
struct WatchedFile {
    inner: Arc<dyn DiskFile>,
    path: PathBuf,
    watch: Arc<dyn Watch>,
}

impl DiskFile for WatchedFile {
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.inner.write_all_at(buf, offset)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.watch.before_read();
        self.inner.read_exact_at(buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.watch.before_sync_of(&self.path);
        self.inner.sync_data()
    }
}
