//! All machines, their network, their clients, the faults, and what is checked all the time.

use super::clients::{Client, Content, PATIENCE, Reply, Token, Wish, tables};
use super::gateway::{Gateway, tables_of};
use super::machines::Machine;
use super::model::Model;
use super::net::{Event, KEEPER, MILLI, MachineId, Message, Net, Packet, SECOND, Trouble, node_of};
use super::worker::Worker;
use crate::keyed::tables::KeyKind;
use alluvia_cluster::message::{ToKeeper, serve_keeper};
use alluvia_cluster::{Feed, Keeper, Limits, PlacedTable, Role, What};
use alluvia_sim::Random;
use alluvia_sim::rows::FoundRow;
use alluvia_storage::Disk;
use alluvia_types::{ErrorKind, ManualClock, TableId, Version};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const CLUSTER: u64 = 77;

/// What fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Faults {
    None,
    /// Gateways crash, often.
    Gateways,
    /// Machines crash, stand still, are cut off from one another, and have full disks.
    All,
}

#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub workers: usize,
    pub gateways: usize,
    pub clients: usize,
    pub replicas: u32,
    /// Batches of each client.
    pub batches: u64,
    pub trouble: Trouble,
    pub faults: Faults,
    /// After so long without a word a worker is taken for dead; `None`: never.
    pub dead_after: Option<u64>,
}

pub struct World {
    setup: Setup,
    random: Random,
    clock: Arc<ManualClock>,
    net: Net,
    keeper: Machine<Keeper>,
    workers: Vec<Machine<Worker>>,
    gateways: Vec<Machine<Gateway>>,
    clients: Vec<Client>,
    model: Model,
    tables: Vec<(TableId, KeyKind)>,
    /// When which version was acknowledged to some client.
    acknowledged: Vec<(u64, Version)>,
    /// The version that each worker was durable through when it was last seen.
    through: Vec<Version>,
    calm: bool,
    pub reads: u64,
    pub faults: u64,
    /// Copies of shards that were decided, and shards that workers have lost.
    pub copied: u64,
    pub left: u64,
}

impl World {
    pub fn new(setup: Setup, seed: u64) -> World {
        let machines = |count: usize| (0..count).map(|_| Machine::new()).collect();
        let mut world = World {
            setup,
            random: Random::new(seed),
            clock: Arc::default(),
            net: Net::new(Trouble { dropped: 0, twice: 0, late: 0 }),
            keeper: Machine::new(),
            workers: machines(setup.workers),
            gateways: (0..setup.gateways).map(|_| Machine::new()).collect(),
            clients: (0..setup.clients).map(|at| Client::new(at, setup.batches)).collect(),
            model: Model::default(),
            tables: Vec::new(),
            acknowledged: Vec::new(),
            through: vec![Version(0); setup.workers],
            calm: true,
            reads: 0,
            faults: 0,
            copied: 0,
            left: 0,
        };
        for place in 0..=setup.workers + setup.gateways {
            world.start(place);
        }
        world.define();
        world.net.trouble = setup.trouble;
        world.calm = false;
        for client in 0..setup.clients {
            let at = world.random.below(20 * MILLI);
            world.net.after(at, Event::Client(client));
        }
        if setup.faults != Faults::None {
            world.net.after(100 * MILLI, Event::Fault);
        }
        world
    }

    /// Makes the tables, before there is any trouble.
    fn define(&mut self) {
        let define = tables(self.setup.replicas);
        let count = define.len();
        let content = Arc::new(Content { define, ..Content::default() });
        // All workers must have joined: else tables lie on fewer.
        self.run_until("gateways are ready", |world| {
            world.gateways.iter().all(|gateway| {
                gateway.running.as_ref().is_some_and(|gateway| gateway.image.workers().len() == world.setup.workers)
            })
        });
        let mark = self.clients[0].mark();
        self.clients[0].wish = Some(Wish::Write { content, mark });
        self.net.after(0, Event::Client(0));
        self.run_until("tables are made", |world| {
            world.clients[0].wish.is_none()
                && world.gateways.iter().all(|gateway| {
                    gateway.running.as_ref().is_some_and(|gateway| tables_of(&gateway.image).len() == count)
                })
        });
        self.tables = self.gateways[0].running.as_ref().map(|gateway| tables_of(&gateway.image)).unwrap_or_default();
    }

