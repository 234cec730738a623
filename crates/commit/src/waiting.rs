//! Batches that wait for their fsync without a thread each.
//!
//! A writer that blocks costs a thread and two switches between threads for every batch; with tens of thousands of small
//! batches a second that is most of their cost. So a small batch is only sequenced by its writer and put into a queue; a
//! few threads ([`Committer::serve`]) make the queue durable and call each batch's `done`.
//!
//! One of these threads at a time *gathers*: it waits until the log takes the group that is filling, and answers for all batches that got
//! into it. The next one is woken when that has happened and there is something new, and not for each batch: so a batch costs no switch
//! between threads but its share of its group's.
//!
//! Invariants:
//! - `done` is called exactly once, after the batch is durable and visible (C2) or refused.
//! - Entries leave the queue from the front, in the order in which they were sequenced, and only by a thread whose own wait
//!   for a later entry has ended.
//! - An entry is acknowledged by another's outcome only if its version is of the same generation and not later. After a full
//!   disk versions are given out anew, so an entry of another generation asks for the outcome of its own ticket.
//! - While there are entries that no thread waits for, one gathers, or is on its way to the queue.

use crate::committer::{Committer, Sequenced};
use alluvia_snapshot::{Committed, Done};
use alluvia_types::Version;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::time::Duration;

/// The queue, and the threads that wait for it to have something new.
#[derive(Default)]
pub(crate) struct WaitingBatches {
    queue: Mutex<Queue>,
    grown: Condvar,
}

#[derive(Default)]
struct Queue {
    /// Whether some threads serve it.
    is_served: bool,
    entries: VecDeque<Entry>,
    /// How many have ever been put in; the place of the last one.
    last: u64,
    /// The place through which some thread already waits.
    served: u64,
    /// Whether a thread gathers.
    is_gathering: bool,
    /// Whether a thread was woken to gather, and has not come yet.
    is_summoned: bool,
}

struct Entry {
    place: u64,
    batch: Sequenced,
    done: Done,
}

impl std::fmt::Debug for WaitingBatches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WaitingBatches").field("entries", &self.queue.lock().entries.len()).finish()
    }
}

impl WaitingBatches {
    /// Whether some threads serve the queue.
    pub(crate) fn is_served(&self) -> bool {
        self.queue.lock().is_served
    }

    /// Adds a batch; gives `done` back when nobody serves the queue any more. Call it under the sequencer's lock: the order
    /// is the order of versions.
    pub(crate) fn push(&self, batch: Sequenced, done: Done) -> Option<Done> {
        let mut queue = self.queue.lock();
        if !queue.is_served {
            return Some(done);
        }
        queue.last += 1;
        let place = queue.last;
        queue.entries.push_back(Entry { place, batch, done });
        self.summon(&mut queue);
        None
    }

    /// Wakes a thread for what is new, unless one gathers or is coming.
    fn summon(&self, queue: &mut Queue) {
        if !queue.is_gathering && !queue.is_summoned {
            queue.is_summoned = self.grown.notify_one();
        }
    }

    /// Begins to gather: the newest entry, if no thread waits for it yet. `None` if there was none for so long.
    fn gather(&self, patience: Duration) -> Option<Gathering<'_>> {
        let mut queue = self.queue.lock();
        if queue.is_gathering || queue.served == queue.last {
            self.grown.wait_for(&mut queue, patience);
        }
        queue.is_summoned = false;
        if queue.is_gathering || queue.served == queue.last {
            return None;
        }
        let (place, newest) = queue.entries.back().map(|entry| (entry.place, entry.batch))?;
        queue.served = queue.last;
        queue.is_gathering = true;
        Some(Gathering { waiting: self, place, newest, is_over: false })
    }

    /// Takes the entries through a place.
    fn take_through(&self, place: u64) -> Vec<Entry> {
        let mut queue = self.queue.lock();
        let count = queue.entries.partition_point(|entry| entry.place <= place);
        queue.entries.drain(..count).collect()
    }
}

/// What one thread waits for on behalf of all.
struct Gathering<'a> {
    waiting: &'a WaitingBatches,
    /// Of the last entry whose batch its wait decides.
    place: u64,
    newest: Sequenced,
    /// Whether another may gather.
    is_over: bool,
}

impl Gathering<'_> {
    /// The group is taken; `through` is its last version.
    fn taken(&mut self, through: Version) {
        let mut queue = self.waiting.queue.lock();
        // A duplicate has its first copy's version, whatever its place.
        let is_in_group = |entry: &&Entry| {
            let Sequenced { version, duplicate, generation, .. } = entry.batch;
            !duplicate && generation == self.newest.generation && version <= through
        };
        if let Some(last) = queue.entries.iter().rev().find(is_in_group)
            && last.place > self.place
        {
            (self.place, self.newest) = (last.place, last.batch);
        }
        queue.served = queue.served.max(self.place);
        self.release(&mut queue);
    }

    /// Lets another gather.
    fn release(&mut self, queue: &mut Queue) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        queue.is_gathering = false;
        if queue.served < queue.last {
            self.waiting.summon(queue);
        }
    }
}

impl Drop for Gathering<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let waiting = self.waiting;
            self.release(&mut waiting.queue.lock());
        }
    }
}

impl Committer {
    /// States whether threads call [`Committer::serve`] from now on. After the last has stopped doing so, call `serve` once
    /// more for what it left.
    pub fn set_served(&self, is_served: bool) {
        self.waiting().queue.lock().is_served = is_served;
        self.waiting().grown.notify_all();
    }

    /// Makes the queue durable and visible as far as it goes now and answers its batches; waits at most `patience` for the
    /// queue to have something new. Several threads may call this; their fsyncs overlap as the log allows.
    pub fn serve(&self, patience: Duration) {
        let Some(mut gathering) = self.waiting().gather(patience) else { return };
        let newest = gathering.newest;
        let result = self.finish_telling(newest, &mut |through| gathering.taken(through));
        let Gathering { place, newest, .. } = gathering;
        drop(gathering);
        for entry in self.waiting().take_through(place) {
            // A duplicate has its first copy's version: what was sequenced before it may have a later one.
            let is_covered = entry.batch.generation == newest.generation && entry.batch.version <= newest.version;
            let result = if is_covered && result.is_ok() { Ok(()) } else { self.finish(entry.batch) };
            let Sequenced { version, duplicate, passed_over, .. } = entry.batch;
            (entry.done)(result.map(|()| Committed { version, duplicate, passed_over }));
        }
    }
}
