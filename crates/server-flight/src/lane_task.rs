//! Tasks of statements: a statement runs in its lane, in a task of its own beside the call that asked for it.
//!
//! Invariants:
//! - A statement runs in a task of its own, which outlives its call: when the client goes, or the server stops, it is cancelled and
//!   its end is waited for, so that a batch that is committing commits, and `alluvia.queries` knows how it ended.
//! - While such a task runs the server does not end, and neither its login nor its connection counts as idle.
//! - A cancel reaches the statement it is meant for: statements of a lane begin in turn.

use crate::caller::Caller;
use crate::lane::Lane;
use crate::shared::Shared;
use alluvia_access::watched;
use alluvia_types::{Error, Result};
use std::sync::Arc;
use tokio::sync::oneshot;

/// Runs `work` in its turn in a lane.
pub(crate) async fn run_in_lane<T, F, Work>(
    shared: &Arc<Shared>,
    caller: &Arc<Caller>,
    lane: &Arc<Lane>,
    work: F,
) -> Result<T>
where
    T: Send + 'static,
    F: FnOnce(Arc<Lane>) -> Work + Send + 'static,
    Work: Future<Output = Result<T>> + Send + 'static,
{
    let (mut tell, told) = oneshot::channel();
    let (shared, caller, lane) = (Arc::clone(shared), Arc::clone(caller), Arc::clone(lane));
    tokio::spawn(async move {
        let turn = tokio::select! {
            biased;
            turn = lane.turn() => turn,
            () = tell.closed() => return,
        };
        let result = match turn {
            Ok(mut turn) => {
                let there = Arc::clone(&lane);
                lane.used(shared.now());
                let work = async {
                    lane.begin(&mut turn).await?;
                    work(there).await
                };
                let cancel = || lane.session.cancel_handle().cancel();
                let result = watched(&shared.stop, cancel, tell.closed(), work).await;
                lane.used(shared.now());
                result
            }
            Err(error) => Err(error),
        };
        drop(tell.send(result));
        drop(caller);
    });
    told.await.map_err(|_| Error::internal("a statement ended without an answer"))?
}
