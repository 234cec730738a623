//! The kernels without vector instructions: what every other variant is compared with, and what other processors run.
//!
//! Invariants:
//! - These functions are the meaning of the others: same results, to the last bit.
//! - A set is looked up without a branch per row; rows are selected without one where most are.

use super::{Fitted, FloatSums, LANES, LaneSum, Mask, PackedSums, Wanted, each_word, narrow_words};

/// Rows that are compared in the time that one row takes by itself (measured on Zen 5). If there are fewer to a selected
/// row, the rows are tested one by one.
const SPARSE: usize = 8;
/// Rows that are looked up in a set in that time.
const SPARSE_IN_MEMORY: usize = 2;

/// See [`super::filter`]; the mask is truncated already, as for all variants.
pub(super) fn filter(packed: &[u8], width: usize, test: Fitted<'_>, mask: &mut Mask) {
    let sparse = match test {
        Fitted::Range { .. } => SPARSE,
        Fitted::Set(_) => SPARSE_IN_MEMORY,
    };
    if mask.count() * sparse < packed.len() / width {
        return filter_sparse(packed, width, test, mask);
    }
    filter_dense(packed, width, test, mask);
}

/// Tests all rows.
fn filter_dense(packed: &[u8], width: usize, test: Fitted<'_>, mask: &mut Mask) {
    match (width, test) {
        (1, Fitted::Range { low, span }) => dense::<1, 64>(packed, mask, |value| value.wrapping_sub(low) <= span),
        (2, Fitted::Range { low, span }) => dense::<2, 128>(packed, mask, |value| value.wrapping_sub(low) <= span),
        (_, Fitted::Range { low, span }) => dense::<4, 256>(packed, mask, |value| value.wrapping_sub(low) <= span),
        (1, Fitted::Set(set)) => {
            let set = byte_set(set);
            dense::<1, 64>(packed, mask, |value| set[value as usize / 64 % 4] >> (value % 64) & 1 == 1);
        }
        (2, Fitted::Set(set)) => dense::<2, 128>(packed, mask, |value| in_set(set, value)),
        (_, Fitted::Set(set)) => dense::<4, 256>(packed, mask, |value| in_set(set, value)),
    }
}

/// As bytes first, because comparisons of many become vectors of whatever the target has.
#[inline(always)]
fn dense<const W: usize, const N: usize>(packed: &[u8], mask: &mut Mask, test: impl Fn(u32) -> bool) {
    narrow_words::<N>(packed, mask, |chunk| {
        let values = chunk.as_chunks::<W>().0;
        pack_flags(std::array::from_fn(|row| u8::from(test(little_endian(&values[row]) as u32))))
    });
}

/// Bytes of 0 and 1 as bits: a product moves the eight of a word to its highest byte, each to a place of its own.
#[inline(always)]
fn pack_flags(flags: [u8; 64]) -> u64 {
    let bytes =
        flags.as_chunks().0.iter().map(|&eight| u64::from_le_bytes(eight).wrapping_mul(0x0102_0408_1020_4080) >> 56);
    bytes.enumerate().fold(0, |word, (place, byte)| word | byte << (8 * place))
}

/// Tests the rows that are left.
#[inline(always)]
pub(super) fn filter_sparse(packed: &[u8], width: usize, test: Fitted<'_>, mask: &mut Mask) {
    match (width, test) {
        (1, Fitted::Range { low, span }) => sparse::<1>(packed, mask, |value| value.wrapping_sub(low) <= span),
        (2, Fitted::Range { low, span }) => sparse::<2>(packed, mask, |value| value.wrapping_sub(low) <= span),
        (_, Fitted::Range { low, span }) => sparse::<4>(packed, mask, |value| value.wrapping_sub(low) <= span),
        (1, Fitted::Set(set)) => sparse::<1>(packed, mask, |value| in_set(set, value)),
        (2, Fitted::Set(set)) => sparse::<2>(packed, mask, |value| in_set(set, value)),
        (_, Fitted::Set(set)) => sparse::<4>(packed, mask, |value| in_set(set, value)),
    }
}

#[inline(always)]
fn sparse<const W: usize>(packed: &[u8], mask: &mut Mask, test: impl Fn(u32) -> bool) {
    let (values, _) = packed.as_chunks::<W>();
    mask.retain(|row| test(little_endian(&values[row]) as u32));
}

/// A set of bytes, filled up with zeros.
#[inline(always)]
pub(super) fn byte_set(set: &[u64]) -> [u64; 4] {
    let mut filled = [0; 4];
    filled[..set.len()].copy_from_slice(set);
    filled
}

/// Whether a set that is not empty holds a value.
#[inline(always)]
fn in_set(set: &[u64], value: u32) -> bool {
    let (place, last) = (value as usize / 64, set.len() - 1);
    // A value beyond reads the last word and is refused after.
    (set[place.min(last)] >> (value % 64) & u64::from(place <= last)) == 1
}

