//! Measures: count, sum and sum of squares of each block; for floats also what the sums leave out.
//!
//! Integers and decimals are summed exactly, in 256 bits; a sum of squares that would not fit in 76 digits is NULL
//! ("unknown"). Floats are summed with compensation in interleaved sums ([`LaneSum`]), chosen by a row's
//! place in its block, so that a block's sum does not depend on how its rows were handed in. NaN and the infinities are
//! counted and left out of everything else. The smallest and largest value of an integer or decimal are the column's
//! bounds, which are exact; those of a float, without NaN and infinities, are kept here.

use crate::float_sum::LaneSum;
use crate::packed::{Encoding, PackedAs};
use arrow::array::{Array, ArrayRef, AsArray, Decimal256Array, Float64Array, PrimitiveArray, UInt32Array};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Decimal128Type, Decimal256Type, DecimalType, Float32Type, Float64Type, Int16Type,
    Int32Type, Int64Type, UInt32Type, i256,
};
use std::sync::Arc;

/// Below this, the square of a value and the sum of a block's squares fit in 128 bits.
const SMALL: i128 = 1 << 56;

/// What is known of a measure, one entry per block.
#[derive(Clone, Debug)]
pub struct MeasureSummary {
    /// Values that are not NULL (`UInt32`).
    pub counts: ArrayRef,
    /// Sums: `Decimal256(76, scale)` of integers and decimals; `Float64` of the finite floats.
    pub sums: ArrayRef,
    /// Sums of squares: `Decimal256(76, 2 * scale)`, NULL where unknown; or `Float64`.
    pub squares: ArrayRef,
    /// Of floats only.
    pub floats: Option<FloatSummary>,
    /// How the values are packed.
    pub(crate) encodings: Vec<Encoding>,
}

/// What a float measure has beside its sums, one entry per block.
#[derive(Clone, Debug)]
pub struct FloatSummary {
    /// What compensation adds to the sum (`Float64`).
    pub sum_rests: ArrayRef,
    /// Smallest finite value (`Float64`), NULL if there is none.
    pub mins: ArrayRef,
    /// Largest finite value (`Float64`), NULL if there is none.
    pub maxs: ArrayRef,
    /// NaNs (`UInt32`).
    pub nans: ArrayRef,
    /// Positive infinities (`UInt32`).
    pub infinities: ArrayRef,
    /// Negative infinities (`UInt32`).
    pub negative_infinities: ArrayRef,
}

impl MeasureSummary {
    /// Whether a block of a float measure holds NaN or an infinity.
    pub(crate) fn is_special(&self, block: usize) -> bool {
        self.floats.as_ref().is_some_and(|floats| {
            [&floats.nans, &floats.infinities, &floats.negative_infinities]
                .iter()
                .any(|array| array.as_primitive::<UInt32Type>().value(block) > 0)
        })
    }
}

/// Gathers one measure.
pub(crate) enum MeasureBuilder {
    Exact {
        scale: i8,
        block: ExactBlock,
        counts: Vec<u32>,
        sums: Vec<Option<i256>>,
        squares: Vec<Option<i256>>,
        encodings: Vec<Encoding>,
    },
    Float {
        block: Box<FloatBlock>,
        done: Vec<FloatBlock>,
        encodings: Vec<Encoding>,
    },
}

impl MeasureBuilder {
    /// The builder for a type; `None` where nothing can be summed.
    pub(crate) fn new(data_type: &DataType) -> Option<MeasureBuilder> {
        let exact = |scale| MeasureBuilder::Exact {
            scale,
            block: ExactBlock::default(),
            counts: Vec::new(),
            sums: Vec::new(),
            squares: Vec::new(),
            encodings: Vec::new(),
        };
        match data_type {
            DataType::Int16 | DataType::Int32 | DataType::Int64 => Some(exact(0)),
            DataType::Decimal128(_, scale) => Some(exact(*scale)),
            DataType::Float32 | DataType::Float64 => {
                Some(MeasureBuilder::Float { block: Box::default(), done: Vec::new(), encodings: Vec::new() })
            }
            _ => None,
        }
    }

    /// Takes in some of the current block's values; `place` is the first one's row within the block.
    pub(crate) fn update(&mut self, values: &dyn Array, place: usize) {
        match (self, values.data_type()) {
            (MeasureBuilder::Exact { block, .. }, DataType::Int16) => block.update(values.as_primitive::<Int16Type>()),
            (MeasureBuilder::Exact { block, .. }, DataType::Int32) => block.update(values.as_primitive::<Int32Type>()),
            (MeasureBuilder::Exact { block, .. }, DataType::Int64) => block.update(values.as_primitive::<Int64Type>()),
            (MeasureBuilder::Exact { block, .. }, _) => block.update(values.as_primitive::<Decimal128Type>()),
            (MeasureBuilder::Float { block, .. }, DataType::Float32) => {
                let values = values.as_primitive::<Float32Type>().unary::<_, Float64Type>(f64::from);
                block.update(&values, place);
            }
            (MeasureBuilder::Float { block, .. }, _) => block.update(values.as_primitive::<Float64Type>(), place),
        }
    }

