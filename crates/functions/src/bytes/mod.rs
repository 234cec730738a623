//! Text that becomes bytes, bytes that become text, and functions of bytes.
//!
//! Invariants:
//! - Text becomes bytes as PostgreSQL reads it, in the hex form (`\x4142`) or the escape form (`A\102`), by a cast that is written, and a
//!   literal also where bytes are wanted. Text in neither form is an error, a literal's also where nothing would evaluate it.
//! - Bytes that are cast to text are shown in the hex form. So a cast there and back gives the same bytes.
//! - Casts that nobody wrote, other than of literals, are left alone: between layouts of bytes, of bytes to text for LIKE, of a column of
//!   texts that is compared with bytes, which is so by its UTF-8.
//!
//! DataFusion 55.2 takes the UTF-8 of the text for the bytes, and the other way round.

mod arguments;
pub(crate) mod codes;
pub mod forms;
pub mod functions;
pub(crate) mod single;

use arrow::datatypes::DataType;
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion_expr::{Expr, ExprSchemable, Operator, ScalarUDF, binary_expr, cast};
use datafusion_functions::core::overlay;
use datafusion_functions::unicode::{strpos, substr};
use forms::{OfBytes, Work};
use functions::{bytes_of, read};
use sqlparser::ast::BinaryOperator;
use std::sync::Arc;

/// Plans `SUBSTRING(b FROM 1 FOR 2)`, `POSITION(a IN b)` and `OVERLAY(b PLACING a FROM 1)`, of which DataFusion would make its own
/// functions, wherever others are registered under their names: it must be asked first.
#[derive(Debug)]
pub struct PlannedCuts {
    part: Arc<ScalarUDF>,
    position: Arc<ScalarUDF>,
    overlaid: Arc<ScalarUDF>,
}

impl Default for PlannedCuts {
    fn default() -> PlannedCuts {
        let of = |inner, work| Arc::new(ScalarUDF::from(OfBytes::new(inner, work)));
        PlannedCuts {
            part: of(substr(), Work::Part),
            position: of(strpos(), Work::Position),
            overlaid: of(overlay(), Work::Overlaid),
        }
    }
}

impl PlannedCuts {
    fn call(function: &Arc<ScalarUDF>, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(function), args))))
    }
}

impl ExprPlanner for PlannedCuts {
    fn plan_substring(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        PlannedCuts::call(&self.part, args)
    }

    fn plan_position(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        PlannedCuts::call(&self.position, args)
    }

    fn plan_overlay(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        PlannedCuts::call(&self.overlaid, args)
    }
}

/// Plans `bytes || 'text'`, and bytes beside a text that is computed, of which DataFusion would make text. Here, since the types of a statement's columns follow from it.
#[derive(Debug)]
pub struct JoinedBytes;

impl ExprPlanner for JoinedBytes {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        if expr.op != BinaryOperator::StringConcat {
            return Ok(PlannerResult::Original(expr));
        }
        let of_bytes = |expr: &Expr| expr.get_type(schema).is_ok_and(|data_type| is_bytes(&data_type));
        let RawBinaryExpr { op, left, right } = expr;
        if text_literal(&right).is_some() && of_bytes(&left) {
            let right = become_bytes(right, &DataType::BinaryView, false)?;
            return Ok(PlannerResult::Planned(binary_expr(left, Operator::StringConcat, right)));
        }
        if text_literal(&left).is_some() && of_bytes(&right) {
            let left = become_bytes(left, &DataType::BinaryView, false)?;
            return Ok(PlannerResult::Planned(binary_expr(left, Operator::StringConcat, right)));
        }
        // Beside a text that is known to be one bytes are shown.
        let of_text = |expr: &Expr| expr.get_type(schema).is_ok_and(|data_type| is_text(&data_type));
        let as_text = |bytes: Expr| cast(bytes, DataType::Utf8View);
        let (left, right) = match (of_bytes(&left), of_bytes(&right)) {
            (true, false) if of_text(&right) => (as_text(left), right),
            (false, true) if of_text(&left) => (left, as_text(right)),
            _ => (left, right),
        };
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}

/// Whether a column of the type holds bytes: BYTEA, in any of Arrow's layouts of variable length.
pub fn is_bytes(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

/// Whether a column of the type holds text, in any of Arrow's layouts.
pub fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// The text of a literal; `None` within for NULL.
pub fn text_literal(expr: &Expr) -> Option<Option<&str>> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text), _) => {
            Some(text.as_deref())
        }
        _ => None,
    }
}

/// Text as bytes: a literal at once, so that it is still one to all that looks for literals.
pub fn become_bytes(of: Expr, to: &DataType, or_null: bool) -> Result<Expr> {
    let Some(text) = text_literal(&of) else {
        return Ok(read(of, to.clone(), or_null));
    };
    let bytes = match text.map(bytes_of) {
        None => None,
        Some(Ok(bytes)) => Some(bytes),
        Some(Err(_)) if or_null => None,
        Some(Err(error)) => return Err(error),
    };
    Ok(Expr::Literal(ScalarValue::Binary(bytes).cast_to(to)?, None))
}
