//! The ladder of a segment: thinner copies of it, from which samples are read.
//!
//! Invariants:
//! - Rung k holds exactly the rows of its segment whose weights are below 2^64 / 2^k, in the segment's order. So each
//!   is a uniform sample of any region, and contains all thinner ones. A ladder has the rungs from the one on that its
//!   table's definition said when it was written (1/8, unless told otherwise), each with half of the rows of the one
//!   before; older ones have every third from 1/8 on. Whatever reads a ladder reads what it has.
//! - A rung is a segment itself, with files and an id of its own: whatever reads segments reads rungs. Its side file
//!   also says which of its rows are of which block of the segment it hangs from.
//! - A ladder holds nothing that its segment does not: one that is lost costs time, never rows.
//!
//! Qbeast (2019) stores each row once, in the tree's node that its weight puts it in, and reads a sample from a tree
//! cut off at the top. Copies cost a quarter more room, and leave both the full segment and every sample in one piece.
//! With rungs eight times as thick as the next a sample of 2 % read 12.5 %, and an estimate was hardly faster than the
//! exact answer. From 1/4 on they would cost half as much room as the rows, from 1/2 on as much: so only tables have
//! these that ask for them.

use super::BLOCK_ROWS;

/// The thinnest rung that there can be.
const RUNG_LAST: u32 = 31;

/// Rows that a rung is worth writing for, unless told otherwise: a quarter of a block. A table of many rows has many
/// segments of a million or two, and an estimate of all of them needs few rows of each.
pub const RUNG_ROWS_MIN: u64 = BLOCK_ROWS as u64 / 4;

/// The weights of rung `rung` lie below this. Rung 0 is the segment itself, which has no limit.
pub fn rung_limit(rung: u32) -> Option<u64> {
    (rung > 0).then(|| 1 << (64 - rung))
}

/// The share of rows that a rung has.
pub fn rung_rate(rung: u32) -> f64 {
    0.5f64.powi(rung as i32)
}

/// The rungs that a segment of so many rows gets, from rung `first` on, the thickest: as long as the last has about
/// `rows_min` rows.
pub(crate) fn rungs_of(first: u32, rows: u64, rows_min: u64) -> impl Iterator<Item = u32> {
    (first..=RUNG_LAST).take_while(move |&rung| rows >> rung >= rows_min.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_space::Ladder;

    #[test]
    fn rungs_end_where_they_would_hold_less_than_is_worth_it() {
        let last = |rows| rungs_of(3, rows, 8_192).last();
        let expected = [None, None, Some(3), Some(3), Some(4), Some(9)];
        assert_eq!([0, 65_535, 65_536, 131_071, 131_072, 4 << 20].map(last), expected);
        assert_eq!(rungs_of(3, u64::MAX, 0).last(), Some(RUNG_LAST));
    }

    #[test]
    fn a_ladder_from_a_thicker_rung_on_has_the_others_too() {
        for ladder in Ladder::ALL {
            let first = ladder.first_rung();
            for rows in [0, 16_383, 16_384, 32_767, 32_768, 65_535, 65_536, 4 << 20] {
                let rungs: Vec<u32> = rungs_of(first, rows, 8_192).collect();
                let expected: Vec<u32> = (first..=9).filter(|rung| rows >> rung >= 8_192).collect();
                assert_eq!(rungs, expected, "{rows} rows from {} on", ladder.name());
            }
            let of_rows: f64 = rungs_of(first, u64::MAX, 0).map(rung_rate).sum();
            let room = [1.0, 0.5, 0.25][first as usize - 1];
            assert!((of_rows - room).abs() < 1e-6, "{} on: {of_rows} of the rows", ladder.name());
        }
    }

    #[test]
    fn limits_are_halves_of_halves() {
        assert_eq!([0, 1, 3, 6].map(rung_limit), [None, Some(1 << 63), Some(1 << 61), Some(1 << 58)]);
        assert_eq!([0, 1, 3, 6].map(rung_rate), [1.0, 0.5, 0.125, 0.015625]);
    }
}
