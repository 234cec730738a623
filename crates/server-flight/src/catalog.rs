//! The catalog as Flight SQL lists it: catalogs, schemas, tables, keys.
//!
//! Invariants:
//! - The rows have the schemas that Flight SQL states, also where there are none.
//! - What is listed is what the session's own `information_schema` lists: tables of users, and system tables. What only PostgreSQL's
//!   clients ask for can be queried, and is not listed.

use crate::caller::Caller;
use crate::failure::{refused, unmade};
use crate::info;
use crate::lane::Lane;
use crate::lane_task::run_in_lane;
use crate::plain_types::plain;
use crate::server_options::ServerOptions;
use crate::shared::Shared;
use alluvia_query::Session;
use alluvia_syntax::names::RelationName;
use alluvia_types::{Error, Result};
use arrow::array::{AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_flight::sql::metadata::{GetCatalogsBuilder, GetTablesBuilder};
use arrow_flight::sql::{Command, CommandGetDbSchemas, CommandGetTables};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The one catalog.
pub(crate) const CATALOG: &str = "alluvia";
/// The schema of system tables.
pub(crate) const SYSTEM: &str = "alluvia";
/// PostgreSQL's and the standard's catalogs, which are not listed.
pub(crate) const PG_CATALOG: &str = "pg_catalog";
pub(crate) const INFORMATION: &str = "information_schema";
/// What tables are called: users', and the system's.
const TABLE: &str = "TABLE";
const VIEW: &str = "VIEW";
const SYSTEM_TABLE: &str = "SYSTEM TABLE";
const TABLES: &str = "SELECT table_schema, table_name, table_type FROM information_schema.tables \
    WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY table_schema, table_name";
const SCHEMAS: &str = "SELECT schema_name, '' FROM information_schema.schemata \
    WHERE schema_name NOT IN ('pg_catalog', 'information_schema') ORDER BY schema_name";

/// The schema of what a command lists; `None` if it is no such command.
pub(crate) fn schema_of(command: &Command) -> Result<Option<SchemaRef>> {
    Ok(Some(match command {
        Command::CommandGetCatalogs(_) => GetCatalogsBuilder::new().schema(),
        Command::CommandGetDbSchemas(command) => command.clone().into_builder().schema(),
        Command::CommandGetTables(command) => command.clone().into_builder().schema(),
        Command::CommandGetTableTypes(command) => command.into_builder().schema(),
        Command::CommandGetPrimaryKeys(_) => Arc::new(primary_keys()),
        Command::CommandGetExportedKeys(_)
        | Command::CommandGetImportedKeys(_)
        | Command::CommandGetCrossReference(_) => Arc::new(foreign_keys()),
        Command::CommandGetSqlInfo(_) => info::sql_info(&ServerOptions::default())?.schema(),
        Command::CommandGetXdbcTypeInfo(_) => info::types()?.schema(),
        _ => return Ok(None),
    }))
}

/// The rows that a command lists.
pub(crate) async fn rows_of(shared: &Arc<Shared>, caller: &Arc<Caller>, command: Command) -> Result<RecordBatch> {
    match command {
        Command::CommandGetCatalogs(_) => {
            let mut builder = GetCatalogsBuilder::new();
            builder.append(CATALOG);
            builder.build().map_err(unmade)
        }
        Command::CommandGetDbSchemas(command) => schemas(shared, caller, command).await,
        Command::CommandGetTables(command) => tables(shared, caller, command).await,
        Command::CommandGetTableTypes(command) => {
            let mut builder = command.into_builder();
            [TABLE, VIEW, SYSTEM_TABLE].iter().for_each(|name| builder.append(name));
            builder.build().map_err(unmade)
        }
        Command::CommandGetSqlInfo(command) => {
            command.into_builder(&info::sql_info(&shared.options)?).build().map_err(unmade)
        }
        Command::CommandGetXdbcTypeInfo(command) => command.into_builder(&info::types()?).build().map_err(unmade),
        // There are no keys, so none refer to others.
        Command::CommandGetPrimaryKeys(_) => Ok(RecordBatch::new_empty(Arc::new(primary_keys()))),
        Command::CommandGetExportedKeys(_)
        | Command::CommandGetImportedKeys(_)
        | Command::CommandGetCrossReference(_) => Ok(RecordBatch::new_empty(Arc::new(foreign_keys()))),
        other => {
            Err(refused(&format!("fetching {}", other.type_url()), "ask for its FlightInfo, and fetch its ticket"))
        }
    }
}

async fn schemas(shared: &Arc<Shared>, caller: &Arc<Caller>, command: CommandGetDbSchemas) -> Result<RecordBatch> {
    let work = move |lane: Arc<Lane>| async move {
        let mut builder = command.into_builder();
        for (schema, _) in pairs(&lane.session.sql(SCHEMAS).await?.collect().await?, [0, 1])? {
            builder.append(CATALOG, &schema);
        }
        builder.build().map_err(unmade)
    };
    run_in_lane(shared, caller, &caller.login.lane, work).await
}

async fn tables(shared: &Arc<Shared>, caller: &Arc<Caller>, command: CommandGetTables) -> Result<RecordBatch> {
    let work = move |lane: Arc<Lane>| async move {
        let session = &lane.session;
        let mut builder = CommandGetTables { include_schema: false, ..command.clone() }.into_builder();
        let listed = session.sql(TABLES).await?.collect().await?;
        let mut kinds = BTreeMap::new();
        for ((schema, table), (_, kind)) in pairs(&listed, [0, 1])?.into_iter().zip(pairs(&listed, [1, 2])?) {
            let kind = type_of(&schema, &kind);
            builder.append(CATALOG, &schema, &table, kind, &Schema::empty()).map_err(unmade)?;
            kinds.insert((schema, table), kind);
        }
        let wanted = builder.build().map_err(unmade)?;
        if !command.include_schema {
            return Ok(wanted);
        }
        // Only of those that are asked for: a table's schema is made by planning.
        let mut builder = GetTablesBuilder::new(None::<&str>, None::<&str>, None::<&str>, Vec::<&str>::new(), true);
        for (schema, table) in pairs(&[wanted], [1, 2])? {
            let columns = columns(session, &schema, &table).await?;
            let named = (schema, table);
            let kind = kinds.get(&named).copied().unwrap_or(TABLE);
            builder.append(CATALOG, &named.0, &named.1, kind, &columns).map_err(unmade)?;
        }
        builder.build().map_err(unmade)
    };
    run_in_lane(shared, caller, &caller.login.lane, work).await
}

/// What Flight calls a table that `information_schema` calls `kind`.
fn type_of(schema: &str, kind: &str) -> &'static str {
    match (schema, kind) {
        (SYSTEM, _) => SYSTEM_TABLE,
        (_, "VIEW") => VIEW,
        _ => TABLE,
    }
}

