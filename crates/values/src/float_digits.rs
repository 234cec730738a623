//! Floats that become decimals by the digits that they are sure of.
//!
//! Invariants:
//! - As in PostgreSQL, a double is the number of its first 15 digits, a REAL that of its first six, rounded half away from zero to the
//!   decimal's scale: 1.115 is 1.12, though its double is a little less. Where the scale is behind these a double keeps more digits.
//! - What does not fit is reported.

use crate::float_to_decimal::{assigned_double, assigned_real};
use crate::parse::Bad;
use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use arrow::datatypes::{DataType as ArrowType, Float32Type, Float64Type};

/// Decimals of this type; `None` of anything but floats. `bad` gets the rows whose value does not fit, and NULL stands there.
pub fn decimals(floats: &ArrayRef, precision: u8, scale: u8, bad: &mut Vec<(usize, Bad)>) -> Option<Decimal128Array> {
    let found: Decimal128Array = match floats.data_type() {
        ArrowType::Float64 => {
            floats.as_primitive::<Float64Type>().unary_opt(|value| assigned_double(value, precision, scale))
        }
        ArrowType::Float32 => {
            floats.as_primitive::<Float32Type>().unary_opt(|value| assigned_real(value, precision, scale))
        }
        _ => return None,
    };
    if found.null_count() > floats.null_count() {
        let is_lost = |row: &usize| found.is_null(*row) && floats.is_valid(*row);
        bad.extend((0..found.len()).filter(is_lost).map(|row| (row, Bad::Range)));
    }
    found.with_precision_and_scale(precision, i8::try_from(scale).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float32Array, Float64Array};
    use std::sync::Arc;

    fn of_doubles(values: Vec<f64>, precision: u8, scale: u8) -> (Vec<Option<i128>>, usize) {
        let mut bad = Vec::new();
        let floats: ArrayRef = Arc::new(Float64Array::from(values));
        let found = decimals(&floats, precision, scale, &mut bad).expect("floats");
        (found.iter().collect(), bad.len())
    }

    /// PostgreSQL 15's `x::double precision::numeric(20, n)`.
    #[test]
    fn floats_are_their_first_digits() {
        let values = vec![1.115, 0.285, 10.075, -1.115, 0.1 + 0.2, 0.0, -0.0, 1e-300];
        let wanted = [112, 29, 1008, -112, 30, 0, 0, 0].map(Some).to_vec();
        assert_eq!(of_doubles(values, 20, 2), (wanted, 0));
        // An average of whole numbers, which is NUMERIC there.
        let wanted = vec![Some(100_000_000_000_000_150), Some(10_i128.pow(19))];
        assert_eq!(of_doubles(vec![1_000_000_000_000_001.5, 1e17], 20, 2), (wanted, 0));
        assert_eq!(of_doubles(vec![f64::NAN, f64::INFINITY, 1e300, 1e18], 20, 2), (vec![None; 4], 4));
        let reals: ArrayRef = Arc::new(Float32Array::from(vec![2.675_f32, 16_777_216.0]));
        let found = decimals(&reals, 20, 2, &mut Vec::new()).expect("floats");
        assert_eq!(found.values().to_vec(), [268, 1_677_720_000]);
    }
}
