//! FOR UPDATE and FOR SHARE in a subquery of the WHERE of UPDATE or DELETE, as queues of jobs take the next one: `DELETE FROM jobs WHERE
//! id = (SELECT id FROM jobs ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)`.
//!
//! Invariants:
//! - Such a subquery becomes a derived table under a name that nobody writes, by which whoever runs the statement finds it, runs it
//!   first, with its locks, and puts its rows in its place. Until then the statement is what it is without the clauses.
//! - Only a subquery that stands in WHERE itself is taken, behind IN, `= ANY` or as a value. Others are refused, as in any query.

use crate::statements::locking::{RowLock, locks_of};
use crate::statements::parse::query_of_table;
use crate::trees::display_names::MARK;
use crate::visit_mut;
use alluvia_types::{Error, Result};
use alluvia_values::errors::not_supported;
use sqlparser::ast::{BinaryOperator, Expr, Ident, ObjectName, Query, SetExpr, TableAlias, TableFactor, VisitorMut};
use std::ops::ControlFlow;

/// What the derived table of this number is called.
pub fn name_of_locked(number: usize) -> String {
    format!("locked rows{MARK}{number}")
}

/// Takes the clauses out of a condition; what is locked for each of the subqueries, by their numbers.
pub(super) fn take_out(condition: Option<&mut Expr>) -> Result<Vec<Vec<RowLock>>> {
    let mut taken = Taken { within: 0, locks: Vec::new() };
    match condition.map(|condition| visit_mut(condition, &mut taken)) {
        Some(ControlFlow::Break(error)) => Err(error),
        _ => Ok(taken.locks),
    }
}

struct Taken {
    /// How many queries are around.
    within: usize,
    locks: Vec<Vec<RowLock>>,
}

impl VisitorMut for Taken {
    type Break = Error;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
        self.within += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
        self.within -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if self.within > 0 {
            return ControlFlow::Continue(());
        }
        if let Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } = expr
            && let Expr::Subquery(subquery) = right.as_ref()
            && !subquery.locks.is_empty()
        {
            *expr = Expr::InSubquery { expr: left.clone(), subquery: subquery.clone(), negated: false };
        }
        if let Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } = expr
            && let Expr::Subquery(subquery) = right.as_ref()
            && !subquery.locks.is_empty()
        {
            let lock = subquery.locks.first().map(ToString::to_string).unwrap_or_default();
            return ControlFlow::Break(
                not_supported(format!("{lock} within a query")).with_hint("it may stand behind IN, = or = ANY"),
            );
        }
        let subquery = match expr {
            Expr::InSubquery { subquery, .. } | Expr::Subquery(subquery) if !subquery.locks.is_empty() => subquery,
            _ => return ControlFlow::Continue(()),
        };
        match locks_of(subquery).and_then(|locks| wrap(subquery, self.locks.len()).map(|()| locks)) {
            Ok(locks) => {
                self.locks.push(locks);
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// A query as `SELECT * FROM (query) AS "locked rows 0"`.
fn wrap(query: &mut Box<Query>, number: usize) -> Result<()> {
    let name = Ident::with_quote('"', name_of_locked(number));
    let mut outer = query_of_table(&ObjectName::from(vec![name.clone()]), &[])?;
    let SetExpr::Select(select) = outer.body.as_mut() else { return Err(Error::internal("a SELECT is none")) };
    let [table] = select.from.as_mut_slice() else { return Err(Error::internal("a SELECT reads no table")) };
    let alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
    table.relation = TableFactor::Derived { lateral: false, subquery: query.clone(), alias, sample: None };
    *query = outer;
    Ok(())
}
