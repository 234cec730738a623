//! The names that a statement can use: the snapshot's tables, and table functions beside them.
//!
//! Planning looks every name after FROM up as a table first, `generate_series` in `FROM generate_series(1, 9)` too; the
//! snapshot's catalog answers an unknown name with an error that lists near names. So names of functions are answered here.

pub(crate) mod tables;

use crate::namespace::tables::SnapshotCatalog;
use crate::pg_catalog::{CatalogSchema, INFORMATION_SCHEMA, PG_CATALOG};
use alluvia_catalog::Catalog;
use alluvia_change::GIVEN;
use alluvia_functions::table::{Function, functions};
use alluvia_syntax::names::PUBLIC;
use alluvia_syntax::sample::thin::THIN;
use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::common::DataFusionError;
use datafusion::execution::session_state::SessionState;
use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

/// Tables that only one statement has, by their names in schema [`GIVEN`]: other statements know of no such schema.
#[derive(Clone, Debug, Default)]
pub(crate) struct GivenTables(Vec<(&'static str, Arc<dyn TableProvider>)>);

impl GivenTables {
    /// With one more.
    #[must_use]
    pub(crate) fn with(mut self, name: &'static str, table: Arc<dyn TableProvider>) -> GivenTables {
        self.0.push((name, table));
        self
    }
}

#[async_trait]
impl SchemaProvider for GivenTables {
    fn table_names(&self) -> Vec<String> {
        self.0.iter().map(|(name, _)| (*name).to_owned()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        Ok(self.0.iter().find(|(known, _)| *known == name).map(|(_, table)| Arc::clone(table)))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| *known == name)
    }
}

/// Tables of a snapshot and the engine's table functions.
#[derive(Debug)]
pub(crate) struct Namespace {
    tables: SnapshotCatalog,
    functions: Arc<HashSet<String>>,
    given: Option<Arc<GivenTables>>,
}

impl Namespace {
    /// The names of `catalog`, and of the functions that `state` knows.
    pub(crate) fn new(catalog: &Arc<Catalog>, state: &SessionState) -> Namespace {
        let functions = state.table_functions().keys().cloned().chain([THIN.to_owned()]).collect();
        Namespace { tables: SnapshotCatalog::new(Arc::clone(catalog)), functions: Arc::new(functions), given: None }
    }

    /// And of tables that only its statement has.
    pub(crate) fn and(self, given: GivenTables) -> Namespace {
        Namespace { given: Some(Arc::new(given)), ..self }
    }
}

impl CatalogProvider for Namespace {
    fn schema_names(&self) -> Vec<String> {
        self.tables.schema_names()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        if let Some(name) = [PG_CATALOG, INFORMATION_SCHEMA].into_iter().find(|known| *known == name) {
            return Some(Arc::new(CatalogSchema { name }));
        }
        if name == GIVEN {
            return self.given.clone().map(|given| given as Arc<dyn SchemaProvider>);
        }
        let tables = self.tables.schema(name)?;
        if name != PUBLIC {
            return Some(tables);
        }
        Some(Arc::new(PublicNames { tables, functions: Arc::clone(&self.functions) }))
    }
}

/// Whether a function of one value has this name, which may stand in FROM.
fn is_scalar(name: &str) -> bool {
    static NAMES: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
        let all = functions().unwrap_or_default().iter();
        all.filter(|built| matches!(built.function, Function::Scalar(_))).flat_map(|built| built.names()).collect()
    });
    NAMES.contains(name)
}

#[derive(Debug)]
struct PublicNames {
    tables: Arc<dyn SchemaProvider>,
    functions: Arc<HashSet<String>>,
}

#[async_trait]
impl SchemaProvider for PublicNames {
    fn table_names(&self) -> Vec<String> {
        self.tables.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        if (self.functions.contains(name) || is_scalar(name)) && !self.tables.table_exist(name) {
            return Ok(None);
        }
        self.tables.table(name).await
    }

    fn table_exist(&self, name: &str) -> bool {
        self.tables.table_exist(name)
    }
}
