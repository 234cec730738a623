//! All variants against plain loops over unpacked values, on random blocks and on those that sit on edges. Without
//! dependencies, so that the module is also tested by rustc alone.

use super::mask::MASK_WORDS;
use super::*;

/// SplitMix64.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A number of rows: any, or one beside a multiple of 64.
    fn rows(&mut self) -> usize {
        match self.below(4) {
            0 => self.below(130) as usize,
            1 => (self.below(128) * 64 + self.below(3)) as usize,
            2 => MASK_ROWS - self.below(2) as usize,
            _ => self.below(MASK_ROWS as u64 + 1) as usize,
        }
    }

    /// A mask of all rows, of some, of few, of none, or of some words.
    fn mask(&mut self) -> Mask {
        let kind = self.below(7);
        let density = self.below(64);
        let few = [4, 30, 200, 2000][self.below(4) as usize];
        let mut mask = match kind {
            0 => Mask::all(MASK_ROWS),
            1 => Mask::none(),
            2 => Mask::from_words(std::array::from_fn(|_| self.next())),
            3 => Mask::from_words(std::array::from_fn(|_| if self.below(64) < density { u64::MAX } else { 0 })),
            4 => Mask::from_words(std::array::from_fn(|_| if self.below(64) < density { self.next() } else { 0 })),
            _ => Mask::none(),
        };
        if kind > 4 {
            (0..few).for_each(|_| mask.insert(self.below(MASK_ROWS as u64) as usize));
        }
        mask
    }

    /// Values of a width, by kind: any, near each other, or the ends.
    fn values(&mut self, rows: usize, width: usize) -> Vec<u64> {
        let largest = u64::MAX >> (64 - 8 * width);
        let (kind, shift) = (self.below(5), self.below(8 * width as u64));
        let base = self.next() & largest;
        let mut value = || match kind {
            0 => self.next() & largest,
            1 => largest,
            2 => [0, 1, largest - 1, largest, largest / 2, largest / 2 + 1][self.below(6) as usize],
            3 => (self.next() & largest) >> shift,
            _ => base.wrapping_add(self.below(5000)) & largest,
        };
        (0..rows).map(|_| value()).collect()
    }

    fn set(&mut self, values: &[u64]) -> Vec<u64> {
        let largest = values.iter().copied().max().unwrap_or(0).min(1 << 22);
        let len = match self.below(6) {
            0 => self.below(5),
            1 => largest / 64 + 1,
            2 => self.below(largest / 64 + 2),
            3 => largest / 64 + 1 + self.below(1100),
            4 => [4, 15, 16, 17, 63, 64, 65, 1023, 1024, 1025][self.below(10) as usize],
            _ => self.below(1024),
        };
        let kind = self.below(5);
        let mut set: Vec<u64> = match kind {
            0 => vec![u64::MAX; len as usize],
            1 => vec![0; len as usize],
            _ => (0..len).map(|_| self.next()).collect(),
        };
        if kind == 2 {
            // Zeros at both ends, so that a window is left.
            let (from, to) = (self.below(len + 1) as usize, self.below(len + 1) as usize);
            set[..from.min(to)].fill(0);
            set[from.max(to)..].fill(0);
        }
        if kind == 1 || kind == 3 {
            // Some of the values that are there.
            for _ in 0..self.below(20) {
                let Some(&value) = values.get(self.below(values.len().max(1) as u64) as usize) else { break };
                if let Some(word) = set.get_mut((value / 64) as usize) {
                    *word |= 1 << (value % 64);
                }
            }
        }
        set
    }
}

fn pack(values: &[u64], width: usize) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()[..width].to_vec()).collect()
}

fn check_filter(values: &[u64], width: usize, test: &PackedTest<'_>, mask: &Mask) {
    let passes = |value: u64| match *test {
        PackedTest::Range { low, high } => (u64::from(low)..=u64::from(high)).contains(&value),
        PackedTest::Set(set) => set.get((value / 64) as usize).is_some_and(|word| word >> (value % 64) & 1 == 1),
    };
    let mut expected = Mask::none();
    for (row, &value) in values.iter().enumerate() {
        if mask.contains(row) && passes(value) {
            expected.insert(row);
        }
    }
    // One byte further, nothing is aligned.
    let packed = [vec![0xff], pack(values, width)].concat();
    for level in Level::available() {
        let mut kept = mask.clone();
        filter_at(level, &packed[1..], width, test, &mut kept);
        assert_eq!(kept, expected, "{level:?}, width {width}, {} rows, {test:?}", values.len());
    }
}

