//! A statement that a request asks for, and the channel that the answer goes through.

use alluvia_query::{Outcome, Prepared, Refining, ScalarValue, Session};
use alluvia_types::Result;
use bytes::Bytes;
use tokio::sync::mpsc;

/// What sends an answer; closed once the client has gone.
pub(crate) type Chunks = mpsc::Sender<Result<Bytes>>;

/// A statement that is asked for.
pub(crate) struct StatementRequest {
    pub(crate) session: Session,
    pub(crate) prepared: Prepared,
    pub(crate) values: Vec<ScalarValue>,
}

impl StatementRequest {
    /// Runs the statement.
    pub(crate) async fn execute(&self) -> Result<Outcome> {
        self.session.execute_prepared(&self.prepared, &self.values).await
    }

    /// Runs the statement, with estimates on the way to its answer.
    pub(crate) async fn refine(&self) -> Result<Refining> {
        self.session.refine_prepared(&self.prepared, &self.values).await
    }
}
