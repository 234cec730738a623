//! The threads that keep the pipeline running.
//!
//! Each thread looks often and acts when due: the sorter when the tail is old or large or someone waits, the merger on
//! its interval or when segments pile up, the flusher while relaxed batches come, the committers while batches wait for
//! their fsync, the keeper of cuboids and of the predicate cache while shapes are wanted, rows come or segments go. One
//! more measures twice a second what keys and dead rows hold.
//!
//! Invariants:
//! - A sort or merge that fails is remembered where writers and `alluvia.settings` see it, and tried again after a
//!   pause: a full disk that gets room resumes by itself.
//! - A panic is a failure like any other and ends no thread, so nobody waits for a thread that is gone.

use crate::core::Core;
use alluvia_query::Engine;
use alluvia_types::{Error, Result};
use parking_lot::{Condvar, Mutex};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

const SORT_LOOK: Duration = Duration::from_millis(20);
const MERGE_LOOK: Duration = Duration::from_millis(50);
/// How soon a file is made anew that a read has found damaged.
const MEND_LOOK: Duration = Duration::from_millis(500);
const FLUSH_LOOK: Duration = Duration::from_millis(5);
/// Threads that make waiting batches durable: one for each fsync that the log lets overlap, and one that is about to.
const COMMITTERS: usize = 5;
/// How often it is looked what keys and dead rows hold.
const MEASURE_LOOK: Duration = Duration::from_millis(500);
const CUBOID_LOOK: Duration = Duration::from_millis(100);
const COMMIT_LOOK: Duration = Duration::from_millis(200);
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(500);

/// The request to stop, which wakes threads that sleep.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    asked: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// Asks to stop, and wakes who sleeps.
    pub(crate) fn ask(&self) {
        *self.asked.lock() = true;
        self.changed.notify_all();
    }

    fn is_asked(&self) -> bool {
        *self.asked.lock()
    }

    /// Sleeps; returns whether to stop.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let mut asked = self.asked.lock();
        if !*asked {
            self.changed.wait_for(&mut asked, time);
        }
        *asked
    }
}

/// The running threads; stopped and awaited when dropped.
#[derive(Debug)]
pub(crate) struct Threads {
    core: Arc<Core>,
    stop: Arc<Stop>,
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    pub(crate) fn start(core: &Arc<Core>, engine: &Arc<Engine>) -> Threads {
        let mut threads = Threads { core: Arc::clone(core), stop: Arc::default(), handles: Vec::new() };
        threads.spawn("alluvia-sort", core, |core, stop| {
            while !stop.wait(SORT_LOOK) {
                if core.sort_is_due() {
                    run_once(stop, || core.sort(), |failure| core.views().sort_ended(failure));
                }
            }
        });
        threads.spawn("alluvia-merge", core, |core, stop| {
            let mut last = core.views().clock().monotonic();
            let mut looked = last;
            while !stop.wait(MERGE_LOOK) {
                let now = core.views().clock().monotonic();
                if now - looked >= MEND_LOOK {
                    looked = now;
                    run_once(stop, || core.mend(), |_| {});
                }
                let hurry = core.take_hurry_merge() || now - last >= core.pipeline().options().merge_interval;
                if hurry {
                    last = now;
                }
                let ended = |failure: Option<Error>| {
                    // Only in a hurry is every table tried, so only then is nothing wrong if nothing failed.
                    if hurry || failure.is_some() {
                        core.views().merge_ended(failure);
                    }
                };
                run_once(stop, || core.merge(hurry), ended);
                if hurry {
                    // One segment, so that new rows do not wait for many.
                    run_once(stop, || core.purge_old(), |_| {});
                }
            }
        });
        threads.spawn("alluvia-flush", core, |core, stop| {
            while !stop.wait(FLUSH_LOOK) {
                if core.take_relaxed() {
                    // What the log refuses, it also tells every later writer.
                    let _ = core.flush();
                }
            }
        });
        let measured = Arc::clone(engine);
        threads.spawn("alluvia-measure", core, move |core, stop| {
            while !stop.wait(MEASURE_LOOK) {
                measured.set_memory_beside(core.measure());
            }
        });
        let engine = Arc::clone(engine);
        threads.spawn("alluvia-cuboids", core, move |_, stop| {
            while !stop.wait(CUBOID_LOOK) {
                // One at a time, so that a stop never waits for many.
                if let Err(error) = engine.tend_cuboids() {
                    tracing::error!(%error, "cuboids could not be tended; statements are answered without them");
                    stop.wait(PAUSE_AFTER_FAILURE);
                }
                if let Err(error) = engine.tend_predicate_cache() {
                    tracing::warn!(%error, "the predicate cache was not written down; it is tried again");
                }
            }
            if let Err(error) = engine.remember_predicates() {
                tracing::warn!(%error, "the predicate cache was not kept");
            }
            if let Err(error) = engine.remember_cuboids() {
                tracing::warn!(%error, "how cuboids were used was not kept");
            }
        });
        core.committer().set_served(true);
        for _ in 0..COMMITTERS {
            threads.spawn("alluvia-commit", core, |core, stop| {
                while !stop.is_asked() {
                    core.committer().serve(COMMIT_LOOK);
                }
            });
        }
        threads
    }

    fn spawn(&mut self, name: &'static str, core: &Arc<Core>, run: impl Fn(&Core, &Stop) + Send + 'static) {
        let (core, stop) = (Arc::clone(core), Arc::clone(&self.stop));
        let lasting = move || {
            while catch_unwind(AssertUnwindSafe(|| run(&core, &stop))).is_err() {
                tracing::error!(thread = name, "a thread panicked; it begins again");
                if stop.wait(PAUSE_AFTER_FAILURE) {
                    break;
                }
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned());
        self.handles.push(thread.spawn(lasting).expect("the machine can start a thread"));
    }
}

/// Runs one sort or merge and tells `ended` how it ended. After a failure or a panic the thread pauses.
fn run_once(stop: &Stop, work: impl FnOnce() -> Result<bool>, ended: impl FnOnce(Option<Error>)) {
    let panicked = |_| Err(Error::internal("the pipeline panicked; standard error has why"));
    let failure = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(panicked).err();
    let has_failed = failure.is_some();
    if let Some(error) = &failure {
        tracing::error!(%error, "the pipeline failed; it will try again");
    }
    ended(failure);
    if has_failed {
        stop.wait(PAUSE_AFTER_FAILURE);
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop.ask();
        self.core.committer().set_served(false);
        for handle in self.handles.drain(..) {
            let _ = handle.join();
        }
        self.core.committer().serve(Duration::ZERO);
        // Who has read damage and ends is not to read it again at the next start.
        if let Err(error) = self.core.mend() {
            tracing::warn!(%error, "files that are damaged were not made anew; the next start tries it");
        }
        // What cannot be sealed is recovered all the same; who wrote was told of any failure.
        if let Err(error) = self.core.seal() {
            tracing::warn!(%error, "the log was not sealed");
        }
    }
}
