//! `generate_series` and `range` over moments.
//!
//! Invariant: moments are microseconds, as everywhere in SQL; what DataFusion's functions cannot reach, whose moments are nanoseconds, is
//! refused by name. All else is theirs.

use crate::session::wrap;
use alluvia_types::{Error, ErrorKind};
use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion::catalog::default_table_source::provider_as_source;
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::ViewTable;
use datafusion::execution::session_state::SessionState;
use datafusion::functions_table::generate_series::{GenerateSeriesFunc, RangeFunc};
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, cast, col};
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

/// What the functions' only column is called.
const COLUMN: &str = "value";
const STEP: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const MICRO_NANOS: i64 = 1_000;

/// Puts ours in the place of DataFusion's.
pub(super) fn register(state: &mut SessionState) {
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
        let is_of_moments = matches!(args.exprs(), [Expr::Literal(first, _), ..]
            if matches!(first.data_type(), DataType::Timestamp(..) | DataType::Date32));
        if !is_of_moments {
            return self.inner.call_with_args(args);
        }
        let exprs = args.exprs().iter().enumerate().map(|(at, arg)| if at < 2 { nanos(arg) } else { step(arg) });
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

fn out_of_range() -> datafusion::common::DataFusionError {
    let message = "a series of moments before 1677-09-22 or after 2262-04-11 is not supported";
    wrap(
        Error::new(ErrorKind::NotSupported, message)
            .with_hint("add a series of numbers times an INTERVAL to the moment"),
    )
}
