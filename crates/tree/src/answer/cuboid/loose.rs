//! Parts of a cuboid that cannot be subtracted: least and greatest values, and sums of floats that are no decimal
//! numbers.
//!
//! Invariants:
//! - It is kept for cells alone, not for totals of axes, and is asked cell by cell.
//! - A bound of a cell whose row was taken off is *open*: no value lies beyond it, and whether one lies on it is not known.
//!   It is closed by a value that is added on it or beyond it, and when the cell has no values left. An answer is given
//!   where the bounds of its group are those of other cells; else there is none.
//! - Sums of floats that are kept here are *lost* when such a value is taken off: what rounding has left would stay. All
//!   sums of that measure are then, or all its sums of squares, and who asks for one gets no answer.

use super::super::totals::{Totals, Wanted, WantedMeasure};
use super::part::Part;
use crate::float_sum::Compensated;

/// Of one measure; each empty as long as nothing is to be kept there.
#[derive(Clone, Debug, Default)]
struct Parts {
    raw: Vec<Compensated>,
    raw_squares: Vec<Compensated>,
    exact_bounds: Vec<(i128, i128)>,
    raw_bounds: Vec<(f64, f64)>,
    /// Which bounds of each cell are open.
    open: Vec<Open>,
    has_lost_sums: bool,
    has_lost_squares: bool,
}

impl Parts {
    fn has_lost(&self, wanted: Wanted) -> bool {
        wanted.sum && self.has_lost_sums || wanted.squares && self.has_lost_squares
    }
}

/// Which bounds of a cell are open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Open {
    least: bool,
    greatest: bool,
}

/// Of all measures of a cuboid.
#[derive(Clone, Debug)]
pub(super) struct Loose {
    measures: Vec<(WantedMeasure, Parts)>,
    cells: usize,
}

const NO_EXACT: (i128, i128) = (i128::MAX, i128::MIN);
const NO_RAW: (f64, f64) = (f64::INFINITY, f64::NEG_INFINITY);

impl Loose {
    /// Of no rows.
    pub(super) fn new(measures: &[WantedMeasure], cells: usize) -> Loose {
        let parts = |of: &WantedMeasure| {
            let bounds = |is_float: bool| if of.wanted.min_max && of.is_float == is_float { cells } else { 0 };
            let parts = Parts {
                exact_bounds: vec![NO_EXACT; bounds(false)],
                raw_bounds: vec![NO_RAW; bounds(true)],
                ..Parts::default()
            };
            (*of, parts)
        };
        Loose { measures: measures.iter().map(parts).collect(), cells }
    }

    /// Bytes that a cell takes at first.
    pub(super) fn cell_bytes(measures: &[WantedMeasure]) -> u64 {
        let of = |of: &WantedMeasure| match (of.wanted.min_max, of.is_float) {
            (false, _) => 0,
            (true, true) => 16,
            (true, false) => 32,
        };
        measures.iter().map(of).sum()
    }

    pub(super) fn bytes(&self) -> u64 {
        let of = |(_, parts): &(WantedMeasure, Parts)| {
            16 * (parts.raw.len() + parts.raw_squares.len() + parts.raw_bounds.len())
                + 32 * parts.exact_bounds.len()
                + size_of::<Open>() * parts.open.len()
        };
        self.measures.iter().map(of).sum::<usize>() as u64
    }

    /// Whether sums are lost of what is wanted of some measures (by their place here).
    pub(super) fn has_lost(&self, measures: &[usize], wanted: impl Iterator<Item = Wanted>) -> bool {
        measures.iter().zip(wanted).any(|(&measure, wanted)| self.measures[measure].1.has_lost(wanted))
    }

    /// Whether the sums of a measure are exact whatever is taken off.
    pub(super) fn is_exact(&self, measure: usize) -> bool {
        !self.measures[measure].1.has_lost_sums
    }

    /// Whether an answer with what is wanted of some measures (by their place here) needs any of this.
    pub(super) fn is_needed(&self, measures: &[usize], wanted: &[WantedMeasure]) -> bool {
        measures.iter().zip(wanted).any(|(&measure, of)| {
            let parts = &self.measures[measure].1;
            of.wanted.min_max
                || of.wanted.sum && !parts.raw.is_empty()
                || of.wanted.squares && !parts.raw_squares.is_empty()
        })
    }

    /// Adds rows to a cell, with their part of each measure.
    pub(super) fn add(&mut self, cell: usize, of_rows: &[Part]) {
        let cells = self.cells;
        for ((_, parts), part) in self.measures.iter_mut().zip(of_rows) {
            for (sums, more) in [(&mut parts.raw, part.raw), (&mut parts.raw_squares, part.raw_squares)] {
                // Of decimal numbers in disguise there is nothing.
                if more != Compensated::ZERO {
                    sums.resize(cells, Compensated::ZERO);
                    sums[cell].add_sum(more);
                }
            }
            let Parts { raw_bounds, exact_bounds, open, .. } = parts;
            widen(raw_bounds.get_mut(cell), part.raw_bounds, open.get_mut(cell));
            widen(exact_bounds.get_mut(cell), part.exact_bounds, open.get_mut(cell));
        }
    }

