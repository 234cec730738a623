//! Filters and sums over the packed codes and values of one block, without unpacking them.
//!
//! Invariants:
//! - A block has at most [`MASK_ROWS`] rows; its packed values are little-endian unsigned integers of one width, and
//!   there are as many of them as the block has rows. A width of 0 (one code for all rows) never gets here.
//! - After [`filter`], a row is in the mask if and only if it was and passes the test; no bit past the last row is set.
//! - What a call returns depends on the rows and the mask alone: every variant (scalar, AVX2, AVX-512) returns the same
//!   bits, of floats too. [`Level::best`] is chosen once per process.
//! - The kernels read no byte outside the slices they are given.
//!
//! A kernel takes 64 rows at a time, one word of the mask. The last, shorter piece is copied into a full one first, so
//! that there is one path only. `unsafe` is confined to loads, gathers, and calls of functions with target features.

/// Calls the one of a kernel's seven versions that computes what is wanted and nothing else.
macro_rules! compute {
    ($wanted:expr, $kernel:ident $([$($size:literal),*])? ($($given:expr),*)) => {
        match ($wanted.sum, $wanted.squares, $wanted.min_max) {
            (false, false, false) => {}
            (true, false, false) => $kernel::<$($($size,)*)? true, false, false>($($given),*),
            (false, true, false) => $kernel::<$($($size,)*)? false, true, false>($($given),*),
            (true, true, false) => $kernel::<$($($size,)*)? true, true, false>($($given),*),
            (false, false, true) => $kernel::<$($($size,)*)? false, false, true>($($given),*),
            (true, false, true) => $kernel::<$($($size,)*)? true, false, true>($($given),*),
            (false, true, true) => $kernel::<$($($size,)*)? false, true, true>($($given),*),
            (true, true, true) => $kernel::<$($($size,)*)? true, true, true>($($given),*),
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod mask;
mod scalar;
#[cfg(test)]
mod tests;

pub(crate) use crate::float_sum::{LANES, LaneSum};
pub(crate) use mask::{MASK_ROWS, Mask};
use std::sync::OnceLock;

/// The instructions that kernels may use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Level {
    /// What every processor of the target has.
    Scalar,
    /// AVX2, POPCNT, BMI1 and BMI2: x86-64-v3.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 F, BW, VBMI and VPOPCNTDQ on top: Ice Lake, Zen 4 and later.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    /// All levels this processor has, the best one last.
    fn available() -> Vec<Level> {
        #[allow(unused_mut)]
        let mut levels = vec![Level::Scalar];
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            if has!("avx2") && has!("popcnt") && has!("bmi1") && has!("bmi2") {
                levels.push(Level::Avx2);
                if has!("avx512f") && has!("avx512bw") && has!("avx512vbmi") && has!("avx512vpopcntdq") {
                    levels.push(Level::Avx512);
                }
            }
        }
        levels
    }

    /// The best level this processor has.
    pub(crate) fn best() -> Level {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(|| *Level::available().last().expect("the scalar level is always there"))
    }
}

/// A test of packed values.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PackedTest<'a> {
    /// From `low` to `high`, both included; nothing if `low` is above `high`.
    Range { low: u32, high: u32 },
    /// Value `v` passes if bit `v % 64` of word `v / 64` is set; none beyond the words passes.
    Set(&'a [u64]),
}

/// A test fitted to a width: it neither fails all values nor names any that the width does not have.
#[derive(Clone, Copy)]
enum Fitted<'a> {
    /// Passes what is at most `span` above `low`.
    Range { low: u32, span: u32 },
    /// Not empty.
    Set(&'a [u64]),
}

/// What fitting finds.
enum Verdict<'a> {
    None,
    All,
    Some(Fitted<'a>),
}

fn fit<'a>(test: &PackedTest<'a>, width: usize) -> Verdict<'a> {
    let largest = (u64::MAX >> (64 - 8 * width)) as u32;
    match *test {
        PackedTest::Range { low, high } if low > high || low > largest => Verdict::None,
        PackedTest::Range { low: 0, high } if high >= largest => Verdict::All,
        PackedTest::Range { low, high } => Verdict::Some(Fitted::Range { low, span: high.min(largest) - low }),
        PackedTest::Set(set) => match &set[..set.len().min(largest as usize / 64 + 1)] {
            [] => Verdict::None,
            set => Verdict::Some(Fitted::Set(set)),
        },
    }
}

