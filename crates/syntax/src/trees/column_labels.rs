//! Names for the columns of a SELECT that have none.
//!
//! Planning names an expression after its text, and a cast after what it casts, and refuses two of one name, where SQL allows
//! `SELECT NULL, NULL`, `SELECT a, a::text` or two scalar subqueries. The second and later ones of a text get it with a number, which nobody is shown ([`crate::trees::display_names`]). Casts are no part of
//! that text; so a column that is cast is told apart from the column itself, also where `*` has it. Names that were
//! written are left alone: two columns `a` are the author's to tell apart, unless nobody says their name ([`crate::trees::repeated_names`]).
//!
//! Mends apache/datafusion#4478, #5174, #6543 (in 55.2).
//! Held by `slt/select.slt` (`SELECT a::int, 1::int, 1::bigint`).

use super::rewriting::contains;
use super::visit::visit_mut;
use crate::names::name_of;
use crate::trees::display_names::MARK;
use crate::trees::repeated_names;
use crate::trees::varchar_casts::is_cut;
use sqlparser::ast::{
    Expr, Ident, Query, Select, SelectItem, TypedString, UnaryOperator, Value, VisitorMut, WildcardAdditionalOptions,
};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// Tells the unnamed columns of every SELECT in a query apart.
pub(crate) fn distinguish(query: &mut Query) {
    let _ = visit_mut(query, &mut Labels);
}

struct Labels;

impl VisitorMut for Labels {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        repeated_names::tell_derived_apart(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Exists { subquery, .. } = expr {
            repeated_names::tell_apart(subquery);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        // Most SELECTs have nothing to tell apart; text is made only where there may be.
        let unnamed = select.projection.iter().filter(|item| is_unnamed(item)).count();
        let casts = select.projection.iter().any(|item| matches!(item, SelectItem::UnnamedExpr(expr) if is_cast(expr)));
        if unnamed < 2 && !casts {
            return ControlFlow::Continue(());
        }
        // Where there is one table, its columns are the same with its name and without.
        let is_of_one = is_of_one_table(select);
        let has_all = select.projection.iter().any(is_all);
        let mut seen: HashMap<String, usize> = HashMap::new();
        for item in &select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && let Some(name) = column_of(expr, is_of_one)
            {
                seen.insert(name, 1);
            }
        }
        for item in &mut select.projection {
            let SelectItem::UnnamedExpr(expr) = item else { continue };
            if column_of(expr, is_of_one).is_some() {
                continue;
            }
            let (text, is_column) = text_of(expr, is_of_one);
            let count = seen.entry(text.clone()).or_insert(usize::from(is_column && has_all));
            *count += 1;
            if *count > 1 {
                let alias = Ident::with_quote('"', format!("{text}{MARK}{count}"));
                let expr = std::mem::replace(expr, Expr::Identifier(Ident::new("")));
                *item = SelectItem::ExprWithAlias { expr, alias };
            }
        }
        ControlFlow::Continue(())
    }
}

/// Whether columns are the same with their table's name and without.
pub(crate) fn is_of_one_table(select: &Select) -> bool {
    matches!(select.from.as_slice(), [only] if only.joins.is_empty())
}

fn is_unnamed(item: &SelectItem) -> bool {
    matches!(item, SelectItem::UnnamedExpr(expr) if !matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)))
}

fn is_cast(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_cast(inner),
        // Planning leaves a plus out.
        Expr::Cast { .. } | Expr::UnaryOp { op: UnaryOperator::Plus, .. } => true,
        _ => false,
    }
}

/// Whether an item is `*` without leaving anything out.
fn is_all(item: &SelectItem) -> bool {
    matches!(item, SelectItem::Wildcard(options) if *options == WildcardAdditionalOptions {
        wildcard_token: options.wildcard_token.clone(),
        ..WildcardAdditionalOptions::default()
    })
}

