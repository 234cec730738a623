//! What operators of JSON are planned as: `->`, `->>`, `#>`, `#>>`, `@>`, `<@`, `?`, `?|`, `?&`, `||`, `-`, `#-`; and
//! subscripts of JSONB.
//!
//! Invariants, as in PostgreSQL:
//! - A literal beside JSONB, or a parameter without a type, is JSONB where the operator takes two of that.
//! - JSON is not compared, nor is anything in it looked for: that there is no such operator is an error (42883).
//!
//! JSONB is compared as its text, unlike in PostgreSQL.

use super::access::{Function, Json};
use super::changed::{Changed, Work};
use crate::bytes::text_literal;
use crate::casts::kinds::{Kind, field_of, kind_of};
use crate::casts::pg_typeof::type_of_field;
use crate::casts::typed::literal;
use alluvia_types::{Error, ErrorKind};
use alluvia_values::errors::wrap;
use alluvia_values::list_text::array_elements;
use arrow::datatypes::FieldRef;
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr};
use datafusion_expr::{Expr, ExprSchemable, GetFieldAccess, ScalarUDF, ScalarUDFImpl};
use sqlparser::ast::BinaryOperator;
use std::sync::Arc;

/// Plans operators of JSON, of JSONB, and of texts with JSON in them.
#[derive(Debug)]
pub struct JsonOperators;

fn call(function: impl ScalarUDFImpl + 'static, args: Vec<Expr>) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::from(function)), args))
}

/// The kind of an expression.
fn kind(expr: &Expr, schema: &DFSchema) -> Kind {
    match expr {
        // Of a chain each level would name all those below it.
        Expr::BinaryExpr(_) => return Kind::Other,
        Expr::ScalarFunction(function) => {
            if let Some(changed) = function.func.inner().downcast_ref::<Changed>() {
                return kind_of(&changed.given());
            }
        }
        _ => {}
    }
    if expr.get_type(schema).is_ok_and(|of| !of.is_string()) {
        return Kind::Other;
    }
    expr.to_field(schema).map_or(Kind::Other, |(_, field)| kind_of(&field))
}

impl ExprPlanner for JsonOperators {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{
            Arrow, ArrowAt, AtArrow, Eq, Gt, GtEq, HashArrow, HashLongArrow, HashMinus, LongArrow, Lt, LtEq, Minus,
            NotEq, Question, QuestionAnd, QuestionPipe, StringConcat,
        };
        let RawBinaryExpr { op, left, right } = expr;
        let is_text = |expr: &Expr| expr.get_type(schema).is_ok_and(|of| of.is_string() || of.is_null());
        let planned = match op {
            HashArrow | HashLongArrow if is_text(&left) => {
                let gives_text = op == HashLongArrow;
                let (function, path) = match (steps_of(&right), gives_text) {
                    (Some(steps), false) => (Function::Path, steps),
                    (Some(steps), true) => (Function::PathText, steps),
                    (None, false) => (Function::At, vec![right]),
                    (None, true) => (Function::AtText, vec![right]),
                };
                call(Json::new(function), std::iter::once(left).chain(path).collect())
            }
            Arrow if is_text(&left) => call(Json::new(Function::Get), vec![left, right]),
            LongArrow if is_text(&left) => call(Json::new(Function::GetText), vec![left, right]),
            Question if is_text(&left) => call(Changed::new("jsonb_names", Work::Names), vec![left, right]),
            QuestionPipe if is_text(&left) => call(Changed::new("jsonb_names_any", Work::NamesAny), vec![left, right]),
            QuestionAnd if is_text(&left) => call(Changed::new("jsonb_names_all", Work::NamesAll), vec![left, right]),
            HashMinus if is_text(&left) => {
                call(Changed::new("jsonb_without_path", Work::WithoutPath), vec![left, right])
            }
            Minus if kind(&left, schema) == Kind::Jsonb => {
                call(Changed::new("jsonb_without", Work::Without), vec![left, right])
            }
            AtArrow if is_text(&left) && is_text(&right) => {
                call(Changed::new("jsonb_contains", Work::Contains), vec![left, right])
            }
            ArrowAt if is_text(&left) && is_text(&right) => {
                call(Changed::new("jsonb_contains", Work::Contains), vec![right, left])
            }
            StringConcat | Eq | NotEq | Lt | LtEq | Gt | GtEq if is_text(&left) && is_text(&right) => {
                return beside(op, left, right, schema);
            }
            op => return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right })),
        };
        Ok(PlannerResult::Planned(planned))
    }
}

