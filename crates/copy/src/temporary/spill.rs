//! Rows on their way into a temporary table, and out of memory.
//!
//! Invariant: what is written is written before any table knows of it, without holding what tables are locked by.

use crate::spool::Spool;
use crate::temporary::chunk::{Data, InMemory};
use crate::temporary::file::write_chunks;
use crate::temporary::memory::{Taken, TemporaryMemory};
use alluvia_space::key_code::KeyCode;
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::RecordBatch;
use std::sync::Arc;

/// Rows that lie together at most: a file is read by so many at once.
const PIECE_ROWS: usize = 65_536;

/// What a key takes in memory, about.
const KEY_BYTES: u64 = 64;

/// Rows that are to come.
#[derive(Debug)]
pub struct Coming {
    pub(super) pieces: Vec<(Data, usize)>,
    /// Of the rows' keys, in a table that has one.
    pub(super) codes: Vec<KeyCode>,
    /// What the keys take.
    pub(super) keys: Taken,
}

/// Rows in memory that are to go into files.
#[derive(Debug, Default)]
pub struct Spilling {
    pub(super) chunks: Vec<(u32, Arc<InMemory>)>,
}

/// Where they are now.
#[derive(Debug)]
pub struct Spilled {
    pub(super) moved: Vec<(u32, Arc<InMemory>, Data)>,
}

/// The batch in pieces that are not too large to lie together.
pub fn pieces(batch: &RecordBatch) -> impl Iterator<Item = RecordBatch> + '_ {
    let rows = batch.num_rows();
    (0..rows).step_by(PIECE_ROWS).map(move |from| batch.slice(from, PIECE_ROWS.min(rows - from)))
}

impl Coming {
    /// In memory, if there is room for the rows and what is known of their keys; `most` is what all temporary tables of the
    /// session may take.
    pub fn in_memory(
        memory: &Arc<TemporaryMemory>,
        batch: &RecordBatch,
        codes: &[KeyCode],
        most: u64,
    ) -> Option<Coming> {
        let mut taken = memory.try_take(batch.get_array_memory_size() as u64, most)?;
        let keys = memory.try_take(codes.len() as u64 * KEY_BYTES, most)?;
        let each = taken.bytes() / batch.num_rows().div_ceil(PIECE_ROWS).max(1) as u64;
        let mut all: Vec<RecordBatch> = pieces(batch).collect();
        let last = all.pop();
        let mut pieces: Vec<(Data, usize)> = Vec::with_capacity(all.len() + 1);
        for batch in all {
            let (rows, taken) = (batch.num_rows(), taken.split(each));
            pieces.push((Data::Memory(Arc::new(InMemory { batch, taken })), rows));
        }
        if let Some(batch) = last {
            let rows = batch.num_rows();
            pieces.push((Data::Memory(Arc::new(InMemory { batch, taken })), rows));
        }
        Some(Coming { pieces, codes: codes.to_vec(), keys })
    }

    /// In a file: what is known of the rows' keys must be in memory all the same. Blocks.
    ///
    /// # Errors
    /// `OutOfMemory` if there is no room for that, or for the file.
    pub fn in_file(
        memory: &Arc<TemporaryMemory>,
        spool: &Spool,
        table: &str,
        batch: &RecordBatch,
        codes: &[KeyCode],
        most: u64,
    ) -> Result<Coming> {
        let Some(keys) = memory.try_take(codes.len() as u64 * KEY_BYTES, most) else {
            let message = format!(
                "the keys of temporary table \"{table}\" do not fit into memory: the session's temporary tables hold {} \
                 bytes, and {most} is the most",
                memory.held()
            );
            return Err(Error::new(ErrorKind::OutOfMemory, message)
                .with_hint("SET temporary_memory to more, or create the table without its key"));
        };
        let all: Vec<RecordBatch> = pieces(batch).collect();
        let file = write_chunks(spool, &named(table), &all)?;
        let piece = |(at, batch): (usize, &RecordBatch)| (Data::File(Arc::clone(&file), at), batch.num_rows());
        let pieces = all.iter().enumerate().map(piece).collect();
        Ok(Coming { pieces, codes: codes.to_vec(), keys })
    }
}

impl Spilling {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// What it takes in memory.
    pub fn bytes(&self) -> u64 {
        self.chunks.iter().map(|(_, data)| data.taken.bytes()).sum()
    }

    /// Writes all of it. Blocks.
    ///
    /// # Errors
    /// `OutOfMemory` and `DiskFull` where there is no room.
    pub fn write(self, spool: &Spool, table: &str) -> Result<Spilled> {
        let mut moved = Vec::with_capacity(self.chunks.len());
        // Rows that came before a column did have another schema.
        for same in self.chunks.chunk_by(|(_, a), (_, b)| a.batch.schema_ref() == b.batch.schema_ref()) {
            let batches: Vec<RecordBatch> = same.iter().map(|(_, data)| data.batch.clone()).collect();
            let file = write_chunks(spool, &named(table), &batches)?;
            for (at, (number, data)) in same.iter().enumerate() {
                moved.push((*number, Arc::clone(data), Data::File(Arc::clone(&file), at)));
            }
        }
        Ok(Spilled { moved })
    }
}

/// What messages call the file.
fn named(table: &str) -> String {
    format!("temporary table \"{table}\"")
}

/// What keys take of so many.
pub(super) fn keys_bytes(keys: usize) -> u64 {
    keys as u64 * KEY_BYTES
}
