//! `generate_series` and `range` over timestamps, as lists. In FROM they are `alluvia_plan::table_functions`.
//!
//! Invariants:
//! - Moments are microseconds, as everywhere in SQL; what DataFusion's functions cannot reach, whose moments are nanoseconds, is
//!   refused by name. All else is theirs.
//! - Whole numbers are of any width.
//! - Dates are the timestamps at which they begin, so that a step may be a part of a day.
//!
//! Mends DataFusion (in 55.2): no issue upstream known (searched 2026-11-27: generate_series, date, interval less than
//! a day, microseconds, out of range).
//! Held by `slt/everyday.slt` (`generate_series(DATE '2024-01-01', DATE '2024-01-02', INTERVAL '6 hours')`,
//! `TIMESTAMP '3024-01-01'`).

use crate::columnar::{as_columnar, is_constant};
use alluvia_types::{Error, ErrorKind};
use alluvia_values::errors::wrap;
use arrow::compute::{CastOptions, cast as cast_array, cast_with_options};
use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};
use datafusion_common::{Result, exec_err, plan_err};
use datafusion_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// The type of a step.
pub const STEP: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// DataFusion's function of lists, of moments in microseconds.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct ListedSeries {
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

impl ListedSeries {
    /// Around DataFusion's `generate_series` or `range`.
    pub(crate) fn new(inner: Arc<ScalarUDF>) -> ListedSeries {
        ListedSeries { inner, signature: Signature::user_defined(Volatility::Immutable) }
    }
}

/// The moment that bounds of these types are; `None` if they are none.
fn timestamp_type_of(bounds: &[DataType]) -> Option<DataType> {
    let is_moment = |of: &DataType| matches!(of, DataType::Timestamp(..) | DataType::Date32 | DataType::Date64);
    if !bounds.iter().any(is_moment) || !bounds.iter().all(|of| is_moment(of) || of.is_string() || of.is_null()) {
        return None;
    }
    let zone = bounds.iter().find_map(|of| match of {
        DataType::Timestamp(_, zone) => zone.clone(),
        _ => None,
    });
    Some(DataType::Timestamp(TimeUnit::Microsecond, zone))
}

fn list_of(element: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(element, true)))
}

impl ScalarUDFImpl for ListedSeries {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let is_step = |of: &DataType| matches!(of, DataType::Interval(_)) || of.is_string() || of.is_null();
        if let [from, to, step] = types
            && let Some(moment) = timestamp_type_of(&[from.clone(), to.clone()])
            && is_step(step)
        {
            return Ok(vec![moment.clone(), moment, STEP]);
        }
        if (1..=3).contains(&types.len()) && types.iter().all(|of| of.is_integer() || of.is_null()) {
            return Ok(vec![DataType::Int64; types.len()]);
        }
        plan_err!("{} takes whole numbers, or two moments and an interval", self.name())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(list_of(types.first().cloned().unwrap_or(DataType::Int64)))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(DataType::Timestamp(_, zone)) = args.args.first().map(ColumnarValue::data_type) else {
            return self.inner.inner().invoke_with_args(args);
        };
        let is_scalar = is_constant(&args.args);
        let mut arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let finer = DataType::Timestamp(TimeUnit::Nanosecond, zone.clone());
        let strict = CastOptions { safe: false, ..CastOptions::default() };
        for bound in arrays.iter_mut().take(2) {
            *bound = cast_with_options(bound, &finer, &strict).map_err(|_| out_of_range())?;
        }
        let arrays = arrays.into_iter().map(ColumnarValue::Array).collect();
        let made = self.inner.inner().invoke_with_args(ScalarFunctionArgs { args: arrays, ..args })?;
        let ColumnarValue::Array(made) = made else { return exec_err!("{} made no lists of its arrays", self.name()) };
        let lists = cast_array(&made, &list_of(DataType::Timestamp(TimeUnit::Microsecond, zone)))?;
        as_columnar(lists, is_scalar)
    }
}

/// What a series of timestamps that DataFusion does not reach fails with.
pub fn out_of_range() -> datafusion_common::DataFusionError {
    let message = "a series of moments before 1677-09-22 or after 2262-04-11 is not supported";
    wrap(
        Error::new(ErrorKind::NotSupported, message)
            .with_hint("add a series of numbers times an INTERVAL to the moment"),
    )
}