    pub(crate) fn end_block(&mut self, encoding: Encoding) -> PackedAs {
        match self {
            MeasureBuilder::Exact { block, counts, sums, squares, encodings, .. } => {
                encodings.push(encoding);
                let block = std::mem::take(block);
                counts.push(block.count);
                sums.push(Some(block.sum));
                squares.push(block.squares.filter(|_| !block.overflown));
                PackedAs { encoding, count: block.count.into(), is_special: false }
            }
            MeasureBuilder::Float { block, done, encodings } => {
                encodings.push(encoding);
                let is_special = block.nans + block.infinities + block.negative_infinities > 0;
                let packed_as = PackedAs { encoding, count: block.count.into(), is_special };
                done.push(std::mem::take(block));
                packed_as
            }
        }
    }

    pub(crate) fn finish(self) -> MeasureSummary {
        match self {
            MeasureBuilder::Exact { scale, counts, sums, squares, encodings, .. } => MeasureSummary {
                counts: Arc::new(UInt32Array::from(counts)),
                sums: wide(sums, scale),
                // A scale above 38 squares to more digits than there are: no Decimal(38) has one.
                squares: wide(squares, scale.saturating_mul(2)),
                floats: None,
                encodings,
            },
            MeasureBuilder::Float { done, encodings, .. } => {
                let numbers = |pick: &dyn Fn(&FloatBlock) -> u32| -> ArrayRef {
                    Arc::new(UInt32Array::from_iter_values(done.iter().map(pick)))
                };
                let floats = |pick: &dyn Fn(&FloatBlock) -> Option<f64>| -> ArrayRef {
                    Arc::new(Float64Array::from_iter(done.iter().map(pick)))
                };
                MeasureSummary {
                    counts: numbers(&|block| block.count),
                    sums: floats(&|block| Some(block.sum.total().0)),
                    squares: floats(&|block| Some(block.squares.total().0)),
                    floats: Some(FloatSummary {
                        sum_rests: floats(&|block| Some(block.sum.total().1)),
                        mins: floats(&|block| block.finite().then_some(block.min)),
                        maxs: floats(&|block| block.finite().then_some(block.max)),
                        nans: numbers(&|block| block.nans),
                        infinities: numbers(&|block| block.infinities),
                        negative_infinities: numbers(&|block| block.negative_infinities),
                    }),
                    encodings,
                }
            }
        }
    }
}

fn wide(values: Vec<Option<i256>>, scale: i8) -> ArrayRef {
    let values: Decimal256Array = values.into_iter().collect();
    Arc::new(values.with_data_type(DataType::Decimal256(Decimal256Type::MAX_PRECISION, scale)))
}

/// A block of integers or decimals.
#[derive(Default)]
pub(crate) struct ExactBlock {
    count: u32,
    sum: i256,
    squares: Option<i256>,
    overflown: bool,
}

impl ExactBlock {
    fn update<T: ArrowPrimitiveType>(&mut self, values: &PrimitiveArray<T>)
    where
        T::Native: Into<i128>,
    {
        let count = values.len() - values.null_count();
        if count == 0 {
            // No values: the sum of squares is known to be 0.
            self.squares.get_or_insert(i256::ZERO);
            return;
        }
        self.count += count as u32;
        let squares = self.squares.get_or_insert(i256::ZERO);
        let wide = |native: T::Native| -> i128 { native.into() };
        let all_small = values.values().iter().all(|&native| (-SMALL..SMALL).contains(&wide(native)));
        if all_small {
            let (mut sum, mut sum_squares) = (0i128, 0i128);
            match values.nulls() {
                None => values.values().iter().for_each(|&native| {
                    let value = wide(native) as i64;
                    sum += i128::from(value);
                    sum_squares += i128::from(value) * i128::from(value);
                }),
                Some(nulls) => values.values().iter().zip(nulls).for_each(|(&native, valid)| {
                    let value = if valid { wide(native) as i64 } else { 0 };
                    sum += i128::from(value);
                    sum_squares += i128::from(value) * i128::from(value);
                }),
            }
            // Neither sum reaches 2^140, far below 76 digits.
            self.sum = self.sum.wrapping_add(i256::from_i128(sum));
            *squares = squares.wrapping_add(i256::from_i128(sum_squares));
        } else {
            for native in values.iter().flatten() {
                let value = i256::from_i128(wide(native));
                self.sum = self.sum.wrapping_add(value);
                let sum_squares = value.checked_mul(value).and_then(|square| squares.checked_add(square));
                match sum_squares {
                    Some(sum) => *squares = sum,
                    None => self.overflown = true,
                }
            }
        }
        self.overflown |= *squares > Decimal256Type::MAX_FOR_EACH_PRECISION[Decimal256Type::MAX_PRECISION as usize];
    }
}

/// A block of floats.
#[derive(Clone)]
pub(crate) struct FloatBlock {
    count: u32,
    nans: u32,
    infinities: u32,
    negative_infinities: u32,
    min: f64,
    max: f64,
    sum: LaneSum,
    squares: LaneSum,
}

