//! Reading an immutable file, verified chunk by chunk.
//!
//! Invariants:
//! - Every byte handed out was verified when its chunk was loaded; a cached chunk is not verified again.
//! - A range within one chunk is a slice of it, not a copy. A range over several chunks is copied once; the missing ones
//!   among them are read run by run, one I/O call a run, whatever the run's length.
//! - Readers share no lock but the cache's, for the time of a look-up. Two that miss the same chunk both read it.
//! - A read that would fill a large part of the cache goes past it.

use crate::cache::{Cache, ChunkId};
use crate::checks::{CHUNK_BYTES, FileChecks, corrupt};
use crate::disk::{Disk, DiskFile};
use alluvia_types::{Error, ErrorKind, Result};
use bytes::Bytes;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How much [`CheckedFile::verify`] reads at once.
const VERIFY_CHUNKS: usize = 16;
/// Runs longer than this part of the cache are not kept in it.
const CACHE_SHARE: u64 = 4;

/// An open immutable file with known checksums. Clones share it; its cached chunks go with the last one.
#[derive(Clone, Debug)]
pub struct CheckedFile {
    inner: Arc<Inner>,
    /// What is to be done where a read meets damage.
    hint: Option<&'static str>,
}

#[derive(Debug)]
struct Inner {
    id: u64,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    checks: Arc<FileChecks>,
    cache: Arc<Cache>,
    damaged: AtomicBool,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.cache.forget_file(self.id);
    }
}

impl CheckedFile {
    /// Opens a file whose checksums are known. Only the length is compared now; chunks are verified as they are read.
    ///
    /// Errors: `Corrupt` when the length is another, or there are not as many checksums as chunks; `Io`.
    pub fn open(disk: &dyn Disk, path: &Path, checks: Arc<FileChecks>, cache: Arc<Cache>) -> Result<CheckedFile> {
        let failed = |error: io::Error| Error::io(path, "opening", &error);
        let file = disk.open(path).map_err(failed)?;
        let len = file.len().map_err(failed)?;
        if len != checks.len {
            return Err(corrupt(path, &format!("has {len} bytes, was written with {}", checks.len)));
        }
        if checks.chunk_crcs.len() as u64 != FileChecks::chunks_of(checks.len) {
            let crcs = checks.chunk_crcs.len();
            return Err(corrupt(path, &format!("of {len} bytes is listed with {crcs} chunk checksums")));
        }
        let id = cache.new_file();
        Ok(CheckedFile {
            hint: None,
            inner: Arc::new(Inner { id, path: path.into(), file, checks, cache, damaged: AtomicBool::new(false) }),
        })
    }

