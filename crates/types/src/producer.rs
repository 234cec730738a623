//! Producers: clients that number their batches.

use serde::{Deserialize, Serialize};

/// Numbers a producer's batches, so that one sent again is not applied twice.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ProducerMark {
    /// The producer's name.
    pub name: String,
    /// A higher epoch fences all lower ones.
    pub epoch: u64,
    /// 1, 2, 3, ... within the epoch.
    pub sequence: u64,
}
