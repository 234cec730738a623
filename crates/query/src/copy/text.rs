//! Values as text: what CSV files hold, what a cast to TEXT gives, what messages quote.
//!
//! Invariant: what is written here for a value of a storage type, `values` reads back as the same value.

use crate::copy::values::shown;
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::{Array, AsArray};
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use std::fmt::{self, Write};

const TIMESTAMP_FORMAT: &str = "%Y-%m-%d %H:%M:%S%.f";
const TIMESTAMP_TZ_FORMAT: &str = "%Y-%m-%d %H:%M:%S%.f%:z";

fn format_options() -> FormatOptions<'static> {
    FormatOptions::new()
        .with_display_error(false)
        .with_timestamp_format(Some(TIMESTAMP_FORMAT))
        .with_timestamp_tz_format(Some(TIMESTAMP_TZ_FORMAT))
}

/// One column, ready to be written as text.
pub(crate) struct TextColumn<'a> {
    formatter: ArrayFormatter<'a>,
    bytes: bool,
}

impl<'a> TextColumn<'a> {
    /// Prepares a column of any type.
    pub(crate) fn new(array: &'a dyn Array) -> Result<TextColumn<'a>> {
        let formatter = ArrayFormatter::try_new(array, &format_options())
            .map_err(|error| Error::new(ErrorKind::NotSupported, format!("cannot write {} as text: {error}", array.data_type())))?;
        Ok(TextColumn { formatter, bytes: is_bytes(array.data_type()) })
    }

    /// Appends the value at `row` to `out`; nothing for NULL.
    pub(crate) fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        if self.bytes {
            out.extend_from_slice(b"\\x");
        }
        let mut sink = Utf8Sink(out);
        match self.formatter.value(row).write(&mut sink) {
            Ok(()) => Ok(()),
            Err(error) => {
                out.truncate(start);
                Err(Error::new(ErrorKind::InvalidValue, format!("a value cannot be written as text: {error}")))
            }
        }
    }
}

struct Utf8Sink<'a>(&'a mut Vec<u8>);

impl Write for Utf8Sink<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

fn is_bytes(data_type: &DataType) -> bool {
    match data_type {
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => true,
        DataType::Dictionary(_, values) => is_bytes(values),
        _ => false,
    }
}

/// The value at `row` in quotes, for a message; `NULL` for NULL.
pub(crate) fn shown_value(array: &dyn Array, row: usize) -> String {
    if array.is_null(row) {
        return "NULL".to_owned();
    }
    match array.data_type() {
        DataType::Utf8 => shown(array.as_string::<i32>().value(row).as_bytes()),
        DataType::LargeUtf8 => shown(array.as_string::<i64>().value(row).as_bytes()),
        DataType::Utf8View => shown(array.as_string_view().value(row).as_bytes()),
        DataType::Binary => shown(array.as_binary::<i32>().value(row)),
        DataType::LargeBinary => shown(array.as_binary::<i64>().value(row)),
        DataType::BinaryView => shown(array.as_binary_view().value(row)),
        _ => {
            let mut text = Vec::new();
            match TextColumn::new(array).and_then(|column| column.write(row, &mut text)) {
                Ok(()) => shown(&text),
                Err(_) => format!("a value of type {}", array.data_type()),
            }
        }
    }
}
