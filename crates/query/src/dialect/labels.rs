//! Names for the columns of a SELECT that have none.
//!
//! Planning names an expression after its text and refuses two of one name, where SQL allows `SELECT NULL, NULL` or two
//! scalar subqueries. The second and later ones of a text get it with a number. Names that were written are left alone: two
//! columns `a` are the author's to tell apart, unless nobody says their name ([`super::repeated`]).

use super::repeated;
use super::visit::visit_mut;
use datafusion::sql::sqlparser::ast::{Expr, Ident, Query, Select, SelectItem, VisitorMut};
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
        repeated::tell_derived_apart(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Exists { subquery, .. } = expr {
            repeated::tell_apart(subquery);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        // Most SELECTs have nothing to tell apart; text is made only where there may be.
        let unnamed = select.projection.iter().filter(|item| is_unnamed(item)).count();
        if unnamed < 2 {
            return ControlFlow::Continue(());
        }
        let mut seen: HashMap<String, usize> = HashMap::new();
        for item in &mut select.projection {
            let SelectItem::UnnamedExpr(expr) = item else { continue };
            if matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)) {
                continue;
            }
            // Planning calls every scalar subquery the same.
            let text = match &*expr {
                Expr::Subquery(_) => "(<subquery>)".to_owned(),
                other => other.to_string().to_ascii_lowercase(),
            };
            let count = seen.entry(text.clone()).or_default();
            *count += 1;
            if *count > 1 {
                let alias = Ident::with_quote('"', format!("{text} {count}"));
                let expr = std::mem::replace(expr, Expr::Identifier(Ident::new("")));
                *item = SelectItem::ExprWithAlias { expr, alias };
            }
        }
        ControlFlow::Continue(())
    }
}

fn is_unnamed(item: &SelectItem) -> bool {
    matches!(item, SelectItem::UnnamedExpr(expr) if !matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)))
}

#[cfg(test)]
mod tests {
    use crate::dialect::{Kind, parse};

    fn labelled(sql: &str) -> String {
        let Kind::Query(query) = parse(sql).unwrap().remove(0).kind else { panic!("a query") };
        query.to_string()
    }

    #[test]
    fn only_unnamed_columns_of_one_text_get_numbers() {
        assert_eq!(labelled("SELECT NULL, 1, null, a, a"), "SELECT NULL, 1, NULL AS \"null 2\", a, a");
        assert_eq!(labelled("SELECT (SELECT 1), (SELECT 2)"), "SELECT (SELECT 1), (SELECT 2) AS \"(<subquery>) 2\"");
        assert_eq!(labelled("SELECT 1 AS x, 1, 2"), "SELECT 1 AS x, 1, 2");
    }
}
