//! Catalog tables as DataFusion sees them, and the rows of those that have any.

use crate::context::{CatalogContext, SettingRow};
use crate::definitions::{self, Definition};
use crate::information;
use crate::relations::{DATABASE_OID, PG_CATALOG_OID, ROLE_OID, ROWS_UNTOLD, Relation, of_users, schemas, table_oid};
use crate::{comments, constraints, defaults, procedures, rights, time_zones, types, views};
use alluvia_catalog::INFORMATION_SCHEMA;
use alluvia_catalog::rights::RoleId;
use alluvia_locks::{Advisory, Key};
use alluvia_syntax::names::DATABASE_NAME;
use alluvia_types::{Error, ErrorKind, near_names};
use arrow::array::{
    ArrayRef, BooleanArray, Float32Array, Float64Array, Int16Array, Int16Builder, Int32Array, Int64Array, Int64Builder,
    IntervalMonthDayNanoArray, ListBuilder, RecordBatch, StringViewArray, new_null_array,
};
use arrow::datatypes::{DataType, IntervalMonthDayNano, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::TableType;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A value.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Bool(bool),
    Int(i64),
    Text(String),
    List(Vec<i64>),
    /// An interval, in seconds.
    Span(i64),
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Value {
        Value::Int(value)
    }
}

