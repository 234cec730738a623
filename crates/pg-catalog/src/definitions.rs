//! The columns of catalog tables, as PostgreSQL has them.

use arrow::datatypes::{DataType, Field, IntervalUnit, Schema, SchemaRef, TimeUnit};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

/// One line a table: its number (0 for a function that tools read as one), its name, its columns with their types. Made from the
/// catalog of PostgreSQL 15, with the columns that 16 added, since 16 is what clients are told.
const COLUMNS: &str = include_str!("columns.txt");

/// A table of the catalog.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) oid: i64,
    /// Names, and PostgreSQL's names of their types.
    pub(crate) columns: Vec<(&'static str, &'static str)>,
    pub(crate) schema: SchemaRef,
}

/// Tables by schema and name.
pub(crate) type Definitions = BTreeMap<(&'static str, &'static str), Definition>;

/// All tables.
pub(crate) fn all() -> &'static Definitions {
    static ALL: OnceLock<Definitions> = OnceLock::new();
    ALL.get_or_init(|| COLUMNS.lines().filter_map(definition).collect())
}

/// A table by its schema and name.
pub(crate) fn find(schema: &str, table: &str) -> Option<&'static Definition> {
    all().iter().find(|((of, name), _)| *of == schema && *name == table).map(|(_, definition)| definition)
}

/// The name of a table, if there is one.
pub(crate) fn name(schema: &str, table: &str) -> Option<&'static str> {
    all().keys().find(|(of, name)| *of == schema && *name == table).map(|(_, name)| *name)
}

/// Whether columns of a name hold functions.
pub(crate) fn is_procedure(column: &str) -> bool {
    static NAMES: OnceLock<HashSet<&'static str>> = OnceLock::new();
    let names = NAMES.get_or_init(|| {
        let columns = all().values().flat_map(|definition| &definition.columns);
        columns.filter(|(_, sql)| *sql == "regproc").map(|(name, _)| *name).collect()
    });
    names.contains(column)
}

fn definition(line: &'static str) -> Option<((&'static str, &'static str), Definition)> {
    let (head, columns) = line.split_once(": ")?;
    let (oid, name) = head.split_once(' ')?;
    let columns = columns.split(", ").map(|column| column.split_once(' ')).collect::<Option<Vec<_>>>()?;
    let fields: Vec<Field> = columns.iter().map(|(name, sql)| field(name, sql)).collect();
    Some((name.split_once('.')?, Definition { oid: oid.parse().ok()?, schema: Arc::new(Schema::new(fields)), columns }))
}

/// Columns that hold a number for each of some columns.
pub(crate) const COLUMN_LISTS: [&str; 6] = ["indkey", "indoption", "indclass", "indcollation", "conkey", "confkey"];

/// Those of them whose elements count from 0.
pub(crate) const VECTORS: [&str; 4] = ["indkey", "indoption", "indclass", "indcollation"];

/// A list of these.
pub(crate) fn list_of(element: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(element, true)))
}

/// A column. What clients must see as PostgreSQL's own type, and Arrow has no type for, says so in its metadata.
fn field(name: &str, sql: &str) -> Field {
    let (data_type, marked) = match sql {
        "bool" => (DataType::Boolean, None),
        "int2" => (DataType::Int16, None),
        "int4" | "cardinal_number" => (DataType::Int32, None),
        "int8" => (DataType::Int64, None),
        "oid" | "xid" => (DataType::Int64, Some("oid")),
        "float4" => (DataType::Float32, None),
        "float8" | "numeric" => (DataType::Float64, None),
        "interval" => (DataType::Interval(IntervalUnit::MonthDayNano), None),
        "timestamptz" | "time_stamp" => (DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), None),
        // Lists of columns, and of options, that tools take apart; other lists are none here.
        "_text" if name == "reloptions" => (list_of(DataType::Utf8View), None),
        "int2vector" if COLUMN_LISTS.contains(&name) => (list_of(DataType::Int16), Some("int2vector")),
        "_int2" if COLUMN_LISTS.contains(&name) => (list_of(DataType::Int16), None),
        "oidvector" if COLUMN_LISTS.contains(&name) => {
            let element = Field::new_list_field(DataType::Int64, true).with_metadata(marked_as("oid"));
            (DataType::List(Arc::new(element)), Some("oidvector"))
        }
        "name" | "sql_identifier" => (DataType::Utf8View, Some("name")),
        "char" => (DataType::Utf8View, Some("char")),
        _ => (DataType::Utf8View, None),
    };
    Field::new(name, data_type, true).with_metadata(marked.map(marked_as).unwrap_or_default())
}

fn marked_as(pg_type: &str) -> HashMap<String, String> {
    HashMap::from([("pg_type".to_owned(), pg_type.to_owned())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_table() {
        assert_eq!(all().len(), COLUMNS.lines().count());
        let class = find("pg_catalog", "pg_class").unwrap();
        assert_eq!((class.oid, class.columns[1]), (1259, ("relname", "name")));
        assert!(is_procedure("typreceive") && !is_procedure("oid"));
    }
}
