//! A disk that can be read and not changed: what a check reads, and the copy that a repair puts files back from. It need not be writable.
//!
//! Invariant: nothing is written, whatever the rooms that are given this disk try: every change fails. Exception:
//! opening a dictionary cuts the bytes beyond those that are needed. The cut is skipped without an error, since nothing
//! reads on from there.

use alluvia_storage::{Disk, DiskEntry, DiskFile, DiskLock};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A disk for reading.
#[derive(Debug)]
pub(crate) struct ReadOnlyDisk(pub(crate) Arc<dyn Disk>);

#[derive(Debug)]
struct ReadOnlyFile(Arc<dyn DiskFile>);

fn refused<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "what is only read is not changed"))
}

impl Disk for ReadOnlyDisk {
    fn create(&self, _path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        refused()
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(ReadOnlyFile(self.0.open_to_read(path)?)))
    }

    fn read_dir(&self, dir: &Path) -> io::Result<Vec<DiskEntry>> {
        self.0.read_dir(dir)
    }

    fn create_dir_all(&self, _dir: &Path) -> io::Result<()> {
        refused()
    }

    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        refused()
    }

    fn remove(&self, _path: &Path) -> io::Result<()> {
        refused()
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        refused()
    }

    fn exists(&self, path: &Path) -> bool {
        self.0.exists(path)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.0.free_bytes(path)
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>> {
        self.0.try_lock(path)
    }
}

impl DiskFile for ReadOnlyFile {
    fn write_all_at(&self, _buf: &[u8], _offset: u64) -> io::Result<()> {
        refused()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        refused()
    }
}
