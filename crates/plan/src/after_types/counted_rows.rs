//! `count(DISTINCT (a, b))`, and of lists: what is kept of a row is its own bytes.
//!
//! Invariants:
//! - Two rows have the same bytes if they are equal, NULLs within them included, and only then; but the zeros of floats within rows are two.
//! - A value that is NULL itself stays NULL, and is not counted.
//! - The aggregate is called what it was called before.
//!
//! DataFusion 55.2 keeps each distinct row or list as a slice of the batch that it came in, and counts the whole batch as its memory: 20,000 rows
//! beside another aggregate came to a gigabyte.
//!
//! Mends DataFusion (in 55.2): no issue upstream known (searched 2026-11-27: count distinct, struct, list, ScalarValue,
//! memory of a slice).

use crate::expressions::changed;
use alluvia_functions::internal::row_bytes::RowBytes;
use arrow::row::{RowConverter, SortField};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, ScalarUDF};
use datafusion::optimizer::analyzer::AnalyzerRule;
use std::sync::{Arc, LazyLock};

/// Counts rows and lists by their bytes. Types must have been coerced.
#[derive(Debug)]
pub struct CountedRows;

impl AnalyzerRule for CountedRows {
    fn name(&self) -> &str {
        "counted_rows"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        changed(plan, is_distinct_count, counted)
    }
}

fn is_distinct_count(expr: &Expr) -> bool {
    matches!(expr, Expr::AggregateFunction(aggregate) if aggregate.func.name() == "count" && aggregate.params.distinct)
}

fn counted(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    static BYTES: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(RowBytes::default())));
    if !is_distinct_count(&expr) {
        return Ok(Transformed::no(expr));
    }
    let Expr::AggregateFunction(aggregate) = &mut expr else { return Ok(Transformed::no(expr)) };
    let [counted] = aggregate.params.args.as_mut_slice() else { return Ok(Transformed::no(expr)) };
    let of = counted.get_type(schema)?;
    if !of.is_nested() || !RowConverter::supports_fields(&[SortField::new(of)]) {
        return Ok(Transformed::no(expr));
    }
    let row = std::mem::take(counted);
    *counted = Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&BYTES), vec![row]));
    Ok(Transformed::yes(expr))
}

#[cfg(test)]
mod tests {
    use crate::testing::{context, rows, runtime};

    #[test]
    fn rows_are_counted_beside_other_aggregates() {
        for (sql, expected) in [
            ("count(DISTINCT named_struct('a', v % 10, 'b', v % 4)), count(*)", [20, 20_000]),
            ("count(DISTINCT make_array(v % 10)), max(v)", [10, 20_000]),
        ] {
            let sql = format!("SELECT {sql} FROM generate_series(1, 20000) t(v)");
            let expected = expected.map(Some).to_vec();
            assert_eq!(runtime().block_on(rows(&context(), &sql)), Ok(vec![expected]), "{sql}");
        }
    }
}
