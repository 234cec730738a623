//! Replay of log records into published batches, when a database is opened.

use crate::codec::decode;
use crate::committer::Committer;
use crate::prepared::Prepared;
use alluvia_catalog::{Catalog, Change};
use alluvia_log::Record;
use alluvia_snapshot::{NewBatch, Published, Spaces};
use alluvia_types::{Result, TableId};
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

impl Committer {
    /// What a recovered record published. `catalog` is the newest definitions before it; what its staged loads need of
    /// dictionaries is noted in `spaces`.
    pub fn replay(record: &Record<'_>, catalog: &Arc<Catalog>, spaces: &Spaces) -> Result<Replayed> {
        let body = decode(record.body).map_err(|error| error.at(format_args!("version {}", record.version)))?;
        let changed = match body.changes.as_slice() {
            [] => None,
            changes => Some(Arc::new(catalog.apply(record.version, changes)?)),
        };
        let rows = body.rows(changed.as_ref().unwrap_or(catalog))?;
        for load in &body.loads {
            let ranges = (!load.ranges.is_empty()).then_some(load.ranges.as_slice());
            spaces.require(load.table, Some(&load.dictionary), ranges);
        }
        let (changes, loads) = (body.changes, body.loads);
        let created = |change: &Change| match change {
            Change::CreateTable { def } => Some(def.id),
            _ => None,
        };
        let highest_created = changes.iter().filter_map(created).max();
        let batch = NewBatch { changes, rows, loads, producer: body.producer, key: body.key };
        let current = changed.as_ref().unwrap_or(catalog);
        let prepared = Prepared::new(batch, record.body.len() as u64, None)?;
        let published = prepared.published(record.version, record.commit_micros, current, changed.clone())?;
        Ok(Replayed { published, highest_created })
    }
}
