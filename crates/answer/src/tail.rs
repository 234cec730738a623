//! The tail with its codes, kept between statements.
//!
//! Invariants:
//! - A row gets its codes once, by the statement that meets it first: LazyBase's ID remapping, ahead of the sort, which
//!   finds the members in the dictionaries then.
//! - Chunks are of consecutive versions, without a gap, and have all rows of these, those that died since, too; what a snapshot reads of
//!   them follows from versions alone. A snapshot whose tail lacks dead rows neither reads chunks nor adds to them: its rows get their
//!   codes for it alone.
//! - Who follows the log gets what came, and what was killed of what he has. He makes chunks where there are none, of the
//!   whole tail, since statements need those as well.
//! - Small neighbours are joined as long as the first is not more than twice the next: so a statement meets few chunks however small the
//!   batches were, and a row is copied a few times at most until it is one of [`JOINED_ROWS`].

use alluvia_catalog::{Dictionaries, TableEntry};
use alluvia_snapshot::{Killed, Newer, Pin, Read, TableRead};
use alluvia_space::{Dimension, LevelCodes, LevelSource, VERSION_COLUMN};
use alluvia_types::{Error, Result, TableId, Version};
use arrow::array::{Array, AsArray, RecordBatch, UInt64Array};
use arrow::compute::concat_batches;
use arrow::datatypes::UInt64Type;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// Chunks are not joined to more rows than this.
const JOINED_ROWS: usize = 8_192;

/// Rows of the tail with their codes.
#[derive(Debug)]
pub(crate) struct CodedRows {
    /// The measures and the times of calendars, as in the tail.
    pub(crate) rows: RecordBatch,
    versions: UInt64Array,
    /// At every level of dimensions whose codes need no learnt range; the other levels have none.
    pub(crate) codes: LevelCodes,
}

/// Some of the rows of a chunk.
pub(crate) type TailRows = (Arc<CodedRows>, Range<usize>);

/// What came to a table since a version, and what went.
#[derive(Debug)]
pub(crate) struct Came {
    /// Everything through this version.
    pub(crate) through: Version,
    /// Rows that came, but for those that are dead again.
    pub(crate) rows: Vec<TailRows>,
    /// Rows that were there and were killed.
    pub(crate) killed: Killed,
    /// Keeps `through` readable.
    pub(crate) pin: Arc<Pin>,
}

/// What tables' tails look like in codes.
#[derive(Debug, Default)]
pub(crate) struct CodedTails {
    tables: Mutex<HashMap<TableId, Arc<Mutex<CodedTail>>>>,
}

impl CodedRows {
    /// The rows' versions, which ascend.
    pub(crate) fn versions(&self) -> &[u64] {
        self.versions.values()
    }

    fn len(&self) -> usize {
        self.versions.len()
    }

    /// These rows and those of the next chunk as one; `None` if they are better left apart.
    fn joined(&self, next: &CodedRows) -> Option<CodedRows> {
        let is_small = self.len() <= 2 * next.len() && self.len() + next.len() <= JOINED_ROWS;
        if !is_small || self.rows.schema_ref() != next.rows.schema_ref() {
            return None;
        }
        let rows = concat_batches(self.rows.schema_ref(), [&self.rows, &next.rows]).ok()?;
        let versions = self.versions().iter().chain(next.versions()).copied();
        let level = |(own, next): (&Vec<u32>, &Vec<u32>)| own.iter().chain(next).copied().collect();
        let levels = self.codes.levels.iter().zip(&next.codes.levels).map(level).collect();
        Some(CodedRows { rows, versions: UInt64Array::from_iter_values(versions), codes: LevelCodes { levels } })
    }
}

#[derive(Debug)]
struct CodedTail {
    changed_at: Version,
    chunks: VecDeque<Arc<CodedRows>>,
    /// Rows through this version are in the chunks, from the first chunk's first row on.
    through: Version,
}

