//! `sum(DISTINCT x)` of what [`super::sum`] adds up.

use arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::DataType;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::Accumulator;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::hash::Hash;
use std::mem::size_of;

/// The sum of some values, of which there is at least one, as a value of a type.
type Total<N> = fn(&mut dyn Iterator<Item = N>, &DataType) -> Result<ScalarValue>;

/// Distinct values, with the state that DataFusion's sum of them has: a list.
pub(crate) struct DistinctSum<T: ArrowPrimitiveType> {
    /// The type of the sum, and of the values in the state.
    of: DataType,
    total: Total<T::Native>,
    /// How often each value is there: a window takes rows out again.
    values: HashMap<T::Native, u64>,
}

impl<T: ArrowPrimitiveType<Native: Eq + Hash>> DistinctSum<T> {
    pub fn new(of: &DataType, total: Total<T::Native>) -> DistinctSum<T> {
        DistinctSum { of: of.clone(), total, values: HashMap::new() }
    }

    fn add(&mut self, values: &PrimitiveArray<T>) {
        for value in values.iter().flatten() {
            *self.values.entry(value).or_default() += 1;
        }
    }
}

impl<T: ArrowPrimitiveType> fmt::Debug for DistinctSum<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DistinctSum").field("of", &self.of).field("values", &self.values.len()).finish()
    }
}

impl<T: ArrowPrimitiveType<Native: Eq + Hash>> Accumulator for DistinctSum<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(values[0].as_primitive());
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for values in states[0].as_list::<i32>().iter().flatten() {
            self.add(values.as_primitive());
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = PrimitiveArray::<T>::from_iter_values(self.values.keys().copied());
        let values = values.with_data_type(self.of.clone());
        let values = (0..values.len()).map(|at| ScalarValue::try_from_array(&values, at));
        let values = values.collect::<Result<Vec<_>>>()?;
        Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(&values, &self.of))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match self.values.is_empty() {
            true => ScalarValue::try_new_null(&self.of),
            false => (self.total)(&mut self.values.keys().copied(), &self.of),
        }
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<T>().iter().flatten() {
            if let Entry::Occupied(mut count) = self.values.entry(value) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn size(&self) -> usize {
        size_of::<DistinctSum<T>>() + self.values.capacity() * (size_of::<(T::Native, u64)>() + 1)
    }
}
