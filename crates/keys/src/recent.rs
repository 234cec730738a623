//! Which keys of a table were written lately: what decides that the first of two writers wins.
//!
//! Invariants:
//! - Above the floor nothing is missing: every write of a version above it that was noted, and not taken back, is here.
//!   Of versions before the floor nothing is known, and that is the answer ([`Recent::written_after`]).
//! - There is a bound on entries. Past it the floor rises, by whole versions: a writer that computed from an older one is
//!   told to try again, and is never let through wrongly.

use alluvia_space::KeyCode;
use alluvia_types::Version;
use hashbrown::HashMap;
use std::collections::VecDeque;

/// Most writes that are remembered: some 80 MB.
const WRITES_MAX: usize = 1 << 20;

/// So much room is kept for writes, whatever there were before.
const KEPT_CAPACITY: usize = 1 << 12;

/// The last writes of a table's keys, back to a floor.
#[derive(Clone, Debug)]
pub struct Recent {
    /// The version of each key's last write.
    last: HashMap<KeyCode, Version>,
    /// Keys by the version that wrote them, ascending; a key is in a version once.
    writes: VecDeque<(Version, Vec<KeyCode>)>,
    /// Writes of this version and before are not known.
    floor: Version,
    /// Keys in `writes`.
    count: usize,
    count_max: usize,
}

/// Nothing was ever written, or nobody computes from versions at which something was.
impl Default for Recent {
    fn default() -> Recent {
        Recent::new(Version(0))
    }
}

impl Recent {
    /// Nothing was written above `floor` yet; what was written before is not known. Whoever begins anew while others still
    /// compute from older versions says the newest version here.
    pub fn new(floor: Version) -> Recent {
        Recent { last: HashMap::new(), writes: VecDeque::new(), floor, count: 0, count_max: WRITES_MAX }
    }

    /// A version wrote these keys. Versions come in their order; a version may come again with more of its keys.
    pub fn note(&mut self, version: Version, codes: impl IntoIterator<Item = KeyCode>) {
        if version <= self.floor {
            // It was too large to be remembered when it came the first time.
            return;
        }
        let newest = self.writes.back().map_or(self.floor, |(newest, _)| *newest);
        assert!(version >= newest, "version {version} is noted after version {newest}");
        if version > newest {
            self.writes.push_back((version, Vec::new()));
        }
        let Some((_, written)) = self.writes.back_mut() else { return };
        for code in codes {
            if self.last.insert(code, version) != Some(version) {
                written.push(code);
                self.count += 1;
            }
            if written.len() > self.count_max {
                // Too large alone: it is forgotten below, and no room is made for the rest.
                break;
            }
        }
        while self.count > self.count_max
            && let Some(&(oldest, _)) = self.writes.front()
        {
            self.forget_through(oldest);
        }
    }

    /// Whether a key was written after a version, as far as is known: it also was where that is not known any more.
    pub fn is_written_after(&self, code: KeyCode, version: Version) -> bool {
        self.written_after(code, version).unwrap_or(true)
    }

    /// Whether a key was written after a version; `None` where that is not known any more.
    pub fn written_after(&self, code: KeyCode, version: Version) -> Option<bool> {
        if version < self.floor {
            return None;
        }
        Some(self.last.get(&code).is_some_and(|&last| last > version))
    }

    /// The last version that is known to have written a key.
    pub fn last_written(&self, code: KeyCode) -> Option<Version> {
        self.last.get(&code).copied()
    }

    /// Forgets the writes of versions through this one: nobody will ask for what was written after an older version.
    pub fn forget_through(&mut self, version: Version) {
        self.floor = self.floor.max(version);
        while let Some((written, codes)) = self.writes.pop_front_if(|(written, _)| *written <= version) {
            self.count -= codes.len();
            for code in codes {
                // A key that was written again stays, by its later version.
                if self.last.get(&code) == Some(&written) {
                    self.last.remove(&code);
                }
            }
        }
        // Many may have been written at once.
        if self.last.capacity() > KEPT_CAPACITY && self.last.len() < self.last.capacity() / 4 {
            self.last.shrink_to(2 * self.last.len());
        }
    }

    /// Takes back the writes of versions above one: their batches were never durable, and their numbers are used again.
    pub fn take_back(&mut self, above: Version) {
        // Nothing lies above it any more, so all that does is known.
        self.floor = self.floor.min(above);
        let before = self.writes.len();
        while self.writes.pop_back_if(|(written, _)| *written > above).is_some() {}
        if self.writes.len() == before {
            return;
        }
        // Keys that versions before had written, too, have those again.
        self.last.clear();
        for (written, codes) in &self.writes {
            self.last.extend(codes.iter().map(|&code| (code, *written)));
        }
        self.count = self.writes.iter().map(|(_, codes)| codes.len()).sum();
    }

