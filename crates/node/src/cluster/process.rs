//! One process of a cluster: its roles, its socket for other nodes, and what its directory says of it.
//!
//! ```text
//! DIR/node      the node's own number, for ever
//! DIR/keeper/   the decisions
//! DIR/worker/   shards and bodies
//! DIR/gateway/  the audit log, and what statements spill
//! ```
//!
//! Invariants:
//! - A directory is of one node, and of one process at a time.
//! - The socket is there before the node joins: who learns where it is can ask it.

use super::gateway::GatewayNode;
use super::repeating::Repeating;
use super::worker::WorkerNode;
use crate::options::DatabaseOptions;
use alluvia_cluster::gateway::{GatewayOptions, Reach};
use alluvia_cluster::message::{ToKeeper, serve_keeper};
use alluvia_cluster::{Keeper, Limits, NodeId, Role};
use alluvia_link::{Answer, Handler, Links, Question, Security, Serving, serve};
use alluvia_storage::{Disk, DiskLock, RealDisk, read_atomic, write_atomic};
use alluvia_types::{Clock, Error, ErrorKind, Result, SystemClock};
use serde::{Deserialize, Serialize};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

const IDENTITY_MAGIC: &[u8; 8] = b"ALVNOD01";
/// The keeper saves its image so often.
const SAVE_INTERVAL: Duration = Duration::from_secs(10);

/// How a process of a cluster is started.
#[derive(Clone)]
pub struct NodeOptions {
    /// Its directory.
    pub dir: PathBuf,
    /// What it does.
    pub roles: Vec<Role>,
    /// Where it listens for other nodes.
    pub listen: SocketAddr,
    /// Where other nodes reach it, as a host and a port; `None`: where it listens.
    pub announced: Option<String>,
    /// Where the keeper is; `None` where it is here.
    pub join: Option<String>,
    /// Of a keeper: how long workers may be silent.
    pub limits: Limits,
    /// How nodes of the cluster know one another.
    pub security: Security,
    /// How its databases are.
    pub database: DatabaseOptions,
}

/// One process of a cluster. Dropping it stops its parts.
#[derive(Debug)]
pub struct NodeProcess {
    // In the order in which they stop.
    gateway: Option<GatewayNode>,
    _parts: Arc<Parts>,
    _serving: Serving,
    address: String,
    _saving: Option<Repeating>,
    _managing: Option<Repeating>,
    _lock: Box<dyn DiskLock>,
}

/// What a node's directory says of it.
#[derive(Serialize, Deserialize)]
struct Identity {
    node: u64,
}

/// What answers other nodes.
#[derive(Default)]
struct Parts {
    keeper: Option<Arc<Keeper>>,
    worker: OnceLock<WorkerNode>,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").field("keeper", &self.keeper.is_some()).finish_non_exhaustive()
    }
}

/// Answers as long as the parts are there.
struct Answers(Weak<Parts>);

impl Handler for Answers {
    fn answer(&self, asked: Question) -> Result<Answer> {
        let not_here = |role: &str| {
            Err(Error::new(ErrorKind::Busy, format!("this node is no {role}, or not yet"))
                .with_hint("ask again, or another node"))
        };
        let Some(parts) = self.0.upgrade() else { return not_here("node") };
        match asked {
            Question::Keeper(asked) => match &parts.keeper {
                Some(keeper) => {
                    wait_for_decisions(keeper, &asked);
                    serve_keeper(keeper, asked).map(Answer::Keeper)
                }
                None => not_here("keeper"),
            },
            Question::Worker(asked) => match parts.worker.get() {
                Some(worker) => worker.serve(asked).map(Answer::Worker),
                None => not_here("worker"),
            },
        }
    }
}

/// A worker that has all decisions is answered when there are more, or it has waited for so long: it tells then that it is there.
const FEED_WAIT: Duration = Duration::from_millis(100);

pub(super) fn wait_for_decisions(keeper: &Keeper, asked: &ToKeeper) {
    if let ToKeeper::Feed { after, durable: Some((node, durable)) } = asked
        && after == durable
        && !keeper.is_dead(*node)
    {
        // What it says of itself is known at once.
        keeper.followed(Some((*node, *durable)));
        keeper.wait_newer(*after, FEED_WAIT);
    }
}

/// A random number.
pub(super) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Reads a small file of the directory, or makes it.
fn kept<T: Serialize + for<'de> Deserialize<'de>>(
    disk: &dyn Disk,
    path: &Path,
    magic: &[u8; 8],
    new: impl FnOnce() -> T,
) -> Result<T> {
    let unfit = |error: serde_json::Error| Error::new(ErrorKind::Corrupt, format!("{}: {error}", path.display()));
    if disk.exists(path) {
        return serde_json::from_slice(&read_atomic(disk, path, magic)?).map_err(unfit);
    }
    let made = new();
    let bytes = serde_json::to_vec(&made).map_err(unfit)?;
    write_atomic(disk, path, magic, &bytes).map_err(|not_replaced| not_replaced.error)?;
    Ok(made)
}

