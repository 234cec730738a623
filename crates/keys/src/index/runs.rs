//! Places in 48 bits.
//!
//! A place is a number within a **run** of 65,536 rows of a segment, or ordinals of a version in the tail. Runs are numbered as they
//! come. How many places of each are in use is counted; a number of which none is left is given out again.

use crate::place::RowPlace;
use alluvia_space::weight::STAGED_ORDINAL_MIN;
use alluvia_types::{SegmentId, Version};
use hashbrown::HashMap;

/// Bits of a place's number within its run.
const WITHIN_BITS: u32 = 16;

/// Where the rows of a run are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Run {
    Segment(SegmentId, u32),
    Tail(Version, u32),
}

/// The runs of an index's places.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    /// Each with how many of its places are in use; 0 of those that are free.
    runs: Vec<(Run, u32)>,
    numbers: HashMap<Run, u32>,
    free: Vec<u32>,
    /// The one that was taken last: rows come in their order.
    last: Option<(Run, u32)>,
}

impl Runs {
    /// Takes a place into use; the number stands for it until it is released.
    pub(super) fn take(&mut self, place: RowPlace) -> u64 {
        let (run, within) = match place {
            RowPlace::Segment { segment, row } => (Run::Segment(segment, row >> WITHIN_BITS), row),
            RowPlace::Tail { version, ordinal } => {
                assert!(ordinal < STAGED_ORDINAL_MIN, "ordinal {ordinal} of version {version} is of a staged row");
                (Run::Tail(version, (ordinal >> WITHIN_BITS) as u32), ordinal as u32)
            }
        };
        let number = match self.last {
            Some((last, number)) if last == run => number,
            _ => self.number(run),
        };
        self.last = Some((run, number));
        self.runs[number as usize].1 += 1;
        u64::from(number) << WITHIN_BITS | u64::from(within & ((1 << WITHIN_BITS) - 1))
    }

    fn number(&mut self, run: Run) -> u32 {
        *self.numbers.entry(run).or_insert_with(|| match self.free.pop() {
            Some(number) => {
                self.runs[number as usize] = (run, 0);
                number
            }
            None => {
                self.runs.push((run, 0));
                u32::try_from(self.runs.len() - 1).expect("an index has fewer than 2^32 runs of rows")
            }
        })
    }

    /// The place for which a number stands.
    pub(super) fn place(&self, packed: u64) -> RowPlace {
        let within = packed as u32 & ((1 << WITHIN_BITS) - 1);
        match self.runs[(packed >> WITHIN_BITS) as usize].0 {
            Run::Segment(segment, run) => RowPlace::Segment { segment, row: run << WITHIN_BITS | within },
            Run::Tail(version, run) => RowPlace::Tail { version, ordinal: (run << WITHIN_BITS | within).into() },
        }
    }

    /// Takes a place out of use, and says which it was.
    pub(super) fn release(&mut self, packed: u64) -> RowPlace {
        let place = self.place(packed);
        let number = (packed >> WITHIN_BITS) as u32;
        let (run, used) = &mut self.runs[number as usize];
        *used -= 1;
        if *used == 0 {
            self.numbers.remove(run);
            self.last = self.last.filter(|(_, last)| *last != number);
            self.free.push(number);
        }
        place
    }

    /// Bytes of memory that they take.
    pub(super) fn bytes(&self) -> usize {
        self.runs.capacity() * size_of::<(Run, u32)>()
            + self.free.capacity() * size_of::<u32>()
            + self.numbers.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_back_and_numbers_are_used_again() {
        let mut runs = Runs::default();
        let numbers = [0, 1, u64::from(u32::MAX), 1 << 40, (1 << 63) - 1];
        let mut taken = Vec::new();
        for number in numbers {
            for within in [0, 1, 65_535, 65_536, u32::MAX] {
                let places = [
                    RowPlace::Segment { segment: SegmentId(number), row: within },
                    RowPlace::Tail { version: Version(number), ordinal: within.into() },
                ];
                taken.extend(places.map(|place| (place, runs.take(place))));
            }
        }
        for (place, packed) in &taken {
            assert_eq!((runs.place(*packed), *packed >> 48), (*place, 0));
        }
        assert_eq!(runs.runs.len(), 3 * 2 * numbers.len());
        for (place, packed) in taken {
            assert_eq!(runs.release(packed), place);
        }
        assert!(runs.numbers.is_empty());
        let place = RowPlace::Tail { version: Version(9), ordinal: 70_000 };
        let packed = runs.take(place);
        assert_eq!((runs.runs.len(), runs.place(packed)), (3 * 2 * numbers.len(), place));
    }
}
