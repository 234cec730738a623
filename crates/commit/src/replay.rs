//! Replay of log records into published batches, when a database is opened.

use crate::changes::Changes;
use crate::codec::decode;
use crate::committer::Committer;
use crate::decide::Numbered;
use crate::prepared::Prepared;
use alluvia_catalog::{Catalog, Change};
use alluvia_log::Record;
use alluvia_snapshot::{NewBatch, Published, Spaces, Views};
use alluvia_types::{Error, ErrorKind, Result, TableId, planted};
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

impl Committer {
    /// What a recovered record published, after all records before it were. What its staged loads need of dictionaries is
    /// noted in the spaces of `views`, and the rows that it kills are dead there.
    pub fn replay(record: &Record<'_>, views: &Views) -> Result<Replayed> {
        let catalog = views.catalog();
        let recovered = Recovered::new(record, &catalog, Some(views.spaces()))?;
        let asked = Changes::new(&recovered.batch, &catalog, views)?;
        // Which rows it kills cannot be found without those that are there: so the database does not open.
        asked.tables().into_iter().try_for_each(|table| views.check_open(table))?;
        let locks = views.keys().locks(&asked.tables());
        let mut keys = locks.lock();
        let mut effects = asked.resolve(views, &mut keys, views.keys().generation()).map_err(not_as_it_was)?;
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
