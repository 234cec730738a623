//! Lists in the forms that PostgreSQL's clients write them: `= ANY (list)`, `'{1,2}'::int[]`.
//!
//! Invariants:
//! - `x = ANY (list)` and `x <> ALL (list)` of a written list are `x IN (...)` and `x NOT IN (...)`, which mean the same, NULLs
//!   included, and which everything else knows (the index, pruning, the predicate cache). Of an empty list too.
//! - A list's text becomes its elements before anything is planned; one that is no list is an error here.
//! - The column of a subquery behind ANY or ALL has a name of its own. DataFusion tells it from what it is compared with by names
//!   alone: in `SELECT a FROM t WHERE a >= ALL (SELECT a FROM t)` both were `t.a`.
//! - A column keeps the name that its text gives it.
//!
//! Mends apache/datafusion#25258 (in 55.2).
//! Held by `slt/select.slt` (`a >= ALL (SELECT a FROM ranked)`).

use crate::grammar::Grammar;
use crate::statements::written_types::length_of;
use crate::tokens::depth::DEPTH_MAX;
use crate::trees::rewriting::{call, rewrite};
use crate::trees::varchar_casts::first_chars;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::list_text::array_elements;
use sqlparser::ast::{
    self, ArrayElemTypeDef, BinaryOperator, CastKind, Expr, Ident, Query, SelectItem, SetExpr, TableFactor,
    UnaryOperator, Value,
};
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// What a subquery behind ANY or ALL, or its column, is called: no name that people give.
const QUANTIFIED: &str = "quantified subquery";

/// Whether a statement of these tokens may have any of it.
pub(crate) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    tokens.iter().any(|token| match &token.token {
        Token::Word(word) => matches!(word.keyword, Keyword::ANY | Keyword::SOME | Keyword::ALL),
        Token::LBracket => true,
        _ => false,
    })
}

/// Brings all of a query's lists to the forms that are planned.
pub fn write_out(query: &mut Query) -> Result<()> {
    rewrite(query, is_list, &mut expand)
}

/// Makes calls of lists that are computed: DataFusion (55.2) plans `ARRAY[a, b]` without what is around a subquery, and calls as any others.
/// Comes after all that knows written lists.
pub(crate) fn call_computed(query: &mut Query) -> Result<()> {
    rewrite(query, is_computed, &mut |expr| {
        if let Expr::Array(array) = expr
            && !array.elem.iter().all(is_written)
        {
            *expr = call("make_array", std::mem::take(&mut array.elem));
        }
        Ok(())
    })
}

fn is_computed(expr: &Expr) -> bool {
    matches!(expr, Expr::Array(array) if !array.elem.iter().all(is_written))
}

fn is_written(element: &Expr) -> bool {
    match element {
        Expr::Value(_) => true,
        Expr::UnaryOp { expr, .. } => is_written(expr),
        Expr::Array(array) => array.elem.iter().all(is_written),
        _ => false,
    }
}

/// Whether [`expand`] may change it.
fn is_list(expr: &Expr) -> bool {
    matches!(expr, Expr::AnyOp { .. } | Expr::AllOp { .. } | Expr::Cast { data_type: ast::DataType::Array(_), .. })
}

/// Brings an expression, whose parts have been brought so, to the form that is planned.
pub fn expand(expr: &mut Expr) -> Result<()> {
    match expr {
        Expr::Cast { expr: inner, data_type: ast::DataType::Array(_), .. } => {
            if let Some(elements) = text_elements(inner)? {
                **inner = Expr::Array(ast::Array { elem: elements, named: true });
            }
        }
        Expr::AnyOp { left, compare_op, right, .. } => {
            if let Some(replaced) = quantified(left, compare_op, right, true)? {
                *expr = replaced;
            }
        }
        Expr::AllOp { left, compare_op, right } => {
            if let Some(replaced) = quantified(left, compare_op, right, false)? {
                *expr = replaced;
            }
        }
        _ => {}
    }
    Ok(())
}

