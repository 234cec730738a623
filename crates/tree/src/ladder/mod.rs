//! The ladder of a segment: thinner copies of it, from which samples are read.
//!
//! Invariants:
//! - Rung k holds exactly the rows of its segment whose weights are below 2^64 / 8^k, in the segment's order. So each is a
//!   uniform sample of any region, and is contained in the one before.
//! - A rung is a segment itself, with files and an id of its own: whatever reads segments reads rungs. Its side file also says
//!   which of its rows are of which block of the segment it hangs from.
//! - A ladder holds nothing that its segment does not: one that is lost costs time, never rows.
//!
//! Qbeast (2019) stores each row once, in the tree's node that its weight puts it in, and reads a sample from a tree cut off at the
//! top. Copies cost a seventh more room, and leave both the full segment and every sample in one piece.

mod verify;
mod write;

pub use write::LadderWriter;

/// A rung has about one row in 2^this of the rung before.
pub const RUNG_STEP_BITS: u32 = 3;

/// Rows that a rung is worth writing for, unless told otherwise: a block.
pub const RUNG_ROWS_MIN: u64 = crate::layout::BLOCK_ROWS as u64;

/// The weights of rung `rung` lie below this. Rung 0 is the segment itself, which has no limit.
pub fn rung_limit(rung: u32) -> Option<u64> {
    (rung > 0).then(|| 1 << (64 - RUNG_STEP_BITS * rung))
}

/// The share of rows that a rung has.
pub fn rung_rate(rung: u32) -> f64 {
    0.5f64.powi((RUNG_STEP_BITS * rung) as i32)
}

/// How many rungs a segment of so many rows gets: as long as the last has about `rows_min` rows.
pub(crate) fn rungs_of(rows: u64, rows_min: u64) -> u32 {
    let mut rungs = 0;
    while RUNG_STEP_BITS * (rungs + 1) < 64 && rows >> (RUNG_STEP_BITS * (rungs + 1)) >= rows_min.max(1) {
        rungs += 1;
    }
    rungs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rungs_end_where_they_would_hold_less_than_is_worth_it() {
        assert_eq!([0, 65_535, 65_536, 524_288, 4 << 20].map(|rows| rungs_of(rows, 8_192)), [0, 0, 1, 2, 3]);
        assert_eq!(rungs_of(u64::MAX, 0), 21);
    }

    #[test]
    fn limits_are_eighths_of_eighths() {
        assert_eq!([0, 1, 2].map(rung_limit), [None, Some(1 << 61), Some(1 << 58)]);
        assert_eq!([0, 1, 2].map(rung_rate), [1.0, 0.125, 0.015625]);
    }
}
