//! Times at which versions became visible, by which a freshness becomes a version.
//!
//! Invariants:
//! - [`VisibleTimes::required`] is never below the true answer: times are coalesced only towards *fresher*.
//! - What was recovered at open counts as visible for ever. How long before nobody knows: an answer that lacks some of
//!   it lags by the time since the opening, at least.
//! - Memory is bounded by [`ENTRIES_MAX`], however long the process runs.

use alluvia_types::Version;
use std::collections::VecDeque;
use std::time::Duration;

/// Versions published within this long of one another share an entry.
const BUCKET: Duration = Duration::from_millis(1);
/// Past this many entries, the older half is thinned to every second one.
const ENTRIES_MAX: usize = 16_384;

/// A run of versions, taken to have become visible together at `since`.
#[derive(Clone, Copy, Debug)]
struct Entry {
    since: Duration,
    through: Version,
}

/// The history of visibility.
#[derive(Debug)]
pub struct VisibleTimes {
    recovered: Version,
    opened: Duration,
    entries: VecDeque<Entry>,
}

impl VisibleTimes {
    /// Starts at `now` with everything through `recovered` visible for ever.
    pub fn new(now: Duration, recovered: Version) -> Self {
        VisibleTimes { recovered, opened: now, entries: VecDeque::new() }
    }

    /// `version` became visible at `now`. Both never decrease.
    pub fn record(&mut self, now: Duration, version: Version) {
        match self.entries.back_mut() {
            Some(last) if now < last.since + BUCKET => last.through = version,
            _ => self.entries.push_back(Entry { since: now, through: version }),
        }
        if self.entries.len() > ENTRIES_MAX {
            self.thin();
        }
    }

    /// The version that a statement beginning at `now` must include to be `freshness` fresh.
    pub fn required(&self, now: Duration, freshness: Duration) -> Version {
        let Some(moment) = now.checked_sub(freshness) else {
            return self.recovered;
        };
        let visible = self.entries.partition_point(|entry| entry.since <= moment);
        match visible.checked_sub(1) {
            Some(last) => self.entries[last].through,
            None => self.recovered,
        }
    }

    /// How long, at `now`, something above `version` has been visible; zero when nothing is.
    pub fn lag(&self, now: Duration, version: Version) -> Duration {
        if version < self.recovered {
            return now.saturating_sub(self.opened);
        }
        let lacking = self.entries.partition_point(|entry| entry.through <= version);
        match self.entries.get(lacking) {
            Some(entry) => now.saturating_sub(entry.since),
            None => Duration::ZERO,
        }
    }

    /// Joins pairs of the older half: the earlier time with the later version, so that answers only get fresher.
    fn thin(&mut self) {
        let half = ENTRIES_MAX / 2;
        let mut thinned = VecDeque::with_capacity(ENTRIES_MAX);
        for pair in 0..half / 2 {
            thinned
                .push_back(Entry { since: self.entries[2 * pair].since, through: self.entries[2 * pair + 1].through });
        }
        thinned.extend(self.entries.iter().skip(half / 2 * 2));
        self.entries = thinned;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against the obvious model: every publication remembered.
        #[test]
        fn required_is_never_staler_than_asked_and_at_most_a_bucket_fresher(
            steps in prop::collection::vec(0u64..3_000, 1..400),
            asked in 0u64..500_000,
            later in 0u64..10_000,
        ) {
            let mut times = VisibleTimes::new(Duration::ZERO, Version(7));
            let mut model = Vec::new();
            let mut now = 0;
            for (i, step) in steps.iter().enumerate() {
                now += step;
                let version = Version(8 + i as u64);
                times.record(Duration::from_micros(now), version);
                model.push((now, version));
            }
            let now = now + later;
            let truth = |extra: u64| {
                let visible = |&&(at, _): &&(u64, Version)| at + asked <= now + extra;
                model.iter().filter(visible).map(|&(_, version)| version).max().unwrap_or(Version(7))
            };
            let got = times.required(Duration::from_micros(now), Duration::from_micros(asked));
            prop_assert!(got >= truth(0));
            prop_assert!(got <= truth(BUCKET.as_micros() as u64));
        }
    }

    #[test]
    fn thinning_keeps_memory_bounded_and_answers_conservative() {
        let mut times = VisibleTimes::new(Duration::ZERO, Version(0));
        for i in 0..100_000u64 {
            times.record(Duration::from_millis(2 * i), Version(i + 1));
        }
        assert!(times.entries.len() <= ENTRIES_MAX);
        let now = Duration::from_millis(2 * 99_999);
        for back in [0u64, 10, 1_000, 50_000, 90_000] {
            let truth = 100_000 - back;
            assert!(times.required(now, Duration::from_millis(2 * back)).0 >= truth);
        }
        assert_eq!(times.required(now, Duration::ZERO), Version(100_000));
    }

    #[test]
    fn lag_is_the_age_of_the_first_batch_that_is_lacking() {
        let mut times = VisibleTimes::new(Duration::from_secs(9), Version(3));
        times.record(Duration::from_secs(10), Version(4));
        times.record(Duration::from_secs(12), Version(5));
        let now = Duration::from_secs(15);
        assert_eq!(times.lag(now, Version(3)), Duration::from_secs(5));
        assert_eq!(times.lag(now, Version(4)), Duration::from_secs(3));
        assert_eq!(times.lag(now, Version(5)), Duration::ZERO);
        // What was recovered may be older: it has been visible since the opening at least.
        assert_eq!(times.lag(now, Version(2)), Duration::from_secs(6));
        assert_eq!(VisibleTimes::new(now, Version(3)).lag(now, Version(3)), Duration::ZERO);
    }
}
