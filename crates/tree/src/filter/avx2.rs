//! The kernels in AVX2.
//!
//! Invariants:
//! - Every result is that of the scalar kernels, to the last bit; floats keep their lane, a row's place modulo 8.
//! - Memory is touched by `load`, `bytes` and `gather` alone: whole arrays, and lanes that are checked.
//!
//! A comparison gives lanes of ones and zeros, whose signs make a word of the mask; to sum under a mask, its bits are
//! spread into lanes again.

use super::{Fitted, FloatSums, LaneSum, Mask, PackedSums, Wanted, each_word, narrow_words, scalar};
use std::arch::x86_64::*;

/// Bytes that are tested in vectors in the time that one row takes by itself (measured on Zen 5). If there are fewer to a
/// selected row, the rows are tested one by one.
const SPARSE: usize = 128;
/// Bytes that are summed in vectors in that time.
const SPARSE_SUM: usize = 56;
/// Bytes of floats that are.
const SPARSE_FLOATS: usize = 24;
/// Rows that are looked up by gathers in that time.
const SPARSE_IN_MEMORY: usize = 4;

/// See [`super::filter`].
#[target_feature(enable = "avx2,popcnt,bmi1,bmi2")]
pub(super) fn filter(packed: &[u8], width: usize, test: Fitted<'_>, mask: &mut Mask) {
    let sparse = match test {
        Fitted::Set(_) if width > 1 => SPARSE_IN_MEMORY * width,
        _ => SPARSE,
    };
    if mask.count() * sparse < packed.len() {
        return scalar::filter_sparse(packed, width, test, mask);
    }
    match (width, test) {
        (1, Fitted::Range { low, span }) => range_1(packed, low as u8, span as u8, mask),
        (2, Fitted::Range { low, span }) => range_2(packed, low as u16, span as u16, mask),
        (_, Fitted::Range { low, span }) => range_4(packed, low, span, mask),
        (1, Fitted::Set(set)) => set_1(packed, set, mask),
        (2, Fitted::Set(set)) => set_2(packed, set, mask),
        (_, Fitted::Set(set)) => set_4(packed, set, mask),
    }
}

#[target_feature(enable = "avx2")]
fn range_1(packed: &[u8], low: u8, span: u8, mask: &mut Mask) {
    let (low, span) = (_mm256_set1_epi8(low as i8), _mm256_set1_epi8(span as i8));
    narrow_words::<64>(packed, mask, |chunk| {
        let test = |at: usize| {
            let less = _mm256_sub_epi8(load(part(chunk, at)), low);
            signs(_mm256_cmpeq_epi8(_mm256_min_epu8(less, span), less))
        };
        test(0) | test(1) << 32
    });
}

#[target_feature(enable = "avx2")]
fn range_2(packed: &[u8], low: u16, span: u16, mask: &mut Mask) {
    let (low, span) = (_mm256_set1_epi16(low as i16), _mm256_set1_epi16(span as i16));
    narrow_words::<128>(packed, mask, |chunk| {
        let test = |at: usize| {
            let less = _mm256_sub_epi16(load(part(chunk, at)), low);
            _mm256_cmpeq_epi16(_mm256_min_epu16(less, span), less)
        };
        signs_16(test(0), test(1)) | signs_16(test(2), test(3)) << 32
    });
}

#[target_feature(enable = "avx2")]
fn range_4(packed: &[u8], low: u32, span: u32, mask: &mut Mask) {
    let (low, span) = (_mm256_set1_epi32(low as i32), _mm256_set1_epi32(span as i32));
    narrow_words::<256>(packed, mask, |chunk| {
        let test = |at: usize| {
            let less = _mm256_sub_epi32(load(part(chunk, at)), low);
            _mm256_cmpeq_epi32(_mm256_min_epu32(less, span), less)
        };
        signs_32([test(0), test(1), test(2), test(3)]) | signs_32([test(4), test(5), test(6), test(7)]) << 32
    });
}

