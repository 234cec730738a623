//! Sums and bounds of a measure over whole nodes without its heavy rows, computed of the summaries once for a segment.

use crate::answer::LARGE;
use crate::estimate::Known;
use crate::heavy::heavy_rows;
use crate::nodes::FANOUT;
use crate::segment::{BlockIndex, Segment};
use alluvia_types::{ColumnId, Result};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{Decimal256Type, Float64Type, UInt32Type};
use std::sync::Arc;

/// Of a measure, by height above the blocks and by node; `None` where too little is known for a stratum.
#[derive(Debug)]
pub(crate) struct NodeKnowns {
    heights: Vec<Vec<Option<Known>>>,
    /// How many values are not NULL, heavy ones among them.
    values: Vec<Vec<u64>>,
}

impl NodeKnowns {
    /// Of the measure in a column, kept beside the segment. A column that the segment lacks is NULL in all its rows.
    pub(crate) fn of_column(segment: &Arc<Segment>, column: ColumnId) -> Result<Arc<NodeKnowns>> {
        let table = Arc::clone(&segment.index()?.table);
        let place = table.measures.iter().position(|(id, _)| *id == column);
        segment.derived(place.unwrap_or(table.measures.len()), || {
            let knowns = NodeKnowns::new(segment, column)?;
            let bytes = knowns.bytes();
            Ok((knowns, bytes))
        })
    }

    fn new(segment: &Arc<Segment>, column: ColumnId) -> Result<NodeKnowns> {
        let index = segment.index()?;
        let place = index.table.measures.iter().position(|(id, _)| *id == column);
        let heavy = place.map(|place| heavy_rows(segment, place)).transpose()?.filter(|heavy| !heavy.is_empty());
        let mut heights: Vec<Vec<Option<Known>>> =
            vec![(0..segment.blocks()).map(|block| of_block(segment, &index, column, block)).collect()];
        if let Some(heavy) = heavy {
            for (block, known) in heights[0].iter_mut().enumerate() {
                if let Some((known, light)) = known.as_mut().zip(heavy.light(block)) {
                    *known = light;
                }
            }
        }
        while let Some(below) = heights.last().filter(|below| below.len() > 1) {
            let above = below.chunks(FANOUT).map(|children| children.iter().copied().reduce(both).flatten());
            let above = above.collect();
            heights.push(above);
        }
        let mut values: Vec<Vec<u64>> =
            vec![(0..segment.blocks()).map(|block| values_of(&index, column, block)).collect()];
        while let Some(below) = values.last().filter(|below| below.len() > 1) {
            let above = below.chunks(FANOUT).map(|children| children.iter().sum()).collect();
            values.push(above);
        }
        Ok(NodeKnowns { heights, values })
    }

    /// Of one node.
    pub(crate) fn of(&self, height: usize, node: usize) -> Option<Known> {
        self.heights[height][node]
    }

    /// How many values of one node are not NULL, heavy ones among them.
    pub(crate) fn values(&self, height: usize, node: usize) -> u64 {
        self.values[height][node]
    }

    /// Bytes in memory, about.
    fn bytes(&self) -> u64 {
        let known = self.heights.iter().map(|known| size_of_val(known.as_slice()) as u64).sum::<u64>();
        known + self.values.iter().map(|values| size_of_val(values.as_slice()) as u64).sum::<u64>()
    }
}

fn both(a: Option<Known>, b: Option<Known>) -> Option<Known> {
    Some(a?.and(b?))
}

/// Values of a block that are not NULL; a column that the segment lacks is NULL in all its rows.
fn values_of(index: &BlockIndex, column: ColumnId, block: usize) -> u64 {
    let measure = index.table.measures.iter().find(|(id, _)| *id == column);
    measure.map_or(0, |(_, summary)| u64::from(summary.counts.as_primitive::<UInt32Type>().value(block)))
}

/// Over all rows of a block, NULL as 0; `None` where the summary tells too little for a stratum.
fn of_block(segment: &Segment, index: &BlockIndex, column: ColumnId, block: usize) -> Option<Known> {
    // A column that the segment lacks is NULL in all its rows.
    let Some((_, summary)) = index.table.measures.iter().find(|(id, _)| *id == column) else {
        return Some(Known::NOTHING);
    };
    let count = values_of(index, column, block);
    if count == 0 {
        return Some(Known::NOTHING);
    }
    let (sum, squares, min, max) = match &summary.floats {
        Some(floats) => {
            if summary.is_special(block) {
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
            let (min, max) = index.table.exact_bounds(column, block)?;
            (at(&summary.sums)?, at(&summary.squares)?, min as f64, max as f64)
        }
    };
    let is_tame = min >= -LARGE && max <= LARGE && sum.is_finite() && squares.is_finite();
    let rows = segment.block_rows(block);
    let has_nulls = count < rows.end - rows.start;
    let (min, max) = if has_nulls { (min.min(0.0), max.max(0.0)) } else { (min, max) };
    is_tame.then_some(Known { sum, squares, min, max })
}
