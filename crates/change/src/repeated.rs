//! Rows by some of their columns: which came before.

use alluvia_types::{Error, Result};
use arrow::array::{ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::{Float32Type, Float64Type};
use arrow::error::ArrowError;
use arrow::row::{RowConverter, SortField};
use hashbrown::HashSet;
use std::sync::Arc;

/// The values of rows that were seen, in as many columns each.
#[derive(Debug, Default)]
pub struct Seen {
    converter: Option<RowConverter>,
    rows: HashSet<Box<[u8]>>,
}

impl Seen {
    /// Whether each of these rows is the first of its values; all calls have columns of the same types.
    pub fn are_new(&mut self, columns: &[ArrayRef]) -> Result<BooleanArray> {
        if self.converter.is_none() {
            let fields = columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
            self.converter = Some(RowConverter::new(fields).map_err(wrong)?);
        }
        let converter =
            self.converter.as_ref().ok_or_else(|| Error::internal("rows have no form to be compared in"))?;
        let columns: Vec<ArrayRef> = columns.iter().map(with_one_zero).collect();
        let rows = converter.convert_columns(&columns).map_err(wrong)?;
        Ok(rows.iter().map(|row| Some(self.rows.insert(row.as_ref().into()))).collect())
    }
}

/// Floats as keys have them: -0.0 is 0.0.
fn with_one_zero(column: &ArrayRef) -> ArrayRef {
    if let Some(floats) = column.as_primitive_opt::<Float64Type>() {
        return Arc::new(floats.unary::<_, Float64Type>(|value| value + 0.0));
    }
    match column.as_primitive_opt::<Float32Type>() {
        Some(floats) => Arc::new(floats.unary::<_, Float32Type>(|value| value + 0.0)),
        None => Arc::clone(column),
    }
}

fn wrong(error: ArrowError) -> Error {
    Error::internal(format!("rows could not be compared: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, Int64Array, StringViewArray};
    use proptest::prelude::*;

    #[test]
    fn zeros_are_equal() {
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, 1.0, f64::NAN]));
        let found = Seen::default().are_new(&[floats]).unwrap();
        assert_eq!(found, BooleanArray::from(vec![true, false, true, true, false]));
    }

    proptest! {
        #[test]
        fn the_first_of_equal_rows_is_new(batches in prop::collection::vec(prop::collection::vec((0i64..4, "[ab]?"), 0..8), 0..5)) {
            let mut seen = Seen::default();
            let mut model: Vec<(i64, String)> = Vec::new();
            for batch in batches {
                let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(batch.iter().map(|row| row.0)));
                let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values(batch.iter().map(|row| row.1.as_str())));
                let found: Vec<bool> = seen.are_new(&[numbers, texts]).unwrap().iter().map(|new| new == Some(true)).collect();
                let wanted: Vec<bool> = batch.into_iter().map(|row| {
                    let is_new = !model.contains(&row);
                    model.push(row);
                    is_new
                }).collect();
                prop_assert_eq!(found, wanted);
            }
        }
    }
}
