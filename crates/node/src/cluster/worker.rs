//! A worker: its database, its bodies, and the thread that follows the decisions.
//!
//! Invariants:
//! - The database takes no batch of its own: what it has, was decided.
//! - A failure of the thread is told and tried again after a pause; a full disk that gets room resumes by itself.

use super::repeating::Repeating;
use crate::core::Core;
use crate::database::Database;
use crate::options::DatabaseOptions;
use alluvia_cluster::gateway::{Reach, Reached};
use alluvia_cluster::message::{FromBodies, FromKeeper, FromWorker, ToBodies, ToKeeper, ToWorker, WorkerStatus};
use alluvia_cluster::message::{must_join_again, serve_bodies};
use alluvia_cluster::worker::{each_batch, snapshot_at};
use alluvia_cluster::{Bodies, Copies, Copying, Feed, Follower, Image, Missing, NodeId, Role, Step, What};
use alluvia_commit::LookedAt;
use alluvia_snapshot::{Admin, Load, Read, StagedLoad};
use alluvia_storage::{Disk, RealDisk};
use alluvia_types::{Clock, Error, ErrorKind, Result, SystemClock, TableId, Version};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Where the parts of a worker are in its directory.
const DATABASE_DIR: &str = "shards";
const BODIES_DIR: &str = "bodies";

/// The keeper is asked so often while there is nothing new.
const FEED_LOOK: Duration = Duration::from_millis(2);
/// A version that is not there yet is waited for in so many looks, so long after one another; for a read in fewer, for another replica may
/// have it.
const LOOKS_FOR_VERSION: u32 = 500;
const LOOKS_FOR_READ: u32 = 100;
const LOOK_FOR_VERSION: Duration = Duration::from_micros(200);
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(200);
/// An answer to a question among nodes is waited for so long.
const PATIENCE: Duration = Duration::from_secs(5);
/// A shard is asked of those who have it for so long, as long as one of them may still give it.
const COPY_PATIENCE: Duration = Duration::from_secs(30);
/// The keeper is told so often that this worker is there.
const BEAT: Duration = Duration::from_millis(100);

/// A worker of a cluster.
#[derive(Debug)]
pub struct WorkerNode {
    shared: Arc<Shared>,
    /// There until it stops.
    following: Option<Repeating>,
    beating: Option<Repeating>,
}

#[derive(Debug)]
struct Shared {
    node: NodeId,
    /// Where others reach it.
    address: String,
    database: Database,
    bodies: Bodies,
    /// What is kept for others that copy shards.
    copies: Copies,
    reach: Arc<dyn Reach>,
    /// What takes long ends.
    is_stopping: AtomicBool,
}

impl WorkerNode {
    /// Opens a worker's directory, joins, and follows. `process` is a random number of this process, `address` where others reach it.
    pub fn open(
        dir: &Path,
        options: DatabaseOptions,
        node: NodeId,
        process: u64,
        address: &str,
        reach: Arc<dyn Reach>,
    ) -> Result<WorkerNode> {
        let (disk, clock): (Arc<dyn Disk>, Arc<dyn Clock>) =
            (Arc::new(RealDisk::new()), Arc::new(SystemClock::default()));
        disk.create_dir_all(dir).map_err(|error| Error::io(dir, "creating", &error))?;
        let database = Database::open_on(Arc::clone(&disk), Arc::clone(&clock), dir.join(DATABASE_DIR), options)?;
        // A worker has all of its shards or does not come: then they are made anew elsewhere.
        if let Some(closed) = database.closed().into_iter().next() {
            return Err(closed);
        }
        let cluster = join(reach.as_ref(), node, process, address)?;
        let bodies = Bodies::open(disk, &dir.join(BODIES_DIR), clock, cluster)?;
        let image = image_of(reach.as_ref())?;
        let (address, copies) = (address.to_owned(), Copies::default());
        let is_stopping = AtomicBool::new(false);
        let shared = Arc::new(Shared { node, address, database, bodies, copies, reach, is_stopping });
        let mut follower = Follower::new(node, shared.core().views().visible());
        follower.started(&image, &shared.bodies);
        let followed = Arc::clone(&shared);
        let following = Some(Repeating::start("alluvia-follow", move || followed.follow(&mut follower))?);
        let beaten = Arc::clone(&shared);
        let beating = Some(Repeating::start("alluvia-beat", move || beaten.beat())?);
        Ok(WorkerNode { shared, following, beating })
    }

