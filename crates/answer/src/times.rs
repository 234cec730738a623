//! Ranges of times that begin or end within units of a calendar.
//!
//! Invariants:
//! - The units of a range are those that have any of its times; all but its *edges*, a unit at either end at most, lie in it whole, so that
//!   their codes tell their rows.
//! - Each time is of one code of its column's axis, and a condition on the column holds for all times of a code or for none: the axis is cut
//!   wherever a condition begins or ends.

use super::clocks;
use super::conditions::{filter_of, values_of};
use super::constants::timestamp_of;
use super::statement::{Condition, Literal, Test, Values};
use alluvia_catalog::Dictionaries;
use alluvia_space::codes::calendar::{self, MICROS_PER_DAY};
use alluvia_space::{CalendarUnit, Column, DataType, LevelSource, TableDef, ZoneRules};
use alluvia_tree::{CodeSet, TimeRange};
use arrow::array::AsArray;
use arrow::datatypes::{Date32Type, TimestampMicrosecondType};
use std::collections::BTreeMap;
use std::ops::Range;

/// The units that have some times, NULL among them where it is one, and what tells the rows of those that have others, too.
#[derive(Clone, Debug)]
pub(super) struct Units {
    pub(super) codes: CodeSet,
    /// `None` where there are no such units.
    pub(super) range: Option<TimeRange>,
}

/// Where a range of days or microseconds begins, and where it has ended.
pub(super) type Ends = (Option<i64>, Option<i64>);

/// Where a range has ended that has no end: behind the greatest value.
const ENDLESS: i128 = i64::MAX as i128 + 1;

/// The times of a column, cut wherever one of a statement's conditions begins or ends: what lies between two cuts is one code, so that a
/// condition on the column is a set of codes as others are, and may stand below AND, OR and NOT as they do.
pub(super) struct Axis<'a> {
    column: &'a Column,
    /// The finest level of the column's calendar.
    level: usize,
    unit: CalendarUnit,
    /// Of local time, whose clocks show it.
    zone: Option<&'a ZoneRules>,
    /// Ascending.
    cuts: Vec<i64>,
}

/// An axis for each column of which some condition is a range that codes do not tell.
pub(super) fn axes<'a>(def: &'a TableDef, dictionaries: &Dictionaries, conditions: &[Condition]) -> Vec<Axis<'a>> {
    let axis = |(name, tests): (&str, Vec<&Test>)| {
        let column = def.columns.iter().find(|column| column.name == name)?;
        let (level, unit, zone) = finest(def, column)?;
        let mut cuts = Vec::new();
        let mut is_needed = false;
        for test in tests {
            let Some(ranges) = ranges(column, positive(test)) else { continue };
            is_needed |= filter_of(def, dictionaries, name, test).is_none();
            cuts.extend(ranges.into_iter().flat_map(|(low, end)| [low, end]).flatten());
        }
        cuts.sort_unstable();
        cuts.dedup();
        is_needed.then_some(Axis { column, level, unit, zone, cuts })
    };
    tests_by_column(conditions).into_iter().filter_map(axis).collect()
}

/// All tests of each column.
pub(super) fn tests_by_column(conditions: &[Condition]) -> BTreeMap<&str, Vec<&Test>> {
    let mut tests = BTreeMap::new();
    flatten(conditions, &mut tests);
    tests
}

fn flatten<'c>(conditions: &'c [Condition], into: &mut BTreeMap<&'c str, Vec<&'c Test>>) {
    for condition in conditions {
        match condition {
            Condition::All(parts) | Condition::Any(parts) => flatten(parts, into),
            Condition::Column(name, test) => into.entry(name).or_default().push(test),
        }
    }
}

/// A test, or what it is the contrary of.
fn positive(test: &Test) -> &Test {
    match test {
        Test::Not(test) => positive(test),
        test => test,
    }
}

