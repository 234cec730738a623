//! A worker's process.

use super::net::{CopyPart, KEEPER, MILLI, MachineId, Message, node_of, place_of};
use alluvia_cluster::message::{FromBodies, FromKeeper, ToBodies, ToKeeper, must_join_again, serve_bodies};
use alluvia_cluster::worker::{each_batch, snapshot_at};
use alluvia_cluster::{Bodies, CopiedTo, Copies, Copying, Follower, Image, Missing, Role, Step};
use alluvia_sim::rows::{FoundRow, found_rows};
use alluvia_sim::{Engine, EngineOptions, Random};
use alluvia_snapshot::Load;
use alluvia_storage::{Disk, FaultDisk};
use alluvia_types::{ErrorKind, ManualClock, Result, TableId, Version};
use arrow::record_batch::RecordBatch;
use std::path::Path;
use std::sync::Arc;

/// A question is asked again after so long without an answer.
const PATIENCE: u64 = 100 * MILLI;

/// What is to be sent: to whom, and what. Questions get a number; answers have that of their question.
pub type Out = (MachineId, Message);

pub struct Worker {
    place: MachineId,
    pub engine: Engine,
    bodies: Bodies,
    follower: Follower,
    /// When it last asked for decisions, if no answer has come.
    asked_feed: Option<u64>,
    /// The same for a missing body; and whom it asks next.
    asked_body: Option<u64>,
    turn: usize,
    /// What is kept for others that copy shards.
    copies: Copies,
    /// The shard that it copies.
    copy: Option<Copy>,
}

/// A shard that is being copied.
struct Copy {
    copying: Copying,
    /// Tries that have failed; each source is tried twice.
    failed: usize,
    under_way: Option<(Box<dyn Load>, CopyPart)>,
    asked: u64,
}

impl Worker {
    pub fn open(place: MachineId, disk: &Arc<FaultDisk>, clock: &Arc<ManualClock>, image: &Image) -> Result<Worker> {
        let disk = Arc::clone(disk) as Arc<dyn Disk>;
        // Of rows that come and go within one sort nothing is left: the more it takes, the more that is so.
        let options = EngineOptions { sort_step_bytes: u64::MAX, ..EngineOptions::default() };
        let engine = Engine::open(Arc::clone(&disk), Arc::clone(clock) as _, &options)?;
        let bodies = Bodies::open(disk, Path::new("/bodies"), Arc::clone(clock) as _, image.cluster)?;
        let mut follower = Follower::new(node_of(place), engine.views().visible());
        follower.started(image, &bodies);
        Ok(Worker {
            place,
            engine,
            bodies,
            follower,
            asked_feed: None,
            asked_body: None,
            turn: 0,
            copies: Copies::default(),
            copy: None,
        })
    }

    pub fn through(&self) -> Version {
        self.engine.views().visible()
    }

    pub fn kept(&self) -> (usize, u64) {
        self.bodies.load()
    }

    /// Looks what there is to do; now and then it sorts and merges. An error is one that the process does not survive.
    pub fn tick(&mut self, now: u64, random: &mut Random) -> Result<Vec<Out>> {
        let organised = match random.below(30) {
            0 => self.engine.sort(),
            1 if random.one_in(4) => self.engine.merge(),
            _ => Ok(true),
        };
        passing(organised.map(drop))?;
        self.go_on(now)
    }

