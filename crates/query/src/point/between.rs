//! Keys between two, of integers: bounds that count, and rows that lie within them.

use crate::by_key::{ColumnBounds, FoundRows, KeyRange};
use alluvia_snapshot::TableRead;
use alluvia_space::TableDef;
use alluvia_syntax::alike::Compared;
use alluvia_types::Error;
use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::kernels::cmp::{gt_eq, lt_eq};
use arrow::compute::{and, filter_record_batch};
use datafusion::common::{DataFusionError, Result, ScalarValue};

/// Keys whose columns have bounds.
#[derive(Debug)]
pub(crate) struct KeysBetween {
    /// Of each column of the key that has some, by its place in the definition: bounds that count themselves.
    bounds: Vec<(usize, Option<ScalarValue>, Option<ScalarValue>)>,
    /// `None` where no key is between.
    range: Option<KeyRange>,
}

impl KeysBetween {
    /// Of what the columns of the key are compared with, in its order; `None` of other columns than integers, where texts are no one key,
    /// and where all keys are meant.
    pub(super) fn new(compared: &[Compared<ScalarValue>], def: &TableDef) -> Option<KeysBetween> {
        let (mut bounds, mut is_empty) = (Vec::new(), false);
        let mut of_columns = Vec::with_capacity(compared.len());
        for (compared, at) in compared.iter().zip(def.key_columns()?) {
            let (mut least, mut most) = (None, None);
            if let Some(value) = &compared.equal {
                integer(value)?;
                (least, most) = (Some(value.clone()), Some(value.clone()));
            }
            if let Some((value, counts)) = &compared.least {
                match if *counts { Some(value.clone()) } else { beside(value, 1)? } {
                    Some(value) => least = Some(value),
                    None => is_empty = true,
                }
                integer(value)?;
            }
            if let Some((value, counts)) = &compared.most {
                match if *counts { Some(value.clone()) } else { beside(value, -1)? } {
                    Some(value) => most = Some(value),
                    None => is_empty = true,
                }
                integer(value)?;
            }
            let equal = compared.equal.clone();
            of_columns.push(match equal {
                Some(_) => ColumnBounds { equal, ..ColumnBounds::default() },
                None => ColumnBounds { least: least.clone(), most: most.clone(), equal },
            });
            if least.is_some() || most.is_some() {
                bounds.push((at, least, most));
            }
        }
        let range = match is_empty {
            true => None,
            false => Some(KeyRange::of_bounds(&of_columns, def)?),
        };
        Some(KeysBetween { bounds, range })
    }

    /// Whether others are the same.
    pub(super) fn is_same_as(&self, others: &KeysBetween) -> bool {
        self.bounds == others.bounds && self.range.is_some() == others.range.is_some()
    }

    pub(super) fn find(&self, read: &TableRead) -> alluvia_types::Result<Option<FoundRows>> {
        match &self.range {
            Some(range) => range.find(read),
            None => Ok(Some(FoundRows::default())),
        }
    }

    /// The rows that lie between, among some that have columns by places in the definition.
    pub(super) fn among(&self, rows: &RecordBatch, columns: &[usize]) -> Result<RecordBatch> {
        let mut all: Option<BooleanArray> = None;
        for (at, least, most) in &self.bounds {
            let place = columns.iter().position(|column| column == at).ok_or_else(|| {
                DataFusionError::External(Box::new(Error::internal("a column of the key was not read")))
            })?;
            let column = rows.column(place);
            let tests = [
                least.as_ref().map(|least| gt_eq(column, &least.to_scalar()?).map_err(DataFusionError::from)),
                most.as_ref().map(|most| lt_eq(column, &most.to_scalar()?).map_err(DataFusionError::from)),
            ];
            for test in tests.into_iter().flatten() {
                let test = test?;
                all = Some(match all {
                    Some(all) => and(&all, &test)?,
                    None => test,
                });
            }
        }
        match all {
            Some(all) => Ok(filter_record_batch(rows, &all)?),
            None => Ok(rows.clone()),
        }
    }
}

fn integer(value: &ScalarValue) -> Option<i64> {
    match *value {
        ScalarValue::Int16(Some(value)) => Some(value.into()),
        ScalarValue::Int32(Some(value)) => Some(value.into()),
        ScalarValue::Int64(Some(value)) => Some(value),
        _ => None,
    }
}

/// The next value or the one before, where there is one; `None` of what is no integer.
fn beside(value: &ScalarValue, by: i8) -> Option<Option<ScalarValue>> {
    Some(match *value {
        ScalarValue::Int16(Some(value)) => value.checked_add(by.into()).map(|value| ScalarValue::Int16(Some(value))),
        ScalarValue::Int32(Some(value)) => value.checked_add(by.into()).map(|value| ScalarValue::Int32(Some(value))),
        ScalarValue::Int64(Some(value)) => value.checked_add(by.into()).map(|value| ScalarValue::Int64(Some(value))),
        _ => return None,
    })
}
