//! The SQL names of Arrow types.

/// The SQL name of a type that results have: the type of a column that would hold it, else as Arrow shows it.
pub fn sql_type(data_type: &arrow::datatypes::DataType) -> String {
    let known = alluvia_space::DataType::from_arrow(data_type);
    known.map_or_else(|| data_type.to_string().to_uppercase(), |known| known.sql_name())
}
