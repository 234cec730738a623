//! Calendars of the time that a zone's clocks show: ranges of moments, and groups, by their units.
//!
//! Invariants:
//! - Clocks that go back show units twice, so that moments of a unit may lie before those of an earlier one. A range of moments has a unit
//!   *whole* if it has all moments that clocks show as it, and any other of which it has some at an edge. A moment begins a unit if each
//!   moment before is of an earlier one, and none from it on is.
//! - A group by units of a zone is answered where the dimension's rules are those of the zone as functions know it: then both cut every moment
//!   alike. Hours and minutes that come twice are one member, and two groups; so of a zone that ever changes its clocks no such groups are answered.

use super::times::Ends;
use alluvia_functions::datetime::session_zone::rules_of;
use alluvia_space::codes::calendar;
use alluvia_space::{CalendarUnit, Column, LevelSource, TableDef, ZoneRules};
use arrow::array::{ArrayRef, TimestampMicrosecondArray};
use arrow::datatypes::{DataType as ArrowType, TimeUnit};
use std::collections::HashSet;
use std::sync::Arc;

/// The code of the unit that clocks show at a time of theirs.
fn code(shown: i64, unit: CalendarUnit) -> u32 {
    calendar::code_of_micros(shown, unit)
}

/// The code that begins with a moment, as the first and the last one do not, which stand for all times before and after.
pub(super) fn code_from(zone: &ZoneRules, moment: i64, unit: CalendarUnit) -> Option<u32> {
    let first = code(zone.least_from(moment), unit);
    let is_later = zone.most_before(moment).is_none_or(|most| first > code(most, unit));
    (is_later && first > 1 && first < u32::MAX).then_some(first)
}

/// The first and the last of the units that lie in a range of moments whole, if there are any, and the units, ascending, of which some
/// moments do.
pub(super) fn units(zone: &ZoneRules, unit: CalendarUnit, (low, end): Ends) -> (Option<(u32, u32)>, Vec<u32>) {
    if low.zip(end).is_some_and(|(low, end)| low >= end) {
        return (None, Vec::new());
    }
    // From a moment on: the first unit of which there are any, and the first of which nothing is before.
    let (some_from, whole_from) = match low {
        None => (1, Some(1)),
        Some(low) => {
            let before = zone.most_before(low).map_or(0, |most| code(most, unit));
            (code(zone.least_from(low), unit), before.checked_add(1))
        }
    };
    // And before a moment, alike from behind.
    let (some_to, whole_to) = match end {
        None => (u32::MAX, u32::MAX),
        Some(end) => (zone.most_before(end).map_or(0, |most| code(most, unit)), code(zone.least_from(end), unit) - 1),
    };
    let whole = whole_from.map(|first| (first, whole_to)).filter(|(first, last)| first <= last);
    let edges = match whole {
        None => (some_from..=some_to).collect(),
        Some((first, last)) => {
            (some_from..first).chain(last.saturating_add(1)..=some_to).filter(|&code| code != last).collect()
        }
    };
    (whole, edges)
}

/// The level that groups of `date_trunc('unit', column, 'zone')` are members of.
pub(super) fn level_of(def: &TableDef, column: &Column, unit: CalendarUnit, zone: &str) -> Option<usize> {
    let of_unit = |source: &LevelSource| *source == LevelSource::Local(column.id, unit);
    if !def.levels().any(|(_, _, level)| of_unit(&level.source)) {
        return None;
    }
    let rules = rules_of(zone)?;
    if rules.has_changes() && matches!(unit, CalendarUnit::Hour | CalendarUnit::Minute) {
        return None;
    }
    def.levels().position(|(dimension, _, level)| {
        of_unit(&level.source) && def.dimensions[dimension].zone.as_ref().is_some_and(|own| own.is_same(&rules))
    })
}

