//! What operators of lists and subscripts are planned as, before DataFusion plans them as its own functions.

use super::changed::Changed;
use super::compared::{Contains, Ordered};
use super::lists::element_of;
use super::subscripts::Subscript;
use datafusion_common::utils::list_ndims;
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr};
use datafusion_expr::{Expr, ExprSchemable, GetFieldAccess, Operator, ScalarUDF, ScalarUDFImpl};
use sqlparser::ast::BinaryOperator;
use std::cmp::Ordering;
use std::sync::Arc;

/// Plans `||`, `@>`, `<@` and comparisons of lists, and subscripts.
#[derive(Debug)]
pub struct PlannedArrays {
    append: Arc<ScalarUDF>,
    prepend: Arc<ScalarUDF>,
    concat: Arc<ScalarUDF>,
    contains: Arc<ScalarUDF>,
    element: Arc<ScalarUDF>,
    slice: Arc<ScalarUDF>,
}

impl Default for PlannedArrays {
    fn default() -> PlannedArrays {
        fn function(of: impl ScalarUDFImpl + 'static) -> Arc<ScalarUDF> {
            Arc::new(ScalarUDF::from(of))
        }
        PlannedArrays {
            append: function(Changed::append()),
            prepend: function(Changed::prepend()),
            concat: function(Changed::concat()),
            contains: function(Contains::default()),
            element: function(Subscript::element()),
            slice: function(Subscript::slice()),
        }
    }
}

fn call(function: &Arc<ScalarUDF>, args: Vec<Expr>) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(function), args))
}

/// The operator that says which of two lists comes first.
fn ordered(op: &BinaryOperator) -> Option<Ordered> {
    Ordered::of(match op {
        BinaryOperator::Lt => Operator::Lt,
        BinaryOperator::LtEq => Operator::LtEq,
        BinaryOperator::Gt => Operator::Gt,
        BinaryOperator::GtEq => Operator::GtEq,
        _ => return None,
    })
}

/// A number that is written: of `array_agg(x)[1]` DataFusion keeps but one value.
fn is_positive(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(ScalarValue::Int64(Some(1..)), _))
}

impl ExprPlanner for PlannedArrays {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr { op, left, right } = expr;
        let dimensions = |expr: &Expr| expr.get_type(schema).map_or(0, |of| list_ndims(&of));
        let is_concerned =
            matches!(op, BinaryOperator::StringConcat | BinaryOperator::AtArrow | BinaryOperator::ArrowAt)
                || ordered(&op).is_some();
        let (of_left, of_right) = if is_concerned { (dimensions(&left), dimensions(&right)) } else { (0, 0) };
        let are_lists = of_left > 0 && of_right > 0;
        Ok(PlannerResult::Planned(match op {
            BinaryOperator::StringConcat if of_left + of_right > 0 => match of_left.cmp(&of_right) {
                Ordering::Equal => call(&self.concat, vec![left, right]),
                Ordering::Greater => call(&self.append, vec![left, right]),
                Ordering::Less => call(&self.prepend, vec![left, right]),
            },
            BinaryOperator::AtArrow if are_lists => call(&self.contains, vec![left, right]),
            BinaryOperator::ArrowAt if are_lists => call(&self.contains, vec![right, left]),
            op => match ordered(&op).filter(|_| are_lists) {
                Some(ordered) => call(&Arc::new(ScalarUDF::from(ordered)), vec![left, right]),
                None => return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right })),
            },
        }))
    }

    fn plan_field_access(
        &self,
        expr: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        let RawFieldAccessExpr { expr, field_access } = expr;
        let is_list = expr.get_type(schema).is_ok_and(|of| element_of(&of).is_some());
        Ok(match field_access {
            GetFieldAccess::ListIndex { key }
                if is_list && !(matches!(expr, Expr::AggregateFunction(_)) && is_positive(&key)) =>
            {
                PlannerResult::Planned(call(&self.element, vec![expr, *key]))
            }
            // PostgreSQL has no strides.
            GetFieldAccess::ListRange { start, stop, stride }
                if is_list && matches!(*stride, Expr::Literal(ScalarValue::Int64(Some(1)), _)) =>
            {
                PlannerResult::Planned(call(&self.slice, vec![expr, *start, *stop, *stride]))
            }
            field_access => PlannerResult::Original(RawFieldAccessExpr { expr, field_access }),
        })
    }
}
