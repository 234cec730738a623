//! CREATE, ALTER and DROP VIEW.
//!
//! What a view reads is bound here: its names to ids, once, by the search path of who makes it. Its query is planned for its columns, and nothing of
//! what it reads need be allowed to who makes it, but for looking into its schema: that is asked of its owner when it is read.
//!
//! Invariant: of a view there is one kind of change for everything that keeps its id ([`Change::AlterView`]).

use crate::errors::planning_error;
use crate::errors::signatures::sql_name;
use crate::execution::planning::plan_apart;
use crate::namespace::Namespace;
use crate::namespace::views::ClosedView;
use crate::result_names::named_schema;
use crate::session::define::roles::give;
use crate::session::define::tables::{is_free, missing_schema, schema_of_new};
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::select::pin::pin;
use crate::session::select::planning::{Brought, catalog_query, planner};
use crate::session::select::shown_names::{either, instead};
use crate::session::state::temporary::is_temporary as is_session_own;
use crate::session::transaction::submit::change;
use crate::table::AlluviaTable;
use alluvia_catalog::authoriser::Need;
use alluvia_catalog::dependents::dependents;
use alluvia_catalog::rights::{BOOTSTRAP, Privilege, RightsChange};
use alluvia_catalog::{
    Catalog, Change, INFORMATION_SCHEMA, Needed, PG_CATALOG, RelationName, SYSTEM_SCHEMA, TEMPORARY_SCHEMA, ViewColumn,
    ViewDef, ViewEntry, ViewRead, check_replaced,
};
use alluvia_merged::statement_to_plan;
use alluvia_plan::described_types::described_schema;
use alluvia_plan::read_columns::columns_read;
use alluvia_snapshot::Snapshot;
use alluvia_space::DataType;
use alluvia_space::keywords::quoted;
use alluvia_syntax::statements::alter::{AlterTable, TableChange};
use alluvia_syntax::statements::views::{AlterView, CreateView, ViewChange};
use alluvia_syntax::trees::named_queries::relations_of_unread;
use alluvia_syntax::{Hints, ResultNames};
use alluvia_types::{ColumnId, Error, ErrorKind, Result, TableId};
use alluvia_values::errors::not_supported;
use arrow::datatypes::{DataType as ArrowType, Field};
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::{self, Query};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// CREATE [OR REPLACE] VIEW.
pub(crate) async fn create_view(run: &Arc<Run>, create: CreateView) -> Result<Outcome> {
    let CreateView { name, or_replace, is_temporary, columns: names, sql, query, names: shown, reads } = create;
    let mut done = Outcome::done("CREATE VIEW");
    let authoriser = run.scope.resolver()?;
    let catalog = Arc::clone(authoriser.catalog());
    let mut bound = Vec::with_capacity(reads.len());
    for (written, places) in reads {
        if let Some(id) = id_of(&authoriser, &written)? {
            let (now, columns) =
                catalog.relation_now(id).ok_or_else(|| Error::internal("a relation has no columns"))?;
            // Nothing of the relation itself need be allowed; its schema must be one to look into.
            if let Some(schema) = now.schema() {
                authoriser.schema(Privilege::Usage, schema, catalog.schema(schema)?.id)?;
            }
            bound.push(ViewRead { written, relation: id, columns, used: Vec::new(), places });
        }
    }
    let reads_temporary = bound.iter().any(|read| is_session_own(read.relation));
    if reads_temporary && !is_temporary {
        done = done.with_notice(format!("view \"{}\" will be a temporary view", name.name));
    }
    let schema = match is_temporary || reads_temporary {
        true => temporary_schema(&name)?,
        false => schema_of_new(&run.scope, &name)?,
    };
    let is_own = schema == TEMPORARY_SCHEMA;
    let replaced = match catalog.id_in_schema(&schema, &name.name) {
        None if is_free(&catalog, &schema, &name.name) => None,
        Some(id) if or_replace => match catalog.view_by_id(id) {
            Some(view) => Some(Arc::clone(view)),
            None => return Err(no_view(&name.name)),
        },
        _ => {
            return Err(Error::new(ErrorKind::DuplicateTable, format!("relation \"{}\" already exists", name.name))
                .with_hint("choose another name, drop it first, or write CREATE OR REPLACE VIEW"));
        }
    };
    if let Some(view) = &replaced {
        authoriser.view(Need::Ownership, view)?;
    }
    let unread = relations_of_unread(&query)?;
    let plan = plan_of(run, *query, &catalog).await?;
    let columns = columns_of(&plan, &names, shown.as_ref())?;
    let used = used_columns(&plan)?;
    for read in &mut bound {
        read.used = match unread.contains(&read.written) {
            // Its query must hold all the same, and the plan has nothing of it.
            true => read.columns.iter().map(|(id, _)| *id).collect(),
            false => used.get(&read.relation).into_iter().flatten().copied().collect(),
        };
    }
    let id = match &replaced {
        Some(view) => view.def.id,
        None if is_own => run.new_temporary_id()?,
        None => run.engine().ingest().new_table_id(),
    };
    let def = ViewDef { id, schema, name: name.name, columns, sql, reads: bound };
    catalog.check_view(&def)?;
    let mut changes = Vec::new();
    match replaced {
        Some(view) => {
            check_replaced(&view.def.columns, &def.columns)?;
            changes.push(Change::AlterView { def, was: view.changed_at });
        }
        None => {
            changes.push(Change::CreateView { def });
            let owner = authoriser.role()?;
            if owner != BOOTSTRAP {
                changes.push(Change::Rights { change: RightsChange::Own { table: id, owner } });
            }
        }
    }
    change(run, changes).await?;
    Ok(done)
}

