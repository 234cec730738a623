//! Whose turn it is, of statements that found no memory.
//!
//! A statement is refused memory where all together hold what they may; how much it will need nobody knows before it runs. So it runs, and
//! where it is refused it lets go of all that it has, waits its turn, and begins again ([`crate::Waiter`]).

use crate::pool::TotalMemory;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{Semaphore, SemaphorePermit};

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
    _permit: SemaphorePermit<'a>,
}

/// Counts who waits, also where it is not waited any more.
pub(crate) struct Waiting<'a>(&'a AtomicUsize);

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

    /// Counts one who waits, as long as the result lives.
    pub(crate) fn waits(&self) -> Waiting<'_> {
        Waiting::count(&self.waiting)
    }

    /// Waits for the turn, behind all who asked before. Whoever asks holds no memory of its own any more.
    pub async fn turn(&self) -> Turn<'_> {
        let _waiting = self.waits();
        let permit = self.turn.acquire().await.expect("the turns are never closed");
        Turn { _permit: permit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
