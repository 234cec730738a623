//! What happens, as chance has it: batches, loads, retries, stages, questions, faults and new starts.

use super::tables::{FACTS, KEYED, KIND, fact};
use super::world::World;
use crate::keyed::model::{Change, Part};
use crate::keyed::tables::{KEYS, key, row};
use crate::keyed::world::{Checked, NEWEST};
use alluvia_sim::Random;
use alluvia_sim::rows::Row;
use alluvia_snapshot::Durability;
use alluvia_space::OnConflict;
use alluvia_types::{Freshness, Version};
use std::time::Duration;

impl World {
    /// Many rows first, where there are to be many: then samples are drawn.
    pub fn begin(&self, random: &mut Random) -> Checked {
        if !self.setup.is_large {
            return Ok(());
        }
        for _ in 0..2 {
            let rows = (0..self.setup.load_rows_max).map(|_| fact(random)).collect();
            self.send(vec![Part::new(FACTS, Change::Load(rows))], Durability::Sync, random)?;
        }
        self.stage(false, None)?;
        self.stage(true, None)
    }

    /// One step, and whatever has to follow it.
    pub fn step(&self, random: &mut Random) -> Checked {
        match random.below(100) {
            0..30 => self.batch(random)?,
            30..36 => self.load(random)?,
            36..43 => self.send_again(random)?,
            43..54 => self.stage(false, between(random))?,
            54..63 => self.stage(true, between(random))?,
            63..77 => self.ask(random)?,
            77..84 => self.follow(random)?,
            84..87 => self.hold(random)?,
            87..89 => self.release(random)?,
            89..92 => self.wait(random),
            92..97 => self.hurt(random),
            97 => self.flush()?,
            _ => self.restart(!self.setup.is_calm && random.one_in(2), random)?,
        }
        self.told()?;
        let is_closed = self.state.lock().is_closed;
        if self.is_off() || is_closed && random.one_in(3) {
            self.restart(false, random)?;
        }
        // A disk that was full has room again.
        if self.state.lock().is_full && random.one_in(8) {
            self.trace.say(format_args!("room"));
            self.leave_room(None);
        }
        Ok(())
    }

    /// What is done before a segment's sync.
    pub fn come_between(&self, random: &mut Random) -> Checked {
        for _ in 0..1 + random.below(3) {
            match random.below(8) {
                0..4 => self.batch(random)?,
                4 => self.send_again(random)?,
                5 => self.ask(random)?,
                6 => self.follow(random)?,
                _ => self.hold(random)?,
            }
        }
        Ok(())
    }

    fn batch(&self, random: &mut Random) -> Checked {
        let parts = (0..1 + random.below(3)).map(|_| self.part(random)).collect();
        let durability = if random.one_in(6) { Durability::Relaxed } else { Durability::Sync };
        self.send(parts, durability, random)
    }

    fn part(&self, random: &mut Random) -> Part {
        if random.one_in(2) {
            let change = match random.below(5) {
                0 => Change::DeleteRows(self.some_facts(random)),
                _ => Change::Insert((0..1 + random.below(20)).map(|_| fact(random)).collect()),
            };
            return Part::new(FACTS, change);
        }
        self.keyed_part(random)
    }

    fn keyed_part(&self, random: &mut Random) -> Part {
        let rows = |random: &mut Random| -> Vec<Row> {
            (0..1 + random.below(12)).map(|_| row(KIND, random.below(KEYS), random)).collect()
        };
        let change = match random.below(10) {
            0 => Change::Insert(rows(random)),
            1 | 2 => Change::InsertNew(rows(random)),
            3..7 => Change::Upsert(rows(random)),
            _ => Change::Delete((0..1 + random.below(8)).map(|_| key(KIND, random.below(KEYS))).collect()),
        };
        Part::new(KEYED, change)
    }

    /// Identities of facts, most of them there, each once.
    fn some_facts(&self, random: &mut Random) -> Vec<(u64, u64)> {
        let known = self.state.lock().model.tables[FACTS].known();
        if self.setup.is_large && random.one_in(3) {
            // Enough that a sample that has them is off.
            return known.into_iter().filter(|_| random.one_in(3)).collect();
        }
        let most = if random.one_in(4) { 60 } else { 6 };
        let mut some: Vec<(u64, u64)> =
            (0..random.below(most)).filter_map(|_| random.pick_some(&known)).copied().collect();
        some.sort_unstable();
        some.dedup();
        some
    }

