//! Queries: from a tree to a stream of rows, on one snapshot.
//!
//! Order matters: the tables are found first, because freshness may come from their options; then the snapshot is pinned;
//! then the query is planned against that snapshot's definitions.

use crate::answer::Accuracy;
use crate::errors::{error_of, planning_error};
use crate::execution::planning::plan_apart;
use crate::execution::{Again, Execution, Executor, KNOWN_OPERATORS};
use crate::namespace::Namespace;
use crate::pg_catalog;
use crate::rights::Need;
use crate::sample::SamplePlanner;
use crate::session::calls::refuse_ignored;
use crate::session::core::{Run, Session};
use crate::session::outcome::Outcome;
use crate::session::transaction::Transaction;
use crate::settings::Settings;
use crate::system::SystemContext;
use crate::table::{IndexUse, StatementContext};
use crate::used::UsedCounters;
use alluvia_catalog::rights::Privilege;
use alluvia_catalog::{Catalog, TableEntry};
use alluvia_copy::progress::CancelToken;
use alluvia_snapshot::{Snapshot, Want};
use alluvia_syntax::names::{PUBLIC, SYSTEM};
use alluvia_syntax::units::{parse_fraction, parse_freshness};
use alluvia_syntax::{Hints, rewrite_sureness};
use alluvia_types::{Error, ErrorKind, Freshness, Result, TableId};
use arrow::datatypes::SchemaRef;
use datafusion::catalog::{CatalogProviderList, MemoryCatalogProviderList};
use datafusion::common::TableReference;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SQLOptions;
use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::resolve::resolve_table_references;
use datafusion::sql::sqlparser::ast::{self, Query};
use std::sync::Arc;
use std::time::Duration;
use tracing::{Instrument, info_span};

/// A planned query.
pub(crate) struct Planned {
    execution: Execution,
    used: Arc<UsedCounters>,
}

impl Planned {
    /// The columns it gives.
    pub(crate) fn schema(&self) -> SchemaRef {
        self.execution.plan.schema()
    }

    /// Starts it.
    pub(crate) fn execute(&self) -> Result<SendableRecordBatchStream> {
        self.execution.start()
    }

    /// What it reads.
    pub(crate) fn used(&self) -> Arc<UsedCounters> {
        Arc::clone(&self.used)
    }
}

/// A query with all that its planning needs.
pub(crate) struct Unplanned {
    tree: Tree,
    snapshot: Arc<Snapshot>,
    state: SessionState,
    runtime: Arc<RuntimeEnv>,
    used: Arc<UsedCounters>,
    token: CancelToken,
    executor: Arc<Executor>,
}

impl Unplanned {
    /// Plans it.
    pub(crate) async fn plan(self) -> Result<Planned> {
        let Unplanned { tree, snapshot, state, runtime, used, token, executor } = self;
        let asked = token.clone();
        plan_apart(token, async move {
            let planning = |error| planning_error(&error, &snapshot.catalog, &state);
            let plan = state.statement_to_plan(tree).await.map_err(planning)?;
            refuse_writes(&plan)?;
            let physical = state.create_physical_plan(&plan).await.map_err(planning)?;
            let again = Again::of(plan, &state, &asked, &physical, &used);
            let physical = used.pipelines().meter(physical, &runtime.memory_pool, &KNOWN_OPERATORS);
            let task = Arc::new(TaskContext::from(&state).with_runtime(runtime));
            Ok(Planned { execution: Execution { executor, plan: physical, task, again }, used })
        })
        .instrument(info_span!("planning"))
        .await
    }

    /// What it will read.
    pub(crate) fn used(&self) -> Arc<UsedCounters> {
        Arc::clone(&self.used)
    }
}

impl Session {
    /// SELECT, VALUES, WITH, under the names that its columns have.
    pub(super) async fn query_as_named(&self, run: &Run, query: &Query, hints: &Hints) -> Result<Outcome> {
        match run.telling.get() {
            Some(telling) => self.query_refined(run, query, hints, telling).await,
            None => self.query_at_once(run, query, hints).await,
        }
    }

    /// A query whose answer is not refined.
    pub(super) async fn query_at_once(&self, run: &Run, query: &Query, hints: &Hints) -> Result<Outcome> {
        if let Some(outcome) = self.answer_by_index(run, query, hints).await? {
            return Ok(outcome);
        }
        if let Some(outcome) = self.answer_by_outline(run, query, hints).await? {
            return Ok(outcome);
        }
        let tree = Tree::Statement(Box::new(ast::Statement::Query(Box::new(query.clone()))));
        let planned = self.plan_tree(run, tree, hints, accuracy_of(run)).await?;
        Ok(Outcome::rows("SELECT", planned.execute()?).with_used(planned.used()))
    }

