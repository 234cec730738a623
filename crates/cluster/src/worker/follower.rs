//! Following: what a worker does next, of decisions that it was fed.
//!
//! Invariants:
//! - D3: decisions are followed in order. One whose body is missing is waited for, and nothing after it is followed before.
//! - Bodies are settled after the versions that they are in are durable in the databases of all workers: until then one may ask for them.

use super::{Bodies, Local, Missing, local};
use crate::decision::Decision;
use crate::image::Image;
use crate::keeper::Feed;
use crate::words::{BatchId, NodeId};
use alluvia_catalog::Catalog;
use alluvia_commit::{Followed, encode};
use alluvia_snapshot::NewBatch;
use alluvia_types::{Error, ErrorKind, Result, TableId, Version, planted};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What to do next.
#[derive(Debug)]
pub enum Step {
    /// Follow this, with [`alluvia_commit::Committer::follow`], and say that it is [followed](Follower::followed).
    Follow(Followed),
    /// Fetch a body from one of these, and stage it.
    Fetch(Missing),
    /// Ask for the decisions after this version. What was followed should be made durable first.
    Feed(Version),
}

/// What is over once a version is durable everywhere.
#[derive(Debug)]
struct Over {
    version: Version,
    bodies: Vec<(BatchId, TableId)>,
    /// Below this the gateway's bodies are over, too.
    floor: Option<BatchId>,
}

/// Where a worker is.
#[derive(Debug)]
pub struct Follower {
    node: NodeId,
    /// Followed through this version, durable or not.
    through: Version,
    next: VecDeque<Arc<Decision>>,
    /// Versions through this one have nothing for this node, which is new; and when that was decided.
    skipped: Option<(Version, i64)>,
    /// What the step that is under way has in it.
    current: Option<Over>,
    /// What may be settled once a version is durable everywhere.
    settled: Vec<Over>,
}

impl Follower {
    /// Of a node whose database is at a version.
    pub fn new(node: NodeId, through: Version) -> Follower {
        Follower { node, through, next: VecDeque::new(), skipped: None, current: None, settled: Vec::new() }
    }

    /// After a start: bodies of batches that an image says are over may go once all workers have followed to it.
    pub fn started(&mut self, image: &Image, bodies: &Bodies) {
        for (&gateway, state) in &image.nodes {
            let id = |sequence| BatchId { gateway, incarnation: state.incarnation, sequence };
            let over = state.decided.keys().map(|&sequence| id(sequence));
            let over = over.flat_map(|batch| bodies.shards_of(batch).into_iter().map(move |shard| (batch, shard)));
            let (version, bodies, floor) = (image.version, over.collect(), Some(id(state.floor)));
            self.settled.push(Over { version, bodies, floor });
        }
    }

    fn has_shards(&self, image: &Image) -> bool {
        image.placed.values().flat_map(|placed| &placed.shards).any(|shard| shard.replicas.contains(&self.node))
    }

    /// Followed through this version.
    pub fn through(&self) -> Version {
        self.through
    }

    /// Decisions that wait to be followed.
    pub fn waiting(&self) -> usize {
        self.next.len()
    }

    /// What to do next. `catalog` are the database's newest definitions.
    ///
    /// Errors: as [`local`].
    pub fn step(&mut self, catalog: &Catalog, bodies: &Bodies) -> Result<Step> {
        if let Some((last, commit_micros)) = self.skipped.filter(|(last, _)| *last > self.through) {
            let version = self.through.next();
            self.current = Some(Over { version, bodies: Vec::new(), floor: None });
            self.skipped = Some((last, commit_micros));
            return Ok(Step::Follow(Followed { version, commit_micros, body: encode(&NewBatch::default())? }));
        }
        let Some(decision) = self.next.front() else { return Ok(Step::Feed(self.through)) };
        Ok(match local(self.node, decision, catalog, bodies)? {
            Local::Missing(missing) => Step::Fetch(missing),
            Local::Batch { followed, bodies, floor } => {
                self.current = Some(Over { version: followed.version, bodies, floor });
                Step::Follow(followed)
            }
        })
    }

    /// The step is done: the version is in the database's log, durable or not.
    pub fn followed(&mut self) {
        let Some(current) = self.current.take() else { return };
        if self.next.front().is_some_and(|next| next.version == current.version) {
            self.next.pop_front();
        }
        self.through = current.version;
        if !current.bodies.is_empty() || current.floor.is_some() {
            self.settled.push(current);
        }
    }

    /// More decisions. Those that it has are passed over.
    ///
    /// Errors: `Corrupt` where the keeper has given up decisions that this worker lacks.
    pub fn fed(&mut self, feed: Feed) -> Result<()> {
        let decisions = match feed {
            Feed::Decisions(decisions) => decisions,
            Feed::Image(image) if image.version <= self.through => return Ok(()),
            Feed::Image(image) if self.through == Version(0) && !self.has_shards(&image) => {
                // It is new: nothing of what was decided before it came was ever here.
                self.skipped = Some((image.version, image.commit_micros));
                return Ok(());
            }
            Feed::Image(image) => {
                let what = format!(
                    "the keeper has no decisions before version {}, and this worker is at {}",
                    image.version, self.through
                );
                return Err(
                    Error::new(ErrorKind::Corrupt, what).with_hint("let the worker begin anew, in an empty directory")
                );
            }
        };
        for decision in decisions {
            let last = self.next.back().map_or(self.through, |last| last.version);
            if decision.version == last.next() {
                self.next.push_back(decision);
            }
        }
        Ok(())
    }

    /// The databases of all workers are durable through a version: gives up what is in them.
    pub fn settle(&mut self, followed: Version, bodies: &Bodies) -> Result<()> {
        let followed = followed.min(self.through);
        // Of each gateway the greatest.
        let mut floors: BTreeMap<NodeId, BatchId> = BTreeMap::new();
        let mut over = Vec::new();
        for Over { bodies, floor, .. } in self.settled.extract_if(.., |over| over.version <= followed) {
            over.extend(bodies);
            if let Some(floor) = floor {
                let known = floors.entry(floor.gateway).or_insert(floor);
                *known = (*known).max(floor);
            }
        }
        if over.is_empty() && floors.is_empty() {
            return Ok(());
        }
        bodies.settle(&over)?;
        if planted("body dropped early") {
            floors.values_mut().for_each(|floor| floor.sequence += 1);
        }
        floors.into_values().try_for_each(|floor| bodies.drop_below(floor))
    }

    /// The disk was full: what was not durable is followed again.
    pub fn go_back(&mut self, durable: Version) {
        self.through = durable;
        self.next.clear();
        self.current = None;
        self.settled.retain(|over| over.version <= durable);
    }
}
