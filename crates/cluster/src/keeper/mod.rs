//! The keeper: decides about batches, in one order, and keeps the log of that.
//!
//! This is the single keeper. What a group of keepers will have to do is what this one does: propose, feed, save.
//!
//! Invariants:
//! - What is told to anybody, an outcome or a decision, is durable (D5).
//! - After a full disk, what was not durable is not decided; versions are given out anew, and nobody was told of them.
//! - The log is given up through a version only when the image through it is saved, and every worker has followed to it.

mod saved;

use crate::decision::{Decided, Decision, What};
use crate::image::Image;
use crate::manager::{Heard, Limits, Situation, give_up, plan};
use crate::words::{NodeId, Role};
use alluvia_commit::decide::{Decision as Place, Head, Order};
use alluvia_log::{Log, LogOptions, Ticket};
use alluvia_storage::{Disk, DiskLock};
use alluvia_types::{Clock, Error, ErrorKind, Result, TableId, Version};
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A batch that a gateway would have decided.
#[derive(Clone, PartialEq, Debug)]
pub struct Proposal {
    /// What it is, and what of it is durable where.
    pub decided: Decided,
    /// By which definitions its rows were checked, by table.
    pub checked: Vec<(TableId, Version)>,
    /// Tables of which no row may have been written since a version.
    pub unwritten: Vec<(TableId, Version)>,
    /// Shards that were looked at for what its rows do to those that are there, and after which version. No row of them may have been
    /// written since.
    pub looked: Vec<(TableId, Version)>,
}

/// What became of a proposal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The batch's version (of its first copy, if it was sent before).
    pub version: Version,
    /// Whether its producer or client had sent it before.
    pub duplicate: bool,
}

/// What a follower is given.
#[derive(Clone, Debug)]
pub enum Feed {
    /// The next decisions after those that it has, in order; none if there are none yet.
    Decisions(Vec<Arc<Decision>>),
    /// The decisions are not kept any more: what they come to.
    Image(Arc<Image>),
}

/// A single keeper.
#[derive(Debug)]
pub struct Keeper {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    clock: Arc<dyn Clock>,
    log: Log,
    state: Mutex<State>,
    /// Told when something is decided.
    decided: Condvar,
    waiting: Mutex<()>,
    _lock: Box<dyn DiskLock>,
}

#[derive(Debug)]
struct State {
    /// What is saved.
    base: Arc<Image>,
    /// The decisions above it, durable or not.
    decisions: VecDeque<Arc<Decision>>,
    /// With all of them.
    image: Image,
    /// The workers that follow, as the image has them: asked for at each feed.
    followers: BTreeSet<NodeId>,
    order: Order,
    /// Of what was written through this version, the order does not know of which tables it was.
    opened_at: Version,
    /// How often the log was rewound.
    generation: u64,
    /// What workers have said of themselves.
    heard: BTreeMap<NodeId, Heard>,
    /// Copies that workers have given up, and until when they are not tried again.
    failed: BTreeMap<(NodeId, TableId), Duration>,
    /// When the keeper last looked what there is to do, and by which limits.
    managed: Option<(Duration, Limits)>,
}

impl State {
    fn new(base: Arc<Image>, decisions: VecDeque<Arc<Decision>>, generation: u64) -> Result<State> {
        let mut image = Image::clone(&base);
        decisions.iter().try_for_each(|decision| image.apply(decision))?;
        let keys = image.keys.iter().copied();
        let (catalog, producers) = (Arc::clone(&image.catalog), image.producers.clone());
        let order = Order::new(image.version, image.commit_micros, catalog, producers, keys);
        let opened_at = image.version;
        let (followers, heard) = (image.followers(), BTreeMap::new());
        let (failed, managed) = (BTreeMap::new(), None);
        Ok(State { base, decisions, image, followers, order, opened_at, generation, heard, failed, managed })
    }
}

impl State {
    fn situation(&self, now: Duration) -> Situation<'_> {
        let State { image, decisions, heard, failed, .. } = self;
        let limits = self.managed.map_or_else(Limits::default, |(_, limits)| limits);
        Situation { image, decisions, heard, failed, now, limits, kept_after: self.base.version }
    }
}

