//! `sum` of DECIMAL that fails where the sum has more digits than its type.
//!
//! Invariants:
//! - What is added up is exact, however large it is on the way: sums are taken modulo 2^128, and how often one went round is counted.
//! - So it does not depend on the order of the rows, nor on the threads, whether a sum fails.
//!
//! DataFusion 55.2 adds 128 bits that wrap around.
//!
//! Mends apache/datafusion#16406, #17539 (in 55.2).
//! Held by `slt/arithmetic.slt` (`SELECT sum(c) FROM wide WHERE g = 1`).

use super::sum::taken;
use alluvia_types::{Error, ErrorKind};
use alluvia_values::errors::wrap;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Int64Array, UInt64Array};
use arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef, Int64Type, UInt64Type};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::function::StateFieldsArgs;
use datafusion_expr::utils::format_state_name;
use datafusion_expr::{Accumulator, EmitTo, GroupsAccumulator};
use std::mem::size_of;
use std::sync::Arc;

/// A sum of 192 bits: `carry` times 2^128 and `low`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Carried {
    low: i128,
    carry: i64,
}

impl Carried {
    fn add(&mut self, value: i128) {
        let (low, is_over) = self.low.overflowing_add(value);
        self.low = low;
        if is_over {
            self.carry += if value > 0 { 1 } else { -1 };
        }
    }

    fn subtract(&mut self, value: i128) {
        let (low, is_over) = self.low.overflowing_sub(value);
        self.low = low;
        if is_over {
            self.carry -= if value > 0 { 1 } else { -1 };
        }
    }

    fn merge(&mut self, other: Carried) {
        self.add(other.low);
        self.carry += other.carry;
    }

    /// The sum as a decimal of a type.
    fn of(self, decimal: &DataType) -> Result<i128> {
        let digits = match decimal {
            DataType::Decimal128(precision, _) => *precision,
            _ => 0,
        };
        let bound = 10u128.checked_pow(digits.into()).unwrap_or(u128::MAX);
        if self.carry == 0 && self.low.unsigned_abs() < bound {
            return Ok(self.low);
        }
        let error =
            Error::new(ErrorKind::OutOfRange, format!("numeric out of range: a sum has more than {digits} digits"));
        Err(wrap(error.with_hint("sum doubles, which are rounded: sum(CAST(x AS DOUBLE))")))
    }
}

/// What a sum is between its steps: `low`, `carry`, and how many values were added.
pub(crate) fn state_fields(args: &StateFieldsArgs) -> Vec<FieldRef> {
    let field = |name: &str, of: DataType| Field::new(format_state_name(args.name, name), of, true).into();
    vec![field("sum", args.return_type().clone()), field("carry", DataType::Int64), field("count", DataType::UInt64)]
}

/// Sums of groups, from their states.
fn states(of: &[ArrayRef]) -> impl Iterator<Item = (Carried, u64)> + '_ {
    let (lows, carries) = (of[0].as_primitive::<Decimal128Type>(), of[1].as_primitive::<Int64Type>());
    let counts = of[2].as_primitive::<UInt64Type>();
    (0..counts.len()).map(|at| (Carried { low: lows.value(at), carry: carries.value(at) }, counts.value(at)))
}

/// Without groups, and over windows that slide.
#[derive(Debug)]
pub(crate) struct DecimalSum {
    of: DataType,
    sum: Carried,
    count: u64,
}

impl DecimalSum {
    pub fn new(of: &DataType) -> DecimalSum {
        DecimalSum { of: of.clone(), sum: Carried::default(), count: 0 }
    }
}

