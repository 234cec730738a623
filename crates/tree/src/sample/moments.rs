//! Count, sum and sum of squares of selected rows, on packed values.

use crate::answer::{Reading, without_null_floats, without_zeros};
use crate::filter::{self, Mask};
use crate::packed::{Encoding, Value, powi, value_at};
use crate::segment::values_of;
use std::ops::Range;

/// Of values that are not NULL.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Moments {
    pub(crate) count: u64,
    pub(crate) sum: f64,
    pub(crate) squares: f64,
}

/// Of the selected rows among some of a block; the first of them is row 0 of the mask. `measure` is its place in the
/// reading.
pub(crate) fn moments(
    reading: &Reading,
    measure: usize,
    is_float: bool,
    block: usize,
    rows: Range<usize>,
    mask: &Mask,
) -> Moments {
    let Some((place, stream)) = &reading.measures[measure] else { return Moments::default() };
    let (count, has_nulls) = values_of(&reading.index, *place, &reading.segment, block);
    if count == 0 {
        return Moments::default();
    }
    let summary = &reading.index.table.measures[*place].1;
    let encoding = summary.encodings[block];
    let width = encoding.width();
    let packed = &stream.block(block)[rows.start * width..rows.end * width];
    let wanted = filter::Wanted { sum: true, squares: true, min_max: false };
    match encoding {
        Encoding::Integers { base, width: 0, scale } => {
            let (count, value) = (mask.count() as u64, base as f64 / powi(scale));
            let n = count as f64;
            Moments { count, sum: n * value, squares: n * value * value }
        }
        Encoding::Integers { base, width, scale } => {
            let width = usize::from(width);
            let kept = has_nulls.then(|| without_zeros(packed, width, mask));
            let sums = filter::sum_masked_packed(packed, width, kept.as_ref().unwrap_or(mask), wanted);
            let (n, base) = (sums.count as f64, base as f64);
            let sum = sums.sum as f64;
            let packed_squares = sums.squares as f64 + f64::from(sums.squares_carry) * 2f64.powi(128);
            // Sum of (base + p)^2.
            let squares = (n * base * base + 2.0 * base * sum + packed_squares).max(0.0);
            Moments {
                count: sums.count,
                sum: (n * base + sum) / powi(scale),
                squares: squares / powi(scale) / powi(scale),
            }
        }
        Encoding::Floats => {
            let kept = has_nulls.then(|| without_null_floats(packed, encoding, mask));
            let finite = !summary.is_special(block);
            let sums = filter::sum_masked_f64(packed, kept.as_ref().unwrap_or(mask), wanted, finite);
            let (sum, squares) = (sums.sum.total(), sums.squares.total());
            Moments { count: sums.count, sum: sum.0 + sum.1, squares: squares.0 + squares.1 }
        }
        Encoding::Wide => mask.rows().fold(Moments::default(), |all, row| {
            match value_at(packed, encoding, has_nulls, is_float, row) {
                Value::Integer(value) => Moments {
                    count: all.count + 1,
                    sum: all.sum + value as f64,
                    squares: all.squares + (value as f64).powi(2),
                },
                _ => all,
            }
        }),
    }
}
