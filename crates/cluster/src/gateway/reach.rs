//! How a gateway reaches others: the port that whoever carries messages implements.

use crate::message::{FromKeeper, FromWorker, ToKeeper, ToWorker};
use crate::words::NodeId;
use alluvia_types::Result;
use std::fmt::Debug;

/// Nobody has answered: what was asked may have been done, or not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unreached {
    /// Who, and what went wrong.
    pub why: String,
}

/// What somebody has answered, if they have.
pub type Reached<T> = std::result::Result<Result<T>, Unreached>;

/// Told of an answer, once.
pub type Answered = Box<dyn FnOnce(Reached<FromWorker>) + Send>;

/// Reaches the other nodes of a cluster. Calls may come from many threads at once.
pub trait Reach: Send + Sync + Debug {
    /// Asks the keeper, and waits.
    fn keeper(&self, asked: ToKeeper) -> Reached<FromKeeper>;
    /// Asks a worker. `answered` is called from some thread, or before this returns.
    fn worker(&self, node: NodeId, asked: ToWorker, answered: Answered);
    /// States where nodes are reached, as the image says.
    fn located(&self, _node: NodeId, _address: &str) {}
}