    fn run_until(&mut self, what: &str, is_so: impl Fn(&World) -> bool) {
        let deadline = self.net.now + 10 * SECOND;
        while !is_so(self) {
            let event = self.net.next().expect("machines tick");
            if self.net.now > deadline {
                panic!("not within ten seconds: {what}; {}", self.state());
            }
            self.handle(event);
        }
    }

    /// What is where, for whoever reads why it does not go on.
    fn state(&mut self) -> String {
        let workers: Vec<String> = self
            .workers
            .iter_mut()
            .zip(&self.through)
            .map(|(worker, through)| match &mut worker.running {
                Some(worker) => {
                    format!("through {} with {} bodies, {}", worker.through(), worker.kept().0, worker.next())
                }
                None => format!("down after {through}"),
            })
            .collect();
        let clients: Vec<String> =
            self.clients.iter().map(|client| format!("{} left, {:?}", client.left, client.wish.is_some())).collect();
        format!("the keeper is at {}, workers {workers:?}, clients {clients:?}", self.model.version())
    }

    /// Runs until clients have nothing left to send; then without faults until everything is everywhere; then compares.
    pub fn run(&mut self) {
        let deadline = self.net.now + 120 * SECOND;
        while !self.clients.iter().all(Client::is_done) && self.net.now < deadline {
            let event = self.net.next().expect("machines tick");
            self.handle(event);
        }
        self.heal();
        self.run_until("all is acknowledged and followed once nothing fails any more", |world| {
            let newest = world.model.version();
            let has_all =
                |worker: &Machine<Worker>| worker.running.as_ref().is_some_and(|worker| worker.through() == newest);
            world.clients.iter().all(Client::is_done) && world.workers.iter().all(has_all) && world.is_replicated()
        });
        self.check_end();
    }

    /// Whether all shards have as many replicas as they are to have.
    fn is_replicated(&self) -> bool {
        let image = self.model.image(CLUSTER);
        let is_whole = |placed: &PlacedTable| {
            let wanted = placed.wanted(self.setup.workers);
            placed.shards.iter().all(|shard| shard.replicas.len() == wanted)
        };
        image.workers().len() == self.setup.workers && image.placed.values().all(is_whole)
    }

    fn heal(&mut self) {
        self.calm = true;
        self.net.trouble = Trouble { dropped: 0, twice: 0, late: 0 };
        self.net.cuts.clear();
        for place in 0..=self.setup.workers + self.setup.gateways {
            self.with_disk(place, |disk| disk.limit_bytes(None));
            if !self.is_running(place) {
                self.start(place);
            }
        }
    }

    fn with_disk(&self, place: MachineId, run: impl FnOnce(&alluvia_storage::FaultDisk)) {
        match place {
            KEEPER => run(&self.keeper.disk),
            place if place <= self.setup.workers => run(&self.workers[place - 1].disk),
            place => run(&self.gateways[place - 1 - self.setup.workers].disk),
        }
    }

    fn is_running(&self, place: MachineId) -> bool {
        match place {
            KEEPER => self.keeper.running.is_some(),
            place if place <= self.setup.workers => self.workers[place - 1].running.is_some(),
            place => self.gateways[place - 1 - self.setup.workers].running.is_some(),
        }
    }

    /// Starts a machine that is down; one whose disk is full comes later.
    fn start(&mut self, place: MachineId) {
        let process = self.random.number();
        let workers = self.setup.workers;
        match place {
            KEEPER => {
                let (disk, clock) = (Arc::clone(&self.keeper.disk) as Arc<dyn Disk>, Arc::clone(&self.clock));
                let keeper = Keeper::open(disk, Path::new("/keeper"), clock as _, CLUSTER).expect("a keeper opens");
                assert!(keeper.now() >= self.model.version(), "D5: what the keeper has told is durable");
                self.keeper.running = Some(keeper);
                self.keeper.life += 1;
            }
            place if place <= workers => {
                let image = self.model.image(CLUSTER);
                let machine = &mut self.workers[place - 1];
                let worker = Worker::open(place, &machine.disk, &self.clock, &image).expect("a worker opens");
                assert!(worker.through() >= self.through[place - 1], "what a worker has shown is durable");
                machine.running = Some(worker);
                machine.life += 1;
                let join =
                    ToKeeper::Join { node: node_of(place), process, roles: vec![Role::Worker], address: String::new() };
                let packet =
                    Packet { from: place, to: KEEPER, call: 0, life: machine.life, message: Message::AskKeeper(join) };
                self.net.after(MILLI, Event::Packet(packet));
            }
            place => {
                let machine = &mut self.gateways[place - 1 - workers];
                machine.running = Some(Gateway::new(place, process));
                machine.life += 1;
            }
        }
        self.net.after(MILLI, Event::Tick(place));
    }

