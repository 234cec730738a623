//! The threads that sort and write segments.

use alluvia_pipeline::{Job, Workers};
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// A fixed number of threads and a short queue.
#[derive(Debug)]
pub(crate) struct Pool {
    queue: Option<SyncSender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    pub(crate) fn new(width: usize) -> Pool {
        let (sender, receiver) = sync_channel::<Job>(width);
        let receiver = Arc::new(Mutex::new(receiver));
        let run = |at: usize| {
            let receiver: Arc<Mutex<Receiver<Job>>> = Arc::clone(&receiver);
            let thread = std::thread::Builder::new().name(format!("alluvia-work-{at}"));
            thread.spawn(move || run_jobs(&receiver)).expect("the machine can start a thread")
        };
        Pool { queue: Some(sender), threads: (0..width).map(run).collect() }
    }
}

/// Runs the jobs of the queue until the queue is closed.
fn run_jobs(receiver: &Mutex<Receiver<Job>>) {
    loop {
        let job = receiver.lock().recv();
        match job {
            // A panicking job drops its result channel, which its owner reports; the thread lives on.
            Ok(job) => drop(catch_unwind(AssertUnwindSafe(job))),
            Err(_) => return,
        }
    }
}

impl Workers for Pool {
    fn spawn(&self, job: Job) {
        let queue = self.queue.as_ref().expect("the pool is open until it is dropped");
        assert!(queue.send(job).is_ok(), "the pool's threads outlive its queue");
    }

    fn width(&self) -> usize {
        self.threads.len()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.queue = None;
        let here = std::thread::current().id();
        for thread in self.threads.drain(..) {
            // The last owner of the pool may be one of its own jobs; a thread cannot wait for itself.
            if thread.thread().id() != here {
                let _ = thread.join();
            }
        }
    }
}
