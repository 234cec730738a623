//! Sums and means of intervals.
//!
//! Invariants:
//! - Months, days and time are added up by themselves, in any order; a sum that does not fit is an error.
//! - A mean is the sum divided by the count, as an interval is divided ([`crate::operators::interval_scaling`]).
//! - Frames that move give the same: nothing is rounded before the last step.
//!
//! DataFusion 55.2 has neither.

use crate::operators::interval_scaling::spilled;
use alluvia_types::{Error, ErrorKind};
use alluvia_values::errors::wrap;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, IntervalMonthDayNanoArray};
use arrow::datatypes::{
    DataType, Field, FieldRef, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::utils::format_state_name;
use datafusion_expr::{Accumulator, Coercion, EmitTo, GroupsAccumulator, Signature, TypeSignature, TypeSignatureClass};
use std::mem::size_of;
use std::sync::Arc;

/// The type of intervals.
pub const SPAN: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const MICRO_NANOS: i64 = 1_000;

/// A signature that takes intervals, too.
pub fn with_intervals(signature: &Signature) -> Signature {
    // What is exact takes no text for one.
    let span = Coercion::new_exact(TypeSignatureClass::Interval);
    let types = vec![signature.type_signature.clone(), TypeSignature::Coercible(vec![span])];
    Signature::one_of(types, signature.volatility)
}

/// What sums are between steps.
pub fn state_fields(name: &str) -> Vec<FieldRef> {
    let field = |part: &str| Arc::new(Field::new(format_state_name(name, part), DataType::Int64, true));
    vec![field("count"), field("months"), field("days"), field("micros")]
}

/// What some intervals come to.
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    count: i64,
    months: i64,
    days: i64,
    micros: i64,
}

impl Total {
    fn add(&mut self, span: IntervalMonthDayNano, sign: i64) -> Result<()> {
        let of = Total {
            count: sign,
            months: sign * i64::from(span.months),
            days: sign * i64::from(span.days),
            micros: sign * (span.nanoseconds / MICRO_NANOS),
        };
        self.merge(of)
    }

    fn merge(&mut self, other: Total) -> Result<()> {
        let added = |a: i64, b: i64| a.checked_add(b).ok_or_else(out_of_range);
        self.count = added(self.count, other.count)?;
        self.months = added(self.months, other.months)?;
        self.days = added(self.days, other.days)?;
        self.micros = added(self.micros, other.micros)?;
        Ok(())
    }

    fn value(&self, is_mean: bool) -> Result<Option<IntervalMonthDayNano>> {
        if self.count == 0 {
            return Ok(None);
        }
        let months = i32::try_from(self.months).map_err(|_| out_of_range())?;
        let days = i32::try_from(self.days).map_err(|_| out_of_range())?;
        let nanos = self.micros.checked_mul(MICRO_NANOS).ok_or_else(out_of_range)?;
        let sum = IntervalMonthDayNano::new(months, days, nanos);
        if !is_mean {
            return Ok(Some(sum));
        }
        let count = self.count as f64;
        spilled(sum, |part| part / count).map(Some).ok_or_else(out_of_range)
    }
}

fn out_of_range() -> datafusion_common::DataFusionError {
    wrap(Error::new(ErrorKind::DatetimeRange, "interval out of range"))
}

fn states(totals: &[Total]) -> Vec<ArrayRef> {
    let column = |part: fn(&Total) -> i64| Arc::new(Int64Array::from_iter_values(totals.iter().map(part))) as ArrayRef;
    vec![
        column(|total| total.count),
        column(|total| total.months),
        column(|total| total.days),
        column(|total| total.micros),
    ]
}

fn from_states(states: &[ArrayRef]) -> impl Iterator<Item = Total> + '_ {
    let part = |at: usize, row: usize| states[at].as_primitive::<Int64Type>().value(row);
    let rows = states.first().map_or(0, |state| state.len());
    (0..rows).map(move |row| Total {
        count: part(0, row),
        months: part(1, row),
        days: part(2, row),
        micros: part(3, row),
    })
}

/// Of one group.
#[derive(Debug)]
pub struct IntervalSum {
    total: Total,
    is_mean: bool,
}

