//! The committer: from a checked batch to a visible version.
//!
//! ```text
//! submit --encode--> [sequencer: version, log.append] --sync_through--> [publisher: views.publish] --> acknowledged
//! ```
//!
//! A batch that was sequenced is in `pending` until it is published or dropped, and carries its own fate: after a full
//! disk the log is rewound and its versions are given out anew, so a waiter must ask what became of *its batch*, not
//! of its version.

use crate::codec::encode;
use crate::replay::with_hidden_columns;
use alluvia_catalog::Catalog;
use alluvia_log::Log;
use alluvia_snapshot::{BatchInfo, Committed, Durability, NewBatch, ProducerMark, ProducerState, Published, Views};
use alluvia_types::{Error, ErrorKind, Result, TableId, Version};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

const PENDING: u8 = 0;
const PUBLISHED: u8 = 1;
const DROPPED: u8 = 2;

/// Sequences, logs and publishes batches.
#[derive(Debug)]
pub struct Committer {
    log: Arc<Log>,
    views: Arc<Views>,
    sequencer: Mutex<Sequencer>,
    /// Held while durable batches are moved from `pending` to the views, so that they arrive in order.
    publisher: Mutex<()>,
    batch_bytes_max: u64,
}

#[derive(Debug)]
struct Sequencer {
    next: Version,
    commit_micros: i64,
    catalog: Arc<Catalog>,
    producers: BTreeMap<String, ProducerState>,
    pending: VecDeque<Pending>,
}

#[derive(Debug)]
struct Pending {
    published: Published,
    fate: Arc<AtomicU8>,
}

impl Committer {
    /// A committer over an opened log whose batches are all published in `views`.
    pub fn new(log: Arc<Log>, views: Arc<Views>, last_commit_micros: i64, batch_bytes_max: u64) -> Self {
        let (visible, catalog, producers) = views.committed();
        assert_eq!(visible, log.durable(), "what is durable is visible before the first batch");
        let sequencer = Sequencer {
            next: visible.next(),
            commit_micros: last_commit_micros,
            catalog,
            producers,
            pending: VecDeque::new(),
        };
        Committer { log, views, sequencer: Mutex::new(sequencer), publisher: Mutex::new(()), batch_bytes_max }
    }

    /// The log.
    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// Commits a batch; with [`Durability::Sync`] it is durable and visible on return (C2).
    pub fn submit(&self, batch: NewBatch, durability: Durability) -> Result<Committed> {
        let body = encode(&batch)?;
        let bytes = body.len() as u64;
        if bytes > self.batch_bytes_max {
            let (size, limit) = (bytes >> 20, self.batch_bytes_max >> 20);
            return Err(Error::new(
                ErrorKind::OutOfMemory,
                format!("the batch has {size} MiB; a batch in the log may have {limit} MiB"),
            )
            .with_hint("load large data with COPY or alluvia load, or in several batches"));
        }
        if !batch.rows.is_empty() {
            self.views.wait_room(bytes)?;
        }
        let (committed, fate) = match self.sequence(batch, &body)? {
            Sequenced::New(version, fate) => (Committed { version, duplicate: false }, Some(fate)),
            Sequenced::Duplicate(version) => (Committed { version, duplicate: true }, None),
        };
        if durability == Durability::Sync {
            self.finish(committed.version, fate.as_deref())?;
        }
        Ok(committed)
    }

    /// Makes everything that was sequenced durable and visible.
    pub fn flush(&self) -> Result<()> {
        let last = Version(self.sequencer.lock().next.0 - 1);
        if last > self.views.visible() { self.finish(last, None) } else { Ok(()) }
    }