    fn crash(&mut self, place: MachineId) {
        let random = &mut self.random;
        match place {
            KEEPER => self.keeper.crash(random),
            place if place <= self.setup.workers => self.workers[place - 1].crash(random),
            place => self.gateways[place - 1 - self.setup.workers].crash(random),
        }
        let later = 50 * MILLI + self.random.below(SECOND);
        self.net.after(later, Event::Start(place));
    }

    fn handle(&mut self, event: Event) {
        let now = self.net.now;
        let elapsed = Duration::from_micros(now).saturating_sub(alluvia_types::Clock::monotonic(self.clock.as_ref()));
        self.clock.advance(elapsed);
        match event {
            Event::Packet(packet) => self.deliver(packet),
            Event::Tick(place) => self.tick(place),
            Event::Start(place) => {
                if !self.is_running(place) {
                    self.start(place);
                }
            }
            Event::Heal { one, other } => {
                self.net.cuts.remove(&(one, other));
                self.net.cuts.remove(&(other, one));
            }
            Event::Room(place) => self.with_disk(place, |disk| disk.limit_bytes(None)),
            Event::Fault => self.fault(),
            Event::Client(client) => self.client(client),
        }
    }

    /// One more thing fails.
    fn fault(&mut self) {
        if self.calm {
            return;
        }
        let later = 50 * MILLI + self.random.below(600 * MILLI);
        self.net.after(later, Event::Fault);
        self.faults += 1;
        let machines = 1 + self.setup.workers + self.setup.gateways;
        if self.setup.faults == Faults::Gateways {
            let place = 1 + self.setup.workers + self.random.below(self.setup.gateways as u64) as MachineId;
            if self.is_running(place) {
                self.crash(place);
            }
            return;
        }
        let place = self.random.below(machines as u64) as MachineId;
        match self.random.below(6) {
            0 | 1 => {
                if self.is_running(place) {
                    self.crash(place);
                }
            }
            2 => {
                let other = self.random.below(machines as u64) as MachineId;
                self.net.cuts.insert((place, other));
                // One way, now and then.
                if !self.random.one_in(3) {
                    self.net.cuts.insert((other, place));
                }
                let healed = self.random.below(SECOND);
                self.net.after(healed, Event::Heal { one: place, other });
            }
            3 => {
                let until = self.net.now + self.random.below(SECOND);
                match place {
                    KEEPER => self.keeper.paused_until = until,
                    place if place <= self.setup.workers => self.workers[place - 1].paused_until = until,
                    place => self.gateways[place - 1 - self.setup.workers].paused_until = until,
                }
            }
            _ => {
                let bytes = self.random.below(40_000);
                let place = self.random.below(1 + self.setup.workers as u64) as MachineId;
                self.with_disk(place, |disk| disk.limit_bytes(Some(bytes)));
                let room = self.random.below(SECOND);
                self.net.after(room, Event::Room(place));
            }
        }
    }

    fn paused_until(&self, place: MachineId) -> u64 {
        match place {
            KEEPER => self.keeper.paused_until,
            place if place <= self.setup.workers => self.workers[place - 1].paused_until,
            place => self.gateways[place - 1 - self.setup.workers].paused_until,
        }
    }

    fn tick(&mut self, place: MachineId) {
        let now = self.net.now;
        if !self.is_running(place) {
            return;
        }
        if self.paused_until(place) > now {
            let later = self.paused_until(place) - now;
            return self.net.after(later, Event::Tick(place));
        }
        self.net.after(20 * MILLI, Event::Tick(place));
        match place {
            KEEPER => {
                if self.random.one_in(20)
                    && let Some(keeper) = &self.keeper.running
                {
                    // A full disk keeps more than must be.
                    let _ = keeper.save(keeper.followed(None));
                }
                self.manage();
            }
            place if place <= self.setup.workers => {
                let worker = self.workers[place - 1].running.as_mut().expect("it runs");
                let ticked = worker.tick(now, &mut self.random);
                self.worker_did(place, ticked);
            }
            place => {
                let gateway = self.gateways[place - 1 - self.setup.workers].running.as_mut().expect("it runs");
                gateway.tick(now);
                self.gateway_did(place);
            }
        }
    }