impl CodedTail {
    /// Adds the rows that came next.
    fn push(&mut self, chunk: Arc<CodedRows>) {
        let mut chunk = chunk;
        // What comes next would else be taken for new once more, if its neighbour cannot be coded.
        self.through = self.through.max(Version(chunk.versions().last().copied().unwrap_or(0)));
        while let Some(before) = self.chunks.back()
            && let Some(joined) = before.joined(&chunk)
        {
            self.chunks.pop_back();
            chunk = Arc::new(joined);
        }
        self.chunks.push_back(chunk);
    }
}

/// Whether codes of a dimension's levels can be had from the definition alone.
pub(crate) fn has_codes(dimension: &Dimension) -> bool {
    !dimension.levels.iter().any(|level| matches!(level.source, LevelSource::Halved { .. }))
}

impl CodedTails {
    /// The tail rows of a table in a snapshot at `version`, with their codes: pieces of chunks.
    pub(crate) fn read(
        &self,
        read: &TableRead,
        dictionaries: &Dictionaries,
        version: Version,
    ) -> Result<Vec<TailRows>> {
        let entry = &read.entry;
        let runs = read.tail.iter().map(|run| &run.rows);
        let tail: Vec<&RecordBatch> = runs.filter(|rows| rows.num_rows() > 0).collect();
        let Some(first) = tail.first() else { return Ok(Vec::new()) };
        let anew = || {
            let code = |rows: &&RecordBatch| code(entry, dictionaries, rows).map(|chunk| (chunk, 0..rows.num_rows()));
            tail.iter().map(code).collect()
        };
        if read.is_tail_cut {
            return anew();
        }
        let oldest = Version(versions(first)?[0]);
        let coded = {
            let mut tables = self.tables.lock();
            let empty =
                || CodedTail { changed_at: entry.changed_at, chunks: VecDeque::new(), through: Version(oldest.0 - 1) };
            Arc::clone(tables.entry(entry.def.id).or_insert_with(|| Arc::new(Mutex::new(empty()))))
        };
        let mut coded = coded.lock();
        if coded.changed_at != entry.changed_at || coded.chunks.is_empty() || oldest > coded.through.next() {
            // Nothing to build upon: what lies between may have left the tail without its codes, and an older snapshot has it.
            coded.changed_at = entry.changed_at;
            coded.chunks.clear();
            coded.through = Version(oldest.0 - 1);
        }
        let known = coded.chunks.front().map(|chunk| chunk.versions()[0]);
        if known.is_some_and(|known| known > oldest.0) {
            // An old snapshot, whose rows have left the chunks.
            return anew();
        }
        // Runs ascend, and all but the last few have their codes.
        let mut fresh_runs = tail.len();
        while fresh_runs > 0 && versions(tail[fresh_runs - 1])?.last().is_some_and(|&last| last > coded.through.0) {
            fresh_runs -= 1;
        }
        for rows in &tail[fresh_runs..] {
            let fresh = versions(rows)?.partition_point(|&version| version <= coded.through.0);
            coded.push(code(entry, dictionaries, &rows.slice(fresh, rows.num_rows() - fresh))?);
        }
        coded.through = coded.through.max(version);
        let mut pieces = Vec::with_capacity(coded.chunks.len());
        let mut gone = 0;
        for (at, chunk) in coded.chunks.iter().enumerate() {
            let versions = chunk.versions();
            let start = versions.partition_point(|&other| other < oldest.0);
            let end = versions.partition_point(|&other| other <= version.0);
            if start == versions.len() {
                gone = at + 1;
            } else if start < end {
                pieces.push((Arc::clone(chunk), start..end));
            }
        }
        coded.chunks.drain(..gone);
        Ok(pieces)
    }
}