/// What `left op ANY (right)`, or `ALL`, means, if `right` is a written list; else it stays, and a subquery gets a name of its own.
fn quantified(left: &mut Expr, op: &BinaryOperator, right: &mut Expr, any: bool) -> Result<Option<Expr>> {
    if let Expr::Subquery(query) = right {
        named_apart(query)?;
        return Ok(None);
    }
    if let Some(elements) = text_elements(right)? {
        *right = Expr::Array(ast::Array { elem: elements, named: true });
    }
    if is_null(right) {
        return Ok(Some(cast(null(), ast::DataType::Boolean)));
    }
    let negated = match op {
        BinaryOperator::Eq if any => false,
        BinaryOperator::NotEq if !any => true,
        _ => return Ok(None),
    };
    Ok(take_elements(right)?.map(|list| Expr::InList {
        expr: Box::new(std::mem::replace(left, null())),
        list,
        negated,
    }))
}

/// Gives the one column of a query a name of its own: by an alias where that changes nothing else, or else as
/// `SELECT * FROM (query) AS "quantified subquery"`.
fn named_apart(query: &mut Query) -> Result<()> {
    // What is distinct is sorted by its own columns only. The table of its own is for the rest: a subquery in it cannot use columns
    // from around it.
    let is_sorted = query.order_by.is_some();
    if let SetExpr::Select(select) = query.body.as_mut()
        && let [item] = select.projection.as_mut_slice()
    {
        match item {
            // A name that was given has no table.
            SelectItem::ExprWithAlias { .. } => return Ok(()),
            SelectItem::UnnamedExpr(expr) if !is_sorted || select.distinct.is_none() => {
                let (expr, alias) = (std::mem::replace(expr, null()), Ident::with_quote('"', QUANTIFIED));
                *item = SelectItem::ExprWithAlias { expr, alias };
                return Ok(());
            }
            _ => {}
        }
    }
    if derived_of(query).is_some() {
        return Ok(());
    }
    let grammar = Grammar::for_tokens(0);
    let mut outer = Parser::new(&grammar)
        .with_recursion_limit(DEPTH_MAX)
        .try_with_sql(&format!("SELECT * FROM (SELECT 1) AS \"{QUANTIFIED}\""))
        .and_then(|mut parser| parser.parse_query())
        .map_err(|error| Error::internal(format!("a query that is always the same: {error}")))?;
    let Some(place) = derived_of(&mut outer) else {
        return Err(Error::internal("a derived table is not one"));
    };
    std::mem::swap(place, query);
    *query = *outer;
    Ok(())
}

/// The derived table of our name that a query reads alone.
fn derived_of(query: &mut Query) -> Option<&mut Query> {
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    let [table] = select.from.as_mut_slice() else { return None };
    match &mut table.relation {
        TableFactor::Derived { subquery, alias: Some(alias), .. } if alias.name.value == QUANTIFIED => {
            Some(subquery.as_mut())
        }
        _ => None,
    }
}

/// The elements of a text that stands for a list.
fn text_elements(expr: &Expr) -> Result<Option<Vec<Expr>>> {
    let Expr::Value(value) = expr else { return Ok(None) };
    let Value::SingleQuotedString(text) = &value.value else { return Ok(None) };
    let elements = array_elements(text).ok_or_else(|| {
        let short: String = text.chars().take(60).collect();
        Error::new(ErrorKind::InvalidText, format!("'{short}' is not a valid array"))
            .with_hint("write it as '{1,2,NULL}', with double quotes around what has commas, braces or spaces")
    })?;
    let element =
        |element: Option<String>| element.map_or_else(null, |text| Expr::Value(Value::SingleQuotedString(text).into()));
    Ok(Some(elements.into_iter().map(element).collect()))
}