/// The moments at which units of codes begin, as `date_trunc` gives them; `None` where they are not told apart by them.
pub(super) fn starts(codes: &[u32], unit: CalendarUnit, zone: &ZoneRules, to: &ArrowType) -> Option<ArrayRef> {
    let ArrowType::Timestamp(TimeUnit::Microsecond, Some(of)) = to else { return None };
    let mut starts = Vec::with_capacity(codes.len());
    let mut seen = HashSet::with_capacity(codes.len());
    let mut by_code = HashSet::with_capacity(codes.len());
    for &code in codes {
        let start = match calendar::units_of_code(code) {
            None => None,
            Some(units) => Some(zone.moment_of(calendar::start_micros(units, unit))?),
        };
        // Members of several groups may be one; two members have two starts.
        if by_code.insert(code) && !seen.insert(start) {
            return None;
        }
        starts.push(start);
    }
    Some(Arc::new(TimestampMicrosecondArray::from(starts).with_timezone(Arc::clone(of))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: i64 = 1_000_000;
    const HOUR: i64 = 3_600 * SECOND;

    /// Clocks that go forward and back by some quarters of an hour, and days now and then.
    fn zones() -> impl Strategy<Value = ZoneRules> {
        let offset = prop_oneof![4 => -8i32..8, 1 => -100i32..100];
        (offset.clone(), prop::collection::btree_map(-400i64..400, offset, 0..5)).prop_map(|(offset, changes)| {
            let changes: Vec<(i64, i32)> = changes.into_iter().map(|(at, offset)| (at * 1_800, offset * 900)).collect();
            ZoneRules::new("Somewhere".to_owned(), offset * 900, &changes).expect("rules")
        })
    }

    /// Moments of a month around 1970, each five minutes.
    fn moments() -> impl Iterator<Item = i64> {
        (-4_500..4_500).map(|number| number * 300 * SECOND)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Told moment by moment: a unit is whole if all its moments are in the range, and at an edge if some are.
        #[test]
        fn units_of_a_range_are_those_of_its_moments(
            zone in zones(),
            unit in prop::sample::select(CalendarUnit::ALL.to_vec()),
            low in prop::option::of(-3_000i64..3_000),
            end in prop::option::of(-3_000i64..3_000),
        ) {
            let at = |number: i64| number * 300 * SECOND;
            let (low, end) = (low.map(at), end.map(at));
            let (whole, edges) = units(&zone, unit, (low, end));
            prop_assert!(edges.is_sorted_by(|one, next| one < next));
            for moment in moments() {
                let code = code(zone.shown_at(moment), unit);
                let is_in = low.is_none_or(|low| moment >= low) && end.is_none_or(|end| moment < end);
                let is_whole = whole.is_some_and(|(first, last)| (first..=last).contains(&code));
                let is_edge = edges.contains(&code);
                prop_assert!(!(is_whole && is_edge));
                prop_assert!(!is_whole || is_in, "{} is not in the range, and of a unit that is", moment);
                prop_assert!(!is_in || is_whole || is_edge, "{} is in the range, and of no unit of it", moment);
            }
        }

        #[test]
        fn what_begins_a_unit_parts_all_moments(
            zone in zones(),
            unit in prop::sample::select(CalendarUnit::ALL.to_vec()),
            at in -3_000i64..3_000,
        ) {
            let at = at * 300 * SECOND;
            let found = code_from(&zone, at, unit);
            let of = |moment: i64| code(zone.shown_at(moment), unit);
            match found {
                Some(first) => {
                    for moment in moments() {
                        prop_assert_eq!(moment >= at, of(moment) >= first, "{}", moment);
                    }
                    let (whole, edges) = units(&zone, unit, (Some(at), None));
                    prop_assert!(edges.is_empty() && whole.is_some_and(|(whole, _)| whole <= first));
                }
                // Some unit has moments on both sides.
                None => {
                    let before = moments().filter(|moment| *moment < at).map(of).max();
                    let after = moments().filter(|moment| *moment >= at).map(of).min();
                    prop_assert!(before >= after);
                }
            }
        }
    }

    #[test]
    fn a_day_of_twenty_five_hours_begins_and_ends() {
        // Back by an hour at 03:00 of the second day.
        let zone = ZoneRules::new("Somewhere".to_owned(), 7_200, &[(86_400 + 3_600, 3_600)]).expect("rules");
        let (begin, end) = (22 * HOUR, 47 * HOUR);
        let day = code_from(&zone, begin, CalendarUnit::Day).expect("a day begins");
        assert_eq!(code_from(&zone, end, CalendarUnit::Day), Some(day + 1));
        assert_eq!(units(&zone, CalendarUnit::Day, (Some(begin), Some(end))), (Some((day, day)), Vec::new()));
        // The hour that comes twice is one unit, which begins with neither of its ends within.
        let twice = code(26 * HOUR, CalendarUnit::Hour);
        assert_eq!(code_from(&zone, 24 * HOUR, CalendarUnit::Hour), Some(twice));
        assert_eq!(code_from(&zone, 25 * HOUR, CalendarUnit::Hour), None);
        assert_eq!(code_from(&zone, 26 * HOUR, CalendarUnit::Hour), Some(twice + 1));
        let of_half = units(&zone, CalendarUnit::Hour, (Some(25 * HOUR), Some(27 * HOUR)));
        assert_eq!(of_half, (Some((twice + 1, twice + 1)), vec![twice]));
    }

    #[test]
    fn all_time_has_all_units() {
        let zone = ZoneRules::new("Somewhere".to_owned(), 3_600, &[(0, 7_200)]).expect("rules");
        for unit in CalendarUnit::ALL {
            assert_eq!(units(&zone, unit, (None, None)), (Some((1, u32::MAX)), Vec::new()));
            let (whole, edges) = units(&zone, unit, (Some(i64::MAX), None));
            let (all, none) = units(&zone, unit, (Some(i64::MIN), None));
            assert_eq!((all, none), (Some((1, u32::MAX)), Vec::new()));
            assert!(whole.is_none_or(|(_, last)| last == u32::MAX) && edges.len() <= 1, "{unit:?}");
        }
    }
}
