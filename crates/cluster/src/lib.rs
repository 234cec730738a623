//! Several machines, one database: one ordered log of decisions, and shards that are tables of today's engine.
//!
//! | Module | What it is for |
//! |---|---|
//! | [`words`] | names of nodes and batches |
//! | [`decision`] | one record of the log of decisions |
//! | [`placed`] | where the shards of a table lie, and which of them a row is of |
//! | [`message`] | what nodes ask one another |
//! | [`image`] | what all decisions through a version come to: the system image |
//! | [`keeper`] | decides, in one order, and keeps the log of that |
//! | `manager` | what a keeper decides by itself: replicas that are lost are made anew elsewhere |
//! | [`worker`] | keeps bodies of batches until they are decided, and follows the decisions |
//! | [`gateway`] | splits batches, stages them at workers, and has them decided |
//!
//! The parts are synchronous and own no threads and no sockets: what they say to one another is carried by whoever runs them, which is
//! the simulation (`sim`) or the servers.
//!
//! Invariants:
//! - D1: decisions have no gaps; each has a version.
//! - D2: no decision about rows without so many durable bodies of each shard that it touches as its table's write quorum is, staged under
//!   the shard's epoch of now.
//! - D3: a replica goes through versions in order, and only with the bodies that they name.
//! - D4: at each version a row is in exactly one shard, at every replica of it.
//! - D5: what is acknowledged is decided, and durable at the keeper.
//! - D6: what is decided is what was staged: the checksum of each body is part of the decision.
//! - D7: what was looked at of a shard before is so when the batch is decided: no row of it was written between.
//! - D8: a shard is never left without a replica that has its rows; what a new one copies is the shard as it is at one version, whole.
//!
//! After VOLAP (Dehne et al.), III-A to III-F: servers (gateways), workers, the system image; and HRDBMS, VI, whose two phases are here one
//! record of one log.

pub mod decision;
pub mod gateway;
pub mod image;
pub mod keeper;
mod manager;
pub mod message;
pub mod placed;
pub mod words;
pub mod worker;

pub use decision::{Copied, Decided, Decision, Left, Touched, What};
pub use image::{Image, NodeState};
pub use keeper::{Feed, Keeper, Outcome, Proposal};
pub use manager::Limits;
pub use placed::{PlacedTable, Shard};
pub use words::{BatchId, Epoch, NodeId, Role};
pub use worker::{Bodies, CopiedTo, Copies, Copying, Follower, Local, Missing, Staged, Step};
