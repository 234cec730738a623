//! Copies of shards: what a worker gives to one that is to have a shard, too.
//!
//! A decision says which shard is copied, and by whom. It has the rows as they are at the version before. The sources that it
//! names keep that version readable from when each goes through the decision until all workers have: later sorts take nothing away from it.
//!
//! Invariants:
//! - What is given is the version that is asked for, whole, or nothing.
//! - After a start nothing is kept: the version may be readable still, or not. Then another replica is asked, or the copy is given up.

use super::read::snapshot_at;
use super::rows::{layout, rows_from};
use crate::words::NodeId;
use alluvia_snapshot::{Snapshot, Views};
use alluvia_space::TableDef;
use alluvia_types::{Error, ErrorKind, Result, TableId, Version};
use arrow::array::RecordBatch;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A shard that a worker is to copy before it goes on.
#[derive(Clone, PartialEq, Debug)]
pub struct Copying {
    /// Its definition here; it has its number.
    pub def: TableDef,
    /// The rows as they are at this version.
    pub at: Version,
    /// Who has them.
    pub sources: Vec<NodeId>,
}

/// How far a copy has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CopiedTo {
    /// Rows that were given, as they lie.
    pub row: u64,
    /// Tells how they lie: a number of the segments and runs that they are in.
    pub layout: u32,
}

/// The versions of shards that are kept for others.
#[derive(Debug, Default)]
pub struct Copies(Mutex<BTreeMap<(TableId, Version), Arc<Snapshot>>>);

impl Copies {
    /// Keeps a shard as it is at a version, which is the newest.
    ///
    /// Errors: as [`snapshot_at`].
    pub fn keep(&self, views: &Views, shard: TableId, version: Version) -> Result<()> {
        let snapshot = snapshot_at(views, version, &[shard])?;
        self.0.lock().insert((shard, version), Arc::new(snapshot));
        Ok(())
    }

    /// Rows of a shard at a version, from one on, and from which on the next ones are.
    ///
    /// Errors: as [`snapshot_at`], where it is not kept. `Conflict`: rows lie otherwise by now, so the copy must begin anew.
    pub fn rows(
        &self,
        views: &Views,
        shard: TableId,
        version: Version,
        from: Option<CopiedTo>,
    ) -> Result<(Vec<RecordBatch>, Option<CopiedTo>)> {
        let kept = self.0.lock().get(&(shard, version)).cloned();
        let snapshot = match kept {
            Some(kept) => kept,
            None => {
                let snapshot = Arc::new(snapshot_at(views, version, &[shard])?);
                self.0.lock().insert((shard, version), Arc::clone(&snapshot));
                snapshot
            }
        };
        let layout = layout(&snapshot, shard);
        if from.is_some_and(|from| from.layout != layout) {
            let what = format!("rows of shard {shard} at version {version} lie otherwise by now");
            return Err(Error::new(ErrorKind::Conflict, what).with_hint("copy it from the first row on"));
        }
        let (rows, next) = rows_from(&snapshot, shard, from.map_or(0, |from| from.row))?;
        Ok((rows, next.map(|row| CopiedTo { row, layout })))
    }

    /// All workers have gone through a version: what was kept for copies before it is not needed any more.
    pub fn release(&self, followed: Version) {
        self.0.lock().retain(|(_, version), _| *version >= followed);
    }
}
