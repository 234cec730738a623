//! Adding up cells.
//!
//! An answer is a sum over the product of places of all axes, each with a sign. The innermost axis runs in one loop over a list of
//! places, which has no branch that a processor could guess wrongly.

use super::super::segments::Answer;
use super::cells::Cells;
use super::select::Chosen;

/// Words of cells that are summed on the stack.
const WIDTH_MAX: usize = 8;

/// Sums of words by group.
struct Sums<'a> {
    cells: &'a Cells,
    into: &'a mut Answer,
    /// By group number.
    words: Vec<i64>,
}

/// The sums of the chosen cells, a cell's words for each group of `into`, whose groups are numbered by this.
pub(super) fn sum(cells: &Cells, chosen: &[Chosen], into: &mut Answer) -> Vec<i64> {
    let words = vec![0; cells.width() * into.totals.groups().max(1)];
    let mut sums = Sums { cells, into, words };
    match cells.width() {
        1 => sums.visit::<1>(chosen, 0, Some(0), false),
        2 => sums.visit::<2>(chosen, 0, Some(0), false),
        3 => sums.visit::<3>(chosen, 0, Some(0), false),
        4 => sums.visit::<4>(chosen, 0, Some(0), false),
        5 => sums.visit::<5>(chosen, 0, Some(0), false),
        6 => sums.visit::<6>(chosen, 0, Some(0), false),
        7 => sums.visit::<7>(chosen, 0, Some(0), false),
        WIDTH_MAX => sums.visit::<WIDTH_MAX>(chosen, 0, Some(0), false),
        // In pieces: any width is a multiple of one.
        _ => sums.visit::<0>(chosen, 0, Some(0), false),
    }
    sums.words
}

impl Sums<'_> {
    /// `W` is the width of cells, or 0 for any.
    fn visit<const W: usize>(&mut self, axes: &[Chosen], cell: usize, index: Option<u64>, is_minus: bool) {
        match axes {
            [] => self.add_one::<W>(cell, index, is_minus),
            [Chosen { plus, minus, adds: None, .. }] => {
                let Some(index) = index else { return };
                if W == 0 {
                    plus.iter().for_each(|place| self.add_one::<W>(cell + place, Some(index), is_minus));
                    minus.iter().for_each(|place| self.add_one::<W>(cell + place, Some(index), !is_minus));
                    return;
                }
                let words = self.cells.words();
                let (plus, minus) = (sum_of::<W>(words, cell, plus), sum_of::<W>(words, cell, minus));
                // The difference is over the rows that are left: of no rows it is nothing.
                if plus[0] == minus[0] {
                    return;
                }
                let group = self.into.group(index);
                let into = self.words_of(group);
                for ((into, plus), minus) in into.iter_mut().zip(plus).zip(minus) {
                    let sum = plus.wrapping_sub(minus);
                    *into = if is_minus { into.wrapping_sub(sum) } else { into.wrapping_add(sum) };
                }
            }
            [axis, rest @ ..] => {
                for (at, place) in axis.plus.iter().enumerate() {
                    let add = axis.adds.as_ref().map_or(Some(0), |adds| adds[at]);
                    let index = index.zip(add).map(|(index, add)| index + add);
                    self.visit::<W>(rest, cell + place, index, is_minus);
                }
                for place in &axis.minus {
                    self.visit::<W>(rest, cell + place, index, !is_minus);
                }
            }
        }
    }

    /// Adds a cell to a group, if it has rows.
    fn add_one<const W: usize>(&mut self, cell: usize, index: Option<u64>, is_minus: bool) {
        let (cells, width) = (self.cells, if W == 0 { self.cells.width() } else { W });
        if cells.rows(cell) == 0 {
            return;
        }
        let Some(index) = index else { return };
        let group = self.into.group(index);
        let own = &cells.words()[cell * width..][..width];
        for (into, word) in self.words_of(group).iter_mut().zip(own) {
            *into = if is_minus { into.wrapping_sub(*word) } else { into.wrapping_add(*word) };
        }
    }

    fn words_of(&mut self, group: usize) -> &mut [i64] {
        let width = self.cells.width();
        if self.words.len() < (group + 1) * width {
            self.words.resize((group + 1).next_power_of_two() * width, 0);
        }
        &mut self.words[group * width..][..width]
    }
}

/// The sum of cells.
#[inline(always)]
fn sum_of<const W: usize>(words: &[i64], cell: usize, places: &[usize]) -> [i64; W] {
    let mut sum = [0i64; W];
    let words = &words[cell * W..];
    for place in places {
        let own: &[i64; W] = words[place * W..place * W + W].try_into().expect("as many words");
        for (sum, word) in sum.iter_mut().zip(own) {
            *sum = sum.wrapping_add(*word);
        }
    }
    sum
}

/// Calls `each` with every chosen cell that has rows, and its group. Nothing is taken off.
pub(super) fn each_cell(
    cells: &Cells,
    axes: &[Chosen],
    cell: usize,
    index: Option<u64>,
    each: &mut impl FnMut(usize, u64),
) {
    match axes {
        [] => {
            if let (Some(index), true) = (index, cells.rows(cell) > 0) {
                each(cell, index);
            }
        }
        [axis, rest @ ..] => {
            for (at, place) in axis.plus.iter().enumerate() {
                let add = axis.adds.as_ref().map_or(Some(0), |adds| adds[at]);
                let index = index.zip(add).map(|(index, add)| index + add);
                each_cell(cells, rest, cell + place, index, each);
            }
        }
    }
}
