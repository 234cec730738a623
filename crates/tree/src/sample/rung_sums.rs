//! Sums of a measure over all rows of a rung but the heavy ones, by the block of the segment that they are of.
//!
//! What is drawn of a stratum, matching or not, does not depend on what is asked: it is summed once.

use super::moments::moments;
use crate::answer::Reading;
use crate::filter::Mask;
use crate::heavy::each_value;
use crate::layout::BLOCK_ROWS;
use crate::segment::Segment;
use alluvia_types::Result;
use std::ops::Range;
use std::sync::Arc;

/// Sums and sums of squares, NULL as 0.
#[derive(Debug)]
pub(crate) struct RungSums {
    by_block: Vec<(f64, f64)>,
    /// Rows of the rung that are left out, ascending.
    heavy: Vec<u32>,
}

impl RungSums {
    /// Of the measure at a place, without those beyond the limit of heavy rows of the segment that the rung hangs from;
    /// kept beside the rung.
    pub(crate) fn of_measure(rung: &Arc<Segment>, measure: usize, limit: f64) -> Result<Arc<RungSums>> {
        rung.derived(measure, || {
            let sums = RungSums::new(rung, measure, limit)?;
            let bytes = sums.bytes();
            Ok((sums, bytes))
        })
    }

    fn new(rung: &Arc<Segment>, measure: usize, limit: f64) -> Result<RungSums> {
        let mut heavy = Vec::new();
        if limit < f64::INFINITY {
            // Of all blocks: one of a rung has rows of many blocks of the segment, of which some may have NaN or
            // infinities, and those that are drawn of have none.
            each_value(rung, measure, |row, value| {
                if value.abs() > limit {
                    heavy.push(row as u32);
                }
            })?;
        }
        let first_rows = rung.first_rows()?;
        let index = rung.index()?;
        let stream = rung.measure_stream(measure)?;
        let reading = Reading {
            segment: Arc::clone(rung),
            index,
            filters: Vec::new(),
            groups: Vec::new(),
            measures: vec![Some((measure, stream))],
            times: Vec::new(),
            dead: None,
            killed: None,
        };
        let is_float = reading.index.table.measures[measure].1.floats.is_some();
        let of_block = |rows: &[u32]| {
            let (mut from, end) = (rows[0] as usize, rows[1] as usize);
            let mut sums = (0.0, 0.0);
            while from < end {
                let block = from / BLOCK_ROWS;
                let to = end.min((block + 1) * BLOCK_ROWS);
                let part = from - block * BLOCK_ROWS..to - block * BLOCK_ROWS;
                let mut all = Mask::all(part.len());
                among(&heavy, from..to).iter().for_each(|&row| all.remove(row as usize - from));
                let of_part = moments(&reading, 0, is_float, block, part, &all);
                sums = (sums.0 + of_part.sum, sums.1 + of_part.squares);
                from = to;
            }
            sums
        };
        let by_block = first_rows.windows(2).map(of_block).collect();
        Ok(RungSums { by_block, heavy })
    }

    /// Over some blocks of the segment that the rung hangs from.
    pub(crate) fn of(&self, blocks: Range<usize>) -> (f64, f64) {
        self.by_block[blocks].iter().fold((0.0, 0.0), |sums, block| (sums.0 + block.0, sums.1 + block.1))
    }

    /// Those of some rows of the rung that are left out.
    pub(crate) fn heavy(&self, rows: Range<usize>) -> &[u32] {
        among(&self.heavy, rows)
    }

    /// Bytes in memory.
    fn bytes(&self) -> u64 {
        (size_of_val(self.by_block.as_slice()) + size_of_val(self.heavy.as_slice())) as u64
    }
}

fn among(ascending: &[u32], rows: Range<usize>) -> &[u32] {
    let before = |end: usize| ascending.partition_point(|&row| (row as usize) < end);
    &ascending[before(rows.start)..before(rows.end)]
}
