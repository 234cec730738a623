//! The sums of a cuboid, laid out to be added up: a few words a cell, and totals of whole axes beside them.
//!
//! Invariants:
//! - Every word of a cell is a sum over the rows of the cell, kept modulo 2^64. So a total less the cells that are not wanted is the
//!   sum of those that are, exactly: what is asked of an axis takes at most half its digits and one.
//! - A sum that its word holds is the true one. For that, the absolute values of all that was ever added to a sum or taken off stay
//!   below 2^63; where they would not, the sum takes four words of 32 bits each, which never carry.
//! - Rows are taken off by the words that they added, so what is left is exactly the sum over the rows that are left; the sums
//!   of a cell without rows are zero.
//! - A cell whose axis has the *total* as its digit is the sum of the cells of that axis, at any moment.

use super::super::groups::GroupSpan;
use super::super::totals::{Totals, WantedMeasure};
use super::part::Part;

/// Axes that have totals, the longest ones: a row that is added touches two to the power of their number.
const TOTALLED_MAX: usize = 4;
/// Digits below which an axis is added up as fast as its total is found.
const TOTALLED_DIGITS_MIN: u64 = 4;
/// Words of a sum that passes one.
const LIMBS: usize = 4;

/// One dimension of the array.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    pub(super) span: GroupSpan,
    /// In cells.
    pub(super) stride: usize,
    /// Whether the digit after the last is that of the total.
    pub(super) has_total: bool,
}

impl Axis {
    /// Digits of codes, NULL's included.
    pub(super) fn digits(&self) -> usize {
        self.span.digits() as usize
    }

    /// Where the total is, from digit 0.
    pub(super) fn total(&self) -> Option<usize> {
        self.has_total.then(|| self.digits() * self.stride)
    }

    fn places(&self) -> usize {
        self.digits() + usize::from(self.has_total)
    }
}

/// The axes of a cuboid over these levels, in their order, and how many cells that makes; `None` for more than can be counted.
pub(super) fn axes_of(spans: &[GroupSpan]) -> Option<(Vec<Axis>, usize)> {
    let mut by_length: Vec<usize> = (0..spans.len()).collect();
    by_length.sort_by_key(|&at| std::cmp::Reverse((spans[at].digits(), at)));
    let mut axes: Vec<Axis> = spans.iter().map(|&span| Axis { span, stride: 0, has_total: false }).collect();
    // The longest axis is innermost: its cells are neighbours.
    let mut cells = 1usize;
    for (rank, &at) in by_length.iter().enumerate() {
        axes[at].has_total = rank < TOTALLED_MAX && spans[at].digits() >= TOTALLED_DIGITS_MIN;
        axes[at].stride = cells;
        cells = cells.checked_mul(usize::try_from(spans[at].digits()).ok()?.checked_add(1)?)?;
    }
    // Counted with room for all totals above, so that nothing below overflows.
    let mut cells = 1;
    for &at in &by_length {
        axes[at].stride = cells;
        cells *= axes[at].places();
    }
    Some((axes, cells))
}

/// A sum's words.
#[derive(Clone, Copy, Debug)]
struct Sum {
    word: usize,
    is_wide: bool,
    /// The absolute values of all that was added and taken off.
    size: u128,
}

impl Sum {
    /// Adds a value to the words of a cell's difference.
    fn put(&self, value: i128, words: &mut [i64]) {
        if !self.is_wide {
            words[self.word] = value as i64;
            return;
        }
        for limb in 0..LIMBS {
            let part = value >> (32 * limb);
            // The topmost keeps the sign.
            words[self.word + limb] = if limb + 1 == LIMBS { part as i64 } else { (part & 0xFFFF_FFFF) as i64 };
        }
    }

    /// The value; `None` where 128 bits do not hold it.
    fn take(&self, words: &[i64]) -> Option<i128> {
        if !self.is_wide {
            return Some(words[self.word].into());
        }
        let mut value = 0i128;
        for limb in (0..LIMBS).rev() {
            value = value.checked_mul(1 << 32)?.checked_add(words[self.word + limb].into())?;
        }
        Some(value)
    }
}

/// Where a measure's sums are in a cell.
#[derive(Clone, Debug)]
struct Places {
    /// `None` as long as no value was NULL: then it is the count of rows.
    count: Option<usize>,
    sum: Option<Sum>,
    /// Of integers; squares of floats are no exact sums.
    squares: Option<Sum>,
}

/// The array.
#[derive(Clone, Debug)]
pub(super) struct Cells {
    axes: Vec<Axis>,
    places: Vec<Places>,
    /// Words of a cell.
    width: usize,
    words: Vec<i64>,
}

impl Cells {
    /// Of no rows.
    pub(super) fn new(axes: Vec<Axis>, cells: usize, measures: &[WantedMeasure]) -> Cells {
        let mut width = 1;
        let mut narrow = |is_wanted: bool| {
            is_wanted.then(|| {
                width += 1;
                Sum { word: width - 1, is_wide: false, size: 0 }
            })
        };
        let places = measures
            .iter()
            .map(|measure| Places {
                count: None,
                sum: narrow(measure.wanted.sum),
                squares: narrow(measure.wanted.squares && !measure.is_float),
            })
            .collect();
        Cells { axes, places, width, words: vec![0; width * cells] }
    }

