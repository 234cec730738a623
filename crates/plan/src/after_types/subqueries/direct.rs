//! Which subqueries DataFusion makes joins of by itself, rightly, and how it would.
//!
//! Invariant: of such a subquery, the conditions that read columns from around it mean the same in the join as below it. So nothing
//! between them and the join looks at rows together, but for an aggregate whose groups they are.

use super::outer_columns;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, Expr, ExprSchemable, JoinType, LogicalPlan, LogicalPlanBuilder, Operator,
    SkipType, lit,
};
use datafusion::optimizer::decorrelate::PullUpCorrelatedExpr;
use std::collections::HashSet;

fn is_correlated(plan: &LogicalPlan) -> bool {
    !outer_columns(plan).is_empty()
}

/// Whether the conditions of EXISTS, or else of IN, can come after the query's other parts.
pub(super) fn pulls_up(plan: &LogicalPlan, is_exists: bool) -> Result<bool> {
    if !is_correlated(plan) {
        // DataFusion 55.2 takes a LIMIT for one of the EXISTS itself.
        return Ok(!is_exists || !plan.exists(|plan| Ok(matches!(plan, LogicalPlan::Limit(_))))?);
    }
    Ok(match plan {
        LogicalPlan::Filter(filter) => pulls_up(&filter.input, is_exists)?,
        LogicalPlan::SubqueryAlias(alias) => shows_pulled(&alias.input) && pulls_up(&alias.input, is_exists)?,
        LogicalPlan::Projection(projection) => {
            !plan.contains_outer_reference() && pulls_up(&projection.input, is_exists)?
        }
        LogicalPlan::Distinct(Distinct::All(input)) => pulls_up(input, is_exists)?,
        LogicalPlan::Aggregate(Aggregate { input, group_expr, aggr_expr, .. }) => {
            let has_sets = group_expr.iter().any(|group| matches!(group, Expr::GroupingSet(_)));
            !plan.contains_outer_reference()
                && !group_expr.is_empty()
                && !has_sets
                && (aggr_expr.is_empty() || is_of_equals(input))
                && pulls_up(input, is_exists)?
        }
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
            !plan.contains_outer_reference() && pulls_up(&join.left, is_exists)? && pulls_up(&join.right, is_exists)?
        }
        _ => false,
    })
}

/// Whether names alone tell the columns apart that conditions from around a query read of it: DataFusion 55.2 goes by them where it gives the
/// query's rows another name.
pub(super) fn has_names_apart(plan: &LogicalPlan) -> bool {
    pulled_columns(plan).is_some_and(|pulled| is_apart(&pulled, plan))
}

/// Whether a query that gets another name shows the columns that conditions from around it read: DataFusion 55.2 adds them to the query, and not
/// to what there is under the name.
fn shows_pulled(plan: &LogicalPlan) -> bool {
    pulled_columns(plan).is_some_and(|pulled| pulled.iter().all(|column| plan.schema().has_column(column)))
}

/// Whether a query reads what is around it in conditions alone, which mean the same after all else that it does, each of its rows by itself.
pub(super) fn is_of_conditions(plan: &LogicalPlan) -> bool {
    if !is_correlated(plan) {
        return true;
    }
    match plan {
        LogicalPlan::Filter(filter) => {
            let mut conditions = split_conjunction(&filter.predicate).into_iter();
            let is_left = conditions.any(|of| of.contains_outer() && super::has_subquery(of));
            !is_left && is_of_conditions(&filter.input)
        }
        LogicalPlan::SubqueryAlias(alias) => shows_pulled(&alias.input) && is_of_conditions(&alias.input),
        LogicalPlan::Projection(projection) => !plan.contains_outer_reference() && is_of_conditions(&projection.input),
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
            !plan.contains_outer_reference() && is_of_conditions(&join.left) && is_of_conditions(&join.right)
        }
        _ => false,
    }
}