impl Axis<'_> {
    /// Whether it is a column's.
    pub(super) fn is_of(&self, name: &str) -> bool {
        self.column.name == name
    }

    /// The finest level of its calendar.
    pub(super) fn level(&self) -> usize {
        self.level
    }

    /// The greatest of its codes; 0 is NULL's.
    pub(super) fn last(&self) -> u32 {
        self.cuts.len() as u32 + 1
    }

    /// The codes that pass one of the tests that it was made for, or a test for NULL; `None` of any other.
    pub(super) fn codes(&self, test: &Test) -> Option<CodeSet> {
        let known = CodeSet::of_range(1, self.last());
        Some(match test {
            Test::Null => CodeSet::of_codes(vec![0]),
            Test::Known => known,
            Test::Not(test) => self.codes(test)?.complement(self.last()).intersect(&known),
            test => {
                // Of a list each value is a code.
                let (mut alone, mut wide) = (Vec::new(), CodeSet::of_codes(Vec::new()));
                for (first, last) in ranges(self.column, test)?.into_iter().map(|ends| self.within(ends)) {
                    if first == last {
                        alone.push(first);
                    } else {
                        wide = wide.union(&CodeSet::of_range(first, last));
                    }
                }
                wide.union(&CodeSet::of_codes(alone))
            }
        })
    }

    /// The first and the last code of a range that begins and ends at cuts; the last is before the first where there is none. A code begins at
    /// the cut before it.
    fn within(&self, (low, end): Ends) -> (u32, u32) {
        let cuts_through = |value: i64| self.cuts.partition_point(|&cut| cut <= value) as u32;
        (low.map_or(1, |low| cuts_through(low) + 1), end.map_or(self.last(), cuts_through))
    }

    /// The rows of some of its codes; `None` where more than so many units are edges.
    pub(super) fn units(&self, codes: &CodeSet, edges_max: usize) -> Option<Units> {
        let mut whole: Vec<(u32, u32)> = Vec::new();
        let mut edges: Vec<u32> = Vec::new();
        let mut values: Vec<Range<i128>> = Vec::new();
        for &(first, last) in codes.runs() {
            let low = (first > 1).then(|| self.cuts[first as usize - 2]);
            let end = (last < self.last()).then(|| self.cuts[last as usize - 1]);
            let (run, at_ends) = match self.zone {
                None => units(self.column, self.unit, (low, end)),
                Some(zone) => clocks::units(zone, self.unit, (low, end)),
            };
            whole.extend(run);
            // Several runs may begin or end within one unit.
            for code in at_ends {
                if edges.last() != Some(&code) {
                    edges.push(code);
                }
            }
            values.push(i128::from(low.unwrap_or(i64::MIN))..end.map_or(ENDLESS, i128::from));
            if edges.len() > edges_max {
                return None;
            }
        }
        let edges = CodeSet::of_codes(edges);
        let codes = CodeSet::of_ranges(whole, codes.holds_null()).union(&edges);
        let range = (!edges.is_empty()).then(|| TimeRange {
            column: self.column.id,
            storage_name: self.column.storage_name.clone(),
            data_type: self.column.data_type.to_arrow(),
            level: self.level,
            edges,
            values,
        });
        Some(Units { codes, range })
    }
}

/// The finest level of a column's calendar.
fn finest<'a>(def: &'a TableDef, column: &Column) -> Option<(usize, CalendarUnit, Option<&'a ZoneRules>)> {
    let units = def.levels().enumerate().filter_map(|(level, (dimension, _, declared))| match declared.source {
        LevelSource::Calendar(id, unit) if id == column.id => Some((level, unit, None)),
        LevelSource::Local(id, unit) if id == column.id => {
            Some((level, unit, Some(def.dimensions[dimension].zone.as_ref()?)))
        }
        _ => None,
    });
    // Of two as fine it is the one of UTC, in which few units are edges.
    units.max_by_key(|(_, unit, zone)| (*unit, zone.is_none()))
}

/// The first and the last of the units that lie in a range whole, if there are any, and the units, ascending, of which some times do.
fn units(column: &Column, unit: CalendarUnit, (low, end): Ends) -> (Option<(u32, u32)>, Vec<u32>) {
    if low.zip(end).is_some_and(|(low, end)| low >= end) {
        return (None, Vec::new());
    }
    let is_whole = |value: i64| code_of(column, value, unit).is_some() && begins(column, value, unit);
    let code = |value: i64| clamped_code(column, value, unit);
    // None where nothing comes after it.
    let first = match low {
        None => Some(1),
        Some(low) => code(low).checked_add(u32::from(!is_whole(low))),
    };
    let last = end.map_or(u32::MAX, |end| code(end) - 1);
    // Where the range lies within one unit, none is whole.
    let whole = first.filter(|&first| first <= last).map(|first| (first, last));
    // The first and the last code stand for all times before and after: these are told by their values.
    let mut edges: Vec<u32> = [low, end].into_iter().flatten().filter(|&value| !is_whole(value)).map(code).collect();
    edges.dedup();
    (whole, edges)
}