    /// Follows as far as it can, and asks for what it lacks.
    fn go_on(&mut self, now: u64) -> Result<Vec<Out>> {
        loop {
            match self.follower.step(&self.engine.catalog(), &self.bodies)? {
                Step::Follow(followed) => match self.engine.follow(followed) {
                    Ok(()) => self.follower.followed(),
                    error => {
                        passing(error)?;
                        self.follower.go_back(self.engine.views().visible());
                        return Ok(Vec::new());
                    }
                },
                Step::Fetch(missing) => {
                    passing(self.flush())?;
                    let mut out = self.fetch(&missing, now);
                    out.extend(self.feed(self.follower.fed_through(), now));
                    return Ok(out);
                }
                Step::Keep(shard, version) => {
                    passing(self.flush())?;
                    if self.engine.views().visible() < version {
                        return Ok(Vec::new());
                    }
                    self.copies.keep(self.engine.views(), shard, version)?;
                    self.follower.kept();
                }
                Step::Copy(copying) => {
                    passing(self.flush())?;
                    return self.copy(*copying, now);
                }
                Step::Feed(after) => {
                    passing(self.flush())?;
                    return Ok(self.feed(after, now));
                }
            }
        }
    }

    fn feed(&mut self, after: Version, now: u64) -> Vec<Out> {
        if self.asked_feed.is_some_and(|asked| now < asked + PATIENCE) {
            return Vec::new();
        }
        self.asked_feed = Some(now);
        let durable = Some((node_of(self.place), self.engine.views().visible()));
        vec![(KEEPER, Message::AskKeeper(ToKeeper::Feed { after, durable }))]
    }

    /// Begins to copy a shard, or goes on: with another source where one is silent, and once all were tried in vain the keeper is told.
    fn copy(&mut self, copying: Copying, now: u64) -> Result<Vec<Out>> {
        if self.engine.views().visible() < copying.at {
            return Ok(Vec::new());
        }
        let is_same = |copy: &Copy| copy.copying == copying;
        let mut copy = match self.copy.take().filter(is_same) {
            Some(copy) => copy,
            None => Copy { copying, failed: 0, under_way: None, asked: 0 },
        };
        let mut out = self.feed(self.follower.fed_through(), now);
        if copy.under_way.is_some() && now >= copy.asked + PATIENCE {
            copy.fail();
        }
        if copy.failed >= 2 * copy.copying.sources.len() {
            let (node, shard) = (node_of(self.place), copy.copying.def.id);
            out.push((KEEPER, Message::AskKeeper(ToKeeper::GiveUpCopy { node, shard })));
            copy.failed = 0;
        }
        if copy.under_way.is_none() && now >= copy.asked + PATIENCE / 4 {
            // What was here before of the shard must be out of the way.
            if let Err(error) = self.engine.sort() {
                passing(Err(error))?;
                self.copy = Some(copy);
                return Ok(out);
            }
            let load = self.engine.begin_copy(&Arc::new(copy.copying.def.clone()))?;
            let part = CopyPart { shard: copy.copying.def.id, version: copy.copying.at, from: None };
            (copy.under_way, copy.asked) = (Some((load, part)), now);
            out.push((copy.source(), Message::AskCopy(part)));
        }
        self.copy = Some(copy);
        Ok(out)
    }

    /// Takes rows of the shard that it copies.
    fn told_copy(
        &mut self,
        part: CopyPart,
        answer: Result<(Vec<RecordBatch>, Option<CopiedTo>)>,
        now: u64,
    ) -> Result<Vec<Out>> {
        let Some(copy) = &mut self.copy else { return Ok(Vec::new()) };
        if copy.under_way.as_ref().is_none_or(|(_, asked)| *asked != part) {
            return Ok(Vec::new());
        }
        let Some((mut load, _)) = copy.under_way.take() else { return Ok(Vec::new()) };
        let done = answer.and_then(|(rows, next)| {
            rows.into_iter().try_for_each(|rows| load.append(rows))?;
            match next {
                Some(_) => {
                    let part = CopyPart { from: next, ..part };
                    (copy.under_way, copy.asked) = (Some((load, part)), now);
                    Ok(None)
                }
                None => load.finish().map(Some),
            }
        });
        match done {
            Ok(Some(load)) => {
                self.copy = None;
                self.follower.copied(part.version, load);
                self.go_on(now)
            }
            Ok(None) => {
                let next = copy.under_way.as_ref().map(|(_, part)| *part);
                Ok(next.into_iter().map(|part| (copy.source(), Message::AskCopy(part))).collect())
            }
            // Asked again, or of another, soon.
            Err(_) => {
                copy.fail();
                Ok(Vec::new())
            }
        }
    }

