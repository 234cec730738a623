//! Names of what unions bring together.
//!
//! Invariant: all inputs of a union call their columns what the union calls them, which is what its first input does.
//!
//! DataFusion 55.2 names what it can where it coerces types: the columns of projections. Of a union whose first inputs are found to be empty
//! others are left, whose names are looked for in vain (`propagate_empty_relation`): `SELECT 1 AS a FROM t WHERE false UNION ALL SELECT
//! DISTINCT 1 AS b FROM t` within a larger union.
//!
//! Mends DataFusion (in 55.2): no issue upstream known (searched 2026-11-27: union, propagate_empty_relation, No field
//! named).

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Union};
use datafusion::optimizer::analyzer::AnalyzerRule;
use std::sync::Arc;

/// Projects inputs with other names. Types must have been coerced.
#[derive(Debug)]
pub struct NamesOfUnions;

impl AnalyzerRule for NamesOfUnions {
    fn name(&self) -> &str {
        "names_of_unions"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(named)?.data)
    }
}

fn named(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Union(Union { inputs, schema }) = plan else { return Ok(Transformed::no(plan)) };
    let mut is_changed = false;
    let inputs = inputs.into_iter().map(|input| {
        let mut is_other = false;
        let columns = input.schema().columns().into_iter().zip(schema.fields()).map(|(column, field)| {
            if column.name == *field.name() {
                Expr::Column(column)
            } else {
                is_other = true;
                Expr::Column(column).alias(field.name())
            }
        });
        let columns: Vec<Expr> = columns.collect();
        is_changed |= is_other;
        Ok(if is_other { Arc::new(LogicalPlan::Projection(Projection::try_new(columns, input)?)) } else { input })
    });
    let inputs = inputs.collect::<Result<_>>()?;
    Ok(Transformed::new_transformed(LogicalPlan::Union(Union { inputs, schema }), is_changed))
}
