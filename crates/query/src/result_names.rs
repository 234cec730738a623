//! Schemas and rows of answers under the names that their columns are shown with ([`alluvia_syntax::ResultNames`]).

use alluvia_syntax::{ResultNames, shown_name};
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use std::sync::Arc;

/// A batch with the columns of this schema, which differs in names alone.
pub(crate) fn renamed(batch: RecordBatch, schema: &SchemaRef) -> std::result::Result<RecordBatch, ArrowError> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let (_, columns, _) = batch.into_parts();
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}

/// The columns of an answer under the names that they are shown with; itself if these are planning's.
pub(crate) fn named_schema(schema: &SchemaRef, names: Option<&ResultNames>) -> SchemaRef {
    named_first(schema, names, schema.fields().len())
}

/// The same where only so many of the columns are the answer's.
pub(crate) fn named_first(schema: &SchemaRef, names: Option<&ResultNames>, shown: usize) -> SchemaRef {
    let name_at = |(place, field): (usize, &'_ Arc<Field>)| {
        let name = names.filter(|_| place < shown).and_then(|names| names.at(place, shown));
        let name = name.unwrap_or_else(|| shown_name(field.name()));
        (name != field.name()).then(|| name.to_owned())
    };
    let names: Vec<Option<String>> = schema.fields().iter().enumerate().map(name_at).collect();
    if names.iter().all(Option::is_none) {
        return Arc::clone(schema);
    }
    let named = |(field, name): (&Arc<Field>, Option<String>)| match name {
        Some(name) => Arc::new(field.as_ref().clone().with_name(name)),
        None => Arc::clone(field),
    };
    let fields: Vec<Arc<Field>> = schema.fields().iter().zip(names).map(named).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}
