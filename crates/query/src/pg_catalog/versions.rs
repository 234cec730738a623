//! `xmin`, the number of what wrote a row, and `age` of such a number: IDEs keep it, and ask for what was written since.
//!
//! Invariant: every row of the catalog says the version of the last change of any definition, which is at least that of its own. Who asks for
//! what is newer than a number gets too many rows, never too few.

use super::constants::number_expr;
use super::rewrite::cast;
use crate::dialect::names::name_of;
use alluvia_catalog::Catalog;
use datafusion::sql::sqlparser::ast::{BinaryOperator, DataType, Expr};

/// The hidden column that PostgreSQL's tables have.
const XMIN: &str = "xmin";

/// Whether an expression is the hidden column.
pub(super) fn is_xmin(expr: &Expr, catalog: &Catalog) -> bool {
    let column = match expr {
        Expr::Identifier(ident) => name_of(ident),
        Expr::CompoundIdentifier(path) => path.last().map(name_of).unwrap_or_default(),
        _ => return false,
    };
    // A user's column of that name is one like others.
    let is_users = || catalog.tables().any(|entry| entry.def.columns.iter().any(|known| known.name == XMIN));
    column == XMIN && !is_users()
}

/// What stands for `xmin`.
pub(super) fn xmin(catalog: &Catalog) -> Expr {
    // A cast, since a number alone would be a position in ORDER BY.
    cast(number_expr(catalog.version.0), DataType::BigInt(None))
}

/// What stands for `age` of a number of that kind, which a cast or [`xmin`] has made; `None` of anything else: `age` of a time is another
/// function.
pub(super) fn age(of: &Expr, catalog: &Catalog) -> Option<Expr> {
    matches!(of, Expr::Cast { data_type: DataType::BigInt(_), .. }).then(|| {
        let (left, right) = (Box::new(xmin(catalog)), Box::new(of.clone()));
        Expr::Nested(Box::new(Expr::BinaryOp { left, op: BinaryOperator::Minus, right }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{Kind, parse};
    use datafusion::sql::sqlparser::ast::{SelectItem, SetExpr};

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
