//! Planning that can be stopped.
//!
//! Planning is one long computation without a pause: a chain of CTEs that each join the last one twice takes seconds. So it
//! runs on a thread of its own, where the statement's supervisor need not wait for it, and every rule asks
//! before its work whether the statement still wants the plan; most are asked at every node of it.
//!
//! Invariants:
//! - A statement that is stopped while it plans ends at once. Its planning ends at the next question. That is soon, because what
//!   takes long within one rule, or before the first, is refused before it is planned (`alluvia_syntax::bounds`).

use crate::execution::guard::{LargeStack, guarded};
use alluvia_copy::progress::CancelToken;
use alluvia_functions::stopping::{self, StopCheck};
use alluvia_plan::rules::StopChecks;
use alluvia_types::{Error, Result};
use alluvia_values::errors::wrap;

/// What rules ask of the statement that their thread plans.
pub(crate) const STOP_CHECKS: StopChecks = StopChecks { planning: stopping::check, running: stopping::current };

/// Runs `work`, which plans, on a thread that may be busy for long and on a large stack. Dropping the future leaves the
/// thread to find out by itself that the token is cancelled.
pub(crate) async fn plan_apart<T, W>(token: CancelToken, work: W) -> Result<T>
where
    T: Send + 'static,
    W: Future<Output = Result<T>> + Send + 'static,
{
    let runtime = tokio::runtime::Handle::current();
    let stop = StopCheck::new(move || token.check().map_err(wrap));
    let planned =
        tokio::task::spawn_blocking(move || stop.within(|| guarded(|| runtime.block_on(LargeStack::new(work))))?);
    planned.await.unwrap_or_else(|error| Err(Error::internal(format!("planning failed: {error}"))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_plan::rules::with_rules;
    use alluvia_types::ErrorKind;
    use datafusion::execution::context::SessionContext;
    use datafusion::execution::session_state::SessionStateBuilder;

    async fn planned(token: CancelToken) -> Result<usize> {
        let state = with_rules(SessionStateBuilder::new().with_default_features(), STOP_CHECKS).build();
        plan_apart(token, async move {
            let sql = "SELECT a, count(*) FROM (VALUES (1), (2)) AS t(a) WHERE a > 1 GROUP BY a";
            let plan = SessionContext::new_with_state(state.clone()).state().create_logical_plan(sql).await;
            let plan = plan.map_err(|error| crate::errors::error_of(&error))?;
            let physical = state.create_physical_plan(&plan).await;
            physical.map(|plan| plan.schema().fields().len()).map_err(|error| crate::errors::error_of(&error))
        })
        .await
    }

    #[tokio::test]
    async fn a_stopped_statement_is_not_planned_and_the_thread_plans_the_next() {
        for _ in 0..3 {
            let token = CancelToken::new();
            assert_eq!(planned(token.clone()).await.unwrap(), 2);
            token.time_out();
            assert_eq!(planned(token).await.unwrap_err().kind(), ErrorKind::Timeout);
        }
    }

    #[tokio::test]
    async fn a_panic_while_planning_is_an_error() {
        let error = plan_apart(CancelToken::new(), async { panic!("oh no") as Result<()> }).await.unwrap_err();
        assert!(error.kind() == ErrorKind::Internal && error.message().contains("oh no"), "{error}");
    }

    #[tokio::test]
    async fn what_a_running_plan_asks_fails_as_its_statement_is_stopped() {
        let token = CancelToken::new();
        let check = plan_apart(token.clone(), async { Ok((STOP_CHECKS.running)()) }).await.unwrap().unwrap();
        assert!(check.check().is_ok());
        token.cancel();
        let error = check.check().unwrap_err();
        assert_eq!(crate::errors::error_of(&error).kind(), ErrorKind::Cancelled);
        assert!((STOP_CHECKS.running)().is_none(), "this thread plans nothing");
    }
}
