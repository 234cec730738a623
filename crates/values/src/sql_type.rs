//! The SQL names of Arrow types.

/// The SQL name of a type that results have: the type of a column that would hold it, else as Arrow shows it.
pub fn sql_type(data_type: &arrow::datatypes::DataType) -> String {
    let known = alluvia_space::DataType::from_arrow(data_type);
    known.map_or_else(|| data_type.to_string().to_uppercase(), |known| known.sql_name())
}

/// Whether a field that another program has sent is of UUIDs.
pub fn is_foreign_uuid(field: &arrow::datatypes::Field) -> bool {
    alluvia_space::DataType::from_foreign(field) == Some(alluvia_space::DataType::Uuid)
}

/// The same of a field, whose extension says what values of one Arrow type are.
pub fn sql_type_of(field: &arrow::datatypes::Field) -> String {
    let known = alluvia_space::DataType::from_field(field);
    match (known, alluvia_space::data_type::chars_of(field)) {
        (Some(alluvia_space::DataType::Char), Some(chars)) => format!("CHAR({chars})"),
        (Some(known), _) => known.sql_name(),
        (None, _) => sql_type(field.data_type()),
    }
}
