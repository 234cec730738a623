//! What UUID, JSON, JSONB, NUMERIC and CHAR(n) go through on their way: CASE, `coalesce`, `nullif`, `greatest`, `least`, `abs`, `trunc`.
//!
//! Invariants:
//! - Where all that is chosen from is of one such type, but for NULL, literals and, beside NUMERIC, numbers, what is chosen is of that type.
//! - A text literal among them is read as that type.
//!
//! DataFusion 55.2 forgets the metadata of a field in all of these.

use crate::expressions::parts_of_case;
use alluvia_functions::bytes::text_literal;
use alluvia_functions::casts::kinds::{Kind, NUMERIC, field_of, kind_of};
use alluvia_functions::casts::typed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{Cast, ScalarFunction};
use datafusion::logical_expr::{Expr, ExprSchemable};

/// Functions that give one of their arguments, or a number of their kind.
const FUNCTIONS: [&str; 6] = ["coalesce", "nullif", "greatest", "least", "abs", "trunc"];

/// Whether [`kept`] may change it.
pub(crate) fn may_keep(expr: &Expr) -> bool {
    match expr {
        Expr::Case(_) => true,
        Expr::ScalarFunction(function) => FUNCTIONS.contains(&function.name()),
        _ => false,
    }
}

/// The expression as one of its kind, and whether it is another than before.
pub(crate) fn kept(mut expr: Expr, schema: &DFSchema) -> Result<(Expr, bool)> {
    let mut is_changed = false;
    let kind = match &mut expr {
        Expr::Case(case) => {
            let (_, mut results) = parts_of_case(case);
            let kind = common(results.iter().map(|result| &**result), schema);
            for result in results.iter_mut().filter(|_| kind.is_some()) {
                is_changed |= read(result, kind)?;
            }
            kind
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) if FUNCTIONS.contains(&func.name()) => {
            // Digits that a function is told are no value.
            let count = if func.name() == "trunc" { args.len().min(1) } else { args.len() };
            let values = &mut args[..count];
            let kind = common(values.iter(), schema);
            for value in values.iter_mut().filter(|_| kind.is_some()) {
                is_changed |= read(value, kind)?;
            }
            kind
        }
        _ => None,
    };
    let Some(kind) = kind else { return Ok((expr, is_changed)) };
    // A UUID is told by its type.
    let is_its = kind.sql_type().is_some_and(|of| expr.get_type(schema).is_ok_and(|found| found == of.to_arrow()));
    if kind == Kind::Uuid || !is_its {
        return Ok((expr, is_changed));
    }
    Ok((Expr::Cast(Cast::new_from_field(Box::new(expr), field_of(kind, ""))), true))
}

/// The kind that all have.
fn common<'a>(exprs: impl Iterator<Item = &'a Expr>, schema: &DFSchema) -> Option<Kind> {
    let mut common = None;
    let mut has_numbers = false;
    for expr in exprs {
        if text_literal(expr).is_some() {
            continue;
        }
        // What is computed by an operator has no kind; its name, which its field has, takes long to make in a chain.
        if matches!(expr, Expr::BinaryExpr(_)) {
            return None;
        }
        let (_, field) = expr.to_field(schema).ok()?;
        match kind_of(&field) {
            Kind::Other if field.data_type().is_null() => {}
            Kind::Other if *field.data_type() == NUMERIC => common = common.or(Some(Kind::Numeric)),
            Kind::Other if field.data_type().is_numeric() => has_numbers = true,
            Kind::Other => return None,
            kind if common.is_none_or(|common| common == kind) => common = Some(kind),
            _ => return None,
        }
    }
    common.filter(|kind| !has_numbers || *kind == Kind::Numeric)
}

fn read(expr: &mut Expr, kind: Option<Kind>) -> Result<bool> {
    match (text_literal(expr), kind) {
        (Some(Some(text)), Some(kind)) => {
            *expr = typed::literal(text, kind)?;
            Ok(true)
        }
        _ => Ok(false),
    }
}
