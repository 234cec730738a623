//! Finding heavy rows while values go by, once: when a merge writes them, or in a pass over a segment that was written
//! without.
//!
//! Invariants:
//! - What is found depends on the values and their order alone, not on how many rows were announced: of any two finders
//!   that saw the same blocks, both find the same rows. (Sums over the others may differ in their last digits.)
//! - No more than twice as many rows as can be heavy are held at a time.
//!
//! A row that is not among the largest so far is none at the end, so it goes into its block's sums at once; one that is
//! held goes there when it is pushed out. So sums over all rows but the heavy ones come of additions alone: taking the
//! heavy rows from the sums of all would leave little of the rest's digits.

use super::values::each_of_block;
use super::{Heavy, ROWS_PER_HEAVY, SHARE_MIN};
use crate::estimate::Known;
use crate::layout::BLOCK_ROWS;
use crate::packed::PackedAs;
use crate::segment::{Segment, values_of};
use crate::summary::BlockTable;
use alluvia_types::Result;
use arrow::array::{Array, AsArray};
use arrow::datatypes::{Decimal256Type, Float64Type};
use std::sync::OnceLock;

/// Looks for the heavy rows of one measure.
#[derive(Debug)]
pub(crate) struct Finder {
    /// So many rows can be heavy at most.
    most: usize,
    held: Vec<Held>,
    /// Of each held row, by its slot, its codes at all levels.
    codes: Vec<u32>,
    levels: usize,
    /// Slots that no held row has.
    free: Vec<u32>,
    /// Sizes up to this are not heavy: as many rows as can be, and one more, are held that are no smaller.
    floor: f64,
    /// Sum of the squares of all values.
    squares: f64,
    /// By block, of the rows that are not heavy.
    light: Vec<Known>,
    rows: u64,
}

/// A row that may be heavy.
#[derive(Clone, Copy, Debug)]
struct Held {
    size: f64,
    value: f64,
    row: u32,
    slot: u32,
}

/// How many of so many rows can be heavy.
fn most_of(rows: u64) -> usize {
    (rows / ROWS_PER_HEAVY) as usize
}

impl Finder {
    /// About how many bytes it takes at the most.
    pub(crate) fn bytes_max(rows_max: u64, levels: usize) -> u64 {
        let of_row = size_of::<Held>() as u64 + 4 * levels as u64;
        2 * (rows_max / ROWS_PER_HEAVY + 1) * of_row
    }

    /// Of a segment of at most so many rows, with the rows' codes at so many levels; 0 leaves them to be looked up.
    pub(crate) fn new(rows_max: u64, levels: usize) -> Finder {
        Finder {
            most: most_of(rows_max),
            held: Vec::new(),
            codes: Vec::new(),
            levels,
            free: Vec::new(),
            floor: f64::NEG_INFINITY,
            squares: 0.0,
            light: Vec::new(),
            rows: 0,
        }
    }

    /// Takes in the next block, of so many rows; `codes` has theirs by level, if they are kept.
    pub(crate) fn block(&mut self, packed: &[u8], packed_as: PackedAs, rows: usize, codes: &[Vec<u32>]) {
        let first = self.rows;
        self.rows += rows as u64;
        self.light.push(Known::NOTHING);
        let PackedAs { encoding, count, is_special } = packed_as;
        // Blocks with NaN or infinities are always read exactly.
        if is_special {
            return;
        }
        let mut light = Known::NOTHING;
        each_of_block(packed, encoding, (count, count < rows as u64), rows, |row, value| {
            let size = value.abs();
            self.squares += size * size;
            if size <= self.floor {
                add(&mut light, value);
            } else {
                self.hold(Held { size, value, row: (first + row as u64) as u32, slot: 0 }, row, codes);
            }
        });
        if let Some(of_block) = self.light.last_mut() {
            *of_block = of_block.and(light);
        }
    }

    fn hold(&mut self, held: Held, row_of_block: usize, codes: &[Vec<u32>]) {
        let slot = self.free.pop().unwrap_or(self.held.len() as u32);
        self.held.push(Held { slot, ..held });
        let own = slot as usize * self.levels;
        if own == self.codes.len() {
            self.codes.extend(codes.iter().take(self.levels).map(|codes| codes[row_of_block]));
        } else {
            let own = self.codes[own..own + self.levels].iter_mut();
            own.zip(codes).for_each(|(own, codes)| *own = codes[row_of_block]);
        }
        if self.held.len() == 2 * (self.most + 1) {
            self.keep(self.most);
            self.floor = self.held[self.most].size;
        }
    }