#[test]
fn filters_keep_what_passes() {
    let mut draws = Draws(1);
    for round in 0..3000 {
        let width = [1, 2, 4][round % 3];
        let rows = draws.rows();
        let values = draws.values(rows, width);
        let mask = draws.mask();
        if draws.below(2) == 0 {
            let set = draws.set(&values);
            check_filter(&values, width, &PackedTest::Set(&set), &mask);
            continue;
        }
        let mut bound = || match draws.below(4) {
            0 => draws.next() as u32,
            1 => [0, 255, 256, 65535, 65536, u32::MAX][draws.below(6) as usize],
            _ if values.is_empty() => 7,
            _ => values[draws.below(values.len() as u64) as usize] as u32,
        };
        let (low, high) = (bound(), bound());
        let (low, high) = if draws.below(8) > 0 { (low.min(high), low.max(high)) } else { (low, high) };
        check_filter(&values, width, &PackedTest::Range { low, high }, &mask);
    }
}

#[test]
fn every_byte_in_every_set_of_one() {
    let values: Vec<u64> = (0..512).map(|value| value % 256).collect();
    for member in 0..=256 {
        let mut set = vec![0u64; member / 64 + 1];
        set[member / 64] = 1 << (member % 64);
        check_filter(&values, 1, &PackedTest::Set(&set), &Mask::all(MASK_ROWS));
        let complement: Vec<u64> = set.iter().map(|word| !word).collect();
        check_filter(&values, 1, &PackedTest::Set(&complement), &Mask::all(MASK_ROWS));
    }
}

#[test]
fn every_length() {
    let mut draws = Draws(2);
    let values = draws.values(MASK_ROWS, 4);
    let set: Vec<u64> = (0..1024).map(|_| draws.next()).collect();
    let words: [u64; MASK_WORDS] = std::array::from_fn(|_| draws.next());
    let mask = Mask::from_words(words);
    for rows in (0..=MASK_ROWS).filter(|rows| rows % 64 < 3 || rows % 64 == 63 || rows % 41 == 0) {
        let width = [1, 2, 4][rows % 3];
        let values: Vec<u64> = values[..rows].iter().map(|value| value & (u64::MAX >> (64 - 8 * width))).collect();
        check_filter(&values, width, &PackedTest::Set(&set), &mask);
        check_filter(&values, width, &PackedTest::Range { low: 20, high: 1 << 30 }, &mask);
    }
}

#[test]
fn sums_of_integers_are_exact() {
    let mut draws = Draws(3);
    for round in 0..1500 {
        let width = [1, 2, 4, 8][round % 4];
        let rows = draws.rows();
        let values = draws.values(rows, width);
        let mask = draws.mask();
        let wanted = Wanted { sum: draws.below(2) == 0, squares: draws.below(2) == 0, min_max: draws.below(2) == 0 };
        let selected = || values.iter().enumerate().filter(|(row, _)| mask.contains(*row)).map(|(_, &value)| value);
        let mut expected = PackedSums::of_count(selected().count());
        for value in selected() {
            if wanted.sum {
                expected.sum += u128::from(value);
            }
            if wanted.squares {
                let (squares, over) = expected.squares.overflowing_add(u128::from(value).pow(2));
                (expected.squares, expected.squares_carry) = (squares, expected.squares_carry + u32::from(over));
            }
            if wanted.min_max {
                (expected.min, expected.max) = (expected.min.min(value), expected.max.max(value));
            }
        }
        let packed = [vec![0xff], pack(&values, width)].concat();
        for level in Level::available() {
            let sums = sum_packed_at(level, &packed[1..], width, &mask, wanted);
            assert_eq!(sums, expected, "{level:?}, width {width}, {rows} rows, {wanted:?}");
        }
    }
}

#[test]
fn the_largest_sums_fit() {
    for width in [1, 2, 4, 8] {
        let largest = u64::MAX >> (64 - 8 * width);
        let packed = pack(&[largest; MASK_ROWS], width);
        for level in Level::available() {
            let wanted = Wanted { sum: true, squares: true, min_max: true };
            let sums = sum_packed_at(level, &packed, width, &Mask::all(MASK_ROWS), wanted);
            assert_eq!((sums.sum, sums.min, sums.max), (u128::from(largest) << 13, largest, largest));
            let square = u128::from(largest).pow(2);
            assert_eq!(sums.squares, square << 13, "{level:?}, width {width}");
            assert_eq!(u128::from(sums.squares_carry), square >> 115);
        }
    }
}

fn float_bits(sums: &FloatSums) -> [u64; 10] {
    let ((sum, sum_rest), (squares, squares_rest)) = (sums.sum.total(), sums.squares.total());
    let counts = [sums.count, sums.nans, sums.infinities, sums.negative_infinities];
    let floats = [sum, sum_rest, squares, squares_rest, sums.min, sums.max].map(f64::to_bits);
    std::array::from_fn(|place| if place < 4 { counts[place] } else { floats[place - 4] })
}

