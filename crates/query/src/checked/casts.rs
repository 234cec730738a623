//! Casts and moments that lose nothing in silence.
//!
//! Invariants:
//! - A float that becomes an integer because something wants one becomes the nearest, and of two the even one, as one that is cast
//!   ([`super::rounding`]). DataFusion 55.2 cuts off what is behind the point.
//! - A date and a part of a day that come together only after parameters have their values are not added: what they make was told to be
//!   a date, and DataFusion 55.2 drops the part. All others make a timestamp ([`super::moments`]).

use super::expressions::changed;
use super::moments::is_part_of_day;
use super::rounding::{is_rounded, rounded};
use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, not_impl_err};
use datafusion::logical_expr::expr::{Cast, TryCast};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::optimizer::analyzer::AnalyzerRule;

/// Puts rounding where floats are cast to integers, and refuses dates with parts of days. Types must have been coerced.
#[derive(Debug)]
pub(crate) struct LosslessCasts;

impl AnalyzerRule for LosslessCasts {
    fn name(&self) -> &str {
        "lossless_casts"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        changed(plan, may_lose, rounded_expr)
    }
}

fn may_lose(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(Cast { field, .. }) | Expr::TryCast(TryCast { field, .. }) => field.data_type().is_integer(),
        Expr::BinaryExpr(binary) => matches!(binary.op, Operator::Plus | Operator::Minus),
        _ => false,
    }
}

fn rounded_expr(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_float = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Float32 | DataType::Float64));
    let is_date = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Date32));
    match expr {
        Expr::Cast(Cast { expr: of, field }) if field.data_type().is_integer() && is_float(&of) && !is_rounded(&of) => {
            Ok(Transformed::yes(Expr::Cast(Cast { expr: Box::new(rounded(*of, true)), field })))
        }
        Expr::TryCast(TryCast { expr: of, field })
            if field.data_type().is_integer() && is_float(&of) && !is_rounded(&of) =>
        {
            Ok(Transformed::yes(Expr::TryCast(TryCast { expr: Box::new(rounded(*of, true)), field })))
        }
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Plus | Operator::Minus), right })
            if is_date(&left) && is_part_of_day(&right) || is_date(&right) && is_part_of_day(&left) =>
        {
            let word = if op == Operator::Plus { "adding hours to" } else { "taking hours from" };
            not_impl_err!("{word} a date is not supported: write CAST(x AS TIMESTAMP) for the date")
        }
        other => Ok(Transformed::no(other)),
    }
}
