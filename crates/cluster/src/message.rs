//! What nodes ask one another, and what they answer. How it is carried is not said here.
//!
//! Invariant: a request may come twice, late, or after its asker has gone; it does then what it did the first time, or nothing.

use crate::keeper::{Feed, Keeper, Outcome, Proposal};
use crate::words::{BatchId, NodeId, Role};
use crate::worker::{Bodies, CopiedTo, Staged};
use alluvia_snapshot::StageInfo;
pub use alluvia_snapshot::Uses;
use alluvia_types::{Error, ErrorKind, Result, Stage, TableId, Version};
use arrow::array::RecordBatch;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Decisions that are given at once.
pub const FEED_MAX: usize = 4096;

/// What is asked of a keeper.
#[derive(Clone, Debug)]
pub enum ToKeeper {
    /// Decide about a batch.
    Propose(Box<Proposal>),
    /// A node has started.
    Join {
        /// Which.
        node: NodeId,
        /// A random number of its process.
        process: u64,
        /// What it does.
        roles: Vec<Role>,
        /// Where it is reached.
        address: String,
    },
    /// Numbers for tables and shards.
    Numbers {
        /// How many.
        count: u32,
    },
    /// The decisions after a version.
    Feed {
        /// Which one has.
        after: Version,
        /// Of a worker: which, and through which version its database is durable.
        durable: Option<(NodeId, Version)>,
    },
    /// A worker is there, whatever it is busy with.
    Beat {
        /// Which worker.
        node: NodeId,
        /// Its database is durable through this.
        durable: Version,
    },
    /// A worker cannot copy a shard: nobody has its rows any more as they were.
    GiveUpCopy {
        /// Which worker.
        node: NodeId,
        /// Which shard.
        shard: TableId,
    },
}

/// What a keeper answers.
#[derive(Clone, Debug)]
pub enum FromKeeper {
    /// The batch is decided.
    Outcome(Outcome),
    /// The node has joined.
    Joined {
        /// How often it has.
        incarnation: u64,
        /// The random number of the cluster.
        cluster: u64,
    },
    /// The first of the numbers.
    Numbers(TableId),
    /// What is fed.
    Fed {
        /// Decisions.
        feed: Feed,
        /// The newest version at the time.
        newest: Version,
        /// All workers' databases are durable through this.
        followed: Version,
    },
    /// It is known that the worker is there.
    Heard,
    /// The worker is told by a decision that it has the shard no more.
    GivenUp,
}

/// What is in the message by which a worker that was taken for dead learns that.
const TAKEN_FOR_DEAD: &str = "this worker was taken for dead";

/// Whether a worker is told that it must join again.
pub fn must_join_again(error: &Error) -> bool {
    error.kind() == ErrorKind::Conflict && error.message().contains(TAKEN_FOR_DEAD)
}

fn check_alive(keeper: &Keeper, node: NodeId) -> Result<()> {
    if keeper.is_dead(node) {
        let what = format!("{TAKEN_FOR_DEAD}, {node}: nothing was heard of it for too long");
        return Err(Error::new(ErrorKind::Conflict, what).with_hint("it joins again by itself"));
    }
    Ok(())
}

/// Answers what a keeper is asked.
pub fn serve_keeper(keeper: &Keeper, asked: ToKeeper) -> Result<FromKeeper> {
    Ok(match asked {
        ToKeeper::Propose(proposal) => FromKeeper::Outcome(keeper.propose(*proposal)?),
        ToKeeper::Join { node, process, roles, address } => {
            let incarnation = keeper.join(node, process, &roles, &address)?;
            FromKeeper::Joined { incarnation, cluster: keeper.cluster() }
        }
        ToKeeper::Numbers { count } => FromKeeper::Numbers(keeper.numbers(count)?),
        ToKeeper::Feed { after, durable } => {
            durable.map_or(Ok(()), |(node, _)| check_alive(keeper, node))?;
            let followed = keeper.followed(durable);
            // The newest version is no older than what is fed.
            let feed = keeper.feed(after, FEED_MAX);
            FromKeeper::Fed { feed, newest: keeper.now(), followed }
        }
        ToKeeper::Beat { node, durable } => {
            check_alive(keeper, node)?;
            keeper.followed(Some((node, durable)));
            FromKeeper::Heard
        }
        ToKeeper::GiveUpCopy { node, shard } => {
            keeper.give_up_copy(node, shard)?;
            FromKeeper::GivenUp
        }
    })
}