impl From<Vec<i64>> for Value {
    fn from(value: Vec<i64>) -> Value {
        Value::List(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Value {
        Value::Text(value)
    }
}

/// A row: the columns that say something. Of the others numbers are 0, truths false, single characters blank, all else NULL.
pub(crate) type Row = BTreeMap<&'static str, Value>;

/// A row of columns and values.
macro_rules! row {
    ($($column:ident: $value:expr),* $(,)?) => {
        std::collections::BTreeMap::from([$((stringify!($column), $crate::tables::Value::from($value))),*])
    };
}
pub(crate) use row;

/// Whether a table never has rows.
pub(crate) fn is_always_empty(schema: &str, table: &str) -> bool {
    definitions::find(schema, table).is_some() && rows_of(schema, table).is_none()
}

type Rows = fn(&CatalogContext) -> Vec<Row>;

fn rows_of(schema: &str, table: &str) -> Option<Rows> {
    let of_others = || defaults::rows_of(schema, table).or_else(|| views::rows_of(schema, table));
    let of_parts = constraints::rows_of(schema, table).or_else(of_others);
    if let Some(rows) = of_parts.or_else(|| comments::rows_of(schema, table)) {
        return Some(rows);
    }
    if schema == INFORMATION_SCHEMA {
        return information::rows_of(table);
    }
    if time_zones::is_of_zones(schema, table) {
        // They are of a moment, which the scan knows.
        return Some(|_| Vec::new());
    }
    Some(match table {
        "pg_am" => |_| {
            vec![
                row! { oid: 2, amname: "heap", amtype: "t" },
                row! { oid: constraints::BTREE_OID, amname: "btree", amtype: "i" },
            ]
        },
        "pg_attribute" => attributes,
        "pg_authid" | "pg_roles" => rights::roles,
        "pg_auth_members" => rights::members,
        "pg_db_role_setting" => rights::role_settings,
        "pg_class" => classes,
        "pg_database" => |context| {
            vec![row! {
                oid: DATABASE_OID, datname: DATABASE_NAME, datacl: rights::database_acl(context), datdba: ROLE_OID, encoding: 6, datlocprovider: "c", datallowconn: true,
                datconnlimit: -1, dattablespace: 1663, datcollate: "C", datctype: "C.UTF-8",
            }]
        },
        "pg_get_keywords" => |_| {
            use datafusion::sql::sqlparser::keywords::{ALL_KEYWORDS, ALL_KEYWORDS_INDEX, RESERVED_FOR_COLUMN_ALIAS};
            let row = |(word, keyword): (&&str, _)| {
                let reserved = RESERVED_FOR_COLUMN_ALIAS.contains(keyword);
                row! {
                    word: word.to_ascii_lowercase(), catcode: if reserved { "R" } else { "U" }, barelabel: !reserved,
                    catdesc: if reserved { "reserved" } else { "unreserved" },
                    baredesc: if reserved { "requires AS" } else { "can be bare label" },
                }
            };
            ALL_KEYWORDS.iter().zip(ALL_KEYWORDS_INDEX).map(row).collect()
        },
        "pg_language" => |_| {
            vec![
                row! { oid: procedures::INTERNAL_LANGUAGE, lanname: "internal", lanowner: ROLE_OID },
                row! { oid: 14, lanname: "sql", lanowner: ROLE_OID, lanpltrusted: true },
            ]
        },
        "pg_namespace" => |context| {
            let schema = |(oid, name, owner): (i64, String, RoleId)| {
                let mut row = row! { oid: oid, nspname: name.as_str(), nspowner: i64::from(owner.0) };
                row.extend(rights::schema_acl(context, &name).map(|acl| ("nspacl", Value::from(acl))));
                row
            };
            schemas(&context.catalog).into_iter().map(schema).collect()
        },
        // The process of a lock is the number of its session.
        "pg_locks" => |context| {
            let row = |grant: alluvia_locks::Grant| {
                let mut row = row! {
                    database: DATABASE_OID, virtualtransaction: format!("{}/0", grant.session),
                    pid: grant.session as i64, mode: grant.mode.name(), granted: grant.is_held,
                };
                row.extend(match grant.key {
                    Key::Advisory(Advisory { class, object, sub }) => row! {
                        locktype: "advisory", classid: i64::from(class), objid: i64::from(object),
                        objsubid: i64::from(sub),
                    },
                    Key::Row { table, .. } => row! { locktype: "tuple", relation: table_oid(table.0) },
                });
                row
            };
            context.locks.grants().into_iter().map(row).collect()
        },
        "pg_proc" => |_| procedures::rows(),
        "pg_settings" => |context| {
            let setting = |setting: SettingRow| {
                let context =
                    if setting.scope == "session" || setting.scope == "client" { "user" } else { "postmaster" };
                row! {
                    name: setting.name, setting: setting.value, boot_val: setting.default_value.clone(),
                    reset_val: setting.default_value, short_desc: setting.description, context: context,
                    vartype: "string", source: "session", category: setting.scope,
                }
            };
            context.settings.settings().into_iter().map(setting).collect()
        },
        "pg_stat_user_tables" | "pg_stat_all_tables" => |context| {
            let row = |table: Relation| {
                row! { relid: table.oid, schemaname: table.schema.1, relname: table.name, n_live_tup: table.rows.max(0) }
            };
            users(context).into_iter().filter(|table| table.kind == "r").map(row).collect()
        },
        "pg_tables" => |context| {
            let row = |table: Relation| row! { schemaname: table.schema.1, tablename: table.name, tableowner: rights::name(context, table.owner) };
            relations(context).into_iter().filter(|table| table.kind == "r").map(row).collect()
        },
        "pg_tablespace" => |_| vec![row! { oid: 1663, spcname: "pg_default", spcowner: ROLE_OID }],
        "pg_type" => |_| types_rows(),
        "pg_user" | "pg_shadow" => rights::users,
        "pg_group" => rights::groups,
        "pg_views" => |context| {
            let row = |view: Relation| {
                let text = views::text(&context.catalog, view.oid);
                let owner = rights::name(context, view.owner);
                let mut row = row! { schemaname: view.schema.1, viewname: view.name, viewowner: owner };
                row.extend(text.map(|text| ("definition", text.into())));
                row
            };
            relations(context).into_iter().filter(|view| view.kind == "v").map(row).collect()
        },
        _ => return None,
    })
}

/// Users' tables with their rows.
pub(crate) fn users(context: &CatalogContext) -> Vec<Relation> {
    let mut rows: HashMap<u32, i64> = HashMap::new();
    for stage in context.admin.stages() {
        *rows.entry(stage.table.0).or_default() += stage.rows as i64;
    }
    for entry in context.catalog.tables().filter(|entry| !context.viewer.authoriser.may_read(entry)) {
        rows.insert(entry.def.id.0, ROWS_UNTOLD);
    }
    of_users(&context.catalog, &rows)
}

/// All tables and views.
pub(crate) fn relations(context: &CatalogContext) -> Vec<Relation> {
    let mut relations = users(context);
    relations.extend(context.viewer.system.relations());
    relations
}

fn classes(context: &CatalogContext) -> Vec<Row> {
    let class = |relation: Relation| {
        let of_heap = if relation.kind == "r" { 2 } else { 0 };
        let acl = rights::table_acl(context, &relation);
        let persistence = if relation.is_temporary() { "t" } else { "p" };
        let mut row = row! {
            oid: relation.oid, relname: relation.name, relnamespace: relation.schema.0, relowner: relation.owner, relam: of_heap,
            relfilenode: relation.oid, reltuples: relation.rows, relkind: relation.kind, relpersistence: persistence,
            relnatts: relation.columns.len() as i64, relispopulated: true, relreplident: "n", relhasindex: relation.has_key,
            relchecks: relation.checks, relhasrules: relation.kind == "v",
        };
        // NULL says that nothing was granted.
        row.extend(acl.map(|acl| ("relacl", Value::from(acl))));
        row
    };
    relations(context)
        .into_iter()
        .map(class)
        .chain(constraints::classes(context))
        .chain(defaults::classes(context))
        .collect()
}

fn attributes(context: &CatalogContext) -> Vec<Row> {
    let types: HashMap<i64, types::PgType> = types::all().map(|known| (known.oid, known)).collect();
    let mut rows = Vec::new();
    for relation in relations(context) {
        for (at, column) in relation.columns.into_iter().enumerate() {
            let known = types.get(&column.type_oid);
            rows.push(row! {
                attrelid: relation.oid, attname: column.name, atttypid: column.type_oid, atttypmod: column.modifier,
                attnum: at as i64 + 1, attnotnull: column.not_null, atthasdef: column.default.is_some(),
                attidentity: column.identity.as_ref().map_or("", |(_, kind)| *kind), attstattarget: -1, attcacheoff: -1, attislocal: true,
                attlen: known.map_or(-1, |known| known.length), attbyval: known.is_some_and(|known| known.by_value),
                attalign: known.map_or("i", |known| known.align), attstorage: known.map_or("x", |known| known.storage),
            });
        }
    }
    rows
}

fn types_rows() -> Vec<Row> {
    let row = |known: types::PgType| {
        row! {
            oid: known.oid, typname: known.name, typnamespace: PG_CATALOG_OID, typowner: ROLE_OID, typlen: known.length,
            typbyval: known.by_value, typtype: known.kind(), typcategory: known.category, typispreferred: known.preferred,
            typisdefined: true, typdelim: ",", typelem: known.element, typarray: known.array, typinput: known.input,
            typoutput: known.output, typreceive: known.receive(), typsend: known.send(),
            typalign: known.align, typstorage: known.storage, typtypmod: -1,
        }
    };
    types::all().map(row).collect()
}

/// A schema of the catalog.
#[derive(Debug)]
pub struct CatalogSchema {
    /// [`PG_CATALOG`](alluvia_catalog::PG_CATALOG) or [`INFORMATION_SCHEMA`].
    pub name: &'static str,
}

#[async_trait]
impl SchemaProvider for CatalogSchema {
    fn table_names(&self) -> Vec<String> {
        definitions::all()
            .keys()
            .filter(|(schema, _)| *schema == self.name)
            .map(|(_, name)| (*name).to_owned())
            .collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match definitions::find(self.name, name) {
            Some(definition) => {
                let of_zones =
                    definitions::name(self.name, name).filter(|name| time_zones::is_of_zones(self.name, name));
                Ok(Some(Arc::new(CatalogTable { definition, rows: rows_of(self.name, name), of_zones })))
            }
            None => {
                let error = Error::new(ErrorKind::UndefinedTable, format!("there is no table {}.{name}", self.name));
                let names = self.table_names();
                Err(alluvia_values::errors::wrap(match near_names(name, names.iter().map(String::as_str)).as_slice() {
                    [] => error,
                    near => error.with_hint(format!("did you mean {}?", near.join(" or "))),
                }))
            }
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        definitions::find(self.name, name).is_some()
    }
}

/// A table of the catalog.
struct CatalogTable {
    definition: &'static Definition,
    /// `None` for one that never has rows.
    rows: Option<Rows>,
    /// Its name, if it is of time zones.
    of_zones: Option<&'static str>,
}

impl std::fmt::Debug for CatalogTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CatalogTable").field("oid", &self.definition.oid).finish_non_exhaustive()
    }
}

#[async_trait]
impl TableProvider for CatalogTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.definition.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let context = CatalogContext::of(session)?;
        let schema = self.schema();
        let rows = match self.of_zones {
            Some(name) => time_zones::rows(name, session),
            None => self.rows.map(|rows| rows(&context)).unwrap_or_default(),
        };
        let columns: Vec<ArrayRef> =
            schema.fields().iter().map(|field| column(field.name(), field.data_type(), &rows)).collect();
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns)?;
        Ok(MemorySourceConfig::try_new_exec(&[vec![batch]], schema, projection.cloned())?)
    }
}

