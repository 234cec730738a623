//! Names of nodes and batches.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A node, for ever: a random number that its directory keeps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u64);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// How often the replicas of a shard have changed: what is staged under an epoch is decided under it, or not at all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The one after it.
    pub fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}

/// What a node does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Decides.
    Keeper,
    /// Keeps rows.
    Worker,
    /// Serves clients.
    Gateway,
}

/// A batch of a gateway, on its way to its version.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct BatchId {
    /// Whose.
    pub gateway: NodeId,
    /// How often that gateway had joined when it began the batch.
    pub incarnation: u64,
    /// Its number within the incarnation, from 1.
    pub sequence: u64,
}

impl fmt::Display for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.gateway, self.incarnation, self.sequence)
    }
}
