//! A thread that does one thing again and again, and ends when its owner lets go of it.

use crate::threads::Stop;
use alluvia_types::{Error, Result};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle, current};
use std::time::Duration;

/// A running thread; stopped and awaited when dropped.
#[derive(Debug)]
pub(super) struct Repeating {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl Repeating {
    /// Does `step`, which says how long to wait before the next time.
    pub(super) fn start(name: &str, mut step: impl FnMut() -> Duration + Send + 'static) -> Result<Repeating> {
        let stop = Arc::new(Stop::default());
        let asked = Arc::clone(&stop);
        let run = move || {
            let mut pause = Duration::ZERO;
            while !asked.wait(pause) {
                pause = step();
            }
        };
        let thread = Builder::new().name(name.to_owned()).spawn(run);
        let thread = thread.map_err(|error| Error::internal(format!("no thread for {name}: {error}")))?;
        Ok(Repeating { stop, thread: Some(thread) })
    }
}

impl Drop for Repeating {
    fn drop(&mut self) {
        self.stop.ask();
        // The last one who has it may be its own thread.
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != current().id()) {
            // It has told of whatever went wrong.
            let _ = thread.join();
        }
    }
}