/// Subscripts of JSONB: to be asked before DataFusion's planner, which takes every subscript for one of a struct or a map.
#[derive(Debug)]
pub struct JsonSubscripts;

impl ExprPlanner for JsonSubscripts {
    fn plan_field_access(
        &self,
        expr: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        Ok(part(expr, schema))
    }
}

/// `document['name']` and `document[0]`, which is `->` of JSONB.
fn part(access: RawFieldAccessExpr, schema: &DFSchema) -> PlannerResult<RawFieldAccessExpr> {
    let RawFieldAccessExpr { expr, field_access } = access;
    if kind(&expr, schema) != Kind::Jsonb {
        return PlannerResult::Original(RawFieldAccessExpr { expr, field_access });
    }
    let key = match field_access {
        GetFieldAccess::NamedStructField { name } => Expr::Literal(name, None),
        GetFieldAccess::ListIndex { key } => *key,
        field_access => return PlannerResult::Original(RawFieldAccessExpr { expr, field_access }),
    };
    PlannerResult::Planned(call(Json::new(Function::Get), vec![expr, key]))
}

/// Comparisons and `||` of two that may be JSON.
fn beside(op: BinaryOperator, left: Expr, right: Expr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
    let (of_left, of_right) = (kind(&left, schema), kind(&right, schema));
    let (mut left, mut right) = (left, right);
    match (of_left, of_right) {
        (Kind::Jsonb, Kind::Jsonb) => {}
        (Kind::Jsonb, _) if is_unknown(&right, schema) => read(&mut right)?,
        (_, Kind::Jsonb) if is_unknown(&left, schema) => read(&mut left)?,
        (Kind::Json | Kind::Jsonb, _) | (_, Kind::Json | Kind::Jsonb) if op != BinaryOperator::StringConcat => {
            let side = |expr: &Expr| expr.to_field(schema).map(|(_, field): (_, FieldRef)| field);
            let shown = |expr: &Expr| match text_literal(expr) {
                Some(_) => Ok("unknown".to_owned()),
                None => side(expr).map(|field| type_of_field(&field)),
            };
            let message = format!("operator does not exist: {} {op} {}", shown(&left)?, shown(&right)?);
            let hint = "JSON is not compared: cast it to JSONB or TEXT, x::jsonb or x::text";
            return Err(wrap(Error::new(ErrorKind::UndefinedFunction, message).with_hint(hint)));
        }
        _ => return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right })),
    }
    if op == BinaryOperator::StringConcat {
        return Ok(PlannerResult::Planned(call(Changed::new("jsonb_joined", Work::Joined), vec![left, right])));
    }
    Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
}

/// Whether what stands beside it says what it is: a literal, a parameter of which nobody said what it is, NULL.
fn is_unknown(expr: &Expr, schema: &DFSchema) -> bool {
    text_literal(expr).is_some() || expr.get_type(schema).is_ok_and(|of| of.is_null())
}

/// A literal or a parameter as JSONB; NULL as it is.
fn read(expr: &mut Expr) -> Result<()> {
    if let Expr::Placeholder(placeholder) = expr {
        placeholder.field = Some(field_of(Kind::Jsonb, &placeholder.id));
    } else if let Some(Some(text)) = text_literal(expr) {
        *expr = literal(text, Kind::Jsonb)?;
    }
    Ok(())
}

/// The steps of a path that is written: `'{a,0,b}'`, `ARRAY['a', '0', 'b']`; `None` of any other, and of one without steps.
fn steps_of(path: &Expr) -> Option<Vec<Expr>> {
    let steps: Vec<Expr> = match path {
        Expr::Literal(text, _) => {
            let steps = array_elements(text.try_as_str().flatten()?)?;
            steps.into_iter().map(|step| Expr::Literal(ScalarValue::Utf8View(step), None)).collect()
        }
        Expr::ScalarFunction(call) if call.name() == "make_array" => call.args.clone(),
        _ => return None,
    };
    (!steps.is_empty()).then_some(steps)
}
