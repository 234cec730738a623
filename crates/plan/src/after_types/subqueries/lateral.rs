//! LATERAL: a side of a join that reads columns of the side before it.
//!
//! Invariants:
//! - A row of the left side is joined with the rows that the right side has where this is the row around it: the same as many times as it
//!   comes, and by LEFT JOIN with NULLs where there are none.
//! - What is left to DataFusion is what its joins get right: conditions that come after all else, and aggregates of equals.
//!
//! What only computes from the row around it ([`is_of_row`]) is computed over the left side itself. All else is computed for all values of the
//! columns that it reads ([`domain`]), and joined by these.

use super::{Names, direct, domain, has_subquery, node, outer_columns, projected};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result, ScalarValue, not_impl_err};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, Join, JoinType, LogicalPlan};
use std::sync::Arc;

/// Whether a side of the join reads the other one.
pub fn is_lateral(join: &Join) -> bool {
    join.right.exists(|plan| Ok(matches!(plan, LogicalPlan::Subquery(_)))).is_ok_and(|is| is)
        && !read_of_left(join).is_empty()
}

/// The columns of its left side that the right one reads.
fn read_of_left(join: &Join) -> Vec<Column> {
    let mut read = outer_columns(&join.right);
    read.retain(|column| join.left.schema().has_column(column));
    read
}

