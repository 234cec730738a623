//! What the rows of one session's temporary tables take in memory.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a whole database may hold in memory, beside its tables.
pub trait MemoryBound: Debug + Send + Sync {
    /// Counts so many bytes, if there is room.
    fn try_take(&self, bytes: u64) -> bool;
    /// Counts so many bytes, whether there is room or not: of what is there already.
    fn take(&self, bytes: u64);
    /// Counts them no longer.
    fn give_back(&self, bytes: u64);
}

/// What one session's temporary tables hold in memory.
#[derive(Debug)]
pub struct TemporaryMemory {
    bound: Arc<dyn MemoryBound>,
    held: AtomicU64,
}

/// Bytes that are counted until this is dropped.
#[derive(Debug)]
pub struct Taken {
    memory: Arc<TemporaryMemory>,
    bytes: u64,
}

impl TemporaryMemory {
    /// Nothing yet.
    pub fn new(bound: Arc<dyn MemoryBound>) -> Arc<TemporaryMemory> {
        Arc::new(TemporaryMemory { bound, held: AtomicU64::new(0) })
    }

    /// Bytes that are held.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// So many bytes more, if all of them are then at most `most`, and the database has them.
    pub fn try_take(self: &Arc<Self>, bytes: u64, most: u64) -> Option<Taken> {
        let fits = self.held().checked_add(bytes).is_some_and(|held| held <= most);
        (fits && self.bound.try_take(bytes)).then(|| self.taken(bytes))
    }

    /// Counts what is there in any case.
    pub(super) fn take(self: &Arc<Self>, bytes: u64) -> Taken {
        self.bound.take(bytes);
        self.taken(bytes)
    }

    fn taken(self: &Arc<Self>, bytes: u64) -> Taken {
        self.held.fetch_add(bytes, Ordering::Relaxed);
        Taken { memory: Arc::clone(self), bytes }
    }
}

impl Taken {
    /// Nothing.
    pub(super) fn nothing(memory: &Arc<TemporaryMemory>) -> Taken {
        memory.taken(0)
    }

    /// How many.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// So many of them by themselves.
    pub(super) fn split(&mut self, bytes: u64) -> Taken {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Taken { memory: Arc::clone(&self.memory), bytes }
    }

    /// Both together.
    pub(super) fn add(&mut self, mut other: Taken) {
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Keeps so many of them at most.
    pub(super) fn shrink_to(&mut self, bytes: u64) {
        let back = self.bytes.saturating_sub(bytes);
        self.bytes -= back;
        self.memory.give_back(back);
    }
}

impl TemporaryMemory {
    fn give_back(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
        self.bound.give_back(bytes);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.memory.give_back(self.bytes);
    }
}
