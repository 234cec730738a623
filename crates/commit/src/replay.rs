//! Replay of log records into published batches, when a database is opened.
//!
//! Invariants:
//! - A record is applied to the tables whose files do not have it, as of the definitions of its time, and to no other.
//! - Where a file of a table keeps a record from being applied, nothing is: the start begins again without that table, whose changes stay in
//!   the log ([`Stopped::to_close`]).

use crate::changes::{Changes, concerns_rows_of, definition};
use crate::codec::decode;
use crate::committer::Committer;
use crate::decide::Numbered;
use crate::prepared::Prepared;
use alluvia_catalog::{Catalog, Change, Dictionaries};
use alluvia_log::{Log, LogOptions, Record};
use alluvia_snapshot::{NewBatch, Published, Spaces, StagedLoad, Views};
use alluvia_space::TableDef;
use alluvia_storage::Disk;
use alluvia_tree::{Proof, RebuiltSide, Segment};
use alluvia_types::{Error, ErrorKind, Result, TableId, Version, planted};
use std::path::Path;
use std::sync::Arc;

/// What a recovered record brings back.
#[derive(Debug)]
pub struct Replayed {
    /// What it published.
    pub published: Published,
    /// The highest id of a table that it creates, though the table may be gone by now, even within the same batch: ids
    /// are not given out again.
    pub highest_created: Option<TableId>,
}

/// A batch as the log has it.
pub(crate) struct Recovered {
    pub(crate) batch: NewBatch,
    changed: Option<Arc<Catalog>>,
    highest_created: Option<TableId>,
}

impl Recovered {
    /// `spaces` are told what staged loads need of them; none where that is open already, as whoever staged them has left it.
    pub(crate) fn new(record: &Record<'_>, catalog: &Arc<Catalog>, spaces: Option<&Spaces>) -> Result<Recovered> {
        let body = decode(record.body).map_err(|error| error.at(format_args!("version {}", record.version)))?;
        let changed = match body.changes.as_slice() {
            [] => None,
            changes => Some(Arc::new(catalog.apply(record.version, changes)?)),
        };
        let mut rows = body.rows(changed.as_ref().unwrap_or(catalog))?;
        if planted("half a multi-table batch") {
            rows.truncate(1);
        }
        for (load, spaces) in body.loads.iter().filter_map(|load| Some((load, spaces?))) {
            let ranges = (!load.ranges.is_empty()).then_some(load.ranges.as_slice());
            spaces.require(load.table, Some(&load.dictionary), ranges);
        }
        let (changes, loads) = (body.changes, body.loads);
        let highest_created = changes.iter().filter_map(Change::new_id).max();
        let batch = NewBatch {
            changes,
            rows,
            loads,
            producer: body.producer,
            key: body.key,
            unwritten: Vec::new(),
            heeds: None,
        };
        Ok(Recovered { batch, changed, highest_created })
    }

    fn published(self, record: &Record<'_>, catalog: &Arc<Catalog>, passed_over: u64) -> Result<Replayed> {
        let Recovered { batch, changed, highest_created } = self;
        let prepared = Prepared::new(batch, record.body.len() as u64, None)?;
        let place = Numbered { version: record.version, commit_micros: record.commit_micros, changed };
        let published = prepared.published(&place, catalog, passed_over)?;
        Ok(Replayed { published, highest_created })
    }
}

/// Why a record could not be applied.
#[derive(Debug)]
pub struct Stopped {
    /// Whose rows it could not be applied to, or brought: a start that does without this table goes on.
    pub table: Option<TableId>,
    /// What is wrong.
    pub error: Error,
}

impl Stopped {
    /// At a table.
    pub(crate) fn at(table: TableId) -> impl Fn(Error) -> Stopped {
        move |error| Stopped { table: Some(table), error }
    }

    /// The table that is to be closed, so that the others are there: a file of it is damaged.
    pub fn to_close(&self) -> Option<TableId> {
        self.table.filter(|_| self.error.kind() == ErrorKind::Corrupt)
    }
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Stopped {
        Stopped { table: None, error }
    }
}

impl From<Stopped> for Error {
    fn from(stopped: Stopped) -> Error {
        stopped.error
    }
}

/// A log that was read into views.
#[derive(Debug)]
pub struct RecoveredLog {
    /// It is open.
    pub log: Log,
    /// The commit time of the last record; 0 if there was none.
    pub commit_micros: i64,
    /// Above every id of a table that a record creates.
    pub next_table: u32,
    /// Batches that were read because no manifest has them.
    pub batches: u64,
    /// Their rows.
    pub rows: u64,
}

impl Recovered {
    /// Leaves out what is in files already, and what the log is kept for ([`alluvia_snapshot::Held`]).
    ///
    /// Errors: of a closed table it has more than rows that come, and the log is not kept for it yet.
    fn leave_out(&mut self, version: Version, catalog: &Catalog, views: &Views) -> Result<(), Stopped> {
        let base = views.base();
        for (&table, closed) in base.closed.iter().filter(|(_, closed)| !closed.is_held) {
            if version > base.complete && concerns_rows_of(&self.batch, catalog, table) {
                return Err(Stopped::at(table)(closed.error.clone()));
            }
        }
        let NewBatch { rows, loads, key, .. } = &mut self.batch;
        let is_closed = |table| base.closed.contains_key(&table);
        let closed_rows: Vec<TableId> = rows.iter().map(|rows| rows.table).filter(|&table| is_closed(table)).collect();
        let closed_loads: Vec<_> = loads.iter().filter(|load| is_closed(load.table)).cloned().collect();
        rows.retain(|rows| base.applies(rows.table, version));
        loads.retain(|load| base.applies(load.table, version));
        for load in loads {
            let forgotten = base.tables.get(&load.table).map(|files| files.forgotten.as_slice()).unwrap_or_default();
            load.segments.retain(|meta| !forgotten.iter().any(|lost| lost.segment == meta.id));
        }
        // Files of keys have it.
        key.take_if(|_| version <= base.complete);
        drop(base);
        closed_rows.into_iter().for_each(|table| views.hold(table, version, &[]));
        closed_loads.iter().for_each(|load| views.hold(load.table, version, &load.segments));
        Ok(())
    }
}