    /// Plans a query on the snapshot that it needs. Its rows are exact: they may be written somewhere.
    pub(crate) async fn plan(&self, run: &Run, query: Box<Query>, hints: &Hints) -> Result<Planned> {
        self.plan_tree(run, Tree::Statement(Box::new(ast::Statement::Query(query))), hints, None).await
    }

    pub(super) async fn plan_tree(
        &self,
        run: &Run,
        tree: Tree,
        hints: &Hints,
        accuracy: Option<Accuracy>,
    ) -> Result<Planned> {
        let mut tree = tree;
        let brought = self.catalog_query(run, &mut tree, hints)?;
        // A plan has no place for bounds: they are the value, which must then be exact.
        let accuracy = accuracy.filter(|_| !brought.has_bounds);
        let (references, _) = resolve_table_references(&tree, true).map_err(|error| error_of(&error))?;
        self.await_own_writes().await?;
        let snapshot = Arc::new(self.pin(&references, &run.settings, hints)?);
        self.unplanned(run, tree, brought.of_catalog, snapshot, hints, accuracy)?.plan().await
    }

    /// A query on a snapshot that is pinned, to be planned when it is known that it must be; then it is exact.
    pub(crate) fn plan_later(
        &self,
        run: &Run,
        query: Box<Query>,
        snapshot: &Arc<Snapshot>,
        hints: &Hints,
    ) -> Result<Unplanned> {
        let mut tree = Tree::Statement(Box::new(ast::Statement::Query(query)));
        let Brought { of_catalog, .. } = self.catalog_query(run, &mut tree, hints)?;
        self.unplanned(run, tree, of_catalog, Arc::clone(snapshot), hints, None)
    }

    fn unplanned(
        &self,
        run: &Run,
        tree: Tree,
        of_catalog: bool,
        snapshot: Arc<Snapshot>,
        hints: &Hints,
        accuracy: Option<Accuracy>,
    ) -> Result<Unplanned> {
        let (mut state, runtime, used) = self.planner(run, &snapshot, hints, false, accuracy)?;
        if of_catalog {
            let registered =
                pg_catalog::register(&mut state, &snapshot.catalog, self.engine.admin().as_ref(), &self.authoriser());
            registered.map_err(|error| error_of(&error))?;
        }
        let (token, executor) = (run.token.clone(), Arc::clone(self.engine.executor()));
        Ok(Unplanned { tree, snapshot, state, runtime, used, token, executor })
    }

    /// Brings a query to what can be planned.
    pub(super) fn catalog_query(&self, run: &Run, tree: &mut Tree, hints: &Hints) -> Result<Brought> {
        let statement = match tree {
            Tree::Explain(explain) => explain.statement.as_mut(),
            other => other,
        };
        let Tree::Statement(statement) = statement else { return Ok(Brought::default()) };
        let ast::Statement::Query(query) = statement.as_mut() else { return Ok(Brought::default()) };
        refuse_ignored(query, self.engine.functions())?;
        let has_bounds = rewrite_sureness(query)?;
        if has_bounds && sample_fraction_of(&run.settings, hints)? < 1.0 {
            return Err(Error::new(ErrorKind::NotSupported, "bounds of what sample_fraction leaves are not supported")
                .with_hint("SET sample_fraction = 1, and SET max_error for an estimate with bounds"));
        }
        let of_catalog = pg_catalog::prepare(query, &self.authoriser(), || self.settings_now())?;
        Ok(Brought { of_catalog, has_bounds })
    }

    /// A query's logical plan, for what it tells of types.
    pub(crate) async fn logical_plan(&self, run: &Run, query: Query, hints: &Hints) -> Result<LogicalPlan> {
        let mut tree = Tree::Statement(Box::new(ast::Statement::Query(Box::new(query))));
        let Brought { of_catalog, .. } = self.catalog_query(run, &mut tree, hints)?;
        let (references, _) = resolve_table_references(&tree, true).map_err(|error| error_of(&error))?;
        let snapshot = Arc::new(self.pin(&references, &run.settings, hints)?);
        let (mut state, _, _) = self.planner(run, &snapshot, hints, true, None)?;
        if of_catalog {
            let registered =
                pg_catalog::register(&mut state, &snapshot.catalog, self.engine.admin().as_ref(), &self.authoriser());
            registered.map_err(|error| error_of(&error))?;
        }
        plan_apart(run.token.clone(), async move {
            let plan = state.statement_to_plan(tree).await;
            plan.map_err(|error| planning_error(&error, &snapshot.catalog, &state))
        })
        .await
    }

