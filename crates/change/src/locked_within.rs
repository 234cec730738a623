//! Subqueries of a statement whose rows are locked first, and put in their place then.

use alluvia_syntax::names::name_of;
use alluvia_syntax::statements::locked_within::name_of_locked;
use alluvia_syntax::{visit, visit_mut};
use alluvia_types::{Error, ErrorKind, Result};
use sqlparser::ast::{Expr, Query, SetExpr, TableFactor, Value, Visitor, VisitorMut};
use std::ops::ControlFlow;

/// The query of the subquery of this number; `None` if there is none.
pub fn locked_query(query: &Query, number: usize) -> Option<Box<Query>> {
    match visit(query, &mut Find(&name_of_locked(number))) {
        ControlFlow::Break(found) => Some(found),
        ControlFlow::Continue(()) => None,
    }
}

/// Puts the values that a subquery gave in its place. `null` is the value of none.
///
/// # Errors
/// `TooManyRows` where one value is wanted, and there are more.
pub fn put_in_place(query: &mut Query, number: usize, values: Vec<Expr>, null: Expr) -> Result<()> {
    match visit_mut(query, &mut Put { name: &name_of_locked(number), values, null }) {
        ControlFlow::Break(done) => done,
        ControlFlow::Continue(()) => Err(Error::internal("a subquery whose rows are locked is not there")),
    }
}

/// What stands in the derived table of this name, if the query is nothing but that.
fn within<'a>(query: &'a Query, name: &str) -> Option<&'a Query> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let [table] = select.from.as_slice() else { return None };
    match &table.relation {
        TableFactor::Derived { subquery, alias: Some(alias), .. } if name_of(&alias.name) == name => Some(subquery),
        _ => None,
    }
}

struct Find<'a>(&'a str);

impl Visitor for Find<'_> {
    type Break = Box<Query>;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Box<Query>> {
        match within(query, self.0) {
            Some(found) => ControlFlow::Break(Box::new(found.clone())),
            None => ControlFlow::Continue(()),
        }
    }
}

struct Put<'a> {
    name: &'a str,
    values: Vec<Expr>,
    null: Expr,
}

impl Put<'_> {
    fn value(&mut self) -> Result<Expr> {
        match self.values.as_slice() {
            [] => Ok(self.null.clone()),
            [value] => Ok(value.clone()),
            _ => {
                let message = "more than one row returned by a subquery used as an expression";
                Err(Error::new(ErrorKind::TooManyRows, message).with_hint("LIMIT 1, or IN (...) in the place of `=`"))
            }
        }
    }
}

impl VisitorMut for Put<'_> {
    type Break = Result<()>;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Result<()>> {
        let put = match &*expr {
            Expr::Subquery(query) if within(query, self.name).is_some() => self.value(),
            Expr::InSubquery { expr: of, subquery, negated } if within(subquery, self.name).is_some() => {
                Ok(match std::mem::take(&mut self.values) {
                    none if none.is_empty() => Expr::Value(Value::Boolean(*negated).into()),
                    list => Expr::InList { expr: of.clone(), list, negated: *negated },
                })
            }
            _ => return ControlFlow::Continue(()),
        };
        ControlFlow::Break(put.map(|put| *expr = put))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::kind;
    use alluvia_syntax::Kind;
    use alluvia_syntax::statements::locking::LockWait;

    fn deleted(condition: &str, values: &[i64]) -> Result<String> {
        let Kind::Delete(mut delete) = kind(&format!("DELETE FROM t WHERE {condition}")) else { panic!("{condition}") };
        assert_eq!((delete.locked.len(), delete.locked[0][0].wait), (1, LockWait::Skip));
        let query = locked_query(&delete.query, 0).unwrap();
        assert_eq!(query.to_string(), "SELECT id FROM t ORDER BY id LIMIT 1");
        let number = |value: &i64| Expr::Value(Value::Number(value.to_string(), false).into());
        let null = Expr::Value(Value::Null.into());
        put_in_place(&mut delete.query, 0, values.iter().map(number).collect(), null)?;
        Ok(delete.query.to_string().replace("SELECT 1 AS column1 FROM t AS t WHERE ", ""))
    }

    #[test]
    fn rows_that_are_locked_stand_where_they_were_asked_for() {
        let subquery = "(SELECT id FROM t ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)";
        for (before, values, expected) in [
            ("id =", &[7][..], "id = 7"),
            ("id =", &[], "id = NULL"),
            ("x > 1 AND id IN", &[7, 8], "x > 1 AND id IN (7, 8)"),
            ("id NOT IN", &[7], "id NOT IN (7)"),
            ("id IN", &[], "false"),
            ("id = ANY", &[1], "id IN (1)"),
        ] {
            assert_eq!(deleted(&format!("{before} {subquery}"), values).unwrap(), expected);
        }
        let error = deleted(&format!("id = {subquery}"), &[1, 2]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooManyRows);
    }
}
