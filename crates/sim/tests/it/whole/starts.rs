//! New starts: on the same disk, as after a kill, or on what a power loss leaves of it; and again, where something
//! fails meanwhile. What was known before is there, and nothing that was refused.

use super::disk::SimDisk;
use super::world::World;
use crate::keyed::world::{Checked, NEWEST};
use alluvia_sim::Random;
use alluvia_storage::Survival;
use alluvia_types::{Error, TableId};
use std::sync::{Arc, Weak};

/// How often a new start may fail, while there is something on the disk that fails.
const STARTS_MAX: usize = 8;

impl World {
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
}
