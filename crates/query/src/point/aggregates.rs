//! Aggregates of all rows of a range together, without a plan: the accumulators that a plan would have.

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Aggregate, Expr};
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::create_physical_expr;
use std::sync::Arc;

/// Aggregates without groups.
#[derive(Debug)]
pub(super) struct Aggregates {
    each: Vec<Arc<AggregateFunctionExpr>>,
    /// One column for each.
    schema: SchemaRef,
}

impl Aggregates {
    /// Those of a node over rows that begin with the columns of its input; `None` where it has groups, or one has a filter, an order or
    /// other values than all.
    pub(super) fn new(node: &Aggregate, state: &SessionState) -> Option<Aggregates> {
        if !node.group_expr.is_empty() {
            return None;
        }
        let rows = node.input.schema();
        let planning = PhysicalPlanningContext::default();
        let physical = |expr: &Expr| create_physical_expr(expr, rows, state.execution_props(), &planning);
        let mut each = Vec::with_capacity(node.aggr_expr.len());
        for expr in &node.aggr_expr {
            let mut expr = expr;
            while let Expr::Alias(alias) = expr {
                expr = &alias.expr;
            }
            let Expr::AggregateFunction(call) = expr else { return None };
            let params = &call.params;
            if params.distinct
                || params.filter.is_some()
                || !params.order_by.is_empty()
                || params.null_treatment.is_some()
            {
                return None;
            }
            let arguments = params.args.iter().map(physical).collect::<Result<Vec<_>>>().ok()?;
            let built = AggregateExprBuilder::new(Arc::clone(&call.func), arguments)
                .schema(Arc::clone(rows.inner()))
                .alias(expr.schema_name().to_string())
                .build();
            each.push(Arc::new(built.ok()?));
        }
        Some(Aggregates { each, schema: Arc::clone(node.schema.inner()) })
    }

    /// The columns of what they come to.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// One row: what they come to.
    pub(super) fn of(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let value = |aggregate: &Arc<AggregateFunctionExpr>| -> Result<ArrayRef> {
            let mut accumulator = aggregate.create_accumulator()?;
            let arguments = aggregate.expressions().into_iter();
            let arguments = arguments.map(|expr| expr.evaluate(rows)?.into_array(rows.num_rows()));
            accumulator.update_batch(&arguments.collect::<Result<Vec<_>>>()?)?;
            accumulator.evaluate()?.to_array()
        };
        let values = self.each.iter().map(value).collect::<Result<Vec<_>>>()?;
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), values)?)
    }
}
