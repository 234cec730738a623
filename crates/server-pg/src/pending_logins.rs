//! Pending log-ins: the connections that have not logged in yet.
//!
//! Invariants:
//! - They are few, and the oldest makes room for a new one.
//! - Who has logged in is not among them, however soon: none is listed after it has ended to start.

use parking_lot::Mutex;
use std::collections::VecDeque;
use tokio::task::AbortHandle;

/// Those of one server, by number.
pub(crate) struct PendingLogins {
    count_max: usize,
    oldest_first: Mutex<VecDeque<(u64, AbortHandle)>>,
}

impl PendingLogins {
    /// At most so many at once.
    pub(crate) fn new(count_max: usize) -> PendingLogins {
        PendingLogins { count_max, oldest_first: Mutex::default() }
    }

    /// Begins one by `spawn`; ends the oldest if there are too many.
    pub(crate) fn begin(&self, number: u64, spawn: impl FnOnce() -> AbortHandle) {
        // Held before it is spawned: one that has started at once waits here to be taken off, and is not listed for ever.
        let mut oldest_first = self.oldest_first.lock();
        oldest_first.push_back((number, spawn()));
        if oldest_first.len() > self.count_max
            && let Some((_, oldest)) = oldest_first.pop_front()
        {
            oldest.abort();
        }
    }

    /// It has logged in, or will not.
    pub(crate) fn ended(&self, number: u64) {
        self.oldest_first.lock().retain(|(other, _)| *other != number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[tokio::test]
    async fn the_oldest_makes_room() {
        let logins = PendingLogins::new(2);
        let mut tasks = Vec::new();
        for number in 0..4 {
            logins.begin(number, || {
                let task = tokio::spawn(pending::<()>());
                let handle = task.abort_handle();
                tasks.push(task);
                handle
            });
        }
        let last = tasks.split_off(2);
        for task in tasks {
            assert!(task.await.unwrap_err().is_cancelled());
        }
        logins.ended(2);
        logins.begin(4, || tokio::spawn(pending::<()>()).abort_handle());
        tokio::task::yield_now().await;
        assert!(last.iter().all(|task| !task.is_finished()));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn who_has_started_before_it_is_listed_is_not_listed() {
        let logins = Arc::new(PendingLogins::new(1));
        let there = Arc::clone(&logins);
        let (tell, told) = channel();
        let mut started = None;
        logins.begin(7, || {
            let task = tokio::spawn(async move {
                let _ = tell.send(());
                there.ended(7);
                pending::<()>().await;
            });
            let handle = task.abort_handle();
            started = Some(task);
            // It runs, and has time to end its start before it is listed.
            told.recv().unwrap();
            std::thread::sleep(Duration::from_millis(20));
            handle
        });
        while !logins.oldest_first.lock().is_empty() {
            tokio::task::yield_now().await;
        }
        // So it makes room for nobody.
        logins.begin(8, || tokio::spawn(pending::<()>()).abort_handle());
        logins.begin(9, || tokio::spawn(pending::<()>()).abort_handle());
        tokio::task::yield_now().await;
        assert!(started.is_some_and(|task| !task.is_finished()));
    }
}
