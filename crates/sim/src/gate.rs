//! A gate: one thread is held up before one of its syncs, while another does what must fit in between.
//!
//! A test that holds a sort or a merge at each of its syncs in turn sees every moment in which others can come between.
//! A thread that syncs the log holds what all writers need, and is not held up.

use alluvia_storage::Watch;
use parking_lot::{Condvar, Mutex};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::thread::ThreadId;

/// Where a thread is held up: before it syncs a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stop {
    /// The file.
    pub path: PathBuf,
}

impl Stop {
    /// Whether writers, sorts and merges go on meanwhile: a segment is being written, under no lock that they need.
    pub fn is_apart(&self) -> bool {
        has_folder(&self.path, "segments")
    }
}

fn has_folder(path: &Path, name: &str) -> bool {
    path.iter().any(|part| part == name)
}

/// Holds up one thread at a time. It watches a disk (`alluvia_storage::WatchedDisk`).
#[derive(Debug, Default)]
pub struct Gate {
    armed: Mutex<Option<Armed>>,
    opened: Condvar,
}

#[derive(Debug)]
struct Armed {
    thread: ThreadId,
    /// Stops that it still passes.
    passes: usize,
    held: Sender<Stop>,
}

/// Opens a gate, whatever happened meanwhile.
struct Opening<'a>(&'a Gate);

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        *self.0.armed.lock() = None;
        self.0.opened.notify_all();
    }
}

impl Gate {
    /// Runs `work` on a thread of its own, which is held up after it passed so many stops, until `meanwhile` has
    /// returned. Gives what `work` came to, and what `meanwhile` did; `None` where `work` made no more stops.
    pub fn hold<T: Send, M>(
        &self,
        passes: usize,
        work: impl FnOnce() -> T + Send,
        meanwhile: impl FnOnce(&Stop) -> M,
    ) -> (T, Option<M>) {
        std::thread::scope(|scope| {
            let (held, stops) = channel();
            let worker = scope.spawn(move || {
                // Dropped at the end, also of a panic: then nobody waits for a stop that will not come.
                let _opening = Opening(self);
                *self.armed.lock() = Some(Armed { thread: std::thread::current().id(), passes, held });
                work()
            });
            let done = stops.recv().ok().map(|stop| {
                let _opening = Opening(self);
                meanwhile(&stop)
            });
            match worker.join() {
                Ok(made) => (made, done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Called by every thread at its stops.
    fn stop(&self, stop: Stop) {
        let mut armed = self.armed.lock();
        let is_it = |armed: &&mut Armed| armed.thread == std::thread::current().id();
        let Some(own) = armed.as_mut().filter(is_it) else { return };
        if own.passes > 0 {
            own.passes -= 1;
            return;
        }
        // Where nobody listens any more nobody would open.
        if own.held.send(stop).is_err() {
            return;
        }
        while armed.is_some() {
            self.opened.wait(&mut armed);
        }
    }
}

impl Watch for Gate {
    fn before_sync_of(&self, path: &Path) {
        if !has_folder(path, "log") {
            self.stop(Stop { path: path.into() });
        }
    }
}
