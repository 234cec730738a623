//! `generate_series` and `range` in FROM, over timestamps and over integers of any width.
//!
//! Invariants:
//! - Timestamps are microseconds, as everywhere in SQL; what DataFusion's functions cannot reach, whose timestamps are nanoseconds, is
//!   refused by name. All else is theirs.
//! - Whole numbers are of any width; their rows are BIGINT.
//! - Dates are the timestamps at which they begin, so that a step may be a part of a day.
//!
//! Mends apache/datafusion#25169 (in 55.2).
//! Held by `slt/select.slt`
//! (`FROM generate_series(TIMESTAMP '2024-01-01', TIMESTAMP '2024-01-02', INTERVAL '12 hours')`).

use alluvia_functions::datetime::generate_series::{STEP, out_of_range};
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::catalog::default_table_source::provider_as_source;
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, Result};
use datafusion::datasource::ViewTable;
use datafusion::execution::session_state::SessionState;
use datafusion::functions_table::generate_series::{GenerateSeriesFunc, RangeFunc};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlanBuilder, cast, col};
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

/// What the functions' only column is called.
const COLUMN: &str = "value";
const MICRO_NANOS: i64 = 1_000;

/// Puts ours in the place of DataFusion's.
pub fn register(state: &mut SessionState) {
    state.register_udtf("generate_series", Arc::new(Series { name: "generate_series", inner: GenerateSeriesFunc {} }));
    state.register_udtf("range", Arc::new(Series { name: "range", inner: RangeFunc {} }));
}

#[derive(Debug)]
struct Series<F> {
    name: &'static str,
    inner: F,
}

impl<F: TableFunctionImpl> TableFunctionImpl for Series<F> {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let known = args.exprs().iter().map(without_parameters).collect::<Result<Vec<Expr>>>()?;
        let is_of_moments = matches!(known.as_slice(), [Expr::Literal(first, _), ..]
            if matches!(first.data_type(), DataType::Timestamp(..) | DataType::Date32));
        if !is_of_moments {
            let exprs = known.into_iter().map(wide).collect::<Result<Vec<Expr>>>()?;
            return self.inner.call_with_args(TableFunctionArgs::new(&exprs, args.session()));
        }
        let exprs = known.iter().enumerate().map(|(at, arg)| if at < 2 { nanos(arg) } else { step(arg) });
        let exprs = exprs.collect::<Result<Vec<Expr>>>()?;
        let series = self.inner.call_with_args(TableFunctionArgs::new(&exprs, args.session()))?;
        let DataType::Timestamp(_, zone) = series.schema().field(0).data_type().clone() else { return Ok(series) };
        let moment = DataType::Timestamp(TimeUnit::Microsecond, zone);
        let plan = LogicalPlanBuilder::scan(self.name, provider_as_source(series), None)?
            .project([cast(col(COLUMN), moment).alias(COLUMN)])?
            .build()?;
        Ok(Arc::new(ViewTable::new(plan, None)))
    }
}

/// A bound that has no value yet, of a statement that is described, as the NULL of its type.
fn without_parameters(bound: &Expr) -> Result<Expr> {
    let has_parameter = bound.exists(|expr| Ok(matches!(expr, Expr::Placeholder(_))))?;
    if !has_parameter {
        return Ok(bound.clone());
    }
    let null = match bound.get_type(&DFSchema::empty()) {
        Ok(data_type) => ScalarValue::try_from(&data_type)?,
        Err(_) => ScalarValue::Null,
    };
    Ok(Expr::Literal(null, None))
}

/// A whole number of any width as the functions take it.
fn wide(bound: Expr) -> Result<Expr> {
    match bound {
        Expr::Literal(value, metadata) if value.data_type().is_integer() => {
            let value = if value.is_null() { ScalarValue::Null } else { value.cast_to(&DataType::Int64)? };
            Ok(Expr::Literal(value, metadata))
        }
        other => Ok(other),
    }
}

/// A bound as the functions take it.
fn nanos(bound: &Expr) -> Result<Expr> {
    let Expr::Literal(value, metadata) = bound else { return Ok(bound.clone()) };
    let value = match value {
        ScalarValue::TimestampMicrosecond(micros, zone) => {
            let nanos = micros.map(|micros| micros.checked_mul(MICRO_NANOS).ok_or_else(out_of_range)).transpose()?;
            ScalarValue::TimestampNanosecond(nanos, zone.clone())
        }
        ScalarValue::Utf8(_) | ScalarValue::LargeUtf8(_) | ScalarValue::Utf8View(_) => {
            value.cast_to(&DataType::Timestamp(TimeUnit::Nanosecond, None))?
        }
        ScalarValue::Date32(_) => {
            value.cast_to(&DataType::Timestamp(TimeUnit::Nanosecond, None)).map_err(|_| out_of_range())?
        }
        other => other.clone(),
    };
    Ok(Expr::Literal(value, metadata.clone()))
}

/// A step, also one that is written as text.
fn step(step: &Expr) -> Result<Expr> {
    match step {
        Expr::Literal(value, metadata) if !value.is_null() => {
            Ok(Expr::Literal(value.cast_to(&STEP)?, metadata.clone()))
        }
        other => Ok(other.clone()),
    }
}
