//! Columns read as positions on a line: numbers, dates and timestamps as `f64`, a few thousand rows at a time.
//!
//! Invariants:
//! - The order of values is kept (not strictly: 64-bit integers and decimals beyond 2^53 may meet).
//! - NULL reads as minus infinity, NaN stays NaN; `Position` puts them at the low and the high end.

use crate::schema::KeyRange;
use alluvia_types::{Error, Result};
use arrow::array::{Array, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType as ArrowType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    TimeUnit, TimestampMicrosecondType,
};

/// A column whose values lie on a line.
pub(crate) struct Numbers<'a> {
    values: Values<'a>,
    nulls: Option<&'a NullBuffer>,
}

enum Values<'a> {
    Int16(&'a [i16]),
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    Float32(&'a [f32]),
    Float64(&'a [f64]),
    /// Unscaled values and the unit of their last digit.
    Decimal(&'a [i128], f64),
}

impl<'a> Numbers<'a> {
    /// Reads an array in storage form; other types are a defect of the caller.
    pub(crate) fn new(array: &'a dyn Array) -> Result<Numbers<'a>> {
        let values = match array.data_type() {
            ArrowType::Int16 => Values::Int16(array.as_primitive::<Int16Type>().values()),
            ArrowType::Int32 => Values::Int32(array.as_primitive::<Int32Type>().values()),
            ArrowType::Int64 => Values::Int64(array.as_primitive::<Int64Type>().values()),
            ArrowType::Float32 => Values::Float32(array.as_primitive::<Float32Type>().values()),
            ArrowType::Float64 => Values::Float64(array.as_primitive::<Float64Type>().values()),
            ArrowType::Decimal128(_, scale) => {
                Values::Decimal(array.as_primitive::<Decimal128Type>().values(), 10f64.powi(-i32::from(*scale)))
            }
            ArrowType::Date32 => Values::Int32(array.as_primitive::<Date32Type>().values()),
            ArrowType::Timestamp(TimeUnit::Microsecond, _) => {
                Values::Int64(array.as_primitive::<TimestampMicrosecondType>().values())
            }
            other => return Err(Error::internal(format!("a column of type {other} does not lie on a line"))),
        };
        Ok(Numbers { values, nulls: array.nulls().filter(|nulls| nulls.null_count() > 0) })
    }

    /// Values from row `first` on, as many as `into` holds.
    pub(crate) fn fill(&self, first: usize, into: &mut [f64]) {
        let end = first + into.len();
        match &self.values {
            Values::Int16(values) => convert(&values[first..end], into, f64::from),
            Values::Int32(values) => convert(&values[first..end], into, f64::from),
            Values::Int64(values) => convert(&values[first..end], into, |value| value as f64),
            Values::Float32(values) => convert(&values[first..end], into, f64::from),
            Values::Float64(values) => into.copy_from_slice(&values[first..end]),
            Values::Decimal(values, unit) => convert(&values[first..end], into, |value| value as f64 * unit),
        }
        if let Some(nulls) = self.nulls {
            for (at, value) in into.iter_mut().enumerate() {
                if nulls.is_null(first + at) {
                    *value = f64::NEG_INFINITY;
                }
            }
        }
    }
}

fn convert<T: Copy>(values: &[T], into: &mut [f64], to: impl Fn(T) -> f64) {
    for (into, &value) in into.iter_mut().zip(values) {
        *into = to(value);
    }
}

/// Where a value lies in a fixed range, as one of 2^bits parts.
pub(crate) enum Position<'a> {
    /// `(value - low) * scale`, clamped to `0..=last`.
    Linear { low: f64, scale: f64, last: f64 },
    /// The number of cuts <= value, its top bits.
    Quantiles { cuts: &'a [f64], shift: u32 },
}

impl<'a> Position<'a> {
    /// Parts of a fixed range, 2^`bits` of them. Quantile cuts number 2^finest - 1 and finest >= `bits`.
    pub(crate) fn new(range: &'a KeyRange, bits: u8) -> Result<Position<'a>> {
        let parts = (1u64 << bits) as f64;
        match range {
            KeyRange::Linear { low, high } => {
                Ok(Position::Linear { low: *low, scale: parts / (high - low), last: parts - 1.0 })
            }
            KeyRange::Quantiles { cuts } => {
                let finest = (cuts.len() + 1).ilog2();
                assert!(finest >= u32::from(bits), "{} cuts cannot make 2^{bits} parts", cuts.len());
                Ok(Position::Quantiles { cuts, shift: finest - u32::from(bits) })
            }
            KeyRange::None | KeyRange::Learnt | KeyRange::LearntQuantiles => {
                Err(Error::internal("the range of a dimension was used before it was fixed"))
            }
        }
    }

    /// The part of each value, in the same order.
    pub(crate) fn fill(&self, values: &[f64], into: &mut [u32]) {
        match self {
            Position::Linear { low, scale, last } => {
                for (into, value) in into.iter_mut().zip(values) {
                    // `min` before `max`: NaN becomes the last part.
                    *into = ((value - low) * scale).min(*last).max(0.0) as u32;
                }
            }
            Position::Quantiles { cuts, shift } => {
                for (into, value) in into.iter_mut().zip(values) {
                    let below = cuts.partition_point(|cut| cut <= value || value.is_nan());
                    *into = (below as u32) >> shift;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Date32Array, Decimal128Array, Float64Array, StringArray};

    fn parts(range: &KeyRange, bits: u8, values: &[f64]) -> Vec<u32> {
        let mut into = vec![0; values.len()];
        Position::new(range, bits).unwrap().fill(values, &mut into);
        into
    }

    #[test]
    fn values_outside_clamp_and_null_is_low_and_nan_is_high() {
        let range = KeyRange::Linear { low: 0.0, high: 16.0 };
        let values = [f64::NEG_INFINITY, -1.0, 0.0, 0.99, 8.0, 15.99, 16.0, f64::INFINITY, f64::NAN];
        assert_eq!(parts(&range, 4, &values), [0, 0, 0, 0, 8, 15, 15, 15, 15]);
        let cuts = KeyRange::Quantiles { cuts: vec![1.0, 5.0, 100.0] };
        assert_eq!(parts(&cuts, 2, &[f64::NEG_INFINITY, 0.5, 1.0, 4.0, 5.0, 1e9, f64::NAN]), [0, 0, 1, 1, 2, 3, 3]);
        assert_eq!(parts(&cuts, 1, &[4.0, 5.0]), [0, 1]);
    }

    #[test]
    fn storage_types_read_as_numbers() {
        let decimals = Decimal128Array::from(vec![Some(12345), None]).with_precision_and_scale(10, 2).unwrap();
        let mut into = [0.0; 2];
        Numbers::new(&decimals).unwrap().fill(0, &mut into);
        assert!((into[0] - 123.45).abs() < 1e-9 && into[1] == f64::NEG_INFINITY);
        let days = Date32Array::from(vec![1, 2, 3]);
        Numbers::new(&days).unwrap().fill(1, &mut into);
        assert_eq!(into, [2.0, 3.0]);
        assert!(Numbers::new(&StringArray::from(vec!["a"])).is_err());
        assert!(Numbers::new(&Float64Array::from(vec![1.0])).is_ok());
    }

    #[test]
    fn an_unfixed_range_is_a_defect_not_a_panic() {
        assert!(Position::new(&KeyRange::Learnt, 4).is_err());
    }
}
