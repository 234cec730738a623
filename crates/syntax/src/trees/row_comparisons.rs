//! Rows in comparisons: `(a, b) IN (SELECT x, y ...)`, `(a, b) IN ((1, 2), (3, 4))`, `(a, b) = (x, y)`.
//!
//! Invariants:
//! - Rows are equal if all their parts are, not equal if two of them are not, and else it is unknown: so a comparison of written rows
//!   becomes one of each of their parts.
//! - A subquery that rows are compared with has rows in its one column (`alluvia_plan::after_types::subqueries` compares their parts). Its columns become
//!   parts of a row where they stand, if nothing else names them there: they may read columns from around it.
//! - What comparisons of rows grow to is bounded, however they are nested.
//! - A column keeps the name that its text gives it.

use crate::trees::rewriting::{call, rewrite};
use alluvia_types::{Error, ErrorKind, Result};
use sqlparser::ast::{
    BinaryOperator, Expr, GroupByExpr, Ident, Query, Select, SelectItem, SetExpr, TableAlias, TableAliasColumnDef,
    TableFactor, TableWithJoins, UnaryOperator, Value,
};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Bytes of text of left sides that the lists of one statement may repeat.
const COPIES_BYTES_MAX: usize = 4 << 20;

/// What the rows of a subquery are called, and their parts: no name that people give.
const ROWS: &str = "rows of a subquery";

/// Whether a statement of these tokens may compare rows: a bracket ends before a comparison.
pub(crate) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    let mut is_after_bracket = false;
    for token in tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))) {
        let is_comparison = match &token.token {
            Token::Eq | Token::Neq => true,
            Token::Word(word) => matches!(word.keyword, Keyword::IN | Keyword::NOT),
            _ => false,
        };
        if is_after_bracket && is_comparison {
            return true;
        }
        is_after_bracket = token.token == Token::RParen;
    }
    false
}

/// Brings all comparisons of rows in a query to the forms that are planned.
pub fn write_out(query: &mut Query) -> Result<()> {
    let mut copies_left = COPIES_BYTES_MAX;
    rewrite(query, compares_rows, &mut |expr| compared(expr, &mut copies_left))
}

/// Whether [`compared`] may change it.
fn compares_rows(expr: &Expr) -> bool {
    match expr {
        Expr::InSubquery { expr, .. } | Expr::InList { expr, .. } => is_row(expr),
        Expr::AnyOp { left, .. } | Expr::AllOp { left, .. } | Expr::BinaryOp { left, .. } => is_row(left),
        _ => false,
    }
}

fn is_row(expr: &Expr) -> bool {
    matches!(expr, Expr::Tuple(_))
}

/// Brings a comparison of rows to the form that is planned.
fn compared(expr: &mut Expr, copies_left: &mut usize) -> Result<()> {
    match expr {
        Expr::InSubquery { expr: row, subquery, .. } => {
            if let Expr::Tuple(parts) = row.as_mut() {
                listed(subquery, parts.len())?;
                **row = row_of(std::mem::take(parts));
            }
        }
        Expr::AnyOp { left, right, .. } | Expr::AllOp { left, right, .. } => {
            if let (Expr::Tuple(parts), Expr::Subquery(subquery)) = (left.as_mut(), right.as_mut()) {
                listed(subquery, parts.len())?;
                **left = row_of(std::mem::take(parts));
            }
        }
        Expr::InList { expr: row, list, negated } => {
            let Expr::Tuple(parts) = row.as_ref() else { return Ok(()) };
            // Each row of the list is compared with a copy; and lists stand in rows that others are compared with.
            let copies = row.to_string().len().saturating_mul(list.len());
            *copies_left = copies_left.checked_sub(copies).ok_or_else(|| {
                Error::new(ErrorKind::TooLarge, "a row is compared with too many others")
                    .with_hint("join with VALUES, or name the row's parts in a derived table")
            })?;
            let equal = list.iter().map(|item| match item {
                Expr::Tuple(others) => equal(parts, others).map(Some),
                _ => Ok(None),
            });
            let Some(equal) = equal.collect::<Result<Option<Vec<Expr>>>>()? else { return Ok(()) };
            let Some(any) = any_of(equal) else { return Ok(()) };
            let any = Expr::Nested(Box::new(any));
            *expr = if *negated { not(any) } else { any };
        }
        Expr::BinaryOp { left, op: op @ (BinaryOperator::Eq | BinaryOperator::NotEq), right } => {
            let (Expr::Tuple(left), Expr::Tuple(right)) = (left.as_ref(), right.as_ref()) else { return Ok(()) };
            let equal = equal(left, right)?;
            *expr = if *op == BinaryOperator::Eq { equal } else { not(equal) };
        }
        _ => {}
    }
    Ok(())
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// Whether one of many is true, as a tree that is not deep.
fn any_of(mut all: Vec<Expr>) -> Option<Expr> {
    if all.len() < 2 {
        return all.pop();
    }
    let right = all.split_off(all.len() / 2);
    Some(binary(any_of(all)?, BinaryOperator::Or, any_of(right)?))
}

fn not(expr: Expr) -> Expr {
    Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(expr) }
}

