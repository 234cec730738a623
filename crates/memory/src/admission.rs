//! Whose turn it is, of statements that found no memory.
//!
//! A statement is refused memory where all together hold what they may; how much it will need nobody knows before it runs. So it runs, and
//! where it is refused it lets go of all that it has, waits its turn, and begins again. Whoever has the turn begins again as often as others
//! let go of something.

use crate::pool::TotalMemory;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

/// How often it is looked whether others have let go of memory.
const LOOK: Duration = Duration::from_millis(5);

/// Statements that wait for memory.
#[derive(Debug)]
pub struct Admission {
    total: Arc<TotalMemory>,
    turn: Semaphore,
    waiting: AtomicUsize,
}

/// A statement's turn, as long as it is held.
#[derive(Debug)]
pub struct Turn<'a> {
    admission: &'a Admission,
    _permit: SemaphorePermit<'a>,
}

/// Counts who waits, also where it is not waited any more.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn count(waiting: &'a AtomicUsize) -> Waiting<'a> {
        waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Admission {
    /// Nobody waits.
    pub fn new(total: Arc<TotalMemory>) -> Arc<Admission> {
        Arc::new(Admission { total, turn: Semaphore::new(1), waiting: AtomicUsize::new(0) })
    }

    /// What all statements hold.
    pub fn total(&self) -> &Arc<TotalMemory> {
        &self.total
    }

    /// How many statements wait now.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Waits for the turn, behind all who asked before. Whoever asks holds no memory of its own any more.
    pub async fn turn(&self) -> Turn<'_> {
        let _waiting = Waiting::count(&self.waiting);
        let permit = self.turn.acquire().await.expect("the turns are never closed");
        Turn { admission: self, _permit: permit }
    }
}

impl Turn<'_> {
    /// Waits until all statements together hold less than `held` bytes, which they did when this one was refused some, or nothing.
    pub async fn freed(&self, held: usize) {
        let _waiting = Waiting::count(&self.admission.waiting);
        loop {
            let now = self.admission.total.used_bytes();
            if now < held || now == 0 {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::QueryMemory;
    use datafusion_execution::memory_pool::{MemoryConsumer, MemoryPool};

    #[tokio::test]
    async fn turns_come_one_at_a_time_in_the_order_of_asking() {
        let admission = Admission::new(TotalMemory::new(100));
        let told = Arc::new(std::sync::Mutex::new(Vec::new()));
        let first = admission.turn().await;
        let mut others = Vec::new();
        for at in 0..5 {
            let (of_task, told) = (Arc::clone(&admission), Arc::clone(&told));
            others.push(tokio::spawn(async move {
                let _turn = of_task.turn().await;
                told.lock().unwrap().push(at);
                tokio::task::yield_now().await;
            }));
            // Each has asked before the next does.
            while admission.waiting() <= at {
                tokio::task::yield_now().await;
            }
        }
        assert!(told.lock().unwrap().is_empty());
        // One that gives up leaves its place.
        others.remove(1).abort();
        drop(first);
        for other in others {
            other.await.unwrap();
        }
        assert_eq!(*told.lock().unwrap(), [0, 2, 3, 4]);
        assert_eq!(admission.waiting(), 0);
    }

    #[tokio::test]
    async fn whoever_has_the_turn_waits_until_others_let_go() {
        let total = TotalMemory::new(100);
        let admission = Admission::new(Arc::clone(&total));
        let other: Arc<dyn MemoryPool> = QueryMemory::new(100, Arc::clone(&total));
        let held = MemoryConsumer::new("held").register(&other);
        held.try_grow(100).unwrap();
        let turn = admission.turn().await;
        let waits = tokio::time::timeout(LOOK * 4, turn.freed(100)).await;
        assert!(waits.is_err(), "nothing was let go");
        held.shrink(1);
        turn.freed(100).await;
        drop(held);
        turn.freed(0).await;
    }
}
