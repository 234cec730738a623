//! `mod(a, b)`, PostgreSQL's other spelling of `a % b`.

use super::rewriting::{call_of, rewrite};
use alluvia_types::Result;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Query};
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
    let Expr::Function(function) = expr else { return None };
    let (name, arguments) = call_of(function)?;
    match arguments[..] {
        [of, by] if name == "mod" => Some((of, by)),
        _ => None,
    }
}
