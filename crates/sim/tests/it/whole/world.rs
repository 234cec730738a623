//! A simulated database beside its model, on a disk on which everything may fail.
//!
//! Invariants:
//! - One thread. What comes between a stage and its end is done on it, at the disk's word ([`super::disk`]).
//! - What was acknowledged, or was seen, is there after every new start, and so is nothing that was refused. What
//!   became of a batch whose answer is an error of the disk nobody knows before the next start, or before a flush has
//!   said it; until then the model has it as the last versions that may be there.
//! - An error is allowed only where something on the disk fails.

use super::cuboids::Follower;
use super::disk::{Between, SimDisk};
use super::estimates::Tally;
use super::ledger::Ledger;
use super::tables::{KIND, facts, keyed};
use super::trace::Trace;
use crate::keyed::model::Model;
use crate::keyed::tables::KeyKind;
use crate::keyed::world::Checked;
use alluvia_sim::{Engine, EngineOptions, Random};
use alluvia_snapshot::Snapshot;
use alluvia_space::OnConflict;
use alluvia_storage::{Disk, FaultDisk};
use alluvia_types::{Clock, Error, ErrorKind, ManualClock, Result, TableId, Version};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::{Arc, Weak};

/// How tables and stages are, by the seed.
#[derive(Clone, Debug)]
pub struct Setup {
    pub on_conflict: OnConflict,
    pub options: EngineOptions,
    /// Rows of a load of facts, at most.
    pub load_rows_max: u64,
    pub is_large: bool,
    /// Whether nothing ever fails.
    pub is_calm: bool,
}

impl Setup {
    pub fn new(seed: u64) -> Setup {
        let policies = [OnConflict::Replace, OnConflict::Nothing, OnConflict::Error];
        let mut options = EngineOptions::default();
        let is_large = seed.is_multiple_of(4);
        if is_large {
            options.pipeline.segment_rows = 500;
            options.pipeline.partition_rows_max = 1_500;
            options.pipeline.rung_rows_min = 10;
            options.log_file_bytes_max = 64 << 10;
        } else if seed % 4 == 1 {
            options.pipeline.partition_rows_max = 40;
        }
        if seed.is_multiple_of(3) {
            // Two segments at a time, and a few of their rows.
            options.pipeline.merge_bytes = 20_000;
        }
        if seed % 7 < 3 {
            // A sort takes what waits in many steps.
            options.sort_step_bytes = 500;
        }
        if seed % 5 == 2 {
            // All rows are wide.
            options.waiting_bytes_max = 2_000;
        }
        Setup {
            on_conflict: policies[(seed % 3) as usize],
            options,
            load_rows_max: if is_large { 1_200 } else { 150 },
            is_large,
            is_calm: seed % 5 == 1,
        }
    }
}

/// What runs, and what it runs on.
#[derive(Debug)]
pub struct Machine {
    pub disk: Arc<FaultDisk>,
    pub sim: SimDisk,
    pub engine: Option<Arc<Engine>>,
}

/// What is known of the database.
#[derive(Debug)]
pub struct State {
    pub model: Model,
    pub ledger: Ledger,
    pub tables: Vec<TableId>,
    /// Snapshots that somebody reads later.
    pub held: Vec<Snapshot>,
    pub followers: Vec<Follower>,
    pub tally: Tally,
    /// The newest version that was acknowledged as durable, or seen.
    pub known: u64,
    /// Something was made to fail since the last start.
    pub is_hurt: bool,
    /// The disk has been without room since the last start.
    pub is_full: bool,
    /// The log takes nothing any more: only a new start tells what is in it.
    pub is_closed: bool,
    /// What has gone wrong where nobody could say it.
    pub failure: Option<String>,
}

/// The simulation of one seed.
#[derive(Debug)]
pub struct World {
    pub setup: Setup,
    pub trace: Arc<Trace>,
    pub clock: Arc<ManualClock>,
    pub machine: Mutex<Machine>,
    pub state: Mutex<State>,
    /// Chance of whoever comes between; `None` while he is there.
    pub between: Mutex<Option<Random>>,
    pub me: Weak<World>,
}

impl Between for World {
    fn between(&self) {
        let Some(mut random) = self.between.lock().take() else { return };
        self.trace.say(format_args!(" between:"));
        let done = self.come_between(&mut random);
        self.trace.say(format_args!(" and on:"));
        if let Err(what) = done {
            self.state.lock().failure.get_or_insert(format!("between: {what}"));
        }
        *self.between.lock() = Some(random);
    }
}

