//! Names of a query's columns.
//!
//! DataFusion refuses a SELECT list in which two items have the same name; PostgreSQL does not (`SELECT NULL, NULL`, or two
//! subqueries side by side). So an item without an alias whose text repeats an earlier item's gets one: the text, a colon,
//! and how often it came before.

use datafusion::sql::sqlparser::ast::{Expr, Ident, Query, SelectItem, SetExpr, VisitMut, VisitorMut};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// Gives repeated items of every SELECT list in a query names of their own.
pub(crate) fn name_repeated(query: &mut Query) {
    let _ = query.visit(&mut Names);
}

struct Names;

impl VisitorMut for Names {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        in_body(&mut query.body);
        ControlFlow::Continue(())
    }
}

/// The sides of a UNION are no queries of their own to a visitor.
fn in_body(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => in_list(&mut select.projection),
        SetExpr::SetOperation { left, right, .. } => {
            in_body(left);
            in_body(right);
        }
        _ => {}
    }
}

fn in_list(items: &mut [SelectItem]) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for item in items {
        let SelectItem::UnnamedExpr(expr) = item else { continue };
        let text = expr.to_string();
        let before = seen.entry(text.clone()).or_default();
        *before += 1;
        if *before > 1 {
            let alias = Ident::with_quote('"', format!("{}:{}", short(&text), *before - 1));
            let expr = std::mem::replace(expr, Expr::value(datafusion::sql::sqlparser::ast::Value::Null));
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }
}

/// A subquery's text is no name.
fn short(text: &str) -> &str {
    if text.len() > 60 { "?column?" } else { text }
}