/// Bytes: the halves of the set's 32 bytes are looked up in two shuffles, of which one gives 0 as its index is negative.
#[target_feature(enable = "avx2")]
fn set_1(packed: &[u8], set: &[u64], mask: &mut Mask) {
    let [a, b, c, d] = scalar::byte_set(set).map(|word| word as i64);
    let (low, high) = (_mm256_set_epi64x(b, a, b, a), _mm256_set_epi64x(d, c, d, c));
    let bits = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
    let (seven, places) = (_mm256_set1_epi8(7), _mm256_set1_epi8(31));
    let (sixteen, to_sign) = (_mm256_set1_epi8(16), _mm256_set1_epi8(0x70));
    narrow_words::<64>(packed, mask, |chunk| {
        let test = |at: usize| {
            let values = load(part(chunk, at));
            let place = _mm256_and_si256(_mm256_srli_epi16::<3>(values), places);
            // 0..16 stays below 128, 16..32 does not; less 16 it is the other way round.
            let in_low = _mm256_shuffle_epi8(low, _mm256_add_epi8(place, to_sign));
            let in_high = _mm256_shuffle_epi8(high, _mm256_sub_epi8(place, sixteen));
            let bit = _mm256_shuffle_epi8(bits, _mm256_and_si256(values, seven));
            signs(_mm256_cmpeq_epi8(_mm256_and_si256(_mm256_or_si256(in_low, in_high), bit), bit))
        };
        test(0) | test(1) << 32
    });
}

/// Values of two bytes.
#[target_feature(enable = "avx2")]
fn set_2(packed: &[u8], set: &[u64], mask: &mut Mask) {
    narrow_words::<128>(packed, mask, |chunk| {
        let test = |at: usize| {
            let values = load(part(chunk, at));
            let low = _mm256_cvtepu16_epi32(_mm256_castsi256_si128(values));
            let high = _mm256_cvtepu16_epi32(_mm256_extracti128_si256::<1>(values));
            (gather(low, set), gather(high, set))
        };
        let [a, b, c, d] = [test(0), test(1), test(2), test(3)];
        signs_32([a.0, a.1, b.0, b.1]) | signs_32([c.0, c.1, d.0, d.1]) << 32
    });
}

/// Values of four bytes.
#[target_feature(enable = "avx2")]
fn set_4(packed: &[u8], set: &[u64], mask: &mut Mask) {
    narrow_words::<256>(packed, mask, |chunk| {
        let test = |at: usize| gather(load(part(chunk, at)), set);
        signs_32([test(0), test(1), test(2), test(3)]) | signs_32([test(4), test(5), test(6), test(7)]) << 32
    });
}

/// Lanes of ones for those of 8 values that a set holds.
#[inline]
#[target_feature(enable = "avx2")]
fn gather(values: __m256i, set: &[u64]) -> __m256i {
    // On x86, the halves of a word stand in ascending order. A value's place is below 2^27, and so is never negative.
    let place = _mm256_srli_epi32::<5>(values);
    let halves = i32::try_from(2 * set.len()).unwrap_or(i32::MAX);
    let inside = _mm256_cmpgt_epi32(_mm256_set1_epi32(halves), place);
    // SAFETY: only lanes `inside` are read, whose places are below the number of 32-bit halves of `set`.
    let members =
        unsafe { _mm256_mask_i32gather_epi32::<4>(_mm256_setzero_si256(), set.as_ptr().cast(), place, inside) };
    let bit = _mm256_sllv_epi32(_mm256_set1_epi32(1), _mm256_and_si256(values, _mm256_set1_epi32(31)));
    _mm256_cmpeq_epi32(_mm256_and_si256(members, bit), bit)
}

/// The signs of 32 bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn signs(bytes: __m256i) -> u64 {
    u64::from(_mm256_movemask_epi8(bytes) as u32)
}

/// The signs of 32 lanes of 16 bits, each all ones or zeros.
#[inline]
#[target_feature(enable = "avx2")]
fn signs_16(low: __m256i, high: __m256i) -> u64 {
    // Packing goes by halves of registers: the middle quarters come out swapped.
    signs(_mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi16(low, high)))
}

/// The signs of 32 lanes of 32 bits, each all ones or zeros.
#[inline]
#[target_feature(enable = "avx2")]
fn signs_32([a, b, c, d]: [__m256i; 4]) -> u64 {
    let packed = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    signs(_mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)))
}

