//! What accumulators hold, asked for as seldom as is good enough.
//!
//! DataFusion's accumulators (55.2) of lists and of distinct values count all that they hold to say how much it is, and are asked after each
//! batch. So they are asked here only once what they were given has grown by an eighth: that is nine times the rows in all, and what they say is
//! too small by a ninth at most.

use crate::view_arrays::{buffers_of, compact};
use arrow::array::{Array, ArrayRef, BooleanArray};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{Accumulator, EmitTo, GroupsAccumulator};
use std::mem::size_of;

/// A part of the rows by which they grow before what is held is asked for again.
const GROWTH: u32 = 8;

/// Buffers that texts may have.
const BUFFERS_MAX: usize = 8;

/// What somebody held when it was asked last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gauge {
    pub bytes: usize,
    rows: u32,
    new: u32,
}

impl Gauge {
    /// Of who holds nothing but this.
    pub fn new(bytes: usize) -> Gauge {
        Gauge { bytes, rows: 0, new: 0 }
    }

    /// Whether it is time to ask again, with so many rows more.
    pub fn add(&mut self, rows: usize) -> bool {
        self.new = self.new.saturating_add(u32::try_from(rows).unwrap_or(u32::MAX));
        self.new > self.rows / GROWTH || self.rows == u32::MAX
    }

    /// What the answer is.
    pub fn set(&mut self, bytes: usize) {
        *self = Gauge { bytes, rows: self.rows.saturating_add(self.new), new: 0 };
    }
}

/// An accumulator that is asked seldom.
#[derive(Debug)]
pub(super) struct GaugedAccumulator {
    inner: Box<dyn Accumulator>,
    gauge: Gauge,
}

impl GaugedAccumulator {
    pub fn new(inner: Box<dyn Accumulator>) -> GaugedAccumulator {
        let gauge = Gauge::new(inner.size());
        GaugedAccumulator { inner, gauge }
    }

    fn added(&mut self, columns: &[ArrayRef]) {
        if self.gauge.add(columns.first().map_or(0, |column| column.len())) {
            self.gauge.set(self.inner.size());
        }
    }
}

impl Accumulator for GaugedAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(values)?;
        self.added(values);
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)?;
        self.added(states);
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.inner.evaluate()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn size(&self) -> usize {
        size_of::<GaugedAccumulator>() + self.gauge.bytes
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

/// An accumulator of groups that is asked seldom, and gives texts in few buffers: lists of them have those of all batches, for each batch that
/// is made of them in turn.
pub(super) struct GaugedGroups {
    inner: Box<dyn GroupsAccumulator>,
    gauge: Gauge,
}

impl GaugedGroups {
    pub fn new(inner: Box<dyn GroupsAccumulator>) -> GaugedGroups {
        let gauge = Gauge::new(inner.size());
        GaugedGroups { inner, gauge }
    }

    fn added(&mut self, rows: usize) {
        if self.gauge.add(rows) {
            self.gauge.set(self.inner.size());
        }
    }

    /// Some groups are gone.
    fn taken(&mut self) {
        self.gauge = Gauge::new(self.inner.size());
    }
}

impl GroupsAccumulator for GaugedGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.inner.update_batch(values, groups, filter, total_groups)?;
        self.added(groups.len());
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total_groups: usize) -> Result<()> {
        self.inner.merge_batch(states, groups, total_groups)?;
        self.added(groups.len());
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let values = of_few_buffers(self.inner.evaluate(emit_to)?)?;
        self.taken();
        Ok(values)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let states = self.inner.state(emit_to)?.into_iter().map(of_few_buffers).collect::<Result<_>>()?;
        self.taken();
        Ok(states)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.gauge.bytes
    }
}

fn of_few_buffers(array: ArrayRef) -> Result<ArrayRef> {
    if buffers_of(&array) <= BUFFERS_MAX { Ok(array) } else { compact(&array) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_to_answer_grows_as_the_rows_do() {
        for batch in [1, 7, 1_000] {
            let (mut gauge, mut rows, mut counted) = (Gauge::new(0), 0, 0);
            while rows < 1_000_000 {
                rows += batch;
                if gauge.add(batch) {
                    gauge.set(rows);
                    counted += rows;
                }
                assert!(gauge.bytes <= rows && gauge.bytes * 9 >= rows * 8 - 8 * batch, "{rows}: {}", gauge.bytes);
            }
            assert!(counted <= 10 * rows, "{counted} for {rows}, {batch} at a time");
        }
    }
}
