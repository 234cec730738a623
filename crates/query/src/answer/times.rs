//! Ranges of times that begin or end within units of a calendar.
//!
//! Invariant: the pieces of a range share no row, and together hold the rows whose values lie in the range: the units that lie in it whole,
//! which their codes tell, and at either end a unit of whose rows only some do.

use super::conditions::{filter_of, values_of};
use super::statement::{Condition, Literal, Test};
use alluvia_catalog::Dictionaries;
use alluvia_space::codes::calendar;
use alluvia_space::{CalendarUnit, Column, DataType, LevelSource, TableDef};
use alluvia_tree::{CodeSet, LevelFilter, TimeRange};
use arrow::array::AsArray;
use arrow::datatypes::{Date32Type, TimestampMicrosecondType};
use std::collections::BTreeMap;

/// Rows of some units, all of them or those in a range.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) filter: LevelFilter,
    pub(super) range: Option<TimeRange>,
}

/// Where a range of days or microseconds begins, and where it has ended.
pub(super) type Ends = (Option<i64>, Option<i64>);

/// The conditions that codes can tell, and the pieces of the range of each column of which they cannot; `None` if a range is of no
/// calendar. Only what must hold of every row is taken apart.
pub(super) fn split<'a>(
    def: &TableDef,
    dictionaries: &Dictionaries,
    conditions: &'a [Condition],
) -> Option<(Vec<&'a Condition>, Vec<Vec<Piece>>)> {
    let mut all = Vec::new();
    flatten(conditions, &mut all);
    let ends_of = |condition: &Condition| match condition {
        Condition::Column(name, test) => {
            let column = def.columns.iter().find(|column| column.name == *name)?;
            finest(def, column)?;
            Some((name.clone(), ends(column, test)?))
        }
        _ => None,
    };
    let mut ranges: BTreeMap<String, Ends> = BTreeMap::new();
    for condition in &all {
        if let (Condition::Column(_, test), Some((name, _))) = (condition, ends_of(condition))
            && filter_of(def, dictionaries, &name, test).is_none()
        {
            ranges.insert(name, (None, None));
        }
    }
    if ranges.is_empty() {
        return Some((all, Vec::new()));
    }
    let mut rest = Vec::with_capacity(all.len());
    for condition in all {
        match ends_of(condition).and_then(|(name, ends)| Some((ranges.get_mut(&name)?, ends))) {
            Some((range, (low, end))) => {
                range.0 = range.0.max(low);
                range.1 = range.1.into_iter().chain(end).min();
            }
            None => rest.push(condition),
        }
    }
    let pieces = ranges.into_iter().map(|(name, ends)| {
        let column = def.columns.iter().find(|column| column.name == name)?;
        let (level, unit) = finest(def, column)?;
        Some(pieces(column, level, unit, ends))
    });
    Some((rest, pieces.collect::<Option<_>>()?))
}

/// What must hold of every row, one by one.
fn flatten<'a>(conditions: &'a [Condition], into: &mut Vec<&'a Condition>) {
    for condition in conditions {
        match condition {
            Condition::All(parts) => flatten(parts, into),
            other => into.push(other),
        }
    }
}

/// The finest level of a column's calendar.
fn finest(def: &TableDef, column: &Column) -> Option<(usize, CalendarUnit)> {
    let units = def.levels().enumerate().filter_map(|(level, (_, _, declared))| match declared.source {
        LevelSource::Calendar(id, unit) if id == column.id => Some((level, unit)),
        _ => None,
    });
    units.max_by_key(|(_, unit)| *unit)
}

