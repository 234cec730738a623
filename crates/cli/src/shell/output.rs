//! Answers, written in the form asked for.

use super::Format;
use super::interval_text::{interval_texts, spelled, spelled_schema};
use super::output_settings::{OutputSettings, Sink};
use super::statement::{Answer, Rows};
use super::table_fit::{Columns, fit};
use crate::note;
use alluvia_copy::ResultWriter;
use alluvia_syntax::copy::options::{CopyOptions, Direction, Format as OutputFormat};
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::convert::texts_in_zone;
use alluvia_values::text::value_text;
use alluvia_values::time_zone::Zone;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatchOptions, StringArray};
use arrow::compute::cast;
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

/// What is said of estimates whose bounds nobody asked for.
const ESTIMATES: &str =
    ", estimates: lower_bound(...) and upper_bound(...) in the statement tell how far off they may be";

/// Writes an answer to standard output, its notices to standard error.
pub async fn print(answer: impl Into<Answer>, format: Format) -> Result<()> {
    write(answer.into(), &OutputSettings::of(format)).await
}

/// Writes an answer by these settings, its notices to standard error.
pub async fn write(mut answer: Answer, settings: &OutputSettings) -> Result<()> {
    let mut table = None;
    match answer.rows.take() {
        None => {
            if settings.format == Format::Table {
                settings.sink.say(&format!("{}\n", answer.tag))?;
            }
        }
        Some(Rows { schema, mut batches }) => match settings.format {
            Format::Table if answer.tag == "EXPLAIN" => {
                while let Some(batch) = batches.next().await {
                    plan(&batch?, settings)?;
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
                table = Some((shown, count));
            }
            _ => {
                let mut writer = Written::begin(schema, settings)?;
                while let Some(batch) = batches.next().await {
                    writer.write(&batch?)?;
                }
                writer.finish()?;
            }
        },
    }
    let ending = answer.end();
    if let Some((shown, count)) = table {
        let about = if ending.is_estimate { ESTIMATES } else { "" };
        table_with_note(&shown, count, about, settings)?;
    }
    for notice in &ending.notices {
        note(format_args!("NOTICE: {notice}"));
    }
    Ok(())
}

/// Writes rows by these settings.
pub fn write_batches(schema: SchemaRef, batches: &[RecordBatch], settings: &OutputSettings) -> Result<()> {
    if settings.format == Format::Table {
        let count = batches.iter().map(RecordBatch::num_rows).sum();
        let mut room = TABLE_ROWS_MAX;
        let shown = batches.iter().map(|batch| {
            let shown = batch.slice(0, room.min(batch.num_rows()));
            room -= shown.num_rows();
            shown
        });
        return table(&shown.collect::<Vec<_>>(), count, settings);
    }
    let mut writer = Written::begin(schema, settings)?;
    batches.iter().try_for_each(|batch| writer.write(batch))?;
    writer.finish()
}

/// Writes rows of an answer that has `count` of them.
fn table(shown: &[RecordBatch], count: usize, settings: &OutputSettings) -> Result<()> {
    table_with_note(shown, count, "", settings)
}

/// The same, with this behind the count.
pub fn table_with_note(shown: &[RecordBatch], count: usize, note: &str, settings: &OutputSettings) -> Result<()> {
    let rest = match count.saturating_sub(TABLE_ROWS_MAX) {
        0 => note.to_owned(),
        rest => format!(", {rest} of them not shown; use --format csv for all{note}"),
    };
    let shown = shown.iter().map(|batch| in_zone(batch, &settings.time_zone)).collect::<Result<Vec<RecordBatch>>>()?;
    let shown = shown.as_slice();
    let noun = if count == 1 { "row" } else { "rows" };
    let counted = format!("({count} {noun}{rest})\n");
    if !settings.is_expanded {
        let Some((width, rows_max)) = settings.screen() else {
            return settings.sink.say(&format!("{}\n{counted}", drawn_with(shown, &settings.null)?));
        };
        let told = format!("{count} {noun}{note}");
        return settings.sink.say(&screenful(shown, count, told, &settings.null, (width, rows_max))?);
    }
    // As psql has it: records have numbers, so they are counted only where they do not tell.
    let records = records(shown, &settings.null)?;
    let counted = if count == 0 || !rest.is_empty() { counted } else { String::new() };
    settings.sink.say(&format!("{records}{counted}\n"))
}

/// Rows whose moments are texts, as clocks of a zone show them; those of UTC stay.
pub fn in_zone(batch: &RecordBatch, zone: &Zone) -> Result<RecordBatch> {
    let is_moment = |field: &Field| matches!(field.data_type(), DataType::Timestamp(_, Some(_)));
    if zone.is_utc() || !batch.schema_ref().fields().iter().any(|field| is_moment(field)) {
        return Ok(batch.clone());
    }
    let (mut fields, mut columns): (Vec<Field>, Vec<ArrayRef>) = (Vec::new(), Vec::new());
    for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        if is_moment(field) {
            fields.push(Field::new(field.name(), DataType::Utf8View, true));
            columns.push(texts_in_zone(column, zone)?);
        } else {
            fields.push(field.as_ref().clone());
            columns.push(Arc::clone(column));
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
        .map_err(|error| Error::internal(format!("an answer cannot be shown: {error}")))
}

/// The first rows of an answer as a table that fits a screen, and what of the answer is not shown.
fn screenful(
    rows: &[RecordBatch],
    count: usize,
    mut told: String,
    null: &str,
    (width, rows_max): (usize, Option<usize>),
) -> Result<String> {
    let Some(first) = rows.first() else { return Ok(format!("({told})\n")) };
    let names: Vec<String> = first.schema().fields().iter().map(|field| field.name().clone()).collect();
    let mut columns = Columns { values: vec![Vec::new(); names.len()], names };
    let (mut room, mut shown) = (rows_max.unwrap_or(usize::MAX), 0);
    for batch in rows {
        let batch = batch.slice(0, room.min(batch.num_rows()));
        room -= batch.num_rows();
        shown += batch.num_rows();
        for ((name, column), values) in columns.names.iter().zip(batch.columns()).zip(&mut columns.values) {
            let texts = texts(name, column)?;
            values.extend(texts.into_iter().map(|text| text.or_else(|| (!null.is_empty()).then(|| null.to_owned()))));
        }
    }
    let left_out = fit(&mut columns, width);
    let fields: Vec<Field> = columns.names.iter().map(|name| Field::new(name, DataType::Utf8, true)).collect();
    let arrays = columns.values.into_iter().map(|values| Arc::new(StringArray::from(values)) as ArrayRef).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(shown));
    let drawn = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .and_then(|table| pretty_format_batches(&[table]).map(|drawn| drawn.to_string()))
        .map_err(|error| Error::internal(format!("an answer cannot be shown: {error}")))?;
    if shown < count {
        told += &format!(", the first {shown} shown: \\rows all shows more");
    }
    if left_out > 0 {
        told += &format!(", {left_out} columns not shown: \\x shows all");
    }
    Ok(format!("{drawn}\n({told})\n"))
}

/// Rows one below the other, a column a line, as psql has them.
fn records(rows: &[RecordBatch], null: &str) -> Result<String> {
    let mut text = String::new();
    let mut number = 0;
    for batch in rows {
        let schema = batch.schema();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let mut columns = Vec::with_capacity(names.len());
        for (name, column) in names.iter().zip(batch.columns()) {
            columns.push(texts(name, column)?);
        }
        let name_width = names.iter().map(|name| width(name)).max().unwrap_or(0);
        let lines = |column: &Vec<Option<String>>, row: usize| -> Vec<String> {
            column[row].as_deref().unwrap_or(null).split('\n').map(str::to_owned).collect()
        };
        for row in 0..batch.num_rows() {
            number += 1;
            let values: Vec<Vec<String>> = columns.iter().map(|column| lines(column, row)).collect();
            let value_width = values.iter().flatten().map(|line| width(line)).max().unwrap_or(0);
            let title = format!("-[ RECORD {number} ]");
            let rule = format!("{}+{}", "-".repeat(name_width + 1), "-".repeat(value_width + 1));
            text.push_str(&title);
            text.push_str(rule.get(title.len()..).unwrap_or(""));
            text.push('\n');
            for (name, lines) in names.iter().zip(&values) {
                for (at, line) in lines.iter().enumerate() {
                    let name = if at == 0 { *name } else { "" };
                    // A '+' behind a line says that its value goes on.
                    let shown = match at + 1 < lines.len() {
                        true => format!("{} | {}+", padded(name, name_width), padded(line, value_width)),
                        false => format!("{} | {line}", padded(name, name_width)),
                    };
                    text.push_str(&shown);
                    text.push('\n');
                }
            }
        }
    }
    Ok(text)
}

/// A text with blanks behind it. Widths of `format!` end at 65,535, and values do not.
fn padded(text: &str, wanted: usize) -> String {
    format!("{text}{}", " ".repeat(wanted.saturating_sub(width(text))))
}

/// Characters of a text; what pads texts counts them, too.
fn width(text: &str) -> usize {
    text.chars().count()
}

/// Rows as a table.
pub fn drawn(rows: &[RecordBatch]) -> Result<String> {
    drawn_with(rows, "")
}

/// The same, with this for NULL.
fn drawn_with(rows: &[RecordBatch], null: &str) -> Result<String> {
    let unshown = |error: ArrowError| Error::internal(format!("an answer cannot be shown: {error}"));
    let mut all = Vec::with_capacity(rows.len());
    for batch in rows {
        let (mut fields, mut columns): (Vec<Field>, Vec<ArrayRef>) = (Vec::new(), Vec::new());
        for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            fields.push(Field::new(field.name(), DataType::Utf8, true));
            let mut texts = texts(field.name(), column)?;
            if !null.is_empty() {
                texts.iter_mut().for_each(|text| *text = Some(text.take().unwrap_or_else(|| null.to_owned())));
            }
            columns.push(Arc::new(StringArray::from(texts)));
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
    if let Some(texts) = interval_texts(name, column)? {
        return Ok(texts);
    }
    if let Some(texts) = byte_texts(column) {
        return Ok(texts);
    }
    // UUIDs, times of day, NUMERIC: as PostgreSQL has them.
    if let DataType::FixedSizeBinary(16) | DataType::Time64(_) | DataType::Decimal128(38, 16) = column.data_type() {
        let text = |row: usize| column.is_valid(row).then(|| value_text(column.as_ref(), row)).transpose();
        return (0..column.len()).map(text).collect();
    }
    let unshown = |error: ArrowError| {
        Error::new(ErrorKind::InvalidValue, format!("a value of column {name} cannot be shown: {error}"))
            .with_hint("leave such values out with WHERE, or use --format arrow or parquet")
    };
    let options = FormatOptions::default().with_null("").with_display_error(false);
    let shown = ArrayFormatter::try_new(column.as_ref(), &options).map_err(unshown)?;
    let text = |row: usize| column.is_valid(row).then(|| shown.value(row).try_to_string()).transpose();
    (0..column.len()).map(|row| text(row).map_err(unshown)).collect()
}

/// Bytes as PostgreSQL shows them; `None` of other columns.
fn byte_texts(column: &ArrayRef) -> Option<Vec<Option<String>>> {
    if !matches!(column.data_type(), DataType::Binary | DataType::LargeBinary | DataType::BinaryView) {
        return None;
    }
    let bytes = cast(column, &DataType::LargeBinary).ok()?;
    let hex = |bytes: &[u8]| {
        let digit = |half: u8| char::from_digit(half.into(), 16).unwrap_or('0');
        let digits = bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
        "\\x".chars().chain(digits).collect::<String>()
    };
    Some(bytes.as_binary::<i64>().iter().map(|bytes| bytes.map(hex)).collect())
}

/// An answer on its way, in a form that is not a table.
struct Written {
    writer: ResultWriter<BufWriter<Sink>>,
    /// Whether intervals are written as texts: CSV has no other form for them.
    is_spelled: bool,
}

impl Written {
    fn begin(schema: SchemaRef, settings: &OutputSettings) -> Result<Written> {
        let form = match settings.format {
            Format::Csv => OutputFormat::Csv,
            Format::Json => OutputFormat::JsonLines,
            Format::Arrow => OutputFormat::Arrow,
            Format::Parquet => OutputFormat::Parquet,
            Format::Table => unreachable!("tables are printed"),
        };
        let is_spelled = settings.format == Format::Csv;
        let schema = if is_spelled { spelled_schema(&schema) } else { schema };
        let null = (is_spelled && !settings.null.is_empty()).then(|| settings.null.clone());
        let options = CopyOptions { null, time_zone: settings.time_zone.clone(), ..CopyOptions::default() };
        options.check(Direction::To, None)?;
        let writer = ResultWriter::new(form, schema, &options, BufWriter::new(settings.sink.clone()))?;
        Ok(Written { writer, is_spelled })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.is_spelled { self.writer.write(&spelled(batch)?) } else { self.writer.write(batch) }
    }

    fn finish(self) -> Result<()> {
        self.writer.finish().map(|_| ())
    }
}

/// A plan is wider than any terminal: its lines are printed as they are, without a frame.
fn plan(batch: &RecordBatch, settings: &OutputSettings) -> Result<()> {
    let Some(lines) = batch.columns().last() else { return Ok(()) };
    let options = FormatOptions::default();
    let unshown = |error: ArrowError| Error::internal(format!("a plan cannot be shown: {error}"));
    let lines = ArrayFormatter::try_new(lines.as_ref(), &options).map_err(unshown)?;
    for row in 0..batch.num_rows() {
        settings.sink.say(&format!("{}\n", lines.value(row).try_to_string().map_err(unshown)?.trim_end()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{BinaryArray, Int64Array, StructArray, TimestampMicrosecondArray};

    #[test]
    fn bytes_are_shown_in_hex() {
        let bytes: ArrayRef = Arc::new(BinaryArray::from(vec![Some(&[0, 255][..]), None, Some(&[][..])]));
        let shown = texts("b", &bytes).unwrap();
        assert_eq!(shown, [Some("\\x00ff".to_owned()), None, Some("\\x".to_owned())]);
    }

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
    #[test]
    fn records_have_a_column_a_line_and_null_as_it_is_set() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["x\nlonger than its title", ""]));
        let batch = RecordBatch::try_from_iter_with_nullable([("n", numbers, true), ("text", texts, true)]).unwrap();
        let wanted = "-[ RECORD 1 ]---------------\nn    | 7\ntext | x                    +\n     | longer than its title\n\
                      -[ RECORD 2 ]\nn    | none\ntext | \n";
        assert_eq!(records(std::slice::from_ref(&batch), "none").unwrap(), wanted);
        assert!(drawn_with(&[batch], "none").unwrap().contains("| none |"));
        // Longer than widths of formats may be.
        let long = "x".repeat(70_000);
        let texts: ArrayRef = Arc::new(StringArray::from(vec![format!("{long}\nä")]));
        let batch = RecordBatch::try_from_iter([(long.as_str(), texts)]).unwrap();
        let (title, blanks) = ("-[ RECORD 1 ]", " ".repeat(70_000));
        let rule = format!("{}+{}", "-".repeat(70_001 - title.len()), "-".repeat(70_001));
        let wanted = format!("{title}{rule}\n{long} | {long}+\n{blanks} | ä\n");
        assert!(records(&[batch], "").unwrap() == wanted);
    }
}
