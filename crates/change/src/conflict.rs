//! ON CONFLICT: which key it means, and whether the rows that are there must be read.

use crate::queries::assignments;
use alluvia_space::{Index, TableDef};
use alluvia_syntax::names::name_of;
use alluvia_syntax::statements::changes::{Conflict, ConflictAction, ConflictTarget, EXCLUDED};
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::not_supported;
use sqlparser::ast::{Expr, Ident, Query, SetExpr};

/// Which rows are in the way of one that comes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Arbiter {
    /// Those that no two of may be there.
    Any,
    /// Those with its key.
    Key,
    /// Those that are like it in the unique index of this name.
    Index(String),
}

/// What an INSERT with ON CONFLICT does.
#[derive(Clone, Debug)]
pub enum Resolved {
    /// Rows whose key is there are passed over, or those that are like another in a unique index.
    Nothing(Arbiter),
    /// They take the place of those that are there, of which nothing stays.
    Replace,
    /// What they become is computed from both.
    Compute {
        /// What the statement calls the table.
        alias: Ident,
        /// For each of the table's columns the value that is set; `None` where it stays.
        values: Vec<Option<Expr>>,
        /// The query that the values are of.
        query: Box<Query>,
    },
}

/// What ON CONFLICT means for a table.
pub fn resolve(def: &TableDef, conflict: &Conflict) -> Result<Resolved> {
    let arbiter = check_target(def, conflict.target.as_ref())?;
    let ConflictAction::Update { columns, defaults, alias, query } = &conflict.action else {
        return Ok(Resolved::Nothing(arbiter));
    };
    if let Arbiter::Index(name) = arbiter {
        return Err(not_supported(format!("ON CONFLICT DO UPDATE by the unique constraint {name}"))
            .with_hint("name the primary key; or INSERT ... ON CONFLICT DO NOTHING, and UPDATE where no row came"));
    }
    let mut query = query.clone();
    let mut values = assignments(def, columns, defaults, &mut query)?;
    let key = def.key_columns().unwrap_or_default();
    for &at in &key {
        match values[at].take() {
            // As it is: the keys are the same.
            Some(value) if is_excluded(&value, &def.columns[at].name) => {}
            Some(_) => {
                let message = format!("setting the key column {} by ON CONFLICT DO UPDATE", def.columns[at].name);
                return Err(not_supported(message).with_hint("DELETE the row, and INSERT it under its new key"));
            }
            None => {}
        }
    }
    let replaces = |(at, value): (usize, &Option<Expr>)| {
        key.contains(&at) || value.as_ref().is_some_and(|value| is_excluded(value, &def.columns[at].name))
    };
    if selection_of(&query)?.is_none() && values.iter().enumerate().all(replaces) {
        return Ok(Resolved::Replace);
    }
    Ok(Resolved::Compute { alias: alias.clone(), values, query })
}

/// Refuses what is not the key of the table. Without a target any key is meant, and there must be one.
pub fn check_target(def: &TableDef, target: Option<&ConflictTarget>) -> Result<Arbiter> {
    let refused = |message: String, hint: String| Err(Error::new(ErrorKind::NoKey, message).with_hint(hint));
    if let Some(index) = unique_target(def, target) {
        return Ok(Arbiter::Index(index.name.clone()));
    }
    let Some(key) = def.key_columns() else {
        // As in PostgreSQL nothing can be in the way of a row then.
        return match target {
            None => Ok(Arbiter::Any),
            Some(_) => refused(
                format!("table {} has no primary key that ON CONFLICT could mean", def.name),
                "a key is declared when a table is created: CREATE TABLE t (id BIGINT PRIMARY KEY, ...)".to_owned(),
            ),
        };
    };
    let mut wanted: Vec<&str> = key.iter().map(|&at| def.columns[at].name.as_str()).collect();
    let shown = wanted.join(", ");
    let hint = format!("the key of table {} is ({shown})", def.name);
    match target {
        None => Ok(Arbiter::Any),
        Some(ConflictTarget::Constraint(name)) if *name == key_name(def) => Ok(Arbiter::Key),
        Some(ConflictTarget::Constraint(name)) => {
            refused(format!("table {} has no key {name}", def.name), format!("{hint}, and is called {}", key_name(def)))
        }
        Some(ConflictTarget::Columns(columns)) => {
            for column in columns {
                def.column(column)?;
            }
            let mut given: Vec<&str> = columns.iter().map(String::as_str).collect();
            given.sort_unstable();
            given.dedup();
            wanted.sort_unstable();
            match given == wanted {
                true => Ok(Arbiter::Key),
                false => refused(format!("({}) is no key of table {}", columns.join(", "), def.name), hint),
            }
        }
    }
}

