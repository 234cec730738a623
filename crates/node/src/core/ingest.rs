//! The port of writers: the committer and the loader of this process.
//!
//! Invariants:
//! - The segments that a batch had staged are removed if the batch is certainly not in the log. After any other failure
//!   only recovery can tell, and they stay.
//! - The flusher is told of a relaxed batch once the batch has its version: told before, it may look in vain, and
//!   nobody else would tell it.

use super::Core;
use alluvia_pipeline::{Loader, discard};
use alluvia_snapshot::{BatchKey, Committed, Done, Durability, Ingest, KeyRecord, Load, NewBatch, StagedLoad};
use alluvia_space::TableDef;
use alluvia_types::{ErrorKind, ProducerMark, Result, TableId, Version};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Batches up to this size may wait for their fsync without a thread of their own; to encode and copy a larger one
/// takes too long for a thread that must not block.
const SMALL_BYTES_MAX: usize = 64 << 10;
/// The same of changes of definitions, each of which may be a table of many columns.
const SMALL_CHANGES_MAX: usize = 8;

/// Bytes of a batch's rows in memory.
fn rows_bytes(batch: &NewBatch) -> usize {
    batch.rows.iter().flat_map(|rows| &rows.batches).map(|rows| rows.get_array_memory_size()).sum()
}

/// Whether a batch is certainly not in the log: it was sent before, did not pass the checks, or found the disk full,
/// which the log tells only once what it had written is cut off for good (definite refusal). After any other failure of
/// the log or its disk only recovery can tell.
fn is_refused(submitted: &Result<Committed>) -> bool {
    use ErrorKind::{Corrupt, Internal, Io, Poisoned, Shutdown};
    match submitted {
        Ok(committed) => committed.duplicate,
        Err(error) => !matches!(error.kind(), Corrupt | Internal | Io | Poisoned | Shutdown),
    }
}

impl Core {
    /// Starts a copy of a table that is on another machine, and not here. What was dropped is out of the way first: it may have been here
    /// once. Blocks.
    pub(crate) fn begin_copy(&self, def: &Arc<TableDef>) -> Result<Box<dyn Load>> {
        self.pipeline.sort()?;
        Ok(Box::new(Loader::begin_copy(Arc::clone(&self.pipeline), Arc::clone(def))?))
    }

    /// Removes what was staged for a batch that is certainly not in the log.
    pub(crate) fn discard_load(&self, load: StagedLoad) {
        discard(&self.pipeline, &[load]);
    }
}

impl Ingest for Core {
    fn submit(&self, batch: NewBatch, durability: Durability) -> Result<Committed> {
        let staged = batch.loads.clone();
        let submitted = self.committer.submit(batch, durability);
        // Once it is among those that a flush takes: told before, one may come between, and nobody else would ask for
        // another.
        if submitted.is_ok() && durability == Durability::Relaxed {
            self.relaxed.store(true, Ordering::Relaxed);
        }
        if is_refused(&submitted) {
            discard(&self.pipeline, &staged);
        }
        if submitted.is_err() {
            self.discard_dropped();
        }
        submitted
    }

    fn submit_then(&self, batch: NewBatch, done: Done) -> Option<(NewBatch, Done)> {
        let is_few = batch.loads.is_empty() && batch.changes.len() <= SMALL_CHANGES_MAX;
        let is_small = is_few && rows_bytes(&batch) <= SMALL_BYTES_MAX;
        if is_small { self.committer.submit_then(batch, done) } else { Some((batch, done)) }
    }

    fn new_table_id(&self) -> TableId {
        self.pipeline.new_table_id()
    }

    fn begin_load(&self, table: &Arc<TableDef>, checked_at: Version) -> Result<Box<dyn Load>> {
        Ok(Box::new(Loader::begin(Arc::clone(&self.pipeline), Arc::clone(table), checked_at)?))
    }

    fn discard(&self, batch: NewBatch) {
        discard(&self.pipeline, &batch.loads);
    }

    fn producer(&self, name: &str) -> Option<(ProducerMark, Version)> {
        let state = self.views.producer(name)?;
        let mark = ProducerMark { name: name.to_owned(), epoch: state.epoch, sequence: state.sequence };
        Some((mark, state.version))
    }

    fn keyed(&self, key: BatchKey) -> Option<KeyRecord> {
        self.committer.keyed(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::DatabaseOptions;
    use alluvia_catalog::Change;
    use alluvia_pipeline::Inline;
    use alluvia_space::{Column, DataType, TableOptions};
    use alluvia_storage::FaultDisk;
    use alluvia_types::{ColumnId, ManualClock};
    use std::path::Path;

    fn submit(core: &Core, change: Change) -> Result<Committed> {
        core.submit(NewBatch { changes: vec![change], ..NewBatch::default() }, Durability::Relaxed)
    }

    /// A flush that is asked for before the batch has its version leaves it, and takes the request with it.
    #[test]
    fn a_relaxed_batch_is_told_of_once_it_has_its_version() {
        let clock = Arc::new(ManualClock::default());
        let options = DatabaseOptions::default();
        let core = Core::open(FaultDisk::new(), Path::new("/db"), clock, &options, Arc::new(Inline), 42).unwrap();
        submit(&core, Change::DropTable { id: TableId(99) }).expect_err("there is no such table");
        assert!(!core.take_relaxed(), "there is nothing to flush");
        let column = Column {
            id: ColumnId(0),
            name: "id".to_owned(),
            storage_name: "id".to_owned(),
            data_type: DataType::Int64,
            nullable: true,
            chars_max: None,
        };
        let def = TableDef {
            id: core.new_table_id(),
            schema: "public".to_owned(),
            name: "t".to_owned(),
            columns: vec![column],
            next_column_id: 1,
            key: None,
            rules: alluvia_space::TableRules::default(),
            indexes: Vec::new(),
            foreign_keys: Vec::new(),
            dimensions: Vec::new(),
            measures: Vec::new(),
            seed: 7,
            options: TableOptions::default(),
        };
        submit(&core, Change::CreateTable { def }).unwrap();
        assert!(core.take_relaxed());
    }
}
