//! Commit: check a batch, remove duplicates, append it to the log, publish it.
//!
//! Invariants:
//! - C1: a batch gets its version and its place in the log under one lock, so log order is version order.
//! - C2: what is acknowledged (durability `sync`) is durable and visible; what is visible is durable.
//! - C3: a producer's batch is applied at most once, also after a restart: its number travels in the log with it.
//!   So is one with a client's key, for seven days.
//! - C4: rows are applied by the definition they were checked against, or not at all.
//! - C6: whoever [follows](Committer::follow) another log has each of its versions, with the same rows, in the same order.
//! - C5: what a batch does to rows by their keys is decided under the locks of its tables, and has its version under the
//!   same: so keys are decided in the order of versions, live as when the log is replayed ([`changes`]).
//!
//! The room is synchronous and owns no threads: whoever waits longest leads the group commit, or whichever thread of the
//! caller's serves those that do not wait themselves ([`Committer::serve`]).

mod changes;
mod codec;
mod committer;
pub mod decide;
mod follow;
mod index;
mod keys;
mod prepared;
mod replay;
mod waiting;

pub use changes::duplicate_key;
pub use codec::{Body, decode, encode, joined};
pub use committer::Committer;
pub use follow::{Followed, LookedAt};
pub use replay::{RecoveredLog, Replayed, Stopped};
