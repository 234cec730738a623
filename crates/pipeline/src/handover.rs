//! Hand-over: what names rows by their places follows the rows into the segments that a sort or a merge has written.
//!
//! Whatever changes the places of rows goes through here: kills of rows that stay, the files that tell of them, and the
//! key index. Other systems have had their faults at this place (deletions against compactions); so it is one, and small:
//!
//! 1. A sort or a merge begins with a cut: segments, rows of the tail, and the kills as of then.
//! 2. It writes new segments and notes of each row where it came from ([`Moves`]); rows that are dead for everybody are
//!    left out.
//! 3. [`Pipeline::edit`] takes the locks of the tables. From here on no row of theirs is killed. The kills that came
//!    since the cut are in the views, by the places of before: they are translated with the others.
//! 4. The kills through the manifest's version go into a file, which is synced before the manifest names it.
//! 5. Readers, kills and the key index are switched in one step ([`alluvia_snapshot::Views::install`]).
//!
//! Of tables in which rows are neither named by key nor dead nothing is noted. Where a row of such a table was killed
//! between 1 and 3, everything is done again, with notes ([`Edited::Again`]).
//!
//! Invariants:
//! - K3, K6: a row of the inputs has one new place, or was dead and is counted; its kill goes where it goes.
//! - A crash before the manifest is replaced leaves files that nothing names; after it, kills above the manifest's version
//!   come from the log, which knows no places.

use alluvia_keys::RowPlace;
use alluvia_snapshot::{Moves, TableKills, TailDead};
use alluvia_space::key_code::KeyCoder;
use alluvia_space::{ORDINAL_COLUMN, TableDef, VERSION_COLUMN};
use alluvia_tree::RowChunk;
use alluvia_types::{Error, Result, SegmentId, TableId, Version};
use arrow::array::{AsArray, BooleanArray, BooleanBufferBuilder, RecordBatch, UInt64Array};
use arrow::compute::filter_record_batch;
use arrow::datatypes::UInt64Type;

/// What became of an edit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Edited {
    /// The manifest names it, and readers see it.
    Done,
    /// Rows whose moves were not noted are dead, or rows are to be sorted first: nothing was done, and it is to be done again with all moves
    /// noted, or after a sort.
    Again,
}

/// Which rows have moved.
#[derive(Debug, Default)]
pub(crate) struct Handover {
    /// Of tables whose rows are named by places.
    pub(crate) moves: Vec<Moves>,
    /// Inputs whose moves were not noted: no row of them may be dead.
    pub(crate) unnoted: Vec<Unnoted>,
    /// A table that loses rows: none may be in the log alone that was passed over for one of them.
    pub(crate) loses: Option<TableId>,
}

/// Rows whose moves were not noted.
#[derive(Debug)]
pub(crate) struct Unnoted {
    pub(crate) table: TableId,
    pub(crate) segments: Vec<SegmentId>,
    /// Rows of the tail of versions through this one; 0 for none.
    pub(crate) tail_through: Version,
}

impl Handover {
    /// All tables whose rows have moved, in the order of their ids.
    pub(crate) fn tables(&self) -> Vec<TableId> {
        let noted = self.moves.iter().map(|moves| moves.table);
        let unnoted = self.unnoted.iter().map(|unnoted| unnoted.table);
        let mut tables: Vec<TableId> = noted.chain(unnoted).chain(self.loses).collect();
        tables.sort_unstable();
        tables.dedup();
        tables
    }

    /// Rows that were left out of a table.
    pub(crate) fn gone(&self, table: TableId) -> u64 {
        self.moves.iter().filter(|moves| moves.table == table).map(Moves::gone).sum()
    }
}

impl Unnoted {
    /// Whether one of the rows is dead.
    pub(crate) fn has_dead(&self, kills: &TableKills) -> bool {
        let in_tail = || kills.tail().keys().next().is_some_and(|(version, _)| *version <= self.tail_through);
        in_tail() || self.segments.iter().any(|segment| kills.of(*segment).is_some())
    }
}

