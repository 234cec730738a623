//! Waiting for the engine from a Python thread.
//!
//! Invariants:
//! - The interpreter is detached while the future runs, which it does on this thread and the runtime's.
//! - This thread wakes up by a timer of its own: the runtime's stand still for as long as all of its threads compute, and that is when
//!   Ctrl-C and progress are wanted most.
//! - Signals are looked at every [`LOOK`]; what they raise (KeyboardInterrupt) stops the work and is what the caller gets. A statement
//!   that is stopped is waited for, since whether it committed must be known; a stream of rows is simply no longer read.

use crate::backend::Stopper;
use crate::errors::OrRaise;
use alluvia_types::Result;
use pyo3::prelude::*;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};

/// How often a waiting thread looks for signals, and tells how far the work is.
const LOOK: Duration = Duration::from_millis(50);

thread_local! {
    /// Has this thread's timer, and nothing else: tasks belong to the database's runtime.
    static TIMER: Option<Runtime> = Builder::new_current_thread().enable_time().build().ok();
}

/// Runs `work` on this thread, as `runtime` does, until it is time for a look: then nothing is given, and it can be gone on with.
pub(crate) fn until_look<F: Future>(runtime: &Handle, mut work: Pin<&mut F>) -> Option<F::Output> {
    let work = poll_fn(move |context| {
        // What it spawns, and the timers that it sets, are the runtime's.
        let _runtime = runtime.enter();
        work.as_mut().poll(context)
    });
    TIMER.with(|timer| match timer {
        Some(timer) => timer.block_on(async { tokio::time::timeout(LOOK, work).await.ok() }),
        // A machine that refuses even that: looks come when the runtime has time for them.
        None => runtime.block_on(async { tokio::time::timeout(LOOK, work).await.ok() }),
    })
}

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
        let done = py.detach(|| until_look(runtime, polled));
        match (done, raised.take()) {
            (Some(_), Some(raised)) => return Err(raised),
            (Some(done), None) => return Ok(done),
            (None, Some(before)) => {
                // The first time it may have waited for its turn, or been between two statements of a script.
                if let Some(cancel) = cancel {
                    cancel.cancel();
                }
                raised = Some(before);
            }
            (None, None) => {
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
