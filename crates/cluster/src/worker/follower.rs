//! Following: what a worker does next, of decisions that it was fed.
//!
//! Invariants:
//! - D3: decisions are followed in order. One whose body is missing is waited for, and nothing after it is followed before.
//! - Bodies are settled after the versions that they are in are durable in the databases of all workers: until then one may ask for them.

use super::{Bodies, Copying, Local, Missing, dropped, local};
use crate::decision::{Copied, Decision, Left, What};
use crate::image::Image;
use crate::keeper::Feed;
use crate::placed::shard_def;
use crate::words::{BatchId, NodeId};
use alluvia_catalog::{Catalog, Change};
use alluvia_commit::{Followed, encode};
use alluvia_snapshot::{NewBatch, StagedLoad};
use alluvia_types::{Error, ErrorKind, Result, TableId, Version, planted};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What to do next.
#[derive(Debug)]
pub enum Step {
    /// Follow this, with [`alluvia_commit::Committer::follow`], and say that it is [followed](Follower::followed).
    Follow(Followed),
    /// Fetch a body from one of these, and stage it. Where nobody has it, ask for decisions: one may say that the shard is not to be here.
    Fetch(Missing),
    /// Keep the newest version of a shard for whoever copies it ([`Copies::keep`](super::Copies::keep)), and say that it is
    /// [kept](Follower::kept). What was followed must be visible first.
    Keep(TableId, Version),
    /// Copy a shard, stage its rows as a load, and say that it is [copied](Follower::copied). What was dropped before must be out of the way
    /// (the shard may have been here once). Where nobody gives the rows, let the keeper [give it up](crate::message::ToKeeper), and ask for
    /// decisions: one may say that the shard is not to be here.
    Copy(Box<Copying>),
    /// Ask for the decisions after this version. What was followed should be made durable first.
    Feed(Version),
}

/// A node that has shards and lacks decisions asks so often whether it is given up: answers may be late.
const IN_VAIN_MAX: u32 = 50;

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
    /// Versions through this one have nothing for this node, which has no shards; and when that was decided.
    skipped: Option<(Version, i64)>,
    /// What the keeper has given in the place of decisions that it keeps no more, while it is still to be seen whether this node has shards.
    jump: Option<Arc<Image>>,
    /// How often there were no decisions after it.
    in_vain: u32,
    /// What is kept for others of the next decision.
    kept: Option<Version>,
    /// The rows of the shard that the next decision brings.
    copied: Option<(Version, StagedLoad)>,
    /// What the step that is under way has in it.
    current: Option<Over>,
    /// What may be settled once a version is durable everywhere.
    settled: Vec<Over>,
}

impl Follower {
    /// Of a node whose database is at a version.
    pub fn new(node: NodeId, through: Version) -> Follower {
        let (next, settled) = (VecDeque::new(), Vec::new());
        Follower {
            node,
            through,
            next,
            skipped: None,
            jump: None,
            in_vain: 0,
            kept: None,
            copied: None,
            current: None,
            settled,
        }
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

    /// Decisions after this version are to be asked for.
    pub fn fed_through(&self) -> Version {
        let next = self.next.back().map_or(self.through, |last| last.version);
        self.jump.as_ref().map_or(next, |jump| jump.version)
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
            // What it had is not its own any more.
            let body = encode(&NewBatch { changes: dropped(catalog), ..NewBatch::default() })?;
            return Ok(Step::Follow(Followed { version, commit_micros, body }));
        }
        let Some(decision) = self.next.front().filter(|_| self.jump.is_none()) else {
            return Ok(Step::Feed(self.fed_through()));
        };
        if let What::Copied(copied) = &decision.what
            && let Some(step) = self.copy(decision, copied, catalog)?
        {
            return Ok(step);
        }
        Ok(match local(self.node, decision, catalog, bodies, &|shard| self.is_leaving(shard))? {
            Local::Missing(missing) => Step::Fetch(missing),
            Local::Batch { followed, bodies, floor } => {
                self.current = Some(Over { version: followed.version, bodies, floor });
                Step::Follow(followed)
            }
        })
    }

