//! Progressive answers: a table that is drawn again and again until it is exact.
//!
//! Invariants:
//! - Standard output gets the last answer alone, in the form asked for; what is drawn before it is on the terminal's error stream, and only
//!   where both are a terminal.
//! - What Ctrl-C leaves is printed with its bounds and never without, and the statement counts as cancelled.

use super::connection::{Connection, Watch};
use super::output::{TABLE_ROWS_MAX, table, texts, write, write_batches};
use super::output_settings::OutputSettings;
use super::statement::{Refining, Statement};
use super::{Format, interrupt};
use alluvia_query::{Bounds, Refinement};
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Schema};
use arrow::error::ArrowError;
use futures::StreamExt;
use futures::stream::BoxStream;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

/// Rows of a table that is drawn again and again.
const ROWS_SHOWN: usize = 20;
/// The bar's length; its position is in thousandths.
const BAR: u64 = 1_000;

/// Runs a query and shows its refinements; Ctrl-C prints the best so far.
pub async fn run(connection: &Connection, statement: Statement, settings: &OutputSettings) -> Result<()> {
    match connection.cancellable(connection.refine(statement)).await? {
        Refining::Rows(answer) => connection.cancellable(write(answer, settings)).await,
        Refining::Looks(refinements) => {
            let is_seen = std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
            let bar = bar(is_seen && settings.format == Format::Table);
            // A server is asked how far it is: only for a bar that is seen.
            let watch = (!bar.is_hidden()).then(|| connection.watch());
            let (best, is_whole) = best_of(watch.as_ref(), refinements, &bar).await?;
            bar.finish_and_clear();
            if is_whole {
                return write_batches(best.rows.schema(), &[best.rows], settings);
            }
            match settings.format {
                Format::Table => table(&[with_errors(&best, TABLE_ROWS_MAX)?], best.rows.num_rows(), settings)?,
                _ => {
                    let rows = with_bounds(&best)?;
                    write_batches(rows.schema(), &[rows], settings)?;
                }
            }
            Err(Error::new(ErrorKind::Cancelled, stopped(&best)?))
        }
    }
}

/// The last refinement, and whether it is the answer: Ctrl-C ends the statement where it is.
async fn best_of(
    watch: Option<&Watch<'_>>,
    mut refinements: BoxStream<'static, Result<Refinement>>,
    bar: &ProgressBar,
) -> Result<(Refinement, bool)> {
    let mut ticks = tokio::time::interval(Duration::from_millis(100));
    let mut best: Option<Refinement> = None;
    loop {
        tokio::select! {
            biased;
            () = interrupt::pressed() => {
                drop(refinements);
                let cancelled = || Error::new(ErrorKind::Cancelled, "the statement was cancelled before its first estimate");
                return best.map(|best| (best, false)).ok_or_else(cancelled);
            }
            next = refinements.next() => match next {
                None => {
                    let none = || Error::internal("a statement was refined to nothing");
                    return best.map(|best| (best, true)).ok_or_else(none);
                }
                Some(refinement) => {
                    let refinement = refinement?;
                    if !bar.is_hidden() {
                        bar.set_position(position(refinement.fraction));
                        bar.set_message(frame(&refinement)?);
                    }
                    best = Some(refinement);
                }
            },
            _ = ticks.tick(), if !bar.is_hidden() => {
                let told = best.as_ref().map_or(0.0, |best| best.fraction);
                bar.set_position(position(watch.map_or(0.0, Watch::fraction).max(told)));
                bar.tick();
            }
        }
    }
}

/// Where the bar stands at a share of the rows.
fn position(fraction: f64) -> u64 {
    (fraction * BAR as f64) as u64
}