/// Whether the moves of a table's rows must be noted.
pub(crate) fn is_noted(def: &TableDef, kills: Option<&TableKills>) -> bool {
    def.key.is_some() || kills.is_some_and(|kills| !kills.is_empty())
}

/// Rows of the tail without those that came and were killed through `through`, with nobody to ask for a version in
/// between; and how many these were. `askable` ascends.
///
/// The first row stays if any does: the merged stage of the table ends right before the oldest row that is not merged, and
/// must not come to end at a version in which a row that was left out is alive.
pub(crate) fn without_dead(
    rows: Vec<RecordBatch>,
    dead: &TailDead,
    askable: &[Version],
    through: Version,
) -> Result<(Vec<RecordBatch>, u64)> {
    if dead.is_empty() {
        return Ok((rows, 0));
    }
    let mut masks = Vec::with_capacity(rows.len());
    for batch in &rows {
        let (versions, ordinals) = hidden(batch)?;
        let mut kept = BooleanBufferBuilder::new(batch.num_rows());
        for row in 0..batch.num_rows() {
            let came = Version(versions.value(row));
            let killed = dead.get(&(came, ordinals.value(row))).filter(|killed| **killed <= through);
            let is_kept = killed.is_none_or(|killed| {
                let next = askable.partition_point(|asked| *asked < came);
                askable.get(next).is_some_and(|asked| asked < killed)
            });
            kept.append(is_kept);
        }
        masks.push(kept);
    }
    if masks.iter().any(|kept| kept.as_slice().iter().any(|byte| *byte > 0))
        && let Some(first) = masks.iter_mut().find(|kept| !kept.is_empty())
    {
        first.set_bit(0, true);
    }
    let mut gone = 0;
    let mut left = Vec::with_capacity(rows.len());
    for (batch, mut kept) in rows.into_iter().zip(masks) {
        let kept = BooleanArray::new(kept.finish(), None);
        let count = kept.true_count();
        gone += (batch.num_rows() - count) as u64;
        match count {
            0 => {}
            all if all == batch.num_rows() => left.push(batch),
            _ => left.push(filter_record_batch(&batch, &kept).map_err(crate::chunk::internal)?),
        }
    }
    Ok((left, gone))
}

/// The rows of a segment that was written, as they were in the tail.
#[derive(Debug)]
pub(crate) struct Noted {
    pub(crate) segment: SegmentId,
    pub(crate) from: Vec<RowPlace>,
    pub(crate) codes: Vec<u128>,
}

impl Noted {
    /// Of rows of the tail, in the order in which they are written.
    pub(crate) fn of_tail(segment: SegmentId, def: &TableDef, chunk: &RowChunk) -> Result<Noted> {
        let (versions, ordinals) = hidden(&chunk.rows)?;
        let identities = versions.values().iter().zip(ordinals.values());
        let from =
            identities.map(|(&version, &ordinal)| RowPlace::Tail { version: Version(version), ordinal }).collect();
        Ok(Noted { segment, from, codes: codes_of(def, chunk)? })
    }
}

/// The codes of the keys of rows; none in a table without a key.
pub(crate) fn codes_of(def: &TableDef, chunk: &RowChunk) -> Result<Vec<u128>> {
    match KeyCoder::new(def) {
        Some(coder) => coder.codes(&chunk.whole()?),
        None => Ok(Vec::new()),
    }
}

fn hidden(rows: &RecordBatch) -> Result<(&UInt64Array, &UInt64Array)> {
    let column = |name: &str| {
        let column = rows.column_by_name(name).and_then(|column| column.as_primitive_opt::<UInt64Type>());
        column.ok_or_else(|| Error::internal(format!("rows of a sort lack {name}")))
    };
    Ok((column(VERSION_COLUMN)?, column(ORDINAL_COLUMN)?))
}
