//! Batches that wait for their fsync without a thread each.
//!
//! A writer that blocks costs a thread and two switches between threads for every batch; with tens of thousands of small
//! batches a second that is most of their cost. So a small batch is only sequenced by its writer and put into a queue; a
//! few threads ([`Committer::serve`]) make the queue durable and call each batch's `done`.
//!
//! Invariants:
//! - `done` is called exactly once, after the batch is durable and visible (C2) or refused.
//! - Entries leave the queue from the front, in the order in which they were sequenced, and only by a thread whose own wait
//!   for a later entry has ended.
//! - An entry is acknowledged by another's outcome only if its version is of the same generation and not later. After a full
//!   disk versions are given out anew, so an entry of another generation asks for the outcome of its own ticket.

use crate::committer::{Committer, Sequenced};
use alluvia_snapshot::{Committed, Done};
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
        drop(queue);
        self.grown.notify_one();
        None
    }

    /// The newest entry that no thread waits for yet, and its place; this thread now does. `None` if there was none for so
    /// long.
    fn claim(&self, patience: Duration) -> Option<(u64, Sequenced)> {
        let mut queue = self.queue.lock();
        if queue.served == queue.last {
            self.grown.wait_for(&mut queue, patience);
        }
        if queue.served == queue.last {
            return None;
        }
        queue.served = queue.last;
        queue.entries.back().map(|entry| (entry.place, entry.batch))
    }

    /// Takes the entries through a place.
    fn take_through(&self, place: u64) -> Vec<Entry> {
        let mut queue = self.queue.lock();
        let count = queue.entries.partition_point(|entry| entry.place <= place);
        queue.entries.drain(..count).collect()
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
        let Some((place, newest)) = self.waiting().claim(patience) else { return };
        let result = self.finish(newest);
        for entry in self.waiting().take_through(place) {
            // A duplicate has its first copy's version: what was sequenced before it may have a later one.
            let is_covered = entry.batch.generation == newest.generation && entry.batch.version <= newest.version;
            let result = if is_covered && result.is_ok() { Ok(()) } else { self.finish(entry.batch) };
            let Sequenced { version, duplicate, .. } = entry.batch;
            (entry.done)(result.map(|()| Committed { version, duplicate }));
        }
    }
}
