//! From log records back to published batches, when a database is opened.

use crate::codec::decode;
use crate::committer::Committer;
use crate::prepared::Prepared;
use alluvia_catalog::Catalog;
use alluvia_log::Record;
use alluvia_snapshot::{NewBatch, Published, Spaces};
use alluvia_types::Result;
use std::sync::Arc;

impl Committer {
    /// What a recovered record published. `catalog` is the newest definitions before it; what its staged loads need of
    /// dictionaries is noted in `spaces`.
    pub fn replay(record: &Record<'_>, catalog: &Arc<Catalog>, spaces: &Spaces) -> Result<Published> {
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
        let batch = NewBatch { changes, rows, loads, producer: body.producer, key: body.key };
        let current = changed.as_ref().unwrap_or(catalog);
        let prepared = Prepared::new(batch, record.body.len() as u64)?;
        prepared.published(record.version, record.commit_micros, current, changed.clone())
    }
}