/// The session's own schema, for a view that may have no other.
fn temporary_schema(name: &RelationName) -> Result<String> {
    match name.schema() {
        None | Some(TEMPORARY_SCHEMA) => Ok(TEMPORARY_SCHEMA.to_owned()),
        Some(_) => {
            let message = "cannot create temporary relation in non-temporary schema";
            Err(Error::new(ErrorKind::InvalidDefinition, message).with_hint("leave the schema out"))
        }
    }
}

/// What a name in a view's query means; `None` for a system table, which has no id and stays what it is.
fn id_of(authoriser: &alluvia_catalog::authoriser::Authoriser, written: &RelationName) -> Result<Option<TableId>> {
    if let Some(id) = authoriser.catalog().id_of(written, authoriser.path()) {
        return Ok(Some(id));
    }
    match written.schema() {
        Some(SYSTEM_SCHEMA) => Ok(None),
        Some(PG_CATALOG | INFORMATION_SCHEMA) => Err(of_catalog()),
        // Tells which names are near.
        _ => Err(authoriser.relation(written).err().unwrap_or_else(|| Error::internal("a table has no id"))),
    }
}

fn of_catalog() -> Error {
    not_supported("a view of PostgreSQL's catalog")
        .with_hint("ask the catalog itself, or make a view of the tables of schema alluvia")
}

/// The plan of a view's query, in which other views are as tables are.
async fn plan_of(run: &Run, query: Query, catalog: &Arc<Catalog>) -> Result<LogicalPlan> {
    let mut tree = tree_of(query);
    let Brought { of_catalog: is_of_catalog, has_bounds } = catalog_query(run, &mut tree, &Hints::default())?;
    if is_of_catalog {
        return Err(of_catalog());
    }
    if has_bounds {
        return Err(not_supported("how sure an estimate is, in a view").with_hint("ask it of the view"));
    }
    run.scope.await_own_writes().await?;
    let snapshot = pin(run, &[], &Hints::default()).await?;
    // The definitions that its names were bound by.
    let snapshot = Arc::new(Snapshot { catalog: Arc::clone(catalog), ..Snapshot::clone(&snapshot) });
    let Tree::Statement(statement) = tree else { return Err(Error::internal("a query became another statement")) };
    let ast::Statement::Query(query) = *statement else {
        return Err(Error::internal("a query became another statement"));
    };
    match planned(run, *query.clone(), &snapshot).await {
        Ok(plan) => Ok(plan),
        Err(error) => {
            let (distinct, error) = instead(run, &query, error)?;
            planned(run, distinct, &snapshot).await.map_err(|again| either(error, again))
        }
    }
}

fn tree_of(query: Query) -> Tree {
    Tree::Statement(Box::new(ast::Statement::Query(Box::new(query))))
}

async fn planned(run: &Run, query: Query, snapshot: &Arc<Snapshot>) -> Result<LogicalPlan> {
    let (mut state, _, _) = planner(run, snapshot, &Hints::default(), true, None)?;
    let namespace = Namespace::new(&snapshot.catalog, &run.scope.path(), &state).with_views_closed();
    state.register_catalog_list(namespace.into_list());
    let (tree, snapshot) = (tree_of(query), Arc::clone(snapshot));
    plan_apart(run.token.clone(), async move {
        let plan = statement_to_plan(&state, tree).await;
        plan.map_err(|error| planning_error(&error, &snapshot.catalog))
    })
    .await
}

