//! Where parallel work runs.

use alluvia_types::{Error, Result};
use std::fmt::Debug;
use std::sync::mpsc;

/// One piece of work.
pub type Job = Box<dyn FnOnce() + Send>;

/// Runs jobs, now or later, here or on other threads. A job never waits for another one.
pub trait Workers: Send + Sync + Debug {
    /// Takes a job; may block while too many wait.
    fn spawn(&self, job: Job);
    /// How many jobs run at once.
    fn width(&self) -> usize;
}

/// Runs every job at once on the calling thread; for simulations.
#[derive(Debug)]
pub struct Inline;

impl Workers for Inline {
    fn spawn(&self, job: Job) {
        job();
    }

    fn width(&self) -> usize {
        1
    }
}

/// Runs `work` on every item and returns the results in order. After the first error the remaining results are still
/// awaited, so that nothing runs on when this returns.
pub(crate) fn scatter<T, R>(
    workers: &dyn Workers,
    items: Vec<T>,
    work: impl Fn(T) -> Result<R> + Send + Sync + Clone + 'static,
) -> Vec<Result<R>>
where
    T: Send + 'static,
    R: Send + 'static,
{
    let (sender, receiver) = mpsc::channel();
    let count = items.len();
    for (at, item) in items.into_iter().enumerate() {
        let (sender, work) = (sender.clone(), work.clone());
        workers.spawn(Box::new(move || {
            let _ = sender.send((at, work(item)));
        }));
    }
    drop(sender);
    let mut results: Vec<Result<R>> = Vec::new();
    results.resize_with(count, || Err(Error::internal("a pipeline job panicked")));
    for (at, result) in receiver {
        results[at] = result;
    }
    results
}
