//! Keeps a statement from taking the process with it.
//!
//! Invariants:
//! - Planning runs on a large stack: a plan is deeper than its statement (views of CTEs, rewrites), and a Rust stack
//!   overflow cannot be caught. What does not plan stays on the caller's stack: mapping a new one costs as much as a
//!   whole single-row INSERT. (`alluvia_syntax::tokens::depth` bounds what walking and dropping a statement's tree can need.)
//! - A panic while a statement plans or runs ends that statement with `Internal`, and nothing else.

use crate::errors::{error_of, is_overflow, overflow};
use alluvia_types::{Error, Result};
use alluvia_values::errors::wrap;
use datafusion::common::DataFusionError;
use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

/// What planning may use. Only touched pages cost memory.
const STACK_BYTES: usize = 64 << 20;
/// Below this much left, a poll moves to a new stack: more than a thread of an async runtime has, so the outermost poll
/// moves and those nested in it do not.
const RED_ZONE_BYTES: usize = 8 << 20;

/// Turns a panic into an error.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| of_panic(panic.as_ref()))
}

/// A defect, unless it is how Arrow tells that a column is too long.
fn of_panic(panic: &(dyn Any + Send)) -> Error {
    match panic_message(panic) {
        message if is_overflow(message) => overflow(),
        message => Error::internal(format!("the statement panicked: {message}")),
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// A future whose panic is its error. After that it must not be polled again, and it is not: a future that returned is
/// done.
pub(crate) struct Guarded<F> {
    inner: Pin<Box<F>>,
}

impl<F> Guarded<F> {
    /// Guards a future.
    pub(crate) fn new(inner: F) -> Guarded<F> {
        Guarded { inner: Box::pin(inner) }
    }
}

impl<T, F: Future<Output = Result<T>>> Future for Guarded<F> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        match guarded(|| self.inner.as_mut().poll(context)) {
            Ok(poll) => poll,
            Err(panicked) => Poll::Ready(Err(panicked)),
        }
    }
}

/// A future that is polled on a large stack.
pub(crate) struct LargeStack<F> {
    inner: Pin<Box<F>>,
}

impl<F> LargeStack<F> {
    /// Gives a future a large stack.
    pub(crate) fn new(inner: F) -> LargeStack<F> {
        LargeStack { inner: Box::pin(inner) }
    }
}

impl<F: Future> Future for LargeStack<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // The panic must not unwind through the switch of stacks.
        let polled = stacker::maybe_grow(RED_ZONE_BYTES, STACK_BYTES, || {
            catch_unwind(AssertUnwindSafe(|| self.inner.as_mut().poll(context)))
        });
        polled.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

/// As [`guarded`], for what returns DataFusion's errors.
pub(crate) fn guarded_poll<T>(
    work: impl FnOnce() -> Poll<Option<Result<T, DataFusionError>>>,
) -> Poll<Option<Result<T, DataFusionError>>> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(poll) => poll.map(|item| item.map(|result| result.map_err(|error| wrap(error_of(&error))))),
        Err(panic) => Poll::Ready(Some(Err(wrap(of_panic(panic.as_ref()))))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_types::ErrorKind;

    #[test]
    fn panics_become_errors() {
        let error = guarded(|| -> u8 { panic!("oh {}", "no") }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal);
        assert!(error.message().contains("oh no"));
        let error = guarded(|| -> u8 { panic!("byte array offset overflow") }).unwrap_err();
        assert_eq!((error.kind().sqlstate(), error.hint().is_some()), ("54000", true));
    }

    #[tokio::test]
    async fn planning_runs_on_a_large_stack() {
        fn deep(n: u64) -> u64 {
            let page = std::hint::black_box([n; 512]);
            if n == 0 { page[0] } else { deep(n - 1) + page[511].min(1) }
        }
        let depth = tokio::task::spawn(LargeStack::new(async {
            tokio::task::yield_now().await;
            deep(4_000)
        }));
        assert_eq!(depth.await.unwrap(), 4_000);
    }
}
