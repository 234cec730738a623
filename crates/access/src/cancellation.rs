//! Cancelling: a statement is cancelled when its client goes or the server stops, and awaited to its end.
//!
//! Invariant: work that was begun is awaited to its end, whoever goes: a batch that is committing commits, and it is known how it ended.

use crate::stopping::{Stopping, reached};
use alluvia_types::{Error, ErrorKind, Result};
use tokio::sync::watch;

/// The error that nobody is there to be told.
pub fn gone() -> Error {
    Error::new(ErrorKind::Cancelled, "the client has gone")
}

/// Waits for work that `cancel` ends early. If the client goes meanwhile, or the server stops, it is cancelled and its end waited for.
pub async fn watched<T>(
    stop: &watch::Receiver<Stopping>,
    cancel: impl Fn(),
    client_goes: impl Future<Output = ()>,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let mut stop = stop.clone();
    tokio::pin!(work);
    // In this order: work that is never asked has not begun, and would not see that it is cancelled.
    tokio::select! {
        biased;
        result = &mut work => result,
        () = client_goes => {
            cancel();
            let _ = work.await;
            Err(gone())
        }
        () = reached(&mut stop, Stopping::All) => {
            cancel();
            work.await
        }
    }
}
