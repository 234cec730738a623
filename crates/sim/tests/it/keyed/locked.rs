//! Rows that sessions have locked: a batch that heeds the locks of others writes none of them, wherever the rows lie and whatever
//! it does; it leaves no trace then, and is taken as soon as they are free.

use super::model::{Change, Outcome, Part};
use super::tables::{KeyKind, key, row};
use super::world::{Checked, KEYED, Setup, World, new_batch};
use alluvia_locks::{Locks, Mode};
use alluvia_sim::Random;
use alluvia_sim::rows::table_batch;
use alluvia_snapshot::{Durability, Heeds, NewBatch};
use alluvia_space::OnConflict;
use alluvia_space::key_code::KeyCoder;
use alluvia_types::ErrorKind;
use std::sync::Arc;

const OWN: u64 = 1;
const OTHER: u64 = 2;

impl World {
    /// Submits a batch of a session. Whether it was taken; if not, others have locked rows of it.
    fn submit_heeding(&mut self, locks: &Arc<Locks>, part: Part) -> Checked<bool> {
        let engine = Arc::clone(self.engine());
        let parts = [part];
        let batch = new_batch(&engine, &self.tables, &parts).map_err(|error| format!("a load: {error}"))?;
        let heeds = Some(Heeds { locks: Arc::clone(locks), session: OWN });
        match engine.submit(NewBatch { heeds, ..batch }, Durability::Sync) {
            Ok(_) => match self.model.apply(&parts) {
                Outcome::Applied { .. } => Ok(true),
                outcome => Err(format!("taken instead of {outcome:?}")),
            },
            Err(error) if error.kind() == ErrorKind::LockNotAvailable => Ok(false),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The code of a key.
    fn code(&self, number: u64, random: &mut Random) -> Checked<u128> {
        let entry = self.engine().entry(self.tables[KEYED]).ok_or("the table is there")?;
        let coder = KeyCoder::new(&entry.def).ok_or("it has a key")?;
        let rows = table_batch(&entry.def, &[row(self.setup.kind, number, random)]);
        Ok(coder.codes(&rows).map_err(|error| error.to_string())?[0])
    }
}

/// What a batch does with keys, all of which may be there or not.
fn changes(kind: KeyKind, numbers: &[u64], random: &mut Random) -> Vec<Change> {
    let mut rows = || numbers.iter().map(|&number| row(kind, number, random)).collect::<Vec<_>>();
    let (upserted, passed_over, loaded) = (rows(), rows(), rows());
    let keys = numbers.iter().map(|&number| key(kind, number)).collect();
    vec![Change::Upsert(upserted), Change::InsertNew(passed_over), Change::Load(loaded), Change::Delete(keys)]
}

fn run(kind: KeyKind) -> Checked {
    let random = &mut Random::new(11);
    // Loads replace what is there.
    let mut world = World::new(&Setup::new(kind, OnConflict::Replace));
    let rows = |numbers: std::ops::Range<u64>, random: &mut Random| {
        numbers.map(|number| row(kind, number, random)).collect::<Vec<_>>()
    };
    world.commit(&[Part::new(KEYED, Change::Upsert(rows(0..10, random)))])?;
    world.sort()?;
    world.merge()?;
    world.commit(&[Part::new(KEYED, Change::Upsert(rows(10..14, random)))])?;
    let locks = Arc::new(Locks::default());
    locks.begin_session(OWN);
    locks.begin_session(OTHER);
    // In a segment, in the tail, and nowhere.
    for number in [3, 12, 40] {
        let (table, code) = (world.tables[KEYED], world.code(number, random)?);
        for mode in [Mode::Exclusive, Mode::Shared] {
            for change in changes(kind, &[number, 5], random) {
                let part = Part::new(KEYED, change);
                let locked = locks.try_rows(OTHER, table, &[code], mode).map_err(|error| error.to_string())?;
                if locked != 1 || world.submit_heeding(&locks, part.clone())? {
                    return Err(format!("key {number} is locked, {mode:?}, and written by {part:?}"));
                }
                world.check(random)?;
                // Others' rows are in nobody's way.
                let free = Part::new(KEYED, Change::Upsert(vec![row(kind, 7, random)]));
                if !world.submit_heeding(&locks, free)? {
                    return Err("key 7 is not locked".to_owned());
                }
                locks.release_after(OTHER, 0);
                // Nor are one's own.
                let own = locks.try_rows(OWN, table, &[code], mode).map_err(|error| error.to_string())?;
                if own != 1 || !world.submit_heeding(&locks, part.clone())? {
                    return Err(format!("key {number} is one's own, {mode:?}, and not written by {part:?}"));
                }
                locks.release_after(OWN, 0);
                world.check(random)?;
            }
        }
    }
    world.reopen()?;
    world.check(random)
}

#[test]
fn rows_that_another_session_has_locked_are_not_written() {
    for kind in [KeyKind::Number, KeyKind::Pair, KeyKind::Ordered, KeyKind::Unordered] {
        run(kind).unwrap_or_else(|what| panic!("{kind:?}: {what}"));
    }
}
