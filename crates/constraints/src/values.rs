//! Values of some columns, without those that have a NULL: what is locked, and looked for.
//!
//! Invariant: of values in the same types equal ones have equal bytes, whatever arrays they came in, and so one code: zeros of
//! both signs are equal, and so are NaNs.

use alluvia_types::{Error, Result, TableId};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::{CastOptions, cast_with_options, concat, filter_record_batch, take};
use arrow::datatypes::{DataType, Field, Float32Type, Float64Type, Schema};
use arrow::error::ArrowError;
use arrow::row::{RowConverter, SortField};
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, OnceLock};

/// Rows of values, none of which is NULL.
#[derive(Clone, Debug)]
pub struct Values {
    rows: RecordBatch,
}

/// What a value is known by.
pub type Bytes = Box<[u8]>;

impl Values {
    /// Values of columns at these places, in these types; a value that does not fit its type is none, and its row is left out.
    ///
    /// # Errors
    /// Types that have no cast to one another.
    pub fn of<'a>(
        batches: impl IntoIterator<Item = &'a RecordBatch>,
        places: &[usize],
        types: &[DataType],
    ) -> Result<Values> {
        let mut columns: Vec<Vec<ArrayRef>> = vec![Vec::new(); places.len()];
        for batch in batches {
            for ((column, place), wanted) in columns.iter_mut().zip(places).zip(types) {
                column.push(fitted(batch.column(*place), wanted)?);
            }
        }
        let joined = |(column, wanted): (&Vec<ArrayRef>, &DataType)| match column.as_slice() {
            [] => Ok(arrow::array::new_empty_array(wanted)),
            [one] => Ok(Arc::clone(one)),
            all => concat(&all.iter().map(AsRef::as_ref).collect::<Vec<_>>()).map_err(misfit),
        };
        Values::of_columns(columns.iter().zip(types).map(joined).collect::<Result<_>>()?)
    }

    /// Values of columns row by row, NULLs among them.
    pub fn aligned(batch: &RecordBatch, places: &[usize], types: &[DataType]) -> Result<Values> {
        let columns = places.iter().zip(types).map(|(place, wanted)| fitted(batch.column(*place), wanted));
        Ok(Values { rows: batch_of(columns.collect::<Result<_>>()?)? })
    }

    fn of_columns(columns: Vec<ArrayRef>) -> Result<Values> {
        let rows = batch_of(columns)?;
        let is_whole = |row: usize| rows.columns().iter().all(|column| column.is_valid(row));
        let keep: BooleanArray = (0..rows.num_rows()).map(|row| Some(is_whole(row))).collect();
        Ok(Values { rows: filter_record_batch(&rows, &keep).map_err(misfit)? })
    }

    /// In other types, without those that do not fit.
    pub fn cast_to(&self, types: &[DataType]) -> Result<Values> {
        let columns = self.rows.columns().iter().zip(types).map(|(column, wanted)| fitted(column, wanted));
        Values::of_columns(columns.collect::<Result<_>>()?)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.rows.num_rows()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What they hold in memory, about.
    pub fn bytes(&self) -> u64 {
        self.rows.get_array_memory_size() as u64
    }

    /// Their columns.
    pub fn columns(&self) -> &[ArrayRef] {
        self.rows.columns()
    }

    /// What each is known by.
    pub fn keys(&self) -> Result<Vec<Bytes>> {
        keys_of(self.rows.columns())
    }

    /// Each once.
    pub fn distinct(&self) -> Result<Values> {
        let mut seen = HashSet::with_capacity(self.len());
        let keys = self.keys()?;
        self.filtered(keys.into_iter().map(|key| seen.insert(key)))
    }

    /// All of these row by row, in the types of the first.
    pub fn joined(all: &[&Values]) -> Result<Values> {
        let first = all.first().ok_or_else(|| Error::internal("no values are joined"))?;
        let column = |(at, known): (usize, &ArrayRef)| {
            let parts = all.iter().map(|values| fitted(values.rows.column(at), known.data_type()));
            let parts = parts.collect::<Result<Vec<_>>>()?;
            concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<_>>()).map_err(misfit)
        };
        let columns = first.columns().iter().enumerate().map(column).collect::<Result<_>>()?;
        Ok(Values { rows: batch_of(columns)? })
    }

    /// Those whose keys are not among these.
    pub fn without(&self, known: &HashMap<Bytes, u64>) -> Result<Values> {
        let keys = self.keys()?;
        self.filtered(keys.iter().map(|key| !known.contains_key(key)))
    }

    /// Those for which it is so.
    pub fn filtered(&self, keep: impl Iterator<Item = bool>) -> Result<Values> {
        let keep: BooleanArray = keep.map(Some).collect();
        Ok(Values { rows: filter_record_batch(&self.rows, &keep).map_err(misfit)? })
    }

    /// Codes by which they are locked, of a table and what is said of it; columns count in this order.
    pub fn codes(&self, table: TableId, what: &str, order: &[usize]) -> Result<Vec<u128>> {
        let columns: Vec<ArrayRef> = order.iter().map(|at| Arc::clone(self.rows.column(*at))).collect();
        Ok(keys_of(&columns)?.iter().map(|key| code(table, what, key)).collect())
    }
}

