//! Rows into CSV.
//!
//! Invariant: with the same dialect, `csv_in` reads back what is written here: a text is quoted where it would mean something
//! else (the delimiter, the quote, a line end, the NULL text, a space at either end), and an empty text always.

use alluvia_syntax::copy::options::Dialect;
use alluvia_types::Result;
use alluvia_values::text::TextColumn;
use arrow::array::{Array, RecordBatch};
use arrow::datatypes::Schema;
use memchr::memchr2;

/// Appends the line of column names.
pub(crate) fn write_header(out: &mut Vec<u8>, schema: &Schema, dialect: &Dialect) {
    for (at, field) in schema.fields().iter().enumerate() {
        if at > 0 {
            out.push(dialect.delimiter);
        }
        write_field(out, field.name().as_bytes(), dialect);
    }
    out.push(b'\n');
}

/// Appends all rows of `batch`.
pub fn write_rows(out: &mut Vec<u8>, batch: &RecordBatch, dialect: &Dialect) -> Result<()> {
    let fields = batch.schema_ref().fields().iter().zip(batch.columns());
    let columns = fields
        .map(|(field, array)| TextColumn::of_field_in_zone(array, field, &dialect.time_zone))
        .collect::<Result<Vec<TextColumn>>>()?;
    let nulls: Vec<_> = batch.columns().iter().map(|array| array.logical_nulls()).collect();
    let mut value = Vec::new();
    for row in 0..batch.num_rows() {
        for (at, column) in columns.iter().enumerate() {
            if at > 0 {
                out.push(dialect.delimiter);
            }
            if nulls[at].as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                out.extend_from_slice(&dialect.null);
                continue;
            }
            value.clear();
            column.write(row, &mut value)?;
            write_field(out, &value, dialect);
        }
        out.push(b'\n');
    }
    Ok(())
}

/// Appends one value, quoted if it must be.
pub(crate) fn write_field(out: &mut Vec<u8>, value: &[u8], dialect: &Dialect) {
    let special = |byte: u8| byte == dialect.delimiter || byte == dialect.quote || byte == b'\n' || byte == b'\r';
    let outer = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_whitespace);
    let quoted = value == dialect.null
        || outer(value.first())
        || outer(value.last())
        || value.iter().any(|byte| special(*byte))
        // PostgreSQL reads a lone \. as the end of the data.
        || value == b"\\.";
    if !quoted {
        out.extend_from_slice(value);
        return;
    }
    out.push(dialect.quote);
    let mut rest = value;
    while let Some(at) = memchr2(dialect.quote, dialect.escape, rest) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(&[dialect.escape, rest[at]]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(dialect.quote);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bind::Wanted;
    use crate::csv_in::CsvInput;
    use crate::progress::CancelToken;
    use crate::testing::table;
    use alluvia_syntax::copy::options::{CopyOptions, Header, OnError};
    use arrow::array::{
        ArrayRef, BinaryViewArray, Float64Array, Int64Array, StringViewArray, TimestampMicrosecondArray,
    };
    use proptest::prelude::*;
    use std::sync::Arc;

    type Row = (Option<i64>, Option<f64>, Option<String>, Option<Vec<u8>>, Option<i64>);

    fn batch(rows: &[Row]) -> RecordBatch {
        let table = table("i BIGINT, f DOUBLE, t TEXT, b BYTEA, s TIMESTAMPTZ");
        let times: TimestampMicrosecondArray = rows.iter().map(|row| row.4).collect();
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>()),
            Arc::new(rows.iter().map(|row| row.1).collect::<Float64Array>()),
            Arc::new(rows.iter().map(|row| row.2.as_deref()).collect::<StringViewArray>()),
            Arc::new(rows.iter().map(|row| row.3.as_deref()).collect::<BinaryViewArray>()),
            Arc::new(times.with_timezone("UTC")),
        ];
        crate::assign::storage_batch(&table, arrays, rows.len(), &Default::default()).unwrap()
    }

    fn text() -> impl Strategy<Value = String> {
        prop_oneof!["[a,;\"'\\\\ \n\rNé]{0,5}", Just("NA".to_owned()), Just(String::new()), any::<String>()]
    }

    proptest! {
        /// Whatever the dialect, every value comes back, NULL and the empty text too; and the csv crate reads the same fields.
        #[test]
        fn what_is_written_is_read_back(
            rows in proptest::collection::vec((any::<Option<i64>>(), any::<Option<f64>>(), proptest::option::of(text()),
                proptest::option::of(proptest::collection::vec(any::<u8>(), 0..5)),
                proptest::option::of(-60_000_000_000_000_000i64..200_000_000_000_000_000)), 0..12),
            delimiter in prop_oneof![Just(b','), Just(b';'), Just(b'\t'), Just(b'|')],
            quote in prop_oneof![Just(b'"'), Just(b'\'')],
            backslash in any::<bool>(),
            null in prop_oneof![Just(""), Just("NA"), Just("\\N")],
        ) {
            let options = CopyOptions {
                delimiter: Some(delimiter), quote: Some(quote), escape: backslash.then_some(b'\\'), null: Some(null.into()),
                header: Header::Yes, ..CopyOptions::default()
            };
            let dialect = options.dialect(None);
            let batch = batch(&rows);
            let mut out = Vec::new();
            write_header(&mut out, &batch.schema(), &dialect);
            write_rows(&mut out, &batch, &dialect).unwrap();

            let table = table("i BIGINT, f DOUBLE, t TEXT, b BYTEA, s TIMESTAMPTZ");
            let input = CsvInput { wanted: Wanted::new(&table, &[]).unwrap(), table, dialect, header: Header::Yes, on_error: OnError::Skip };
            let mut found = Vec::new();
            input.read(std::io::Cursor::new(out.clone()), "x", &CancelToken::new(), |part| {
                assert_eq!(part.rejects, []);
                found.push(part.rows);
                Ok(())
            }).unwrap();
            let found = arrow::compute::concat_batches(&batch.schema(), &found).unwrap();
            // NaN differs from itself, so floats are compared as written.
            prop_assert_eq!(format!("{found:?}"), format!("{batch:?}"));

            let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).quote(quote)
                .escape(backslash.then_some(b'\\')).double_quote(!backslash).terminator(csv::Terminator::Any(b'\n')).from_reader(out.as_slice());
            for (record, row) in reader.byte_records().zip(&rows) {
                let record = record.unwrap();
                let want = row.2.as_ref().map_or(null, |text| text.as_str());
                prop_assert_eq!(record.get(2).unwrap(), want.as_bytes());
            }
        }
    }
}