/// See [`super::sum_masked_packed`].
#[target_feature(enable = "avx2,popcnt,bmi1,bmi2")]
pub(super) fn sum_packed(packed: &[u8], width: usize, mask: &Mask, wanted: Wanted) -> PackedSums {
    let mut sums = PackedSums::of_count(mask.count_below(packed.len() / width));
    match width {
        _ if sums.count == 0 => {}
        _ if (sums.count as usize) * SPARSE_SUM < packed.len() => {
            scalar::add_packed(packed, width, mask, wanted, &mut sums)
        }
        1 => compute!(wanted, sum_1(packed, mask, &mut sums)),
        2 => compute!(wanted, sum_2(packed, mask, &mut sums)),
        4 => compute!(wanted, sum_4(packed, mask, &mut sums)),
        _ => compute!(wanted, sum_8(packed, mask, &mut sums)),
    }
    sums
}

/// Squares are summed in 8 lanes of 32 bits, each 1024 times 255^2 at most.
#[target_feature(enable = "avx2")]
fn sum_1<const SUM: bool, const SQUARES: bool, const BOUNDS: bool>(packed: &[u8], mask: &Mask, sums: &mut PackedSums) {
    let zero = _mm256_setzero_si256();
    let (mut sum, mut squares, mut min, mut max) = (zero, zero, _mm256_set1_epi8(-1), zero);
    each_word::<64>(packed, mask, |chunk, word| {
        for at in 0..2 {
            let chosen = spread_8(word >> (32 * at));
            let values = _mm256_and_si256(load(part(chunk, at)), chosen);
            if SUM {
                sum = _mm256_add_epi64(sum, _mm256_sad_epu8(values, zero));
            }
            if SQUARES {
                let (low, high) = (_mm256_unpacklo_epi8(values, zero), _mm256_unpackhi_epi8(values, zero));
                squares = _mm256_add_epi32(squares, _mm256_madd_epi16(low, low));
                squares = _mm256_add_epi32(squares, _mm256_madd_epi16(high, high));
            }
            if BOUNDS {
                min = _mm256_min_epu8(min, or_ones(values, chosen));
                max = _mm256_max_epu8(max, values);
            }
        }
    });
    sums.sum = total_64(sum);
    sums.squares = total_32(squares);
    if BOUNDS {
        sums.min = bytes(min).into_iter().min().map_or(0, u64::from);
        sums.max = bytes(max).into_iter().max().map_or(0, u64::from);
    }
}

/// Sums are in 8 lanes of 32 bits: of low halves and of high ones, each 1024 times 2^16 - 1 at most. What is added up for
/// the low ones is whole lanes; the high sums are taken off at the end, modulo 2^32.
#[target_feature(enable = "avx2")]
fn sum_2<const SUM: bool, const SQUARES: bool, const BOUNDS: bool>(packed: &[u8], mask: &Mask, sums: &mut PackedSums) {
    let zero = _mm256_setzero_si256();
    let low_16 = _mm256_set1_epi64x(0xffff);
    let (mut sum, mut sum_high, mut squares) = (zero, zero, zero);
    let (mut min, mut max) = (_mm256_set1_epi8(-1), zero);
    each_word::<128>(packed, mask, |chunk, word| {
        for at in 0..4 {
            let chosen = spread_16(word >> (16 * at));
            let values = _mm256_and_si256(load(part(chunk, at)), chosen);
            if SUM {
                sum = _mm256_add_epi32(sum, values);
                sum_high = _mm256_add_epi32(sum_high, _mm256_srli_epi32::<16>(values));
            }
            if SQUARES {
                let first = _mm256_and_si256(values, low_16);
                let second = _mm256_and_si256(_mm256_srli_epi64::<16>(values), low_16);
                let third = _mm256_and_si256(_mm256_srli_epi64::<32>(values), low_16);
                let fourth = _mm256_srli_epi64::<48>(values);
                for quarter in [first, second, third, fourth] {
                    squares = _mm256_add_epi64(squares, _mm256_mul_epu32(quarter, quarter));
                }
            }
            if BOUNDS {
                min = _mm256_min_epu16(min, or_ones(values, chosen));
                max = _mm256_max_epu16(max, values);
            }
        }
    });
    let low = |(all, high): (u32, u32)| all.wrapping_sub(high << 16);
    let lows = lanes_32(sum).into_iter().zip(lanes_32(sum_high)).map(low);
    sums.sum = lows.map(u128::from).sum::<u128>() + total_32(sum_high);
    sums.squares = total_64(squares);
    if BOUNDS {
        sums.min = lanes_16(min).into_iter().min().map_or(0, u64::from);
        sums.max = lanes_16(max).into_iter().max().map_or(0, u64::from);
    }
}

