//! The port of writers: batches on their way in.
//!
//! Invariants:
//! - A batch is applied whole or not at all, and a number of a producer or a key of a client once (C3).
//! - Rows are refused with `Conflict` when their table has another definition than the one they were checked against
//!   (C4).
//! - A row that a session has locked no other one changes: that is looked at under the lock of the table's keys, where whoever
//!   locks a row looks whether it was written ([`crate::Read::last_written`]), so one of the two sees the other.
//! - What was staged for a batch belongs to whoever staged it until the batch is submitted: then [`Ingest::submit`]
//!   removes what a refused batch had staged. A batch that is not submitted is given to [`Ingest::discard`].

use crate::keys::{BatchKey, KeyRecord};
use alluvia_catalog::{Change, DictionaryMark};
use alluvia_locks::Locks;
use alluvia_space::{KeyRange, OnConflict, TableDef};
use alluvia_tree::SegmentMeta;
use alluvia_types::{ProducerMark, Result, TableId, Version};
use arrow::array::UInt64Array;
use arrow::record_batch::RecordBatch;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::sync::{Arc, Weak};

/// When a batch is acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// After its fsync, and visible.
    #[default]
    Sync,
    /// As soon as its version is assigned; visible only after the fsync.
    Relaxed,
}

/// Rows for one table, bound to one definition of it.
#[derive(Clone, Debug)]
pub struct NewRows {
    /// The table.
    pub table: TableId,
    /// `TableEntry::changed_at` of the definition that the rows were checked against; refused with `Conflict` when the
    /// table has changed since. Ignored for a table that the same batch creates or alters.
    pub checked_at: Version,
    /// In the table's storage schema, without the hidden columns; what [`RowChange`] says of them may differ.
    pub batches: Vec<RecordBatch>,
    /// What the rows do to those that are there.
    pub change: RowChange,
    /// The version of the snapshot that the rows were computed from, if they were: where the key of a row was written
    /// since, the batch is refused with `Conflict`.
    pub computed_at: Option<Version>,
    /// The ordinals of the rows of all `batches`, ascending, where they are a part of a larger batch's; else they are
    /// counted from 0.
    pub ordinals: Option<UInt64Array>,
}

/// What rows of a batch do to the rows of their table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowChange {
    /// They come. In a table with a key, one whose key is there refuses the batch (`UniqueViolation`).
    #[default]
    Insert,
    /// They come, but for those whose key is there, or was in an earlier row of the batch.
    InsertNew,
    /// They come, and the rows that have had their keys go. Of several with one key the last stays.
    Upsert,
    /// The rows with these keys go: the batches have the key's columns alone, by storage name, in the key's order. Keys
    /// that are not there are passed over.
    Delete,
    /// These rows go, of a table without a key: the batches have `_version` and `_ordinal` alone. Rows that are not there
    /// any more are passed over.
    DeleteRows,
}

impl RowChange {
    /// What rows that come do where nobody says it but their table's definition.
    pub fn of_table(def: &TableDef) -> RowChange {
        RowChange::of(def.key.as_ref().map(|key| key.on_conflict).unwrap_or_default())
    }

    /// What rows that are inserted do where this is said of those whose keys are there.
    pub fn of(on_conflict: OnConflict) -> RowChange {
        match on_conflict {
            OnConflict::Error => RowChange::Insert,
            OnConflict::Nothing => RowChange::InsertNew,
            OnConflict::Replace => RowChange::Upsert,
        }
    }

    fn is_insert(&self) -> bool {
        *self == RowChange::Insert
    }
}

impl NewRows {
    /// Rows that come, and do what their table's definition says.
    pub fn of_table(def: &TableDef, checked_at: Version, batches: Vec<RecordBatch>) -> NewRows {
        NewRows { change: RowChange::of_table(def), ..NewRows::insert(def.id, checked_at, batches) }
    }

    /// Rows that come.
    pub fn insert(table: TableId, checked_at: Version, batches: Vec<RecordBatch>) -> NewRows {
        NewRows { table, checked_at, batches, change: RowChange::Insert, computed_at: None, ordinals: None }
    }
}

