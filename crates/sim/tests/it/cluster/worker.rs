//! A worker's process.

use super::net::{KEEPER, MILLI, MachineId, Message, node_of, place_of};
use alluvia_cluster::message::{FromBodies, FromKeeper, ToBodies, ToKeeper, serve_bodies};
use alluvia_cluster::worker::{each_batch, snapshot_at};
use alluvia_cluster::{Bodies, Follower, Image, Missing, Step};
use alluvia_sim::rows::{FoundRow, found_rows};
use alluvia_sim::{Engine, EngineOptions, Random};
use alluvia_storage::{Disk, FaultDisk};
use alluvia_types::{ErrorKind, ManualClock, Result, TableId, Version};
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
}

impl Worker {
    pub fn open(place: MachineId, disk: &Arc<FaultDisk>, clock: &Arc<ManualClock>, image: &Image) -> Result<Worker> {
        let disk = Arc::clone(disk) as Arc<dyn Disk>;
        let engine = Engine::open(Arc::clone(&disk), Arc::clone(clock) as _, &EngineOptions::default())?;
        let bodies = Bodies::open(disk, Path::new("/bodies"), Arc::clone(clock) as _, image.cluster)?;
        let mut follower = Follower::new(node_of(place), engine.views().visible());
        follower.started(image, &bodies);
        Ok(Worker { place, engine, bodies, follower, asked_feed: None, asked_body: None, turn: 0 })
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
                    return Ok(self.fetch(&missing, now));
                }
                Step::Feed(_) => {
                    passing(self.flush())?;
                    if self.asked_feed.is_some_and(|asked| now < asked + PATIENCE) {
                        return Ok(Vec::new());
                    }
                    self.asked_feed = Some(now);
                    let after = self.follower.through();
                    let durable = Some((node_of(self.place), self.engine.views().visible()));
                    return Ok(vec![(KEEPER, Message::AskKeeper(ToKeeper::Feed { after, durable }))]);
                }
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
                self.follower.fed(feed)?;
            }
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

/// A disk that is full will have room again; any other error of the engine ends the process.
fn passing(result: Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::DiskFull => Ok(()),
        result => result,
    }
}
