//! Work that blocks a thread, away from the threads that talk to clients.

use alluvia_types::{Error, Result};
use tracing::Span;

/// Runs what may block on a thread that may, within the current span.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let span = Span::current();
    match tokio::task::spawn_blocking(move || span.in_scope(work)).await {
        Ok(result) => result,
        Err(error) => Err(Error::internal(format!("a task of the statement failed: {error}"))),
    }
}
