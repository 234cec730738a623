//! Answering from rows that are in no segment yet.

use super::question::BoxQuery;
use super::segments::Answer;
use super::walk::integer_at;
use crate::side::scaled_integer;
use alluvia_space::LevelCodes;
use alluvia_types::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use std::ops::Range;

/// Adds those of some rows that lie in the box. `codes` has the rows' codes at every level that the query names (others may be
/// empty); `measures` the values of each of the query's measures, `None` for a column that the rows lack, which is NULL.
pub fn add_rows(
    query: &BoxQuery,
    codes: &LevelCodes,
    measures: &[Option<ArrayRef>],
    rows: Range<usize>,
    into: &mut Answer,
) -> Result<()> {
    into.counters.tail_rows += rows.len() as u64;
    for row in rows {
        if !query.filters.iter().all(|filter| filter.codes.contains(codes.levels[filter.level][row])) {
            continue;
        }
        let index = into.keys.index_of(query.groups.iter().map(|&level| codes.levels[level][row]));
        let index = index.ok_or_else(|| Error::internal("a row has a code that its table does not"))?;
        let group = into.group(index);
        into.totals.add_rows(group, 1);
        for (at, values) in measures.iter().enumerate() {
            if let Some(values) = values.as_ref().filter(|values| values.is_valid(row)) {
                add_value(values, row, at, group, into);
            }
        }
    }
    Ok(())
}

fn add_value(values: &ArrayRef, row: usize, measure: usize, group: usize, into: &mut Answer) {
    let float = match values.data_type() {
        DataType::Float32 => f64::from(values.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => values.as_primitive::<Float64Type>().value(row),
        _ => {
            match integer_at(values, row) {
                Some(value) => into.totals.add_integer(measure, group, value),
                None => into.totals.spoil(),
            }
            return;
        }
    };
    match scaled_integer(float) {
        Some((integer, scale)) => into.totals.add_scaled(measure, group, integer.into(), scale),
        None => into.totals.add_float(measure, group, float),
    }
}
