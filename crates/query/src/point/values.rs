//! Literals and parameters as values of key columns.
//!
//! Invariant: a value is given only where the planner would compare the column with just this value.

use alluvia_space::DataType;
use alluvia_syntax::alike::Literal;
use datafusion::common::ScalarValue;

/// A literal as a value of a column; `None` where only the planner knows what it is.
pub(super) fn of_literal(literal: &Literal, is_negative: bool, data_type: DataType) -> Option<ScalarValue> {
    match literal {
        Literal::Number(digits) => {
            // Whatever has more digits is no BIGINT to the planner.
            let number = digits.parse::<i64>().ok()?;
            of_number(if is_negative { -number } else { number }, data_type)
        }
        Literal::Text(text) if !is_negative && data_type == DataType::Text => {
            Some(ScalarValue::Utf8View(Some(text.clone().into_owned())))
        }
        Literal::Text(_) => None,
    }
}

/// A parameter's value as a value of a column; `None` where only the planner knows what it is.
pub(super) fn of_parameter(value: &ScalarValue, data_type: DataType) -> Option<ScalarValue> {
    match (value, data_type) {
        (ScalarValue::Int16(Some(number)), _) => of_number((*number).into(), data_type),
        (ScalarValue::Int32(Some(number)), _) => of_number((*number).into(), data_type),
        (ScalarValue::Int64(Some(number)), _) => of_number(*number, data_type),
        (ScalarValue::Utf8(text) | ScalarValue::Utf8View(text), DataType::Text) => {
            text.clone().map(|text| ScalarValue::Utf8View(Some(text)))
        }
        _ => None,
    }
}

fn of_number(number: i64, data_type: DataType) -> Option<ScalarValue> {
    // The least of all is written as the negative of a number that is none.
    if number == i64::MIN {
        return None;
    }
    match data_type {
        DataType::Int16 => i16::try_from(number).ok().map(|number| ScalarValue::Int16(Some(number))),
        DataType::Int32 => i32::try_from(number).ok().map(|number| ScalarValue::Int32(Some(number))),
        DataType::Int64 => Some(ScalarValue::Int64(Some(number))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_values_of_columns_that_hold_them() {
        let number = |digits: &'static str, data_type| of_literal(&Literal::Number(digits.into()), false, data_type);
        assert_eq!(number("007", DataType::Int16), Some(ScalarValue::Int16(Some(7))));
        assert_eq!(of_literal(&Literal::Number("7".into()), true, DataType::Int64), Some(ScalarValue::Int64(Some(-7))));
        assert_eq!(number("32768", DataType::Int16), None);
        assert_eq!(number("9223372036854775807", DataType::Int64), Some(ScalarValue::Int64(Some(i64::MAX))));
        for digits in ["9223372036854775808", "1.0", "1e3", "1_000", "0x1f"] {
            assert_eq!(number(digits, DataType::Int64), None, "{digits}");
        }
        assert_eq!(number("1", DataType::Text), None);
        assert_eq!(number("1", DataType::Double), None);
    }

    #[test]
    fn texts_are_values_of_texts_alone_and_null_is_none() {
        let text = ScalarValue::Utf8View(Some("x".to_owned()));
        assert_eq!(of_literal(&Literal::Text("x".into()), false, DataType::Text), Some(text.clone()));
        assert_eq!(of_literal(&Literal::Text("5".into()), false, DataType::Int64), None);
        assert_eq!(of_literal(&Literal::Text("x".into()), true, DataType::Text), None);
        assert_eq!(of_parameter(&ScalarValue::from("x"), DataType::Text), Some(text));
        assert_eq!(of_parameter(&ScalarValue::from("5"), DataType::Int64), None);
        assert_eq!(of_parameter(&ScalarValue::Int64(Some(5)), DataType::Int32), Some(ScalarValue::Int32(Some(5))));
        assert_eq!(of_parameter(&ScalarValue::Int64(Some(i64::MAX)), DataType::Int32), None);
        assert_eq!(of_parameter(&ScalarValue::Int64(None), DataType::Int64), None);
        assert_eq!(of_parameter(&ScalarValue::Utf8(None), DataType::Text), None);
        assert_eq!(of_parameter(&ScalarValue::Float64(Some(5.0)), DataType::Int64), None);
    }
}