/// A row of parts that are any expressions: planning takes only names and literals in brackets.
fn row_of(parts: Vec<Expr>) -> Expr {
    call("struct", parts)
}

/// Whether two rows are equal, in brackets.
fn equal(left: &[Expr], right: &[Expr]) -> Result<Expr> {
    if left.len() != right.len() {
        return Err(uneven(left.len(), right.len()));
    }
    let parts = left.iter().zip(right).map(|(left, right)| {
        let operand = |expr: &Expr| Box::new(Expr::Nested(Box::new(expr.clone())));
        Expr::BinaryOp { left: operand(left), op: BinaryOperator::Eq, right: operand(right) }
    });
    let all = parts.reduce(|left, right| binary(left, BinaryOperator::And, right));
    Ok(Expr::Nested(Box::new(all.unwrap_or(Expr::Value(Value::Boolean(true).into())))))
}

fn uneven(left: usize, right: usize) -> Error {
    Error::new(ErrorKind::Syntax, format!("a row of {left} parts is compared with one of {right}"))
}

/// Makes the columns of a subquery parts of rows.
fn listed(query: &mut Query, parts: usize) -> Result<()> {
    if let Some(select) = of_its_own_columns(query) {
        let items = std::mem::take(&mut select.projection);
        if items.len() != parts {
            return Err(uneven(parts, items.len()));
        }
        let columns = items.into_iter().filter_map(|item| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
            _ => None,
        });
        select.projection = vec![SelectItem::UnnamedExpr(row_of(columns.collect()))];
        return Ok(());
    }
    let mut outer = Parser::new(&PostgreSqlDialect {})
        .try_with_sql(&format!("SELECT 1 FROM (SELECT 1) AS \"{ROWS}\""))
        .and_then(|mut parser| parser.parse_query())
        .map_err(|error| Error::internal(format!("a query that is always the same: {error}")))?;
    let names: Vec<Ident> = (1..=parts).map(|part| Ident::with_quote('"', format!("part {part} of a row"))).collect();
    if let SetExpr::Select(select) = outer.body.as_mut()
        && let [TableWithJoins { relation: TableFactor::Derived { subquery, alias: Some(alias), .. }, .. }] =
            select.from.as_mut_slice()
    {
        let row = row_of(names.iter().cloned().map(Expr::Identifier).collect());
        select.projection = vec![SelectItem::UnnamedExpr(row)];
        let columns = names.into_iter().map(|name| TableAliasColumnDef { name, data_type: None }).collect();
        *alias = TableAlias { columns, ..alias.clone() };
        std::mem::swap(subquery.as_mut(), query);
        *query = *outer;
        return Ok(());
    }
    Err(Error::internal("a derived table is not one"))
}

