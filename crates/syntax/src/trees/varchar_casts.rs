//! Casts to `VARCHAR(n)`.
//!
//! Invariants:
//! - A cast that is written cuts a text to its first n characters without a word, as in PostgreSQL. (A value that is assigned to such a
//!   column must fit: that is `copy`'s.) DataFusion 55.2 forgets the n.
//! - So `CAST(x AS VARCHAR(n))` is `left(CAST(x AS TEXT), n)`, and `x::char`, which catalog queries have, the same of one character.
//! - The column of a cast is called what the column of a cast to TEXT is: after the column that is cast, or else after its text.
//! - So is any other cast of a column that its query is sorted by, by name: `SELECT sold_at::date ... ORDER BY sold_at` sorts by dates.
//! - Only a bare name in ORDER BY or DISTINCT ON is the cast's; within an expression, and in HAVING and QUALIFY, it is the column's that is
//!   cast. DataFusion 55.2 prefers the cast's everywhere, so where that would be wrong the cast is called after its text.
//!
//! Mends apache/datafusion#10743, #13558 (in 55.2).
//! Held by `slt/lengths.slt` (`'abcdef'::varchar(3)`, `ORDER BY right(a, 1)`).

use crate::names::name_of;
use crate::statements::written_types::length_of;
use crate::trees::rewriting::{call, name_items, rewrite};
use crate::trees::visit::visit;
use crate::visit_mut;
use alluvia_types::Result;
use sqlparser::ast::{
    self, Distinct, Expr, GroupByExpr, Ident, OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, Value,
    Visitor, VisitorMut,
};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::ControlFlow;

/// Whether a statement of these tokens may cast to such a type, or be sorted by what it casts.
pub(crate) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    let has = |keywords: &[Keyword]| {
        tokens.iter().any(|token| matches!(&token.token, Token::Word(word) if keywords.contains(&word.keyword)))
    };
    let casts =
        || has(&[Keyword::CAST, Keyword::TRY_CAST]) || tokens.iter().any(|token| token.token == Token::DoubleColon);
    has(&[Keyword::VARCHAR, Keyword::VARYING, Keyword::CHAR, Keyword::CHARACTER]) || has(&[Keyword::ORDER]) && casts()
}

/// Brings all such casts of a query to the form that is planned.
pub fn write_out(query: &mut Query) -> Result<()> {
    let _ = visit_mut(query, &mut Named);
    rewrite(query, is_cut, &mut cut)
}

/// Whether [`cut`] may change it.
pub fn is_cut(expr: &Expr) -> bool {
    matches!(expr, Expr::Cast { data_type, array: false, format: None, .. } if !matches!(chars_of(data_type), Ok(None)))
}

/// How many characters a cast to a type leaves, if it says that. `CHAR` is one character, which fills nothing up with spaces.
fn chars_of(written: &ast::DataType) -> Result<Option<u32>> {
    use ast::CharLengthUnits::Characters;
    use ast::CharacterLength::IntegerLength;
    match written {
        ast::DataType::Char(length) | ast::DataType::Character(length) => match length {
            None | Some(IntegerLength { length: 1, unit: None | Some(Characters) }) => Ok(Some(1)),
            Some(_) => Ok(None),
        },
        _ => length_of(written),
    }
}

fn cut(expr: &mut Expr) -> Result<()> {
    let Expr::Cast { data_type, array: false, format: None, .. } = expr else { return Ok(()) };
    if let Some(chars_max) = chars_of(data_type)? {
        *data_type = ast::DataType::Text;
        let text = std::mem::replace(expr, Expr::Value(Value::Null.into()));
        *expr = first_chars(text, chars_max);
    }
    Ok(())
}

/// The first characters of a text.
pub(crate) fn first_chars(text: Expr, chars_max: u32) -> Expr {
    call("left", vec![text, Expr::Value(Value::Number(chars_max.to_string(), false).into())])
}

/// Names the items that have casts.
struct Named;

