//! `avg` of spans of time, as differences of moments are.
//!
//! Invariants:
//! - The average is rounded to the unit of its spans, and of two that are as near to the even one, as in PostgreSQL.
//! - Sums have 128 bits. Where a part of the rows is summed elsewhere, as a part of a large table is, a sum that is no span fails with
//!   SQLSTATE 22003.
//!
//! DataFusion 55.2 cuts off what is behind the unit, and its sums wrap around.

use super::sum::taken;
use alluvia_types::{Error, ErrorKind};
use alluvia_values::errors::wrap;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, UInt64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, TimeUnit, UInt64Type};
use datafusion_common::{DataFusionError, Result, ScalarValue, internal_err};
use datafusion_expr::function::AccumulatorArgs;
use datafusion_expr::{Accumulator, EmitTo, GroupsAccumulator};
use std::mem::size_of;
use std::sync::Arc;

/// The unit of the spans that are averaged; `None` of what else is, and of distinct ones.
pub fn unit_of(args: &AccumulatorArgs) -> Option<TimeUnit> {
    match args.expr_fields.first()?.data_type() {
        DataType::Duration(unit) if !args.is_distinct => Some(*unit),
        _ => None,
    }
}

/// The average of some spans, of which there may be none.
fn average(sum: i128, count: u64) -> Result<Option<i64>> {
    if count == 0 {
        return Ok(None);
    }
    let count = i128::from(count);
    let (below, rest) = (sum.div_euclid(count), sum.rem_euclid(count));
    let is_above = 2 * rest > count || 2 * rest == count && below % 2 != 0;
    match i64::try_from(below + i128::from(is_above)) {
        Ok(average) => Ok(Some(average)),
        Err(_) => internal_err!("an average is beyond what it is of"),
    }
}

fn out_of_range() -> DataFusionError {
    let error = Error::new(ErrorKind::OutOfRange, "the sum of the spans that are averaged is out of range");
    wrap(error.with_hint("average numbers: avg(extract(epoch FROM x))"))
}

/// A sum as it is handed on.
fn span(sum: i128, count: u64) -> Result<Option<i64>> {
    let sum = (count > 0).then(|| i64::try_from(sum).map_err(|_| out_of_range()));
    sum.transpose()
}

/// Spans as numbers of their unit.
fn numbers(spans: &ArrayRef) -> Result<Int64Array> {
    Ok(cast(spans, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}

/// Numbers as spans.
fn spans(numbers: Vec<Option<i64>>, unit: TimeUnit) -> Result<ArrayRef> {
    Ok(cast(&Int64Array::from(numbers), &DataType::Duration(unit))?)
}

/// Of one group, or of a frame that moves.
#[derive(Debug)]
pub(crate) struct SpanAverage {
    unit: TimeUnit,
    sum: i128,
    count: u64,
}

impl SpanAverage {
    pub fn new(unit: TimeUnit) -> SpanAverage {
        SpanAverage { unit, sum: 0, count: 0 }
    }

    fn value(&self, number: Option<i64>) -> Result<ScalarValue> {
        ScalarValue::Int64(number).cast_to(&DataType::Duration(self.unit))
    }
}

/// The sum of some spans, and how many there are.
fn total(values: &[ArrayRef]) -> Result<(i128, u64)> {
    let [values] = values else { return internal_err!("avg has one argument") };
    let numbers = numbers(values)?;
    Ok((numbers.iter().flatten().map(i128::from).sum(), (numbers.len() - numbers.null_count()) as u64))
}

impl Accumulator for SpanAverage {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, count) = total(values)?;
        self.sum += sum;
        self.count += count;
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, count) = total(values)?;
        self.sum -= sum;
        self.count -= count;
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.value(average(self.sum, self.count)?)
    }

    fn size(&self) -> usize {
        size_of::<SpanAverage>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::UInt64(Some(self.count)), self.value(span(self.sum, self.count)?)?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [counts, sums] = states else { return internal_err!("avg has two states") };
        self.count += counts.as_primitive::<UInt64Type>().iter().flatten().sum::<u64>();
        self.sum += numbers(sums)?.iter().flatten().map(i128::from).sum::<i128>();
        Ok(())
    }
}

/// Of many groups.
#[derive(Debug)]
pub(crate) struct SpanAverages {
    unit: TimeUnit,
    sums: Vec<i128>,
    counts: Vec<u64>,
}

impl SpanAverages {
    pub fn new(unit: TimeUnit) -> SpanAverages {
        SpanAverages { unit, sums: Vec::new(), counts: Vec::new() }
    }

