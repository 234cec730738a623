//! Sums, averages and spreads of floats over frames that move.
//!
//! Invariants:
//! - What a frame comes to is made of the rows that it holds, and of no other: nothing is taken away from a float. A row that was large, or
//!   no number at all, leaves no trace when it goes.
//! - A row costs the same however many the frame holds.
//! - There is one NaN.
//!
//! DataFusion 55.2 subtracts what leaves a frame: behind 1e20 the sum of 2 and 3 is 2, one NaN or infinity makes all
//! that follow NaN, and the deviation of equal values is the root of a number below zero. Here a frame is a queue of
//! two stacks, each of which knows what all its rows come to (Tangwongsan, Hirzel, Schneider and Wu, "General
//! incremental sliding-window aggregation", PVLDB 8(7), 2015, section 2, take it from functional queues). Spreads are
//! put together as Chan, Golub and LeVeque do ("Updating formulae and a pairwise algorithm for computing sample
//! variances", 1979). Averages of durations are of exact sums ([`crate::aggregates::exact`]), and everything else is
//! DataFusion's.
//!
//! Mends DataFusion (in 55.2): no issue upstream known (searched 2026-11-27: sliding window, sum, avg, stddev, float,
//! retract, NaN, cancellation).
//! Held by `slt/bounds.slt` (`sum(x) OVER w, avg(x) OVER w, stddev(x) OVER w`).

use crate::aggregates::exact::accumulators::{Alone, Groups};
use crate::aggregates::exact::sums::{self, Exact, Mean};
use crate::aggregates::interval_avg::unit_of;
use crate::aggregates::interval_sum::{self, IntervalGroups, IntervalSum, SPAN, with_intervals};
use crate::aggregates::variance_of_one::accumulator;
use crate::casts::kinds::{NUMERIC, common_field, is_numeric};
use arrow::array::{ArrayRef, AsArray, Float64Array};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion_common::{Result, ScalarValue, exec_err, internal_err};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF, Signature,
};
use datafusion_functions_aggregate::average::avg_udaf;
use datafusion_functions_aggregate::correlation::corr_udaf;
use datafusion_functions_aggregate::covariance::{covar_pop_udaf, covar_samp_udaf};
use datafusion_functions_aggregate::stddev::{stddev_pop_udaf, stddev_udaf};
use datafusion_functions_aggregate::variance::{var_pop_udaf, var_samp_udaf};
use std::fmt::Debug;
use std::mem::size_of;
use std::sync::Arc;

/// What is made of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum MovingAggregate {
    Average,
    Variance { of_sample: bool },
    Deviation { of_sample: bool },
    Covariance { of_sample: bool },
    Correlation,
}

/// One of DataFusion's aggregates, but over frames that move.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Moving {
    inner: Arc<AggregateUDF>,
    of: MovingAggregate,
    aliases: Vec<String>,
    signature: Signature,
}

impl Moving {
    fn new(inner: Arc<AggregateUDF>, of: MovingAggregate) -> Moving {
        let signature = match of {
            MovingAggregate::Average => with_intervals(inner.signature()),
            _ => inner.signature().clone(),
        };
        let mut aliases = inner.aliases().to_vec();
        if inner.name() == "var" {
            aliases.push("variance".to_owned());
        }
        Moving { inner, of, aliases, signature }
    }

    /// `avg`
    pub(crate) fn average() -> Moving {
        Moving::new(avg_udaf(), MovingAggregate::Average)
    }

    /// `var`, which is also `var_samp`, or `var_pop`.
    pub(crate) fn variance(of_sample: bool) -> Moving {
        let inner = if of_sample { var_samp_udaf() } else { var_pop_udaf() };
        Moving::new(inner, MovingAggregate::Variance { of_sample })
    }

    /// `stddev` or `stddev_pop`.
    pub(crate) fn deviation(of_sample: bool) -> Moving {
        let inner = if of_sample { stddev_udaf() } else { stddev_pop_udaf() };
        Moving::new(inner, MovingAggregate::Deviation { of_sample })
    }

