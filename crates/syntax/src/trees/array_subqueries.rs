//! `ARRAY(SELECT x FROM t ORDER BY y)`: the rows of a query as a list.
//!
//! Invariants, as in PostgreSQL:
//! - It has the rows in the query's order, NULLs among them; of no rows it is a list of none, and not NULL.
//! - It is `array_agg` in a subquery: in the query itself where that has nothing but rows, so that columns from around it mean what they
//!   mean; else in one around it, to which the query gives what it is ordered by.
//! - Only queries of one column that are no set operation are taken; others are refused by name.
//! - A statement that names something of `pg_` is left to the room of the catalog, which brings one after the other to aggregates.

use crate::grammar::Grammar;
use crate::names::name_of;
use crate::tokens::catalog_names::names_catalog;
use crate::tokens::depth::DEPTH_MAX;
use crate::trees::rewriting::{call, contains, rewrite};
use alluvia_types::{Error, Result};
use alluvia_values::errors::not_supported;
use sqlparser::ast::{
    Distinct, Expr, Function, FunctionArgumentClause, FunctionArguments, GroupByExpr, Ident, OrderBy, OrderByExpr,
    OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor, Value,
};
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// What the columns of a query are called that is read by one around it: no names that people give.
const VALUE: &str = "array of rows";

/// Whether a statement of these tokens may have one. Those that ask the catalog have their own way with it (`pg_catalog::rewrite`), which knows
/// what the catalog has none of.
pub(crate) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    if names_catalog(tokens) {
        return false;
    }
    let mut words =
        tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).map(|token| &token.token).peekable();
    while let Some(token) = words.next() {
        if matches!(token, Token::Word(word) if word.keyword == Keyword::ARRAY)
            && matches!(words.peek(), Some(Token::LParen))
        {
            return true;
        }
    }
    false
}

/// Brings all of a query's to aggregates.
pub fn write_out(query: &mut Query) -> Result<()> {
    rewrite(query, |expr| rows_of(expr).is_some(), &mut expand)
}

/// Brings an expression to an aggregate, if it is one.
pub fn expand(expr: &mut Expr) -> Result<()> {
    if let Some(rows) = rows_of(expr) {
        let listed = Expr::Subquery(Box::new(gathered(rows.clone())?));
        *expr = call("coalesce", vec![listed, call("make_array", Vec::new())]);
    }
    Ok(())
}

/// Whether a subquery gives one list, as those do that [`expand`] writes.
pub fn is_gathered(query: &Query) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    let [
        SelectItem::UnnamedExpr(Expr::Function(function))
        | SelectItem::ExprWithAlias { expr: Expr::Function(function), .. },
    ] = select.projection.as_slice()
    else {
        return false;
    };
    matches!(function.name.0.as_slice(), [part] if part.as_ident().is_some_and(|name| name_of(name) == "array_agg"))
}

/// The query behind ARRAY, which the parser takes for a function.
fn rows_of(expr: &Expr) -> Option<&Query> {
    let Expr::Function(Function { name, args: FunctionArguments::Subquery(query), .. }) = expr else { return None };
    match name.0.as_slice() {
        [part] if part.as_ident().is_some_and(|name| name_of(name) == "array") => Some(query),
        _ => None,
    }
}

/// The one row of an aggregate of a query's rows.
fn gathered(mut query: Query) -> Result<Query> {
    let SetExpr::Select(select) = query.body.as_mut() else {
        return Err(
            not_supported("ARRAY(...) of anything but one SELECT").with_hint("write ARRAY(SELECT x FROM (...) AS s)")
        );
    };
    let (expr, alias) = match select.projection.as_slice() {
        [SelectItem::UnnamedExpr(expr)] => (expr.clone(), None),
        [SelectItem::ExprWithAlias { expr, alias }] => (expr.clone(), Some(alias.clone())),
        _ => return Err(not_supported("ARRAY(...) of anything but one column that is named")),
    };
    let mut keys = match query.order_by.take() {
        None => Vec::new(),
        Some(OrderBy { kind: OrderByKind::Expressions(keys), interpolate: None }) => keys,
        Some(_) => return Err(not_supported("this ORDER BY within ARRAY(SELECT ...)")),
    };
    // Keys that say the column are that column.
    for key in &mut keys {
        let says_it = match &key.expr {
            Expr::Value(value) => matches!(&value.value, Value::Number(number, _) if number == "1"),
            Expr::Identifier(name) => alias.as_ref().is_some_and(|alias| name_of(alias) == name_of(name)),
            _ => false,
        };
        if says_it {
            key.expr = expr.clone();
        }
    }
    // Any call may be an aggregate, a window's, or give rows.
    let is_call = |expr: &Expr| matches!(expr, Expr::Function(_));
    let calls = contains(&expr, is_call) || keys.iter().any(|key| contains(&key.expr, is_call));
    if !calls && is_rows_alone(select) && query.limit_clause.is_none() && query.fetch.is_none() {
        select.projection = vec![SelectItem::UnnamedExpr(aggregate(expr, keys))];
        return Ok(query);
    }
    gathered_outside(query, expr, alias, keys)
}

/// Whether a SELECT has a row for each that it reads, if its columns make no others.
fn is_rows_alone(select: &Select) -> bool {
    let has_groups = match &select.group_by {
        GroupByExpr::Expressions(groups, modifiers) => !groups.is_empty() || !modifiers.is_empty(),
        GroupByExpr::All(_) => true,
    };
    select.distinct.is_none() && !has_groups && select.having.is_none() && select.qualify.is_none()
}

