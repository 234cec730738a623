//! A worker: keeps bodies of batches until they are decided, and makes of each decision what it is here.
//!
//! ```text
//! gateway --Staged--> bodies/ (durable) --acknowledged--> ... decided ... --local_body--> Committer::follow --> log/, tail, segments
//! ```
//!
//! The worker's database follows every version: of a decision that does not touch it, an empty batch. So its log, its snapshots and its
//! recovery are those of any database, and an answer of a version is the answer of that version of the cluster.
//!
//! Invariants:
//! - D3: a decision is followed after all before it, with every body that it names for shards that are here, or not at all.
//! - D6: a body is what was decided, or it is refused.
//! - A decision says by itself what it is here: the worker needs no image, but only its own definitions.

mod bodies;
mod copies;
mod follower;
mod read;
mod rows;

pub use bodies::{Bodies, Staged};
pub use copies::{CopiedTo, Copies, Copying};
pub use follower::{Follower, Step};
pub use read::snapshot_at;
pub use rows::each_batch;

use crate::decision::{Decided, Decision, Left, Touched, What};
use crate::placed::{PlacedTable, shard_def};
use crate::words::{BatchId, NodeId};
use alluvia_catalog::{Catalog, Change};
use alluvia_commit::{Followed, encode, joined};
use alluvia_snapshot::NewBatch;
use alluvia_types::{Error, ErrorKind, Result, TableId, planted};
use std::sync::Arc;

/// A body that a decision names and this worker has not: others have it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing {
    /// Of which batch.
    pub batch: BatchId,
    /// For which shard.
    pub shard: TableId,
    /// Where it was durable before the decision.
    pub holders: Vec<NodeId>,
}

/// What a decision is at a worker.
#[derive(Debug)]
pub enum Local {
    /// A batch to follow. The bodies in it may go once it is durable.
    Batch {
        /// The batch.
        followed: Followed,
        /// The bodies in it.
        bodies: Vec<(BatchId, TableId)>,
        /// Below this the gateway's bodies may go then, too.
        floor: Option<BatchId>,
    },
    /// It cannot be followed yet.
    Missing(Missing),
}

/// What a decision is at a worker. `catalog` are the worker's newest definitions, those of the version before. `is_leaving` tells of shards that
/// a later decision takes away: if a body for such a one is missing, it may be nowhere by now, and the shard goes at once.
///
/// Errors: `Corrupt`: a body is not what was decided.
pub fn local(
    node: NodeId,
    decision: &Decision,
    catalog: &Catalog,
    bodies: &Bodies,
    is_leaving: &dyn Fn(TableId) -> bool,
) -> Result<Local> {
    let Decision { version, commit_micros, what } = decision;
    let followed = |body| Followed { version: *version, commit_micros: *commit_micros, body };
    let decided = match what {
        What::Batch(decided) => decided,
        What::Joined { node, incarnation, .. } => {
            // What an earlier incarnation has staged, and was not decided before this, never will be.
            let floor = Some(BatchId { gateway: *node, incarnation: *incarnation, sequence: 1 });
            return Ok(Local::Batch { followed: followed(nothing()?), bodies: Vec::new(), floor });
        }
        What::Left(Left { node: left, shards, .. }) if *left == node => {
            let here = shards.iter().filter(|shard| catalog.by_id(**shard).is_some());
            let changes = here.map(|shard| Change::DropTable { id: *shard }).collect();
            let body = encode(&NewBatch { changes, ..NewBatch::default() })?;
            return Ok(Local::Batch { followed: followed(body), bodies: Vec::new(), floor: None });
        }
        // Whose shard it is to be has copied it before: see `Follower`.
        What::Numbers { .. } | What::Copied(_) | What::Left(_) => {
            return Ok(Local::Batch { followed: followed(nothing()?), bodies: Vec::new(), floor: None });
        }
    };
    let mut changes = local_changes(node, decided, catalog);
    let mut gone: Vec<Change> = Vec::new();
    let is_new = |id: TableId| changes.iter().any(|change| change.new_id() == Some(id));
    let (mut used, mut staged) = (Vec::new(), Vec::new());
    for touched in &decided.touched {
        if catalog.by_id(touched.shard).is_none() && !is_new(touched.shard) {
            continue;
        }
        match bodies.get(decided.id, touched.shard) {
            Some(found) => staged.push(checked(found, touched)?),
            None if planted("missing body passed over") => continue,
            None if is_leaving(touched.shard) => {
                gone.push(Change::DropTable { id: touched.shard });
                continue;
            }
            None => {
                let (batch, shard, holders) = (decided.id, touched.shard, touched.holders.clone());
                return Ok(Local::Missing(Missing { batch, shard, holders }));
            }
        }
        used.push((decided.id, touched.shard));
    }
    changes.extend(gone);
    let parts: Vec<&[u8]> = staged.iter().map(|body| &**body).collect();
    let body = if parts.is_empty() && changes.is_empty() { nothing()? } else { joined(changes, &parts)? };
    let floor = Some(BatchId { sequence: decided.floor, ..decided.id });
    Ok(Local::Batch { followed: followed(body), bodies: used, floor })
}

/// All tables that are here go.
fn dropped(catalog: &Catalog) -> Vec<Change> {
    catalog.tables().map(|entry| Change::DropTable { id: entry.def.id }).collect()
}

/// The body of a batch that does nothing here.
fn nothing() -> Result<Vec<u8>> {
    encode(&NewBatch::default())
}

/// D6.
fn checked(found: Staged, touched: &Touched) -> Result<Arc<[u8]>> {
    if crc32c::crc32c(&found.body) == touched.crc {
        return Ok(found.body);
    }
    let what = format!("the body of batch {} for shard {} is not what was decided", found.batch, touched.shard);
    Err(Error::new(ErrorKind::Corrupt, what)
        .with_hint("this worker's directory is damaged: let its shards be copied anew"))
}

/// What changes of tables are of the shards that are here. Names, rights, views and comments are the gateways'.
fn local_changes(node: NodeId, decided: &Decided, catalog: &Catalog) -> Vec<Change> {
    let placed = |table: TableId| -> Option<&PlacedTable> {
        decided.placed.iter().find(|(placed, _)| *placed == table).map(|(_, placed)| placed)
    };
    let mut local: Vec<Change> = Vec::new();
    for change in &decided.changes {
        let table = match change {
            Change::CreateTable { def } | Change::AlterTable { def, .. } => def.id,
            Change::DropTable { id } => *id,
            _ => continue,
        };
        for shard in placed(table).iter().flat_map(|placed| &placed.shards) {
            let is_created = local.iter().any(|change| change.new_id() == Some(shard.id));
            let is_here = catalog.by_id(shard.id).is_some() || is_created;
            match change {
                Change::CreateTable { def } if shard.replicas.contains(&node) => {
                    local.push(Change::CreateTable { def: shard_def(def, shard.id) });
                }
                Change::AlterTable { def, was } if is_here => {
                    local.push(Change::AlterTable { def: shard_def(def, shard.id), was: *was });
                }
                Change::DropTable { .. } if is_here => local.push(Change::DropTable { id: shard.id }),
                _ => {}
            }
        }
    }
    local
}
