//! `generate_series` and `range` over moments, in FROM and as lists.
//!
//! Invariants:
//! - Moments are microseconds, as everywhere in SQL; what DataFusion's functions cannot reach, whose moments are nanoseconds, is
//!   refused by name. All else is theirs.
//! - Whole numbers are of any width; their rows are BIGINT.
//! - Dates are the timestamps at which they begin, in FROM and in lists, so that a step may be a part of a day.

use crate::checked::given::{given, is_constant};
use crate::session::wrap;
use alluvia_types::{Error, ErrorKind};
use arrow::compute::{CastOptions, cast as cast_array, cast_with_options};
use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};
use datafusion::catalog::default_table_source::provider_as_source;
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, Result, exec_err, plan_err};
use datafusion::datasource::ViewTable;
use datafusion::execution::session_state::SessionState;
use datafusion::functions_nested::range::{gen_series_udf, range_udf};
use datafusion::functions_table::generate_series::{GenerateSeriesFunc, RangeFunc};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ExprSchemable, LogicalPlanBuilder, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, cast, col,
};
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

/// The functions that make lists.
pub(super) fn lists() -> [ScalarUDF; 2] {
    [gen_series_udf(), range_udf()].map(|inner| {
        let signature = Signature::user_defined(Volatility::Immutable);
        ScalarUDF::from(ListedSeries { inner, signature })
    })
}

/// DataFusion's function of lists, of moments in microseconds.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ListedSeries {
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

/// The moment that bounds of these types are; `None` if they are none.
fn moment_of(bounds: &[DataType]) -> Option<DataType> {
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
            && let Some(moment) = moment_of(&[from.clone(), to.clone()])
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
        given(lists, is_scalar)
    }
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

fn out_of_range() -> datafusion::common::DataFusionError {
    let message = "a series of moments before 1677-09-22 or after 2262-04-11 is not supported";
    wrap(
        Error::new(ErrorKind::NotSupported, message)
            .with_hint("add a series of numbers times an INTERVAL to the moment"),
    )
}