    /// `covar_samp` or `covar_pop`.
    pub(crate) fn covariance(of_sample: bool) -> Moving {
        let inner = if of_sample { covar_samp_udaf() } else { covar_pop_udaf() };
        Moving::new(inner, MovingAggregate::Covariance { of_sample })
    }

    /// `corr`
    pub(crate) fn correlation() -> Moving {
        Moving::new(corr_udaf(), MovingAggregate::Correlation)
    }

    /// How an average of durations or of NUMERIC is made of their sum; `None` for every other aggregate.
    fn mean_of_durations(&self, arguments: &[FieldRef], is_distinct: bool) -> Option<Mean> {
        if self.of != MovingAggregate::Average || is_distinct {
            return None;
        }
        if arguments.first().is_some_and(|of| is_numeric(of)) {
            return Some(Mean::Numeric);
        }
        unit_of(arguments).map(Mean::Duration)
    }

    /// Whether it is an average of intervals.
    fn is_of_intervals(&self, arguments: &[FieldRef], is_distinct: bool) -> bool {
        let is_interval = arguments.first().is_some_and(|of| *of.data_type() == SPAN);
        self.of == MovingAggregate::Average && is_interval && !is_distinct
    }
}

impl AggregateUDFImpl for Moving {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match (self.of, arg_types) {
            (MovingAggregate::Average, [of]) if *of == SPAN || *of == NUMERIC => Ok(of.clone()),
            _ => self.inner.inner().return_type(arg_types),
        }
    }

    /// Of NUMERIC it is NUMERIC.
    fn return_field(&self, arg_fields: &[FieldRef]) -> Result<FieldRef> {
        let types: Vec<DataType> = arg_fields.iter().map(|field| field.data_type().clone()).collect();
        Ok(common_field(self.name(), self.return_type(&types)?, arg_fields))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        let is_ours = self.mean_of_durations(args.expr_fields, args.is_distinct).is_some()
            || self.is_of_intervals(args.expr_fields, args.is_distinct);
        is_ours || self.inner.inner().groups_accumulator_supported(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.inner().order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.inner.inner().reverse_expr()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.inner().documentation()
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if self.is_of_intervals(args.input_fields, args.is_distinct) {
            return Ok(interval_sum::state_fields(args.name));
        }
        if self.mean_of_durations(args.input_fields, args.is_distinct).is_none() {
            return self.inner.inner().state_fields(args);
        }
        let field = |(part, of)| Field::new(format_state_name(args.name, part), of, true).into();
        Ok(sums::Total::fields().into_iter().map(field).collect())
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if self.is_of_intervals(args.expr_fields, args.is_distinct) {
            return Ok(Box::new(IntervalSum::new(true)));
        }
        match self.mean_of_durations(args.expr_fields, args.is_distinct) {
            Some(mean) => Ok(Box::new(Alone::<sums::Total>::new(mean))),
            None => {
                let of_all = matches!(
                    self.of,
                    MovingAggregate::Variance { of_sample: false } | MovingAggregate::Deviation { of_sample: false }
                );
                let may_be_lone = of_all && !args.is_distinct;
                let inner = self.inner.inner().accumulator(args)?;
                Ok(if may_be_lone { accumulator(inner) } else { inner })
            }
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if self.is_of_intervals(args.expr_fields, args.is_distinct) {
            return Ok(Box::new(IntervalSum::new(true)));
        }
        if let Some(mean) = self.mean_of_durations(args.expr_fields, args.is_distinct) {
            return Ok(Box::new(Alone::<sums::Total>::new(mean)));
        }
        if !is_of_doubles(&args) {
            return self.inner.inner().create_sliding_accumulator(args);
        }
        Ok(match self.of {
            MovingAggregate::Average => Box::new(Frame::<Total>::new(Total::average)),
            MovingAggregate::Variance { of_sample: true } => Box::new(Frame::<Spread>::new(Spread::of_sample)),
            MovingAggregate::Variance { of_sample: false } => Box::new(Frame::<Spread>::new(Spread::of_all)),
            MovingAggregate::Deviation { of_sample: true } => {
                Box::new(Frame::<Spread>::new(|spread| spread.of_sample().map(f64::sqrt)))
            }
            MovingAggregate::Deviation { of_sample: false } => {
                Box::new(Frame::<Spread>::new(|spread| spread.of_all().map(f64::sqrt)))
            }
            MovingAggregate::Covariance { of_sample: true } => Box::new(Frame::<Pairs>::new(Pairs::of_sample)),
            MovingAggregate::Covariance { of_sample: false } => Box::new(Frame::<Pairs>::new(Pairs::of_all)),
            MovingAggregate::Correlation => Box::new(Frame::<Pairs>::new(Pairs::correlation)),
        })
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        if self.is_of_intervals(args.expr_fields, args.is_distinct) {
            return Ok(Box::new(IntervalGroups::new(true)));
        }
        match self.mean_of_durations(args.expr_fields, args.is_distinct) {
            Some(mean) => Ok(Box::new(Groups::<sums::Total>::new(mean))),
            None => self.inner.inner().create_groups_accumulator(args),
        }
    }
}

/// The sum of doubles over a frame that moves; `None` of what else is summed.
pub(crate) fn moving_sum(args: &AccumulatorArgs) -> Option<Box<dyn Accumulator>> {
    is_of_doubles(args).then(|| Box::new(Frame::<Total>::new(Total::sum)) as Box<dyn Accumulator>)
}

fn is_of_doubles(args: &AccumulatorArgs) -> bool {
    let is_double = |data_type: &DataType| *data_type == DataType::Float64;
    let of_doubles = args.expr_fields.iter().all(|field| is_double(field.data_type()));
    !args.is_distinct && of_doubles && is_double(args.return_field.data_type())
}

/// What some rows come to.
trait Summary: Copy + Debug + Send + Sync + 'static {
    /// What counts of a row.
    type Row: Copy + Debug + Send + Sync + 'static;

    fn of(row: Self::Row) -> Self;

    /// With the rows behind it.
    fn with(self, later: Self) -> Self;

    /// The rows of some columns that count.
    fn rows(columns: &[ArrayRef]) -> Result<Vec<Self::Row>>;
}