impl IntervalSum {
    /// A sum, or a mean.
    pub fn new(is_mean: bool) -> IntervalSum {
        IntervalSum { total: Total::default(), is_mean }
    }

    fn each(&mut self, values: &[ArrayRef], sign: i64) -> Result<()> {
        let spans = values[0].as_primitive::<IntervalMonthDayNanoType>();
        spans.iter().flatten().try_for_each(|span| self.total.add(span, sign))
    }
}

impl Accumulator for IntervalSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.each(values, 1)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.each(values, -1)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::IntervalMonthDayNano(self.total.value(self.is_mean)?))
    }

    fn size(&self) -> usize {
        size_of::<IntervalSum>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        states(&[self.total]).iter().map(|state| ScalarValue::try_from_array(state, 0)).collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        from_states(states).try_for_each(|total| self.total.merge(total))
    }
}

/// Of each group.
#[derive(Debug)]
pub struct IntervalGroups {
    totals: Vec<Total>,
    is_mean: bool,
}

impl IntervalGroups {
    /// Sums, or means.
    pub fn new(is_mean: bool) -> IntervalGroups {
        IntervalGroups { totals: Vec::new(), is_mean }
    }
}

impl GroupsAccumulator for IntervalGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.totals.resize(total_groups, Total::default());
        let spans = values[0].as_primitive::<IntervalMonthDayNanoType>();
        for (at, (&group, span)) in groups.iter().zip(spans).enumerate() {
            let is_taken = filter.is_none_or(|filter| filter.is_valid(at) && filter.value(at));
            if let Some(span) = span.filter(|_| is_taken) {
                self.totals[group].add(span, 1)?;
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total_groups: usize) -> Result<()> {
        self.totals.resize(total_groups, Total::default());
        for (&group, total) in groups.iter().zip(from_states(values)) {
            self.totals[group].merge(total)?;
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let totals = emit_to.take_needed(&mut self.totals);
        let values = totals.iter().map(|total| total.value(self.is_mean));
        Ok(Arc::new(values.collect::<Result<IntervalMonthDayNanoArray>>()?))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(states(&emit_to.take_needed(&mut self.totals)))
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let mut totals = vec![Total::default(); values[0].len()];
        let spans = values[0].as_primitive::<IntervalMonthDayNanoType>();
        for (at, span) in spans.iter().enumerate() {
            let is_taken = filter.is_none_or(|filter| filter.is_valid(at) && filter.value(at));
            if let Some(span) = span.filter(|_| is_taken) {
                totals[at].add(span, 1)?;
            }
        }
        Ok(states(&totals))
    }

    fn size(&self) -> usize {
        self.totals.capacity() * size_of::<Total>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_and_frames_come_to_the_same(
            spans in prop::collection::vec(prop::option::of((-40..40_i32, -50..50_i32, -1_000_000..1_000_000_i64)), 1..20),
            split in 0..20_usize,
            is_mean in any::<bool>(),
        ) {
            let split = split.min(spans.len());
            let array = |spans: &[Option<(i32, i32, i64)>]| {
                let spans = spans.iter().map(|of| of.map(|(m, d, us)| IntervalMonthDayNano::new(m, d, us * 1_000)));
                Arc::new(spans.collect::<IntervalMonthDayNanoArray>()) as ArrayRef
            };
            let mut whole = IntervalSum::new(is_mean);
            whole.update_batch(&[array(&spans)]).unwrap();
            // What came and went leaves nothing.
            whole.update_batch(&[array(&spans[..split])]).unwrap();
            whole.retract_batch(&[array(&spans[..split])]).unwrap();
            let mut groups = IntervalGroups::new(is_mean);
            let first = groups.convert_to_state(&[array(&spans[..split])], None).unwrap();
            groups.merge_batch(&first, &vec![0; split], 1).unwrap();
            groups.update_batch(&[array(&spans[split..])], &vec![0; spans.len() - split], None, 1).unwrap();
            let found = ScalarValue::try_from_array(&groups.evaluate(EmitTo::All).unwrap(), 0).unwrap();
            prop_assert_eq!(found, whole.evaluate().unwrap());
        }
    }
}
