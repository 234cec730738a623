//! Views in the place of tables: whatever reads a view has the plan of its query in its own.
//!
//! Invariants:
//! - A view's query is planned by the definitions of its statement's snapshot, from the text that has today's names with their schemas: the search
//!   path of whoever reads the view means nothing there, and neither does what that statement calls by WITH.
//! - The columns are the view's, by its names.
//! - Nothing is scanned that was not pinned: `session::select::pin` has asked for the rights, and pinned the tables.

use crate::namespace::Namespace;
use alluvia_catalog::{Catalog, RelationName, SearchPath, Shown, ViewEntry};
use alluvia_merged::statement_to_plan;
use alluvia_syntax::statements::views::query_of;
use alluvia_syntax::told_apart;
use alluvia_types::Error;
use alluvia_values::errors::wrap;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::view::ViewTable;
use datafusion::catalog::{SchemaProvider, Session, TableProvider};
use datafusion::common::{Column, DataFusionError, Result};
use datafusion::datasource::TableType;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::{self, Query};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// Plans the queries of views, for one statement.
pub(crate) struct ViewPlanner {
    catalog: Arc<Catalog>,
    /// As the statement's, without names.
    state: SessionState,
    is_closed: bool,
}

impl ViewPlanner {
    /// For the statement that `state` plans.
    pub(crate) fn new(catalog: &Arc<Catalog>, state: &SessionState) -> ViewPlanner {
        ViewPlanner { catalog: Arc::clone(catalog), state: state.clone(), is_closed: false }
    }

    /// The same, of which views are as opaque as tables: for who asks what a query names.
    pub(crate) fn closed(&self) -> ViewPlanner {
        ViewPlanner { catalog: Arc::clone(&self.catalog), state: self.state.clone(), is_closed: true }
    }

    /// What stands for a view in a plan.
    async fn provider(
        &self,
        view: &Arc<ViewEntry>,
        functions: &Arc<HashSet<String>>,
    ) -> Result<Arc<dyn TableProvider>> {
        let plan = self.plan(view, functions).await?;
        if self.is_closed {
            let schema = Arc::new(plan.schema().as_arrow().clone());
            return Ok(Arc::new(ClosedView { view: Arc::clone(view), schema }));
        }
        Ok(Arc::new(ViewTable::new(plan, None)))
    }

    async fn plan(&self, view: &ViewEntry, functions: &Arc<HashSet<String>>) -> Result<LogicalPlan> {
        let text = view.def.query(&self.catalog, Shown::InSchemas).map_err(wrap)?;
        let query = query_of(&text).map_err(wrap)?;
        let mut state = self.state.clone();
        // A view's own views are open: of the query that is asked about there is only what it names.
        let views = Arc::new(ViewPlanner::new(&self.catalog, &self.state));
        let path = Arc::new(SearchPath::default());
        let namespace = Namespace::with_views(&self.catalog, &path, Arc::clone(functions), Some(views));
        state.register_catalog_list(namespace.into_list());
        let plan = match statement_to_plan(&state, tree_of(query.as_ref().clone())).await {
            Ok(plan) => plan,
            // Columns of one name have other names in the view.
            Err(error) => match told_apart(&query) {
                Some(query) => statement_to_plan(&state, tree_of(query)).await.map_err(|_| error)?,
                None => return Err(error),
            },
        };
        named(plan, view)
    }
}

impl fmt::Debug for ViewPlanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ViewPlanner").field("is_closed", &self.is_closed).finish_non_exhaustive()
    }
}

fn tree_of(query: Query) -> Tree {
    Tree::Statement(Box::new(ast::Statement::Query(Box::new(query))))
}

/// The plan with the view's names for its columns.
fn named(plan: LogicalPlan, view: &ViewEntry) -> Result<LogicalPlan> {
    let names = &view.def.columns;
    let has = plan.schema().fields().len();
    if has != names.len() {
        let message =
            format!("the query of view {} has {has} columns, and the view has {}", view.def.name, names.len());
        return Err(wrap(Error::internal(message)));
    }
    if plan.schema().fields().iter().zip(names).all(|(field, name)| *field.name() == name.name) {
        return Ok(plan);
    }
    let columns: Vec<Expr> = (0..has)
        .map(|place| {
            let column = Column::from(plan.schema().qualified_field(place));
            let is_named = column.name == names[place].name;
            let column = Expr::Column(column);
            if is_named { column } else { column.alias(names[place].name.as_str()) }
        })
        .collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

/// A view as if it were a table, which nothing scans.
#[derive(Debug)]
pub(crate) struct ClosedView {
    pub(crate) view: Arc<ViewEntry>,
    schema: SchemaRef,
}

#[async_trait]
impl TableProvider for ClosedView {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        _session: &dyn Session,
        _projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Err(DataFusionError::Internal("a view that was asked about is scanned".to_owned()))
    }
}

/// The tables of a schema, or along the path, with the views beside them.
#[derive(Debug)]
pub(super) struct WithViews {
    pub(super) tables: Arc<dyn SchemaProvider>,
    /// `None` for those along the path.
    pub(super) schema: Option<String>,
    pub(super) path: Arc<SearchPath>,
    pub(super) views: Arc<ViewPlanner>,
    pub(super) functions: Arc<HashSet<String>>,
}

impl WithViews {
    fn view(&self, name: &str) -> Option<&Arc<ViewEntry>> {
        let name = RelationName { schema: self.schema.clone(), name: name.to_owned() };
        self.views.catalog.view(&name, &self.path)
    }
}

#[async_trait]
impl SchemaProvider for WithViews {
    fn table_names(&self) -> Vec<String> {
        self.tables.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match self.view(name) {
            Some(view) => self.views.provider(view, &self.functions).await.map(Some),
            None => self.tables.table(name).await,
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        self.view(name).is_some() || self.tables.table_exist(name)
    }
}