/// Values are summed by halves, as there are two to a lane; squares, as their sum may have more than 64 bits.
#[target_feature(enable = "avx2")]
fn sum_4<const SUM: bool, const SQUARES: bool, const BOUNDS: bool>(packed: &[u8], mask: &Mask, sums: &mut PackedSums) {
    let zero = _mm256_setzero_si256();
    let (mut sum, mut sum_high) = (zero, zero);
    let (mut squares, mut squares_high) = (zero, zero);
    let (mut min, mut max) = (_mm256_set1_epi8(-1), zero);
    each_word::<256>(packed, mask, |chunk, word| {
        for at in 0..8 {
            let chosen = spread_32(word >> (8 * at));
            let values = _mm256_and_si256(load(part(chunk, at)), chosen);
            let high = _mm256_srli_epi64::<32>(values);
            if SUM {
                sum = _mm256_add_epi64(sum, values);
                sum_high = _mm256_add_epi64(sum_high, high);
            }
            if SQUARES {
                for half in [values, high] {
                    let square = _mm256_mul_epu32(half, half);
                    squares = _mm256_add_epi64(squares, square);
                    squares_high = _mm256_add_epi64(squares_high, _mm256_srli_epi64::<32>(square));
                }
            }
            if BOUNDS {
                min = _mm256_min_epu32(min, or_ones(values, chosen));
                max = _mm256_max_epu32(max, values);
            }
        }
    });
    let (low, high) = halves(sum, sum_high);
    sums.sum = low + high;
    let (low, high) = halves(squares, squares_high);
    sums.squares = low + (high << 32);
    if BOUNDS {
        sums.min = lanes_32(min).into_iter().min().map_or(0, u64::from);
        sums.max = lanes_32(max).into_iter().max().map_or(0, u64::from);
    }
}

/// Sums are of halves; squares too: `(h * 2^32 + l)^2 = h^2 * 2^64 + 2 * h * l * 2^32 + l^2`, each product in halves.
#[target_feature(enable = "avx2")]
fn sum_8<const SUM: bool, const SQUARES: bool, const BOUNDS: bool>(packed: &[u8], mask: &Mask, sums: &mut PackedSums) {
    let zero = _mm256_setzero_si256();
    let (mut sum, mut sum_high, mut squares) = (zero, zero, [(zero, zero); 3]);
    // AVX2 compares 64 bits as signed ones: with the sign flipped, they come in the order of unsigned ones.
    let sign = _mm256_set1_epi64x(i64::MIN);
    let (mut min, mut max) = (_mm256_set1_epi64x(i64::MAX), sign);
    each_word::<512>(packed, mask, |chunk, word| {
        for at in 0..16 {
            let chosen = spread_64(word >> (4 * at));
            let values = _mm256_and_si256(load(part(chunk, at)), chosen);
            let high = _mm256_srli_epi64::<32>(values);
            if SUM {
                sum = _mm256_add_epi64(sum, values);
                sum_high = _mm256_add_epi64(sum_high, high);
            }
            if SQUARES {
                for (place, (left, right)) in [(values, values), (values, high), (high, high)].into_iter().enumerate() {
                    let product = _mm256_mul_epu32(left, right);
                    squares[place].0 = _mm256_add_epi64(squares[place].0, product);
                    squares[place].1 = _mm256_add_epi64(squares[place].1, _mm256_srli_epi64::<32>(product));
                }
            }
            if BOUNDS {
                let (low, high) = (_mm256_xor_si256(or_ones(values, chosen), sign), _mm256_xor_si256(values, sign));
                min = _mm256_blendv_epi8(min, low, _mm256_cmpgt_epi64(min, low));
                max = _mm256_blendv_epi8(max, high, _mm256_cmpgt_epi64(high, max));
            }
        }
    });
    let (low, high) = halves(sum, sum_high);
    sums.sum = low + (high << 32);
    for ((all, high), shift) in squares.into_iter().zip([0, 33, 64]) {
        let (low, high) = halves(all, high);
        sums.add_squares(low + (high << 32), shift);
    }
    if BOUNDS {
        sums.min = lanes_64(_mm256_xor_si256(min, sign)).into_iter().min().unwrap_or(0);
        sums.max = lanes_64(_mm256_xor_si256(max, sign)).into_iter().max().unwrap_or(0);
    }
}

