//! Rows by some of their columns: which came before.

use alluvia_types::{Error, Result};
use arrow::array::{ArrayRef, BooleanArray};
use arrow::error::ArrowError;
use arrow::row::{RowConverter, SortField};
use hashbrown::HashSet;

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
        let rows = converter.convert_columns(columns).map_err(wrong)?;
        Ok(rows.iter().map(|row| Some(self.rows.insert(row.as_ref().into()))).collect())
    }
}

fn wrong(error: ArrowError) -> Error {
    Error::internal(format!("rows could not be compared: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, StringViewArray};
    use proptest::prelude::*;
    use std::sync::Arc;

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