#[inline(always)]
fn little_endian<const W: usize>(bytes: &[u8; W]) -> u64 {
    let mut word = [0; 8];
    word[..W].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// See [`super::sum_masked_packed`].
pub(super) fn sum_packed(packed: &[u8], width: usize, mask: &Mask, wanted: Wanted) -> PackedSums {
    let mut sums = PackedSums::of_count(mask.count_below(packed.len() / width));
    add_packed(packed, width, mask, wanted, &mut sums);
    sums
}

/// Adds all but the count. Vector kernels leave it masks of few rows.
pub(super) fn add_packed(packed: &[u8], width: usize, mask: &Mask, wanted: Wanted, sums: &mut PackedSums) {
    match width {
        1 => compute!(wanted, sum_parts[1, 64](packed, mask, sums)),
        2 => compute!(wanted, sum_parts[2, 128](packed, mask, sums)),
        4 => compute!(wanted, sum_parts[4, 256](packed, mask, sums)),
        _ => compute!(wanted, sum_parts[8, 512](packed, mask, sums)),
    }
}

fn sum_parts<const W: usize, const N: usize, const SUM: bool, const SQUARES: bool, const BOUNDS: bool>(
    packed: &[u8],
    mask: &Mask,
    sums: &mut PackedSums,
) {
    each_word::<N>(packed, mask, |chunk, word| {
        let values = chunk.as_chunks::<W>().0;
        // 64 values below 2^32 sum up in 64 bits, and so do the squares of those below 2^16.
        let (mut narrow_sum, mut narrow_squares) = (0u64, 0u64);
        let mut take = |value: u64| {
            match W {
                _ if !SUM => {}
                8 => sums.sum += u128::from(value),
                _ => narrow_sum += value,
            }
            match W {
                _ if !SQUARES => {}
                8 => sums.add_squares(u128::from(value) * u128::from(value), 0),
                4 => sums.squares += u128::from(value * value),
                _ => narrow_squares += value * value,
            }
            if BOUNDS {
                sums.min = sums.min.min(value);
                sums.max = sums.max.max(value);
            }
        };
        if word == u64::MAX {
            values.iter().for_each(|bytes| take(little_endian(bytes)));
        } else {
            each_bit(word, |bit| take(little_endian(&values[bit])));
        }
        sums.sum += u128::from(narrow_sum);
        sums.squares += u128::from(narrow_squares);
    });
}

#[inline(always)]
fn each_bit(mut word: u64, mut take: impl FnMut(usize)) {
    while word != 0 {
        take(word.trailing_zeros() as usize);
        word &= word - 1;
    }
}

/// See [`super::sum_masked_f64`]; all selected values are finite.
pub(super) fn sum_f64(values: &[u8], mask: &Mask, wanted: Wanted) -> FloatSums {
    let mut sums = FloatSums::of_count(mask.count_below(values.len() / 8));
    add_f64(values, mask, wanted, &mut sums);
    sums
}

/// Adds all but the count. Vector kernels leave it masks of few rows.
pub(super) fn add_f64(values: &[u8], mask: &Mask, wanted: Wanted, sums: &mut FloatSums) {
    compute!(wanted, sum_floats(values, mask, sums));
}

fn sum_floats<const SUM: bool, const SQUARES: bool, const BOUNDS: bool>(
    values: &[u8],
    mask: &Mask,
    sums: &mut FloatSums,
) {
    let (mut sum, mut squares) = (LaneSum::default(), LaneSum::default());
    let (mut mins, mut maxs) = ([f64::INFINITY; LANES], [f64::NEG_INFINITY; LANES]);
    each_word::<512>(values, mask, |chunk, word| {
        let values = chunk.as_chunks::<8>().0;
        let mut take = |lane: usize, value: f64| {
            if SUM {
                sum.add(lane, value);
            }
            if SQUARES {
                squares.add(lane, value * value);
            }
            if BOUNDS {
                mins[lane] = if value < mins[lane] { value } else { mins[lane] };
                maxs[lane] = if value > maxs[lane] { value } else { maxs[lane] };
            }
        };
        if word == u64::MAX {
            for eight in values.as_chunks::<LANES>().0 {
                for (lane, bytes) in eight.iter().enumerate() {
                    take(lane, f64::from_le_bytes(*bytes));
                }
            }
        } else {
            each_bit(word, |bit| take(bit % LANES, f64::from_le_bytes(values[bit])));
        }
    });
    (sums.sum, sums.squares) = (sum, squares);
    sums.set_bounds(mins, maxs);
}

/// Keeps the rows whose floats are not finite.
#[inline(always)]
pub(super) fn keep_specials(values: &[u8], mask: &mut Mask) {
    const EXPONENT: u64 = 0x7ff << 52;
    narrow_words::<512>(values, mask, |chunk| {
        let mut special = 0;
        for (bit, bytes) in chunk.as_chunks::<8>().0.iter().enumerate() {
            special |= u64::from(u64::from_le_bytes(*bytes) & EXPONENT == EXPONENT) << bit;
        }
        special
    });
}

/// Adds the rows of floats that are not finite.
pub(super) fn count_specials(values: &[u8], special: &Mask, sums: &mut FloatSums) {
    let (values, _) = values.as_chunks::<8>();
    for row in special.rows() {
        let value = f64::from_le_bytes(values[row]);
        sums.count += 1;
        if value.is_nan() {
            sums.nans += 1;
        } else if value > 0.0 {
            sums.infinities += 1;
        } else {
            sums.negative_infinities += 1;
        }
    }
}