impl VisitorMut for Named {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let keys: &mut [OrderByExpr] = match query.order_by.as_mut().map(|order| &mut order.kind) {
            Some(OrderByKind::Expressions(keys)) => keys,
            _ => &mut [],
        };
        if let Some(select) = select_of(&mut query.body) {
            name_casts(select, keys);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        // What a query's ORDER BY is about has its names.
        name_casts(select, &mut []);
        ControlFlow::Continue(())
    }
}

/// The SELECT that a query's ORDER BY is about.
fn select_of(body: &mut SetExpr) -> Option<&mut Select> {
    match body {
        SetExpr::Select(select) => Some(select.as_mut()),
        SetExpr::Query(query) if query.order_by.is_none() => select_of(query.body.as_mut()),
        _ => None,
    }
}

/// Names the casts of a column after it, where that is right for the rest of a SELECT and for what it is sorted by, and all others after
/// their text.
fn name_casts(select: &mut Select, keys: &mut [OrderByExpr]) {
    // Two columns of one name are the author's to tell apart: then the cast is called after its text.
    let names: Vec<Option<String>> = select.projection.iter().map(name_of_item).collect();
    let is_alone = |name: &String| names.iter().flatten().filter(|other| *other == name).count() == 1;
    if !select.projection.iter().any(is_wildcard) {
        for (at, name) in names.iter().enumerate() {
            if let Some(name) = name.as_ref().filter(|name| is_alone(name))
                && let Some(SelectItem::UnnamedExpr(cast)) = select.projection.get(at)
                && (is_cut(cast) || is_cast(cast) && is_sorted_by(name, cast, select, keys))
            {
                let cast = cast.clone();
                if means_column(name, &cast, select, keys) {
                    say_cast(name, &cast, at + 1, select, keys);
                    if !is_cut(&cast)
                        && let Some(item) = select.projection.get_mut(at)
                    {
                        let alias = Ident::with_quote('"', cast.to_string());
                        *item = SelectItem::ExprWithAlias { expr: cast, alias };
                    }
                } else if let Some(item) = select.projection.get_mut(at) {
                    *item = SelectItem::ExprWithAlias { expr: cast, alias: Ident::with_quote('"', name) };
                }
            }
        }
    }
    name_items(select, is_cut);
}

/// Whether a name is said where it means the column that is cast, and planning would take the cast for it. An expression that is the cast
/// itself may be either: what was cut is cut to the same.
fn means_column(name: &str, cast: &Expr, select: &Select, keys: &[OrderByExpr]) -> bool {
    let told_apart = match &select.distinct {
        Some(Distinct::On(keys)) => keys.as_slice(),
        _ => &[],
    };
    let mut keys = keys.iter().map(|key| &key.expr).chain(told_apart);
    keys.any(|key| bare_name(key).is_none() && key != cast && says(key, name))
        || select.having.iter().chain(&select.qualify).any(|condition| says(condition, name))
}

/// Says a cast, which is the item of this number, in the place of its bare name.
fn say_cast(name: &str, cast: &Expr, number: usize, select: &mut Select, keys: &mut [OrderByExpr]) {
    let is_name = |key: &Expr| bare_name(key).is_some_and(|said| said == name);
    for key in keys.iter_mut().filter(|key| is_name(&key.expr)) {
        key.expr = Expr::Value(Value::Number(number.to_string(), false).into());
    }
    if let Some(Distinct::On(told_apart)) = &mut select.distinct {
        for key in told_apart.iter_mut().filter(|key| is_name(key)) {
            *key = cast.clone();
        }
    }
}

fn is_cast(expr: &Expr) -> bool {
    match expr {
        Expr::Cast { .. } => true,
        Expr::Nested(inner) => is_cast(inner),
        _ => false,
    }
}

/// Whether a key says the name of a column that is cast, and is not the cast itself. Of groups only the column by itself is one: others may be
/// of aggregates.
fn is_sorted_by(name: &str, cast: &Expr, select: &Select, keys: &[OrderByExpr]) -> bool {
    let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(groups, _) if groups.is_empty());
    keys.iter().filter(|key| !is_same_cast(&key.expr, cast)).any(|key| {
        if is_grouped {
            !is_cast(&key.expr) && column_of(&key.expr).is_some_and(|said| said == name)
        } else {
            says(&key.expr, name)
        }
    })
}

