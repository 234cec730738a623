//! Room in the tail, which a batch takes when it is let in.
//!
//! Invariants:
//! - A batch has its room before it has a version. It gives it back in the step in which its rows become the tail's, or when it is
//!   dropped.
//! - So what is in the tail and what is on its way there take no more than the tail may, whatever an fsync takes.

use super::{State, Views};
use alluvia_types::{Error, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Room for the rows of one batch, as long as they are not visible.
#[derive(Debug)]
pub struct TailRoom {
    bytes: u64,
    promised: Arc<AtomicU64>,
}

impl Drop for TailRoom {
    fn drop(&mut self) {
        self.promised.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

/// Why a batch has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    /// The tail is full.
    Full,
    /// It would be, with batches that are not visible yet.
    Promised,
    /// Running statements hold so many bytes of rows that have left the tail.
    Pinned(u64),
}

impl State {
    /// What keeps a batch of so many bytes out, where others that are not visible yet have `promised` bytes.
    fn lack(&self, bytes: u64, promised: u64, tail_bytes_max: u64) -> Option<Lack> {
        let is_over = |taken: u64| taken > 0 && taken + bytes > tail_bytes_max;
        if is_over(self.tail_bytes + promised) {
            return Some(if is_over(self.tail_bytes) { Lack::Full } else { Lack::Promised });
        }
        match self.pinned.lock().bytes() {
            0 => None,
            held => (held + bytes > tail_bytes_max).then_some(Lack::Pinned(held)),
        }
    }
}

impl Views {
    /// Takes room for `bytes` if there is some: the tail has it, or is empty, and readers do not hold too much of what has left it.
    pub fn try_room(&self, bytes: u64) -> Option<TailRoom> {
        self.take_room(&self.state.read(), bytes).ok()
    }

    pub(super) fn take_room(&self, state: &State, bytes: u64) -> Result<TailRoom, Lack> {
        let mut promised = self.promised.load(Ordering::SeqCst);
        loop {
            if let Some(lack) = state.lack(bytes, promised, self.tail_bytes_max) {
                return Err(lack);
            }
            let taken = promised + bytes;
            match self.promised.compare_exchange_weak(promised, taken, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return Ok(TailRoom { bytes, promised: Arc::clone(&self.promised) }),
                Err(changed) => promised = changed,
            }
        }
    }

    /// Bytes of all rows that were let in and are in no segment yet.
    pub fn unsorted_bytes(&self) -> u64 {
        // Under the lock, so that a batch which becomes visible meanwhile is seen here or there.
        let state = self.state.read();
        state.tail_bytes + self.promised.load(Ordering::SeqCst)
    }
}

pub(super) fn pinned_too_much(held: u64) -> Error {
    let held = held >> 20;
    Error::new(ErrorKind::OutOfMemory, format!("running statements hold {held} MiB of rows that have left the tail"))
        .with_hint("end them (alluvia.queries shows what runs), or write again once they are done")
}
