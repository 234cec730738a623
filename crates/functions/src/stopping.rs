//! What long work asks whether its statement is to stop.
//!
//! Invariants:
//! - Work asks its thread, and whoever runs a statement's work on a thread says beforehand which statement it is ([`StopCheck::within`]): operators
//!   at each poll, planning once. So a function need not be handed anything, and asks nothing where nobody says so.
//! - What was said holds until the work returns, also where it panics: the thread is used again.
//!
//! To ask costs some ten nanoseconds. Work that may take more than some milliseconds asks every so many rows.

use datafusion_common::Result;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

/// Steps of some hundred nanoseconds after which work asks again.
const STEPS: usize = 1_024;

const ASKED_BYTES: usize = 64 << 10;
const ROW_BYTES: usize = 64;

/// Fails once its statement is to stop.
#[derive(Clone)]
pub struct StopCheck(Arc<dyn Fn() -> Result<()> + Send + Sync>);

thread_local! {
    /// What is asked by the work of this thread.
    static CURRENT: RefCell<Option<StopCheck>> = const { RefCell::new(None) };
}

impl StopCheck {
    /// By what fails once the statement is to stop, with the error that the statement ends with.
    pub fn new(check: impl Fn() -> Result<()> + Send + Sync + 'static) -> StopCheck {
        StopCheck(Arc::new(check))
    }

    /// Asks.
    pub fn check(&self) -> Result<()> {
        (self.0)()
    }

    /// Does work of its statement on this thread. Within such work this is nothing but the work.
    pub fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        let is_outermost = CURRENT.with_borrow_mut(|current| {
            let is_outermost = current.is_none();
            current.get_or_insert_with(|| self.clone());
            is_outermost
        });
        // What is made and not kept is dropped, and resets.
        let _until_then = if is_outermost { Some(Reset) } else { None };
        work()
    }
}

/// Ends what was said.
struct Reset;

impl Drop for Reset {
    fn drop(&mut self) {
        CURRENT.with_borrow_mut(|current| *current = None);
    }
}

/// Fails once the statement that this thread works for is to stop.
pub fn check() -> Result<()> {
    CURRENT.with_borrow(|current| current.as_ref().map_or(Ok(()), StopCheck::check))
}

/// The same at every thousandth step or so.
pub fn check_at(step: usize) -> Result<()> {
    if step.is_multiple_of(STEPS) { check() } else { Ok(()) }
}

/// What the statement that this thread works for is asked, if it works for one.
pub fn current() -> Option<StopCheck> {
    CURRENT.with_borrow(Clone::clone)
}

/// Counts what work does in bytes, and asks every so many.
#[derive(Clone, Copy, Debug, Default)]
pub struct Worked(usize);

impl Worked {
    /// So many more bytes were looked at.
    pub fn add(&mut self, bytes: usize) -> Result<()> {
        // A row costs something, however short it is.
        self.0 += bytes + ROW_BYTES;
        if self.0 < ASKED_BYTES {
            return Ok(());
        }
        self.0 = 0;
        check()
    }
}

impl fmt::Debug for StopCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StopCheck").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion_common::exec_err;
    use std::panic::AssertUnwindSafe;

    #[test]
    fn work_asks_for_its_own_statement_and_nothing_is_left_behind() {
        assert!(check().is_ok() && current().is_none());
        let (stopped, other) = (StopCheck::new(|| exec_err!("stopped")), StopCheck::new(|| Ok(())));
        stopped.within(|| {
            assert!(check().is_err());
            other.within(|| assert!(check().is_err(), "it is work of the first"));
            assert!(current().is_some());
        });
        let panicked = std::panic::catch_unwind(AssertUnwindSafe(|| stopped.within(|| panic!("oh no"))));
        assert!(panicked.is_err() && check().is_ok() && current().is_none());
        other.within(|| assert!(check().is_ok()));
    }
}
