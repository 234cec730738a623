//! Comparisons with computed lists, slices without a bound, and written rows: `x < ANY (list)`, `list[2:]`, `(a, b) IS
//! NULL`.
//!
//! Invariants, as in PostgreSQL:
//! - `x op ANY (list)` and `ALL` of what is no written list and no query become calls of [`QUANTIFIED_CALL`], which says what they mean.
//! - A slice without a bound begins with the first element, or ends with the last.
//! - A written row is NULL if all its parts are, and is not NULL if none of them is.
//! - Comes after all that knows written lists. A comparison with parameters in it stays as it is until they have
//!   values. A statement that names something of `pg_` is left alone, also when its parameters get values: the catalog
//!   has its own way with lists.
//! - A column keeps the name that its text gives it.

use crate::parameters::is_parameter;
use crate::tokens::catalog_names::names_catalog;
use crate::trees::rewriting::{call, call_of, contains, rewrite};
use alluvia_types::Result;
use alluvia_values::calls::QUANTIFIED_CALL;
use sqlparser::ast::{AccessExpr, BinaryOperator, Expr, Query, Subscript, Value};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The last place that an element may have.
const LAST: &str = "2147483647";

/// Whether a statement of these tokens may have any of it.
pub(crate) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    if names_catalog(tokens) {
        return false;
    }
    let (mut may_have, mut is_after_bracket) = (false, false);
    for token in tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))) {
        match &token.token {
            Token::Word(word) => {
                may_have |= match word.keyword {
                    Keyword::ANY | Keyword::SOME | Keyword::ALL => true,
                    Keyword::IS => is_after_bracket,
                    _ => false,
                }
            }
            Token::LBracket => may_have = true,
            _ => {}
        }
        is_after_bracket = token.token == Token::RParen;
    }
    may_have
}

/// Brings all of a query's to what is planned.
pub fn write_out(query: &mut Query) -> Result<()> {
    rewrite(query, is_one, &mut expand)
}

/// Whether [`expand`] may change it.
fn is_one(expr: &Expr) -> bool {
    match expr {
        Expr::AnyOp { left, compare_op, right, .. } | Expr::AllOp { left, compare_op, right } => {
            sign(compare_op).is_some()
                && !matches!(**right, Expr::Subquery(_))
                && !contains(&**left, is_parameter)
                && !contains(&**right, is_parameter)
        }
        Expr::CompoundFieldAccess { access_chain, .. } => access_chain.iter().any(lacks_bound),
        Expr::IsNull(row) | Expr::IsNotNull(row) => parts_of(row).is_some(),
        _ => false,
    }
}

fn lacks_bound(access: &AccessExpr) -> bool {
    matches!(
        access,
        AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, stride: None })
            if lower_bound.is_none() || upper_bound.is_none()
    )
}

pub fn sign(op: &BinaryOperator) -> Option<&'static str> {
    Some(match op {
        BinaryOperator::Eq => "=",
        BinaryOperator::NotEq => "<>",
        BinaryOperator::Lt => "<",
        BinaryOperator::LtEq => "<=",
        BinaryOperator::Gt => ">",
        BinaryOperator::GtEq => ">=",
        _ => return None,
    })
}

/// The parts of a written row, `(a, b)` or `ROW(a, b)`.
fn parts_of(row: &Expr) -> Option<Vec<&Expr>> {
    let parts: Vec<&Expr> = match row {
        Expr::Tuple(parts) => parts.iter().collect(),
        Expr::Function(function) => call_of(function).filter(|(name, _)| name == "row")?.1,
        _ => return None,
    };
    (!parts.is_empty()).then_some(parts)
}

/// Brings an expression, whose parts have been brought so, to the form that is planned.
pub fn expand(expr: &mut Expr) -> Result<()> {
    if !is_one(expr) {
        return Ok(());
    }
    let replaced = match expr {
        Expr::AnyOp { left, compare_op, right, .. } => compared(left, compare_op, right, "any"),
        Expr::AllOp { left, compare_op, right } => compared(left, compare_op, right, "all"),
        Expr::CompoundFieldAccess { access_chain, .. } => {
            access_chain.iter_mut().for_each(bounded);
            return Ok(());
        }
        Expr::IsNull(row) => each_part(row, Expr::IsNull),
        Expr::IsNotNull(row) => each_part(row, Expr::IsNotNull),
        _ => None,
    };
    if let Some(replaced) = replaced {
        *expr = replaced;
    }
    Ok(())
}