impl Keeper {
    /// Opens the keeper's directory, or begins one, of a cluster whose random number is `seed`.
    ///
    /// Errors: `Locked` where it is open; as the log and the disk have them; `Corrupt`.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, clock: Arc<dyn Clock>, seed: u64) -> Result<Keeper> {
        let io = |doing: &'static str, path: PathBuf| move |error: std::io::Error| Error::io(&path, doing, &error);
        let log_dir = dir.join("decisions");
        for dir in [dir, &log_dir] {
            disk.create_dir_all(dir).map_err(io("creating", dir.into()))?;
        }
        let lock_path = dir.join("lock");
        let lock = disk.try_lock(&lock_path).map_err(io("locking", lock_path))?.ok_or_else(|| {
            Error::new(ErrorKind::Locked, format!("{} is in use by another keeper", dir.display()))
                .with_hint("one process at a time may open it: stop the other one first")
        })?;
        disk.sync_dir(dir).map_err(io("syncing", dir.into()))?;
        let base = Arc::new(saved::load_or_begin(disk.as_ref(), dir, seed)?);
        let mut decisions = VecDeque::new();
        let options = LogOptions { is_marked: false, clock: Arc::clone(&clock), ..LogOptions::new(base.cluster) };
        let log = Log::open(Arc::clone(&disk), &log_dir, options, base.version, &mut |record| {
            decisions.push_back(Arc::new(Decision::decode(record.version, record.commit_micros, record.body)?));
            Ok(())
        })?;
        let state = Mutex::new(State::new(base, decisions, 0)?);
        let (decided, waiting) = (Condvar::new(), Mutex::default());
        Ok(Keeper { disk, dir: dir.into(), clock, log, state, decided, waiting, _lock: lock })
    }

    /// Decides about a batch. The outcome is durable. A batch that was decided before has its version.
    ///
    /// Errors: `Conflict`: things have changed since, and nothing is decided. `DiskFull`: nothing is decided. `Busy`: too few
    /// replicas have it. What the order of versions refuses. Others: whether it is decided is known once the keeper is open again.
    pub fn propose(&self, proposal: Proposal) -> Result<Outcome> {
        let (outcome, ticket, generation) = {
            let mut state = self.state.lock();
            let generation = state.generation;
            if let Some(version) = state.image.decided(proposal.decided.id) {
                (Outcome { version, duplicate: false }, self.log.ticket(version), generation)
            } else {
                let (outcome, ticket) = self.decide(&mut state, proposal)?;
                (outcome, ticket, generation)
            }
        };
        self.settle(ticket, generation)?;
        Ok(outcome)
    }

    fn decide(&self, state: &mut State, proposal: Proposal) -> Result<(Outcome, Ticket)> {
        state.image.check(&proposal)?;
        let admitted = state.image.check_looked(&proposal);
        let Proposal { decided, checked, unwritten, .. } = proposal;
        if let Some((table, _)) = unwritten.iter().find(|(_, at)| *at < state.opened_at) {
            let name = state.image.catalog.by_id(*table).map_or_else(String::new, |entry| entry.def.name.clone());
            let what = format!("the keeper has started anew since rows of table '{name}', which is dropped, were read");
            return Err(Error::new(ErrorKind::Conflict, what).with_hint("run the transaction again"));
        }
        let (producer, key) = (decided.producer.as_ref(), decided.key);
        let head = Head { changes: &decided.changes, producer, key, checked: &checked, unwritten: &unwritten };
        let place = match state.order.decide(head, self.clock.wall_micros(), admitted)? {
            Place::Next(place) => place,
            Place::Duplicate(version) => return Ok((Outcome { version, duplicate: true }, self.log.ticket(version))),
        };
        let (rows, tables) = (decided.rows(), decided.tables());
        let (version, commit_micros) = (place.version, place.commit_micros);
        let decision = Decision { version, commit_micros, what: What::Batch(Box::new(decided)) };
        let ticket = self.append(state, &decision)?;
        if let What::Batch(decided) = &decision.what {
            state.order.accept(place, decided.producer.as_ref(), decided.key, rows, &tables);
        }
        state.decisions.push_back(Arc::new(decision));
        Ok((Outcome { version, duplicate: false }, ticket))
    }

    /// Puts a decision, which the order has let in, into the log and into the image.
    fn append(&self, state: &mut State, decision: &Decision) -> Result<Ticket> {
        let ticket = self.log.append_owned(decision.version, decision.commit_micros, decision.encode()?)?;
        state.image.apply(decision).expect("the order has applied its changes to the same definitions");
        // Batches of rows alone move no shard.
        if decision.batch().is_none_or(|decided| !decided.placed.is_empty()) {
            state.followers = state.image.followers();
        }
        Ok(ticket)
    }

    /// Decides something that is no batch.
    fn decide_other(&self, what: impl FnOnce(&Image) -> What) -> Result<()> {
        self.decide_if(|state| Some(what(&state.image))).map(drop)
    }

    /// The same, if there is anything to decide; whether there was.
    fn decide_if(&self, what: impl FnOnce(&mut State) -> Option<What>) -> Result<bool> {
        let (ticket, generation) = {
            let mut state = self.state.lock();
            let Some(what) = what(&mut state) else { return Ok(false) };
            let head = Head { changes: &[], producer: None, key: None, checked: &[], unwritten: &[] };
            let Place::Next(place) = state.order.decide(head, self.clock.wall_micros(), Ok(()))? else {
                return Err(Error::internal("what is no batch was sent before"));
            };
            let (version, commit_micros) = (place.version, place.commit_micros);
            let decision = Decision { version, commit_micros, what };
            let ticket = self.append(&mut state, &decision)?;
            state.order.accept(place, None, None, 0, &[]);
            state.decisions.push_back(Arc::new(decision));
            (ticket, state.generation)
        };
        self.settle(ticket, generation)?;
        Ok(true)
    }

    /// A node has started, as a process of a random number: it has another incarnation from then on, which is returned. Who asks again has
    /// the same.
    pub fn join(&self, node: NodeId, process: u64, roles: &[Role], address: &str) -> Result<u64> {
        let known = {
            let state = self.state.lock();
            let known = state.image.nodes.get(&node).filter(|state| state.process == process);
            known.map(|known| (known.incarnation, self.log.ticket(state.image.version), state.generation))
        };
        if let Some((incarnation, ticket, generation)) = known {
            self.settle(ticket, generation)?;
            return Ok(incarnation);
        }
        let mut roles = roles.to_vec();
        roles.sort();
        // It is there: what it says of its database comes later.
        if let Some(heard) = self.state.lock().heard.get_mut(&node) {
            heard.at = self.clock.monotonic();
        }
        let mut incarnation = 0;
        self.decide_other(|image| {
            incarnation = image.nodes.get(&node).map_or(1, |state| state.incarnation + 1);
            What::Joined { node, incarnation, process, roles, address: address.to_owned() }
        })?;
        Ok(incarnation)
    }

    /// Gives so many numbers, the first of which is returned: for tables, shards and schemas. None is ever given again.
    pub fn numbers(&self, count: u32) -> Result<TableId> {
        let mut first = 0;
        self.decide_other(|image| {
            first = image.next_number;
            What::Numbers { through: first + count.max(1) - 1 }
        })?;
        Ok(TableId(first))
    }

    /// Waits until a decision is durable; takes back what never will be.
    fn settle(&self, ticket: Ticket, generation: u64) -> Result<()> {
        let Err(error) = self.log.sync(ticket) else {
            // Whoever has looked and begins to wait holds this.
            drop(self.waiting.lock());
            self.decided.notify_all();
            return Ok(());
        };
        if error.kind() == ErrorKind::DiskFull {
            self.take_back(generation)?;
        }
        Err(error)
    }

    /// Returns once there is a version above one, at the latest after so long.
    pub fn wait_newer(&self, than: Version, patience: Duration) {
        let mut waiting = self.waiting.lock();
        if self.now() <= than {
            self.decided.wait_for(&mut waiting, patience);
        }
    }

    fn take_back(&self, generation: u64) -> Result<()> {
        let mut state = self.state.lock();
        if state.generation != generation {
            return Ok(());
        }
        let durable = self.log.rewind();
        let mut decisions = std::mem::take(&mut state.decisions);
        decisions.retain(|decision| decision.version <= durable);
        let (generation, heard) = (state.generation + 1, std::mem::take(&mut state.heard));
        let (failed, managed) = (std::mem::take(&mut state.failed), state.managed);
        *state = State { heard, failed, managed, ..State::new(Arc::clone(&state.base), decisions, generation)? };
        Ok(())
    }

    /// The random number of the cluster.
    pub fn cluster(&self) -> u64 {
        self.state.lock().base.cluster
    }

    /// The newest version: what is asked for now sees everything through it.
    pub fn now(&self) -> Version {
        self.log.durable()
    }

    /// Notes what a worker says of itself, and gives the version that all workers' databases are durable through: bodies of batches through it
    /// are missed by none. Workers that are dead, and have no shards that nobody else has, miss nothing.
    pub fn followed(&self, durable: Option<(NodeId, Version)>) -> Version {
        let mut state = self.state.lock();
        if let Some((node, durable)) = durable {
            state.heard.insert(node, Heard { at: self.clock.monotonic(), durable });
        }
        let of_worker = |node: NodeId| state.heard.get(&node).map_or(Version(0), |heard| heard.durable);
        // Who is given up by what is not durable yet may not be.
        let durable = self.log.durable();
        let newest = state.decisions.iter().rev().take_while(|decision| decision.version > durable);
        let leaving = newest.filter_map(|decision| match &decision.what {
            What::Left(left) => Some(left.node),
            _ => None,
        });
        state.followers.iter().copied().chain(leaving).map(of_worker).min().unwrap_or_default()
    }

    /// Whether a worker was taken for dead, and has not joined since.
    pub fn is_dead(&self, node: NodeId) -> bool {
        self.state.lock().image.nodes.get(&node).is_some_and(|state| state.is_dead)
    }

    /// Looks whether there is anything to decide by itself, and decides it: workers that are lost, shards that lack replicas. To be called at
    /// an interval well below `limits`; returns whether there was anything.
    ///
    /// Errors: as [`Keeper::propose`].
    pub fn manage(&self, limits: Limits) -> Result<bool> {
        let now = self.clock.monotonic();
        self.decide_if(|state| {
            // A keeper that has just begun, or stood still, has heard nobody: that says nothing of the others.
            let stood_still = state.managed.is_none_or(|(at, _)| now.saturating_sub(at) >= limits.suspect_after);
            for &node in &state.followers {
                let heard = state.heard.entry(node).or_insert(Heard { at: now, durable: Version(0) });
                heard.at = if stood_still { now } else { heard.at };
            }
            state.managed = Some((now, limits));
            state.failed.retain(|_, until| *until > now);
            plan(&state.situation(now))
        })
    }

    /// A worker cannot copy a shard: nobody has its rows as they were. It has the shard no more, if others have it, and is not asked to copy
    /// it for a while.
    ///
    /// Errors: as [`Keeper::propose`].
    pub fn give_up_copy(&self, node: NodeId, shard: TableId) -> Result<()> {
        let now = self.clock.monotonic();
        let given_up = self.decide_if(|state| {
            let limits = state.managed.map_or_else(Limits::default, |(_, limits)| limits);
            state.failed.insert((node, shard), now + limits.dead_after / 4);
            give_up(&state.situation(now), node, shard)
        });
        given_up.map(drop)
    }

    /// At most `count` decisions after a version; where these are not kept any more, what they come to.
    pub fn feed(&self, after: Version, count: usize) -> Feed {
        let durable = self.log.durable();
        let state = self.state.lock();
        if after < state.base.version {
            return Feed::Image(Arc::clone(&state.base));
        }
        let from = (after.0 - state.base.version.0) as usize;
        let next = state.decisions.iter().skip(from).take(count);
        Feed::Decisions(next.take_while(|decision| decision.version <= durable).cloned().collect())
    }

    /// Saves the image through a version, which every worker has followed to, and gives up the log before it. A later version than is
    /// durable is that; one that is saved changes nothing.
    ///
    /// Errors: of the disk; then more is kept than must be.
    pub fn save(&self, through: Version) -> Result<()> {
        let through = through.min(self.log.durable());
        let (mut image, decisions) = {
            let state = self.state.lock();
            (Image::clone(&state.base), state.decisions.clone())
        };
        if through <= image.version {
            return Ok(());
        }
        decisions
            .iter()
            .take_while(|decision| decision.version <= through)
            .try_for_each(|decision| image.apply(decision))?;
        let image = Arc::new(image);
        saved::store(self.disk.as_ref(), &self.dir, &image)?;
        let mut state = self.state.lock();
        if image.version > state.base.version {
            state.decisions.retain(|decision| decision.version > image.version);
            state.base = Arc::clone(&image);
        }
        drop(state);
        self.log.remove_through(image.version)
    }
}
