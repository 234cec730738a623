//! The port of readers: snapshots of a version, whose rows the workers have.
//!
//! A statement asks the workers for parts of its plan, and reads what they answer. Where it reads more than such parts can say (a sample),
//! or of a table with a key, it reads a table whose rows have all been gathered: so all of SQL holds, and means what it means in one
//! process.
//!
//! Invariants:
//! - All shards of a statement are read at one version, whichever replicas answer.
//! - Rows stand in the order of their identities.
//! - What was gathered is used again only where the image knows that no row was written since.

use super::ask::{Asking, Failed, ShardAsk};
use super::session::{Gateway, unasked};
use crate::image::Image;
use crate::message::{FromWorker, ToWorker};
use alluvia_catalog::{Catalog, TableEntry};
use alluvia_snapshot::{AskedPart, Each, Killed, Newer, Pin, Read, Snapshot, TableRead, TailRead, Want, own_bytes};
use alluvia_types::{Clock, Error, ErrorKind, Freshness, Result, Stage, TableId, Version};
use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::{SortColumn, concat_batches, lexsort_to_indices, take_record_batch};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Rows of one run.
const RUN_ROWS: usize = 8_192;

/// Shards that are asked at a time for rows that statements stream.
const STREAMED_AT_ONCE: usize = 4;

impl Gateway {
    /// The version of a statement, and the image through it.
    fn version_of(&self, want: &Want) -> Result<(Version, Arc<Image>)> {
        let version = match (want.exactly, want.freshness) {
            (Some(version), _) => version,
            (None, Freshness::Within(age)) => self.within(age)?.max(want.at_least),
            (None, Freshness::Merged) => self.within(Duration::MAX)?.max(want.at_least),
        };
        Ok((version, self.caught_up(version)?))
    }

    /// A snapshot. Rows of tables for which `is_later` holds are not gathered.
    fn snapshot_of(&self, want: &Want, is_later: &dyn Fn(&TableEntry) -> bool) -> Result<Snapshot> {
        let (mut version, mut image) = self.version_of(want)?;
        let (later, gathered) = loop {
            let entries = want.tables.iter().filter_map(|table| image.catalog.by_id(*table));
            let (later, now): (Vec<_>, Vec<_>) = entries.partition(|entry| is_later(entry));
            let now: Vec<TableId> = now.iter().map(|entry| entry.def.id).collect();
            let gathered = match later.iter().any(|entry| entry.changed_at > version) {
                false => self.gather(&image, version, &now),
                true => Err(Failed::Conflict(altered())),
            };
            match gathered {
                Ok(gathered) => break (later.iter().map(|entry| entry.def.id).collect::<BTreeSet<_>>(), gathered),
                // At a newer version, then, unless this one was promised.
                Err(Failed::Conflict(_)) if want.exactly.is_none() => {
                    version = self.now()?.max(want.at_least);
                    image = self.caught_up(version)?;
                }
                Err(Failed::Conflict(error) | Failed::Other(error)) => return Err(error),
            }
        };
        let catalog = Arc::clone(&image.catalog);
        let read = |table: &TableId| {
            let empty = TableRead::empty(Arc::clone(catalog.by_id(*table)?));
            let rows = gathered.get(table).into_iter().flatten();
            let tail = rows.map(|rows| TailRead::new(rows.clone())).collect();
            // Nothing that is kept between statements may be made of it.
            let (is_tail_cut, killed_through, is_elsewhere) = (true, version, later.contains(table));
            Some((*table, TableRead { tail, is_tail_cut, killed_through, is_elsewhere, ..empty }))
        };
        let tables = want.tables.iter().filter_map(read).collect();
        let (lag, stage, pin) = (Duration::ZERO, Stage::Ingested, Pin::detached(version));
        Ok(Snapshot { version, lag, stage, catalog, tables, pin })
    }

    /// The rows of tables at a version, each in the order of identities.
    fn gather(
        &self,
        image: &Image,
        version: Version,
        tables: &[TableId],
    ) -> Result<BTreeMap<TableId, Vec<RecordBatch>>, Failed> {
        let mut found = BTreeMap::new();
        let mut asked: Vec<ShardAsk> = Vec::new();
        // A statement may name a table more than once.
        for table in tables.iter().copied().collect::<BTreeSet<_>>() {
            let Some(placed) = image.placed.get(&table) else { continue };
            let written = image.written.get(&table).copied().unwrap_or_default();
            if let Some((at, rows)) = self.gathered.lock().get(&table)
                && (*at == version || *at <= image.version && written <= (*at).min(version))
            {
                found.insert(table, rows.clone());
                continue;
            }
            asked.extend(ShardAsk::all(table, placed, version));
        }
        let mut of_tables: BTreeMap<TableId, Vec<RecordBatch>> =
            asked.iter().map(|of| (of.table, Vec::new())).collect();
        let mut bytes = 0;
        let question = |shard| ToWorker::Rows { shard, version };
        let silence = Some(self.options.reading_patience);
        self.ask_each(asked, &Asking { question: &question, at_once: usize::MAX, silence }, &mut |asked, answer| {
            let FromWorker::Rows(rows) = answer else { return unasked() };
            bytes += bytes_of(&rows);
            if bytes > self.options.gathered_bytes_max {
                return Err(self.too_much());
            }
            of_tables.entry(asked.table).or_default().extend(rows);
            Ok(())
        })?;
        for (table, rows) in of_tables {
            if rows.iter().any(|batch| batch.schema_ref() != rows[0].schema_ref()) {
                return Err(Failed::Conflict(altered()));
            }
            let rows = in_order(&rows).map_err(Failed::Other)?;
            self.keep(image, table, version, &rows);
            found.insert(table, rows);
        }
        Ok(found)
    }

