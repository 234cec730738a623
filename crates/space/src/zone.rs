//! The clocks of a time zone, as a table's definition keeps them for a dimension of local time.
//!
//! Invariants:
//! - Rules are kept whole in the definition, and never change. Codes of stored rows are made by them; a later database of time zones may
//!   know other rules for the same name, and codes that are made by those would not meet the stored ones.
//! - Moments are microseconds of UTC since 1970, and times that clocks show are microseconds counted alike. Changes of the clocks are at
//!   whole seconds, and ascend; an offset is less than a week.
//! - Clocks that go back show times twice. So a moment bounds the times that are shown before it and from it on ([`ZoneRules::most_before`],
//!   [`ZoneRules::least_from`]), and where no unit of a calendar has times of both, the moment parts the units.

use alluvia_types::{Error, Result};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;
/// Seconds that an offset is less than.
const OFFSET_MAX: i32 = 7 * 86_400;

/// The rules of a zone. A copy is cheap.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct ZoneRules(Arc<Rules>);

#[derive(PartialEq, Eq, Debug)]
struct Rules {
    name: String,
    /// At least one, which begins with all time.
    spans: Vec<Span>,
    /// The least and the greatest offset.
    offsets: (i64, i64),
}

/// Moments between two changes of the clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Span {
    start: i64,
    /// Microseconds by which clocks are ahead of UTC.
    offset: i64,
}

/// Rules as definitions have them: all in seconds.
#[derive(Serialize, Deserialize)]
struct Stored {
    name: String,
    /// Before the first change.
    offset: i32,
    /// When clocks change, and the offset from then on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    changes: Vec<(i64, i32)>,
}

impl TryFrom<Stored> for ZoneRules {
    type Error = Error;

    fn try_from(stored: Stored) -> Result<ZoneRules> {
        ZoneRules::new(stored.name, stored.offset, &stored.changes)
    }
}

impl From<ZoneRules> for Stored {
    fn from(rules: ZoneRules) -> Stored {
        let seconds = |offset: i64| (offset / SECOND) as i32;
        let Rules { name, spans, .. } = &*rules.0;
        let changes = spans[1..].iter().map(|span| (span.start / SECOND, seconds(span.offset))).collect();
        Stored { name: name.clone(), offset: seconds(spans[0].offset), changes }
    }
}

impl ZoneRules {
    /// The rules of a zone whose clocks have an offset in seconds, and from each change on another one. What is no such list is a defect of
    /// the caller.
    pub fn new(name: String, offset: i32, changes: &[(i64, i32)]) -> Result<ZoneRules> {
        let ascend = changes.is_sorted_by(|one, next| one.0 < next.0);
        let fit = |&(at, offset): &(i64, i32)| at.checked_mul(SECOND).is_some() && offset.abs() < OFFSET_MAX;
        if name.is_empty() || !ascend || !fit(&(0, offset)) || !changes.iter().all(fit) {
            return Err(Error::internal(format!("the rules of time zone {name:?} are none that clocks go by")));
        }
        let first = Span { start: i64::MIN, offset: i64::from(offset) * SECOND };
        let later = changes.iter().map(|&(at, offset)| Span { start: at * SECOND, offset: i64::from(offset) * SECOND });
        let spans: Vec<Span> = std::iter::once(first).chain(later).collect();
        let offsets = spans
            .iter()
            .fold((first.offset, first.offset), |(least, most), span| (least.min(span.offset), most.max(span.offset)));
        Ok(ZoneRules(Arc::new(Rules { name, spans, offsets })))
    }

    /// What the zone is called.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Whether its clocks ever change.
    pub fn has_changes(&self) -> bool {
        self.0.spans.len() > 1
    }

    /// Whether clocks of both show the same at all moments.
    pub fn is_same(&self, other: &ZoneRules) -> bool {
        self.0.spans == other.0.spans
    }

    /// The span that a moment is in.
    fn span_at(&self, moment: i64) -> usize {
        // The first one begins with all time.
        self.0.spans.partition_point(|span| span.start <= moment) - 1
    }

    /// Where a span ends; none where it does not.
    fn end_of(&self, span: usize) -> Option<i64> {
        self.0.spans.get(span + 1).map(|next| next.start)
    }

    /// Microseconds by which clocks are ahead of UTC at a moment.
    pub fn offset_at(&self, moment: i64) -> i64 {
        self.0.spans[self.span_at(moment)].offset
    }

    /// The time that clocks show at a moment, clamped to what an `i64` holds.
    pub fn shown_at(&self, moment: i64) -> i64 {
        moment.saturating_add(self.offset_at(moment))
    }

    /// The times that clocks show at moments.
    pub fn shown_at_all(&self, moments: &[i64]) -> Vec<i64> {
        // Times of rows are near one another.
        let (mut start, mut end, mut offset) = (i64::MAX, Some(i64::MIN), 0);
        let shown = moments.iter().map(|&moment| {
            if moment < start || end.is_some_and(|end| moment >= end) {
                let span = self.span_at(moment);
                (start, end, offset) = (self.0.spans[span].start, self.end_of(span), self.0.spans[span].offset);
            }
            moment.saturating_add(offset)
        });
        shown.collect()
    }

