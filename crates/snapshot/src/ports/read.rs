//! The port of readers: definitions, snapshots, versions and time.
//!
//! Invariants:
//! - What this port tells is visible, and so durable: nothing above the newest visible version is ever shown.
//! - No call waits for a sort or a merge to be done. [`Read::wait_visible`] waits for an fsync, and [`Read::find_keys`] may
//!   wait for at most a second while the manifest is replaced.

use crate::killed::Killed;
use crate::lookup::SnapshotRow;
use crate::snapshot::{Newer, Snapshot, TableRead, TailRead};
use crate::views::{HeapLoad, HeapSnapshot};
use alluvia_catalog::Catalog;
use alluvia_space::key_code::{KeyCode, KeyCoder};
use alluvia_types::{Clock, Error, Freshness, Result, TableId, Version};
use arrow::array::RecordBatch;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

/// What a statement needs of its snapshot.
#[derive(Clone, Debug)]
pub struct Want {
    /// The freshness asked for.
    pub freshness: Freshness,
    /// The answer must include this version: the session's own writes and what it has already read.
    pub at_least: Version,
    /// Exactly this version: the snapshot of an open transaction. Overrides the two above.
    pub exactly: Option<Version>,
    /// The tables that the statement reads; the stage is chosen for these.
    pub tables: Vec<TableId>,
}

/// A part of a plan that is asked where rows lie.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AskedPart {
    /// The part.
    pub plan: Arc<[u8]>,
    /// Whether answers are small, as aggregates are: then all are asked for at once.
    pub is_small: bool,
    /// What may answer it.
    pub uses: Uses,
}

/// What beside the rows may answer a statement, by the settings of its session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Uses {
    /// The index, inside plans.
    pub index: bool,
    /// Cuboids that are resident.
    pub cuboids: bool,
    /// What is kept of predicates.
    pub predicates: bool,
}

/// Who takes answers.
pub type Each<'a> = &'a mut dyn FnMut(Vec<RecordBatch>) -> Result<()>;

/// The database as readers see it.
pub trait Read: Send + Sync + Debug {
    /// Whether calls wait for other machines: then they are made from threads that may block.
    fn is_remote(&self) -> bool {
        false
    }
    /// Where time comes from.
    fn clock(&self) -> &Arc<dyn Clock>;
    /// The newest visible definitions.
    fn catalog(&self) -> Arc<Catalog>;
    /// Returns once [`Read::catalog`] has what was defined anywhere before the call. In one process it always has.
    fn learn_definitions(&self) -> Result<()> {
        Ok(())
    }
    /// Pins a snapshot. Never waits for a sort or a merge.
    fn snapshot(&self, want: &Want) -> Result<Snapshot>;
    /// The least version that an answer of this freshness may be of; it is visible.
    fn required(&self, freshness: Freshness, at_least: Version) -> Version;
    /// How long ago the first batch above a version became visible; zero when there is none.
    fn lag(&self, version: Version) -> Duration;
    /// What came to a table above version `above`, which whoever asks has pinned, if all of that is still in the tail: its
    /// rows above `from`, and what was killed. For whoever follows the log; it costs what is new, where a snapshot costs
    /// what there is.
    fn newer(&self, table: TableId, above: Version, from: Version) -> Option<Newer>;
    /// The rows of a table that were killed above version `above`, which whoever asks has pinned, and through another that
    /// is visible, wherever they are now. `None` if that cannot be told: the table is gone.
    fn killed(&self, table: TableId, above: Version, through: Version) -> Option<Killed>;
    /// Where the rows with these keys are in a table of a snapshot of this version, `None` where it has none. Codes are the
    /// coder's of [`TableRead::entry`]'s definition. Right at every version; fast where little was written since. It may
    /// wait for writers of the table, and the first look-up may read the keys of all rows (`Views::find_keys`).
    fn find_keys(
        &self,
        _version: Version,
        read: &TableRead,
        coder: &KeyCoder,
        codes: &[KeyCode],
    ) -> Result<Vec<Option<SnapshotRow>>> {
        read.find_by_scan(coder, codes)
    }
    /// The same, if nothing is waited for and no file is read; `None` otherwise.
    fn find_keys_now(
        &self,
        _version: Version,
        _read: &TableRead,
        _coder: &KeyCoder,
        _codes: &[KeyCode],
    ) -> Result<Option<Vec<Option<SnapshotRow>>>> {
        Ok(None)
    }
    /// The newest version above this one that wrote any of these keys of a table, whether or not it is visible yet; of a version from
    /// which on that is not known any more, one that may have. For whoever has locked the rows: from then on nobody else writes them.
    fn last_written(&self, _table: TableId, _codes: &[KeyCode], _above: Version) -> Option<Version> {
        None
    }
    /// The same, without waiting for anything; `None` where something would be waited for.
    fn last_written_now(&self, _table: TableId, _codes: &[KeyCode], _above: Version) -> Option<Option<Version>> {
        None
    }
    /// The rows of these tables in memory, at a version that whoever asks has pinned, or at the newest; `None` where one of them has no heap
    /// that can be read.
    fn rows_in_memory(&self, _tables: &[TableId], _exactly: Option<Version>) -> Option<HeapSnapshot> {
        None
    }
    /// Begins a heap of a table, which whoever asks is to load, on a thread that may block; `None` where there is one, or none is made.
    fn begin_heap(&self, _table: TableId) -> Option<HeapLoad> {
        None
    }
    /// As [`Read::snapshot`], of tables whose rows may be asked for later, where they lie: of these [`TableRead::is_elsewhere`] holds, and no
    /// rows are there.
    fn snapshot_later(&self, want: &Want) -> Result<Snapshot> {
        self.snapshot(want)
    }
    /// The rows of such a table at the version of its snapshot, as tails have them, in the order of their identities.
    fn gathered(&self, _table: TableId, _version: Version) -> Result<Vec<TailRead>> {
        Err(Error::internal("rows that are here were to be gathered"))
    }
    /// What the parts of such a table answer to a part of a plan at that version. `each` is given the answer of one after the other, and ends
    /// it by an error. How a part of a plan is written is known to whoever answers.
    fn ask(&self, _table: TableId, _version: Version, _part: &AskedPart, _each: Each<'_>) -> Result<()> {
        Err(Error::internal("rows that are here were to be asked for elsewhere"))
    }
    /// Returns once `version` is visible.
    fn wait_visible(&self, version: Version) -> Result<()>;
}