    /// Through which version its database is.
    pub fn through(&self) -> Version {
        self.shared.core().views().visible()
    }

    /// Answers what it is asked. Blocks.
    pub fn serve(&self, asked: ToWorker) -> Result<FromWorker> {
        self.shared.serve(asked)
    }
}

impl Drop for WorkerNode {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::Relaxed);
        (self.beating, self.following) = (None, None);
        if let Err(error) = self.shared.core().flush() {
            tracing::error!(node = %self.shared.node, %error, "what was followed was not made durable");
        }
    }
}

/// Joins as a process of a random number; the random number of the cluster.
fn join(reach: &dyn Reach, node: NodeId, process: u64, address: &str) -> Result<u64> {
    let join = ToKeeper::Join { node, process, roles: vec![Role::Worker], address: address.to_owned() };
    match answered("the keeper", reach.keeper(join))? {
        FromKeeper::Joined { cluster, .. } => Ok(cluster),
        _ => Err(Error::internal("an answer to another question")),
    }
}

/// What the keeper knows; with where all nodes are that have joined.
fn image_of(reach: &dyn Reach) -> Result<Arc<Image>> {
    let mut image = Arc::new(Image::new(0));
    loop {
        let after = image.version;
        match answered("the keeper", reach.keeper(ToKeeper::Feed { after, durable: None }))? {
            FromKeeper::Fed { feed, newest, .. } => {
                Image::fed(&mut image, feed)?;
                if image.version >= newest {
                    image.nodes.iter().for_each(|(node, state)| reach.located(*node, &state.address));
                    return Ok(image);
                }
            }
            _ => return Err(Error::internal("an answer to another question")),
        }
    }
}

/// Learns where nodes are that have joined since.
fn locate(reach: &dyn Reach, feed: &Feed) {
    let Feed::Decisions(decisions) = feed else { return };
    for decision in decisions {
        if let What::Joined { node, address, .. } = &decision.what {
            reach.located(*node, address);
        }
    }
}

/// An answer, where nobody's silence can be waited out.
fn answered<T>(who: &str, answer: Reached<T>) -> Result<T> {
    answer.unwrap_or_else(|why| Err(Error::new(ErrorKind::Busy, format!("{who} is not reached: {}", why.why))))
}

impl Shared {
    fn core(&self) -> &Core {
        self.database.core()
    }

    fn serve(&self, asked: ToWorker) -> Result<FromWorker> {
        match asked {
            ToWorker::Bodies(asked) => Ok(FromWorker::Bodies(serve_bodies(&self.bodies, asked)?)),
            ToWorker::Rows { shard, version } => {
                self.wait_through(version, LOOKS_FOR_READ)?;
                Ok(FromWorker::Rows(self.rows(shard, version)?))
            }
            ToWorker::Copy { shard, version, from } => {
                self.wait_through(version, LOOKS_FOR_VERSION)?;
                let (rows, next) = self.copies.rows(self.core().views(), shard, version, from)?;
                Ok(FromWorker::Copied { rows, next })
            }
            ToWorker::Ask { shard, version, part, uses } => {
                self.wait_through(version, LOOKS_FOR_READ)?;
                let snapshot = snapshot_at(self.core().views(), version, &[shard])?;
                Ok(FromWorker::Rows(self.database.engine().answer_part(snapshot, shard, &part, uses)?))
            }
            ToWorker::Look { shard: _, at_least, computed_at, body } => {
                self.wait_through(at_least, LOOKS_FOR_VERSION)?;
                let LookedAt { version, passed_over } = self.core().committer().look(&body, &computed_at)?;
                Ok(FromWorker::Looked { version, passed_over })
            }
            ToWorker::Status => {
                let (through, stages) = (self.core().views().visible(), self.core().stages());
                let (bodies, body_bytes) = self.bodies.load();
                Ok(FromWorker::Status(WorkerStatus { through, bodies: bodies as u64, body_bytes, stages }))
            }
            ToWorker::Organise { stage, version } => {
                Read::wait_visible(self.core(), version)?;
                self.core().organise(stage)?;
                Ok(FromWorker::Organised)
            }
        }
    }