fn taken(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr::Value(Value::Null.into()))
}

fn compared(left: &mut Expr, op: &BinaryOperator, right: &mut Expr, word: &str) -> Option<Expr> {
    let word = Value::SingleQuotedString(format!("{} {word}", sign(op)?));
    Some(call(QUANTIFIED_CALL, vec![Expr::Value(word.into()), taken(left), taken(right)]))
}

fn bounded(access: &mut AccessExpr) {
    let number = |digits: &str| Expr::Value(Value::Number(digits.to_owned(), false).into());
    if lacks_bound(access)
        && let AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, .. }) = access
    {
        lower_bound.get_or_insert_with(|| number("1"));
        upper_bound.get_or_insert_with(|| number(LAST));
    }
}

/// The test of each part of a row, all joined by AND, as a tree that is not deep.
fn each_part(row: &Expr, of_part: fn(Box<Expr>) -> Expr) -> Option<Expr> {
    let mut all: Vec<Expr> = parts_of(row)?.into_iter().map(|part| of_part(Box::new(part.clone()))).collect();
    while all.len() > 1 {
        let mut halves = Vec::with_capacity(all.len().div_ceil(2));
        let mut parts = all.into_iter();
        while let Some(left) = parts.next() {
            halves.push(match parts.next() {
                Some(right) => both(left, right),
                None => left,
            });
        }
        all = halves;
    }
    all.pop().map(|expr| Expr::Nested(Box::new(expr)))
}

fn both(left: Expr, right: Expr) -> Expr {
    let (left, right) = (Box::new(left), Box::new(right));
    Expr::Nested(Box::new(Expr::BinaryOp { left, op: BinaryOperator::And, right }))
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::parameters::query_of;
    use crate::script::parse;
    use alluvia_values::calls::quantified_by;
    use datafusion_common::ScalarValue;

    fn written(condition: &str) -> String {
        match parse(&format!("SELECT 1 FROM t WHERE {condition}")).unwrap().remove(0).kind {
            Kind::Refused(error) => error.message().to_owned(),
            mut kind => query_of(&mut kind).unwrap().to_string().replace("SELECT 1 FROM t WHERE ", ""),
        }
    }

    #[test]
    fn lists_that_are_computed_are_asked_by_calls() {
        for (condition, expected) in [
            ("a = ANY (b || 1)", "any_or_all('= any', a, b || 1)"),
            ("a <> ALL (b)", "any_or_all('<> all', a, b)"),
            ("a < ANY (ARRAY[1, 2])", "any_or_all('< any', a, ARRAY[1, 2])"),
            ("a = ANY (ARRAY[1])", "a IN (1)"),
            ("a < ANY ($1)", "a < ANY($1)"),
            ("a = ANY (b) AND c = pg_typeof(d)", "a = ANY(b) AND c = pg_typeof(d)"),
            ("b[2:] = b[:3]", "b[2:2147483647] = b[1:3]"),
            ("b[2:3] = b[1]", "b[2:3] = b[1]"),
            ("(a, b) IS NULL", "((a IS NULL AND b IS NULL))"),
            ("ROW(a, b, c) IS NOT NULL", "(((a IS NOT NULL AND b IS NOT NULL) AND c IS NOT NULL))"),
            ("(a) IS NULL", "(a) IS NULL"),
        ] {
            assert_eq!(written(condition), expected);
        }
    }

    #[test]
    fn statements_of_the_catalog_are_left_alone_with_parameters_too() {
        let sql = |of: &str| format!("SELECT 1 FROM t WHERE a = ANY (b) AND c = $1 AND d = {of}");
        for (of, expected) in [("pg_typeof(e)", "a = ANY(b)"), ("typeof(e)", "any_or_all('= any', a, b)")] {
            let statement = parse(&sql(of)).unwrap().remove(0);
            let mut bound = statement.bind(&[ScalarValue::from(5_i64)]).unwrap();
            let expected = format!("SELECT 1 FROM t WHERE {expected} AND c = 5 AND d = {of}");
            assert_eq!(query_of(&mut bound.kind).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn words_name_operators() {
        assert_eq!(quantified_by("<= all"), Some(("<=", false)));
        assert_eq!(quantified_by("= any"), Some(("=", true)));
        assert_eq!(quantified_by("= some"), None);
    }
}
