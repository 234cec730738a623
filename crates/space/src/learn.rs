//! Ranges of numbers and times that a declaration leaves open, learnt from the first rows that are sorted.
//!
//! A range only decides how well keys spread rows; values outside it clamp to its ends, and no answer depends on it. Once
//! fixed it never changes, so it is made for the rows to come: times go on to the right for as long again as the sample
//! spans, and for four years at least; numbers get a margin on both sides. A few stray values (a date in 9999) are
//! left out where they would stretch the range more than fourfold.
//!
//! Invariants:
//! - The result has one range per dimension, and each is fixed: `None`, `Linear` or `Quantiles`.
//! - Declared ranges are returned as they are.
//! - The same sample gives the same ranges.

use crate::numbers::Numbers;
use crate::schema::{Column, DataType, Dimension, KeyRange, LevelSource, TableDef};
use arrow::record_batch::RecordBatch;

/// Most values of a column that are looked at.
const SAMPLE_MAX: usize = 1 << 18;
/// Numbers further out count as this, so that no range overflows.
const LARGEST: f64 = 1e300;
/// Share of values that may be left out at either end.
const STRAY_SHARE: f64 = 0.001;
/// How much longer the whole span must be than that of the rest, for stray values to be left out.
const STRAY_STRETCH: f64 = 4.0;
/// How long times go on at least.
const YEARS_AHEAD: f64 = 4.0;
/// The range of numbers, when the sample has none.
const NUMBERS_UNSEEN: (f64, f64) = (0.0, 1e6);
/// The range of times in days since 1970, when the sample has none: 2020 to 2040.
const DAYS_UNSEEN: (f64, f64) = (18_262.0, 25_567.0);

/// A fixed range for each dimension: declared ones as they are, open ones learnt from rows in storage form.
pub fn ranges(def: &TableDef, sample: &[RecordBatch]) -> Vec<KeyRange> {
    def.dimensions.iter().map(|dimension| range(def, dimension, sample)).collect()
}

fn range(def: &TableDef, dimension: &Dimension, sample: &[RecordBatch]) -> KeyRange {
    let learnt = matches!(dimension.range, KeyRange::Learnt | KeyRange::LearntQuantiles);
    let column = dimension.levels.first().and_then(|level| def.column_by_id(level.source.column()));
    let (true, Some(column)) = (learnt, column) else { return dimension.range.clone() };
    let values = sorted_values(column, sample);
    if dimension.range == KeyRange::LearntQuantiles {
        let finest = dimension.levels.iter().filter_map(|level| match level.source {
            LevelSource::Halved { halvings, .. } => Some(halvings),
            _ => None,
        });
        return KeyRange::Quantiles { cuts: quantiles(&values, 1 << finest.max().unwrap_or(0)) };
    }
    let (low, high) = if column.data_type.is_time() {
        times(&values, if column.data_type == DataType::Date { 1.0 } else { 86_400e6 })
    } else {
        numbers(&values)
    };
    KeyRange::Linear { low, high }
}

/// Finite values of the column, evenly picked, ascending.
fn sorted_values(column: &Column, sample: &[RecordBatch]) -> Vec<f64> {
    let rows: usize = sample.iter().map(RecordBatch::num_rows).sum();
    let step = rows.div_ceil(SAMPLE_MAX).max(1);
    let mut values: Vec<f64> = Vec::with_capacity(rows / step + 1);
    let mut skip = 0;
    for batch in sample {
        let array = batch.column_by_name(&column.storage_name);
        let Some(numbers) = array.and_then(|array| Numbers::new(array).ok()) else { continue };
        let mut read = vec![0.0; batch.num_rows()];
        numbers.fill(0, &mut read);
        values.extend(read.iter().skip(skip).step_by(step));
        skip = (skip + step - read.len() % step) % step;
    }
    values.retain(|value| value.is_finite());
    values.iter_mut().for_each(|value| *value = value.clamp(-LARGEST, LARGEST));
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// The span of ascending values, without stray ones.
fn span(values: &[f64]) -> Option<(f64, f64)> {
    let (&low, &high) = (values.first()?, values.last()?);
    let stray = ((values.len() as f64 * STRAY_SHARE) as usize).max(1);
    if values.len() < 100 {
        return Some((low, high));
    }
    let (inner_low, inner_high) = (values[stray], values[values.len() - 1 - stray]);
    let stretched = inner_high > inner_low && high - low > STRAY_STRETCH * (inner_high - inner_low);
    Some(if stretched { (inner_low, inner_high) } else { (low, high) })
}

fn times(values: &[f64], day: f64) -> (f64, f64) {
    let Some((low, high)) = span(values) else { return (DAYS_UNSEEN.0 * day, DAYS_UNSEEN.1 * day) };
    let length = high - low;
    let ahead = length.max(YEARS_AHEAD * 365.25 * day);
    (((low - length / 4.0) / day).floor() * day, ((high + ahead) / day).ceil() * day)
}

fn numbers(values: &[f64]) -> (f64, f64) {
    let Some((low, high)) = span(values) else { return NUMBERS_UNSEEN };
    let margin = if high > low { (high - low) / 8.0 } else { (low.abs() / 2.0).max(1.0) };
    // What was never negative is not expected to be.
    let floor = if low >= 0.0 { 0.0 } else { -2.0 * LARGEST };
    ((low - margin).max(floor), high + margin)
}

/// Cuts into equally full parts, between neighbours of the sample, so that also a small sample tells many parts apart.
fn quantiles(values: &[f64], parts: usize) -> Vec<f64> {
    let (Some(&first), Some(&last)) = (values.first(), values.last()) else {
        let (low, high) = NUMBERS_UNSEEN;
        return (1..parts).map(|at| low + (high - low) * at as f64 / parts as f64).collect();
    };
    let cut = |at: usize| {
        let place = at as f64 / parts as f64 * (values.len() - 1) as f64;
        let below = values[place as usize];
        let above = values[(place as usize + 1).min(values.len() - 1)];
        (below + (above - below) * place.fract()).clamp(first, last)
    };
    let mut cuts: Vec<f64> = (1..parts).map(cut).collect();
    cuts.sort_unstable_by(f64::total_cmp);
    cuts
}

#[cfg(test)]
mod tests;
