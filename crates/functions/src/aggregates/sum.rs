//! `sum` of BIGINT in 128 bits, and of DECIMAL in more ([`super::decimal_sum`]). Everything else is DataFusion's `sum`.
//!
//! A sum that is made in several steps stays wide from one to the next, and is narrowed behind the last ([`narrowed_sum`]).
//!
//! Mends apache/datafusion#17539 (in 55.2).
//! Held by `slt/arithmetic.slt` (`SELECT sum(a) FROM (SELECT a FROM n WHERE c = 32767 UNION ALL`).

use super::decimal_sum::{self, DecimalGroups, DecimalSum};
use super::distinct_sum::DistinctSum;
use super::interval_sum::{self, IntervalGroups, IntervalSum, SPAN, with_intervals};
use crate::aggregates::moving_frames::moving_sum;
use crate::casts::kinds::common_field;
use crate::codec::{StateReader, StateWriter, Stateful};
use alluvia_types::{Error, ErrorKind};
use alluvia_values::errors::wrap;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Int64Array, UInt64Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Field, FieldRef, Int64Type, UInt64Type};
use datafusion_common::stats::Precision;
use datafusion_common::utils::take_function_args;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::expr::{AggregateFunction, ScalarFunction};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion_expr::{
    Accumulator, AggregateUDFImpl, ColumnarValue, EmitTo, Expr, GroupsAccumulator, Operator, ReversedUDAF,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, SetMonotonicity, Signature, StatisticsArgs, Volatility,
};
use datafusion_functions_aggregate::sum::Sum;
use std::mem::size_of;
use std::sync::{Arc, LazyLock};

/// What sums are on their way: no sum of 2^63 values of 64 bits leaves it.
pub const WIDE: DataType = DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0);

/// `sum`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CheckedSum {
    inner: Sum,
    signature: Signature,
}

impl Default for CheckedSum {
    fn default() -> CheckedSum {
        let inner = Sum::default();
        CheckedSum { signature: with_intervals(inner.signature()), inner }
    }
}

/// Who adds up, by the type of the sum.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Adds {
    Integers,
    Decimals,
    Intervals,
    /// DataFusion.
    Others,
}

fn adds(sum: &DataType) -> Adds {
    match sum {
        DataType::Int64 => Adds::Integers,
        DataType::Decimal128(..) => Adds::Decimals,
        DataType::Interval(_) => Adds::Intervals,
        _ => Adds::Others,
    }
}

/// The accumulator of a checked sum; `None` for one of DataFusion's.
fn accumulator_of(args: &AccumulatorArgs) -> Option<Box<dyn Accumulator>> {
    let sum = args.return_field.data_type();
    match (adds(sum), args.is_distinct) {
        (Adds::Integers, true) => {
            let total = |values: &mut dyn Iterator<Item = i64>, _: &DataType| {
                Ok(ScalarValue::Int64(Some(narrow(values.map(i128::from).sum())?)))
            };
            Some(Box::new(DistinctSum::<Int64Type>::new(sum, total)))
        }
        (Adds::Integers, false) => Some(Box::<Wide>::default()),
        (Adds::Decimals, true) => Some(Box::new(DistinctSum::<Decimal128Type>::new(sum, decimal_sum::total))),
        (Adds::Decimals, false) => Some(Box::new(DecimalSum::new(sum))),
        (Adds::Intervals, false) => Some(Box::new(IntervalSum::new(false))),
        (Adds::Intervals, true) | (Adds::Others, _) => None,
    }
}