/// Keeps in `mask` the rows of a block whose packed values pass. `width` is 1, 2 or 4 bytes.
pub(crate) fn filter(packed: &[u8], width: usize, test: &PackedTest<'_>, mask: &mut Mask) {
    filter_at(Level::best(), packed, width, test, mask);
}

fn filter_at(level: Level, packed: &[u8], width: usize, test: &PackedTest<'_>, mask: &mut Mask) {
    assert!(matches!(width, 1 | 2 | 4), "packed codes have 1, 2 or 4 bytes");
    mask.truncate(rows_of(packed, width));
    let test = match fit(test, width) {
        Verdict::None => return mask.clear(),
        Verdict::All => return,
        Verdict::Some(test) => test,
    };
    match level {
        Level::Scalar => scalar::filter(packed, width, test, mask),
        // SAFETY: a level above Scalar comes from `available`, which found its features.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { avx2::filter(packed, width, test, mask) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { avx512::filter(packed, width, test, mask) },
    }
}

/// What is to be computed beside the count. What is not wanted stays as it is of no rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) sum: bool,
    pub(crate) squares: bool,
    pub(crate) min_max: bool,
}

/// Of the selected packed values of a block, all exact.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PackedSums {
    pub(crate) count: u64,
    pub(crate) sum: u128,
    /// Sum of squares modulo 2^128; of a width below 8 this is the sum itself.
    pub(crate) squares: u128,
    /// How often 2^128 is to be added to `squares`.
    pub(crate) squares_carry: u32,
    /// `u64::MAX` of no rows.
    pub(crate) min: u64,
    /// 0 of no rows.
    pub(crate) max: u64,
}

impl PackedSums {
    fn of_count(count: usize) -> PackedSums {
        PackedSums { count: count as u64, sum: 0, squares: 0, squares_carry: 0, min: u64::MAX, max: 0 }
    }

    /// Adds `part` * 2^`shift` to the sum of squares; what is beyond 2^128 is carried.
    #[inline]
    fn add_squares(&mut self, part: u128, shift: u32) {
        let (squares, over) = self.squares.overflowing_add(part << shift);
        self.squares = squares;
        self.squares_carry += u32::from(over);
        if shift > 0 {
            self.squares_carry += (part >> (128 - shift)) as u32;
        }
    }
}

/// Sums the packed values of the selected rows. `width` is 1, 2, 4 or 8 bytes; rows past the last one are ignored.
pub(crate) fn sum_masked_packed(packed: &[u8], width: usize, mask: &Mask, wanted: Wanted) -> PackedSums {
    sum_packed_at(Level::best(), packed, width, mask, wanted)
}

fn sum_packed_at(level: Level, packed: &[u8], width: usize, mask: &Mask, wanted: Wanted) -> PackedSums {
    assert!(matches!(width, 1 | 2 | 4 | 8), "packed values have 1, 2, 4 or 8 bytes");
    rows_of(packed, width);
    match level {
        Level::Scalar => scalar::sum_packed(packed, width, mask, wanted),
        // SAFETY: a level above Scalar comes from `available`, which found its features.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { avx2::sum_packed(packed, width, mask, wanted) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { avx512::sum_packed(packed, width, mask, wanted) },
    }
}

/// Of the selected floats of a block. NaN and the infinities are counted, and left out of everything else.
#[derive(Clone, Debug)]
pub(crate) struct FloatSums {
    /// All selected rows, those of NaN and the infinities too.
    pub(crate) count: u64,
    pub(crate) nans: u64,
    pub(crate) infinities: u64,
    pub(crate) negative_infinities: u64,
    pub(crate) sum: LaneSum,
    pub(crate) squares: LaneSum,
    /// Infinity of no finite value. Of zeros of both signs, either.
    pub(crate) min: f64,
    /// Negative infinity of no finite value. Of zeros of both signs, either.
    pub(crate) max: f64,
}

impl FloatSums {
    fn of_count(count: usize) -> FloatSums {
        FloatSums {
            count: count as u64,
            nans: 0,
            infinities: 0,
            negative_infinities: 0,
            sum: LaneSum::default(),
            squares: LaneSum::default(),
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
        }
    }

    /// Takes the least and greatest of each lane's, in the lanes' order: which zero remains must not depend on a variant.
    fn set_bounds(&mut self, mins: [f64; LANES], maxs: [f64; LANES]) {
        self.min = mins.into_iter().fold(f64::INFINITY, |min, value| if value < min { value } else { min });
        self.max = maxs.into_iter().fold(f64::NEG_INFINITY, |max, value| if value > max { value } else { max });
    }
}

