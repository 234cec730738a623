//! The kernels in AVX-512 F, BW and VBMI; rows are counted with VPOPCNTDQ.
//!
//! Invariants:
//! - Every result is that of the scalar kernels, to the last bit; floats keep their lane, a row's place modulo 8.
//! - Memory is touched by `load`, `load_words`, `bytes` and `gather` alone: whole arrays, and lanes that are checked.
//!
//! A comparison of 64 bytes gives a word of the mask as it is. Sets are looked up in registers where they are small:
//! any set of bytes, and any whose members lie within [`IN_REGISTERS`] of each other unless its words are very many.

use super::{Fitted, FloatSums, LaneSum, MASK_ROWS, Mask, PackedSums, Wanted, each_word, narrow_words, scalar, window};
use std::arch::x86_64::*;

/// Bytes that are tested in vectors in the time that one row takes by itself (measured on Zen 5). If there are fewer to a
/// selected row, the rows are tested one by one.
const SPARSE: usize = 256;
/// Bytes that are summed in vectors in that time.
const SPARSE_SUM: usize = 80;
/// Rows that are looked up by gathers in that time.
const SPARSE_IN_MEMORY: usize = 5;
/// Values spanned by the sets that registers hold.
const IN_REGISTERS: usize = 4096;

/// See [`super::filter`].
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vpopcntdq,popcnt,bmi1,bmi2")]
pub(super) fn filter(packed: &[u8], width: usize, test: Fitted<'_>, mask: &mut Mask) {
    let rows = packed.len() / width;
    let left = count(mask, MASK_ROWS);
    if left * SPARSE < packed.len() {
        return scalar::filter_sparse(packed, width, test, mask);
    }
    match (width, test) {
        (1, Fitted::Range { low, span }) => range_1(packed, low as u8, span as u8, mask),
        (2, Fitted::Range { low, span }) => range_2(packed, low as u16, span as u16, mask),
        (_, Fitted::Range { low, span }) => range_4(packed, low, span, mask),
        (1, Fitted::Set(set)) => set_1(packed, set, mask),
        (_, Fitted::Set(set)) => match window(set) {
            (_, []) => mask.clear(),
            (base, window) if window.len() <= IN_REGISTERS / 256 => set_near::<1>(packed, width, base, window, mask),
            (base, window) if window.len() <= IN_REGISTERS / 64 => set_near::<4>(packed, width, base, window, mask),
            _ if left * SPARSE_IN_MEMORY < rows => scalar::filter_sparse(packed, width, test, mask),
            _ if width == 2 => set_2(packed, set, mask),
            _ => set_4(packed, set, mask),
        },
    }
}

/// Selected rows among the first `rows`.
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn count(mask: &Mask, rows: usize) -> usize {
    let (eights, _) = mask.words().as_chunks::<8>();
    let mut counts = _mm512_setzero_si512();
    for (place, &eight) in eights.iter().enumerate() {
        // Bits past the rows are cut off word by word: all 64, some, or none of each.
        let left = _mm512_set1_epi64(rows as i64 - 512 * place as i64);
        let past = _mm512_sub_epi64(_mm512_setr_epi64(64, 128, 192, 256, 320, 384, 448, 512), left);
        let cut = _mm512_max_epi64(past, _mm512_setzero_si512());
        let kept = _mm512_srlv_epi64(_mm512_set1_epi64(-1), cut);
        let words = _mm512_and_si512(load_words(&eight), kept);
        counts = _mm512_add_epi64(counts, _mm512_popcnt_epi64(words));
    }
    _mm512_reduce_add_epi64(counts) as usize
}

#[target_feature(enable = "avx512f,avx512bw")]
fn range_1(packed: &[u8], low: u8, span: u8, mask: &mut Mask) {
    let (low, span) = (_mm512_set1_epi8(low as i8), _mm512_set1_epi8(span as i8));
    narrow_words::<64>(packed, mask, |chunk| _mm512_cmple_epu8_mask(_mm512_sub_epi8(load(chunk), low), span));
}

#[target_feature(enable = "avx512f,avx512bw")]
fn range_2(packed: &[u8], low: u16, span: u16, mask: &mut Mask) {
    let (low, span) = (_mm512_set1_epi16(low as i16), _mm512_set1_epi16(span as i16));
    narrow_words::<128>(packed, mask, |chunk| {
        let test = |at: usize| u64::from(_mm512_cmple_epu16_mask(_mm512_sub_epi16(load(part(chunk, at)), low), span));
        test(0) | test(1) << 32
    });
}

