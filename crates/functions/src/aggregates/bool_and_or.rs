//! `bool_and` and `bool_or` over frames that move: how many of the frame's rows are true and false is counted, as rows come and go. Everything
//! else is DataFusion's, whose accumulators (55.2) cannot forget a row.
//!
//! Mends DataFusion (in 55.2): no issue upstream known (searched 2026-11-27: bool_and, bool_or, sliding frame,
//! retract_batch).
//! Held by `slt/everyday.slt` (`bool_and(x > 1) OVER w`).

use crate::delegate::delegate_aggregate;
use arrow::array::{Array, ArrayRef, AsArray};
use datafusion_common::utils::take_function_args;
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::function::AccumulatorArgs;
use datafusion_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator};
use datafusion_functions_aggregate::bool_and_or::{bool_and_udaf, bool_or_udaf};
use std::mem::size_of;
use std::sync::Arc;

/// `bool_and` or `bool_or`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Quantifier {
    inner: Arc<AggregateUDF>,
    is_and: bool,
    aliases: Vec<String>,
}

impl Quantifier {
    /// `bool_and`, which is also `every`.
    pub fn all() -> Quantifier {
        // What `AggregateUDF::with_aliases` (55.2) makes does not pass frames that move on.
        Quantifier { inner: bool_and_udaf(), is_and: true, aliases: vec!["every".to_owned()] }
    }

    /// `bool_or`.
    pub fn any() -> Quantifier {
        Quantifier { inner: bool_or_udaf(), is_and: false, aliases: Vec::new() }
    }
}

impl AggregateUDFImpl for Quantifier {
    delegate_aggregate!();

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.inner.inner().accumulator(args)
    }

    fn create_sliding_accumulator(&self, _args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Counted { is_and: self.is_and, trues: 0, falses: 0 }))
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        self.inner.inner().create_groups_accumulator(args)
    }
}

/// The rows of a frame that are true, and those that are false.
#[derive(Debug)]
struct Counted {
    is_and: bool,
    trues: usize,
    falses: usize,
}

/// How many of some values are true, and how many false.
fn counts(values: &[ArrayRef]) -> Result<(usize, usize)> {
    let [values] = take_function_args("bool_and", values)?;
    let values = values.as_boolean();
    let trues = values.true_count();
    Ok((trues, values.len() - values.null_count() - trues))
}

impl Accumulator for Counted {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (trues, falses) = counts(values)?;
        self.trues += trues;
        self.falses += falses;
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (trues, falses) = counts(values)?;
        self.trues -= trues;
        self.falses -= falses;
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let found = if self.is_and { self.falses == 0 } else { self.trues > 0 };
        Ok(ScalarValue::Boolean((self.trues + self.falses > 0).then_some(found)))
    }

    fn size(&self) -> usize {
        size_of::<Counted>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        internal_err!("frames are not merged")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::BooleanArray;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_frame_is_what_it_holds_now(values in prop::collection::vec(any::<Option<bool>>(), 1..40), width in 1usize..6) {
            for is_and in [true, false] {
                let mut counted = Counted { is_and, trues: 0, falses: 0 };
                let one = |at: usize| [Arc::new(BooleanArray::from(vec![values[at]])) as ArrayRef];
                for at in 0..values.len() {
                    counted.update_batch(&one(at)).unwrap();
                    if at >= width {
                        counted.retract_batch(&one(at - width)).unwrap();
                    }
                    let held: Vec<bool> = values[(at + 1).saturating_sub(width)..=at].iter().flatten().copied().collect();
                    let found = if is_and { held.iter().all(|&held| held) } else { held.iter().any(|&held| held) };
                    let wanted = ScalarValue::Boolean((!held.is_empty()).then_some(found));
                    prop_assert_eq!(counted.evaluate().unwrap(), wanted);
                }
            }
        }
    }
}
