//! Planning that can be stopped.
//!
//! Planning is one long computation without a pause: a chain of CTEs that each join the last one twice takes seconds. So it
//! runs on a thread of its own, where the statement's supervisor need not wait for it, and every rule of DataFusion's asks
//! before its work whether the statement still wants the plan; most are asked at every node of it.
//!
//! Invariants:
//! - A statement that is stopped while it plans ends at once. Its planning ends at the next question. That is soon, because what
//!   takes long within one rule, or before the first, is refused before it is planned (`dialect::bounds`).
//! - A wrapped rule does what its inner rule does, under the same name.

use crate::checked::{
    BareDistinct, BytesOfLiterals, CheckedArithmetic, ComparedSpans, ComputedLists, CountedFunctions, CountedMultisets,
    CountedRows, EqualZeros, ExactSpreads, FiltersOfTheirColumns, FramesOfPeers, GroupingSetsOfUnknownRows,
    HeldConstants, JoinSidesLessKnown, JoinsKeepingNulls, KeysOfOneKind, ListedText, LosslessCasts, MomentsTogether,
    NamesOfUnions, NoFalseKeys, NumbersTogether, OrderedKeys, OrdersOfSkippedRows, PlannedArrays, PlannedCuts,
    PlannedParts, PushDownKeepingConstants, RoundedFloats, SimplifyKeepingNulls, SubqueriesKeepingNulls,
    TypesFromAround, UnknownTexts, WrittenBytes,
};
use crate::compact::CompactTexts;
use crate::session::errors::wrap;
use crate::session::guard::{LargeStack, guarded};
use crate::session::progress::CancelToken;
use crate::session::stoppable_joins::StoppableJoins;
use crate::windows::WindowsInRuns;
use alluvia_types::{Error, Result};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DataFusionError, Result as PlanResult};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::analyzer::{Analyzer, AnalyzerRule};
use datafusion::optimizer::optimizer::{ApplyOrder, Optimizer};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::{PhysicalOptimizer, PhysicalOptimizerContext};
use datafusion::physical_plan::ExecutionPlan;
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    /// The token of the statement that this thread plans.
    static PLANNED: RefCell<Option<CancelToken>> = const { RefCell::new(None) };
}

/// Runs `work`, which plans, on a thread that may be busy for long and on a large stack. Dropping the future leaves the
/// thread to find out by itself that the token is cancelled.
pub(crate) async fn plan_apart<T, W>(token: CancelToken, work: W) -> Result<T>
where
    T: Send + 'static,
    W: Future<Output = Result<T>> + Send + 'static,
{
    let runtime = tokio::runtime::Handle::current();
    let planned = tokio::task::spawn_blocking(move || {
        let _reset = Planned::set(token);
        guarded(|| runtime.block_on(LargeStack::new(work)))?
    });
    planned.await.unwrap_or_else(|error| Err(Error::internal(format!("planning failed: {error}"))))
}

/// Resets the thread's token, also when planning panics: the thread is used again.
struct Planned;

impl Planned {
    fn set(token: CancelToken) -> Planned {
        PLANNED.with_borrow_mut(|planned| *planned = Some(token));
        Planned
    }
}

impl Drop for Planned {
    fn drop(&mut self) {
        PLANNED.with_borrow_mut(|planned| *planned = None);
    }
}

/// The token of the statement that is planned on this thread.
pub(super) fn planned_token() -> Option<CancelToken> {
    PLANNED.with_borrow(Clone::clone)
}

fn check() -> PlanResult<()> {
    PLANNED.with_borrow(|planned| planned.as_ref().map_or(Ok(()), CancelToken::check)).map_err(wrap)
}

