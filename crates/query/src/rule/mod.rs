//! Aggregates inside larger statements, answered from the index: HAVING, subqueries, CTEs, UNION, joins.
//!
//! After the last logical rule, and before anything is planned physically, each aggregate of one table ([`source`]) whose groups,
//! functions ([`aggregate`]) and conditions ([`condition`]) the index can hold becomes a [`node`] of ours, which asks the
//! index on the statement's own snapshot when it runs ([`exec`]). An aggregate of a join is first cut in two, so that its
//! lower part is one of a single table ([`star`]).
//!
//! Invariants:
//! - Refuses rather than errs: a part of the plan that is not understood leaves the aggregate as it is.
//! - The aggregate stays beneath the node. Names, types and nullability are its own, and it is run where the index refuses:
//!   because of a value that only turns up then, or because there are too many groups.
//! - All answers of a statement are of its snapshot's version, also those of cuboids.
//! - Estimated is at most the one aggregate whose values are the statement's ([`whole`]), never one that something is computed from.
//!
//! This is no rule in the optimizer's list, because that is gone through several times, and what came after the first time would
//! find a node that it cannot look into.

mod aggregate;
mod condition;
mod described;
mod elsewhere;
mod exec;
mod node;
mod small;
mod source;
mod star;
mod times;
mod whole;

pub(crate) use described::{described, is_refused, why_exact};

use crate::table::{StatementContext, is_utc};
use alluvia_plan::shared_rows::{Shared, SharedRows, SharedRowsExec};
use alluvia_spread::ElsewherePlanner;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Plans queries with the index's answers in them.
#[derive(Debug)]
pub(crate) struct IndexPlanner;

#[async_trait]
impl QueryPlanner for IndexPlanner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![
            Arc::new(node::IndexAnswerPlanner),
            Arc::new(SharedRowsPlanner::default()),
            Arc::new(ElsewherePlanner),
        ]);
        match StatementContext::of(session) {
            Ok(context) if context.store.is_remote() && has_aggregate(plan)? => {
                let is_utc = is_utc(session);
                planner.create_physical_plan(&elsewhere::asked(plan.clone(), &context, is_utc)?, session).await
            }
            Ok(context) if context.index.rule && has_aggregate(plan)? => {
                let plan = answered(plan.clone(), &context)?;
                planner.create_physical_plan(&plan, session).await
            }
            _ => planner.create_physical_plan(plan, session).await,
        }
    }
}

/// Plans readers of rows that one plan computes once.
#[derive(Default)]
struct SharedRowsPlanner(Mutex<HashMap<u64, Arc<Shared>>>);

#[async_trait]
impl ExtensionPlanner for SharedRowsPlanner {
    async fn plan_extension(
        &self,
        _planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical_inputs: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        _session: &dyn Session,
        _context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let (Some(rows), [input]) = (node.as_any().downcast_ref::<SharedRows>(), inputs) else { return Ok(None) };
        let shared = Arc::clone(self.0.lock().entry(rows.number()).or_default());
        Ok(Some(Arc::new(SharedRowsExec::new(Arc::clone(input), shared))))
    }
}

/// Whether an operator is the index's answer, whose first input runs in its place if the index refuses.
pub(crate) fn is_index_answer(plan: &dyn ExecutionPlan) -> bool {
    plan.is::<exec::IndexAnswerExec>()
}

fn has_aggregate(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|plan| {
        found |= matches!(plan, LogicalPlan::Aggregate(_));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// The plan with nodes of ours where the index can answer.
fn answered(plan: LogicalPlan, context: &Arc<StatementContext>) -> Result<LogicalPlan> {
    let accuracy = context.index.accuracy;
    let whole = accuracy.and_then(|_| whole::aggregate_of(&plan).cloned());
    let replaced = plan.transform_up_with_subqueries(|plan| {
        let LogicalPlan::Aggregate(aggregate) = &plan else { return Ok(Transformed::no(plan)) };
        let accuracy = accuracy.filter(|_| whole.as_ref() == Some(aggregate));
        let answer = node::answer(aggregate, Vec::new(), accuracy, context)
            .or_else(|| star::answer(aggregate, accuracy, context));
        Ok(answer.map_or_else(|| Transformed::no(plan), Transformed::yes))
    })?;
    Ok(replaced.data)
}
