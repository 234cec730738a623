//! Ages of kills: which version was visible at which time.
//!
//! A kill has a version and no time. Whoever removes what has been dead for long notes now and then which version is visible,
//! and asks through which version all is so old.
//!
//! Invariants:
//! - A mark says that its version was visible by its time: what was killed through it is as old at least.
//! - So marks that were lost, or never made, let kills seem younger, never older. Only a clock that was set forward does that.
//! - Marks are apart by a sixteenth of their age, about: there are some hundreds of them at most, and a kill seems younger by
//!   no more than that, and the gap between notes.

use alluvia_types::{Error, ErrorKind, Result, Version};
use std::time::Duration;

/// Which part of its age a mark is away from the next one, at most.
const APART: i64 = 16;
/// Bytes of a mark.
const MARK_BYTES: usize = 16;
/// Marks that are read, at most: more than are ever written.
const MARKS_MAX: usize = 1 << 16;

/// Marks of times and versions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ages {
    /// Microseconds since 1970 and versions; both ascend.
    marks: Vec<(i64, Version)>,
}

impl Ages {
    /// Notes that a version is visible now, if the last mark is as old as `gap` and of an older version. Returns whether the marks
    /// are others than before.
    pub fn note(&mut self, now_micros: i64, visible: Version, gap: Duration) -> bool {
        let before = self.marks.len();
        // The clock was set back, or they are of another past.
        while self.marks.last().is_some_and(|&(at, version)| at > now_micros || version > visible) {
            self.marks.pop();
        }
        let is_less = self.marks.len() < before;
        if let Some(&(at, version)) = self.marks.last()
            && (version == visible || now_micros.saturating_sub(at) < micros(gap))
        {
            return is_less;
        }
        self.marks.push((now_micros, visible));
        self.thin(now_micros);
        true
    }

    /// The newest version of which it is known that it was visible so long ago: what was killed through it is as old. 0 if none is.
    pub fn through(&self, now_micros: i64, age: Duration) -> Version {
        let by = now_micros.saturating_sub(micros(age));
        let known = self.marks.partition_point(|(at, _)| *at <= by);
        known.checked_sub(1).map_or(Version(0), |last| self.marks[last].1)
    }

    /// Leaves out marks between others that are near to each other for their age.
    fn thin(&mut self, now_micros: i64) {
        let mut kept: Vec<(i64, Version)> = Vec::with_capacity(self.marks.len());
        for (at, &mark) in self.marks.iter().enumerate() {
            let is_between = match (kept.last(), self.marks.get(at + 1)) {
                (Some((before, _)), Some((after, _))) => {
                    after.saturating_sub(*before) <= now_micros.saturating_sub(*after) / APART
                }
                _ => false,
            };
            if !is_between {
                kept.push(mark);
            }
        }
        self.marks = kept;
    }

    /// As they are kept in a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let bytes = |&(at, version): &(i64, Version)| [at.to_le_bytes(), version.0.to_le_bytes()].concat();
        self.marks.iter().flat_map(bytes).collect()
    }

    /// What [`Ages::to_bytes`] gave.
    ///
    /// # Errors
    /// `Corrupt` of anything else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Ages> {
        let corrupt = |what: &str| Error::new(ErrorKind::Corrupt, format!("ages of deleted rows: {what}"));
        let (marks, rest) = bytes.as_chunks::<MARK_BYTES>();
        if !rest.is_empty() || marks.len() > MARKS_MAX {
            return Err(corrupt(&format!("{} bytes are no marks", bytes.len())));
        }
        let mark = |mark: &[u8; MARK_BYTES]| {
            let whole = u128::from_le_bytes(*mark);
            (whole as u64 as i64, Version((whole >> 64) as u64))
        };
        let marks: Vec<(i64, Version)> = marks.iter().map(mark).collect();
        if !marks.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1) {
            return Err(corrupt("marks do not ascend"));
        }
        Ok(Ages { marks })
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    proptest! {
        /// Against all that was ever noted: nothing seems older than it is, and little younger.
        #[test]
        fn kills_seem_a_little_younger_than_they_are(
            steps in prop::collection::vec((1u64..4_000, 0u64..3), 1..600),
            asked in prop::collection::vec(0u64..2_000_000, 1..20),
            gap in 1u64..2_000,
        ) {
            let (mut ages, mut all) = (Ages::default(), Vec::new());
            let (mut now, mut visible) = (1_700_000_000_000_000i64, 1u64);
            for (later, more) in steps {
                now += micros(seconds(later));
                visible += more;
                ages.note(now, Version(visible), seconds(gap));
                all.push((now, visible));
                prop_assert!(ages.marks.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1));
            }
            prop_assert!(ages.marks.len() < 400, "{} marks", ages.marks.len());
            prop_assert_eq!(&Ages::from_bytes(&ages.to_bytes()).unwrap(), &ages);
            let known = |age: u64| {
                all.iter().rev().find(|(at, _)| *at <= now - micros(seconds(age))).map_or(0, |(_, version)| *version)
            };
            for age in asked {
                let through = ages.through(now, seconds(age)).0;
                prop_assert!(through <= known(age), "{} s: through {}, and {}", age, through, known(age));
                // Between notes lie a gap and one step; both ends of a mark's neighbourhood may be thinned.
                let sure = known(age + age / 8 + gap + 8_000);
                prop_assert!(through >= sure, "{} s: through {}, and {} is older by far", age, through, sure);
            }
        }

        #[test]
        fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(ages) = Ages::from_bytes(&bytes) {
                prop_assert_eq!(ages.to_bytes(), bytes);
            }
        }
    }

    #[test]
    fn a_clock_that_is_set_back_makes_nothing_older() {
        let mut ages = Ages::default();
        let day = 86_400_000_000;
        assert!(ages.note(10 * day, Version(5), seconds(60)));
        assert!(!ages.note(10 * day + 1, Version(6), seconds(60)), "too soon");
        assert!(!ages.note(11 * day, Version(5), seconds(60)), "nothing came");
        assert!(ages.note(11 * day, Version(9), seconds(60)));
        assert_eq!([0, 1, 2, 3].map(|days| ages.through(12 * day, seconds(days * 86_400)).0), [9, 9, 5, 0]);
        // Four days back.
        assert!(ages.note(7 * day, Version(9), seconds(60)));
        assert_eq!(ages.through(8 * day, seconds(86_400)), Version(9));
        assert_eq!(ages.through(8 * day, seconds(86_401)), Version(0));
        // A database of another past has not come as far.
        assert!(ages.note(9 * day, Version(3), seconds(60)));
        assert_eq!(ages.through(9 * day, seconds(0)), Version(3));
        assert!(Ages::from_bytes(&[1; 15]).is_err());
        assert!(Ages::from_bytes(&[1; 32]).is_err(), "they do not ascend");
    }
}