/// Refuses a query with a join of which a side that is not marked reads columns, in its own subqueries, that both the other side and what is around
/// the query have: only one with LATERAL would mean those of the other side.
pub(super) fn refuse_unclear(query: &LogicalPlan, around: &[Column]) -> Result<()> {
    let mut unclear = None;
    query.apply(|plan| {
        if let LogicalPlan::Join(join) = plan
            && !is_lateral(join)
        {
            unclear = read_of_left(join).into_iter().find(|column| around.contains(column));
        }
        Ok(if unclear.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    let Some(column) = unclear else { return Ok(()) };
    not_impl_err!(
        "a subquery in FROM that reads {column}, where one table beside it and one around it are called so, is not supported: give them \
         different names"
    )
}

/// Whether DataFusion's join is right.
pub fn is_left(join: &Join) -> Result<bool> {
    let subquery = match join.right.as_ref() {
        LogicalPlan::SubqueryAlias(alias) => alias.input.as_ref(),
        other => other,
    };
    let LogicalPlan::Subquery(subquery) = subquery else { return Ok(false) };
    let query = subquery.subquery.as_ref();
    let is_near = outer_columns(query).iter().all(|column| join.left.schema().has_column(column));
    Ok(is_near
        && is_always(join)
        && matches!(join.join_type, JoinType::Inner | JoinType::Left)
        && (direct::is_of_conditions(query) || direct::is_value_of_equals(query)?)
        && direct::has_names_apart(query))
}

/// A join of sides that each can be computed by itself.
pub fn joined(join: Join, names: &mut Names) -> Result<LogicalPlan> {
    if !matches!(join.join_type, JoinType::Inner | JoinType::Left) {
        return not_impl_err!("LATERAL is supported with JOIN, LEFT JOIN and a comma only");
    }
    if is_of_row(&join.right) && (join.join_type == JoinType::Inner || has_rows(&join.right) && is_always(&join)) {
        return over_left(join, names);
    }
    let columns = join.schema.columns();
    let near = read_of_left(&join);
    refuse_unclear(&join.right, &near)?;
    let around = narrowed(&join.left, &near);
    let (right, keys) = domain::Keying::new(&around, near.clone(), names)?.plan(&join.right)?;
    let conditions = join.filter.map(split_conjunction_owned).unwrap_or_default();
    let (after, within): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(has_subquery);
    if join.join_type != JoinType::Inner && !after.is_empty() {
        return not_impl_err!("a subquery in the ON of a LEFT JOIN LATERAL is not supported: write it within LATERAL");
    }
    let filter = conjunction(std::iter::once(domain::same(&near, &keys)).chain(within));
    let joined = LogicalPlan::Join(Join::try_new(
        join.left,
        Arc::new(right),
        join.on,
        filter,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?);
    let joined = projected(joined, columns.into_iter().map(Expr::Column).collect())?;
    filtered(joined, after, names)
}

/// A right side that only computes from the row around it, over the rows of the left one.
fn over_left(join: Join, names: &mut Names) -> Result<LogicalPlan> {
    let left = join.left.schema().columns();
    let right = join.right.schema().columns();
    let (rows, keys) = domain::Keying::of_rows(&join.left, names).plan(&join.right)?;
    let named = |(column, key): (Column, Column)| Expr::Column(key).alias_qualified(column.relation, column.name);
    let of_left = left.into_iter().zip(keys).map(named);
    let joined = projected(rows, of_left.chain(right.into_iter().map(Expr::Column)).collect())?;
    let equal = join.on.into_iter().map(|(left, right)| left.eq(right));
    let conditions = join.filter.map(split_conjunction_owned).unwrap_or_default();
    filtered(joined, equal.chain(conditions).collect(), names)
}

fn filtered(plan: LogicalPlan, conditions: Vec<Expr>, names: &mut Names) -> Result<LogicalPlan> {
    let Some(condition) = conjunction(conditions) else { return Ok(plan) };
    let has_subqueries = has_subquery(&condition);
    let filter = LogicalPlan::Filter(Filter::try_new(condition, Arc::new(plan))?);
    if has_subqueries { node(filter, names).map(|plan| plan.data) } else { Ok(filter) }
}

/// Whether a side of a join reads no rows, and looks at none together: it is computed from one row around it.
fn is_of_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        LogicalPlan::Values(_) => true,
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Unnest(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Subquery(_) => plan.inputs().into_iter().all(is_of_row),
        _ => false,
    }
}

/// Whether such a side has rows whatever is around it.
fn has_rows(plan: &LogicalPlan) -> bool {
    !matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::Unnest(_)) && plan.inputs().into_iter().all(has_rows)
}

/// Whether it joins all rows.
fn is_always(join: &Join) -> bool {
    let is_true = |on: &Expr| matches!(on, Expr::Literal(ScalarValue::Boolean(Some(true)), _));
    join.on.is_empty() && join.filter.as_ref().is_none_or(is_true)
}

/// The lowest part of a plan that has all values of columns of it.
fn narrowed(plan: &Arc<LogicalPlan>, columns: &[Column]) -> Arc<LogicalPlan> {
    let has_all = |plan: &LogicalPlan| columns.iter().all(|column| plan.schema().has_column(column));
    match plan.as_ref() {
        LogicalPlan::Projection(projection) => {
            let passes = |column: &Column| projection.expr.contains(&Expr::Column(column.clone()));
            if columns.iter().all(passes) { narrowed(&projection.input, columns) } else { Arc::clone(plan) }
        }
        LogicalPlan::Join(join) if matches!(join.join_type, JoinType::Inner | JoinType::Left) => {
            if has_all(&join.left) {
                return narrowed(&join.left, columns);
            }
            let is_plain = join.join_type == JoinType::Inner && outer_columns(&join.right).is_empty();
            if is_plain && has_all(&join.right) { narrowed(&join.right, columns) } else { Arc::clone(plan) }
        }
        _ => Arc::clone(plan),
    }
}

/// The joins of a statement, when its subqueries are part of it, of which a side reads the other one within its own subqueries alone: planning does
/// not mark these. Nothing else is around here that it could have read.
pub(super) fn unmarked(plan: LogicalPlan, names: &mut Names) -> Result<Transformed<LogicalPlan>> {
    plan.transform_up(|plan| match plan {
        LogicalPlan::Join(join)
            if matches!(join.join_type, JoinType::Inner | JoinType::Left)
                && !read_of_left(&join).is_empty()
                && !is_left(&join)? =>
        {
            joined(join, names).map(Transformed::yes)
        }
        other => Ok(Transformed::no(other)),
    })
}
