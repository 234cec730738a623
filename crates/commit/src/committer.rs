//! The committer: from a checked batch to a visible version.
//!
//! ```text
//! submit --encode--> [sequencer: version, log.append] --log.sync--> [publisher: views.publish] --> acknowledged
//! ```
//!
//! A batch that was sequenced is in `pending` until it is published or dropped. After a full disk the log is rewound and
//! versions are given out anew, so a waiter waits for its *ticket*, not for its version; the first waiter of a failed
//! generation does the rewinding for all. Where what is durable cannot be published then, the log stays in its failure: whoever
//! comes is told why, and tries again.

use crate::changes::{Changes, Effects, concerns_rows};
use crate::codec::encode;
use crate::decide::{Decision, Order};
use crate::prepared::{Prepared, tail_bytes};
use crate::waiting::WaitingBatches;
use alluvia_catalog::{Catalog, Change};
use alluvia_log::{Log, Ticket};
use alluvia_snapshot::{
    BatchKey, Committed, Done, Durability, KeyRecord, NewBatch, Published, StagedLoad, TailRoom, Views,
};
use alluvia_types::{Error, ErrorKind, Result, Version};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// Sequences, logs and publishes batches.
#[derive(Debug)]
pub struct Committer {
    log: Arc<Log>,
    views: Arc<Views>,
    sequencer: Mutex<Sequencer>,
    /// Held while durable batches are moved from `pending` to the views, so that they arrive in order.
    publisher: Mutex<()>,
    waiting: WaitingBatches,
    /// What batches had staged that a full disk took back; nobody has removed it yet.
    dropped: Mutex<Vec<StagedLoad>>,
    batch_bytes_max: u64,
}

#[derive(Debug)]
struct Sequencer {
    order: Order,
    /// In the log's buffer or durable, and not yet visible.
    pending: VecDeque<Published>,
    /// How often the log was rewound.
    generation: u64,
}

/// How a batch gets its version.
#[derive(Debug)]
pub(crate) enum Placing {
    /// It is decided here, unless it was not admitted.
    Decided(Result<()>),
    /// It was decided elsewhere.
    Followed { version: Version, commit_micros: i64 },
}

/// A batch that has its version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sequenced {
    pub(crate) version: Version,
    pub(crate) duplicate: bool,
    /// To wait for. That of a duplicate is its first copy's: if a rewind takes that back, it takes the acknowledgement with it.
    ticket: Ticket,
    pub(crate) generation: u64,
    /// Rows that changed nothing.
    pub(crate) passed_over: u64,
}

impl Committer {
    /// A committer over an opened log whose batches are all published in `views`. `keys` are those of older batches.
    pub fn new(
        log: Arc<Log>,
        views: Arc<Views>,
        last_commit_micros: i64,
        batch_bytes_max: u64,
        keys: Vec<KeyRecord>,
    ) -> Self {
        let keys = keys.into_iter().chain(views.unsorted_keys());
        let (visible, catalog, producers) = views.committed();
        assert_eq!(visible, log.durable(), "what is durable is visible before the first batch");
        let sequencer = Sequencer {
            order: Order::new(visible, last_commit_micros, catalog, producers, keys),
            pending: VecDeque::new(),
            generation: 0,
        };
        Committer {
            log,
            views,
            sequencer: Mutex::new(sequencer),
            publisher: Mutex::new(()),
            waiting: WaitingBatches::default(),
            dropped: Mutex::default(),
            batch_bytes_max,
        }
    }

    /// The log.
    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// The visible batch that has used a key within the last seven days.
    pub fn keyed(&self, key: BatchKey) -> Option<KeyRecord> {
        // First what is visible: its key cannot be dropped any more, and a version that was given out anew is later.
        let visible = self.views.visible();
        let now_micros = self.views.clock().wall_micros();
        let known = self.sequencer.lock().order.keyed(key, now_micros);
        known.filter(|record| record.version <= visible)
    }

    pub(crate) fn views(&self) -> &Views {
        &self.views
    }