    /// The columns that a query gives, without running it.
    pub(crate) async fn schema_of(&self, run: &Run, snapshot: &Arc<Snapshot>, query: &Query) -> Result<SchemaRef> {
        let mut query = query.clone();
        rewrite_sureness(&mut query)?;
        let tree = Tree::Statement(Box::new(ast::Statement::Query(Box::new(query))));
        let (state, _, _) = self.planner(run, snapshot, &Hints::default(), true, None)?;
        let snapshot = Arc::clone(snapshot);
        plan_apart(run.token.clone(), async move {
            let plan = state.statement_to_plan(tree).await;
            let plan = plan.map_err(|error| planning_error(&error, &snapshot.catalog, &state))?;
            Ok(Arc::new(plan.schema().as_arrow().clone()))
        })
        .await
    }

    /// What plans a statement on a snapshot; where `describes`, for its types alone.
    fn planner(
        &self,
        run: &Run,
        snapshot: &Arc<Snapshot>,
        hints: &Hints,
        describes: bool,
        accuracy: Option<Accuracy>,
    ) -> Result<(SessionState, Arc<RuntimeEnv>, Arc<UsedCounters>)> {
        let context = self.statement_context(run, snapshot, hints, accuracy)?;
        let used = Arc::clone(&context.used);
        let samples = SamplePlanner::new(Arc::clone(&context), self.engine.number(), describes);
        let (state, runtime) = self.planning_state(run, context, samples)?;
        Ok((state, runtime, used))
    }

    /// What a statement on a snapshot carries to its scans.
    pub(super) fn statement_context(
        &self,
        run: &Run,
        snapshot: &Arc<Snapshot>,
        hints: &Hints,
        accuracy: Option<Accuracy>,
    ) -> Result<Arc<StatementContext>> {
        let (pending, has_own_definitions) = match &self.state.lock().transaction {
            Transaction::Open(open) => {
                let reads = |table: &TableId| snapshot.tables.contains_key(table);
                (open.pending(&snapshot.catalog, reads)?, open.has_own_definitions())
            }
            _ => Default::default(),
        };
        // What is kept between statements is of definitions that are everybody's.
        let uses_kept = !has_own_definitions;
        let used = UsedCounters::new(snapshot);
        let sample_fraction = sample_fraction_of(&run.settings, hints)?;
        let context = Arc::new(StatementContext {
            snapshot: Arc::clone(snapshot),
            used: Arc::clone(&used),
            pending,
            sample_fraction,
            clock: Arc::clone(self.engine.read().clock()),
            cuboids: Arc::clone(self.engine.cuboids()),
            skipping: (run.settings.predicate_cache && uses_kept).then(|| Arc::clone(self.engine.predicates())),
            scans: Arc::clone(self.engine.scans()),
            index: IndexUse {
                // The index knows of all rows.
                rule: run.settings.index_rule && uses_kept && sample_fraction >= 1.0,
                cuboids: run.settings.cuboids,
                accuracy,
                threads: run.settings.threads,
                kept: Arc::clone(self.engine.kept()),
            },
        });
        self.engine.queries().reads(run.query_id, &used);
        Ok(context)
    }

    /// What the statement of a context carries to system tables.
    fn system_context(&self, context: &StatementContext) -> Arc<SystemContext> {
        Arc::new(SystemContext {
            snapshot: Arc::clone(&context.snapshot),
            used: Arc::clone(&context.used),
            admin: Arc::clone(self.engine.admin()),
            queries: Arc::clone(self.engine.queries()),
            sessions: Arc::clone(self.engine.sessions()),
            cuboids: Arc::clone(self.engine.cuboids()),
            predicates: Arc::clone(self.engine.predicates()),
            settings: Arc::new(self.settings_now()),
            authoriser: self.authoriser(),
        })
    }

    /// What plans the statement of a context.
    pub(super) fn planning_state(
        &self,
        run: &Run,
        context: Arc<StatementContext>,
        samples: SamplePlanner,
    ) -> Result<(SessionState, Arc<RuntimeEnv>)> {
        let catalog = Arc::clone(&context.snapshot.catalog);
        let (mut state, runtime) = self.engine.statement_state(&run.settings);
        state.register_relation_planner(Arc::new(samples)).map_err(|error| error_of(&error))?;
        state.config_mut().set_extension(self.system_context(&context));
        state.config_mut().set_extension(context);
        let catalogs = MemoryCatalogProviderList::new();
        catalogs.register_catalog(SYSTEM.to_owned(), Arc::new(Namespace::new(&catalog, &state)));
        state.register_catalog_list(Arc::new(catalogs));
        Ok((state, runtime))
    }

