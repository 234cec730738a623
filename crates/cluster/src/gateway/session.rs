//! A gateway: what it knows of the cluster, kept up with the decisions.
//!
//! Invariants:
//! - The image only grows. A statement waits until the image is through its version.
//! - A batch is numbered once; the floor that it states is below all batches that are open.

use super::known::Known;
use super::reach::{Reach, Reached, Unreached};
use super::together::Together;
use crate::decision::{Decided, Decision};
use crate::image::Image;
use crate::keeper::{Feed, Proposal};
use crate::message::{FromKeeper, ToKeeper};
use crate::words::{BatchId, NodeId, Role};
use alluvia_types::{Clock, Error, ErrorKind, Result, TableId, Version};
use arrow::array::RecordBatch;
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Numbers that are asked for at once.
const NUMBERS: u32 = 4096;

/// How a gateway is.
#[derive(Clone, Debug)]
pub struct GatewayOptions {
    /// The node.
    pub node: NodeId,
    /// A random number of this process.
    pub process: u64,
    /// Where others reach it.
    pub address: String,
    /// A batch whose replicas are silent is given up after so long.
    pub staging_patience: Duration,
    /// A batch that is proposed is asked about for so long.
    pub deciding_patience: Duration,
    /// A statement whose shards do not answer fails after so long.
    pub reading_patience: Duration,
    /// Rows that a statement gathers have at most so many bytes.
    pub gathered_bytes_max: u64,
}

impl GatewayOptions {
    /// Of a node, with patience of some seconds and 1 GiB.
    pub fn new(node: NodeId, process: u64) -> GatewayOptions {
        GatewayOptions {
            node,
            process,
            address: String::new(),
            staging_patience: Duration::from_secs(5),
            deciding_patience: Duration::from_secs(20),
            reading_patience: Duration::from_secs(10),
            gathered_bytes_max: 1 << 30,
        }
    }
}

/// One gateway, as sessions use it: the ports of its database.
#[derive(Debug)]
pub struct Gateway {
    pub(super) options: GatewayOptions,
    pub(super) reach: Arc<dyn Reach>,
    pub(super) clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// Rows of loads that are finished, until their batch is submitted.
    pub(super) loads: Arc<Mutex<HashMap<usize, Vec<RecordBatch>>>>,
    /// Whose turn it is to look at a shard.
    pub(super) turns: Mutex<HashMap<TableId, Arc<Mutex<()>>>>,
    /// Small batches that wait to go together.
    pub(super) together: Together,
    /// What was gathered last of each table, and at which version.
    pub(super) gathered: Mutex<HashMap<TableId, (Version, Vec<RecordBatch>)>>,
}

#[derive(Debug)]
struct State {
    incarnation: u64,
    image: Arc<Image>,
    known: Known,
    sequence: u64,
    open: BTreeSet<u64>,
    /// Those that the keeper was asked about in vain.
    unknown: Vec<BatchId>,
    numbers: Range<u32>,
    /// The newest decisions, oldest first.
    recent: VecDeque<Arc<Decision>>,
}

/// How many decisions are remembered.
const RECENT: usize = 4_096;

/// What an answer of another kind comes to: a defect of whoever answers.
pub(super) fn unasked<T>() -> Result<T> {
    Err(Error::internal("an answer to another question"))
}

/// An error for a client whose statement can be sent again.
pub(super) fn unreached(what: &str, Unreached { why }: &Unreached) -> Error {
    Error::new(ErrorKind::Busy, format!("{what} is not reached: {why}"))
        .with_hint("send it again once the cluster is whole")
}

impl Gateway {
    /// Joins a cluster, and learns what is there.
    ///
    /// Errors: the keeper is not reached, or refuses.
    pub fn join(options: GatewayOptions, reach: Arc<dyn Reach>, clock: Arc<dyn Clock>) -> Result<Gateway> {
        let (node, process, address) = (options.node, options.process, options.address.clone());
        let join = ToKeeper::Join { node, process, roles: vec![Role::Gateway], address };
        let incarnation = match reach.keeper(join) {
            Ok(Ok(FromKeeper::Joined { incarnation, .. })) => incarnation,
            Ok(Ok(_)) => return unasked(),
            Ok(Err(error)) => return Err(error),
            Err(why) => return Err(unreached("the keeper", &why)),
        };
        let (image, known, numbers) = (Arc::new(Image::new(0)), Known::default(), 0..0);
        let (open, recent) = (BTreeSet::new(), VecDeque::new());
        let state = State { incarnation, image, known, sequence: 0, open, unknown: Vec::new(), numbers, recent };
        let (loads, turns, gathered) = (Arc::default(), Mutex::default(), Mutex::default());
        let (state, together) = (Mutex::new(state), Together::default());
        let gateway = Gateway { options, reach, clock, state, loads, turns, together, gathered };
        gateway.refresh()?;
        Ok(gateway)
    }

