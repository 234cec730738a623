//! From totals to the columns of an answer.
//!
//! Invariant: a value that the planner's own aggregate would give otherwise (an overflow, a variance that cancellation has
//! eaten) is not given at all: the whole answer is left to the general way.

use super::bound::Bound;
use super::clocks;
use super::names::{Names, first_codes};
use super::statement::{Aggregate, Item, Order};
use alluvia_space::codes::calendar;
use alluvia_space::{CalendarUnit, LevelSource};
use alluvia_syntax::Sureness;
use alluvia_tree::Answer;
use arrow::array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int16Array, Int32Array,
    Int64Array, RecordBatch, TimestampMicrosecondArray, TimestampNanosecondArray, UInt32Array,
};
use arrow::compute::{SortColumn, SortOptions, cast, filter_record_batch, lexsort_to_indices, take};
use arrow::datatypes::{DataType as ArrowType, SchemaRef, TimeUnit};
use std::collections::HashMap;
use std::sync::Arc;

/// Relative size of a variance against the mean square below which floats have lost too many digits.
const VARIANCE_SHARE_MIN: f64 = 1e-4;

/// The answer's rows; `None` where the general way must give them. The schema is that of all items, the rows are of those shown.
pub(super) fn batch(bound: &Bound, answer: &Answer, schema: &SchemaRef) -> Option<RecordBatch> {
    if answer.totals.is_spoilt() || schema.fields().len() != bound.items.len() {
        return None;
    }
    let mut groups: Vec<usize> = (0..answer.totals.groups()).filter(|&group| answer.totals.rows(group) > 0).collect();
    if bound.groups.is_empty() {
        // Without GROUP BY there is one group, also of no rows.
        groups = vec![0];
    }
    let mut columns = Vec::with_capacity(bound.items.len());
    for (item, field) in bound.items.iter().zip(schema.fields()) {
        let column: ArrayRef = match item {
            Item::Group(at) => group_column(bound, answer, *at, &groups, field.data_type())?,
            Item::Sureness(Sureness::RelativeError, ..) => Arc::new(Float64Array::from(vec![0.0; groups.len()])),
            Item::Sureness(Sureness::IsExact, ..) => Arc::new(BooleanArray::from(vec![true; groups.len()])),
            Item::Aggregate(aggregate, _) | Item::Sureness(Sureness::Lower | Sureness::Upper, aggregate, _) => {
                let measure = bound.item_measures[columns.len()];
                aggregate_column(bound, answer, *aggregate, measure, &groups, field.data_type())?
            }
        };
        columns.push(column);
    }
    shown(bound, finish(bound, columns, schema)?)
}

/// The columns that are shown, of those of all items.
pub(super) fn shown(bound: &Bound, batch: RecordBatch) -> Option<RecordBatch> {
    match bound.hidden {
        0 => Some(batch),
        hidden => batch.project(&(0..bound.items.len() - hidden).collect::<Vec<_>>()).ok(),
    }
}

/// The rows of these columns, of which the items' come first, that HAVING leaves, in the statement's order; `None` if they are not what
/// the schema says.
pub(super) fn finish(bound: &Bound, columns: Vec<ArrayRef>, schema: &SchemaRef) -> Option<RecordBatch> {
    for (column, field) in columns.iter().zip(schema.fields()) {
        if column.data_type() != field.data_type() || (column.null_count() > 0 && !field.is_nullable()) {
            return None;
        }
    }
    let mut batch = RecordBatch::try_new(Arc::clone(schema), columns).ok()?;
    if let Some(having) = &bound.having {
        batch = filter_record_batch(&batch, &having.passing(batch.columns())?).ok()?;
    }
    ordered(batch, &bound.order, bound.limit, bound.offset)
}

/// Members of one name under several parents are one group: totals of an answer whose groups are members, as those of cuboids are, are
/// added. `None` inside where nothing is to be added.
pub(super) fn merge_by_name(bound: &Bound, answer: &Answer, names: &Names) -> Option<Option<Answer>> {
    let first_codes = first_codes(bound, names)?;
    if first_codes.iter().all(Option::is_none) {
        return Some(None);
    }
    let mut merged = Answer::new(&bound.asked()[0], answer.keys.clone());
    let mut first: HashMap<Vec<u32>, usize> = HashMap::new();
    let measures: Vec<usize> = (0..bound.measures.len()).collect();
    for group in (0..answer.totals.groups()).filter(|&group| answer.totals.rows(group) > 0) {
        let mut codes = answer.keys.codes(group);
        for (code, first_codes) in codes.iter_mut().zip(&first_codes) {
            if let Some(first_codes) = first_codes {
                *code = first_codes.get(*code)?;
            }
        }
        let place = *first.entry(codes).or_insert(group);
        merged.add_group(place, &answer.totals, group, &measures);
    }
    Some(Some(merged))
}