/// How often each value comes in these rows, whose first columns are those that were looked for, by the types of the values.
pub fn counts(found: &[RecordBatch], types: &[DataType]) -> Result<HashMap<Bytes, u64>> {
    let mut counts = HashMap::new();
    let places: Vec<usize> = (0..types.len()).collect();
    for batch in found {
        for key in Values::of([batch], &places, types)?.keys()? {
            *counts.entry(key).or_default() += 1;
        }
    }
    Ok(counts)
}

/// What rows of these columns are known by.
pub fn keys_of(columns: &[ArrayRef]) -> Result<Vec<Bytes>> {
    let plain = columns.iter().map(|column| fitted(column, &plain_type(column.data_type())));
    let plain = plain.collect::<Result<Vec<_>>>()?;
    let fields = plain.iter().map(|column| SortField::new(column.data_type().clone())).collect();
    let rows = RowConverter::new(fields).and_then(|converter| converter.convert_columns(&plain)).map_err(misfit)?;
    Ok(rows.iter().map(|row| row.as_ref().into()).collect())
}

/// Rows taken of arrays.
pub fn taken(columns: &[ArrayRef], rows: &[usize]) -> Result<Vec<ArrayRef>> {
    let rows: UInt32Array = rows.iter().map(|row| *row as u32).collect();
    columns.iter().map(|column| take(column.as_ref(), &rows, None).map_err(misfit)).collect()
}

/// One type for each way in which texts and bytes are held.
fn plain_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => plain_type(values),
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        DataType::BinaryView | DataType::LargeBinary => DataType::Binary,
        other => other.clone(),
    }
}

fn fitted(column: &ArrayRef, wanted: &DataType) -> Result<ArrayRef> {
    if column.data_type() == wanted {
        return Ok(same_if_equal(column));
    }
    let options = CastOptions { safe: true, ..CastOptions::default() };
    Ok(same_if_equal(&cast_with_options(column, wanted, &options).map_err(misfit)?))
}

/// Numbers that are equal by one pattern of bits: zeros of both signs, and NaNs.
fn same_if_equal(column: &ArrayRef) -> ArrayRef {
    let double = |value: f64| {
        if value == 0.0 {
            0.0
        } else if value.is_nan() {
            f64::NAN
        } else {
            value
        }
    };
    let single = |value: f32| {
        if value == 0.0 {
            0.0
        } else if value.is_nan() {
            f32::NAN
        } else {
            value
        }
    };
    match column.data_type() {
        DataType::Float64 => Arc::new(column.as_primitive::<Float64Type>().unary::<_, Float64Type>(double)),
        DataType::Float32 => Arc::new(column.as_primitive::<Float32Type>().unary::<_, Float32Type>(single)),
        _ => Arc::clone(column),
    }
}

