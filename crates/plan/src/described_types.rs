//! Types of a query's columns that are told before it runs.
//!
//! Invariant: the columns of a UNION are told with the types that they will have, and so are decimals, which beside floats become floats
//! ([`crate::before_types::rounding`]). DataFusion 55.2 takes the types of a UNION's first query until types are coerced.

use crate::before_types;
use crate::before_types::outer_types::has_union;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use std::sync::Arc;

/// The columns of a plan whose types have not been coerced. What cannot be is told when the query runs.
pub fn told_schema(plan: &LogicalPlan) -> Schema {
    let schema = plan.schema().as_arrow();
    let is_decimal =
        |field: &Arc<Field>| matches!(field.data_type(), DataType::Decimal128(..) | DataType::Decimal256(..));
    if schema.fields().iter().any(is_decimal) || has_union(plan).unwrap_or(false) {
        return coerced(plan, schema).unwrap_or_else(|_| schema.clone());
    }
    schema.clone()
}

fn coerced(plan: &LogicalPlan, schema: &Schema) -> Result<Schema> {
    let config = ConfigOptions::default();
    let mut plan = plan.clone();
    for rule in before_types::rules() {
        plan = rule.analyze(plan, &config)?;
    }
    let plan = TypeCoercion::new().analyze(plan, &config)?;
    let fields = schema.fields().iter().zip(plan.schema().fields());
    let fields = fields.map(|(field, of)| field.as_ref().clone().with_data_type(of.data_type().clone()));
    Ok(Schema::new_with_metadata(fields.collect::<Vec<Field>>(), schema.metadata().clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, runtime};

    #[test]
    fn unions_have_the_types_that_they_will_have() {
        for (sql, wanted) in [
            ("SELECT '9' AS x UNION ALL SELECT v FROM (VALUES (10)) t(v)", DataType::Int64),
            ("SELECT x FROM (SELECT 1::int AS x UNION SELECT 2::bigint) u", DataType::Int64),
            ("SELECT 1::int AS x", DataType::Int32),
            ("SELECT greatest(v, 2::double) AS x FROM (VALUES (1.5::decimal(10, 2))) t(v)", DataType::Float64),
            ("SELECT v AS x FROM (VALUES (1.5::decimal(10, 2))) t(v)", DataType::Decimal128(10, 2)),
        ] {
            let state = context().state();
            let plan = runtime().block_on(state.create_logical_plan(sql)).unwrap();
            let told = told_schema(&plan);
            assert_eq!((told.field(0).name().as_str(), told.field(0).data_type()), ("x", &wanted), "{sql}");
        }
    }
}
