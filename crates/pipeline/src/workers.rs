//! Workers: the port through which the pipeline runs parallel work, here or on other threads.

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

/// Where the result of one job goes: what it comes to, or that it has ended without, by a panic or because nobody ran
/// it.
pub(crate) struct Answer<R> {
    to: Option<mpsc::Sender<Result<R>>>,
}

impl<R> Answer<R> {
    pub(crate) fn new(to: mpsc::Sender<Result<R>>) -> Answer<R> {
        Answer { to: Some(to) }
    }

    /// Gives the result. Whoever asked for it may be gone.
    pub(crate) fn send(mut self, result: Result<R>) {
        if let Some(to) = self.to.take() {
            let _ = to.send(result);
        }
    }
}

impl<R> Drop for Answer<R> {
    fn drop(&mut self) {
        if let Some(to) = self.to.take() {
            let _ = to.send(Err(vanished()));
        }
    }
}

fn vanished() -> Error {
    Error::internal("a pipeline job ended without a result; if it panicked, standard error has why")
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
    results.resize_with(count, || Err(vanished()));
    for (at, result) in receiver {
        results[at] = result;
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_types::ErrorKind;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_job_that_panics_or_is_never_run_is_answered_all_the_same() {
        let (sender, receiver) = mpsc::channel::<Result<u32>>();
        let answer = || Answer::new(sender.clone());
        answer().send(Ok(7));
        assert_eq!(receiver.recv().unwrap().unwrap(), 7);
        let lost: Job = Box::new({
            let answer = answer();
            move || answer.send(Ok(8))
        });
        drop(lost);
        assert_eq!(receiver.recv().unwrap().unwrap_err().kind(), ErrorKind::Internal);
        let panics = || -> u32 { std::panic::resume_unwind(Box::new("a defect")) };
        let job: Job = Box::new({
            let answer = answer();
            move || answer.send(Ok(panics()))
        });
        catch_unwind(AssertUnwindSafe(job)).expect_err("it panics");
        assert_eq!(receiver.recv().unwrap().unwrap_err().kind(), ErrorKind::Internal);
        assert!(receiver.try_recv().is_err(), "each is answered once");
    }
}
