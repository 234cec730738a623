//! `lag(x, n, d)` and `lead(x, n, d)` with a default that is computed: planning takes literals alone, and casts them to the type of `x`.
//!
//! Invariants:
//! - The value has the type that `x` and the default have in common: only a default that fits every number stays a literal.
//! - The default stands where the neighbour is missing, and not where it is NULL. Which rows lack it is told by the neighbours of a
//!   constant; with IGNORE NULLS a neighbour that is there is never NULL.
//!
//! Mends apache/datafusion#22082 (in 55.2).
//! Held by `slt/everyday.slt` (`lag(qty, 1, id) OVER (ORDER BY id)`).

use super::rewriting::{call, rewrite};
use crate::names::name_of;
use alluvia_types::Result;
use sqlparser::ast::{
    CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, NullTreatment,
    Query, UnaryOperator, Value, helpers::attached_token::AttachedToken,
};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Whether a statement of these tokens may have one.
pub(crate) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    let is_name = |word: &str| word.eq_ignore_ascii_case("lag") || word.eq_ignore_ascii_case("lead");
    tokens.iter().any(|token| matches!(&token.token, Token::Word(word) if is_name(&word.value)))
}

/// Writes such defaults out.
pub fn write_out(query: &mut Query) -> Result<()> {
    rewrite(query, has_computed_default, &mut |expr| {
        if has_computed_default(expr)
            && let Expr::Function(function) = expr
            && let Some(written) = written_out(function)
        {
            *expr = written;
        }
        Ok(())
    })
}

fn has_computed_default(expr: &Expr) -> bool {
    let Expr::Function(Function { name, args: FunctionArguments::List(list), over: Some(_), .. }) = expr else {
        return false;
    };
    let is_neighbour = matches!(name.0.as_slice(), [part]
        if part.as_ident().is_some_and(|name| matches!(name_of(name).as_str(), "lag" | "lead")));
    let is_computed = matches!(list.args.as_slice(), [_, _, FunctionArg::Unnamed(FunctionArgExpr::Expr(default))]
        if !is_literal(default));
    is_neighbour && is_computed
}

fn is_literal(expr: &Expr) -> bool {
    match expr {
        // Numbers with a point, and those that a column may be too narrow for, make another type.
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse::<i16>().is_ok(),
            _ => true,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } | Expr::Nested(expr) => is_literal(expr),
        _ => false,
    }
}

fn written_out(function: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let [_, _, FunctionArg::Unnamed(FunctionArgExpr::Expr(default))] = list.args.as_slice() else { return None };
    let mut neighbour = function.clone();
    let FunctionArguments::List(of) = &mut neighbour.args else { return None };
    of.args.truncate(2);
    let ignores = |treatment: Option<NullTreatment>| matches!(treatment, Some(NullTreatment::IgnoreNulls));
    let clause = |clause: &FunctionArgumentClause| match clause {
        FunctionArgumentClause::IgnoreOrRespectNulls(treatment) => ignores(Some(*treatment)),
        _ => false,
    };
    if ignores(function.null_treatment) || list.clauses.iter().any(clause) {
        return Some(call("coalesce", vec![Expr::Function(neighbour), default.clone()]));
    }
    let mut is_there = neighbour.clone();
    let FunctionArguments::List(of) = &mut is_there.args else { return None };
    of.args[0] = FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(Value::Boolean(true).into())));
    let missing = Expr::IsNull(Box::new(Expr::Function(is_there)));
    Some(Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition: missing, result: default.clone() }],
        else_result: Some(Box::new(Expr::Function(neighbour))),
    })
}