impl CodedTails {
    /// What came to a table above version `above`, which is pinned, with its codes. `None` where only a snapshot can tell: rows
    /// have left the tail meanwhile, or the table was changed; and where more than `fresh_rows_max` rows had to get their codes.
    pub(crate) fn newer(
        &self,
        store: &dyn Read,
        entry: &TableEntry,
        dictionaries: &Dictionaries,
        above: Version,
        fresh_rows_max: usize,
    ) -> Result<Option<Came>> {
        let newer = |from: Version| {
            let newer = store.newer(entry.def.id, above, from);
            newer.filter(|newer| newer.entry.changed_at == entry.changed_at)
        };
        let coded = {
            let mut tables = self.tables.lock();
            let empty = || CodedTail { changed_at: entry.changed_at, chunks: VecDeque::new(), through: Version(0) };
            Arc::clone(tables.entry(entry.def.id).or_insert_with(|| Arc::new(Mutex::new(empty()))))
        };
        let mut coded = coded.lock();
        let covered = match coded.chunks.front() {
            None => coded.through,
            Some(chunk) => Version(chunk.versions()[0] - 1),
        };
        let is_kept = coded.changed_at == entry.changed_at && above >= covered;
        let Some(Newer { through, floor, tail, killed, pin, .. }) =
            newer(if is_kept { coded.through } else { Version(0) })
        else {
            return Ok(None);
        };
        let fresh = || tail.iter().map(|run| &run.rows).filter(|rows| rows.num_rows() > 0);
        if fresh().map(RecordBatch::num_rows).sum::<usize>() > fresh_rows_max {
            return Ok(None);
        }
        if !is_kept || floor > coded.through {
            coded.changed_at = entry.changed_at;
            coded.chunks.clear();
            coded.through = floor;
        }
        for rows in fresh() {
            coded.push(code(entry, dictionaries, rows)?);
        }
        coded.through = coded.through.max(through);
        while let Some(chunk) = coded.chunks.front()
            && chunk.versions().last().is_some_and(|last| *last <= floor.0)
        {
            coded.chunks.pop_front();
        }
        let mut pieces = Vec::new();
        for chunk in coded.chunks.iter().rev() {
            let versions = chunk.versions();
            let start = versions.partition_point(|&version| version <= above.0);
            if start < versions.len() {
                pieces.push((Arc::clone(chunk), start..versions.len()));
            }
            if start > 0 {
                break;
            }
        }
        pieces.reverse();
        Ok(without(pieces, &killed.brief).map(|rows| Came { through, rows, killed, pin }))
    }

    /// Drops what is kept of a table's tail.
    pub(crate) fn forget(&self, table: TableId) {
        self.tables.lock().remove(&table);
    }

    /// Tables of which something is kept.
    pub(crate) fn tables(&self) -> Vec<TableId> {
        self.tables.lock().keys().copied().collect()
    }

    /// Drops what is kept of tables that are gone.
    pub(crate) fn retain(&self, exists: impl Fn(TableId) -> bool) {
        self.tables.lock().retain(|&table, _| exists(table));
    }
}

/// Pieces without some of their rows, which are given by version and ordinal, ascending. `None` if one is not among them.
fn without(pieces: Vec<TailRows>, rows: &[(Version, u64)]) -> Option<Vec<TailRows>> {
    if rows.is_empty() {
        return Some(pieces);
    }
    let (mut left, mut rows) = (Vec::with_capacity(pieces.len() + rows.len()), rows.iter().peekable());
    for (chunk, Range { mut start, end }) in pieces {
        let versions = chunk.versions();
        while let Some(&&(version, ordinal)) = rows.peek()
            && versions[end - 1] >= version.0
        {
            // Chunks have whole batches.
            let place = versions.partition_point(|&other| other < version.0) + ordinal as usize;
            if !(start..end).contains(&place) || versions[place] != version.0 {
                return None;
            }
            if start < place {
                left.push((Arc::clone(&chunk), start..place));
            }
            start = place + 1;
            rows.next();
        }
        if start < end {
            left.push((chunk, start..end));
        }
    }
    rows.next().is_none().then_some(left)
}

