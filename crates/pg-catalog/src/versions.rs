//! `xmin`, the number of what wrote a row, and `age` of such a number: IDEs keep it, and ask for what was written since.
//!
//! Invariant: every row of the catalog says the version of the last change of any definition, which is at least that of its own. Who asks for
//! what is newer than a number gets too many rows, never too few.

use crate::constants::number_expr;
use crate::rewrite::cast;
use alluvia_catalog::Catalog;
use alluvia_syntax::names::name_of;
use alluvia_syntax::trees::visit::visit;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, Expr, Query, Select, SelectItem, TableFactor, Visitor,
};
use std::ops::ControlFlow;

/// The hidden column that PostgreSQL's tables have.
const XMIN: &str = "xmin";

/// Whether an expression is the hidden column.
pub(crate) fn is_xmin(expr: &Expr, catalog: &Catalog) -> bool {
    let column = match expr {
        Expr::Identifier(ident) => name_of(ident),
        Expr::CompoundIdentifier(path) => path.last().map(name_of).unwrap_or_default(),
        _ => return false,
    };
    // A user's column of that name is one like others.
    let is_users = || catalog.tables().any(|entry| entry.def.columns.iter().any(|known| known.name == XMIN));
    column == XMIN && !is_users()
}

/// Whether a derived table or a WITH table of a query has a column that the statement itself calls so: then that is meant.
pub(crate) fn is_named(query: &Query) -> bool {
    visit(query, &mut Named::default()).is_break()
}

/// Looks for columns that are called `xmin`.
#[derive(Default)]
struct Named {
    /// Queries around what is visited.
    depth: usize,
}

impl Named {
    fn look(&self, mut names: impl Iterator<Item = String>) -> ControlFlow<()> {
        if names.any(|name| name == XMIN) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl Visitor for Named {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.depth += 1;
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        self.look(tables.flat_map(|table| &table.alias.columns).map(|column| name_of(&column.name)))
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        // What the statement gives is nobody's table.
        if self.depth < 2 {
            return ControlFlow::Continue(());
        }
        self.look(select.projection.iter().filter_map(|item| match item {
            SelectItem::ExprWithAlias { alias, .. } => Some(name_of(alias)),
            _ => None,
        }))
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let alias = match factor {
            TableFactor::Derived { alias, .. } | TableFactor::Table { alias, .. } => alias.as_ref(),
            _ => None,
        };
        self.look(alias.into_iter().flat_map(|alias| &alias.columns).map(|column| name_of(&column.name)))
    }
}

/// What stands for `xmin`.
pub(crate) fn xmin(catalog: &Catalog) -> Expr {
    // A cast, since a number alone would be a position in ORDER BY.
    cast(number_expr(catalog.version.0), DataType::BigInt(None))
}

/// What stands for `age` of a number of that kind, which a cast or [`xmin`] has made; `None` of anything else: `age` of a time is another
/// function.
pub(crate) fn age(of: &Expr, catalog: &Catalog) -> Option<Expr> {
    let is_transaction = match of {
        Expr::Identifier(ident) => name_of(ident) == "transactionid",
        Expr::CompoundIdentifier(path) => path.last().is_some_and(|ident| name_of(ident) == "transactionid"),
        Expr::Cast { data_type: DataType::BigInt(_), .. } => true,
        _ => false,
    };
    is_transaction.then(|| {
        let (left, right) = (Box::new(xmin(catalog)), Box::new(of.clone()));
        Expr::Nested(Box::new(Expr::BinaryOp { left, op: BinaryOperator::Minus, right }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_syntax::Kind;
    use alluvia_syntax::script::parse;
    use datafusion::sql::sqlparser::ast::SetExpr;

    fn expr(sql: &str) -> Expr {
        let Kind::Query(query) = parse(&format!("SELECT {sql} FROM t")).unwrap().remove(0).kind else {
            panic!("a query")
        };
        let SetExpr::Select(select) = *query.body else { panic!("a SELECT") };
        match select.projection.into_iter().next() {
            Some(SelectItem::UnnamedExpr(expr)) => expr,
            _ => panic!("an item"),
        }
    }

    #[test]
    fn columns_that_the_statement_calls_so_are_meant() {
        let named = |sql: &str| {
            let Kind::Query(query) = parse(sql).unwrap().remove(0).kind else { panic!("a query") };
            is_named(&query)
        };
        for sql in [
            "SELECT b.xmin FROM (SELECT name, min(x) AS xmin FROM points GROUP BY name) b",
            "WITH b AS (SELECT min(x) AS XMIN FROM points) SELECT xmin FROM b",
            "WITH b (xmin) AS (SELECT min(x) FROM points) SELECT xmin FROM b",
            "SELECT xmin FROM (SELECT min(x) FROM points) AS b (xmin)",
        ] {
            assert!(named(sql), "{sql}");
        }
        for sql in ["SELECT n.xmin AS xmin FROM pg_namespace n", "SELECT x FROM (SELECT xmin AS x FROM pg_class) c"] {
            assert!(!named(sql), "{sql}");
        }
    }

    #[test]
    fn every_row_is_of_the_last_change() {
        let catalog = Catalog::default();
        assert!(is_xmin(&expr("N.xmin"), &catalog) && is_xmin(&expr("XMIN"), &catalog));
        assert!(!is_xmin(&expr("xmax"), &catalog) && !is_xmin(&expr("'xmin'"), &catalog));
        assert_eq!(xmin(&catalog).to_string(), "CAST(0 AS BIGINT)");
        let since = age(&expr("CAST(5 AS BIGINT)"), &catalog).map(|age| age.to_string());
        assert_eq!(since.as_deref(), Some("(CAST(0 AS BIGINT) - CAST(5 AS BIGINT))"));
        assert!(age(&expr("sold_at"), &catalog).is_none());
    }
}
