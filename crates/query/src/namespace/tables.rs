//! The tables of a snapshot, by name.
//!
//! Invariants:
//! - Schema `public` is the snapshot's definitions, schema `alluvia` the system tables; neither can be registered into.
//! - A table that does not exist is our error, with near names, not DataFusion's.

use crate::system::{SystemTable, TABLE_NAMES};
use crate::table::AlluviaTable;
use alluvia_catalog::Catalog;
use alluvia_types::{Error, ErrorKind, near_names};
use alluvia_values::errors::wrap;
use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::common::Result;
use std::sync::Arc;

/// The schema of users' tables.
pub(crate) const PUBLIC_SCHEMA: &str = "public";
/// The schema of system tables.
const SYSTEM_SCHEMA: &str = "alluvia";

/// Both schemas over one version's definitions. Cheap to make: one per statement.
#[derive(Debug)]
pub struct SnapshotCatalog {
    public: Arc<PublicSchema>,
}

impl SnapshotCatalog {
    /// The tables of these definitions.
    pub fn new(catalog: Arc<Catalog>) -> SnapshotCatalog {
        SnapshotCatalog { public: Arc::new(PublicSchema { catalog }) }
    }
}

impl CatalogProvider for SnapshotCatalog {
    fn schema_names(&self) -> Vec<String> {
        vec![PUBLIC_SCHEMA.to_owned(), SYSTEM_SCHEMA.to_owned()]
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        match name {
            PUBLIC_SCHEMA => Some(Arc::clone(&self.public) as Arc<dyn SchemaProvider>),
            SYSTEM_SCHEMA => Some(Arc::new(SystemSchema)),
            _ => None,
        }
    }
}

#[derive(Debug)]
struct PublicSchema {
    catalog: Arc<Catalog>,
}

#[async_trait]
impl SchemaProvider for PublicSchema {
    fn table_names(&self) -> Vec<String> {
        self.catalog.tables().map(|entry| entry.def.name.clone()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let entry = self.catalog.table(name).map_err(wrap)?;
        Ok(Some(Arc::new(AlluviaTable::new(Arc::clone(entry)))))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.catalog.table(name).is_ok()
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

    #[tokio::test]
    async fn missing_tables_are_named_with_near_names() {
        let catalog = SnapshotCatalog::new(Arc::default());
        let system = catalog.schema(SYSTEM_SCHEMA).expect("exists");
        let error = system.table("segment").await.expect_err("does not exist");
        let error = user_error(&error).expect("ours");
        assert_eq!(error.kind(), ErrorKind::UndefinedTable);
        assert_eq!(error.hint(), Some("did you mean alluvia.segments?"));
        let public = catalog.schema(PUBLIC_SCHEMA).expect("exists");
        let error = public.table("nothing").await.expect_err("does not exist");
        assert_eq!(user_error(&error).expect("ours").kind(), ErrorKind::UndefinedTable);
        assert!(catalog.schema("other").is_none());
    }
}
