//! The queue of events. Time is in microseconds, and goes on from event to event.

use alluvia_cluster::message::{FromBodies, FromKeeper, ToBodies, ToKeeper};
use alluvia_cluster::{CopiedTo, NodeId};
use alluvia_sim::Random;
use alluvia_sim::rows::FoundRow;
use alluvia_types::{Result, TableId, Version};
use arrow::record_batch::RecordBatch;
use std::collections::{BTreeMap, BTreeSet};

/// A machine, by its place: the keeper, then workers, then gateways.
pub type MachineId = usize;

pub const KEEPER: MachineId = 0;
pub const MILLI: u64 = 1_000;
pub const SECOND: u64 = 1_000_000;

/// The node of a place.
pub fn node_of(place: MachineId) -> NodeId {
    NodeId(100 + place as u64)
}

/// The place of a node.
pub fn place_of(node: NodeId) -> MachineId {
    (node.0 - 100) as MachineId
}

/// What is said.
#[derive(Clone, Debug)]
pub enum Message {
    AskKeeper(ToKeeper),
    KeeperSays(Result<FromKeeper>),
    AskBodies(ToBodies),
    BodiesSay(Result<FromBodies>),
    /// The rows of a shard at a version.
    AskRows {
        shard: TableId,
        version: Version,
    },
    Rows(Result<Vec<FoundRow>>),
    /// Rows of a shard at a version from one on, for whoever copies it.
    AskCopy(CopyPart),
    Copied(CopyPart, Result<(Vec<RecordBatch>, Option<CopiedTo>)>),
}

/// Which rows of a shard are copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopyPart {
    pub shard: TableId,
    pub version: Version,
    pub from: Option<CopiedTo>,
}

/// Something said on its way.
#[derive(Clone, Debug)]
pub struct Packet {
    pub from: MachineId,
    pub to: MachineId,
    /// Of the asker, as its process counts its questions; the answer has the same.
    pub call: u64,
    /// Of the asker's process: what an earlier one has asked is not answered to a later one.
    pub life: u64,
    pub message: Message,
}

#[derive(Clone, Debug)]
pub enum Event {
    Packet(Packet),
    /// A machine looks what there is to do.
    Tick(MachineId),
    Start(MachineId),
    Heal {
        one: MachineId,
        other: MachineId,
    },
    Room(MachineId),
    Fault,
    Client(usize),
}

/// How bad the network is: of so many packets one is dropped, comes twice, or comes late. 0: none.
#[derive(Clone, Copy, Debug)]
pub struct Trouble {
    pub dropped: u64,
    pub twice: u64,
    pub late: u64,
}

pub struct Net {
    pub now: u64,
    pub trouble: Trouble,
    pub cuts: BTreeSet<(MachineId, MachineId)>,
    queue: BTreeMap<(u64, u64), Event>,
    sequence: u64,
}

impl Net {
    pub fn new(trouble: Trouble) -> Net {
        Net { now: 0, trouble, cuts: BTreeSet::new(), queue: BTreeMap::new(), sequence: 0 }
    }

    pub fn after(&mut self, micros: u64, event: Event) {
        self.sequence += 1;
        self.queue.insert((self.now + micros, self.sequence), event);
    }

    /// The next event; time goes on to it.
    pub fn next(&mut self) -> Option<Event> {
        let ((at, _), event) = self.queue.pop_first()?;
        self.now = self.now.max(at);
        Some(event)
    }

    /// Sends a packet, if the network lets it through.
    pub fn send(&mut self, packet: Packet, random: &mut Random) {
        let Trouble { dropped, twice, late } = self.trouble;
        let happens = |one_in: u64, random: &mut Random| one_in > 0 && random.one_in(one_in);
        if self.cuts.contains(&(packet.from, packet.to)) || happens(dropped, random) {
            return;
        }
        let copies = if happens(twice, random) { 2 } else { 1 };
        for _ in 0..copies {
            let delay = 200 + random.below(2 * MILLI) + if happens(late, random) { random.below(SECOND) } else { 0 };
            self.after(delay, Event::Packet(packet.clone()));
        }
    }
}
