//! The function that makes decimals of floats.
//!
//! Invariants:
//! - A float is the number of the digits that it is sure of, 15 of a double and six of a REAL, as in PostgreSQL, rounded half away from zero:
//!   `CAST(x AS DECIMAL(10, 2))` of 10.1 * 1.15, which is 11.614999999999998, is 11.62.
//! - Of what PostgreSQL has as NUMERIC (`alluvia_plan::before_types::rounding::Rounding::is_exact`) more digits are taken where the scale is behind them: as many as tell
//!   the float from its neighbours.
//! - It is called what it stands for, a cast: a column keeps its name.

use crate::codec::{StateReader, StateWriter, Stateful};
use crate::columnar::by_arrays;
use crate::delegate::name_of_arguments;
use alluvia_values::float_to_decimal::Target;
use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use arrow::datatypes::{DataType, Decimal128Type, Float32Type, Float64Type};
use datafusion_common::utils::take_function_args;
use datafusion_common::{DataFusionError, Result, exec_datafusion_err, exec_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use std::sync::Arc;

const NAME: &str = "decimal_of_float";

/// The decimal that a float is.
pub fn decimal_of(float: Expr, target: Target) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::from(DecimalOfFloat::new(target))), vec![float]))
}

/// Whether it is of [`decimal_of`].
pub fn is_decimal_of(function: &ScalarFunction) -> bool {
    function.name() == NAME
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct DecimalOfFloat {
    target: Target,
    signature: Signature,
}

impl Stateful for DecimalOfFloat {
    const CODE: &'static str = "decimal_of_float";

    fn write(&self, state: &mut StateWriter) -> Result<()> {
        let Target { precision, scale, is_exact, is_tried } = self.target;
        state.byte(precision);
        state.number(scale.into());
        state.byte(u8::from(is_exact));
        state.byte(u8::from(is_tried));
        Ok(())
    }

    fn read(state: &mut StateReader<'_>) -> Result<Self> {
        let (precision, scale) = (state.byte()?, state.number()?);
        let scale = i8::try_from(scale).map_err(|_| exec_datafusion_err!("{scale} is no scale"))?;
        let target = Target { precision, scale, is_exact: state.flag()?, is_tried: state.flag()? };
        Ok(DecimalOfFloat::new(target))
    }
}

impl DecimalOfFloat {
    fn new(target: Target) -> DecimalOfFloat {
        DecimalOfFloat { target, signature: Signature::any(1, Volatility::Immutable) }
    }

    fn array(&self, floats: &ArrayRef) -> Result<ArrayRef> {
        let target = self.target;
        let made: Decimal128Array = match floats.data_type() {
            DataType::Float64 => {
                let floats = floats.as_primitive::<Float64Type>();
                if target.is_tried {
                    floats.unary_opt(|value| target.of_double(value))
                } else {
                    let made = |value| target.of_double(value).ok_or_else(|| target.does_not_fit(&value));
                    floats.try_unary::<_, Decimal128Type, DataFusionError>(made)?
                }
            }
            DataType::Float32 => {
                let floats = floats.as_primitive::<Float32Type>();
                if target.is_tried {
                    floats.unary_opt(|value| target.of_real(value))
                } else {
                    let made = |value| target.of_real(value).ok_or_else(|| target.does_not_fit(&value));
                    floats.try_unary::<_, Decimal128Type, DataFusionError>(made)?
                }
            }
            other => return exec_err!("{other} is no float"),
        };
        Ok(Arc::new(made.with_precision_and_scale(target.precision, target.scale)?))
    }
}

impl ScalarUDFImpl for DecimalOfFloat {
    fn name(&self) -> &str {
        NAME
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(name_of_arguments(args))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Decimal128(self.target.precision, self.target.scale))
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
