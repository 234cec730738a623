//! `array_agg` and `string_agg` over windows, put where DataFusion's would make lists that are backwards.

use crate::expressions::changed_as_written;
use alluvia_functions::windows::list_aggregates::in_order;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, WindowFunctionDefinition};

/// Puts functions that keep the order of their window in all windows of a plan.
pub fn lists_in_order(plan: LogicalPlan) -> Result<LogicalPlan> {
    changed_as_written(plan, is_of_aggregate, kept)
}

fn is_of_aggregate(expr: &Expr) -> bool {
    matches!(expr, Expr::WindowFunction(window) if matches!(window.fun, WindowFunctionDefinition::AggregateUDF(_)))
}

fn kept(mut expr: Expr, _schema: &DFSchema) -> Result<Transformed<Expr>> {
    if let Expr::WindowFunction(window) = &mut expr
        && let WindowFunctionDefinition::AggregateUDF(function) = &mut window.fun
        && let Some(ordered) = in_order(function)
    {
        *function = ordered;
        return Ok(Transformed::yes(expr));
    }
    Ok(Transformed::no(expr))
}