/// The columns of a view: those of its query, the first of them under other names.
fn columns_of(plan: &LogicalPlan, names: &[String], shown: Option<&ResultNames>) -> Result<Vec<ViewColumn>> {
    let schema = named_schema(&Arc::new(described_schema(plan)), shown);
    if names.len() > schema.fields().len() {
        return Err(Error::new(ErrorKind::Syntax, "CREATE VIEW specifies more column names than columns"));
    }
    let mut columns: Vec<ViewColumn> = Vec::with_capacity(schema.fields().len());
    for (at, field) in schema.fields().iter().enumerate() {
        let name = names.get(at).unwrap_or_else(|| field.name()).clone();
        if columns.iter().any(|known| known.name == name) {
            return Err(Error::new(ErrorKind::DuplicateColumn, format!("column \"{name}\" specified more than once"))
                .with_hint("give the columns of the view other names: CREATE VIEW v (a, b) AS ..."));
        }
        columns.push(ViewColumn { name, sql_type: type_of(field) });
    }
    Ok(columns)
}

fn type_of(field: &Field) -> String {
    let arrow = match field.data_type() {
        ArrowType::Dictionary(_, values) => values.as_ref(),
        // As PostgreSQL takes a literal of no type.
        ArrowType::Null => return DataType::Text.sql_name(),
        other => other,
    };
    DataType::from_arrow(arrow).map_or_else(|| sql_name(arrow), |data_type| data_type.sql_name())
}

/// The columns of each relation that a query uses.
fn used_columns(plan: &LogicalPlan) -> Result<BTreeMap<TableId, BTreeSet<ColumnId>>> {
    let mut used: BTreeMap<TableId, BTreeSet<ColumnId>> = BTreeMap::new();
    let scans = columns_read(plan).map_err(|error| crate::errors::error_of(&error))?;
    for scan in scans {
        let Ok(provider) = source_as_provider(&scan.source) else { continue };
        if let Some(table) = provider.downcast_ref::<AlluviaTable>() {
            let def = &table.entry().def;
            let columns = scan.columns.iter().filter_map(|place| def.columns.get(*place)).map(|column| column.id);
            used.entry(def.id).or_default().extend(columns);
        } else if let Some(closed) = provider.downcast_ref::<ClosedView>() {
            let columns = scan.columns.iter().map(|place| ColumnId(*place as u32));
            used.entry(closed.view.def.id).or_default().extend(columns);
        }
    }
    Ok(used)
}

/// DROP VIEW, all in one batch.
pub(crate) async fn drop_views(
    run: &Arc<Run>,
    names: Vec<RelationName>,
    if_exists: bool,
    cascade: bool,
) -> Result<Outcome> {
    let mut outcome = Outcome::done("DROP VIEW");
    let mut gone: Vec<Arc<ViewEntry>> = Vec::new();
    for name in names {
        if let Some(error) = missing_schema(&run.scope, &name)? {
            match if_exists {
                true => outcome = outcome.with_notice(format!("{}, skipping", error.message())),
                false => return Err(error),
            }
            continue;
        }
        match view_for(run, &name, Need::Dropping)? {
            Some(view) if gone.iter().any(|known| known.def.id == view.def.id) => {}
            Some(view) => gone.push(view),
            None if if_exists => outcome = outcome.with_notice(format!("there is no view '{}' to drop", name.name)),
            None => return Err(undefined(&name)),
        }
    }
    let Some(first) = gone.first() else { return Ok(outcome) };
    let catalog = Arc::clone(run.scope.resolver()?.catalog());
    let needed: Vec<Needed> = gone.iter().map(|view| Needed::Relation(view.def.id)).collect();
    let with = dependents(&catalog, &needed, &format!("view {}", first.def.shown()), cascade)?;
    let mut changes = with.changes;
    // Each before those that it reads.
    let order = catalog.views_in_order();
    let place = |id: TableId| order.iter().position(|view| view.def.id == id);
    gone.sort_by_key(|view| std::cmp::Reverse(place(view.def.id)));
    changes.extend(gone.iter().map(|view| Change::DropView { id: view.def.id }));
    change(run, changes).await?;
    Ok(with.notices.into_iter().fold(outcome, Outcome::with_notice))
}

