//! Input that lies in a file while it is read: what a URL names, and bodies that are read from their end.
//!
//! Invariants:
//! - Its bytes count against what all statements together may spill (`spill_max`), beside what they spill, as long as it lies there.
//! - The file goes with its [`Spooled`].

use crate::files::InputFile;
use crate::roots::Location;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::spill_error;
use datafusion_common::DataFusionError;
use datafusion_execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion_execution::{DiskManager, SpillFile, SpillWriter};
use std::io::{self, Read, Write};
use std::sync::Arc;

/// Where input is kept.
#[derive(Clone, Debug)]
pub struct Spool(Arc<DiskManager>);

/// Input in a file.
pub struct Spooled {
    /// The input's path and length, to be read like any other file.
    pub file: InputFile,
    _kept: Arc<dyn SpillFile>,
}

impl Spool {
    /// Among what statements spill.
    pub fn new(disk: Arc<DiskManager>) -> Spool {
        Spool(disk)
    }

    /// For whoever keeps none.
    pub fn nowhere() -> Result<Spool> {
        let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled).build();
        Ok(Spool(Arc::new(disk.map_err(|error| spill_error(&error))?)))
    }

    /// Takes all of a body.
    pub fn take(&self, mut body: impl Read, name: &str) -> Result<Spooled> {
        self.filled(name, |out| io::copy(&mut body, out).map_err(|error| Error::io(name, "reading", &error)))
    }

    /// Takes what `fill` writes, of which it gives the length.
    pub fn filled(&self, name: &str, fill: impl FnOnce(&mut dyn Write) -> Result<u64>) -> Result<Spooled> {
        let kept = self.0.create_tmp_file("keeping input").map_err(|error| spill_error(&error))?;
        let path = kept.path().ok_or_else(|| Error::internal("a spilled file has no name"))?.to_owned();
        let inner = kept.open_writer().map_err(|error| spill_error(&error))?;
        let mut out = Counted { inner, name, bytes_max: self.0.max_temp_directory_size() };
        let bytes = fill(&mut out)?;
        out.flush().map_err(|error| Error::io(&path, "writing", &error))?;
        let location = Location::Written(path.clone());
        Ok(Spooled { file: InputFile { path, location, bytes, modified_micros: 0, is_plain: true }, _kept: kept })
    }

    /// Bytes that lie on disk, of input and of what was spilled.
    #[cfg(test)]
    pub fn bytes(&self) -> u64 {
        self.0.used_disk_space()
    }

    /// In a directory of its own, with so much room.
    #[cfg(test)]
    pub(crate) fn in_dir(dir: &std::path::Path, bytes_max: u64) -> Spool {
        let mode = DiskManagerMode::Directories(vec![dir.to_owned()]);
        let disk = DiskManagerBuilder::default().with_mode(mode).with_max_temp_directory_size(bytes_max).build();
        Spool(Arc::new(disk.expect("a directory")))
    }
}

/// Writes what is counted, and says in our words why it cannot be.
struct Counted<'a> {
    inner: Box<dyn SpillWriter>,
    name: &'a str,
    bytes_max: u64,
}

impl Counted<'_> {
    fn told(&self, error: io::Error) -> io::Error {
        // The writer tells of its bound in no other way than by the name of a setting.
        if error.get_ref().is_some_and(|inner| inner.to_string().contains("max_temp_directory_size")) {
            let Counted { name, bytes_max, .. } = self;
            let message = format!(
                "{name} has no room beside what statements spill: all of it together may take {bytes_max} bytes (spill_max)"
            );
            return io::Error::other(
                Error::new(ErrorKind::OutOfMemory, message)
                    .with_hint("load it in parts, or when other statements have ended"),
            );
        }
        match error.get_ref().and_then(|inner| inner.downcast_ref()) {
            Some(DataFusionError::IoError(inner)) => io::Error::new(inner.kind(), inner.to_string()),
            _ => error,
        }
    }
}

impl Write for Counted<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(buffer);
        written.map_err(|error| self.told(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // spooled input is no part of the database
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_counts_until_it_goes_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let spool = Spool::in_dir(dir.path(), 10);
        let kept = spool.take(io::Cursor::new(b"rows"), "the body").unwrap();
        assert_eq!((kept.file.bytes, spool.bytes()), (4, 4));
        assert_eq!(std::fs::read(&kept.file.path).unwrap(), b"rows");
        let path = kept.file.path.clone();
        // With what else lies there it would be too much.
        let error = spool.take(io::Cursor::new([7; 7]), "https://h.org/a.csv").err().unwrap();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert!(
            ["https://h.org/a.csv", "spill_max", "10 bytes"].iter().all(|word| error.message().contains(word)),
            "{error}"
        );
        assert_eq!(spool.bytes(), 4, "what was refused does not count");
        drop(kept);
        assert_eq!((spool.bytes(), path.exists()), (0, false));
        drop(spool.take(io::Cursor::new([7; 10]), "the body").unwrap());
    }

    #[test]
    fn what_fails_half_way_leaves_nothing_and_is_told_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let spool = Spool::in_dir(dir.path(), 100);
        let failed = spool.filled("x", |out| {
            out.write_all(b"half").unwrap();
            Err(Error::new(ErrorKind::Io, "it was cut"))
        });
        assert_eq!((failed.err().unwrap().message(), spool.bytes()), ("it was cut", 0));
    }
}
