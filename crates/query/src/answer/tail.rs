//! The tail with its codes, kept between statements.
//!
//! Invariants:
//! - A row gets its codes once, by the statement that meets it first: LazyBase's ID remapping, ahead of the sort, which
//!   finds the members in the dictionaries then.
//! - Chunks are of consecutive versions, without a gap; what a snapshot reads of them follows from versions alone.

use alluvia_catalog::{Dictionaries, TableEntry};
use alluvia_snapshot::{Newer, Store, TailRead};
use alluvia_space::{Dimension, LevelCodes, LevelSource, VERSION_COLUMN};
use alluvia_types::{Error, Result, TableId, Version};
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// Rows of the tail with their codes.
#[derive(Debug)]
pub(crate) struct CodedRows {
    /// As in the tail.
    pub(crate) rows: RecordBatch,
    /// At every level of dimensions whose codes need no learnt range; the other levels have none.
    pub(crate) codes: LevelCodes,
}

/// Some of the rows of a chunk.
pub(crate) type TailRows = (Arc<CodedRows>, Range<usize>);

/// What tables' tails look like in codes.
#[derive(Debug, Default)]
pub(crate) struct CodedTails {
    tables: Mutex<HashMap<TableId, Arc<Mutex<CodedTail>>>>,
}

#[derive(Debug)]
struct CodedTail {
    changed_at: Version,
    chunks: VecDeque<Arc<CodedRows>>,
    /// Rows through this version are in the chunks, from the first chunk's first row on.
    through: Version,
}

/// Whether codes of a dimension's levels can be had from the definition alone.
pub(crate) fn has_codes(dimension: &Dimension) -> bool {
    !dimension.levels.iter().any(|level| matches!(level.source, LevelSource::Halved { .. }))
}

impl CodedTails {
    /// The tail rows of a snapshot at `version`, with their codes: pieces of chunks.
    pub(crate) fn read(
        &self,
        entry: &TableEntry,
        dictionaries: &Dictionaries,
        tail: &[TailRead],
        version: Version,
    ) -> Result<Vec<TailRows>> {
        let tail: Vec<&RecordBatch> = tail.iter().map(|run| &run.rows).filter(|rows| rows.num_rows() > 0).collect();
        let Some(first) = tail.first() else { return Ok(Vec::new()) };
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
        let known = coded.chunks.front().map(|chunk| versions(&chunk.rows).map(|versions| versions[0])).transpose()?;
        if known.is_some_and(|known| known > oldest.0) {
            // An old snapshot, whose rows have left the chunks.
            let code = |rows: &&RecordBatch| code(entry, dictionaries, rows).map(|chunk| (chunk, 0..rows.num_rows()));
            return tail.iter().map(code).collect();
        }
        for rows in tail {
            let fresh = versions(rows)?.partition_point(|&version| version <= coded.through.0);
            if fresh < rows.num_rows() {
                let chunk = code(entry, dictionaries, &rows.slice(fresh, rows.num_rows() - fresh))?;
                coded.chunks.push_back(chunk);
            }
        }
        coded.through = coded.through.max(version);
        let mut pieces = Vec::with_capacity(coded.chunks.len());
        let mut gone = 0;
        for (at, chunk) in coded.chunks.iter().enumerate() {
            let versions = versions(&chunk.rows)?;
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
    /// What came to a table above version `above`, with its codes, and the version through which it came. `None` where only a
    /// snapshot can tell: rows have left the tail meanwhile, or the table was changed.
    pub(crate) fn newer(
        &self,
        store: &dyn Store,
        entry: &TableEntry,
        dictionaries: &Dictionaries,
        above: Version,
    ) -> Result<Option<(Version, Vec<TailRows>)>> {
        let nothing = || {
            let newer = store.newer(entry.def.id, above, above)?;
            let is_nothing = newer.entry.changed_at == entry.changed_at && newer.tail.is_empty();
            is_nothing.then(|| (newer.through, Vec::new()))
        };
        let Some(coded) = self.tables.lock().get(&entry.def.id).map(Arc::clone) else { return Ok(nothing()) };
        let mut coded = coded.lock();
        let covered = match coded.chunks.front() {
            None => coded.through,
            Some(chunk) => Version(versions(&chunk.rows)?[0] - 1),
        };
        if coded.changed_at != entry.changed_at || above < covered {
            return Ok(nothing());
        }
        let newer = store.newer(entry.def.id, above, coded.through);
        let Some(newer) = newer.filter(|newer| newer.entry.changed_at == entry.changed_at) else { return Ok(None) };
        let Newer { through, floor, tail, .. } = newer;
        if floor > coded.through {
            coded.chunks.clear();
        }
        for run in tail.iter().filter(|run| run.rows.num_rows() > 0) {
            let chunk = code(entry, dictionaries, &run.rows)?;
            coded.chunks.push_back(chunk);
        }
        coded.through = coded.through.max(through);
        while let Some(chunk) = coded.chunks.front()
            && versions(&chunk.rows)?.last().is_some_and(|last| *last <= floor.0)
        {
            coded.chunks.pop_front();
        }
        let mut pieces = Vec::new();
        for chunk in coded.chunks.iter().rev() {
            let versions = versions(&chunk.rows)?;
            let start = versions.partition_point(|&version| version <= above.0);
            if start < versions.len() {
                pieces.push((Arc::clone(chunk), start..versions.len()));
            }
            if start > 0 {
                break;
            }
        }
        pieces.reverse();
        Ok(Some((through, pieces)))
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

fn versions(rows: &RecordBatch) -> Result<&[u64]> {
    let versions = rows.column_by_name(VERSION_COLUMN).and_then(|column| column.as_primitive_opt::<UInt64Type>());
    let versions = versions.filter(|versions| versions.null_count() == 0);
    versions.map(|versions| versions.values().as_ref()).ok_or_else(|| Error::internal("tail rows have no versions"))
}

fn code(entry: &TableEntry, dictionaries: &Dictionaries, rows: &RecordBatch) -> Result<Arc<CodedRows>> {
    let codes = dictionaries.remap_dimensions(&entry.def, rows, has_codes)?;
    Ok(Arc::new(CodedRows { rows: rows.clone(), codes }))
}
