//! What a statement used of the database: its version, its lag, and what it read.

use alluvia_plan::pipelines::Pipelines;
use alluvia_snapshot::Snapshot;
use alluvia_tree::Counters;
use alluvia_types::{Stage, Version};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tracing::Span;
use tracing::span::Id;

/// Counts what a statement reads, from all its scans at once.
#[derive(Debug)]
pub struct UsedCounters {
    version: Version,
    lag: Duration,
    stage: Stage,
    segments: AtomicU64,
    segments_skipped: AtomicU64,
    rungs: AtomicU64,
    blocks_read: AtomicU64,
    blocks_skipped: AtomicU64,
    rows_read: AtomicU64,
    rows_to_read: AtomicU64,
    tail_rows: AtomicU64,
    bytes_read: AtomicU64,
    of_tables: AtomicBool,
    waits_for_memory: AtomicBool,
    sample: Mutex<Option<SampleUsed>>,
    pipelines: Pipelines,
    /// The statement's span, if it is traced: its number, which does not keep it open.
    span: Option<Id>,
}

impl UsedCounters {
    /// Nothing read of this snapshot yet.
    pub fn new(snapshot: &Snapshot) -> Arc<UsedCounters> {
        let counters = UsedCounters::at(snapshot.version, snapshot.lag, snapshot.stage);
        counters.of_tables.store(!snapshot.tables.is_empty(), Ordering::Relaxed);
        counters
    }

    /// Nothing read yet of a table at this version.
    pub fn at(version: Version, lag: Duration, stage: Stage) -> Arc<UsedCounters> {
        Arc::new(UsedCounters {
            version,
            lag,
            stage,
            segments: AtomicU64::new(0),
            segments_skipped: AtomicU64::new(0),
            rungs: AtomicU64::new(0),
            blocks_read: AtomicU64::new(0),
            blocks_skipped: AtomicU64::new(0),
            rows_read: AtomicU64::new(0),
            rows_to_read: AtomicU64::new(0),
            tail_rows: AtomicU64::new(0),
            bytes_read: AtomicU64::new(0),
            of_tables: AtomicBool::new(true),
            waits_for_memory: AtomicBool::new(false),
            sample: Mutex::default(),
            pipelines: Pipelines::default(),
            span: Span::current().id(),
        })
    }

    /// The span that scans are parts of.
    pub fn statement_span(&self) -> Option<Id> {
        self.span.clone()
    }

    /// What was used so far.
    pub fn used(&self) -> Used {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Used {
            version: self.version,
            lag: self.lag,
            stage: self.stage,
            segments: get(&self.segments),
            segments_skipped: get(&self.segments_skipped),
            rungs: get(&self.rungs),
            blocks_read: get(&self.blocks_read),
            blocks_skipped: get(&self.blocks_skipped),
            rows_read: get(&self.rows_read),
            rows_to_read: get(&self.rows_to_read),
            tail_rows: get(&self.tail_rows),
            bytes_read: get(&self.bytes_read),
            of_tables: self.of_tables.load(Ordering::Relaxed),
            sample: *self.sample.lock(),
        }
    }

    /// Whether it waits for memory that others have, from now on.
    pub fn waits_for_memory(&self, waits: bool) {
        self.waits_for_memory.store(waits, Ordering::Relaxed);
    }

    /// Whether it waits for memory that others have.
    pub fn is_waiting_for_memory(&self) -> bool {
        self.waits_for_memory.load(Ordering::Relaxed)
    }

    /// What it runs of a plan.
    pub fn pipelines(&self) -> &Pipelines {
        &self.pipelines
    }

    /// The share of the statement that is done, as every channel tells it; `None` where nobody knows. Of rows that it writes, so many were
    /// `written`.
    pub fn fraction(&self, written: Option<u64>) -> Option<f64> {
        let Used { rows_read, rows_to_read, .. } = self.used();
        // Once all is read, scans alone tell nothing of what is left.
        let scanned = (rows_read < rows_to_read).then(|| rows_read as f64 / rows_to_read as f64);
        self.pipelines.fraction(written, scanned)
    }

    /// It reads a table of schema `alluvia`, which no snapshot names.
    pub fn read_system_table(&self) {
        self.of_tables.store(true, Ordering::Relaxed);
    }