    /// C1: gives the batch its version and its place in the log.
    fn sequence(&self, batch: NewBatch, body: &[u8]) -> Result<Sequenced> {
        let mut sequencer = self.sequencer.lock();
        if let Some(mark) = &batch.producer
            && let Some(version) = sequencer.duplicate_of(mark)?
        {
            return Ok(Sequenced::Duplicate(version));
        }
        let version = sequencer.next;
        let catalog = match batch.changes.as_slice() {
            [] => None,
            changes => Some(Arc::new(sequencer.catalog.apply(version, changes)?)),
        };
        let current = catalog.as_ref().unwrap_or(&sequencer.catalog);
        for rows in &batch.rows {
            check_definition(current, version, rows.table, rows.checked_at)?;
        }
        for load in &batch.loads {
            check_definition(current, version, load.table, load.checked_at)?;
        }
        let commit_micros = self.views.clock().wall_micros().max(sequencer.commit_micros);
        let published = published(version, commit_micros, batch, catalog.clone(), body.len() as u64)?;
        self.log.append(version, commit_micros, body)?;

        // From here on the batch is in the log's buffer: nothing may fail.
        if let Some(catalog) = catalog {
            sequencer.catalog = catalog;
        }
        if let Some(mark) = &published.info.producer {
            let state = ProducerState { epoch: mark.epoch, sequence: mark.sequence, version };
            sequencer.producers.insert(mark.name.clone(), state);
        }
        sequencer.commit_micros = commit_micros;
        sequencer.next = version.next();
        let fate = Arc::new(AtomicU8::new(PENDING));
        sequencer.pending.push_back(Pending { published, fate: Arc::clone(&fate) });
        Ok(Sequenced::New(version, fate))
    }

    /// Waits until `version` is durable, and publishes it if nobody has yet.
    fn finish(&self, version: Version, fate: Option<&AtomicU8>) -> Result<()> {
        if let Err(error) = self.log.sync_through(version) {
            if error.kind() == ErrorKind::DiskFull {
                self.drop_not_durable()?;
            }
            // The batch may have become durable before the failure of a later group.
            if fate.is_some_and(|fate| fate.load(Ordering::Acquire) == PUBLISHED) {
                return Ok(());
            }
            return Err(error);
        }
        if self.views.visible() < version || fate.is_some_and(|fate| fate.load(Ordering::Acquire) == PENDING) {
            self.publish_durable()?;
        }
        match fate.map(|fate| fate.load(Ordering::Acquire)) {
            Some(DROPPED) => Err(disk_was_full()),
            _ => Ok(()),
        }
    }

    /// Publishes every pending batch that is durable, in order.
    fn publish_durable(&self) -> Result<()> {
        let _order = self.publisher.lock();
        let durable = self.log.durable();
        let (batches, fates): (Vec<_>, Vec<_>) = {
            let mut sequencer = self.sequencer.lock();
            let count = sequencer.pending.partition_point(|pending| pending.published.info.version <= durable);
            sequencer.pending.drain(..count).map(|pending| (pending.published, pending.fate)).unzip()
        };
        self.views.publish(batches, false)?;
        fates.iter().for_each(|fate| fate.store(PUBLISHED, Ordering::Release));
        Ok(())
    }

    /// After a full disk: publishes what did become durable, drops the rest and gives its versions out anew.
    fn drop_not_durable(&self) -> Result<()> {
        self.publish_durable()?;
        let _order = self.publisher.lock();
        let mut sequencer = self.sequencer.lock();
        let durable = self.log.rewind();
        let (visible, catalog, producers) = self.views.committed();
        if visible != durable {
            // Another group became durable between the two locks; its waiters publish it and come back here if need be.
            let kept = sequencer.pending.partition_point(|pending| pending.published.info.version <= durable);
            let dropped = sequencer.pending.split_off(kept);
            let published: Vec<Pending> = sequencer.pending.drain(..).collect();
            let (batches, fates): (Vec<_>, Vec<_>) = published.into_iter().map(|p| (p.published, p.fate)).unzip();
            self.views.publish(batches, false)?;
            fates.iter().for_each(|fate| fate.store(PUBLISHED, Ordering::Release));
            dropped.iter().for_each(|pending| pending.fate.store(DROPPED, Ordering::Release));
            let (visible, catalog, producers) = self.views.committed();
            sequencer.reset(visible, catalog, producers);
            return Ok(());
        }
        sequencer.pending.drain(..).for_each(|pending| pending.fate.store(DROPPED, Ordering::Release));
        sequencer.reset(visible, catalog, producers);
        Ok(())
    }
}

