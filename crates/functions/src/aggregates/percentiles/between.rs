//! What lies between two values, and where a fraction of values is.

use crate::operators::interval_scaling::spilled;
use alluvia_types::{Error, ErrorKind};
use alluvia_values::errors::wrap;
use arrow::datatypes::{ArrowPrimitiveType, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType};
use datafusion_common::Result;
use std::cmp::Ordering;

const DAY_NANOS: i128 = 86_400_000_000_000;
const MONTH_DAYS: i128 = 30;

/// Values between which others lie.
pub trait Between: ArrowPrimitiveType {
    /// PostgreSQL's order.
    fn order(a: Self::Native, b: Self::Native) -> Ordering;

    /// What lies between two values: from the first one that share of the way.
    fn between(from: Self::Native, to: Self::Native, share: f64) -> Result<Self::Native>;
}

impl Between for Float64Type {
    fn order(a: f64, b: f64) -> Ordering {
        a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
    }

    fn between(from: f64, to: f64, share: f64) -> Result<f64> {
        Ok(from + share * (to - from))
    }
}

/// Units of time.
impl Between for Int64Type {
    fn order(a: i64, b: i64) -> Ordering {
        a.cmp(&b)
    }

    fn between(from: i64, to: i64, share: f64) -> Result<i64> {
        let (start, distance) = (i128::from(from), i128::from(to) - i128::from(from));
        let found = start + (distance as f64 * share).round() as i128;
        // A share of a distance that no double has may be beyond it.
        Ok(i64::try_from(found).unwrap_or(to).clamp(from.min(to), from.max(to)))
    }
}

impl Between for IntervalMonthDayNanoType {
    fn order(a: IntervalMonthDayNano, b: IntervalMonthDayNano) -> Ordering {
        length(a).cmp(&length(b))
    }

    fn between(from: IntervalMonthDayNano, to: IntervalMonthDayNano, share: f64) -> Result<IntervalMonthDayNano> {
        let found = || {
            let distance = IntervalMonthDayNano {
                months: to.months.checked_sub(from.months)?,
                days: to.days.checked_sub(from.days)?,
                nanoseconds: to.nanoseconds.checked_sub(from.nanoseconds)?,
            };
            let part = spilled(distance, |of| of * share)?;
            Some(IntervalMonthDayNano {
                months: from.months.checked_add(part.months)?,
                days: from.days.checked_add(part.days)?,
                nanoseconds: from.nanoseconds.checked_add(part.nanoseconds)?,
            })
        };
        found().ok_or_else(|| wrap(Error::new(ErrorKind::OutOfRange, "a percentile of intervals is out of range")))
    }
}

/// Nanoseconds, a month being thirty days.
fn length(of: IntervalMonthDayNano) -> i128 {
    let days = i128::from(of.months) * MONTH_DAYS + i128::from(of.days);
    days * DAY_NANOS + i128::from(of.nanoseconds)
}

/// Where a fraction of so many values is, one at least: at a value, or between it and the next, so far from it.
fn place(fraction: f64, values: usize) -> (usize, f64) {
    let last = values.saturating_sub(1);
    let at = fraction * last as f64;
    let first = (at.floor() as usize).min(last);
    (first, if first == last { 0.0 } else { at - at.floor() })
}

/// What is at a fraction of so many values, one at least, of which `at` has the order.
pub(super) fn of_ordered<T: Between>(
    fraction: f64,
    values: usize,
    at: impl Fn(usize) -> T::Native,
) -> Result<T::Native> {
    let (first, share) = place(fraction, values);
    if share == 0.0 { Ok(at(first)) } else { T::between(at(first), at(first + 1), share) }
}

/// What is at a fraction of values in any order, one at least. They are moved about.
pub(super) fn of_any<T: Between>(fraction: f64, values: &mut [T::Native], is_descending: bool) -> Result<T::Native> {
    let order = |a: &T::Native, b: &T::Native| {
        let order = T::order(*a, *b);
        if is_descending { order.reverse() } else { order }
    };
    let (first, share) = place(fraction, values.len());
    let (_, found, behind) = values.select_nth_unstable_by(first, order);
    let found = *found;
    match behind.iter().copied().min_by(|a, b| order(a, b)) {
        Some(next) if share != 0.0 => T::between(found, next, share),
        _ => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn intervals_go_by_their_length_and_parts_become_smaller_units() {
        let span = |months, days, hours: i64| IntervalMonthDayNano::new(months, days, hours * 3_600_000_000_000);
        assert_eq!(IntervalMonthDayNanoType::order(span(0, 31, 0), span(1, 0, 0)), Ordering::Greater);
        assert_eq!(IntervalMonthDayNanoType::order(span(0, 0, 25), span(0, 1, 0)), Ordering::Greater);
        let between = |from, to, share| IntervalMonthDayNanoType::between(from, to, share).unwrap();
        assert_eq!(between(span(0, 1, 0), span(0, 2, 0), 0.5), span(0, 1, 12));
        assert_eq!(between(span(1, 0, 0), span(2, 0, 0), 0.5), span(1, 15, 0));
        assert!(IntervalMonthDayNanoType::between(span(i32::MIN, 0, 0), span(i32::MAX, 0, 0), 0.5).is_err());
    }

    #[test]
    fn moments_of_all_times_have_others_between_them() {
        assert_eq!(Int64Type::between(i64::MIN, i64::MAX, 0.5).unwrap(), 0);
        assert_eq!(
            Int64Type::between(i64::MAX, i64::MIN, 0.999_999_999_999_999_9).unwrap(),
            -9_223_372_036_854_773_761
        );
        assert_eq!(Int64Type::between(10, 13, 0.5).unwrap(), 12);
    }

    proptest! {
        #[test]
        fn values_in_any_order_are_as_those_in_order(
            mut values in prop::collection::vec(prop_oneof![Just(f64::NAN), Just(f64::INFINITY), (-5..5_i32).prop_map(f64::from)], 1..20),
            fraction in prop_oneof![0.0..=1.0_f64, Just(0.0), Just(0.5), Just(1.0)],
            is_descending in any::<bool>(),
        ) {
            let mut ordered = values.clone();
            ordered.sort_by(|a, b| a.is_nan().cmp(&b.is_nan()).then(a.partial_cmp(b).unwrap_or(Ordering::Equal)));
            if is_descending {
                ordered.reverse();
            }
            // PostgreSQL's percentile_cont_final_common.
            let rows = (values.len() - 1) as f64;
            let (first, second) = ((fraction * rows).floor(), (fraction * rows).ceil());
            let (low, high) = (ordered[first as usize], ordered[second as usize]);
            let wanted = if first == second { low } else { low + (fraction * rows - first) * (high - low) };
            let one_nan = |value: f64| if value.is_nan() { f64::NAN.to_bits() } else { value.to_bits() };
            let found = of_ordered::<Float64Type>(fraction, ordered.len(), |at| ordered[at]).unwrap();
            prop_assert_eq!(one_nan(found), one_nan(wanted));
            let found = of_any::<Float64Type>(fraction, &mut values, is_descending).unwrap();
            prop_assert_eq!(one_nan(found), one_nan(wanted));
        }
    }
}
