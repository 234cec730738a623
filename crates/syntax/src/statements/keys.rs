//! PRIMARY KEY in CREATE TABLE, and what becomes of a row whose key is there.
//!
//! Invariants:
//! - A table has at most one key. Its columns are NOT NULL, whether that is written or not.
//! - The name of the constraint is taken and not kept: the key of table `t` is called `t_pkey`.

use crate::names::name_of;
use alluvia_space::{OnConflict, PrimaryKey, TableDef};
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::not_supported;
use sqlparser::ast::{self, ColumnDef, ColumnOption, Expr, IndexColumn, PrimaryKeyConstraint, TableConstraint};

/// The names of the columns that a CREATE TABLE declares to be the key; empty where it declares none.
pub(crate) fn key_of(create: &ast::CreateTable) -> Result<Vec<String>> {
    let of_columns = create.columns.iter().flat_map(|column| {
        let keys = column.options.iter().filter_map(|option| key_option(&option.option));
        keys.map(move |constraint| (constraint, Some(column)))
    });
    let of_table = create.constraints.iter().filter_map(|constraint| match constraint {
        TableConstraint::PrimaryKey(constraint) => Some((constraint, None)),
        _ => None,
    });
    let mut declared = of_columns.chain(of_table);
    let Some((constraint, column)) = declared.next() else { return Ok(Vec::new()) };
    if declared.next().is_some() {
        let message = format!("table {} has several primary keys", create.name);
        return Err(Error::new(ErrorKind::InvalidDefinition, message)
            .with_hint("a key of several columns is one constraint: PRIMARY KEY (a, b)"));
    }
    check_clauses(constraint)?;
    match column {
        Some(column) => Ok(vec![name_of(&column.name)]),
        None => constraint.columns.iter().map(key_column).collect(),
    }
}

/// The names of the columns of a key that stands alone.
pub(crate) fn key_of_constraint(constraint: &PrimaryKeyConstraint) -> Result<Vec<String>> {
    check_clauses(constraint)?;
    constraint.columns.iter().map(key_column).collect()
}

/// Whether a column is declared to be the key.
pub(crate) fn is_key(column: &ColumnDef) -> bool {
    column.options.iter().any(|option| key_option(&option.option).is_some())
}

fn key_option(option: &ColumnOption) -> Option<&PrimaryKeyConstraint> {
    match option {
        ColumnOption::PrimaryKey(constraint) => Some(constraint),
        _ => None,
    }
}

fn check_clauses(constraint: &PrimaryKeyConstraint) -> Result<()> {
    let PrimaryKeyConstraint { name: _, index_name, index_type, columns: _, index_options, characteristics } =
        constraint;
    let clauses = [
        (index_name.is_some() || index_type.is_some() || !index_options.is_empty(), "an index in PRIMARY KEY"),
        (characteristics.is_some(), "DEFERRABLE or ENFORCED of PRIMARY KEY"),
    ];
    match clauses.iter().find(|(found, _)| *found) {
        Some((_, clause)) => Err(not_supported(clause).with_hint("write PRIMARY KEY (a, b): keys are checked at once")),
        None => Ok(()),
    }
}

fn key_column(column: &IndexColumn) -> Result<String> {
    match &column.column.expr {
        Expr::Identifier(ident) if column.operator_class.is_none() => Ok(name_of(ident)),
        _ => Err(not_supported(format!("{column} in PRIMARY KEY")).with_hint("a key is made of columns")),
    }
}

/// The definition with the columns of these names as its key, if there are any. Under `secret`, which is to be random,
/// keys are hashed that do not fit into a code.
pub fn with_key(mut def: TableDef, key: &[String], on_conflict: Option<&str>, secret: [u64; 2]) -> Result<TableDef> {
    if key.is_empty() {
        return match on_conflict {
            None => Ok(def),
            Some(_) => Err(without_key(&def.name)),
        };
    }
    let columns = key.iter().map(|name| def.column(name).map(|column| column.id)).collect::<Result<Vec<_>>>()?;
    for column in def.columns.iter_mut().filter(|column| columns.contains(&column.id)) {
        column.nullable = false;
    }
    let on_conflict = on_conflict.map(on_conflict_of).transpose()?.unwrap_or_default();
    def.key = Some(PrimaryKey { columns, secret, on_conflict });
    def.validate()?;
    Ok(def)
}

/// What a definition says of rows whose key is there, changed to what is written.
pub fn with_on_conflict(mut def: TableDef, written: &str) -> Result<TableDef> {
    let on_conflict = on_conflict_of(written)?;
    match &mut def.key {
        Some(key) => key.on_conflict = on_conflict,
        None => return Err(without_key(&def.name)),
    }
    Ok(def)
}