/// Whether two casts are the same, however they are written.
fn is_same_cast(a: &Expr, b: &Expr) -> bool {
    match (a, b) {
        (Expr::Nested(a), b) => is_same_cast(a, b),
        (a, Expr::Nested(b)) => is_same_cast(a, b),
        (Expr::Cast { expr: a, data_type: to, .. }, Expr::Cast { expr: b, data_type, .. }) => {
            to == data_type && is_same_cast(a, b)
        }
        _ => a == b,
    }
}

/// The name that an expression is, if it is no more.
fn bare_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Nested(expr) => bare_name(expr),
        Expr::Identifier(ident) => Some(name_of(ident)),
        _ => None,
    }
}

/// Whether an expression says a name, also in a subquery.
fn says(expr: &Expr, name: &str) -> bool {
    visit(expr, &mut Saying(name)).is_break()
}

/// Ends where a name is said.
struct Saying<'a>(&'a str);

impl Visitor for Saying<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let is_said = match expr {
            Expr::Identifier(ident) => name_of(ident) == self.0,
            Expr::CompoundIdentifier(parts) => parts.iter().any(|part| name_of(part) == self.0),
            _ => false,
        };
        if is_said { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn is_wildcard(item: &SelectItem) -> bool {
    !matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
}

fn name_of_item(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(name_of(alias)),
        SelectItem::UnnamedExpr(expr) => column_of(expr),
        _ => None,
    }
}

