//! Keys that are looked up in the key index of their table.
//!
//! The index is asked under the lock of the table, for all codes at once, and what it says is looked for in the snapshot
//! after the lock. What it says is of the newest sequenced version, and holds at the snapshot's where the key was not
//! written after that (`Recent`): what wrote a key at a visible version went through the index.
//!
//! Places are of the newest base, and the snapshot's is that one or an older one: who switches readers to a new base
//! holds the lock until the index has followed. So
//! - a row that the index has in the tail is in the tail of the snapshot, too, if it does not lack it for another reason;
//! - a row that it has in a segment which the snapshot lacks was moved since, and is looked for in the snapshot.

use super::SnapshotRow;
use crate::key_tables::KeyTable;
use crate::snapshot::TableRead;
use crate::views::Views;
use alluvia_keys::RowPlace;
use alluvia_space::key_code::{KeyCode, KeyCoder};
use alluvia_space::{ORDINAL_COLUMN, VERSION_COLUMN};
use alluvia_tree::BLOCK_ROWS;
use alluvia_types::{Result, SegmentId, TableId, Version, planted};
use arrow::array::{AsArray, RecordBatch, UInt64Array};
use arrow::datatypes::UInt64Type;
use std::collections::HashMap;
use std::time::Duration;

/// A table of so few rows is read sooner than its index is made. Those of simulations have few.
const ROWS_WITHOUT_INDEX_MAX: u64 = if cfg!(feature = "paranoid") { 20 } else { 2 * BLOCK_ROWS as u64 };
/// How long the lock of the keys is waited for before the snapshot itself is read. A simulation holds stages that have it.
const PATIENCE: Duration = Duration::from_millis(if cfg!(feature = "paranoid") { 1 } else { 1_000 });
/// For so few codes segments are gone through one by one.
const CODES_WITHOUT_MAP_MAX: usize = 8;

/// What is known of a key at a snapshot's version.
#[derive(Clone, Copy, Debug)]
enum Probed {
    /// It was written since, or may have been.
    Unknown,
    /// No row has it.
    Nowhere,
    /// This one has it.
    At(RowPlace),
}

impl Views {
    /// Where the rows with these keys are in a table of a snapshot of this version, `None` where it has none. Codes are the
    /// coder's of the definition that `read` has.
    ///
    /// It may wait for the lock of the table's keys, which who changes rows by key has, and a sort or a merge while it
    /// replaces the manifest; after a second of that the keys of all rows are read instead. The first look-up after the
    /// database was opened makes the index, if no write has yet: it reads the key columns of all rows, while writers of the
    /// table wait.
    ///
    /// # Errors
    /// `Corrupt` if a segment is damaged.
    pub fn find_keys(
        &self,
        version: Version,
        read: &TableRead,
        coder: &KeyCoder,
        codes: &[KeyCode],
    ) -> Result<Vec<Option<SnapshotRow>>> {
        if codes.is_empty() {
            return Ok(Vec::new());
        }
        let Some(probed) = self.probe(version, read, coder, codes, PATIENCE)? else {
            return read.find_in_blocks(coder, codes);
        };
        let (mut found, left) = looked_for(read, coder, codes, probed)?;
        if !left.is_empty() {
            let left_codes: Vec<KeyCode> = left.iter().map(|&at| codes[at]).collect();
            for (at, row) in left.into_iter().zip(read.find_in_blocks(coder, &left_codes)?) {
                found[at] = row;
            }
        }
        Ok(found)
    }

    /// The same where the index knows them all and nobody has its lock for long: no file is read for it.
    ///
    /// # Errors
    /// `Internal` if rows of the tail lack columns.
    pub fn find_keys_now(
        &self,
        version: Version,
        read: &TableRead,
        coder: &KeyCoder,
        codes: &[KeyCode],
    ) -> Result<Option<Vec<Option<SnapshotRow>>>> {
        let Some(probed) = self.probe(version, read, coder, codes, Duration::ZERO)? else { return Ok(None) };
        let (found, left) = looked_for(read, coder, codes, probed)?;
        Ok(left.is_empty().then_some(found))
    }

