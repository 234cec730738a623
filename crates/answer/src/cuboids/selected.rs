//! What is chosen of a cuboid for a statement, kept for the next time that the statement is asked.
//!
//! Invariants:
//! - A member keeps its parents for ever. A code that is no member yet has no rows; it is looked up again when there are more
//!   members than there were.
//! - What was chosen is used for the same cuboid only, while there are no more members than there were, of whatever level: then codes have
//!   the ancestors that they had.
//! - What all statements of the process keep is bounded; beyond, they choose each time.

use super::resident::Resident;
use crate::bound::{Bound, Now, are_told_by_codes};
use alluvia_space::LevelSource;
use alluvia_space::codes::calendar;
use alluvia_tree::{BoxQuery, Cuboid, GroupKeys, GroupSpan, Selection};
use parking_lot::Mutex;
use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Bytes of selections that are kept.
const KEPT_BYTES_MAX: u64 = 64 << 20;

/// Bytes that are kept now.
static KEPT_BYTES: AtomicU64 = AtomicU64::new(0);

/// A share of what may be kept.
#[derive(Debug)]
struct Share(u64);

impl Share {
    fn of(bytes: u64) -> Option<Share> {
        let more = |kept: u64| kept.checked_add(bytes).filter(|kept| *kept <= KEPT_BYTES_MAX);
        KEPT_BYTES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok().then(|| Share(bytes))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        KEPT_BYTES.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// Cells of a cuboid for each box of a statement.
#[derive(Debug)]
pub(crate) struct Selected {
    cuboid: Weak<Resident>,
    /// Members of each level when it was chosen.
    members: Vec<u32>,
    /// `None` if it is used once.
    share: Option<Share>,
    /// How groups are numbered.
    pub(super) keys: GroupKeys,
    /// One for each box.
    pub(super) selections: Vec<Selection>,
}

impl Selected {
    /// Chooses of a resident cuboid; `None` if it cannot answer.
    fn new(resident: &Arc<Resident>, cuboid: &Cuboid, bound: &Bound, now: &Now<'_>) -> Option<Selected> {
        // Members that come after this are looked up the next time.
        let members = (0..bound.dimensions.len()).map(|level| bound.dictionaries.len(level)).collect();
        let dimension_of = |level: usize| bound.dimensions[level];
        let lookups = Lookups { resident, cuboid, bound, used: RefCell::default() };
        let ancestor = |finer: usize, coarser: usize, code: u32| lookups.ancestor(finer, coarser, code);
        let spans = bound.groups.iter().map(|&level| cuboid.span_of(level, &dimension_of, &ancestor));
        let keys = GroupKeys::mapped(spans.collect::<Option<Vec<GroupSpan>>>()?, now.maps.clone())?;
        let select = |question: &BoxQuery| cuboid.select(question, &dimension_of, &ancestor, &keys);
        let selections = now.questions.iter().map(select).collect::<Option<Vec<Selection>>>()?;
        let bytes = selections.iter().map(Selection::bytes).sum();
        Some(Selected { cuboid: Arc::downgrade(resident), members, share: Share::of(bytes), keys, selections })
    }

    /// What to add up of a resident cuboid for a statement, as it was chosen before if that still holds.
    pub(super) fn of(resident: &Arc<Resident>, cuboid: &Cuboid, bound: &Bound) -> Option<Arc<Selected>> {
        // Codes that the cuboid has are in the dictionaries; filters and maps must know them all.
        let now = bound.now()?;
        // New members may have made an edge of what was empty when it was bound: its rows are in no cuboid.
        if !are_told_by_codes(&now.questions) {
            return None;
        }
        let Cow::Borrowed(questions) = now.questions else {
            return Selected::new(resident, cuboid, bound, &now).map(Arc::new);
        };
        let mut kept = bound.selected.lock();
        let is_it = |kept: &&Arc<Selected>| {
            let mut pairs = kept.selections.iter().zip(questions.iter());
            let mut members = kept.members.iter().enumerate();
            std::ptr::eq(kept.cuboid.as_ptr(), Arc::as_ptr(resident))
                && members.all(|(level, &known)| known == bound.dictionaries.len(level))
                && pairs.all(|(selection, question)| cuboid.is_current(selection, question))
        };
        if let Some(kept) = kept.as_ref().filter(is_it) {
            return Some(Arc::clone(kept));
        }
        // What is kept of it makes room for what comes.
        *kept = None;
        let selected = Arc::new(Selected::new(resident, cuboid, bound, &now)?);
        *kept = selected.share.is_some().then(|| Arc::clone(&selected));
        Some(selected)
    }
}

/// The codes that a cuboid's codes have at a coarser level: NULL's, and one for each place.
type Codes = Arc<[Option<u32>]>;

/// Ancestors of a cuboid's codes, kept between statements.
#[derive(Debug, Default)]
pub(crate) struct Ancestors {
    known: Mutex<Vec<Known>>,
}

#[derive(Debug)]
struct Known {
    finer: usize,
    coarser: usize,
    /// Members of the finer level when they were looked up.
    members: u32,
    codes: Codes,
}

impl Ancestors {
    /// Bytes in memory, about.
    pub(super) fn bytes(&self) -> u64 {
        let known = self.known.lock();
        known.iter().map(|known| size_of_val::<[Option<u32>]>(&known.codes) as u64).sum()
    }

    fn of(&self, bound: &Bound, span: &GroupSpan, coarser: usize) -> Codes {
        let finer = span.level;
        // More members after this are looked up the next time.
        let members = bound.dictionaries.len(finer);
        let mut known = self.known.lock();
        let place = known.iter().position(|known| (known.finer, known.coarser) == (finer, coarser));
        if let Some(known) = place.map(|place| &known[place]).filter(|known| known.members == members) {
            return Arc::clone(&known.codes);
        }
        let places = (0..span.count).map(|place| look_up(bound, finer, coarser, span.first + place));
        let codes: Codes = std::iter::once(look_up(bound, finer, coarser, 0)).chain(places).collect();
        let found = Known { finer, coarser, members, codes: Arc::clone(&codes) };
        match place {
            Some(place) => known[place] = found,
            None => known.push(found),
        }
        codes
    }
}

/// Ancestors as one statement asks for them.
struct Lookups<'a> {
    resident: &'a Resident,
    cuboid: &'a Cuboid,
    bound: &'a Bound,
    used: RefCell<Vec<Used>>,
}

/// Ancestors of one level at another.
struct Used {
    levels: (usize, usize),
    /// The code of the cuboid's first place.
    first: u32,
    codes: Codes,
}

impl Lookups<'_> {
    fn ancestor(&self, finer: usize, coarser: usize, code: u32) -> Option<u32> {
        let mut used = self.used.borrow_mut();
        let place = match used.iter().position(|used| used.levels == (finer, coarser)) {
            Some(place) => place,
            None => {
                // The cuboid's own level needs no ancestors.
                let span = self.cuboid.span_of(finer, &|level| self.bound.dimensions[level], &|_, _, _| None)?;
                let codes = self.resident.ancestors.of(self.bound, &span, coarser);
                used.push(Used { levels: (finer, coarser), first: span.first, codes });
                used.len() - 1
            }
        };
        let Used { first, codes, .. } = &used[place];
        let digit = if code == 0 { 0 } else { code.checked_sub(*first)? as usize + 1 };
        *codes.get(digit)?
    }
}