    /// Keeps so many of the largest, and one more, which comes behind them.
    fn keep(&mut self, most: usize) {
        if self.held.len() <= most {
            return;
        }
        self.held.select_nth_unstable_by(most, |a, b| b.size.total_cmp(&a.size).then(a.row.cmp(&b.row)));
        for out in self.held.drain(most + 1..) {
            add(&mut self.light[out.row as usize / BLOCK_ROWS], out.value);
            self.free.push(out.slot);
        }
    }

    /// The heavy rows; `table` summarises all blocks. `None` if there were more rows than announced: then more of them
    /// can be heavy than were held.
    pub(crate) fn finish(mut self, table: &BlockTable, measure: usize) -> Option<Heavy> {
        let most = most_of(self.rows);
        if most > self.most {
            return None;
        }
        if most == 0 || self.held.len() <= most || !may_outweigh(table, measure, most as f64) {
            return Some(Heavy::none());
        }
        self.keep(most);
        let limit = self.held[most].size;
        self.held.retain(|held| {
            let is_heavy = held.size > limit;
            if !is_heavy {
                add(&mut self.light[held.row as usize / BLOCK_ROWS], held.value);
            }
            is_heavy
        });
        // Sums of doubles depend on their order.
        self.held.sort_unstable_by_key(|held| held.row);
        let squares: f64 = self.held.iter().map(|held| held.size * held.size).sum();
        if self.held.is_empty() || squares < SHARE_MIN * self.squares {
            return Some(Heavy::none());
        }
        let at_level = |level: usize| self.held.iter().map(move |held| held.slot as usize * self.levels + level);
        let codes = match self.levels {
            0 => table.levels.iter().map(|_| OnceLock::new()).collect(),
            levels => (0..levels)
                .map(|level| OnceLock::from(at_level(level).map(|at| self.codes[at]).collect::<Vec<_>>()))
                .collect(),
        };
        Some(Heavy::new(
            limit,
            self.held.iter().map(|held| held.row).collect(),
            self.held.iter().map(|held| held.value).collect(),
            |block| self.light[block],
            codes,
        ))
    }
}

/// The heavy rows of the measure at a place, in a pass over its values; their codes are left to be looked up.
pub(crate) fn find(segment: &Segment, measure: usize) -> Result<Heavy> {
    let index = segment.index()?;
    let rows = segment.meta().rows;
    if most_of(rows) == 0 || !may_outweigh(&index.table, measure, most_of(rows) as f64) {
        return Ok(Heavy::none());
    }
    let (stream, mut finder) = (segment.measure_stream(measure)?, Finder::new(rows, 0));
    let summary = &index.table.measures[measure].1;
    for (block, &encoding) in summary.encodings.iter().enumerate() {
        let (count, _) = values_of(&index, measure, segment, block);
        let packed_as = PackedAs { encoding, count, is_special: summary.is_special(block) };
        let rows = segment.block_rows(block);
        finder.block(stream.block(block), packed_as, (rows.end - rows.start) as usize, &[]);
    }
    Ok(finder.finish(&index.table, measure).unwrap_or_else(Heavy::none))
}

/// Whether so many rows of the largest size could have a large share of the sum of squares.
fn may_outweigh(table: &BlockTable, measure: usize, most: f64) -> bool {
    let (column, summary) = &table.measures[measure];
    let wide = |array: &dyn Array, block: usize| match array.as_primitive_opt::<Float64Type>() {
        Some(array) => array.is_valid(block).then(|| array.value(block)),
        None => {
            let array = array.as_primitive_opt::<Decimal256Type>()?;
            array.is_valid(block).then(|| array.value(block).to_i128()).flatten().map(|value| value as f64)
        }
    };
    let (mut squares, mut largest) = (0.0, 0.0f64);
    for block in (0..table.key_first.len()).filter(|&block| !summary.is_special(block)) {
        let of_block = wide(&*summary.squares, block).unwrap_or(f64::NAN);
        squares += of_block;
        // Without bounds no value is larger than the root of all squares.
        let bound = match &summary.floats {
            Some(floats) => wide(&*floats.mins, block).zip(wide(&*floats.maxs, block)),
            None => table.exact_bounds(*column, block).map(|(min, max)| (min as f64, max as f64)),
        };
        largest = largest.max(bound.map_or(of_block, |(min, max)| min.abs().max(max.abs()).powi(2)));
    }
    // Squares that are not known, or not finite, make no strata.
    squares.is_finite() && most * largest >= SHARE_MIN * squares
}

fn add(light: &mut Known, value: f64) {
    *light = light.and(Known::of(value));
}