impl World {
    pub fn new(seed: u64) -> Arc<World> {
        let (setup, trace, clock) = (Setup::new(seed), Arc::new(Trace::new()), Arc::new(ManualClock::default()));
        let kinds = [(KIND, setup.on_conflict), (KeyKind::None, OnConflict::Error)];
        let state = State {
            model: Model::new(&kinds),
            ledger: Ledger::default(),
            tables: Vec::new(),
            held: Vec::new(),
            followers: Vec::new(),
            tally: Tally::default(),
            known: 0,
            is_hurt: false,
            is_full: false,
            is_closed: false,
            failure: None,
        };
        let world = Arc::new_cyclic(|me: &Weak<World>| {
            let disk = FaultDisk::new();
            let sim = SimDisk::new(Arc::clone(&disk), Arc::clone(&clock), Arc::clone(&trace), me.clone());
            World {
                setup,
                trace,
                clock,
                machine: Mutex::new(Machine { disk, sim, engine: None }),
                state: Mutex::new(state),
                between: Mutex::new(Some(Random::new(seed ^ 0x5EED))),
                me: me.clone(),
            }
        });
        let engine = world.open().expect("an empty disk opens");
        let on_conflict = world.setup.on_conflict;
        let tables = engine.create(&[&|id| keyed(id, on_conflict), &facts]).expect("the tables are made");
        world.machine.lock().engine = Some(engine);
        {
            let mut state = world.state.lock();
            (state.tables, state.known) = (tables, 1);
        }
        world.notice();
        world
    }

    /// Opens the database on the disk as it is.
    pub fn open(&self) -> Result<Arc<Engine>> {
        let sim = self.machine.lock().sim.clone();
        Engine::open(Arc::new(sim), Arc::clone(&self.clock) as _, &self.setup.options).map(Arc::new)
    }

    pub fn engine(&self) -> Arc<Engine> {
        Arc::clone(self.machine.lock().engine.as_ref().expect("it is open but while it starts anew"))
    }

    pub fn sim(&self) -> SimDisk {
        self.machine.lock().sim.clone()
    }

    pub fn disk(&self) -> Arc<FaultDisk> {
        Arc::clone(&self.machine.lock().disk)
    }

    pub fn is_off(&self) -> bool {
        self.machine.lock().sim.is_off()
    }

    /// Lets an error pass where something on the disk fails.
    pub fn pass(&self, what: &str, error: &Error) -> Checked {
        let state = self.state.lock();
        self.trace.say(format_args!(" {what}: {error}"));
        let is_passed = match error.kind() {
            ErrorKind::Io | ErrorKind::Poisoned => state.is_hurt,
            ErrorKind::DiskFull => state.is_full,
            _ => false,
        };
        if is_passed { Ok(()) } else { Err(format!("{what}: {:?}: {error}", error.kind())) }
    }

    /// Takes note of what is visible now.
    pub fn notice(&self) {
        let (visible, now) = (self.engine().views().visible().0, self.clock.monotonic());
        let mut state = self.state.lock();
        state.ledger.visible(now, visible);
        state.known = state.known.max(visible);
    }

    /// Runs a sort or a merge. Somebody may come before one of its syncs.
    pub fn stage(&self, is_merge: bool, between_after: Option<u64>) -> Checked {
        let (engine, sim) = (self.engine(), self.sim());
        let what = if is_merge { "a merge" } else { "a sort" };
        self.trace.say(format_args!("{what}:"));
        sim.come_between(between_after);
        let done = if is_merge { engine.merge() } else { engine.sort() };
        sim.come_between(None);
        if let Err(error) = done {
            self.pass(what, &error)?;
        }
        self.notice();
        self.told()
    }

    /// What has gone wrong where nobody could say it.
    pub fn told(&self) -> Checked {
        self.state.lock().failure.take().map_or(Ok(()), Err)
    }

    /// Reads what is held for the last time, and lets all go.
    pub fn let_go(&self) -> Checked {
        let (held, _followers) = {
            let mut state = self.state.lock();
            (std::mem::take(&mut state.held), std::mem::take(&mut state.followers))
        };
        for snapshot in held {
            self.compare(&snapshot, &mut Random::new(1)).map_err(|what| format!("held: {what}"))?;
        }
        Ok(())
    }

    /// Leaves so much room on the disk; `None`: all.
    pub fn leave_room(&self, bytes: Option<u64>) {
        let disk = self.disk();
        disk.limit_bytes(bytes.map(|_| 1 << 40));
        let Some(bytes) = bytes else { return };
        let Ok(free) = disk.free_bytes(Path::new(alluvia_sim::DIR)) else { return };
        disk.limit_bytes(Some((1 << 40) - free + bytes));
        self.state.lock().is_full = true;
    }

    /// The snapshot of a version that may be asked for.
    pub fn at(&self, version: Version) -> Result<Snapshot> {
        let tables = self.state.lock().tables.clone();
        self.engine().snapshot_at(version, &tables)
    }
}