pub(super) fn group_column(
    bound: &Bound,
    answer: &Answer,
    at: usize,
    groups: &[usize],
    to: &ArrowType,
) -> Option<ArrayRef> {
    let codes: Vec<u32> = groups.iter().map(|&group| answer.keys.codes(group)[at]).collect();
    if bound.maps[at].is_some() {
        return (*to == ArrowType::UInt32).then(|| Arc::new(UInt32Array::from(codes)) as ArrayRef);
    }
    let (_, _, level) = bound.def.levels().nth(bound.groups[at])?;
    match level.source {
        LevelSource::Column(_) => {
            let members = bound.dictionaries.value_array(bound.groups[at]).ok()?;
            let values = take(&members, &UInt32Array::from(codes), None).ok()?;
            cast(&values, to).ok()
        }
        // The first and the last code stand for all times before and after.
        LevelSource::Calendar(..) | LevelSource::Local(..)
            if codes.iter().any(|&code| code == 1 || code == u32::MAX) =>
        {
            None
        }
        LevelSource::Local(_, unit) => {
            let zone = bound.def.dimensions[bound.dimensions[bound.groups[at]]].zone.as_ref()?;
            clocks::starts(&codes, unit, zone, to)
        }
        LevelSource::Calendar(_, unit) => {
            let units = codes.iter().map(|&code| calendar::units_of_code(code));
            let micros = |units: Option<i64>| units.map(|units| calendar::start_micros(units, unit));
            match to {
                ArrowType::Timestamp(TimeUnit::Microsecond, zone) => {
                    let starts: TimestampMicrosecondArray = units.map(micros).collect();
                    Some(Arc::new(starts.with_timezone_opt(zone.clone())))
                }
                // A day is its own start; what is cut to larger units becomes a timestamp of the planner's.
                ArrowType::Date32 if unit == CalendarUnit::Day => {
                    let days = units.map(|units| units.map(|units| i32::try_from(units).ok()));
                    let days = days.map(|day| day.map_or(Some(None), |fits| fits.map(Some)));
                    Some(Arc::new(Date32Array::from(days.collect::<Option<Vec<Option<i32>>>>()?)))
                }
                ArrowType::Timestamp(TimeUnit::Nanosecond, None) => {
                    let nanos = |units: Option<i64>| match micros(units) {
                        None => Some(None),
                        Some(micros) => micros.checked_mul(1_000).map(Some),
                    };
                    Some(Arc::new(TimestampNanosecondArray::from(units.map(nanos).collect::<Option<Vec<_>>>()?)))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

fn aggregate_column(
    bound: &Bound,
    answer: &Answer,
    aggregate: Aggregate,
    measure: Option<usize>,
    groups: &[usize],
    to: &ArrowType,
) -> Option<ArrayRef> {
    let totals = &answer.totals;
    let Some(measure) = measure else {
        let counts = groups.iter().map(|&group| i64::try_from(totals.rows(group)).ok());
        let counts: Vec<i64> = counts.collect::<Option<_>>()?;
        return Some(Arc::new(Int64Array::from(counts)));
    };
    let measured = &totals.measures()[measure];
    let column = bound.def.column_by_id(measured.of().column)?;
    let is_float = measured.of().is_float;
    let filled = |group: usize| measured.count(group) > 0;
    match aggregate {
        Aggregate::Count => {
            let counts = groups.iter().map(|&group| i64::try_from(measured.count(group)).ok());
            Some(Arc::new(Int64Array::from(counts.collect::<Option<Vec<i64>>>()?)))
        }
        Aggregate::Sum if is_float => {
            floats(groups.iter().map(|&group| filled(group).then(|| measured.float_sum(group))), to)
        }
        // As a plan sums integers that it takes for floats.
        Aggregate::Sum if *to == ArrowType::Float64 && column.data_type.digits().is_none() => {
            floats(groups.iter().map(|&group| filled(group).then(|| measured.exact_sum(group) as f64)), to)
        }
        Aggregate::Sum => integers(groups.iter().map(|&group| filled(group).then(|| measured.exact_sum(group))), to),
        Aggregate::Min | Aggregate::Max => {
            let least = aggregate == Aggregate::Min;
            if is_float {
                // The two zeros are equal: what is given is the one without a sign.
                let pick = |(min, max): (f64, f64)| (if least { min } else { max }) + 0.0;
                floats(groups.iter().map(|&group| measured.float_bounds(group).map(pick)), to)
            } else {
                let pick = |(min, max): (i128, i128)| if least { min } else { max };
                integers(groups.iter().map(|&group| measured.exact_bounds(group).map(pick)), to)
            }
        }
        Aggregate::Avg => match column.data_type.digits() {
            Some((_, scale)) => {
                let mean = |group: usize| decimal_mean(measured.exact_sum(group), measured.count(group), scale, to);
                let means = groups.iter().map(|&group| if filled(group) { mean(group).map(Some) } else { Some(None) });
                integers(means.collect::<Option<Vec<_>>>()?.into_iter(), to)
            }
            _ => {
                let mean = |group: usize| {
                    let sum = if is_float { measured.float_sum(group) } else { measured.exact_sum(group) as f64 };
                    sum / measured.count(group) as f64
                };
                floats(groups.iter().map(|&group| filled(group).then(|| mean(group))), to)
            }
        },
        _ if column.data_type.digits().is_some() => None,
        _ => {
            let sample = matches!(aggregate, Aggregate::VarSample | Aggregate::StddevSample);
            let root = matches!(aggregate, Aggregate::StddevSample | Aggregate::StddevPopulation);
            let mut spreads = Vec::with_capacity(groups.len());
            for &group in groups {
                let count = measured.count(group);
                if count <= u64::from(sample) {
                    spreads.push(None);
                    continue;
                }
                let n = count as f64;
                let squares = if is_float {
                    let (sum, squares) = (measured.float_sum(group), measured.float_squares(group));
                    let spread = squares - sum * sum / n;
                    if spread < VARIANCE_SHARE_MIN * squares {
                        return None;
                    }
                    spread
                } else {
                    // n * sum of squares - square of the sum is exact.
                    let sum = measured.exact_sum(group);
                    let spread = measured.exact_squares(group).checked_mul(i128::from(count))?;
                    spread.checked_sub(sum.checked_mul(sum)?)? as f64 / n
                };
                let variance = squares / if sample { n - 1.0 } else { n };
                spreads.push(Some(if root { variance.sqrt() } else { variance }));
            }
            floats(spreads.into_iter(), to)
        }
    }
}

/// The average of decimals of a scale, of which there is at least one, in units of the scale of the planner's type: what is left over is
/// cut off, as the planner's `avg` does it. `None` where 128 bits do not hold what it divides.
fn decimal_mean(sum: i128, count: u64, scale: u8, to: &ArrowType) -> Option<i128> {
    let ArrowType::Decimal128(_, of_mean) = to else { return None };
    let more = u8::try_from(*of_mean).ok()?.checked_sub(scale)?;
    sum.checked_mul(10i128.checked_pow(more.into())?)?.checked_div(count.into())
}

pub(super) fn floats(values: impl Iterator<Item = Option<f64>>, to: &ArrowType) -> Option<ArrayRef> {
    match to {
        ArrowType::Float64 => Some(Arc::new(values.collect::<Float64Array>())),
        ArrowType::Float32 => {
            Some(Arc::new(values.map(|value| value.map(|value| value as f32)).collect::<Float32Array>()))
        }
        _ => None,
    }
}

pub(super) fn integers(values: impl Iterator<Item = Option<i128>>, to: &ArrowType) -> Option<ArrayRef> {
    fn each<T: TryFrom<i128>>(values: impl Iterator<Item = Option<i128>>) -> Option<Vec<Option<T>>> {
        values
            .map(|value| value.map(|value| T::try_from(value).ok()).map_or(Some(None), |fits| fits.map(Some)))
            .collect()
    }
    Some(match to {
        ArrowType::Int16 => Arc::new(Int16Array::from(each::<i16>(values)?)),
        ArrowType::Int32 => Arc::new(Int32Array::from(each::<i32>(values)?)),
        ArrowType::Int64 => Arc::new(Int64Array::from(each::<i64>(values)?)),
        ArrowType::Decimal128(precision, scale) => {
            let bound = 10i128.checked_pow((*precision).into())?;
            let values: Vec<Option<i128>> = values.collect();
            if values.iter().flatten().any(|value| value.unsigned_abs() >= bound.unsigned_abs()) {
                return None;
            }
            Arc::new(Decimal128Array::from(values).with_precision_and_scale(*precision, *scale).ok()?)
        }
        _ => return None,
    })
}

fn ordered(batch: RecordBatch, order: &[Order], limit: Option<usize>, offset: usize) -> Option<RecordBatch> {
    let mut batch = batch;
    if !order.is_empty() && batch.num_rows() > 1 {
        let columns: Vec<SortColumn> = order
            .iter()
            .map(|order| SortColumn {
                values: Arc::clone(batch.column(order.item)),
                options: Some(SortOptions { descending: order.descending, nulls_first: order.nulls_first }),
            })
            .collect();
        let indices = lexsort_to_indices(&columns, None).ok()?;
        let columns =
            batch.columns().iter().map(|column| take(column, &indices, None)).collect::<Result<_, _>>().ok()?;
        batch = RecordBatch::try_new(batch.schema(), columns).ok()?;
    }
    let offset = offset.min(batch.num_rows());
    let length = limit.unwrap_or(usize::MAX).min(batch.num_rows() - offset);
    Some(batch.slice(offset, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_of_decimals_have_four_more_digits_and_lose_the_rest() {
        let to = ArrowType::Decimal128(16, 6);
        let mean = |sum, count| decimal_mean(sum, count, 2, &to);
        // 0.02 / 3, and the same below zero: towards zero.
        assert_eq!((mean(2, 3), mean(-2, 3)), (Some(6_666), Some(-6_666)));
        assert_eq!((mean(500, 4), mean(-1, 40_000)), (Some(1_250_000), Some(0)));
        // At the largest scale there are none.
        let full = ArrowType::Decimal128(38, 38);
        assert_eq!(decimal_mean(7, 2, 38, &full), Some(3));
        assert_eq!(decimal_mean(i128::MAX / 10, 2, 36, &full), None);
        assert_eq!(decimal_mean(1, 2, 2, &ArrowType::Float64), None);
    }
}