/// The default rules, some of them as [`crate::checked`] has them, and its own, each of which asks before its work.
pub(crate) fn stoppable_rules(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    fn all<R: ?Sized, S>(rules: Vec<Arc<R>>, wrapped: impl Fn(Stoppable<R>) -> S) -> Vec<S> {
        rules.into_iter().map(|rule| wrapped(Stoppable(rule))).collect()
    }
    // Before DataFusion's, which would plan its own function.
    builder.expr_planners().get_or_insert_default().insert(0, Arc::new(PlannedParts::default()));
    builder.expr_planners().get_or_insert_default().insert(0, Arc::new(PlannedCuts::default()));
    builder.expr_planners().get_or_insert_default().insert(0, Arc::new(PlannedArrays::default()));
    let mut analyzers = Analyzer::new().rules;
    let coerced = analyzers.iter().position(|rule| rule.name() == "type_coercion").unwrap_or(0);
    analyzers.insert(coerced, Arc::new(TypesFromAround));
    analyzers.insert(coerced, Arc::new(FramesOfPeers));
    analyzers.insert(coerced, Arc::new(RoundedFloats));
    analyzers.insert(coerced, Arc::new(WrittenBytes));
    analyzers.insert(coerced, Arc::new(MomentsTogether));
    analyzers.insert(coerced, Arc::new(ComparedSpans));
    analyzers.insert(coerced, Arc::new(ListedText));
    analyzers.insert(coerced, Arc::new(UnknownTexts));
    analyzers.push(Arc::new(ExactSpreads));
    analyzers.push(Arc::new(NumbersTogether));
    analyzers.push(Arc::new(CountedMultisets));
    analyzers.push(Arc::new(BytesOfLiterals));
    analyzers.push(Arc::new(LosslessCasts));
    analyzers.push(Arc::new(EqualZeros));
    analyzers.push(Arc::new(CheckedArithmetic));
    analyzers.push(Arc::new(CountedFunctions));
    // What it makes of subqueries has its types.
    analyzers.push(Arc::new(SubqueriesKeepingNulls));
    analyzers.push(Arc::new(NamesOfUnions));
    analyzers.push(Arc::new(CountedRows));
    analyzers.push(Arc::new(BareDistinct));
    let mut optimizers = Optimizer::new().rules;
    let ours: [Arc<dyn OptimizerRule + Send + Sync>; 4] = [
        Arc::new(SimplifyKeepingNulls::default()),
        Arc::new(PushDownKeepingConstants::default()),
        Arc::new(JoinsKeepingNulls::default()),
        Arc::new(KeysOfOneKind::default()),
    ];
    for rule in &mut optimizers {
        if let Some(ours) = ours.iter().find(|ours| ours.name() == rule.name()) {
            *rule = Arc::clone(ours);
        }
    }
    for before in ["replace_distinct_aggregate", "decorrelate_lateral_join"] {
        let at = optimizers.iter().position(|rule| rule.name() == before);
        optimizers.insert(at.map_or(0, |at| at + 1), Arc::new(NoFalseKeys));
    }
    // What `JoinsKeepingNulls` made of keys is keys again.
    optimizers.push(Arc::new(KeysOfOneKind::default()));
    // What the simplifier made lists of are lists.
    optimizers.push(Arc::new(EqualZeros));
    optimizers.push(Arc::new(ComputedLists));
    optimizers.push(Arc::new(OrderedKeys));
    optimizers.push(Arc::new(HeldConstants));
    let mut physical = PhysicalOptimizer::new().rules;
    for rule in physical.iter_mut().filter(|rule| rule.name().starts_with("FilterPushdown")) {
        *rule = Arc::new(FiltersOfTheirColumns(Arc::clone(rule)));
    }
    physical.insert(0, Arc::new(GroupingSetsOfUnknownRows));
    physical.insert(0, Arc::new(OrdersOfSkippedRows));
    // Before the first rule, and where it is known which side of a join is probed.
    let chosen = physical.iter().position(|rule| rule.name() == "join_selection").map_or(0, |at| at + 1);
    physical.insert(chosen, Arc::new(JoinSidesLessKnown));
    physical.insert(0, Arc::new(JoinSidesLessKnown));
    physical.push(Arc::new(WindowsInRuns::default()));
    physical.push(Arc::new(StoppableJoins));
    physical.push(Arc::new(CompactTexts));
    builder
        .with_analyzer_rules(all(analyzers, |rule| Arc::new(rule) as _))
        .with_optimizer_rules(all(optimizers, |rule| Arc::new(rule) as _))
        .with_physical_optimizer_rules(all(physical, |rule| Arc::new(rule) as _))
}

#[derive(Debug)]
struct Stoppable<R: ?Sized>(Arc<R>);

impl AnalyzerRule for Stoppable<dyn AnalyzerRule + Send + Sync> {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> PlanResult<LogicalPlan> {
        check()?;
        self.0.analyze(plan, config)
    }

    fn name(&self) -> &str {
        self.0.name()
    }
}

impl OptimizerRule for Stoppable<dyn OptimizerRule + Send + Sync> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>, DataFusionError> {
        check()?;
        self.0.rewrite(plan, config)
    }
}