#[target_feature(enable = "avx512f,avx512bw")]
fn range_4(packed: &[u8], low: u32, span: u32, mask: &mut Mask) {
    let (low, span) = (_mm512_set1_epi32(low as i32), _mm512_set1_epi32(span as i32));
    narrow_words::<256>(packed, mask, |chunk| {
        let test = |at: usize| u64::from(_mm512_cmple_epu32_mask(_mm512_sub_epi32(load(part(chunk, at)), low), span));
        test(0) | test(1) << 16 | test(2) << 32 | test(3) << 48
    });
}

/// Bytes: the set's 32 bytes stand twice in one register, so that the sixth bit of an index does not matter; it comes
/// from the neighbouring byte, as bytes cannot be shifted.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn set_1(packed: &[u8], set: &[u64], mask: &mut Mask) {
    let [a, b, c, d] = scalar::byte_set(set).map(|word| word as i64);
    let table = _mm512_set_epi64(d, c, b, a, d, c, b, a);
    let bits = _mm512_set1_epi64(0x8040_2010_0804_0201_u64 as i64);
    narrow_words::<64>(packed, mask, |chunk| {
        let values = load(chunk);
        let members = _mm512_permutexvar_epi8(_mm512_srli_epi16::<3>(values), table);
        _mm512_test_epi8_mask(members, _mm512_permutexvar_epi8(values, bits))
    });
}

/// Wider values and a set in `2 * PAIRS` registers, each of 32 words of 16 bits.
#[target_feature(enable = "avx512f,avx512bw")]
fn set_near<const PAIRS: usize>(packed: &[u8], width: usize, base: u32, set: &[u64], mask: &mut Mask) {
    let mut words = [0; IN_REGISTERS / 64];
    words[..set.len()].copy_from_slice(set);
    let table = |at: usize| load_words(&words.as_chunks().0[at]);
    let tables: [(__m512i, __m512i); PAIRS] = std::array::from_fn(|pair| (table(2 * pair), table(2 * pair + 1)));
    let (beyond, fifteen) = (_mm512_set1_epi16(set.len() as i16 * 64), _mm512_set1_epi16(15));
    let (pair_bit, pairs_bit) = (_mm512_set1_epi16(1 << 10), _mm512_set1_epi16(1 << 11));
    // Values less `base`.
    let test = |values: __m512i| {
        let place = _mm512_srli_epi16::<4>(values);
        let find = |pair: usize| _mm512_permutex2var_epi16(tables[pair].0, place, tables[pair].1);
        let members = if PAIRS == 1 {
            find(0)
        } else {
            let odd = _mm512_test_epi16_mask(values, pair_bit);
            let low = _mm512_mask_blend_epi16(odd, find(0), find(1));
            let high = _mm512_mask_blend_epi16(odd, find(2), find(3));
            _mm512_mask_blend_epi16(_mm512_test_epi16_mask(values, pairs_bit), low, high)
        };
        let bit = _mm512_sllv_epi16(_mm512_set1_epi16(1), _mm512_and_si512(values, fifteen));
        u64::from(_mm512_mask_test_epi16_mask(_mm512_cmplt_epu16_mask(values, beyond), members, bit))
    };
    if width == 2 {
        let base = _mm512_set1_epi16(base as i16);
        narrow_words::<128>(packed, mask, |chunk| {
            let test = |at: usize| test(_mm512_sub_epi16(load(part(chunk, at)), base));
            test(0) | test(1) << 32
        });
    } else {
        let base = _mm512_set1_epi32(base as i32);
        narrow_words::<256>(packed, mask, |chunk| {
            // What does not fit in 16 bits becomes their largest value, which is beyond.
            let half = |at: usize| _mm512_cvtusepi32_epi16(_mm512_sub_epi32(load(part(chunk, at)), base));
            let test = |at: usize| test(_mm512_inserti64x4::<1>(_mm512_castsi256_si512(half(at)), half(at + 1)));
            test(0) | test(2) << 32
        });
    }
}

/// Values of two bytes and a set in memory.
#[target_feature(enable = "avx512f,avx512bw")]
fn set_2(packed: &[u8], set: &[u64], mask: &mut Mask) {
    narrow_words::<128>(packed, mask, |chunk| {
        let test = |at: usize| {
            let values = load(part(chunk, at));
            let low = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(values));
            let high = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64::<1>(values));
            gather(low, set) | gather(high, set) << 16
        };
        test(0) | test(1) << 32
    });
}