enum Sequenced {
    New(Version, Arc<AtomicU8>),
    Duplicate(Version),
}

impl Sequencer {
    fn reset(&mut self, visible: Version, catalog: Arc<Catalog>, producers: BTreeMap<String, ProducerState>) {
        self.next = visible.next();
        self.catalog = catalog;
        self.producers = producers;
    }

    /// C3: the version of the batch that a producer has sent before; `None` if it is its next one.
    fn duplicate_of(&self, mark: &ProducerMark) -> Result<Option<Version>> {
        let refused = |what: String| Error::new(ErrorKind::Producer, format!("producer '{}': {what}", mark.name));
        let first_of_epoch = || match mark.sequence {
            1 => Ok(None),
            other => Err(refused(format!("epoch {} starts with sequence {other}", mark.epoch))
                .with_hint("number the batches of an epoch 1, 2, 3, ...")),
        };
        let Some(state) = self.producers.get(&mark.name) else {
            return first_of_epoch();
        };
        if mark.epoch < state.epoch {
            return Err(refused(format!("epoch {} is over, epoch {} has begun", mark.epoch, state.epoch))
                .with_hint("another process writes under this name; start with a higher epoch to take over"));
        }
        if mark.epoch > state.epoch {
            return first_of_epoch();
        }
        if mark.sequence <= state.sequence {
            return Ok(Some(state.version));
        }
        if mark.sequence != state.sequence + 1 {
            return Err(refused(format!(
                "sequence {} follows {}, so batches are missing",
                mark.sequence, state.sequence
            ))
            .with_hint(format!("send again from sequence {}", state.sequence + 1)));
        }
        Ok(None)
    }
}

/// C4.
fn check_definition(catalog: &Catalog, version: Version, table: TableId, checked_at: Version) -> Result<()> {
    match catalog.by_id(table) {
        Some(entry) if entry.changed_at == checked_at || entry.changed_at == version => Ok(()),
        Some(entry) => Err(Error::new(
            ErrorKind::Conflict,
            format!("table '{}' was altered while the batch was under way", entry.def.name),
        )
        .with_hint("run the statement again")),
        None => Err(Error::new(ErrorKind::Conflict, "the table was dropped while the batch was under way")),
    }
}

fn published(
    version: Version,
    commit_micros: i64,
    batch: NewBatch,
    catalog: Option<Arc<Catalog>>,
    bytes: u64,
) -> Result<Published> {
    let in_log = batch.rows.iter().flat_map(|rows| &rows.batches).map(|rows| rows.num_rows() as u64).sum::<u64>();
    let staged = batch.loads.iter().map(|load| load.rows).sum::<u64>();
    let mut tables: Vec<TableId> =
        batch.rows.iter().map(|rows| rows.table).chain(batch.loads.iter().map(|load| load.table)).collect();
    tables.sort();
    tables.dedup();
    let info = BatchInfo {
        version,
        commit_micros,
        rows: in_log + staged,
        tables,
        changes: batch.changes.len(),
        bytes,
        producer: batch.producer,
    };
    let rows = with_hidden_columns(version, batch.rows, bytes)?;
    Ok(Published { info, catalog, rows, loads: batch.loads })
}

impl Committer {
    /// Turns a recovered record into what it published; used by replay.
    pub(crate) fn recovered(
        version: Version,
        commit_micros: i64,
        batch: NewBatch,
        catalog: Option<Arc<Catalog>>,
        bytes: u64,
    ) -> Result<Published> {
        published(version, commit_micros, batch, catalog, bytes)
    }
}

fn disk_was_full() -> Error {
    Error::new(ErrorKind::DiskFull, "the batch was not written: no space left on the disk of the log")
        .with_hint("free space on this disk; writes resume by themselves")
}