impl AggregateUDFImpl for CheckedSum {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [of] if *of == SPAN => Ok(SPAN),
            _ => self.inner.return_type(arg_types),
        }
    }

    /// Of NUMERIC it is NUMERIC.
    fn return_field(&self, arg_fields: &[FieldRef]) -> Result<FieldRef> {
        let types: Vec<DataType> = arg_fields.iter().map(|field| field.data_type().clone()).collect();
        Ok(common_field(self.name(), self.return_type(&types)?, arg_fields))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        match adds(args.return_type()) {
            _ if args.is_distinct => self.inner.state_fields(args),
            Adds::Others => self.inner.state_fields(args),
            Adds::Intervals => Ok(interval_sum::state_fields(args.name)),
            Adds::Decimals => Ok(decimal_sum::state_fields(&args)),
            Adds::Integers => Ok(vec![
                Field::new(format_state_name(args.name, "sum"), WIDE, true).into(),
                Field::new(format_state_name(args.name, "count"), DataType::UInt64, true).into(),
            ]),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        accumulator_of(&args).map_or_else(|| self.inner.accumulator(args), Ok)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let ours = accumulator_of(&args).or_else(|| moving_sum(&args));
        ours.map_or_else(|| self.inner.create_sliding_accumulator(args), Ok)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let sum = args.return_field.data_type();
        match adds(sum) {
            Adds::Integers => Ok(Box::<WideGroups>::default()),
            Adds::Decimals => Ok(Box::new(DecimalGroups::new(sum))),
            Adds::Intervals => Ok(Box::new(IntervalGroups::new(false))),
            Adds::Others => self.inner.create_groups_accumulator(args),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.inner.reverse_expr()
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.set_monotonicity(data_type)
    }

    fn simplify_expr_op_literal(
        &self,
        function: &AggregateFunction,
        arg: &Expr,
        operator: Operator,
        literal: &Expr,
        arg_is_left: bool,
    ) -> Result<Option<Expr>> {
        // What is made of it adds and multiplies outside of the sum, in a type that decimals may leave.
        if matches!(literal, Expr::Literal(ScalarValue::Decimal128(..) | ScalarValue::Decimal256(..), _)) {
            return Ok(None);
        }
        self.inner.simplify_expr_op_literal(function, arg, operator, literal, arg_is_left)
    }

    fn value_from_stats(&self, args: &StatisticsArgs) -> Option<ScalarValue> {
        // DataFusion 55.2 multiplies a constant by the number of rows: of none that is 0, and their sum is NULL.
        let has_rows = args.statistics.num_rows != Precision::Exact(0);
        self.inner.value_from_stats(args).filter(|_| has_rows)
    }
}

fn narrow(sum: i128) -> Result<i64> {
    i64::try_from(sum).map_err(|_| {
        let error = Error::new(ErrorKind::OutOfRange, format!("bigint out of range: a sum is {sum}"));
        wrap(error.with_hint("sum a wider type: sum(CAST(x AS DECIMAL(38, 0)))"))
    })
}

/// A wide sum as a BIGINT, or the error of a sum that is none.
pub fn narrowed_sum(sum: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(NarrowedSum::new())));
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&FUNCTION), vec![sum]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct NarrowedSum {
    signature: Signature,
}

impl Stateful for NarrowedSum {
    const CODE: &'static str = "narrowed_sum";

    fn write(&self, _state: &mut StateWriter) -> Result<()> {
        Ok(())
    }

    fn read(_state: &mut StateReader<'_>) -> Result<Self> {
        Ok(NarrowedSum::new())
    }
}

