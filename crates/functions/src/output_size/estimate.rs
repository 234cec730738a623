//! How many bytes functions make of what they are given, told row by row and without making any.
//!
//! Invariant: what is told is no less than what is made, up to a small factor (the offsets and views of values, characters of several
//! bytes); it may be more where only the work itself would tell, and then the work is done in pieces ([`super::Bounded`]).

use crate::text::format_specifiers::{Piece, WIDTH_MAX, Width, pieces};
use alluvia_values::widths::Widths;
use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Int64Type, IntervalMonthDayNanoType};
use datafusion_common::ScalarValue;
use datafusion_expr::ColumnarValue;

/// What an element of a list takes beside its own bytes: an offset or a view, and its index on the way.
const ELEMENT_BYTES: i128 = 16;
/// The longest text of a number.
const NUMBER_BYTES: i128 = 40;
/// How much longer a time is than the part of a format that it is written by.
const TIMES_FORMAT: i128 = 20;
const DAY_NANOS: i128 = 86_400_000_000_000;

/// How many bytes a function makes of its arguments, row by row.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OutputSize {
    /// The text as often as the number says.
    Copies,
    /// At least as many characters as the number says, of a byte each.
    Characters,
    /// The numbers or times from one to another.
    Numbers,
    /// A list of the value as often as the number says.
    Elements,
    /// The list with as many elements as the number says.
    Resized,
    /// The list with another element in the place of some.
    ElementsReplaced,
    /// All arguments in one.
    AllArguments,
    /// All arguments but the first, with the first between them.
    JoinedBy,
    /// The texts of a list's elements, with the second argument between them and the third for NULL.
    ElementsJoined,
    /// A list of structs, as long as the longest list, with a field for each argument.
    Zipped,
    /// The text with the third argument in all places of the second.
    Replaced,
    /// The text with the third argument in the places that a pattern matches.
    PatternReplaced,
    /// What the groups of a pattern match.
    Captures,
    /// The same wherever it matches, or what lies between.
    AllCaptures,
    /// A text with values in the places that it names, each any number of times.
    Formatted,
    /// A time, written as the second argument says.
    TimeFormatted,
}

/// One argument.
struct Argument<'a> {
    value: &'a ColumnarValue,
    widths: Widths,
}

