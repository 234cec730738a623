//! The snapshot of a statement: everything through one version, pinned.

use crate::killed::Killed;
use crate::pins::Pin;
use crate::tail::TailRun;
use alluvia_catalog::{Catalog, Dictionaries, TableEntry};
use alluvia_tree::SegmentRows;
use alluvia_types::{Stage, TableId, Version};
use arrow::record_batch::RecordBatch;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A gap-free prefix of the log, pinned: its files and tail runs live as long as this does.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Everything through this version, and nothing above it.
    pub version: Version,
    /// How long ago the first batch that this snapshot lacks became visible; zero when it lacks none.
    pub lag: Duration,
    /// The least organised stage that had to be read.
    pub stage: Stage,
    /// The definitions: always the newest visible, or the transaction's.
    pub catalog: Arc<Catalog>,
    /// The tables that were asked for.
    pub tables: BTreeMap<TableId, TableRead>,
    /// Keeps the version readable: as long as this lives, the version can be asked for again.
    pub pin: Arc<Pin>,
}

/// One table in a snapshot.
#[derive(Clone, Debug)]
pub struct TableRead {
    /// The definition to read by.
    pub entry: Arc<TableEntry>,
    /// Members of the table's levels; `None` before anything was sorted.
    pub dictionaries: Option<Arc<Dictionaries>>,
    /// Segments that hold rows of the snapshot. `through` is set where the segment also holds later rows.
    pub segments: Vec<SegmentRows>,
    /// Rows that are in no segment yet and not dead, in (version, ordinal) order.
    pub tail: Vec<TailRead>,
    /// Whether rows are missing in `tail` because they are dead.
    pub is_tail_cut: bool,
    /// The newest version of the snapshot at which a row of the table was killed, or a later one of it; 0 if none was since
    /// the database was opened, and none was dead then.
    pub killed_through: Version,
    /// Whether the rows lie at other machines, and none of them is here ([`Read::ask`](crate::Read::ask)).
    pub is_elsewhere: bool,
}

/// A run of tail rows, already cut to the snapshot.
#[derive(Clone, Debug)]
pub struct TailRead {
    /// Storage columns as of the rows' commit (columns added since are missing, dropped ones are still there), then
    /// `_version` and `_ordinal`.
    pub rows: RecordBatch,
    /// Held so that the memory is known to be held.
    run: Option<Arc<TailRun>>,
}

impl TailRead {
    /// Rows that no tail counts.
    pub fn new(rows: RecordBatch) -> TailRead {
        TailRead { rows, run: None }
    }

    /// The same run with some of its rows, in their order.
    pub fn with(&self, rows: RecordBatch) -> TailRead {
        TailRead { rows, run: self.run.clone() }
    }

    /// Whether the rows are of a table's tail: then they have versions and ordinals, in the order of these.
    pub(crate) fn is_of_tail(&self) -> bool {
        self.run.is_some()
    }

    pub(crate) fn of_run((rows, run): (RecordBatch, Arc<TailRun>)) -> TailRead {
        TailRead { rows, run: Some(run) }
    }
}

impl TableRead {
    /// Of no rows.
    pub fn empty(entry: Arc<TableEntry>) -> TableRead {
        let killed_through = Version(0);
        let (segments, tail) = (Vec::new(), Vec::new());
        let (is_tail_cut, is_elsewhere) = (false, false);
        TableRead { entry, dictionaries: None, segments, tail, is_tail_cut, killed_through, is_elsewhere }
    }

    /// Rows before any filter, an upper bound where a segment must be cut by version, or has dead rows.
    pub fn rows_at_most(&self) -> u64 {
        let segments: u64 = self.segments.iter().map(|read| read.segment.meta().rows).sum();
        segments + self.tail.iter().map(|run| run.rows.num_rows() as u64).sum::<u64>()
    }
}

/// What came to a table since a version.
#[derive(Clone, Debug)]
pub struct Newer {
    /// Everything through this version.
    pub through: Version,
    /// Rows of this version and before have left the tail.
    pub floor: Version,
    /// The definition to read by.
    pub entry: Arc<TableEntry>,
    /// The rows, in (version, ordinal) order, those among them that are dead, too.
    pub tail: Vec<TailRead>,
    /// The rows that were killed since.
    pub killed: Killed,
    /// The newest version at which a row of the table was killed, as of [`TableRead::killed_through`].
    pub killed_through: Version,
    /// Keeps `through` readable, for who follows from there on.
    pub pin: Arc<Pin>,
}
