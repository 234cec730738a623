//! Gives every NaN the same pattern of bits.
//!
//! Invariant: what is stored, and what arithmetic of floats makes, has no NaN whose sign is set. Sorts look at bits, and such a NaN, which
//! `'Infinity'::float8 - 'Infinity'::float8` is on x86, would come before all numbers and not after them.

use arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::{Float32Type, Float64Type};
use std::sync::Arc;

/// The same values with the one NaN; what is no float is given back as it is.
pub fn one_nan(values: &ArrayRef) -> ArrayRef {
    let changed = if let Some(values) = values.as_primitive_opt::<Float64Type>() {
        changed(values, f64::NAN)
    } else if let Some(values) = values.as_primitive_opt::<Float32Type>() {
        changed(values, f32::NAN)
    } else {
        None
    };
    changed.unwrap_or_else(|| Arc::clone(values))
}

/// `None` if there is no NaN, which takes one pass without branches to see.
fn changed<T: ArrowPrimitiveType>(values: &PrimitiveArray<T>, nan: T::Native) -> Option<ArrayRef> {
    let any = values.values().iter().fold(false, |any, value| any | is_nan(value));
    any.then(|| Arc::new(values.unary::<_, T>(|value| if is_nan(&value) { nan } else { value })) as ArrayRef)
}

/// Whether it is not even equal to itself.
fn is_nan<N: PartialOrd>(value: &N) -> bool {
    value.partial_cmp(value).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Array, Float32Array, Float64Array, Int64Array};

    #[test]
    fn nans_lose_their_signs_and_all_else_stays() {
        let doubles: ArrayRef =
            Arc::new(Float64Array::from(vec![Some(-f64::NAN), None, Some(-0.0), Some(f64::INFINITY)]));
        let found = one_nan(&doubles);
        let found = found.as_primitive::<Float64Type>();
        let bits: Vec<Option<u64>> = found.iter().map(|value| value.map(f64::to_bits)).collect();
        let expected = [Some(f64::NAN), None, Some(-0.0), Some(f64::INFINITY)].map(|value| value.map(f64::to_bits));
        assert_eq!(bits, expected);
        let reals: ArrayRef = Arc::new(Float32Array::from(vec![-f32::NAN, 1.5]));
        assert_eq!(one_nan(&reals).as_primitive::<Float32Type>().value(0).to_bits(), f32::NAN.to_bits());
        let whole: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        assert_eq!(one_nan(&whole).len(), 1);
    }
}
