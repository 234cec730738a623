//! From tests on columns to sets of codes.
//!
//! Invariant: a set holds exactly the codes whose rows pass the test, or there is no set. So only levels whose codes
//! say all of a value are used: members of dictionaries (floats excepted, which have several zeros), and calendar units that
//! the bounds of a range fall on.

use super::clocks;
use super::statement::{Literal, Test, Values};
use super::times;
use alluvia_catalog::Dictionaries;
use alluvia_space::{Column, DataType, LevelSource, TableDef};
use alluvia_tree::{CodeSet, LevelFilter};
use arrow::array::{Array, ArrayRef, BooleanArray, Scalar, StringArray};
use arrow::compute::kernels::cmp;
use arrow::compute::kernels::comparison::like;
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::DataType as ArrowType;
use arrow::error::ArrowError;
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

/// The rows that pass a test on a column, as codes of one level; `None` if it is not about codes alone.
pub(super) fn filter_of(def: &TableDef, dictionaries: &Dictionaries, name: &str, test: &Test) -> Option<LevelFilter> {
    let column = def.columns.iter().find(|column| column.name == name)?;
    for (level, (dimension, _, declared)) in def.levels().enumerate() {
        match declared.source {
            LevelSource::Column(id) if id == column.id => {
                let is_float = matches!(column.data_type, DataType::Real | DataType::Double);
                return (!is_float)
                    .then(|| member_codes(dictionaries, level, column, test))?
                    .map(|codes| LevelFilter { level, codes });
            }
            LevelSource::Calendar(id, unit) if id == column.id => {
                // The coarsest level on which the bounds fall: the levels of a dimension go from coarse to fine.
                let begins =
                    |value: i64| times::code_of(column, value, unit).filter(|_| times::begins(column, value, unit));
                if let Some(codes) = calendar_codes(column, &begins, test) {
                    return Some(LevelFilter { level, codes });
                }
            }
            LevelSource::Local(id, unit) if id == column.id => {
                let zone = def.dimensions[dimension].zone.as_ref()?;
                if let Some(codes) = calendar_codes(column, &|value| clocks::code_from(zone, value, unit), test) {
                    return Some(LevelFilter { level, codes });
                }
            }
            _ => {}
        }
    }
    None
}

/// The greatest code of a level.
pub(super) fn last_code(dictionaries: &Dictionaries, level: usize) -> u32 {
    if dictionaries.has_members(level) { dictionaries.len(level).saturating_sub(1) } else { u32::MAX }
}

fn member_codes(dictionaries: &Dictionaries, level: usize, column: &Column, test: &Test) -> Option<CodeSet> {
    let last = dictionaries.len(level).checked_sub(1)?;
    Some(match test {
        Test::Null => CodeSet::of_codes(vec![0]),
        Test::Known => CodeSet::of_range(1, last),
        Test::Not(test) => known_others(&member_codes(dictionaries, level, column, test)?, last),
        Test::In(literals) => {
            let values = values_of(literals, column, &column.data_type.to_arrow())?;
            CodeSet::of_codes(dictionaries.codes_with_value(level, &values).ok()?)
        }
        Test::Among(Values(values)) => CodeSet::of_codes(dictionaries.codes_with_value(level, values).ok()?),
        Test::Range(low, high) => {
            let members = dictionaries.value_array(level).ok()?;
            let bound = |bound: &Option<(Literal, bool)>| match bound {
                None => Some(None),
                Some((literal, inclusive)) => {
                    let value = values_of(std::slice::from_ref(literal), column, members.data_type())?;
                    Some(Some((value, *inclusive)))
                }
            };
            let (low, high) = (bound(low)?, bound(high)?);
            let mut matching: Option<BooleanArray> = None;
            let mut and = |next: Result<BooleanArray, ArrowError>| -> Option<()> {
                let next = next.ok()?;
                matching = Some(match matching.take() {
                    None => next,
                    Some(before) => arrow::compute::and_kleene(&before, &next).ok()?,
                });
                Some(())
            };
            if let Some((value, inclusive)) = low {
                let value = Scalar::new(value);
                and(if inclusive { cmp::gt_eq(&members, &value) } else { cmp::gt(&members, &value) })?;
            }
            if let Some((value, inclusive)) = high {
                let value = Scalar::new(value);
                and(if inclusive { cmp::lt_eq(&members, &value) } else { cmp::lt(&members, &value) })?;
            }
            codes_where(&matching?)
        }
        Test::Like(pattern) if column.data_type == DataType::Text => {
            let members = dictionaries.value_array(level).ok()?;
            let pattern = Scalar::new(StringArray::from_iter_values([pattern]));
            codes_where(&like(&members, &pattern).ok()?)
        }
        Test::Like(_) => return None,
        Test::Holds(predicate) => predicate.codes(dictionaries, level, column)?,
        // Of times, whose levels are calendars.
        Test::Cut(..) => return None,
    })
}

