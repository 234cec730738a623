//! The list of all rows.

use super::OrderedLists;
use arrow::array::{Array, ArrayRef};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{Accumulator, EmitTo, GroupsAccumulator};

/// Lists of one group.
#[derive(Debug)]
pub(in super::super) struct OrderedList(pub OrderedLists);

fn one_group(columns: &[ArrayRef]) -> Vec<usize> {
    vec![0; columns.first().map_or(0, |column| column.len())]
}

impl Accumulator for OrderedList {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update_batch(values, &one_group(values), None, 1)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(states, &one_group(states), 1)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        // There is a group even of no rows.
        self.0.rows.grow(1);
        ScalarValue::try_from_array(&self.0.evaluate(EmitTo::All)?, 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.rows.grow(1);
        self.0.state(EmitTo::All)?.iter().map(|state| ScalarValue::try_from_array(state, 0)).collect()
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}
