//! Work that blocks a thread, away from the threads that talk to clients.

use alluvia_snapshot::{Read, Snapshot, Want};
use alluvia_types::{Error, Result};
use std::sync::Arc;
use tracing::Span;

/// Runs what may block on a thread that may, within the current span.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let span = Span::current();
    match tokio::task::spawn_blocking(move || span.in_scope(work)).await {
        Ok(result) => result,
        Err(error) => Err(Error::internal(format!("a task of the statement failed: {error}"))),
    }
}

/// Whether the rows of tables on other machines are in a snapshot, or asked for as plans need them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rows {
    There,
    Later,
}

/// A snapshot; on a thread that may wait where the store asks other machines.
pub(crate) async fn snapshot_of(store: &Arc<dyn Read>, want: Want, rows: Rows) -> Result<Snapshot> {
    if !store.is_remote() {
        return store.snapshot(&want);
    }
    let store = Arc::clone(store);
    blocking(move || match rows {
        Rows::There => store.snapshot(&want),
        Rows::Later => store.snapshot_later(&want),
    })
    .await
}