    fn load(&self, random: &mut Random) -> Checked {
        let count = 1 + random.below(self.setup.load_rows_max);
        let mut parts = vec![Part::new(FACTS, Change::Load((0..count).map(|_| fact(random)).collect()))];
        // Of each table one part: the model knows rows by their places among those of a batch, and staged ones are
        // behind all others.
        match random.below(4) {
            0 => parts.push(self.keyed_part(random)),
            // Else hardly one would be let in.
            1 if self.setup.on_conflict != OnConflict::Error => {
                let count = 1 + random.below(80);
                let rows = (0..count).map(|_| row(KIND, random.below(KEYS), random)).collect();
                parts.push(Part::new(KEYED, Change::Load(rows)));
            }
            _ => {}
        }
        let sim = self.sim();
        sim.come_between(between(random));
        let sent = self.send(parts, Durability::Sync, random);
        sim.come_between(None);
        sent
    }

    fn hold(&self, random: &mut Random) -> Checked {
        let tables = self.state.lock().tables.clone();
        let freshness = if random.one_in(3) { Freshness::Merged } else { NEWEST };
        let held = match self.engine().snapshot(freshness, Version(0), &tables) {
            Ok(held) => held,
            Err(error) => return self.pass("a snapshot", &error),
        };
        self.trace.say(format_args!("hold version {}", held.version));
        self.state.lock().held.push(held);
        Ok(())
    }

    fn release(&self, random: &mut Random) -> Checked {
        let held = {
            let mut state = self.state.lock();
            let count = state.held.len() as u64;
            if count == 0 {
                return Ok(());
            }
            state.held.swap_remove(random.below(count) as usize)
        };
        self.trace.say(format_args!("read and release version {}", held.version));
        self.compare(&held, random).map_err(|what| format!("held: {what}"))
    }

    fn wait(&self, random: &mut Random) {
        let time = Duration::from_micros(random.below(3_000_000));
        self.trace.say(format_args!("{time:?} pass"));
        self.clock.advance(time);
    }

    /// Makes something of the disk fail, or slow.
    fn hurt(&self, random: &mut Random) {
        if self.setup.is_calm {
            return;
        }
        let (disk, sim, number) = (self.disk(), self.sim(), random.number());
        let about = match random.below(9) {
            0 | 1 => {
                disk.fail_after(1 + number % 60);
                "power is to be lost"
            }
            2 => {
                disk.fail_sync(1 + number % 8);
                "a sync is to fail"
            }
            3 => {
                disk.fail_sync_dir(1 + number % 4);
                "a sync of names is to fail"
            }
            4 => {
                disk.fail_write(1 + number % 12);
                "a write is to fail"
            }
            5 => {
                sim.fail_read(number % 40);
                "a read is to fail"
            }
            6 if random.one_in(2) => {
                sim.fail_for_ever(number % 30);
                "all is to fail for ever"
            }
            6 | 7 => {
                self.leave_room(Some(number % 6_000));
                self.trace.say(format_args!("{} bytes of room are left", number % 6_000));
                return;
            }
            _ => {
                sim.slow_down(Duration::from_micros(number % 50_000));
                self.trace.say(format_args!("syncs take {} us", number % 50_000));
                return;
            }
        };
        self.trace.say(format_args!("{about}: {number}"));
        self.state.lock().is_hurt = true;
    }

    /// Everything in its last stage, and once more from disk.
    pub fn end(&self, random: &mut Random) -> Checked {
        if self.is_off() || self.state.lock().is_closed || self.state.lock().is_hurt {
            self.restart(true, random)?;
        }
        // What a new start was made to fail by may still come.
        while self.state.lock().is_hurt {
            self.restart(true, random)?;
        }
        self.leave_room(None);
        self.flush()?;
        self.stage(false, None)?;
        self.read_at(NEWEST, random)?;
        self.let_go()?;
        self.stage(true, None)?;
        self.read_at(Freshness::Merged, random)?;
        self.verify()?;
        self.restart(false, random)?;
        self.told()
    }
}

/// Whether and when somebody comes between.
fn between(random: &mut Random) -> Option<u64> {
    random.one_in(2).then(|| random.below(6))
}