    /// Bytes that a cell takes at first.
    pub(super) fn cell_bytes(measures: &[WantedMeasure]) -> u64 {
        let words = |measure: &WantedMeasure| {
            u64::from(measure.wanted.sum) + u64::from(measure.wanted.squares && !measure.is_float)
        };
        8 * (1 + measures.iter().map(words).sum::<u64>())
    }

    pub(super) fn axes(&self) -> &[Axis] {
        &self.axes
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn words(&self) -> &[i64] {
        &self.words
    }

    pub(super) fn bytes(&self) -> u64 {
        8 * self.words.len() as u64
    }

    /// How many cells, totals included.
    pub(super) fn len(&self) -> usize {
        self.words.len() / self.width
    }

    /// Rows of a cell.
    #[inline]
    pub(super) fn rows(&self, cell: usize) -> u64 {
        self.words[cell * self.width] as u64
    }

    /// Values of a measure in a cell that are not NULL.
    pub(super) fn values(&self, cell: usize, measure: usize) -> u64 {
        self.words[cell * self.width + self.places[measure].count.unwrap_or(0)] as u64
    }

    /// Adds rows to a cell, with their part of each measure; totals of axes follow only by [`Cells::spread`] or [`Cells::roll_up`].
    /// `difference` is memory to work in, and has the words that were added in the end. `None` if 128 bits do not hold a sum.
    pub(super) fn add(&mut self, cell: usize, rows: u64, parts: &[Part], difference: &mut Vec<i64>) -> Option<()> {
        self.words_of(rows, parts, difference)?;
        self.add_to(&[cell], difference);
        Some(())
    }

    /// Takes rows off a cell, as [`Cells::add`] adds them. `None` as there, and where the cell does not have such rows, as far as the
    /// sums of measures tell that are exact.
    pub(super) fn take_off(
        &mut self,
        cell: usize,
        rows: u64,
        parts: &[Part],
        is_exact: impl Fn(usize) -> bool,
        difference: &mut Vec<i64>,
    ) -> Option<()> {
        self.words_of(rows, parts, difference)?;
        difference.iter_mut().for_each(|word| *word = word.wrapping_neg());
        if self.rows(cell) < rows {
            return None;
        }
        self.add_to(&[cell], difference);
        (self.rows(cell) > 0 || self.is_nothing(cell, is_exact)).then_some(())
    }

    /// Whether all sums of a cell are zero that are exact.
    fn is_nothing(&self, cell: usize, is_exact: impl Fn(usize) -> bool) -> bool {
        let words = &self.words[cell * self.width..][..self.width];
        let mut exact = self.places.iter().enumerate().filter(|(measure, _)| is_exact(*measure));
        exact.all(|(_, places)| {
            let mut sums = places.sum.iter().chain(&places.squares);
            places.count.is_none_or(|count| words[count] == 0) && sums.all(|sum| sum.take(words) == Some(0))
        })
    }

    /// The words that rows are in a cell.
    fn words_of(&mut self, rows: u64, parts: &[Part], difference: &mut Vec<i64>) -> Option<()> {
        self.make_room(rows, parts)?;
        difference.clear();
        difference.resize(self.width, 0);
        difference[0] = rows as i64;
        for (places, part) in self.places.iter().zip(parts) {
            if let Some(count) = places.count {
                difference[count] = part.count as i64;
            }
            if let Some(sum) = &places.sum {
                sum.put(part.sum, difference);
            }
            if let Some(squares) = &places.squares {
                squares.put(part.squares, difference);
            }
        }
        Some(())
    }

    /// Adds rows to their cells and to the totals that these are part of. `codes` has the rows' codes by axis, of which each has a digit;
    /// `words` what they add to the sum of each measure, of which none is NULL. `false`, with nothing added, where a sum has or
    /// would need more words than one.
    pub(super) fn add_words(&mut self, rows: usize, codes: &[&[u32]], words: &[Vec<i64>]) -> bool {
        let mut sizes = Vec::with_capacity(words.len());
        for (places, words) in self.places.iter().zip(words) {
            let Some(sum) = &places.sum else { continue };
            let size = words.iter().map(|word| u128::from(word.unsigned_abs())).sum::<u128>();
            match sum.size.checked_add(size) {
                Some(size) if !sum.is_wide && size <= i64::MAX as u128 => sizes.push(size),
                _ => return false,
            }
        }
        self.places
            .iter_mut()
            .filter_map(|places| places.sum.as_mut())
            .zip(sizes)
            .for_each(|(sum, size)| sum.size = size);

        // Each row's cell, and how far from it the total of each axis is.
        let (mut cells, mut steps) = (vec![0; rows], Vec::new());
        for (axis, codes) in self.axes.iter().zip(codes) {
            let place = |code: &u32| axis.span.digit(*code).unwrap_or(0) as usize * axis.stride;
            cells.iter_mut().zip(*codes).for_each(|(cell, code)| *cell += place(code));
            if let Some(total) = axis.total() {
                steps.push(codes.iter().map(|code| total - place(code)).collect::<Vec<usize>>());
            }
        }
        let mut difference = vec![0; self.width];
        difference[0] = 1;
        self.places.iter().filter_map(|places| places.count).for_each(|count| difference[count] = 1);
        let sums: Vec<(usize, &[i64])> =
            self.places.iter().zip(words).filter_map(|(places, words)| Some((places.sum?.word, &words[..]))).collect();
        let mut touched = Vec::with_capacity(1 << steps.len());
        for (row, &cell) in cells.iter().enumerate() {
            sums.iter().for_each(|&(word, words)| difference[word] = words[row]);
            touched.clear();
            touched.push(cell);
            for steps in &steps {
                for at in 0..touched.len() {
                    touched.push(touched[at] + steps[row]);
                }
            }
            self.add_to(&touched, &difference);
        }
        true
    }

    /// Adds words to cells.
    fn add_to(&mut self, cells: &[usize], difference: &[i64]) {
        for cell in cells {
            let words = &mut self.words[cell * self.width..][..self.width];
            words.iter_mut().zip(difference).for_each(|(word, add)| *word = word.wrapping_add(*add));
        }
    }

    /// Gives sums the words that they need to take rows in.
    fn make_room(&mut self, rows: u64, parts: &[Part]) -> Option<()> {
        for (at, part) in parts.iter().enumerate() {
            if self.places[at].count.is_none() && part.count != rows {
                self.count_apart(at);
            }
            let Places { sum, squares, .. } = &mut self.places[at];
            let mut widen = [false; 2];
            for ((place, value), widen) in [(sum, part.sum), (squares, part.squares)].into_iter().zip(&mut widen) {
                if let Some(place) = place {
                    place.size = place.size.checked_add(value.unsigned_abs())?;
                    *widen = !place.is_wide && place.size > i64::MAX as u128;
                }
            }
            for (squares, _) in widen.into_iter().enumerate().filter(|(_, widen)| *widen) {
                self.widen(at, squares == 1);
            }
        }
        Some(())
    }

    /// A value was NULL: the measure's values are counted by themselves from now on.
    fn count_apart(&mut self, measure: usize) {
        let word = self.width;
        self.lay_out(word + 1, |_, new| new[word] = new[0]);
        self.places[measure].count = Some(word);
    }

    /// Gives a sum four words.
    fn widen(&mut self, measure: usize, squares: bool) {
        let word = self.width;
        let Places { sum, squares: of_squares, .. } = &mut self.places[measure];
        let Some(place) = (if squares { of_squares } else { sum }) else { return };
        let narrow = place.word;
        *place = Sum { word, is_wide: true, size: place.size };
        let wide = *place;
        // The narrow word stays, unused: that is rare enough.
        self.lay_out(word + LIMBS, |old, new| wide.put(old[narrow].into(), new));
    }

    /// Moves every cell to a wider place; `fill` sets what is new, from the old words.
    fn lay_out(&mut self, width: usize, fill: impl Fn(&[i64], &mut [i64])) {
        let mut words = vec![0; self.len() * width];
        for (old, new) in self.words.chunks_exact(self.width).zip(words.chunks_exact_mut(width)) {
            new[..self.width].copy_from_slice(old);
            fill(old, new);
        }
        (self.words, self.width) = (words, width);
    }

    /// Adds what was added to a cell to the totals that it is part of.
    pub(super) fn spread(&mut self, digits: &[usize], cell: usize, difference: &[i64], cells: &mut Vec<usize>) {
        cells.clear();
        cells.push(cell);
        for (axis, digit) in self.axes.iter().zip(digits) {
            if let Some(total) = axis.total() {
                for at in 0..cells.len() {
                    cells.push(cells[at] + total - digit * axis.stride);
                }
            }
        }
        self.add_to(&cells[1..], difference);
    }

    /// Adds up all axes that have totals, which must be empty.
    pub(super) fn roll_up(&mut self) {
        for at in 0..self.axes.len() {
            let axis = self.axes[at];
            let (row, digits) = (axis.stride * self.width, axis.digits());
            if !axis.has_total {
                continue;
            }
            for block in self.words.chunks_exact_mut(row * axis.places()) {
                let (parts, total) = block.split_at_mut(row * digits);
                for part in parts.chunks_exact(row) {
                    total.iter_mut().zip(part).for_each(|(total, part)| *total = total.wrapping_add(*part));
                }
            }
        }
    }

    /// Adds words that are sums of cells to a group of totals. `measures` has, for each of theirs, the place of ours. `None` if 128
    /// bits do not hold a sum.
    pub(super) fn give(&self, words: &[i64], measures: &[usize], into: &mut Totals, group: usize) -> Option<()> {
        into.add_rows(group, words[0] as u64);
        for (at, &measure) in measures.iter().enumerate() {
            let places = &self.places[measure];
            let count = words[places.count.unwrap_or(0)] as u64;
            let value = |place: &Option<Sum>| place.as_ref().map_or(Some(0), |place| place.take(words));
            into.add_exact(at, group, count, value(&places.sum)?, value(&places.squares)?);
        }
        Some(())
    }
}