fn is_apart(pulled: &HashSet<Column>, plan: &LogicalPlan) -> bool {
    let shown = plan.schema().columns();
    pulled.iter().all(|one| pulled.iter().chain(&shown).all(|other| other == one || other.name != one.name))
}

/// The columns that conditions on what is around read, as they come out of a plan; `None` if names do not tell them apart below it.
fn pulled_columns(plan: &LogicalPlan) -> Option<HashSet<Column>> {
    let mut pulled = HashSet::new();
    for input in plan.inputs() {
        pulled.extend(pulled_columns(input)?);
    }
    match plan {
        LogicalPlan::Filter(filter) => {
            let outer = split_conjunction(&filter.predicate).into_iter().filter(|of| of.contains_outer());
            outer.for_each(|of| pulled.extend(of.column_refs().into_iter().cloned()));
        }
        LogicalPlan::SubqueryAlias(alias) => {
            if !is_apart(&pulled, &alias.input) {
                return None;
            }
            pulled = pulled.into_iter().map(|column| Column::new(Some(alias.alias.clone()), column.name)).collect();
        }
        LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) if !is_apart(&pulled, plan) => return None,
        _ => {}
    }
    Some(pulled)
}

/// Whether a cast never makes one value of two.
fn keeps_apart(from: &DataType, to: &DataType) -> bool {
    use DataType::{Decimal128, Float32, Float64, Int8, Int16, Int32, LargeUtf8, Utf8, Utf8View};
    from == to
        || from.is_integer() && (to.is_integer() || matches!(to, Decimal128(..)))
        || matches!((from, to), (Float32 | Int8 | Int16 | Int32, Float64))
        || matches!((from, to), (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View))
}

/// Whether all conditions with columns from around a query compare one of its columns for equality, each value of which is equal to one value
/// around: DataFusion 55.2 groups by the column, not by what it is cast to.
fn is_of_equals(plan: &LogicalPlan) -> bool {
    let is_column = |expr: &Expr, schema: &DFSchema| match expr {
        Expr::Column(_) => true,
        Expr::Cast(Cast { expr, field }) => {
            matches!(**expr, Expr::Column(_))
                && expr.get_type(schema).is_ok_and(|of| keeps_apart(&of, field.data_type()))
        }
        _ => false,
    };
    let is_equal = |condition: &Expr, schema: &DFSchema| match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            is_column(left, schema) && !right.any_column_refs() || is_column(right, schema) && !left.any_column_refs()
        }
        _ => false,
    };
    let is_other = plan.exists(|plan| {
        Ok(match plan {
            LogicalPlan::Filter(filter) => {
                let schema = filter.input.schema();
                split_conjunction(&filter.predicate).into_iter().any(|of| of.contains_outer() && !is_equal(of, schema))
            }
            other => other.contains_outer_reference(),
        })
    });
    is_other.is_ok_and(|is_other| !is_other)
}

/// Whether it is the value of an aggregate of rows that equal those around: DataFusion groups by the columns that are equal, and knows
/// what the aggregate is of no rows. Or whether it reads nothing from around it.
pub(super) fn is_value_of_equals(plan: &LogicalPlan) -> Result<bool> {
    if !is_correlated(plan) {
        return Ok(true);
    }
    match plan {
        LogicalPlan::Projection(projection) => {
            Ok(!plan.contains_outer_reference() && is_value_of_equals(&projection.input)?)
        }
        LogicalPlan::SubqueryAlias(alias) => Ok(shows_pulled(&alias.input) && is_value_of_equals(&alias.input)?),
        LogicalPlan::Aggregate(Aggregate { input, group_expr, aggr_expr, .. }) => Ok(group_expr.is_empty()
            && !aggr_expr.is_empty()
            && !plan.contains_outer_reference()
            && is_of_equals(input)
            && pulls_up(input, false)?),
        _ => Ok(false),
    }
}