    /// Segments were read, and others skipped.
    pub fn add_segments(&self, read: u64, skipped: u64) {
        self.segments.fetch_add(read, Ordering::Relaxed);
        self.segments_skipped.fetch_add(skipped, Ordering::Relaxed);
    }

    /// Rungs were read in the place of segments.
    pub fn add_rungs(&self, rungs: u64) {
        self.rungs.fetch_add(rungs, Ordering::Relaxed);
    }

    /// Blocks were opened, and others skipped.
    pub fn add_blocks(&self, read: u64, skipped: u64) {
        self.blocks_read.fetch_add(read, Ordering::Relaxed);
        self.blocks_skipped.fetch_add(skipped, Ordering::Relaxed);
    }

    /// A scan is planned that will read so many rows, if it is run.
    pub fn plan_rows(&self, rows: u64) {
        self.rows_to_read.fetch_add(rows, Ordering::Relaxed);
    }

    /// Rows of segments were read.
    pub fn add_rows(&self, rows: u64) {
        self.rows_read.fetch_add(rows, Ordering::Relaxed);
    }

    /// Rows of the tail, or of the open transaction, were read.
    pub fn add_tail_rows(&self, rows: u64) {
        self.tail_rows.fetch_add(rows, Ordering::Relaxed);
        self.rows_read.fetch_add(rows, Ordering::Relaxed);
    }

    /// What an answer of the index took.
    pub fn add_counters(&self, counters: &Counters) {
        self.add_segments(counters.segments, counters.segments_skipped);
        self.add_blocks(counters.cut, counters.blocks_skipped);
        self.add_rows(counters.rows_filtered);
        self.add_tail_rows(counters.tail_rows);
    }

    /// The answer is from this sample.
    pub fn set_sample(&self, sample: SampleUsed) {
        *self.sample.lock() = Some(sample);
    }

    /// The sample that the answer is from.
    pub fn sample(&self) -> Option<SampleUsed> {
        *self.sample.lock()
    }

    /// Bytes of segments were fetched.
    pub fn add_bytes(&self, bytes: u64) {
        self.bytes_read.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// What a statement used: the answer to "how fresh was that, and what did it cost?".
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Used {
    /// Everything through this version is in the answer, and nothing above it.
    pub version: Version,
    /// How long ago the first batch that the answer lacks became visible; zero when it lacks none.
    pub lag: Duration,
    /// The least organised stage that had to be read.
    pub stage: Stage,
    /// Segments read, in part or whole.
    pub segments: u64,
    /// Segments of which no block could match.
    pub segments_skipped: u64,
    /// Segments in whose place a rung of their ladder was looked at, for a sample.
    pub rungs: u64,
    /// Blocks that were opened for reading.
    pub blocks_read: u64,
    /// Blocks that could not match.
    pub blocks_skipped: u64,
    /// Rows in the blocks and tail runs that were read, before filters.
    pub rows_read: u64,
    /// Rows that its scans were planned to read: of what they have chosen, before filters.
    pub rows_to_read: u64,
    /// Of these, rows from the tail and from the open transaction.
    pub tail_rows: u64,
    /// Bytes fetched from segments, compressed.
    pub bytes_read: u64,
    /// Whether it read tables: users', or those of schema `alluvia`. PostgreSQL's catalog alone is none.
    pub of_tables: bool,
    /// The sample that the answer is from; `None` of an exact answer.
    pub sample: Option<SampleUsed>,
}

impl Used {
    /// As servers tell it; the names are those of `alluvia.queries`.
    pub fn to_json(&self) -> Value {
        json!({
            "version": self.version.0,
            "lag_seconds": self.lag.as_secs_f64(),
            "stage": self.stage.to_string(),
            "segments_read": self.segments,
            "segments_skipped": self.segments_skipped,
            "blocks_read": self.blocks_read,
            "blocks_skipped": self.blocks_skipped,
            "rows_read": self.rows_read,
            "tail_rows": self.tail_rows,
            "bytes_read": self.bytes_read,
            "sample": self.sample.map(|sample| sample.to_json()),
        })
    }
}

/// The sample that an answer is from.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SampleUsed {
    /// Looks that were planned.
    pub looks: u32,
    /// The look at which reading stopped, from 1.
    pub look: u32,
    /// Bit `k` is set if rung `k` was read, which has one row in 2^k.
    pub rungs: u32,
    /// Rows drawn.
    pub rows_drawn: u64,
    /// Rows that an exact answer reads.
    pub rows_cut: u64,
    /// Cut nodes that values are estimated of.
    pub nodes_drawn: u64,
    /// The largest relative error of a value.
    pub error: f64,
    /// How often an interval holds the exact value: of each value by itself.
    pub confidence: f64,
    /// Groups that may exist and were not seen.
    pub groups_unseen: u64,
    /// Whether what was asked for was reached.
    pub holds: bool,
}

impl SampleUsed {
    /// As servers tell it; an error that is not bounded is null.
    pub(crate) fn to_json(self) -> Value {
        json!({
            "look": self.look,
            "looks": self.looks,
            "rungs": self.rungs(),
            "rows_drawn": self.rows_drawn,
            "rows_cut": self.rows_cut,
            "nodes_drawn": self.nodes_drawn,
            "error": self.error,
            "confidence": self.confidence,
            "groups_unseen": self.groups_unseen,
            "holds": self.holds,
        })
    }