/// A frame's rows that count.
#[derive(Debug)]
struct Frame<S: Summary> {
    /// The older rows, the oldest last: what each and those before it here come to.
    front: Vec<S>,
    /// The younger ones, the oldest first, and what they come to.
    back: Vec<S::Row>,
    of_back: Option<S>,
    value: fn(S) -> Option<f64>,
}

impl<S: Summary> Frame<S> {
    fn new(value: fn(S) -> Option<f64>) -> Frame<S> {
        Frame { front: Vec::new(), back: Vec::new(), of_back: None, value }
    }

    fn push(&mut self, row: S::Row) {
        let one = S::of(row);
        self.of_back = Some(self.of_back.map_or(one, |before| before.with(one)));
        self.back.push(row);
    }

    /// Forgets the oldest row; whether there was one.
    fn pop(&mut self) -> bool {
        if self.front.is_empty() {
            self.of_back = None;
            for row in self.back.drain(..).rev() {
                let one = S::of(row);
                self.front.push(self.front.last().map_or(one, |&later| one.with(later)));
            }
        }
        self.front.pop().is_some()
    }

    fn value(&self) -> Option<f64> {
        let all = match (self.front.last(), self.of_back) {
            (Some(front), Some(back)) => front.with(back),
            (Some(&front), None) => front,
            (None, back) => back?,
        };
        (self.value)(all).map(|value| if value.is_nan() { f64::NAN } else { value })
    }
}

impl<S: Summary> Accumulator for Frame<S> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        S::rows(values)?.into_iter().for_each(|row| self.push(row));
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for _ in S::rows(values)? {
            if !self.pop() {
                return internal_err!("a row leaves a frame that it never came into");
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.value()))
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.front.capacity() * size_of::<S>() + self.back.capacity() * size_of::<S::Row>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("frames have no states")
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        internal_err!("frames are not merged")
    }
}

fn doubles(column: Option<&ArrayRef>) -> Result<&Float64Array> {
    match column.and_then(|column| column.as_primitive_opt::<Float64Type>()) {
        Some(doubles) => Ok(doubles),
        None => exec_err!("a column of doubles is wanted"),
    }
}

