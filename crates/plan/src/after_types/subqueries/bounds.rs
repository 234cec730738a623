//! LIMIT and OFFSET that are constants, as `2::int` and `1 + 1` are.

use crate::constants::value_of;
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, Limit, lit};
use std::sync::Arc;

/// The same with the numbers that they come to; what is none (a parameter, a subquery) stays.
pub fn computed(limit: &Limit) -> Result<Limit> {
    let number = |bound: Option<&Expr>| -> Result<Option<Box<Expr>>> {
        let computed = |bound: &Expr| Ok(Box::new(value_of(bound)?.map_or_else(|| bound.clone(), lit)));
        bound.map(computed).transpose()
    };
    let (skip, fetch) = (number(limit.skip.as_deref())?, number(limit.fetch.as_deref())?);
    Ok(Limit { skip, fetch, input: Arc::clone(&limit.input) })
}
