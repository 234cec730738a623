//! `round(x, n)` of decimals, whose type is as it is written.
//!
//! Invariants:
//! - Of a `DECIMAL(p, s)` and an n that is a constant, or computed of constants, it has n digits behind the point, or s
//!   where there are no more, from the first rule of the analyzer to the last row. Of any other n it has s.
//! - What is halfway goes away from zero, and one digit more before the point always fits, but for 38 digits.
//! - Floats are rounded as [`crate::rounding::round`] round them, and integers by DataFusion.
//! - It is called `round`, of the same arguments: a column keeps its name.
//!
//! DataFusion 55.2 looks whether n is a literal. It is when a statement is parsed, is the cast of one once types are coerced, and is one again
//! when constants have been folded: what was made of the type in between was off by powers of ten, or failed.
//!
//! Mends DataFusion (in 55.2): no issue upstream known (searched 2026-11-27: round, decimal, scale, literal, return
//! type, constant folding).
//! Held by `slt/rounded.slt` (`round(price, 1::int)`, `round(price, 3 - 2)`).

use crate::codec::{StateReader, StateWriter, Stateful};
use crate::columnar::by_arrays;
use crate::delegate::delegate_scalar;
use crate::rounding::round::floats_at;
use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Field, FieldRef, Int64Type};
use datafusion_common::tree_node::Transformed;
use datafusion_common::utils::take_function_args;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};
use std::sync::Arc;

/// Puts ours in the place of DataFusion's function; `places` is the value of the second argument, if it is a constant.
pub fn placed(round: Arc<ScalarUDF>, args: [Expr; 2], places: Option<&ScalarValue>) -> Transformed<Expr> {
    if round.inner().downcast_ref::<RoundedAt>().is_some() {
        return Transformed::no(Expr::ScalarFunction(ScalarFunction::new_udf(round, args.into())));
    }
    let ours = Arc::new(ScalarUDF::from(RoundedAt { places: places.and_then(whole), inner: round }));
    Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(ours, args.into())))
}

fn whole(places: &ScalarValue) -> Option<i64> {
    match places.cast_to(&DataType::Int64) {
        Ok(ScalarValue::Int64(number)) if places.data_type().is_integer() => number,
        _ => None,
    }
}

/// The type of a decimal that is rounded; `None` of what is none.
fn type_of(decimal: &DataType, places: Option<i64>) -> Option<DataType> {
    let digits = |precision: u8, scale: i8, most: u8| match places {
        Some(places) if places >= 0 || scale > 0 => {
            (precision, i8::try_from(places.max(0)).map_or(scale, |places| places.min(scale)))
        }
        // What is rounded up may have one digit more before the point, and no fewer behind it.
        _ => (precision.saturating_add(1).min(most), scale),
    };
    match *decimal {
        DataType::Decimal128(precision, scale) => {
            let (precision, scale) = digits(precision, scale, DECIMAL128_MAX_PRECISION);
            Some(DataType::Decimal128(precision, scale))
        }
        DataType::Decimal256(precision, scale) => {
            let (precision, scale) = digits(precision, scale, DECIMAL256_MAX_PRECISION);
            Some(DataType::Decimal256(precision, scale))
        }
        _ => None,
    }
}

/// DataFusion's function, of a number of places that is known or not.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct RoundedAt {
    places: Option<i64>,
    inner: Arc<ScalarUDF>,
}

impl Stateful for RoundedAt {
    const CODE: &'static str = "round_at";

    fn write(&self, state: &mut StateWriter) -> Result<()> {
        state.optional(self.places);
        state.scalar(&self.inner)
    }

    fn read(state: &mut StateReader<'_>) -> Result<Self> {
        Ok(RoundedAt { places: state.optional()?, inner: state.scalar()? })
    }
}

impl ScalarUDFImpl for RoundedAt {
    delegate_scalar!(name, signature, return_type, output_ordering, documentation);

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        match args.arg_fields.first().and_then(|of| type_of(of.data_type(), self.places)) {
            Some(rounded) => {
                let is_nullable = args.arg_fields.iter().any(|field| field.is_nullable());
                Ok(Arc::new(Field::new(self.name(), rounded, is_nullable)))
            }
            None => self.inner.return_field_from_args(args),
        }
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if args.args.iter().any(|arg| matches!(arg, ColumnarValue::Scalar(value) if value.is_null())) {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from(args.return_type())?));
        }
        match args.args.first().map(ColumnarValue::data_type) {
            Some(DataType::Float64 | DataType::Float32) => by_arrays(&args.args, |arrays| {
                let [values, places] = take_function_args(self.name(), arrays)?;
                floats_at(&values, cast(&places, &DataType::Int64)?.as_primitive::<Int64Type>())
            }),
            // A smaller scale takes the nearest, and of two the one further from zero.
            Some(DataType::Decimal128(..) | DataType::Decimal256(..))
                if self.places.is_some_and(|places| places >= 0) =>
            {
                by_arrays(&args.args[..1], |arrays| {
                    let [values] = take_function_args(self.name(), arrays)?;
                    Ok(cast(&values, args.return_type())?)
                })
            }
            _ => self.inner.invoke_with_args(args),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::DataType::Decimal128;

    #[test]
    fn types_are_those_of_the_number_that_is_written() {
        for (of, places, expected) in [
            ((12, 2), Some(1), (12, 1)),
            ((12, 2), Some(0), (12, 0)),
            ((12, 2), Some(2), (12, 2)),
            ((12, 2), Some(1000), (12, 2)),
            ((12, 2), Some(-2), (12, 0)),
            ((12, 0), Some(-2), (13, 0)),
            ((12, 0), Some(2), (12, 0)),
            ((12, 2), None, (13, 2)),
            ((38, 0), Some(-1), (38, 0)),
            ((38, 4), None, (38, 4)),
        ] {
            let found = type_of(&Decimal128(of.0, of.1), places);
            assert_eq!(found, Some(Decimal128(expected.0, expected.1)), "{of:?} at {places:?}");
        }
        assert_eq!(type_of(&DataType::Float64, Some(1)), None);
    }
}
