//! Estimates as a person reads them: `22,577,225 ± 0.5 %`.
//!
//! Invariants:
//! - What a value may be off is rounded up, with what the value itself was rounded by: it is never shown less than it is.
//! - Values that are known are shown without. Other forms than tables have numbers, with their bounds beside them.

use super::output::{TABLE_ROWS_MAX, table_with_note, texts};
use super::output_settings::OutputSettings;
use alluvia_query::{Bounds, Refinement};
use alluvia_types::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray, Float64Array, RecordBatch, RecordBatchOptions, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Schema};
use arrow::error::ArrowError;
use std::sync::Arc;

/// A value that may be off more often than so many times itself is shown with how much it may be off, and not with the
/// share.
const SHARE_MAX: f64 = 10.0;

/// All rows of an answer of which something is estimated.
pub struct Estimate {
    pub rows: RecordBatch,
    /// Of each column, where the exact values are; `None` of one that is exact.
    pub bounds: Vec<Option<Bounds>>,
    /// Whether something is known of every value: what has no value is then NULL, as an average of no values.
    pub is_known: bool,
    /// How often a value is within its bounds, where that is told.
    pub confidence: Option<f64>,
}

impl From<Refinement> for Estimate {
    fn from(refinement: Refinement) -> Estimate {
        let Refinement { rows, bounds, error, confidence, .. } = refinement;
        Estimate { rows, bounds, is_known: error.is_finite(), confidence: Some(confidence) }
    }
}

impl From<alluvia_client::Estimate> for Estimate {
    fn from(estimate: alluvia_client::Estimate) -> Estimate {
        let alluvia_client::Estimate { rows, bounds, .. } = estimate;
        // A server gives no estimate before something is known of all.
        Estimate {
            rows,
            bounds: bounds.into_iter().map(|bounds| bounds.map(of_server)).collect(),
            is_known: true,
            confidence: None,
        }
    }
}

/// Bounds of a server's, as those of this process are.
pub fn of_server(bounds: alluvia_client::Bounds) -> Bounds {
    let alluvia_client::Bounds { lower, upper } = bounds;
    Bounds { lower, upper }
}

/// Writes an estimate as a table.
pub fn table_of_estimate(estimate: &Estimate, settings: &OutputSettings) -> Result<()> {
    let shown = with_errors(estimate, TABLE_ROWS_MAX)?;
    let mut note = ", estimates: each within its \u{b1}".to_owned();
    if let Some(confidence) = estimate.confidence {
        note += &format!(" at confidence {confidence}");
    }
    table_with_note(&[shown], estimate.rows.num_rows(), &note, settings)
}

/// Values with what they may be off, as texts.
pub fn with_errors(estimate: &Estimate, rows_max: usize) -> Result<RecordBatch> {
    let rows = &estimate.rows;
    let count = rows.num_rows().min(rows_max);
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(rows.num_columns());
    for ((field, column), bounds) in rows.schema_ref().fields().iter().zip(rows.columns()).zip(&estimate.bounds) {
        let column = column.slice(0, count);
        let mut texts = texts(field.name(), &column)?;
        if let Some(bounds) = bounds {
            let is_whole = column.data_type().is_integer();
            let values = numbers(&column)?;
            for (row, (text, off)) in texts.iter_mut().zip(errors(estimate, &column, bounds)?).enumerate() {
                *text = match (text.take(), off) {
                    (Some(text), 0.0) => Some(grouped(&text)),
                    (None, 0.0) => None,
                    (Some(_), off) if off.is_finite() => Some(estimated(values.value(row), off, is_whole)),
                    (text, _) => Some(format!("{} \u{b1} ?", text.as_deref().unwrap_or("?"))),
                };
            }
        }
        columns.push(Arc::new(StringArray::from(texts)));
    }
    let fields: Vec<Field> =
        rows.schema().fields().iter().map(|field| Field::new(field.name(), DataType::Utf8, true)).collect();
    RecordBatch::try_new_with_options(
        Arc::new(Schema::new(fields)),
        columns,
        &RecordBatchOptions::new().with_row_count(Some(count)),
    )
    .map_err(unshown)
}

