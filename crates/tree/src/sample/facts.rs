//! What summaries say of cut blocks before anything is read, and which blocks cannot be strata.

use super::{Asked, possible};
use crate::answer::{BoxQuery, CodeSet, CutBlock, GroupKeys, LARGE, SegmentRows, exact_bounds, is_special};
use crate::estimate::Known;
use crate::segment::{BlockIndex, Segment};
use alluvia_types::{ColumnId, Result};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{Decimal256Type, Float64Type, UInt32Type};

/// A cut block that may be part of a stratum.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) cut: CutBlock,
    pub(super) rows: u64,
    /// The share of rows expected to match.
    pub(super) share: f64,
    /// Of each measure of the question.
    pub(super) known: Vec<Known>,
    /// Indices of the groups that rows may be of.
    pub(super) groups: Vec<u64>,
}

/// The least share expected: a cut block is expected to have matches.
const SHARE_MIN: f64 = 1e-6;

/// What is known of the blocks that may be strata, and the blocks that may not. `None` if none may, or more groups are possible than is
/// worth looking for.
pub(super) fn gather(
    asked: &Asked<'_>,
    segments: &[SegmentRows],
    keys: &GroupKeys,
    cut: &[CutBlock],
) -> Result<Option<(Vec<Facts>, Vec<CutBlock>)>> {
    let (mut facts, mut exact) = (Vec::new(), Vec::new());
    let mut groups_left = possible::CELLS_MAX;
    for of_segment in cut.chunk_by(|a, b| a.segment == b.segment) {
        let segment = &segments[of_segment[0].segment].segment;
        if segment.rungs().is_empty() {
            exact.extend_from_slice(of_segment);
            continue;
        }
        let (index, nodes) = (segment.index()?, segment.nodes()?);
        for &cut in of_segment {
            let known = asked.question.measures.iter().map(|of| known_of(segment, &index, of.column, cut.block));
            let known: Option<Vec<Known>> = if cut.is_of_all_versions() { known.collect() } else { None };
            let Some(known) = known else {
                exact.push(cut);
                continue;
            };
            let Some(groups) = possible::groups(asked, keys, &nodes, cut.block) else { return Ok(None) };
            match groups_left.checked_sub(groups.len()) {
                Some(left) => groups_left = left,
                None => return Ok(None),
            }
            let rows = segment.block_rows(cut.block);
            let share = share_of(asked.question, &cut, |level, codes| nodes.share(cut.block, level, codes));
            facts.push(Facts { cut, rows: rows.end - rows.start, share, known, groups });
        }
    }
    Ok((!facts.is_empty()).then_some((facts, exact)))
}

/// The share of a block that its open filters pass, as if they had nothing to do with one another.
fn share_of(question: &BoxQuery, cut: &CutBlock, of: impl Fn(usize, &CodeSet) -> f64) -> f64 {
    let open = question.filters.iter().enumerate().filter(|(place, _)| cut.open >> place & 1 == 1);
    open.map(|(_, filter)| of(filter.level, &filter.codes)).product::<f64>().clamp(SHARE_MIN, 1.0)
}

/// The summary of a measure over all rows of a block; `None` where it tells too little for a stratum.
fn known_of(segment: &Segment, index: &BlockIndex, column: ColumnId, block: usize) -> Option<Known> {
    let nothing = Known { sum: 0.0, squares: 0.0, min: 0.0, max: 0.0 };
    // A column that the segment lacks is NULL in all its rows.
    let Some((_, summary)) = index.table.measures.iter().find(|(id, _)| *id == column) else { return Some(nothing) };
    let count = u64::from(summary.counts.as_primitive::<UInt32Type>().value(block));
    if count == 0 {
        return Some(nothing);
    }
    let (sum, squares, min, max) = match &summary.floats {
        Some(floats) => {
            if is_special(summary, block) {
                return None;
            }
            let at = |array: &ArrayRef| {
                let array = array.as_primitive::<Float64Type>();
                array.is_valid(block).then(|| array.value(block))
            };
            (at(&summary.sums)? + at(&floats.sum_rests)?, at(&summary.squares)?, at(&floats.mins)?, at(&floats.maxs)?)
        }
        None => {
            let at = |array: &ArrayRef| {
                let array = array.as_primitive::<Decimal256Type>();
                array.is_valid(block).then(|| array.value(block).to_i128()).flatten().map(|value| value as f64)
            };
            let (min, max) = exact_bounds(index, column, block)?;
            (at(&summary.sums)?, at(&summary.squares)?, min as f64, max as f64)
        }
    };
    let is_tame = min >= -LARGE && max <= LARGE && sum.is_finite() && squares.is_finite();
    let rows = segment.block_rows(block);
    let has_nulls = count < rows.end - rows.start;
    let (min, max) = if has_nulls { (min.min(0.0), max.max(0.0)) } else { (min, max) };
    is_tame.then_some(Known { sum, squares, min, max })
}
