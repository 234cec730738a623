//! System tables as DataFusion sees them.

use super::build::{self, Cell, Kind};
use super::{activity, audit, cluster, definitions, storage};
use crate::system::SystemContext;
use alluvia_pg_catalog::SystemTables;
use alluvia_values::errors::wrap;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::TableType;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::{Arc, LazyLock};

/// The tables of schema `alluvia`, in name order.
pub const TABLE_NAMES: [&str; 16] = [
    "audit",
    "batches",
    "columns",
    "cuboids",
    "dimensions",
    "heaps",
    "nodes",
    "predicate_cache",
    "queries",
    "replicas",
    "segments",
    "sessions",
    "settings",
    "shards",
    "stages",
    "tables",
];

/// Where a table's rows come from.
#[derive(Clone, Copy, Debug)]
enum Rows {
    /// Everybody gets them, or those of them that they may see.
    Of(fn(&SystemContext) -> Vec<Vec<Cell>>),
    /// Not everybody gets them, or they are read from files.
    Asked(fn(&SystemContext) -> alluvia_types::Result<Vec<Vec<Cell>>>),
}

/// One table of schema `alluvia`.
#[derive(Debug)]
pub(crate) struct SystemTable {
    schema: SchemaRef,
    rows: Rows,
}

impl SystemTable {
    /// The table of this name (without its schema).
    pub(crate) fn named(name: &str) -> Option<SystemTable> {
        type Plain = fn(&SystemContext) -> Vec<Vec<Cell>>;
        if name == "audit" {
            return Some(SystemTable { schema: build::schema(audit::AUDIT), rows: Rows::Asked(audit::rows) });
        }
        let (columns, rows): (&[(&str, Kind)], Plain) = match name {
            "batches" => (storage::BATCHES, storage::batches),
            "columns" => (definitions::COLUMNS, definitions::columns),
            "cuboids" => (activity::CUBOIDS, activity::cuboids),
            "dimensions" => (definitions::DIMENSIONS, definitions::dimensions),
            "heaps" => (storage::HEAPS, storage::heaps),
            "nodes" => (cluster::NODES, cluster::nodes),
            "predicate_cache" => (activity::PREDICATES, activity::predicates),
            "queries" => (activity::QUERIES, activity::queries),
            "replicas" => (cluster::REPLICAS, cluster::replicas),
            "segments" => (storage::SEGMENTS, storage::segments),
            "sessions" => (activity::SESSIONS, activity::sessions),
            "settings" => (activity::SETTINGS, activity::settings),
            "shards" => (cluster::SHARDS, cluster::shards),
            "stages" => (storage::STAGES, storage::stages),
            "tables" => (definitions::TABLES, definitions::tables),
            _ => return None,
        };
        Some(SystemTable { schema: build::schema(columns), rows: Rows::Of(rows) })
    }
}

/// The columns of a table of schema `alluvia`.
pub fn schema_of(name: &str) -> Option<SchemaRef> {
    SystemTable::named(name).map(|table| table.schema)
}

/// All of them, as PostgreSQL's catalog lists them.
pub(crate) fn listed() -> &'static SystemTables {
    static LISTED: LazyLock<SystemTables> = LazyLock::new(|| {
        let described = TABLE_NAMES.into_iter().filter_map(|name| Some((name, schema_of(name)?)));
        SystemTables::new(described.collect())
    });
    &LISTED
}

#[async_trait]
impl TableProvider for SystemTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
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
        let context = SystemContext::of(session)?;
        context.used.read_system_table();
        let rows = match self.rows {
            Rows::Of(rows) => rows(&context),
            Rows::Asked(rows) => rows(&context).map_err(wrap)?,
        };
        let rows = build::batch(&self.schema, rows)?;
        let plan = MemorySourceConfig::try_new_exec(&[vec![rows]], Arc::clone(&self.schema), projection.cloned())?;
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_table_exists_and_has_columns() {
        for name in TABLE_NAMES {
            let table = SystemTable::named(name).expect(name);
            assert!(!table.schema.fields().is_empty());
        }
        assert!(SystemTable::named("nothing").is_none());
        assert!(TABLE_NAMES.is_sorted());
    }
    /// The table of docs/SQL.md has every table with its columns, in their order.
    #[test]
    fn the_documented_columns_are_the_ones_there() {
        let docs = include_str!("../../../../docs/SQL.md");
        for name in TABLE_NAMES {
            let start = format!("| `alluvia.{name}` |");
            let row = docs.lines().find(|line| line.starts_with(&start));
            let row = row.unwrap_or_else(|| panic!("docs/SQL.md has no row for alluvia.{name}"));
            let schema = schema_of(name).expect("columns");
            let columns: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            assert_eq!(row.rsplit('`').nth(1), Some(columns.join(", ").as_str()), "alluvia.{name}");
        }
    }
}
