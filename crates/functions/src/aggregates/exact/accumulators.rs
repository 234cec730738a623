//! Exact sums of a column, alone and by groups.

use super::sums::Exact;
use crate::aggregates::sum::taken;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Int64Type};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{Accumulator, EmitTo, GroupsAccumulator};
use std::mem::size_of;
use std::sync::Arc;

/// Calls with each row's place and value that counts.
fn each(
    values: &ArrayRef,
    filter: Option<&BooleanArray>,
    mut found: impl FnMut(usize, i128) -> Result<()>,
) -> Result<()> {
    let nulls = taken(values.nulls(), filter);
    let is_in = |at: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(at));
    if let Some(values) = values.as_primitive_opt::<Decimal128Type>() {
        let mut rows = values.values().iter().enumerate().filter(|(at, _)| is_in(*at));
        return rows.try_for_each(|(at, &value)| found(at, value));
    }
    let values = match values.data_type() {
        DataType::Int64 => Arc::clone(values),
        _ => cast(values, &DataType::Int64)?,
    };
    let mut rows = values.as_primitive::<Int64Type>().values().iter().enumerate().filter(|(at, _)| is_in(*at));
    rows.try_for_each(|(at, &value)| found(at, value.into()))
}

/// Without groups, and over windows that slide.
#[derive(Debug)]
pub struct Alone<S: Exact> {
    evaluation: S::Evaluation,
    sums: S,
}

impl<S: Exact> Alone<S> {
    /// No values yet.
    pub fn new(evaluation: S::Evaluation) -> Alone<S> {
        Alone { evaluation, sums: S::default() }
    }
}

impl<S: Exact> Accumulator for Alone<S> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        each(&values[0], None, |_, value| self.sums.add(S::of(value)))
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        S::from_states(states).into_iter().try_for_each(|other| self.sums.add(other))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        S::states(&[self.sums]).iter().map(|state| ScalarValue::try_from_array(state, 0)).collect()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&S::evaluate(&[self.sums], self.evaluation)?, 0)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        each(&values[0], None, |_, value| {
            self.sums.subtract(S::of(value));
            Ok(())
        })
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn size(&self) -> usize {
        size_of::<Alone<S>>()
    }
}

/// With groups.
#[derive(Debug)]
pub struct Groups<S: Exact> {
    evaluation: S::Evaluation,
    sums: Vec<S>,
}

impl<S: Exact> Groups<S> {
    /// No groups yet.
    pub fn new(evaluation: S::Evaluation) -> Groups<S> {
        Groups { evaluation, sums: Vec::new() }
    }
}

impl<S: Exact> GroupsAccumulator for Groups<S> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.sums.resize(total_groups, S::default());
        each(&values[0], filter, |at, value| self.sums[groups[at]].add(S::of(value)))
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total_groups: usize) -> Result<()> {
        self.sums.resize(total_groups, S::default());
        groups.iter().zip(S::from_states(values)).try_for_each(|(&group, other)| self.sums[group].add(other))
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        S::evaluate(&emit_to.take_needed(&mut self.sums), self.evaluation)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(S::states(&emit_to.take_needed(&mut self.sums)))
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let mut sums = vec![S::default(); values[0].len()];
        each(&values[0], filter, |at, value| {
            sums[at] = S::of(value);
            Ok(())
        })?;
        Ok(S::states(&sums))
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<S>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregates::exact::ExactAggregate;
    use crate::aggregates::exact::sums::{Mean, Spread, Squares, Total};
    use arrow::array::{Decimal128Array, Int32Array};
    use proptest::prelude::*;

    type Row = (Option<i32>, usize, Option<bool>);

    fn column(rows: &[Row], is_decimal: bool) -> (ArrayRef, Vec<usize>, BooleanArray) {
        let numbers: ArrayRef = if is_decimal {
            let values: Decimal128Array = rows.iter().map(|row| row.0.map(i128::from)).collect();
            Arc::new(values.with_data_type(DataType::Decimal128(20, 2)))
        } else {
            Arc::new(rows.iter().map(|row| row.0).collect::<Int32Array>())
        };
        (numbers, rows.iter().map(|row| row.1).collect(), rows.iter().map(|row| row.2).collect())
    }

    /// That groups come to what their rows come to alone, whatever steps they are added in.
    fn added<S: Exact>(of: S::Evaluation, rows: &[Row], split: usize, is_decimal: bool) -> Result<(), TestCaseError> {
        let (first, second) = rows.split_at(split.min(rows.len()));
        let (mut groups, mut other) = (Groups::<S>::new(of), Groups::<S>::new(of));
        let (values, places, filter) = column(first, is_decimal);
        other.update_batch(&[values], &places, Some(&filter), 4).unwrap();
        groups.merge_batch(&other.state(EmitTo::All).unwrap(), &[0, 1, 2, 3], 4).unwrap();
        let (values, places, filter) = column(second, is_decimal);
        let state = groups.convert_to_state(&[values], Some(&filter)).unwrap();
        groups.merge_batch(&state, &places, 4).unwrap();
        let found = groups.evaluate(EmitTo::All).unwrap();
        for group in 0..4 {
            let mut alone = Alone::<S>::new(of);
            let own: Vec<Row> = rows.iter().filter(|row| row.1 == group && row.2 == Some(true)).copied().collect();
            alone.update_batch(&[column(&own, is_decimal).0]).unwrap();
            prop_assert_eq!(ScalarValue::try_from_array(&found, group).unwrap(), alone.evaluate().unwrap());
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn states_are_added_as_rows_are(
            rows in prop::collection::vec((prop::option::of(any::<i32>()), 0usize..4, prop::option::of(any::<bool>())), 1..60),
            split in 0usize..60,
            is_decimal in any::<bool>(),
        ) {
            let deviation = Spread { of: ExactAggregate::Deviation { of_sample: true }, scale: if is_decimal { 2 } else { 0 } };
            added::<Squares>(deviation, &rows, split, is_decimal)?;
            added::<Total>(Mean::Double, &rows, split, false)?;
        }
    }
}
