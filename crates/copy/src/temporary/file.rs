//! Chunks in files, as Arrow has them (IPC, LZ4).
//!
//! Invariant: a file has batches of one schema, and is whole before anybody knows of it.

use crate::spool::{Spool, Spooled};
use crate::temporary::chunk::misfit;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::spill_io_error;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::CompressionType;
use arrow::ipc::reader::FileReader;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions};
use std::fmt;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::Arc;

/// Bytes that are written at once.
const BUFFER_BYTES: usize = 128 << 10;

/// A file of chunks. It goes with the last who knows of it.
pub struct ChunkFile {
    spooled: Spooled,
    pub(super) schema: SchemaRef,
}

impl fmt::Debug for ChunkFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChunkFile").field("path", &self.spooled.file.path).finish_non_exhaustive()
    }
}

/// Writes batches of one schema into a file; `name` says of what they are.
pub(super) fn write_chunks(spool: &Spool, name: &str, batches: &[RecordBatch]) -> Result<Arc<ChunkFile>> {
    let Some(first) = batches.first() else { return Err(Error::internal("a file of no rows is to be written")) };
    let schema = first.schema();
    let spooled = spool.filled(name, |out| {
        let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME));
        let out = Counting { out: BufWriter::with_capacity(BUFFER_BYTES, out), bytes: 0 };
        let mut writer = FileWriter::try_new_with_options(out, &schema, options.map_err(failed)?).map_err(failed)?;
        for batch in batches {
            writer.write(batch).map_err(failed)?;
        }
        writer.finish().map_err(failed)?;
        let mut out = writer.into_inner().map_err(failed)?;
        out.flush().map_err(|error| spill_io_error(&error))?;
        Ok(out.bytes)
    });
    let spooled = spooled.map_err(|error| match error.kind() {
        ErrorKind::OutOfMemory => error.with_hint("drop temporary tables, or have the server allow more: spill_max"),
        _ => error,
    })?;
    Ok(Arc::new(ChunkFile { spooled, schema }))
}

struct Counting<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Write for Counting<W> {
    fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(buffer)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// Some columns of a file that is read.
pub(super) struct OpenFile {
    reader: FileReader<File>,
}

impl ChunkFile {
    /// Opens it for those of its columns that have these names of storage.
    pub(super) fn open(&self, columns: &[String]) -> Result<OpenFile> {
        let fields = self.schema.fields().iter().enumerate();
        let wanted = fields.filter(|(_, field)| columns.contains(field.name())).map(|(at, _)| at).collect();
        // A batch is read at once: a buffer would read more.
        let reader = FileReader::try_new(self.spooled.file.open()?, Some(wanted));
        Ok(OpenFile { reader: reader.map_err(failed)? })
    }

    /// Whether it has any of these columns.
    pub(super) fn has_any(&self, columns: &[String]) -> bool {
        self.schema.fields().iter().any(|field| columns.contains(field.name()))
    }
}

impl OpenFile {
    /// The batch of this number.
    pub(super) fn batch(&mut self, at: usize) -> Result<RecordBatch> {
        self.reader.set_index(at).map_err(failed)?;
        match self.reader.next() {
            Some(batch) => batch.map_err(failed),
            None => Err(Error::internal("a file of a temporary table has lost rows")),
        }
    }
}

fn failed(error: ArrowError) -> Error {
    match error {
        ArrowError::IoError(_, error) => spill_io_error(&error),
        other => misfit(other),
    }
}
