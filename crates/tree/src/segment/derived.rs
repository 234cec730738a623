//! Values that rooms above compute of a segment, kept beside the segment while the pool has room.
//!
//! Invariants:
//! - A value is found by its type and a number (that of a measure, say): of each there is one, whoever asks first makes
//!   it, and nobody makes it twice at a time.
//! - A value follows from the segment alone: one that was evicted is made again.

use super::Segment;
use crate::context::Slot;
use alluvia_types::Result;
use parking_lot::Mutex;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

/// The slots of values by type and number.
#[derive(Debug, Default)]
pub(super) struct Derived {
    slots: Mutex<HashMap<(TypeId, usize), Arc<dyn Any + Send + Sync>>>,
}

impl Derived {
    fn slot<T: Send + Sync + 'static>(&self, number: usize) -> Arc<Slot<T>> {
        let mut slots = self.slots.lock();
        let slot = slots.entry((TypeId::of::<T>(), number)).or_insert_with(|| Arc::new(Slot::<T>::default()));
        Arc::clone(slot).downcast().expect("a slot is of the type that it is found by")
    }
}

impl Segment {
    /// The value of this type and number, if it is held.
    pub(super) fn held<T: Send + Sync + 'static>(&self, number: usize) -> Option<Arc<T>> {
        Slot::held(&self.derived.slot(number))
    }

    /// The value of this type and number; if it is not held, `load` makes it and says how many bytes it takes.
    pub(crate) fn derived<T: Send + Sync + 'static>(
        &self,
        number: usize,
        load: impl FnOnce() -> Result<(T, u64)>,
    ) -> Result<Arc<T>> {
        Slot::get(&self.derived.slot(number), &self.context.pool, load)
    }
}