    /// Bytes of memory that it takes, about.
    pub fn bytes(&self) -> usize {
        let entries = self.last.capacity() * (size_of::<(KeyCode, Version)>() + 1);
        entries + self.writes.capacity() * size_of::<(Version, Vec<KeyCode>)>() + self.count * size_of::<KeyCode>()
    }

    /// The newest version of which a write is known.
    pub fn newest(&self) -> Option<Version> {
        self.writes.back().map(|(version, _)| *version)
    }

    /// The oldest version for which [`Recent::written_after`] knows an answer.
    pub fn floor(&self) -> Version {
        self.floor
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        /// How many versions later, and what they write.
        Note(u64, Vec<KeyCode>),
        /// So many versions back from the newest.
        Forget(u64),
        TakeBack(u64),
    }

    fn any_step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0u64..4, prop::collection::vec(0u128..12, 0..8)).prop_map(|(later, codes)| Step::Note(later, codes)),
            1 => (0u64..12).prop_map(Step::Forget),
            1 => (0u64..6).prop_map(Step::TakeBack),
        ]
    }

    proptest! {
        /// Against a list of all writes: what is answered is true, and nothing above what was forgotten is unknown
        /// while there is room.
        #[test]
        fn answers_are_those_of_all_writes(
            steps in prop::collection::vec(any_step(), 0..60),
            floor in 0u64..5,
            count_max in prop_oneof![Just(usize::MAX), 1usize..30],
        ) {
            let mut recent = Recent { count_max, ..Recent::new(Version(floor)) };
            let (mut all, mut newest, mut forgotten) = (Vec::<(u64, KeyCode)>::new(), floor, floor);
            for step in steps {
                match step {
                    Step::Note(later, codes) => {
                        newest += later;
                        recent.note(Version(newest), codes.iter().copied());
                        all.extend(codes.iter().map(|&code| (newest, code)));
                    }
                    Step::Forget(back) => {
                        let version = newest.saturating_sub(back);
                        recent.forget_through(Version(version));
                        forgotten = forgotten.max(version);
                    }
                    Step::TakeBack(back) => {
                        newest = newest.saturating_sub(back);
                        recent.take_back(Version(newest));
                        all.retain(|&(version, _)| version <= newest);
                        forgotten = forgotten.min(newest);
                    }
                }
                let kept = recent.writes.iter().map(|(_, codes)| codes.len()).sum::<usize>();
                prop_assert_eq!(recent.count, kept);
                prop_assert!(kept <= count_max);
                prop_assert!(recent.floor() >= Version(forgotten));
                if count_max == usize::MAX {
                    prop_assert_eq!(recent.floor(), Version(forgotten));
                }
                for version in 0..newest + 2 {
                    for code in 0..12 {
                        let expected = all.iter().any(|&(written, other)| other == code && written > version);
                        let known = recent.written_after(code, Version(version));
                        prop_assert_eq!(recent.is_written_after(code, Version(version)), known != Some(false));
                        match known {
                            Some(known) => prop_assert_eq!(known, expected, "key {} after {}", code, version),
                            None => prop_assert!(Version(version) < recent.floor()),
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_floor_rises_by_whole_versions() {
        let mut recent = Recent { count_max: 4, ..Recent::new(Version(10)) };
        recent.note(Version(11), [1, 2, 2, 1]);
        recent.note(Version(12), [3, 4]);
        assert_eq!((recent.floor(), recent.count), (Version(10), 4));
        recent.note(Version(12), [3, 1]);
        assert_eq!((recent.floor(), recent.count), (Version(11), 3));
        assert_eq!(recent.written_after(1, Version(10)), None);
        assert_eq!(recent.written_after(1, Version(11)), Some(true));
        assert_eq!(recent.written_after(2, Version(11)), Some(false));
        // One version alone may be too large.
        recent.note(Version(13), 0..9);
        recent.note(Version(13), [9]);
        assert_eq!((recent.floor(), recent.count), (Version(13), 0));
        assert_eq!(recent.written_after(1, Version(12)), None);
        recent.take_back(Version(11));
        assert_eq!(recent.written_after(1, Version(11)), Some(false));
    }
}