impl NodeProcess {
    /// Starts a process: its socket first, then its roles.
    ///
    /// Errors: what its options ask for cannot be; the keeper is not reached; its directory is in use or damaged.
    pub fn start(options: NodeOptions) -> Result<NodeProcess> {
        let NodeOptions { dir, roles, listen, announced, join, limits, security, database } = options;
        let has = |role| roles.contains(&role);
        let refuse = |what: &str, hint: &str| Err(Error::new(ErrorKind::InvalidSetting, what).with_hint(hint));
        match (has(Role::Keeper), &join) {
            _ if roles.is_empty() => return refuse("a node without a role", "name some of keeper, worker and gateway"),
            (true, Some(_)) => {
                return refuse(
                    "a node that is the keeper joins no other",
                    "leave --join out: a cluster has one keeper",
                );
            }
            (false, None) => {
                return refuse("a node that is no keeper must join one", "say where the keeper is: --join HOST:PORT");
            }
            _ => {}
        }
        security.announced(listen, announced.as_deref())?;
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        disk.create_dir_all(&dir).map_err(|error| Error::io(&dir, "creating", &error))?;
        let lock = disk.try_lock(&dir.join("lock")).map_err(|error| Error::io(&dir, "locking", &error))?;
        let lock = lock.ok_or_else(|| {
            Error::new(ErrorKind::Locked, format!("{} is in use by another node", dir.display()))
                .with_hint("one process at a time may have it: stop the other one, or name another directory")
        })?;
        let Identity { node } =
            kept(disk.as_ref(), &dir.join("node"), IDENTITY_MAGIC, || Identity { node: random() & !3 })?;
        let keeper = match has(Role::Keeper) {
            false => None,
            true => Some(Arc::new(Keeper::open(Arc::clone(&disk), &dir.join("keeper"), clock, random())?)),
        };
        let parts = Arc::new(Parts { keeper: keeper.clone(), worker: OnceLock::new() });
        let serving = serve(listen, &security, Arc::new(Answers(Arc::downgrade(&parts))))?;
        // The port is known by now.
        let address = security.announced(serving.address, announced.as_deref())?;
        let links: Arc<dyn Reach> = Arc::new(Links::to(join.as_deref().unwrap_or(&address), &security)?);
        let managing = keeper.clone().map(|keeper| managing(keeper, limits)).transpose()?;
        let saving = keeper.map(saving).transpose()?;
        if has(Role::Worker) {
            let (dir, id, reach) = (dir.join("worker"), NodeId(node + 1), Arc::clone(&links));
            let worker = WorkerNode::open(&dir, database.clone(), id, random(), &address, reach)?;
            // Nobody else sets it.
            let _ = parts.worker.set(worker);
        }
        let gateway = match has(Role::Gateway) {
            false => None,
            true => {
                let own = GatewayOptions {
                    address: address.clone(),
                    gathered_bytes_max: database.query_bytes_max(),
                    ..GatewayOptions::new(NodeId(node + 2), random())
                };
                Some(GatewayNode::join(&dir.join("gateway"), &database, own, links)?)
            }
        };
        Ok(NodeProcess {
            gateway,
            _parts: parts,
            _serving: serving,
            address,
            _saving: saving,
            _managing: managing,
            _lock: lock,
        })
    }

    /// Where other nodes reach it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Its gateway, if it is one.
    pub fn gateway(&self) -> Option<&GatewayNode> {
        self.gateway.as_ref()
    }
}

/// Saves the keeper's image again and again.
fn saving(keeper: Arc<Keeper>) -> Result<Repeating> {
    Repeating::start("alluvia-keeper", move || {
        if let Err(error) = keeper.save(keeper.followed(None)) {
            tracing::warn!(%error, "the keeper's image was not saved; more of its log is kept");
        }
        SAVE_INTERVAL
    })
}

/// Has the keeper look again and again for workers that are lost.
fn managing(keeper: Arc<Keeper>, limits: Limits) -> Result<Repeating> {
    Repeating::start("alluvia-manager", move || match keeper.manage(limits) {
        Ok(true) => Duration::ZERO,
        Ok(false) => limits.suspect_after / 5,
        Err(error) => {
            tracing::warn!(%error, "replicas that are lost cannot be made anew; it is tried again");
            limits.suspect_after
        }
    })
}
