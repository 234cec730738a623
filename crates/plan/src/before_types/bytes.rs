//! Casts between text and bytes that a user wrote.

use crate::expressions::changed_as_written;
use alluvia_functions::bytes::functions::shown;
use alluvia_functions::bytes::{become_bytes, is_bytes, is_text, text_literal};
use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::scalar::ScalarValue;

/// Puts our functions in the place of casts that were written. Types must not have been coerced: only until then is known which those are.
#[derive(Debug)]
pub struct WrittenBytes;

impl AnalyzerRule for WrittenBytes {
    fn name(&self) -> &str {
        "written_bytes"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        changed_as_written(plan, may_be_of_bytes, written)
    }
}

fn is_list_of_bytes(data_type: &DataType) -> bool {
    matches!(data_type, DataType::List(element) if is_bytes(element.data_type()))
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