/// What planning calls an expression, as far as it can be told from another's name here, and whether it is that of a column.
pub fn text_of(expr: &Expr, is_of_one: bool) -> (String, bool) {
    match expr {
        // Planning calls every scalar subquery the same.
        Expr::Subquery(_) => return ("(<subquery>)".to_owned(), false),
        // These get names of their own ([`crate::trees::varchar_casts`]).
        other if contains(other, is_cut) => return (other.to_string().to_ascii_lowercase(), false),
        _ => {}
    }
    let mut uncast = expr.clone();
    let _ = visit_mut(&mut uncast, &mut Uncast);
    while let Expr::Nested(inner) = uncast {
        uncast = *inner;
    }
    match column_of(&uncast, is_of_one) {
        Some(name) => (name, true),
        None => (uncast.to_string().to_ascii_lowercase(), false),
    }
}

/// The name of a column that an expression is, and no more.
fn column_of(expr: &Expr, is_of_one: bool) -> Option<String> {
    match expr {
        Expr::Nested(inner) => column_of(inner, is_of_one),
        Expr::Identifier(ident) => Some(name_of(ident)),
        Expr::CompoundIdentifier(parts) if is_of_one => parts.last().map(name_of),
        Expr::CompoundIdentifier(parts) => Some(parts.iter().map(name_of).collect::<Vec<_>>().join(".")),
        _ => None,
    }
}

/// Takes casts away.
struct Uncast;

impl VisitorMut for Uncast {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Cast { expr: inner, .. } | Expr::UnaryOp { op: UnaryOperator::Plus, expr: inner } => {
                let mut inner = std::mem::replace(inner.as_mut(), Expr::Value(Value::Null.into()));
                if let Expr::Nested(nested) = inner {
                    inner = *nested;
                }
                *expr = inner;
            }
            Expr::TypedString(TypedString { value, .. }) => *expr = Expr::Value(value.clone()),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::MARK;
    use crate::Kind;
    use crate::script::parse;

    fn labelled(sql: &str) -> String {
        let Kind::Query(query) = parse(sql).unwrap().remove(0).kind else { panic!("a query") };
        query.to_string().replace(MARK, " ")
    }

    #[test]
    fn only_unnamed_columns_of_one_text_get_numbers() {
        assert_eq!(labelled("SELECT NULL, 1, null, a, a"), "SELECT NULL, 1, NULL AS \"null 2\", a, a");
        assert_eq!(labelled("SELECT (SELECT 1), (SELECT 2)"), "SELECT (SELECT 1), (SELECT 2) AS \"(<subquery>) 2\"");
        assert_eq!(labelled("SELECT 1 AS x, 1, 2"), "SELECT 1 AS x, 1, 2");
    }

    #[test]
    fn casts_are_told_apart_from_what_they_cast() {
        for (items, wanted) in [
            ("a, a::text", "a, a::TEXT AS \"a 2\""),
            ("a, (a::text)", "a, (a::TEXT) AS \"a 2\""),
            ("A::text, x.a, CAST((a) AS INT)", "A::TEXT AS \"a 2\", x.a, CAST((a) AS INT) AS \"a 3\""),
            ("a, + a, +a", "a, +a AS \"a 2\", +a AS \"a 3\""),
            ("*, a::date, b + 1", "*, a::DATE AS \"a 2\", b + 1"),
            ("a::date, a::text, b::text", "a::DATE, a::TEXT AS \"a 2\", b::TEXT"),
            ("count(*)::int, count(*)", "count(*)::INT, count(*) AS \"count(*) 2\""),
            ("1::int, 1::bigint", "1::INT, 1::BIGINT AS \"1 2\""),
            ("abs(a), abs(a::int)", "abs(a), abs(a::INT) AS \"abs(a) 2\""),
            ("* EXCLUDE (a), a::date", "* EXCLUDE (a), a::DATE"),
            ("\"A\"::text, a::text, a + 1", "\"A\"::TEXT, a::TEXT, a + 1"),
        ] {
            assert_eq!(labelled(&format!("SELECT {items} FROM x")), format!("SELECT {wanted} FROM x"));
        }
        let joined = "SELECT x.a::TEXT, y.a::TEXT, y.b FROM x, y";
        assert_eq!(labelled(joined), joined);
    }
}
