//! Arithmetic of REAL with integers and decimals, which is that of DOUBLE, as in PostgreSQL: 16777216 and 1 are 16777217.
//!
//! DataFusion 55.2 makes a REAL of the integer. The types of a statement's columns follow from it, so it is planned where expressions are
//! planned first.

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, cast};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Makes doubles of them.
#[derive(Debug)]
pub struct RealsAsDoubles;

impl ExprPlanner for RealsAsDoubles {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{Divide, Minus, Multiply, Plus};
        let RawBinaryExpr { op, left, right } = expr;
        let is_real = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Float32));
        let is_exact = |expr: &Expr| {
            expr.get_type(schema).is_ok_and(|of| of.is_integer() || matches!(of, DataType::Decimal128(..)))
        };
        let is_concerned = matches!(op, Plus | Minus | Multiply | Divide)
            && (is_real(&left) && is_exact(&right) || is_exact(&left) && is_real(&right));
        if !is_concerned {
            return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }));
        }
        // What is exact becomes a double beside one.
        let double = |expr: Expr| if is_real(&expr) { cast(expr, DataType::Float64) } else { expr };
        Ok(PlannerResult::Original(RawBinaryExpr { op, left: double(left), right: double(right) }))
    }
}
