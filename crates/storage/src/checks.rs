//! Length and checksums of an immutable file.
//!
//! Invariants:
//! - A file of `len` bytes has `ceil(len / CHUNK_BYTES)` checksums; only the last chunk may be short.
//! - The checksums live apart from the file (in the manifest, or in another checked file), so that a file that is whole
//!   but of the wrong place or time is found out too.

use alluvia_types::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::Path;

/// Bytes that one checksum covers, the unit of reading and caching. Large enough that a read of a cold chunk is mostly
/// transfer, small enough that one page of one column does not drag megabytes along.
pub const CHUNK_BYTES: usize = 256 * 1024;

/// Length and chunk checksums of a file that will not change any more.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FileChecks {
    /// Bytes in the file.
    pub len: u64,
    /// crc32c of each run of [`CHUNK_BYTES`], the last one perhaps shorter.
    pub chunk_crcs: Vec<u32>,
}

impl FileChecks {
    /// How many chunks a file of this length has.
    pub(crate) fn chunks_of(len: u64) -> u64 {
        len.div_ceil(CHUNK_BYTES as u64)
    }

    /// The bytes that chunk `chunk` covers.
    pub(crate) fn chunk_range(&self, chunk: usize) -> Range<u64> {
        let start = chunk as u64 * CHUNK_BYTES as u64;
        start..(start + CHUNK_BYTES as u64).min(self.len)
    }

    /// Compares consecutive whole chunks, the first of which is `first`, with their checksums.
    pub(crate) fn verify_chunks(&self, path: &Path, first: usize, bytes: &[u8]) -> Result<()> {
        for (i, chunk) in bytes.chunks(CHUNK_BYTES).enumerate() {
            let (expected, found) = (self.chunk_crcs[first + i], crc32c::crc32c(chunk));
            if expected != found {
                let Range { start, end } = self.chunk_range(first + i);
                return Err(corrupt(
                    path,
                    &format!(
                        "has other bytes at {start}..{end} than were written (crc32c {found:08x}, was {expected:08x})"
                    ),
                ));
            }
        }
        Ok(())
    }
}

/// The error for a file that is not what was written; `what` continues a sentence that begins with its path.
pub(crate) fn corrupt(path: &Path, what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("{} {what}", path.display()))
        .with_hint("the disk or something else changed this file; restore the data directory from a copy")
}
