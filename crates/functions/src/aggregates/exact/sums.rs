//! Numbers added up exactly: their sum, and where it is asked for the sum of their squares.

use super::ExactAggregate;
use crate::aggregates::interval_avg::rounded_mean;
use crate::aggregates::sum::WIDE;
use crate::casts::kinds::NUMERIC;
use alluvia_types::{Error, ErrorKind};
use alluvia_values::errors::wrap;
use arrow::array::{ArrayRef, AsArray, Decimal128Array, Decimal256Array, Float64Array, Int64Array, UInt64Array};
use arrow::compute::cast;
use arrow::datatypes::{
    DECIMAL256_MAX_PRECISION, DataType, Decimal128Type, Decimal256Type, TimeUnit, UInt64Type, i256,
};
use datafusion_common::Result;
use std::fmt::Debug;
use std::sync::Arc;

/// What some numbers come to, in units of their last digit.
pub trait Exact: Copy + Debug + Default + Send + Sync + 'static {
    /// How sums become the values of a function.
    type Evaluation: Copy + Debug + Send + Sync + 'static;

    /// What it is between steps, by name. Sums may have more digits than the types say: nobody else looks at them.
    fn fields() -> Vec<(&'static str, DataType)>;

    /// Of one number.
    fn of(value: i128) -> Self;

    /// Adds the sums of other numbers; fails where a sum of squares leaves 256 bits.
    fn add(&mut self, other: Self) -> Result<()>;

    /// Takes out what was added.
    fn subtract(&mut self, other: Self);

    /// The value of a function for each of some sums; NULL for sums of too few numbers.
    fn evaluate(all: &[Self], evaluation: Self::Evaluation) -> Result<ArrayRef>;

    /// Columns of states.
    fn states(all: &[Self]) -> Vec<ArrayRef>;

    /// The sums in each row of columns of states, which are in the order of [`Exact::fields`].
    fn from_states(states: &[ArrayRef]) -> Vec<Self>;
}

/// Of integers: no sum of 2^63 values of 64 bits leaves 128.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Total {
    count: u64,
    sum: i128,
}

/// What the arithmetic mean of some integers is.
#[derive(Clone, Copy, Debug)]
pub enum Mean {
    /// A double.
    Double,
    /// A duration of the unit that the integers count, rounded to the nearest.
    Duration(TimeUnit),
    /// A NUMERIC, rounded half away from zero.
    Numeric,
}

impl Total {
    /// The mean as a double; `None` of no numbers.
    fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }
}

impl Exact for Total {
    type Evaluation = Mean;

    fn fields() -> Vec<(&'static str, DataType)> {
        vec![("count", DataType::UInt64), ("sum", WIDE)]
    }

    fn of(value: i128) -> Total {
        Total { count: 1, sum: value }
    }

    fn add(&mut self, other: Total) -> Result<()> {
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
        Ok(())
    }

    fn subtract(&mut self, other: Total) {
        self.count -= other.count;
        self.sum = self.sum.wrapping_sub(other.sum);
    }

    fn evaluate(all: &[Total], mean: Mean) -> Result<ArrayRef> {
        match mean {
            Mean::Double => Ok(Arc::new(all.iter().map(Total::mean).collect::<Float64Array>())),
            Mean::Duration(unit) => {
                let means = all.iter().map(|total| rounded_mean(total.sum, total.count));
                Ok(cast(&means.collect::<Result<Int64Array>>()?, &DataType::Duration(unit))?)
            }
            Mean::Numeric => {
                let mean = |total: &Total| {
                    let count = i128::from(total.count);
                    (count > 0).then(|| {
                        let (below, rest) = (total.sum / count, total.sum % count);
                        below + if 2 * rest.abs() >= count { rest.signum() } else { 0 }
                    })
                };
                Ok(Arc::new(all.iter().map(mean).collect::<Decimal128Array>().with_data_type(NUMERIC)))
            }
        }
    }

    fn states(all: &[Total]) -> Vec<ArrayRef> {
        let counts = UInt64Array::from_iter_values(all.iter().map(|total| total.count));
        let sums = Decimal128Array::from_iter_values(all.iter().map(|total| total.sum)).with_data_type(WIDE);
        vec![Arc::new(counts), Arc::new(sums)]
    }

