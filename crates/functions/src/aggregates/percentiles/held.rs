//! Values of one group or frame, held as numbers.
//!
//! Invariants:
//! - They are put in order only where they are asked for again: the answer for a group is selected, in one pass, and a frame's next row is
//!   put to its place among those of the last one.
//! - What one partition of the rows has is a list, as `array_agg` has it.

use super::between::{Between, of_any, of_ordered};
use crate::aggregates::percentiles::request::{PercentileRequest, What};
use arrow::array::{Array, ArrayRef, ArrowNativeTypeOp, AsArray, ListArray, PrimitiveArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::Field;
use datafusion_common::{Result, ScalarValue, exec_err, internal_err};
use datafusion_expr::Accumulator;
use std::cmp::Ordering;
use std::fmt;
use std::mem::size_of;
use std::sync::Arc;

/// New values that are put to their places one by one; of more all are put in order again.
const FEW: usize = 16;

pub struct Held<T: Between> {
    asked: PercentileRequest,
    /// In ascending order.
    ordered: Vec<T::Native>,
    /// In any order.
    new: Vec<T::Native>,
    /// Whether there was an answer before.
    is_asked_again: bool,
}

impl<T: Between> fmt::Debug for Held<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ordered, new) = (self.ordered.len(), self.new.len());
        f.debug_struct("Held").field("asked", &self.asked).field("ordered", &ordered).field("new", &new).finish()
    }
}

impl<T: Between> Held<T> {
    pub fn new(asked: PercentileRequest) -> Held<T> {
        Held { asked, ordered: Vec::new(), new: Vec::new(), is_asked_again: false }
    }

    fn add(&mut self, values: &ArrayRef) -> Result<()> {
        let values = cast(values, &T::DATA_TYPE)?;
        let values = values.as_primitive::<T>();
        if values.null_count() > 0 {
            self.new.extend(values.iter().flatten());
        } else {
            self.new.extend_from_slice(values.values());
        }
        Ok(())
    }

    /// Puts new values to their places.
    fn settle(&mut self) {
        if self.new.len() > FEW {
            self.ordered.append(&mut self.new);
            // What is in order already is one run to this.
            self.ordered.sort_by(|a, b| T::order(*a, *b));
        }
        for value in self.new.drain(..) {
            let at = self.ordered.partition_point(|held| T::order(*held, value) != Ordering::Greater);
            self.ordered.insert(at, value);
        }
    }

    fn answer(&mut self, fraction: f64) -> Result<T::Native> {
        let is_descending = self.asked.is_descending;
        if self.ordered.is_empty() {
            return of_any::<T>(fraction, &mut self.new, is_descending);
        }
        let (ordered, last) = (&self.ordered, self.ordered.len() - 1);
        of_ordered::<T>(fraction, ordered.len(), |at| ordered[if is_descending { last - at } else { at }])
    }
}

impl<T: Between> Accumulator for Held<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.is_asked_again || !self.ordered.is_empty() {
            self.settle();
        }
        self.is_asked_again = true;
        let What::Between(fractions) = self.asked.what.clone() else {
            return exec_err!("numbers are held for what lies between them");
        };
        let values = self.ordered.len() + self.new.len();
        let answers = fractions.of(values, |fraction| self.answer(fraction))?;
        let answers = fractions.assembled(self.asked.typed::<T>(answers)?, vec![values > 0])?;
        ScalarValue::try_from_array(&answers, 0)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.settle();
        let values = cast(&values[0], &T::DATA_TYPE)?;
        for value in values.as_primitive::<T>().iter().flatten() {
            let first = self.ordered.partition_point(|held| T::order(*held, value) == Ordering::Less);
            // Of values that are equal and not the same, as a month and thirty days are, the same one goes.
            let mut equal = (first..self.ordered.len()).take_while(|&at| T::order(self.ordered[at], value).is_eq());
            let at = equal.find(|&at| self.ordered[at].is_eq(value)).unwrap_or(first);
            if at >= self.ordered.len() {
                return internal_err!("a value leaves a frame that it was not in");
            }
            self.ordered.remove(at);
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn size(&self) -> usize {
        size_of::<Held<T>>() + (self.ordered.capacity() + self.new.capacity()) * size_of::<T::Native>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let mut values = std::mem::take(&mut self.ordered);
        values.append(&mut self.new);
        let values = cast(&PrimitiveArray::<T>::new(values.into(), None), &self.asked.of)?;
        let field = Arc::new(Field::new_list_field(self.asked.of.clone(), true));
        if i32::try_from(values.len()).is_err() {
            return exec_err!("a percentile is of more than {} values", i32::MAX);
        }
        let offsets = OffsetBuffer::from_lengths([values.len()]);
        Ok(vec![ScalarValue::List(Arc::new(ListArray::try_new(field, offsets, values, None)?))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for values in states[0].as_list::<i32>().iter().flatten() {
            self.add(&values)?;
        }
        Ok(())
    }
}