/// Numbers of a lock that no lock here has.
const OF_OTHER_LOCKS: [&str; 3] = ["page", "tuple", "transactionid"];

/// Numbers that a lock has or not, by what it is on.
const OF_SOME_LOCKS: [&str; 4] = ["relation", "classid", "objid", "objsubid"];

fn column(name: &str, data_type: &DataType, rows: &[Row]) -> ArrayRef {
    if OF_OTHER_LOCKS.contains(&name) {
        return new_null_array(data_type, rows.len());
    }
    let int = |row: &Row| match row.get(name) {
        Some(Value::Int(value)) => *value,
        _ => 0,
    };
    match data_type {
        DataType::Boolean => Arc::new(BooleanArray::from_iter(
            rows.iter().map(|row| Some(matches!(row.get(name), Some(Value::Bool(true))))),
        )),
        DataType::Int16 | DataType::Int64 if OF_SOME_LOCKS.contains(&name) => {
            let known = rows.iter().map(|row| row.contains_key(name).then(|| int(row)));
            match data_type {
                DataType::Int16 => {
                    Arc::new(Int16Array::from_iter(known.map(|known| known.map(|number| number as i16))))
                }
                _ => Arc::new(Int64Array::from_iter(known)),
            }
        }
        DataType::Int16 => Arc::new(Int16Array::from_iter_values(rows.iter().map(|row| int(row) as i16))),
        DataType::Int32 => Arc::new(Int32Array::from_iter(rows.iter().map(|row| match row.get(name) {
            Some(Value::Int(value)) => Some(*value as i32),
            // What the standard's views do not know is NULL there.
            _ => (!name.contains('_')).then_some(0),
        }))),
        DataType::Int64 => Arc::new(Int64Array::from_iter_values(rows.iter().map(int))),
        DataType::Float32 => Arc::new(Float32Array::from_iter_values(rows.iter().map(|row| int(row) as f32))),
        DataType::Float64 => Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| int(row) as f64))),
        DataType::Utf8View => {
            let blank = matches!(name, "attidentity" | "attgenerated" | "attcompression");
            Arc::new(StringViewArray::from_iter(rows.iter().map(|row| match row.get(name) {
                Some(Value::Text(text)) => Some(text.as_str()),
                _ => blank.then_some(""),
            })))
        }
        DataType::List(element) if *element.data_type() == DataType::Int16 => {
            let mut lists = ListBuilder::new(Int16Builder::new());
            for row in rows {
                match row.get(name) {
                    Some(Value::List(values)) => {
                        values.iter().for_each(|value| lists.values().append_value(*value as i16));
                        lists.append(true);
                    }
                    _ => lists.append(false),
                }
            }
            Arc::new(lists.finish())
        }
        DataType::List(element) if *element.data_type() == DataType::Int64 => {
            let mut lists = ListBuilder::new(Int64Builder::new()).with_field(Arc::clone(element));
            for row in rows {
                match row.get(name) {
                    Some(Value::List(values)) => {
                        values.iter().for_each(|value| lists.values().append_value(*value));
                        lists.append(true);
                    }
                    _ => lists.append(false),
                }
            }
            Arc::new(lists.finish())
        }
        DataType::Interval(_) => {
            Arc::new(IntervalMonthDayNanoArray::from_iter(rows.iter().map(|row| match row.get(name) {
                Some(Value::Span(seconds)) => Some(IntervalMonthDayNano::new(0, 0, seconds * 1_000_000_000)),
                _ => None,
            })))
        }
        other => new_null_array(other, rows.len()),
    }
}