/// The codes beside NULL that are not in a set.
fn known_others(codes: &CodeSet, last: u32) -> CodeSet {
    codes.complement(last).intersect(&CodeSet::of_range(1, last))
}

/// The codes at whose places there is true.
pub(super) fn codes_where(matching: &BooleanArray) -> CodeSet {
    let is_true = |&code: &usize| matching.is_valid(code) && matching.value(code);
    CodeSet::of_codes((0..matching.len()).filter(is_true).map(|code| code as u32).collect())
}

/// Literals as values of a column, where the planner would read them so without changing the column's side.
pub fn values_of(literals: &[Literal], column: &Column, to: &ArrowType) -> Option<ArrayRef> {
    if literals.iter().any(|literal| matches!(literal, Literal::Typed(_))) {
        return typed_values(literals, column, to);
    }
    let text = |literal: &Literal| match (literal, column.data_type) {
        (Literal::Text(text), DataType::Text) => Some(text.clone()),
        (Literal::Text(text), DataType::Date) if text.len() == 10 => Some(text.clone()),
        (Literal::Text(text), DataType::Timestamp) if is_plain_time(text) => Some(text.clone()),
        // The session's zone is UTC, as the column's.
        (Literal::Text(text), DataType::TimestampTz) if is_plain_time(without_zone(text)) => Some(text.clone()),
        (Literal::Time(text), DataType::TimestampTz) if is_plain_time(text) => Some(text.clone()),
        (Literal::Date(text), DataType::Date | DataType::Timestamp | DataType::TimestampTz) if text.len() == 10 => {
            Some(text.clone())
        }
        (Literal::Time(text), DataType::Timestamp) if is_plain_time(text) => Some(text.clone()),
        (Literal::Time(text), DataType::Date) if text.len() == 10 => Some(text.clone()),
        (Literal::Number(text), DataType::Int16 | DataType::Int32 | DataType::Int64) => {
            text.parse::<i64>().ok().map(|_| text.clone())
        }
        (Literal::Number(text), DataType::Decimal { precision, scale }) => {
            is_decimal(text, precision, scale).then(|| text.clone())
        }
        (Literal::Boolean(value), DataType::Boolean) => Some(value.to_string()),
        _ => None,
    };
    let texts: Vec<String> = literals.iter().map(text).collect::<Option<_>>()?;
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    if column.data_type == DataType::Text && *to == ArrowType::Utf8 {
        return Some(texts);
    }
    // What does not fit the column's type is the planner's to widen, or to refuse.
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(&texts, to, &options).ok()
}

/// Digits of decimals that doubles tell apart.
const DIGITS_OF_DOUBLES: u8 = 15;

/// Whether a number is a decimal of so many digits, of which so many are behind the point, and compares as that to the planner: one with a
/// point is a double there, and with it the column.
fn is_decimal(text: &str, precision: u8, scale: u8) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_whole =
        |whole: &str| is_number(whole) && whole.trim_start_matches('0').len() <= usize::from(precision - scale);
    match digits.split_once('.') {
        None => is_whole(digits) && text.parse::<i64>().is_ok(),
        Some((whole, fraction)) => {
            let fits = is_whole(whole) && is_number(fraction) && fraction.len() <= usize::from(scale);
            fits && precision <= DIGITS_OF_DOUBLES
        }
    }
}

/// Values of the column's own type.
fn typed_values(literals: &[Literal], column: &Column, to: &ArrowType) -> Option<ArrayRef> {
    let own = column.data_type.to_arrow();
    let value = |literal: &Literal| match literal {
        Literal::Typed(value) if is_of_type(&value.data_type(), &own) && !value.is_null() => value.cast_to(&own).ok(),
        _ => None,
    };
    let values: Vec<ScalarValue> = literals.iter().map(value).collect::<Option<_>>()?;
    let values = ScalarValue::iter_to_array(values).ok()?;
    if own == *to {
        return Some(values);
    }
    // Members of texts and bytes are kept in another layout than columns are.
    is_of_type(&own, to).then(|| cast(&values, to).ok())?
}

