//! `min` and `max` of floats: an infinity is a value, and NaN the greatest, as in PostgreSQL. Everything else is DataFusion's.
//!
//! DataFusion 55.2 begins a group with the largest finite number, which the least of infinities is not above, and takes whatever cannot be
//! compared, so that with NaN it matters which row comes first. Without groups, and over frames, it takes a NaN with the sign set, which
//! a function or a sum may make, for the least of all: there each NaN is made that without.
//!
//! Mends apache/datafusion#24432 (in 55.2).
//! Held by the unit test `groups_have_the_first_or_the_last_in_postgresqls_order`, and without groups by
//! `slt/meaning.slt` (`SELECT min(x - x), max(x - x) FROM infinite`).

use super::sum::taken;
use crate::casts::kinds::{Kind, common_field, kind_of};
use crate::casts::pg_typeof::type_of_field;
use crate::delegate::delegate_aggregate;
use crate::operators::durations::length_of;
use alluvia_types::{Error, ErrorKind};
use alluvia_values::errors::wrap;
use alluvia_values::nan::one_nan;
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, FieldRef, Float32Type, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::function::AccumulatorArgs;
use datafusion_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, SetMonotonicity, StatisticsArgs,
};
use datafusion_functions_aggregate::min_max::{max_udaf, min_udaf};
use std::collections::VecDeque;
use std::mem::size_of;
use std::sync::Arc;

/// `min` or `max`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Extreme {
    inner: Arc<AggregateUDF>,
    is_least: bool,
}

impl Extreme {
    /// `min`.
    pub fn least() -> Extreme {
        Extreme { inner: min_udaf(), is_least: true }
    }

    /// `max`.
    pub fn greatest() -> Extreme {
        Extreme { inner: max_udaf(), is_least: false }
    }
}

impl AggregateUDFImpl for Extreme {
    delegate_aggregate!();

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if *args.return_field.data_type() == SPAN {
            return Ok(Box::new(Spans { held: None, is_least: self.is_least }));
        }
        let is_float = is_float(&args);
        Ok(NanLast::accumulator(self.inner.inner().accumulator(args)?, is_float))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if *args.return_field.data_type() == SPAN {
            return Ok(Box::new(MovingSpans::new(self.is_least)));
        }
        let is_float = is_float(&args);
        Ok(NanLast::accumulator(self.inner.inner().create_sliding_accumulator(args)?, is_float))
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        match args.return_field.data_type() {
            DataType::Float32 => Ok(Box::new(Groups::<Float32Type>::new(self.is_least))),
            DataType::Float64 => Ok(Box::new(Groups::<Float64Type>::new(self.is_least))),
            of if *of == SPAN => Ok(Box::new(SpanGroups { held: Vec::new(), is_least: self.is_least })),
            _ => self.inner.inner().create_groups_accumulator(args),
        }
    }

    fn is_descending(&self) -> Option<bool> {
        self.inner.inner().is_descending()
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.inner().coerce_types(arg_types)
    }

    /// A field of the kind that the values have. PostgreSQL has no order of JSON, and no `min` and `max` of UUID and JSONB.
    fn return_field(&self, arg_fields: &[FieldRef]) -> Result<FieldRef> {
        let types: Vec<DataType> = arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let of = self.return_type(&types)?;
        if let [field] = arg_fields
            && matches!(kind_of(field), Kind::Uuid | Kind::Json | Kind::Jsonb)
        {
            let message = format!("function {}({}) does not exist", self.name(), type_of_field(field));
            let error = Error::new(ErrorKind::UndefinedFunction, message);
            return Err(wrap(error.with_hint("cast it to TEXT, whose order is that of the bytes: max(x::text)")));
        }
        Ok(common_field(self.name(), of, arg_fields))
    }

    fn value_from_stats(&self, args: &StatisticsArgs) -> Option<ScalarValue> {
        self.inner.inner().value_from_stats(args)
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data_type)
    }
}

fn is_float(args: &AccumulatorArgs) -> bool {
    matches!(args.return_field.data_type(), DataType::Float32 | DataType::Float64)
}

const SPAN: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// Whether an interval takes the place of the one that is held: by its length, of equals the first.
fn is_better(span: IntervalMonthDayNano, held: Option<IntervalMonthDayNano>, is_least: bool) -> bool {
    let Some(held) = held else { return true };
    let (span, held) = (length_of(span), length_of(held));
    if is_least { span < held } else { span > held }
}

/// The shortest or the longest interval of one group.
#[derive(Debug)]
struct Spans {
    held: Option<IntervalMonthDayNano>,
    is_least: bool,
}

impl Accumulator for Spans {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for span in values[0].as_primitive::<IntervalMonthDayNanoType>().iter().flatten() {
            if is_better(span, self.held, self.is_least) {
                self.held = Some(span);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::IntervalMonthDayNano(self.held))
    }

