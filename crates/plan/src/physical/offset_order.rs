//! Orders that say which rows OFFSET leaves out.
//!
//! Invariant: rows that are skipped are the first in the order that the statement says, whatever is read of the others.
//!
//! DataFusion 55.2 takes out the sort below an OFFSET without a LIMIT where the column that it sorts by is not read any more
//! (`SELECT max(id) FROM (SELECT id, t FROM s ORDER BY t OFFSET 5) x`): nobody seems to want its order. And it puts a sort that is above such
//! an OFFSET below it. Here somebody wants the order until the rules are done, and what is above does not know of it.
//!
//! Mends apache/datafusion#23534, #25378 (in 55.2).

use super::less_known::{LessKnownExec, StillKnown};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::Distribution;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::output_requirements::OutputRequirementExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};
use std::sync::Arc;

/// The rule. It must come before those that take sorts out; DataFusion's last rule of outputs takes away again what it adds.
#[derive(Debug)]
pub struct OrdersOfSkippedRows;

impl PhysicalOptimizerRule for OrdersOfSkippedRows {
    fn name(&self) -> &str {
        "orders_of_skipped_rows"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let kept = plan.transform_up(|plan| match plan.downcast_ref::<GlobalLimitExec>() {
            Some(limit) if limit.skip() > 0 && limit.fetch().is_none() => {
                let input = wanted(limit.input())?;
                let limit = replace_children_if_necessary(plan, vec![input])?;
                Ok(Transformed::yes(LessKnownExec::over(&limit, StillKnown::AllButOrder)))
            }
            _ => Ok(Transformed::no(plan)),
        });
        let kept = kept.data()?;
        // The order of all rows is the statement's own.
        Ok(if kept.is::<LessKnownExec>() {
            kept.children().first().map_or(kept.clone(), |&last| Arc::clone(last))
        } else {
            kept
        })
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The plan, whose sort is wanted, if there is one with nothing but projections above it.
fn wanted(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(sort) = plan.downcast_ref::<SortExec>() {
        let order = sort.expr().clone().into();
        let wanted = OutputRequirementExec::new(Arc::clone(plan), Some(order), Distribution::SinglePartition, None);
        return Ok(Arc::new(wanted));
    }
    match plan.downcast_ref::<ProjectionExec>() {
        Some(projection) => replace_children_if_necessary(Arc::clone(plan), vec![wanted(projection.input())?]),
        None => Ok(Arc::clone(plan)),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Value, context, questions, rows, runtime, table};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(questions())]
        #[test]
        fn rows_that_are_skipped_are_the_first(values in prop::collection::vec(0..100_i64, 0..30), skipped in 0..10_usize) {
            let numbered: Vec<[Value; 2]> = values.iter().enumerate().map(|(at, v)| [Some(at as i64), Some(*v)]).collect();
            let mut left: Vec<[Value; 2]> = numbered.clone();
            left.sort_by_key(|[id, v]| (*v, *id));
            let mut left: Vec<Vec<Value>> = left.into_iter().skip(skipped).map(|[id, _]| vec![id]).collect();
            left.sort();
            let found = runtime().block_on(async {
                let context = context();
                context.register_batch("r", table(["id", "v"], &numbered)).expect("a new table");
                let mut found = Vec::new();
                for of in ["x", "x JOIN (SELECT id AS i FROM r) y ON id = i", "x WHERE id >= 0"] {
                    let order = format!("SELECT id, v FROM r ORDER BY v, id OFFSET {skipped}");
                    found.push(rows(&context, &format!("SELECT id FROM ({order}) {of} ORDER BY id")).await?);
                }
                Ok::<_, String>(found)
            });
            prop_assert_eq!(found, Ok(vec![left; 3]));
        }
    }
}
