//! The system image: what all decisions through a version come to (VOLAP, III-B). Keepers decide by it, gateways route by it.
//!
//! Invariants:
//! - It is a function of the decisions: whoever has applied the same ones has the same image.
//! - [`Image::check`] changes nothing; [`Image::apply`] refuses what does not come next, and nothing else may fail in it that a check has
//!   let pass.

use crate::decision::{Copied, Decided, Decision, Left, What};
use crate::keeper::{Feed, Proposal};
use crate::placed::PlacedTable;
use crate::words::{BatchId, NodeId, Role};
use alluvia_catalog::{Catalog, Change};
use alluvia_snapshot::{KEYS_KEPT, KeyRecord, ProducerState};
use alluvia_types::{Error, ErrorKind, Result, TableId, Version, planted};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// What all decisions through a version come to.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Image {
    /// The random number of the cluster.
    pub cluster: u64,
    /// Through which version.
    pub version: Version,
    /// The time of the last decision.
    pub commit_micros: i64,
    /// The definitions.
    #[serde(with = "shared")]
    pub catalog: Arc<Catalog>,
    /// Where tables lie.
    pub placed: BTreeMap<TableId, PlacedTable>,
    /// Who has joined.
    pub nodes: BTreeMap<NodeId, NodeState>,
    /// The last batch of each producer.
    pub producers: BTreeMap<String, ProducerState>,
    /// Keys of clients, for as long as they are kept; oldest first.
    pub keys: VecDeque<KeyRecord>,
    /// The last version of the rows of each table.
    #[serde(default)]
    pub written: BTreeMap<TableId, Version>,
    /// The last version of the rows of each shard.
    #[serde(default)]
    pub shards_written: BTreeMap<TableId, Version>,
    /// Numbers of tables, shards and schemas are given from this one on.
    pub next_number: u32,
}

/// A node as of a version.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeState {
    /// What it does.
    pub roles: Vec<Role>,
    /// Where it is reached.
    pub address: String,
    /// How often it has joined.
    pub incarnation: u64,
    /// The number of the process that did last.
    pub process: u64,
    /// Nothing was heard of it for too long: it is given nothing until it joins again.
    #[serde(default)]
    pub is_dead: bool,
    /// A gateway has no open batch below this sequence.
    pub floor: u64,
    /// Versions of those of its batches from the floor on that are decided, by their sequence.
    pub decided: BTreeMap<u64, Version>,
}

impl Image {
    /// Of a cluster that is new.
    pub fn new(cluster: u64) -> Image {
        Image {
            cluster,
            version: Version(0),
            commit_micros: 0,
            catalog: Arc::default(),
            placed: BTreeMap::new(),
            nodes: BTreeMap::new(),
            producers: BTreeMap::new(),
            keys: VecDeque::new(),
            written: BTreeMap::new(),
            shards_written: BTreeMap::new(),
            next_number: 1,
        }
    }

    /// The workers that have joined and are not dead, ascending.
    pub fn workers(&self) -> Vec<NodeId> {
        let is_worker = |(_, state): &(&NodeId, &NodeState)| state.roles.contains(&Role::Worker) && !state.is_dead;
        self.nodes.iter().filter(is_worker).map(|(node, _)| *node).collect()
    }

    /// The workers that follow the decisions, or must once they are back: dead ones with shards that nobody else has are among them.
    pub fn followers(&self) -> BTreeSet<NodeId> {
        let shards = self.placed.values().flat_map(|placed| &placed.shards);
        shards.flat_map(|shard| shard.replicas.iter().copied()).chain(self.workers()).collect()
    }

    /// The version of a batch that is decided, if its gateway may ask about it.
    pub fn decided(&self, id: BatchId) -> Option<Version> {
        let state = self.nodes.get(&id.gateway).filter(|state| state.incarnation == id.incarnation)?;
        state.decided.get(&id.sequence).copied()
    }