    fn from_states(states: &[ArrayRef]) -> Vec<Total> {
        let (counts, sums) = (states[0].as_primitive::<UInt64Type>(), states[1].as_primitive::<Decimal128Type>());
        counts.values().iter().zip(sums.values()).map(|(&count, &sum)| Total { count, sum }).collect()
    }
}

/// Of integers and decimals, in 256 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Squares {
    count: u64,
    sum: i256,
    squares: i256,
}

const WIDEST: DataType = DataType::Decimal256(DECIMAL256_MAX_PRECISION, 0);

/// A function of numbers and their squares, and how many digits behind the point the numbers have.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    /// The function.
    pub of: ExactAggregate,
    /// The digits behind the point.
    pub scale: i8,
}

impl Exact for Squares {
    type Evaluation = Spread;

    fn fields() -> Vec<(&'static str, DataType)> {
        vec![("count", DataType::UInt64), ("sum", WIDEST), ("squares", WIDEST)]
    }

    fn of(value: i128) -> Squares {
        let wide = i256::from_i128(value);
        let squares = match i64::try_from(value) {
            Ok(small) => i256::from_i128(i128::from(small) * i128::from(small)),
            // Below 2^254.
            Err(_) => wide.wrapping_mul(wide),
        };
        Squares { count: 1, sum: wide, squares }
    }

    fn add(&mut self, other: Squares) -> Result<()> {
        self.count += other.count;
        // Of as many values as there can be the sum has fewer bits than the squares.
        self.sum = self.sum.wrapping_add(other.sum);
        self.squares = self.squares.checked_add(other.squares).ok_or_else(too_large)?;
        Ok(())
    }

    fn subtract(&mut self, other: Squares) {
        self.count -= other.count;
        self.sum = self.sum.wrapping_sub(other.sum);
        self.squares = self.squares.wrapping_sub(other.squares);
    }

    fn evaluate(all: &[Squares], Spread { of, scale }: Spread) -> Result<ArrayRef> {
        Ok(Arc::new(all.iter().map(|sums| sums.value(of, scale)).collect::<Float64Array>()))
    }

    fn states(all: &[Squares]) -> Vec<ArrayRef> {
        let wide = |of: fn(&Squares) -> i256| {
            Arc::new(Decimal256Array::from_iter_values(all.iter().map(of)).with_data_type(WIDEST)) as ArrayRef
        };
        let counts = UInt64Array::from_iter_values(all.iter().map(|sums| sums.count));
        vec![Arc::new(counts), wide(|sums| sums.sum), wide(|sums| sums.squares)]
    }

    fn from_states(states: &[ArrayRef]) -> Vec<Squares> {
        let (sums, squares) = (states[1].as_primitive::<Decimal256Type>(), states[2].as_primitive::<Decimal256Type>());
        let counts = states[0].as_primitive::<UInt64Type>().values().iter();
        let sums = counts.zip(sums.values()).zip(squares.values());
        sums.map(|((&count, &sum), &squares)| Squares { count, sum, squares }).collect()
    }
}

impl Squares {
    /// The value of a function, of numbers with so many digits behind the point; `None` of too few.
    fn value(&self, of: ExactAggregate, scale: i8) -> Option<f64> {
        let of_sample =
            matches!(of, ExactAggregate::Variance { of_sample: true } | ExactAggregate::Deviation { of_sample: true });
        if self.count <= u64::from(of_sample) {
            return None;
        }
        let n = self.count as f64;
        let unit = 10f64.powi(scale.into());
        let variance = || self.spread() / n / (if of_sample { n - 1.0 } else { n }) / (unit * unit);
        Some(match of {
            ExactAggregate::Average => double(self.sum) / n / unit,
            ExactAggregate::Variance { .. } => variance(),
            ExactAggregate::Deviation { .. } => variance().sqrt(),
        })
    }

