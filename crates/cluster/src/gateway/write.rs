//! One batch on its way: a state machine, which is told what happens and says what to do.
//!
//! ```text
//! begin --Stage to all replicas--> Staged ... (quorum of each shard) --Propose--> Decided --Done
//! ```
//!
//! Invariants:
//! - It proposes once; what it proposes never changes. So a proposal may be sent again until it is answered.
//! - It is done once. Before it has proposed, an error is final: nothing is decided. After that only the keeper can tell.

use super::split::Part;
use crate::decision::{Decided, Touched};
use crate::image::Image;
use crate::keeper::{Outcome, Proposal};
use crate::words::NodeId;
use alluvia_types::{Error, ErrorKind, Result, TableId, planted};
use std::collections::BTreeMap;

/// What happens to a batch.
#[derive(Debug)]
pub enum Event {
    /// A worker has a body, durable.
    Staged {
        /// For which shard.
        shard: TableId,
        /// Which worker.
        node: NodeId,
    },
    /// A worker has not, and will not.
    Refused {
        /// For which shard.
        shard: TableId,
        /// Which worker.
        node: NodeId,
        /// Why.
        error: Error,
    },
    /// Nothing is heard for a while: whoever is silent is asked again.
    Again,
    /// It has taken too long. Before it has proposed it is given up; after that it asks again.
    Late,
    /// The keeper has answered.
    Answered(Result<Outcome>),
}

/// What to do for a batch.
#[derive(Debug)]
pub enum Action {
    /// Send a body to a replica.
    Stage {
        /// To whom.
        node: NodeId,
        /// Which, by its place among the parts.
        part: usize,
    },
    /// Have it decided.
    Propose(Box<Proposal>),
    /// Tell whoever waits.
    Done(Result<Outcome>),
}

/// A batch on its way.
#[derive(Debug)]
pub struct Write {
    parts: Vec<Part>,
    state: State,
}

#[derive(Debug)]
enum State {
    Staging {
        /// What is proposed then, without what it touches.
        proposal: Box<Proposal>,
        /// Of each part what its replicas have said.
        said: Vec<BTreeMap<NodeId, Option<Error>>>,
    },
    Proposed(Box<Proposal>),
    Done,
}

impl Write {
    /// Begins a batch of such parts, and says what to do first. `proposal` touches nothing yet.
    pub fn begin(parts: Vec<Part>, proposal: Proposal) -> (Write, Vec<Action>) {
        let stage = |(at, part): (usize, &Part)| {
            part.shard.replicas.iter().map(move |&node| Action::Stage { node, part: at }).collect::<Vec<_>>()
        };
        let mut actions: Vec<Action> = parts.iter().enumerate().flat_map(stage).collect();
        let said = vec![BTreeMap::new(); parts.len()];
        let mut write = Write { parts, state: State::Staging { proposal: Box::new(proposal), said } };
        actions.extend(write.proposed());
        (write, actions)
    }

    /// What it has for one shard.
    pub fn part(&self, at: usize) -> &Part {
        &self.parts[at]
    }

    /// A part of it whose shard has other replicas in an image, before it has proposed: it waits for nobody who may be gone.
    pub fn misrouted(&self, image: &Image) -> Option<TableId> {
        let now = |part: &Part| image.placed.get(&part.table).and_then(|placed| placed.shard(part.shard.id));
        let is_elsewhere = |part: &&Part| now(part).is_some_and(|shard| shard.epoch > part.shard.epoch);
        match self.state {
            State::Staging { .. } => self.parts.iter().find(is_elsewhere).map(|part| part.shard.id),
            _ => None,
        }
    }

    /// Goes on.
    pub fn step(&mut self, event: Event) -> Vec<Action> {
        let (shard, node, error) = match event {
            Event::Staged { shard, node } => (shard, node, None),
            Event::Refused { shard, node, error } => (shard, node, Some(error)),
            Event::Again => return self.again(),
            Event::Late => return self.late(),
            Event::Answered(outcome) => return self.answered(outcome),
        };
        let State::Staging { said, .. } = &mut self.state else { return Vec::new() };
        let Some(at) = self.parts.iter().position(|part| part.shard.id == shard) else { return Vec::new() };
        if self.parts[at].shard.replicas.contains(&node) {
            said[at].insert(node, error);
        }
        let part = &self.parts[at];
        let refused: Vec<&Error> = said[at].values().flatten().collect();
        if part.shard.replicas.len() - refused.len() < part.quorum as usize
            && let Some(error) = refused.first().copied().cloned()
        {
            self.state = State::Done;
            return vec![Action::Done(Err(error))];
        }
        self.proposed()
    }

    /// Proposes once every part is where it has to be.
    fn proposed(&mut self) -> Vec<Action> {
        let State::Staging { proposal, said } = &mut self.state else { return Vec::new() };
        let holders = |said: &BTreeMap<NodeId, Option<Error>>| -> Vec<NodeId> {
            said.iter().filter(|(_, error)| error.is_none()).map(|(node, _)| *node).collect()
        };
        let mut touched = Vec::with_capacity(self.parts.len());
        for (part, said) in self.parts.iter().zip(said.iter()) {
            let holders = holders(said);
            let quorum = if planted("decided with fewer") { part.quorum - 1 } else { part.quorum };
            if holders.len() < quorum as usize {
                return Vec::new();
            }
            let (crc, epoch) = (crc32c::crc32c(&part.body), part.shard.epoch);
            touched.push(Touched { table: part.table, shard: part.shard.id, epoch, rows: part.rows, crc, holders });
        }
        let decided = Decided { touched, ..proposal.decided.clone() };
        let proposal = Box::new(Proposal { decided, ..Proposal::clone(proposal) });
        self.state = State::Proposed(proposal.clone());
        vec![Action::Propose(proposal)]
    }

    fn again(&self) -> Vec<Action> {
        match &self.state {
            State::Done => Vec::new(),
            State::Proposed(proposal) => vec![Action::Propose(proposal.clone())],
            State::Staging { said, .. } => {
                let silent = |(at, (part, said)): (usize, (&Part, &BTreeMap<NodeId, Option<Error>>))| {
                    let silent = part.shard.replicas.iter().filter(|node| !said.contains_key(node));
                    silent.map(move |&node| Action::Stage { node, part: at }).collect::<Vec<_>>()
                };
                self.parts.iter().zip(said).enumerate().flat_map(silent).collect()
            }
        }
    }

    fn late(&mut self) -> Vec<Action> {
        match &self.state {
            State::Done => Vec::new(),
            State::Proposed(proposal) => vec![Action::Propose(proposal.clone())],
            State::Staging { said, .. } => {
                let lacks = |(part, said): (&Part, &BTreeMap<NodeId, Option<Error>>)| {
                    let silent = part.shard.replicas.iter().filter(|node| !said.contains_key(node));
                    let silent: Vec<String> = silent.map(ToString::to_string).collect();
                    (!silent.is_empty()).then(|| (part.shard.id, silent.join(", ")))
                };
                let (shard, nodes) = self.parts.iter().zip(said).find_map(lacks).unwrap_or_default();
                let what = format!("shard {shard} cannot be written: nothing is heard of {nodes}");
                self.state = State::Done;
                let error = Error::new(ErrorKind::Busy, what).with_hint("send it again once these nodes are reached");
                vec![Action::Done(Err(error))]
            }
        }
    }

    fn answered(&mut self, outcome: Result<Outcome>) -> Vec<Action> {
        match self.state {
            State::Proposed(_) => {
                self.state = State::Done;
                vec![Action::Done(outcome)]
            }
            _ => Vec::new(),
        }
    }
}