/// The code at a coarser level of a dimension; `None` for NULL members of dictionaries, which may be under any parent.
fn look_up(bound: &Bound, finer: usize, coarser: usize, code: u32) -> Option<u32> {
    let (_, _, from) = bound.def.levels().nth(finer)?;
    let (_, _, to) = bound.def.levels().nth(coarser)?;
    match (&from.source, &to.source) {
        (LevelSource::Calendar(_, from), LevelSource::Calendar(_, to))
        | (LevelSource::Local(_, from), LevelSource::Local(_, to)) => Some(match calendar::units_of_code(code) {
            None => 0,
            // The first and the last code stand for all times before and after.
            Some(_) if code == 1 || code == u32::MAX => return None,
            Some(units) => calendar::code_of_micros(calendar::start_micros(units, *from), *to),
        }),
        (LevelSource::Column(_), LevelSource::Column(_)) => {
            // A place without a member yet has no parent, and no rows.
            if coarser < finer && code >= bound.dictionaries.len(finer) {
                return Some(0);
            }
            bound.dictionaries.ancestor(finer, coarser, code)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded_and_given_back() {
        let most = Share::of(KEPT_BYTES_MAX / 2).expect("room");
        assert!(Share::of(KEPT_BYTES_MAX).is_none());
        assert!(Share::of(u64::MAX).is_none());
        drop(most);
        assert!(Share::of(KEPT_BYTES_MAX / 2).is_some());
    }
}