    /// Has the keeper decide about workers that are lost, and about shards that lack replicas.
    fn manage(&mut self) {
        let (Some(keeper), Some(dead_after)) = (&self.keeper.running, self.setup.dead_after) else { return };
        let dead_after = Duration::from_micros(dead_after);
        // A full disk decides nothing, and any other error of it is told to whoever asks next.
        let _ = keeper.manage(Limits { suspect_after: dead_after / 2, dead_after });
        match keeper.feed(self.model.version(), usize::MAX) {
            Feed::Decisions(decisions) => {
                for decision in &decisions {
                    match &decision.what {
                        What::Copied(_) => self.copied += 1,
                        What::Left(left) => self.left += left.shards.len() as u64,
                        _ => {}
                    }
                }
                self.model.add(decisions);
            }
            Feed::Image(_) => panic!("the keeper has given up decisions that it has not told"),
        }
    }

    fn worker_did(&mut self, place: MachineId, did: alluvia_types::Result<Vec<super::worker::Out>>) {
        let machine = &self.workers[place - 1];
        let Some(worker) = &machine.running else { return };
        self.through[place - 1] = self.through[place - 1].max(worker.through());
        let life = machine.life;
        match did {
            Ok(out) => {
                for (to, message) in out {
                    self.net.send(Packet { from: place, to, call: 0, life, message }, &mut self.random);
                }
            }
            Err(error) => {
                let state = self.state();
                panic!("worker {place} ends: {error}; {state}")
            }
        }
    }

    fn gateway_did(&mut self, place: MachineId) {
        let machine = &mut self.gateways[place - 1 - self.setup.workers];
        let Some(gateway) = &mut machine.running else { return };
        let life = machine.life;
        let (out, replies) = (gateway.take_out(), std::mem::take(&mut gateway.replies));
        self.model.begun.extend(std::mem::take(&mut gateway.begun));
        for (to, call, message) in out {
            self.net.send(Packet { from: place, to, call, life, message }, &mut self.random);
        }
        for (token, reply) in replies {
            self.reply(token, reply);
        }
    }

    fn deliver(&mut self, packet: Packet) {
        let Packet { from, to, call, life, message } = packet;
        let now = self.net.now;
        if self.paused_until(to) > now {
            let later = self.paused_until(to) - now;
            return self.net.after(later, Event::Packet(Packet { from, to, call, life, message }));
        }
        let is_answer =
            matches!(message, Message::KeeperSays(_) | Message::BodiesSay(_) | Message::Rows(_) | Message::Copied(..));
        if is_answer {
            if to <= self.setup.workers {
                let machine = &mut self.workers[to - 1];
                if machine.life == life
                    && let Some(worker) = &mut machine.running
                {
                    let did = worker.told(message, now);
                    self.worker_did(to, did);
                }
            } else {
                let machine = &mut self.gateways[to - 1 - self.setup.workers];
                if machine.life == life
                    && let Some(gateway) = &mut machine.running
                {
                    gateway.told(now, call, message);
                    self.gateway_did(to);
                }
            }
            return;
        }
        let answer = match (to, message) {
            (KEEPER, Message::AskKeeper(asked)) => {
                let Some(keeper) = &self.keeper.running else { return };
                let answer = serve_keeper(keeper, asked);
                match keeper.feed(self.model.version(), usize::MAX) {
                    Feed::Decisions(decisions) => self.model.add(decisions),
                    Feed::Image(_) => panic!("the keeper has given up decisions that it has not told"),
                }
                Some(Message::KeeperSays(answer))
            }
            (to, message) if to >= 1 && to <= self.setup.workers => {
                let Some(worker) = &mut self.workers[to - 1].running else { return };
                let answer = worker.answer(message);
                self.through[to - 1] = self.through[to - 1].max(worker.through());
                answer
            }
            _ => None,
        };
        if let Some(message) = answer {
            self.net.send(Packet { from: to, to: from, call, life, message }, &mut self.random);
        }
    }

