//! What a keeper decides by itself: a worker of which nothing is heard loses its shards, and shards with too few replicas are copied to
//! workers that are there (VOLAP, III-F and IV-E: replication is migration without deletion, started by too few replicas).
//!
//! Invariants:
//! - The last replica of a shard is never taken away, however long nothing is heard of it; nor one beside which there are only copies that
//!   are not finished.
//! - A worker copies one shard at a time: it goes through the version of one copy before it is given another.
//! - What is decided is a function of the image and of what was heard; nothing is done here.

use crate::decision::{Copied, Left, What};
use crate::image::Image;
use crate::placed::{PlacedTable, Shard};
use crate::words::NodeId;
use alluvia_types::{TableId, Version, planted};
use std::collections::BTreeMap;
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
    pub heard: &'a BTreeMap<NodeId, Heard>,
    pub now: Duration,
    pub limits: Limits,
    /// Decisions are kept after this version: who is behind it cannot be given a copy.
    pub kept_after: Version,
}

/// What to decide next, if there is anything.
pub(crate) fn plan(situation: &Situation<'_>) -> Option<What> {
    situation.lost().map(What::Left).or_else(|| situation.copy().map(|copied| What::Copied(Box::new(copied))))
}

/// What to decide where a worker cannot copy a shard: it has it no more, if others have. Where the shard is gone, too: then this changes
/// nothing, and tells the worker so.
pub(crate) fn give_up(situation: &Situation<'_>, node: NodeId, shard: TableId) -> Option<What> {
    let placed = situation.image.placed.values().find_map(|placed| placed.shard(shard));
    let has_rows = |shard: &Shard| shard.replicas.contains(&node) && situation.is_whole(shard, node);
    let may = placed.is_none_or(|shard| !has_rows(shard) || situation.is_whole_without(shard, node));
    may.then(|| What::Left(Left { node, is_dead: false, shards: vec![shard] }))
}

impl Situation<'_> {
    fn silence(&self, node: NodeId) -> Duration {
        self.heard.get(&node).map_or(Duration::MAX, |heard| self.now.saturating_sub(heard.at))
    }

    /// Whether a replica has all that the shard had when it became one.
    fn is_whole(&self, shard: &Shard, node: NodeId) -> bool {
        let durable = self.heard.get(&node).map_or(Version(0), |heard| heard.durable);
        let is_whole = shard.copies.get(&node).is_none_or(|since| durable >= *since);
        is_whole || planted("copy counted before it is made")
    }

    fn is_whole_without(&self, shard: &Shard, node: NodeId) -> bool {
        let is_dead = |node: &NodeId| self.image.nodes.get(node).is_none_or(|state| state.is_dead);
        shard.replicas.iter().any(|other| *other != node && self.is_whole(shard, *other) && !is_dead(other))
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
        let is_here = |node: NodeId| self.silence(node) < self.limits.suspect_after;
        // Who is through all of its copies, and can follow what is decided from now on.
        let is_free = |node: NodeId| {
            let durable = self.heard.get(&node).map_or(Version(0), |heard| heard.durable);
            let shards = self.image.placed.values().flat_map(|placed| &placed.shards);
            let is_through = shards.filter_map(|shard| shard.copies.get(&node)).all(|since| durable >= *since);
            is_through && durable >= self.kept_after
        };
        let free: Vec<NodeId> = workers.iter().copied().filter(|node| is_here(*node) && is_free(*node)).collect();
        let shards = self
            .image
            .placed
            .iter()
            .flat_map(|(table, placed)| placed.shards.iter().map(move |shard| (*table, placed, shard)));
        for (table, placed, shard) in shards {
            let lacks = shard.replicas.len() < placed.wanted(workers.len());
            if !lacks {
                continue;
            }
            let sources: Vec<NodeId> =
                shard.replicas.iter().copied().filter(|node| is_here(*node) && self.is_whole(shard, *node)).collect();
            let target = free.iter().filter(|node| !shard.replicas.contains(node)).min_by_key(|node| self.load(**node));
            if let (Some(&node), Some(entry), false) = (target, self.image.catalog.by_id(table), sources.is_empty()) {
                return Some(Copied { node, def: entry.def.as_ref().clone(), shard: shard.id, sources });
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
