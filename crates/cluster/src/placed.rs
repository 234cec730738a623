//! Where the shards of a table lie, and which of them a row is of.
//!
//! A shard is a table of its own at each of its workers, with the columns of the table that it is a part of, under a number of its own.
//!
//! Invariants:
//! - The slots of a table's shards are consecutive, in the order of the shards, and each slot is in one shard (D4).
//! - Two replicas of one shard are on two workers.

use crate::words::{Epoch, NodeId};
use alluvia_space::{PUBLIC_SCHEMA, Placement, Spread, TableDef, shard_of};
use alluvia_types::{Error, ErrorKind, Result, TableId, Version};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Where a table lies.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlacedTable {
    /// What its definition asks for, or what tables without a wish have.
    pub placement: Placement,
    /// In the order of their slots; at least one.
    pub shards: Vec<Shard>,
    /// How many replicas of a shard were to have a body before it is decided when the table was made; at least 1. See
    /// [`PlacedTable::quorum`].
    pub write_quorum: u32,
}

/// A shard, and its replicas.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Shard {
    /// Its number, of those of tables.
    pub id: TableId,
    /// How often its replicas have changed.
    pub epoch: Epoch,
    /// The workers that have it.
    pub replicas: Vec<NodeId>,
    /// Those of them that have had it since a version, and not from the first.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub copies: BTreeMap<NodeId, Version>,
}

impl Shard {
    /// The replicas that have it at a version.
    pub fn replicas_at(&self, version: Version) -> Vec<NodeId> {
        let has = |node: &&NodeId| self.copies.get(node).is_none_or(|since| *since <= version);
        self.replicas.iter().filter(has).copied().collect()
    }
}

/// How many shards a table has for each worker where it does not say (VOLAP, III-D: several, so that skew is shared out).
const SHARDS_PER_WORKER: u32 = 4;

impl PlacedTable {
    /// Places a new table on workers, round robin from a place that its number gives. `number` gives numbers for its shards.
    ///
    /// Errors: `InvalidDefinition` where it cannot lie as its definition asks; `Busy` where there are no workers.
    pub fn new(def: &TableDef, workers: &[NodeId], mut number: impl FnMut() -> Result<TableId>) -> Result<PlacedTable> {
        let placement = def.options.placement.clone().unwrap_or_else(|| Placement::of_table(def));
        placement.check(def)?;
        if workers.is_empty() {
            return Err(Error::new(
                ErrorKind::Busy,
                format!("table '{}' has nowhere to lie: no worker has joined", def.name),
            )
            .with_hint("start a node with the role `worker`"));
        }
        let count = workers.len() as u32;
        let shards = match (&placement.spread, placement.shards) {
            (Spread::Copied, _) => 1,
            (_, 0) => SHARDS_PER_WORKER * count,
            (_, shards) => shards,
        };
        let replicas = match (&placement.spread, placement.replicas) {
            (Spread::Copied, _) => count,
            (_, 0) => 1,
            (_, replicas) => replicas.min(count),
        };
        let first = def.id.0 % count;
        let place = |at: u32, copy: u32| workers[((first + at + copy) % count) as usize];
        let shard = |at: u32| {
            let replicas = (0..replicas).map(|copy| place(at, copy)).collect();
            Ok(Shard { id: number()?, epoch: Epoch(1), replicas, copies: BTreeMap::new() })
        };
        let shards = (0..shards).map(shard).collect::<Result<Vec<_>>>()?;
        let write_quorum = match placement.write_quorum {
            0 => replicas,
            quorum => quorum.min(replicas),
        };
        Ok(PlacedTable { placement, shards, write_quorum })
    }

    /// Whether a keeper may take it for a new table: numbers that are new, replicas that are workers.
    pub(crate) fn check_new(&self, is_new: impl Fn(TableId) -> bool, is_worker: impl Fn(NodeId) -> bool) -> Result<()> {
        let refuse = |what: &str| Err(Error::internal(format!("a new table is placed wrongly: {what}")));
        let numbers: BTreeSet<TableId> = self.shards.iter().map(|shard| shard.id).collect();
        if self.shards.is_empty() || numbers.len() < self.shards.len() || !numbers.iter().all(|id| is_new(*id)) {
            return refuse("numbers of its shards are taken");
        }
        for shard in &self.shards {
            let replicas: BTreeSet<NodeId> = shard.replicas.iter().copied().collect();
            let quorum = 1..=replicas.len() as u32;
            if replicas.len() < shard.replicas.len() || !quorum.contains(&self.write_quorum) {
                return refuse("its replicas are too few for its write quorum");
            }
            if !replicas.iter().all(|node| is_worker(*node)) {
                let what = "a worker that the table was to lie on has not joined";
                return Err(Error::new(ErrorKind::Conflict, what).with_hint("run the statement again"));
            }
        }
        Ok(())
    }

    /// The shard of a slot, by its place among the shards.
    pub fn shard_of(&self, slot: u16) -> usize {
        shard_of(slot, self.shards.len() as u32) as usize
    }

    /// How many replicas of a shard must have a body before it is decided. Where the definition does not say: all that there are, so that
    /// writes go on while one that is lost is made anew.
    pub fn quorum(&self, shard: &Shard) -> u32 {
        match self.placement.write_quorum {
            0 => shard.replicas.len().max(1) as u32,
            // A table that was made when there were few workers has it once it has its replicas.
            quorum => quorum.min(self.write_quorum.max(shard.replicas.len() as u32)),
        }
    }

    /// How many replicas a shard is to have, of so many workers.
    pub fn wanted(&self, workers: usize) -> usize {
        match self.placement.spread {
            Spread::Copied => workers,
            _ => (self.placement.replicas.max(1) as usize).min(workers),
        }
    }

    pub(crate) fn shard_mut(&mut self, id: TableId) -> Option<&mut Shard> {
        self.shards.iter_mut().find(|shard| shard.id == id)
    }

    /// A shard by its number.
    pub fn shard(&self, id: TableId) -> Option<&Shard> {
        self.shards.iter().find(|shard| shard.id == id)
    }
}

/// The definition of a shard at its workers: that of its table, by another number and name. Names of shards are no names of tables: each
/// is unique, and none is seen by SQL.
pub fn shard_def(def: &TableDef, shard: TableId) -> TableDef {
    let name = format!("shard {shard}");
    TableDef { id: shard, schema: PUBLIC_SCHEMA.to_owned(), name, ..def.clone() }
}
