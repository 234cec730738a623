//! Planning a part over the rows that are here.

use crate::part::{Form, Part};
use datafusion::catalog::TableProvider;
use datafusion::common::{Result, internal_err};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Aggregate, LogicalPlan};
use datafusion::physical_expr::aggregate::LoweredAggregateBuilder;
use datafusion::physical_expr::create_physical_expr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use std::sync::Arc;

/// A part over a table's rows, as the session plans it. No rule of types or of the optimizer looks at it again: it has been through them.
///
/// Errors: the bytes are of another build; as the planner's.
pub async fn planned(
    bytes: &[u8],
    table: Arc<dyn TableProvider>,
    session: &SessionState,
) -> Result<Arc<dyn ExecutionPlan>> {
    let Part { form, plan } = Part::decode(bytes, table)?;
    let planner = session.query_planner();
    match (form, &plan) {
        (Form::Values, plan) => planner.create_physical_plan(plan, session).await,
        (Form::States, LogicalPlan::Aggregate(aggregate)) => {
            let rows = planner.create_physical_plan(&aggregate.input, session).await?;
            partial(aggregate, rows, session)
        }
        _ => internal_err!("states are asked of what is no aggregate"),
    }
}

/// The partial half of an aggregate.
fn partial(
    aggregate: &Aggregate,
    rows: Arc<dyn ExecutionPlan>,
    session: &SessionState,
) -> Result<Arc<dyn ExecutionPlan>> {
    let (schema, physical) = (aggregate.input.schema(), rows.schema());
    let (properties, context) = (session.execution_props(), PhysicalPlanningContext::default());
    let group = |(at, expr)| Ok((create_physical_expr(expr, schema, properties, &context)?, format!("group{at}")));
    let groups = aggregate.group_expr.iter().enumerate().map(group).collect::<Result<Vec<_>>>()?;
    let (mut functions, mut filters) = (Vec::new(), Vec::new());
    for function in &aggregate.aggr_expr {
        let lowered = LoweredAggregateBuilder::new(function, schema, &physical, properties, &context).build()?;
        functions.push(lowered.aggregate);
        filters.push(lowered.filter);
    }
    let groups = PhysicalGroupBy::new_single(groups);
    let partial = AggregateExec::try_new(AggregateMode::Partial, groups, functions, filters, rows, physical)?;
    Ok(Arc::new(partial))
}