/// `SELECT array_agg(x ORDER BY keys) FROM (query with its keys)`.
fn gathered_outside(mut query: Query, expr: Expr, alias: Option<Ident>, mut keys: Vec<OrderByExpr>) -> Result<Query> {
    let SetExpr::Select(select) = query.body.as_mut() else {
        return Err(Error::internal("a SELECT is none"));
    };
    let is_distinct = matches!(select.distinct, Some(Distinct::Distinct));
    // Which rows there are, and not only where.
    let chooses_rows =
        matches!(select.distinct, Some(Distinct::On(_))) || query.limit_clause.is_some() || query.fetch.is_some();
    // It may be grouped by its alias.
    let own = alias.unwrap_or_else(|| Ident::with_quote('"', VALUE));
    let named = |at: usize| match at {
        0 => own.clone(),
        at => Ident::with_quote('"', format!("{VALUE} {at}")),
    };
    let mut items = vec![SelectItem::ExprWithAlias { expr: expr.clone(), alias: named(0) }];
    for key in &mut keys {
        let at = if key.expr == expr { 0 } else { items.len() };
        if at > 0 {
            if is_distinct {
                return Err(not_supported("ARRAY(SELECT DISTINCT x ... ORDER BY y)").with_hint("order by x"));
            }
            items.push(SelectItem::ExprWithAlias { expr: key.expr.clone(), alias: named(at) });
        }
        key.expr = Expr::Identifier(named(at));
    }
    select.projection = items;
    if !keys.is_empty() && chooses_rows {
        // By the names that the keys have now: what they were may be said by an alias of a column that means another.
        query.order_by = Some(OrderBy { kind: OrderByKind::Expressions(keys.clone()), interpolate: None });
    }
    let grammar = Grammar::for_tokens(0);
    let mut outer = Parser::new(&grammar)
        .with_recursion_limit(DEPTH_MAX)
        .try_with_sql(&format!("SELECT 1 FROM (SELECT 1) AS \"{VALUE}\""))
        .and_then(|mut parser| parser.parse_query())
        .map_err(|error| Error::internal(format!("a query that is always the same: {error}")))?;
    let SetExpr::Select(select) = outer.body.as_mut() else {
        return Err(Error::internal("a SELECT is none"));
    };
    select.projection = vec![SelectItem::UnnamedExpr(aggregate(Expr::Identifier(named(0)), keys))];
    let [table] = select.from.as_mut_slice() else { return Err(Error::internal("a SELECT reads no table")) };
    let TableFactor::Derived { subquery, .. } = &mut table.relation else {
        return Err(Error::internal("a derived table is not one"));
    };
    **subquery = query;
    Ok(*outer)
}

fn aggregate(of: Expr, keys: Vec<OrderByExpr>) -> Expr {
    let mut aggregate = call("array_agg", vec![of]);
    if let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = &mut aggregate
        && !keys.is_empty()
    {
        list.clauses.push(FunctionArgumentClause::OrderBy(keys));
    }
    aggregate
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::parameters::query_of;
    use crate::script::parse;

    fn written(array: &str) -> String {
        match parse(&format!("SELECT 1 FROM t WHERE b = {array}")).unwrap().remove(0).kind {
            Kind::Refused(error) => error.message().to_owned(),
            mut kind => query_of(&mut kind).unwrap().to_string().replace("SELECT 1 FROM t WHERE b = ", ""),
        }
    }

    #[test]
    fn rows_are_gathered_in_their_order() {
        for (array, expected) in [
            ("ARRAY(SELECT a FROM u)", "coalesce((SELECT array_agg(a) FROM u), make_array())"),
            (
                "ARRAY(SELECT a AS x FROM u WHERE u.c = t.c ORDER BY x DESC, u.d)",
                "coalesce((SELECT array_agg(a ORDER BY a DESC, u.d) FROM u WHERE u.c = t.c), make_array())",
            ),
            (
                "ARRAY(SELECT DISTINCT a FROM u ORDER BY 1)",
                "coalesce((SELECT array_agg(\"array of rows\" ORDER BY \"array of rows\") FROM (SELECT DISTINCT a AS \"array of rows\" FROM u) AS \"array of rows\"), make_array())",
            ),
            (
                "ARRAY(SELECT a FROM u ORDER BY d LIMIT 2)",
                "coalesce((SELECT array_agg(\"array of rows\" ORDER BY \"array of rows 1\") FROM (SELECT a AS \"array of rows\", d AS \"array of rows 1\" FROM u ORDER BY \"array of rows 1\" LIMIT 2) AS \"array of rows\"), make_array())",
            ),
            (
                "ARRAY(SELECT -a AS a FROM u ORDER BY a LIMIT 2)",
                "coalesce((SELECT array_agg(a ORDER BY a) FROM (SELECT -a AS a FROM u ORDER BY a LIMIT 2) AS \"array of rows\"), make_array())",
            ),
            (
                "ARRAY(SELECT DISTINCT ON (c) a FROM u ORDER BY c, a DESC)",
                "coalesce((SELECT array_agg(\"array of rows\" ORDER BY \"array of rows 1\", \"array of rows\" DESC) FROM (SELECT DISTINCT ON (c) a AS \"array of rows\", c AS \"array of rows 1\" FROM u ORDER BY \"array of rows 1\", \"array of rows\" DESC) AS \"array of rows\"), make_array())",
            ),
            ("ARRAY(VALUES (1))", "ARRAY(...) of anything but one SELECT is not supported"),
            ("ARRAY(SELECT a, c FROM u)", "ARRAY(...) of anything but one column that is named is not supported"),
        ] {
            assert_eq!(written(array), expected);
        }
    }
}
