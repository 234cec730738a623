//! The tables of a snapshot, by name.
//!
//! Invariants:
//! - Users' schemas are those of the snapshot's definitions, schema `alluvia` has the system tables; none can be registered
//!   into. Names without a schema are looked up along the path, and nowhere else. No written name reaches that schema:
//!   `session::select::pin` refuses it.
//! - A table that does not exist is our error, with near names, not DataFusion's.

use crate::system::{SystemTable, TABLE_NAMES};
use crate::table::AlluviaTable;
use alluvia_catalog::{Catalog, RelationName, SearchPath};
use alluvia_syntax::names::ALONG_PATH;
use alluvia_types::{Error, ErrorKind, near_names};
use alluvia_values::errors::wrap;
use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::common::Result;
use std::sync::Arc;

/// The schema of system tables.
const SYSTEM_SCHEMA: &str = "alluvia";

/// The schemas of one version's definitions. Cheap to make: one per statement.
#[derive(Debug)]
pub struct SnapshotCatalog {
    catalog: Arc<Catalog>,
    path: Arc<SearchPath>,
}

impl SnapshotCatalog {
    /// The tables of these definitions, along this path.
    pub fn new(catalog: Arc<Catalog>, path: Arc<SearchPath>) -> SnapshotCatalog {
        SnapshotCatalog { catalog, path }
    }
}

impl CatalogProvider for SnapshotCatalog {
    fn schema_names(&self) -> Vec<String> {
        self.catalog.schemas().map(|(name, _)| name.to_owned()).chain([SYSTEM_SCHEMA.to_owned()]).collect()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        match name {
            ALONG_PATH => {
                Some(Arc::new(AlongPath { catalog: Arc::clone(&self.catalog), path: Arc::clone(&self.path) }))
            }
            SYSTEM_SCHEMA => Some(Arc::new(SystemSchema)),
            // One that does not exist tells so when a table is looked for.
            name => Some(Arc::new(OneSchema { catalog: Arc::clone(&self.catalog), name: name.to_owned() })),
        }
    }
}

/// The tables that are found without a schema.
#[derive(Debug)]
struct AlongPath {
    catalog: Arc<Catalog>,
    path: Arc<SearchPath>,
}

impl AlongPath {
    /// The system table of that name, where the path leads to it before any user's.
    fn system_table(&self, name: &str) -> Option<SystemTable> {
        for schema in self.path.schemas() {
            if schema == SYSTEM_SCHEMA {
                if let Some(table) = SystemTable::named(name) {
                    return Some(table);
                }
            } else if self.catalog.in_schema(schema, name).is_some() {
                return None;
            }
        }
        None
    }
}

#[async_trait]
impl SchemaProvider for AlongPath {
    fn table_names(&self) -> Vec<String> {
        self.path
            .schemas()
            .flat_map(|schema| self.catalog.tables_in(schema))
            .map(|entry| entry.def.name.clone())
            .collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(table) = self.system_table(name) {
            return Ok(Some(Arc::new(table)));
        }
        let entry = self.catalog.relation(&RelationName::bare(name), &self.path).map_err(wrap)?;
        Ok(Some(Arc::new(AlluviaTable::new(Arc::clone(entry)))))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.catalog.found(&RelationName::bare(name), &self.path).is_some() || self.system_table(name).is_some()
    }
}

#[derive(Debug)]
struct OneSchema {
    catalog: Arc<Catalog>,
    name: String,
}

#[async_trait]
impl SchemaProvider for OneSchema {
    fn table_names(&self) -> Vec<String> {
        self.catalog.tables_in(&self.name).map(|entry| entry.def.name.clone()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let name = RelationName::in_schema(self.name.as_str(), name);
        let entry = self.catalog.relation(&name, &SearchPath::default()).map_err(wrap)?;
        Ok(Some(Arc::new(AlluviaTable::new(Arc::clone(entry)))))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.catalog.in_schema(&self.name, name).is_some()
    }
}

#[derive(Debug)]
struct SystemSchema;

#[async_trait]
impl SchemaProvider for SystemSchema {
    fn table_names(&self) -> Vec<String> {
        TABLE_NAMES.map(str::to_owned).to_vec()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let table = SystemTable::named(name).ok_or_else(|| undefined(name)).map_err(wrap)?;
        Ok(Some(Arc::new(table)))
    }

    fn table_exist(&self, name: &str) -> bool {
        TABLE_NAMES.contains(&name)
    }
}

fn undefined(name: &str) -> Error {
    let error = Error::new(ErrorKind::UndefinedTable, format!("there is no system table alluvia.{name}"));
    let near = near_names(name, TABLE_NAMES);
    if near.is_empty() {
        return error.with_hint(format!("schema alluvia has {}", TABLE_NAMES.join(", ")));
    }
    error.with_hint(format!("did you mean alluvia.{}?", near.join(" or alluvia.")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_values::errors::user_error;

    #[test]
    fn the_path_is_called_as_no_schema_can_be() {
        assert!(ALONG_PATH.starts_with(alluvia_space::ENGINES_OWN) && !alluvia_space::is_schema_name(ALONG_PATH));
    }

    #[tokio::test]
    async fn missing_tables_are_named_with_near_names() {
        let catalog = SnapshotCatalog::new(Arc::default(), Arc::default());
        let system = catalog.schema(SYSTEM_SCHEMA).expect("exists");
        let error = system.table("segment").await.expect_err("does not exist");
        let error = user_error(&error).expect("ours");
        assert_eq!(error.kind(), ErrorKind::UndefinedTable);
        assert_eq!(error.hint(), Some("did you mean alluvia.segments?"));
        for schema in [ALONG_PATH, "public", "other"] {
            let schema = catalog.schema(schema).expect("says that nothing is there");
            let error = schema.table("nothing").await.expect_err("does not exist");
            assert_eq!(user_error(&error).expect("ours").kind(), ErrorKind::UndefinedTable);
        }
    }
}