    fn resize(&mut self, total_groups: usize) {
        self.sums.resize(total_groups, 0);
        self.counts.resize(total_groups, 0);
    }

    fn take(&mut self, emit_to: EmitTo) -> (Vec<i128>, Vec<u64>) {
        (emit_to.take_needed(&mut self.sums), emit_to.take_needed(&mut self.counts))
    }
}

impl GroupsAccumulator for SpanAverages {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.resize(total_groups);
        let numbers = numbers(&values[0])?;
        let taken = taken(numbers.nulls(), filter);
        for (at, (&group, &number)) in groups.iter().zip(numbers.values()).enumerate() {
            if taken.as_ref().is_none_or(|taken| taken.is_valid(at)) {
                self.sums[group] += i128::from(number);
                self.counts[group] += 1;
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total_groups: usize) -> Result<()> {
        self.resize(total_groups);
        let [counts, sums] = states else { return internal_err!("avg has two states") };
        let (counts, sums) = (counts.as_primitive::<UInt64Type>(), numbers(sums)?);
        for ((&group, count), sum) in groups.iter().zip(counts.iter()).zip(sums.iter()) {
            self.sums[group] += i128::from(sum.unwrap_or(0));
            self.counts[group] += count.unwrap_or(0);
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (sums, counts) = self.take(emit_to);
        let averages = sums.into_iter().zip(counts).map(|(sum, count)| average(sum, count));
        spans(averages.collect::<Result<_>>()?, self.unit)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (sums, counts) = self.take(emit_to);
        let sums = sums.into_iter().zip(&counts).map(|(sum, &count)| span(sum, count));
        let sums = spans(sums.collect::<Result<_>>()?, self.unit)?;
        Ok(vec![Arc::new(UInt64Array::from(counts)), sums])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let numbers = numbers(&values[0])?;
        let taken = taken(numbers.nulls(), filter);
        let is_taken = |at: usize| taken.as_ref().is_none_or(|taken| taken.is_valid(at));
        let counts: Vec<u64> = (0..numbers.len()).map(|at| u64::from(is_taken(at))).collect();
        let sums = numbers.values().iter().enumerate().map(|(at, &number)| is_taken(at).then_some(number));
        Ok(vec![Arc::new(UInt64Array::from(counts)), spans(sums.collect(), self.unit)?])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<i128>() + self.counts.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn averages_are_rounded_to_the_nearest() {
        for (sum, count, wanted) in
            [(3, 2, 2), (1, 2, 0), (5, 2, 2), (-3, 2, -2), (-1, 2, 0), (-5, 2, -2), (5, 3, 2), (-4, 3, -1), (7, 1, 7)]
        {
            assert_eq!(average(sum, count).unwrap(), Some(wanted), "{sum} / {count}");
        }
        assert_eq!(average(0, 0).unwrap(), None);
        assert_eq!(average(i128::from(i64::MAX) * 3, 3).unwrap(), Some(i64::MAX));
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
                let values = spans(rows.iter().map(|row| row.0).collect(), unit).unwrap();
                let groups: Vec<usize> = rows.iter().map(|row| row.1).collect();
                (values, groups, rows.iter().map(|row| row.2).collect::<BooleanArray>())
            };
            let mut found = SpanAverages::new(unit);
            let (values, groups, filter) = parts(&rows[..split]);
            found.update_batch(&[values], &groups, Some(&filter), 3).unwrap();
            let (values, groups, filter) = parts(&rows[split..]);
            if is_converted {
                let state = found.convert_to_state(&[values], Some(&filter)).unwrap();
                found.merge_batch(&state, &groups, 3).unwrap();
            } else {
                let mut other = SpanAverages::new(unit);
                other.update_batch(&[values], &groups, Some(&filter), 3).unwrap();
                let state = other.state(EmitTo::All).unwrap();
                found.merge_batch(&state, &[0, 1, 2], 3).unwrap();
            }
            let found = found.evaluate(EmitTo::All).unwrap();
            for group in 0..3 {
                let of_group = rows.iter().filter(|row| row.1 == group && row.2 == Some(true));
                let values = spans(of_group.map(|row| row.0).collect(), unit).unwrap();
                let mut one = SpanAverage::new(unit);
                one.update_batch(&[Arc::clone(&values)]).unwrap();
                // What came and went leaves nothing.
                one.update_batch(&[Arc::clone(&values)]).unwrap();
                one.retract_batch(&[values]).unwrap();
                prop_assert_eq!(ScalarValue::try_from_array(&found, group).unwrap(), one.evaluate().unwrap());
            }
        }
    }
}
