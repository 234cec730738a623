//! The values of expressions that are made of constants, such as `4 / 2` and `2::int`.
//!
//! Invariant: whether types have been coerced or not, the value is the same.

use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;

/// The value of an expression; `None` if it reads a column, a parameter or a subquery, is another one each time, or has
/// an error that shows when it runs.
pub fn value_of(expr: &Expr) -> Result<Option<ScalarValue>> {
    if let Expr::Literal(value, _) = expr {
        return Ok(Some(value.clone()));
    }
    if !is_of_constants(expr)? {
        return Ok(None);
    }
    let simplifier = ExprSimplifier::new(SimplifyContext::default());
    let expr = simplifier.coerce(expr.clone(), &DFSchema::empty())?;
    Ok(match simplifier.simplify(expr)? {
        Expr::Literal(value, _) => Some(value),
        _ => None,
    })
}

fn is_of_constants(expr: &Expr) -> Result<bool> {
    let reads = expr.exists(|part| {
        Ok(matches!(
            part,
            Expr::Column(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::Placeholder(_)
                | Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
        ))
    })?;
    Ok(!reads)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::DataType;
    use datafusion::functions::expr_fn::random;
    use datafusion::logical_expr::{cast, col, lit};

    #[test]
    fn constants_have_values_before_their_types_are_coerced() {
        for (expr, expected) in [
            (lit(2_i64), Some(2)),
            (-cast(lit(2_i64), DataType::Int32), Some(-2)),
            (lit(2_i64) * lit(3_i32), Some(6)),
            (lit(4_i64) / lit(2_i64), Some(2)),
            (cast(lit("7"), DataType::Int64) - lit(1_i32), Some(6)),
            (lit(4_i64) / lit(0_i64), None),
            (lit(ScalarValue::Int64(None)), None),
            (col("n") + lit(1_i64), None),
            (random() * lit(2.0), None),
        ] {
            let value = value_of(&expr).expect("a value or none").map(|value| value.cast_to(&DataType::Int64));
            let found = match value.transpose().expect("a number") {
                Some(ScalarValue::Int64(number)) => number,
                _ => None,
            };
            assert_eq!(found, expected, "{expr}");
        }
        assert!(value_of(&cast(lit("x"), DataType::Int64)).is_err());
    }
}
