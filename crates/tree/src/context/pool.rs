//! A bound on what all open segments keep loaded.
//!
//! Invariants:
//! - The pool's sum is the size of every value that a slot holds; it exceeds the bound only by the value just loaded.
//! - Evicting never invalidates: readers hold an `Arc`, and the next reader loads the value again.
//!
//! Second-chance (CLOCK) order: a slot that was read since the hand passed it survives once more.

use alluvia_types::Result;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// Bounds the bytes held by [`Slot`]s.
pub(crate) struct Pool {
    bytes_max: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    bytes: u64,
    hand: VecDeque<(Weak<dyn Evict>, u64)>,
}

trait Evict: Send + Sync {
    /// Whether it was used since last asked.
    fn used(&self) -> bool;
    fn empty(&self);
}

/// A value that can be loaded again, held while there is room.
pub(crate) struct Slot<T> {
    value: Mutex<Option<Arc<T>>>,
    used: AtomicBool,
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Slot { value: Mutex::new(None), used: AtomicBool::new(false) }
    }
}

impl<T: Send + Sync> Evict for Slot<T> {
    fn used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    fn empty(&self) {
        *self.value.lock() = None;
    }
}

impl<T: Send + Sync + 'static> Slot<T> {
    /// The value, if it is held.
    pub(crate) fn held(slot: &Arc<Slot<T>>) -> Option<Arc<T>> {
        slot.used.store(true, Ordering::Relaxed);
        slot.value.lock().clone()
    }

    /// The value, loaded if it is not held. `load` returns it with its size in bytes; two readers never load at once.
    pub(crate) fn get(slot: &Arc<Slot<T>>, pool: &Pool, load: impl FnOnce() -> Result<(T, u64)>) -> Result<Arc<T>> {
        let (loaded, bytes) = {
            let mut value = slot.value.lock();
            slot.used.store(true, Ordering::Relaxed);
            if let Some(value) = &*value {
                return Ok(Arc::clone(value));
            }
            let (loaded, bytes) = load()?;
            let loaded = Arc::new(loaded);
            *value = Some(Arc::clone(&loaded));
            (loaded, bytes)
        };
        // Outside the slot's lock: evicting takes the locks of other slots, or of this one.
        pool.admit(Arc::downgrade(slot) as Weak<dyn Evict>, bytes);
        Ok(loaded)
    }
}

impl Pool {
    pub(crate) fn new(bytes_max: u64) -> Pool {
        Pool { bytes_max, state: Mutex::default() }
    }

    /// The bound.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Bytes held now, counting values of dropped segments until the hand meets them.
    pub(crate) fn bytes(&self) -> u64 {
        self.state.lock().bytes
    }

    fn admit(&self, slot: Weak<dyn Evict>, bytes: u64) {
        let mut evicted = Vec::new();
        let mut state = self.state.lock();
        // Each slot is passed at most twice: once to clear its mark, once to take it.
        let mut passes = 2 * state.hand.len();
        while state.bytes + bytes > self.bytes_max && passes > 0 {
            passes -= 1;
            let Some((candidate, size)) = state.hand.pop_front() else { break };
            match candidate.upgrade() {
                Some(held) if held.used() => state.hand.push_back((candidate, size)),
                Some(held) => {
                    state.bytes -= size;
                    evicted.push(held);
                }
                None => state.bytes -= size,
            }
        }
        state.bytes += bytes;
        state.hand.push_back((slot, bytes));
        drop(state);
        evicted.iter().for_each(|held| held.empty());
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("bytes", &self.bytes()).field("bytes_max", &self.bytes_max).finish()
    }
}

impl<T> fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("held", &self.value.lock().is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pool_evicts_what_was_not_used_and_loads_it_again() {
        let pool = Pool::new(100);
        let slots: Vec<Arc<Slot<usize>>> = (0..20).map(|_| Arc::default()).collect();
        for (at, slot) in slots.iter().enumerate() {
            assert_eq!(*Slot::get(slot, &pool, || Ok((at, 30))).expect("loads"), at);
            assert!(pool.bytes() <= 100);
        }
        let held = slots.iter().filter(|slot| slot.value.lock().is_some()).count();
        assert_eq!(held, 3);
        let mut loads = 0;
        for _ in 0..3 {
            Slot::get(&slots[0], &pool, || {
                loads += 1;
                Ok((0, 30))
            })
            .expect("loads");
        }
        assert_eq!(loads, 1);
    }

    #[test]
    fn pool_forgets_slots_that_are_gone() {
        let pool = Pool::new(100);
        for _ in 0..50 {
            let slot: Arc<Slot<u8>> = Arc::default();
            Slot::get(&slot, &pool, || Ok((1, 40))).expect("loads");
        }
        assert!(pool.bytes() <= 100);
    }
}
