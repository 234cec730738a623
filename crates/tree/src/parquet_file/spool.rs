//! The pages of a column chunk that wait for its end: in memory, or, where they are long, in a file that is gone when its writer is.
//!
//! The dictionary page comes first in a chunk, and grows until the chunk ends. So all pages wait.

use crate::context::nameless_file;
use alluvia_storage::{Disk, DiskFile};
use bytes::Bytes;
use parquet::errors::Result;
use parquet::file::reader::{ChunkReader, Length};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes that are read of the file at a time.
const READ_BYTES: usize = 1 << 20;

/// Where pages go that do not fit in memory.
#[derive(Clone, Debug)]
pub(crate) struct Spool {
    pub(crate) disk: Arc<dyn Disk>,
    /// Where the file is made.
    pub(crate) path: PathBuf,
    /// What stays in memory.
    pub(crate) bytes_max: usize,
}

/// The pages so far.
#[derive(Default)]
pub(super) struct Pages {
    memory: Vec<u8>,
    spool: Option<Spool>,
    file: Option<(Arc<dyn DiskFile>, u64)>,
}

impl Pages {
    /// None yet.
    pub(super) fn new(spool: Option<Spool>) -> Pages {
        Pages { memory: Vec::new(), spool, file: None }
    }

    /// The whole chunk, whose dictionary page, if there is any, is `head`.
    pub(super) fn chunk(self, head: Vec<u8>) -> Chunk {
        match self.file {
            None if head.is_empty() => Chunk { head: Bytes::new(), file: None, tail: self.memory.into() },
            file => Chunk { head: head.into(), file, tail: self.memory.into() },
        }
    }
}

impl Write for Pages {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.memory.extend_from_slice(bytes);
        let Some(spool) = self.spool.as_ref().filter(|spool| self.memory.len() > spool.bytes_max) else {
            return Ok(bytes.len());
        };
        let (file, len) = match &mut self.file {
            Some(file) => file,
            none => none.insert((nameless_file(spool.disk.as_ref(), &spool.path)?, 0)),
        };
        file.write_all_at(&self.memory, *len)?;
        *len += self.memory.len() as u64;
        self.memory.clear();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A column chunk as it goes into the file.
pub(super) struct Chunk {
    head: Bytes,
    file: Option<(Arc<dyn DiskFile>, u64)>,
    tail: Bytes,
}

impl Length for Chunk {
    fn len(&self) -> u64 {
        self.head.len() as u64 + self.file.as_ref().map_or(0, |(_, len)| *len) + self.tail.len() as u64
    }
}

impl ChunkReader for Chunk {
    type T = ChunkBytes;

    fn get_read(&self, start: u64) -> Result<ChunkBytes> {
        let (head, tail) = (self.head.clone(), self.tail.clone());
        let mut bytes = ChunkBytes { head, file: self.file.clone(), at: 0, buffer: Vec::new(), taken: 0, tail };
        io::copy(&mut (&mut bytes).take(start), &mut io::sink())?;
        Ok(bytes)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let mut bytes = vec![0; length];
        self.get_read(start)?.read_exact(&mut bytes)?;
        Ok(bytes.into())
    }
}

/// Reads a chunk from its start to its end.
pub(super) struct ChunkBytes {
    head: Bytes,
    file: Option<(Arc<dyn DiskFile>, u64)>,
    /// How much of the file was read.
    at: u64,
    buffer: Vec<u8>,
    /// How much of the buffer was given.
    taken: usize,
    tail: Bytes,
}

impl Read for ChunkBytes {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if !self.head.is_empty() {
            return give(&mut self.head, out);
        }
        if self.taken == self.buffer.len()
            && let Some((file, len)) = self.file.as_ref().filter(|(_, len)| self.at < *len)
        {
            self.buffer.resize(READ_BYTES.min((*len - self.at) as usize), 0);
            file.read_exact_at(&mut self.buffer, self.at)?;
            self.at += self.buffer.len() as u64;
            self.taken = 0;
        }
        if self.taken < self.buffer.len() {
            let count = out.len().min(self.buffer.len() - self.taken);
            out[..count].copy_from_slice(&self.buffer[self.taken..self.taken + count]);
            self.taken += count;
            return Ok(count);
        }
        give(&mut self.tail, out)
    }
}

fn give(bytes: &mut Bytes, out: &mut [u8]) -> io::Result<usize> {
    let count = out.len().min(bytes.len());
    out[..count].copy_from_slice(&bytes.split_to(count));
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_storage::FaultDisk;

    #[test]
    fn a_chunk_is_its_dictionary_and_its_pages_wherever_they_lie() {
        for bytes_max in [1, 10, 1_000, 1 << 22] {
            for pages in [0, 1, 40] {
                let disk: Arc<dyn Disk> = FaultDisk::new();
                let spool = Spool { disk, path: "/pages".into(), bytes_max };
                let mut waiting = Pages::new(Some(spool));
                let mut expected = b"dictionary".to_vec();
                for page in 0..pages {
                    let page = vec![page as u8; 70_000];
                    waiting.write_all(&page).expect("writes");
                    expected.extend(page);
                }
                let chunk = waiting.chunk(b"dictionary".to_vec());
                assert_eq!(chunk.len(), expected.len() as u64);
                for start in [0, 3, 10, expected.len()] {
                    let mut read = Vec::new();
                    chunk.get_read(start as u64).expect("opens").read_to_end(&mut read).expect("reads");
                    assert!(read == expected[start..], "{bytes_max} {pages} {start}");
                }
            }
        }
    }
}
