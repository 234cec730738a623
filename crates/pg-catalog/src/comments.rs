//! Comments as PostgreSQL's catalog has them: rows of `pg_description` and `pg_shdescription`, and functions that ask for one.
//!
//! Invariant: while there are no comments, the tables are empty and the functions NULL before anything is planned.

use crate::context::CatalogContext;
use crate::definitions;
use crate::functions::{Work, ints};
use crate::relations::{DATABASE_OID, number_of_schema, table_oid};
use crate::tables::{Row, row};
use alluvia_catalog::{Catalog, CommentOn, PG_CATALOG};
use arrow::array::{AsArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::Result;
use std::sync::Arc;

/// Tables of comments: on objects of the database, and on the database.
const OF_OBJECTS: &str = "pg_description";
const OF_DATABASES: &str = "pg_shdescription";

/// Functions that ask for a comment.
const FUNCTIONS: [&str; 3] = ["obj_description", "col_description", "shobj_description"];

/// A comment as the catalog has it.
struct Described<'a> {
    /// The table of the catalog that what it is on is a row of, by its name and number.
    class: &'static str,
    class_oid: i64,
    oid: i64,
    /// The place of a column, from 1 on, or 0.
    column: i64,
    text: &'a str,
}

/// Whether a table has no rows since there are no comments.
pub(crate) fn hides(catalog: &Catalog, schema: &str, table: &str) -> bool {
    schema == PG_CATALOG && matches!(table, OF_OBJECTS | OF_DATABASES) && catalog.comments().next().is_none()
}

/// Whether a function of this name gives comments, and there are some.
pub(crate) fn gives(catalog: &Catalog, name: &str) -> bool {
    FUNCTIONS.contains(&name) && catalog.comments().next().is_some()
}

fn all(catalog: &Catalog) -> Vec<Described<'_>> {
    catalog.comments().filter_map(|(on, text)| described(catalog, on, text)).collect()
}

fn described<'a>(catalog: &Catalog, on: &CommentOn, text: &'a str) -> Option<Described<'a>> {
    let (class, oid, column) = match on {
        CommentOn::Table(id) => ("pg_class", table_oid(id.0), 0),
        CommentOn::Column(id, column) => {
            let place = match catalog.by_id(*id) {
                Some(entry) => entry.def.columns.iter().position(|known| known.id == *column)?,
                // A view's columns are told by their places.
                None => column.0 as usize,
            };
            ("pg_class", table_oid(id.0), place as i64 + 1)
        }
        CommentOn::Schema(id) => ("pg_namespace", number_of_schema(*id), 0),
        CommentOn::Database => ("pg_database", DATABASE_OID, 0),
    };
    let class_oid = definitions::find(PG_CATALOG, class)?.oid;
    Some(Described { class, class_oid, oid, column, text })
}

/// The rows of a table of comments.
pub(crate) fn rows_of(schema: &str, table: &str) -> Option<fn(&CatalogContext) -> Vec<Row>> {
    match (schema, table) {
        (PG_CATALOG, OF_OBJECTS) => Some(|context| {
            let of_objects = all(&context.catalog).into_iter().filter(|known| known.class != "pg_database");
            let row = |known: Described<'_>| {
                row! { objoid: known.oid, classoid: known.class_oid, objsubid: known.column, description: known.text }
            };
            of_objects.map(row).collect()
        }),
        (PG_CATALOG, OF_DATABASES) => Some(|context| {
            let of_databases = all(&context.catalog).into_iter().filter(|known| known.class == "pg_database");
            let row = |known: Described<'_>| {
                row! { objoid: known.oid, classoid: known.class_oid, description: known.text }
            };
            of_databases.map(row).collect()
        }),
        _ => None,
    }
}

/// Registers the functions.
pub(crate) fn register(
    add: &mut impl FnMut(&str, Vec<DataType>, DataType, Work) -> Result<()>,
    catalog: &Arc<Catalog>,
) -> Result<()> {
    for name in ["obj_description", "shobj_description"] {
        let catalog = Arc::clone(catalog);
        add(
            name,
            vec![DataType::Int64, DataType::Utf8View],
            DataType::Utf8View,
            Arc::new(move |arguments| {
                let (oids, classes) = (ints(&arguments[0])?, cast(&arguments[1], &DataType::Utf8View)?);
                let known = all(&catalog);
                let told = oids.iter().zip(classes.as_string_view()).map(|(oid, class)| {
                    let is_it = |known: &&Described<'_>| {
                        Some(known.oid) == oid && known.column == 0 && class.is_none_or(|class| class == known.class)
                    };
                    known.iter().find(is_it).map(|known| known.text)
                });
                Ok(Arc::new(StringViewArray::from_iter(told)))
            }),
        )?;
    }
    let catalog = Arc::clone(catalog);
    add(
        "col_description",
        vec![DataType::Int64, DataType::Int64],
        DataType::Utf8View,
        Arc::new(move |arguments| {
            let (oids, columns) = (ints(&arguments[0])?, ints(&arguments[1])?);
            let known = all(&catalog);
            let told = oids.iter().zip(&columns).map(|(oid, column)| {
                let is_it = |known: &&Described<'_>| {
                    known.class == "pg_class"
                        && known.column > 0
                        && (Some(known.oid), Some(known.column)) == (oid, column)
                };
                known.iter().find(is_it).map(|known| known.text)
            });
            Ok(Arc::new(StringViewArray::from_iter(told)))
        }),
    )
}
