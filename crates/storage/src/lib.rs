//! Files: a blocking [`Disk`], a disk that fails on demand, checksummed files, and the accounted cache.
//!
//! Invariants:
//! - Every byte that Alluvia reads or writes goes through a [`Disk`]; no other room calls `std::fs`. Users' own files, which COPY reads and
//!   writes, do not: they are found in a [`Directory`].
//! - Nothing is durable until `sync_data` on the file *and* `sync_dir` on the directory that names it have returned.
//! - A byte handed out by [`CheckedFile`] or [`read_atomic`] has passed its checksum.
//!
//! Two kinds of file need no format of their own above this room: large immutable ones, written once by a
//! [`CheckedWriter`] whose [`FileChecks`] the owner keeps elsewhere, and small ones replaced whole by [`write_atomic`].
//! The log and the dictionaries, which grow, frame their bytes themselves and use [`Disk`] directly.

mod atomic;
mod cache;
mod checked_file;
mod checked_writer;
mod checks;
mod copied;
mod directory;
mod disk;
mod fault;
mod real_disk;
mod watched_disk;

pub use atomic::{NotReplaced, read_atomic, read_atomic_of, write_atomic};
pub use cache::Cache;
pub use checked_file::CheckedFile;
pub use checked_writer::CheckedWriter;
pub use checks::{CHUNK_BYTES, FileChecks};
pub use copied::copy_file;
pub use directory::{Directory, Named};
pub use disk::{Disk, DiskEntry, DiskFile, DiskLock};
pub use fault::{FaultDisk, Survival};
pub use real_disk::{RealDisk, machine_memory_bytes, raise_open_files_max};
pub use watched_disk::{SlowSync, Watch, WatchedDisk};
