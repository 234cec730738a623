//! The machine's file system.
//!
//! Invariants:
//! - This module is the only one of the engine that calls `std::fs`.
//! - `sync_data` is `fdatasync`: data and length, not the times.
//! - Nothing is retried here. An `fsync` that failed once says nothing when it succeeds the second time, because the
//!   kernel has marked the pages clean.
//!
//! Reads are `pread` into the caller's buffer instead of mappings: a mapping turns an I/O error into a signal, and its
//! memory is nobody's account.

#![allow(clippy::disallowed_methods, reason = "this is the place behind Disk that may call std::fs")]

use crate::disk::{Disk, DiskEntry, DiskFile, DiskLock};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// A [`Disk`] on the machine's file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl RealDisk {
    /// The machine's file system, with paths as the process sees them.
    pub fn new() -> RealDisk {
        RealDisk
    }
}

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        Ok(Arc::new(RealFile { file }))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Arc::new(RealFile { file }))
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(RealFile { file: OpenOptions::new().read(true).open(path)? }))
    }

    fn read_dir(&self, dir: &Path) -> io::Result<Vec<DiskEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let metadata = match entry.metadata() {
                // Removed since it was listed, which is the same as never seen.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                metadata => metadata?,
            };
            let is_dir = metadata.is_dir();
            entries.push(DiskEntry {
                // No file of ours has a name that is not UTF-8; a foreign one only needs to be recognised as foreign.
                name: entry.file_name().to_string_lossy().into_owned(),
                len: if is_dir { 0 } else { metadata.len() },
                is_dir,
            });
        }
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let missing: Vec<&Path> = dir.ancestors().take_while(|ancestor| !self.exists(ancestor)).collect();
        fs::create_dir_all(dir)?;
        for created in missing.iter().skip(1) {
            sync_parent(created)?;
        }
        // The directory itself even if it was there: whoever made it may have been killed before syncing.
        sync_parent(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(if dir.as_os_str().is_empty() { Path::new(".") } else { dir })?.sync_all()
    }

    fn exists(&self, path: &Path) -> bool {
        // The empty path is the current directory to `Path::parent`, but not to the kernel.
        path.as_os_str().is_empty() || path.exists()
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let stats = rustix::fs::statvfs(path)?;
        Ok(stats.f_bavail.saturating_mul(stats.f_frsize))
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(RealLock { _file: file }))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Makes the name of `dir` durable in the directory above it.
fn sync_parent(dir: &Path) -> io::Result<()> {
    let Some(parent) = dir.parent() else { return Ok(()) };
    match RealDisk.sync_dir(parent) {
        // A directory that we may pass through but not list is not one in which we created anything.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        synced => synced,
    }
}

#[derive(Debug)]
struct RealFile {
    file: File,
}

impl DiskFile for RealFile {
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(buf, offset)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// The lock goes with the open file: closing it, or dying, releases it.
#[derive(Debug)]
struct RealLock {
    _file: File,
}

impl DiskLock for RealLock {}

/// The machine's memory in bytes, where it can be learnt.
pub fn machine_memory_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib << 10)
}

/// Open files that a program of ours asks for.
const OPEN_FILES_MAX: u64 = 1 << 20;

/// Raises this process's limit of open files as far as the system allows, to be called by a program when it begins: each segment has two
/// files, and so has each rung of its ladder, and what shells allow is 1,024. A library leaves it to its host, some of which cannot do with
/// more. Where it fails the limit stays, and an error says so when it is met.
pub fn raise_open_files_max() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(OPEN_FILES_MAX, |allowed| allowed.min(OPEN_FILES_MAX));
    if limit.current.is_some_and(|current| current < wanted) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit }).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_created_once_listed_in_order_and_renamed_over_each_other() -> io::Result<()> {
        let home = tempfile::tempdir()?;
        let disk = RealDisk::new();
        let dir = home.path().join("a/b");
        disk.create_dir_all(&dir)?;
        disk.create_dir_all(&dir)?;
        let file = disk.create(&dir.join("two"))?;
        assert_eq!(disk.create(&dir.join("two")).expect_err("exists").kind(), io::ErrorKind::AlreadyExists);
        disk.create(&dir.join("one"))?;
        disk.create_dir_all(&dir.join("sub"))?;
        file.write_all_at(b"world", 6)?;
        file.write_all_at(b"hello ", 0)?;
        file.sync_data()?;
        disk.sync_dir(&dir)?;
        let names: Vec<_> =
            disk.read_dir(&dir)?.into_iter().map(|entry| (entry.name, entry.len, entry.is_dir)).collect();
        assert_eq!(names, [("one".into(), 0, false), ("sub".into(), 0, true), ("two".into(), 11, false)]);
        disk.rename(&dir.join("two"), &dir.join("one"))?;
        assert!(!disk.exists(&dir.join("two")));
        let file = disk.open(&dir.join("one"))?;
        let mut buf = [0; 11];
        file.read_exact_at(&mut buf, 0)?;
        assert_eq!(&buf, b"hello world");
        assert_eq!(file.read_exact_at(&mut buf, 1).expect_err("short").kind(), io::ErrorKind::UnexpectedEof);
        file.set_len(5)?;
        assert_eq!(file.len()?, 5);
        disk.remove(&dir.join("one"))?;
        assert_eq!(disk.open(&dir.join("one")).expect_err("gone").kind(), io::ErrorKind::NotFound);
        assert!(disk.free_bytes(&dir)? > 0);
        Ok(())
    }

    #[test]
    fn a_lock_is_held_by_one_until_it_is_dropped() -> io::Result<()> {
        let home = tempfile::tempdir()?;
        let (disk, path) = (RealDisk::new(), home.path().join("lock"));
        let held = disk.try_lock(&path)?;
        assert!(held.is_some());
        assert!(disk.try_lock(&path)?.is_none());
        drop(held);
        assert!(disk.try_lock(&path)?.is_some());
        Ok(())
    }
}
