//! Windows ordered by what DataFusion has no RANGE of: times of day, intervals, bytes.
//!
//! Invariants:
//! - Where neither end of a frame is at a distance, RANGE is GROUPS: both count rows of equal keys as one. DataFusion 55.2 asks for a type of distances all
//!   the same, also of `rank() OVER (ORDER BY x::time)`, whose frame nobody wrote.
//! - A frame with a distance is refused by name.
//! - Columns keep their names.
//!
//! Mends apache/datafusion#24327, #24514, #24915 (in 55.2).

use super::window_lists::lists_in_order;
use crate::expressions::changed_as_written;
use alluvia_values::errors::{not_supported, wrap};
use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::WindowFunctionParams;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion::optimizer::analyzer::AnalyzerRule;

/// The rule, which also has lists of windows keep their order ([`alluvia_functions::windows::list_aggregates`]). It must come before types are coerced.
#[derive(Debug)]
pub struct FramesOfPeers;

impl AnalyzerRule for FramesOfPeers {
    fn name(&self) -> &str {
        "frames_of_peers"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut has_windows = false;
        plan.apply_with_subqueries(|plan| {
            has_windows |= matches!(plan, LogicalPlan::Window(_));
            Ok(if has_windows { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if !has_windows {
            return Ok(plan);
        }
        lists_in_order(changed_as_written(plan, has_range, by_peers)?)
    }
}

fn has_range(expr: &Expr) -> bool {
    matches!(expr, Expr::WindowFunction(window) if window.params.window_frame.units == WindowFrameUnits::Range)
}

fn by_peers(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if !has_range(&expr) {
        return Ok(Transformed::no(expr));
    }
    let Expr::WindowFunction(window) = &mut expr else { return Ok(Transformed::no(expr)) };
    let WindowFunctionParams { order_by, window_frame, .. } = &mut window.params;
    // What has no type yet is told where types are coerced.
    let key = order_by.first().and_then(|key| key.expr.get_type(schema).ok());
    if key.is_none_or(|key| has_distances(&key)) {
        return Ok(Transformed::no(expr));
    }
    let ends = [&window_frame.start_bound, &window_frame.end_bound];
    if ends.into_iter().any(|end| *end != WindowFrameBound::CurrentRow && !end.is_unbounded()) {
        let refused = not_supported("RANGE with a distance of times of day, intervals or bytes");
        return Err(wrap(refused.with_hint("order by a number: extract(epoch FROM x)")));
    }
    let [start, end] = ends.map(WindowFrameBound::clone);
    *window_frame = WindowFrame::new_bounds(WindowFrameUnits::Groups, start, end);
    Ok(Transformed::yes(expr))
}

/// Whether DataFusion has a type for the distance of two values.
fn has_distances(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => has_distances(values),
        DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Interval(_)
        | DataType::Duration(_)
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => false,
        _ => true,
    }
}
