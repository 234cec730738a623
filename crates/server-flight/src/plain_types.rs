//! Plain Arrow types: rows and schemas in types that every client of Arrow knows.
//!
//! Invariants:
//! - Sent columns have no view types and no dictionaries.
//! - The version, lag and stage of an answer are in the metadata of the answer's schema.

use alluvia_query::{Described, Used};
use alluvia_types::{Error, Result};
use alluvia_values::unique_names::unique_names;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use std::sync::Arc;

/// The most text of one column in a batch: plain text columns count bytes in 32 bits.
const TEXT_BYTES_MAX: usize = 1 << 30;

/// The type that every client knows, of the same values.
fn plain_type(data_type: &DataType) -> DataType {
    let field = |field: &FieldRef| -> FieldRef {
        Arc::new(field.as_ref().clone().with_data_type(plain_type(field.data_type())))
    };
    match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::Dictionary(_, values) => plain_type(values),
        DataType::List(inner) | DataType::ListView(inner) => DataType::List(field(inner)),
        DataType::LargeList(inner) | DataType::LargeListView(inner) => DataType::LargeList(field(inner)),
        DataType::FixedSizeList(inner, size) => DataType::FixedSizeList(field(inner), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect::<Fields>()),
        other => other.clone(),
    }
}

/// The schema of the same rows in plain types, each column with a name of its own.
pub(crate) fn plain(schema: &Schema) -> Schema {
    let field = |field: &FieldRef| field.as_ref().clone().with_data_type(plain_type(field.data_type()));
    let schema = Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<Field>>()));
    Arc::unwrap_or_clone(unique_names(&schema))
}

/// The schema of an answer, which says what it is of.
pub(crate) fn plain_schema(schema: &Schema, tag: &str, used: Option<Used>) -> SchemaRef {
    let mut metadata = vec![("alluvia.tag".to_owned(), tag.to_owned())];
    if let Some(used) = used {
        metadata.push(("alluvia.version".to_owned(), used.version.0.to_string()));
        metadata.push(("alluvia.lag_seconds".to_owned(), format!("{:.6}", used.lag.as_secs_f64())));
        metadata.push(("alluvia.stage".to_owned(), used.stage.to_string()));
    }
    Arc::new(plain(schema).with_metadata(metadata.into_iter().collect()))
}

/// The schema of a statement's rows.
pub(crate) fn columns_of(described: &Described) -> Option<Schema> {
    described.columns.as_ref().map(|columns| plain(columns))
}

/// At most so many bytes has the text of a column that is made plain.
fn text_bytes(array: &ArrayRef) -> usize {
    // The low half of a view is its length.
    let length = |view: &u128| *view as u32 as usize;
    match array.data_type() {
        DataType::Utf8View => array.as_string_view().views().iter().map(length).sum(),
        DataType::BinaryView => array.as_binary_view().views().iter().map(length).sum(),
        DataType::Dictionary(..) => {
            let values = array.as_any_dictionary().values();
            let longest = match values.data_type() {
                DataType::Utf8View => values.as_string_view().views().iter().map(length).max(),
                DataType::Utf8 => {
                    values.as_string::<i32>().value_offsets().windows(2).map(|pair| (pair[1] - pair[0]) as usize).max()
                }
                _ => None,
            };
            longest.unwrap_or(0).saturating_mul(array.len())
        }
        _ => 0,
    }
}

/// Rows in plain types; several batches where one could not hold their text.
pub(crate) fn plain_batches(batch: &RecordBatch, schema: &SchemaRef) -> Result<Vec<RecordBatch>> {
    let rows = batch.num_rows();
    if rows > 1 && batch.columns().iter().map(text_bytes).max().unwrap_or(0) > TEXT_BYTES_MAX {
        let (first, second) = (batch.slice(0, rows / 2), batch.slice(rows / 2, rows - rows / 2));
        let mut all = plain_batches(&first, schema)?;
        all.extend(plain_batches(&second, schema)?);
        return Ok(all);
    }
    let column = |(array, field): (&ArrayRef, &FieldRef)| match array.data_type() == field.data_type() {
        true => Ok(Arc::clone(array)),
        false => cast(array, field.data_type()),
    };
    let columns = batch.columns().iter().zip(schema.fields()).map(column).collect::<Result<Vec<ArrayRef>, _>>();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let made = columns
        .and_then(|columns| RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options))
        .map_err(|error| Error::internal(format!("rows of an answer could not be made plain: {error}")))?;
    Ok(vec![made])
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{DictionaryArray, Int64Array, StringArray, StringViewArray};
    use arrow::datatypes::Int32Type;

    #[test]
    fn plain_rows_are_the_same_rows() {
        let long = "a text that does not fit into a view";
        let views = StringViewArray::from(vec![Some("short"), None, Some(long)]);
        let coded: DictionaryArray<Int32Type> = vec![Some("x"), Some("y"), None].into_iter().collect();
        let batch = RecordBatch::try_from_iter([
            ("views", Arc::new(views) as ArrayRef),
            ("coded", Arc::new(coded) as ArrayRef),
            ("number", Arc::new(Int64Array::from(vec![1, 2, 3])) as ArrayRef),
        ])
        .unwrap();
        let schema = Arc::new(plain(&batch.schema()));
        let types: Vec<&DataType> = schema.fields().iter().map(|field| field.data_type()).collect();
        assert_eq!(types, [&DataType::Utf8, &DataType::Utf8, &DataType::Int64]);
        // From the second row on: views into buffers that hold more.
        let made = plain_batches(&batch.slice(1, 2), &schema).unwrap();
        assert_eq!(made.len(), 1);
        let text = |at: usize| made[0].column(at).as_string::<i32>().clone();
        assert_eq!(text(0), StringArray::from(vec![None, Some(long)]));
        assert_eq!(text(1), StringArray::from(vec![Some("y"), None]));
        assert_eq!(text_bytes(batch.column(0)), 5 + long.len());
    }

    #[test]
    fn lists_and_structs_become_plain_to_their_bottom() {
        let inner = Arc::new(Field::new("item", DataType::Utf8View, true));
        let nested = DataType::Struct(vec![Field::new("a", DataType::List(inner), true)].into());
        let plain_inner = Arc::new(Field::new("item", DataType::Utf8, true));
        assert_eq!(
            plain_type(&nested),
            DataType::Struct(vec![Field::new("a", DataType::List(plain_inner), true)].into())
        );
    }
}
