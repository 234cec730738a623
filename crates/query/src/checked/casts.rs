//! Casts and moments that lose nothing in silence.
//!
//! Invariants:
//! - A float becomes the nearest integer, and of two the even one; a number that is written out becomes the one further from zero. DataFusion
//!   55.2 cuts off what is behind the point.
//! - A date and a part of a day are not added: DataFusion 55.2 gives a date, and drops the part. PostgreSQL gives a timestamp.

use super::expressions::changed;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type, IntervalUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::utils::take_function_args;
use datafusion::common::{DFSchema, Result, exec_err, not_impl_err};
use datafusion::logical_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::scalar::ScalarValue;
use std::sync::{Arc, LazyLock};

/// Nanoseconds of a day.
const DAY: i64 = 86_400_000_000_000;

/// Puts rounding where floats are cast to integers, and refuses dates with parts of days. Types must have been coerced.
#[derive(Debug)]
pub(crate) struct LosslessCasts;

impl AnalyzerRule for LosslessCasts {
    fn name(&self) -> &str {
        "lossless_casts"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        changed(plan, may_lose, rounded_expr)
    }
}

fn may_lose(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(Cast { field, .. }) | Expr::TryCast(TryCast { field, .. }) => field.data_type().is_integer(),
        Expr::BinaryExpr(binary) => matches!(binary.op, Operator::Plus | Operator::Minus),
        _ => false,
    }
}

fn rounded_expr(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_float = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Float32 | DataType::Float64));
    let is_date = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Date32));
    match expr {
        Expr::Cast(Cast { expr: of, field }) if field.data_type().is_integer() && is_float(&of) => {
            Ok(Transformed::yes(Expr::Cast(Cast { expr: Box::new(rounded(*of)), field })))
        }
        Expr::TryCast(TryCast { expr: of, field }) if field.data_type().is_integer() && is_float(&of) => {
            Ok(Transformed::yes(Expr::TryCast(TryCast { expr: Box::new(rounded(*of)), field })))
        }
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Plus | Operator::Minus), right })
            if is_date(&left) && is_part_of_day(&right) || is_date(&right) && is_part_of_day(&left) =>
        {
            let word = if op == Operator::Plus { "adding hours to" } else { "taking hours from" };
            not_impl_err!("{word} a date is not supported: write CAST(x AS TIMESTAMP) for the date")
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Whether it is an interval that is written out and no number of days.
fn is_part_of_day(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(interval)), _) => interval.nanoseconds % DAY != 0,
        Expr::Literal(ScalarValue::IntervalDayTime(Some(interval)), _) => interval.milliseconds % 86_400_000 != 0,
        // Also a text, as parameters are written.
        Expr::Cast(cast) => match cast.expr.as_ref() {
            Expr::Literal(text, metadata) if matches!(cast.field.data_type(), DataType::Interval(_)) => {
                let interval = text.cast_to(&DataType::Interval(IntervalUnit::MonthDayNano));
                interval.is_ok_and(|interval| is_part_of_day(&Expr::Literal(interval, metadata.clone())))
            }
            inner => is_part_of_day(inner),
        },
        _ => false,
    }
}

fn rounded(of: Expr) -> Expr {
    static EVEN: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(Rounded::new(true))));
    static AWAY: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(Rounded::new(false))));
    let is_written = match &of {
        Expr::Literal(..) => true,
        Expr::Negative(inner) => matches!(**inner, Expr::Literal(..)),
        _ => false,
    };
    let function = Arc::clone(if is_written { &AWAY } else { &EVEN });
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![of]))
}

/// The nearest float without a fraction.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Rounded {
    to_even: bool,
    signature: Signature,
}

impl Rounded {
    fn new(to_even: bool) -> Rounded {
        Rounded { to_even, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Rounded {
    fn name(&self) -> &str {
        if self.to_even { "nearest_even" } else { "nearest_away" }
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        // As what is cast.
        Ok(args.iter().map(|arg| arg.schema_name().to_string()).collect())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types[0].clone())
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = take_function_args(self.name(), args.args)?;
        let (values, is_scalar) = match value {
            ColumnarValue::Array(values) => (values, false),
            ColumnarValue::Scalar(value) => (value.to_array()?, true),
        };
        let to_even = self.to_even;
        let rounded: ArrayRef = match values.data_type() {
            DataType::Float64 => {
                let round = |value: f64| if to_even { value.round_ties_even() } else { value.round() };
                Arc::new(values.as_primitive::<Float64Type>().unary::<_, Float64Type>(round)) as _
            }
            DataType::Float32 => {
                let round = |value: f32| if to_even { value.round_ties_even() } else { value.round() };
                Arc::new(values.as_primitive::<Float32Type>().unary::<_, Float32Type>(round)) as _
            }
            other => return exec_err!("{other} is no float"),
        };
        Ok(if is_scalar {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&rounded, 0)?)
        } else {
            ColumnarValue::Array(rounded)
        })
    }
}
