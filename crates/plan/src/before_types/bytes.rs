//! Casts between text and bytes that a user wrote, casts of and to types that Arrow has none for ([`alluvia_functions::casts::typed`]), and
//! rows that are arguments of functions of JSON.

use super::json_keys;
use super::kept_kinds::{kept, may_keep};
use crate::expressions::changed_as_written;
use alluvia_functions::bytes::functions::shown;
use alluvia_functions::bytes::{become_bytes, is_bytes, is_text, text_literal};
use alluvia_functions::casts::kinds::{Kind, kind_of};
use alluvia_functions::casts::typed::{literal, planned, round_before_cast};
use alluvia_values::calls::JSON_ROW;
use arrow::datatypes::{DataType, Field};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, lit};
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
        json_keys::check(&plan)?;
        changed_as_written(plan, may_be_of_bytes, written)
    }
}

fn is_list_of_bytes(data_type: &DataType) -> bool {
    matches!(data_type, DataType::List(element) if is_bytes(element.data_type()))
}

fn may_be_of_bytes(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(_) | Expr::TryCast(_) => true,
        other if may_keep(other) => true,
        Expr::ScalarFunction(function) => matches!(function.name(), DECODE | JSON_ROW),
        _ => false,
    }
}

/// What takes text, and is said to take bytes.
const DECODE: &str = "decode";

/// A cast of or to a type that its field tells.
fn typed(expr: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let (of, to, is_tried) = match expr {
        Expr::Cast(Cast { expr, field }) => (expr, field, false),
        Expr::TryCast(TryCast { expr, field }) => (expr, field, true),
        _ => return Ok(None),
    };
    match of.to_field(schema) {
        Ok((_, from)) => planned(of, &from, to, is_tried),
        Err(_) => Ok(None),
    }
}

/// The row that stands for all columns of a table, as names and values by turns.
fn row_of_columns(function: ScalarFunction, schema: &DFSchema) -> Transformed<Expr> {
    #[expect(deprecated)] // DataFusion plans no other
    let [Expr::Wildcard { qualifier: Some(table), .. }] = function.args.as_slice() else {
        return Transformed::no(Expr::ScalarFunction(function));
    };
    let columns = schema.fields_indices_with_qualified(table).into_iter().flat_map(|at| {
        let (qualifier, field) = schema.qualified_field(at);
        [lit(field.name().as_str()), Expr::Column(Column::new(qualifier.cloned(), field.name()))]
    });
    let args = columns.collect();
    Transformed::yes(Expr::ScalarFunction(ScalarFunction { args, ..function }))
}

fn written(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if let Some(typed) = typed(&expr, schema)? {
        return Ok(Transformed::yes(typed));
    }
    let is_rounded = match &mut expr {
        Expr::ScalarFunction(function) if matches!(function.name(), "round" | "trunc") => {
            round_before_cast(function, schema)
        }
        _ => false,
    };
    if may_keep(&expr) {
        let (expr, is_changed) = kept(expr, schema)?;
        return Ok(Transformed::new_transformed(expr, is_changed || is_rounded));
    }
    if is_rounded {
        return Ok(Transformed::yes(expr));
    }
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
        Expr::Cast(Cast { expr: mut of, field }) if kind_of_elements(&field) != Kind::Other => {
            let is_changed = read_kinds(&mut of, kind_of_elements(&field))?;
            Ok(Transformed::new_transformed(Expr::Cast(Cast { expr: of, field }), is_changed))
        }
        Expr::Cast(Cast { expr: mut of, field }) if is_list_of_bytes(field.data_type()) => {
            let is_changed = read_elements(&mut of)?;
            let list = Expr::Cast(Cast { expr: of, field });
            Ok(if is_changed { Transformed::yes(list) } else { Transformed::no(list) })
        }
        Expr::ScalarFunction(row) if row.name() == JSON_ROW => Ok(row_of_columns(row, schema)),
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

/// What a list is of, where its type does not tell.
fn kind_of_elements(list: &Field) -> Kind {
    match list.data_type() {
        DataType::List(element) => kind_of(element),
        _ => Kind::Other,
    }
}

/// Reads the literals of a list that is written out as values of a kind, for which Arrow has no cast.
fn read_kinds(list: &mut Expr, kind: Kind) -> Result<bool> {
    let mut is_changed = false;
    if let Expr::ScalarFunction(list) = list
        && list.name() == "make_array"
    {
        for element in &mut list.args {
            let read = match (text_literal(element), kind.sql_type()) {
                (Some(Some(text)), _) => literal(text, kind)?,
                (Some(None), Some(of)) => Expr::Literal(ScalarValue::try_from(&of.to_arrow())?, None),
                _ if matches!(element, Expr::Literal(ScalarValue::Null, _)) && kind == Kind::Uuid => {
                    Expr::Literal(ScalarValue::FixedSizeBinary(16, None), None)
                }
                _ => continue,
            };
            *element = read;
            is_changed = true;
        }
    }
    Ok(is_changed)
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