    /// The same file; where a read meets damage this is what is to be done.
    pub fn with_hint(self, hint: &'static str) -> CheckedFile {
        CheckedFile { hint: Some(hint), ..self }
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Whether a read has met bytes that are not those that were written.
    pub fn is_damaged(&self) -> bool {
        self.inner.damaged.load(Ordering::Relaxed)
    }

    /// Bytes in the file.
    pub fn len(&self) -> u64 {
        self.inner.checks.len
    }

    /// Whether the file has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes `range`, from the cache where it has them.
    ///
    /// The result keeps the memory of what was read for it alive: at least a chunk. Copy from it what is kept for long.
    ///
    /// Errors: `Corrupt` when a chunk is not what was written, naming the file and the offset; `Io`; `Internal` when the
    /// range reaches past the end of the file.
    pub fn read(&self, range: Range<u64>) -> Result<Bytes> {
        self.read_range(range).map_err(|error| match self.hint {
            Some(hint) if error.kind() == ErrorKind::Corrupt => error.with_hint(hint),
            _ => error,
        })
    }

    fn read_range(&self, range: Range<u64>) -> Result<Bytes> {
        if range.end > self.len() {
            let (len, path) = (self.len(), self.path().display());
            return Err(Error::internal(format!("bytes {range:?} were asked of {path}, which has {len}")));
        }
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let first = (range.start / CHUNK_BYTES as u64) as usize;
        let end = FileChecks::chunks_of(range.end) as usize;
        if end - first == 1 {
            let chunk = match self.inner.cached(first) {
                Some(chunk) => chunk,
                None => self.inner.load(first..end)?,
            };
            return Ok(chunk.slice(within(&range, &self.inner.checks.chunk_range(first))));
        }
        self.read_across(range, first..end)
    }

    /// Reads every chunk from the disk, past the cache, and verifies it.
    pub fn verify(&self) -> Result<()> {
        let chunks = self.inner.checks.chunk_crcs.len();
        let mut buffer = Vec::new();
        for first in (0..chunks).step_by(VERIFY_CHUNKS) {
            let end = (first + VERIFY_CHUNKS).min(chunks);
            buffer.resize(self.inner.bytes_in(first..end), 0);
            self.inner.read_verified(first, &mut buffer)?;
        }
        Ok(())
    }

    fn read_across(&self, range: Range<u64>, chunks: Range<usize>) -> Result<Bytes> {
        let cached: Vec<Option<Bytes>> = chunks.clone().map(|chunk| self.inner.cached(chunk)).collect();
        let runs: Vec<&[Option<Bytes>]> = cached.chunk_by(|a, b| a.is_some() == b.is_some()).collect();
        if let [run] = runs[..]
            && run[0].is_none()
        {
            let start = self.inner.checks.chunk_range(chunks.start).start;
            return Ok(self.inner.load(chunks)?.slice(within(&range, &(start..self.len()))));
        }
        let mut out = Vec::with_capacity((range.end - range.start) as usize);
        let mut add = |chunks: Range<usize>, bytes: &[u8]| {
            let start = self.inner.checks.chunk_range(chunks.start).start;
            out.extend_from_slice(&bytes[within(&range, &(start..start + bytes.len() as u64))]);
        };
        let mut next = chunks.start;
        for run in runs {
            let chunks = next..next + run.len();
            next = chunks.end;
            if run[0].is_none() {
                add(chunks.clone(), &self.inner.load(chunks)?);
                continue;
            }
            for (chunk, bytes) in chunks.zip(run.iter().flatten()) {
                add(chunk..chunk + 1, bytes);
            }
        }
        Ok(out.into())
    }
}

/// Where the part of `range` that lies in `of` is, counted from the start of `of`.
fn within(range: &Range<u64>, of: &Range<u64>) -> Range<usize> {
    (range.start.max(of.start) - of.start) as usize..(range.end.min(of.end) - of.start) as usize
}

impl Inner {
    fn chunk_id(&self, chunk: usize) -> ChunkId {
        ChunkId { file: self.id, chunk: chunk as u32 }
    }

    fn cached(&self, chunk: usize) -> Option<Bytes> {
        self.cache.get(self.chunk_id(chunk))
    }

    fn bytes_in(&self, chunks: Range<usize>) -> usize {
        (self.checks.chunk_range(chunks.end - 1).end - self.checks.chunk_range(chunks.start).start) as usize
    }

    /// Reads, verifies and caches consecutive chunks; returns them in one piece.
    fn load(&self, chunks: Range<usize>) -> Result<Bytes> {
        let mut bytes = vec![0; self.bytes_in(chunks.clone())];
        self.read_verified(chunks.start, &mut bytes)?;
        let bytes = Bytes::from(bytes);
        if chunks.len() == 1 {
            return Ok(self.cache.insert(self.chunk_id(chunks.start), bytes));
        }
        if bytes.len() as u64 <= self.cache.bytes_max() / CACHE_SHARE {
            for (chunk, part) in chunks.zip(bytes.chunks(CHUNK_BYTES)) {
                self.cache.insert(self.chunk_id(chunk), Bytes::copy_from_slice(part));
            }
        }
        Ok(bytes)
    }

    fn read_verified(&self, first: usize, buffer: &mut [u8]) -> Result<()> {
        self.read_whole(first, buffer).inspect_err(|error| {
            if error.kind() == ErrorKind::Corrupt {
                self.damaged.store(true, Ordering::Relaxed);
            }
        })
    }

    fn read_whole(&self, first: usize, buffer: &mut [u8]) -> Result<()> {
        let start = self.checks.chunk_range(first).start;
        self.file.read_exact_at(buffer, start).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                corrupt(&self.path, &format!("ends before byte {}, it was longer", start + buffer.len() as u64))
            }
            _ => Error::io(&self.path, "reading", &error),
        })?;
        self.checks.verify_chunks(&self.path, first, buffer)
    }
}
