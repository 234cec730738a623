//! The clock: a port that hands in time, so that the whole engine runs in a simulation.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where every room gets its time from.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Time since some fixed moment in this process; never goes back. Freshness is measured by it.
    fn monotonic(&self) -> Duration;
    /// Microseconds since 1970-01-01 UTC. May jump; used only to stamp what people read, and for SQL's `now()`.
    fn wall_micros(&self) -> i64;
}

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    #[allow(clippy::disallowed_methods)] // the one place that asks the machine
    fn default() -> Self {
        SystemClock { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    #[allow(clippy::disallowed_methods)] // the one place that asks the machine
    fn wall_micros(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => since.as_micros() as i64,
            Err(before) => -(before.duration().as_micros() as i64),
        }
    }
}

/// A clock that stands still until told otherwise; for tests and simulations.
#[derive(Debug, Default)]
pub struct ManualClock {
    micros: AtomicU64,
}

impl ManualClock {
    /// Moves both clocks forward.
    pub fn advance(&self, by: Duration) {
        self.micros.fetch_add(by.as_micros() as u64, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::SeqCst))
    }

    fn wall_micros(&self) -> i64 {
        self.micros.load(Ordering::SeqCst) as i64
    }
}
