//! `mod(a, b)`, PostgreSQL's other spelling of `a % b`.

use super::names::parts_of;
use super::rewriting::rewrite;
use alluvia_types::Result;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Query,
};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Whether a statement of these tokens may have one.
pub(crate) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    tokens.iter().any(|token| matches!(&token.token, Token::Word(word) if word.value.eq_ignore_ascii_case("mod")))
}

/// Brings all of them to the operator.
pub(crate) fn write_out(query: &mut Query) -> Result<()> {
    rewrite(query, |expr| sides_of(expr).is_some(), &mut |expr| {
        if let Some((of, by)) = sides_of(expr) {
            let side = |side: &Expr| Box::new(Expr::Nested(Box::new(side.clone())));
            let remainder = Expr::BinaryOp { left: side(of), op: BinaryOperator::Modulo, right: side(by) };
            *expr = Expr::Nested(Box::new(remainder));
        }
        Ok(())
    })
}

/// What is divided, and by what. Calls with anything else in them are left to planning, which knows no such function.
fn sides_of(expr: &Expr) -> Option<(&Expr, &Expr)> {
    let Expr::Function(Function {
        name,
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(list),
        filter: None,
        null_treatment: None,
        over: None,
        within_group,
    }) = expr
    else {
        return None;
    };
    let is_plain = within_group.is_empty() && list.duplicate_treatment.is_none() && list.clauses.is_empty();
    let name = parts_of(name).ok()?;
    let is_mod = name == ["mod"] || name == ["pg_catalog", "mod"];
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(of)), FunctionArg::Unnamed(FunctionArgExpr::Expr(by))]
            if is_plain && is_mod =>
        {
            Some((of, by))
        }
        _ => None,
    }
}