/// The answer's columns, each that is estimated with its bounds behind it.
pub fn with_bounds(estimate: &Estimate) -> Result<RecordBatch> {
    let schema = estimate.rows.schema();
    let (mut fields, mut columns): (Vec<FieldRef>, Vec<ArrayRef>) = (Vec::new(), Vec::new());
    for ((field, column), bounds) in schema.fields().iter().zip(estimate.rows.columns()).zip(&estimate.bounds) {
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

/// Whether every value is known to within something.
pub fn is_bounded(estimate: &Estimate) -> Result<bool> {
    for (column, bounds) in estimate.rows.columns().iter().zip(&estimate.bounds) {
        if let Some(bounds) = bounds
            && errors(estimate, column, bounds)?.iter().any(|off| !off.is_finite())
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// How much each value of one of an estimate's columns may be off at most; infinity where nothing is known.
fn errors(estimate: &Estimate, column: &ArrayRef, bounds: &Bounds) -> Result<Vec<f64>> {
    let [value, lower, upper] = [numbers(column)?, numbers(&bounds.lower)?, numbers(&bounds.upper)?];
    let at = |array: &Float64Array, row: usize| array.is_valid(row).then(|| array.value(row));
    let off = |row: usize| match (at(&value, row), at(&lower, row), at(&upper, row)) {
        (Some(value), Some(lower), Some(upper)) => {
            let off = (value - lower).max(upper - value);
            if off.is_nan() { f64::INFINITY } else { off }
        }
        (None, None, None) if estimate.is_known => 0.0,
        _ => f64::INFINITY,
    };
    Ok((0..value.len()).map(off).collect())
}

fn numbers(column: &ArrayRef) -> Result<Float64Array> {
    cast(column, &DataType::Float64).map(|numbers| numbers.as_primitive::<Float64Type>().clone()).map_err(unshown)
}

fn unshown(error: ArrowError) -> Error {
    Error::internal(format!("an estimate cannot be shown: {error}"))
}

/// A value that may be this much off: with no more digits than that makes sense of.
fn estimated(value: f64, off: f64, is_whole: bool) -> String {
    let places = if is_whole { 0 } else { (1 - off.log10().floor() as i32).clamp(0, 12) as usize };
    let text = format!("{value:.places$}");
    let rounded_by = text.parse::<f64>().map_or(0.0, |shown| (shown - value).abs());
    let off = off + rounded_by;
    let share = off / value.abs();
    match share <= SHARE_MAX {
        true => format!("{} \u{b1} {} %", grouped(&text), rounded(100.0 * share, 2)),
        false => format!("{} \u{b1} {}", grouped(&text), grouped(&rounded(off, 2))),
    }
}

/// A number with commas between its thousands; any other text as it is.
fn grouped(text: &str) -> String {
    let digits_from = usize::from(text.starts_with('-'));
    let whole = text.find('.').unwrap_or(text.len());
    let digits = &text[digits_from..whole];
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.to_owned();
    }
    let mut grouped = text[..digits_from].to_owned();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + &text[whole..]
}

/// So many digits, rounded up, without zeros at the end of a fraction: what a value may be off is not made less.
pub fn rounded(value: f64, digits: i32) -> String {
    if value <= 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let places = digits - 1 - value.log10().floor() as i32;
    let scale = 10f64.powi(places.clamp(-300, 300));
    // What has so few digits already is not rounded further up for the last bit.
    let up = (value * scale * (1.0 - 1e-12)).ceil() / scale;
    let text = format!("{up:.*}", places.clamp(0, 12) as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use alluvia_query::IntervalKind;
    use alluvia_types::Version;
    use arrow::array::Int64Array;
    use std::time::Duration;

    pub fn estimate() -> Refinement {
        let fields = ["country", "n", "mean"].map(|name| match name {
            "country" => Field::new(name, DataType::Utf8, true),
            "n" => Field::new(name, DataType::Int64, true),
            _ => Field::new(name, DataType::Float64, true),
        });
        let counts = |values: [i64; 2]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
        let means = |values: [f64; 2]| Arc::new(Float64Array::from(values.to_vec())) as ArrayRef;
        let columns = vec![
            Arc::new(StringArray::from(vec!["a", "b"])) as ArrayRef,
            counts([22_577_225, 7_000]),
            means([1.5, f64::NAN]),
        ];
        Refinement {
            rows: RecordBatch::try_new(Arc::new(Schema::new(fields.to_vec())), columns).unwrap(),
            bounds: vec![
                None,
                Some(Bounds { lower: counts([22_464_339, 7_000]), upper: counts([22_600_000, 7_000]) }),
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
        let shown = with_errors(&estimate().into(), 20).unwrap();
        let text = |column: usize, row: usize| shown.column(column).as_string::<i32>().value(row).to_owned();
        assert_eq!([text(0, 0), text(1, 0), text(1, 1)], ["a", "22,577,225 \u{b1} 0.5 %", "7,000"]);
        assert_eq!([text(2, 0), text(2, 1)], ["1.50 \u{b1} 17 %", "NaN \u{b1} ?"]);
        // A mean of no values is NULL where everything is known.
        let mut sum = Estimate::from(estimate());
        let nulls = Arc::new(Float64Array::from(vec![Some(1.5), None])) as ArrayRef;
        let columns = [sum.rows.columns()[..2].to_vec(), vec![Arc::clone(&nulls)]].concat();
        sum.rows = RecordBatch::try_new(sum.rows.schema(), columns).unwrap();
        sum.bounds[2] = Some(Bounds { lower: Arc::clone(&nulls), upper: nulls });
        assert_eq!(with_errors(&sum, 20).unwrap().column(2).as_string::<i32>().value(1), "? \u{b1} ?");
        sum.is_known = true;
        let shown = with_errors(&sum, 20).unwrap();
        assert!(shown.column(2).is_null(1), "{shown:?}");
    }

    #[test]
    fn values_have_the_digits_that_make_sense() {
        let cases = [
            (estimated(1_897_899_312.522_959_7, 9_400_000.0, false), "1,897,899,313 \u{b1} 0.5 %"),
            (estimated(485.022_904, 8.52, false), "485.0 \u{b1} 1.8 %"),
            (estimated(-0.001_234_5, 0.000_1, false), "-0.00123 \u{b1} 8.5 %"),
            (estimated(52_415.0, 1_560.0, true), "52,415 \u{b1} 3 %"),
            (estimated(3.0, 120.0, true), "3 \u{b1} 120"),
            (estimated(0.0, 1_234.0, true), "0 \u{b1} 1,300"),
        ];
        for (shown, expected) in cases {
            assert_eq!(shown, expected);
        }
        let texts = ["1", "-1234", "123456.7890", "1e20", "NaN", "", "-", "1000000"].map(grouped);
        assert_eq!(texts, ["1", "-1,234", "123,456.7890", "1e20", "NaN", "", "-", "1,000,000"]);
    }

    #[test]
    fn other_forms_have_the_bounds_as_columns() {
        let rows = with_bounds(&estimate().into()).unwrap();
        let names: Vec<String> = rows.schema().fields().iter().map(|field| field.name().clone()).collect();
        let bounds = |of: &str| [format!("lower_bound({of})"), format!("upper_bound({of})")];
        let [low, high] = bounds("n");
        let [least, most] = bounds("mean");
        assert_eq!(names, ["country".to_owned(), "n".to_owned(), low, high, "mean".to_owned(), least, most]);
        assert_eq!(rows.num_rows(), 2);
    }

    #[test]
    fn what_a_value_may_be_off_is_never_rounded_down() {
        let texts = [12.0, 0.25, 1234.1, 99.91, 0.001_234_1, 3e12].map(|value| rounded(value, 3));
        assert_eq!(texts, ["12", "0.25", "1240", "100", "0.00124", "3000000000000"]);
    }
}
