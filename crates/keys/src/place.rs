//! Where a row is, and how an index keeps that in 12 bytes.

use alluvia_space::weight::STAGED_ORDINAL_MIN;
use alluvia_types::{SegmentId, Version};

/// Where a row is now.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RowPlace {
    /// In a segment.
    Segment {
        /// The segment.
        segment: SegmentId,
        /// The row's number in it.
        row: u32,
    },
    /// In the tail, under its identity.
    Tail {
        /// The row's version.
        version: Version,
        /// Its ordinal within its batch and table: below [`STAGED_ORDINAL_MIN`], since staged rows come as segments.
        ordinal: u64,
    },
}

/// A [`RowPlace`] in three words: the low two are a number twice and whether it is a version's, the third is row or ordinal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Packed([u32; 3]);

impl Packed {
    /// Numbers of segments and versions are counted from 1 on, and never reach 2^63.
    pub(crate) fn new(place: RowPlace) -> Packed {
        let (number, is_tail, within) = match place {
            RowPlace::Segment { segment, row } => (segment.0, 0, row),
            RowPlace::Tail { version, ordinal } => {
                assert!(ordinal < STAGED_ORDINAL_MIN, "ordinal {ordinal} of version {version} is of a staged row");
                (version.0, 1, ordinal as u32)
            }
        };
        assert!(number < 1 << 63, "{place:?} cannot be");
        let word = number << 1 | is_tail;
        Packed([word as u32, (word >> 32) as u32, within])
    }

    pub(crate) fn place(self) -> RowPlace {
        let [low, high, within] = self.0;
        let word = u64::from(low) | u64::from(high) << 32;
        match word & 1 {
            0 => RowPlace::Segment { segment: SegmentId(word >> 1), row: within },
            _ => RowPlace::Tail { version: Version(word >> 1), ordinal: within.into() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_back() {
        let numbers = [0, 1, u64::from(u32::MAX), 1 << 40, (1 << 63) - 1];
        for number in numbers {
            for within in [0, 1, u32::MAX] {
                let places = [
                    RowPlace::Segment { segment: SegmentId(number), row: within },
                    RowPlace::Tail { version: Version(number), ordinal: within.into() },
                ];
                places.iter().for_each(|&place| assert_eq!(Packed::new(place).place(), place));
            }
        }
        assert_eq!(size_of::<Packed>(), 12);
    }
}