    /// Makes durable what was followed.
    fn flush(&mut self) -> Result<()> {
        if let Err(error) = self.engine.flush() {
            self.follower.go_back(self.engine.views().visible());
            return Err(error);
        }
        Ok(())
    }

    fn fetch(&mut self, missing: &Missing, now: u64) -> Vec<Out> {
        let others: Vec<MachineId> =
            missing.holders.iter().map(|node| place_of(*node)).filter(|place| *place != self.place).collect();
        if others.is_empty() || self.asked_body.is_some_and(|asked| now < asked + PATIENCE) {
            return Vec::new();
        }
        self.asked_body = Some(now);
        self.turn += 1;
        let (batch, shard) = (missing.batch, missing.shard);
        vec![(others[self.turn % others.len()], Message::AskBodies(ToBodies::Fetch { batch, shard }))]
    }

    /// Answers a question.
    pub fn answer(&mut self, asked: Message) -> Option<Message> {
        match asked {
            Message::AskBodies(asked) => Some(Message::BodiesSay(serve_bodies(&self.bodies, asked))),
            Message::AskRows { shard, version } => Some(Message::Rows(self.rows(shard, version))),
            Message::AskCopy(part) => {
                let CopyPart { shard, version, from } = part;
                Some(Message::Copied(part, self.copies.rows(self.engine.views(), shard, version, from)))
            }
            _ => None,
        }
    }

    pub fn rows(&self, shard: TableId, version: Version) -> Result<Vec<FoundRow>> {
        let snapshot = snapshot_at(self.engine.views(), version, &[shard])?;
        let mut rows = Vec::new();
        each_batch(&snapshot, shard, &mut |batch| {
            rows.extend(found_rows(&snapshot.tables[&shard].entry.def, &batch)?);
            Ok(())
        })?;
        rows.sort();
        Ok(rows)
    }

    /// Takes an answer to one of its questions.
    pub fn told(&mut self, said: Message, now: u64) -> Result<Vec<Out>> {
        match said {
            Message::KeeperSays(Ok(FromKeeper::Fed { feed, followed, .. })) => {
                self.asked_feed = None;
                self.follower.settle(followed, &self.bodies)?;
                self.copies.release(followed);
                self.follower.fed(feed)?;
            }
            Message::KeeperSays(Err(error)) if must_join_again(&error) => {
                let (node, process, roles) = (node_of(self.place), now, vec![Role::Worker]);
                let join = ToKeeper::Join { node, process, roles, address: String::new() };
                return Ok(vec![(KEEPER, Message::AskKeeper(join))]);
            }
            Message::Copied(part, answer) => return self.told_copy(part, answer, now),
            Message::BodiesSay(Ok(FromBodies::Body(body))) => {
                self.asked_body = None;
                if let Some(body) = body {
                    passing(self.bodies.put_fetched(body))?;
                }
            }
            _ => return Ok(Vec::new()),
        }
        self.go_on(now)
    }

    /// What it does next, for whoever reads why it does not go on.
    pub fn next(&mut self) -> String {
        let step = self.follower.step(&self.engine.catalog(), &self.bodies);
        match step {
            Ok(Step::Follow(followed)) => format!("is to follow {}", followed.version),
            step => format!("{step:?}"),
        }
    }

    /// The shards that are here.
    pub fn has(&self, shard: TableId) -> bool {
        self.engine.entry(shard).is_some()
    }
}

impl Copy {
    fn source(&self) -> MachineId {
        place_of(self.copying.sources[self.failed % self.copying.sources.len()])
    }

    fn fail(&mut self) {
        (self.under_way, self.failed) = (None, self.failed + 1);
    }
}

/// A disk that is full will have room again; any other error of the engine ends the process.
fn passing(result: Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::DiskFull => Ok(()),
        result => result,
    }
}
