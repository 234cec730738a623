//! What is asked of values, and its answer for lists of them.

use super::between::{Between, of_any};
use super::sorted::sorted;
use crate::operators::durations::length_of;
use crate::stopping;
use alluvia_values::nan::one_nan;
use arrow::array::{
    Array, ArrayRef, AsArray, DynComparator, Float32Array, Float64Array, ListArray, PrimitiveArray, UInt64Array,
    make_comparator,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{SortOptions, cast, take};
use arrow::datatypes::{DataType, Field, Float32Type, Float64Type, Int64Type, IntervalMonthDayNanoType};
use datafusion_common::{Result, exec_err};
use std::ops::Range;
use std::sync::Arc;

/// Fractions from 0 to 1.
#[derive(Clone, Debug)]
pub(crate) struct Fractions {
    /// `None` for a list that is NULL.
    pub each: Option<Vec<Option<f64>>>,
    /// Whether there is a list of answers, too.
    pub is_list: bool,
}

impl Fractions {
    pub fn one(fraction: Option<f64>) -> Fractions {
        Fractions { each: Some(vec![fraction]), is_list: false }
    }

    fn all(&self) -> &[Option<f64>] {
        self.each.as_deref().unwrap_or_default()
    }

    /// The answers to all fractions for some values; NULL for none.
    pub fn of<V>(&self, values: usize, mut answer: impl FnMut(f64) -> Result<V>) -> Result<Vec<Option<V>>> {
        let answer = |fraction: &Option<f64>| fraction.filter(|_| values > 0).map(&mut answer).transpose();
        self.all().iter().map(answer).collect()
    }

    /// The answers for groups: those of a group are a list, or the only one; a group without values has none.
    pub fn assembled(&self, answers: ArrayRef, has_values: Vec<bool>) -> Result<ArrayRef> {
        if !self.is_list {
            return Ok(answers);
        }
        let field = Arc::new(Field::new_list_field(answers.data_type().clone(), true));
        if i32::try_from(answers.len()).is_err() {
            return exec_err!("percentiles of all groups are more than {}", i32::MAX);
        }
        let offsets = OffsetBuffer::from_repeated_length(self.all().len(), has_values.len());
        let is_there: NullBuffer = has_values.into_iter().map(|has_values| has_values && self.each.is_some()).collect();
        Ok(Arc::new(ListArray::try_new(field, offsets, answers, Some(is_there))?))
    }
}

#[derive(Clone, Debug)]
pub enum What {
    /// What lies at fractions, between two values perhaps.
    Between(Fractions),
    /// The values at fractions.
    Among(Fractions),
    /// The most frequent value, and of several the first.
    Mode,
}

#[derive(Clone, Debug)]
pub struct PercentileRequest {
    pub what: What,
    pub is_descending: bool,
    /// The type of the values.
    pub of: DataType,
}

impl PercentileRequest {
    /// The answers for lists of values without NULLs.
    pub fn of_lists(&self, lists: &ListArray) -> Result<ArrayRef> {
        match &self.what {
            What::Between(fractions) => match self.of {
                DataType::Float64 => self.between::<Float64Type>(fractions, lists),
                DataType::Interval(_) => self.between::<IntervalMonthDayNanoType>(fractions, lists),
                DataType::Timestamp(..) | DataType::Duration(_) => self.between::<Int64Type>(fractions, lists),
                ref other => exec_err!("nothing lies between two values of {other}"),
            },
            What::Among(fractions) => self.among(fractions, lists),
            What::Mode => self.mode(lists),
        }
    }

    fn between<T: Between>(&self, fractions: &Fractions, lists: &ListArray) -> Result<ArrayRef> {
        let values = cast(lists.values(), &T::DATA_TYPE)?;
        let values = values.as_primitive::<T>().values();
        let mut answers = Vec::with_capacity(lists.len());
        let mut has_values = Vec::with_capacity(lists.len());
        for row in 0..lists.len() {
            stopping::check_at(row)?;
            let mut of_row = values[places(lists, row)].to_vec();
            has_values.push(!of_row.is_empty());
            let one = |fraction| of_any::<T>(fraction, &mut of_row, self.is_descending);
            answers.extend(fractions.of(values_of(lists, row), one)?);
        }
        fractions.assembled(self.typed::<T>(answers)?, has_values)
    }

    /// Answers in the type of the values.
    pub fn typed<T: Between>(&self, answers: Vec<Option<T::Native>>) -> Result<ArrayRef> {
        Ok(cast(&answers.into_iter().collect::<PrimitiveArray<T>>(), &self.of)?)
    }

    fn among(&self, fractions: &Fractions, lists: &ListArray) -> Result<ArrayRef> {
        let values = one_of_each(lists.values());
        let compare = compared(&values)?;
        let mut answers = Vec::with_capacity(lists.len());
        let mut has_values = Vec::with_capacity(lists.len());
        for row in 0..lists.len() {
            stopping::check_at(row)?;
            let places = places(lists, row);
            has_values.push(!places.is_empty());
            let order = self.order(&compare, places)?;
            let one = |fraction: f64| {
                let at = ((fraction * order.len() as f64).ceil() as usize).clamp(1, order.len().max(1)) - 1;
                Ok(order[at])
            };
            answers.extend(fractions.of(order.len(), one)?);
        }
        fractions.assembled(take(&values, &UInt64Array::from(answers), None)?, has_values)
    }

    fn mode(&self, lists: &ListArray) -> Result<ArrayRef> {
        let values = one_of_each(lists.values());
        let compare = compared(&values)?;
        let mut answers: Vec<Option<u64>> = Vec::with_capacity(lists.len());
        for row in 0..lists.len() {
            stopping::check_at(row)?;
            let order = self.order(&compare, places(lists, row))?;
            let is_equal = |one: &u64, other: &u64| compare(*one as usize, *other as usize).is_eq();
            let mut best: Option<&[u64]> = None;
            for equal in order.chunk_by(is_equal) {
                if best.is_none_or(|best| equal.len() > best.len()) {
                    best = Some(equal);
                }
            }
            answers.push(best.and_then(|best| best.first().copied()));
        }
        Ok(take(&values, &UInt64Array::from(answers), None)?)
    }

    /// Places of values in their order; equal ones as they come.
    fn order(&self, compare: &DynComparator, places: Range<usize>) -> Result<Vec<u64>> {
        sorted((places.start as u64..places.end as u64).collect(), |one, other| {
            let order = compare(one as usize, other as usize);
            if self.is_descending { order.reverse() } else { order }
        })
    }
}

/// What compares two of all values, made once: of texts whoever takes a part of them takes all of their buffers.
fn compared(values: &ArrayRef) -> Result<DynComparator> {
    if let Some(spans) = values.as_primitive_opt::<IntervalMonthDayNanoType>() {
        let lengths: Vec<i128> = spans.values().iter().map(|span| length_of(*span)).collect();
        return Ok(Box::new(move |one, other| lengths[one].cmp(&lengths[other])));
    }
    Ok(make_comparator(values, values, SortOptions::default())?)
}

/// Where the values of a list are.
fn places(lists: &ListArray, row: usize) -> Range<usize> {
    if lists.is_null(row) {
        return 0..0;
    }
    let offsets = lists.value_offsets();
    offsets[row] as usize..offsets[row + 1] as usize
}

fn values_of(lists: &ListArray, row: usize) -> usize {
    places(lists, row).len()
}

/// Values of which floats have one NaN and one zero.
fn one_of_each(values: &ArrayRef) -> ArrayRef {
    let values = one_nan(values);
    match values.data_type() {
        DataType::Float64 => {
            let values: Float64Array = values.as_primitive::<Float64Type>().unary(|value| value + 0.0);
            Arc::new(values)
        }
        DataType::Float32 => {
            let values: Float32Array = values.as_primitive::<Float32Type>().unary(|value| value + 0.0);
            Arc::new(values)
        }
        _ => values,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Int32Type;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn lists(of: &[Vec<i32>]) -> ListArray {
        let lists = of.iter().map(|of| (!of.is_empty()).then(|| of.iter().copied().map(Some)));
        ListArray::from_iter_primitive::<Int32Type, _, _>(lists)
    }

    proptest! {
        #[test]
        fn values_are_at_their_fractions_and_the_most_frequent_is_the_first_of_them(
            of in prop::collection::vec(prop::collection::vec(-3..3_i32, 0..12), 1..6),
            fractions in prop::collection::vec(prop::option::of(0.0..=1.0_f64), 0..4),
            is_descending in any::<bool>(),
        ) {
            let each = Fractions { each: Some(fractions.clone()), is_list: true };
            let asked = PercentileRequest { what: What::Among(each), is_descending, of: DataType::Int32 };
            let found = asked.of_lists(&lists(&of)).unwrap();
            let mode = PercentileRequest { what: What::Mode, ..asked }.of_lists(&lists(&of)).unwrap();
            let (found, mode) = (found.as_list::<i32>(), mode.as_primitive::<Int32Type>());
            for (row, mut values) in of.into_iter().enumerate() {
                values.sort_unstable();
                if is_descending {
                    values.reverse();
                }
                prop_assert_eq!(found.is_null(row), values.is_empty());
                prop_assert_eq!(mode.is_null(row), values.is_empty());
                if values.is_empty() {
                    continue;
                }
                // The first value up to which there is that share of all.
                let at = |fraction: f64| (1..=values.len()).find(|&n| n as f64 >= fraction * values.len() as f64);
                let wanted: Vec<Option<i32>> =
                    fractions.iter().map(|fraction| fraction.map(|fraction| values[at(fraction).unwrap() - 1])).collect();
                let answers = found.value(row);
                prop_assert_eq!(answers.as_primitive::<Int32Type>().iter().collect::<Vec<_>>(), wanted);
                let mut counts: BTreeMap<i32, usize> = BTreeMap::new();
                for value in &values {
                    *counts.entry(*value).or_default() += 1;
                }
                let most = counts.values().max().copied().unwrap();
                let wanted = values.iter().copied().find(|value| counts[value] == most);
                prop_assert_eq!(Some(mode.value(row)), wanted);
            }
        }
    }
}
