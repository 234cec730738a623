//! A checked file as the `parquet` crate reads it.

use alluvia_storage::CheckedFile;
use alluvia_types::{Error, ErrorKind};
use bytes::{Buf, Bytes};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};
use std::io::Read;
use std::path::Path;

/// Bytes that a sequential read fetches at once; page headers are read that way.
const READ_BYTES: u64 = 4096;

/// A checked file.
#[derive(Clone, Debug)]
pub(crate) struct ParquetInput(pub(crate) CheckedFile);

impl Length for ParquetInput {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl ChunkReader for ParquetInput {
    type T = Sequential;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(Sequential { input: self.clone(), at: start.min(self.len()), bytes: Bytes::new() })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let end = start.checked_add(length as u64).filter(|&end| end <= self.len());
        let end = end.ok_or_else(|| ParquetError::EOF(format!("{length} bytes at {start} of {}", self.len())))?;
        self.0.read(start..end).map_err(|error| ParquetError::External(Box::new(error)))
    }
}

/// Reads on from a place.
#[derive(Debug)]
pub(crate) struct Sequential {
    input: ParquetInput,
    at: u64,
    bytes: Bytes,
}

impl Read for Sequential {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        if self.bytes.is_empty() {
            let end = (self.at + READ_BYTES).min(self.input.len());
            self.bytes = self.input.0.read(self.at..end).map_err(std::io::Error::other)?;
            self.at = end;
        }
        let count = buf.len().min(self.bytes.len());
        self.bytes.split_to(count).copy_to_slice(&mut buf[..count]);
        Ok(count)
    }
}

/// What goes wrong in reading a checked file is our own error; what goes wrong in decoding it is damage.
pub(crate) fn read_error(path: &Path, error: ParquetError) -> Error {
    match error {
        ParquetError::External(source) => match source.downcast::<Error>() {
            Ok(own) => *own,
            Err(other) => match other.downcast::<std::io::Error>().map(|io| io.downcast::<Error>()) {
                Ok(Ok(own)) => own,
                Ok(Err(other)) => decode_error(path, &other.to_string()),
                Err(other) => decode_error(path, &other.to_string()),
            },
        },
        other => decode_error(path, &other.to_string()),
    }
}

fn decode_error(path: &Path, what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("{} does not decode as Parquet: {what}", path.display()))
        .with_hint("the file is damaged; run `alluvia check` and restore the data directory from a copy")
}
