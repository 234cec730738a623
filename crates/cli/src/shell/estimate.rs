//! Estimates as a person reads them: `22,577,225 ± 0.5 %`.
//!
//! Invariants:
//! - What a value may be off is rounded up, with what the value itself was rounded by: it is never shown less than it is.
//! - Values that are known are shown without. Other forms than tables have numbers, with their bounds beside them.

use super::output::{TABLE_ROWS_MAX, in_zone, table_with_note, texts};
use super::output_settings::OutputSettings;
use alluvia_query::{Bounds, Refinement};
use alluvia_types::{Error, Result};
use alluvia_values::thousands::with_commas;
use alluvia_values::time_zone::Zone;
use arrow::array::{Array, ArrayRef, AsArray, Float64Array, RecordBatch, RecordBatchOptions, StringArray};
use arrow::compute::cast;
use arrow::compute::kernels::cmp::not_distinct;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Schema};
use arrow::error::ArrowError;
use std::sync::Arc;

/// A value that may be off more often than so many times itself is shown with how much it may be off, and not with the
/// share.
const SHARE_MAX: f64 = 10.0;
/// With more digits behind the point, or zeros before it, a number is written with its power of ten.
const PLACES_MAX: i32 = 15;
/// What is at least this has no power of ten, however many digits make sense.
const TINY: f64 = 1e-5;

/// All rows of an answer of which something is estimated.
#[derive(Clone)]
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
            bounds: bounds.into_iter().map(|bounds| bounds.map(bounds_of)).collect(),
            is_known: true,
            confidence: None,
        }
    }
}

/// Bounds of a server's, as those of this process are.
pub fn bounds_of(bounds: alluvia_client::Bounds) -> Bounds {
    let alluvia_client::Bounds { lower, upper } = bounds;
    Bounds { lower, upper }
}

/// Writes an estimate as a table.
pub fn table_of_estimate(estimate: &Estimate, settings: &OutputSettings) -> Result<()> {
    let shown = shown(estimate, &settings.time_zone)?;
    let mut note = ", estimates: each within its \u{b1}".to_owned();
    if let Some(confidence) = estimate.confidence {
        note += &format!(" at confidence {confidence}");
    }
    table_with_note(&[shown], estimate.rows.num_rows(), &note, settings)
}