impl Argument<'_> {
    fn of(value: &ColumnarValue) -> Argument<'_> {
        let widths = match value {
            ColumnarValue::Array(array) => Widths::of(array.as_ref()),
            ColumnarValue::Scalar(scalar) => Widths::Same { bytes: constant_bytes(scalar), rows: 1 },
        };
        Argument { value, widths }
    }

    /// Bytes of the value.
    fn bytes(&self, row: usize) -> i128 {
        i128::from(self.widths.at(row))
    }

    fn number(&self, row: usize) -> Option<i128> {
        match self.value {
            ColumnarValue::Scalar(ScalarValue::Int64(number)) => number.map(i128::from),
            ColumnarValue::Scalar(_) => None,
            ColumnarValue::Array(array) => {
                let numbers = array.as_primitive_opt::<Int64Type>()?;
                numbers.is_valid(row).then(|| i128::from(numbers.value(row)))
            }
        }
    }

    fn text(&self, row: usize) -> Option<&str> {
        let texts = match self.value {
            ColumnarValue::Scalar(text) => return text.try_as_str().flatten(),
            ColumnarValue::Array(texts) => texts,
        };
        if texts.is_null(row) {
            return None;
        }
        match texts.data_type() {
            DataType::Utf8 => Some(texts.as_string::<i32>().value(row)),
            DataType::LargeUtf8 => Some(texts.as_string::<i64>().value(row)),
            DataType::Utf8View => Some(texts.as_string_view().value(row)),
            _ => None,
        }
    }

    /// How many elements a list has.
    fn elements(&self, row: usize) -> i128 {
        let of_array = |array: &dyn Array, row: usize| -> i128 {
            match array.data_type() {
                DataType::List(_) => i128::from(array.as_list::<i32>().value_length(row)),
                DataType::LargeList(_) => i128::from(array.as_list::<i64>().value_length(row)),
                DataType::FixedSizeList(_, count) => i128::from(*count),
                _ => 0,
            }
        };
        match self.value {
            ColumnarValue::Array(array) => of_array(array.as_ref(), row),
            ColumnarValue::Scalar(ScalarValue::List(list)) => of_array(&**list, 0),
            ColumnarValue::Scalar(ScalarValue::LargeList(list)) => of_array(&**list, 0),
            ColumnarValue::Scalar(ScalarValue::FixedSizeList(list)) => of_array(&**list, 0),
            ColumnarValue::Scalar(_) => 0,
        }
    }

    /// How many elements a list has, or its lists have at most.
    fn leaves(&self, row: usize) -> i128 {
        let is_of_lists = match self.value.data_type() {
            DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
                field.data_type().is_nested()
            }
            _ => false,
        };
        if is_of_lists { self.elements(row).max(self.bytes(row)) } else { self.elements(row) }
    }

    /// The elements of a list, with what is beside them.
    fn list_bytes(&self, row: usize) -> i128 {
        self.bytes(row) + self.elements(row) * ELEMENT_BYTES
    }

    /// Nanoseconds since 1970.
    fn nanos(&self, row: usize) -> Option<i128> {
        let scalar = match self.value {
            ColumnarValue::Scalar(scalar) => scalar.clone(),
            ColumnarValue::Array(array) => ScalarValue::try_from_array(array, row).ok()?,
        };
        Some(match scalar {
            ScalarValue::Date32(days) => i128::from(days?) * DAY_NANOS,
            ScalarValue::Date64(millis) => i128::from(millis?) * 1_000_000,
            ScalarValue::TimestampSecond(seconds, _) => i128::from(seconds?) * 1_000_000_000,
            ScalarValue::TimestampMillisecond(millis, _) => i128::from(millis?) * 1_000_000,
            ScalarValue::TimestampMicrosecond(micros, _) => i128::from(micros?) * 1_000,
            ScalarValue::TimestampNanosecond(nanos, _) => i128::from(nanos?),
            _ => return None,
        })
    }

    /// The fewest nanoseconds of an interval, whatever its months are.
    fn step_nanos(&self, row: usize) -> Option<i128> {
        let step = match self.value {
            ColumnarValue::Scalar(ScalarValue::IntervalMonthDayNano(step)) => (*step)?,
            ColumnarValue::Scalar(_) => return None,
            ColumnarValue::Array(array) => {
                let steps = array.as_primitive_opt::<IntervalMonthDayNanoType>()?;
                steps.is_valid(row).then(|| steps.value(row))?
            }
        };
        let of_month = |days: i128| {
            (i128::from(step.months) * days + i128::from(step.days)) * DAY_NANOS + i128::from(step.nanoseconds)
        };
        let (short, long) = (of_month(28), of_month(31));
        // One that goes forth in some months, and back in others, may hardly move.
        Some(if (short < 0) == (long < 0) { short.abs().min(long.abs()) } else { 1 })
    }
}

/// Bytes of a constant's value.
pub fn constant_bytes(constant: &ScalarValue) -> u64 {
    if let Some(text) = constant.try_as_str() {
        return text.map_or(0, str::len) as u64;
    }
    match constant {
        ScalarValue::Binary(bytes) | ScalarValue::LargeBinary(bytes) | ScalarValue::BinaryView(bytes) => {
            bytes.as_ref().map_or(0, Vec::len) as u64
        }
        ScalarValue::FixedSizeBinary(bytes, _) => u64::try_from(*bytes).unwrap_or(0),
        ScalarValue::List(list) => Widths::of(&**list).sum(),
        ScalarValue::LargeList(list) => Widths::of(&**list).sum(),
        ScalarValue::FixedSizeList(list) => Widths::of(&**list).sum(),
        ScalarValue::Struct(fields) => Widths::of(&**fields).sum(),
        ScalarValue::Map(map) => Widths::of(&**map).sum(),
        other => other.data_type().primitive_width().unwrap_or(1) as u64,
    }
}