/// Whether two types have the same values, maybe laid out differently.
fn is_of_type(one: &ArrowType, other: &ArrowType) -> bool {
    let is_text =
        |data_type: &ArrowType| matches!(data_type, ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View);
    let is_binary =
        |data_type: &ArrowType| matches!(data_type, ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView);
    one == other || (is_text(one) && is_text(other)) || (is_binary(one) && is_binary(other))
}

/// A time without the offset behind it: `Z`, or hours and minutes as in `+02:00`.
pub(super) fn without_zone(text: &str) -> &str {
    if let Some(time) = text.strip_suffix('Z') {
        return time;
    }
    let is_offset = |offset: &[u8]| matches!(offset, [b'+' | b'-', a, b, b':', c, d] if [a, b, c, d].iter().all(|digit| digit.is_ascii_digit()));
    // A date alone ends as an offset does not: with two digits behind each of its dashes.
    match text.len().checked_sub(6) {
        Some(at) if text.is_char_boundary(at) && is_offset(&text.as_bytes()[at..]) => &text[..at],
        _ => text,
    }
}

/// Whether a time has no zone and no more than microseconds, so that reading it loses nothing.
pub(super) fn is_plain_time(text: &str) -> bool {
    let fraction = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b':' | b' ' | b'T' | b'.'));
    plain && fraction <= 6 && matches!(text.len(), 10..=26)
}

/// Codes of a calendar unit, if ranges of times begin and end where units do: `begins` gives the code that begins with a value, so that no
/// value before has it or a later one, and each from there on has.
fn calendar_codes(column: &Column, begins: &dyn Fn(i64) -> Option<u32>, test: &Test) -> Option<CodeSet> {
    match test {
        Test::Null => return Some(CodeSet::of_codes(vec![0])),
        Test::Known => return Some(CodeSet::of_range(1, u32::MAX)),
        Test::Not(test) => return Some(known_others(&calendar_codes(column, begins, test)?, u32::MAX)),
        _ => {}
    }
    // Of a list of days each is a code.
    let (mut alone, mut wide) = (Vec::new(), CodeSet::of_codes(Vec::new()));
    for (low, end) in times::ranges(column, test)? {
        let low = low.map_or(Some(1), begins)?;
        let high = end.map_or(Some(u32::MAX), |end| begins(end).map(|code| code - 1))?;
        if low == high {
            alone.push(low);
        } else {
            wide = wide.union(&CodeSet::of_range(low, high));
        }
    }
    Some(wide.union(&CodeSet::of_codes(alone)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_types::ColumnId;
    use arrow::array::AsArray;
    use arrow::datatypes::Decimal128Type;

    #[test]
    fn numbers_that_fit_a_decimal_are_its_values() {
        let value = |text: &str, precision, scale| {
            let column = Column {
                id: ColumnId(1),
                name: "d".to_owned(),
                storage_name: "d".to_owned(),
                data_type: DataType::Decimal { precision, scale },
                nullable: true,
                chars_max: None,
            };
            let values = values_of(&[Literal::Number(text.to_owned())], &column, &column.data_type.to_arrow())?;
            Some(values.as_primitive::<Decimal128Type>().value(0))
        };
        for (text, expected) in
            [("1.5", 150), ("-1.25", -125), ("7", 700), ("0.10", 10), ("-00012", -1_200), ("999.99", 99_999)]
        {
            assert_eq!(value(text, 5, 2), Some(expected), "{text}");
        }
        // Of a longer fraction, of more digits, with an exponent.
        for text in ["1.255", "1.250", "1000", "1e2", ".", "", "1.", ".5", "1.-5"] {
            assert_eq!(value(text, 5, 2), None, "{text}");
        }
        // Doubles do not tell decimals of so many digits apart; whole numbers are compared as they are.
        assert_eq!((value("1.5", 16, 2), value("15", 38, 2)), (None, Some(1_500)));
        assert_eq!(value("99999999999999999999", 38, 2), None);
    }
}