/// The values that are not NULL.
fn singles(columns: &[ArrayRef]) -> Result<Vec<f64>> {
    Ok(doubles(columns.first())?.iter().flatten().collect())
}

#[derive(Clone, Copy, Debug)]
struct Total {
    count: f64,
    sum: f64,
}

impl Total {
    fn sum(self) -> Option<f64> {
        Some(self.sum)
    }

    fn average(self) -> Option<f64> {
        Some(self.sum / self.count)
    }
}

impl Summary for Total {
    type Row = f64;

    fn of(value: f64) -> Total {
        Total { count: 1.0, sum: value }
    }

    fn with(self, later: Total) -> Total {
        Total { count: self.count + later.count, sum: self.sum + later.sum }
    }

    fn rows(columns: &[ArrayRef]) -> Result<Vec<f64>> {
        singles(columns)
    }
}

/// Squares are sums of squared distances from the mean.
#[derive(Clone, Copy, Debug)]
struct Spread {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Spread {
    fn of_sample(self) -> Option<f64> {
        (self.count > 1.0).then(|| self.squares / (self.count - 1.0))
    }

    fn of_all(self) -> Option<f64> {
        Some(self.squares / self.count)
    }
}

impl Summary for Spread {
    type Row = f64;

    fn of(value: f64) -> Spread {
        // Of an infinity there is no distance.
        Spread { count: 1.0, mean: value, squares: if value.is_finite() { 0.0 } else { f64::NAN } }
    }

    fn with(self, later: Spread) -> Spread {
        let count = self.count + later.count;
        let apart = later.mean - self.mean;
        Spread {
            count,
            mean: self.mean + apart * (later.count / count),
            squares: self.squares + later.squares + apart * apart * (self.count * later.count / count),
        }
    }

    fn rows(columns: &[ArrayRef]) -> Result<Vec<f64>> {
        singles(columns)
    }
}

#[derive(Clone, Copy, Debug)]
struct Pairs {
    first: Spread,
    second: Spread,
    /// The sum of the products of both distances.
    products: f64,
}

impl Pairs {
    fn of_sample(self) -> Option<f64> {
        (self.first.count > 1.0).then(|| self.products / (self.first.count - 1.0))
    }

    fn of_all(self) -> Option<f64> {
        Some(self.products / self.first.count)
    }

    fn correlation(self) -> Option<f64> {
        let (first, second) = (self.first.squares, self.second.squares);
        // Where one of them does not vary there is none.
        (first != 0.0 && second != 0.0).then(|| self.products / (first * second).sqrt())
    }
}

impl Summary for Pairs {
    type Row = (f64, f64);

    fn of((first, second): (f64, f64)) -> Pairs {
        let (first, second) = (Spread::of(first), Spread::of(second));
        Pairs { first, second, products: first.squares * second.squares }
    }

    fn with(self, later: Pairs) -> Pairs {
        let (first, second) = (self.first.with(later.first), self.second.with(later.second));
        let apart = (later.first.mean - self.first.mean) * (later.second.mean - self.second.mean);
        let weight = self.first.count * later.first.count / first.count;
        Pairs { first, second, products: self.products + later.products + apart * weight }
    }