/// See [`super::sum_masked_f64`]; all selected values are finite. A row that is not selected adds 0, which changes
/// neither a sum nor its rest: no sum is ever -0.
#[target_feature(enable = "avx2,popcnt,bmi1,bmi2")]
pub(super) fn sum_f64(values: &[u8], mask: &Mask, wanted: Wanted) -> FloatSums {
    let mut sums = FloatSums::of_count(mask.count_below(values.len() / 8));
    if (sums.count as usize) * SPARSE_FLOATS < values.len() {
        scalar::add_f64(values, mask, wanted, &mut sums);
    } else {
        compute!(wanted, sum_floats(values, mask, &mut sums));
    }
    sums
}

#[target_feature(enable = "avx2")]
fn sum_floats<const SUM: bool, const SQUARES: bool, const BOUNDS: bool>(
    values: &[u8],
    mask: &Mask,
    sums: &mut FloatSums,
) {
    let zero = _mm256_setzero_pd();
    let (least, greatest) = (_mm256_set1_pd(f64::NEG_INFINITY), _mm256_set1_pd(f64::INFINITY));
    // Lanes 0 to 3 and 4 to 7.
    let (mut sum, mut squares) = ([(zero, zero); 2], [(zero, zero); 2]);
    let (mut min, mut max) = ([greatest; 2], [least; 2]);
    each_word::<512>(values, mask, |chunk, word| {
        for at in 0..16 {
            let half = at % 2;
            let chosen = _mm256_castsi256_pd(spread_64(word >> (4 * at)));
            let values = _mm256_and_pd(_mm256_castsi256_pd(load(part(chunk, at))), chosen);
            if SUM {
                sum[half] = add_compensated(sum[half], values);
            }
            if SQUARES {
                squares[half] = add_compensated(squares[half], _mm256_mul_pd(values, values));
            }
            if BOUNDS {
                // Of equal ones the second stays, as in the scalar kernel.
                min[half] = _mm256_min_pd(_mm256_blendv_pd(greatest, values, chosen), min[half]);
                max[half] = _mm256_max_pd(_mm256_blendv_pd(least, values, chosen), max[half]);
            }
        }
    });
    let lanes = |halves: [__m256d; 2]| -> [f64; 8] {
        let halves = halves.map(|half| lanes_64(_mm256_castpd_si256(half)));
        std::array::from_fn(|lane| f64::from_bits(halves[lane / 4][lane % 4]))
    };
    let lane_sum =
        |[low, high]: [(__m256d, __m256d); 2]| LaneSum { sums: lanes([low.0, high.0]), rests: lanes([low.1, high.1]) };
    sums.sum = lane_sum(sum);
    sums.squares = lane_sum(squares);
    sums.set_bounds(lanes(min), lanes(max));
}

/// `two_sum` in each lane, the rest added to the rests.
#[inline]
#[target_feature(enable = "avx2")]
fn add_compensated((sum, rests): (__m256d, __m256d), values: __m256d) -> (__m256d, __m256d) {
    let next = _mm256_add_pd(sum, values);
    let of_values = _mm256_sub_pd(next, sum);
    let lost = _mm256_sub_pd(sum, _mm256_sub_pd(next, of_values));
    let rest = _mm256_add_pd(lost, _mm256_sub_pd(values, of_values));
    (next, _mm256_add_pd(rests, rest))
}

/// Keeps the rows whose floats are not finite.
#[target_feature(enable = "avx2,popcnt,bmi1,bmi2")]
pub(super) fn keep_specials(values: &[u8], mask: &mut Mask) {
    let exponent = _mm256_set1_epi64x(0x7ff << 52);
    narrow_words::<512>(values, mask, |chunk| {
        let test = |word: u64, at: usize| {
            let masked = _mm256_and_si256(load(part(chunk, at)), exponent);
            let equal = _mm256_castsi256_pd(_mm256_cmpeq_epi64(masked, exponent));
            word | u64::from(_mm256_movemask_pd(equal) as u32) << (4 * at)
        };
        (0..16).fold(0, test)
    });
}