/// The SELECT that a query is, if each of its columns is an expression that nothing in it calls by its name or place.
fn of_its_own_columns(query: &mut Query) -> Option<&mut Select> {
    let is_sorted = query.order_by.is_some();
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    let is_grouped = match &select.group_by {
        GroupByExpr::Expressions(groups, _) => !groups.is_empty(),
        GroupByExpr::All(_) => true,
    };
    let is_own = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(_) => true,
        SelectItem::ExprWithAlias { .. } => !is_grouped && select.having.is_none(),
        _ => false,
    };
    let has_numbers = matches!(&select.group_by, GroupByExpr::Expressions(groups, _)
        if groups.iter().any(|group| matches!(group, Expr::Value(_))));
    let is_all = matches!(&select.group_by, GroupByExpr::All(_));
    (!is_sorted && !has_numbers && !is_all && select.distinct.is_none() && select.projection.iter().all(is_own))
        .then_some(select)
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::parameters::query_of;
    use crate::script::parse;

    fn written(condition: &str) -> String {
        let sql = format!("SELECT 1 FROM t WHERE {condition}");
        let text = match parse(&sql).unwrap().remove(0).kind {
            Kind::Refused(error) => return error.message().to_owned(),
            mut kind => query_of(&mut kind).unwrap().to_string(),
        };
        text.strip_prefix("SELECT 1 FROM t WHERE ").unwrap().to_owned()
    }

    #[test]
    fn written_rows_are_compared_part_by_part() {
        assert_eq!(written("(a, b) = (1, c)"), "((a) = (1) AND (b) = (c))");
        assert_eq!(written("(a, b) <> (1, 2)"), "NOT ((a) = (1) AND (b) = (2))");
        assert_eq!(written("(a, b) NOT IN ((1, 2))"), "NOT (((a) = (1) AND (b) = (2)))");
        assert_eq!(written("(a, b) IN ((1, 2), (3, 4))"), "(((a) = (1) AND (b) = (2)) OR ((a) = (3) AND (b) = (4)))");
        assert_eq!(written("(a, b) = (1, 2, 3)"), "a row of 2 parts is compared with one of 3");
        assert_eq!(written("(a) = (1)"), "(a) = (1)");
    }

    #[test]
    fn lists_in_rows_do_not_grow_without_bounds() {
        let mut nested = "1 = 1".to_owned();
        for _ in 0..9 {
            nested = format!("({nested}, 1) IN ({})", ["(true, 1)"; 12].join(", "));
        }
        assert_eq!(written(&nested), "a row is compared with too many others");
        let list = (0..2_000).map(|at| format!("({at}, {at})")).collect::<Vec<_>>().join(", ");
        assert!(written(&format!("(a, b) IN ({list})")).starts_with("(((a) = (0) AND (b) = (0)) OR "));
    }

    #[test]
    fn subqueries_have_rows_where_rows_are_compared_with_them() {
        assert_eq!(written("(a, b) IN (SELECT x, y AS z FROM u)"), "struct(a, b) IN (SELECT struct(x, y) FROM u)");
        assert_eq!(
            written("(a, b) NOT IN (SELECT x, sum(y) FROM u WHERE u.k = t.k GROUP BY x)"),
            "struct(a, b) NOT IN (SELECT struct(x, sum(y)) FROM u WHERE u.k = t.k GROUP BY x)"
        );
        let derived = |query: &str| {
            let parts = "\"part 1 of a row\", \"part 2 of a row\"";
            format!("SELECT struct({parts}) FROM ({query}) AS \"rows of a subquery\" ({parts})")
        };
        for query in
            ["SELECT * FROM u", "SELECT x, y FROM u ORDER BY x LIMIT 1", "VALUES (1, 2)", "SELECT DISTINCT x, y FROM u"]
        {
            assert_eq!(written(&format!("(a, b) IN ({query})")), format!("struct(a, b) IN ({})", derived(query)));
        }
        assert_eq!(written("(a, b) IN (SELECT x FROM u)"), "a row of 2 parts is compared with one of 1");
    }

    #[test]
    fn columns_keep_their_names() {
        let mut kind = parse("SELECT (a, b) IN (SELECT x, y FROM u) FROM t").unwrap().remove(0).kind;
        let text = query_of(&mut kind).unwrap().to_string();
        assert_eq!(
            text,
            "SELECT struct(a, b) IN (SELECT struct(x, y) FROM u) AS \"(a, b) IN (SELECT x, y FROM u)\" FROM t"
        );
    }
}
