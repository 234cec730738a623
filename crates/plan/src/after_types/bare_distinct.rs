//! DISTINCT aggregates that stand bare.
//!
//! Invariant: an aggregate DISTINCT whose argument was changed is called what it was called before by a projection above it, and not within
//! its node, but in grouping sets and where two would have one name.
//!
//! DataFusion 55.2 makes groups of what is DISTINCT where all aggregates are bare (`single_distinct_aggregation_to_group_by`). Groups spill,
//! have what is equal once, and know no functions that cannot do it, such as `stddev(DISTINCT x)`.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr::Alias;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Projection};
use datafusion::optimizer::analyzer::AnalyzerRule;
use std::collections::HashSet;
use std::sync::Arc;

/// Moves names above aggregates. Must come after all rules that change arguments.
#[derive(Debug)]
pub struct BareDistinct;

impl AnalyzerRule for BareDistinct {
    fn name(&self) -> &str {
        "bare_distinct"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(bare)?.data)
    }
}

fn bare(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Aggregate(aggregate) = plan else { return Ok(Transformed::no(plan)) };
    let has_sets = aggregate.group_expr.iter().any(|key| matches!(key, Expr::GroupingSet(_)));
    if has_sets || !aggregate.aggr_expr.iter().any(is_named_distinct) {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let exprs: Vec<Expr> = aggregate.aggr_expr.iter().cloned().map(Expr::unalias).collect();
    let mut names = HashSet::new();
    if !aggregate.group_expr.iter().chain(&exprs).all(|expr| names.insert(expr.schema_name().to_string())) {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let Aggregate { input, group_expr, schema, .. } = aggregate;
    let inner = Aggregate::try_new(input, group_expr, exprs)?;
    let columns = inner.schema.columns().into_iter().zip(schema.iter()).map(|(column, (relation, field))| {
        if column.relation.as_ref() == relation && column.name == *field.name() {
            Expr::Column(column)
        } else {
            Expr::Column(column).alias_qualified(relation.cloned(), field.name())
        }
    });
    let columns = columns.collect();
    let named = Projection::try_new(columns, Arc::new(LogicalPlan::Aggregate(inner)))?;
    Ok(Transformed::yes(LogicalPlan::Projection(named)))
}

fn is_named_distinct(expr: &Expr) -> bool {
    let Expr::Alias(Alias { expr, .. }) = expr else { return false };
    matches!(expr.as_ref(), Expr::AggregateFunction(aggregate) if aggregate.params.distinct)
}