/// Sums the selected ones of a block's floats, given as their little-endian bytes. NULLs are what the mask leaves out:
/// whatever stands in their places is not looked at. `finite` says that no selected value is NaN or infinite; if that
/// is not known, they are looked for, which costs one more pass.
pub(crate) fn sum_masked_f64(values: &[u8], mask: &Mask, wanted: Wanted, finite: bool) -> FloatSums {
    sum_f64_at(Level::best(), values, mask, wanted, finite)
}

fn sum_f64_at(level: Level, values: &[u8], mask: &Mask, wanted: Wanted, finite: bool) -> FloatSums {
    let rows = rows_of(values, 8);
    if !finite {
        let special = specials_at(level, values, mask);
        if !special.is_empty() {
            let mut kept = mask.clone();
            kept.truncate(rows);
            kept.and_not_with(&special);
            let mut sums = sum_f64_at(level, values, &kept, wanted, true);
            scalar::count_specials(values, &special, &mut sums);
            return sums;
        }
    }
    match level {
        Level::Scalar => scalar::sum_f64(values, mask, wanted),
        // SAFETY: a level above Scalar comes from `available`, which found its features.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { avx2::sum_f64(values, mask, wanted) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { avx512::sum_f64(values, mask, wanted) },
    }
}

/// The selected rows whose floats are not finite.
fn specials_at(level: Level, values: &[u8], mask: &Mask) -> Mask {
    let mut special = mask.clone();
    special.truncate(values.len() / 8);
    match level {
        // SAFETY: a level above Scalar comes from `available`, which found its features.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { avx512::keep_specials(values, &mut special) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { avx2::keep_specials(values, &mut special) },
        Level::Scalar => scalar::keep_specials(values, &mut special),
    }
    special
}

/// Rows of a block whose packed values these are.
fn rows_of(packed: &[u8], width: usize) -> usize {
    assert!(packed.len().is_multiple_of(width), "packed values have their width");
    let rows = packed.len() / width;
    assert!(rows <= MASK_ROWS, "a block has at most {MASK_ROWS} rows");
    rows
}

/// Keeps in each word of the mask what `test` says of its 64 rows, which are `N` bytes. The mask has no row past the
/// last one. Always inlined, as are the callbacks: all becomes part of the kernel and is compiled with its features.
#[inline(always)]
fn narrow_words<const N: usize>(packed: &[u8], mask: &mut Mask, test: impl Fn(&[u8; N]) -> u64) {
    let (chunks, tail) = packed.as_chunks::<N>();
    let words = mask.words_mut();
    for (word, chunk) in words.iter_mut().zip(chunks) {
        *word &= test(chunk);
    }
    if !tail.is_empty() {
        words[chunks.len()] &= test(&padded(tail));
    }
}

/// Hands each word of the mask that selects anything to `take`, with its 64 rows, which are `N` bytes.
#[inline(always)]
fn each_word<const N: usize>(packed: &[u8], mask: &Mask, mut take: impl FnMut(&[u8; N], u64)) {
    let (chunks, tail) = packed.as_chunks::<N>();
    let (last, last_word) = match tail.len() * 64 / N {
        0 => ([0; N], 0),
        rows => (padded(tail), mask.words()[chunks.len()] & mask::low_bits(rows)),
    };
    // One call, or it would not be inlined: then sums would be kept in memory.
    let last = (std::slice::from_ref(&last), std::slice::from_ref(&last_word));
    for (chunks, words) in [(chunks, mask.words().as_slice()), last] {
        for (chunk, &word) in chunks.iter().zip(words) {
            if word != 0 {
                take(chunk, word);
            }
        }
    }
}

/// A piece made a full one.
#[inline(always)]
fn padded<const N: usize>(tail: &[u8]) -> [u8; N] {
    let mut chunk = [0; N];
    chunk[..tail.len()].copy_from_slice(tail);
    chunk
}

/// The words of a short set that hold anything, and the value of the first one's first bit. Of a long set (width 4 only)
/// all: looking for its ends could cost more than the block.
fn window(set: &[u64]) -> (u32, &[u64]) {
    if set.len() > 1024 {
        return (0, set);
    }
    let first = set.iter().position(|&word| word != 0).unwrap_or(set.len());
    let end = set.iter().rposition(|&word| word != 0).map_or(first, |last| last + 1);
    (first as u32 * 64, &set[first..end])
}
