//! The arguments of `CALL alluvia.forget_segment('table', segment [, force])`.
//!
//! Invariant: nothing but a plain `true`, or `force => true`, forces.

use crate::statement::{Procedure, literal_text};
use crate::statements::cuboid_name::table_named;
use alluvia_types::{Error, ErrorKind, Result};
use sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Value};

/// Drops a segment whose rows are lost.
pub(crate) const FORGET_SEGMENT: &str = "forget_segment";

/// The procedure with its arguments.
pub(crate) fn forget_segment(procedure: &str, arguments: &FunctionArguments) -> Result<Procedure> {
    let wrong = || {
        Error::new(ErrorKind::UndefinedFunction, format!("{procedure} takes the name of a table, and a segment's number"))
            .with_hint(format!(
                "CALL {procedure}('table', 7) says what would be lost, CALL {procedure}('table', 7, force => true) does it; \
                 alluvia.segments lists segments"
            ))
    };
    let list = match arguments {
        FunctionArguments::List(list) if list.clauses.is_empty() && list.duplicate_treatment.is_none() => list,
        _ => return Err(wrong()),
    };
    let (table, segment, force) = match list.args.as_slice() {
        [table, segment] => (table, segment, None),
        [table, segment, force] => (table, segment, Some(force)),
        _ => return Err(wrong()),
    };
    let table = crate::statement::text_of(plain(table).ok_or_else(wrong)?).ok_or_else(wrong)?;
    let segment = plain(segment).and_then(literal_text).and_then(|text| text.parse().ok()).ok_or_else(wrong)?;
    let is_told = force.map_or(Some(false), truth).ok_or_else(wrong)?;
    Ok(Procedure::ForgetSegment { table: table_named(procedure, &table)?.ok_or_else(wrong)?, segment, is_told })
}

fn plain(argument: &FunctionArg) -> Option<&Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

/// `true` or `false`, which may be called `force`.
fn truth(argument: &FunctionArg) -> Option<bool> {
    let expr = match argument {
        FunctionArg::Named { name, arg: FunctionArgExpr::Expr(expr), .. }
            if name.value.eq_ignore_ascii_case("force") =>
        {
            expr
        }
        FunctionArg::ExprNamed { name: Expr::Identifier(name), arg: FunctionArgExpr::Expr(expr), .. }
            if name.value.eq_ignore_ascii_case("force") =>
        {
            expr
        }
        argument => plain(argument)?,
    };
    match expr {
        Expr::Value(value) => match value.value {
            Value::Boolean(truth) => Some(truth),
            _ => None,
        },
        _ => None,
    }
}
