//! Which aggregate's values are a statement's own: then an error that values may have is that of the statement's values.
//!
//! Invariant: between the aggregate and the answer values are only carried, ordered, cut off and held against constants. Of a difference of
//! two estimates, of one that others are joined by, or of a threshold that was estimated nobody would know the error.

use super::source::without_alias;
use alluvia_plan::optimizer::ordered_keys::with_sign;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{Aggregate, Between, BinaryExpr, Expr, LogicalPlan, Operator};

/// The aggregate, if there is one.
pub(super) fn aggregate_of(plan: &LogicalPlan) -> Option<&Aggregate> {
    match plan {
        LogicalPlan::Aggregate(aggregate) => Some(aggregate),
        LogicalPlan::Projection(projection) if projection.expr.iter().all(is_carried) => {
            aggregate_of(&projection.input)
        }
        LogicalPlan::Sort(sort) if sort.expr.iter().all(|sort| is_carried(with_sign(&sort.expr))) => {
            aggregate_of(&sort.input)
        }
        LogicalPlan::Filter(filter) if is_test(&filter.predicate) => aggregate_of(&filter.input),
        LogicalPlan::Limit(limit) => {
            let is_constant = |rows: &Option<Box<Expr>>| rows.as_deref().is_none_or(is_literal);
            (is_constant(&limit.skip) && is_constant(&limit.fetch)).then(|| aggregate_of(&limit.input))?
        }
        LogicalPlan::SubqueryAlias(alias) => aggregate_of(&alias.input),
        LogicalPlan::Explain(explain) => aggregate_of(&explain.plan),
        LogicalPlan::Analyze(analyze) => aggregate_of(&analyze.input),
        _ => None,
    }
}

fn is_carried(expr: &Expr) -> bool {
    matches!(without_alias(expr), Expr::Column(_) | Expr::Literal(..))
}

fn is_literal(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(..))
}

/// A column, maybe widened for a comparison.
fn is_value(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(Cast { expr, .. }) => matches!(expr.as_ref(), Expr::Column(_)),
        other => matches!(other, Expr::Column(_)),
    }
}

/// Whether a condition only holds values against constants.
fn is_test(expr: &Expr) -> bool {
    match expr {
        Expr::Not(inner) => is_test(inner),
        Expr::IsNull(value) | Expr::IsNotNull(value) => is_value(value),
        Expr::Between(Between { expr, low, high, .. }) => is_value(expr) && is_literal(low) && is_literal(high),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And | Operator::Or, right }) => {
            is_test(left) && is_test(right)
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let is_comparison = matches!(
                op,
                Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq
            );
            is_comparison && (is_value(left) && is_literal(right) || is_literal(left) && is_value(right))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::functions_aggregate::count::count;
    use datafusion::functions_aggregate::sum::sum;
    use datafusion::logical_expr::logical_plan::table_scan;
    use datafusion::logical_expr::{JoinType, LogicalPlanBuilder, cast, col, lit};

    fn aggregated() -> LogicalPlanBuilder {
        let columns =
            Schema::new(vec![Field::new("k", DataType::Int64, false), Field::new("x", DataType::Int64, false)]);
        let plan = table_scan(Some("t"), &columns, None).and_then(LogicalPlanBuilder::build).expect("scans");
        let functions = vec![sum(col("x")).alias("s"), count(col("x")).alias("n")];
        LogicalPlanBuilder::from(plan).aggregate(vec![col("k")], functions).expect("aggregates")
    }

    #[test]
    fn values_are_carried_and_held_against_constants() {
        let plans = [
            aggregated(),
            aggregated()
                .filter(col("s").gt(lit(5)).and(cast(col("n"), DataType::Float64).lt(lit(1.5))))
                .expect("filters"),
            aggregated().project(vec![col("k"), col("s").alias("total"), lit("x")]).expect("projects"),
            aggregated().sort(vec![col("s").sort(false, true)]).and_then(|plan| plan.limit(1, Some(3))).expect("sorts"),
            aggregated().alias("a").and_then(|plan| plan.explain(false, true)).expect("explains"),
            aggregated().filter(!col("s").between(lit(1), lit(2))).expect("filters"),
        ];
        for plan in plans {
            let plan = plan.build().expect("builds");
            assert!(aggregate_of(&plan).is_some(), "{plan}");
        }
    }

    #[test]
    fn what_something_is_computed_from_is_exact() {
        let other = aggregated().alias("b").and_then(LogicalPlanBuilder::build).expect("builds");
        let plans = [
            aggregated().project(vec![(col("s") - col("n")).alias("d")]),
            aggregated().filter((col("s") / col("n")).gt(lit(5))),
            aggregated().filter(col("s").gt(col("n"))),
            aggregated().sort(vec![(col("s") / col("n")).sort(true, true)]),
            aggregated()
                .alias("a")
                .and_then(|plan| plan.join(other, JoinType::Inner, (vec!["a.k"], vec!["b.k"]), None)),
            aggregated().distinct(),
        ];
        for plan in plans {
            let plan = plan.and_then(LogicalPlanBuilder::build).expect("builds");
            assert!(aggregate_of(&plan).is_none(), "{plan}");
        }
    }
}