/// What a text of `format` says: how many values it places, and how many characters their widths come to at most. What
/// is behind an error is never made.
fn places_of(text: &str) -> (i128, i128) {
    let widths = pieces(text).filter_map(|piece| match piece {
        Ok(Piece::Value(specifier)) => Some(match specifier.width {
            Width::Written(width) => width as i128,
            Width::Value(_) => WIDTH_MAX as i128,
        }),
        Ok(Piece::Text(_)) | Err(_) => None,
    });
    widths.fold((0, 0), |(places, sum), width| (places + 1, sum + width))
}

impl OutputSize {
    /// Whether only the work itself tells how much it makes, and what is told of it may be far too much.
    pub fn is_guess(self) -> bool {
        match self {
            OutputSize::ElementsReplaced
            | OutputSize::ElementsJoined
            | OutputSize::Replaced
            | OutputSize::PatternReplaced
            | OutputSize::Captures
            | OutputSize::AllCaptures
            | OutputSize::Formatted
            | OutputSize::TimeFormatted => true,
            OutputSize::Copies
            | OutputSize::Characters
            | OutputSize::Numbers
            | OutputSize::Elements
            | OutputSize::Resized
            | OutputSize::AllArguments
            | OutputSize::JoinedBy
            | OutputSize::Zipped => false,
        }
    }

    /// Bytes that come of each row, about; nothing is made to know it.
    pub fn of_rows(self, args: &[ColumnarValue], rows: usize) -> Vec<u128> {
        let arguments: Vec<Argument<'_>> = args.iter().map(Argument::of).collect();
        let bytes = |row: usize| self.of_row(&arguments, row, rows).unwrap_or(0).max(0).unsigned_abs();
        (0..rows).map(bytes).collect()
    }

