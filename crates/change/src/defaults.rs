//! DEFAULT where a statement sets a column: the expression that the table's definition has for it.

use crate::has_digits;
use alluvia_space::{IdentityKind, TableDef};
use alluvia_syntax::keep_columns;
use alluvia_syntax::statements::rules::{expressions, kept_query};
use alluvia_syntax::trees::rewriting::call;
use alluvia_types::{Error, ErrorKind, Result};
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
            let mut query = kept_query(&[sql])?;
            keep_columns(&mut query, &|_: usize| has_digits(def.columns[column].data_type));
            expressions(*query)?.pop().ok_or_else(|| Error::internal("a default was lost"))
        }
        None => Ok(Expr::Value(Value::Null.into())),
    }
}

/// Whether a column is numbered, and by its sequence alone: then DEFAULT is all that it may be set to.
pub fn is_always_numbered(def: &TableDef, column: usize) -> bool {
    let id = def.columns.get(column).map(|column| column.id);
    id.and_then(|id| def.identity_of(id)).is_some_and(|identity| identity.kind == IdentityKind::Always)
}

/// Refuses to set a column that is always numbered to anything but DEFAULT.
pub(crate) fn refuse_set(def: &TableDef, column: usize) -> Result<()> {
    if !is_always_numbered(def, column) {
        return Ok(());
    }
    let message = format!("column \"{}\" can only be updated to DEFAULT", def.columns[column].name);
    Err(Error::new(ErrorKind::GeneratedAlways, message)
        .with_hint("it is an identity column defined as GENERATED ALWAYS: DELETE the row, and INSERT it anew"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{kind, table};
    use crate::{merge_query, update_query};
    use alluvia_space::{ColumnDefault, Identity, TableRules};
    use alluvia_syntax::Kind;

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

    /// Column b is always numbered, c is 1.50 where a row gives it nothing.
    fn numbered() -> TableDef {
        let mut def = table("CREATE TABLE t (a INT PRIMARY KEY, b BIGINT, c DECIMAL(9, 2))");
        let column = &def.columns[1];
        let identity = Identity::of_type(column.id, column.data_type, IdentityKind::Always, "t_b_seq".to_owned());
        def.rules.identities.extend(identity);
        def.rules.defaults = vec![ColumnDefault { column: def.columns[2].id, sql: "1.50".to_owned() }];
        def
    }

    #[test]
    fn what_is_set_to_its_default_is_set_to_that_of_the_definition() {
        let update = |sql: &str| {
            let Kind::Update(update) = kind(sql) else { panic!("an UPDATE") };
            update_query(&numbered(), &update).map(|update| update.query.to_string())
        };
        let query = update("UPDATE t SET b = DEFAULT, c = DEFAULT").unwrap();
        assert!(
            query.contains("nextval('\"t_b_seq\"') AS \"column2\", CAST('1.50' AS DECIMAL(3,2)) AS \"column3\""),
            "{query}"
        );
        assert_eq!(update("UPDATE t SET b = 1").unwrap_err().kind(), ErrorKind::GeneratedAlways);
    }

    #[test]
    fn what_a_merge_does_not_give_is_what_the_definition_says() {
        let merge = |then: &str| {
            let sql = format!("MERGE INTO t USING s ON t.a = s.a WHEN {then}");
            let Kind::Merge(merge) = kind(&sql) else { panic!("a MERGE") };
            merge_query(&numbered(), &merge).map(|merge| merge.query.to_string())
        };
        let query = merge("NOT MATCHED THEN INSERT (a, c) VALUES (s.a, DEFAULT)").unwrap();
        assert!(query.contains("THEN nextval('\"t_b_seq\"') END") && query.contains("'1.50'"), "{query}");
        for refused in ["NOT MATCHED THEN INSERT VALUES (s.a, 1)", "MATCHED THEN UPDATE SET b = 1"] {
            assert_eq!(merge(refused).unwrap_err().kind(), ErrorKind::GeneratedAlways, "{refused}");
        }
        assert!(merge("NOT MATCHED THEN INSERT VALUES (s.a, DEFAULT)").is_ok());
        assert!(merge("MATCHED THEN UPDATE SET b = DEFAULT").is_ok());
    }
}