    /// The greatest time that clocks show before a moment; `None` if there is nothing before it.
    pub fn most_before(&self, moment: i64) -> Option<i64> {
        let last = moment.checked_sub(1)?;
        let at = self.span_at(last);
        let mut most = last.saturating_add(self.0.spans[at].offset);
        for (span, next) in self.0.spans[..at].iter().zip(&self.0.spans[1..]).rev() {
            let last = next.start - 1;
            // What is shown before cannot be as late.
            if last.saturating_add(self.0.offsets.1) <= most {
                break;
            }
            most = most.max(last.saturating_add(span.offset));
        }
        Some(most)
    }

    /// The least time that clocks show from a moment on.
    pub fn least_from(&self, moment: i64) -> i64 {
        let at = self.span_at(moment);
        let mut least = moment.saturating_add(self.0.spans[at].offset);
        for span in &self.0.spans[at + 1..] {
            if span.start.saturating_add(self.0.offsets.0) >= least {
                break;
            }
            least = least.min(span.start.saturating_add(span.offset));
        }
        least
    }

    /// The moment at which clocks show a time, as SQL has it: of a time that they show twice the later one, and a time that they leave out is
    /// read by the offset before. `None` where that is out of range.
    pub fn moment_of(&self, shown: i64) -> Option<i64> {
        // No two changes of a zone's clocks are within two days of one another.
        let before = self.offset_at(shown.checked_sub(DAY)?);
        let after = self.offset_at(shown.checked_add(DAY)?);
        let (earlier, later) = (shown.checked_sub(before)?, shown.checked_sub(after)?);
        Some(if self.offset_at(later) == after { later } else { earlier })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR: i64 = 3_600;

    fn rules(offset: i32, changes: &[(i64, i32)]) -> ZoneRules {
        ZoneRules::new("Somewhere".to_owned(), offset, changes).unwrap()
    }

    #[test]
    fn what_no_clocks_go_by_is_refused() {
        for (offset, changes) in [
            (604_800, vec![]),
            (0, vec![(5, 0), (5, 1)]),
            (0, vec![(7, 0), (5, 1)]),
            (0, vec![(i64::MAX, 0)]),
            (0, vec![(0, -604_800)]),
        ] {
            assert!(ZoneRules::new("z".to_owned(), offset, &changes).is_err(), "{offset} {changes:?}");
        }
        assert!(ZoneRules::new(String::new(), 0, &[]).is_err());
    }

    #[test]
    fn an_hour_that_comes_twice_bounds_the_times_around_it() {
        // Ahead by an hour from 10:00 on, and back from 20:00 on.
        let rules = rules(0, &[(10 * HOUR, 3_600), (20 * HOUR, 0)]);
        let hour = |hours: i64| hours * HOUR * SECOND;
        assert_eq!(
            (rules.shown_at(hour(9)), rules.shown_at(hour(10)), rules.shown_at(hour(20))),
            (hour(9), hour(11), hour(20))
        );
        // 20:00 is shown at 19:00, and again at 20:00.
        assert_eq!((rules.most_before(hour(20)), rules.least_from(hour(20))), (Some(hour(21) - 1), hour(20)));
        assert_eq!((rules.most_before(hour(19)), rules.least_from(hour(19))), (Some(hour(20) - 1), hour(20)));
        assert_eq!((rules.most_before(hour(10)), rules.least_from(hour(10))), (Some(hour(10) - 1), hour(11)));
        assert_eq!((rules.moment_of(hour(20)), rules.moment_of(hour(10))), (Some(hour(20)), Some(hour(10))));
        assert_eq!((rules.most_before(i64::MIN), rules.shown_at(i64::MAX)), (None, i64::MAX));
    }

    proptest! {
        /// Whatever clocks do: told moment by moment, over some seconds.
        #[test]
        fn bounds_are_those_of_all_moments(
            offset in -9i32..9,
            changes in prop::collection::btree_map(-30i64..30, -9i32..9, 0..6),
            at in -60i64..60,
        ) {
            let changes: Vec<(i64, i32)> = changes.into_iter().collect();
            let rules = rules(offset, &changes);
            let slow = |second: i64| {
                let last = changes.iter().rev().find(|(from, _)| *from <= second);
                second + i64::from(last.map_or(offset, |(_, offset)| *offset))
            };
            let seconds: Vec<i64> = (-100..100).collect();
            let micros: Vec<i64> = seconds.iter().map(|second| second * SECOND).collect();
            let expected: Vec<i64> = seconds.iter().map(|&second| slow(second) * SECOND).collect();
            prop_assert_eq!(&rules.shown_at_all(&micros), &expected);
            prop_assert_eq!(micros.iter().map(|&moment| rules.shown_at(moment)).collect::<Vec<_>>(), expected);
            let most = seconds.iter().filter(|&&second| second < at).map(|&second| slow(second)).max();
            let least = seconds.iter().filter(|&&second| second >= at).map(|&second| slow(second)).min();
            // Of a second its last microsecond.
            prop_assert_eq!(rules.most_before(at * SECOND), most.map(|most| (most + 1) * SECOND - 1));
            prop_assert_eq!(Some(rules.least_from(at * SECOND)), least.map(|least| least * SECOND));
        }
    }
}