    /// Keeps what was gathered for who reads the table next, within the bytes that a statement may gather; nothing older than what is kept.
    fn keep(&self, image: &Image, table: TableId, version: Version, rows: &[RecordBatch]) {
        let mut kept = self.gathered.lock();
        if kept.get(&table).is_some_and(|(at, _)| *at > version) {
            return;
        }
        kept.retain(|table, _| image.placed.contains_key(table));
        kept.insert(table, (version, rows.to_vec()));
        let bytes: u64 = kept.values().map(|(_, rows)| bytes_of(rows)).sum();
        if bytes > self.options.gathered_bytes_max {
            kept.retain(|other, _| *other == table);
        }
    }

    fn too_much(&self) -> Error {
        let what = format!("the tables of the statement have more than {} MiB", self.options.gathered_bytes_max >> 20);
        Error::new(ErrorKind::OutOfMemory, what)
            .with_hint("it is answered at the gateway, over all rows of its tables; a larger memory_limit holds more")
    }
}

fn altered() -> Error {
    Error::new(ErrorKind::Conflict, "a table was altered while it was read").with_hint("run the statement again")
}

fn bytes_of(rows: &[RecordBatch]) -> u64 {
    rows.iter().map(own_bytes).sum::<usize>() as u64
}

/// Rows of shards in the order of their identities, in runs.
fn in_order(rows: &[RecordBatch]) -> Result<Vec<RecordBatch>> {
    let Some(first) = rows.first() else { return Ok(Vec::new()) };
    let unfit = |error: arrow::error::ArrowError| Error::internal(format!("gathered rows: {error}"));
    let joined = concat_batches(&first.schema(), rows).map_err(unfit)?;
    let column = |at: usize| SortColumn { values: Arc::clone(joined.column(joined.num_columns() - at)), options: None };
    let order: UInt32Array = lexsort_to_indices(&[column(2), column(1)], None).map_err(unfit)?;
    let joined = take_record_batch(&joined, &order).map_err(unfit)?;
    let run = |at: usize| joined.slice(at, RUN_ROWS.min(joined.num_rows() - at));
    Ok((0..joined.num_rows()).step_by(RUN_ROWS).map(run).collect())
}

impl Read for Gateway {
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.image().catalog)
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn learn_definitions(&self) -> Result<()> {
        self.now().and_then(|version| self.caught_up(version)).map(drop)
    }

    fn snapshot(&self, want: &Want) -> Result<Snapshot> {
        self.snapshot_of(want, &|_| false)
    }

    fn snapshot_later(&self, want: &Want) -> Result<Snapshot> {
        // Rows that were there at the version may be gone before they are asked for. Where keys are that is often so; else it is told.
        self.snapshot_of(want, &|entry| entry.def.key.is_none())
    }

    fn gathered(&self, table: TableId, version: Version) -> Result<Vec<TailRead>> {
        let image = self.caught_up(version)?;
        match self.gather(&image, version, &[table]) {
            Ok(mut gathered) => Ok(gathered.remove(&table).into_iter().flatten().map(TailRead::new).collect()),
            Err(Failed::Conflict(error) | Failed::Other(error)) => Err(error),
        }
    }

    fn ask(&self, table: TableId, version: Version, part: &AskedPart, each: Each<'_>) -> Result<()> {
        let image = self.caught_up(version)?;
        let placed = image.placed.get(&table).ok_or_else(|| {
            Error::new(ErrorKind::Conflict, "the table was dropped while it was read")
                .with_hint("run the statement again")
        })?;
        let question = |shard| ToWorker::Ask { shard, version, part: Arc::clone(&part.plan), uses: part.uses };
        let at_once = if part.is_small { usize::MAX } else { STREAMED_AT_ONCE };
        let asked = ShardAsk::all(table, placed, version).collect();
        let asking = Asking { question: &question, at_once, silence: None };
        let mut taken = |_: &ShardAsk, answer| match answer {
            FromWorker::Rows(rows) => each(rows),
            _ => unasked(),
        };
        self.ask_each(asked, &asking, &mut taken).map_err(|(Failed::Conflict(error) | Failed::Other(error))| error)
    }

    fn required(&self, freshness: Freshness, at_least: Version) -> Version {
        let known = match freshness {
            Freshness::Within(age) => self.within(age).unwrap_or_else(|_| self.known()),
            Freshness::Merged => Version(0),
        };
        known.max(at_least)
    }

    fn lag(&self, _version: Version) -> Duration {
        Duration::ZERO
    }

    fn newer(&self, _table: TableId, _above: Version, _from: Version) -> Option<Newer> {
        None
    }

    fn killed(&self, _table: TableId, _above: Version, _through: Version) -> Option<Killed> {
        None
    }

    fn wait_visible(&self, version: Version) -> Result<()> {
        self.caught_up(version).map(drop)
    }
}