    /// Whether a batch may be decided as things are, but for its changes, its producer and its key.
    ///
    /// Errors: `Conflict` where its shards have moved or its gateway was fenced: then it is staged anew, or not at all.
    pub fn check(&self, proposal: &Proposal) -> Result<()> {
        let Decided { id, changes, placed, touched, .. } = &proposal.decided;
        let gateway = self.nodes.get(&id.gateway).filter(|state| state.roles.contains(&Role::Gateway));
        let is_current = gateway.is_some_and(|state| state.incarnation == id.incarnation);
        if !is_current && !planted("fence passed over") {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!("batch {id} is of a gateway that has started anew since"),
            )
            .with_hint("send it again"));
        }
        if gateway.is_some_and(|state| id.sequence < state.floor) {
            return Err(Error::internal(format!("batch {id} is below the floor that its gateway has stated")));
        }
        for (table, of_table) in placed {
            if changes.iter().any(|change| matches!(change, Change::CreateTable { def } if def.id == *table)) {
                let workers = self.workers();
                let is_worker = |node| workers.contains(&node);
                of_table.check_new(|id| id.0 < self.next_number && !self.is_taken(id), is_worker)?;
            }
        }
        for touched in touched {
            let own = placed.iter().find(|(table, _)| *table == touched.table).map(|(_, of_table)| of_table);
            let placed = self.placed.get(&touched.table).or(own);
            let moved = || lies_elsewhere(touched.shard);
            let shard = placed.and_then(|placed| placed.shard(touched.shard)).ok_or_else(moved)?;
            if shard.epoch != touched.epoch {
                return Err(moved());
            }
            let holders: BTreeSet<&NodeId> =
                touched.holders.iter().filter(|node| shard.replicas.contains(node)).collect();
            let quorum = placed.map_or(1, |placed| placed.quorum(shard)) as usize;
            let quorum = if planted("decided with fewer") { quorum - 1 } else { quorum };
            if holders.len() < quorum {
                let what = format!("{} replicas of shard {} have a batch, of {quorum}", holders.len(), touched.shard);
                return Err(Error::new(ErrorKind::Busy, what).with_hint("send it again once more workers are reached"));
            }
        }
        Ok(())
    }

    /// D7: whether what a batch has looked at is as it was. Asked of a batch that was not sent before.
    ///
    /// Errors: `Conflict`: it must look again.
    pub fn check_looked(&self, proposal: &Proposal) -> Result<()> {
        let is_written = |(shard, at): &(TableId, Version)| {
            *at == Version(0) || self.shards_written.get(shard).is_some_and(|written| written > at)
        };
        match proposal.looked.iter().any(is_written) && !planted("written since it was looked at") {
            true => Err(written_since()),
            false => Ok(()),
        }
    }

    /// Goes on with what a keeper has fed: an image, if one was, in the place of this one; then decisions. Those that it has are passed over.
    pub fn fed(image: &mut Arc<Image>, feed: Feed) -> Result<()> {
        match feed {
            Feed::Image(newer) if newer.version > image.version => *image = newer,
            Feed::Image(_) => {}
            Feed::Decisions(decisions) => {
                let next: Vec<_> = decisions.iter().filter(|decision| decision.version > image.version).collect();
                if !next.is_empty() {
                    let image = Arc::make_mut(image);
                    next.into_iter().try_for_each(|decision| image.apply(decision))?;
                }
            }
        }
        Ok(())
    }

    fn is_taken(&self, id: TableId) -> bool {
        let is_shard = || self.placed.values().any(|placed| placed.shard(id).is_some());
        self.catalog.by_id(id).is_some() || is_shard()
    }

    /// Goes on to the next version.
    ///
    /// Errors: it is not the next one, or does not fit to what was before it.
    pub fn apply(&mut self, decision: &Decision) -> Result<()> {
        let Decision { version, commit_micros, what } = decision;
        if *version != self.version.next() {
            let what = format!("decision {version} after version {}", self.version);
            return Err(Error::internal(what));
        }
        match what {
            What::Batch(decided) => self.apply_batch(*version, *commit_micros, decided)?,
            What::Joined { node, incarnation, process, roles, address } => {
                let (incarnation, process, roles, address) = (*incarnation, *process, roles.clone(), address.clone());
                let (is_dead, floor, decided) = (false, 1, BTreeMap::new());
                let state = NodeState { roles, address, incarnation, process, is_dead, floor, decided };
                self.nodes.insert(*node, state);
            }
            What::Copied(copied) => self.apply_copied(*version, copied),
            What::Left(left) => self.apply_left(left),
            What::Numbers { through } => self.next_number = self.next_number.max(through + 1),
        }
        (self.version, self.commit_micros) = (*version, *commit_micros);
        Ok(())
    }

    fn apply_copied(&mut self, version: Version, Copied { node, def, shard, .. }: &Copied) {
        let Some(shard) = self.placed.get_mut(&def.id).and_then(|placed| placed.shard_mut(*shard)) else { return };
        if !shard.replicas.contains(node) {
            shard.replicas.push(*node);
            shard.copies.insert(*node, version);
            shard.epoch = shard.epoch.next();
        }
    }

    fn apply_left(&mut self, Left { node, is_dead, shards }: &Left) {
        for shard in self.placed.values_mut().flat_map(|placed| &mut placed.shards) {
            if shards.contains(&shard.id) && shard.replicas.contains(node) {
                shard.replicas.retain(|replica| replica != node);
                shard.copies.remove(node);
                shard.epoch = shard.epoch.next();
            }
        }
        if let Some(state) = self.nodes.get_mut(node) {
            state.is_dead |= is_dead;
        }
    }

    fn apply_batch(&mut self, version: Version, commit_micros: i64, decided: &Decided) -> Result<()> {
        let Decided { id, floor, changes, placed, producer, key, .. } = decided;
        if !changes.is_empty() {
            self.catalog = Arc::new(self.catalog.apply(version, changes)?);
        }
        for (table, of_table) in placed {
            // Where a table lies that is there already, a gateway may have known only as it was.
            match self.catalog.by_id(*table) {
                Some(_) => drop(self.placed.entry(*table).or_insert_with(|| of_table.clone())),
                None => drop(self.placed.remove(table)),
            }
        }
        self.written.retain(|table, _| self.placed.contains_key(table));
        if !placed.is_empty() {
            let there: BTreeSet<TableId> =
                self.placed.values().flat_map(|placed| &placed.shards).map(|shard| shard.id).collect();
            self.shards_written.retain(|shard, _| there.contains(shard));
        }
        self.shards_written.extend(decided.touched.iter().map(|touched| (touched.shard, version)));
        self.written.extend(decided.tables().into_iter().map(|table| (table, version)));
        if let Some(mark) = producer {
            let state = ProducerState { epoch: mark.epoch, sequence: mark.sequence, version };
            self.producers.insert(mark.name.clone(), state);
        }
        let oldest = commit_micros.saturating_sub(KEYS_KEPT.as_micros() as i64);
        while self.keys.front().is_some_and(|record| record.commit_micros < oldest) {
            self.keys.pop_front();
        }
        self.keys.extend(key.map(|key| KeyRecord { key, version, commit_micros, rows: decided.rows() }));
        if let Some(state) = self.nodes.get_mut(&id.gateway) {
            state.decided.insert(id.sequence, version);
            state.floor = state.floor.max(*floor);
            state.decided = state.decided.split_off(&state.floor);
        }
        Ok(())
    }
}

