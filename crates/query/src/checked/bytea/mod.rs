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
mod codes;
mod forms;
mod functions;
mod single;

use super::expressions::{changed, changed_as_written};
use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::functions::core::overlay;
use datafusion::functions::unicode::{strpos, substr};
use datafusion::logical_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator, ScalarUDF, binary_expr, cast};
use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::BinaryOperator;
use forms::{FORMS, OfBytes, Work};
use functions::{bytes_of, read, shown};
use std::sync::Arc;

/// Gives functions of texts forms for bytes, and adds those that bytes alone have.
pub(super) fn register(state: &mut SessionState) -> Result<()> {
    for (name, work) in FORMS {
        let inner = state.udf(name)?;
        state.register_udf(Arc::new(ScalarUDF::from(OfBytes::new(inner, work))))?;
    }
    for coded in codes::Coded::both() {
        state.register_udf(Arc::new(ScalarUDF::from(coded)))?;
    }
    for single in single::Single::all() {
        state.register_udf(Arc::new(ScalarUDF::from(single)))?;
    }
    Ok(())
}

/// Plans `SUBSTRING(b FROM 1 FOR 2)`, `POSITION(a IN b)` and `OVERLAY(b PLACING a FROM 1)`, of which DataFusion would make its own
/// functions, wherever others are registered under their names: it must be asked first.
#[derive(Debug)]
pub(crate) struct PlannedCuts {
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

/// Puts our functions in the place of casts that were written. Types must not have been coerced: only until then is known which those are.
#[derive(Debug)]
pub(crate) struct WrittenBytes;

impl AnalyzerRule for WrittenBytes {
    fn name(&self) -> &str {
        "written_bytes"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        changed_as_written(plan, may_be_of_bytes, written)
    }
}

/// Plans `bytes || 'text'`, and bytes beside a text that is computed, of which DataFusion would make text. Here, since the types of a statement's columns follow from it.
#[derive(Debug)]
pub(super) struct JoinedBytes;

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

/// Reads literals that have become bytes because something wants bytes. Types must have been coerced.
#[derive(Debug)]
pub(crate) struct BytesOfLiterals;

impl AnalyzerRule for BytesOfLiterals {
    fn name(&self) -> &str {
        "bytes_of_literals"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        changed(plan, is_coerced_literal, |expr, _| coerced(expr))
    }
}

fn is_bytes(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn is_list_of_bytes(data_type: &DataType) -> bool {
    matches!(data_type, DataType::List(element) if is_bytes(element.data_type()))
}

/// The text of a literal; `None` within for NULL.
pub(super) fn text_literal(expr: &Expr) -> Option<Option<&str>> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text), _) => {
            Some(text.as_deref())
        }
        _ => None,
    }
}

fn may_be_of_bytes(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(Cast { field, .. }) | Expr::TryCast(TryCast { field, .. }) => {
            is_bytes(field.data_type()) || is_text(field.data_type()) || is_list_of_bytes(field.data_type())
        }
        Expr::ScalarFunction(function) => function.name() == DECODE,
        _ => false,
    }
}

/// What takes text, and is said to take bytes.
const DECODE: &str = "decode";

fn written(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let has = |expr: &Expr, of: fn(&DataType) -> bool| expr.get_type(schema).is_ok_and(|data_type| of(&data_type));
    match expr {
        Expr::Cast(Cast { expr: of, field }) if is_bytes(field.data_type()) && has(&of, is_text) => {
            become_bytes(*of, field.data_type(), false).map(Transformed::yes)
        }
        Expr::TryCast(TryCast { expr: of, field }) if is_bytes(field.data_type()) && has(&of, is_text) => {
            become_bytes(*of, field.data_type(), true).map(Transformed::yes)
        }
        Expr::Cast(Cast { expr: of, field }) | Expr::TryCast(TryCast { expr: of, field })
            if is_text(field.data_type()) && has(&of, is_bytes) =>
        {
            Ok(Transformed::yes(shown(*of, field.data_type().clone())))
        }
        Expr::Cast(Cast { expr: mut of, field }) if is_list_of_bytes(field.data_type()) => {
            let is_changed = read_elements(&mut of)?;
            let list = Expr::Cast(Cast { expr: of, field });
            Ok(if is_changed { Transformed::yes(list) } else { Transformed::no(list) })
        }
        Expr::ScalarFunction(ScalarFunction { func, mut args }) if func.name() == DECODE => {
            let raw = args.first().and_then(text_literal).flatten().map(|text| text.as_bytes().to_vec());
            let is_literal = raw.is_some();
            if let (Some(first), Some(raw)) = (args.first_mut(), raw) {
                *first = Expr::Literal(ScalarValue::Binary(Some(raw)), None);
            }
            let decoded = Expr::ScalarFunction(ScalarFunction { func, args });
            Ok(if is_literal { Transformed::yes(decoded) } else { Transformed::no(decoded) })
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Reads the literals of a list that is written out, and says whether there are any.
fn read_elements(list: &mut Expr) -> Result<bool> {
    let mut is_changed = false;
    if let Expr::ScalarFunction(list) = list
        && list.name() == "make_array"
    {
        for element in &mut list.args {
            if text_literal(element).is_some() {
                let of = std::mem::replace(element, Expr::Literal(ScalarValue::Null, None));
                *element = become_bytes(of, &DataType::BinaryView, false)?;
                is_changed = true;
            } else if matches!(element, Expr::Literal(ScalarValue::Null, _)) {
                // NULL of no type has no type in common with bytes.
                *element = Expr::Literal(ScalarValue::BinaryView(None), None);
            }
        }
    }
    Ok(is_changed)
}

fn is_coerced_literal(expr: &Expr) -> bool {
    let (Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field })) = expr else { return false };
    is_bytes(field.data_type()) && text_literal(expr).is_some()
}

fn coerced(expr: Expr) -> Result<Transformed<Expr>> {
    match expr {
        Expr::Cast(Cast { expr: of, field }) if is_bytes(field.data_type()) && text_literal(&of).is_some() => {
            become_bytes(*of, field.data_type(), false).map(Transformed::yes)
        }
        Expr::TryCast(TryCast { expr: of, field }) if is_bytes(field.data_type()) && text_literal(&of).is_some() => {
            become_bytes(*of, field.data_type(), true).map(Transformed::yes)
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Text as bytes: a literal at once, so that it is still one to all that looks for literals.
fn become_bytes(of: Expr, to: &DataType, or_null: bool) -> Result<Expr> {
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