/// The view of a name, which the session must own; `None` if there is nothing of the name, and an error if it is a table.
fn view_for(run: &Run, name: &RelationName, need: Need) -> Result<Option<Arc<ViewEntry>>> {
    let authoriser = run.scope.resolver()?;
    let Some(id) = authoriser.catalog().id_of(name, authoriser.path()) else { return Ok(None) };
    let Some(view) = authoriser.catalog().view_by_id(id) else { return Err(no_view(&name.name)) };
    authoriser.view(need, view)?;
    Ok(Some(Arc::clone(view)))
}

fn no_view(name: &str) -> Error {
    Error::new(ErrorKind::WrongObject, format!("\"{name}\" is not a view"))
        .with_hint("Use DROP TABLE to remove a table, and ALTER TABLE to change it.")
}

fn undefined(name: &RelationName) -> Error {
    let shown = match name.schema() {
        Some(schema) => format!("{schema}.{}", name.name),
        None => name.name.clone(),
    };
    Error::new(ErrorKind::UndefinedTable, format!("view \"{shown}\" does not exist"))
        .with_hint("pg_views lists the views")
}

/// ALTER VIEW.
pub(crate) async fn alter_view(run: &Arc<Run>, statement: AlterView) -> Result<Outcome> {
    let AlterView { name, if_exists, change } = statement;
    match view_for(run, &name, Need::Ownership)? {
        Some(view) => altered(run, &view, change, "ALTER VIEW").await,
        None if if_exists => {
            Ok(Outcome::done("ALTER VIEW").with_notice(format!("there is no view '{}' to alter", name.name)))
        }
        None => Err(undefined(&name)),
    }
}

/// ALTER TABLE of a view, as PostgreSQL takes it; `None` if the name is none of a view.
pub(crate) async fn alter_as_table(run: &Arc<Run>, statement: &AlterTable) -> Result<Option<Outcome>> {
    let view = {
        let authoriser = run.scope.resolver()?;
        let Some(view) = authoriser.catalog().view(&statement.name, authoriser.path()) else { return Ok(None) };
        authoriser.view(Need::Ownership, view)?;
        Arc::clone(view)
    };
    let change = match &statement.change {
        TableChange::Rename(name) => ViewChange::Rename(name.name.clone()),
        TableChange::RenameColumn { from, to } => ViewChange::RenameColumn { from: from.clone(), to: to.clone() },
        TableChange::Owner(owner) => ViewChange::Owner(owner.clone()),
        TableChange::SetSchema(schema) => ViewChange::SetSchema(schema.clone()),
        _ => {
            return Err(Error::new(
                ErrorKind::WrongObject,
                format!("this form of ALTER TABLE cannot be performed on relation \"{}\"", view.def.name),
            )
            .with_detail("This operation is not supported for views.")
            .with_hint("CREATE OR REPLACE VIEW gives it another query"));
        }
    };
    altered(run, &view, change, "ALTER TABLE").await.map(Some)
}

async fn altered(run: &Arc<Run>, view: &ViewEntry, alter: ViewChange, tag: &'static str) -> Result<Outcome> {
    let mut def = ViewDef::clone(&view.def);
    match alter {
        ViewChange::Owner(owner) => return give(run, view.def.id, &owner, tag).await,
        ViewChange::Rename(name) => def.name = name,
        ViewChange::SetSchema(schema) => {
            if [schema.as_str(), def.schema.as_str()].contains(&TEMPORARY_SCHEMA) {
                let message = "cannot move objects into or out of temporary schemas";
                return Err(Error::new(ErrorKind::NotSupported, message));
            }
            def.schema = schema_of_new(&run.scope, &RelationName::in_schema(schema.as_str(), def.name.as_str()))?;
        }
        ViewChange::RenameColumn { from, to } => {
            if def.columns.iter().any(|column| column.name == to) {
                let message = format!("column \"{to}\" of relation \"{}\" already exists", def.name);
                return Err(Error::new(ErrorKind::DuplicateColumn, message));
            }
            let column = def.columns.iter_mut().find(|column| column.name == from).ok_or_else(|| {
                Error::new(ErrorKind::UndefinedColumn, format!("column \"{from}\" does not exist"))
                    .with_hint(format!("DESCRIBE {} shows its columns", quoted(&view.def.name)))
            })?;
            column.name = to;
        }
    }
    let is_named_anew = (&def.schema, &def.name) != (&view.def.schema, &view.def.name);
    if is_named_anew && run.scope.resolver()?.catalog().id_in_schema(&def.schema, &def.name).is_some() {
        return Err(Error::new(ErrorKind::DuplicateTable, format!("relation \"{}\" already exists", def.name)));
    }
    change(run, vec![Change::AlterView { def, was: view.changed_at }]).await?;
    Ok(Outcome::done(tag))
}
