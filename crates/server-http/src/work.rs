//! Statements beside their requests.
//!
//! Invariants:
//! - A statement runs in a task of its own, which outlives its request: when the client goes, or the server stops, it is cancelled
//!   and its end is waited for, so that a batch that is committing commits, and `alluvia.queries` knows how it ended.
//! - While such a task runs the server does not end.

use crate::server::Shared;
use alluvia_access::{Stopping, reached};
use alluvia_query::Session;
use alluvia_types::{Error, ErrorKind, Result};
use std::sync::Arc;

/// The error that nobody is there to be told.
pub(crate) fn gone() -> Error {
    Error::new(ErrorKind::Cancelled, "the client has gone")
}

/// Waits for work of a session. If the client goes meanwhile, or the server stops, the work is cancelled and its end waited for.
pub(crate) async fn watched<T>(
    shared: &Arc<Shared>,
    session: &Session,
    client_goes: impl Future<Output = ()>,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let mut stop = shared.stop.clone();
    tokio::pin!(work);
    // In this order: work that is never asked has not begun, and would not see that it is cancelled.
    tokio::select! {
        biased;
        result = &mut work => result,
        () = client_goes => {
            session.cancel_handle().cancel();
            let _ = work.await;
            Err(gone())
        }
        () = reached(&mut stop, Stopping::All) => {
            session.cancel_handle().cancel();
            work.await
        }
    }
}