/// Whether an aggregate without groups is all that a query has, and is NULL of no rows.
pub(super) fn is_null_of_no_rows(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => is_null_of_no_rows(&alias.input),
        LogicalPlan::Projection(projection) => {
            let is_same = |expr: &Expr| matches!(expr.clone().unalias_nested().data, Expr::Column(_));
            projection.expr.iter().all(is_same) && is_null_of_no_rows(&projection.input)
        }
        LogicalPlan::Aggregate(aggregate) => {
            let is_null = |expr: &Expr| match expr.clone().unalias_nested().data {
                Expr::AggregateFunction(function) => ["min", "max", "sum", "avg"].contains(&function.func.name()),
                _ => false,
            };
            aggregate.group_expr.is_empty() && aggregate.aggr_expr.iter().all(is_null)
        }
        _ => false,
    }
}

/// The query without what changes nothing about whether it has rows.
pub(super) fn without_order(query: &LogicalPlan) -> &LogicalPlan {
    match query {
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => without_order(&sort.input),
        LogicalPlan::Distinct(Distinct::All(input)) => without_order(input),
        LogicalPlan::SubqueryAlias(alias) => without_order(&alias.input),
        LogicalPlan::Projection(projection) => without_order(&projection.input),
        LogicalPlan::Limit(limit) => {
            let is_all = matches!(limit.get_skip_type(), Ok(SkipType::Literal(0)));
            let is_some = matches!(limit.fetch.as_deref(), Some(Expr::Literal(..)))
                && limit.get_fetch_type().is_ok_and(
                    |fetch| matches!(fetch, datafusion::logical_expr::FetchType::Literal(Some(rows)) if rows > 0),
                );
            if is_all && is_some { without_order(&limit.input) } else { query }
        }
        other => other,
    }
}

/// One row if a query that reads nothing from around it has any. What it reads from further out may let it have more.
pub(super) fn at_most_one(query: &LogicalPlan, name: &str) -> Result<LogicalPlan> {
    let rows = LogicalPlanBuilder::from(query.clone()).project([lit(true).alias("found")])?;
    let rows = if is_correlated(query) { rows } else { rows.limit(0, Some(1))? };
    rows.alias(name)?.build()
}

/// The rows of an EXISTS whose conditions on columns from around it come after all else, and these as conditions on the rows under a name.
pub(super) fn pulled_up(query: &LogicalPlan, near: &[Column], name: &str) -> Result<Option<(LogicalPlan, Expr)>> {
    let is_far = outer_columns(query).iter().any(|column| !near.contains(column));
    if near.is_empty() || is_far || !pulls_up(query, true)? {
        return Ok(None);
    }
    let mut pull_up = PullUpCorrelatedExpr::new().with_exists_sub_query(true);
    let rows = query.clone().rewrite(&mut pull_up).data()?;
    let Some(condition) = conjunction(std::mem::take(&mut pull_up.join_filters)).filter(|_| pull_up.can_pull_up) else {
        return Ok(None);
    };
    if super::has_subquery(&condition) {
        // It is computed in a filter, and not in the condition of a join.
        return Ok(None);
    }
    let pulled: HashSet<&Column> = pull_up.correlated_subquery_cols_map.values().flatten().collect();
    let mut columns: Vec<&Column> = pulled.into_iter().filter(|column| rows.schema().has_column(column)).collect();
    columns.sort();
    let names: HashSet<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    if names.len() != columns.len() {
        // Two tables' columns of one name.
        return Ok(None);
    }
    let renamed = |column: &Column| Column::new(Some(name), column.name.clone());
    let condition = condition.transform_up(|expr| {
        use datafusion::common::tree_node::Transformed;
        Ok(match expr {
            Expr::Column(column) if columns.contains(&&column) => Transformed::yes(Expr::Column(renamed(&column))),
            other => Transformed::no(other),
        })
    })?;
    let shown: Vec<Expr> = match columns.as_slice() {
        [] => vec![lit(true).alias("found")],
        columns => columns.iter().map(|&column| Expr::Column(column.clone())).collect(),
    };
    let rows = LogicalPlanBuilder::from(rows).project(shown)?.alias(name)?.build()?;
    Ok(Some((rows, condition.data)))
}
