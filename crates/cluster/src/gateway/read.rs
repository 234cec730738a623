//! The port of readers: snapshots whose rows are gathered from the workers.
//!
//! A statement whose tables lie elsewhere reads them as a table whose rows are all in memory: so all of SQL holds, and means what it means
//! in one process. What is asked at the workers instead costs less, and answers the same.
//!
//! Invariants:
//! - All shards of a statement are read at one version, whichever replicas answer.
//! - Rows stand in the order of their identities.
//! - What was gathered is used again only where the image knows that no row was written since.

use super::reach::Reached;
use super::session::{Gateway, unasked, unreached};
use crate::image::Image;
use crate::message::{FromWorker, ToWorker};
use crate::words::NodeId;
use alluvia_catalog::Catalog;
use alluvia_snapshot::{Killed, Newer, Pin, Read, Snapshot, TableRead, TailRead, Want};
use alluvia_types::{Clock, Error, ErrorKind, Freshness, Result, Stage, TableId, Version};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array};
use arrow::compute::{SortColumn, concat_batches, lexsort_to_indices, take_record_batch};
use arrow::datatypes::DataType;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// A shard is asked again after so long.
const ASKED_AGAIN: Duration = Duration::from_millis(20);
/// Rows of one run.
const RUN_ROWS: usize = 8_192;

/// A shard that is being asked.
struct ShardRead {
    table: TableId,
    shard: TableId,
    replicas: Vec<NodeId>,
    turn: usize,
    rows: Option<Vec<RecordBatch>>,
}

/// Why rows were not gathered.
enum Failed {
    /// Rows that went since the version are gone.
    TooOld(Error),
    Other(Error),
}

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

    /// The rows of tables at a version, each in the order of identities.
    fn gather(
        &self,
        image: &Image,
        version: Version,
        tables: &[TableId],
    ) -> Result<BTreeMap<TableId, Vec<RecordBatch>>, Failed> {
        let mut found = BTreeMap::new();
        let mut asked: Vec<ShardRead> = Vec::new();
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
            let turn = (version.0 ^ u64::from(table.0)) as usize;
            asked.extend(placed.shards.iter().map(|shard| ShardRead {
                table,
                shard: shard.id,
                replicas: shard.replicas.clone(),
                turn: turn + shard.id.0 as usize,
                rows: None,
            }));
        }
        self.ask_all(&mut asked, version)?;
        let mut of_tables: BTreeMap<TableId, Vec<RecordBatch>> = BTreeMap::new();
        for asked in asked {
            of_tables.entry(asked.table).or_default().extend(asked.rows.unwrap_or_default());
        }
        for (table, rows) in of_tables {
            if rows.iter().any(|batch| batch.schema_ref() != rows[0].schema_ref()) {
                let error = Error::new(ErrorKind::Conflict, "a table was altered while it was read");
                return Err(Failed::TooOld(error.with_hint("run the statement again")));
            }
            let rows = in_order(&rows).map_err(Failed::Other)?;
            self.keep(image, table, version, &rows);
            found.insert(table, rows);
        }
        Ok(found)
    }

    fn ask_all(&self, asked: &mut [ShardRead], version: Version) -> Result<(), Failed> {
        let (sender, answers) = channel();
        let ask = |at: usize, asked: &mut ShardRead| {
            let node = asked.replicas[asked.turn % asked.replicas.len()];
            asked.turn += 1;
            let sender = sender.clone();
            let answered = move |answer: Reached<FromWorker>| drop(sender.send((at, node, answer)));
            self.reach.worker(node, ToWorker::Rows { shard: asked.shard, version }, Box::new(answered));
        };
        asked.iter_mut().enumerate().for_each(|(at, asked)| ask(at, asked));
        let mut given_up = self.clock.monotonic() + self.options.reading_patience;
        let (mut left, mut bytes) = (asked.len(), 0);
        let mut last = Error::new(ErrorKind::Timeout, "nobody answers");
        let mut again: Vec<usize> = Vec::new();
        while left > 0 {
            let now = self.clock.monotonic();
            if now >= given_up {
                return Err(Failed::Other(last));
            }
            let wait = if again.is_empty() { given_up - now } else { ASKED_AGAIN };
            let (at, node, answer) = match answers.recv_timeout(wait) {
                Ok(answer) => answer,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    again.drain(..).for_each(|at| ask(at, &mut asked[at]));
                    continue;
                }
            };
            match answer {
                Ok(Ok(FromWorker::Rows(rows))) => {
                    bytes += bytes_of(&rows);
                    given_up = self.clock.monotonic() + self.options.reading_patience;
                    if bytes > self.options.gathered_bytes_max {
                        return Err(Failed::Other(self.too_much()));
                    }
                    if asked[at].rows.replace(rows).is_none() {
                        left -= 1;
                    }
                }
                Ok(Ok(_)) => return Err(Failed::Other(unasked::<()>().expect_err("it is an error"))),
                Ok(Err(error)) if error.kind() == ErrorKind::Conflict => return Err(Failed::TooOld(error)),
                Ok(Err(error)) if error.kind() == ErrorKind::Busy => {
                    last = error;
                    again.push(at);
                }
                Ok(Err(error)) => return Err(Failed::Other(error)),
                Err(why) => {
                    last = unreached(&format!("shard {} at node {node}", asked[at].shard), &why);
                    again.push(at);
                }
            }
        }
        Ok(())
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

/// What rows take by themselves, whatever larger buffers they are slices of.
fn bytes_of(rows: &[RecordBatch]) -> u64 {
    let column = |column: &ArrayRef| {
        let data = column.to_data();
        let viewed: usize = match column.data_type() {
            DataType::Utf8View => column.as_string_view().lengths().map(|bytes| bytes as usize).sum(),
            DataType::BinaryView => column.as_binary_view().lengths().map(|bytes| bytes as usize).sum(),
            _ => 0,
        };
        data.get_slice_memory_size().unwrap_or(0) + viewed
    };
    rows.iter().flat_map(|rows| rows.columns()).map(column).sum::<usize>() as u64
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

    fn snapshot(&self, want: &Want) -> Result<Snapshot> {
        let (mut version, mut image) = self.version_of(want)?;
        let gathered = loop {
            match self.gather(&image, version, &want.tables) {
                Ok(gathered) => break gathered,
                // At a newer version, then, unless this one was promised.
                Err(Failed::TooOld(_)) if want.exactly.is_none() => {
                    version = self.now()?.max(want.at_least);
                    image = self.caught_up(version)?;
                }
                Err(Failed::TooOld(error) | Failed::Other(error)) => return Err(error),
            }
        };
        let catalog = Arc::clone(&image.catalog);
        let read = |table: &TableId| {
            let entry = catalog.by_id(*table)?;
            let rows = gathered.get(table).into_iter().flatten();
            let tail = rows.map(|rows| TailRead::new(rows.clone())).collect();
            // Nothing that is kept between statements may be made of it.
            let (is_tail_cut, killed_through) = (true, version);
            Some((*table, TableRead { tail, is_tail_cut, killed_through, ..TableRead::empty(Arc::clone(entry)) }))
        };
        let tables = want.tables.iter().filter_map(read).collect();
        let (lag, stage, pin) = (Duration::ZERO, Stage::Ingested, Pin::detached(version));
        Ok(Snapshot { version, lag, stage, catalog, tables, pin })
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