    /// The newest version above one that wrote any of these keys of a table, whether or not it is visible yet; where that is not
    /// known back to there, the version from which on it is. It may wait for the lock of the table's keys.
    ///
    /// The version must be pinned by whoever asks, and the rows be locked: so whoever has the table's lock after this sees that.
    pub fn last_written(&self, table: TableId, codes: &[KeyCode], above: Version) -> Option<Version> {
        let locks = self.keys().locks(&[table]);
        let mut guards = locks.lock();
        let (_, keys) = guards.first_mut()?;
        self.last_written_of(keys, codes, above)
    }

    /// The same where nobody has the lock; `None` where it would be waited for.
    pub fn last_written_now(&self, table: TableId, codes: &[KeyCode], above: Version) -> Option<Option<Version>> {
        let locks = self.keys().locks(&[table]);
        let mut guards = locks.lock_within(Duration::ZERO)?;
        let (_, keys) = guards.first_mut()?;
        Some(self.last_written_of(keys, codes, above))
    }

    fn last_written_of(&self, keys: &mut KeyTable, codes: &[KeyCode], above: Version) -> Option<Version> {
        let is_current = keys.of(self.keys().generation()).is_some();
        let visible = self.visible();
        // Without any, nobody has written a key since the database was opened.
        let recent = &keys.any()?.recent;
        if above < recent.floor() {
            return Some(recent.floor());
        }
        // What lies above the newest visible version in one that must be made anew was taken back.
        let counts = |version: &Version| *version > above && (is_current || *version <= visible);
        codes.iter().filter_map(|&code| recent.last_written(code)).filter(counts).max()
    }

    /// What the index says of keys; `None` if there is none, and none is worth making or there is no patience for it.
    fn probe(
        &self,
        version: Version,
        read: &TableRead,
        coder: &KeyCoder,
        codes: &[KeyCode],
        patience: Duration,
    ) -> Result<Option<Vec<Probed>>> {
        let table = read.entry.def.id;
        // Of a table that was dropped nobody has everything any more.
        let is_there = || self.catalog().by_id(table).is_some();
        if !is_there() {
            return Ok(None);
        }
        let locks = self.keys().locks(&[table]);
        let Some(mut guards) = locks.lock_within(patience) else { return Ok(None) };
        let Some((_, keys)) = guards.first_mut() else { return Ok(None) };
        // After the snapshot: a version that was given out anew since is not taken for the one before. And under the lock:
        // who had it before may have made the index anew, of a later generation than was then.
        let generation = self.keys().generation();
        if keys.of(generation).is_none() {
            if patience.is_zero() || version < self.keys().opened() || read.rows_at_most() <= ROWS_WITHOUT_INDEX_MAX {
                return Ok(None);
            }
            // As for a writer: nobody has a version for rows of this table that is not visible.
            let index = self.whole_table(table).key_index(coder);
            let index = index.map_err(|error| error.at(format_args!("table {}", read.entry.def.name)))?;
            if !is_there() {
                return Ok(None);
            }
            self.keys().set(keys, index, generation);
        }
        let Some(known) = keys.of(generation) else { return Ok(None) };
        let probe = |&code: &KeyCode| match known.recent.written_after(code, version) {
            Some(is_written) if !is_written || planted("index trusted above its version") => {
                known.index.get(code).map_or(Probed::Nowhere, Probed::At)
            }
            _ => Probed::Unknown,
        };
        Ok(Some(codes.iter().map(probe).collect()))
    }
}

/// Looks in a snapshot for the rows of which the index knows. Gives them, and the places among the codes of those that are to be looked for
/// in blocks.
fn looked_for(
    read: &TableRead,
    coder: &KeyCoder,
    codes: &[KeyCode],
    probed: Vec<Probed>,
) -> Result<(Vec<Option<SnapshotRow>>, Vec<usize>)> {
    let added = added_rows(read, coder)?;
    let segments = Segments::new(read, codes.len());
    let (mut found, mut left) = (vec![None; codes.len()], Vec::new());
    for (at, (code, probed)) in codes.iter().zip(probed).enumerate() {
        if let Some(row) = added.get(code) {
            found[at] = Some(*row);
            continue;
        }
        let decided = match probed {
            Probed::Unknown => None,
            Probed::Nowhere => Some(None),
            Probed::At(RowPlace::Tail { version, ordinal }) => Some(tail_row(read, version, ordinal)),
            Probed::At(RowPlace::Segment { segment, row }) => {
                let is_there = segments.place(segment).map(|segment| segment_row(read, segment, row));
                is_there.or(planted("moved row not found").then_some(None))
            }
        };
        match decided {
            Some(row) => found[at] = row,
            None => left.push(at),
        }
    }
    Ok((found, left))
}

