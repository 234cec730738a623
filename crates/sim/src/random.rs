//! Random numbers that follow from a seed, and the seeds that a test runs with.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

/// A number that a variable of the environment gives: `ALLUVIA_TEST_SECONDS` to go on for so long, `ALLUVIA_TEST_SEED`
/// to replay.
pub fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text:?} is no number")))
}

/// A small deterministic generator (SplitMix64; Steele et al., OOPSLA 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Begins with a seed; seeds that are near give numbers that are not.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    /// A number of a range that is not empty.
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.below(range.end - range.start)
    }

    /// Whether the one of `in_so_many` cases has come.
    pub fn one_in(&mut self, in_so_many: u64) -> bool {
        self.below(in_so_many) == 0
    }

    /// One of several; at least one is there.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    /// One of several, if any is there.
    pub fn pick_some<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        if from.is_empty() { None } else { Some(self.pick(from)) }
    }
}

/// The seeds that a test runs with: that of `ALLUVIA_TEST_SEED` alone; else so many, and then others for
/// `ALLUVIA_TEST_SECONDS`.
#[derive(Clone, Copy, Debug)]
pub struct Seeds(pub u64);

impl Seeds {
    /// Runs a test with each seed. A failure says which seed replays it.
    pub fn each(self, clock: &dyn alluvia_types::Clock, mut run: impl FnMut(u64)) {
        let time = variable("ALLUVIA_TEST_SECONDS").map(Duration::from_secs).unwrap_or_default();
        let start = clock.monotonic();
        let seeds = match variable("ALLUVIA_TEST_SEED") {
            Some(seed) => seed..seed + 1,
            None => 1..u64::MAX,
        };
        for seed in seeds {
            if seed > self.0 && variable("ALLUVIA_TEST_SEED").is_none() && clock.monotonic() - start >= time {
                break;
            }
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(seed))) {
                eprintln!("ALLUVIA_TEST_SEED={seed} replays this");
                resume_unwind(panic);
            }
        }
    }
}
