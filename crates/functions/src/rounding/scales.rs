//! `scale`, `min_scale` and `trim_scale`: how many digits a number has behind its point.
//!
//! Invariants:
//! - A DECIMAL has the digits of its type, a NUMERIC those that are shown, a number that is written, or a double, those of its shortest form,
//!   and a whole number none.
//! - `trim_scale` is a NUMERIC, which is shown without zeros at its end.

use crate::casts::kinds::{Kind, NUMERIC, field_of};
use crate::casts::typed::numeric_of_text;
use crate::columnar::by_arrays;
use alluvia_values::convert::texts_of;
use alluvia_values::errors::wrap;
use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Int32Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::utils::take_function_args;
use datafusion_common::{Result, plan_err};
use datafusion_expr::{ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use std::sync::Arc;

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Digits {
    /// `scale`
    Scale,
    /// `min_scale`
    Least,
    /// `trim_scale`
    Trimmed,
}

/// One of them.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Scales {
    of: Digits,
    signature: Signature,
}

impl Scales {
    pub(crate) fn new(of: Digits) -> Scales {
        Scales { of, signature: Signature::user_defined(Volatility::Immutable) }
    }

    fn array(&self, values: &ArrayRef) -> Result<ArrayRef> {
        let texts = cast(&texts_of(values).map_err(wrap)?, &DataType::Utf8View)?;
        let texts = texts.as_string_view();
        if self.of == Digits::Trimmed {
            let numbers = texts.iter().map(|text| text.map(numeric_of_text).transpose());
            return Ok(Arc::new(numbers.collect::<Result<Decimal128Array>>()?.with_data_type(NUMERIC)));
        }
        let is_shown = self.of == Digits::Least || *values.data_type() == NUMERIC;
        let digits = |text: &str| {
            let part = text.split_once('.').map_or("", |(_, part)| part);
            (if is_shown { part.trim_end_matches('0') } else { part }).len() as i32
        };
        Ok(Arc::new(texts.iter().map(|text| text.map(digits)).collect::<Int32Array>()))
    }
}

impl ScalarUDFImpl for Scales {
    fn name(&self) -> &str {
        match self.of {
            Digits::Scale => "scale",
            Digits::Least => "min_scale",
            Digits::Trimmed => "trim_scale",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [of] if of.is_numeric() => Ok(vec![of.clone()]),
            [DataType::Null] => Ok(vec![DataType::Int64]),
            _ => plan_err!("{} takes a number", self.name()),
        }
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(if self.of == Digits::Trimmed { NUMERIC } else { DataType::Int32 })
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(match self.of {
            Digits::Trimmed => field_of(Kind::Numeric, self.name()),
            _ => Arc::new(Field::new(self.name(), DataType::Int32, true)),
        })
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        by_arrays(&args.args, |values| {
            let [values] = take_function_args(self.name(), values)?;
            self.array(&values)
        })
    }
}
