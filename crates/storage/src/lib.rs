//! Files: a blocking [`Disk`], a disk that fails on demand, checksummed files, and the accounted cache.
//!
//! Invariants:
//! - Every byte that Alluvia reads or writes goes through a [`Disk`]; no other room calls `std::fs`.
//! - Nothing is durable until `sync_data` on the file *and* `sync_dir` on the directory that names it have returned.
//! - A byte handed out by [`CheckedFile`] has passed its checksum.

mod disk;

pub use disk::{Disk, DiskEntry, DiskFile, DiskLock};
