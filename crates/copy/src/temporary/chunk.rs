//! Neighbouring rows that came together, and which of them are dead.

use crate::temporary::file::ChunkFile;
use crate::temporary::memory::Taken;
use alluvia_types::{Error, Result, Version};
use arrow::array::{BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use std::sync::Arc;

/// The version that rows of temporary tables stand under, which have none.
pub const TEMPORARY_VERSION: Version = Version(u64::MAX);

/// Where a row is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place {
    /// The number of its chunk.
    pub(super) chunk: u32,
    /// Its place there.
    pub(super) row: u32,
}

impl Place {
    /// As one number, which is the row's ordinal to statements.
    pub fn ordinal(self) -> u64 {
        u64::from(self.chunk) << 32 | u64::from(self.row)
    }

    /// Of such a number.
    pub fn of_ordinal(ordinal: u64) -> Place {
        Place { chunk: (ordinal >> 32) as u32, row: ordinal as u32 }
    }
}

/// Rows that came together.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    /// Ascends from chunk to chunk.
    pub(super) number: u32,
    pub(super) rows: usize,
    pub(super) data: Data,
    /// `None` if all rows live.
    pub(super) dead: Option<Arc<Dead>>,
}

/// Where the rows are.
#[derive(Clone, Debug)]
pub(super) enum Data {
    Memory(Arc<InMemory>),
    /// The batch of this number in a file.
    File(Arc<ChunkFile>, usize),
}

/// Rows in memory.
#[derive(Debug)]
pub(super) struct InMemory {
    pub(super) batch: RecordBatch,
    pub(super) taken: Taken,
}

/// Dead rows.
#[derive(Clone, Debug)]
pub(super) struct Dead {
    bits: Vec<u64>,
    count: usize,
}

impl Chunk {
    pub(super) fn schema(&self) -> &SchemaRef {
        match &self.data {
            Data::Memory(data) => data.batch.schema_ref(),
            Data::File(file, _) => &file.schema,
        }
    }

    pub(super) fn live(&self) -> usize {
        self.rows - self.dead.as_ref().map_or(0, |dead| dead.count)
    }

    /// Has a row die; `false` if it is dead already.
    pub(super) fn kill(&mut self, row: u32) -> bool {
        let rows = self.rows;
        let new = || Arc::new(Dead { bits: vec![0; rows.div_ceil(64)], count: 0 });
        let dead = Arc::make_mut(self.dead.get_or_insert_with(new));
        let (word, bit) = (row as usize / 64, 1u64 << (row % 64));
        let was_dead = dead.bits[word] & bit != 0;
        dead.bits[word] |= bit;
        dead.count += usize::from(!was_dead);
        !was_dead
    }

    /// Takes back that a row has died.
    pub(super) fn revive(&mut self, row: u32) {
        let Some(dead) = &mut self.dead else { return };
        let of_all = Arc::make_mut(dead);
        let (word, bit) = (row as usize / 64, 1u64 << (row % 64));
        of_all.count -= usize::from(of_all.bits[word] & bit != 0);
        of_all.bits[word] &= !bit;
        if of_all.count == 0 {
            self.dead = None;
        }
    }

    /// Which rows live; `None` if all do.
    pub(super) fn is_live(&self) -> Option<BooleanArray> {
        let dead = self.dead.as_ref()?;
        let is_live = |row: usize| dead.bits[row / 64] >> (row % 64) & 1 == 0;
        Some(BooleanArray::from(BooleanBuffer::collect_bool(self.rows, is_live)))
    }

    /// The rows of one in memory that live.
    pub(super) fn live_rows(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        match self.is_live() {
            Some(is_live) => filter_record_batch(batch, &is_live).map_err(misfit),
            None => Ok(batch.clone()),
        }
    }
}

pub(super) fn misfit(error: ArrowError) -> Error {
    Error::internal(format!("rows of a temporary table: {error}"))
}
