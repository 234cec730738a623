//! Input that comes from a client or a URL rather than from a file: bounded, spooled where it has to be read from its end.
//!
//! Invariant: what a body unpacks to is bounded as it is: a small body that unpacks to a large one is refused at the bound. Of Parquet and
//! Arrow, which are packed inside, too, the rows in memory are bounded besides.
#![allow(clippy::disallowed_methods)] // spooled bodies are no part of the database

use crate::copy::files::InputFile;
use crate::copy::roots::Location;
use alluvia_snapshot::BatchKey;
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::Int32Type;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// What a load knows of its standard input.
#[derive(Clone, Debug)]
pub struct BodyOptions {
    /// What messages call it.
    pub name: String,
    /// The most that it may unpack to; `None` for no bound.
    pub bytes_max: Option<u64>,
    /// Where it is spooled if it has to be read from its end; `None` refuses formats that are.
    pub spool_dir: Option<PathBuf>,
    /// The client's key of the batch.
    pub key: Option<BatchKey>,
    /// JSON comes as one array of objects rather than an object a line.
    pub is_array: bool,
}

impl Default for BodyOptions {
    fn default() -> Self {
        BodyOptions { name: "standard input".to_owned(), bytes_max: None, spool_dir: None, key: None, is_array: false }
    }
}

impl BodyOptions {
    /// Refuses rows of more bytes than the body may unpack to.
    pub(crate) fn check_unpacked(&self, bytes: u64) -> Result<()> {
        match self.bytes_max {
            Some(bytes_max) if bytes > bytes_max => Err(too_large(bytes_max)),
            _ => Ok(()),
        }
    }

    /// The reader with its bound.
    pub(crate) fn bounded(&self, inner: Box<dyn Read + Send>) -> Box<dyn Read + Send> {
        match self.bytes_max {
            None => inner,
            Some(bytes_max) => Box::new(Bounded { inner, left: bytes_max, bytes_max }),
        }
    }
}

/// Bytes of the rows as they are stored: of text its own, however it is held.
pub(crate) fn unpacked(rows: &RecordBatch) -> u64 {
    let of_column = |column: &ArrayRef| -> u64 {
        if let Some(texts) = column.as_string_view_opt() {
            return texts.lengths().map(u64::from).sum();
        }
        if let Some(codes) = column.as_dictionary_opt::<Int32Type>()
            && let Some(texts) = codes.values().as_string_opt::<i32>()
        {
            return codes.keys().iter().flatten().map(|code| texts.value_length(code as usize) as u64).sum();
        }
        column.to_data().get_slice_memory_size().unwrap_or(0) as u64
    };
    rows.columns().iter().map(of_column).sum()
}

fn too_large(bytes_max: u64) -> Error {
    Error::new(ErrorKind::TooLarge, format!("the body unpacks to more than {bytes_max} bytes"))
        .with_hint("send it in parts, or raise the server's limit (body_bytes_max)")
}

/// A reader that fails past its bound.
struct Bounded {
    inner: Box<dyn Read + Send>,
    left: u64,
    bytes_max: u64,
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(count as u64).ok_or_else(|| io::Error::other(too_large(self.bytes_max)))?;
        Ok(count)
    }
}

/// A body in a file; the file goes with this.
pub(crate) struct Spooled {
    pub(crate) file: InputFile,
}

impl Spooled {
    /// Takes all of a body.
    pub(crate) fn new(mut body: impl Read, dir: &Path, name: &str) -> Result<Spooled> {
        Spooled::filled(dir, |out| io::copy(&mut body, out).map_err(|error| Error::io(name, "reading", &error)))
    }

    /// Takes what `fill` writes, of which it gives the length.
    pub(crate) fn filled(dir: &Path, fill: impl FnOnce(&mut File) -> Result<u64>) -> Result<Spooled> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = dir.join(format!("body-{}-{number}", std::process::id()));
        let failed = |error: io::Error| Error::io(&path, "writing", &error);
        fs::create_dir_all(dir).map_err(failed)?;
        let mut out = File::create(&path).map_err(failed)?;
        let location = Location::Written(path.clone());
        let mut spooled = Spooled { file: InputFile { path: path.clone(), location, bytes: 0, modified_micros: 0 } };
        spooled.file.bytes = fill(&mut out)?;
        Ok(spooled)
    }
}

impl Drop for Spooled {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_ends_at_its_bound() {
        let options = |bytes_max| BodyOptions { bytes_max: Some(bytes_max), ..BodyOptions::default() };
        let read = |bytes_max| {
            let mut all = Vec::new();
            options(bytes_max).bounded(Box::new(io::Cursor::new(vec![7; 100]))).read_to_end(&mut all).map(|_| all.len())
        };
        assert_eq!(read(100).unwrap(), 100);
        assert_eq!(Error::io("x", "reading", &read(99).unwrap_err()).kind(), ErrorKind::TooLarge);
    }

    #[test]
    fn rows_count_as_what_they_hold_however_they_are_packed() {
        use arrow::array::{DictionaryArray, Int64Array, StringArray, StringViewArray};
        use std::sync::Arc;
        let texts = vec!["a long text that is in no view itself"; 1_000];
        let bytes = 1_000 * texts[0].len() as u64;
        let of = |column: ArrayRef| unpacked(&RecordBatch::try_from_iter([("a", column)]).unwrap());
        assert_eq!(of(Arc::new(StringViewArray::from(texts.clone()))), bytes);
        assert_eq!(of(Arc::new(texts.iter().copied().collect::<DictionaryArray<Int32Type>>())), bytes);
        assert_eq!(of(Arc::new(StringArray::from(texts))), bytes + 1_001 * 4);
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![7; 1_000]));
        assert_eq!(of(numbers.slice(10, 100)), 800);
        let options = BodyOptions { bytes_max: Some(100), ..BodyOptions::default() };
        assert!(options.check_unpacked(100).is_ok() && BodyOptions::default().check_unpacked(u64::MAX).is_ok());
        assert_eq!(options.check_unpacked(101).unwrap_err().kind(), ErrorKind::TooLarge);
    }

    #[test]
    fn a_spooled_body_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let spooled = Spooled::new(io::Cursor::new(b"rows"), dir.path(), "the body").unwrap();
        assert_eq!((spooled.file.bytes, fs::read(&spooled.file.path).unwrap().as_slice()), (4, b"rows".as_slice()));
        drop(spooled);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
