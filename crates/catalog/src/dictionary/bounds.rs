//! Bounds on the members of one level: room for all rows that wait, so that a sort never runs out of codes.
//!
//! Invariants:
//! - Members of rows that were acknowledged have room, so that a sort never fails for want of it: it is a sort of all
//!   tables.
//! - While every level is far from its bound, that costs a batch one look at a flag.
//!
//! Rows are acknowledged before they are sorted, and get their codes when they are. Those that wait are bounded, by the
//! tail: a level that has so much free can take them whatever they hold. One that has less is *near full*. Then members
//! get their codes before their rows are acknowledged ([`Dictionaries::admit`]), and whoever brings some, also a load,
//! leaves room for what waits ([`Dictionaries::remap_leaving`]). Nobody comes between: a batch counts as waiting before
//! it looks whether a level is near full, and a level says that it is before it asks what waits.
//!
//! [`Dictionaries::admit`]: super::Dictionaries::admit
//! [`Dictionaries::remap_leaving`]: super::Dictionaries::remap_leaving

use super::DictionaryMark;
use super::value::BYTES_MAX;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Codes end below this, so that a count of codes fits 32 bits with room to spare.
const CODES_MAX: usize = u32::MAX as usize - 1;

/// The bounds that all levels of a database have, and whether one of them is near full.
#[derive(Clone, Debug)]
pub struct LevelBounds {
    bytes_max: usize,
    waiting_max: usize,
    is_any_near: Arc<AtomicBool>,
}

impl Default for LevelBounds {
    /// What an Arrow array can hold, where no rows wait.
    fn default() -> Self {
        LevelBounds::new(BYTES_MAX as u64, 0)
    }
}

impl LevelBounds {
    /// Names of a level may take `bytes_max`, at most 2 GiB less a byte; rows that wait for a sort take at most
    /// `waiting_max`.
    pub fn new(bytes_max: u64, waiting_max: u64) -> LevelBounds {
        let bytes_max = bytes_max.min(BYTES_MAX as u64) as usize;
        LevelBounds { bytes_max, waiting_max: waiting_max as usize, is_any_near: Arc::default() }
    }

    /// Whether some level is near full; once one was, for good.
    pub fn is_any_near(&self) -> bool {
        self.is_any_near.load(Ordering::SeqCst)
    }

    pub(crate) fn set_near(&self) {
        self.is_any_near.store(true, Ordering::SeqCst);
    }

    /// Whether a level of so many bytes and codes is near full. A row that waits has a byte at least, so bytes bound
    /// codes, too.
    pub(crate) fn is_near(&self, bytes: usize, codes: usize) -> bool {
        bytes > self.bytes_max.saturating_sub(self.waiting_max) || codes > CODES_MAX.saturating_sub(self.waiting_max)
    }

    /// Whether a level may be near full of dictionaries that are not open, of which so much is in a file.
    pub fn may_be_near(&self, mark: &DictionaryMark) -> bool {
        let codes = mark.members.iter().max().map_or(0, |&codes| codes as usize);
        self.is_near(mark.bytes as usize, codes)
    }

    /// Takes notice of dictionaries that are not open.
    pub fn note(&self, mark: &DictionaryMark) {
        if self.may_be_near(mark) {
            self.set_near();
        }
    }

    /// How many bytes and codes a level may have that leaves so much room.
    pub(crate) fn leaving(&self, bytes: u64) -> (usize, usize) {
        let bytes = bytes as usize;
        (self.bytes_max.saturating_sub(bytes), CODES_MAX.saturating_sub(bytes))
    }
}