/// What is asked of a worker that concerns bodies.
#[derive(Clone, Debug)]
pub enum ToBodies {
    /// Keep a body.
    Stage(Staged),
    /// Give a body that was decided and is missing elsewhere.
    Fetch {
        /// Of which batch.
        batch: BatchId,
        /// For which shard.
        shard: TableId,
    },
}

/// What a worker answers.
#[derive(Clone, Debug)]
pub enum FromBodies {
    /// It is durable.
    Staged,
    /// The body, if it is here.
    Body(Option<Staged>),
}

/// Answers what a worker is asked that concerns bodies.
pub fn serve_bodies(bodies: &Bodies, asked: ToBodies) -> Result<FromBodies> {
    Ok(match asked {
        ToBodies::Stage(staged) => {
            bodies.stage(staged)?;
            FromBodies::Staged
        }
        ToBodies::Fetch { batch, shard } => FromBodies::Body(bodies.get(batch, shard)),
    })
}

/// What is asked of a worker.
#[derive(Clone, Debug)]
pub enum ToWorker {
    /// What concerns bodies.
    Bodies(ToBodies),
    /// The rows of a shard at a version.
    Rows {
        /// Of which shard.
        shard: TableId,
        /// At exactly which version.
        version: Version,
    },
    /// Rows of a shard at a version, from one on, for whoever makes a replica of it: with the identities that they have.
    Copy {
        /// Of which shard.
        shard: TableId,
        /// At exactly which version.
        version: Version,
        /// From where on; `None` to begin with.
        from: Option<CopiedTo>,
    },
    /// What a shard answers to a part of a plan at a version.
    Ask {
        /// Which shard.
        shard: TableId,
        /// At exactly which version.
        version: Version,
        /// The part, as the engine has written it.
        part: Arc<[u8]>,
        /// What may answer it.
        uses: Uses,
    },
    /// What a body would do to the rows of its shard.
    Look {
        /// Which shard.
        shard: TableId,
        /// As it is after this version, or later.
        at_least: Version,
        /// The versions that rows of its parts were computed from.
        computed_at: Vec<Option<Version>>,
        /// The body.
        body: Arc<[u8]>,
    },
    /// How it is.
    Status,
    /// Bring the shards to a stage, through a version.
    Organise {
        /// Which.
        stage: Stage,
        /// Once the worker is through this.
        version: Version,
    },
}

/// How a worker is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkerStatus {
    /// It has followed through this version.
    pub through: Version,
    /// Bodies that are kept.
    pub bodies: u64,
    /// Their bytes.
    pub body_bytes: u64,
    /// The stages of its shards.
    pub stages: Vec<StageInfo>,
}

/// What a worker answers.
#[derive(Clone, Debug)]
pub enum FromWorker {
    /// What concerns bodies.
    Bodies(FromBodies),
    /// What was asked for: rows with the columns of the shard's definition, and the hidden ones; or what a part of a plan gives.
    Rows(Vec<RecordBatch>),
    /// Rows to copy.
    Copied {
        /// They have the hidden columns.
        rows: Vec<RecordBatch>,
        /// From where on the next ones are; none if these were the last.
        next: Option<CopiedTo>,
    },
    /// What it would do.
    Looked {
        /// The shard was looked at as it is after this version.
        version: Version,
        /// So many of the body's rows would change nothing.
        passed_over: u64,
    },
    /// How it is.
    Status(WorkerStatus),
    /// It is organised.
    Organised,
}