impl Default for FloatBlock {
    fn default() -> Self {
        FloatBlock {
            count: 0,
            nans: 0,
            infinities: 0,
            negative_infinities: 0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            sum: LaneSum::default(),
            squares: LaneSum::default(),
        }
    }
}

impl FloatBlock {
    fn finite(&self) -> bool {
        self.count > self.nans + self.infinities + self.negative_infinities
    }

    fn update(&mut self, values: &PrimitiveArray<Float64Type>, place: usize) {
        self.count += (values.len() - values.null_count()) as u32;
        let clean = values.null_count() == 0 && values.values().iter().all(|value| value.is_finite());
        if clean {
            for &value in values.values().iter() {
                self.min = if value < self.min { value } else { self.min };
                self.max = if value > self.max { value } else { self.max };
            }
            self.sum.add_all(values.values(), place, |value| value);
            self.squares.add_all(values.values(), place, |value| value * value);
            return;
        }
        let mut kept = vec![0.0; values.len()];
        for (place, value) in values.iter().enumerate().filter_map(|(place, value)| Some((place, value?))) {
            if value.is_finite() {
                kept[place] = value;
                self.min = if value < self.min { value } else { self.min };
                self.max = if value > self.max { value } else { self.max };
            } else if value.is_nan() {
                self.nans += 1;
            } else if value > 0.0 {
                self.infinities += 1;
            } else {
                self.negative_infinities += 1;
            }
        }
        self.sum.add_all(&kept, place, |value| value);
        self.squares.add_all(&kept, place, |value| value * value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Int64Array;
    use proptest::prelude::*;

    fn build(pieces: &[ArrayRef]) -> MeasureSummary {
        let mut builder = MeasureBuilder::new(pieces[0].data_type()).expect("numeric");
        let mut place = 0;
        for piece in pieces {
            builder.update(piece, place);
            place += piece.len();
        }
        builder.end_block(Encoding::Floats);
        builder.finish()
    }

    proptest! {
        #[test]
        fn integers_sum_exactly(values in prop::collection::vec(prop::option::of(any::<i64>()), 1..50), shift in 0u32..64) {
            let values: Vec<Option<i64>> = values.into_iter().map(|value| value.map(|value| value >> shift)).collect();
            let summary = build(&[Arc::new(Int64Array::from(values.clone()))]);
            let known: Vec<i128> = values.iter().flatten().map(|&value| value.into()).collect();
            prop_assert_eq!(summary.counts.as_primitive::<arrow::datatypes::UInt32Type>().value(0), known.len() as u32);
            let sum = known.iter().fold(i256::ZERO, |sum, &value| sum + i256::from_i128(value));
            let square = |value: i128| i256::from_i128(value) * i256::from_i128(value);
            let squares = known.iter().fold(i256::ZERO, |sum, &value| sum + square(value));
            prop_assert_eq!(summary.sums.as_primitive::<Decimal256Type>().value(0), sum);
            prop_assert_eq!(summary.squares.as_primitive::<Decimal256Type>().value(0), squares);
        }

        #[test]
        fn float_sums_do_not_depend_on_the_pieces(
            values in prop::collection::vec(prop::option::weighted(0.9, prop::num::f64::ANY), 1..80),
            cut in 0usize..80,
        ) {
            let cut = cut.min(values.len());
            let whole: ArrayRef = Arc::new(Float64Array::from(values.clone()));
            let one = build(std::slice::from_ref(&whole));
            let two = build(&[whole.slice(0, cut), whole.slice(cut, values.len() - cut)]);
            let bits = |array: &ArrayRef| array.as_primitive::<Float64Type>().value(0).to_bits();
            prop_assert_eq!(bits(&one.sums), bits(&two.sums));
            prop_assert_eq!(bits(&one.squares), bits(&two.squares));
            let (one, two) = (one.floats.unwrap(), two.floats.unwrap());
            prop_assert_eq!(bits(&one.sum_rests), bits(&two.sum_rests));
            let finite: Vec<f64> = values.iter().flatten().copied().filter(|value| value.is_finite()).collect();
            let least = finite.iter().copied().reduce(f64::min);
            prop_assert_eq!(one.mins.as_primitive::<Float64Type>().iter().next().unwrap(), least);
        }
    }

    #[test]
    fn compensation_keeps_what_plain_sums_lose() {
        let mut values = vec![1e16];
        values.extend([1.0; 1000]);
        values.push(-1e16);
        let summary = build(&[Arc::new(Float64Array::from(values))]);
        let sum = summary.sums.as_primitive::<Float64Type>().value(0);
        let rest = summary.floats.unwrap().sum_rests.as_primitive::<Float64Type>().value(0);
        assert_eq!(sum + rest, 1000.0);
    }

    #[test]
    fn squares_that_do_not_fit_are_unknown() {
        let huge = PrimitiveArray::<Decimal128Type>::from(vec![Some(10i128.pow(38) - 1); 9])
            .with_precision_and_scale(38, 0)
            .expect("fits");
        let summary = build(&[Arc::new(huge)]);
        assert!(summary.squares.is_null(0));
        assert!(summary.sums.is_valid(0));
    }
}
