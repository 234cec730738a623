//! Accumulators of windows and of statements without groups, which ask whether their statement is to stop.
//!
//! DataFusion's windows (55.2) give an accumulator the rows of a whole partition one by one, and ask it for each of them, within one poll.

use crate::stopping;
use arrow::array::ArrayRef;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::Accumulator;

#[derive(Debug)]
pub(super) struct AskingAccumulator {
    inner: Box<dyn Accumulator>,
    calls: usize,
}

impl AskingAccumulator {
    pub fn new(inner: Box<dyn Accumulator>) -> AskingAccumulator {
        AskingAccumulator { inner, calls: 0 }
    }

    fn called(&mut self) -> Result<()> {
        self.calls = self.calls.wrapping_add(1);
        stopping::check_at(self.calls)
    }
}

impl Accumulator for AskingAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.called()?;
        self.inner.update_batch(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.called()?;
        self.inner.merge_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        // To make a list of the frame may take long.
        stopping::check()?;
        self.inner.evaluate()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn size(&self) -> usize {
        size_of::<AskingAccumulator>() + self.inner.size()
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.called()?;
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}