fn versions(rows: &RecordBatch) -> Result<&[u64]> {
    version_column(rows).map(|versions| versions.values().as_ref())
}

/// The versions of rows of the tail, which stand before the ordinals at the end.
fn version_column(rows: &RecordBatch) -> Result<&UInt64Array> {
    let at = rows.num_columns().checked_sub(2).filter(|&at| rows.schema_ref().field(at).name() == VERSION_COLUMN);
    let versions = at.and_then(|at| rows.column(at).as_primitive_opt::<UInt64Type>());
    let versions = versions.filter(|versions| versions.null_count() == 0);
    versions.ok_or_else(|| Error::internal("tail rows have no versions"))
}

/// Rows of the tail with their codes.
pub(crate) fn code(entry: &TableEntry, dictionaries: &Dictionaries, rows: &RecordBatch) -> Result<Arc<CodedRows>> {
    let codes = dictionaries.remap_dimensions(&entry.def, rows, has_codes)?;
    let timed = entry.def.levels().filter_map(|(_, _, level)| match level.source {
        LevelSource::Calendar(column, _) | LevelSource::Local(column, _) => Some(column),
        _ => None,
    });
    let kept: Vec<_> = entry.def.measures.iter().copied().chain(timed).collect();
    let is_kept = |name: &str| {
        let mut columns = kept.iter().filter_map(|id| entry.def.column_by_id(*id));
        columns.any(|column| column.storage_name == name)
    };
    let fields = rows.schema_ref().fields().iter().enumerate();
    let places: Vec<usize> = fields.filter(|(_, field)| is_kept(field.name())).map(|(at, _)| at).collect();
    let failed = |error| Error::internal(format!("rows of the tail lack columns: {error}"));
    let rows_kept = rows.project(&places).map_err(failed)?;
    Ok(Arc::new(CodedRows { rows: rows_kept, versions: version_column(rows)?.clone(), codes }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_fixture::{Fixture, table, texts};
    use alluvia_space::DataType;
    use alluvia_types::ColumnId;
    use arrow::array::{ArrayRef, Int64Array};
    use arrow::datatypes::Int64Type;
    use proptest::prelude::*;

    /// A batch of one version whose rows are numbered from `first`, of one level that has codes and one that has none.
    fn chunk(version: u64, first: u64, rows: u64) -> Arc<CodedRows> {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((first..first + rows).map(|row| row as i64)));
        Arc::new(CodedRows {
            rows: RecordBatch::try_from_iter([("m", numbers)]).expect("one column"),
            versions: UInt64Array::from_value(version, rows as usize),
            codes: LevelCodes { levels: vec![(first..first + rows).map(|row| row as u32).collect(), Vec::new()] },
        })
    }

    proptest! {
        #[test]
        fn joined_chunks_are_the_batches_one_after_the_other(
            sizes in prop::collection::vec(prop_oneof![9 => 1u64..20, 1 => 3_000u64..9_000], 1..300),
        ) {
            let mut tail = CodedTail { changed_at: Version(1), chunks: VecDeque::new(), through: Version(0) };
            let (mut rows, mut model) = (0, Vec::new());
            for (version, &size) in (1..).zip(&sizes) {
                tail.push(chunk(version, rows, size));
                rows += size;
                model.extend(std::iter::repeat_n(version, size as usize));
                prop_assert_eq!(tail.through, Version(version));
            }
            let mut row = 0;
            for chunk in &tail.chunks {
                prop_assert!(chunk.len() <= 9_000);
                let measures = chunk.rows.column(0).as_primitive::<Int64Type>();
                prop_assert_eq!((measures.len(), chunk.codes.levels[0].len()), (chunk.len(), chunk.len()));
                prop_assert!(chunk.codes.levels[1].is_empty());
                for (at, &version) in chunk.versions().iter().enumerate() {
                    prop_assert_eq!(version, model[row]);
                    prop_assert_eq!((measures.value(at), chunk.codes.levels[0][at]), (row as i64, row as u32));
                    row += 1;
                }
            }
            prop_assert_eq!(row as u64, rows);
            let few = 14 * (2 + rows as usize / 3_000);
            prop_assert!(tail.chunks.len() <= few, "{} chunks of {} batches", tail.chunks.len(), sizes.len());
        }
    }

    proptest! {
        #[test]
        fn rows_that_are_dead_again_are_left_out_of_pieces(
            sizes in prop::collection::vec(1u64..9, 1..12),
            share in 1u64..12,
            seed: u64,
            first in 0u64..14,
        ) {
            let mut tail = CodedTail { changed_at: Version(1), chunks: VecDeque::new(), through: Version(0) };
            let (mut rows, mut dead, mut model) = (0, Vec::new(), Vec::new());
            for (version, &size) in (1..).zip(&sizes) {
                tail.push(chunk(version, rows, size));
                for ordinal in 0..size {
                    let is_asked = version >= first;
                    let is_dead = seed.wrapping_mul(2 * rows + 1).wrapping_add(ordinal * 7) >> 13 & 15 < share;
                    if is_asked && is_dead {
                        dead.push((Version(version), ordinal));
                    } else if is_asked {
                        model.push((rows + ordinal) as i64);
                    }
                }
                rows += size;
            }
            let piece = |chunk: &Arc<CodedRows>| {
                let start = chunk.versions().partition_point(|&version| version < first);
                (start < chunk.len()).then(|| (Arc::clone(chunk), start..chunk.len()))
            };
            let pieces: Vec<TailRows> = tail.chunks.iter().filter_map(piece).collect();
            let left = without(pieces.clone(), &dead).expect("they are there");
            prop_assert_eq!(measures(&left), model);
            dead.push((Version(sizes.len() as u64 + 1), 0));
            prop_assert!(without(pieces, &dead).is_none());
        }
    }

    /// Values of the measure.
    fn measures(pieces: &[TailRows]) -> Vec<i64> {
        let of =
            |(chunk, rows): &TailRows| chunk.rows.column(0).as_primitive::<Int64Type>().values()[rows.clone()].to_vec();
        pieces.iter().flat_map(of).collect()
    }

    #[test]
    fn readers_of_all_versions_get_their_rows_and_only_whole_tails_are_kept() {
        let mut def = table("t", &[("m", DataType::Int64), ("country", DataType::Text)]);
        def.measures = vec![ColumnId(0)];
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10));
        let countries = texts((0..10).map(|row| Some(format!("country{row}"))).collect());
        let rows = RecordBatch::try_new(def.storage_schema(), vec![numbers, countries]).expect("two columns");
        let mut fixture = Fixture::new(def, "store(country)", &rows);
        fixture.add_tail(&rows);
        fixture.kill_in_tail(0, 3, Version(60));
        fixture.kill_in_tail(0, 4, Version(70));
        let mut read = |tails: &CodedTails, version: u64| {
            fixture.version = Version(version);
            let read = fixture.read();
            let dictionaries = read.dictionaries.as_ref().expect("dictionaries");
            measures(&tails.read(&read, dictionaries, fixture.version).expect("codes"))
        };
        let tails = CodedTails::default();
        assert_eq!(read(&tails, 65), [0, 1, 2, 4, 5, 6, 7, 8, 9]);
        assert!(tails.tables().is_empty(), "the next reader may need row 3");
        assert_eq!(read(&tails, 55), (0..10).collect::<Vec<_>>());
        assert_eq!(tails.tables(), [TableId(1)]);
        assert_eq!(read(&tails, 100), [0, 1, 2, 5, 6, 7, 8, 9]);
        assert_eq!(read(&tails, 56), (0..10).collect::<Vec<_>>());
    }
}
