//! Types of a query's columns that are told before it runs.
//!
//! Invariant: columns are told with the types that they will have: the rules that run before types, and the coercion of
//! types, have been over the plan, as they will be before it runs. DataFusion 55.2 plans with the types of a UNION's
//! first query, of a CASE's first result, and of decimals that become floats.

use crate::before_types;
use arrow::datatypes::{Field, Schema};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;

/// The columns of a plan whose types have not been coerced. What cannot be is told when the query runs.
pub fn described_schema(plan: &LogicalPlan) -> Schema {
    let schema = plan.schema().as_arrow();
    coerced(plan, schema).unwrap_or_else(|_| schema.clone())
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
    use arrow::datatypes::DataType;

    #[test]
    fn columns_have_the_types_that_they_will_have() {
        for (sql, wanted) in [
            ("SELECT '9' AS x UNION ALL SELECT v FROM (VALUES (10)) t(v)", DataType::Int64),
            ("SELECT x FROM (SELECT 1::int AS x UNION SELECT 2::bigint) u", DataType::Int64),
            ("SELECT 1::int AS x", DataType::Int32),
            ("SELECT CASE WHEN v > 1 THEN 1::int ELSE v END AS x FROM (VALUES (2::bigint)) t(v)", DataType::Int64),
            ("SELECT CASE v WHEN 1 THEN 1::real ELSE 2::double END AS x FROM (VALUES (2)) t(v)", DataType::Float64),
            ("SELECT greatest(v, 2::double) AS x FROM (VALUES (1.5::decimal(10, 2))) t(v)", DataType::Float64),
            ("SELECT v AS x FROM (VALUES (1.5::decimal(10, 2))) t(v)", DataType::Decimal128(10, 2)),
        ] {
            let state = context().state();
            let plan = runtime().block_on(state.create_logical_plan(sql)).unwrap();
            let told = described_schema(&plan);
            assert_eq!((told.field(0).name().as_str(), told.field(0).data_type()), ("x", &wanted), "{sql}");
        }
    }
}
