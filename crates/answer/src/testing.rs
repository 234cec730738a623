//! What tests of recognised conditions share.

use super::predicate::Columns;
use super::statement::Condition;
use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

/// An expression.
pub(super) fn parsed(sql: &str) -> Expr {
    let dialect = PostgreSqlDialect {};
    let mut parser = Parser::new(&dialect).try_with_sql(sql).expect("tokens");
    parser.parse_expr().expect("an expression")
}

/// What is recognised in a condition, where every name is a column.
pub(super) fn recognised(sql: &str, condition_of: fn(&Expr, &Columns<'_>) -> Option<Condition>) -> Option<Condition> {
    condition_of(&parsed(sql), &|expr| match expr {
        Expr::Identifier(name) => Some(name.value.clone()),
        _ => None,
    })
}