    /// What a decision about a copy asks for here; `None` where that is nothing (any more).
    fn copy(&self, decision: &Decision, copied: &Copied, catalog: &Catalog) -> Result<Option<Step>> {
        let Copied { node, def, shard, sources } = copied;
        let version = decision.version;
        let is_here = catalog.by_id(*shard).is_some();
        if *node != self.node {
            let is_due = is_here && sources.contains(&self.node) && self.kept != Some(version);
            return Ok(is_due.then_some(Step::Keep(*shard, self.through)));
        }
        if is_here || self.is_leaving(*shard) {
            return Ok(None);
        }
        let def = shard_def(def, *shard);
        let Some((_, load)) = self.copied.as_ref().filter(|(at, _)| *at == version) else {
            return Ok(Some(Step::Copy(Box::new(Copying { def, at: self.through, sources: sources.clone() }))));
        };
        let (changes, loads) = (vec![Change::CreateTable { def }], vec![load.clone()]);
        let body = encode(&NewBatch { changes, loads, ..NewBatch::default() })?;
        Ok(Some(Step::Follow(Followed { version, commit_micros: decision.commit_micros, body })))
    }

    /// Whether a decision that is to be followed takes a shard away from here.
    fn is_leaving(&self, shard: TableId) -> bool {
        self.next.iter().any(|later| match &later.what {
            What::Left(Left { node, shards, .. }) => *node == self.node && shards.contains(&shard),
            _ => false,
        })
    }

    /// What the next decision asks to be kept is.
    pub fn kept(&mut self) {
        self.kept = Some(self.through.next());
    }

    /// The rows of a shard as they are at a version are staged. If that is not what the next decision asks for any more, they are not used;
    /// tells whether they are.
    pub fn copied(&mut self, at: Version, load: StagedLoad) -> bool {
        let is_due = at == self.through || planted("copy of an older version");
        if is_due {
            self.copied = Some((self.through.next(), load));
        }
        is_due
    }

    /// The step is done: the version is in the database's log, durable or not.
    pub fn followed(&mut self) {
        let nothing = Over { version: self.through.next(), bodies: Vec::new(), floor: None };
        let current = self.current.take().unwrap_or(nothing);
        (self.kept, self.copied) = (None, None);
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
    /// Errors: `Corrupt` where the keeper has given up decisions that this worker lacks, and there are shards that it has.
    pub fn fed(&mut self, feed: Feed) -> Result<()> {
        let feed = match (feed, self.jump.take()) {
            (Feed::Image(image), jump) => {
                let known = jump.as_ref().map_or(self.through, |jump| jump.version);
                let newer = (image.version > known).then_some(image);
                return self.jump(newer.or(jump));
            }
            (Feed::Decisions(decisions), Some(mut jump)) => {
                // Only those that are asked for after it tell that there are no more.
                let follows = |first: &Arc<Decision>| first.version <= jump.version.next();
                if decisions.first().is_some_and(|first| !follows(first)) {
                    self.jump = Some(jump);
                    return Ok(());
                }
                let is_all = decisions.last().is_none_or(|last| last.version <= jump.version);
                for (at, decision) in decisions.iter().enumerate() {
                    if decision.version > jump.version {
                        Arc::make_mut(&mut jump).apply(decision)?;
                        // At the first version at which it has none: from then on it may be given some again.
                        if !self.has_shards(&jump) {
                            self.jump(Some(jump))?;
                            self.next.extend(decisions[at + 1..].iter().cloned());
                            return Ok(());
                        }
                    }
                }
                self.in_vain = if is_all { self.in_vain + 1 } else { 0 };
                return if self.in_vain < IN_VAIN_MAX { self.jump(Some(jump)) } else { Err(self.lacks(&jump)) };
            }
            (feed, None) => feed,
        };
        let Feed::Decisions(decisions) = feed else { return Ok(()) };
        for decision in decisions {
            let last = self.next.back().map_or(self.through, |last| last.version);
            if decision.version == last.next() {
                self.next.push_back(decision);
            }
        }
        Ok(())
    }

    /// The keeper has given up decisions that this node lacks. If it has no shards by now, nothing of what was decided is of it: it is new, or
    /// was given up.
    fn jump(&mut self, image: Option<Arc<Image>>) -> Result<()> {
        match image {
            Some(image) if self.has_shards(&image) => self.jump = Some(image),
            Some(image) => {
                self.next.clear();
                self.skipped = Some((image.version, image.commit_micros));
            }
            None => {}
        }
        Ok(())
    }

    fn lacks(&self, image: &Image) -> Error {
        let what = format!(
            "the keeper has no decisions before version {}, and this worker is at {}",
            image.version, self.through
        );
        Error::new(ErrorKind::Corrupt, what).with_hint("let the worker begin anew, in an empty directory")
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

    /// The disk was full: what was not durable is followed again. Returns what was staged for it.
    pub fn go_back(&mut self, durable: Version) -> Option<StagedLoad> {
        self.through = durable;
        self.next.clear();
        (self.current, self.kept, self.jump) = (None, None, None);
        self.settled.retain(|over| over.version <= durable);
        self.copied.take().map(|(_, load)| load)
    }
}