/// The code of the unit that a value lies in.
fn clamped_code(column: &Column, value: i64, unit: CalendarUnit) -> u32 {
    match column.data_type {
        DataType::Date => calendar::code_of_day(value, unit),
        _ => calendar::code_of_micros(value, unit),
    }
}

/// The code of the unit that a value lies in; `None` of the first and the last one, which stand for all times before and after.
pub(super) fn code_of(column: &Column, value: i64, unit: CalendarUnit) -> Option<u32> {
    let code = clamped_code(column, value, unit);
    (code > 1 && code < u32::MAX).then_some(code)
}

/// Whether a unit begins with a value. Hours and minutes of a date are its first: any of its days is one code, in order.
pub(super) fn begins(column: &Column, value: i64, unit: CalendarUnit) -> bool {
    let start = match column.data_type {
        DataType::Date => calendar::truncate_day(value, unit),
        _ => calendar::truncate_micros(value, unit),
    };
    start == value
}

/// The ranges of a test of a date or timestamp, if it is a range or a list; they may have times in common.
pub(super) fn ranges(column: &Column, test: &Test) -> Option<Vec<Ends>> {
    let days = match column.data_type {
        DataType::Date => true,
        DataType::Timestamp | DataType::TimestampTz => false,
        _ => return None,
    };
    // A moment beside dates lies at the start of a day, or between that and the next one's.
    let value = |literal: &Literal| -> Option<(i64, bool)> {
        if let (true, Literal::Time(text)) = (days, literal) {
            let micros = timestamp_of(text)?;
            return Some((micros.div_euclid(MICROS_PER_DAY), micros.rem_euclid(MICROS_PER_DAY) == 0));
        }
        let values = values_of(std::slice::from_ref(literal), column, &column.data_type.to_arrow())?;
        let value = match days {
            true => values.as_primitive_opt::<Date32Type>()?.value(0).into(),
            false => values.as_primitive_opt::<TimestampMicrosecondType>()?.value(0),
        };
        Some((value, true))
    };
    // x > v is x >= v + 1, and x <= v is x < v + 1: values are whole days or microseconds.
    let from = |bound: &Option<(Literal, bool)>, step: bool| match bound {
        None => Some(None),
        Some((literal, inclusive)) => {
            let (value, is_there) = value(literal)?;
            Some(Some(if *inclusive == step || !is_there { value.checked_add(1)? } else { value }))
        }
    };
    match test {
        Test::Range(low, high) => Some(vec![(from(low, false)?, from(high, true)?)]),
        Test::In(literals) => {
            let alone = |literal: &Literal| {
                let (value, is_there) = value(literal)?;
                let next = value.checked_add(1)?;
                // What lies between two values is none.
                Some((Some(if is_there { value } else { next }), Some(next)))
            };
            literals.iter().map(alone).collect()
        }
        // Moments are many.
        Test::Among(Values(values)) if days => {
            let values = values.as_primitive_opt::<Date32Type>()?.iter().flatten().map(i64::from);
            Some(values.map(|day| (Some(day), Some(day + 1))).collect())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_types::ColumnId;
    use arrow::array::Date32Array;
    use datafusion::scalar::ScalarValue;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn column(data_type: DataType) -> Column {
        Column {
            id: ColumnId(3),
            name: "t".to_owned(),
            storage_name: "t".to_owned(),
            data_type,
            nullable: true,
            chars_max: None,
        }
    }

    #[test]
    fn each_of_many_days_is_a_range_of_its_own() {
        let days = Test::Among(Values(Arc::new(Date32Array::from(vec![3, -7]))));
        let alone = vec![(Some(3), Some(4)), (Some(-7), Some(-6))];
        assert_eq!(ranges(&column(DataType::Date), &days), Some(alone));
        assert_eq!(ranges(&column(DataType::Timestamp), &days), None);
    }

    proptest! {
        /// Around 1970, where all units are near.
        #[test]
        fn a_value_in_a_range_is_of_its_units_and_no_other_value_is(
            unit in prop::sample::select(CalendarUnit::ALL.to_vec()),
            is_date: bool,
            low in prop::option::of(-800i64..800),
            end in prop::option::of(-800i64..800),
            value in -800i64..800,
            aligned: (bool, bool),
        ) {
            let column = column(if is_date { DataType::Date } else { DataType::TimestampTz });
            let scale = if is_date { 1 } else { 3_600_000_000 / 4 };
            let at = |value: i64, is_aligned: bool| {
                let value = value * scale;
                let code = code_of(&column, value, unit).expect("near 1970");
                // To the start of the unit, or where it is.
                if !is_aligned { return value; }
                let units = calendar::units_of_code(code).expect("not NULL");
                if is_date { calendar::start_day(units, unit) } else { calendar::start_micros(units, unit) }
            };
            let (low, end) = (low.map(|low| at(low, aligned.0)), end.map(|end| at(end, aligned.1)));
            let (whole, edges) = units(&column, unit, (low, end));
            let value = value * scale;
            let code = code_of(&column, value, unit).expect("near 1970");
            let expected = low.is_none_or(|low| value >= low) && end.is_none_or(|end| value < end);
            let is_whole = whole.is_some_and(|(first, last)| (first..=last).contains(&code));
            let is_edge = edges.contains(&code);
            prop_assert!(!(is_whole && is_edge) && edges.len() <= 2 && edges.is_sorted());
            // A unit that lies in it whole has no time that does not, and all other times of the range are at its edges.
            prop_assert!(!is_whole || expected);
            prop_assert!(!expected || is_whole || is_edge);
            // Where units begin at both ends no value is read.
            let begin_at_both = [low, end].into_iter().flatten().all(|end| begins(&column, end, unit));
            prop_assert!(!begin_at_both || edges.is_empty());
        }
    }

    #[test]
    fn a_moment_beside_dates_lies_at_the_start_of_one_or_between_two() {
        let column = column(DataType::Date);
        let at = |text: &str| Literal::Time(text.to_owned());
        let of = |test: Test| ranges(&column, &test).expect("ranges");
        let (start, noon) = ("1970-01-03 00:00:00", "1970-01-03 12:00:00");
        for (inclusive, from, before) in [(true, 2, 3), (false, 3, 2)] {
            assert_eq!(of(Test::Range(Some((at(start), inclusive)), None)), [(Some(from), None)]);
            assert_eq!(of(Test::Range(None, Some((at(start), inclusive)))), [(None, Some(before))]);
            assert_eq!(of(Test::Range(Some((at(noon), inclusive)), None)), [(Some(3), None)]);
            assert_eq!(of(Test::Range(None, Some((at(noon), inclusive)))), [(None, Some(3))]);
        }
        assert_eq!(of(Test::In(vec![at(start), at(noon)])), [(Some(2), Some(3)), (Some(3), Some(3))]);
    }

    proptest! {
        /// Tests are told by the codes of the axis, and these by their units; so are tests that are joined.
        #[test]
        fn a_value_that_passes_a_test_is_of_the_units_of_its_codes_and_no_other_is(
            unit in prop::sample::select(CalendarUnit::ALL.to_vec()),
            is_date: bool,
            lists in prop::collection::vec((prop::collection::vec(-400i64..400, 1..4), any::<bool>()), 1..4),
            ranges in prop::collection::vec((prop::option::of(-400i64..400), prop::option::of(-400i64..400), any::<bool>()), 1..4),
            value in prop::option::of(-400i64..400),
        ) {
            let column = column(if is_date { DataType::Date } else { DataType::Timestamp });
            // Times of hours, some of which begin units.
            let scale = if is_date { 1 } else { 3_600_000_000 };
            let literal = |value: i64| Literal::Typed(match is_date {
                true => ScalarValue::Date32(Some(value as i32)),
                false => ScalarValue::TimestampMicrosecond(Some(value * scale), None),
            });
            let negated = |test: Test, is_negated: bool| if is_negated { Test::Not(Box::new(test)) } else { test };
            // Each with what it is of a value.
            let mut tests: Vec<(Test, bool)> = Vec::new();
            for (list, is_negated) in &lists {
                let test = Test::In(list.iter().map(|&value| literal(value)).collect());
                let expected = value.is_some_and(|value| list.contains(&value) != *is_negated);
                tests.push((negated(test, *is_negated), expected));
            }
            for &(low, high, is_negated) in &ranges {
                let test = Test::Range(low.map(|low| (literal(low), true)), high.map(|high| (literal(high), false)));
                let lies_in = |value: i64| low.is_none_or(|low| value >= low) && high.is_none_or(|high| value < high);
                let expected = value.is_some_and(|value| lies_in(value) != is_negated);
                tests.push((negated(test, is_negated), expected));
            }
            tests.extend([(Test::Null, value.is_none()), (Test::Known, value.is_some())]);
            let mut cuts: Vec<i64> = tests
                .iter()
                .filter_map(|(test, _)| super::ranges(&column, positive(test)))
                .flatten()
                .flat_map(|(low, end)| [low, end])
                .flatten()
                .collect();
            cuts.sort_unstable();
            cuts.dedup();
            let axis = Axis { column: &column, level: 7, unit, zone: None, cuts };
            let micros_or_days = value.map(|value| value * scale);
            let code = micros_or_days.map_or(0, |value| clamped_code(&column, value, unit));
            let holds = |codes: &CodeSet| {
                let Units { codes, range } = axis.units(codes, usize::MAX).expect("any number of edges");
                holds(&codes, range.as_ref(), (code, micros_or_days))
            };
            let mut every = CodeSet::of_codes((0..=axis.last()).collect());
            for (test, expected) in &tests {
                let codes = axis.codes(test).expect("made for it");
                prop_assert_eq!(holds(&codes), *expected, "{:?}", test);
                // All of them at once.
                every = every.intersect(&codes);
            }
            prop_assert_eq!(holds(&every), tests.iter().all(|(_, expected)| *expected));
        }
    }

    /// Whether a value, with its code, is one of some units' and ranges'.
    fn holds(codes: &CodeSet, range: Option<&TimeRange>, (code, value): (u32, Option<i64>)) -> bool {
        let in_range = |range: &TimeRange| {
            assert!(!range.edges.holds_null() && range.values.is_sorted_by(|one, next| one.end < next.start));
            !range.edges.contains(code) || value.is_some_and(|value| range.contains(value))
        };
        codes.contains(code) && range.is_none_or(in_range)
    }

    #[test]
    fn more_edges_than_wanted_are_refused() {
        let column = column(DataType::Timestamp);
        let day = 86_400_000_000;
        // A moment within each of many days.
        let at: Vec<i64> = (0..20_000).map(|number| number * day + 7).collect();
        let literals = at.iter().map(|&at| Literal::Typed(ScalarValue::TimestampMicrosecond(Some(at), None)));
        let test = Test::Not(Box::new(Test::In(literals.collect())));
        let cuts = at.iter().flat_map(|&at| [at, at + 1]).collect();
        let axis = Axis { column: &column, level: 7, unit: CalendarUnit::Day, zone: None, cuts };
        let codes = axis.codes(&test).expect("made for it");
        assert!(axis.units(&codes, 16).is_none());
        let edges = |axis: &Axis<'_>| {
            let Units { codes, range } = axis.units(&codes, usize::MAX).expect("any number of edges");
            assert_eq!(codes.runs().len(), 1, "units before, at and behind the edges");
            range.expect("edges").edges.len()
        };
        assert_eq!(edges(&axis), 20_000);
        // Of a year all of them are one edge.
        let axis = Axis { unit: CalendarUnit::Year, ..axis };
        assert_eq!(edges(&axis), 55);
    }

    #[test]
    fn times_beyond_all_codes_are_told_by_their_values() {
        let column = column(DataType::Timestamp);
        let micros = |year: i64| calendar::days_of(year, 6, 1) * 86_400_000_000;
        for (low, end) in [
            (Some(2026), Some(9999)),
            (None, Some(9999)),
            (Some(7000), None),
            (Some(7000), Some(9999)),
            (Some(-9000), Some(2026)),
        ] {
            let (low, end) = (low.map(micros), end.map(micros));
            for year in [-9_500, -8_000, 1_999, 2_026, 5_000, 6_500, 8_000, 9_999, 12_000] {
                let value = micros(year) + 60_000_000;
                let expected = low.is_none_or(|low| value >= low) && end.is_none_or(|end| value < end);
                assert_eq!(is_of(&column, (low, end), value), expected, "{year} of {low:?}..{end:?}");
            }
        }
        // The last value of all, and the first.
        for (value, ends) in [(i64::MAX, (Some(micros(7_000)), None)), (i64::MIN, (None, Some(micros(-9_000))))] {
            assert!(is_of(&column, ends, value), "{value}");
        }
    }

    /// Whether a value is of the units of a range of minutes, as the index would tell.
    fn is_of(column: &Column, (low, end): Ends, value: i64) -> bool {
        let mut cuts: Vec<i64> = [low, end].into_iter().flatten().collect();
        cuts.dedup();
        let axis = Axis { column, level: 0, unit: CalendarUnit::Minute, zone: None, cuts };
        let (first, last) = axis.within((low, end));
        let Units { codes, range } = axis.units(&CodeSet::of_range(first, last), 2).expect("two edges at most");
        holds(&codes, range.as_ref(), (clamped_code(column, value, CalendarUnit::Minute), Some(value)))
    }
}