    /// The last version that was given out, and the definitions as of it.
    pub(crate) fn newest(&self) -> (Version, Arc<Catalog>) {
        let sequencer = self.sequencer.lock();
        (sequencer.order.last(), Arc::clone(sequencer.order.catalog()))
    }

    pub(crate) fn waiting(&self) -> &WaitingBatches {
        &self.waiting
    }

    /// Commits a batch; with [`Durability::Sync`] it is durable and visible on return (C2).
    pub fn submit(&self, batch: NewBatch, durability: Durability) -> Result<Committed> {
        let (body, bytes) = self.encode(&batch)?;
        let room = match batch.rows.is_empty() {
            true => None,
            false => Some(self.views.wait_room(bytes, &mut || self.flush())?),
        };
        let admitted = self.admit(&batch);
        let sequenced = self.sequence(batch, body, room, Placing::Decided(admitted), None)?;
        if durability == Durability::Sync {
            self.finish(sequenced)?;
        }
        Ok(Committed { version: sequenced.version, duplicate: sequenced.duplicate, passed_over: sequenced.passed_over })
    }

    /// As [`Committer::submit`] with [`Durability::Sync`], without waiting: `done` is called by a thread that is in
    /// [`Committer::serve`]. Gives everything back if there is none, or the batch would have to wait for room in the tail, or perhaps for
    /// the dictionaries of a level that is near full.
    pub fn submit_then(&self, batch: NewBatch, done: Done) -> Option<(NewBatch, Done)> {
        // The keys of a table may have to be read.
        if !self.waiting.is_served() || concerns_rows(&batch, &self.views.catalog()) {
            return Some((batch, done));
        }
        let (body, bytes) = match self.encode(&batch) {
            Ok(encoded) => encoded,
            Err(error) => {
                done(Err(error));
                return None;
            }
        };
        let room = match batch.rows.is_empty() {
            true => None,
            false => match self.views.try_room(bytes) {
                Some(room) => Some(room),
                None => return Some((batch, done)),
            },
        };
        // As in `submit`, but whoever must not block does not ask a dictionary, which may be at work or in a file.
        if self.views.spaces().bounds().is_any_near() {
            return Some((batch, done));
        }
        let mut done = Some(done);
        let sequenced = self.sequence(batch, body, room, Placing::Decided(Ok(())), Some(&mut done));
        if let Some(done) = done {
            // Refused, or the threads have just stopped.
            done(sequenced.and_then(|batch| {
                self.finish(batch)?;
                Ok(Committed { version: batch.version, duplicate: batch.duplicate, passed_over: batch.passed_over })
            }));
        }
        None
    }

    /// A batch's body in the log, and what its rows count as in the tail.
    fn encode(&self, batch: &NewBatch) -> Result<(Vec<u8>, u64)> {
        let body = encode(batch)?;
        let bytes = tail_bytes(&batch.rows, body.len() as u64);
        if bytes > self.batch_bytes_max {
            let (size, limit) = (bytes >> 20, self.batch_bytes_max >> 20);
            return Err(Error::new(
                ErrorKind::OutOfMemory,
                format!("the batch has {size} MiB; a batch in the log may have {limit} MiB"),
            )
            .with_hint("load large data with COPY or alluvia load, or in several batches"));
        }
        Ok((body, bytes))
    }

    /// Decides whether the levels of its tables can take a batch's members, after it has its room and before it is in the log: what is
    /// there must be sorted, or nothing can be.
    fn admit(&self, batch: &NewBatch) -> Result<()> {
        let spaces = self.views.spaces();
        if !spaces.bounds().is_any_near() {
            return Ok(());
        }
        let catalog = self.views.catalog();
        for rows in &batch.rows {
            // Of a table that is new the batch itself has the definition; of one that is gone the sequencer tells.
            let created = batch.changes.iter().find_map(|change| match change {
                Change::CreateTable { def } if def.id == rows.table => Some(def),
                _ => None,
            });
            let Some(def) = catalog.by_id(rows.table).map(|entry| entry.def.as_ref()).or(created) else { continue };
            let Some(space) = spaces.near_full(def)? else { continue };
            for rows in &rows.batches {
                space.dictionaries.admit(def, rows, &|| self.views.unsorted_bytes())?;
            }
        }
        Ok(())
    }