    fn rows(columns: &[ArrayRef]) -> Result<Vec<(f64, f64)>> {
        let (first, second) = (doubles(columns.first())?, doubles(columns.get(1))?);
        Ok(first.iter().zip(second).filter_map(|(first, second)| first.zip(second)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn column(values: &[Option<f64>]) -> ArrayRef {
        Arc::new(Float64Array::from(values.to_vec()))
    }

    /// What the rows of a frame come to, in two passes over them.
    fn model(rows: &[(f64, f64)]) -> [Option<f64>; 5] {
        let count = rows.len() as f64;
        if rows.is_empty() {
            return [None; 5];
        }
        let mean = |of: fn(&(f64, f64)) -> f64| rows.iter().map(of).sum::<f64>() / count;
        let (first, second) = (mean(|row| row.0), mean(|row| row.1));
        let squares = |of: &dyn Fn(&(f64, f64)) -> f64| rows.iter().map(of).sum::<f64>();
        let of_first = squares(&|row| (row.0 - first).powi(2));
        let of_second = squares(&|row| (row.1 - second).powi(2));
        let products = squares(&|row| (row.0 - first) * (row.1 - second));
        let sample = |sum: f64| (count > 1.0).then(|| sum / (count - 1.0));
        let varies = of_first > 1e-9 && of_second > 1e-9;
        [
            Some(first * count),
            sample(of_first),
            Some(of_first / count),
            sample(products),
            varies.then(|| products / (of_first * of_second).sqrt()),
        ]
    }

    proptest! {
        #[test]
        fn a_frame_is_what_it_holds_now(
            rows in prop::collection::vec((prop::option::of(-40i32..40), prop::option::of(-40i32..40)), 1..60),
            width in 1usize..8,
        ) {
            let rows: Vec<(Option<f64>, Option<f64>)> =
                rows.into_iter().map(|(a, b)| (a.map(|a| f64::from(a) / 4.0), b.map(|b| f64::from(b) / 4.0))).collect();
            let mut sum = Frame::<Total>::new(Total::sum);
            let mut sample = Frame::<Spread>::new(Spread::of_sample);
            let mut all = Frame::<Spread>::new(Spread::of_all);
            let mut covariance = Frame::<Pairs>::new(Pairs::of_sample);
            let mut correlation = Frame::<Pairs>::new(Pairs::correlation);
            for at in 0..rows.len() {
                let columns = |at: usize| [column(&[rows[at].0]), column(&[rows[at].1])];
                let new = columns(at);
                let frames: [&mut dyn Accumulator; 5] =
                    [&mut sum, &mut sample, &mut all, &mut covariance, &mut correlation];
                let mut found = Vec::new();
                for (place, frame) in frames.into_iter().enumerate() {
                    let arguments = if place < 3 { 1 } else { 2 };
                    frame.update_batch(&new[..arguments]).unwrap();
                    if at >= width {
                        frame.retract_batch(&columns(at - width)[..arguments]).unwrap();
                    }
                    let ScalarValue::Float64(value) = frame.evaluate().unwrap() else { panic!("a double") };
                    found.push(value);
                }
                let held = &rows[(at + 1).saturating_sub(width)..=at];
                let singles: Vec<(f64, f64)> = held.iter().filter_map(|row| row.0.map(|a| (a, a))).collect();
                let pairs: Vec<(f64, f64)> = held.iter().filter_map(|row| row.0.zip(row.1)).collect();
                let expected = [model(&singles)[0], model(&singles)[1], model(&singles)[2], model(&pairs)[3]];
                for (found, expected) in found.iter().zip(expected) {
                    prop_assert_eq!(found.is_some(), expected.is_some());
                    prop_assert!((found.unwrap_or(0.0) - expected.unwrap_or(0.0)).abs() < 1e-9);
                }
                if let Some(expected) = model(&pairs)[4] {
                    prop_assert!((found[4].unwrap() - expected).abs() < 1e-9);
                }
            }
        }
    }

    #[test]
    fn what_has_gone_leaves_no_trace() {
        let values = [1e20, f64::NAN, f64::INFINITY, 0.1, 0.1, 0.1];
        let mut sum = Frame::<Total>::new(Total::sum);
        let mut deviation = Frame::<Spread>::new(|spread| spread.of_sample().map(f64::sqrt));
        for (at, value) in values.into_iter().enumerate() {
            for frame in [&mut sum as &mut dyn Accumulator, &mut deviation] {
                frame.update_batch(&[column(&[Some(value)])]).unwrap();
                if at >= 2 {
                    frame.retract_batch(&[column(&[Some(values[at - 2])])]).unwrap();
                }
            }
        }
        assert_eq!(sum.evaluate().unwrap(), ScalarValue::Float64(Some(0.2)));
        assert_eq!(deviation.evaluate().unwrap(), ScalarValue::Float64(Some(0.0)));
        assert!(sum.retract_batch(&[column(&[Some(0.1), Some(0.1), Some(0.1)])]).is_err());
    }
}