    /// Bytes that come of one row of so many; `None` where NULL does.
    fn of_row(self, arguments: &[Argument<'_>], row: usize, rows: usize) -> Option<i128> {
        let (first, second, third) = (arguments.first(), arguments.get(1), arguments.get(2));
        let all = || arguments.iter().map(|argument| argument.bytes(row)).sum::<i128>();
        Some(match self {
            OutputSize::Copies => {
                let len = first?.text(row)?.len() as i128;
                // A text of all rows is written out for each.
                let is_constant = matches!(first?.value, ColumnarValue::Scalar(_));
                let own = if rows > 1 && is_constant { len } else { 0 };
                second?.number(row)?.max(0).saturating_mul(len).saturating_add(own)
            }
            OutputSize::Characters if third.is_some_and(|fill| fill.text(row) == Some("")) => 0,
            OutputSize::Characters => first?.text(row).and(second?.number(row))?,
            OutputSize::Numbers => numbers(first?, second, third, row)?,
            OutputSize::Elements => {
                let of_one = first?.list_bytes(row) + ELEMENT_BYTES;
                second?.number(row)?.max(0).saturating_mul(of_one)
            }
            OutputSize::Resized => {
                let of_one = third.map_or(0, |fill| fill.list_bytes(row)) + ELEMENT_BYTES;
                second?.number(row)?.max(0).saturating_mul(of_one).saturating_add(first?.list_bytes(row))
            }
            OutputSize::ElementsReplaced => {
                let list = first?;
                let of_one = third?.list_bytes(row) + ELEMENT_BYTES;
                list.elements(row).saturating_mul(of_one).saturating_add(list.bytes(row))
            }
            OutputSize::AllArguments => {
                arguments.iter().map(|argument| argument.list_bytes(row)).sum::<i128>()
                    + ELEMENT_BYTES * arguments.len() as i128
            }
            OutputSize::JoinedBy => {
                let between = arguments.len().saturating_sub(2) as i128;
                all().saturating_add(first?.bytes(row).saturating_mul(between))
            }
            OutputSize::ElementsJoined => {
                let list = first?;
                let beside = second?.bytes(row) + third.map_or(0, |null| null.bytes(row)) + NUMBER_BYTES;
                list.leaves(row).saturating_mul(beside).saturating_add(list.bytes(row))
            }
            OutputSize::Zipped => {
                let longest = arguments.iter().map(|list| list.elements(row)).max()?;
                all().saturating_add(longest.saturating_mul(ELEMENT_BYTES * arguments.len() as i128))
            }
            OutputSize::Replaced => replaced(first?.text(row)?, second?.text(row)?, third?.text(row)?),
            OutputSize::PatternReplaced => {
                let (text, by) = (first?.text(row)?.len() as i128, third?.text(row)?);
                let is_global =
                    arguments.get(3).and_then(|flags| flags.text(row)).is_some_and(|flags| flags.contains('g'));
                // Behind the place to start at: the number of the match, or 0 for all.
                let is_all = is_global || arguments.get(4).and_then(|nth| nth.number(row)) == Some(0);
                let matches = if is_all { text + 1 } else { 1 };
                let groups = by.bytes().filter(|byte| *byte == b'\\').count() as i128;
                matches.saturating_mul(by.len() as i128).saturating_add((groups + 1).saturating_mul(text))
            }
            OutputSize::Captures => {
                let groups = second?.text(row)?.bytes().filter(|byte| *byte == b'(').count() as i128;
                (groups + 1).saturating_mul(first?.bytes(row) + ELEMENT_BYTES)
            }
            OutputSize::AllCaptures => {
                let groups = second?.text(row)?.bytes().filter(|byte| *byte == b'(').count() as i128;
                let bytes = first?.bytes(row);
                // An empty pattern matches before each byte.
                (groups + 1).saturating_mul(bytes + (bytes + 1).saturating_mul(ELEMENT_BYTES))
            }
            OutputSize::Formatted => {
                let (text, values) = arguments.split_first()?;
                let text = text.text(row)?;
                let (places, widths) = places_of(text);
                // Quotes within a value are doubled.
                let longest = values.iter().map(|value| 2 * value.bytes(row) + NUMBER_BYTES).max().unwrap_or(0);
                places.saturating_mul(longest).saturating_add(text.len() as i128 + widths)
            }
            OutputSize::TimeFormatted => second?.bytes(row).saturating_mul(TIMES_FORMAT),
        })
    }
}

fn numbers(
    first: &Argument<'_>,
    second: Option<&Argument<'_>>,
    third: Option<&Argument<'_>>,
    row: usize,
) -> Option<i128> {
    if let (Some(from), Some(to)) = (first.nanos(row), second.and_then(|second| second.nanos(row))) {
        // Days are counted one by one.
        let step = third.map_or(Some(DAY_NANOS), |third| third.step_nanos(row))?;
        return Some(if step == 0 { 0 } else { ((to - from).abs() / step).saturating_mul(8) });
    }
    // With one argument it begins at 0.
    let (from, to) = match second {
        Some(second) => (first.number(row)?, second.number(row)?),
        None => (0, first.number(row)?),
    };
    let step = third.map_or(Some(1), |third| third.number(row))?;
    Some(if step == 0 { 0 } else { ((to - from) / step).saturating_mul(8) })
}

/// The length of a text with `by` in all places of `from`. Places are counted only where it matters.
fn replaced(text: &str, from: &str, by: &str) -> i128 {
    const COUNTED_BYTES: i128 = 1 << 20;
    let (len, from_len, by_len) = (text.len() as i128, from.len() as i128, by.len() as i128);
    if from.is_empty() || by_len <= from_len {
        return len;
    }
    let of_places = |places: i128| len.saturating_add(places.saturating_mul(by_len - from_len));
    let most = of_places(len / from_len);
    if most < COUNTED_BYTES { most } else { of_places(text.matches(from).count() as i128) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int64Array, ListArray, StringArray, StringViewArray};
    use proptest::prelude::*;
    use std::sync::Arc;

    fn bytes(makes: OutputSize, args: &[ColumnarValue], rows: usize) -> u128 {
        makes.of_rows(args, rows).into_iter().sum()
    }

    fn scalar(number: i64) -> ColumnarValue {
        ColumnarValue::Scalar(ScalarValue::Int64(Some(number)))
    }

    fn text(text: &str) -> ColumnarValue {
        ColumnarValue::Scalar(ScalarValue::Utf8(Some(text.to_owned())))
    }

    fn column(array: impl Array + 'static) -> ColumnarValue {
        ColumnarValue::Array(Arc::new(array) as ArrayRef)
    }

    fn list(numbers: &[i64]) -> ColumnarValue {
        let row = Some(numbers.iter().copied().map(Some).collect::<Vec<_>>());
        column(ListArray::from_iter_primitive::<Int64Type, _, _>([row]))
    }

    #[test]
    fn what_is_made_is_known_before() {
        let texts = column(StringViewArray::from(vec![Some("ab"), None, Some("c")]));
        let counts = column(Int64Array::from(vec![Some(10), Some(1 << 40), Some(-3)]));
        assert_eq!(bytes(OutputSize::Copies, &[texts.clone(), counts.clone()], 3), 20);
        assert_eq!(bytes(OutputSize::Copies, &[texts.clone(), scalar(1 << 62)], 3), 3 << 62);
        assert_eq!(bytes(OutputSize::Characters, &[texts, counts], 3), 10);
        assert_eq!(bytes(OutputSize::Numbers, &[scalar(1_000)], 1), 8_000);
        assert_eq!(bytes(OutputSize::Numbers, &[scalar(10), scalar(-10), scalar(-2)], 1), 80);
        assert_eq!(bytes(OutputSize::Numbers, &[scalar(i64::MIN), scalar(i64::MAX)], 1) >> 60, 127);
    }

    #[test]
    fn lists_are_counted_by_elements() {
        assert!(bytes(OutputSize::Elements, &[scalar(1), scalar(1_000)], 1) >= 8_000);
        assert!(bytes(OutputSize::Elements, &[list(&[1, 2, 3]), scalar(1_000)], 1) >= 24_000);
        assert!(bytes(OutputSize::Resized, &[list(&[1]), scalar(2_000_000_000), scalar(7)], 1) >= 16_000_000_000);
        assert!(bytes(OutputSize::Resized, &[list(&[1]), scalar(2_000_000_000)], 1) >= 16_000_000_000);
        assert!(bytes(OutputSize::ElementsReplaced, &[list(&[1, 1, 1]), scalar(1), text(&"x".repeat(100))], 1) >= 300);
        assert!(bytes(OutputSize::ElementsJoined, &[list(&[1; 100]), text(&"x".repeat(100))], 1) >= 10_000);
        assert!(bytes(OutputSize::Zipped, &[list(&[1; 100]), list(&[1]), list(&[1])], 1) >= 300 * 8);
        assert!(bytes(OutputSize::AllArguments, &[list(&[1; 100]), list(&[1; 50])], 1) >= 150 * 8);
        assert_eq!(bytes(OutputSize::Elements, &[scalar(1), ColumnarValue::Scalar(ScalarValue::Int64(None))], 1), 0);
    }

    #[test]
    fn texts_within_texts_are_counted_by_their_places() {
        let (short, long) = (text("aXbXc"), text(&"y".repeat(1_000)));
        assert!(bytes(OutputSize::Replaced, &[short.clone(), text("X"), long.clone()], 1) >= 2_003);
        assert_eq!(bytes(OutputSize::Replaced, &[short.clone(), text("XbX"), text("")], 1), 5);
        let many = text(&"a".repeat(100_000));
        assert_eq!(bytes(OutputSize::Replaced, &[many.clone(), text("a"), many.clone()], 1), 10_000_000_000);
        assert_eq!(bytes(OutputSize::Replaced, &[many.clone(), text("b"), many.clone()], 1), 100_000);
        let global = [many.clone(), text("a"), long.clone(), text("g")];
        assert!(bytes(OutputSize::PatternReplaced, &global, 1) >= 100_000_000);
        assert!(bytes(OutputSize::PatternReplaced, &global[..3], 1) < 1_000_000);
        assert!(bytes(OutputSize::PatternReplaced, &[many.clone(), text("(a*)"), text(r"\1\1\1")], 1) >= 300_000);
        assert!(bytes(OutputSize::Captures, &[many.clone(), text("(((a*)))")], 1) >= 300_000);
        assert!(bytes(OutputSize::Formatted, &[text("%1$s%1$s%1$s"), many.clone()], 1) >= 300_000);
        assert!(bytes(OutputSize::Formatted, &[text("%2$-900000s"), many.clone()], 1) >= 900_000);
        assert!(bytes(OutputSize::Formatted, &[text("%*s"), scalar(5), many.clone()], 1) >= WIDTH_MAX as u128);
        assert!(bytes(OutputSize::Formatted, &[text("100%%900000s"), many.clone()], 1) < 100);
        assert!(bytes(OutputSize::JoinedBy, &[long, short.clone(), short.clone(), short], 1) >= 2_015);
    }

    #[test]
    fn times_are_counted_by_the_shortest_step() {
        let at = |seconds: i64| ColumnarValue::Scalar(ScalarValue::TimestampSecond(Some(seconds), None));
        let step = |months, days, nanos| ColumnarValue::Scalar(ScalarValue::new_interval_mdn(months, days, nanos));
        let of = |step: ColumnarValue| bytes(OutputSize::Numbers, &[at(0), at(86_400 * 310), step], 1);
        assert_eq!(of(step(0, 1, 0)), 310 * 8);
        assert_eq!(of(step(0, 0, 1_000)), 86_400 * 310 * 1_000_000 * 8);
        assert_eq!(of(step(1, 0, 0)), 11 * 8);
        assert!(of(step(1, -30, 0)) > 1 << 50);
        assert_eq!(of(step(0, 0, 0)), 0);
        let day = |days| ColumnarValue::Scalar(ScalarValue::Date32(Some(days)));
        assert_eq!(bytes(OutputSize::Numbers, &[day(0), day(100), step(0, 1, 0)], 1), 800);
    }

    /// How many numbers there are from one on, short of another.
    fn counted(from: i64, to: i64, step: i64) -> u128 {
        let is_short = |number: &i64| if step > 0 { *number < to } else { *number > to };
        std::iter::successors(Some(from), |number| Some(number + step)).take_while(is_short).count() as u128
    }

    proptest! {
        #[test]
        fn texts_are_as_long_as_they_are_when_made(
            rows in prop::collection::vec((prop::option::of("[a-zäß]{0,5}"), prop::option::of(-3..20_i64)), 1..20),
        ) {
            let texts: StringViewArray = rows.iter().map(|row| row.0.as_deref()).collect();
            let counts: Int64Array = rows.iter().map(|row| row.1).collect();
            let args = [column(texts), column(counts)];
            let of_rows = |made: &dyn Fn(&str, usize) -> usize| -> u128 {
                let of_row = |row: &(Option<String>, Option<i64>)| {
                    Some(made(row.0.as_deref()?, row.1?.max(0) as usize) as u128)
                };
                rows.iter().filter_map(of_row).sum()
            };
            let copies = of_rows(&|text, count| text.repeat(count).len());
            prop_assert_eq!(bytes(OutputSize::Copies, &args, rows.len()), copies);
            let characters = of_rows(&|text, count| {
                let padding = "x".repeat(count.saturating_sub(text.chars().count()));
                format!("{padding}{text}").chars().take(count).count()
            });
            prop_assert_eq!(bytes(OutputSize::Characters, &args, rows.len()), characters);
        }

        #[test]
        fn replaced_texts_are_no_longer_than_was_told(
            texts in prop::collection::vec("[ab]{0,12}", 1..10), from in "[ab]{0,2}", by in "[xy]{0,6}",
        ) {
            let made: usize = texts.iter().map(|text| if from.is_empty() { text.len() } else { text.replace(&from, &by).len() }).sum();
            let args = [column(StringArray::from(texts.clone())), text(&from), text(&by)];
            prop_assert!(bytes(OutputSize::Replaced, &args, texts.len()) >= made as u128);
        }

        #[test]
        fn numbers_are_as_many_as_are_counted(from in -30..30_i64, to in -30..30_i64, step in -5..6_i64) {
            let bytes = bytes(OutputSize::Numbers, &[scalar(from), scalar(to), scalar(step)], 1);
            if step == 0 {
                prop_assert_eq!(bytes, 0);
                return Ok(());
            }
            // About: with its end a series has one more.
            let count = counted(from, to, step);
            prop_assert!(bytes <= 8 * count && 8 * count <= bytes + 8, "{} bytes of {} numbers", bytes, count);
        }
    }
}