/// The name of the column that is cast.
fn column_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Cast { expr, .. } | Expr::Nested(expr) => column_of(expr),
        Expr::Identifier(ident) => Some(name_of(ident)),
        Expr::CompoundIdentifier(parts) => parts.last().map(name_of),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
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
    fn casts_to_a_length_cut() {
        for (cast, expected) in [
            ("a::varchar(3)", "left(a::TEXT, 3)"),
            ("CAST(a AS CHARACTER VARYING(3))", "left(CAST(a AS TEXT), 3)"),
            ("CAST(a AS CHAR VARYING(3))", "left(CAST(a AS TEXT), 3)"),
            ("CAST(a AS CHAR)", "left(CAST(a AS TEXT), 1)"),
            ("a::character(1)", "left(a::TEXT, 1)"),
            ("a::char(2)", "a::CHAR(2)"),
            ("TRY_CAST(a AS VARCHAR(3))", "left(TRY_CAST(a AS TEXT), 3)"),
            ("a::varchar(3)::varchar(5)", "left(left(a::TEXT, 3)::TEXT, 5)"),
            ("a::varchar", "a::VARCHAR"),
        ] {
            assert_eq!(
                written(&format!("SELECT 1 FROM t WHERE b = {cast}")),
                format!("SELECT 1 FROM t WHERE b = {expected}")
            );
        }
        assert!(written("SELECT a::varchar(0)").contains("VARCHAR(0) has no possible length"));
        assert!(written("SELECT a::varchar(max)").contains("VARCHAR(MAX)"));
    }

    #[test]
    fn columns_keep_their_names() {
        assert_eq!(
            written("SELECT A::varchar(3), t.\"B\"::varchar(3), upper(c)::varchar(3), d::varchar(3) AS e FROM t"),
            "SELECT left(A::TEXT, 3) AS \"a\", left(t.\"B\"::TEXT, 3) AS \"B\", \
             left(upper(c)::TEXT, 3) AS \"upper(c)::VARCHAR(3)\", left(d::TEXT, 3) AS e FROM t"
        );
        assert_eq!(written("SELECT a, a::varchar(3) FROM t"), "SELECT a, left(a::TEXT, 3) AS \"a::VARCHAR(3)\" FROM t");
    }

    #[test]
    fn names_within_expressions_are_the_columns() {
        let cut = "left(a::TEXT, 3) AS \"a\"";
        let apart = "left(a::TEXT, 3) AS \"a::VARCHAR(3)\"";
        for (rest, item, expected) in [
            ("FROM t ORDER BY a DESC, b", cut, "FROM t ORDER BY a DESC, b"),
            ("FROM t ORDER BY (a), length(b)", cut, "FROM t ORDER BY (a), length(b)"),
            ("FROM t ORDER BY a::varchar(3)", cut, "FROM t ORDER BY left(a::TEXT, 3)"),
            ("FROM t UNION SELECT b FROM u ORDER BY length(a)", cut, "FROM t UNION SELECT b FROM u ORDER BY length(a)"),
            ("FROM t ORDER BY length(A)", apart, "FROM t ORDER BY length(A)"),
            ("FROM t ORDER BY b, t.a", apart, "FROM t ORDER BY b, t.a"),
            ("FROM t ORDER BY a, length(a), (a) DESC", apart, "FROM t ORDER BY 1, length(a), 1 DESC"),
            (
                "FROM t ORDER BY (SELECT max(b) FROM u WHERE c = a)",
                apart,
                "FROM t ORDER BY (SELECT max(b) FROM u WHERE c = a)",
            ),
            ("FROM t GROUP BY a HAVING a = 'x' ORDER BY a", apart, "FROM t GROUP BY a HAVING a = 'x' ORDER BY 1"),
        ] {
            assert_eq!(written(&format!("SELECT a::varchar(3) {rest}")), format!("SELECT {item} {expected}"));
        }
        assert_eq!(
            written("SELECT DISTINCT ON (a) b, a::varchar(3) FROM t ORDER BY a, length(a)"),
            "SELECT DISTINCT ON (left(a::TEXT, 3)) b, left(a::TEXT, 3) AS \"a::VARCHAR(3)\" FROM t ORDER BY 2, length(a)"
        );
        assert_eq!(
            written("(SELECT a::varchar(3), b::varchar(3) FROM t) ORDER BY length(a)"),
            "(SELECT left(a::TEXT, 3) AS \"a::VARCHAR(3)\", left(b::TEXT, 3) AS \"b\" FROM t) ORDER BY length(a)"
        );
        assert_eq!(
            written("SELECT b FROM (SELECT a::varchar(3) FROM t) AS x ORDER BY length(a)"),
            "SELECT b FROM (SELECT left(a::TEXT, 3) AS \"a\" FROM t) AS x ORDER BY length(a)"
        );
    }

    #[test]
    fn other_casts_are_named_where_their_query_is_sorted_by_them() {
        for (item, rest, named, expected) in [
            ("a::DATE", "b FROM t ORDER BY a DESC, b", "\"a\"", "b FROM t ORDER BY a DESC, b"),
            ("a::DATE", "b FROM t ORDER BY t.a, a", "\"a::DATE\"", "b FROM t ORDER BY t.a, 1"),
            ("(t.a::DATE)", "count(*) FROM t GROUP BY a ORDER BY a", "\"a\"", "count(*) FROM t GROUP BY a ORDER BY a"),
        ] {
            assert_eq!(written(&format!("SELECT {item}, {rest}")), format!("SELECT {item} AS {named}, {expected}"));
        }
        for same in [
            "SELECT a::DATE FROM t ORDER BY b",
            "SELECT a::DATE FROM t ORDER BY a::DATE",
            "SELECT a, a::DATE AS d FROM t ORDER BY a",
            "SELECT a::DATE, max(a) FROM t GROUP BY a::DATE ORDER BY max(a)",
        ] {
            assert_eq!(written(same), same);
        }
    }

    #[test]
    fn parameters_are_texts() {
        let mut kind = parse("SELECT $1::varchar(3)").unwrap().remove(0).kind;
        let stated = crate::parameters::stated(&mut kind);
        assert_eq!(stated.get(&1).map(|field| field.data_type()), Some(&arrow::datatypes::DataType::Utf8View));
    }
}