#[test]
fn sums_of_floats_are_the_same_everywhere() {
    let mut draws = Draws(4);
    for round in 0..600 {
        let rows = draws.rows();
        let (kind, specials) = (round % 4, round % 3 == 0);
        let mut value = || match kind {
            _ if specials && draws.below(20) == 0 => {
                [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY][draws.below(4) as usize]
            }
            0 => f64::from_bits(draws.next() & !(1 << 62)),
            1 => draws.below(1 << 20) as f64 / 100.0 - 5000.0,
            2 => [0.0, -0.0][draws.below(2) as usize],
            _ => [1e308, -1e308, 1.0, 1e-320][draws.below(4) as usize],
        };
        let values: Vec<f64> = (0..rows).map(|_| value()).collect();
        let mask = draws.mask();
        let wanted = Wanted { sum: draws.below(3) > 0, squares: draws.below(3) > 0, min_max: draws.below(3) > 0 };
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();

        let mut expected = FloatSums::of_count(0);
        let (mut mins, mut maxs) = ([f64::INFINITY; LANES], [f64::NEG_INFINITY; LANES]);
        for (row, &value) in values.iter().enumerate().filter(|(row, _)| mask.contains(*row)) {
            expected.count += 1;
            expected.nans += u64::from(value.is_nan());
            expected.infinities += u64::from(value == f64::INFINITY);
            expected.negative_infinities += u64::from(value == f64::NEG_INFINITY);
            if !value.is_finite() {
                continue;
            }
            let lane = row % LANES;
            if wanted.sum {
                expected.sum.add(lane, value);
            }
            if wanted.squares {
                expected.squares.add(lane, value * value);
            }
            if wanted.min_max {
                mins[lane] = if value < mins[lane] { value } else { mins[lane] };
                maxs[lane] = if value > maxs[lane] { value } else { maxs[lane] };
            }
        }
        expected.set_bounds(mins, maxs);
        for level in Level::available() {
            let sums = sum_f64_at(level, &bytes, &mask, wanted, !specials && kind != 0);
            assert_eq!(float_bits(&sums), float_bits(&expected), "{level:?}, {rows} rows, kind {kind}, {wanted:?}");
        }
    }
}

#[test]
fn compensation_keeps_what_plain_sums_lose() {
    let mut values = vec![1e16];
    values.extend([1.0; 1000]);
    values.push(-1e16);
    let bytes: Vec<u8> = values.iter().flat_map(|value: &f64| value.to_le_bytes()).collect();
    for level in Level::available() {
        let wanted = Wanted { sum: true, ..Wanted::default() };
        let (sum, rest) = sum_f64_at(level, &bytes, &Mask::all(1002), wanted, true).sum.total();
        assert_eq!(sum + rest, 1000.0);
    }
}

#[test]
fn masks_are_sets_of_rows() {
    let mut draws = Draws(5);
    for _ in 0..200 {
        let (one, two) = (draws.mask(), draws.mask());
        let rows = draws.rows();
        let all: Vec<usize> = (0..MASK_ROWS).collect();
        let select = |keep: &dyn Fn(usize) -> bool| all.iter().copied().filter(|&row| keep(row)).collect::<Vec<_>>();
        let check = |mask: &Mask, expected: Vec<usize>| {
            assert_eq!(mask.rows().collect::<Vec<_>>(), expected);
            assert_eq!((mask.count(), mask.is_empty()), (expected.len(), expected.is_empty()));
            assert_eq!(mask.count_below(rows), expected.iter().filter(|&&row| row < rows).count());
        };
        let change = |by: &dyn Fn(&mut Mask)| {
            let mut mask = one.clone();
            by(&mut mask);
            mask
        };
        check(&Mask::all(rows), (0..rows).collect());
        check(&change(&|mask| mask.and_not_with(&two)), select(&|row| one.contains(row) && !two.contains(row)));
        check(&change(&|mask| mask.truncate(rows)), select(&|row| one.contains(row) && row < rows));
        check(&change(&|mask| mask.retain(|row| row % 3 == 1)), select(&|row| one.contains(row) && row % 3 == 1));
    }
}

#[test]
fn rows_of_a_part_are_taken_with_its_words() {
    let mut draws = Draws(9);
    for _ in 0..300 {
        let mask = Mask::from_words(std::array::from_fn(|_| draws.next()));
        let mut own = Mask::none();
        let mut rows = std::collections::BTreeSet::new();
        let first = draws.below(64) as usize;
        for _ in 0..1 + draws.below(4) {
            let (a, b) = (draws.below(4_000) as usize, draws.below(4_000) as usize);
            own.insert_rows(a.min(b)..a.max(b));
            rows.extend(a.min(b)..a.max(b));
        }
        assert_eq!(own.rows().collect::<Vec<_>>(), rows.iter().copied().collect::<Vec<_>>());
        let expected: Vec<usize> = rows.into_iter().filter(|&row| mask.contains(64 * first + row)).collect();
        let words = first..first + 4_000usize.div_ceil(64);
        assert_eq!(own.and_words(&mask, words).rows().collect::<Vec<_>>(), expected);
    }
}
