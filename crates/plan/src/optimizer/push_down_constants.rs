//! Conditions without columns that stay above aggregates.
//!
//! Invariant: an aggregate without groups has one row, also of no rows; a condition on it that reads none of its columns leaves out that
//! row, not the rows below.
//!
//! DataFusion 55.2 pushes a condition below an aggregate if all its columns are groups, which is so of no columns. The simplifier makes
//! most such conditions true or false before, but not those that come to be within the same rule: `x = 1` of a table that is joined to
//! the left of nothing is `NULL = 1`, and `min(a) = 1 AND min(a) = 2` is false.
//!
//! Mends DataFusion (in 55.2): no issue upstream known (searched 2026-11-27: HAVING, constant filter, aggregate without
//! GROUP BY, PushDownFilter).

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Aggregate, Expr, Filter, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// DataFusion's rule, which sees no condition that it would push too far.
#[derive(Debug, Default)]
pub struct PushDownKeepingConstants(PushDownFilter);

impl OptimizerRule for PushDownKeepingConstants {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match aggregate_below(&plan) {
            None => return self.0.rewrite(plan, config),
            // Nothing that reads a column may pass it, and what reads none must not.
            Some(aggregate) if gives_rows_of_none(aggregate) => return Ok(Transformed::no(plan)),
            Some(_) => {}
        }
        // DataFusion's rule would make one of filters that lie on one another by itself, and not ask here again.
        let (mut conditions, mut input) = (Vec::new(), Arc::new(plan));
        while let LogicalPlan::Filter(filter) = input.as_ref() {
            conditions.extend(split_conjunction_owned(filter.predicate.clone()));
            input = Arc::clone(&filter.input);
        }
        let (constants, others): (Vec<Expr>, Vec<Expr>) =
            conditions.into_iter().partition(|condition| condition.column_refs().is_empty());
        let below = match conjunction(others) {
            Some(others) => {
                let filter = Filter::try_new(others, input)?;
                self.0.rewrite(LogicalPlan::Filter(filter), config)?
            }
            None => Transformed::no(Arc::unwrap_or_clone(input)),
        };
        match conjunction(constants) {
            Some(constants) => {
                below.map_data(|below| Ok(LogicalPlan::Filter(Filter::try_new(constants, Arc::new(below))?)))
            }
            None => Ok(below),
        }
    }
}

/// The aggregate of which it is a filter, or a filter of filters.
fn aggregate_below(plan: &LogicalPlan) -> Option<&Aggregate> {
    let LogicalPlan::Filter(filter) = plan else { return None };
    match filter.input.as_ref() {
        LogicalPlan::Aggregate(aggregate) => Some(aggregate),
        below => aggregate_below(below),
    }
}

/// Whether it may have a group that is there without rows.
fn gives_rows_of_none(aggregate: &Aggregate) -> bool {
    aggregate.group_expr.is_empty() || aggregate.group_expr.iter().any(|key| matches!(key, Expr::GroupingSet(_)))
}