impl NarrowedSum {
    fn new() -> NarrowedSum {
        NarrowedSum { signature: Signature::exact(vec![WIDE], Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for NarrowedSum {
    fn name(&self) -> &str {
        "narrowed_sum"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [sums] = take_function_args(self.name(), args.args)?;
        let sums = sums.to_array(args.number_rows)?;
        let sums = sums.as_primitive::<Decimal128Type>();
        let narrowed: Result<Int64Array> = sums.iter().map(|sum| sum.map(narrow).transpose()).collect();
        Ok(ColumnarValue::Array(Arc::new(narrowed?)))
    }
}

/// Which values an aggregate takes: those that are not NULL, of rows that a FILTER lets through. `None` is all.
pub fn taken(valid: Option<&NullBuffer>, filter: Option<&BooleanArray>) -> Option<NullBuffer> {
    let passed = filter.map(|filter| {
        let (passed, nulls) = filter.clone().into_parts();
        NullBuffer::new(nulls.map_or(passed.clone(), |nulls| nulls.inner() & &passed))
    });
    NullBuffer::union(valid, passed.as_ref())
}

/// The sum of the values that are not NULL, and how many they are.
fn total(values: &Int64Array) -> (i128, u64) {
    let count = (values.len() - values.null_count()) as u64;
    // In halves, which no batch overflows: the compiler adds several at a time.
    let halves = |(high, low): (i64, i64), value: i64| (high + (value >> 32), low + (value & 0xffff_ffff));
    let (high, low) = match values.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => values.values().iter().copied().fold((0, 0), halves),
        Some(nulls) => nulls.valid_indices().map(|at| values.value(at)).fold((0, 0), halves),
    };
    ((i128::from(high) << 32) + i128::from(low), count)
}

/// Without groups, and over windows that slide.
#[derive(Debug, Default)]
struct Wide {
    sum: i128,
    count: u64,
}

impl Accumulator for Wide {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, count) = total(values[0].as_primitive::<Int64Type>());
        self.sum += sum;
        self.count += count;
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.sum += states[0].as_primitive::<Decimal128Type>().iter().flatten().sum::<i128>();
        self.count += states[1].as_primitive::<UInt64Type>().iter().flatten().sum::<u64>();
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let sum = ScalarValue::Decimal128(Some(self.sum), DECIMAL128_MAX_PRECISION, 0);
        Ok(vec![sum, ScalarValue::UInt64(Some(self.count))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = if self.count == 0 { None } else { Some(narrow(self.sum)?) };
        Ok(ScalarValue::Int64(sum))
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, count) = total(values[0].as_primitive::<Int64Type>());
        self.sum -= sum;
        self.count -= count;
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn size(&self) -> usize {
        size_of::<Wide>()
    }
}

/// With groups.
#[derive(Debug, Default)]
struct WideGroups {
    sums: Vec<i128>,
    counts: Vec<u64>,
}

impl WideGroups {
    fn take(&mut self, emit_to: EmitTo) -> (Vec<i128>, Vec<u64>) {
        (emit_to.take_needed(&mut self.sums), emit_to.take_needed(&mut self.counts))
    }

    fn resize(&mut self, groups: usize) {
        self.sums.resize(groups, 0);
        self.counts.resize(groups, 0);
    }
}

impl GroupsAccumulator for WideGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.resize(total_groups);
        let values = values[0].as_primitive::<Int64Type>();
        let is_plain = filter.is_none() && values.null_count() == 0;
        for (at, (&group, &value)) in groups.iter().zip(values.values()).enumerate() {
            let is_in = |filter: &BooleanArray| filter.is_valid(at) && filter.value(at);
            if is_plain || (values.is_valid(at) && filter.is_none_or(is_in)) {
                self.sums[group] += i128::from(value);
                self.counts[group] += 1;
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total_groups: usize) -> Result<()> {
        self.resize(total_groups);
        let (sums, counts) = (values[0].as_primitive::<Decimal128Type>(), values[1].as_primitive::<UInt64Type>());
        for ((&group, sum), count) in groups.iter().zip(sums).zip(counts) {
            self.sums[group] += sum.unwrap_or(0);
            self.counts[group] += count.unwrap_or(0);
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (sums, counts) = self.take(emit_to);
        let values: Result<Int64Array> = sums
            .into_iter()
            .zip(counts)
            .map(|(sum, count)| if count == 0 { Ok(None) } else { narrow(sum).map(Some) })
            .collect();
        Ok(Arc::new(values?))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (sums, counts) = self.take(emit_to);
        let sums = Decimal128Array::from(sums).with_data_type(WIDE);
        Ok(vec![Arc::new(sums), Arc::new(UInt64Array::from(counts))])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_primitive::<Int64Type>();
        let nulls = taken(values.nulls(), filter);
        let is_in = |at: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(at));
        let counts: UInt64Array = (0..values.len()).map(|at| Some(u64::from(is_in(at)))).collect();
        let sums: Vec<i128> = values.values().iter().map(|&value| i128::from(value)).collect();
        let sums = Decimal128Array::new(sums.into(), nulls).with_data_type(WIDE);
        Ok(vec![Arc::new(sums), Arc::new(counts)])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<i128>() + self.counts.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn halves_add_up(values in prop::collection::vec(prop::option::of(any::<i64>()), 0..200)) {
            let array = Int64Array::from(values.clone());
            let right = values.iter().flatten().map(|&value| i128::from(value)).sum::<i128>();
            prop_assert_eq!(total(&array), (right, values.iter().flatten().count() as u64));
        }

        #[test]
        fn states_are_added_as_rows_are(
            rows in prop::collection::vec((prop::option::of(any::<i64>()), 0usize..5, prop::option::of(any::<bool>())), 1..60),
            split in 0usize..60,
        ) {
            let split = split.min(rows.len());
            let column = |rows: &[(Option<i64>, usize, Option<bool>)]| {
                let values: ArrayRef = Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>());
                let groups: Vec<usize> = rows.iter().map(|row| row.1).collect();
                let filter: BooleanArray = rows.iter().map(|row| row.2).collect();
                (vec![values], groups, filter)
            };
            let (first, second) = (column(&rows[..split]), column(&rows[split..]));
            let mut merged = WideGroups::default();
            merged.update_batch(&first.0, &first.1, Some(&first.2), 5).unwrap();
            let state = merged.convert_to_state(&second.0, Some(&second.2)).unwrap();
            merged.merge_batch(&state, &second.1, 5).unwrap();
            let state = merged.state(EmitTo::All).unwrap();
            let mut again = WideGroups::default();
            again.merge_batch(&state, &[0, 1, 2, 3, 4], 5).unwrap();
            let right: Vec<Option<i128>> = (0..5)
                .map(|group| {
                    let of = rows.iter().filter(|row| row.1 == group && row.2 == Some(true)).filter_map(|row| row.0);
                    let of: Vec<i64> = of.collect();
                    (!of.is_empty()).then(|| of.iter().map(|&value| i128::from(value)).sum())
                })
                .collect();
            let fits = right.iter().flatten().all(|&sum| i64::try_from(sum).is_ok());
            match again.evaluate(EmitTo::All) {
                Ok(values) => {
                    let values = values.as_primitive::<Int64Type>().iter().map(|value| value.map(i128::from));
                    prop_assert_eq!(values.collect::<Vec<_>>(), right);
                }
                Err(error) => prop_assert!(!fits, "{error}"),
            }
        }
    }
}