    /// A client looks whether it has an answer, and asks, or asks again.
    fn client(&mut self, at: usize) {
        let now = self.net.now;
        let client = &mut self.clients[at];
        if client.is_done() {
            return;
        }
        self.net.after(50 * MILLI, Event::Client(at));
        let is_new = client.wish.is_none();
        if is_new {
            client.wish = Some(client.wishes(&self.tables, &mut self.random));
        } else if client.attempt > 0 && now < client.sent + PATIENCE {
            return;
        }
        let gateway = self.random.below(self.setup.gateways as u64) as usize;
        let Some(running) = self.gateways[gateway].running.as_mut() else { return };
        client.sent = now;
        client.attempt += 1;
        let token = (at, client.attempt);
        match client.wish.clone().expect("it wants something") {
            Wish::Write { content, mark } => running.write(now, token, content, mark),
            Wish::Read { tables, age } => {
                let seen_by = |(when, _): &&(u64, Version)| *when + age <= now;
                let told = self.acknowledged.iter().filter(seen_by).map(|(_, version)| *version).max();
                client.must_see = client.seen.max(told.unwrap_or_default());
                running.read(now, token, tables, age, client.seen);
            }
        }
        self.gateway_did(1 + self.setup.workers + gateway);
    }

    fn reply(&mut self, (at, attempt): Token, reply: Reply) {
        let now = self.net.now;
        let client = &mut self.clients[at];
        // An answer to an attempt that it has given up is told to nobody.
        if client.attempt != attempt {
            return;
        }
        match (client.wish.clone(), reply) {
            (Some(Wish::Write { mark, .. }), Reply::Written(version)) => {
                client.acknowledged.push((mark, version));
                client.seen = client.seen.max(version);
                self.acknowledged.push((now, version));
                client.wish = None;
            }
            (Some(Wish::Read { .. }), Reply::Read(version, tables)) => {
                let must_see = client.must_see;
                assert!(version >= must_see, "an answer of version {version}, which must be at least of {must_see}");
                client.seen = client.seen.max(version);
                client.wish = None;
                self.reads += 1;
                for (table, rows) in tables {
                    self.compare(table, version, &rows, "a read");
                }
            }
            (Some(Wish::Read { .. }), Reply::Failed(error)) => {
                assert!(
                    matches!(error.kind(), ErrorKind::Timeout | ErrorKind::UndefinedTable),
                    "a read fails: {error}"
                );
                client.wish = None;
            }
            (Some(Wish::Write { .. }), Reply::Failed(error)) => {
                use ErrorKind::{Busy, Conflict, DiskFull, Timeout};
                let is_passing = matches!(error.kind(), Busy | Conflict | DiskFull | Timeout);
                assert!(is_passing, "a batch is refused: {error}");
                // At once, elsewhere.
                client.sent = now.saturating_sub(PATIENCE);
            }
            _ => {}
        }
        // Tables are made by a client that has nothing else to do yet.
        if !self.calm && self.clients[at].wish.is_none() {
            let pause = self.random.below(30 * MILLI);
            self.net.after(pause, Event::Client(at));
        }
    }

    fn compare(&self, table: TableId, version: Version, found: &[FoundRow], what: &str) {
        let expected = self.model.rows(table, version);
        if found != expected {
            let lost: Vec<_> = expected.iter().filter(|row| !found.contains(row)).take(5).collect();
            let more: Vec<_> = found.iter().filter(|row| !expected.contains(row)).take(5).collect();
            panic!(
                "{what} of table {table} at version {version} has {} rows and not {}; lacks {lost:?}, has {more:?}",
                found.len(),
                expected.len()
            );
        }
    }

    fn check_end(&self) {
        let version = self.model.version();
        for client in &self.clients {
            for (mark, version) in &client.acknowledged {
                let found = self.model.numbered(mark);
                assert_eq!(found, [*version], "what was acknowledged is there, once: {mark:?}");
            }
        }
        for (table, placed) in &self.model.image(CLUSTER).placed {
            let copies = placed.shards.iter().map(|shard| shard.replicas.len()).max().unwrap_or_default();
            for copy in 0..copies {
                let mut rows = Vec::new();
                for shard in &placed.shards {
                    let place = super::net::place_of(shard.replicas[copy % shard.replicas.len()]);
                    let worker = self.workers[place - 1].running.as_ref().expect("all runs in the end");
                    assert!(worker.has(shard.id), "a replica has its shard");
                    rows.extend(worker.rows(shard.id, version).expect("it is through the newest version"));
                }
                rows.sort();
                self.compare(*table, version, &rows, &format!("replica {copy}"));
            }
        }
    }
}