/// Lanes of ones for the set ones of the lowest 32 bits, of zeros for the others; of 8 bits each.
#[inline]
#[target_feature(enable = "avx2")]
fn spread_8(word: u64) -> __m256i {
    let (first, second) = (0, 0x0101_0101_0101_0101);
    let byte_of_lane = _mm256_setr_epi64x(first, second, 2 * second, 3 * second);
    let bits = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
    let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(word as i32), byte_of_lane);
    _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bits), bits)
}

/// The same of 16 bits and lanes of 16.
#[inline]
#[target_feature(enable = "avx2")]
fn spread_16(word: u64) -> __m256i {
    let bit = |lane: u32| (1u32 << lane) as i16;
    #[rustfmt::skip]
    let bits = _mm256_setr_epi16(
        bit(0), bit(1), bit(2), bit(3), bit(4), bit(5), bit(6), bit(7),
        bit(8), bit(9), bit(10), bit(11), bit(12), bit(13), bit(14), bit(15),
    );
    _mm256_cmpeq_epi16(_mm256_and_si256(_mm256_set1_epi16(word as i16), bits), bits)
}

/// The same of 8 bits and lanes of 32.
#[inline]
#[target_feature(enable = "avx2")]
fn spread_32(word: u64) -> __m256i {
    let bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(word as i32), bits), bits)
}

/// The same of 4 bits and lanes of 64.
#[inline]
#[target_feature(enable = "avx2")]
fn spread_64(word: u64) -> __m256i {
    let bits = _mm256_setr_epi64x(1, 2, 4, 8);
    _mm256_cmpeq_epi64(_mm256_and_si256(_mm256_set1_epi64x(word as i64), bits), bits)
}

/// All ones where nothing is chosen.
#[inline]
#[target_feature(enable = "avx2")]
fn or_ones(values: __m256i, chosen: __m256i) -> __m256i {
    _mm256_or_si256(values, _mm256_xor_si256(chosen, _mm256_set1_epi8(-1)))
}

/// One of the pieces of 32 bytes of a chunk.
#[inline(always)]
fn part<const N: usize>(chunk: &[u8; N], at: usize) -> &[u8; 32] {
    &chunk.as_chunks().0[at]
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(bytes: &[u8; 32]) -> __m256i {
    // SAFETY: 32 bytes are read from a reference to 32 bytes; no alignment is needed.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn bytes(vector: __m256i) -> [u8; 32] {
    let mut bytes = [0; 32];
    // SAFETY: 32 bytes are written to an array of 32 bytes; no alignment is needed.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), vector) };
    bytes
}

#[inline]
#[target_feature(enable = "avx2")]
fn lanes_16(vector: __m256i) -> [u16; 16] {
    let bytes = bytes(vector);
    std::array::from_fn(|lane| u16::from_le_bytes(bytes.as_chunks().0[lane]))
}

#[inline]
#[target_feature(enable = "avx2")]
fn lanes_32(vector: __m256i) -> [u32; 8] {
    let bytes = bytes(vector);
    std::array::from_fn(|lane| u32::from_le_bytes(bytes.as_chunks().0[lane]))
}

#[inline]
#[target_feature(enable = "avx2")]
fn lanes_64(vector: __m256i) -> [u64; 4] {
    let bytes = bytes(vector);
    std::array::from_fn(|lane| u64::from_le_bytes(bytes.as_chunks().0[lane]))
}

#[inline]
#[target_feature(enable = "avx2")]
fn total_32(vector: __m256i) -> u128 {
    lanes_32(vector).into_iter().map(u128::from).sum()
}

#[inline]
#[target_feature(enable = "avx2")]
fn total_64(vector: __m256i) -> u128 {
    lanes_64(vector).into_iter().map(u128::from).sum()
}

/// The sums of the low and of the high halves of 64-bit lanes, of sums of whole lanes, modulo 2^64, and of high halves.
/// No sum of halves exceeds 2^45.
#[inline]
#[target_feature(enable = "avx2")]
fn halves(all: __m256i, high: __m256i) -> (u128, u128) {
    let low = |(all, high): (u64, u64)| all.wrapping_sub(high << 32);
    let lows = lanes_64(all).into_iter().zip(lanes_64(high)).map(low);
    (lows.map(u128::from).sum(), total_64(high))
}
