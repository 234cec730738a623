//! `var_pop` and `stddev_pop` of one value that is infinite, or no number: no number, as in PostgreSQL.
//!
//! DataFusion 55.2 takes every single value for one that does not vary. By groups, and over frames, it and [`crate::aggregates::moving_frames`] do not.
//!
//! Mends DataFusion (in 55.2): no issue upstream known (searched 2026-11-27: var_pop, stddev_pop, one value, NaN,
//! infinity, 0).
//! Held by `slt/text_calls.slt` (`var_pop(x), stddev_pop(x), var_pop(1 / x)`).

use arrow::array::ArrayRef;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::Accumulator;

/// An accumulator of variances of doubles, or of their roots, made of DataFusion's, whose state begins with the count
/// and the mean.
pub fn accumulator(inner: Box<dyn Accumulator>) -> Box<dyn Accumulator> {
    Box::new(VarianceOfOne { inner })
}

#[derive(Debug)]
struct VarianceOfOne {
    inner: Box<dyn Accumulator>,
}

impl Accumulator for VarianceOfOne {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match self.inner.state()?.as_slice() {
            [ScalarValue::UInt64(Some(1)), ScalarValue::Float64(Some(mean)), ..] if !mean.is_finite() => {
                Ok(ScalarValue::Float64(Some(f64::NAN)))
            }
            _ => self.inner.evaluate(),
        }
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }
}
