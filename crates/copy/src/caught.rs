//! Panics of the libraries that read Arrow and Parquet.
//!
//! What they read is checked before ([`crate::arrow_message`], [`crate::parquet_check`]). What no check has foreseen ends as an error of the
//! input, as any other damage does.
//!
//! Invariant: such a panic is neither told on standard error, where it would pass for a defect of the database, nor does it take a thread
//! with it. A panic anywhere else is told as ever.

use arrow::error::ArrowError;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

/// What is told of such a panic.
pub(crate) const SENSELESS: &str = "a description in it makes no sense";

thread_local! {
    /// How many calls of [`contained`] this thread is within.
    static WITHIN: Cell<usize> = const { Cell::new(0) };
}

/// Counts the way in and out, whichever way that is.
struct Within;

impl Within {
    fn enter() -> Within {
        WITHIN.with(|depth| depth.set(depth.get() + 1));
        Within
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        WITHIN.with(|depth| depth.set(depth.get() - 1));
    }
}

/// Lets the process's hook have all panics but those within [`contained`].
fn silence() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let told = take_hook();
        set_hook(Box::new(move |panicked| {
            if WITHIN.try_with(Cell::get).unwrap_or_default() == 0 {
                told(panicked);
            }
        }));
    });
}

/// Whether this thread is within such a call.
#[cfg(test)]
pub(crate) fn is_within() -> bool {
    WITHIN.with(Cell::get) > 0
}

/// What such a library does; `None` if it panics: it has not foreseen every description of a column.
pub(crate) fn contained<T>(work: impl FnOnce() -> T) -> Option<T> {
    silence();
    let _within = Within::enter();
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// As [`contained`], for what returns errors of Arrow.
pub fn caught<T>(work: impl FnOnce() -> Result<T, ArrowError>) -> Result<T, ArrowError> {
    contained(work).unwrap_or_else(|| Err(ArrowError::ParseError(SENSELESS.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error() {
        let panics = || caught(|| -> Result<(), ArrowError> { panic!("{}", "oh") });
        assert!(panics().unwrap_err().to_string().contains("makes no sense"));
        assert_eq!(WITHIN.with(Cell::get), 0);
        assert_eq!(caught(|| caught(|| Ok(7))).unwrap(), 7);
        assert!(caught(|| Err::<(), _>(ArrowError::DivideByZero)).is_err());
    }
}