    /// Refuses what concerns a table that is closed, but that it is dropped.
    fn check_open(&self, batch: &NewBatch) -> Result<()> {
        let altered = batch.changes.iter().filter_map(|change| match change {
            Change::AlterTable { def, .. } => Some(def.id),
            _ => None,
        });
        let written = batch.rows.iter().map(|rows| rows.table).chain(batch.loads.iter().map(|load| load.table));
        written.chain(altered).try_for_each(|table| self.views.check_open(table))
    }

    /// Makes everything that was sequenced durable and visible.
    pub fn flush(&self) -> Result<()> {
        let last = {
            let sequencer = self.sequencer.lock();
            let version = sequencer.order.last();
            let ticket = self.log.ticket(version);
            Sequenced { version, duplicate: false, ticket, generation: sequencer.generation, passed_over: 0 }
        };
        self.finish(last)
    }

    /// What batches had staged, also acknowledged ones of [`Durability::Relaxed`], that are certainly not in the log and never will be;
    /// once.
    pub fn take_dropped(&self) -> Vec<StagedLoad> {
        std::mem::take(&mut *self.dropped.lock())
    }

    /// C1: gives the batch its version and its place in the log, and among those that wait if it has a `done`, which is
    /// taken then. If the log had failed for want of room, whoever meets that first makes it writable again, and this batch is refused.
    pub(crate) fn sequence(
        &self,
        batch: NewBatch,
        body: Vec<u8>,
        room: Option<TailRoom>,
        placing: Placing,
        done: Option<&mut Option<Done>>,
    ) -> Result<Sequenced> {
        self.check_open(&batch)?;
        let changes = Changes::new(&batch, &self.views.catalog(), &self.views)?;
        let batch = Prepared::new(batch, body.len() as u64, room)?;
        let locks = self.views.keys().locks(&changes.tables());
        let mut keys = locks.lock();
        let (mut sequencer, effects) = loop {
            let made_in = self.views.keys().generation();
            let effects = changes.resolve(&self.views, &mut keys, made_in).map_err(Error::from);
            let effects = effects.and_then(|effects| match &placing {
                Placing::Decided(_) => effects.refuse_new_keys(self.views.keys(), &mut keys),
                // Another has decided.
                Placing::Followed { .. } => Ok(effects),
            });
            let sequencer = self.sequencer.lock();
            // What was found in an index is worth nothing once batches were taken back, and that is done under this lock.
            if self.views.keys().generation() == made_in {
                break (sequencer, effects);
            }
        };
        // That of the failure: by the time it is handled, another may have handled it, and batches of the next one be on their way.
        let generation = sequencer.generation;
        let (sequenced, effects) = match self.sequence_locked(&mut sequencer, batch, body, placing, effects) {
            Ok((sequenced, effects)) => (Ok(sequenced), effects),
            Err(error) => (Err(error), None),
        };
        if let (Ok(sequenced), Some(done)) = (&sequenced, done) {
            *done = done.take().and_then(|taken| self.waiting.push(*sequenced, taken));
        }
        drop(sequencer);
        // Batches of other tables need not wait for a large one's keys.
        if let (Ok(sequenced), Some(effects)) = (&sequenced, effects) {
            effects.remember(sequenced.version, &mut keys);
        }
        drop(keys);
        if let Err(error) = &sequenced
            && error.kind() == ErrorKind::DiskFull
        {
            // The batch itself is refused for good, whatever becomes of those before it.
            if let Err(why) = self.drop_not_durable(generation) {
                let hint = format!("writes are refused until what is durable can be shown: {why}");
                return sequenced.map_err(|error| error.with_hint(hint));
            }
        }
        sequenced
    }

