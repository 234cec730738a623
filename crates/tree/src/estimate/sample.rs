//! The sample of one group: moments for each stratum in which the group was seen.
//!
//! Invariants:
//! - Cells are sorted by stratum, and hold at least one row each: their number is bounded by the rows drawn, not by
//!   groups times strata.
//! - Everything is a sum, so that samples of threads, segments and the tail merge in any order, and a stratum read at
//!   a thicker rung replaces its cell.

use super::hidden::Hidden;
use super::stratum::Frame;
use std::borrow::Cow;

/// The drawn rows of a stratum that match and are of the group.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cell {
    pub stratum: u32,
    pub matches: u64,
    pub sum: f64,
    pub squares: f64,
}

/// The sample of one group (or of a query without groups) for one measure.
///
/// A row whose measure is NULL does not match, for `count(x)`, `sum(x)` and `avg(x)` skip it; for `count(*)` take a
/// sample with x = 1 everywhere.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupSample {
    exact_count: u64,
    exact_sum: f64,
    cells: Vec<Cell>,
    hidden: Option<Hidden>,
}

impl GroupSample {
    /// Takes in a drawn row that matches.
    pub fn add(&mut self, stratum: u32, x: f64) {
        self.add_many(stratum, 1, x, x * x);
    }

    /// Takes in drawn rows of a stratum that match: how many, their sum, their sum of squares.
    pub fn add_many(&mut self, stratum: u32, matches: u64, sum: f64, squares: f64) {
        if matches == 0 {
            return;
        }
        let at = self.cell(stratum);
        let cell = &mut self.cells[at];
        cell.matches += matches;
        cell.sum += sum;
        cell.squares += squares;
    }

    /// Puts what is known without sampling in the place of what was.
    pub fn set_exact(&mut self, count: u64, sum: f64) {
        (self.exact_count, self.exact_sum) = (count, sum);
    }

    /// Takes in what is known without sampling: covered blocks, the tail, heavy rows that match.
    pub fn add_exact(&mut self, count: u64, sum: f64) {
        self.exact_count += count;
        self.exact_sum += sum;
    }

    /// Says where rows of the group may be of which none was drawn; unless it is said, they may be in every stratum of
    /// the frame.
    pub fn set_hidden(&mut self, hidden: Hidden) {
        self.hidden = Some(hidden);
    }

    /// Takes in another sample of the same group and measure.
    pub fn merge(&mut self, other: &GroupSample) {
        self.add_exact(other.exact_count, other.exact_sum);
        for from in &other.cells {
            let at = self.cell(from.stratum);
            let cell = &mut self.cells[at];
            cell.matches += from.matches;
            cell.sum += from.sum;
            cell.squares += from.squares;
        }
    }

    /// Forgets the strata that will be read again at a thicker rung.
    pub fn forget(&mut self, is_read_again: impl Fn(u32) -> bool) {
        self.cells.retain(|cell| !is_read_again(cell.stratum));
    }

    /// Drawn rows that match.
    pub fn matches(&self) -> u64 {
        self.cells.iter().map(|cell| cell.matches).sum()
    }

    pub(super) fn exact(&self) -> (f64, f64) {
        (self.exact_count as f64, self.exact_sum)
    }

    /// The strata of which rows were drawn that match, ascending.
    pub fn strata(&self) -> impl Iterator<Item = u32> + '_ {
        self.cells.iter().map(|cell| cell.stratum)
    }

    /// What may be in the strata of which no such row was drawn.
    pub(super) fn hidden(&self, frame: &Frame) -> Cow<'_, Hidden> {
        match &self.hidden {
            Some(hidden) => Cow::Borrowed(hidden),
            None => Cow::Owned(Hidden::but_in(frame, self.strata())),
        }
    }

    pub(super) fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Where a stratum's cell is; it is made if need be. Rows come stratum by stratum, so it is mostly the last.
    fn cell(&mut self, stratum: u32) -> usize {
        match self.cells.last() {
            Some(last) if last.stratum == stratum => return self.cells.len() - 1,
            Some(last) if last.stratum > stratum => (),
            _ => {
                self.cells.push(Cell { stratum, ..Cell::default() });
                return self.cells.len() - 1;
            }
        }
        self.cells.binary_search_by_key(&stratum, |cell| cell.stratum).unwrap_or_else(|at| {
            self.cells.insert(at, Cell { stratum, ..Cell::default() });
            at
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_threads_make_no_difference() {
        let rows = [(3, 1.0), (1, 2.0), (3, 4.0), (2, 8.0), (1, 16.0), (9, 0.5)];
        let mut whole = GroupSample::default();
        let mut parts = [GroupSample::default(), GroupSample::default()];
        for (i, &(stratum, x)) in rows.iter().enumerate() {
            whole.add(stratum, x);
            parts[i % 2].add(stratum, x);
        }
        whole.add_exact(3, 7.0);
        parts[0].add_exact(1, 3.0);
        parts[1].add_exact(2, 4.0);
        let [mut merged, other] = parts;
        merged.merge(&other);
        assert_eq!(merged, whole);
        assert_eq!(whole.cells.iter().map(|cell| cell.stratum).collect::<Vec<_>>(), [1, 2, 3, 9]);
        assert_eq!(whole.matches(), 6);
        whole.forget(|stratum| stratum == 3);
        assert_eq!(whole.matches(), 4);
        assert_eq!(whole.exact(), (3.0, 7.0));
    }
}
