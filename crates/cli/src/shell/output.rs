//! Answers, written in the form asked for.

use super::Format;
use super::statement::{Answer, Rows};
use crate::{Out, note, say};
use alluvia_query::copy::{CopyOptions, OutputFormat, ResultWriter};
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::{Array, ArrayRef, RecordBatchOptions, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow::util::pretty::pretty_format_batches;
use futures::StreamExt;
use std::io::BufWriter;
use std::sync::Arc;

/// Rows that a table shows; more are counted.
pub const TABLE_ROWS_MAX: usize = 10_000;

/// Writes an answer to standard output, its notices to standard error.
pub async fn print(answer: impl Into<Answer>, format: Format) -> Result<()> {
    let mut answer = answer.into();
    match answer.rows.take() {
        None => {
            if format == Format::Table {
                say(&format!("{}\n", answer.tag))?;
            }
        }
        Some(Rows { schema, mut batches }) => match format {
            Format::Table if answer.tag == "EXPLAIN" => {
                while let Some(batch) = batches.next().await {
                    plan(&batch?)?;
                }
            }
            Format::Table => {
                let (mut shown, mut count): (Vec<RecordBatch>, usize) = (Vec::new(), 0);
                while let Some(batch) = batches.next().await {
                    let batch = batch?;
                    let room = TABLE_ROWS_MAX.saturating_sub(count).min(batch.num_rows());
                    count += batch.num_rows();
                    if room > 0 {
                        shown.push(batch.slice(0, room));
                    }
                }
                if shown.is_empty() {
                    shown.push(RecordBatch::new_empty(schema));
                }
                table(&shown, count)?;
            }
            _ => {
                let mut writer = writer(format, schema)?;
                while let Some(batch) = batches.next().await {
                    writer.write(&batch?)?;
                }
                writer.finish()?;
            }
        },
    }
    for notice in answer.notices() {
        note(format_args!("NOTICE: {notice}"));
    }
    Ok(())
}

/// Writes rows to standard output.
pub fn print_batches(schema: SchemaRef, batches: &[RecordBatch], format: Format) -> Result<()> {
    if format == Format::Table {
        let count = batches.iter().map(RecordBatch::num_rows).sum();
        let mut room = TABLE_ROWS_MAX;
        let shown = batches.iter().map(|batch| {
            let shown = batch.slice(0, room.min(batch.num_rows()));
            room -= shown.num_rows();
            shown
        });
        return table(&shown.collect::<Vec<_>>(), count);
    }
    let mut writer = writer(format, schema)?;
    batches.iter().try_for_each(|batch| writer.write(batch))?;
    writer.finish().map(|_| ())
}

/// Prints rows of an answer that has `count` of them.
pub fn table(shown: &[RecordBatch], count: usize) -> Result<()> {
    let table = drawn(shown)?;
    let rest = match count.saturating_sub(TABLE_ROWS_MAX) {
        0 => String::new(),
        rest => format!(", {rest} of them not shown; use --format csv for all"),
    };
    let noun = if count == 1 { "row" } else { "rows" };
    say(&format!("{table}\n({count} {noun}{rest})\n"))
}

/// Rows as a table.
pub fn drawn(rows: &[RecordBatch]) -> Result<String> {
    let unshown = |error: ArrowError| Error::internal(format!("an answer cannot be shown: {error}"));
    let mut all = Vec::with_capacity(rows.len());
    for batch in rows {
        let (mut fields, mut columns): (Vec<Field>, Vec<ArrayRef>) = (Vec::new(), Vec::new());
        for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            fields.push(Field::new(field.name(), DataType::Utf8, true));
            columns.push(Arc::new(StringArray::from(texts(field.name(), column)?)));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let schema = Arc::new(Schema::new(fields));
        all.push(RecordBatch::try_new_with_options(schema, columns, &options).map_err(unshown)?);
    }
    Ok(pretty_format_batches(&all).map_err(unshown)?.to_string())
}

/// A column's values as a table has them. One that has no form is an error: in a table of Arrow's own the reason would stand in its
/// place, as if it were the value.
pub fn texts(name: &str, column: &ArrayRef) -> Result<Vec<Option<String>>> {
    let unshown = |error: ArrowError| {
        Error::new(ErrorKind::InvalidValue, format!("a value of column {name} cannot be shown: {error}"))
            .with_hint("leave such values out with WHERE, or use --format arrow or parquet")
    };
    let options = FormatOptions::default().with_null("").with_display_error(false);
    let shown = ArrayFormatter::try_new(column.as_ref(), &options).map_err(unshown)?;
    let text = |row: usize| column.is_valid(row).then(|| shown.value(row).try_to_string()).transpose();
    (0..column.len()).map(|row| text(row).map_err(unshown)).collect()
}

fn writer(format: Format, schema: SchemaRef) -> Result<ResultWriter<BufWriter<Out>>> {
    let form = match format {
        Format::Csv => OutputFormat::Csv,
        Format::Json => OutputFormat::JsonLines,
        Format::Arrow => OutputFormat::Arrow,
        Format::Parquet => OutputFormat::Parquet,
        Format::Table => unreachable!("tables are printed"),
    };
    ResultWriter::new(form, schema, &CopyOptions::default(), BufWriter::new(Out::of_process()))
}

/// A plan is wider than any terminal: its lines are printed as they are, without a frame.
fn plan(batch: &RecordBatch) -> Result<()> {
    let Some(lines) = batch.columns().last() else { return Ok(()) };
    let options = FormatOptions::default();
    let unshown = |error: ArrowError| Error::internal(format!("a plan cannot be shown: {error}"));
    let lines = ArrayFormatter::try_new(lines.as_ref(), &options).map_err(unshown)?;
    for row in 0..batch.num_rows() {
        say(&format!("{}\n", lines.value(row).try_to_string().map_err(unshown)?.trim_end()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, StructArray, TimestampMicrosecondArray};

    #[test]
    fn a_value_without_a_form_is_an_error_and_never_its_reason() {
        let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![Some(0), None, Some(i64::MAX)]));
        let field = Arc::new(Field::new("t", times.data_type().clone(), true));
        let parts: ArrayRef = Arc::new(StructArray::from(vec![(field, Arc::clone(&times))]));
        for array in [times, parts] {
            let batch = RecordBatch::try_from_iter_with_nullable([("a", array, true)]).unwrap();
            let shown = drawn(&[batch.slice(0, 2)]).unwrap();
            assert!(shown.contains("1970-01-01T00:00:00") && shown.lines().count() == 6, "{shown}");
            let error = drawn(&[batch]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidValue, "{error}");
            assert!(error.message().starts_with("a value of column a cannot be shown: "), "{error}");
        }
    }

    #[test]
    fn tables_have_every_column_and_nothing_for_null() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["x", "y"]));
        let batch = RecordBatch::try_from_iter_with_nullable([("n", numbers, true), ("text", texts, true)]).unwrap();
        let lines = ["+---+------+", "| n | text |", "+---+------+", "| 7 | x    |", "|   | y    |", "+---+------+"];
        assert_eq!(drawn(&[batch]).unwrap(), lines.join("\n"));
    }
}
