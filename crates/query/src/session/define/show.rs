//! DESCRIBE, SHOW COLUMNS, SHOW TABLES, SHOW CREATE TABLE: what definitions look like.

use crate::session::run::outcome::Outcome;
use crate::session::state::scope::Scope;
use crate::system::{TABLE_NAMES, schema_of};
use alluvia_catalog::authoriser::Need;
use alluvia_catalog::{RelationName, ViewColumn};
use alluvia_space::{DataType, TableDef};
use alluvia_syntax::names::SYSTEM;
use alluvia_types::{Error, ErrorKind, Result, near_names};
use arrow::datatypes::SchemaRef;

/// DESCRIBE, SHOW COLUMNS.
pub(crate) fn describe_table(scope: &Scope, name: &RelationName) -> Result<Outcome> {
    let heads = ["column_name", "data_type", "nullable", "role"];
    let system = match name.schema() {
        Some(SYSTEM) => Some(system_schema(&name.name)?),
        Some(_) => None,
        None => along_path(scope, &name.name),
    };
    if let Some(schema) = system {
        let rows = schema.fields().iter().map(|field| {
            let data_type = DataType::from_field(field)
                .map_or_else(|| field.data_type().to_string(), |data_type| data_type.sql_name());
            vec![Some(field.name().clone()), Some(data_type), Some(yes(field.is_nullable())), None]
        });
        return Ok(Outcome::table("DESCRIBE", &heads, rows.collect()));
    }
    if let Some(view) = scope.view(name)? {
        let row =
            |column: &ViewColumn| vec![Some(column.name.clone()), Some(column.sql_type.clone()), Some(yes(true)), None];
        return Ok(Outcome::table("DESCRIBE", &heads, view.def.columns.iter().map(row).collect()));
    }
    let entry = scope.table_for(Need::Definition, name)?;
    let rows = entry.def.columns.iter().map(|column| {
        let role = role(&entry.def, column.id);
        vec![Some(column.name.clone()), Some(column.sql_type()), Some(yes(entry.def.takes_null(column))), role]
    });
    Ok(Outcome::table("DESCRIBE", &heads, rows.collect()))
}

/// SHOW TABLES.
pub(crate) fn show_tables(scope: &Scope) -> Outcome {
    let authoriser = scope.authoriser();
    let tables = authoriser.catalog().tables().map(|entry| (&entry.def.schema, &entry.def.name));
    let views = authoriser.catalog().views().map(|view| (&view.def.schema, &view.def.name));
    let mut names: Vec<(&String, &String)> = tables.chain(views).collect();
    names.sort_unstable();
    let rows = names.into_iter().map(|(schema, name)| vec![Some(schema.clone()), Some(name.clone())]);
    Outcome::table("SHOW", &["table_schema", "table_name"], rows.collect())
}

/// SHOW CREATE TABLE, SHOW CREATE VIEW.
pub(crate) fn show_create(scope: &Scope, table: &RelationName) -> Result<Outcome> {
    if let Some(view) = scope.view(table)? {
        let text = view.def.show_create(scope.resolver()?.catalog())?;
        let row = vec![Some(view.def.name.clone()), Some(text)];
        return Ok(Outcome::table("SHOW", &["table_name", "create_table"], vec![row]));
    }
    let entry = scope.table_for(Need::Definition, table)?;
    let authoriser = scope.authoriser();
    let parent = |id| authoriser.catalog().by_id(id).map(|entry| entry.def.as_ref());
    let row = vec![Some(entry.def.name.clone()), Some(entry.def.show_create_whole(parent))];
    Ok(Outcome::table("SHOW", &["table_name", "create_table"], vec![row]))
}

/// The columns of a system table that is named without its schema, where the path leads to it before any user's.
fn along_path(scope: &Scope, table: &str) -> Option<SchemaRef> {
    let authoriser = scope.authoriser();
    for schema in authoriser.path().schemas() {
        if schema == SYSTEM {
            if let Some(schema) = schema_of(table) {
                return Some(schema);
            }
        } else if authoriser.catalog().in_schema(schema, table).is_some() {
            return None;
        }
    }
    None
}

fn system_schema(table: &str) -> Result<SchemaRef> {
    schema_of(table).ok_or_else(|| {
        let near = near_names(table, TABLE_NAMES);
        let hint = match near.as_slice() {
            [] => format!("system tables are {}", TABLE_NAMES.join(", ")),
            near => format!("did you mean {}?", near.join(" or ")),
        };
        Error::new(ErrorKind::UndefinedTable, format!("there is no table '{SYSTEM}.{table}'")).with_hint(hint)
    })
}

fn yes(nullable: bool) -> String {
    if nullable { "YES" } else { "NO" }.to_owned()
}

/// What a column is to its table: part of its key, levels of dimensions, measure.
fn role(def: &TableDef, id: alluvia_types::ColumnId) -> Option<String> {
    let mut roles: Vec<String> = Vec::new();
    for (dimension, _, level) in def.levels() {
        if level.source.column() == id {
            roles.push(format!("level {}.{}", def.dimensions[dimension].name, level.name));
        }
    }
    if def.key.as_ref().is_some_and(|key| key.columns.contains(&id)) {
        roles.insert(0, "primary key".to_owned());
    }
    if def.measures.contains(&id) {
        roles.push("measure".to_owned());
    }
    (!roles.is_empty()).then(|| roles.join(", "))
}
