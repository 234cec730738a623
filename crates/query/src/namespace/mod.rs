//! The names that a statement can use: the snapshot's tables, and table functions beside them.
//!
//! Planning looks every name after FROM up as a table first, `generate_series` in `FROM generate_series(1, 9)` too; the
//! snapshot's catalog answers an unknown name with an error that lists near names. So names of functions are answered here.

mod named_only;
pub(crate) mod tables;
pub(crate) mod views;

use crate::namespace::named_only::NamedOnly;
use crate::namespace::tables::SnapshotCatalog;
use crate::namespace::views::{ViewPlanner, WithViews};
use alluvia_catalog::{Catalog, INFORMATION_SCHEMA, PG_CATALOG, SearchPath};
use alluvia_change::GIVEN;
use alluvia_functions::table::{Function, functions};
use alluvia_pg_catalog::CatalogSchema;
use alluvia_syntax::names::ALONG_PATH;
use alluvia_syntax::names::{PUBLIC, SYSTEM};
use alluvia_syntax::sample::thin::THIN;
use alluvia_types::TableId;
use async_trait::async_trait;
use datafusion::catalog::{
    CatalogProvider, CatalogProviderList, MemoryCatalogProviderList, SchemaProvider, TableProvider,
};
use datafusion::common::DataFusionError;
use datafusion::execution::session_state::SessionState;
use std::collections::{BTreeSet, HashSet};
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
    catalog: Arc<Catalog>,
    /// What it may read by its names; `None` where whoever reads was asked otherwise.
    named: Option<Arc<BTreeSet<TableId>>>,
    functions: Arc<HashSet<String>>,
    given: Option<Arc<GivenTables>>,
    /// `None` where there is no view.
    views: Option<Arc<ViewPlanner>>,
    path: Arc<SearchPath>,
}

impl Namespace {
    /// The names of `catalog` along a path, and of the functions that `state` knows.
    pub(crate) fn new(catalog: &Arc<Catalog>, path: &Arc<SearchPath>, state: &SessionState) -> Namespace {
        let functions = state.table_functions().keys().cloned().chain([THIN.to_owned()]).collect();
        let views = catalog.has_views().then(|| Arc::new(ViewPlanner::new(catalog, state)));
        Namespace::with_views(catalog, path, Arc::new(functions), views)
    }

    fn with_views(
        catalog: &Arc<Catalog>,
        path: &Arc<SearchPath>,
        functions: Arc<HashSet<String>>,
        views: Option<Arc<ViewPlanner>>,
    ) -> Namespace {
        let tables = SnapshotCatalog::new(Arc::clone(catalog), Arc::clone(path));
        let (catalog, path) = (Arc::clone(catalog), Arc::clone(path));
        Namespace { tables, catalog, named: None, functions, given: None, views, path }
    }

    /// The same, with views as if they were tables.
    pub(crate) fn with_views_closed(self) -> Namespace {
        let views = self.views.map(|views| Arc::new(views.closed()));
        Namespace { views, ..self }
    }

    /// The same with no other relations than these: what reads them was allowed to.
    pub(crate) fn of_named(self, named: Arc<BTreeSet<TableId>>) -> Namespace {
        Namespace { named: Some(named), ..self }
    }

    /// As a session's state has it.
    pub(crate) fn into_list(self) -> Arc<dyn CatalogProviderList> {
        let catalogs = MemoryCatalogProviderList::new();
        catalogs.register_catalog(SYSTEM.to_owned(), Arc::new(self));
        Arc::new(catalogs)
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
        let mut tables = self.tables.schema(name)?;
        let schema = (name != ALONG_PATH).then(|| name.to_owned());
        if let Some(views) = &self.views
            && name != SYSTEM
        {
            let schema = schema.clone();
            let (views, functions) = (Arc::clone(views), Arc::clone(&self.functions));
            tables = Arc::new(WithViews { tables, schema, path: Arc::clone(&self.path), views, functions });
        }
        if let Some(named) = &self.named {
            let (catalog, path, named) = (Arc::clone(&self.catalog), Arc::clone(&self.path), Arc::clone(named));
            tables = Arc::new(NamedOnly { tables, catalog, schema, path, named });
        }
        if name != ALONG_PATH && name != PUBLIC {
            return Some(tables);
        }
        Some(Arc::new(WithFunctions { tables, functions: Arc::clone(&self.functions) }))
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
struct WithFunctions {
    tables: Arc<dyn SchemaProvider>,
    functions: Arc<HashSet<String>>,
}

#[async_trait]
impl SchemaProvider for WithFunctions {
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
