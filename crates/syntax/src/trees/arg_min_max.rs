//! `arg_max(x, y)` and `arg_min(x, y)`, also called `max_by` and `min_by`: what x is where y is greatest, or least.
//!
//! Invariants:
//! - Rows in which x or y is NULL count for nothing, as in DuckDB. Of several rows it is one of them.
//! - It is `first_value` in the order of y, which keeps FILTER; over a window it is refused by name.

use crate::names::name_of;
use crate::trees::rewriting::{call_of, contains, rewrite};
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::not_supported;
use sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, Ident,
    ObjectName, OrderByExpr, OrderByOptions, Query,
};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Their names, and whether it is the greatest.
const NAMES: [(&str, bool); 6] =
    [("arg_max", true), ("argmax", true), ("max_by", true), ("arg_min", false), ("argmin", false), ("min_by", false)];

/// Whether a statement of these tokens may have one.
pub(crate) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    let is_one = |word: &str| NAMES.iter().any(|(name, _)| word.eq_ignore_ascii_case(name));
    tokens.iter().any(|token| matches!(&token.token, Token::Word(word) if is_one(&word.value)))
}

/// Brings all of a query's to aggregates that are there.
pub fn write_out(query: &mut Query) -> Result<()> {
    rewrite(query, |expr| greatest(expr).is_some(), &mut |expr| {
        let Some(is_greatest) = greatest(expr) else { return Ok(()) };
        let Expr::Function(function) = expr else { return Ok(()) };
        if function.over.is_some() {
            return Err(not_supported("arg_max or arg_min over a window")
                .with_hint("write first_value(x) OVER (... ORDER BY y DESC NULLS LAST)"));
        }
        // What has been put in the place of an inner one is told by its name.
        let is_aggregate =
            |expr: &Expr| matches!(expr, Expr::Function(inner) if inner.filter.is_some() && name_of_first(inner));
        if contains(&function.args, is_aggregate)
            || function.filter.as_ref().is_some_and(|of| contains(&**of, is_aggregate))
        {
            return Err(Error::new(ErrorKind::NotGrouped, "aggregate calls cannot be nested")
                .with_hint("take the inner one in a subquery: SELECT ... FROM (SELECT ... GROUP BY ...) AS s"));
        }
        if let Some(first) = first_value(function, is_greatest) {
            *function = first;
        }
        Ok(())
    })
}

fn name_of_first(function: &Function) -> bool {
    matches!(function.name.0.as_slice(), [part] if part.as_ident().is_some_and(|name| name.value == "first_value"))
}

fn greatest(expr: &Expr) -> Option<bool> {
    let Expr::Function(function) = expr else { return None };
    let [part] = function.name.0.as_slice() else { return None };
    let name = name_of(part.as_ident()?);
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, is_greatest)| *is_greatest)
}

fn first_value(function: &Function, is_greatest: bool) -> Option<Function> {
    let plain = Function { filter: None, ..function.clone() };
    let (_, arguments) = call_of(&plain)?;
    let [of, by] = arguments.as_slice() else { return None };
    let (of, by) = ((*of).clone(), (*by).clone());
    let known = |expr: &Expr| Expr::IsNotNull(Box::new(Expr::Nested(Box::new(expr.clone()))));
    let both = |left: Expr, right: Expr| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::And,
        right: Box::new(right),
    };
    let mut filter = both(known(&of), known(&by));
    if let Some(own) = &function.filter {
        filter = both(Expr::Nested(own.clone()), filter);
    }
    let options = OrderByOptions { asc: Some(!is_greatest), nulls_first: None };
    let mut first = Function { filter: Some(Box::new(filter)), ..plain.clone() };
    first.name = ObjectName::from(vec![Ident::new("first_value")]);
    let FunctionArguments::List(list) = &mut first.args else { return None };
    list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(of))];
    list.clauses = vec![FunctionArgumentClause::OrderBy(vec![OrderByExpr { expr: by, options, with_fill: None }])];
    Some(first)
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::parameters::query_of;
    use crate::script::parse;

    #[test]
    fn they_are_the_first_value_by_the_other_argument() {
        let written = |sql: &str| match parse(sql).unwrap().remove(0).kind {
            Kind::Refused(error) => error.message().to_owned(),
            mut kind => query_of(&mut kind).unwrap().to_string(),
        };
        assert_eq!(
            written("SELECT max_by(a, b) AS c FROM t"),
            "SELECT first_value(a ORDER BY b DESC) FILTER (WHERE (a) IS NOT NULL AND (b) IS NOT NULL) AS c FROM t"
        );
        assert_eq!(
            written("SELECT arg_min(a, b) FILTER (WHERE d) AS c FROM t"),
            "SELECT first_value(a ORDER BY b ASC) FILTER (WHERE (d) AND (a) IS NOT NULL AND (b) IS NOT NULL) AS c FROM t"
        );
        assert_eq!(written("SELECT arg_max(a, b) OVER () FROM t"), "arg_max or arg_min over a window is not supported");
    }
}