/// Rows as a table has them, with moments as clocks of a zone show them.
fn shown(estimate: &Estimate, zone: &Zone) -> Result<RecordBatch> {
    // Before they are texts.
    with_errors(&Estimate { rows: in_zone(&estimate.rows, zone)?, ..estimate.clone() }, TABLE_ROWS_MAX)
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
                    (Some(text), 0.0) => Some(with_commas(&text)),
                    (None, 0.0) => None,
                    (Some(text), off) if off.is_finite() => {
                        Some(estimated(values.value(row), off, is_whole.then_some(text.as_str())))
                    }
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

/// How much each value of one of an estimate's columns may be off at most: 0 of what is exact, infinity where nothing is known.
fn errors(estimate: &Estimate, column: &ArrayRef, bounds: &Bounds) -> Result<Vec<f64>> {
    let count = column.len();
    let (lower, upper) = (bounds.lower.slice(0, count), bounds.upper.slice(0, count));
    // In their own type: numbers of 64 bits and decimals may differ by less than a double tells.
    let is_exact = not_distinct(&lower, &upper).map_err(unshown)?;
    let [value, lower, upper] = [numbers(column)?, numbers(&lower)?, numbers(&upper)?];
    let off = |row: usize| {
        if is_exact.value(row) {
            // Bounds that are NULL are of a value that is, as an average of no values, or of one that nothing is known of.
            return if lower.is_valid(row) || estimate.is_known { 0.0 } else { f64::INFINITY };
        }
        if [&value, &lower, &upper].iter().any(|numbers| numbers.is_null(row)) {
            return f64::INFINITY;
        }
        let value = value.value(row);
        let (below, above) = (value - lower.value(row), upper.value(row) - value);
        if !below.is_finite() || !above.is_finite() {
            return f64::INFINITY;
        }
        below.max(above).max(value.abs() * f64::EPSILON).max(f64::MIN_POSITIVE)
    };
    Ok((0..count).map(off).collect())
}

fn numbers(column: &ArrayRef) -> Result<Float64Array> {
    cast(column, &DataType::Float64).map(|numbers| numbers.as_primitive::<Float64Type>().clone()).map_err(unshown)
}

fn unshown(error: ArrowError) -> Error {
    Error::internal(format!("an estimate cannot be shown: {error}"))
}

/// A value that may be this much off: with no more digits than that makes sense of. `whole` is the text of a whole number.
fn estimated(value: f64, off: f64, whole: Option<&str>) -> String {
    let places = 1 - off.log10().floor() as i32;
    let text = match whole {
        Some(text) => text.to_owned(),
        None if places <= PLACES_MAX || value.abs() >= TINY => {
            format!("{value:.*}", places.clamp(0, PLACES_MAX) as usize)
        }
        None => format!("{value:.*e}", (value.abs().log10().floor() as i32 + places).clamp(0, 16) as usize),
    };
    // What is shown is what the reader takes the share of.
    let shown = text.parse().unwrap_or(value);
    let off = off + (shown - value).abs();
    let share = off / shown.abs();
    match share <= SHARE_MAX {
        true => format!("{} \u{b1} {} %", with_commas(&text), rounded(100.0 * share, 2)),
        false => format!("{} \u{b1} {}", with_commas(&text), with_commas(&rounded(off, 2))),
    }
}

/// So many digits, rounded up, without zeros at the end of a fraction: what a value may be off is not made less.
pub fn rounded(value: f64, digits: usize) -> String {
    let text = format!("{value:.*e}", digits.saturating_sub(1));
    let parts = text.split_once('e').and_then(|(mantissa, exponent)| {
        let number: u64 = mantissa.replace('.', "").parse().ok()?;
        Some((number, exponent.parse::<i32>().ok()? - digits.saturating_sub(1) as i32))
    });
    // Infinities and NaN.
    let Some((mut number, mut power)) = parts else { return value.to_string() };
    // What has so few digits already is not rounded further up for the last bit.
    if text.parse::<f64>().is_ok_and(|shown| shown < value * (1.0 - 1e-12)) {
        number += 1;
    }
    while number > 0 && number.is_multiple_of(10) {
        (number, power) = (number / 10, power + 1);
    }
    if number == 0 {
        return "0".to_owned();
    }
    match power {
        0..=PLACES_MAX => format!("{number}{}", "0".repeat(power as usize)),
        power if (-PLACES_MAX..0).contains(&power) => {
            let places = power.unsigned_abs() as usize;
            let digits = format!("{number:0>width$}", width = places + 1);
            let (whole, fraction) = digits.split_at(digits.len() - places);
            format!("{whole}.{fraction}")
        }
        power => format!("{number}e{power}"),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use alluvia_query::IntervalKind;
    use alluvia_types::Version;
    use arrow::array::{Int64Array, TimestampMicrosecondArray};
    use proptest::prelude::*;
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
    fn moments_beside_estimates_are_of_the_zone() {
        let moments = TimestampMicrosecondArray::from(vec![0, 86_400_000_000]).with_timezone("UTC");
        let mut estimate = Estimate::from(estimate());
        let columns = [vec![Arc::new(moments) as ArrayRef], estimate.rows.columns()[1..].to_vec()].concat();
        let names = ["at", "n", "mean"].into_iter();
        estimate.rows =
            RecordBatch::try_from_iter_with_nullable(names.zip(columns).map(|(n, c)| (n, c, true))).unwrap();
        let zone = Zone::of_setting("Asia/Tokyo").expect("a zone");
        let shown = shown(&estimate, &zone).unwrap();
        let text = |column: usize| shown.column(column).as_string::<i32>().value(0).to_owned();
        assert_eq!([text(0), text(1)], ["1970-01-01 09:00:00+09", "22,577,225 \u{b1} 0.5 %"]);
    }

    #[test]
    fn values_have_the_digits_that_make_sense() {
        let cases = [
            (estimated(1_897_899_312.522_959_7, 9_400_000.0, None), "1,897,899,313 \u{b1} 0.5 %"),
            (estimated(485.022_904, 8.52, None), "485.0 \u{b1} 1.8 %"),
            (estimated(-0.001_234_5, 0.000_1, None), "-0.00123 \u{b1} 8.5 %"),
            (estimated(52_415.0, 1_560.0, Some("52415")), "52,415 \u{b1} 3 %"),
            (estimated(3.0, 120.0, Some("3")), "3 \u{b1} 120"),
            (estimated(0.0, 1_234.0, Some("0")), "0 \u{b1} 1,300"),
            // The share is of what is shown.
            (estimated(0.149, 1.0, None), "0.1 \u{b1} 1.1"),
            (estimated(1.04, 5.0, None), "1.0 \u{b1} 510 %"),
            // Tiny, and nearly exact.
            (estimated(4.884e-16, 5.2e-16, None), "4.9e-16 \u{b1} 110 %"),
            (estimated(0.1, 1.4e-17, None), "0.100000000000000 \u{b1} 0.000000000000014 %"),
            (
                estimated(1e18, 128.0, Some("1000000000000000001")),
                "1,000,000,000,000,000,001 \u{b1} 0.000000000000013 %",
            ),
        ];
        for (shown, expected) in cases {
            assert_eq!(shown, expected);
        }
    }

    proptest! {
        /// What is read off a text holds what was meant: the shown interval is no narrower than the one that is known.
        #[test]
        fn what_is_shown_holds_what_is_known(
            value in -9.0f64..9.0, magnitude in -30i32..30, off in 1.0f64..10.0, below in -12i32..3,
        ) {
            let value = value * 10f64.powi(magnitude);
            let off = off * 10f64.powi(magnitude + below);
            let text = estimated(value, off, None).replace(',', "");
            let (shown, told) = text.split_once(" \u{b1} ").expect("both");
            let shown: f64 = shown.parse().expect("a number");
            let told: f64 = match told.strip_suffix(" %") {
                Some(percent) => percent.parse::<f64>().expect("a number") / 100.0 * shown.abs(),
                None => told.parse().expect("a number"),
            };
            let slack = 1e-9 * off;
            prop_assert!(shown - told <= value - off + slack && value + off <= shown + told + slack, "{text} of {value} and {off}");
        }

        #[test]
        fn nothing_is_rounded_down(value in 1.0f64..10.0, power in -300i32..300, digits in 1usize..5) {
            let value = value * 10f64.powi(power);
            let shown: f64 = rounded(value, digits).parse().expect("a number");
            prop_assert!(shown >= value * (1.0 - 1e-11) && shown <= value * (1.0 + 10f64.powi(1 - digits as i32) * 1.01), "{shown} of {value}");
        }
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
        let texts = [12.0, 0.25, 1234.1, 99.91, 0.001_234_1, 3e12, 5e-324, 0.0].map(|value| rounded(value, 3));
        assert_eq!(texts, ["12", "0.25", "1240", "100", "0.00124", "3000000000000", "494e-326", "0"]);
        assert_eq!(rounded(f64::INFINITY, 3), "inf");
    }
}