    fn sequence_locked(
        &self,
        sequencer: &mut Sequencer,
        prepared: Prepared,
        body: Vec<u8>,
        placing: Placing,
        effects: Result<Effects>,
    ) -> Result<(Sequenced, Option<Effects>)> {
        let generation = sequencer.generation;
        let decision = match placing {
            Placing::Decided(admitted) => {
                sequencer.order.decide(prepared.head(), self.views.clock().wall_micros(), admitted)?
            }
            Placing::Followed { version, commit_micros } => {
                Decision::Next(sequencer.order.follow(version, commit_micros, prepared.head().changes)?)
            }
        };
        let place = match decision {
            Decision::Next(place) => place,
            Decision::Duplicate(version) => {
                let ticket = self.log.ticket(version);
                return Ok((Sequenced { version, duplicate: true, ticket, generation, passed_over: 0 }, None));
            }
        };
        // After the definitions: by another one the keys would be others.
        let mut effects = effects?;
        let (version, passed_over) = (place.version, effects.passed_over);
        let mut published = prepared.published(&place, sequencer.order.catalog(), passed_over)?;
        published.keys = effects.take_fed();
        let ticket = self.log.append_owned(version, place.commit_micros, body)?;

        // From here on the batch is in the log's buffer: nothing may fail.
        self.views.kill(version, effects.take_kills(version));
        let info = &published.info;
        sequencer.order.accept(place, info.producer.as_ref(), info.key, info.rows, &info.tables);
        sequencer.pending.push_back(published);
        Ok((Sequenced { version, duplicate: false, ticket, generation, passed_over }, Some(effects)))
    }

    /// Waits until the batch is durable, and publishes it if nobody has yet.
    pub(crate) fn finish(&self, batch: Sequenced) -> Result<()> {
        self.finish_telling(batch, &mut |_| ())
    }

    /// The same; `taken` as of [`Log::sync_telling`].
    pub(crate) fn finish_telling(&self, batch: Sequenced, taken: &mut dyn FnMut(Version)) -> Result<()> {
        if let Err(error) = self.log.sync_telling(batch.ticket, taken) {
            if error.kind() == ErrorKind::DiskFull {
                self.drop_not_durable(batch.generation)?;
            }
            return Err(error);
        }
        if self.views.visible() < batch.version { self.publish_durable() } else { Ok(()) }
    }

    /// Publishes every pending batch that is durable, in order.
    fn publish_durable(&self) -> Result<()> {
        let _order = self.publisher.lock();
        let mut batches = {
            let mut sequencer = self.sequencer.lock();
            sequencer.take_through(self.log.durable())
        };
        let published = self.views.publish(&mut batches, false);
        // What could not be published is durable all the same: whoever comes next tries again.
        if published.is_err() {
            self.sequencer.lock().put_back(batches);
        }
        published
    }

    /// After a full disk, once for each failure: publishes what did become durable, drops the rest, and gives its versions
    /// out anew.
    fn drop_not_durable(&self, generation: u64) -> Result<()> {
        let _order = self.publisher.lock();
        let mut sequencer = self.sequencer.lock();
        if sequencer.generation != generation {
            return Ok(());
        }
        // The log takes nothing before versions are given out anew, and that follows what is visible.
        let durable = self.log.settle();
        let mut batches = sequencer.take_through(durable);
        if let Err(error) = self.views.publish(&mut batches, false) {
            sequencer.put_back(batches);
            return Err(error);
        }
        self.log.rewind();
        let (visible, catalog, producers) = self.views.committed();
        assert_eq!(visible, durable, "C2: what is durable is published");
        let taken_back: Vec<Published> = sequencer.pending.drain(..).collect();
        // If the log has failed for good since, only recovery can tell what is in it.
        if self.log.failure().is_none() {
            self.dropped.lock().extend(taken_back.into_iter().flat_map(|batch| batch.loads));
        }
        self.views.take_back(visible);
        sequencer.order.go_back(visible, catalog, producers);
        sequencer.generation += 1;
        Ok(())
    }
}

impl Sequencer {
    /// Takes the pending batches through a version.
    fn take_through(&mut self, version: Version) -> Vec<Published> {
        let count = self.pending.partition_point(|pending| pending.info.version <= version);
        self.pending.drain(..count).collect()
    }

    /// Gives back what was taken last.
    fn put_back(&mut self, batches: Vec<Published>) {
        batches.into_iter().rev().for_each(|batch| self.pending.push_front(batch));
    }
}