    /// Waits until it is through a version, not for long: another replica may be.
    fn wait_through(&self, version: Version, looks: u32) -> Result<()> {
        for _ in 0..looks {
            if self.core().views().visible() >= version {
                return Ok(());
            }
            std::thread::sleep(LOOK_FOR_VERSION);
        }
        let what = format!("this worker is through version {}, and not yet {version}", self.core().views().visible());
        Err(Error::new(ErrorKind::Busy, what).with_hint("ask again, or ask another replica"))
    }

    fn rows(&self, shard: TableId, version: Version) -> Result<Vec<arrow::array::RecordBatch>> {
        let snapshot = snapshot_at(self.core().views(), version, &[shard])?;
        let mut rows = Vec::new();
        each_batch(&snapshot, shard, &mut |batch| {
            rows.push(batch);
            Ok(())
        })?;
        Ok(rows)
    }

    /// Tells the keeper that this worker is there: following may take long, as where a shard is copied.
    fn beat(&self) -> Duration {
        let beat = ToKeeper::Beat { node: self.node, durable: self.core().views().visible() };
        // Who follows hears what the keeper says to that.
        let _ = self.reach.keeper(beat);
        BEAT
    }

    /// One step, and how long to wait before the next one.
    fn follow(&self, follower: &mut Follower) -> Duration {
        match self.follow_once(follower) {
            Ok(true) => Duration::ZERO,
            Ok(false) => FEED_LOOK,
            Err(error) if must_join_again(&error) => {
                // It stood still for too long. Its shards are others' by now; it is given some anew.
                tracing::warn!(node = %self.node, %error, "joining again");
                match join(self.reach.as_ref(), self.node, super::process::random(), &self.address) {
                    Ok(_) => Duration::ZERO,
                    Err(_) => PAUSE_AFTER_FAILURE,
                }
            }
            Err(error) => {
                if error.kind() != ErrorKind::Busy {
                    tracing::error!(node = %self.node, %error, "the decisions cannot be followed; it is tried again");
                }
                // What was followed before that stays; what the log refuses, it has told.
                let _ = self.core().flush();
                let staged = follower.go_back(self.core().views().visible());
                // Of any other failure only a start tells whether the log has it.
                if let Some(load) = staged.filter(|_| error.kind() == ErrorKind::DiskFull) {
                    self.core().discard_load(load);
                }
                PAUSE_AFTER_FAILURE
            }
        }
    }

    /// One step; whether there may be another at once.
    fn follow_once(&self, follower: &mut Follower) -> Result<bool> {
        let core = self.core();
        match follower.step(&core.views().catalog(), &self.bodies)? {
            Step::Follow(followed) => {
                core.committer().follow(followed)?;
                follower.followed();
                Ok(true)
            }
            Step::Fetch(missing) => {
                core.flush()?;
                if self.fetch(&missing)? {
                    return Ok(true);
                }
                // By what is decided now it may not have to be.
                self.feed(follower, follower.fed_through())?;
                std::thread::sleep(PAUSE_AFTER_FAILURE);
                Ok(false)
            }
            Step::Keep(shard, version) => {
                core.flush()?;
                self.copies.keep(core.views(), shard, version)?;
                follower.kept();
                Ok(true)
            }
            Step::Copy(copying) => {
                core.flush()?;
                match self.copy(&copying) {
                    Ok(load) => {
                        follower.copied(copying.at, load);
                        Ok(true)
                    }
                    Err(error) => {
                        let (shard, node) = (copying.def.id, self.node);
                        tracing::warn!(%node, %shard, %error, "a shard cannot be copied; the keeper is told");
                        answered("the keeper", self.reach.keeper(ToKeeper::GiveUpCopy { node, shard }))?;
                        // By what is decided now it may not have to be.
                        self.feed(follower, follower.fed_through())?;
                        std::thread::sleep(PAUSE_AFTER_FAILURE);
                        Ok(false)
                    }
                }
            }
            Step::Feed(after) => {
                core.flush()?;
                self.feed(follower, after)
            }
        }
    }

