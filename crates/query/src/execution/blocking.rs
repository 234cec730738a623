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

/// A snapshot; on a thread that may wait where the store asks other machines.
pub(crate) async fn snapshot_of(store: &Arc<dyn Read>, want: Want) -> Result<Snapshot> {
    if !store.is_remote() {
        return store.snapshot(&want);
    }
    let store = Arc::clone(store);
    blocking(move || store.snapshot(&want)).await
}
