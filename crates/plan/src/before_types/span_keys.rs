//! Intervals as keys: of groups, DISTINCT, joins, ORDER BY and windows.
//!
//! Invariants, as in PostgreSQL:
//! - Intervals are one key where they are as long as one another, a month thirty days and a day 24 hours, and are in the order of their
//!   lengths, also within aggregates. What is shown of a group is the first of its intervals.
//! - Aggregates that would take each length once, other than `count`, are refused (0A000).
//! - Nothing else of a plan changes: columns have their names and their places.
//!
//! `IN (SELECT ...)` is a comparison ([`super::durations`]).
//!
//! For the binder: an equality and an order of INTERVAL that Arrow's type does not have (`GROUP BY i` of a column of that type).

use alluvia_functions::operators::durations::length;
use alluvia_values::errors::{not_supported, wrap};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::utils::{grouping_set_to_exprlist, merge_schema};
use datafusion::logical_expr::{Aggregate, Distinct, Expr, ExprSchemable, GroupingSet, LogicalPlan, Projection, when};
use std::sync::Arc;

/// A plan whose keys go by lengths.
pub(crate) fn by_length(plan: LogicalPlan) -> Result<LogicalPlan> {
    Ok(plan.transform_up_with_subqueries(node)?.data)
}

fn has_spans(schema: &DFSchema) -> bool {
    schema.fields().iter().any(|field| matches!(field.data_type(), DataType::Interval(_)))
}

fn is_span(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|of| matches!(of, DataType::Interval(_)))
}

fn node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Sort(mut sort) => {
            let schema = Arc::clone(sort.input.schema());
            let keys = sort.expr.iter_mut().map(|key| &mut key.expr);
            let is_changed = measured(keys, &schema);
            Ok(Transformed::new_transformed(LogicalPlan::Sort(sort), is_changed))
        }
        LogicalPlan::Aggregate(aggregate) => {
            let aggregated = aggregated(aggregate)?;
            let grouped = grouped(aggregated.data)?;
            Ok(if aggregated.transformed { Transformed::yes(grouped.data) } else { grouped })
        }
        LogicalPlan::Distinct(Distinct::On(mut on)) => {
            let schema = Arc::clone(on.input.schema());
            let sorts = on.sort_expr.iter_mut().flatten().map(|key| &mut key.expr);
            let is_changed = measured(on.on_expr.iter_mut().chain(sorts), &schema);
            Ok(Transformed::new_transformed(LogicalPlan::Distinct(Distinct::On(on)), is_changed))
        }
        LogicalPlan::Distinct(Distinct::All(input)) if has_spans(input.schema()) => {
            let columns = input.schema().columns().into_iter().map(Expr::Column).collect();
            grouped(Aggregate::try_new(input, columns, Vec::new())?)
        }
        LogicalPlan::Join(mut join) => {
            let schema = merge_schema(&[&join.left, &join.right]);
            let keys = join.on.iter_mut().flat_map(|(left, right)| [left, right]);
            let is_changed = measured(keys, &schema);
            Ok(Transformed::new_transformed(LogicalPlan::Join(join), is_changed))
        }
        LogicalPlan::Window(mut window) => {
            let schema = Arc::clone(window.input.schema());
            let mut is_changed = false;
            let has_key = |expr: &Expr| match expr {
                Expr::WindowFunction(of) => {
                    let (parts, sorts) =
                        (of.params.partition_by.iter(), of.params.order_by.iter().map(|key| &key.expr));
                    Ok(parts.chain(sorts).any(|key| is_span(key, &schema)))
                }
                _ => Ok(false),
            };
            for expr in &mut window.window_expr {
                if !expr.exists(has_key)? {
                    continue;
                }
                let name = expr.schema_name().to_string();
                let mut of_window = false;
                let changed = std::mem::take(expr).transform_up(|expr| match expr {
                    Expr::WindowFunction(mut function) => {
                        let params = &mut function.params;
                        let keys = params.partition_by.iter_mut();
                        let keys = keys.chain(params.order_by.iter_mut().map(|key| &mut key.expr));
                        of_window |= measured(keys, &schema);
                        Ok(Transformed::yes(Expr::WindowFunction(function)))
                    }
                    other => Ok(Transformed::no(other)),
                })?;
                *expr = if of_window { changed.data.alias(name) } else { changed.data };
                is_changed |= of_window;
            }
            Ok(Transformed::new_transformed(LogicalPlan::Window(window), is_changed))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Puts lengths in the places of intervals, and says whether there are any.
fn measured<'a>(keys: impl Iterator<Item = &'a mut Expr>, schema: &DFSchema) -> bool {
    let mut is_changed = false;
    for key in keys {
        if is_span(key, schema) {
            *key = length(std::mem::take(key));
            is_changed = true;
        }
    }
    is_changed
}

