//! A value that one thread at a time uses.
//!
//! Invariants:
//! - Who uses it has it out of its place, so that no lock is held while the engine works; another one is told so.
//! - Closing empties the place; who has it out drops what he brings back.

use crate::errors::misuse;
use alluvia_types::Result;
use parking_lot::Mutex;

enum Slot<T> {
    /// Nobody uses it.
    Here(Box<T>),
    /// Somebody uses it.
    Away,
    Closed,
}

/// Something that one thread at a time uses, until it is closed.
pub(crate) struct Exclusive<T> {
    /// What it is called in errors.
    what: &'static str,
    place: Mutex<Slot<T>>,
}

impl<T> Exclusive<T> {
    /// `value`, which errors call `what`.
    pub(crate) fn new(what: &'static str, value: T) -> Exclusive<T> {
        Exclusive { what, place: Mutex::new(Slot::Here(Box::new(value))) }
    }

    /// Takes it out of its place. Whoever does so brings it back, or closes.
    pub(crate) fn take_out(&self) -> Result<Box<T>> {
        let mut place = self.place.lock();
        match std::mem::replace(&mut *place, Slot::Away) {
            Slot::Here(value) => Ok(value),
            Slot::Away => Err(misuse(format!("another thread is reading this {}", self.what))
                .with_hint("give each thread one of its own")),
            Slot::Closed => {
                *place = Slot::Closed;
                Err(self.closed())
            }
        }
    }

    /// Puts it back, unless it was closed meanwhile.
    pub(crate) fn bring_back(&self, value: Box<T>) {
        let mut place = self.place.lock();
        if matches!(*place, Slot::Away) {
            *place = Slot::Here(value);
        }
    }

    /// Lets go of it.
    pub(crate) fn close(&self) {
        let before = std::mem::replace(&mut *self.place.lock(), Slot::Closed);
        drop(before);
    }

    /// Whoever uses it stops when somebody else closes.
    pub(crate) fn check_open(&self) -> Result<()> {
        if matches!(*self.place.lock(), Slot::Closed) { Err(self.closed()) } else { Ok(()) }
    }

    fn closed(&self) -> alluvia_types::Error {
        misuse(format!("the {} is closed", self.what))
    }
}
