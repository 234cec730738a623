//! Errors of constraints, in PostgreSQL's words: clients take names and values out of them.

use alluvia_space::{ForeignKey, Index, TableDef};
use alluvia_types::{ColumnId, Error, ErrorKind, Result};
use alluvia_values::text::value_text;
use arrow::array::{Array, ArrayRef};

/// `(a, b)=(1, x)`, of the values that stand in a row of columns.
pub fn key_shown(def: &TableDef, columns: &[ColumnId], values: &[ArrayRef], row: usize) -> Result<String> {
    let value = |array: &ArrayRef| match array.is_null(row) {
        true => Ok("null".to_owned()),
        false => value_text(array.as_ref(), row),
    };
    let values = values.iter().map(value).collect::<Result<Vec<_>>>()?;
    Ok(format!("({})=({})", def.listed(columns), values.join(", ")))
}

/// Two rows would have the same values in a unique index.
pub fn duplicate(def: &TableDef, index: &Index, values: &[ArrayRef], row: usize) -> Result<Error> {
    let key = key_shown(def, &index.columns, values, row)?;
    let message = format!("duplicate key value violates unique constraint \"{}\"", index.name);
    Ok(Error::new(ErrorKind::UniqueViolation, message).with_detail(format!("Key {key} already exists.")))
}

/// A row refers to nothing.
pub fn orphan(
    (def, key): (&TableDef, &ForeignKey),
    parent: &TableDef,
    values: &[ArrayRef],
    row: usize,
) -> Result<Error> {
    let shown = key_shown(def, &key.columns, values, row)?;
    let message =
        format!("insert or update on table \"{}\" violates foreign key constraint \"{}\"", def.name, key.name);
    let detail = format!("Key {shown} is not present in table \"{}\".", parent.name);
    Ok(Error::new(ErrorKind::ForeignKeyViolation, message).with_detail(detail))
}

/// Rows refer to one that is to go, or to change its key.
pub fn still_referenced(
    (def, key): (&TableDef, &ForeignKey),
    parent: &TableDef,
    values: &[ArrayRef],
    row: usize,
) -> Result<Error> {
    let shown = key_shown(parent, &key.parent_columns, values, row)?;
    let message = format!(
        "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \"{}\"",
        parent.name, key.name, def.name
    );
    let detail = format!("Key {shown} is still referenced from table \"{}\".", def.name);
    Ok(Error::new(ErrorKind::ForeignKeyViolation, message).with_detail(detail))
}
