//! What a compiled query makes of the rows that it has found: their order, groups, and the answer.

use crate::expr::{Expr, Rows};
use crate::names::ColumnPlace;
use crate::query::{FoundIn, OrderKey, Output, OutputValue, PointQuery};
use crate::run::{OwnRows, Running, Tuple};
use crate::value::{Value, scaled, stored_as_it_is};
use alluvia_heap::{HeapView, RowRef};
use alluvia_types::Version;
use arrow::array::{Array, ArrayRef, Decimal128Array, Int64Array, RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion_common::ScalarValue;
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What a query has found.
#[derive(Debug)]
pub struct FoundRows {
    /// The answer, by its schema.
    pub answer: Option<RecordBatch>,
    /// Rows of its first table, in their order, with the columns that were asked for, by storage name.
    pub rows: RecordBatch,
    /// Entries of indexes and own rows that were looked at.
    pub looked_at: usize,
}

impl PointQuery {
    /// Runs it with values, over heaps in the order of its tables, with what the transaction has changed of each. `schema` is that of the
    /// answer, if one is wanted; `columns` are those that are wanted of the first table. `None` where it must be planned.
    pub fn run(
        &self,
        heaps: (&[HeapView<'_>], &[OwnRows]),
        version: Version,
        parameters: &[ScalarValue],
        schema: Option<&SchemaRef>,
        columns: &[usize],
    ) -> Option<FoundRows> {
        // Of a comparison with NULL planning makes what it likes: the types of sums, for one, are others then.
        if parameters.iter().any(ScalarValue::is_null) {
            return None;
        }
        let (limit, offset) = (self.count(&self.limit, parameters)?, self.count(&self.offset, parameters)?);
        let offset = offset.unwrap_or(0);
        let wanted = limit.map_or(usize::MAX, |limit| limit.saturating_add(offset));
        let is_own = heaps.1.iter().any(|own| !own.is_empty());
        let is_sorted = (self.order.is_empty() || self.found_in != FoundIn::AnyOrder) && !is_own;
        let enough = if is_sorted && self.groups.is_none() { wanted } else { usize::MAX };
        if wanted == 0 {
            // Whether anything else is an error is for planning.
            return None;
        }
        let (mut found, looked_at) = Running::new(self, heaps, version, parameters, enough).run()?;
        if let Some(groups) = &self.groups {
            let answer = self.grouped(&found, groups, (offset, limit), schema?)?;
            let none = heaps.0.first()?.heap().layout().decoded(&[], columns).ok()?;
            return Some(FoundRows { answer: Some(answer), rows: none, looked_at });
        }
        if !is_sorted || self.found_in == FoundIn::AnyOrder {
            self.sort(&mut found)?;
        }
        let found: Vec<Tuple<'_>> = found.into_iter().skip(offset).take(limit.unwrap_or(usize::MAX)).collect();
        let of_table =
            |table: usize| -> Option<Vec<RowRef<'_>>> { found.iter().map(|tuple| *tuple.get(table)?).collect() };
        let rows = heaps.0.first()?.heap().layout().decoded(&of_table(0)?, columns).ok()?;
        let answer = match schema {
            None => None,
            Some(schema) => {
                let mut arrays = Vec::with_capacity(self.outputs.len());
                for (output, field) in self.outputs.iter().zip(schema.fields()) {
                    let OutputValue::Column(place) = output.value else { return None };
                    let layout = heaps.0.get(place.table)?.heap().layout();
                    let column = layout.decoded(&of_table(place.table)?, &[place.column]).ok()?;
                    arrays.push(fitted(column.column(0), field.data_type())?);
                }
                let options = RecordBatchOptions::new().with_row_count(Some(found.len()));
                Some(RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options).ok()?)
            }
        };
        Some(FoundRows { answer, rows, looked_at })
    }

    /// LIMIT or OFFSET; inside, `None` where there is none.
    fn count(&self, of: &Option<Expr>, parameters: &[ScalarValue]) -> Option<Option<usize>> {
        match of {
            None => Some(None),
            Some(expr) => match expr.value(parameters, Rows::None)? {
                Value::Int(number, _) => Some(Some(usize::try_from(number).ok()?)),
                _ => None,
            },
        }
    }

    fn sort(&self, found: &mut [Tuple<'_>]) -> Option<()> {
        if self.order.is_empty() || found.len() < 2 {
            return Some(());
        }
        let mut keyed = Vec::with_capacity(found.len());
        for (at, tuple) in found.iter().enumerate() {
            let key = |of: &OrderKey| match of.by {
                OutputValue::Column(place) => self.value(tuple, place),
                _ => None,
            };
            keyed.push((self.order.iter().map(key).collect::<Option<Vec<Value>>>()?, at));
        }
        let sorted = self.sorted(keyed)?;
        let ordered: Vec<Tuple<'_>> = sorted.into_iter().map(|at| found[at].clone()).collect();
        found.clone_from_slice(&ordered);
        Some(())
    }

    /// The places of keys in their order.
    fn sorted(&self, mut keyed: Vec<(Vec<Value>, usize)>) -> Option<Vec<usize>> {
        let mut is_known = true;
        keyed.sort_by(|(a, first), (b, second)| {
            for ((a, b), key) in a.iter().zip(b).zip(&self.order) {
                let ordering = a.ordered(b).unwrap_or_else(|| {
                    is_known = false;
                    Ordering::Equal
                });
                let ordering = if key.is_descending { ordering.reverse() } else { ordering };
                if ordering.is_ne() {
                    return ordering;
                }
            }
            first.cmp(second)
        });
        is_known.then(|| keyed.into_iter().map(|(_, at)| at).collect())
    }

    fn value(&self, tuple: &Tuple<'_>, place: ColumnPlace) -> Option<Value> {
        let column = self.entries.get(place.table)?.def.columns.get(place.column)?;
        Value::of_cell(column, tuple.get(place.table)?.as_ref()?.cell(place.column))
    }

    fn grouped(
        &self,
        found: &[Tuple<'_>],
        groups: &[ColumnPlace],
        (offset, limit): (usize, Option<usize>),
        schema: &SchemaRef,
    ) -> Option<RecordBatch> {
        let mut rows_of: Vec<Vec<usize>> = Vec::new();
        if groups.is_empty() {
            rows_of.push((0..found.len()).collect());
        }
        let mut known: HashMap<Vec<Value>, usize> = HashMap::new();
        for (at, tuple) in found.iter().enumerate().filter(|_| !groups.is_empty()) {
            let values = groups.iter().map(|&place| self.value(tuple, place)).collect::<Option<Vec<Value>>>()?;
            let group = *known.entry(values).or_insert_with(|| {
                rows_of.push(Vec::new());
                rows_of.len() - 1
            });
            rows_of[group].push(at);
        }
        let mut rows = Vec::with_capacity(rows_of.len());
        for of_group in &rows_of {
            let value = |output: &Output| self.aggregate(&output.value, found, of_group);
            rows.push(self.outputs.iter().map(value).collect::<Option<Vec<Value>>>()?);
        }
        let place = |key: &OrderKey| self.outputs.iter().position(|output| output.value == key.by);
        let places = self.order.iter().map(place).collect::<Option<Vec<usize>>>()?;
        let keyed = rows.iter().map(|row| places.iter().map(|&at| row[at].clone()).collect()).zip(0..).collect();
        let order = self.sorted(keyed)?;
        let order: Vec<usize> = order.into_iter().skip(offset).take(limit.unwrap_or(usize::MAX)).collect();
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.outputs.len());
        for (at, (output, field)) in self.outputs.iter().zip(schema.fields()).enumerate() {
            let values: Vec<Value> = order.iter().map(|&row| rows[row][at].clone()).collect();
            arrays.push(self.array(&output.value, values, field.data_type())?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(order.len()));
        RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options).ok()
    }

    fn aggregate(&self, of: &OutputValue, found: &[Tuple<'_>], rows: &[usize]) -> Option<Value> {
        let values = |place: ColumnPlace| {
            let values = rows.iter().map(move |&row| self.value(&found[row], place));
            values.filter(|value| *value != Some(Value::Null))
        };
        Some(match of {
            OutputValue::Column(place) => self.value(found.get(*rows.first()?)?, *place)?,
            OutputValue::CountAll => Value::of_integer(rows.len() as i64),
            OutputValue::Count(place, false) => {
                let mut count = 0;
                for value in values(*place) {
                    value?;
                    count += 1;
                }
                Value::of_integer(count)
            }
            OutputValue::Count(place, true) => {
                let mut known = HashSet::new();
                for value in values(*place) {
                    known.insert(value?);
                }
                Value::of_integer(known.len() as i64)
            }
            OutputValue::Sum(place) => {
                let mut sum: Option<(i128, u8)> = None;
                for value in values(*place) {
                    let (number, digits) = value?.decimal()?;
                    let (known, _) = sum.unwrap_or((0, digits));
                    sum = Some((known.checked_add(number)?, digits));
                }
                sum.map_or(Value::Null, |(number, digits)| Value::Decimal(number, digits))
            }
            OutputValue::Extreme(place, is_least) => {
                let mut best: Option<Value> = None;
                for value in values(*place) {
                    let value = value?;
                    let is_better = match &best {
                        None => true,
                        Some(best) => {
                            let ordering = value.ordered(best)?;
                            if *is_least { ordering.is_lt() } else { ordering.is_gt() }
                        }
                    };
                    if is_better {
                        best = Some(value);
                    }
                }
                best.unwrap_or(Value::Null)
            }
        })
    }

    /// Values of an output as a column of the answer's type.
    fn array(&self, of: &OutputValue, values: Vec<Value>, wanted: &DataType) -> Option<ArrayRef> {
        match of {
            OutputValue::Column(place) | OutputValue::Extreme(place, _) => {
                let column = self.entries.get(place.table)?.def.columns.get(place.column)?;
                let column = alluvia_space::Column { nullable: true, ..column.clone() };
                fitted(&stored_as_it_is(&column, &values)?, wanted)
            }
            OutputValue::CountAll | OutputValue::Count(..) => {
                let number = |value: &Value| if let Value::Int(number, _) = value { Some(*number) } else { None };
                fitted(&(Arc::new(values.iter().map(number).collect::<Int64Array>()) as ArrayRef), wanted)
            }
            OutputValue::Sum(_) => match wanted {
                DataType::Int64 => {
                    let number = |value: &Value| match value {
                        Value::Null => Some(None),
                        Value::Decimal(number, 0) => Some(Some(i64::try_from(*number).ok()?)),
                        _ => None,
                    };
                    let numbers = values.iter().map(number).collect::<Option<Vec<_>>>()?;
                    Some(Arc::new(Int64Array::from(numbers)))
                }
                DataType::Decimal128(precision, scale) => {
                    let limit = 10i128.checked_pow((*precision).into())?;
                    let number = |value: &Value| match value {
                        Value::Null => Some(None),
                        Value::Decimal(number, digits) => {
                            let more = u8::try_from(*scale).ok()?.checked_sub(*digits)?;
                            Some(Some(scaled(*number, more).filter(|number| number.abs() < limit)?))
                        }
                        _ => None,
                    };
                    let numbers = values.iter().map(number).collect::<Option<Vec<_>>>()?;
                    let numbers = Decimal128Array::from(numbers).with_precision_and_scale(*precision, *scale);
                    Some(Arc::new(numbers.ok()?))
                }
                _ => None,
            },
        }
    }
}

/// A column in the type of the answer's; `None` where a value does not fit into it.
fn fitted(column: &ArrayRef, wanted: &DataType) -> Option<ArrayRef> {
    if column.data_type() == wanted {
        return Some(Arc::clone(column));
    }
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(column, wanted, &strict).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{AsArray, Int32Array};
    use arrow::datatypes::Int32Type;

    #[test]
    fn a_value_that_does_not_fit_is_for_planning() {
        let numbers = |number: i64| Arc::new(Int64Array::from(vec![number])) as ArrayRef;
        let fits = fitted(&numbers(7), &DataType::Int32).unwrap();
        assert_eq!(fits.as_primitive::<Int32Type>(), &Int32Array::from(vec![7]));
        assert!(fitted(&numbers(1 << 40), &DataType::Int32).is_none());
    }
}
