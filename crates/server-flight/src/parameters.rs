//! Values for the parameters of prepared statements.
//!
//! Invariants:
//! - A value means what it means in Arrow; where no literal of SQL has its type, it is given one that has the same values, or it is
//!   refused. What its type may be stored in or compared with is the statement's to say.
//! - The values of one call are bounded in bytes.

use crate::failure::malformed;
use crate::incoming_rows::IncomingRows;
use alluvia_query::{ScalarValue, from_datafusion};
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::sql_type::is_foreign_uuid;
use alluvia_values::widths::written_bytes;
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use futures::StreamExt;
use std::sync::Arc;

/// What a parameter may take beside its own bytes, so that many small rows are bounded, too.
const VALUE_BYTES: usize = 64;

/// All rows of values that a client sends for a statement with so many parameters; `None` if it sends none, not even their columns.
pub(crate) async fn take(
    incoming: &mut IncomingRows,
    parameters: usize,
    bytes_max: usize,
) -> Result<Option<Vec<Vec<ScalarValue>>>> {
    let Some(schema) = incoming.schema().await? else { return Ok(None) };
    if schema.fields().len() != parameters {
        let message = format!(
            "the statement has {parameters} parameters, and {} columns of values are given",
            schema.fields().len()
        );
        return Err(malformed(message).with_hint("give a column for each parameter, in their order"));
    }
    let (mut rows, mut bytes) = (Vec::new(), 0_usize);
    while let Some(batch) = incoming.next().await {
        let batch = batch?;
        // Values of dictionaries and runs become as many as there are rows.
        let written = usize::try_from(written_bytes(&batch)).unwrap_or(usize::MAX);
        bytes = bytes
            .saturating_add(batch.get_array_memory_size().max(written))
            .saturating_add(batch.num_rows().saturating_mul(parameters.max(1)).saturating_mul(VALUE_BYTES));
        if bytes > bytes_max {
            let message = format!("the values for parameters take more than {bytes_max} bytes");
            return Err(Error::new(ErrorKind::TooLarge, message)
                .with_hint("ingest many rows instead: clients call it adbc_ingest or bulk ingest"));
        }
        rows.extend(values(&batch)?);
    }
    Ok(Some(rows))
}

/// The rows of a batch.
fn values(batch: &RecordBatch) -> Result<Vec<Vec<ScalarValue>>> {
    let named = |at: usize, error: Error| error.at(format!("parameter ${}", at + 1));
    let schema = batch.schema_ref();
    let known = |(at, array): (usize, &ArrayRef)| {
        let is_uuid = is_foreign_uuid(schema.field(at));
        known(array, is_uuid).map_err(|error| named(at, error))
    };
    let columns = batch.columns().iter().enumerate().map(known).collect::<Result<Vec<ArrayRef>>>()?;
    let row = |row: usize| {
        let value = |(at, array): (usize, &ArrayRef)| {
            ScalarValue::try_from_array(array, row).map_err(|error| named(at, from_datafusion(error)))
        };
        columns.iter().enumerate().map(value).collect::<Result<Vec<ScalarValue>>>()
    };
    (0..batch.num_rows()).map(row).collect()
}

/// The same values in a type that literals have.
fn known(array: &ArrayRef, is_uuid: bool) -> Result<ArrayRef> {
    let wanted = match array.data_type() {
        DataType::Dictionary(_, values) => values.as_ref().clone(),
        DataType::RunEndEncoded(_, values) => values.data_type().clone(),
        DataType::Timestamp(unit, zone) if *unit != TimeUnit::Microsecond => {
            DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
        }
        DataType::Date64 => DataType::Date32,
        DataType::Time32(_) | DataType::Time64(TimeUnit::Nanosecond) => DataType::Time64(TimeUnit::Microsecond),
        DataType::FixedSizeBinary(_) if !is_uuid => DataType::Binary,
        DataType::Duration(_) => DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::Float16 => DataType::Float32,
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        _ => return Ok(Arc::clone(array)),
    };
    let failed = |error| Error::new(ErrorKind::InvalidValue, format!("values cannot be taken as {wanted}: {error}"));
    let taken = cast(array, &wanted).map_err(failed)?;
    let is_exact = || -> Result<bool> {
        let back = cast(&taken, array.data_type()).map_err(failed)?;
        Ok(back.as_ref() == array.as_ref())
    };
    // A cast that loses something says nothing.
    let may_lose = matches!(array.data_type(), DataType::Timestamp(..) | DataType::Time64(_) | DataType::Date64);
    if may_lose && !is_exact()? {
        return Err(Error::new(ErrorKind::InvalidValue, format!("a value has more digits than {wanted} has places"))
            .with_hint("times have microseconds, dates have days: round it before"));
    }
    known(&taken, is_uuid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Date64Array, DictionaryArray, StringArray, TimestampNanosecondArray};
    use arrow::datatypes::Int32Type;

    #[test]
    fn types_without_literals_become_others_of_the_same_values() {
        let coded: DictionaryArray<Int32Type> = vec![Some("x"), None].into_iter().collect();
        assert_eq!(
            known(&(Arc::new(coded) as ArrayRef), false).unwrap().as_ref(),
            &StringArray::from(vec![Some("x"), None])
        );
        let exact: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1_000]));
        assert_eq!(known(&exact, false).unwrap().data_type(), &DataType::Timestamp(TimeUnit::Microsecond, None));
        for lossy in [
            Arc::new(TimestampNanosecondArray::from(vec![1_000, 1_001])) as ArrayRef,
            Arc::new(Date64Array::from(vec![86_400_000 + 1])),
        ] {
            assert_eq!(known(&lossy, false).unwrap_err().kind(), ErrorKind::InvalidValue, "{:?}", lossy.data_type());
        }
    }
}
