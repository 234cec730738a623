//! Random histories: batches, loads, sorts, merges, what comes in between these, pins, and new starts. After each step
//! everything that can be read is what the model has.
//!
//! A history is a list of steps, each with a seed of its own, so that it can be made shorter: what fails is shown with
//! the fewest steps that still fail.

use super::generate::{batch, load};
use super::model::Part;
use super::tables::KeyKind;
use super::world::{Checked, NEWEST, Setup, World};
use alluvia_sim::{Random, Seeds};
use alluvia_snapshot::Durability;
use alluvia_space::OnConflict;
use alluvia_types::{Freshness, SystemClock};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// Histories of each test, where nobody asks for more.
const HISTORIES: u64 = 40;
/// Steps of a history.
const STEPS: u64 = 50;

/// What happens, by a seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Batch(u64),
    /// Acknowledged before it is durable.
    Relaxed(u64),
    Flush,
    Load(u64),
    Sort,
    Merge,
    /// Of one of the tables; given up where somebody reads what it would take away.
    Purge(u64),
    /// A sort, or a merge, and batches before one of its syncs.
    During(bool, u64),
    Hold(u64),
    Pin(u64),
    /// The oldest snapshot and pin go.
    Release,
    Wait(u64),
    Probe(u64),
    Reopen,
}

fn steps(random: &mut Random) -> Vec<Step> {
    let step = |random: &mut Random| {
        let seed = random.number();
        match random.below(100) {
            0..38 => Step::Batch(seed),
            38..42 => Step::Relaxed(seed),
            42..43 => Step::Flush,
            43..49 => Step::Load(seed),
            49..58 => Step::Sort,
            58..64 => Step::Merge,
            64..66 => Step::Purge(seed),
            66..72 => Step::During(false, seed),
            72..80 => Step::During(true, seed),
            80..84 => Step::Hold(seed),
            84..89 => Step::Pin(seed),
            89..92 => Step::Release,
            92..95 => Step::Wait(seed),
            95..97 => Step::Probe(seed),
            _ => Step::Reopen,
        }
    };
    (0..STEPS).map(|_| step(random)).collect()
}

impl World {
    fn step(&mut self, step: Step) -> Checked {
        match step {
            Step::Batch(seed) => {
                let parts = batch(self, &mut Random::new(seed));
                self.submit(&parts, Durability::Sync)?;
            }
            Step::Relaxed(seed) => {
                let parts = batch(self, &mut Random::new(seed));
                self.submit(&parts, Durability::Relaxed)?;
            }
            Step::Flush => self.flush()?,
            Step::Load(seed) => {
                let parts: Vec<Part> = load(self, &mut Random::new(seed));
                self.submit(&parts, Durability::Sync)?;
            }
            Step::Sort => self.sort()?,
            Step::Merge => self.merge()?,
            Step::Purge(seed) => self.purge(seed as usize % 2)?,
            Step::During(is_merge, seed) => {
                let mut random = Random::new(seed);
                let passes = random.below(8) as usize;
                self.during(is_merge, passes, |world, is_apart| {
                    for _ in 0..1 + random.below(3) {
                        match random.below(if is_apart { 8 } else { 1 }) {
                            0 => world.check(&mut random)?,
                            // The other of the two stages goes on, too.
                            1 if is_merge => world.sort()?,
                            1 => world.merge()?,
                            2 => world.pin(NEWEST)?,
                            _ => world.step(Step::Batch(random.number()))?,
                        }
                    }
                    Ok(())
                })?;
            }
            Step::Hold(seed) => self.hold(freshness(seed))?,
            Step::Pin(seed) => self.pin(freshness(seed))?,
            Step::Release => {
                let count = self.held.len().min(1);
                self.held.drain(..count);
                let count = self.pins.len().min(1);
                self.pins.drain(..count);
            }
            Step::Wait(seed) => self.clock.advance(Duration::from_millis(seed % 3_000)),
            Step::Probe(seed) => self.probe_index(&mut Random::new(seed))?,
            Step::Reopen => self.reopen()?,
        }
        Ok(())
    }
}

fn freshness(seed: u64) -> Freshness {
    if seed.is_multiple_of(3) { Freshness::Merged } else { NEWEST }
}

/// Runs a history on a new database.
fn run(setup: &Setup, history: &[Step]) -> Checked {
    let mut world = World::new(setup);
    let mut random = Random::new(history.len() as u64);
    for (at, &step) in history.iter().enumerate() {
        let checked = world.step(step).and_then(|()| world.check(&mut random));
        checked.map_err(|what| format!("step {at}, {step:?}: {what}"))?;
    }
    // Everything in its last stage, and once more from disk.
    let end = |world: &mut World, random: &mut Random| -> Checked {
        world.probe_index(random)?;
        world.flush()?;
        world.sort()?;
        world.check(random)?;
        world.release_all()?;
        world.merge()?;
        world.check(random)?;
        world.reopen()?;
        world.probe_index(random)?;
        world.check(random)
    };
    end(&mut world, &mut random).map_err(|what| format!("at the end: {what}"))
}

/// What is wrong, a panic of the engine included.
fn failure(setup: &Setup, history: &[Step]) -> Option<String> {
    match catch_unwind(AssertUnwindSafe(|| run(setup, history))) {
        Ok(checked) => checked.err(),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            Some(format!("a panic: {}", text.unwrap_or("without words")))
        }
    }
}

/// Leaves out steps, many at first, as long as the history fails.
fn shortened(setup: &Setup, mut history: Vec<Step>, mut what: String) -> (Vec<Step>, String) {
    let mut piece = history.len() / 2;
    while piece > 0 {
        let mut at = 0;
        while at < history.len() {
            let mut shorter = history.clone();
            shorter.drain(at..history.len().min(at + piece));
            match failure(setup, &shorter) {
                Some(still) => (history, what) = (shorter, still),
                None => at += piece,
            }
        }
        piece /= 2;
    }
    (history, what)
}

/// Histories of tables with one kind of key.
fn histories(kind: KeyKind) {
    Seeds(HISTORIES).each(&SystemClock::default(), |seed| {
        let policies = [OnConflict::Error, OnConflict::Nothing, OnConflict::Replace];
        let mut setup = Setup::new(kind, policies[(seed % 3) as usize]);
        if seed % 4 == 1 {
            // All rows are wide.
            setup.options.waiting_bytes_max = 2_000;
        }
        if seed % 5 < 2 {
            // A sort takes what waits in many steps.
            setup.options.sort_step_bytes = 300;
        }
        // Segments that are cut into partitions soon, and such as are not.
        setup.options.pipeline.partition_rows_max = if seed.is_multiple_of(2) { 200 } else { 40 };
        let history = steps(&mut Random::new(seed));
        if let Some(what) = failure(&setup, &history) {
            let (history, what) = shortened(&setup, history, what);
            panic!("{what}\nafter {history:#?}\n{:?} keys, on_conflict {:?}", setup.kind, setup.on_conflict);
        }
    });
}

#[test]
fn every_version_is_the_models_with_keys_that_are_numbers() {
    histories(KeyKind::Number);
}

#[test]
fn every_version_is_the_models_with_keys_that_are_hashed() {
    histories(KeyKind::Pair);
}

#[test]
fn every_version_is_the_models_where_segments_are_in_the_order_of_keys() {
    histories(KeyKind::Ordered);
}

#[test]
fn every_version_is_the_models_where_segments_are_never_ordered() {
    histories(KeyKind::Unordered);
}
