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
use super::ledger::{Known, Ledger, Mark, Sent};
use super::tables::{FACTS, KIND, facts, keyed};
use super::trace::Trace;
use crate::keyed::model::{Change, Model, Outcome, Part};
use crate::keyed::tables::KeyKind;
use crate::keyed::world::{Checked, NEWEST, new_batch};
use alluvia_sim::{Engine, EngineOptions, Random};
use alluvia_snapshot::{BatchKey, Committed, Durability, Snapshot};
use alluvia_space::OnConflict;
use alluvia_storage::{Disk, FaultDisk, Survival};
use alluvia_types::{Clock, Error, ErrorKind, ManualClock, Result, TableId, Version};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::{Arc, Weak};

/// How often a new start may fail, while there is something on the disk that fails.
const STARTS_MAX: usize = 8;

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
struct Machine {
    disk: Arc<FaultDisk>,
    sim: SimDisk,
    engine: Option<Arc<Engine>>,
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
    machine: Mutex<Machine>,
    pub state: Mutex<State>,
    /// Chance of whoever comes between; `None` while he is there.
    pub between: Mutex<Option<Random>>,
    me: Weak<World>,
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
    fn open(&self) -> Result<Arc<Engine>> {
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

    /// Sends a batch that is new, and remembers it for being sent again.
    pub fn send(&self, parts: Vec<Part>, durability: Durability, random: &mut Random) -> Checked {
        let mark = self.state.lock().ledger.new_mark(random);
        let sent = Sent { mark, parts };
        if sent.mark != Mark::None {
            self.state.lock().ledger.sent.push(sent.clone());
        }
        self.submit(&sent, durability)
    }

    /// Sends one of the last batches again, as who does not know what became of it.
    pub fn send_again(&self, random: &mut Random) -> Checked {
        let sent = {
            let state = self.state.lock();
            let sent = &state.ledger.sent;
            let near = if random.one_in(3) { sent.len() } else { sent.len().min(2) };
            match near {
                0 => return Ok(()),
                near => sent[sent.len() - 1 - random.below(near as u64) as usize].clone(),
            }
        };
        self.trace.say(format_args!("again:"));
        self.submit(&sent, Durability::Sync)
    }

    fn submit(&self, sent: &Sent, durability: Durability) -> Checked {
        let engine = self.engine();
        let tables = self.state.lock().tables.clone();
        // Segments are written of loads: others may come between.
        let mut batch = match new_batch(&engine, &tables, &sent.parts) {
            Ok(batch) => batch,
            Err(error) => return self.pass("staging", &error),
        };
        match &sent.mark {
            Mark::None => {}
            Mark::Key(key) => batch.key = Some(BatchKey::new(tables[FACTS], &format!("batch {key}"))),
            Mark::Producer(mark) => batch.producer = Some(mark.clone()),
        }
        let mut state = self.state.lock();
        let (before, was_closed) = (state.model.version(), state.is_closed);
        let known = state.ledger.find(&sent.mark);
        let expected = match known {
            Known::New => Some(state.model.apply(&sent.parts)),
            _ => None,
        };
        drop(state);
        let submitted = engine.submit(batch, durability);
        self.trace.say(format_args!("batch {:?} {}: {}", sent.mark, shown(&sent.parts), outcome(&submitted)));
        let is_unknown = self.judge(sent, (before, known, was_closed), expected, &submitted, durability)?;
        if is_unknown {
            self.resolve(before)?;
        }
        self.notice();
        Ok(())
    }

    /// Holds what became of a batch against the model. Returns whether nobody knows.
    fn judge(
        &self,
        sent: &Sent,
        (before, known, was_closed): (u64, Known, bool),
        expected: Option<Outcome>,
        submitted: &Result<Committed>,
        durability: Durability,
    ) -> Checked<bool> {
        let mut state = self.state.lock();
        let wrong =
            || Err(format!("{submitted:?} instead of {known:?}, {expected:?} after version {before}: {sent:?}"));
        match (submitted, known, &expected) {
            (Ok(committed), Known::Again(version), _) => match committed.duplicate && committed.version.0 == version {
                true => Ok(false),
                false => wrong(),
            },
            (Ok(committed), Known::New, Some(Outcome::Applied { passed_over })) => {
                let found = (committed.version.0, committed.duplicate, committed.passed_over);
                if found != (before + 1, false, *passed_over) || was_closed {
                    return wrong();
                }
                state.ledger.applied(&sent.mark, before + 1);
                if durability == Durability::Sync {
                    state.known = state.known.max(before + 1);
                    if self.engine().views().visible().0 < before + 1 {
                        return Err(format!("version {} is acknowledged, and not visible", before + 1));
                    }
                }
                Ok(false)
            }
            (Err(error), _, Some(Outcome::Refused(_))) if error.kind() == ErrorKind::UniqueViolation => Ok(false),
            (Err(error), Known::Refused, _) if error.kind() == ErrorKind::Producer => Ok(false),
            (Err(error), _, _) if error.kind() == ErrorKind::DiskFull && state.is_full => {
                // Acknowledged ones that were relaxed are taken back as well, unless they became durable.
                let visible = self.engine().views().visible().0;
                if visible < state.known {
                    return Err(format!("version {} was known, and a full disk has taken it back", state.known));
                }
                if visible < state.model.version() {
                    state.model.take_back(visible);
                    state.ledger.take_back(visible);
                }
                Ok(false)
            }
            (Err(error), _, _) => {
                let is_applied = matches!(expected, Some(Outcome::Applied { .. }));
                match (is_applied, was_closed) {
                    // What has failed before takes nothing: it is certainly not there.
                    (true, true) => state.model.take_back(before),
                    (true, false) => state.ledger.applied(&sent.mark, before + 1),
                    (false, _) => {}
                }
                drop(state);
                self.pass("a batch", error)?;
                Ok(!was_closed)
            }
            _ => wrong(),
        }
    }

    /// Asks what became of a batch after version `before` whose answer was an error of the disk.
    fn resolve(&self, before: u64) -> Checked {
        let engine = self.engine();
        let flushed = engine.flush();
        let visible = engine.views().visible().0;
        let mut state = self.state.lock();
        match flushed {
            Ok(()) if visible == before || visible == state.model.version() => {
                self.trace.say(format_args!(" resolved: version {visible}"));
                state.model.take_back(visible);
                state.ledger.take_back(visible);
                Ok(())
            }
            Ok(()) => Err(format!("version {visible} is visible after a flush, and {before} was the last one")),
            Err(error) if error.kind() == ErrorKind::DiskFull && state.is_full => {
                state.model.take_back(visible);
                state.ledger.take_back(visible);
                Ok(())
            }
            Err(error) => {
                self.trace.say(format_args!(" not resolved: {error}"));
                state.is_closed = true;
                Ok(())
            }
        }
    }

    pub fn flush(&self) -> Checked {
        let flushed = self.engine().flush();
        self.trace.say(format_args!("flush: {}", flushed.as_ref().map_or_else(Error::to_string, |()| "done".into())));
        let done = match flushed {
            Ok(()) => {
                let (visible, state) = (self.engine().views().visible().0, self.state.lock());
                match visible == state.model.version() {
                    true => Ok(()),
                    false => Err(format!("version {visible} after a flush, and not {}", state.model.version())),
                }
            }
            Err(error) if error.kind() == ErrorKind::DiskFull => {
                let visible = self.engine().views().visible().0;
                {
                    let mut state = self.state.lock();
                    state.model.take_back(visible);
                    state.ledger.take_back(visible);
                }
                self.pass("a flush", &error)
            }
            Err(error) => {
                self.state.lock().is_closed = true;
                self.pass("a flush", &error)
            }
        };
        self.notice();
        done
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

    /// Ends the process, and starts anew: on the same disk, or on what a power loss leaves of it.
    pub fn restart(&self, is_power_lost: bool, random: &mut Random) -> Checked {
        self.let_go()?;
        self.trace.say(format_args!("restart, power lost: {is_power_lost}"));
        self.machine.lock().engine = None;
        let mut is_lost = is_power_lost || self.is_off();
        for attempt in 1..=STARTS_MAX {
            // Whatever was to fail is over where the power was lost, and else unless it has begun.
            self.boot(is_lost, attempt, random);
            let opened = self.open();
            self.trace.say(format_args!(
                "start {attempt}: {}",
                opened.as_ref().map_or_else(Error::to_string, |_| "open".into())
            ));
            match opened {
                // A table that is closed since its file could not be read is there again next time.
                Ok(engine) if engine.views().base().closed.is_empty() => {
                    self.machine.lock().engine = Some(engine);
                    return self.started();
                }
                Ok(engine) if !self.state.lock().is_hurt => {
                    let closed: Vec<TableId> = engine.views().base().closed.keys().copied().collect();
                    return Err(format!("tables {closed:?} are closed"));
                }
                Ok(_) => {}
                Err(error) => self.pass("it does not open", &error)?,
            }
            is_lost = true;
        }
        Err("it does not open".to_owned())
    }

    /// Puts the disk into the machine that starts.
    fn boot(&self, is_lost: bool, attempt: usize, random: &mut Random) {
        let mut machine = self.machine.lock();
        machine.disk.limit_bytes(None);
        if is_lost {
            let survival = match random.below(3) {
                0 => Survival::SyncedOnly,
                1 => Survival::Everything,
                _ => Survival::Torn { seed: random.number() },
            };
            self.trace.say(format_args!("power is back, with {survival:?}"));
            machine.disk = machine.disk.after_power_loss(survival);
        }
        let me = Weak::clone(&self.me);
        machine.sim = SimDisk::new(Arc::clone(&machine.disk), Arc::clone(&self.clock), Arc::clone(&self.trace), me);
        let mut state = self.state.lock();
        // What was to fail of the same disk may still come.
        (state.is_hurt, state.is_full) = (state.is_hurt && !is_lost, false);
        if !self.setup.is_calm && attempt < STARTS_MAX - 1 && random.one_in(3) {
            state.is_hurt = true;
            match random.below(4) {
                0 => machine.disk.fail_after(1 + random.below(20)),
                1 => machine.disk.fail_sync(1 + random.below(3)),
                2 => machine.disk.fail_write(1 + random.below(5)),
                _ => machine.sim.fail_read(random.below(20)),
            }
        }
    }

    /// Holds what a new start has found against what was known before.
    fn started(&self) -> Checked {
        let found = self.engine().views().visible().0;
        {
            let mut state = self.state.lock();
            let (known, last) = (state.known, state.model.version());
            if found < known || found > last {
                return Err(format!("version {known} was known, {last} the last one, and {found} is there"));
            }
            self.trace.say(format_args!("version {found} of {known}..{last} is there"));
            state.model.take_back(found);
            state.ledger.take_back(found);
            state.ledger.opened(found);
            (state.known, state.is_closed) = (found, false);
        }
        self.read_at(NEWEST, &mut Random::new(found))
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

fn outcome(submitted: &Result<Committed>) -> String {
    match submitted {
        Ok(Committed { version, duplicate, passed_over }) => {
            format!("version {version}{}, {passed_over} passed over", if *duplicate { " (again)" } else { "" })
        }
        Err(error) => error.to_string(),
    }
}

fn shown(parts: &[Part]) -> String {
    let shown = parts.iter().map(|part| {
        let (what, count) = match &part.change {
            Change::Insert(rows) => ("insert", rows.len()),
            Change::InsertNew(rows) => ("insert new", rows.len()),
            Change::Upsert(rows) => ("upsert", rows.len()),
            Change::Delete(keys) => ("delete", keys.len()),
            Change::DeleteRows(identities) => ("delete rows", identities.len()),
            Change::Load(rows) => ("load", rows.len()),
        };
        format!("{what} {count} of table {}", part.table)
    });
    shown.collect::<Vec<_>>().join(", ")
}
