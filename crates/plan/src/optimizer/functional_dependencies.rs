//! Keys that are none behind a join.
//!
//! Invariant: what an aggregate or DISTINCT says is unique among its rows, is.
//!
//! `SELECT DISTINCT x` makes a key of x. A join with other rows repeats it, so that x says what the other columns of its side are, and no
//! more. `GROUP BY x, y` above takes x for a key of all its rows in DataFusion 55.2 (`aggregate_functional_dependencies` has each dependency
//! of its input lead to all columns): `ORDER BY x, y` sorts by x alone, `GROUP BY x, y` around it groups by x, and LEFT JOIN loses rows. So
//! such an x comes to the aggregate as something of which nobody knows that it was a key.
//!
//! Mends DataFusion (in 55.2): no issue upstream known (searched 2026-11-27: functional dependencies,
//! Dependency::Multi, aggregate over a join, ORDER BY keys dropped).

use crate::after_types::subqueries::is_from_around;
use alluvia_functions::internal::opaque::no_key;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Dependency, Result};
use datafusion::logical_expr::{Aggregate, Distinct, Expr, LogicalPlan, Projection};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// Hides such keys from aggregates and DISTINCT. Must come right behind the rule that makes aggregates of DISTINCT, which have keys only then,
/// and before all that believe in keys; and again behind those that make joins of subqueries, until when what reads columns from around it is
/// left alone: these rules take such columns up through its projections, by their names.
#[derive(Debug)]
pub struct NoFalseKeys;

impl OptimizerRule for NoFalseKeys {
    fn name(&self) -> &str {
        "no_false_keys"
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut misleads = false;
        plan.apply_with_subqueries(|plan| {
            misleads |= !misleading_of(plan).is_empty();
            Ok(if misleads { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if misleads { within(plan) } else { Ok(Transformed::no(plan)) }
    }
}

/// Hides them in a plan, the lowest parts first, and in its subqueries that read nothing around them.
fn within(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if matches!(&plan, LogicalPlan::Subquery(subquery) if !subquery.outer_ref_columns.is_empty()) {
        return Ok(Transformed::no(plan));
    }
    plan.map_children(within)?.transform_data(|plan| plan.map_subqueries(within))?.transform_data(hidden)
}

fn hidden(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    // What is above one that changed knows of its keys.
    let plan = plan.recompute_schema()?;
    let places = misleading_of(&plan);
    if places.is_empty() {
        return Ok(Transformed::no(plan));
    }
    Ok(match plan {
        LogicalPlan::Aggregate(Aggregate { input, group_expr, aggr_expr, schema, .. }) => {
            let input = Arc::new(hiding(input, &places)?);
            // The schema has other keys then, and the same names.
            let aggregate = Aggregate::try_new_with_schema(input, group_expr, aggr_expr, schema)?;
            Transformed::yes(LogicalPlan::Aggregate(aggregate))
        }
        LogicalPlan::Distinct(Distinct::All(input)) => {
            let input = Arc::new(hiding(input, &places)?);
            Transformed::yes(LogicalPlan::Distinct(Distinct::All(input)))
        }
        other => Transformed::no(other),
    })
}

fn misleading_of(plan: &LogicalPlan) -> BTreeSet<usize> {
    match plan {
        // Of grouping sets DataFusion knows no keys: no name of theirs is a column's.
        LogicalPlan::Aggregate(Aggregate { input, group_expr, .. }) => {
            misleading(input.schema(), || group_expr.iter().map(|key| key.schema_name().to_string()).collect())
        }
        LogicalPlan::Distinct(Distinct::All(input)) => {
            misleading(input.schema(), || input.schema().field_names().into_iter().collect())
        }
        _ => BTreeSet::new(),
    }
}

/// The places of columns that rows of a join have in common, and that are grouped by together with what they say nothing of.
fn misleading(input: &DFSchema, grouped: impl FnOnce() -> HashSet<String>) -> BTreeSet<usize> {
    let mut places = BTreeSet::new();
    let repeated = || input.functional_dependencies().iter().filter(|of| of.mode == Dependency::Multi);
    if repeated().next().is_none() {
        return places;
    }
    let (names, grouped) = (input.field_names(), grouped());
    let is_grouped = |place: &usize| names.get(*place).is_some_and(|name| grouped.contains(name));
    for dependency in repeated() {
        let told: HashSet<&String> = dependency.target_indices.iter().filter_map(|place| names.get(*place)).collect();
        let tells_all = grouped.iter().all(|name| told.contains(name));
        if !tells_all && dependency.source_indices.iter().all(is_grouped) {
            let is_own = |place: &usize| !is_from_around(input.field(*place).name());
            places.extend(dependency.source_indices.iter().copied().filter(is_own));
        }
    }
    places
}

/// The same rows, of which nothing is known in some places.
fn hiding(input: Arc<LogicalPlan>, places: &BTreeSet<usize>) -> Result<LogicalPlan> {
    let columns = input.schema().columns().into_iter().enumerate().map(|(place, column)| {
        if places.contains(&place) {
            let (relation, name) = (column.relation.clone(), column.name.clone());
            no_key(Expr::Column(column)).alias_qualified(relation, name)
        } else {
            Expr::Column(column)
        }
    });
    let columns = columns.collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, input)?))
}

#[cfg(test)]
mod tests {
    use crate::testing::{context, rows};

    #[tokio::test]
    async fn what_was_a_key_is_none_behind_a_join() {
        let context = context();
        let (x, y) = ("(VALUES (2), (1)) v(x)", "(VALUES (20), (10), (30)) b(y)");
        for a in [format!("SELECT DISTINCT x FROM {x}"), format!("SELECT x FROM {x} GROUP BY x")] {
            let grouped = format!("SELECT a.x, b.y, count(*) AS c FROM ({a}) a, {y} GROUP BY a.x, b.y");
            let sorted = rows(&context, &format!("{grouped} ORDER BY a.x, b.y")).await.unwrap();
            let expected: Vec<Vec<Option<i64>>> = [(1, 10), (1, 20), (1, 30), (2, 10), (2, 20), (2, 30)]
                .map(|(x, y)| vec![Some(x), Some(y), Some(1)])
                .to_vec();
            assert_eq!(sorted, expected, "{grouped}");
            let around = rows(&context, &format!("SELECT x, sum(c) FROM ({grouped}) q GROUP BY x, y ORDER BY x")).await;
            assert_eq!(around.unwrap().len(), 6, "{grouped}");
            let joined = format!("SELECT v.x FROM {x} LEFT JOIN ({grouped}) q ON v.x = q.x ORDER BY 1");
            assert_eq!(rows(&context, &joined).await.unwrap().len(), 6, "{grouped}");
        }
        let distinct = "SELECT DISTINCT a.x, b.y FROM (SELECT DISTINCT x FROM (VALUES (2), (1)) v(x)) a, (VALUES (2), (1)) b(y) ORDER BY 1, 2";
        let expected: Vec<Vec<Option<i64>>> =
            [(1, 1), (1, 2), (2, 1), (2, 2)].map(|(x, y)| vec![Some(x), Some(y)]).to_vec();
        assert_eq!(rows(&context, distinct).await.unwrap(), expected);
    }
}
