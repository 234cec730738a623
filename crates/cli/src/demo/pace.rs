//! How fast the demo's stream comes: as fast as the machine takes it in and still answers.
//!
//! Invariants:
//! - The pace goes up by little and down by much, as TCP's windows do (Jacobson 1988): what is too fast for the machine lasts a moment.
//! - It is a bound on the mean; a batch that took long is not followed by a burst.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// Rows a second at the beginning, at least, and at most.
const FIRST: u64 = 100_000;
const LEAST: u64 = 10_000;
const MOST: u64 = 2_000_000;
/// The sorted stage may be so far behind what has come, and an answer may take so long.
const BEHIND_MAX: Duration = Duration::from_secs(3);
const ANSWER_MAX: Duration = Duration::from_millis(250);

/// The pace of a stream.
#[derive(Debug)]
pub struct Pace {
    rows_per_s: AtomicU64,
    /// When the next batch may come.
    next: Mutex<Instant>,
}

impl Pace {
    /// The pace of a stream that begins now.
    pub fn new() -> Pace {
        Pace { rows_per_s: AtomicU64::new(FIRST), next: Mutex::new(Instant::now()) }
    }

    /// Waits until another batch may come after one of so many rows.
    pub async fn keep(&self, rows: u64) {
        let mut next = self.next.lock().await;
        let apart = Duration::from_secs_f64(rows as f64 / self.rows_per_s.load(Ordering::Relaxed) as f64);
        *next = (*next + apart).max(Instant::now());
        tokio::time::sleep_until((*next).into()).await;
    }

    /// Adapts to how far sorting is behind, and to how long the last answer took.
    pub fn adapt(&self, behind: Duration, answered: Duration) {
        let now = self.rows_per_s.load(Ordering::Relaxed);
        let is_too_fast = behind > BEHIND_MAX || answered > ANSWER_MAX;
        let next = if is_too_fast { now * 6 / 10 } else { now * 12 / 10 };
        self.rows_per_s.store(next.clamp(LEAST, MOST), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_rises_slowly_falls_fast_and_stays_within_bounds() {
        let pace = Pace::new();
        let rate = || pace.rows_per_s.load(Ordering::Relaxed);
        pace.adapt(Duration::ZERO, Duration::ZERO);
        assert_eq!(rate(), 120_000);
        pace.adapt(Duration::from_secs(4), Duration::ZERO);
        assert_eq!(rate(), 72_000);
        pace.adapt(Duration::ZERO, Duration::from_secs(1));
        assert_eq!(rate(), 43_200);
        (0..99).for_each(|_| pace.adapt(Duration::from_secs(9), Duration::ZERO));
        assert_eq!(rate(), LEAST);
        (0..99).for_each(|_| pace.adapt(Duration::ZERO, Duration::ZERO));
        assert_eq!(rate(), MOST);
    }
}
