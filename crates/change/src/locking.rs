//! The query of a statement that locks rows: behind its own columns it gives the keys of the rows that each of its rows is made of.

use crate::queries::of;
use alluvia_space::TableDef;
use alluvia_syntax::MARK;
use alluvia_syntax::statements::locking::{LockWait, Locking};
use alluvia_types::{Error, Result};
use alluvia_values::errors::not_supported;
use sqlparser::ast::{self, Expr, Ident, LimitClause, Query, SelectItem, SetExpr, Value};
use std::ops::Range;

/// The query of a statement that locks rows.
#[derive(Clone, Debug)]
pub struct LockingQuery {
    /// The query.
    pub query: Box<Query>,
    /// How many hidden columns it has, which are its last ones: the keys in each of the tables that are locked.
    pub hidden: usize,
    /// The rows of it that are given, of those that could be locked; `None` for all. The query itself has no bound then.
    pub window: Option<Range<usize>>,
}

/// The query of a statement that locks rows of these tables.
///
/// # Errors
/// `NotSupported` of a table without a key, and where LIMIT is computed and locked rows are passed over.
pub fn locking_query(statement: &Locking, tables: &[&TableDef]) -> Result<LockingQuery> {
    let mut query = statement.query.clone();
    let skips = statement.locks.iter().any(|lock| lock.wait == LockWait::Skip);
    let window = if skips { window_of(query.limit_clause.take())? } else { None };
    let SetExpr::Select(select) = query.body.as_mut() else {
        return Err(Error::internal("rows are locked by what is no SELECT"));
    };
    let mut hidden = 0;
    for (lock, def) in statement.locks.iter().zip(tables) {
        let columns = def.key_columns().ok_or_else(|| {
            not_supported(format!("{} of table {}, which has no primary key,", statement.name(), def.name))
                .with_hint("rows are locked by their keys: create the table with PRIMARY KEY")
        })?;
        for &at in &columns {
            let alias = Ident::with_quote('"', format!("key{MARK}{}", select.projection.len()));
            let expr = of(&lock.alias, &def.columns[at].name);
            select.projection.push(SelectItem::ExprWithAlias { expr, alias });
        }
        hidden += columns.len();
    }
    Ok(LockingQuery { query, hidden, window })
}

/// The rows that a LIMIT and an OFFSET leave.
fn window_of(clause: Option<LimitClause>) -> Result<Option<Range<usize>>> {
    let (limit, offset) = match clause {
        None => return Ok(None),
        Some(LimitClause::LimitOffset { limit, offset, .. }) => (limit, offset.map(|offset| offset.value)),
        Some(LimitClause::OffsetCommaLimit { offset, limit }) => (Some(limit), Some(offset)),
    };
    let (first, count) = (number(offset, 0)?, number(limit, usize::MAX)?);
    Ok(Some(first..first.saturating_add(count)))
}

/// A number that is written; `otherwise` of none, and of NULL.
fn number(expr: Option<Expr>, otherwise: usize) -> Result<usize> {
    let digits = match expr.as_ref().map(uncast) {
        None => return Ok(otherwise),
        Some(Expr::Value(value)) => match &value.value {
            Value::Null => return Ok(otherwise),
            Value::Number(digits, _) => digits.to_string().parse().ok(),
            Value::SingleQuotedString(digits) => digits.trim().parse().ok(),
            _ => None,
        },
        Some(_) => None,
    };
    digits.ok_or_else(|| {
        not_supported("a computed LIMIT or OFFSET with SKIP LOCKED")
            .with_hint("write the number, or give it as a parameter")
    })
}

/// What is cast to a whole number, as `$1::INTEGER` is.
fn uncast(expr: &Expr) -> &Expr {
    use ast::DataType::{BigInt, Int, Int2, Int4, Int8, Integer, SmallInt};
    match expr {
        Expr::Nested(inner) => uncast(inner),
        Expr::Cast {
            expr: inner,
            data_type: BigInt(_) | Int(_) | Int2(_) | Int4(_) | Int8(_) | Integer(_) | SmallInt(_),
            ..
        } => uncast(inner),
        expr => expr,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{kind, table};
    use alluvia_syntax::Kind;

    fn asked(sql: &str) -> Result<LockingQuery> {
        let def = table("CREATE TABLE t (a BIGINT, b TEXT, v BIGINT, PRIMARY KEY (b, a))");
        let Kind::Locking(locking) = kind(sql) else { panic!("{sql}") };
        locking_query(&locking, &[&def])
    }

    #[test]
    fn keys_stand_behind_what_was_asked_for() {
        let locking = asked("SELECT v FROM t x ORDER BY v LIMIT 2 FOR UPDATE").unwrap();
        let text = locking.query.to_string().replace(MARK, "#");
        assert_eq!(text, r#"SELECT v, x."b" AS "key#1", x."a" AS "key#2" FROM t x ORDER BY v LIMIT 2"#);
        assert_eq!((locking.hidden, locking.window), (2, None));
    }

    #[test]
    fn a_limit_is_of_rows_that_are_locked() {
        let locking = asked("SELECT v FROM t LIMIT 2 OFFSET 1 FOR UPDATE SKIP LOCKED").unwrap();
        assert!(!locking.query.to_string().contains("LIMIT"));
        assert_eq!(locking.window, Some(1..3));
        let cast = asked("SELECT v FROM t LIMIT 2::INTEGER OFFSET CAST('1' AS BIGINT) FOR UPDATE SKIP LOCKED").unwrap();
        assert_eq!(cast.window, Some(1..3));
        assert!(asked("SELECT v FROM t LIMIT 1 + 1 FOR UPDATE SKIP LOCKED").is_err());
    }
}
