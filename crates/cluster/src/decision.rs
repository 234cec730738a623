//! One record of the log of decisions.
//!
//! Invariants:
//! - A decision says by itself all that a worker needs in order to follow it: what it touches, and where the shards lie of each table whose
//!   definition changes.
//! - It has no rows. What it is about is named by batch, shard and checksum.

use crate::placed::PlacedTable;
use crate::words::{BatchId, Epoch, NodeId, Role};
use alluvia_catalog::Change;
use alluvia_snapshot::BatchKey;
use alluvia_space::TableDef;
use alluvia_types::{Error, ErrorKind, ProducerMark, Result, TableId, Version};
use serde::{Deserialize, Serialize};

/// What was decided, and as which version.
#[derive(Clone, PartialEq, Debug)]
pub struct Decision {
    /// Its place in the order.
    pub version: Version,
    /// When, in microseconds since 1970; it does not go back.
    pub commit_micros: i64,
    /// What.
    pub what: What,
}

/// What is decided.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A batch is so.
    Batch(Box<Decided>),
    /// A node has started. What it had begun before, and was not decided, is not.
    Joined {
        /// Which.
        node: NodeId,
        /// How often it has, with this time.
        incarnation: u64,
        /// A random number of the process: one that asks twice has joined once.
        process: u64,
        /// What it does, ascending.
        roles: Vec<Role>,
        /// Where it is reached.
        address: String,
    },
    /// Numbers of tables and shards through this one are taken.
    Numbers {
        /// The last one.
        through: u32,
    },
    /// A worker has another shard from now on: it copies the rows as they are at the version before.
    Copied(Box<Copied>),
    /// A worker has these shards no more.
    Left(Left),
}

/// A shard that one more worker has.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Copied {
    /// Which worker.
    pub node: NodeId,
    /// Of which table, as it is defined now.
    pub def: TableDef,
    /// Which shard of it.
    pub shard: TableId,
    /// Who has its rows.
    pub sources: Vec<NodeId>,
}

/// Shards that a worker has no more.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Left {
    /// Which worker.
    pub node: NodeId,
    /// Whether nothing is heard of it: then it is given nothing until it joins again.
    pub is_dead: bool,
    /// The shards.
    pub shards: Vec<TableId>,
}

/// A batch that is decided.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Decided {
    /// Which.
    pub id: BatchId,
    /// Its gateway has no open batch below this sequence.
    pub floor: u64,
    /// Changes of definitions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// Of each table that `changes` create, alter or drop where it lies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placed: Vec<(TableId, PlacedTable)>,
    /// The producer's number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub producer: Option<ProducerMark>,
    /// The client's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<BatchKey>,
    /// The shards that have a body of it, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub touched: Vec<Touched>,
}

impl Decided {
    /// Rows of all its bodies.
    pub fn rows(&self) -> u64 {
        self.touched.iter().map(|touched| touched.rows).sum()
    }

    /// The tables whose rows it has, ascending.
    pub fn tables(&self) -> Vec<TableId> {
        let mut tables: Vec<TableId> = self.touched.iter().map(|touched| touched.table).collect();
        tables.sort();
        tables.dedup();
        tables
    }
}

/// A body of a batch, as it was staged.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Touched {
    /// Of which table.
    pub table: TableId,
    /// Of which shard of it.
    pub shard: TableId,
    /// Under which epoch.
    pub epoch: Epoch,
    /// How many rows.
    pub rows: u64,
    /// CRC-32C of the body (D6).
    pub crc: u32,
    /// Where it was durable before the decision.
    pub holders: Vec<NodeId>,
}

impl Decision {
    /// The body of its record in the log, which has version and time itself.
    pub fn encode(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(&self.what).map_err(|error| Error::internal(format!("a decision: {error}")))
    }

    /// What a record of the log says.
    pub fn decode(version: Version, commit_micros: i64, body: &[u8]) -> Result<Decision> {
        let what = serde_json::from_slice(body).map_err(|error| {
            Error::new(ErrorKind::Corrupt, format!("decision {version} does not decode: {error}"))
                .with_hint("it was written by another build of Alluvia; open it with that one")
        })?;
        Ok(Decision { version, commit_micros, what })
    }

    /// The batch, if it is about one.
    pub fn batch(&self) -> Option<&Decided> {
        match &self.what {
            What::Batch(decided) => Some(decided),
            _ => None,
        }
    }
}
