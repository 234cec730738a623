//! Intervals as keys: of groups, DISTINCT, joins, ORDER BY and windows.
//!
//! Invariants, as in PostgreSQL:
//! - Intervals are one key where they are as long as one another, a month thirty days and a day 24 hours, and are in the order of their
//!   lengths. What is shown of a group is the first of its intervals.
//! - Nothing else of a plan changes: columns have their names and their places.
//!
//! Not here: GROUPING SETS, DISTINCT ON, `IN (SELECT ...)` of intervals, which DataFusion 55.2 compares by their parts.
//!
//! For the binder: an equality and an order of INTERVAL that Arrow's type does not have (`GROUP BY i` of a column of that type).

use alluvia_functions::operators::durations::length;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Aggregate, Distinct, Expr, ExprSchemable, LogicalPlan, Projection};
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
    if !plan.inputs().iter().any(|input| has_spans(input.schema())) {
        return Ok(Transformed::no(plan));
    }
    match plan {
        LogicalPlan::Sort(mut sort) => {
            let schema = Arc::clone(sort.input.schema());
            let keys = sort.expr.iter_mut().map(|key| &mut key.expr);
            let is_changed = measured(keys, &schema);
            Ok(Transformed::new_transformed(LogicalPlan::Sort(sort), is_changed))
        }
        LogicalPlan::Aggregate(aggregate) => {
            let counted = counted(aggregate)?;
            let grouped = grouped(counted.data)?;
            Ok(if counted.transformed { Transformed::yes(grouped.data) } else { grouped })
        }
        LogicalPlan::Distinct(Distinct::All(input)) => {
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
            for expr in &mut window.window_expr {
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

/// Counts of different intervals count different lengths.
fn counted(aggregate: Aggregate) -> Result<Transformed<Aggregate>> {
    let schema = Arc::clone(aggregate.input.schema());
    let is_one = |expr: &Expr| match expr {
        Expr::AggregateFunction(of) => {
            of.params.distinct && of.func.name() == "count" && of.params.args.iter().any(|arg| is_span(arg, &schema))
        }
        _ => false,
    };
    if !aggregate.aggr_expr.iter().any(|expr| expr.exists(|expr| Ok(is_one(expr))).unwrap_or(false)) {
        return Ok(Transformed::no(aggregate));
    }
    let Aggregate { input, group_expr, aggr_expr, .. } = aggregate;
    let each = |expr: Expr| -> Result<Expr> {
        let name = expr.schema_name().to_string();
        let changed = expr.transform_up(|expr| match expr {
            Expr::AggregateFunction(mut of) if of.params.distinct && of.func.name() == "count" => {
                let is_changed = measured(of.params.args.iter_mut(), &schema);
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
    let has_sets = aggregate.group_expr.iter().any(|key| matches!(key, Expr::GroupingSet(_)));
    let spans: Vec<bool> = aggregate.group_expr.iter().map(|key| is_span(key, &of_input)).collect();
    if has_sets || !spans.contains(&true) {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let Aggregate { input, group_expr, aggr_expr, schema, .. } = aggregate;
    let first = |at: usize| format!("first span {at}");
    let mut keys = Vec::with_capacity(group_expr.len());
    let mut values = aggr_expr;
    for (at, key) in group_expr.into_iter().enumerate() {
        if spans[at] {
            values.push(first_value_udaf().call(vec![key.clone()]).alias(first(at)));
            keys.push(length(key).alias(format!("span {at}")));
        } else {
            keys.push(key);
        }
    }
    let grouped = Arc::new(LogicalPlan::Aggregate(Aggregate::try_new(input, keys, values)?));
    let columns = schema.iter().enumerate().map(|(at, (qualifier, field))| {
        if spans.get(at) == Some(&true) {
            Expr::Column(Column::new_unqualified(first(at))).alias_qualified(qualifier.cloned(), field.name())
        } else {
            Expr::Column(Column::new(qualifier.cloned(), field.name()))
        }
    });
    let projection = Projection::try_new(columns.collect(), grouped)?;
    Ok(Transformed::yes(LogicalPlan::Projection(projection)))
}
