//! The ports of a database: what sessions need of it, and whoever keeps rows gives.
//!
//! A port is a trait that a room above calls and another room implements. `query` and `copy` call the ports; the engine
//! of a database holds all three, and everything below the engine is given the one that it needs.
//!
//! | Port | What it is for | Who may implement it alone |
//! |---|---|---|
//! | [`Read`] | definitions, snapshots, versions and time | a replica, a shard of another machine, a test double |
//! | [`Ingest`] | batches on their way in: staging, commits, numbers | a row store, a cluster, a test double |
//! | [`Admin`] | work that is asked for, files beside the data, what system tables tell | whoever has the data directory |
//!
//! Invariants:
//! - No port needs another: an implementation of one calls nothing of the other two.
//! - The ports of one engine are of one database: a version that [`Ingest`] gives is one that [`Read`] can wait for and
//!   pin, and [`Admin`] tells of the same versions.
//! - Calls block: call them from a thread that may wait. [`Ingest::submit_then`] alone never waits, and calls of
//!   [`Read`] wait for no sort, no merge and, but for [`Read::wait_visible`], no fsync.

mod admin;
mod ingest;
mod read;

pub use admin::{Admin, BatchInfo, Memo, PublishedTotals, PurgeWait, Purged, SegmentInfo, StageInfo, StoreInfo};
pub use admin::{ClusterInfo, HeapInfo, NodeInfo, NodeStatus, ReplicaInfo, ReplicaStatus, ShardInfo};
pub use ingest::{Committed, Done, Durability, Heeds, Ingest, Load, NewBatch, NewRows, RowChange, StagedLoad, Staging};
pub use read::{AskedPart, Each, Read, Uses, Want};

use std::sync::Arc;

/// The ports of one database, for its engine, which hands on each to whatever needs it.
#[derive(Clone, Debug)]
pub struct Ports {
    /// Definitions, snapshots, versions and time.
    pub read: Arc<dyn Read>,
    /// Batches on their way in.
    pub ingest: Arc<dyn Ingest>,
    /// Work that is asked for, files beside the data, what system tables tell.
    pub admin: Arc<dyn Admin>,
}

impl Ports {
    /// The ports of a database that one part implements whole.
    pub fn of_one<P: Read + Ingest + Admin + 'static>(part: &Arc<P>) -> Ports {
        Ports {
            read: Arc::clone(part) as Arc<dyn Read>,
            ingest: Arc::clone(part) as Arc<dyn Ingest>,
            admin: Arc::clone(part) as Arc<dyn Admin>,
        }
    }
}