impl Accumulator for DecimalSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<Decimal128Type>();
        values.iter().flatten().for_each(|value| self.sum.add(value));
        self.count += (values.len() - values.null_count()) as u64;
        Ok(())
    }

    fn merge_batch(&mut self, of: &[ArrayRef]) -> Result<()> {
        for (sum, count) in states(of) {
            self.sum.merge(sum);
            self.count += count;
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let Carried { low, carry } = self.sum;
        Ok(vec![decimal(low, &self.of)?, ScalarValue::Int64(Some(carry)), ScalarValue::UInt64(Some(self.count))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.count == 0 {
            return ScalarValue::try_new_null(&self.of);
        }
        decimal(self.sum.of(&self.of)?, &self.of)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<Decimal128Type>();
        values.iter().flatten().for_each(|value| self.sum.subtract(value));
        self.count -= (values.len() - values.null_count()) as u64;
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn size(&self) -> usize {
        size_of::<DecimalSum>()
    }
}

fn decimal(value: i128, of: &DataType) -> Result<ScalarValue> {
    ScalarValue::try_from_array(&Decimal128Array::from(vec![value]).with_data_type(of.clone()), 0)
}

/// The sum of values as a decimal of a type.
pub fn total(values: &mut dyn Iterator<Item = i128>, of: &DataType) -> Result<ScalarValue> {
    let mut sum = Carried::default();
    values.for_each(|value| sum.add(value));
    decimal(sum.of(of)?, of)
}

/// With groups.
#[derive(Debug)]
pub(crate) struct DecimalGroups {
    of: DataType,
    sums: Vec<Carried>,
    counts: Vec<u64>,
}

impl DecimalGroups {
    pub fn new(of: &DataType) -> DecimalGroups {
        DecimalGroups { of: of.clone(), sums: Vec::new(), counts: Vec::new() }
    }

    fn take(&mut self, emit_to: EmitTo) -> (Vec<Carried>, Vec<u64>) {
        (emit_to.take_needed(&mut self.sums), emit_to.take_needed(&mut self.counts))
    }

    fn resize(&mut self, groups: usize) {
        self.sums.resize(groups, Carried::default());
        self.counts.resize(groups, 0);
    }
}

impl GroupsAccumulator for DecimalGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.resize(total_groups);
        let values = values[0].as_primitive::<Decimal128Type>();
        let nulls = taken(values.nulls(), filter);
        for (at, (&group, &value)) in groups.iter().zip(values.values()).enumerate() {
            if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(at)) {
                self.sums[group].add(value);
                self.counts[group] += 1;
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total_groups: usize) -> Result<()> {
        self.resize(total_groups);
        for (&group, (sum, count)) in groups.iter().zip(states(values)) {
            self.sums[group].merge(sum);
            self.counts[group] += count;
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (sums, counts) = self.take(emit_to);
        let value = |(sum, count): (Carried, u64)| if count == 0 { Ok(None) } else { sum.of(&self.of).map(Some) };
        let values: Result<Decimal128Array> = sums.into_iter().zip(counts).map(value).collect();
        Ok(Arc::new(values?.with_data_type(self.of.clone())))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (sums, counts) = self.take(emit_to);
        let lows = Decimal128Array::from_iter_values(sums.iter().map(|sum| sum.low)).with_data_type(self.of.clone());
        let carries = Int64Array::from_iter_values(sums.iter().map(|sum| sum.carry));
        Ok(vec![Arc::new(lows), Arc::new(carries), Arc::new(UInt64Array::from(counts))])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_primitive::<Decimal128Type>();
        let nulls = taken(values.nulls(), filter);
        let is_in = |at: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(at));
        let low = |at: usize| if is_in(at) { values.value(at) } else { 0 };
        let lows = Decimal128Array::from_iter_values((0..values.len()).map(low)).with_data_type(self.of.clone());
        let counts = UInt64Array::from_iter_values((0..values.len()).map(|at| u64::from(is_in(at))));
        Ok(vec![Arc::new(lows), Arc::new(Int64Array::from(vec![0; values.len()])), Arc::new(counts)])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<Carried>() + self.counts.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SUM: DataType = DataType::Decimal128(38, 2);

    fn numbers() -> impl Strategy<Value = Vec<(Option<i128>, usize, Option<bool>)>> {
        let bound = 10_i128.pow(38);
        let large = prop_oneof![-bound + 1..bound, Just(bound - 1), Just(1 - bound), -5_i128..5];
        prop::collection::vec((prop::option::of(large), 0usize..4, prop::option::of(any::<bool>())), 1..40)
    }

    fn column(rows: &[(Option<i128>, usize, Option<bool>)]) -> (Vec<ArrayRef>, Vec<usize>, BooleanArray) {
        let values: Decimal128Array = rows.iter().map(|row| row.0).collect();
        let values: ArrayRef = Arc::new(values.with_data_type(SUM));
        (vec![values], rows.iter().map(|row| row.1).collect(), rows.iter().map(|row| row.2).collect())
    }

    /// The sum in parts of 19 digits, or that it has more than 38; `None` of no values.
    fn expected(values: impl Iterator<Item = i128>) -> Option<Result<i128, ()>> {
        let unit = 10_i128.pow(19);
        let (mut high, mut low, mut any) = (0_i128, 0_i128, false);
        for value in values {
            (high, low, any) = (high + value.div_euclid(unit), low + value.rem_euclid(unit), true);
        }
        (high, low) = (high + low.div_euclid(unit), low.rem_euclid(unit));
        let sum = high.checked_mul(unit).and_then(|high| high.checked_add(low));
        any.then(|| sum.filter(|sum| sum.unsigned_abs() < 10_u128.pow(38)).ok_or(()))
    }

    proptest! {
        #[test]
        fn sums_are_exact_or_fail_in_whatever_steps(rows in numbers(), split in 0usize..40) {
            let (first, second) = rows.split_at(split.min(rows.len()));
            let is_in = |row: &&(Option<i128>, usize, Option<bool>)| row.2 == Some(true);
            let mut groups = DecimalGroups::new(&SUM);
            let mut other = DecimalGroups::new(&SUM);
            let (values, of, filter) = column(first);
            other.update_batch(&values, &of, Some(&filter), 4).unwrap();
            groups.merge_batch(&other.state(EmitTo::All).unwrap(), &[0, 1, 2, 3], 4).unwrap();
            let (values, of, filter) = column(second);
            let state = groups.convert_to_state(&values, Some(&filter)).unwrap();
            groups.merge_batch(&state, &of, 4).unwrap();
            for group in 0..4 {
                let own = rows.iter().filter(|row| row.1 == group).filter(is_in);
                let expected = expected(own.filter_map(|row| row.0));
                let found = groups.evaluate(EmitTo::First(1));
                match expected {
                    Some(Err(())) => prop_assert!(found.is_err()),
                    Some(Ok(sum)) => prop_assert_eq!(found.unwrap().as_primitive::<Decimal128Type>().value(0), sum),
                    None => prop_assert!(found.unwrap().is_null(0)),
                }
                if expected == Some(Err(())) {
                    // A group that fails ends the statement.
                    return Ok(());
                }
            }
        }

        #[test]
        fn windows_take_rows_out_again(rows in numbers(), split in 0usize..40) {
            let (gone, left) = rows.split_at(split.min(rows.len()));
            let mut sum = DecimalSum::new(&SUM);
            sum.update_batch(&column(&rows).0).unwrap();
            sum.retract_batch(&column(gone).0).unwrap();
            let mut again = DecimalSum::new(&SUM);
            let state: Vec<ArrayRef> = sum.state().unwrap().iter().map(|of| of.to_array().unwrap()).collect();
            again.merge_batch(&state).unwrap();
            match expected(left.iter().filter_map(|row| row.0)) {
                Some(Err(())) => prop_assert!(again.evaluate().is_err()),
                Some(Ok(sum)) => prop_assert_eq!(again.evaluate().unwrap(), ScalarValue::Decimal128(Some(sum), 38, 2)),
                None => prop_assert!(again.evaluate().unwrap().is_null()),
            }
        }
    }
}