impl PhysicalOptimizerRule for Stoppable<dyn PhysicalOptimizerRule + Send + Sync> {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> PlanResult<Arc<dyn ExecutionPlan>> {
        check()?;
        self.0.optimize(plan, config)
    }

    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        check()?;
        self.0.optimize_with_context(plan, context)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_types::ErrorKind;
    use datafusion::execution::context::SessionContext;
    use datafusion::execution::session_state::SessionState;

    fn state() -> SessionState {
        stoppable_rules(SessionStateBuilder::new().with_default_features()).build()
    }

    async fn planned(token: CancelToken) -> Result<usize> {
        let state = state();
        plan_apart(token, async move {
            let sql = "SELECT a, count(*) FROM (VALUES (1), (2)) AS t(a) WHERE a > 1 GROUP BY a";
            let plan = SessionContext::new_with_state(state.clone()).state().create_logical_plan(sql).await;
            let plan = plan.map_err(|error| crate::session::error_of(&error))?;
            let physical = state.create_physical_plan(&plan).await;
            physical.map(|plan| plan.schema().fields().len()).map_err(|error| crate::session::error_of(&error))
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

    #[test]
    fn wrapped_rules_keep_their_names_and_their_order_and_ours_comes_after_types_are_known() {
        let (plain, wrapped) = (SessionStateBuilder::new().with_default_features().build(), state());
        let names = |state: &SessionState| -> Vec<String> {
            let analyzer = state.analyzer().rules.iter().map(|rule| rule.name().to_owned());
            let logical =
                state.optimizers().iter().map(|rule| format!("{} {:?}", rule.name(), rule.apply_order().is_some()));
            let physical = state.physical_optimizers().iter().map(|rule| rule.name().to_owned());
            analyzer.chain(logical).chain(physical).collect()
        };
        let mut expected = names(&plain);
        let physical = expected.len() - plain.physical_optimizers().len();
        expected.push(WindowsInRuns::default().name().to_owned());
        expected.push(StoppableJoins.name().to_owned());
        expected.push(CompactTexts.name().to_owned());
        expected.insert(physical, GroupingSetsOfUnknownRows.name().to_owned());
        let chosen = expected.iter().position(|name| name == "join_selection").unwrap();
        expected.insert(chosen + 1, JoinSidesLessKnown.name().to_owned());
        expected.insert(physical, OrdersOfSkippedRows.name().to_owned());
        expected.insert(physical, JoinSidesLessKnown.name().to_owned());
        expected.insert(physical, "held_constants true".to_owned());
        expected.insert(physical, "ordered_keys true".to_owned());
        expected.insert(physical, "computed_lists true".to_owned());
        expected.insert(physical, "equal_zeros true".to_owned());
        expected.insert(physical, "extract_equijoin_predicate true".to_owned());
        let coerced = expected.iter().position(|name| name == "type_coercion").unwrap();
        expected.insert(coerced + 1, BareDistinct.name().to_owned());
        expected.insert(coerced + 1, CountedRows.name().to_owned());
        expected.insert(coerced + 1, NamesOfUnions.name().to_owned());
        expected.insert(coerced + 1, SubqueriesKeepingNulls.name().to_owned());
        expected.insert(coerced + 1, CountedFunctions.name().to_owned());
        expected.insert(coerced + 1, CheckedArithmetic.name().to_owned());
        expected.insert(coerced + 1, AnalyzerRule::name(&EqualZeros).to_owned());
        expected.insert(coerced + 1, LosslessCasts.name().to_owned());
        expected.insert(coerced + 1, BytesOfLiterals.name().to_owned());
        expected.insert(coerced + 1, CountedMultisets.name().to_owned());
        expected.insert(coerced + 1, NumbersTogether.name().to_owned());
        expected.insert(coerced + 1, ExactSpreads.name().to_owned());
        expected.insert(coerced, TypesFromAround.name().to_owned());
        expected.insert(coerced, FramesOfPeers.name().to_owned());
        expected.insert(coerced, RoundedFloats.name().to_owned());
        expected.insert(coerced, WrittenBytes.name().to_owned());
        expected.insert(coerced, MomentsTogether.name().to_owned());
        expected.insert(coerced, ComparedSpans.name().to_owned());
        expected.insert(coerced, ListedText.name().to_owned());
        expected.insert(coerced, UnknownTexts.name().to_owned());
        for before in ["replace_distinct_aggregate true", "decorrelate_lateral_join true"] {
            let at = expected.iter().position(|name| name == before).unwrap();
            expected.insert(at + 1, "no_false_keys false".to_owned());
        }
        assert_eq!(expected, names(&wrapped));
    }
}
