//! Stopping a server of any protocol: the signal to stop, and the steps to its end.
//!
//! Invariants:
//! - Who runs nothing ends at once; statements have a time to finish, are then cancelled, and are waited for.
//! - However little a client takes, the server ends after the two times that it was given.

use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// How far a server is from its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub enum Stopping {
    /// It serves.
    No,
    /// Who runs no statement ends.
    Idle,
    /// Statements are cancelled.
    All,
}

/// Completes once the server is so far from running on; never, if it is gone without having said so.
pub async fn reached(stop: &mut watch::Receiver<Stopping>, wanted: Stopping) {
    if stop.wait_for(|stopping| *stopping >= wanted).await.is_err() {
        // The server itself has gone, and its connections go with it.
        std::future::pending().await
    }
}

/// Tells connections to end, those that are idle at first and all of them after `stop_wait`, and waits for `ended`, at last for
/// `last_wait`; gives whether that came. `told` is called after each signal.
pub async fn stop(
    signal: &watch::Sender<Stopping>,
    (stop_wait, last_wait): (Duration, Duration),
    told: impl Fn(),
    ended: impl Future<Output = ()>,
) -> bool {
    tokio::pin!(ended);
    for (stopping, wait) in [(Stopping::Idle, stop_wait), (Stopping::All, last_wait)] {
        signal.send_replace(stopping);
        told();
        if timeout(wait, &mut ended).await.is_ok() {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const NONE: Duration = Duration::ZERO;
    const LONG: Duration = Duration::from_secs(1_000_000);

    /// What ends by itself when the server is so far, and what a stop of it with these times says, with how often somebody was told.
    async fn stopped(ends_at: Option<Stopping>, waits: (Duration, Duration)) -> (bool, Stopping, usize) {
        let (signal, mut stopping) = watch::channel(Stopping::No);
        let told = AtomicUsize::new(0);
        let ended = async {
            match ends_at {
                Some(wanted) => reached(&mut stopping, wanted).await,
                None => pending().await,
            }
        };
        let count = || {
            told.fetch_add(1, Ordering::SeqCst);
        };
        let has_ended = stop(&signal, waits, count, ended).await;
        (has_ended, *signal.borrow(), told.load(Ordering::SeqCst))
    }

    #[tokio::test]
    async fn the_idle_end_first_and_nobody_is_waited_for_too_long() {
        assert_eq!(stopped(Some(Stopping::Idle), (LONG, LONG)).await, (true, Stopping::Idle, 1));
        assert_eq!(stopped(Some(Stopping::All), (NONE, LONG)).await, (true, Stopping::All, 2));
        assert_eq!(stopped(None, (NONE, NONE)).await, (false, Stopping::All, 2));
    }

    #[tokio::test]
    async fn a_server_that_is_gone_tells_nobody_to_stop() {
        let (signal, mut stopping) = watch::channel(Stopping::No);
        drop(signal);
        let told = timeout(Duration::from_millis(1), reached(&mut stopping, Stopping::Idle)).await;
        assert!(told.is_err());
    }
}
