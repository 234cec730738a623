//! Casts to `VARCHAR(n)`.
//!
//! Invariants:
//! - A cast that is written cuts a text to its first n characters without a word, as in PostgreSQL. (A value that is assigned to such a
//!   column must fit: that is `copy`'s.) DataFusion 55.2 forgets the n.
//! - So `CAST(x AS VARCHAR(n))` is `left(CAST(x AS TEXT), n)`.
//! - The column of a cast is called what the column of a cast to TEXT is: after the column that is cast, or else after its text.

use crate::dialect::definitions::length_of;
use crate::dialect::names::name_of;
use crate::dialect::rewriting::{call, rewrite};
use crate::dialect::visit_mut;
use alluvia_types::Result;
use datafusion::sql::sqlparser::ast::{self, Expr, Ident, Query, Select, SelectItem, Value, VisitorMut};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::ControlFlow;

/// Whether a statement of these tokens may cast to such a type.
pub(crate) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    tokens.iter().any(|token| {
        matches!(&token.token, Token::Word(word) if matches!(word.keyword, Keyword::VARCHAR | Keyword::VARYING))
    })
}

/// Brings all such casts of a query to the form that is planned.
pub(crate) fn write_out(query: &mut Query) -> Result<()> {
    let _ = visit_mut(query, &mut Named);
    rewrite(query, is_cut, &mut cut)
}

/// Whether [`cut`] may change it.
fn is_cut(expr: &Expr) -> bool {
    matches!(expr, Expr::Cast { data_type, array: false, format: None, .. } if !matches!(length_of(data_type), Ok(None)))
}

fn cut(expr: &mut Expr) -> Result<()> {
    let Expr::Cast { data_type, array: false, format: None, .. } = expr else { return Ok(()) };
    if let Some(chars_max) = length_of(data_type)? {
        *data_type = ast::DataType::Text;
        let text = std::mem::replace(expr, Expr::Value(Value::Null.into()));
        let length = Expr::Value(Value::Number(chars_max.to_string(), false).into());
        *expr = call("left", vec![text, length]);
    }
    Ok(())
}

/// Names the items that are casts of a column after it.
struct Named;

impl VisitorMut for Named {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        // Two columns of one name are the author's to tell apart: then the cast is called after its text.
        let names: Vec<Option<String>> = select.projection.iter().map(name_of_item).collect();
        let is_alone = |name: &String| names.iter().flatten().filter(|other| *other == name).count() == 1;
        let is_any_unknown = select.projection.iter().any(is_wildcard);
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && is_cut(expr)
                && let Some(name) = column_of(expr).filter(|name| !is_any_unknown && is_alone(name))
            {
                let alias = Ident::with_quote('"', name);
                let expr = std::mem::replace(expr, Expr::Value(Value::Null.into()));
                *item = SelectItem::ExprWithAlias { expr, alias };
            }
        }
        ControlFlow::Continue(())
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
    use crate::dialect::parameters::query_of;
    use crate::dialect::{Kind, parse};

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
    fn parameters_are_texts() {
        let mut kind = parse("SELECT $1::varchar(3)").unwrap().remove(0).kind;
        let stated = crate::dialect::parameters::stated(&mut kind);
        assert_eq!(stated.get(&1), Some(&arrow::datatypes::DataType::Utf8View));
    }
}
