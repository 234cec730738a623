//! The port of administration: work that is asked for, files beside the data, and what system tables tell.
//!
//! Invariants:
//! - An answer to a statement depends on nothing of this port, but for what system tables and PostgreSQL's catalog
//!   tell.
//! - A memo may be lost: no memo keeps a database from opening. A line of the audit log may not: it is durable once
//!   [`Admin::audit`] returns.
//! - What is told of batches, stages, segments and the database is of the moment of the call, and not of a snapshot.

use crate::keys::BatchKey;
use alluvia_tree::SegmentMeta;
use alluvia_types::{ProducerMark, Result, SegmentId, Stage, TableId, Version};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

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
#[derive(Clone, Debug, Serialize, Deserialize)]
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
    /// Those of them that are dead at the visible version.
    #[serde(default)]
    pub dead_rows: u64,
    /// Bytes of them, in memory for `ingested`, on disk for the others.
    pub bytes: u64,
    /// Segments (or tail runs).
    pub parts: u64,
}

/// A segment, for `alluvia.segments`.
#[derive(Clone, Debug)]
pub struct SegmentInfo {
    /// What the manifest says of it.
    pub meta: SegmentMeta,
    /// Its rows that are dead at the visible version.
    pub dead_rows: u64,
}

/// A table's rows in memory, for `alluvia.heaps`.
#[derive(Clone, Copy, Debug)]
pub struct HeapInfo {
    /// The table.
    pub table: TableId,
    /// Whether it has every row, and can be read.
    pub is_ready: bool,
    /// The version of the last batch that was applied.
    pub version: Version,
    /// Keys that it knows.
    pub keys: u64,
    /// Keys of batches that wait to be applied.
    pub waiting: u64,
    /// Estimated bytes in memory.
    pub bytes: u64,
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
    /// Bytes of the keys of tables, when they were last measured.
    pub key_bytes: u64,
    /// Bytes of the notes of dead rows, when they were last measured.
    pub kill_bytes: u64,
    /// Why the pipeline last failed, if its last run did.
    pub pipeline_error: Option<String>,
}

/// A cluster as a gateway of it sees it, for `alluvia.nodes`, `alluvia.shards` and `alluvia.replicas`. Of one process it is empty.
#[derive(Clone, Debug, Default)]
pub struct ClusterInfo {
    /// Who has joined.
    pub nodes: Vec<NodeInfo>,
    /// Of all tables, in the order of their tables and places.
    pub shards: Vec<ShardInfo>,
}

/// A node of a cluster.
#[derive(Clone, Debug)]
pub struct NodeInfo {
    /// Its number, as text.
    pub node: String,
    /// What it does.
    pub roles: String,
    /// Where other nodes reach it.
    pub address: String,
    /// How often it has started.
    pub starts: u64,
    /// What it says of itself: of workers that answer.
    pub status: Option<NodeStatus>,
    /// Nothing was heard of it for too long: it is given nothing until it joins again.
    pub is_dead: bool,
}

/// What a worker says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeStatus {
    /// It has followed through this version.
    pub through: Version,
    /// Parts of batches that wait there until all workers have them.
    pub waiting: u64,
    /// Their bytes.
    pub waiting_bytes: u64,
}

/// A shard of a table.
#[derive(Clone, Debug)]
pub struct ShardInfo {
    /// Of which table.
    pub table: TableId,
    /// Its own number.
    pub shard: TableId,
    /// Its place among the table's shards, from 1.
    pub position: usize,
    /// How often its replicas have changed.
    pub epoch: u64,
    /// On how many replicas a batch is durable before it is committed.
    pub write_quorum: u32,
    /// Where it lies.
    pub replicas: Vec<ReplicaInfo>,
}

/// A shard at a worker.
#[derive(Clone, Debug)]
pub struct ReplicaInfo {
    /// The worker.
    pub node: String,
    /// What there is, if it says.
    pub status: Option<ReplicaStatus>,
}

/// What a worker has of a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplicaStatus {
    /// Followed through this version.
    pub through: Version,
    /// Rows of all stages.
    pub rows: u64,
    /// Bytes on disk.
    pub bytes: u64,
}

/// A small file beside the data, of what may be lost.
#[derive(Clone, Copy, Debug)]
pub struct Memo {
    /// Its name in the data directory.
    pub name: &'static str,
    /// Six letters for its kind, two digits for the version of its content.
    pub magic: &'static [u8; 8],
}

/// What a purge waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PurgeWait {
    /// Nothing: it works, and asks whether it is to go on.
    Working,
    /// Another purge.
    Another,
    /// Snapshots in which rows are alive that were deleted since.
    Snapshots {
        /// The newest version that deleted rows.
        killed: Version,
        /// The versions that are pinned, ascending.
        pinned: Vec<Version>,
    },
    /// Loads of the table that began before: what they have is in no view.
    Loads,
    /// Files that were replaced, and that statements still read.
    Files(usize),
}

impl PurgeWait {
    /// In words.
    pub fn what(&self) -> &'static str {
        match self {
            PurgeWait::Working => "nothing",
            PurgeWait::Another => "another purge",
            PurgeWait::Snapshots { .. } => "snapshots in which rows are alive that were deleted since",
            PurgeWait::Loads => "loads that began before it",
            PurgeWait::Files(_) => "statements that read files which it has replaced",
        }
    }
}

/// What a purge has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Purged {
    /// Dead rows that were left out.
    pub rows: u64,
    /// Segments that were written anew, or went.
    pub segments: u64,
    /// Bytes by which these are less.
    pub bytes: u64,
    /// Members of dictionaries that lost their names.
    pub members: u64,
}

impl Purged {
    /// In a sentence, of a table.
    pub fn told(&self, table: &str) -> String {
        let Purged { rows, segments, bytes, members } = self;
        format!(
            "table '{table}': {rows} dead rows are gone, {segments} segments were written anew ({bytes} bytes less), \
             {members} members of dictionaries lost their names"
        )
    }
}

/// The database as whoever looks after it sees it.
pub trait Admin: Send + Sync + Debug {
    /// Returns once `stage` is complete through every batch visible at the call, for all tables; asks the pipeline to
    /// hurry.
    fn organise(&self, stage: Stage) -> Result<()>;
    /// Removes from the files of the database what was deleted of a table before the call. Between steps, and while something
    /// is waited for, `wait` is called now and then; an error of it ends the purge.
    fn purge(&self, table: TableId, wait: &mut dyn FnMut(&PurgeWait) -> Result<()>) -> Result<Purged>;
    /// Tables that are closed since files of theirs are damaged, and why.
    fn closed(&self) -> BTreeMap<TableId, String> {
        BTreeMap::new()
    }
    /// What is lost with a segment of a table, some of whose files are damaged: sentences. It is forgotten only if that `is_told`.
    fn forget_segment(&self, table: TableId, segment: SegmentId, is_told: bool) -> Result<Vec<String>>;
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
    /// Tables whose rows are in memory one by one, in the order of their ids.
    fn heaps(&self) -> Vec<HeapInfo> {
        Vec::new()
    }
    /// Segments of all tables that the newest snapshot names.
    fn segments(&self) -> Vec<SegmentInfo>;
    /// The machines that it lies on, if it lies on several. Asks them, and waits for a moment.
    fn cluster(&self) -> ClusterInfo {
        ClusterInfo::default()
    }
    /// The whole database.
    fn info(&self) -> StoreInfo;
}
