//! Writing a file once, front to back, with its checksums.
//!
//! Invariants:
//! - The checksums are those of the bytes as handed in, taken before they are buffered.
//! - After a failed write the writer refuses everything: bytes of unknown fate would be in front of the next ones.
//! - Only [`CheckedWriter::finish`] makes the data durable; the name is the caller's to sync, so that several files of
//!   one directory share one `sync_dir`.

use crate::checks::{CHUNK_BYTES, FileChecks};
use crate::disk::{Disk, DiskFile};
use alluvia_types::{Error, Result, planted};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Buffered bytes: a few chunks, so that a device sees large writes whatever the caller's are.
const BUFFER_BYTES: usize = 4 * CHUNK_BYTES;

/// A new file that is being written. Dropped before [`CheckedWriter::finish`], it leaves an unfinished file behind that
/// nothing names; whoever recovers the directory removes it.
#[derive(Debug)]
pub struct CheckedWriter {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    /// Bytes taken, buffered ones included.
    len: u64,
    buffer: Vec<u8>,
    chunk_crcs: Vec<u32>,
    /// Of the bytes taken since the last whole chunk.
    open_crc: u32,
    failed: Option<io::ErrorKind>,
}

impl CheckedWriter {
    /// Creates a file that must not exist yet.
    pub fn create(disk: &dyn Disk, path: &Path) -> Result<CheckedWriter> {
        let file = disk.create(path).map_err(|error| Error::io(path, "creating", &error))?;
        Ok(CheckedWriter {
            path: path.into(),
            file,
            len: 0,
            buffer: Vec::new(),
            chunk_crcs: Vec::new(),
            open_crc: 0,
            failed: None,
        })
    }

    /// Bytes written so far, which is the offset of the next one.
    pub fn bytes_written(&self) -> u64 {
        self.len
    }

    /// Writes what is buffered and makes the data durable. The caller syncs the directory.
    pub fn finish(mut self) -> Result<FileChecks> {
        let is_skipped = planted("segment not synced");
        let synced = self.flush().and_then(|()| if is_skipped { Ok(()) } else { self.file.sync_data() });
        synced.map_err(|error| Error::io(&self.path, "writing", &error))?;
        if !self.len.is_multiple_of(CHUNK_BYTES as u64) {
            self.chunk_crcs.push(self.open_crc);
        }
        assert_eq!(self.chunk_crcs.len() as u64, FileChecks::chunks_of(self.len), "one checksum a chunk");
        Ok(FileChecks { len: self.len, chunk_crcs: self.chunk_crcs })
    }

    fn checksum(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = CHUNK_BYTES - (self.len % CHUNK_BYTES as u64) as usize;
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.open_crc = crc32c::crc32c_append(self.open_crc, now);
            self.len += now.len() as u64;
            if now.len() == room {
                self.chunk_crcs.push(std::mem::take(&mut self.open_crc));
            }
            bytes = later;
        }
    }

    /// Writes `bytes` so that they end at `end`.
    fn write_out(&mut self, bytes: &[u8], end: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, end - bytes.len() as u64).inspect_err(|error| self.failed = Some(error.kind()))
    }

    fn flush_buffer(&mut self, end: u64) -> io::Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let written = if buffer.is_empty() { Ok(()) } else { self.write_out(&buffer, end) };
        buffer.clear();
        self.buffer = buffer;
        written
    }

    fn refuse_after_failure(&self) -> io::Result<()> {
        match self.failed {
            Some(kind) => Err(io::Error::new(kind, "an earlier write to this file failed")),
            None => Ok(()),
        }
    }
}

impl Write for CheckedWriter {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.refuse_after_failure()?;
        let start = self.len;
        self.checksum(buf);
        if self.buffer.len() + buf.len() > BUFFER_BYTES {
            self.flush_buffer(start)?;
        }
        if buf.len() >= BUFFER_BYTES {
            self.write_out(buf, self.len)?;
        } else {
            self.buffer.extend_from_slice(buf);
        }
        Ok(buf.len())
    }

    /// Hands what is buffered to the disk; this does not make it durable.
    fn flush(&mut self) -> io::Result<()> {
        self.refuse_after_failure()?;
        self.flush_buffer(self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{FaultDisk, Survival};
    use alluvia_types::ErrorKind;
    use proptest::prelude::*;

    fn bytes_of(len: usize, seed: u64) -> Vec<u8> {
        (0..len as u64).map(|i| (i.wrapping_add(seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn file_and_checksums_do_not_depend_on_how_the_bytes_came(
            cuts in prop::collection::vec(prop_oneof![0..200usize, 0..3 * CHUNK_BYTES, BUFFER_BYTES..2 * BUFFER_BYTES], 0..9),
            flush_every in 1..5usize,
        ) {
            let disk = FaultDisk::new();
            let path = Path::new("/file");
            let mut writer = CheckedWriter::create(disk.as_ref(), path).expect("creates");
            let mut model = Vec::new();
            for (i, len) in cuts.iter().enumerate() {
                let bytes = bytes_of(*len, i as u64);
                writer.write_all(&bytes).expect("writes");
                model.extend_from_slice(&bytes);
                prop_assert_eq!(writer.bytes_written(), model.len() as u64);
                if i % flush_every == 0 {
                    writer.flush().expect("flushes");
                }
            }
            let checks = writer.finish().expect("finishes");
            prop_assert_eq!(checks.len, model.len() as u64);
            prop_assert_eq!(&checks.chunk_crcs, &model.chunks(CHUNK_BYTES).map(crc32c::crc32c).collect::<Vec<_>>());
            disk.sync_dir(Path::new("/")).expect("syncs");
            let file = disk.after_power_loss(Survival::SyncedOnly).open(path).expect("opens");
            let mut found = vec![0; model.len()];
            file.read_exact_at(&mut found, 0).expect("reads");
            prop_assert!(found == model);
        }
    }

    #[test]
    fn a_failed_write_is_final() {
        let disk = FaultDisk::new();
        let mut writer = CheckedWriter::create(disk.as_ref(), Path::new("/file")).expect("creates");
        disk.limit_bytes(Some(100));
        writer.write_all(&[7; 200]).expect("is only buffered");
        assert_eq!(writer.flush().expect_err("no room").kind(), io::ErrorKind::StorageFull);
        disk.limit_bytes(None);
        assert_eq!(writer.write_all(b"x").expect_err("refused").kind(), io::ErrorKind::StorageFull);
        assert_eq!(writer.finish().expect_err("refused").kind(), ErrorKind::DiskFull);
    }
}
