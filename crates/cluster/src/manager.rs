//! What a keeper decides by itself: a worker of which nothing is heard loses its shards, and shards with too few replicas are copied to
//! workers that are there (VOLAP, III-F and IV-E: replication is migration without deletion, started by too few replicas).
//!
//! Invariants:
//! - A replica of a shard is taken away only while another one is heard that has all its rows, or their bodies: not the last one, not one
//!   beside which there are only copies that are not finished, and none where nothing is heard of all.
//! - A worker copies one shard at a time: it goes through the version of one copy before it is given another.
//! - What is decided is a function of the image and of what was heard; nothing is done here.

use crate::decision::{Copied, Decision, Left, What};
use crate::image::Image;
use crate::placed::{PlacedTable, Shard};
use crate::words::NodeId;
use alluvia_types::{TableId, Version, planted};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// How long workers may be silent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// After so long, nothing is copied from a worker or to it.
    pub suspect_after: Duration,
    /// After so long, it is taken for dead, and its shards are copied from other replicas.
    pub dead_after: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { suspect_after: Duration::from_secs(1), dead_after: Duration::from_secs(60) }
    }
}

/// What was heard of a worker last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Heard {
    /// When, by the keeper's clock.
    pub at: Duration,
    /// Its database is durable through this.
    pub durable: Version,
}

/// What a keeper knows when it looks what there is to do.
pub(crate) struct Situation<'a> {
    pub image: &'a Image,
    /// The newest decisions, all that a worker may not be through.
    pub decisions: &'a VecDeque<Arc<Decision>>,
    pub heard: &'a BTreeMap<NodeId, Heard>,
    /// Copies that were given up are not tried again until then.
    pub failed: &'a BTreeMap<(NodeId, TableId), Duration>,
    pub now: Duration,
    pub limits: Limits,
    /// Decisions are kept after this version: who is behind it cannot be given a copy.
    pub kept_after: Version,
}

/// What to decide next, if there is anything.
pub(crate) fn plan(situation: &Situation<'_>) -> Option<What> {
    situation.lost().map(What::Left).or_else(|| situation.copy().map(|copied| What::Copied(Box::new(copied))))
}

/// What to decide where a worker cannot copy a shard: it has it no more. If it has the rows after all, others must have them. Where the shard
/// is gone, or another's, this changes nothing, and tells the worker so.
pub(crate) fn give_up(situation: &Situation<'_>, node: NodeId, shard: TableId) -> Option<What> {
    let placed = situation.image.placed.values().find_map(|placed| placed.shard(shard));
    let has_rows = |shard: &Shard| shard.replicas.contains(&node) && situation.is_whole(shard, node);
    let may = placed.is_none_or(|shard| !has_rows(shard) || situation.is_whole_without(shard, node));
    may.then(|| What::Left(Left { node, is_dead: false, shards: vec![shard] }))
}

impl Situation<'_> {
    fn silence(&self, node: NodeId) -> Duration {
        self.heard.get(&node).map_or(Duration::ZERO, |heard| self.now.saturating_sub(heard.at))
    }

    /// Whether something was heard of a worker a moment ago.
    fn is_here(&self, node: NodeId) -> bool {
        let is_dead = self.image.nodes.get(&node).is_none_or(|state| state.is_dead);
        !is_dead && self.heard.contains_key(&node) && self.silence(node) < self.limits.suspect_after
    }

    fn durable(&self, node: NodeId) -> Version {
        self.heard.get(&node).map_or(Version(0), |heard| heard.durable)
    }

    /// Whether a replica has all that the shard had when it became one.
    fn is_whole(&self, shard: &Shard, node: NodeId) -> bool {
        let is_whole = shard.copies.get(&node).is_none_or(|since| self.durable(node) >= *since);
        is_whole || planted("copy counted before it is made")
    }

    /// Whether a replica lacks the body of a batch that was decided: others must be there to give it.
    fn lacks(&self, shard: &Shard, node: NodeId) -> bool {
        let newest = self.decisions.iter().rev().take_while(|decision| decision.version > self.durable(node));
        let touched = newest.filter_map(|decision| decision.batch()).flat_map(|decided| &decided.touched);
        touched.filter(|touched| touched.shard == shard.id).any(|touched| !touched.holders.contains(&node))
    }

    /// Whether another replica is heard that has all rows of a shard that were decided, or their bodies.
    fn is_whole_without(&self, shard: &Shard, node: NodeId) -> bool {
        let others = shard.replicas.iter().copied().filter(|other| *other != node);
        others.into_iter().any(|other| self.is_here(other) && self.is_whole(shard, other) && !self.lacks(shard, other))
    }

    /// A worker of which nothing is heard, and the shards that others have as well.
    fn lost(&self) -> Option<Left> {
        let is_lost = |node: &NodeId| self.silence(*node) >= self.limits.dead_after;
        let shards = |node: NodeId| -> Vec<_> {
            let shards = self.image.placed.values().flat_map(|placed| &placed.shards);
            let shards = shards.filter(|shard| shard.replicas.contains(&node) && self.is_whole_without(shard, node));
            shards.map(|shard| shard.id).collect()
        };
        self.image.followers().into_iter().filter(is_lost).find_map(|node| {
            let (shards, state) = (shards(node), self.image.nodes.get(&node));
            let is_news = !shards.is_empty() || state.is_some_and(|state| !state.is_dead);
            is_news.then_some(Left { node, is_dead: true, shards })
        })
    }

    /// A shard that lacks a replica, and who is to copy it from whom.
    fn copy(&self) -> Option<Copied> {
        let workers = self.image.workers();
        // Who is through all of its copies, and can follow what is decided from now on.
        let is_free = |node: NodeId| {
            let shards = self.image.placed.values().flat_map(|placed| &placed.shards);
            let copies = shards.filter_map(|shard| shard.copies.get(&node)).max();
            self.durable(node) >= self.kept_after.max(copies.copied().unwrap_or_default())
        };
        let free: Vec<NodeId> = workers.iter().copied().filter(|node| self.is_here(*node) && is_free(*node)).collect();
        for (table, placed) in &self.image.placed {
            let Some(entry) = self.image.catalog.by_id(*table) else { continue };
            let wanted = placed.wanted(workers.len());
            for shard in placed.shards.iter().filter(|shard| shard.replicas.len() < wanted) {
                let has_rows = |node: &NodeId| self.is_here(*node) && self.is_whole(shard, *node);
                let sources: Vec<NodeId> = shard.replicas.iter().copied().filter(has_rows).collect();
                let has_failed = |node| self.failed.get(&(node, shard.id)).is_some_and(|until| self.now < *until);
                let may_copy = |node: &&NodeId| !shard.replicas.contains(node) && !has_failed(**node);
                let target = free.iter().filter(may_copy).min_by_key(|node| self.load(**node));
                if let (Some(&node), false) = (target, sources.is_empty()) {
                    return Some(Copied { node, def: entry.def.as_ref().clone(), shard: shard.id, sources });
                }
            }
        }
        None
    }

    /// How many shards a worker has.
    fn load(&self, node: NodeId) -> usize {
        let of = |placed: &PlacedTable| placed.shards.iter().filter(|shard| shard.replicas.contains(&node)).count();
        self.image.placed.values().map(of).sum()
    }
}