/// One atomic batch to commit. DDL is applied before rows.
#[derive(Debug, Default)]
pub struct NewBatch {
    /// Changes of definitions.
    pub changes: Vec<Change>,
    /// Rows that travel in the log.
    pub rows: Vec<NewRows>,
    /// Rows that were staged as segments.
    pub loads: Vec<StagedLoad>,
    /// The producer's number for this batch.
    pub producer: Option<ProducerMark>,
    /// The client's key for this batch: another one with the same key is not applied for seven days.
    pub key: Option<BatchKey>,
    /// Tables of which no row may have been written since a version: else the batch is refused. A transaction has read
    /// them at that version, and takes them away, or is serializable.
    pub unwritten: Vec<(TableId, Version)>,
    /// Whose locks of rows refuse it: those of all others, with `LockNotAvailable`. `None` of what heeds none.
    pub heeds: Option<Heeds>,
}

/// The session that a batch is of, among those that lock rows.
#[derive(Clone, Debug)]
pub struct Heeds {
    /// All that is locked.
    pub locks: Arc<Locks>,
    /// Whose locks do not refuse it.
    pub session: u64,
}

/// What became of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Committed {
    /// The batch's version (of the first copy, if it was sent again).
    pub version: Version,
    /// Whether the producer had already sent it.
    pub duplicate: bool,
    /// Rows that changed nothing, as their [`RowChange`] says.
    pub passed_over: u64,
}

/// Told what became of a batch, once.
pub type Done = Box<dyn FnOnce(Result<Committed>) + Send>;

/// A large batch, staged as synced segments that no manifest names yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StagedLoad {
    /// The table.
    pub table: TableId,
    /// As [`NewRows::checked_at`].
    pub checked_at: Version,
    /// The segments, in the sorted stage, without a version.
    pub segments: Vec<SegmentMeta>,
    /// How much of the table's dictionaries must be durable for these segments; it is.
    pub dictionary: DictionaryMark,
    /// The table's key ranges as these segments used them; empty when there are no rows, or no dimensions.
    pub ranges: Vec<KeyRange>,
    /// Rows in all.
    pub rows: u64,
    /// What the rows do to those that are there, in a table with a key.
    #[serde(default, skip_serializing_if = "RowChange::is_insert")]
    pub change: RowChange,
    /// Tells the stage that it is still to be committed.
    #[serde(skip)]
    pub staging: Staging,
}

/// Says for as long as a copy of it lives that rows are being staged, or are staged and not in any view yet. What a log record has
/// says nothing.
#[derive(Clone, Debug, Default)]
pub struct Staging {
    _alive: Option<Arc<()>>,
}

impl Staging {
    /// Of a load that begins, and what tells whether it is over.
    pub fn begin() -> (Staging, Weak<()>) {
        let alive = Arc::new(());
        let told = Arc::downgrade(&alive);
        (Staging { _alive: Some(alive) }, told)
    }

    /// Tells it from all others, for as long as a copy of it lives; `None` of one that says nothing.
    pub fn id(&self) -> Option<usize> {
        self._alive.as_ref().map(|alive| Arc::as_ptr(alive) as usize)
    }
}

/// Takes the rows of a large batch. Dropping it before `finish` removes what was staged.
pub trait Load: Send {
    /// Adds rows in the table's storage schema (TEXT columns may be `Dictionary(Int32, Utf8)`). May block while
    /// segments are written.
    fn append(&mut self, rows: RecordBatch) -> Result<()>;
    /// Writes and syncs what is left. The result goes into [`NewBatch::loads`].
    fn finish(self: Box<Self>) -> Result<StagedLoad>;
}

/// The database as writers see it.
pub trait Ingest: Send + Sync + Debug {
    /// Commits a batch. With `Sync` it is durable and visible on return.
    fn submit(&self, batch: NewBatch, durability: Durability) -> Result<Committed>;
    /// As [`Ingest::submit`] with [`Durability::Sync`], for a batch whose rows are few, without waiting: `done` is
    /// called from another thread. Gives everything back where that cannot be (the tail is full, nobody serves the
    /// log): then submit it on a thread that may block.
    fn submit_then(&self, batch: NewBatch, done: Done) -> Option<(NewBatch, Done)>;
    /// An id for a table about to be created; never handed out twice.
    fn new_table_id(&self) -> TableId;
    /// Starts staging a large batch for a table (which the batch itself may be about to create).
    fn begin_load(&self, table: &Arc<TableDef>, checked_at: Version) -> Result<Box<dyn Load>>;
    /// Removes what was staged for a batch that is not submitted. Blocks.
    fn discard(&self, batch: NewBatch);
    /// The last sequence of a producer.
    fn producer(&self, name: &str) -> Option<(ProducerMark, Version)>;
    /// The visible batch that has used a key within the last seven days.
    fn keyed(&self, key: BatchKey) -> Option<KeyRecord>;
}
