//! DEFAULT where a statement sets a column: the expression that the table's definition has for it.

use alluvia_space::{IdentityKind, TableDef};
use alluvia_syntax::statements::rules::{expressions, kept_query};
use alluvia_syntax::trees::rewriting::call;
use alluvia_types::{Error, Result};
use sqlparser::ast::{Expr, Value};

/// What DEFAULT means for the column at this place of the table; NULL for one that has none, and the next value of its
/// sequence for one that is numbered.
pub fn default_expr(def: &TableDef, column: usize) -> Result<Expr> {
    let id = def.columns.get(column).map(|column| column.id);
    let id = id.ok_or_else(|| Error::internal(format!("table {} has no column {column}", def.name)))?;
    if let Some(identity) = def.identity_of(id) {
        let name = format!("\"{}\"", identity.name.replace('"', "\"\""));
        return Ok(call("nextval", vec![Expr::Value(Value::SingleQuotedString(name).into())]));
    }
    match def.default_of(id) {
        Some(sql) => {
            let expr = expressions(*kept_query(&[sql])?)?.pop();
            expr.ok_or_else(|| Error::internal("a default was lost"))
        }
        None => Ok(Expr::Value(Value::Null.into())),
    }
}

/// Whether a column is numbered, and by its sequence alone: then DEFAULT is all that it may be set to.
pub fn is_always_numbered(def: &TableDef, column: usize) -> bool {
    let id = def.columns.get(column).map(|column| column.id);
    id.and_then(|id| def.identity_of(id)).is_some_and(|identity| identity.kind == IdentityKind::Always)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::table;
    use alluvia_space::{ColumnDefault, Identity, TableRules};

    #[test]
    fn default_is_what_the_definition_says() {
        let mut def = table("CREATE TABLE t (a TEXT, b INT, c INT)");
        let identity =
            Identity::of_type(def.columns[1].id, def.columns[1].data_type, IdentityKind::Always, "s".to_owned());
        def.rules = TableRules {
            defaults: vec![ColumnDefault { column: def.columns[0].id, sql: "upper('x')".to_owned() }],
            identities: identity.into_iter().collect(),
            ..TableRules::default()
        };
        let shown = |column| default_expr(&def, column).unwrap().to_string();
        assert_eq!((shown(1), shown(2)), ("nextval('\"s\"')".to_owned(), "NULL".to_owned()));
        assert!(shown(0).starts_with("upper("), "{}", shown(0));
        assert!(is_always_numbered(&def, 1) && !is_always_numbered(&def, 0));
    }
}