    fn size(&self) -> usize {
        size_of::<Spans>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

/// The same of a frame that moves on.
#[derive(Debug)]
struct MovingSpans {
    /// Each interval, with the number of its row, behind which none is better: the first is the best of the frame.
    held: VecDeque<(usize, IntervalMonthDayNano)>,
    /// Rows that have come, and that have left.
    come: usize,
    left: usize,
    is_least: bool,
}

impl MovingSpans {
    fn new(is_least: bool) -> MovingSpans {
        MovingSpans { held: VecDeque::new(), come: 0, left: 0, is_least }
    }
}

impl Accumulator for MovingSpans {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for span in values[0].as_primitive::<IntervalMonthDayNanoType>() {
            if let Some(span) = span {
                while self.held.back().is_some_and(|(_, last)| is_better(span, Some(*last), self.is_least)) {
                    self.held.pop_back();
                }
                self.held.push_back((self.come, span));
            }
            self.come += 1;
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.left += values[0].len();
        while self.held.front().is_some_and(|(row, _)| *row < self.left) {
            self.held.pop_front();
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::IntervalMonthDayNano(self.held.front().map(|(_, span)| *span)))
    }

    fn size(&self) -> usize {
        size_of::<MovingSpans>() + self.held.capacity() * size_of::<(usize, IntervalMonthDayNano)>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

/// The same of each group.
#[derive(Debug)]
struct SpanGroups {
    held: Vec<Option<IntervalMonthDayNano>>,
    is_least: bool,
}

impl SpanGroups {
    fn take(&mut self, emit_to: EmitTo) -> ArrayRef {
        let held = emit_to.take_needed(&mut self.held);
        Arc::new(held.into_iter().collect::<PrimitiveArray<IntervalMonthDayNanoType>>())
    }
}

impl GroupsAccumulator for SpanGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.held.resize(total_groups, None);
        let values = values[0].as_primitive::<IntervalMonthDayNanoType>();
        for (at, (&group, span)) in groups.iter().zip(values).enumerate() {
            let is_taken = filter.is_none_or(|filter| filter.is_valid(at) && filter.value(at));
            if let Some(span) = span.filter(|_| is_taken)
                && is_better(span, self.held[group], self.is_least)
            {
                self.held[group] = Some(span);
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total_groups: usize) -> Result<()> {
        self.update_batch(values, groups, None, total_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        Ok(self.take(emit_to))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.take(emit_to)])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let spans = values[0].as_primitive::<IntervalMonthDayNanoType>();
        let nulls = taken(spans.nulls(), filter);
        Ok(vec![Arc::new(PrimitiveArray::<IntervalMonthDayNanoType>::new(spans.values().clone(), nulls))])
    }

    fn size(&self) -> usize {
        self.held.capacity() * size_of::<Option<IntervalMonthDayNano>>()
    }
}

/// DataFusion's of one group, of values of which no NaN has the sign set.
#[derive(Debug)]
struct NanLast(Box<dyn Accumulator>);

impl NanLast {
    fn accumulator(inner: Box<dyn Accumulator>, is_float: bool) -> Box<dyn Accumulator> {
        if is_float { Box::new(NanLast(inner)) } else { inner }
    }
}

fn without_signs(values: &[ArrayRef]) -> Vec<ArrayRef> {
    values.iter().map(one_nan).collect()
}

impl Accumulator for NanLast {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update_batch(&without_signs(values))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.evaluate()
    }

    fn size(&self) -> usize {
        size_of::<NanLast>() + self.0.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(&without_signs(states))
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.retract_batch(&without_signs(values))
    }

    fn supports_retract_batch(&self) -> bool {
        self.0.supports_retract_batch()
    }
}

/// The extreme value of each group.
#[derive(Debug)]
struct Groups<T: ArrowPrimitiveType> {
    values: Vec<T::Native>,
    /// Whether a group has a value yet.
    seen: Vec<bool>,
    is_least: bool,
}

/// Whether `a` comes before `b`, where NaN comes last.
fn is_below<N: PartialOrd>(a: &N, b: &N) -> bool {
    let is_nan = |value: &N| value.partial_cmp(value).is_none();
    a.partial_cmp(b).map_or_else(|| is_nan(b) && !is_nan(a), |order| order.is_lt())
}

impl<T: ArrowPrimitiveType> Groups<T> {
    fn new(is_least: bool) -> Groups<T> {
        Groups { values: Vec::new(), seen: Vec::new(), is_least }
    }

    fn take(&mut self, emit_to: EmitTo) -> PrimitiveArray<T> {
        let (values, seen) = (emit_to.take_needed(&mut self.values), emit_to.take_needed(&mut self.seen));
        PrimitiveArray::new(values.into(), Some(NullBuffer::from(seen)))
    }
}

impl<T: ArrowPrimitiveType> GroupsAccumulator for Groups<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.values.resize(total_groups, T::Native::default());
        self.seen.resize(total_groups, false);
        let values = values[0].as_primitive::<T>();
        let taken = taken(values.nulls(), filter);
        for (at, (&group, value)) in groups.iter().zip(values.values()).enumerate() {
            if taken.as_ref().is_some_and(|taken| taken.is_null(at)) {
                continue;
            }
            let held = &mut self.values[group];
            let is_better = if self.is_least { is_below(value, held) } else { is_below(held, value) };
            if is_better || !self.seen[group] {
                *held = *value;
                self.seen[group] = true;
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total_groups: usize) -> Result<()> {
        self.update_batch(values, groups, None, total_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        Ok(Arc::new(self.take(emit_to)))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![Arc::new(self.take(emit_to))])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_primitive::<T>();
        Ok(vec![Arc::new(PrimitiveArray::<T>::new(values.values().clone(), taken(values.nulls(), filter)))])
    }

    fn size(&self) -> usize {
        self.values.capacity() * size_of::<T::Native>() + self.seen.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, IntervalMonthDayNanoArray};
    use proptest::prelude::*;

    fn value() -> impl Strategy<Value = Option<f64>> {
        prop_oneof![
            Just(None),
            Just(Some(f64::NAN)),
            Just(Some(-f64::NAN)),
            Just(Some(f64::INFINITY)),
            Just(Some(f64::NEG_INFINITY)),
            (-3i32..3).prop_map(|value| Some(f64::from(value))),
        ]
    }

    /// Sorted as PostgreSQL sorts, the first or the last.
    fn right(values: impl Iterator<Item = f64>, is_least: bool) -> Option<f64> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(|a, b| a.is_nan().cmp(&b.is_nan()).then(a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal)));
        if is_least { values.first().copied() } else { values.last().copied() }
    }

