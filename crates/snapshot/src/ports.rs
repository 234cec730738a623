//! The ports through which `query` reads, writes and asks for work. `node` implements them; `query` knows nothing behind them.

use crate::keys::{BatchKey, KeyRecord};
use crate::snapshot::{Newer, Snapshot};
use alluvia_catalog::{Catalog, Change, DictionaryMark};
use alluvia_space::{KeyRange, TableDef};
use alluvia_tree::SegmentMeta;
use alluvia_types::{Clock, Freshness, ProducerMark, Result, Stage, TableId, Version};
use arrow::record_batch::RecordBatch;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

/// What a statement needs of its snapshot.
#[derive(Clone, Debug)]
pub struct Want {
    /// The freshness asked for.
    pub freshness: Freshness,
    /// The answer must include this version: the session's own writes and what it has already read.
    pub at_least: Version,
    /// Exactly this version: the snapshot of an open transaction. Overrides the two above.
    pub exactly: Option<Version>,
    /// The tables that the statement reads; the stage is chosen for these.
    pub tables: Vec<TableId>,
}

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
    /// In the table's storage schema, without the hidden columns.
    pub batches: Vec<RecordBatch>,
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
}

/// What became of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Committed {
    /// The batch's version (of the first copy, if it was sent again).
    pub version: Version,
    /// Whether the producer had already sent it.
    pub duplicate: bool,
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
}

/// Takes the rows of a large batch. Dropping it before `finish` removes what was staged.
pub trait Load: Send {
    /// Adds rows in the table's storage schema (TEXT columns may be `Dictionary(Int32, Utf8)`). May block while segments are written.
    fn append(&mut self, rows: RecordBatch) -> Result<()>;
    /// Writes and syncs what is left. The result goes into [`NewBatch::loads`].
    fn finish(self: Box<Self>) -> Result<StagedLoad>;
}

/// One recent batch, for `alluvia.batches`.
#[derive(Clone, Debug)]
pub struct BatchInfo {
    /// Its version.
    pub version: Version,
    /// Commit time, microseconds since 1970.
    pub commit_micros: i64,
    /// Rows, over all its tables.
    pub rows: u64,
    /// Tables with rows in it.
    pub tables: Vec<TableId>,
    /// DDL changes.
    pub changes: usize,
    /// Bytes of its body in the log.
    pub bytes: u64,
    /// Who numbered it.
    pub producer: Option<ProducerMark>,
    /// Its client's key.
    pub key: Option<BatchKey>,
}

/// One table's stage, for `alluvia.stages`.
#[derive(Clone, Debug)]
pub struct StageInfo {
    /// The table.
    pub table: TableId,
    /// The stage.
    pub stage: Stage,
    /// The version through which the stage is complete for this table.
    pub watermark: Version,
    /// How long ago the first batch that the stage lacks became visible; zero when it lacks none.
    pub staleness: Duration,
    /// Rows that live in this stage now (each row lives in one).
    pub rows: u64,
    /// Bytes of them, in memory for `ingested`, on disk for the others.
    pub bytes: u64,
    /// Segments (or tail runs).
    pub parts: u64,
}

/// What became visible since the database was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PublishedTotals {
    /// Batches.
    pub batches: u64,
    /// Their rows.
    pub rows: u64,
    /// Their bytes, in the log and in staged segments.
    pub bytes: u64,
}

/// The whole database, for `alluvia.settings` and messages.
#[derive(Clone, Debug)]
pub struct StoreInfo {
    /// Newest visible version.
    pub visible: Version,
    /// Bytes of the tail.
    pub tail_bytes: u64,
    /// Where ingest starts to wait.
    pub tail_bytes_max: u64,
    /// Writers that wait for room in the tail.
    pub writers_waiting: u64,
    /// Bytes of the log on disk.
    pub log_bytes: u64,
    /// Groups of batches in the log since the database was made; each was one fsync.
    pub log_groups: u64,
    /// What became visible since the database was opened.
    pub published: PublishedTotals,
    /// `None` when writes are accepted, else why not.
    pub read_only: Option<String>,
    /// Bytes in the block cache.
    pub cache_bytes: u64,
    /// Why the pipeline last failed, if its last run did.
    pub pipeline_error: Option<String>,
}

/// A small file beside the data, of what may be lost.
#[derive(Clone, Copy, Debug)]
pub struct Memo {
    /// Its name in the data directory.
    pub name: &'static str,
    /// Six letters for its kind, two digits for the version of its content.
    pub magic: &'static [u8; 8],
}

/// The database, as `query` sees it. All calls block; call them from a blocking thread where they may wait.
pub trait Store: Send + Sync + Debug {
    /// Where time comes from.
    fn clock(&self) -> &Arc<dyn Clock>;
    /// The newest visible definitions.
    fn catalog(&self) -> Arc<Catalog>;
    /// Pins a snapshot. Never waits for a sort or a merge.
    fn snapshot(&self, want: &Want) -> Result<Snapshot>;
    /// The least version that an answer of this freshness may be of; it is visible.
    fn required(&self, freshness: Freshness, at_least: Version) -> Version;
    /// How long ago the first batch above a version became visible; zero when there is none.
    fn lag(&self, version: Version) -> Duration;
    /// What came to a table above version `above`, if all of that is still in the tail: its rows above `from`. For whoever follows
    /// the log; it costs what is new, where a snapshot costs what there is.
    fn newer(&self, table: TableId, above: Version, from: Version) -> Option<Newer>;
    /// Commits a batch. With `Sync` it is durable and visible on return.
    fn submit(&self, batch: NewBatch, durability: Durability) -> Result<Committed>;
    /// As [`Store::submit`] with [`Durability::Sync`], for a batch whose rows are few, without waiting: `done` is called
    /// from another thread. Gives everything back where that cannot be (the tail is full, nobody serves the log): then
    /// submit it on a thread that may block.
    fn submit_then(&self, batch: NewBatch, done: Done) -> Option<(NewBatch, Done)>;
    /// Returns once `version` is visible.
    fn wait_visible(&self, version: Version) -> Result<()>;
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
    /// Returns once `stage` is complete through every batch visible at the call, for all tables; asks the pipeline to hurry.
    fn organise(&self, stage: Stage) -> Result<()>;
    /// What was memorised last under this memo; `None` if nothing was, or if it was damaged: then it was set aside.
    fn recall(&self, memo: &Memo) -> Result<Option<Vec<u8>>>;
    /// Keeps a memo across restarts in place of the last one.
    fn memorise(&self, memo: &Memo, content: &[u8]) -> Result<()>;
    /// Adds whole lines to the audit log; they are durable on return.
    fn audit(&self, lines: &[u8]) -> Result<()>;
    /// The newest lines of the audit log, oldest first, whole, together at most so many bytes.
    fn audited(&self, bytes_max: u64) -> Result<Vec<u8>>;
    /// Recent batches, newest first, at most `limit`.
    fn batches(&self, limit: usize) -> Vec<BatchInfo>;
    /// Every table's stages.
    fn stages(&self) -> Vec<StageInfo>;
    /// Segments of all tables that the newest snapshot names.
    fn segments(&self) -> Vec<SegmentMeta>;
    /// The whole database.
    fn info(&self) -> StoreInfo;
}