fn without_key(table: &str) -> Error {
    Error::new(ErrorKind::InvalidDefinition, format!("table {table} has on_conflict, and no key"))
        .with_hint("declare a key: CREATE TABLE t (id BIGINT PRIMARY KEY, ...), or leave on_conflict out")
}

fn on_conflict_of(written: &str) -> Result<OnConflict> {
    OnConflict::named(&written.to_ascii_lowercase()).ok_or_else(|| {
        Error::new(ErrorKind::InvalidDefinition, format!("on_conflict cannot be {written:?}"))
            .with_hint("on_conflict is 'error', 'nothing' or 'replace'")
    })
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::script::parse;
    use crate::script::tests::one;
    use crate::statements::definitions::{CreateTable, define};
    use crate::statements::keys::with_key;
    use alluvia_space::{OnConflict, TableDef};
    use alluvia_types::{ErrorKind, Result, TableId};

    fn create(sql: &str) -> CreateTable {
        match one(sql).kind {
            Kind::CreateTable(create) => *create,
            other => panic!("{sql}: {other:?}"),
        }
    }

    fn defined(sql: &str) -> Result<TableDef> {
        let CreateTable { name, columns, key, with, .. } = create(sql);
        let columns: Vec<_> = columns
            .into_iter()
            .map(|column| (column.name, column.column_type.expect("a type"), column.nullable))
            .collect();
        let def = define(TableId(1), ("public", &name.name), &columns, &with, 0)?;
        with_key(def, &key, with.on_conflict.as_deref(), [1, 2])
    }

    #[test]
    fn keys_are_declared_with_a_column_or_with_the_table() {
        for (sql, key) in [
            ("CREATE TABLE t (id BIGINT PRIMARY KEY, b INT)", vec!["id"]),
            ("CREATE TABLE t (id BIGINT NOT NULL CONSTRAINT k PRIMARY KEY, b INT)", vec!["id"]),
            ("CREATE TABLE t (a INT, \"B\" TEXT, PRIMARY KEY (\"B\", A))", vec!["B", "a"]),
            ("CREATE TABLE t (a INT, CONSTRAINT k PRIMARY KEY (a)) WITH (on_conflict = 'replace')", vec!["a"]),
        ] {
            let def = defined(sql).unwrap();
            let declared = def.key.as_ref().expect("a key");
            let column = |name: &str| def.column(name).unwrap();
            assert_eq!(declared.columns, key.iter().map(|name| column(name).id).collect::<Vec<_>>(), "{sql}");
            assert!(key.iter().all(|name| !column(name).nullable), "{sql}");
            let replaces = sql.contains("replace");
            assert_eq!(declared.on_conflict, if replaces { OnConflict::Replace } else { OnConflict::Error });
        }
        assert!(defined("CREATE TABLE t (a INT)").unwrap().key.is_none());
    }

    #[test]
    fn impossible_keys_are_refused() {
        let wide: Vec<String> = (0..33).map(|at| format!("c{at}")).collect();
        let wide = format!("CREATE TABLE t ({} INT, PRIMARY KEY ({}))", wide.join(" INT, "), wide.join(", "));
        for (sql, kind) in [
            ("CREATE TABLE t (a INT, PRIMARY KEY (b))", ErrorKind::UndefinedColumn),
            ("CREATE TABLE t (a INT, PRIMARY KEY (a, a))", ErrorKind::InvalidDefinition),
            (wide.as_str(), ErrorKind::InvalidDefinition),
            ("CREATE TABLE t (a INT) WITH (on_conflict = 'replace')", ErrorKind::InvalidDefinition),
            ("CREATE TABLE t (a INT PRIMARY KEY) WITH (on_conflict = 'both')", ErrorKind::InvalidDefinition),
        ] {
            assert_eq!(defined(sql).unwrap_err().kind(), kind, "{sql}");
        }
        for sql in ["CREATE TABLE t (a INT PRIMARY KEY, b INT PRIMARY KEY)", "CREATE TABLE t (a INT NULL PRIMARY KEY)"]
        {
            assert_eq!(parse(sql).unwrap_err().kind(), ErrorKind::InvalidDefinition, "{sql}");
        }
        for sql in [
            "CREATE TABLE t (a INT PRIMARY KEY DEFERRABLE)",
            "CREATE TABLE t (a INT, PRIMARY KEY (a DESC))",
            "CREATE TABLE t (a PRIMARY KEY) AS SELECT 1",
        ] {
            assert!(matches!(parse(sql).map(|mut all| all.remove(0).kind), Ok(Kind::Refused(_)) | Err(_)), "{sql}");
        }
    }
}
