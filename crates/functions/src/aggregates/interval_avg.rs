//! The arithmetic mean of durations, as differences of timestamps are. [`super::exact`] adds them up, in 128 bits.
//!
//! Invariant: a mean is rounded to the unit of its durations, and of two that are as near to the even one, as in
//! PostgreSQL.
//!
//! DataFusion 55.2 cuts off what is behind the unit, and its sums wrap around.
//!
//! Mends apache/datafusion#24894 (in 55.2). That its averages are cut off has no issue upstream known (searched
//! 2026-11-27: avg, Duration, truncated).
//! Held by `slt/unknown_literals.slt` (`WHERE b - a <= INTERVAL '2 microseconds'`). Sums: the unit test
//! `sums_of_parts_are_wider_than_durations`.

use arrow::datatypes::{DataType, FieldRef, TimeUnit};
use datafusion_common::{Result, internal_err};

/// The unit of the durations that are averaged; `None` of other types.
pub fn unit_of(arguments: &[FieldRef]) -> Option<TimeUnit> {
    match arguments.first()?.data_type() {
        DataType::Duration(unit) => Some(*unit),
        _ => None,
    }
}

/// The mean of so many numbers with this sum, rounded to a whole one; `None` of no numbers.
pub fn rounded_mean(sum: i128, count: u64) -> Result<Option<i64>> {
    if count == 0 {
        return Ok(None);
    }
    let count = i128::from(count);
    let (below, rest) = (sum.div_euclid(count), sum.rem_euclid(count));
    let is_above = 2 * rest > count || 2 * rest == count && below % 2 != 0;
    match i64::try_from(below + i128::from(is_above)) {
        Ok(mean) => Ok(Some(mean)),
        Err(_) => internal_err!("an average is beyond what it is of"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregates::exact::accumulators::{Alone, Groups};
    use crate::aggregates::exact::sums::{Mean, Total};
    use arrow::array::{ArrayRef, BooleanArray, Int64Array};
    use arrow::compute::cast;
    use datafusion_common::ScalarValue;
    use datafusion_expr::{Accumulator, EmitTo, GroupsAccumulator};
    use proptest::prelude::*;
    use std::sync::Arc;

    fn durations(numbers: Vec<Option<i64>>, unit: TimeUnit) -> ArrayRef {
        cast(&Int64Array::from(numbers), &DataType::Duration(unit)).unwrap()
    }

    #[test]
    fn averages_are_rounded_to_the_nearest() {
        for (sum, count, wanted) in
            [(3, 2, 2), (1, 2, 0), (5, 2, 2), (-3, 2, -2), (-1, 2, 0), (-5, 2, -2), (5, 3, 2), (-4, 3, -1), (7, 1, 7)]
        {
            assert_eq!(rounded_mean(sum, count).unwrap(), Some(wanted), "{sum} / {count}");
        }
        assert_eq!(rounded_mean(0, 0).unwrap(), None);
        assert_eq!(rounded_mean(i128::from(i64::MAX) * 3, 3).unwrap(), Some(i64::MAX));
    }

    #[test]
    fn sums_of_parts_are_wider_than_durations() {
        let values = durations(vec![Some(i64::MAX), None, Some(i64::MAX - 2)], TimeUnit::Microsecond);
        let (mut all, mut part) = (
            Alone::<Total>::new(Mean::Duration(TimeUnit::Microsecond)),
            Alone::<Total>::new(Mean::Duration(TimeUnit::Microsecond)),
        );
        part.update_batch(&[values]).unwrap();
        let states: Vec<ArrayRef> = part.state().unwrap().iter().map(|state| state.to_array().unwrap()).collect();
        all.merge_batch(&states).unwrap();
        assert_eq!(all.evaluate().unwrap(), ScalarValue::DurationMicrosecond(Some(i64::MAX - 1)));
    }

    proptest! {
        #[test]
        fn groups_frames_and_parts_have_the_same_averages(
            rows in prop::collection::vec((prop::option::of(-50i64..50), 0usize..3, prop::option::of(any::<bool>())), 0..40),
            split in 0usize..40,
            is_converted in any::<bool>(),
        ) {
            let unit = TimeUnit::Microsecond;
            let split = split.min(rows.len());
            let parts = |rows: &[(Option<i64>, usize, Option<bool>)]| {
                let values = durations(rows.iter().map(|row| row.0).collect(), unit);
                let groups: Vec<usize> = rows.iter().map(|row| row.1).collect();
                (values, groups, rows.iter().map(|row| row.2).collect::<BooleanArray>())
            };
            let mut found = Groups::<Total>::new(Mean::Duration(unit));
            let (values, groups, filter) = parts(&rows[..split]);
            found.update_batch(&[values], &groups, Some(&filter), 3).unwrap();
            let (values, groups, filter) = parts(&rows[split..]);
            if is_converted {
                let state = found.convert_to_state(&[values], Some(&filter)).unwrap();
                found.merge_batch(&state, &groups, 3).unwrap();
            } else {
                let mut other = Groups::<Total>::new(Mean::Duration(unit));
                other.update_batch(&[values], &groups, Some(&filter), 3).unwrap();
                let state = other.state(EmitTo::All).unwrap();
                found.merge_batch(&state, &[0, 1, 2], 3).unwrap();
            }
            let found = found.evaluate(EmitTo::All).unwrap();
            for group in 0..3 {
                let of_group = rows.iter().filter(|row| row.1 == group && row.2 == Some(true));
                let values = durations(of_group.map(|row| row.0).collect(), unit);
                let mut one = Alone::<Total>::new(Mean::Duration(unit));
                one.update_batch(&[Arc::clone(&values)]).unwrap();
                // What came and went leaves nothing.
                one.update_batch(&[Arc::clone(&values)]).unwrap();
                one.retract_batch(&[values]).unwrap();
                prop_assert_eq!(ScalarValue::try_from_array(&found, group).unwrap(), one.evaluate().unwrap());
            }
        }
    }
}
