//! Tables and rows for the tests of this folder.

use alluvia_space::{Column, DataType, TableDef, TableOptions};
use alluvia_types::{ColumnId, TableId};
use alluvia_values::text::TextColumn;
use arrow::array::{Array, RecordBatch};
use std::sync::Arc;

/// A plain table from `name TYPE [NOT NULL], ...`; a name in double quotes keeps its case, as in SQL.
pub fn table(columns: &str) -> Arc<TableDef> {
    let columns: Vec<Column> = columns
        .split(", ")
        .enumerate()
        .map(|(at, column)| {
            let (name, rest) = column.split_once(' ').unwrap();
            let name = name.trim_matches('"').to_owned();
            let declared = rest.trim_end_matches(" NOT NULL");
            let length = declared.strip_prefix("VARCHAR(").and_then(|length| length.strip_suffix(')'));
            let chars_max = length.map(|length| length.parse().unwrap());
            let data_type = match declared {
                "BOOLEAN" => DataType::Boolean,
                "SMALLINT" => DataType::Int16,
                "INT" => DataType::Int32,
                "BIGINT" => DataType::Int64,
                "REAL" => DataType::Real,
                "DOUBLE" => DataType::Double,
                "DECIMAL" => DataType::Decimal { precision: 10, scale: 2 },
                "DATE" => DataType::Date,
                "TIMESTAMP" => DataType::Timestamp,
                "TIMESTAMPTZ" => DataType::TimestampTz,
                "TEXT" => DataType::Text,
                "BYTEA" => DataType::Binary,
                "JSON" => DataType::Json,
                _ if chars_max.is_some() => DataType::Text,
                other => panic!("no type {other}"),
            };
            let nullable = !rest.ends_with("NOT NULL");
            Column { id: ColumnId(at as u32), storage_name: name.clone(), name, data_type, nullable, chars_max }
        })
        .collect();
    Arc::new(TableDef {
        id: TableId(7),
        schema: "public".to_owned(),
        name: "t".into(),
        next_column_id: columns.len() as u32,
        rules: alluvia_space::TableRules::default(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        key: None,
        columns,
        dimensions: Vec::new(),
        measures: Vec::new(),
        seed: 1,
        options: TableOptions::default(),
    })
}

/// Every row as text; `NULL` for NULL and `''` for an empty text.
pub fn row_texts(batch: &RecordBatch) -> Vec<Vec<String>> {
    let columns: Vec<TextColumn> = batch.columns().iter().map(|array| TextColumn::new(array).unwrap()).collect();
    let cell = |column: usize, row: usize| {
        if batch.column(column).is_null(row) {
            return "NULL".to_owned();
        }
        let mut text = Vec::new();
        columns[column].write(row, &mut text).unwrap();
        if text.is_empty() { "''".to_owned() } else { String::from_utf8(text).unwrap() }
    };
    (0..batch.num_rows()).map(|row| (0..columns.len()).map(|column| cell(column, row)).collect()).collect()
}
