//! LIMIT and OFFSET that are constants, as `2::int` and `1 + 1` are.

use datafusion::common::Result;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, Limit};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use std::sync::Arc;

/// The same with the numbers that they come to; what is none (a parameter, a subquery) stays.
pub fn computed(limit: &Limit) -> Result<Limit> {
    let simplifier = ExprSimplifier::new(SimplifyContext::default());
    let number = |bound: Option<&Expr>| -> Result<Option<Box<Expr>>> {
        bound.map(|bound| simplifier.simplify(bound.clone()).map(Box::new)).transpose()
    };
    let (skip, fetch) = (number(limit.skip.as_deref())?, number(limit.fetch.as_deref())?);
    Ok(Limit { skip, fetch, input: Arc::clone(&limit.input) })
}