fn bar(is_shown: bool) -> ProgressBar {
    let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style = ProgressStyle::with_template("{msg}[{bar:40}] {percent}% of rows read, {elapsed}");
    ProgressBar::with_draw_target(Some(BAR), target).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// What is drawn of a refinement.
fn frame(refinement: &Refinement) -> Result<String> {
    let shown = with_errors(refinement, ROWS_SHOWN)?;
    let drawn = arrow::util::pretty::pretty_format_batches(&[shown]);
    let drawn = drawn.map_err(|error| Error::internal(format!("an estimate cannot be shown: {error}")))?;
    let more = match refinement.rows.num_rows().saturating_sub(ROWS_SHOWN) {
        0 => String::new(),
        more => format!("... {more} more rows\n"),
    };
    Ok(format!("{drawn}\n{more}{}\n", summary(refinement)?))
}

/// `look 2 of 6: at most 1.3 % off at confidence 0.95, version 12`
fn summary(refinement: &Refinement) -> Result<String> {
    let version = refinement.version.map_or_else(String::new, |version| format!(", version {version}"));
    if refinement.is_exact() {
        return Ok(format!("exact{version}"));
    }
    let error = match refinement.error {
        error if error.is_finite() => format!("at most {} % off", rounded(100.0 * error)),
        // An interval that holds 0 bounds the value, and not the share that it is off.
        _ if is_bounded(refinement)? => "some intervals hold 0".to_owned(),
        _ => "some values are not known yet".to_owned(),
    };
    let unseen = match refinement.groups_unseen {
        0 => String::new(),
        groups => format!(", may lack {groups} groups"),
    };
    let Refinement { look, looks, confidence, .. } = refinement;
    Ok(format!("look {look} of {looks}: {error} at confidence {confidence}{unseen}{version}"))
}

fn stopped(best: &Refinement) -> Result<String> {
    let (read, summary) = (rounded(100.0 * best.fraction), summary(best)?);
    Ok(format!(
        "stopped when {read} % of the rows were read: what is printed is an estimate with its bounds ({summary})"
    ))
}

/// Whether every value is known to within something.
fn is_bounded(refinement: &Refinement) -> Result<bool> {
    for (column, bounds) in refinement.rows.columns().iter().zip(&refinement.bounds) {
        if let Some(bounds) = bounds
            && errors(refinement, column, bounds)?.iter().any(|off| !off.is_finite())
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// How much each value of one of a refinement's columns may be off at most; infinity where nothing is known.
fn errors(refinement: &Refinement, column: &ArrayRef, bounds: &Bounds) -> Result<Vec<f64>> {
    let number = |array: &ArrayRef| cast(array, &DataType::Float64).map_err(unshown);
    let (value, lower, upper) = (number(column)?, number(&bounds.lower)?, number(&bounds.upper)?);
    let at = |array: &ArrayRef, row: usize| array.is_valid(row).then(|| array.as_primitive::<Float64Type>().value(row));
    let off = |row: usize| match (at(&value, row), at(&lower, row), at(&upper, row)) {
        (Some(value), Some(lower), Some(upper)) => (value - lower).max(upper - value),
        // Where all values are known, what has none is NULL, as an average of no values.
        (None, None, None) if refinement.error.is_finite() => 0.0,
        _ => f64::INFINITY,
    };
    Ok((0..value.len()).map(off).collect())
}

fn unshown(error: ArrowError) -> Error {
    Error::internal(format!("an estimate cannot be shown: {error}"))
}

/// Values with what they may be off, as texts.
fn with_errors(refinement: &Refinement, rows_max: usize) -> Result<RecordBatch> {
    let rows = refinement.rows.slice(0, refinement.rows.num_rows().min(rows_max));
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(rows.num_columns());
    for ((field, column), bounds) in rows.schema_ref().fields().iter().zip(rows.columns()).zip(&refinement.bounds) {
        let mut texts = texts(field.name(), column)?;
        if let Some(bounds) = bounds {
            for (text, off) in texts.iter_mut().zip(errors(refinement, column, bounds)?) {
                if off.is_nan() || off > 0.0 {
                    let off = if off.is_finite() { rounded(off) } else { "?".to_owned() };
                    *text = Some(format!("{} \u{b1} {off}", text.as_deref().unwrap_or("?")));
                }
            }
        }
        columns.push(Arc::new(StringArray::from(texts)));
    }
    let fields: Vec<Field> =
        rows.schema().fields().iter().map(|field| Field::new(field.name(), DataType::Utf8, true)).collect();
    RecordBatch::try_new_with_options(
        Arc::new(Schema::new(fields)),
        columns,
        &arrow::array::RecordBatchOptions::new().with_row_count(Some(rows.num_rows())),
    )
    .map_err(unshown)
}

/// The answer's columns, each that is estimated with its bounds behind it.
fn with_bounds(refinement: &Refinement) -> Result<RecordBatch> {
    let schema = refinement.rows.schema();
    let (mut fields, mut columns): (Vec<FieldRef>, Vec<ArrayRef>) = (Vec::new(), Vec::new());
    for ((field, column), bounds) in schema.fields().iter().zip(refinement.rows.columns()).zip(&refinement.bounds) {
        fields.push(Arc::clone(field));
        columns.push(Arc::clone(column));
        let Some(bounds) = bounds else { continue };
        for (name, bound) in [("lower_bound", &bounds.lower), ("upper_bound", &bounds.upper)] {
            let name = format!("{name}({})", field.name());
            fields.push(Arc::new(Field::new(name, bound.data_type().clone(), true)));
            columns.push(Arc::clone(bound));
        }
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
        .map_err(|error| Error::internal(format!("bounds do not fit their values: {error}")))
}

/// Three digits, rounded up: what a value may be off is not made less.
fn rounded(value: f64) -> String {
    if value <= 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let places = 2 - value.log10().floor() as i32;
    let scale = 10f64.powi(places.clamp(-300, 300));
    // What is three digits already is not rounded further up for the last bit.
    let up = (value * scale * (1.0 - 1e-12)).ceil() / scale;
    format!("{up:.*}", places.clamp(0, 12) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_query::IntervalKind;
    use alluvia_types::Version;
    use arrow::array::{Float64Array, Int64Array};

    fn estimate() -> Refinement {
        let fields = ["country", "n", "mean"].map(|name| match name {
            "country" => Field::new(name, DataType::Utf8, true),
            "n" => Field::new(name, DataType::Int64, true),
            _ => Field::new(name, DataType::Float64, true),
        });
        let counts = |values: [i64; 2]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
        let means = |values: [f64; 2]| Arc::new(Float64Array::from(values.to_vec())) as ArrayRef;
        let columns =
            vec![Arc::new(StringArray::from(vec!["a", "b"])) as ArrayRef, counts([100, 7]), means([1.5, f64::NAN])];
        Refinement {
            rows: RecordBatch::try_new(Arc::new(Schema::new(fields.to_vec())), columns).unwrap(),
            bounds: vec![
                None,
                Some(Bounds { lower: counts([90, 7]), upper: counts([112, 7]) }),
                Some(Bounds { lower: means([1.25, f64::NEG_INFINITY]), upper: means([1.5, f64::INFINITY]) }),
            ],
            look: 2,
            looks: 6,
            kind: IntervalKind::Planned { looks: 6 },
            confidence: 0.95,
            error: f64::INFINITY,
            fraction: 0.125,
            groups_unseen: 3,
            version: Some(Version(12)),
            elapsed: Duration::ZERO,
            is_last: false,
        }
    }

    #[test]
    fn estimates_are_shown_with_what_they_may_be_off_and_exact_values_without() {
        let shown = with_errors(&estimate(), 20).unwrap();
        let text = |column: usize, row: usize| shown.column(column).as_string::<i32>().value(row).to_owned();
        assert_eq!([text(0, 0), text(1, 0), text(1, 1)], ["a", "100 \u{b1} 12.0", "7"]);
        assert_eq!([text(2, 0), text(2, 1)], ["1.5 \u{b1} 0.250", "NaN \u{b1} ?"]);
        let drawn = frame(&estimate()).unwrap();
        let line = "look 2 of 6: some values are not known yet at confidence 0.95, may lack 3 groups, version 12";
        assert!(drawn.trim_end().ends_with(line), "{drawn}");
        assert!(stopped(&estimate()).unwrap().contains("12.5 % of the rows"));
        // What is bounded is known, though no share of it bounds how much it is off.
        let mut sum = estimate();
        let bounds = |values: [f64; 2]| Arc::new(Float64Array::from(values.to_vec())) as ArrayRef;
        let mean = bounds([1.5, 0.25]);
        let columns = [sum.rows.columns()[..2].to_vec(), vec![mean]].concat();
        sum.rows = RecordBatch::try_new(sum.rows.schema(), columns).unwrap();
        sum.bounds[2] = Some(Bounds { lower: bounds([1.25, -1.0]), upper: bounds([1.5, 0.5]) });
        assert_eq!(with_errors(&sum, 20).unwrap().column(2).as_string::<i32>().value(1), "0.25 \u{b1} 1.25");
        assert!(summary(&sum).unwrap().starts_with("look 2 of 6: some intervals hold 0 at confidence 0.95"));
        // A mean of no values is NULL where everything is known.
        let nulls = Arc::new(Float64Array::from(vec![Some(1.5), None])) as ArrayRef;
        sum.rows = RecordBatch::try_new(
            sum.rows.schema(),
            [sum.rows.columns()[..2].to_vec(), vec![Arc::clone(&nulls)]].concat(),
        )
        .unwrap();
        sum.bounds[2] = Some(Bounds { lower: Arc::clone(&nulls), upper: nulls });
        assert_eq!(with_errors(&sum, 20).unwrap().column(2).as_string::<i32>().value(1), "? \u{b1} ?");
        sum.error = 0.5;
        let shown = with_errors(&sum, 20).unwrap();
        assert!(!shown.column(2).as_string::<i32>().value(1).contains('\u{b1}'));
    }

    #[test]
    fn other_forms_have_the_bounds_as_columns() {
        let rows = with_bounds(&estimate()).unwrap();
        let names: Vec<String> = rows.schema().fields().iter().map(|field| field.name().clone()).collect();
        let bounds = |of: &str| [format!("lower_bound({of})"), format!("upper_bound({of})")];
        let [low, high] = bounds("n");
        let [least, most] = bounds("mean");
        assert_eq!(names, ["country".to_owned(), "n".to_owned(), low, high, "mean".to_owned(), least, most]);
        assert_eq!(rows.num_rows(), 2);
    }

    #[test]
    fn what_a_value_may_be_off_is_never_rounded_down() {
        let texts = [12.0, 0.25, 1234.1, 99.91, 0.001_234_1, 3e12].map(rounded);
        assert_eq!(texts, ["12.0", "0.250", "1240", "100.0", "0.00124", "3000000000000"]);
    }
}
