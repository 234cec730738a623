//! JSON has no equality and no order: what would compare it is refused, as in PostgreSQL (42883).

use alluvia_functions::casts::kinds::{Kind, kind_of};
use alluvia_types::{Error, ErrorKind};
use alluvia_values::errors::wrap;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Distinct, Expr, ExprSchemable, LogicalPlan};

/// Refuses groups, DISTINCT and ORDER BY of JSON.
pub(crate) fn check(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|plan| {
        match plan {
            LogicalPlan::Aggregate(aggregate) => {
                let schema = aggregate.input.schema();
                let mut keys = aggregate.group_expr.iter();
                if keys.any(|key| is_json(key, schema)) {
                    return Err(refused("equality"));
                }
            }
            LogicalPlan::Distinct(Distinct::All(input))
                if input.schema().fields().iter().any(|field| kind_of(field) == Kind::Json) =>
            {
                return Err(refused("equality"));
            }
            LogicalPlan::Sort(sort) => {
                let schema = merge_schema(&plan.inputs());
                if sort.expr.iter().any(|key| is_json(&key.expr, &schema)) {
                    return Err(refused("ordering"));
                }
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// Only what is a column or a cast is asked: whatever else is computed is named to know its field.
fn is_json(key: &Expr, schema: &DFSchema) -> bool {
    let is_asked = matches!(key, Expr::Column(_) | Expr::Cast(_) | Expr::Alias(_));
    is_asked && key.to_field(schema).is_ok_and(|(_, field)| kind_of(&field) == Kind::Json)
}

fn refused(what: &str) -> datafusion::common::DataFusionError {
    let message = format!("could not identify an {what} operator for type json");
    wrap(Error::new(ErrorKind::UndefinedFunction, message).with_hint("cast it to JSONB or TEXT: x::jsonb, x::text"))
}