    /// Pins the snapshot that a statement over these tables reads, which the session must be allowed to: no table that is not named
    /// here can be scanned.
    pub(crate) fn pin(&self, references: &[TableReference], settings: &Settings, hints: &Hints) -> Result<Snapshot> {
        let store = self.engine.read();
        let authoriser = self.resolver()?;
        let mut catalog = Arc::clone(authoriser.catalog());
        loop {
            let tables = tables_of(references, &catalog);
            for entry in tables.iter().filter_map(|id| catalog.by_id(*id)) {
                authoriser.table(Need::Privilege(Privilege::Select), entry)?;
            }
            let freshness = freshness_of(&tables, &catalog, settings, hints)?;
            let (at_least, exactly) = {
                let state = self.state.lock();
                match &state.transaction {
                    Transaction::Open(_) if hints.freshness.is_some() => return Err(hint_in_transaction()),
                    Transaction::Open(open) => (open.version, Some(open.version)),
                    _ => (state.seen, None),
                }
            };
            let mut snapshot = store.snapshot(&Want { freshness, at_least, exactly, tables: tables.clone() })?;
            self.add_own_definitions(&mut snapshot, &tables)?;
            // Between the two looks at the definitions a table may have come or gone.
            if tables_of(references, &snapshot.catalog) == tables {
                let mut state = self.state.lock();
                state.seen = state.seen.max(snapshot.version);
                return Ok(snapshot);
            }
            catalog = Arc::clone(&snapshot.catalog);
        }
    }
}

/// What bringing a query to what can be planned has shown.
#[derive(Clone, Copy, Default)]
pub(super) struct Brought {
    /// It is one of PostgreSQL's catalog.
    pub(super) of_catalog: bool,
    /// It asks how sure values are.
    pub(super) has_bounds: bool,
}

/// How exact a planned query's values must be; `None` is exact. Whoever refines a statement takes what is not refined for exact.
pub(super) fn accuracy_of(run: &Run) -> Option<Accuracy> {
    run.accuracy.filter(|_| run.telling.get().is_none())
}

/// The user tables among the names in a statement. Names of functions and unknown names are planning's to judge.
fn tables_of(references: &[TableReference], catalog: &Catalog) -> Vec<TableId> {
    let user = references.iter().filter(|reference| reference.schema().is_none_or(|schema| schema == PUBLIC));
    user.filter_map(|reference| catalog.table(reference.table()).ok()).map(|entry| entry.def.id).collect()
}

/// Hint, else setting, else the freshest of what the tables ask for.
fn freshness_of(tables: &[TableId], catalog: &Catalog, settings: &Settings, hints: &Hints) -> Result<Freshness> {
    if let Some(hint) = &hints.freshness {
        return parse_freshness(hint);
    }
    if let Some(set) = settings.freshness {
        return Ok(set);
    }
    let mut wanted: Option<Freshness> = None;
    for entry in tables.iter().filter_map(|id| catalog.by_id(*id)) {
        let own = own_freshness(entry)?;
        wanted = Some(wanted.map_or(own, |other| fresher(own, other)));
    }
    Ok(wanted.unwrap_or(Freshness::Within(Duration::ZERO)))
}

/// The share of rows that a statement reads: hint, else setting.
pub(crate) fn sample_fraction_of(settings: &Settings, hints: &Hints) -> Result<f64> {
    match &hints.sample_fraction {
        Some(hint) => parse_fraction(hint),
        None => Ok(settings.sample_fraction),
    }
}

/// What a table asks for by itself.
pub(crate) fn own_freshness(entry: &TableEntry) -> Result<Freshness> {
    match &entry.def.options.freshness {
        Some(text) => parse_freshness(text),
        None => Ok(Freshness::Within(Duration::ZERO)),
    }
}

/// A transaction reads one version, so a hint could only be left out.
fn hint_in_transaction() -> Error {
    Error::new(ErrorKind::NotSupported, "the hint freshness inside a transaction is not supported")
        .with_hint("reads of a transaction are at its BEGIN: SET freshness before it, or read outside of it")
}

fn fresher(a: Freshness, b: Freshness) -> Freshness {
    match (a, b) {
        (Freshness::Within(a), Freshness::Within(b)) => Freshness::Within(a.min(b)),
        (Freshness::Merged, other) | (other, Freshness::Merged) => other,
    }
}

/// No tree that the dialect lets through plans a write; if one did, it would bypass transactions.
fn refuse_writes(plan: &LogicalPlan) -> Result<()> {
    let reads = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    reads.verify_plan(plan).map_err(|_| Error::new(ErrorKind::NotSupported, "a write inside a query is not supported"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fresher_of_two_tables_wins() {
        let within = |seconds| Freshness::Within(Duration::from_secs(seconds));
        assert_eq!(fresher(within(5), within(1)), within(1));
        assert_eq!(fresher(Freshness::Merged, within(9)), within(9));
        assert_eq!(fresher(Freshness::Merged, Freshness::Merged), Freshness::Merged);
    }
}