/// What is in the message of a batch that is refused because it must look again.
const WRITTEN_SINCE: &str = "rows of a shard were written since";

fn written_since() -> Error {
    let what = format!("could not serialize access due to concurrent update: {WRITTEN_SINCE} they were looked at");
    Error::new(ErrorKind::Conflict, what).with_hint("run the statement again")
}

/// What is in the message of a batch that is refused because a shard of it has other replicas by now.
const LIES_ELSEWHERE: &str = "a shard of a batch lies elsewhere by now";

/// Why a batch is refused whose shard has other replicas by now.
pub(crate) fn lies_elsewhere(shard: TableId) -> Error {
    Error::new(ErrorKind::Conflict, format!("{LIES_ELSEWHERE}: shard {shard}")).with_hint("run the statement again")
}

/// Whether a batch was refused because a shard of it has other replicas by now: then it may be staged anew.
pub(crate) fn must_route_again(error: &Error) -> bool {
    error.kind() == ErrorKind::Conflict && error.message().contains(LIES_ELSEWHERE)
}

/// Whether a batch was refused because others have written to its shards since it looked at them: then it may look again.
pub(crate) fn must_look_again(error: &Error) -> bool {
    error.kind() == ErrorKind::Conflict && error.message().contains(WRITTEN_SINCE)
}

/// What is shared is saved as what it is.
mod shared {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::sync::Arc;

    pub(super) fn serialize<T: Serialize, S: Serializer>(value: &Arc<T>, serializer: S) -> Result<S::Ok, S::Error> {
        value.as_ref().serialize(serializer)
    }

    pub(super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Arc<T>, D::Error> {
        T::deserialize(from).map(Arc::new)
    }
}