    /// The rungs that were read, by their shares of rows, the thinnest first.
    pub fn rungs(&self) -> String {
        let rungs = (0..32).rev().filter(|rung| self.rungs >> rung & 1 == 1);
        let rungs: Vec<String> = rungs.map(|rung| format!("1/{}", 1u64 << rung)).collect();
        rungs.join(", ")
    }

    /// What kind of intervals its values have.
    pub fn interval(&self) -> String {
        format!("look {} of {} planned at confidence {}", self.look, self.looks, self.confidence)
    }
}

impl fmt::Display for SampleUsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = 100.0 * self.rows_drawn as f64 / self.rows_cut.max(1) as f64;
        write!(
            f,
            "sample of rungs {}: {} of {} rows drawn ({share:.2} %), interval of look {} of {} planned, relative error at most {:.6}, each at confidence {}",
            self.rungs(),
            self.rows_drawn,
            self.rows_cut,
            self.look,
            self.looks,
            self.error,
            self.confidence,
        )?;
        if !self.holds {
            f.write_str(", NOT within max_error")?;
        }
        if self.groups_unseen > 0 {
            write!(f, ", may lack {} groups", self.groups_unseen)?;
        }
        Ok(())
    }
}

impl fmt::Display for Used {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "version {}, lag {:?}, stage {}, segments {} read {} skipped, blocks {} read {} skipped, rows {} read ({} from the tail)",
            self.version,
            self.lag,
            self.stage,
            self.segments,
            self.segments_skipped,
            self.blocks_read,
            self.blocks_skipped,
            self.rows_read,
            self.tail_rows,
        )?;
        if self.rungs > 0 {
            write!(f, ", rungs {} in the place of segments", self.rungs)?;
        }
        match &self.sample {
            Some(sample) => write!(f, ", {sample}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_tell_of_the_sample_and_of_none() {
        let counters = UsedCounters::at(Version(7), Duration::ZERO, Stage::Merged);
        assert_eq!(counters.used().to_json()["sample"], Value::Null);
        let sample = SampleUsed {
            looks: 4,
            look: 2,
            rungs: 0b1001_0000,
            rows_drawn: 100,
            rows_cut: 10_000,
            nodes_drawn: 3,
            error: 0.0625,
            confidence: 0.95,
            groups_unseen: 1,
            holds: true,
        };
        let told = Used { sample: Some(sample), ..counters.used() }.to_json();
        let wanted = json!({
            "look": 2, "looks": 4, "rungs": "1/128, 1/16", "rows_drawn": 100, "rows_cut": 10_000, "nodes_drawn": 3,
            "error": 0.0625, "confidence": 0.95, "groups_unseen": 1, "holds": true,
        });
        assert_eq!(told["sample"], wanted);
        // Nothing is known of how wrong it is.
        let unbounded = SampleUsed { error: f64::INFINITY, ..sample };
        assert_eq!(unbounded.to_json()["error"], Value::Null);
    }
}