/// The elements of a written list, for which a text may stand.
pub(crate) fn elements_of(list: &mut Expr) -> Result<Option<Vec<Expr>>> {
    match text_elements(list)? {
        Some(elements) => Ok(Some(elements)),
        None => take_elements(list),
    }
}

/// Whether an expression is the literal NULL, also in parentheses or cast to a type.
pub fn is_null(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => matches!(value.value, Value::Null),
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => is_null(inner),
        _ => false,
    }
}

/// The elements of a list, each of the type that the whole is cast to.
fn take_elements(expr: &mut Expr) -> Result<Option<Vec<Expr>>> {
    match expr {
        Expr::Array(array) => Ok(Some(std::mem::take(&mut array.elem))),
        Expr::Nested(inner) => take_elements(inner),
        Expr::Cast { expr: inner, data_type: ast::DataType::Array(of), .. } => {
            let element = match of {
                ArrayElemTypeDef::SquareBracket(element, _) | ArrayElemTypeDef::AngleBracket(element) => element,
                _ => return Ok(None),
            };
            let Some(elements) = take_elements(inner)? else { return Ok(None) };
            elements.into_iter().map(|value| of_type(value, element)).collect::<Result<Vec<Expr>>>().map(Some)
        }
        _ => Ok(None),
    }
}

/// A value as one of a type: a literal that is one already stays, so that it is still seen to be a literal.
fn of_type(value: Expr, data_type: &ast::DataType) -> Result<Expr> {
    use ast::DataType as Sql;
    // A list may have been a parameter's, and what casts to lengths is written out before those have values.
    if let Some(chars_max) = length_of(data_type)? {
        return Ok(first_chars(cast(value, Sql::Text), chars_max));
    }
    let is_one = match data_type {
        Sql::SmallInt(None) | Sql::Int2(None) => integer(&value).is_some_and(|value| i16::try_from(value).is_ok()),
        Sql::Int(None) | Sql::Integer(None) | Sql::Int4(None) => {
            integer(&value).is_some_and(|value| i32::try_from(value).is_ok())
        }
        Sql::BigInt(None) | Sql::Int8(None) => integer(&value).is_some(),
        Sql::Text | Sql::Varchar(None) | Sql::CharacterVarying(None) => {
            matches!(&value, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)))
        }
        _ => false,
    };
    Ok(if is_one { value } else { cast(value, data_type.clone()) })
}

fn integer(expr: &Expr) -> Option<i64> {
    let digits = |expr: &Expr| match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => Some(digits.clone()),
            _ => None,
        },
        _ => None,
    };
    match expr {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => format!("-{}", digits(expr)?).parse().ok(),
        expr => digits(expr)?.parse().ok(),
    }
}

/// The literal NULL.
pub fn null() -> Expr {
    Expr::Value(Value::Null.into())
}

