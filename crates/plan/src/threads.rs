//! Threads that compute what plans say.
//!
//! Invariants:
//! - Who runs a plan has a lane: threads of its own, as long as there are no more plans than lanes. What one plan puts into the queue of its threads
//!   (a sort puts each of its batches there), or makes of one batch within one poll, keeps nobody else's plan waiting: the machine shares its
//!   processors among threads, whatever these do.
//! - Where there are more plans than lanes, a lane has as few of them as any other.
//! - Lanes are begun as they are needed, and kept. Who drops the threads does not wait for them.

use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::runtime::{Builder, Handle, Runtime};

/// Lanes at most: each has as many threads as plans may have.
const LANES_MAX: usize = 8;
/// Stack of a thread.
const STACK_BYTES: usize = 8 << 20;

/// The lanes.
#[derive(Debug)]
pub struct Threads {
    of_lane: usize,
    lanes: Mutex<Vec<Arc<Lane>>>,
}

#[derive(Debug)]
struct Lane {
    handle: Handle,
    runtime: Mutex<Option<Runtime>>,
    plans: AtomicUsize,
}

/// A plan's place on a lane, until it is dropped.
#[derive(Debug)]
pub struct OnLane(Arc<Lane>);

impl Threads {
    /// So many threads for each plan.
    pub fn new(of_lane: usize) -> Arc<Threads> {
        Arc::new(Threads { of_lane: of_lane.max(1), lanes: Mutex::default() })
    }

    /// The lane with the fewest plans: one that has none, if there can be such.
    pub fn lane(&self) -> io::Result<OnLane> {
        let mut lanes = self.lanes.lock();
        let idlest = lanes.iter().min_by_key(|lane| lane.plans.load(Ordering::Relaxed));
        let lane = match idlest {
            Some(lane) if lane.plans.load(Ordering::Relaxed) == 0 || lanes.len() >= LANES_MAX => Arc::clone(lane),
            _ => {
                let lane = Arc::new(Lane::new(self.of_lane)?);
                lanes.push(Arc::clone(&lane));
                lane
            }
        };
        lane.plans.fetch_add(1, Ordering::Relaxed);
        Ok(OnLane(lane))
    }
}

impl Lane {
    fn new(threads: usize) -> io::Result<Lane> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_stack_size(STACK_BYTES)
            .thread_name("alluvia-plan")
            .enable_all()
            .build()?;
        Ok(Lane { handle: runtime.handle().clone(), runtime: Mutex::new(Some(runtime)), plans: AtomicUsize::new(0) })
    }
}

impl OnLane {
    /// Where the plan's tasks run.
    pub fn handle(&self) -> &Handle {
        &self.0.handle
    }
}

impl Drop for OnLane {
    fn drop(&mut self) {
        self.0.plans.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        for lane in self.lanes.get_mut() {
            // A runtime that is dropped waits for its threads, which no asynchronous caller may.
            if let Some(runtime) = lane.runtime.lock().take() {
                runtime.shutdown_background();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_never_gives_way_keeps_no_other_waiting() {
        let threads = Threads::new(1);
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let first = threads.lane().unwrap();
        // It blocks the only thread of its lane.
        let blocked = first.handle().spawn(async move { ended.recv().is_ok() });
        let second = threads.lane().unwrap();
        let answered = second.handle().spawn(async { 7 });
        assert_eq!(futures::executor::block_on(answered).unwrap(), 7);
        end.send(()).unwrap();
        assert!(futures::executor::block_on(blocked).unwrap());
    }

    #[test]
    fn lanes_are_used_again_and_shared_evenly_where_they_are_all_there() {
        let threads = Threads::new(1);
        drop(threads.lane().unwrap());
        drop(threads.lane().unwrap());
        assert_eq!(threads.lanes.lock().len(), 1);
        let held: Vec<OnLane> = (0..3 * LANES_MAX).map(|_| threads.lane().unwrap()).collect();
        let plans: Vec<usize> = threads.lanes.lock().iter().map(|lane| lane.plans.load(Ordering::Relaxed)).collect();
        assert_eq!(plans, [3; LANES_MAX]);
        drop(held);
        assert!(threads.lanes.lock().iter().all(|lane| lane.plans.load(Ordering::Relaxed) == 0));
    }
}
