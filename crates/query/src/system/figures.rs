//! What is counted since the start, and how the database stands: for metrics.
//!
//! Invariants:
//! - A statement is counted once, when it has ended, whatever it did.
//! - Labels come from fixed lists: what statements a client makes does not make new ones.

use alluvia_types::{Error, ErrorKind, Stage, Version};
use parking_lot::Mutex;
use std::time::Duration;

/// Upper bounds of the buckets of [`StatementFigures::latency`], in seconds; the last bucket has none.
pub const LATENCY_SECONDS: [f64; 14] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];
const BUCKETS: usize = LATENCY_SECONDS.len() + 1;

const KINDS: [&str; 8] = ["query", "insert", "change", "ingest", "copy", "definition", "session", "other"];
const OUTCOMES: [&str; 5] = ["done", "cancelled", "timeout", "refused", "failed"];

/// The kind of a statement, by how its text begins.
pub(crate) fn kind_of(text: &str) -> usize {
    let text = text.trim_start();
    let word = text.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    let is = |words: &[&str]| words.iter().any(|other| word.eq_ignore_ascii_case(other));
    let name = match () {
        () if text.starts_with('(') || is(&["select", "with", "values", "table", "explain", "fetch"]) => "query",
        () if is(&["insert"]) => "insert",
        () if is(&["update", "delete", "truncate", "merge"]) => "change",
        () if is(&["append", "ingest"]) => "ingest",
        () if is(&["copy"]) => "copy",
        () if is(&["create", "drop", "alter"]) => "definition",
        () if is(&["set", "show", "reset", "begin", "start", "commit", "end", "rollback", "abort", "discard"]) => {
            "session"
        }
        () => "other",
    };
    KINDS.iter().position(|known| *known == name).unwrap_or(KINDS.len() - 1)
}

/// How a statement ended, in a word.
pub(crate) fn outcome(result: Result<(), &Error>) -> &'static str {
    OUTCOMES[outcome_of(result)]
}

fn outcome_of(result: Result<(), &Error>) -> usize {
    match result.map_err(Error::kind) {
        Ok(()) => 0,
        Err(ErrorKind::Cancelled) => 1,
        Err(ErrorKind::Timeout) => 2,
        Err(
            ErrorKind::OutOfMemory
            | ErrorKind::DiskFull
            | ErrorKind::Io
            | ErrorKind::Corrupt
            | ErrorKind::Poisoned
            | ErrorKind::Internal,
        ) => 4,
        Err(_) => 3,
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct OfKind {
    outcomes: [u64; OUTCOMES.len()],
    latency: [u64; BUCKETS],
    time: Duration,
}

/// Counters of statements.
#[derive(Debug, Default)]
pub(crate) struct Statements {
    kinds: [Mutex<OfKind>; KINDS.len()],
}

impl Statements {
    /// Counts one that has ended.
    pub(crate) fn ended(&self, kind: usize, duration: Duration, result: Result<(), &Error>) {
        let seconds = duration.as_secs_f64();
        let bucket = LATENCY_SECONDS.iter().position(|bound| seconds <= *bound).unwrap_or(BUCKETS - 1);
        let mut counted = self.kinds[kind].lock();
        counted.outcomes[outcome_of(result)] += 1;
        counted.latency[bucket] += 1;
        counted.time += duration;
    }

    pub(crate) fn figures(&self) -> Vec<StatementFigures> {
        let figures = |(kind, counted): (&&'static str, &Mutex<OfKind>)| {
            let counted = *counted.lock();
            StatementFigures {
                kind,
                outcomes: OUTCOMES.iter().copied().zip(counted.outcomes).collect(),
                latency: counted.latency.to_vec(),
                seconds: counted.time.as_secs_f64(),
            }
        };
        KINDS.iter().zip(&self.kinds).map(figures).collect()
    }
}

/// Statements of one kind.
#[derive(Clone, PartialEq, Debug)]
pub struct StatementFigures {
    /// `query`, `insert`, ...
    pub kind: &'static str,
    /// How many ended how.
    pub outcomes: Vec<(&'static str, u64)>,
    /// How many took so long: one more than [`LATENCY_SECONDS`] has bounds.
    pub latency: Vec<u64>,
    /// What all took together.
    pub seconds: f64,
}

/// One stage of one table.
#[derive(Clone, PartialEq, Debug)]
pub struct StageFigures {
    /// The table.
    pub table: String,
    /// The stage.
    pub stage: Stage,
    /// The version through which it is complete.
    pub watermark: Version,
    /// How long ago the first batch that it lacks became visible.
    pub lag: Duration,
    /// Rows that live in it.
    pub rows: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Segments, or runs of the tail.
    pub parts: u64,
}

/// How a database stands.
#[derive(Clone, PartialEq, Debug)]
pub struct Figures {
    /// Statements since the start, by kind.
    pub statements: Vec<StatementFigures>,
    /// Open sessions by protocol.
    pub sessions: Vec<(&'static str, u64)>,
    /// The newest visible version.
    pub visible: Version,
    /// Batches that became visible since the start.
    pub batches: u64,
    /// Their rows.
    pub rows: u64,
    /// Their bytes, in the log and in staged segments.
    pub bytes: u64,
    /// Groups of batches that the log has written; each was one fsync.
    pub log_syncs: u64,
    /// Bytes of the log on disk.
    pub log_bytes: u64,
    /// Bytes of the tail.
    pub tail_bytes: u64,
    /// Where writers start to wait.
    pub tail_bytes_max: u64,
    /// Writers that wait for room.
    pub writers_waiting: u64,
    /// Bytes in the cache of files.
    pub cache_bytes: u64,
    /// Bytes of the keys of tables.
    pub key_bytes: u64,
    /// Bytes of the notes of dead rows.
    pub kill_bytes: u64,
    /// Bytes that statements hold.
    pub query_bytes: u64,
    /// Bytes of resident cuboids.
    pub cuboid_bytes: u64,
    /// Why writes are refused, if they are.
    pub read_only: Option<String>,
    /// Why the last sort or merge failed, if it did.
    pub pipeline_error: Option<String>,
    /// Every table's stages.
    pub stages: Vec<StageFigures>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_counted_under_its_kind_its_outcome_and_its_time() {
        let statements = Statements::default();
        let refused = Error::new(ErrorKind::Syntax, "x");
        statements.ended(kind_of(" select 1"), Duration::from_micros(100), Ok(()));
        statements.ended(kind_of("(SELECT 1)"), Duration::from_secs(60), Err(&refused));
        statements.ended(kind_of("Frobnicate"), Duration::ZERO, Ok(()));
        let figures = statements.figures();
        assert_eq!(figures[0].outcomes, [("done", 1), ("cancelled", 0), ("timeout", 0), ("refused", 1), ("failed", 0)]);
        assert_eq!((figures[0].latency[0], figures[0].latency[14]), (1, 1));
        assert_eq!((figures[7].kind, figures[7].latency[0]), ("other", 1));
    }
}