/// Whether an aggregate takes intervals once each, or in their order. Of `WITHIN GROUP (ORDER BY i)` the intervals are the values.
fn goes_by_spans(of: &AggregateFunction, schema: &DFSchema) -> bool {
    let params = &of.params;
    let is_sorted = !of.func.supports_within_group_clause();
    params.distinct && params.args.iter().any(|arg| is_span(arg, schema))
        || is_sorted && params.order_by.iter().any(|key| is_span(&key.expr, schema))
}

/// Aggregates that go by lengths: counts of different intervals count different lengths.
fn aggregated(aggregate: Aggregate) -> Result<Transformed<Aggregate>> {
    let schema = Arc::clone(aggregate.input.schema());
    let is_one = |expr: &Expr| Ok(matches!(expr, Expr::AggregateFunction(of) if goes_by_spans(of, &schema)));
    if !aggregate.aggr_expr.iter().any(|expr| expr.exists(is_one).unwrap_or(false)) {
        return Ok(Transformed::no(aggregate));
    }
    let Aggregate { input, group_expr, aggr_expr, .. } = aggregate;
    let each = |expr: Expr| -> Result<Expr> {
        let name = expr.schema_name().to_string();
        let changed = expr.transform_up(|expr| match expr {
            Expr::AggregateFunction(mut of) if goes_by_spans(&of, &schema) => {
                let mut is_changed = false;
                if of.params.distinct && of.params.args.iter().any(|arg| is_span(arg, &schema)) {
                    match of.func.name() {
                        "count" => is_changed |= measured(of.params.args.iter_mut(), &schema),
                        // The least of all is the least of those that differ.
                        "min" | "max" => {}
                        name => {
                            let refused = not_supported(format!("{name}(DISTINCT ...) of an INTERVAL"));
                            return Err(wrap(refused.with_hint("take it of rows of SELECT DISTINCT in FROM")));
                        }
                    }
                }
                if !of.func.supports_within_group_clause() {
                    is_changed |= measured(of.params.order_by.iter_mut().map(|key| &mut key.expr), &schema);
                }
                Ok(Transformed::new_transformed(Expr::AggregateFunction(of), is_changed))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(if changed.transformed { changed.data.alias(name) } else { changed.data })
    };
    let aggr_expr = aggr_expr.into_iter().map(each).collect::<Result<Vec<Expr>>>()?;
    Ok(Transformed::yes(Aggregate::try_new(input, group_expr, aggr_expr)?))
}

/// Groups by lengths, with the first interval of each.
fn grouped(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let of_input = Arc::clone(aggregate.input.schema());
    let keys: Vec<Expr> = grouping_set_to_exprlist(&aggregate.group_expr)?.into_iter().cloned().collect();
    let spans: Vec<bool> = keys.iter().map(|key| is_span(key, &of_input)).collect();
    if !spans.contains(&true) {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let Aggregate { input, mut group_expr, aggr_expr, schema, .. } = aggregate;
    let (first, span) = (|at: usize| format!("first span {at}"), |at: usize| format!("span {at}"));
    let has_sets = matches!(group_expr.as_slice(), [Expr::GroupingSet(_)]);
    for key in &mut group_expr {
        let written: Vec<&mut Expr> = match key {
            Expr::GroupingSet(GroupingSet::GroupingSets(sets)) => sets.iter_mut().flatten().collect(),
            Expr::GroupingSet(GroupingSet::Rollup(keys) | GroupingSet::Cube(keys)) => keys.iter_mut().collect(),
            key => vec![key],
        };
        for key in written {
            if let Some(at) = keys.iter().position(|of| of == key).filter(|at| spans[*at]) {
                *key = length(std::mem::take(key)).alias(span(at));
            }
        }
    }
    let mut values = aggr_expr;
    for (at, key) in keys.into_iter().enumerate().filter(|(at, _)| spans[*at]) {
        values.push(first_value_udaf().call(vec![key]).alias(first(at)));
    }
    let grouped = Arc::new(LogicalPlan::Aggregate(Aggregate::try_new(input, group_expr, values)?));
    let column = |name: String| Expr::Column(Column::new_unqualified(name));
    let columns = schema.iter().enumerate().map(|(at, (qualifier, field))| -> Result<Expr> {
        if spans.get(at) != Some(&true) {
            return Ok(Expr::Column(Column::new(qualifier.cloned(), field.name())));
        }
        // A total has no interval, as its key is NULL.
        let shown = match has_sets {
            true => when(column(span(at)).is_not_null(), column(first(at))).end()?,
            false => column(first(at)),
        };
        Ok(shown.alias_qualified(qualifier.cloned(), field.name()))
    });
    let projection = Projection::try_new(columns.collect::<Result<_>>()?, grouped)?;
    Ok(Transformed::yes(LogicalPlan::Projection(projection)))
}
