//! A gateway's part of a batch: split over shards, staged at their replicas, decided.
//!
//! Invariants:
//! - A batch is proposed once each shard that it touches has as many durable bodies as its write quorum is (D2), and never again with others
//!   under the same id.
//! - A row's ordinal is given before rows are split: it is that of its place in the whole batch, as in one process (D4).

mod ask;
mod ingest;
mod known;
mod look;
mod reach;
mod read;
mod session;
mod split;
mod together;
mod write;

pub use known::Known;
pub use reach::{Answered, Reach, Reached, Unreached};
pub use session::{Gateway, GatewayOptions};
pub use split::{Looks, Part, split};
pub use write::{Action, Event, Write};