    fn span() -> impl Strategy<Value = Option<IntervalMonthDayNano>> {
        // A month is thirty days, and a day 24 hours.
        let of =
            |(months, days, hours): (i32, i32, i64)| IntervalMonthDayNano::new(months, days, hours * 3_600_000_000_000);
        prop::option::of(
            (-1i32..2, (-2i32..3).prop_map(|days| days * 15), (-1i64..2).prop_map(|days| days * 24)).prop_map(of),
        )
    }

    proptest! {
        #[test]
        fn moving_frames_have_the_shortest_or_the_longest_and_of_equals_the_first(
            spans in prop::collection::vec(span(), 0..40),
            steps in prop::collection::vec((0usize..4, 0usize..4), 0..30),
            is_least in any::<bool>(),
        ) {
            let mut found = MovingSpans::new(is_least);
            let batch = |spans: &[Option<IntervalMonthDayNano>]| -> [ArrayRef; 1] {
                [Arc::new(spans.iter().copied().collect::<IntervalMonthDayNanoArray>())]
            };
            let (mut begin, mut end) = (0, 0);
            for (come, gone) in steps {
                let next = (end + come).min(spans.len());
                found.update_batch(&batch(&spans[end..next])).unwrap();
                end = next;
                let next = (begin + gone).min(end);
                found.retract_batch(&batch(&spans[begin..next])).unwrap();
                begin = next;
                let right = spans[begin..end].iter().flatten().fold(None, |held, span| {
                    if is_better(*span, held, is_least) { Some(*span) } else { held }
                });
                prop_assert_eq!(found.evaluate().unwrap(), ScalarValue::IntervalMonthDayNano(right));
            }
        }

        #[test]
        fn groups_have_the_first_or_the_last_in_postgresqls_order(
            rows in prop::collection::vec((value(), 0usize..4, prop::option::of(any::<bool>())), 0..40),
            split in 0usize..40,
            is_least in any::<bool>(),
            is_converted in any::<bool>(),
        ) {
            let split = split.min(rows.len());
            let parts = |rows: &[(Option<f64>, usize, Option<bool>)]| {
                let values: ArrayRef = Arc::new(rows.iter().map(|row| row.0).collect::<Float64Array>());
                let groups: Vec<usize> = rows.iter().map(|row| row.1).collect();
                (values, groups, rows.iter().map(|row| row.2).collect::<BooleanArray>())
            };
            let mut found = Groups::<Float64Type>::new(is_least);
            let (values, groups, filter) = parts(&rows[..split]);
            found.update_batch(&[values], &groups, Some(&filter), 4).unwrap();
            let (values, groups, filter) = parts(&rows[split..]);
            if is_converted {
                let state = found.convert_to_state(&[values], Some(&filter)).unwrap();
                found.merge_batch(&state, &groups, 4).unwrap();
            } else {
                let mut other = Groups::<Float64Type>::new(is_least);
                other.update_batch(&[values], &groups, Some(&filter), 4).unwrap();
                let state = other.state(EmitTo::All).unwrap();
                found.merge_batch(&state, &[0, 1, 2, 3], 4).unwrap();
            }
            let first = found.evaluate(EmitTo::First(1)).unwrap();
            let rest = found.evaluate(EmitTo::All).unwrap();
            let found = arrow::compute::concat(&[&first, &rest]).unwrap();
            for (group, found) in found.as_primitive::<Float64Type>().iter().enumerate() {
                let of_group = rows.iter().filter(|row| row.1 == group && row.2 == Some(true)).filter_map(|row| row.0);
                let right = right(of_group, is_least);
                let one_nan = |value: f64| if value.is_nan() { f64::NAN.to_bits() } else { value.to_bits() };
                prop_assert_eq!(found.map(one_nan), right.map(one_nan));
            }
        }
    }
}
