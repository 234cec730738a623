//! The blocking disk that every room writes through.

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A file system, as little of it as a database needs.
///
/// Contract: data written is visible to later reads of the same process at once; it survives a power loss only after
/// [`DiskFile::sync_data`]; a name (created, renamed or removed) survives only after [`Disk::sync_dir`] of its directory.
/// A failed `sync_data` leaves the data in an unknown state: it must never be retried as if it could succeed.
pub trait Disk: Send + Sync + Debug {
    /// Creates a new file for reading and writing; fails with `AlreadyExists` if the name is taken.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens an existing file for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens an existing file for reading alone, also one that may not be written.
    fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.open(path)
    }
    /// The entries of a directory, in name order.
    fn read_dir(&self, dir: &Path) -> io::Result<Vec<DiskEntry>>;
    /// Creates a directory and its parents, durably: their names need no [`Disk::sync_dir`]. An existing one is fine.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Renames a file, replacing the target atomically.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Whether a file or directory of that name exists.
    fn exists(&self, path: &Path) -> bool;
    /// Bytes that may still be written below `path`.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;
    /// Takes the exclusive lock on a lock file, creating it if it is missing; `None` when someone else holds it, be it
    /// another process or this one.
    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>>;
}

/// An open file. Positions are explicit: it has no cursor, so it can be shared.
pub trait DiskFile: Send + Sync + Debug {
    /// Writes all of `buf` at `offset`, growing the file.
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    /// Fills `buf` from `offset`; `UnexpectedEof` if the file is shorter.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
    /// The file's length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Cuts or extends (with zeros) the file.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Makes the file's data and length durable.
    fn sync_data(&self) -> io::Result<()>;
}

/// Held as long as the lock is; dropping it releases the lock.
pub trait DiskLock: Send + Sync + Debug {}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskEntry {
    /// The name within the directory.
    pub name: String,
    /// Length in bytes; 0 for a directory.
    pub len: u64,
    /// Whether it is a directory.
    pub is_dir: bool,
}
