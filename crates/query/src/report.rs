//! How far a statement is: phase, rows, rate, the share that is done, the time left. All channels tell this figure.
//!
//! The share is, in this order: of the bytes of files that are read; of the rows of an answer that is refined; of the
//! rows that drive the statement's plan ([`alluvia_plan::pipelines`]), which are the rows that scans read, that a sort
//! or an aggregate gives, and that are written. Where no plan runs, the share is of the rows of the blocks that scans
//! have chosen; a part of a block counts whole once its reading begins.
//!
//! Invariants:
//! - A share never goes back, and is never whole before the statement's end.
//! - A figure that nobody knows is left out: then phase, rows and rate are told alone.

use crate::used::UsedCounters;
use alluvia_copy::progress::{Phase, Progress};
use std::fmt;
use std::time::Duration;

/// How far a statement is.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Report {
    /// Since it began.
    pub elapsed: Duration,
    /// What it does.
    pub phase: Phase,
    /// Rows taken in, put out or read so far.
    pub rows: u64,
    /// Bytes read so far, as they lie in files and segments.
    pub bytes: u64,
    /// Bytes of the files to read; `None` where there are none, or nobody knows.
    pub bytes_total: Option<u64>,
    /// Rows in the mean, since it began.
    pub rows_per_second: f64,
    /// The share that is done, from 0 to below 1; `None` where nobody knows what there is to do.
    pub fraction: Option<f64>,
    /// What is left if it goes on as it went.
    pub left: Option<Duration>,
}

impl Report {
    pub(crate) fn new(elapsed: Duration, progress: &Progress, counters: Option<&UsedCounters>) -> Report {
        let seconds = elapsed.as_secs_f64();
        let fraction = progress.fraction().or_else(|| counters?.fraction(progress.written()));
        let used = counters.map(UsedCounters::used);
        let left = fraction.filter(|fraction| *fraction > 0.0).map(|fraction| seconds * (1.0 - fraction) / fraction);
        let rows = progress.rows().max(used.map_or(0, |used| used.rows_read));
        Report {
            elapsed,
            phase: match counters {
                Some(counters) if counters.is_waiting_for_memory() => Phase::Waiting,
                _ => progress.phase(),
            },
            rows,
            bytes: progress.bytes_done().max(used.map_or(0, |used| used.bytes_read)),
            bytes_total: Some(progress.bytes_total()).filter(|total| *total > 0),
            rows_per_second: if seconds > 0.0 { rows as f64 / seconds } else { 0.0 },
            fraction,
            left: left.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        }
    }

    /// What it does, in a word: a statement that does nothing that takes long is running, too.
    pub fn doing(&self) -> &'static str {
        if self.phase == Phase::Idle { Phase::Running.name() } else { self.phase.name() }
    }

    /// As the servers tell it.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "elapsed_seconds": self.elapsed.as_secs_f64(),
            "phase": self.doing(),
            "rows": self.rows,
            "rows_per_second": self.rows_per_second,
            "fraction": self.fraction,
            "seconds_left": self.left.map(|left| left.as_secs_f64()),
        })
    }
}

/// One line: `42.0 %, 1000 rows, 250 rows/s, running for 4.0 s, 5.5 s left`.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(fraction) = self.fraction {
            write!(f, "{:.1} %, ", fraction * 100.0)?;
        }
        let doing = self.doing();
        let elapsed = self.elapsed.as_secs_f64();
        write!(f, "{} rows, {:.0} rows/s, {doing} for {elapsed:.1} s", self.rows, self.rows_per_second)?;
        match self.left {
            Some(left) => write!(f, ", {:.1} s left", left.as_secs_f64()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_types::{Stage, Version};

    #[test]
    fn a_report_says_what_is_known() {
        let progress = Progress::default();
        let report =
            |progress: &Progress, used: Option<&UsedCounters>| Report::new(Duration::from_secs(4), progress, used);
        let nothing = report(&progress, None);
        assert_eq!((nothing.fraction, nothing.left), (None, None));
        assert_eq!(nothing.to_string(), "0 rows, 0 rows/s, running for 4.0 s");
        assert_eq!((nothing.bytes, nothing.bytes_total, nothing.doing()), (0, None, "running"));
        let counters = UsedCounters::at(Version(1), Duration::ZERO, Stage::Sorted);
        assert_eq!(report(&progress, Some(&counters)).fraction, None);
        counters.plan_rows(4_000);
        counters.add_rows(1_000);
        counters.add_bytes(70);
        let reading = report(&progress, Some(&counters));
        assert_eq!((reading.fraction, reading.left), (Some(0.25), Some(Duration::from_secs(12))));
        assert_eq!(reading.to_string(), "25.0 %, 1000 rows, 250 rows/s, running for 4.0 s, 12.0 s left");
        assert_eq!((reading.bytes, reading.bytes_total), (70, None));
        // All is read, or some of it twice: what is left has no measure, and what was told stays.
        counters.add_rows(3_000);
        assert_eq!(report(&progress, Some(&counters)).fraction, Some(0.25));
        counters.add_rows(9_000);
        assert_eq!(report(&progress, Some(&counters)).fraction, Some(0.25));
        let untold = UsedCounters::at(Version(1), Duration::ZERO, Stage::Sorted);
        untold.plan_rows(10);
        untold.add_rows(10);
        assert_eq!(report(&progress, Some(&untold)).fraction, None);
        // A file tells more than what is read of tables.
        progress.set_bytes_total(100);
        progress.add_bytes(80);
        progress.set_phase(Phase::Finishing);
        let loading = report(&progress, Some(&counters));
        assert_eq!((loading.fraction, loading.phase), (Some(0.8), Phase::Finishing));
        assert_eq!((loading.bytes, loading.bytes_total), (80, Some(100)));
        // More files turn up, and all of them are read: it does not go back, and is not whole.
        progress.set_bytes_total(200);
        assert_eq!(report(&progress, None).fraction, Some(0.8));
        progress.add_bytes(120);
        assert_eq!(report(&progress, None).to_string(), "99.0 %, 0 rows, 0 rows/s, finishing for 4.0 s, 0.0 s left");
        assert!(Report::new(Duration::ZERO, &progress, None).rows_per_second.abs() < f64::EPSILON);
    }
}