impl Committer {
    /// Opens the log in `dir`, and brings `views` to its end. What its staged loads need of dictionaries is noted in their spaces.
    ///
    /// Errors: as [`Log::open`]; and where it names a table that is to be closed, the views are worth nothing, and the log is as it was.
    pub fn recover(
        disk: Arc<dyn Disk>,
        dir: &Path,
        options: LogOptions,
        views: &Views,
    ) -> Result<RecoveredLog, Stopped> {
        let (after, complete) = (views.base().through, views.base().complete);
        let (mut at, mut commit_micros, mut next_table, mut batches, mut rows) = (None, 0, 0, 0, 0);
        let opened = Log::open(disk, dir, options, after, &mut |record| {
            let replayed = Committer::replay(&record, views);
            let Replayed { published, highest_created } = replayed.map_err(|stopped| {
                at = stopped.table;
                stopped.error
            })?;
            commit_micros = record.commit_micros;
            // Also those of tables that were dropped since: keys and files outlive them, and know them by their ids.
            next_table = highest_created.map_or(0, |table| table.0 + 1).max(next_table);
            if record.version > complete {
                (batches, rows) = (batches + 1, rows + published.info.rows);
            }
            views.publish(&mut vec![published], true)
        });
        let log = opened.map_err(|error| Stopped { table: at, error })?;
        if log.durable() < complete {
            let message = format!(
                "the log in {} ends at version {}, and the manifest has version {complete}",
                dir.display(),
                log.durable()
            );
            return Err(Error::new(ErrorKind::Corrupt, message)
                .with_hint("restore the data directory from a backup or a replica")
                .into());
        }
        Ok(RecoveredLog { log, commit_micros, next_table, batches, rows })
    }

    /// What a recovered record published, after all records before it were. What its staged loads need of dictionaries is
    /// noted in the spaces of `views`, and the rows that it kills are dead there.
    fn replay(record: &Record<'_>, views: &Views) -> Result<Replayed, Stopped> {
        let catalog = views.catalog();
        let mut recovered = Recovered::new(record, &catalog, Some(views.spaces()))?;
        recovered.leave_out(record.version, &catalog, views)?;
        for load in &recovered.batch.loads {
            check_staged(load, &recovered.batch, &catalog, views).map_err(Stopped::at(load.table))?;
        }
        let asked = Changes::new(&recovered.batch, &catalog, views)?;
        let locks = views.keys().locks(&asked.tables());
        let mut keys = locks.lock();
        let resolved = asked.resolve(views, &mut keys, views.keys().generation());
        let mut effects = resolved.map_err(|stopped| match stopped.to_close() {
            Some(_) => stopped,
            None => not_as_it_was(stopped.error).into(),
        })?;
        let replayed = recovered.published(record, &catalog, effects.passed_over)?;
        let kills = effects.take_kills(record.version);
        effects.remember(record.version, &mut keys);
        if !planted("replay without kills") {
            views.kill(record.version, kills);
        }
        Ok(replayed)
    }

    /// What a record says by itself, whatever rows were there: its rows, files and definitions. `catalog` is the newest
    /// definitions before it.
    pub fn read(record: &Record<'_>, catalog: &Arc<Catalog>, spaces: &Spaces) -> Result<Replayed> {
        Recovered::new(record, catalog, Some(spaces))?.published(record, catalog, 0)
    }
}

/// Whether the segments of a staged load can be opened. A side file that cannot is made anew, if it is then byte by byte what it was.
fn check_staged(load: &StagedLoad, batch: &NewBatch, catalog: &Catalog, views: &Views) -> Result<()> {
    let tree = views.tree();
    for meta in &load.segments {
        let error = match Segment::open(tree, meta.clone()) {
            Err(error) if error.kind() == ErrorKind::Corrupt => error,
            opened => {
                opened?;
                continue;
            }
        };
        let Some(def) = definition(batch, catalog, load.table) else { return Err(error) };
        let mut def = TableDef::clone(&def);
        for (dimension, range) in def.dimensions.iter_mut().zip(&load.ranges) {
            dimension.range = range.clone();
        }
        let path = Spaces::path(tree.dir.parent().unwrap_or(&tree.dir), def.id);
        let side = Dictionaries::open_to_read(Arc::clone(&tree.disk), path, &def, &load.dictionary)
            .and_then(|dictionaries| RebuiltSide::new(tree, meta, &def, &dictionaries));
        match side {
            // The record cannot say anything else of it.
            Ok(side) if side.proof() == Proof::Same => {
                side.install()?;
                Segment::open(tree, meta.clone())?;
            }
            Ok(_) => return Err(error),
            Err(other) if matches!(other.kind(), ErrorKind::Corrupt | ErrorKind::NotSupported) => return Err(error),
            Err(other) => return Err(other),
        }
    }
    Ok(())
}

/// A batch that was let in is let in again, or something else than it is damaged.
pub(crate) fn not_as_it_was(error: Error) -> Error {
    match error.kind() {
        ErrorKind::UniqueViolation | ErrorKind::Conflict | ErrorKind::NoKey | ErrorKind::NotNull => {
            Error::new(ErrorKind::Corrupt, format!("a batch of the log does not fit to what was before it: {error}"))
                .with_hint("run `alluvia check` and restore the data directory from a copy")
        }
        _ => error,
    }
}