/// The rows that somebody has added to the tail of a snapshot: those that its transaction has written.
fn added_rows(read: &TableRead, coder: &KeyCoder) -> Result<HashMap<KeyCode, SnapshotRow>> {
    let mut added = HashMap::new();
    for (run, rows) in read.tail.iter().enumerate().filter(|(_, rows)| !rows.is_of_tail()) {
        for (row, code) in (0..).zip(coder.codes(&rows.rows)?) {
            added.insert(code, SnapshotRow::Tail { run, row });
        }
    }
    Ok(added)
}

/// The places of segments in a snapshot.
enum Segments<'a> {
    Few(&'a TableRead),
    Many(HashMap<SegmentId, usize>),
}

impl Segments<'_> {
    fn new(read: &TableRead, codes: usize) -> Segments<'_> {
        if codes <= CODES_WITHOUT_MAP_MAX {
            return Segments::Few(read);
        }
        let places = read.segments.iter().enumerate().filter(|(_, rows)| rows.above.is_none());
        Segments::Many(places.map(|(at, rows)| (rows.segment.meta().id, at)).collect())
    }

    /// Where a segment is of which all rows through the snapshot's version count but the dead.
    fn place(&self, segment: SegmentId) -> Option<usize> {
        match self {
            Segments::Few(read) => {
                let is_it = |rows: &alluvia_tree::SegmentRows| rows.segment.meta().id == segment;
                read.segments.iter().position(|rows| is_it(rows) && rows.above.is_none())
            }
            Segments::Many(places) => places.get(&segment).copied(),
        }
    }
}

/// A row of a segment of a snapshot, unless it is dead there.
fn segment_row(read: &TableRead, segment: usize, row: u32) -> Option<SnapshotRow> {
    let dead = read.segments[segment].dead.as_ref().filter(|_| !planted("dead row found by key"));
    let is_alive = dead.is_none_or(|dead| !dead.contains(row.into()));
    is_alive.then_some(SnapshotRow::Segment { segment, row })
}

/// Where a row is in the tail that a snapshot has, by its identity. Runs of it, and rows of a run, ascend by that.
fn tail_row(read: &TableRead, version: Version, ordinal: u64) -> Option<SnapshotRow> {
    let wanted = (version.0, ordinal);
    let has_rows = |run: &usize| read.tail[*run].is_of_tail() && read.tail[*run].rows.num_rows() > 0;
    let runs: Vec<usize> = (0..read.tail.len()).filter(has_rows).collect();
    let before = |run: &usize| {
        let Some((versions, ordinals)) = identities(&read.tail[*run].rows) else { return true };
        let last = versions.len() - 1;
        (versions.value(last), ordinals.value(last)) < wanted
    };
    let run = *runs.get(runs.partition_point(before))?;
    let (versions, ordinals) = identities(&read.tail[run].rows)?;
    let (mut low, mut high) = (0, versions.len());
    while low < high {
        let middle = low.midpoint(high);
        match (versions.value(middle), ordinals.value(middle)).cmp(&wanted) {
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Equal => return Some(SnapshotRow::Tail { run, row: middle as u32 }),
            std::cmp::Ordering::Greater => high = middle,
        }
    }
    None
}

fn identities(rows: &RecordBatch) -> Option<(&UInt64Array, &UInt64Array)> {
    let column = |name| rows.column_by_name(name)?.as_primitive_opt::<UInt64Type>();
    Some((column(VERSION_COLUMN)?, column(ORDINAL_COLUMN)?))
}