    /// The number of values times the sum of their squared distances from their mean.
    fn spread(&self) -> f64 {
        let count = i256::from_i128(self.count.into());
        // The sum is `mean` times the number, and `rest`, which is less than the number.
        let mean = self.sum.wrapping_div(count);
        let rest = self.sum.wrapping_sub(mean.wrapping_mul(count));
        // Squared distances from `mean`: squares - 2 mean sum + count mean^2. They are less than four times the squares, and what goes
        // round on the way comes back.
        let about = self.squares.wrapping_sub(mean.wrapping_mul(self.sum)).wrapping_sub(mean.wrapping_mul(rest));
        let rest_squared = rest.wrapping_mul(rest);
        match about.checked_mul(count) {
            Some(product) => double(product.wrapping_sub(rest_squared)),
            // So many that the rest is nothing beside them.
            None => double(about) * self.count as f64 - double(rest_squared),
        }
    }
}

/// A number as a double: the nearest one of what 128 bits hold.
fn double(number: i256) -> f64 {
    let of_parts = || {
        let (low, high) = number.wrapping_abs().to_parts();
        let size = high as f64 * 2f64.powi(128) + low as f64;
        if number.is_negative() { -size } else { size }
    };
    number.to_i128().map_or_else(of_parts, |small| small as f64)
}

fn too_large() -> datafusion_common::DataFusionError {
    let error = Error::new(ErrorKind::OutOfRange, "numeric out of range: squares of decimals have more than 76 digits");
    wrap(error.with_hint("take doubles, which are rounded: stddev(CAST(x AS DOUBLE))"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sums<S: Exact>(values: &[i128]) -> S {
        let mut sums = S::default();
        values.iter().for_each(|&value| sums.add(S::of(value)).expect("fits"));
        sums
    }

    proptest! {
        /// Whatever lies below them, numbers are as far apart.
        #[test]
        fn spreads_are_those_of_the_differences(
            offsets in prop::collection::vec(-1000_i128..1000, 1..50),
            base in prop_oneof![Just(0_i128), Just(i128::from(i64::MAX) - 1000), -(10_i128.pow(37))..10_i128.pow(36)],
            scale in 0i8..12,
        ) {
            let n = offsets.len() as f64;
            let mean = offsets.iter().sum::<i128>() as f64 / n;
            let squared: f64 = offsets.iter().map(|&offset| (offset as f64 - mean).powi(2)).sum();
            let unit = 10f64.powi(scale.into());
            let of_all = squared / n / unit / unit;
            let values: Vec<i128> = offsets.iter().map(|offset| base + offset).collect();
            let sums: Squares = sums(&values);
            let close = |found: Option<f64>, right: f64| found.is_some_and(|found| (found - right).abs() <= 1e-9 * right.abs());
            let (variance, deviation) = (ExactAggregate::Variance { of_sample: false }, ExactAggregate::Deviation { of_sample: false });
            prop_assert!(close(sums.value(variance, scale), of_all));
            prop_assert!(close(sums.value(deviation, scale), of_all.sqrt()));
            let of_sample = sums.value(ExactAggregate::Variance { of_sample: true }, scale);
            match offsets.len() {
                1 => prop_assert_eq!(of_sample, None),
                _ => prop_assert!(close(of_sample, squared / (n - 1.0) / unit / unit)),
            }
        }

        #[test]
        fn what_was_added_is_taken_out(values in prop::collection::vec(any::<i64>().prop_map(i128::from), 0..30), split in 0usize..30) {
            let (gone, left) = values.split_at(split.min(values.len()));
            let (mut all, mut totals): (Squares, Total) = (sums(&values), sums(&values));
            gone.iter().for_each(|&value| all.subtract(Squares::of(value)));
            gone.iter().for_each(|&value| totals.subtract(Total::of(value)));
            prop_assert_eq!(all, sums(left));
            prop_assert_eq!(totals, sums(left));
        }
    }

    #[test]
    fn averages_are_of_exact_sums() {
        let epochs: Vec<i128> = (0..7000).map(|at| 1_700_000_000_000_000 + at % 7).collect();
        assert_eq!(sums::<Total>(&epochs).mean(), Some(1_700_000_000_000_003.0));
        assert_eq!(sums::<Squares>(&epochs).value(ExactAggregate::Average, 0), Some(1_700_000_000_000_003.0));
        assert_eq!(Total::default().mean(), None);
    }

    #[test]
    fn squares_that_leave_256_bits_fail() {
        let large = 10_i128.pow(38) - 1;
        let mut sums = Squares::default();
        let failed = (0..16).any(|_| sums.add(Squares::of(large)).is_err());
        assert!(failed);
    }
}
