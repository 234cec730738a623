//! The function that reads intervals from texts.
//!
//! Invariants:
//! - It reads what PostgreSQL reads ([`alluvia_values::interval::interval_of`]), so that an interval that was written as text is that interval again; anything else
//!   is an error, or NULL for TRY_CAST.
//! - It is called what it stands for, a cast: a column keeps its name.
//!
//! DataFusion 55.2 reads no clock times, and takes a number without a unit for months.
//!
//! Mends apache/datafusion#11454 (in 55.2).
//! Held by `slt/intervals_compared.slt` (`SELECT k, t::interval::text FROM iv`).

use crate::bytes::text_literal;
use crate::codec::{StateReader, StateWriter, Stateful};
use crate::columnar::by_arrays;
use crate::delegate::name_of_arguments;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::wrap;
use alluvia_values::interval::interval_of;
use arrow::array::{ArrayRef, AsArray, IntervalMonthDayNanoArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalUnit};
use datafusion_common::utils::take_function_args;
use datafusion_common::{Result as Planned, ScalarValue};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit};
use std::sync::Arc;

/// What is read.
pub const SPAN: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// Intervals for texts, or where they are none an error, or NULL if it is only tried.
pub fn read(text: Expr, is_tried: bool) -> Expr {
    // What is written is known by its value, also to who adds it to a date.
    if let Some(Some(written)) = text_literal(&text)
        && let Some((months, days, nanos)) = interval_of(written)
    {
        return lit(ScalarValue::new_interval_mdn(months, days, nanos));
    }
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::from(ReadInterval::new(is_tried))), vec![text]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct ReadInterval {
    is_tried: bool,
    signature: Signature,
}

impl Stateful for ReadInterval {
    const CODE: &'static str = "interval_of_text";

    fn write(&self, state: &mut StateWriter) -> Planned<()> {
        state.byte(u8::from(self.is_tried));
        Ok(())
    }

    fn read(state: &mut StateReader<'_>) -> Planned<Self> {
        Ok(ReadInterval::new(state.flag()?))
    }
}

impl ReadInterval {
    fn new(is_tried: bool) -> ReadInterval {
        ReadInterval { is_tried, signature: Signature::any(1, Volatility::Immutable) }
    }

    fn array(&self, texts: &ArrayRef) -> Planned<ArrayRef> {
        let texts = cast(texts, &DataType::Utf8View)?;
        let each = |text: Option<&str>| match text {
            Some(text) => self.one(text),
            None => Ok(None),
        };
        let all = texts.as_string_view().iter().map(each).collect::<Result<IntervalMonthDayNanoArray>>();
        Ok(Arc::new(all.map_err(wrap)?))
    }

    fn one(&self, text: &str) -> Result<Option<IntervalMonthDayNano>> {
        match interval_of(text) {
            Some((months, days, nanos)) => Ok(Some(IntervalMonthDayNano::new(months, days, nanos))),
            None if self.is_tried => Ok(None),
            None => {
                Err(Error::new(ErrorKind::InvalidText, format!("invalid input syntax for type interval: \"{text}\"")))
            }
        }
    }
}

impl ScalarUDFImpl for ReadInterval {
    fn name(&self) -> &str {
        if self.is_tried { "interval_if_any" } else { "interval_of_text" }
    }

    fn schema_name(&self, args: &[Expr]) -> Planned<String> {
        Ok(name_of_arguments(args))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Planned<DataType> {
        Ok(SPAN)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Planned<ColumnarValue> {
        by_arrays(&args.args, |texts| {
            let [texts] = take_function_args(self.name(), texts)?;
            self.array(&texts)
        })
    }
}