/// The unique index that a target means, where it is not the key.
fn unique_target<'a>(def: &'a TableDef, target: Option<&ConflictTarget>) -> Option<&'a Index> {
    let is_meant = |index: &&Index| match target {
        None => false,
        Some(ConflictTarget::Constraint(name)) => index.name == *name,
        Some(ConflictTarget::Columns(columns)) => {
            let names: Vec<&str> =
                index.columns.iter().filter_map(|id| Some(def.column_by_id(*id)?.name.as_str())).collect();
            names.iter().all(|name| columns.iter().any(|column| column == name))
                && columns.iter().all(|column| names.contains(&column.as_str()))
        }
    };
    let is_key = |target: Option<&ConflictTarget>| {
        matches!(target, Some(ConflictTarget::Columns(columns)) if def.key_columns().is_some_and(|key| {
            let names: Vec<&str> = key.iter().map(|at| def.columns[*at].name.as_str()).collect();
            names.iter().all(|name| columns.iter().any(|column: &String| column == name))
                && columns.iter().all(|column| names.contains(&column.as_str()))
        }))
    };
    if is_key(target) { None } else { def.unique_indexes().find(is_meant) }
}

/// What the key of a table is called.
pub fn key_name(def: &TableDef) -> String {
    format!("{}_pkey", def.name)
}

/// Whether a value is that of a column in the row that comes.
fn is_excluded(value: &Expr, column: &str) -> bool {
    match value {
        Expr::Nested(value) => is_excluded(value, column),
        Expr::CompoundIdentifier(parts) => match parts.as_slice() {
            [table, part] => name_of(table) == EXCLUDED && name_of(part) == column,
            _ => false,
        },
        _ => false,
    }
}

/// The condition of a query that is one SELECT.
pub(crate) fn selection_of(query: &Query) -> Result<Option<&Expr>> {
    match query.body.as_ref() {
        SetExpr::Select(select) => Ok(select.selection.as_ref()),
        _ => Err(Error::internal("what a statement sets is no SELECT")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{kind, table};
    use alluvia_syntax::Kind;
    use alluvia_syntax::statement::Insert;

    fn resolved(def: &TableDef, behind: &str) -> Result<Resolved> {
        let Kind::Insert(Insert { conflict: Some(conflict), .. }) = kind(&format!("INSERT INTO t VALUES (1) {behind}"))
        else {
            panic!("an INSERT with ON CONFLICT")
        };
        resolve(def, &conflict)
    }

    #[test]
    fn a_target_is_the_key_whole_and_alone() {
        let def = table("CREATE TABLE t (a INT, b INT, c INT, PRIMARY KEY (a, b))");
        for target in ["", "(a, b)", "(B, A)", "(a, b, a)", "ON CONSTRAINT t_pkey"] {
            assert!(
                matches!(resolved(&def, &format!("ON CONFLICT {target} DO NOTHING")), Ok(Resolved::Nothing(_))),
                "{target}"
            );
        }
        for (target, kind) in [
            ("(a)", ErrorKind::NoKey),
            ("(a, b, c)", ErrorKind::NoKey),
            ("(c)", ErrorKind::NoKey),
            ("(x)", ErrorKind::UndefinedColumn),
            ("ON CONSTRAINT other", ErrorKind::NoKey),
        ] {
            let error = resolved(&def, &format!("ON CONFLICT {target} DO NOTHING")).unwrap_err();
            assert_eq!(error.kind(), kind, "{target}");
        }
        let keyless = table("CREATE TABLE t (a INT)");
        assert!(resolved(&keyless, "ON CONFLICT DO NOTHING").is_ok());
        let error = resolved(&keyless, "ON CONFLICT (a) DO NOTHING").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoKey);
    }

    #[test]
    fn rows_are_replaced_unread_where_nothing_of_them_stays() {
        let def = table("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)");
        let of = |set: &str| resolved(&def, &format!("ON CONFLICT (id) DO UPDATE SET {set}"));
        for set in [
            "a = excluded.a, b = EXCLUDED.b",
            "b = (excluded.b), id = excluded.id, a = excluded.a",
            "(a, b) = (excluded.a, excluded.b)",
        ] {
            assert!(matches!(of(set), Ok(Resolved::Replace)), "{set}");
        }
        for set in [
            "a = excluded.a",
            "a = excluded.b, b = excluded.a",
            "a = excluded.a, b = excluded.b WHERE t.a < excluded.a",
        ] {
            assert!(matches!(of(set), Ok(Resolved::Compute { .. })), "{set}");
        }
        assert_eq!(of("id = excluded.id + 1").unwrap_err().kind(), ErrorKind::NotSupported);
        assert_eq!(of("x = 1").unwrap_err().kind(), ErrorKind::UndefinedColumn);
        assert_eq!(of("a = 1, A = 2").unwrap_err().kind(), ErrorKind::Syntax);
    }
}
