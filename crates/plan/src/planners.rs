//! Planners of expressions: what operators and special forms are planned as, before DataFusion plans them as its own functions.
//!
//! A planner sees an operator before any other part of the plan takes the type of its result, so whoever can change that type here does.
//! Rules that change types later are told to Describe by [`crate::described_types`].

use crate::before_types::literals::ComparedText;
use crate::before_types::reals::RealsAsDoubles;
use crate::before_types::timestamps::DatesAsTimestamps;
use alluvia_functions::arrays::PlannedArrays;
use alluvia_functions::bytes::{JoinedBytes, PlannedCuts};
use alluvia_functions::datetime::date_part::PlannedDatePart;
use alluvia_functions::json::{JsonOperators, JsonSubscripts};
use alluvia_functions::operators::durations::WrittenDurations;
use alluvia_functions::operators::interval_scaling::ScaledIntervals;
use alluvia_functions::operators::numerics::NumericOperators;
use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::planner::ExprPlanner;
use std::sync::Arc;

/// Puts planners before DataFusion's, which would plan its own functions for the same forms.
pub(crate) fn insert_first(planners: &mut Vec<Arc<dyn ExprPlanner>>) {
    let first: [Arc<dyn ExprPlanner>; 4] = [
        Arc::new(JsonSubscripts),
        Arc::new(PlannedArrays::default()),
        Arc::new(PlannedCuts::default()),
        Arc::new(PlannedDatePart::default()),
    ];
    planners.splice(0..0, first);
}

/// Adds planners behind DataFusion's, which leave these operators alone. Each passes on what the one before it has changed: a date is a
/// timestamp before a text beside it is read.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    state.register_expr_planner(Arc::new(DatesAsTimestamps))?;
    state.register_expr_planner(Arc::new(WrittenDurations))?;
    state.register_expr_planner(Arc::new(ScaledIntervals))?;
    state.register_expr_planner(Arc::new(NumericOperators))?;
    state.register_expr_planner(Arc::new(JoinedBytes))?;
    state.register_expr_planner(Arc::new(RealsAsDoubles))?;
    state.register_expr_planner(Arc::new(ComparedText))?;
    state.register_expr_planner(Arc::new(JsonOperators))
}