fn cast(expr: Expr, data_type: ast::DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::parameters::query_of;
    use crate::script::parse;

    fn written(sql: &str) -> String {
        match parse(sql).unwrap().remove(0).kind {
            Kind::Refused(error) => error.message().to_owned(),
            mut kind => query_of(&mut kind).unwrap().to_string(),
        }
    }

    #[test]
    fn written_lists_are_in_lists() {
        for (list, expected) in [
            ("a = ANY(ARRAY[1, NULL])", "a IN (1, NULL)"),
            ("a = ANY ('{r,p,\"f x\",NULL}')", "a IN ('r', 'p', 'f x', NULL)"),
            ("a = SOME('{1,-2}'::bigint[])", "a IN (CAST('1' AS BIGINT), CAST('-2' AS BIGINT))"),
            ("a = ANY((ARRAY[1, -2, 3000000000])::int[])", "a IN (1, -2, CAST(3000000000 AS INT))"),
            ("a <> ALL (ARRAY['x'::text])", "a NOT IN ('x'::TEXT)"),
            (
                "a = ANY('{abcd,NULL}'::varchar(3)[])",
                "a IN (left(CAST('abcd' AS TEXT), 3), left(CAST(NULL AS TEXT), 3))",
            ),
            ("a = ANY('{}')", "a IN ()"),
            ("a = ANY(NULL)", "CAST(NULL AS BOOLEAN)"),
            ("a <> ALL (NULL::int[])", "CAST(NULL AS BOOLEAN)"),
            ("a = ANY(b)", "any_or_all('= any', a, b)"),
            ("a < ANY(ARRAY[1])", "any_or_all('< any', a, ARRAY[1])"),
            ("a < ANY (SELECT a FROM t)", "a < ANY(SELECT a AS \"quantified subquery\" FROM t)"),
            ("a <> ALL (SELECT a AS b FROM t)", "a <> ALL(SELECT a AS b FROM t)"),
            ("a < ANY (VALUES (1))", "a < ANY(SELECT * FROM (VALUES (1)) AS \"quantified subquery\")"),
            (
                "a <> ALL ((SELECT 1) UNION (SELECT 2))",
                "a <> ALL(SELECT * FROM ((SELECT 1) UNION (SELECT 2)) AS \"quantified subquery\")",
            ),
            ("a = ANY ((SELECT b)::int[])", "any_or_all('= any', a, (SELECT b)::INT[])"),
            ("a < ANY (SELECT * FROM t)", "a < ANY(SELECT * FROM (SELECT * FROM t) AS \"quantified subquery\")"),
            ("a > ALL (SELECT DISTINCT a FROM t)", "a > ALL(SELECT DISTINCT a AS \"quantified subquery\" FROM t)"),
            (
                "a > ALL (SELECT DISTINCT a FROM t ORDER BY a)",
                "a > ALL(SELECT * FROM (SELECT DISTINCT a FROM t ORDER BY a) AS \"quantified subquery\")",
            ),
        ] {
            assert_eq!(written(&format!("SELECT 1 FROM t WHERE {list}")), format!("SELECT 1 FROM t WHERE {expected}"));
        }
        assert!(written("SELECT 1 FROM t WHERE a = ANY('x')").contains("'x' is not a valid array"));
        assert!(written("SELECT '{1,2'::int[]").contains("is not a valid array"));
        assert!(written("SELECT a = ANY('{x}'::varchar(0)[])").contains("VARCHAR(0) has no possible length"));
    }

    #[test]
    fn subqueries_are_named_once() {
        let sql = "SELECT 1 FROM t WHERE a > ALL (SELECT b FROM u WHERE b = ANY (SELECT * FROM v))";
        let mut kind = parse(sql).unwrap().remove(0).kind;
        let once = query_of(&mut kind).unwrap().to_string();
        assert_eq!(once.matches(QUANTIFIED).count(), 2, "{once}");
        write_out(query_of(&mut kind).unwrap()).unwrap();
        assert_eq!(query_of(&mut kind).unwrap().to_string(), once);
    }

    #[test]
    fn columns_keep_their_names() {
        assert_eq!(
            written("SELECT a = ANY(ARRAY[1]), '{1}'::int[]"),
            "SELECT a IN (1) AS \"a = ANY(ARRAY[1])\", ARRAY['1']::INT[] AS \"'{1}'::INT[]\""
        );
    }

    #[test]
    fn texts_of_lists_are_read_as_postgresql_reads_them() {
        let elements = |text: &str| {
            array_elements(text).map(|all| all.into_iter().map(|one| one.unwrap_or("-".into())).collect::<Vec<_>>())
        };
        assert_eq!(
            elements(" { a , \"b \\\" c\" ,null,\"null\", x y } ").unwrap(),
            ["a", "b \" c", "-", "null", "x y"]
        );
        assert_eq!(elements("{}").unwrap(), Vec::<String>::new());
        for wrong in ["", "a", "{", "{a", "a}", "{a,}", "{,a}", "{{a}}", "{\"a}", "{a\"b\"}", "{\"a\"b}"] {
            assert_eq!(elements(wrong), None, "{wrong}");
        }
    }
}
