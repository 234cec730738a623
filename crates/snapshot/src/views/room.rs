//! Room in the tail, which a batch takes when it is let in.
//!
//! Invariants:
//! - A batch has its room before it has a version. It gives it back in the step in which its rows become the tail's, or when it is
//!   dropped.
//! - A batch that may not wait has room only where it would not wait for its turn ([`super::pace`]).
//! - So what is in the tail and what is on its way there take no more than the tail may, whatever an fsync takes.

use super::{State, Views};
use alluvia_types::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a writer waits for statements that hold rows which have left the tail.
const PINNED_WAIT_MAX: Duration = Duration::from_secs(10);

/// How long a writer that waits for its turn sleeps before it looks whether it need not wait any more.
const TURN_SLEEP_MAX: Duration = Duration::from_millis(10);

/// How long a batch waits for its turn at the most; then it waits for room.
const TURN_WAIT_MAX: Duration = Duration::from_secs(2);

/// Sizes of the tail.
#[derive(Clone, Copy, Debug)]
pub struct TailBounds {
    /// Where writers wait for a sort.
    pub bytes_max: u64,
    /// What one worker sorts at a time, about, where more waits than that.
    pub step_bytes: u64,
}

impl TailBounds {
    /// A tail that is sorted at once, whatever waits.
    pub fn unstepped(bytes_max: u64) -> TailBounds {
        TailBounds { bytes_max, step_bytes: u64::MAX }
    }

    /// Whether nobody need wait, where so much is taken.
    fn is_at_ease(&self, taken: u64) -> bool {
        taken <= self.bytes_max / 2
    }
}

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
    /// Takes room for `bytes` if there is some, and its turn is now: the tail has it, or is empty, and readers do not hold too much of what
    /// has left it.
    pub fn try_room(&self, bytes: u64) -> Option<TailRoom> {
        let state = self.state.read();
        let taken = state.tail_bytes + self.promised.load(Ordering::SeqCst);
        if !self.bounds.is_at_ease(taken) {
            drop(state);
            let mut pace = self.pace.lock();
            let now = self.clock.monotonic();
            if !pace.is_now(now) {
                return None;
            }
            let room = self.take_room(&self.state.read(), bytes).ok()?;
            pace.turn(now, bytes, taken + bytes, self.bounds.bytes_max);
            return Some(room);
        }
        self.take_room(&state, bytes).ok()
    }

    /// Waits for the turn of a batch, or until turns do not matter: there is much room, or none comes.
    fn wait_turn(&self, bytes: u64) {
        let does_matter = |state: &State| {
            let taken = state.tail_bytes + self.promised.load(Ordering::SeqCst);
            let matters = !self.bounds.is_at_ease(taken) && state.sorts.error().is_none();
            matters.then_some(taken)
        };
        let Some(taken) = does_matter(&self.state.read()) else { return };
        let (mut left, round) = {
            let mut pace = self.pace.lock();
            (pace.turn(self.clock.monotonic(), bytes, taken + bytes, self.bounds.bytes_max), pace.round())
        };
        left = left.min(TURN_WAIT_MAX);
        if left.is_zero() {
            return;
        }
        self.writers_waiting.fetch_add(1, Ordering::Relaxed);
        while !left.is_zero() {
            let sleep = left.min(TURN_SLEEP_MAX);
            std::thread::sleep(sleep);
            left -= sleep;
            if does_matter(&self.state.read()).is_none() {
                self.pace.lock().forget_turns();
            }
            if self.pace.lock().round() != round {
                break;
            }
        }
        self.writers_waiting.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn take_room(&self, state: &State, bytes: u64) -> Result<TailRoom, Lack> {
        let mut promised = self.promised.load(Ordering::SeqCst);
        loop {
            if let Some(lack) = state.lack(bytes, promised, self.bounds.bytes_max) {
                return Err(lack);
            }
            let taken = promised + bytes;
            match self.promised.compare_exchange_weak(promised, taken, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return Ok(TailRoom { bytes, promised: Arc::clone(&self.promised) }),
                Err(changed) => promised = changed,
            }
        }
    }

    /// Waits for a turn, and until there is room as [`Views::try_room`] says, and takes it. What makes room in the tail is
    /// the pipeline; what readers hold is given back when their statements end, which may depend on this very batch: so the
    /// wait for them is bounded, and then the batch is refused. What is not visible yet `flush` makes so: nobody else may be about to,
    /// where batches are acknowledged before they are durable.
    pub fn wait_room(&self, bytes: u64, flush: &mut dyn FnMut() -> Result<()>) -> Result<TailRoom> {
        self.wait_turn(bytes);
        if let Ok(room) = self.take_room(&self.state.read(), bytes) {
            return Ok(room);
        }
        let mut pinned_since = None;
        let mut is_flushed = false;
        loop {
            self.writers_waiting.fetch_add(1, Ordering::Relaxed);
            let found = self.wait_until(|state| {
                let now = self.clock.monotonic();
                match (self.take_room(state, bytes), state.sorts.error()) {
                    (Ok(room), _) => Some(Ok(Some(room))),
                    (Err(Lack::Full), Some(error)) => Some(Err(Error::new(error.kind(), error.message())
                        .at("the tail is full and the pipeline cannot empty it")
                        .with_hint(error.hint().unwrap_or("see alluvia.settings and the server's log")))),
                    (Err(Lack::Full), None) => {
                        pinned_since = None;
                        None
                    }
                    (Err(Lack::Promised), _) => {
                        pinned_since = None;
                        // After a flush others may have taken the room that it made, and not be in the log yet: one change is waited for.
                        let is_to_flush = !std::mem::take(&mut is_flushed);
                        is_to_flush.then_some(Ok(None))
                    }
                    (Err(Lack::Pinned(held)), _) => {
                        let since = *pinned_since.get_or_insert(now);
                        (now.saturating_sub(since) >= PINNED_WAIT_MAX).then(|| Err(pinned_too_much(held)))
                    }
                }
            });
            self.writers_waiting.fetch_sub(1, Ordering::Relaxed);
            if let Some(room) = found? {
                return Ok(room);
            }
            flush()?;
            is_flushed = true;
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
