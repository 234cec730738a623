//! Examples that errors show, made of the table's own columns.

use crate::keywords::quoted_for_letters;
use crate::schema::{Column, DataType};
use alluvia_types::{Error, ErrorKind};

/// An error of the declaration whose hint shows a right declaration for this table.
pub(super) fn wrong(message: impl Into<String>, columns: &[Column]) -> Error {
    Error::new(ErrorKind::InvalidDefinition, message).with_hint(format!("write for instance {}", example(columns)))
}

/// A declaration that this table could have.
pub(super) fn example(columns: &[Column]) -> String {
    let named = |wanted: fn(&DataType) -> bool, most: usize| {
        let found = columns.iter().filter(|column| wanted(&column.data_type)).take(most);
        found.map(|column| quoted_for_letters(&column.name)).collect::<Vec<_>>()
    };
    let texts = named(|data_type| *data_type == DataType::Text, 2);
    let times = named(DataType::is_time, 1);
    let numbers = named(DataType::is_number, 1);
    let mut parts = Vec::new();
    match texts.as_slice() {
        [] => {}
        // Not by the name of another one below.
        [one] if matches!(one.as_str(), "time" | "size") => parts.push(format!("place({one})")),
        [one] => parts.push(one.clone()),
        path => parts.push(format!("place({})", path.join(", "))),
    }
    parts.extend(times.iter().map(|time| format!("time({time}: year, month, day)")));
    if parts.len() < 2 {
        parts.extend(numbers.iter().map(|number| format!("size({number}: linear)")));
    }
    if parts.is_empty() {
        parts.extend(columns.first().map(|column| quoted_for_letters(&column.name)));
    }
    format!("dimensions = '{}'", parts.join("; ").replace('\'', "''"))
}

/// How a dimension of this name can be made of a column of its type.
pub(crate) fn example_of(dimension: &str, column: &Column) -> String {
    let (own, of) = (quoted_for_letters(dimension), quoted_for_letters(&column.name));
    match column.data_type {
        DataType::Date => format!("{own}({of}: year, month, day)"),
        DataType::Timestamp | DataType::TimestampTz => format!("{own}({of}: year, month, day, hour)"),
        _ if column.data_type.is_number() => format!("{own}({of}: linear) or {own}({of}: hash)"),
        _ => format!("{own}({of}) or {own}({of}: hash)"),
    }
}
