//! The check of written heavy rows: they are what a pass over the segment finds.

use super::section::written;
use super::{Heavy, find};
use crate::estimate::Known;
use crate::segment::Segment;
use alluvia_types::{Error, Result};

/// Sums over the same values in another order differ by no more than this share of what their sizes come to.
const ROUNDING: f64 = 1e-9;

/// Compares the section `heavy` of a segment, if there is one, with the values and codes of its rows.
pub(crate) fn verify_heavy(segment: &Segment, wrong: &dyn Fn(String) -> Error) -> Result<()> {
    let index = segment.index()?;
    for (measure, (column, _)) in index.table.measures.iter().enumerate() {
        let Some(stored) = written(segment, measure)? else { return Ok(()) };
        let found = find(segment, measure)?;
        if let Some(what) = difference(&stored, &found, segment.meta().rows) {
            return Err(wrong(format!("{what} of column {column} do not fit the rows")));
        }
        for level in 0..stored.codes.len() {
            if stored.codes(segment, level)? != found.codes(segment, level)? {
                return Err(wrong(format!("codes of heavy rows of column {column} do not fit the rows")));
            }
        }
    }
    Ok(())
}

/// What differs, of a segment of so many rows; codes aside.
pub(super) fn difference(stored: &Heavy, found: &Heavy, rows: u64) -> Option<&'static str> {
    if stored.limit != found.limit || stored.rows != found.rows || stored.values != found.values {
        return Some("heavy rows");
    }
    let is_same = |((at, a), (block, b)): (&(u32, Known), &(u32, Known))| {
        let sizes = (rows as f64 * b.squares).sqrt();
        at == block
            && (a.min, a.max) == (b.min, b.max)
            && (a.sum - b.sum).abs() <= ROUNDING * sizes
            && (a.squares - b.squares).abs() <= ROUNDING * b.squares
    };
    let are_same = stored.light.len() == found.light.len() && stored.light.iter().zip(&found.light).all(is_same);
    (!are_same).then_some("sums without the heavy rows")
}
