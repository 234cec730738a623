//! Snapshots: the manifest, the tail, and what a statement pins of them.
//!
//! Invariants:
//! - A snapshot is everything through one version: a gap-free prefix of the log.
//! - What is visible is durable: [`Views::publish`] is called after the fsync, in version order.
//! - A row is in exactly one place: the tail above the sorted watermark, or one segment. The switch is one pointer swap.
//! - A table whose files are damaged is closed, and the others are not ([`ClosedTable`]).
//! - Readers never block: they pin `Arc`s; files die with the last of them.

pub mod kills;

mod closed;
mod forgotten;
mod freshness;
mod key_files;
mod key_tables;
mod keys;
mod killed;
mod lookup;
mod manifest;
mod moves;
mod own;
mod own_bytes;
mod pins;
mod ports;
mod snapshot;
mod spaces;
mod tail;
mod views;

pub use closed::{ClosedTable, Held};
pub use forgotten::Forgotten;
pub use freshness::VisibleTimes;
pub use key_files::{KEYS_LOST_NAME, KEYS_MAGIC, KeyFiles, KeysFile};
pub use key_tables::{KeyGuard, KeyTable, KeyTables, KnownKeys};
pub use keys::{BatchKey, KEYS_KEPT, KeyRecord};
pub use killed::Killed;
pub use kills::KillsFile;
pub use lookup::{SnapshotRow, identities_of, row_columns};
pub use manifest::{
    Base, MANIFEST_MAGIC, MANIFEST_NAME, Manifest, Partition, PartitionFiles, ProducerState, TableBase, TableFiles,
};
pub use moves::{Moved, Moves};
pub use own::Identity;
pub use own_bytes::own_bytes;
pub use pins::Pin;
pub use ports::{
    Admin, AskedPart, BatchInfo, ClusterInfo, Committed, Done, Durability, Each, HeapInfo, Heeds, Ingest, Load, Memo,
    NewBatch, NewRows, NodeInfo, NodeStatus, Ports, PublishedTotals, PurgeWait, Purged, Read, ReplicaInfo,
    ReplicaStatus, RowChange, SegmentInfo, ShardInfo, StageInfo, StagedLoad, Staging, StoreInfo, Uses, Want,
};
pub use snapshot::{Newer, Snapshot, TableRead, TailRead};
pub use spaces::{Space, Spaces};
pub use views::{
    Cut, Failures, HeapLoad, HeapSnapshot, Published, TableKills, TailBounds, TailDead, TailRoom, Views, WholeTable,
    WrittenKeys,
};
