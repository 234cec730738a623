//! A whole cluster in one process: a keeper, workers and gateways, which call one another.
//!
//! Invariant: what is between the parts here is only a call; all else is what runs on several machines.

use super::gateway::GatewayNode;
use super::process::{random as process, wait_for_decisions};
use super::worker::WorkerNode;
use crate::options::DatabaseOptions;
use alluvia_cluster::gateway::{Answered, GatewayOptions, Reach, Reached, Unreached};
use alluvia_cluster::message::{FromKeeper, ToKeeper, ToWorker, serve_keeper};
use alluvia_cluster::{Keeper, Limits, NodeId};
use alluvia_storage::RealDisk;
use alluvia_types::{Error, Result, SystemClock, Version};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The random number of the cluster, which nobody else can meet.
const CLUSTER: u64 = 0x77_69_74_68_69_6e;

/// A cluster in one process.
#[derive(Debug)]
pub struct Within {
    // Gateways and workers go before what they call.
    gateways: Vec<GatewayNode>,
    calls: Arc<Calls>,
    dir: PathBuf,
    options: DatabaseOptions,
}

/// Reaches the parts by calls.
struct Calls {
    keeper: Keeper,
    workers: RwLock<BTreeMap<NodeId, Arc<WorkerNode>>>,
}

impl std::fmt::Debug for Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Calls").field("workers", &self.workers.read().len()).finish()
    }
}

/// What a worker is given: it must not keep itself alive.
#[derive(Debug)]
struct Weakly(std::sync::Weak<Calls>);

impl Reach for Weakly {
    fn keeper(&self, asked: ToKeeper) -> Reached<FromKeeper> {
        self.0.upgrade().ok_or_else(gone)?.keeper(asked)
    }

    fn worker(&self, node: NodeId, asked: ToWorker, answered: Answered) {
        match self.0.upgrade() {
            Some(calls) => calls.worker(node, asked, answered),
            None => answered(Err(gone())),
        }
    }
}

fn gone() -> Unreached {
    Unreached { why: "it has stopped".to_owned() }
}

impl Reach for Calls {
    fn keeper(&self, asked: ToKeeper) -> Reached<FromKeeper> {
        wait_for_decisions(&self.keeper, &asked);
        Ok(serve_keeper(&self.keeper, asked))
    }

    fn worker(&self, node: NodeId, asked: ToWorker, answered: Answered) {
        let worker = self.workers.read().get(&node).cloned();
        answered(worker.map(|worker| worker.serve(asked)).ok_or_else(gone));
    }
}

impl Within {
    /// Opens or makes a cluster in a directory, of so many workers and gateways.
    pub fn open(dir: impl AsRef<Path>, options: DatabaseOptions, workers: usize, gateways: usize) -> Result<Within> {
        let dir = dir.as_ref();
        let keeper =
            Keeper::open(Arc::new(RealDisk::new()), &dir.join("keeper"), Arc::new(SystemClock::default()), CLUSTER)?;
        let calls = Arc::new(Calls { keeper, workers: RwLock::default() });
        let mut within = Within { gateways: Vec::new(), calls, dir: dir.into(), options };
        for worker in 0..workers {
            within.start_worker(worker)?;
        }
        for at in 0..gateways {
            let own = GatewayOptions::new(NodeId(1_000 + at as u64), process());
            let dir = within.dir.join(format!("gateway-{at}"));
            let reach = Arc::clone(&within.calls) as Arc<dyn Reach>;
            within.gateways.push(GatewayNode::join(&dir, &within.options, own, reach)?);
        }
        Ok(within)
    }

    /// Starts a worker that is not running.
    pub fn start_worker(&self, at: usize) -> Result<()> {
        let node = NodeId(1 + at as u64);
        let reach = Arc::new(Weakly(Arc::downgrade(&self.calls)));
        let dir = self.dir.join(format!("worker-{at}"));
        let worker = WorkerNode::open(&dir, self.options.clone(), node, process(), "", reach)?;
        self.calls.workers.write().insert(node, Arc::new(worker));
        Ok(())
    }

    /// Stops a worker; others do not reach it then.
    pub fn stop_worker(&self, at: usize) {
        self.calls.workers.write().remove(&NodeId(1 + at as u64));
    }

    /// A gateway.
    pub fn gateway(&self, at: usize) -> &GatewayNode {
        &self.gateways[at]
    }

    /// Has the keeper decide about workers of which nothing is heard, and about shards that lack replicas, once; whether there was anything.
    pub fn manage(&self, limits: Limits) -> Result<bool> {
        self.calls.keeper.manage(limits)
    }

    /// Has the keeper save its image as far as all workers have followed; whether that is everything.
    pub fn save(&self) -> Result<bool> {
        let followed = self.calls.keeper.followed(None);
        self.calls.keeper.save(followed)?;
        Ok(followed == self.calls.keeper.now())
    }

    /// Returns once all workers that run are through a version.
    ///
    /// Errors: not within so long.
    pub fn wait_followed(&self, version: Version, patience: Duration) -> Result<()> {
        let steps = patience.as_millis() / 5;
        for _ in 0..steps {
            if self.calls.workers.read().values().all(|worker| worker.through() >= version) {
                return Ok(());
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
        Err(Error::internal(format!("workers are not through version {version}")))
    }
}
