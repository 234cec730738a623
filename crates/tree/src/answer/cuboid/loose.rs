//! Parts of a cuboid that cannot be subtracted: least and greatest values, and sums of floats that are no decimal
//! numbers.
//!
//! Invariant: it is kept for cells alone, not for totals of axes, and is asked cell by cell.

use super::super::totals::{Totals, WantedMeasure};
use super::part::Part;
use crate::float_sum::Compensated;

/// Of one measure; each empty as long as nothing is to be kept there.
#[derive(Clone, Debug, Default)]
struct Parts {
    raw: Vec<Compensated>,
    raw_squares: Vec<Compensated>,
    exact_bounds: Vec<(i128, i128)>,
    raw_bounds: Vec<(f64, f64)>,
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
            16 * (parts.raw.len() + parts.raw_squares.len() + parts.raw_bounds.len()) + 32 * parts.exact_bounds.len()
        };
        self.measures.iter().map(of).sum::<usize>() as u64
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
            widen(parts.raw_bounds.get_mut(cell), part.raw_bounds);
            widen(parts.exact_bounds.get_mut(cell), part.exact_bounds);
        }
    }

    /// Adds a cell that has rows to a group of totals. `measures` has, for each of theirs, the place of ours.
    pub(super) fn give(&self, cell: usize, measures: &[usize], into: &mut Totals, group: usize) {
        for (at, &measure) in measures.iter().enumerate() {
            let parts = &self.measures[measure].1;
            into.add_raw(at, group, parts.raw.get(cell), parts.raw_squares.get(cell));
            if let Some(bounds) = parts.raw_bounds.get(cell).filter(|bounds| bounds.0 <= bounds.1) {
                into.widen_float_bounds(at, group, *bounds);
            }
            if let Some(bounds) = parts.exact_bounds.get(cell).filter(|bounds| bounds.0 <= bounds.1) {
                into.widen_exact_bounds(at, group, *bounds);
            }
        }
    }
}

fn widen<T: PartialOrd + Copy>(bounds: Option<&mut (T, T)>, more: Option<(T, T)>) {
    if let (Some(bounds), Some((min, max))) = (bounds, more) {
        bounds.0 = if min < bounds.0 { min } else { bounds.0 };
        bounds.1 = if max > bounds.1 { max } else { bounds.1 };
    }
}
