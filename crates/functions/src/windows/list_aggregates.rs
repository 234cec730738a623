//! `array_agg` and `string_agg` over windows.
//!
//! Invariants:
//! - What they make has the rows of a frame in the order of its window. DataFusion 55.2 computes a window from its other end where its rows come in the
//!   opposite order already, as beside a window of that order, and then made lists that were backwards. So these cannot be turned around.
//! - Frames of `string_agg` may move: the texts of a frame are held, and go as its rows go.
//! - Outside of windows, and in all else, they are DataFusion's.
//!
//! Mends DataFusion (in 55.2): no issue upstream known (searched 2026-11-27: array_agg, string_agg, window,
//! reverse_expr, retract_batch).
//! Held by `slt/windows.slt` (`array_agg(id) OVER (ORDER BY id DESC)`, `string_agg(s, '-') OVER`).

use crate::codec::{StateReader, StateWriter, Stateful};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef};
use datafusion_common::utils::take_function_args;
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::utils::AggregateOrderSensitivity;
use datafusion_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF, Signature,
};
use std::collections::VecDeque;
use std::mem::size_of;
use std::sync::Arc;

/// Aggregates that tell in which order rows come.
const LISTS: [&str; 2] = ["array_agg", "string_agg"];

/// Whether a function makes lists and does not keep the order of its window.
pub fn loses_order(function: &AggregateUDF) -> bool {
    LISTS.contains(&function.name()) && !function.inner().is::<InOrder>()
}

/// The function that keeps the order, in the place of one that [`loses_order`].
pub fn in_order(function: &Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(InOrder { inner: Arc::clone(function) }))
}

/// `array_agg` or `string_agg` of a window.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct InOrder {
    inner: Arc<AggregateUDF>,
}

impl Stateful for InOrder {
    const CODE: &'static str = "in_order";

    fn write(&self, state: &mut StateWriter) -> Result<()> {
        state.aggregate(&self.inner)
    }

    fn read(state: &mut StateReader<'_>) -> Result<Self> {
        Ok(InOrder { inner: state.aggregate()? })
    }
}

impl AggregateUDFImpl for InOrder {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn return_field(&self, arg_fields: &[FieldRef]) -> Result<FieldRef> {
        self.inner.return_field(arg_fields)
    }

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arg_types)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.inner.accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if self.name() == "string_agg" && !args.is_distinct && args.order_bys.is_empty() {
            return Ok(Box::new(Texts::default()));
        }
        self.inner.create_sliding_accumulator(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        self.inner.create_groups_accumulator(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::NotSupported
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.inner.supports_null_handling_clause()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// The texts of a frame.
#[derive(Debug, Default)]
struct Texts {
    /// Of each row, if it has a text, what stands before it, and the text.
    rows: VecDeque<Option<(String, String)>>,
    /// What all of them have together.
    bytes: usize,
}

fn bytes_of((before, text): &(String, String)) -> usize {
    before.len() + text.len()
}

impl Accumulator for Texts {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let [texts, befores] = take_function_args("string_agg", values)?;
        let (texts, befores) = (cast(texts, &DataType::LargeUtf8)?, cast(befores, &DataType::LargeUtf8)?);
        for (text, before) in texts.as_string::<i64>().iter().zip(befores.as_string::<i64>().iter()) {
            let row = text.map(|text| (before.unwrap_or_default().to_owned(), text.to_owned()));
            self.bytes += row.as_ref().map_or(0, bytes_of);
            self.rows.push_back(row);
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let gone = values.first().map_or(0, |values| values.len()).min(self.rows.len());
        for row in self.rows.drain(..gone).flatten() {
            self.bytes -= bytes_of(&row);
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut made: Option<String> = None;
        for (before, text) in self.rows.iter().flatten() {
            match &mut made {
                Some(made) => {
                    made.push_str(before);
                    made.push_str(text);
                }
                None => {
                    let mut first = String::with_capacity(self.bytes);
                    first.push_str(text);
                    made = Some(first);
                }
            }
        }
        Ok(ScalarValue::LargeUtf8(made))
    }

    fn size(&self) -> usize {
        size_of::<Texts>() + self.rows.capacity() * size_of::<Option<(String, String)>>() + self.bytes
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
    use arrow::array::StringArray;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_frame_is_what_it_holds_now(
            values in prop::collection::vec(prop::option::of("[a-c]{0,3}"), 1..40),
            width in 1_usize..6,
        ) {
            let mut texts = Texts::default();
            let one = |at: usize| -> [ArrayRef; 2] {
                [Arc::new(StringArray::from(vec![values[at].clone()])), Arc::new(StringArray::from(vec!["-"]))]
            };
            for at in 0..values.len() {
                texts.update_batch(&one(at)).unwrap();
                if at >= width {
                    texts.retract_batch(&one(at - width)).unwrap();
                }
                let held: Vec<&str> =
                    values[(at + 1).saturating_sub(width)..=at].iter().flatten().map(String::as_str).collect();
                let wanted = ScalarValue::LargeUtf8((!held.is_empty()).then(|| held.join("-")));
                prop_assert_eq!(texts.evaluate().unwrap(), wanted);
                prop_assert_eq!(texts.bytes, held.iter().map(|text| text.len() + 1).sum::<usize>());
            }
        }
    }
}
