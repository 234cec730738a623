//! Waiting for the engine from a Python thread.
//!
//! Invariants:
//! - The interpreter is detached while the future runs, which it does on this thread and the runtime's.
//! - Signals are looked at every [`LOOK`]; what they raise (KeyboardInterrupt) stops the work and is what the caller gets. A statement
//!   that is stopped is waited for, since whether it committed must be known; a stream of rows is simply no longer read.

use crate::back::Stopper;
use crate::errors::OrRaise;
use alluvia_types::Result;
use pyo3::prelude::*;
use std::pin::pin;
use std::time::Duration;
use tokio::runtime::Handle;

/// How often a waiting thread looks for signals, and tells how far the work is.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// What is looked at while waiting, beside signals; an exception stops the work.
pub(crate) type Look<'a> = &'a mut dyn FnMut(Python<'_>) -> PyResult<()>;

/// What calls a Python function, if there is one.
pub(crate) fn look_of<'a, 'py>(look: &'a Option<Bound<'py, PyAny>>) -> impl FnMut(Python<'_>) -> PyResult<()> {
    move |_| look.as_ref().map_or(Ok(()), |look| look.call0().map(drop))
}

/// Runs a statement to its end. `cancel` is its session's; what it was asked to stop before is not this.
pub(crate) fn finish<T: Send>(
    py: Python<'_>,
    runtime: &Handle,
    cancel: &Stopper,
    look: Look<'_>,
    work: impl Future<Output = Result<T>> + Send,
) -> PyResult<T> {
    let work = async {
        cancel.heard().await;
        work.await
    };
    wait(py, runtime, Some(cancel), look, work)?.or_raise(py)
}

/// Waits for the end of a statement that fails, whatever becomes of it; Ctrl-C stops it, and is what is raised then.
pub(crate) fn end<T: Send>(
    py: Python<'_>,
    runtime: &Handle,
    cancel: &Stopper,
    work: impl Future<Output = T> + Send,
) -> PyResult<()> {
    wait(py, runtime, Some(cancel), &mut |_| Ok(()), work).map(drop)
}

/// Runs work that may be dropped at any time.
pub(crate) fn droppable<T: Send>(
    py: Python<'_>,
    runtime: &Handle,
    look: Look<'_>,
    work: impl Future<Output = T> + Send,
) -> PyResult<T> {
    wait(py, runtime, None, look, work)
}

fn wait<T: Send>(
    py: Python<'_>,
    runtime: &Handle,
    cancel: Option<&Stopper>,
    look: Look<'_>,
    work: impl Future<Output = T> + Send,
) -> PyResult<T> {
    let mut work = pin!(work);
    let mut raised = None;
    loop {
        let polled = work.as_mut();
        let done = py.detach(|| runtime.block_on(async { tokio::time::timeout(LOOK, polled).await }));
        match (done, raised.take()) {
            (Ok(_), Some(raised)) => return Err(raised),
            (Ok(done), None) => return Ok(done),
            (Err(_), Some(before)) => {
                // The first time it may have waited for its turn, or been between two statements of a script.
                if let Some(cancel) = cancel {
                    cancel.cancel();
                }
                raised = Some(before);
            }
            (Err(_), None) => {
                if let Err(error) = py.check_signals().and_then(|()| look(py)) {
                    match cancel {
                        Some(cancel) => cancel.cancel(),
                        None => return Err(error),
                    }
                    raised = Some(error);
                }
            }
        }
    }
}
