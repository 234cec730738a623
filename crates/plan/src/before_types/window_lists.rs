//! `array_agg` and `string_agg` over windows, put where DataFusion's would make lists that are backwards.

use crate::expressions::changed_as_written;
use alluvia_functions::windows::list_aggregates::{in_order, loses_order};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, WindowFunctionDefinition};

/// Puts functions that keep the order of their window in all windows of a plan.
pub fn lists_in_order(plan: LogicalPlan) -> Result<LogicalPlan> {
    changed_as_written(plan, is_list, kept)
}

fn is_list(expr: &Expr) -> bool {
    let Expr::WindowFunction(window) = expr else { return false };
    matches!(&window.fun, WindowFunctionDefinition::AggregateUDF(function) if loses_order(function))
}

fn kept(mut expr: Expr, _schema: &DFSchema) -> Result<Transformed<Expr>> {
    if let Expr::WindowFunction(window) = &mut expr
        && let WindowFunctionDefinition::AggregateUDF(function) = &mut window.fun
        && loses_order(function)
    {
        *function = in_order(function);
        return Ok(Transformed::yes(expr));
    }
    Ok(Transformed::no(expr))
}