fn pieces(column: &Column, level: usize, unit: CalendarUnit, (low, end): Ends) -> Vec<Piece> {
    let codes = |first: u32, last: u32| LevelFilter { level, codes: CodeSet::of_range(first, last) };
    let is_whole = |value: i64| code_of(column, value, unit).is_some() && begins(column, value, unit);
    let code = |value: i64| clamped_code(column, value, unit);
    // None where nothing comes after it.
    let first = match low {
        None => Some(1),
        Some(low) => code(low).checked_add(u32::from(!is_whole(low))),
    };
    let last = end.map_or(u32::MAX, |end| code(end) - 1);
    // Where the range has nothing, or lies within one unit, no unit is whole.
    let is_empty = low.zip(end).is_some_and(|(low, end)| low >= end);
    let whole = first.filter(|_| !is_empty).map_or_else(|| codes(1, 0), |first| codes(first, last));
    let mut pieces = vec![Piece { filter: whole, range: None }];
    if is_empty {
        return pieces;
    }
    // The first and the last code stand for all times before and after: these are told by their values.
    let mut edges: Vec<u32> = [low, end].into_iter().flatten().filter(|&value| !is_whole(value)).map(code).collect();
    edges.dedup();
    pieces.extend(edges.into_iter().map(|code| Piece {
        filter: codes(code, code),
        range: Some(TimeRange {
            column: column.id,
            storage_name: column.storage_name.clone(),
            data_type: column.data_type.to_arrow(),
            values: low.unwrap_or(i64::MIN)..end.unwrap_or(i64::MAX),
        }),
    }));
    pieces
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

/// The ends of a test of a date or timestamp, if it is one range.
pub(super) fn ends(column: &Column, test: &Test) -> Option<Ends> {
    let days = match column.data_type {
        DataType::Date => true,
        DataType::Timestamp | DataType::TimestampTz => false,
        _ => return None,
    };
    let value = |literal: &Literal| -> Option<i64> {
        let values = values_of(std::slice::from_ref(literal), column, &column.data_type.to_arrow())?;
        Some(match days {
            true => values.as_primitive_opt::<Date32Type>()?.value(0).into(),
            false => values.as_primitive_opt::<TimestampMicrosecondType>()?.value(0),
        })
    };
    // x > v is x >= v + 1, and x <= v is x < v + 1: values are whole days or microseconds.
    let from = |bound: &Option<(Literal, bool)>, step: bool| match bound {
        None => Some(None),
        Some((literal, inclusive)) => {
            let value = value(literal)?;
            Some(Some(if *inclusive == step { value.checked_add(1)? } else { value }))
        }
    };
    match test {
        Test::Range(low, high) => Some((from(low, false)?, from(high, true)?)),
        Test::In(literals) if literals.len() == 1 => {
            let value = value(&literals[0])?;
            Some((Some(value), Some(value.checked_add(1)?)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_types::ColumnId;
    use proptest::prelude::*;

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

    proptest! {
        /// Around 1970, where all units are near.
        #[test]
        fn a_value_in_a_range_is_of_one_piece_and_no_other_value_is(
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
            let pieces = pieces(&column, 7, unit, (low, end));
            let value = value * scale;
            let code = code_of(&column, value, unit).expect("near 1970");
            let holds = |piece: &&Piece| {
                piece.filter.codes.contains(code) && piece.range.as_ref().is_none_or(|range| range.values.contains(&value))
            };
            let expected = low.is_none_or(|low| value >= low) && end.is_none_or(|end| value < end);
            prop_assert_eq!(pieces.iter().filter(holds).count(), usize::from(expected), "{:?}", pieces);
            prop_assert!(pieces.len() <= 3 && pieces[0].range.is_none() && pieces[1..].iter().all(|piece| piece.range.is_some()));
            // Where units begin at both ends nothing is read value by value.
            let is_whole = [low, end].into_iter().flatten().all(|end| begins(&column, end, unit));
            prop_assert!(!is_whole || pieces.len() == 1);
        }
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
            let pieces = pieces(&column, 0, CalendarUnit::Minute, (low.map(micros), end.map(micros)));
            for year in [-9_500, -8_000, 1_999, 2_026, 5_000, 6_500, 8_000, 9_999, 12_000] {
                let value = micros(year) + 60_000_000;
                let code = clamped_code(&column, value, CalendarUnit::Minute);
                let holds = |piece: &&Piece| {
                    piece.filter.codes.contains(code)
                        && piece.range.as_ref().is_none_or(|range| range.values.contains(&value))
                };
                let expected = low.is_none_or(|low| value >= micros(low)) && end.is_none_or(|end| value < micros(end));
                assert_eq!(pieces.iter().filter(holds).count(), usize::from(expected), "{year} of {low:?}..{end:?}");
            }
        }
    }
}
