//! Answers, written in the form asked for.

use super::Format;
use super::statement::{Answer, Rows};
use crate::say;
use alluvia_query::copy::{CopyOptions, OutputFormat, ResultWriter};
use alluvia_types::{Error, Result};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow::util::pretty::pretty_format_batches_with_options;
use futures::StreamExt;
use std::io::{BufWriter, Stdout};

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
        eprintln!("NOTICE: {notice}");
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
    let options = FormatOptions::default().with_null("").with_display_error(true);
    let table = pretty_format_batches_with_options(shown, &options)
        .map_err(|error| Error::internal(format!("an answer cannot be shown: {error}")))?;
    let rest = match count.saturating_sub(TABLE_ROWS_MAX) {
        0 => String::new(),
        rest => format!(", {rest} of them not shown; use --format csv for all"),
    };
    let noun = if count == 1 { "row" } else { "rows" };
    say(&format!("{table}\n({count} {noun}{rest})\n"))
}

fn writer(format: Format, schema: SchemaRef) -> Result<ResultWriter<BufWriter<Stdout>>> {
    let form = match format {
        Format::Csv => OutputFormat::Csv,
        Format::Json => OutputFormat::JsonLines,
        Format::Arrow => OutputFormat::Arrow,
        Format::Parquet => OutputFormat::Parquet,
        Format::Table => unreachable!("tables are printed"),
    };
    ResultWriter::new(form, schema, &CopyOptions::default(), BufWriter::new(std::io::stdout()))
}

/// A plan is wider than any terminal: its lines are printed as they are, without a frame.
fn plan(batch: &RecordBatch) -> Result<()> {
    let Some(lines) = batch.columns().last() else { return Ok(()) };
    let options = FormatOptions::default();
    let unshown = |error: ArrowError| Error::internal(format!("a plan cannot be shown: {error}"));
    let lines = ArrayFormatter::try_new(lines.as_ref(), &options).map_err(unshown)?;
    for row in 0..batch.num_rows() {
        say(&format!("{}\n", lines.value(row).to_string().trim_end()))?;
    }
    Ok(())
}
