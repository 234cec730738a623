//! Cancelling of statements: each runs in a task of its own beside its request.
//!
//! Invariants:
//! - A statement runs in a task of its own, which outlives its request: when the client goes, or the server stops, it is cancelled
//!   and its end is waited for, so that a batch that is committing commits, and `alluvia.queries` knows how it ended.
//! - While such a task runs the server does not end.

use crate::shared::Shared;
use alluvia_query::Session;
use alluvia_types::Result;
use std::sync::Arc;

/// Waits for work of a session, which is cancelled if the client goes meanwhile or the server stops.
pub(crate) async fn watched<T>(
    shared: &Arc<Shared>,
    session: &Session,
    client_goes: impl Future<Output = ()>,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    alluvia_access::watched(&shared.stop, || session.cancel_handle().cancel(), client_goes, work).await
}