    /// Asks for the decisions after a version; whether there are any.
    fn feed(&self, follower: &mut Follower, after: Version) -> Result<bool> {
        let durable = Some((self.node, self.core().views().visible()));
        let answer = answered("the keeper", self.reach.keeper(ToKeeper::Feed { after, durable }))?;
        let FromKeeper::Fed { feed, followed, .. } = answer else {
            return Err(Error::internal("an answer to another question"));
        };
        follower.settle(followed, &self.bodies)?;
        self.copies.release(followed);
        locate(self.reach.as_ref(), &feed);
        let before = follower.waiting();
        follower.fed(feed)?;
        Ok(follower.waiting() > before)
    }

    /// Copies a shard from those who have it, one after the other, into files that nothing names yet.
    fn copy(&self, copying: &Copying) -> Result<StagedLoad> {
        let (def, clock) = (Arc::new(copying.def.clone()), SystemClock::default());
        let given_up = clock.monotonic() + COPY_PATIENCE;
        let mut sources: VecDeque<NodeId> = copying.sources.iter().copied().collect();
        let what = format!("nobody gives shard {} as it is at version {}", def.id, copying.at);
        let mut failure = Error::new(ErrorKind::Busy, what);
        while let Some(source) = sources.pop_front() {
            let mut load = self.core().begin_copy(&def)?;
            match self.copy_from(source, copying, load.as_mut()) {
                Ok(()) => {
                    let load = load.finish()?;
                    tracing::info!(node = %self.node, shard = %def.id, rows = load.rows, "a shard is copied");
                    return Ok(load);
                }
                // It may be behind, or be back in a moment.
                Err(error) if error.kind() == ErrorKind::Busy && clock.monotonic() < given_up => {
                    sources.push_back(source);
                    failure = error;
                    std::thread::sleep(PAUSE_AFTER_FAILURE);
                }
                Err(error) => failure = error,
            }
            if self.is_stopping.load(Ordering::Relaxed) {
                break;
            }
        }
        Err(failure)
    }

    fn copy_from(&self, source: NodeId, copying: &Copying, into: &mut dyn Load) -> Result<()> {
        let (shard, version) = (copying.def.id, copying.at);
        let mut from = None;
        while !self.is_stopping.load(Ordering::Relaxed) {
            let (sender, answer) = channel();
            let asked = ToWorker::Copy { shard, version, from };
            self.reach.worker(source, asked, Box::new(move |answer| drop(sender.send(answer))));
            let silent = |_| Error::new(ErrorKind::Busy, format!("nothing is heard of node {source}"));
            let who = format!("node {source}");
            match answered(&who, answer.recv_timeout(PATIENCE).map_err(silent)?)? {
                FromWorker::Copied { rows, next } => {
                    rows.into_iter().try_for_each(|rows| into.append(rows))?;
                    if next.is_none() {
                        return Ok(());
                    }
                    from = next;
                }
                _ => return Err(Error::internal("an answer to another question")),
            }
        }
        Err(Error::new(ErrorKind::Shutdown, "this worker stops"))
    }

    /// Asks those who have a body one after the other; whether one has given it.
    fn fetch(&self, missing: &Missing) -> Result<bool> {
        for &node in missing.holders.iter().filter(|node| **node != self.node) {
            let (sender, answer) = channel();
            let (batch, shard) = (missing.batch, missing.shard);
            let asked = ToWorker::Bodies(ToBodies::Fetch { batch, shard });
            self.reach.worker(node, asked, Box::new(move |answer| drop(sender.send(answer))));
            if let Ok(Ok(Ok(FromWorker::Bodies(FromBodies::Body(Some(body)))))) = answer.recv_timeout(PATIENCE) {
                self.bodies.put_fetched(body)?;
                return Ok(true);
            }
        }
        let (batch, shard) = (missing.batch, missing.shard);
        tracing::warn!(node = %self.node, %batch, %shard, "a body is missing, and nobody gives it; it is asked for again");
        Ok(false)
    }
}