fn batch_of(columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    let field = |(at, column): (usize, &ArrayRef)| Field::new(format!("k{at}"), column.data_type().clone(), true);
    let schema = Schema::new(columns.iter().enumerate().map(field).collect::<Vec<_>>());
    let count = columns.first().map_or(0, |column| column.len());
    let options = RecordBatchOptions::new().with_row_count(Some(count));
    RecordBatch::try_new_with_options(Arc::new(schema), columns, &options).map_err(misfit)
}

/// A lock's code: of 128 bits that nobody can choose, for their secret is this process's own.
pub fn code(table: TableId, what: &str, key: &[u8]) -> u128 {
    static SECRETS: OnceLock<[RandomState; 2]> = OnceLock::new();
    let [high, low] = SECRETS.get_or_init(|| [RandomState::new(), RandomState::new()]);
    let of = |secret: &RandomState| secret.hash_one((table.0, what, key));
    (u128::from(of(high)) << 64) | u128::from(of(low))
}

fn misfit(error: ArrowError) -> Error {
    Error::internal(format!("values of a constraint do not have the types of its columns: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float32Array, Float64Array, Int32Array, Int64Array, StringArray, StringViewArray};

    fn of(columns: Vec<ArrayRef>) -> Values {
        let batch = batch_of(columns).unwrap();
        let types: Vec<DataType> = batch.columns().iter().map(|column| column.data_type().clone()).collect();
        Values::of([&batch], &(0..types.len()).collect::<Vec<_>>(), &types).unwrap()
    }

    #[test]
    fn values_are_alike_whatever_they_came_in() {
        let texts = of(vec![Arc::new(StringArray::from(vec![Some("a"), None, Some("b"), Some("a")]))]);
        let views = of(vec![Arc::new(StringViewArray::from(vec!["a", "b", "a"]))]);
        assert_eq!((texts.len(), texts.distinct().unwrap().len()), (3, 2));
        assert_eq!(texts.keys().unwrap(), views.keys().unwrap());
        assert_eq!(texts.codes(TableId(1), "x", &[0]).unwrap(), views.codes(TableId(1), "x", &[0]).unwrap());
        assert_ne!(texts.codes(TableId(1), "x", &[0]).unwrap(), texts.codes(TableId(2), "x", &[0]).unwrap());
        let wide = of(vec![Arc::new(Int64Array::from(vec![1, 1 << 40]))]);
        let narrow = of(vec![Arc::new(Int32Array::from(vec![1]))]);
        assert_eq!(wide.cast_to(&[DataType::Int32]).unwrap().keys().unwrap(), narrow.keys().unwrap());
        let known = counts(&[narrow.rows.clone(), narrow.rows.clone()], &[DataType::Int32]).unwrap();
        assert_eq!(known.values().copied().collect::<Vec<_>>(), [2]);
        assert_eq!(wide.cast_to(&[DataType::Int64]).unwrap().len(), 2);
        assert!(narrow.without(&known).unwrap().is_empty());
    }

    #[test]
    fn zeros_are_one_value_and_so_are_nans() {
        let odd = f64::from_bits(f64::NAN.to_bits() | 1);
        let doubles = of(vec![Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, odd, -odd, 1.0]))]);
        assert_eq!(doubles.distinct().unwrap().len(), 3);
        assert_eq!(doubles.codes(TableId(1), "x", &[0]).unwrap().into_iter().collect::<HashSet<_>>().len(), 3);
        let singles = of(vec![Arc::new(Float32Array::from(vec![0.0, -0.0, f32::NAN, -f32::NAN]))]);
        assert_eq!(singles.distinct().unwrap().len(), 2);
        let found = counts(std::slice::from_ref(&doubles.rows), &[DataType::Float64]).unwrap();
        assert!(singles.cast_to(&[DataType::Float64]).unwrap().without(&found).unwrap().is_empty());
    }

    #[test]
    fn values_are_joined_row_by_row() {
        let (some, more) =
            (of(vec![Arc::new(Int64Array::from(vec![1, 2]))]), of(vec![Arc::new(Int32Array::from(vec![2]))]));
        let all = Values::joined(&[&some, &more, &some]).unwrap();
        assert_eq!((all.len(), all.distinct().unwrap().len()), (5, 2));
        assert_eq!(all.columns()[0].data_type(), &DataType::Int64);
    }
}