    /// Sums are lost that rows with these parts are in and that they cannot be taken off.
    pub(super) fn lose(&mut self, of_rows: &[Part]) {
        for ((of, parts), part) in self.measures.iter_mut().zip(of_rows).filter(|(_, part)| part.count > 0) {
            parts.has_lost_sums |= of.wanted.sum && (!parts.raw.is_empty() || part.raw != Compensated::ZERO);
            parts.has_lost_squares |= of.wanted.squares && of.is_float;
        }
    }

    /// Takes rows off the bounds of a cell; `left` tells how many values of a measure it has then.
    pub(super) fn take_off(&mut self, cell: usize, of_rows: &[Part], left: impl Fn(usize) -> u64) {
        let cells = self.cells;
        for (at, ((of, parts), part)) in self.measures.iter_mut().zip(of_rows).enumerate() {
            if part.count == 0 || !of.wanted.min_max {
                continue;
            }
            let Parts { raw_bounds, exact_bounds, open, .. } = parts;
            open.resize(cells, Open::default());
            if left(at) == 0 {
                open[cell] = Open::default();
                raw_bounds.get_mut(cell).into_iter().for_each(|bounds| *bounds = NO_RAW);
                exact_bounds.get_mut(cell).into_iter().for_each(|bounds| *bounds = NO_EXACT);
                continue;
            }
            open_bounds(raw_bounds.get(cell), part.raw_bounds, &mut open[cell]);
            open_bounds(exact_bounds.get(cell), part.exact_bounds, &mut open[cell]);
        }
    }

    /// Adds a cell that has rows to a group of totals. `measures` has, for each of theirs, the place of ours. Bounds that
    /// are open are left out: what [`Loose::is_told`] must be asked of when all cells are in is put into `asked`.
    pub(super) fn give(
        &self,
        cell: usize,
        measures: &[usize],
        into: &mut Totals,
        group: usize,
        asked: &mut Vec<(usize, usize)>,
    ) {
        let mut is_open = false;
        for (at, &measure) in measures.iter().enumerate() {
            let parts = &self.measures[measure].1;
            into.add_raw(at, group, parts.raw.get(cell), parts.raw_squares.get(cell));
            let open = parts.open.get(cell).copied().unwrap_or_default();
            if let Some(bounds) = known(parts.raw_bounds.get(cell), open) {
                into.widen_float_bounds(at, group, bounds);
            }
            if let Some(bounds) = known(parts.exact_bounds.get(cell), open) {
                into.widen_exact_bounds(at, group, bounds);
            }
            is_open |= open != Open::default();
        }
        if is_open {
            asked.push((cell, group));
        }
    }

    /// Whether the bounds of a group, which has all its cells, are told by it though some of a cell are open: what is
    /// open does not go beyond them.
    pub(super) fn is_told(&self, cell: usize, measures: &[usize], totals: &Totals, group: usize) -> bool {
        let mut of_measures = measures.iter().zip(totals.measures());
        of_measures.all(|(&measure, found)| {
            let parts = &self.measures[measure].1;
            let open = parts.open.get(cell).copied().unwrap_or_default();
            if open == Open::default() || !found.of().wanted.min_max {
                return true;
            }
            match found.of().is_float {
                true => holds(found.float_bounds(group), parts.raw_bounds.get(cell), open),
                false => holds(found.exact_bounds(group), parts.exact_bounds.get(cell), open),
            }
        })
    }
}

/// Takes values in. A bound that they reach is closed: no other value lies beyond it.
fn widen<T: PartialOrd + Copy>(bounds: Option<&mut (T, T)>, more: Option<(T, T)>, open: Option<&mut Open>) {
    let (Some(bounds), Some((min, max))) = (bounds, more) else { return };
    if let Some(open) = open {
        open.least &= min > bounds.0;
        open.greatest &= max < bounds.1;
    }
    bounds.0 = if min < bounds.0 { min } else { bounds.0 };
    bounds.1 = if max > bounds.1 { max } else { bounds.1 };
}

/// Opens the bounds on which values lie that are taken off.
fn open_bounds<T: PartialOrd + Copy>(bounds: Option<&(T, T)>, less: Option<(T, T)>, open: &mut Open) {
    let (Some(bounds), Some((min, max))) = (bounds, less) else { return };
    open.least |= min <= bounds.0;
    open.greatest |= max >= bounds.1;
}

/// The bounds of a cell as far as they are known; both are the one that is.
fn known<T: PartialOrd + Copy>(bounds: Option<&(T, T)>, open: Open) -> Option<(T, T)> {
    let &(least, greatest) = bounds.filter(|bounds| bounds.0 <= bounds.1)?;
    match (open.least, open.greatest) {
        (false, false) => Some((least, greatest)),
        (true, false) => Some((greatest, greatest)),
        (false, true) => Some((least, least)),
        (true, true) => None,
    }
}

/// Whether the bounds of a group hold those of a cell that are open.
fn holds<T: PartialOrd + Copy>(found: Option<(T, T)>, bounds: Option<&(T, T)>, open: Open) -> bool {
    let (Some(found), Some(bounds)) = (found, bounds) else { return false };
    (!open.least || found.0 <= bounds.0) && (!open.greatest || found.1 >= bounds.1)
}
