//! The seeds.

use super::estimates::Tally;
use super::world::World;
use crate::keyed::world::Checked;
use alluvia_sim::{Random, variable};
use alluvia_types::{Clock, SystemClock};
use parking_lot::Mutex;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Seeds of the test, where nobody asks for more.
const SEEDS: u64 = 2_000;
/// Seeds after which intervals are judged.
const AT_ONCE: u64 = 250;
/// Steps of a simulation.
const STEPS: u64 = 50;

/// What one simulation came to: the hash of its trace and its lines, and what intervals said.
type Ran = ((u64, u64), Tally);

/// Runs a seed. Says what is wrong, a panic of the engine included, and the last lines of the trace.
fn run(seed: u64) -> Checked<Ran> {
    let world = World::new(seed);
    let mut random = Random::new(seed);
    let mut history = || -> Checked {
        world.begin(&mut random)?;
        for step in 0..STEPS {
            world.trace.say(format_args!("step {step}"));
            world.step(&mut random).map_err(|what| format!("step {step}: {what}"))?;
        }
        world.end(&mut random).map_err(|what| format!("at the end: {what}"))
    };
    let ended = catch_unwind(AssertUnwindSafe(&mut history)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(format!("a panic: {}", text.unwrap_or("without words")))
    });
    match ended {
        Ok(()) => {
            let tally = world.state.lock().tally;
            Ok((world.trace.hash(), tally))
        }
        Err(what) => Err(format!("seed {seed}: {what}\nthe last lines of its trace:\n{}", world.trace.last())),
    }
}

/// Runs seeds on all processors, each simulation on one thread, and gives what they came to. Stops at the first that
/// fails.
fn each(seeds: Range<u64>) -> (Tally, u64) {
    let (next, ran, failure) = (AtomicU64::new(seeds.start), Mutex::new((Tally::default(), 0)), Mutex::new(None));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end || failure.lock().is_some() {
                return;
            }
            match run(seed) {
                Ok(((_, lines), tally)) => {
                    let mut ran = ran.lock();
                    ran.0.add(&tally);
                    ran.1 += lines;
                }
                Err(what) => {
                    failure.lock().get_or_insert((seed, what));
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
    if let Some((seed, what)) = failure.into_inner() {
        panic!("{what}\nmake sim SEED={seed} replays this");
    }
    ran.into_inner()
}

#[test]
fn every_answer_is_the_models_whatever_the_disk_does() {
    if let Some(seed) = variable("ALLUVIA_TEST_SEED") {
        let ran = run(seed).unwrap_or_else(|what| panic!("{what}"));
        println!("seed {seed} holds: trace of {} lines, hash {:016x}", ran.0.1, ran.0.0);
        return;
    }
    let clock = SystemClock::default();
    let time = variable("ALLUVIA_TEST_SECONDS").map(Duration::from_secs).unwrap_or_default();
    let seeds = variable("ALLUVIA_TEST_SEEDS").unwrap_or(SEEDS);
    let (mut tally, mut lines, mut next) = (Tally::default(), 0, 1);
    while next <= seeds || clock.monotonic() < time {
        // Judged after the same seeds, whichever thread runs them.
        let end = if next <= seeds { (next + AT_ONCE).min(seeds + 1) } else { next + AT_ONCE };
        let (of_seeds, said) = each(next..end);
        tally.add(&of_seeds);
        (lines, next) = (lines + said, end);
        tally.judge().unwrap_or_else(|what| panic!("seeds 1 to {}: {what}", end - 1));
    }
    println!("{} seeds, {lines} lines of traces, {:?}", next - 1, clock.monotonic());
    println!("{tally:?}");
}

#[test]
fn a_seed_has_one_trace() {
    for seed in [1, 2, 3, 4, 8, 12] {
        let hashes = [run(seed), run(seed)].map(|ran| ran.unwrap_or_else(|what| panic!("{what}")));
        assert_eq!(hashes[0], hashes[1], "seed {seed} has two traces");
        assert!(hashes[0].0.1 > 100, "a trace of {} lines", hashes[0].0.1);
    }
}
