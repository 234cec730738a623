//! Parts of a cell: the values of one measure that a group of rows, or one row, adds to it.

use super::super::totals::{LARGE, MeasureTotals, WantedMeasure};
use crate::float_sum::Compensated;
use crate::packed::{scaled_integer, units};
use crate::summary::integer_at;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use std::ops::Range;

/// A part of a cell's totals; what is not wanted of the measure is nothing here.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Part {
    /// Values that are not NULL.
    pub(super) count: u64,
    /// As totals keep exact sums.
    pub(super) sum: i128,
    /// Of integers.
    pub(super) squares: i128,
    pub(super) raw: Compensated,
    pub(super) raw_squares: Compensated,
    pub(super) exact_bounds: Option<(i128, i128)>,
    pub(super) raw_bounds: Option<(f64, f64)>,
}

impl Part {
    /// Of NULL.
    const NOTHING: Part = Part {
        count: 0,
        sum: 0,
        squares: 0,
        raw: Compensated::ZERO,
        raw_squares: Compensated::ZERO,
        exact_bounds: None,
        raw_bounds: None,
    };

    /// Of a group of rows.
    pub(super) fn of_group(totals: &MeasureTotals, group: usize) -> Part {
        let count = totals.count(group);
        if count == 0 {
            return Part::NOTHING;
        }
        let WantedMeasure { is_float, wanted, .. } = totals.of();
        let bounds = wanted.min_max;
        Part {
            count,
            sum: if wanted.sum { totals.exact_sum(group) } else { 0 },
            squares: if wanted.squares && !is_float { totals.exact_squares(group) } else { 0 },
            raw: totals.raw_sum(group).unwrap_or(Compensated::ZERO),
            raw_squares: totals.raw_squares(group).unwrap_or(Compensated::ZERO),
            exact_bounds: if bounds && !is_float { totals.exact_bounds(group) } else { None },
            raw_bounds: if bounds && is_float { totals.float_bounds(group) } else { None },
        }
    }

    /// Of a row; `None` if totals cannot hold its value.
    pub(super) fn of_row(of: &WantedMeasure, values: Option<&ArrayRef>, row: usize) -> Option<Part> {
        let Some(values) = values.filter(|values| values.is_valid(row)) else { return Some(Part::NOTHING) };
        let float = match values.data_type() {
            DataType::Float32 => f64::from(values.as_primitive::<Float32Type>().value(row)),
            DataType::Float64 => values.as_primitive::<Float64Type>().value(row),
            _ => {
                let value = integer_at(values, row)?;
                return Some(Part {
                    count: 1,
                    sum: if of.wanted.sum { value } else { 0 },
                    squares: if of.wanted.squares { value.checked_mul(value)? } else { 0 },
                    exact_bounds: of.wanted.min_max.then_some((value, value)),
                    ..Part::NOTHING
                });
            }
        };
        if !float.is_finite() || float.abs() > LARGE {
            return None;
        }
        let mut part = Part { count: 1, ..Part::NOTHING };
        if of.wanted.sum {
            match scaled_integer(float) {
                Some((integer, scale)) => part.sum = i128::from(integer) * i128::from(units(scale)),
                None => part.raw = Compensated::of(float),
            }
        }
        if of.wanted.squares {
            part.raw_squares = Compensated::of(float * float);
        }
        part.raw_bounds = of.wanted.min_max.then_some((float, float));
        Some(part)
    }
}

/// What each of some rows adds to the sum of a measure (anything where no sum is wanted), if that is all there is to
/// their parts: no row is NULL, and a word holds what it adds.
pub(super) fn words_of_rows(of: &WantedMeasure, values: Option<&ArrayRef>, rows: Range<usize>) -> Option<Vec<i64>> {
    let values = values.filter(|_| !of.wanted.squares && !of.wanted.min_max)?;
    if values.null_count() > 0 && rows.clone().any(|row| values.is_null(row)) {
        return None;
    }
    let decimal = |float: f64| {
        let (integer, scale) = scaled_integer(float)?;
        integer.checked_mul(units(scale))
    };
    match values.data_type() {
        // Whatever is asked, totals hold no infinity.
        DataType::Float32 => {
            values.as_primitive::<Float32Type>().values()[rows].iter().map(|&value| decimal(value.into())).collect()
        }
        DataType::Float64 => values.as_primitive::<Float64Type>().values()[rows].iter().copied().map(decimal).collect(),
        _ if !of.wanted.sum => Some(Vec::new()),
        _ => rows.map(|row| integer_at(values, row).and_then(|value| i64::try_from(value).ok())).collect(),
    }
}
