//! Comparisons of intervals and durations by their length, also of those that are keys ([`super::span_keys`]).

use super::span_keys::by_length;
use crate::expressions::{changed_as_written, parts_of_case};
use alluvia_functions::conditional::interval_extremes::{chooses, chosen, chosen_from};
use alluvia_functions::operators::durations::{is_duration, is_text, length, read_duration};
use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{InList, InSubquery, SetComparison};
use datafusion::logical_expr::{Between, BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, Projection, Subquery};
use datafusion::optimizer::analyzer::AnalyzerRule;
use std::sync::Arc;

/// Compares spans by their lengths. Types must not have been coerced.
#[derive(Debug)]
pub struct ComparedDurations;

impl AnalyzerRule for ComparedDurations {
    fn name(&self) -> &str {
        "compared_spans"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        by_length(changed_as_written(plan, may_have_durations, with_lengths)?)
    }
}

fn may_have_durations(expr: &Expr) -> bool {
    match expr {
        Expr::InList(_) | Expr::Between(_) | Expr::Case(_) => true,
        Expr::InSubquery(_) | Expr::SetComparison(_) => true,
        Expr::BinaryExpr(binary) => compares(binary.op),
        Expr::ScalarFunction(function) => chooses(function),
        _ => false,
    }
}

fn compares(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

fn with_lengths(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if let Expr::ScalarFunction(function) = &mut expr
        && let Some(chosen) = chosen(function, schema)
    {
        return Ok(Transformed::yes(chosen));
    }
    let is_changed = match &mut expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(*op) => {
            measured(vec![&mut **left, &mut **right], schema)
        }
        Expr::Between(Between { expr: of, low, high, .. }) => {
            measured(vec![&mut **of, &mut **low, &mut **high], schema)
        }
        Expr::InList(InList { expr: of, list, .. }) => {
            let mut all: Vec<&mut Expr> = vec![&mut **of];
            all.extend(list);
            measured(all, schema)
        }
        Expr::InSubquery(InSubquery { expr: of, subquery, .. })
        | Expr::SetComparison(SetComparison { expr: of, subquery, .. }) => listed(of, subquery, schema)?,
        Expr::Case(case) => {
            let (compared, results) = parts_of_case(case);
            let is_compared = compared.is_some_and(|compared| measured(compared, schema));
            chosen_from(results, schema) || is_compared
        }
        _ => false,
    };
    Ok(if is_changed { Transformed::yes(expr) } else { Transformed::no(expr) })
}

/// Puts the lengths of spans in their place, if an interval is among them, and says whether it did.
fn measured(exprs: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let is_interval = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Interval(_)));
    let may_be_span = |expr: &Expr| is_duration(expr, schema) || expr.get_type(schema).is_ok_and(|of| of.is_null());
    let any_span = exprs.iter().any(|expr| is_duration(expr, schema));
    let any_interval = exprs.iter().any(|expr| is_interval(expr) || any_span && is_text(expr));
    if !any_span || !any_interval || !exprs.iter().all(|expr| may_be_span(expr) || is_text(expr)) {
        return false;
    }
    for expr in exprs {
        read_duration(expr);
        let span = std::mem::take(expr);
        *expr = length(span);
    }
    true
}

/// The same of an expression and the one column of a subquery.
fn listed(of: &mut Expr, subquery: &mut Subquery, schema: &DFSchema) -> Result<bool> {
    let query = &subquery.subquery;
    let ([right], Ok(left)) = (&query.schema().fields()[..], of.get_type(schema)) else { return Ok(false) };
    let is_span = |of: &DataType| matches!(of, DataType::Interval(_) | DataType::Duration(_));
    let is_interval = |of: &DataType| matches!(of, DataType::Interval(_));
    let right = right.data_type();
    let any_interval = is_interval(&left) || is_interval(right) || is_text(of) && is_span(right);
    let are_spans = (is_span(&left) || is_text(of)) && (is_span(right) || right.is_null());
    if !any_interval || !are_spans {
        return Ok(false);
    }
    read_duration(of);
    *of = length(std::mem::take(of));
    let columns = query.schema().columns().into_iter();
    let columns = columns.map(|column| length(Expr::Column(column.clone())).alias(column.name)).collect();
    let lengths = Projection::try_new(columns, Arc::clone(query))?;
    subquery.subquery = Arc::new(LogicalPlan::Projection(lengths));
    Ok(true)
}