/// Values of four bytes and a set in memory.
#[target_feature(enable = "avx512f,avx512bw")]
fn set_4(packed: &[u8], set: &[u64], mask: &mut Mask) {
    narrow_words::<256>(packed, mask, |chunk| {
        let test = |at: usize| gather(load(part(chunk, at)), set);
        test(0) | test(1) << 16 | test(2) << 32 | test(3) << 48
    });
}

/// Which of 16 values a set holds.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn gather(values: __m512i, set: &[u64]) -> u64 {
    // On x86, the halves of a word stand in ascending order. A value's place is below 2^27, and so is never negative.
    let place = _mm512_srli_epi32::<5>(values);
    let halves = u32::try_from(2 * set.len()).unwrap_or(u32::MAX);
    let inside = _mm512_cmplt_epu32_mask(place, _mm512_set1_epi32(halves as i32));
    // SAFETY: only lanes `inside` are read, whose places are below the number of 32-bit halves of `set`.
    let members =
        unsafe { _mm512_mask_i32gather_epi32::<4>(_mm512_setzero_si512(), inside, place, set.as_ptr().cast()) };
    _mm512_test_epi32_mask(members, _mm512_rolv_epi32(_mm512_set1_epi32(1), values)).into()
}

/// See [`super::sum_masked_packed`].
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vpopcntdq,popcnt,bmi1,bmi2")]
pub(super) fn sum_packed(packed: &[u8], width: usize, mask: &Mask, wanted: Wanted) -> PackedSums {
    let mut sums = PackedSums::of_count(count(mask, packed.len() / width));
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

/// Squares are summed in 16 lanes of 32 bits, each 512 times 255^2 at most.
#[target_feature(enable = "avx512f,avx512bw")]
fn sum_1<const SUM: bool, const SQUARES: bool, const BOUNDS: bool>(packed: &[u8], mask: &Mask, sums: &mut PackedSums) {
    let zero = _mm512_setzero_si512();
    let (mut sum, mut squares, mut min, mut max) = (zero, zero, _mm512_set1_epi8(-1), zero);
    each_word::<64>(packed, mask, |chunk, word| {
        let values = _mm512_maskz_mov_epi8(word, load(chunk));
        if SUM {
            sum = _mm512_add_epi64(sum, _mm512_sad_epu8(values, zero));
        }
        if SQUARES {
            let (low, high) = (_mm512_unpacklo_epi8(values, zero), _mm512_unpackhi_epi8(values, zero));
            squares = _mm512_add_epi32(squares, _mm512_madd_epi16(low, low));
            squares = _mm512_add_epi32(squares, _mm512_madd_epi16(high, high));
        }
        if BOUNDS {
            min = _mm512_mask_min_epu8(min, word, min, values);
            max = _mm512_max_epu8(max, values);
        }
    });
    sums.sum = total_64(sum);
    sums.squares = total_32(squares);
    if BOUNDS {
        sums.min = bytes(min).into_iter().min().map_or(0, u64::from);
        sums.max = bytes(max).into_iter().max().map_or(0, u64::from);
    }
}

/// Sums are in 16 lanes of 32 bits: of low halves and of high ones, each 512 times 2^16 - 1 at most. What is added up for
/// the low ones is whole lanes; the high sums are taken off at the end, modulo 2^32.
#[target_feature(enable = "avx512f,avx512bw")]
fn sum_2<const SUM: bool, const SQUARES: bool, const BOUNDS: bool>(packed: &[u8], mask: &Mask, sums: &mut PackedSums) {
    let zero = _mm512_setzero_si512();
    let low_16 = _mm512_set1_epi64(0xffff);
    let (mut sum, mut sum_high, mut squares) = (zero, zero, zero);
    let (mut min, mut max) = (_mm512_set1_epi8(-1), zero);
    each_word::<128>(packed, mask, |chunk, word| {
        for at in 0..2 {
            let chosen = (word >> (32 * at)) as u32;
            let values = _mm512_maskz_mov_epi16(chosen, load(part(chunk, at)));
            if SUM {
                sum = _mm512_add_epi32(sum, values);
                sum_high = _mm512_add_epi32(sum_high, _mm512_srli_epi32::<16>(values));
            }
            if SQUARES {
                let first = _mm512_and_si512(values, low_16);
                let second = _mm512_and_si512(_mm512_srli_epi64::<16>(values), low_16);
                let third = _mm512_and_si512(_mm512_srli_epi64::<32>(values), low_16);
                let fourth = _mm512_srli_epi64::<48>(values);
                for quarter in [first, second, third, fourth] {
                    squares = _mm512_add_epi64(squares, _mm512_mul_epu32(quarter, quarter));
                }
            }
            if BOUNDS {
                min = _mm512_mask_min_epu16(min, chosen, min, values);
                max = _mm512_max_epu16(max, values);
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
#[target_feature(enable = "avx512f,avx512bw")]
fn sum_4<const SUM: bool, const SQUARES: bool, const BOUNDS: bool>(packed: &[u8], mask: &Mask, sums: &mut PackedSums) {
    let zero = _mm512_setzero_si512();
    let (mut sum, mut sum_high) = (zero, zero);
    let (mut squares, mut squares_high) = (zero, zero);
    let (mut min, mut max) = (_mm512_set1_epi8(-1), zero);
    each_word::<256>(packed, mask, |chunk, word| {
        for at in 0..4 {
            let chosen = (word >> (16 * at)) as u16;
            let values = _mm512_maskz_mov_epi32(chosen, load(part(chunk, at)));
            let high = _mm512_srli_epi64::<32>(values);
            if SUM {
                sum = _mm512_add_epi64(sum, values);
                sum_high = _mm512_add_epi64(sum_high, high);
            }
            if SQUARES {
                for half in [values, high] {
                    let square = _mm512_mul_epu32(half, half);
                    squares = _mm512_add_epi64(squares, square);
                    squares_high = _mm512_add_epi64(squares_high, _mm512_srli_epi64::<32>(square));
                }
            }
            if BOUNDS {
                min = _mm512_mask_min_epu32(min, chosen, min, values);
                max = _mm512_max_epu32(max, values);
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
#[target_feature(enable = "avx512f,avx512bw")]
fn sum_8<const SUM: bool, const SQUARES: bool, const BOUNDS: bool>(packed: &[u8], mask: &Mask, sums: &mut PackedSums) {
    let zero = _mm512_setzero_si512();
    let (mut sum, mut sum_high, mut squares) = (zero, zero, [(zero, zero); 3]);
    let (mut min, mut max) = (_mm512_set1_epi8(-1), zero);
    each_word::<512>(packed, mask, |chunk, word| {
        for at in 0..8 {
            let chosen = (word >> (8 * at)) as u8;
            let values = _mm512_maskz_mov_epi64(chosen, load(part(chunk, at)));
            let high = _mm512_srli_epi64::<32>(values);
            if SUM {
                sum = _mm512_add_epi64(sum, values);
                sum_high = _mm512_add_epi64(sum_high, high);
            }
            if SQUARES {
                for (place, (left, right)) in [(values, values), (values, high), (high, high)].into_iter().enumerate() {
                    let product = _mm512_mul_epu32(left, right);
                    squares[place].0 = _mm512_add_epi64(squares[place].0, product);
                    squares[place].1 = _mm512_add_epi64(squares[place].1, _mm512_srli_epi64::<32>(product));
                }
            }
            if BOUNDS {
                min = _mm512_mask_min_epu64(min, chosen, min, values);
                max = _mm512_max_epu64(max, values);
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
        sums.min = lanes_64(min).into_iter().min().unwrap_or(0);
        sums.max = lanes_64(max).into_iter().max().unwrap_or(0);
    }
}

/// See [`super::sum_masked_f64`]; all selected values are finite. A row that is not selected adds 0, which changes
/// neither a sum nor its rest: no sum is ever -0.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vpopcntdq,popcnt,bmi1,bmi2")]
pub(super) fn sum_f64(values: &[u8], mask: &Mask, wanted: Wanted) -> FloatSums {
    let mut sums = FloatSums::of_count(count(mask, values.len() / 8));
    if (sums.count as usize) * SPARSE_SUM < values.len() {
        scalar::add_f64(values, mask, wanted, &mut sums);
    } else {
        compute!(wanted, sum_floats(values, mask, &mut sums));
    }
    sums
}

#[target_feature(enable = "avx512f,avx512bw")]
fn sum_floats<const SUM: bool, const SQUARES: bool, const BOUNDS: bool>(
    values: &[u8],
    mask: &Mask,
    sums: &mut FloatSums,
) {
    let zero = _mm512_setzero_pd();
    let (mut sum, mut squares) = ((zero, zero), (zero, zero));
    let (mut min, mut max) = (_mm512_set1_pd(f64::INFINITY), _mm512_set1_pd(f64::NEG_INFINITY));
    each_word::<512>(values, mask, |chunk, word| {
        for at in 0..8 {
            let chosen = (word >> (8 * at)) as u8;
            let values = _mm512_maskz_mov_pd(chosen, _mm512_castsi512_pd(load(part(chunk, at))));
            if SUM {
                sum = add_compensated(sum, values);
            }
            if SQUARES {
                squares = add_compensated(squares, _mm512_mul_pd(values, values));
            }
            if BOUNDS {
                // Of equal ones the second stays, as in the scalar kernel.
                min = _mm512_mask_min_pd(min, chosen, values, min);
                max = _mm512_mask_max_pd(max, chosen, values, max);
            }
        }
    });
    let lanes = |vector| lanes_64(_mm512_castpd_si512(vector)).map(f64::from_bits);
    sums.sum = LaneSum { sums: lanes(sum.0), rests: lanes(sum.1) };
    sums.squares = LaneSum { sums: lanes(squares.0), rests: lanes(squares.1) };
    sums.set_bounds(lanes(min), lanes(max));
}

/// `two_sum` in each lane, the rest added to the rests.
#[inline]
#[target_feature(enable = "avx512f")]
fn add_compensated((sum, rests): (__m512d, __m512d), values: __m512d) -> (__m512d, __m512d) {
    let next = _mm512_add_pd(sum, values);
    let of_values = _mm512_sub_pd(next, sum);
    let lost = _mm512_sub_pd(sum, _mm512_sub_pd(next, of_values));
    let rest = _mm512_add_pd(lost, _mm512_sub_pd(values, of_values));
    (next, _mm512_add_pd(rests, rest))
}

/// Keeps the rows whose floats are not finite.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn keep_specials(values: &[u8], mask: &mut Mask) {
    let exponent = _mm512_set1_epi64(0x7ff << 52);
    narrow_words::<512>(values, mask, |chunk| {
        let test = |at: usize| {
            let masked = _mm512_and_si512(load(part(chunk, at)), exponent);
            u64::from(_mm512_cmpeq_epi64_mask(masked, exponent)) << (8 * at)
        };
        test(0) | test(1) | test(2) | test(3) | test(4) | test(5) | test(6) | test(7)
    });
}

/// One of the pieces of 64 bytes of a chunk.
#[inline(always)]
fn part<const N: usize>(chunk: &[u8; N], at: usize) -> &[u8; 64] {
    &chunk.as_chunks().0[at]
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: 64 bytes are read from a reference to 64 bytes; no alignment is needed.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_words(words: &[u64; 8]) -> __m512i {
    // SAFETY: 64 bytes are read from a reference to 64 bytes; no alignment is needed.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn bytes(vector: __m512i) -> [u8; 64] {
    let mut bytes = [0; 64];
    // SAFETY: 64 bytes are written to an array of 64 bytes; no alignment is needed.
    unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), vector) };
    bytes
}

#[inline]
#[target_feature(enable = "avx512f")]
fn lanes_16(vector: __m512i) -> [u16; 32] {
    let bytes = bytes(vector);
    std::array::from_fn(|lane| u16::from_le_bytes(bytes.as_chunks().0[lane]))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn lanes_32(vector: __m512i) -> [u32; 16] {
    let bytes = bytes(vector);
    std::array::from_fn(|lane| u32::from_le_bytes(bytes.as_chunks().0[lane]))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn lanes_64(vector: __m512i) -> [u64; 8] {
    let bytes = bytes(vector);
    std::array::from_fn(|lane| u64::from_le_bytes(bytes.as_chunks().0[lane]))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn total_32(vector: __m512i) -> u128 {
    lanes_32(vector).into_iter().map(u128::from).sum()
}

#[inline]
#[target_feature(enable = "avx512f")]
fn total_64(vector: __m512i) -> u128 {
    lanes_64(vector).into_iter().map(u128::from).sum()
}

/// The sums of the low and of the high halves of 64-bit lanes, of sums of whole lanes, modulo 2^64, and of high halves.
/// No sum of halves exceeds 2^45.
#[inline]
#[target_feature(enable = "avx512f")]
fn halves(all: __m512i, high: __m512i) -> (u128, u128) {
    let low = |(all, high): (u64, u64)| all.wrapping_sub(high << 32);
    let lows = lanes_64(all).into_iter().zip(lanes_64(high)).map(low);
    (lows.map(u128::from).sum(), total_64(high))
}