async fn columns(session: &Session, schema: &str, table: &str) -> Result<Schema> {
    if schema != SYSTEM {
        // Definitions are everybody's, and rows are not: nothing is planned.
        return Ok(plain(&session.table_schema(RelationName::in_schema(schema, table))?));
    }
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let query = session.prepare(&format!("SELECT * FROM {}.{}", quoted(schema), quoted(table)))?;
    let described = session.describe(query.statement(), &[]).await?;
    Ok(described.columns.map_or_else(Schema::empty, |columns| plain(&columns)))
}

/// Two columns, as text.
fn pairs(batches: &[RecordBatch], places: [usize; 2]) -> Result<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    for batch in batches {
        let text = |at: usize| {
            cast(batch.column(at), &DataType::Utf8)
                .map_err(|error| Error::internal(format!("names are no text: {error}")))
        };
        let (first, second) = (text(places[0])?, text(places[1])?);
        let both = first.as_string::<i32>().iter().zip(second.as_string::<i32>());
        pairs.extend(both.filter_map(|(first, second)| Some((first?.to_owned(), second?.to_owned()))));
    }
    Ok(pairs)
}

fn primary_keys() -> Schema {
    Schema::new(vec![
        Field::new("catalog_name", DataType::Utf8, true),
        Field::new("db_schema_name", DataType::Utf8, true),
        Field::new("table_name", DataType::Utf8, false),
        Field::new("column_name", DataType::Utf8, false),
        Field::new("key_name", DataType::Utf8, true),
        Field::new("key_sequence", DataType::Int32, false),
    ])
}

fn foreign_keys() -> Schema {
    Schema::new(vec![
        Field::new("pk_catalog_name", DataType::Utf8, true),
        Field::new("pk_db_schema_name", DataType::Utf8, true),
        Field::new("pk_table_name", DataType::Utf8, false),
        Field::new("pk_column_name", DataType::Utf8, false),
        Field::new("fk_catalog_name", DataType::Utf8, true),
        Field::new("fk_db_schema_name", DataType::Utf8, true),
        Field::new("fk_table_name", DataType::Utf8, false),
        Field::new("fk_column_name", DataType::Utf8, false),
        Field::new("key_sequence", DataType::Int32, false),
        Field::new("fk_key_name", DataType::Utf8, true),
        Field::new("pk_key_name", DataType::Utf8, true),
        Field::new("update_rule", DataType::UInt8, false),
        Field::new("delete_rule", DataType::UInt8, false),
    ])
}
