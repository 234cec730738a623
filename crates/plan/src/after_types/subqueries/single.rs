//! Scalar subqueries as rows to join.
//!
//! Invariants:
//! - There is at most one row for each row around; where there is none, the value is NULL.
//! - A subquery with more than one row fails where its value is used for a row, and only then.

use super::direct::is_null_of_no_rows;
use super::{Names, domain, projected};
use alluvia_functions::internal::single_row::Single;
use datafusion::common::{Column, Result, plan_err};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, LogicalPlanBuilder, ScalarUDF, lit};
use std::sync::{Arc, LazyLock};

const VALUE: &str = "value of a subquery";
const ROWS: &str = "rows of a subquery";

/// The rows of a subquery under a name, the condition to join them on, and the value that is theirs then.
pub fn row_of(
    query: &LogicalPlan,
    around: &Arc<LogicalPlan>,
    near: Vec<Column>,
    name: &str,
    names: &mut Names,
) -> Result<(LogicalPlan, Expr, Expr)> {
    let [column] = <[Column; 1]>::try_from(query.schema().columns())
        .or_else(|columns| plan_err!("a subquery that is used as a value has one column, not {}", columns.len()))?;
    let (rows, keys) = if near.is_empty() {
        (query.clone(), Vec::new())
    } else {
        domain::Keying::new(around, near.clone(), names)?.plan(query)?
    };
    let of_name = |column: &str| Expr::Column(Column::new(Some(name), column));
    let value = Expr::Column(column);
    let groups: Vec<Expr> = keys.iter().cloned().map(Expr::Column).collect();
    let is_one = query.max_rows().is_some_and(|rows| rows <= 1) || is_null_of_no_rows(query);
    let (rows, value) = if is_one {
        let columns = std::iter::once(value.alias(VALUE)).chain(groups);
        (LogicalPlanBuilder::from(projected(rows, columns.collect())?), of_name(VALUE))
    } else {
        let first = first_value_udaf().call(vec![value]).alias(VALUE);
        let count = count_udaf().call(vec![lit(1_i64)]).alias(ROWS);
        let aggregate = Aggregate::try_new(Arc::new(rows), groups, vec![first, count])?;
        static SINGLE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(Single::default())));
        let args = vec![of_name(VALUE), of_name(ROWS)];
        let value = Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&SINGLE), args));
        (LogicalPlanBuilder::from(LogicalPlan::Aggregate(aggregate)), value)
    };
    let rows = rows.alias(name)?.build()?;
    let keys: Vec<Column> = keys.into_iter().map(|key| Column::new(Some(name), key.name)).collect();
    let condition = domain::same(&near, &keys);
    Ok((rows, condition, value))
}

/// Whether it is the one of a subquery's rows.
pub(super) fn is_single(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(function) if function.func.inner().downcast_ref::<Single>().is_some())
}