    /// What the gateway knows.
    pub fn image(&self) -> Arc<Image> {
        Arc::clone(&self.state.lock().image)
    }

    /// The newest decisions that it knows, newest first, at most so many.
    pub fn recent(&self, limit: usize) -> Vec<Arc<Decision>> {
        self.state.lock().recent.iter().rev().take(limit).cloned().collect()
    }

    /// The newest version that it knows of.
    pub fn known(&self) -> Version {
        self.state.lock().known.version()
    }

    pub(super) fn keeper(&self, asked: ToKeeper) -> Reached<FromKeeper> {
        self.reach.keeper(asked)
    }

    /// Asks for what was decided since, once. For whoever calls it at an interval, too.
    pub fn refresh(&self) -> Result<()> {
        let (sent, after) = (self.clock.monotonic(), self.image().version);
        let (feed, newest) = match self.keeper(ToKeeper::Feed { after, durable: None }) {
            Ok(Ok(FromKeeper::Fed { feed, newest, .. })) => (feed, newest),
            Ok(Ok(_)) => return unasked(),
            Ok(Err(error)) => return Err(error),
            Err(why) => return Err(unreached("the keeper", &why)),
        };
        let located = {
            let mut state = self.state.lock();
            let before = state.image.version;
            if let Feed::Decisions(decisions) = &feed {
                let newer = decisions.iter().filter(|decision| decision.version > before).cloned();
                state.recent.extend(newer);
                let over = state.recent.len().saturating_sub(RECENT);
                state.recent.drain(..over);
            }
            Image::fed(&mut state.image, feed)?;
            state.known.answered(sent, newest);
            if state.image.version > before { Some(Arc::clone(&state.image)) } else { None }
        };
        if !self.state.lock().unknown.is_empty() {
            self.settle_unknown();
        }
        for (node, state) in located.iter().flat_map(|image| &image.nodes) {
            self.reach.located(*node, &state.address);
        }
        Ok(())
    }

    /// The image once it is through a version.
    pub fn caught_up(&self, version: Version) -> Result<Arc<Image>> {
        loop {
            let image = self.image();
            if image.version >= version {
                return Ok(image);
            }
            self.refresh()?;
        }
    }

    /// The newest version there is: asked of the keeper now, with what was decided since.
    pub fn now(&self) -> Result<Version> {
        self.refresh()?;
        Ok(self.known())
    }

    /// A version for whoever takes what is so old.
    pub fn within(&self, age: Duration) -> Result<Version> {
        let known = match age {
            Duration::ZERO => None,
            age => self.state.lock().known.within(self.clock.monotonic(), age),
        };
        match known {
            Some(version) => Ok(version),
            None => self.now(),
        }
    }

    /// A number for a table, a shard or a schema.
    ///
    /// Errors: there is none left, and the keeper is not reached.
    pub(super) fn number(&self) -> Result<TableId> {
        if let Some(number) = self.state.lock().numbers.next() {
            return Ok(TableId(number));
        }
        let first = match self.keeper(ToKeeper::Numbers { count: NUMBERS }) {
            Ok(Ok(FromKeeper::Numbers(first))) => first.0,
            Ok(Ok(_)) => return unasked(),
            Ok(Err(error)) => return Err(error),
            Err(why) => return Err(unreached("the keeper", &why)),
        };
        self.state.lock().numbers = first + 1..first + NUMBERS;
        Ok(TableId(first))
    }

    /// Begins a batch: its name, and the floor below it.
    pub(super) fn begin(&self) -> (BatchId, u64) {
        let mut state = self.state.lock();
        state.sequence += 1;
        let sequence = state.sequence;
        state.open.insert(sequence);
        let floor = state.open.first().copied().unwrap_or(sequence);
        (BatchId { gateway: self.options.node, incarnation: state.incarnation, sequence }, floor)
    }

    /// Nobody knows whether a batch is decided. It is [settled](Gateway::settle_unknown) once the keeper answers.
    pub(super) fn leave_unknown(&self, batch: BatchId) {
        self.state.lock().unknown.push(batch);
    }

    /// Ends the batches that nobody knows of: an empty one takes the name of each, unless it was decided. So whatever is still on its way
    /// of such a batch is decided no more.
    fn settle_unknown(&self) {
        let unknown = std::mem::take(&mut self.state.lock().unknown);
        for id in unknown {
            let (changes, placed, touched) = (Vec::new(), Vec::new(), Vec::new());
            let decided = Decided { id, floor: 1, changes, placed, producer: None, key: None, touched };
            let (checked, unwritten, looked) = (Vec::new(), Vec::new(), Vec::new());
            let proposal = Proposal { decided, checked, unwritten, looked };
            match self.keeper(ToKeeper::Propose(Box::new(proposal))) {
                Ok(Ok(_)) => self.end(id),
                _ => self.leave_unknown(id),
            }
        }
    }

    /// A batch is decided or given up.
    pub(super) fn end(&self, batch: BatchId) {
        self.state.lock().open.remove(&batch.sequence);
    }
}
