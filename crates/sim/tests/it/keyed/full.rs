//! A disk without room, at every byte: what could not be made durable is taken back, out of the key index as well, and
//! a stage that found no room is done again.

use super::model::{Change, Outcome, Part};
use super::tables::{KeyKind, key, row};
use super::world::{Checked, KEYED, KEYLESS, Setup, World, new_batch};
use alluvia_sim::Random;
use alluvia_sim::rows::Value;
use alluvia_snapshot::Durability;
use alluvia_space::OnConflict;
use alluvia_storage::Disk;
use alluvia_types::ErrorKind;
use std::path::Path;
use std::sync::Arc;

/// Bytes of room that are added at a time.
const STEP_BYTES: u64 = 192;

impl World {
    /// Leaves so much room on the disk.
    fn leave_room(&self, bytes: u64) {
        self.disk.limit_bytes(Some(1 << 40));
        let used = (1 << 40) - self.disk.free_bytes(Path::new(alluvia_sim::DIR)).expect("the disk is on");
        self.disk.limit_bytes(Some(used + bytes));
    }

    /// Submits a batch that is let in if there is room. Returns whether there was.
    fn try_submit(&mut self, parts: &[Part], durability: Durability) -> Checked<bool> {
        let engine = Arc::clone(self.engine());
        let submitted = new_batch(&engine, &self.tables, parts).and_then(|batch| engine.submit(batch, durability));
        match submitted {
            Ok(committed) => {
                let expected = self.model.apply(parts);
                let passed_over = committed.passed_over;
                match expected == (Outcome::Applied { passed_over }) && committed.version.0 == self.model.version() {
                    true => Ok(true),
                    false => Err(format!("{committed:?} instead of {expected:?}")),
                }
            }
            Err(error) if error.kind() == ErrorKind::DiskFull => {
                // Acknowledged ones that were relaxed are taken back as well, unless they became durable.
                self.model.take_back(self.visible());
                Ok(false)
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn start(&mut self, random: &mut Random) -> Checked {
        let kind = self.setup.kind;
        let rows = (0..12).map(|number| row(kind, number, random)).collect();
        self.commit(&[Part::new(KEYED, Change::Insert(rows))])?;
        self.sort()?;
        self.merge()?;
        let rows = (8..16).map(|number| row(kind, number, random)).collect();
        self.commit(&[Part::new(KEYED, Change::Upsert(rows))])?;
        // Fills the log's file: what is written next wants space, and does not come to lie in zeros that are there.
        let mut filler = row(KeyKind::None, 0, random);
        filler[4] = Value::text("x".repeat(5_000));
        self.commit(&[Part::new(KEYLESS, Change::Insert(vec![filler]))]).map(drop)
    }
}

/// Batches that replace, delete and insert, in segments and in the tail; the last one is durable.
fn batches(kind: KeyKind, random: &mut Random) -> Vec<Vec<Part>> {
    let mut rows = |numbers: &[u64]| numbers.iter().map(|&number| row(kind, number, random)).collect::<Vec<_>>();
    let (upserted, inserted, renewed, last) = (rows(&[0, 8, 20]), rows(&[21]), rows(&[1]), rows(&[8, 22]));
    vec![
        vec![Part::new(KEYED, Change::Upsert(upserted))],
        vec![
            Part::new(KEYED, Change::Delete(vec![key(kind, 1), key(kind, 9), key(kind, 55)])),
            Part::new(KEYED, Change::Insert(inserted)),
        ],
        vec![Part::new(KEYED, Change::Insert(renewed))],
        vec![Part::new(KEYED, Change::Upsert(last))],
    ]
}

fn run(setup: &Setup, room: u64) -> Checked<bool> {
    let random = &mut Random::new(7);
    let mut world = World::new(setup);
    world.start(random)?;
    let batches = batches(setup.kind, random);
    world.leave_room(room);
    let mut are_all_in = true;
    for (at, batch) in batches.iter().enumerate() {
        let durability = if at + 1 == batches.len() { Durability::Sync } else { Durability::Relaxed };
        are_all_in &= world.try_submit(batch, durability)?;
        if !are_all_in {
            break;
        }
    }
    world.disk.limit_bytes(None);
    world.check(random)?;
    // What was taken back comes again, and meets no trace of itself.
    if !are_all_in {
        let done = world.model.version();
        // Which keys were written since a version is known as before.
        let stale = Part::new(KEYED, Change::Upsert(vec![row(setup.kind, 8, random)]));
        if world.submit(&[Part { computed_at: Some(2), ..stale }], Durability::Sync)?.is_some() {
            return Err("key 8 was written since version 2".to_owned());
        }
        world.probe_index(random)?;
        let first = (done - 4) as usize;
        for batch in &batches[first..] {
            world.commit(batch)?;
            world.check(random)?;
        }
    }
    world.probe_index(random)?;
    world.sort()?;
    world.merge()?;
    world.check(random)?;
    world.reopen()?;
    world.check(random)?;
    world.probe_index(random)?;
    Ok(are_all_in)
}

#[test]
fn what_a_full_disk_takes_back_leaves_no_trace_in_the_index() {
    for kind in [KeyKind::Number, KeyKind::Pair] {
        let setup = Setup::new(kind, OnConflict::Error);
        let mut refused = 0;
        for room in (0..).step_by(STEP_BYTES as usize) {
            match run(&setup, room).unwrap_or_else(|what| panic!("{kind:?}, {room} bytes of room: {what}")) {
                true => break,
                false => refused += 1,
            }
        }
        assert!(refused >= 3, "the log lacked room {refused} times");
    }
}

/// Tries a stage with ever more room. Each time it fails, rows change, and all is as the model has it.
fn with_ever_more_room(world: &mut World, random: &mut Random, mut attempt: impl FnMut(&mut World) -> Checked<bool>) {
    for room in (0..).step_by(4 * STEP_BYTES as usize) {
        let mut tried = |world: &mut World, random: &mut Random| -> Checked<bool> {
            world.leave_room(room);
            let is_done = attempt(world);
            world.disk.limit_bytes(None);
            world.check(random)?;
            if !is_done.as_ref().is_ok_and(|is_done| *is_done) {
                let number = room % 12;
                world.commit(&[Part::new(KEYED, Change::Upsert(vec![row(world.setup.kind, number, random)]))])?;
                world.check(random)?;
            }
            is_done
        };
        if tried(world, random).unwrap_or_else(|what| panic!("{room} bytes of room: {what}")) {
            return;
        }
    }
}

/// Runs a stage that may lack room.
fn stage(world: &World, is_merge: bool) -> Checked<bool> {
    let done = if is_merge { world.engine().merge() } else { world.engine().sort() };
    match done {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::DiskFull => Ok(false),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn sorts_merges_and_loads_that_lack_room_change_nothing() {
    let random = &mut Random::new(3);
    let setup = Setup::new(KeyKind::Number, OnConflict::Replace);
    let mut world = World::new(&setup);
    world.start(random).expect("there is room");
    with_ever_more_room(&mut world, random, |world| stage(world, false));
    with_ever_more_room(&mut world, random, |world| stage(world, true));
    let rows = (0..30).chain(5..30).map(|number| row(setup.kind, number, random)).collect();
    let load = [Part::new(KEYED, Change::Load(rows))];
    with_ever_more_room(&mut world, random, |world| world.try_submit(&load, Durability::Sync));
    with_ever_more_room(&mut world, random, |world| stage(world, false));
    with_ever_more_room(&mut world, random, |world| stage(world, true));
    let end = |world: &mut World, random: &mut Random| -> Checked {
        world.probe_index(random)?;
        world.reopen()?;
        world.check(random)?;
        world.probe_index(random)
    };
    end(&mut world, random).unwrap_or_else(|what| panic!("{what}"));
}
