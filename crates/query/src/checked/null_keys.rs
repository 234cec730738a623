//! Joins in which NULL equals NULL, among others.
//!
//! Invariant: a condition of a join means the same wherever the join is moved.
//!
//! DataFusion 55.2 makes `a IS NOT DISTINCT FROM b` a join of the keys `a` and `b` that takes NULL for equal, and then puts the keys of
//! neighbouring joins and of WHERE together under what the uppermost of them takes for equal; and an `=` that becomes a condition of such a
//! join later (of an outer one that turned out to be an inner one) it makes one of its keys. So before it moves joins, and before it makes
//! keys of conditions, such keys become conditions again, and at the end keys.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{NullEquality, Result};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, Join, JoinType, LogicalPlan, Operator, binary_expr};
use datafusion::optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion::optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// DataFusion's rule, which sees no inner join in which NULL equals NULL.
#[derive(Debug, Default)]
pub(crate) struct JoinsKeepingNulls(EliminateCrossJoin);

impl OptimizerRule for JoinsKeepingNulls {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let conditions = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Join(join) if has_null_keys(&join) => Ok(Transformed::yes(without_keys(join))),
            other => Ok(Transformed::no(other)),
        })?;
        let is_changed = conditions.transformed;
        let rewritten = self.0.rewrite(conditions.data, config)?;
        Ok(Transformed::new_transformed(rewritten.data, rewritten.transformed || is_changed))
    }
}

/// DataFusion's rule, which makes keys of one kind alone: of `=`, or where there is none of `IS NOT DISTINCT FROM`.
#[derive(Debug, Default)]
pub(crate) struct KeysOfOneKind(ExtractEquijoinPredicate);

impl OptimizerRule for KeysOfOneKind {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Join(join) if takes_null_for_equal(&join) && join.filter.is_some() => {
                let rewritten = self.0.rewrite(without_keys(join), config)?;
                Ok(Transformed::yes(rewritten.data))
            }
            other => self.0.rewrite(other, config),
        }
    }
}

fn has_null_keys(join: &Join) -> bool {
    join.join_type == JoinType::Inner && takes_null_for_equal(join)
}

fn takes_null_for_equal(join: &Join) -> bool {
    join.null_equality == NullEquality::NullEqualsNull && !join.on.is_empty()
}

fn without_keys(mut join: Join) -> LogicalPlan {
    let keys = std::mem::take(&mut join.on);
    let same = keys.into_iter().map(|(left, right)| binary_expr(left, Operator::IsNotDistinctFrom, right));
    let conditions: Vec<Expr> = same.chain(join.filter.take()).collect();
    join.filter = conjunction(conditions);
    join.null_equality = NullEquality::NullEqualsNothing;
    LogicalPlan::Join(join)
}
