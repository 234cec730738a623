//! Plans queries on the snapshot that they read.
//!
//! Invariants:
//! - A plan is made of the definitions of its snapshot, and reads no other.
//! - A query that is planned to be written somewhere is exact, whatever `max_error` is.
//! - Planning runs apart, where it can be stopped.

use crate::answer::Accuracy;
use crate::errors::{error_of, planning_error};
use crate::execution::planning::plan_apart;
use crate::execution::{Again, Execution, Executor, KNOWN_OPERATORS, Patience, Watched};
use crate::namespace::{GivenTables, Namespace};
use crate::point::{PointPlans, PointText};
use crate::sample::SamplePlanner;
use crate::session::run::Run;
use crate::session::select::advisory;
use crate::session::select::by_key::to_be_kept;
use crate::session::select::calls::refuse_ignored;
use crate::session::select::joined_by_key::plan_by_keys;
use crate::session::select::origins::{Origins, origins};
use crate::session::select::pin::{pin, sample_fraction_of};
use crate::session::select::sequences::register as register_sequences;
use crate::session::settings::configured;
use crate::session::state::temporary::is_temporary;
use crate::session::state::transaction::Transaction;
use crate::system::{self, SystemContext};
use crate::table::{IndexUse, StatementContext, lengths};
use crate::used::UsedCounters;
use alluvia_copy::progress::CancelToken;
use alluvia_merged::{MergedColumns, statement_to_plan};
use alluvia_pg_catalog::{CatalogContext, Viewer};
use alluvia_plan::batch_rows::fit_batches;
use alluvia_snapshot::Snapshot;
use alluvia_syntax::trees::generate_series::compute_moments;
use alluvia_syntax::{Hints, rewrite_sureness};
use alluvia_types::{Error, ErrorKind, Result, TableId};
use arrow::datatypes::SchemaRef;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::planner::RelationPlanner;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SQLOptions;
use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::resolve::resolve_table_references;
use datafusion::sql::sqlparser::ast::{self, Query};
use std::sync::Arc;
use tracing::{Instrument, info_span};

/// A planned query.
pub(crate) struct Planned {
    execution: Execution,
    used: Arc<UsedCounters>,
    origins: Origins,
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

    /// Starts it for somebody who looks at the plan afterwards.
    pub(crate) fn execute_watched(self) -> Result<(SendableRecordBatchStream, Watched)> {
        self.execution.start_watched()
    }

    /// What it reads.
    pub(crate) fn used(&self) -> Arc<UsedCounters> {
        Arc::clone(&self.used)
    }

    /// Which of its columns are columns of tables.
    pub(crate) fn origins(&self) -> Origins {
        Arc::clone(&self.origins)
    }
}

/// What is planned.
enum Source {
    Tree(Box<Tree>),
    /// What describing the query has made of its tree.
    Plan(Box<LogicalPlan>),
}

/// A query with all that its planning needs.
pub(crate) struct Unplanned {
    source: Source,
    snapshot: Arc<Snapshot>,
    state: SessionState,
    runtime: Arc<RuntimeEnv>,
    used: Arc<UsedCounters>,
    pub(super) token: CancelToken,
    executor: Arc<Executor>,
    patience: Patience,
    /// Where its plan is to be kept.
    kept: Option<(PointText, Arc<PointPlans>)>,
}

impl Unplanned {
    /// Plans it.
    pub(crate) async fn plan(self) -> Result<Planned> {
        let planned = plan_apart(self.token.clone(), async move {
            let optimized = self.optimized().await?;
            let plan = optimized.plan.clone();
            optimized.planned(&plan).await
        });
        planned.instrument(info_span!("planning")).await
    }

    /// What comes before its operators are chosen.
    pub(super) async fn optimized(self) -> Result<Optimized> {
        let planning = |error| planning_error(&error, &self.snapshot.catalog);
        let logical = match self.source {
            Source::Tree(tree) => statement_to_plan(&self.state, *tree).await.map_err(planning)?,
            Source::Plan(plan) => *plan,
        };
        refuse_writes(&logical)?;
        let plan = self.state.optimize(&logical).map_err(planning)?;
        let Unplanned { snapshot, mut state, runtime, used, token, executor, patience, kept, .. } = self;
        let fitted = StatementContext::of(&state)
            .and_then(|context| fit_batches(&mut state, &plan, &|scan, places| lengths(&context, scan, places)));
        fitted.map_err(|error| planning_error(&error, &snapshot.catalog))?;
        Ok(Optimized { logical, plan, snapshot, state, runtime, used, token, executor, patience, kept })
    }

    /// What it will read.
    pub(crate) fn used(&self) -> Arc<UsedCounters> {
        Arc::clone(&self.used)
    }
}

/// A query of which all is planned but the operators.
pub(super) struct Optimized {
    logical: LogicalPlan,
    pub(super) plan: LogicalPlan,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) state: SessionState,
    pub(super) runtime: Arc<RuntimeEnv>,
    used: Arc<UsedCounters>,
    token: CancelToken,
    executor: Arc<Executor>,
    patience: Patience,
    kept: Option<(PointText, Arc<PointPlans>)>,
}

impl Optimized {
    /// Plans it as `plan` says, which gives the same rows. What does not fit is planned by its own plan.
    pub(super) async fn planned(mut self, plan: &LogicalPlan) -> Result<Planned> {
        let origins = origins(&self.logical);
        let physical = self.operators(plan).await?;
        if let Some((text, plans)) = self.kept.take() {
            text.keep(&self.logical, &self.state, &physical.schema(), &plans);
        }
        let again = Again::of(self.plan.clone(), &self.state, &self.token, &physical, &self.used, &self.patience);
        let physical = self.used.pipelines().meter(physical, &self.runtime.memory_pool, &KNOWN_OPERATORS);
        Ok(Planned { execution: self.execution(physical, Some(again)), used: self.used, origins })
    }

    /// A part of it, by itself.
    pub(super) async fn part(&self, plan: &LogicalPlan) -> Result<Execution> {
        let physical = self.operators(plan).await?;
        let again = Again::of(plan.clone(), &self.state, &self.token, &physical, &self.used, &self.patience);
        Ok(self.execution(physical, Some(again)))
    }

    async fn operators(&self, plan: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
        let planned = self.state.query_planner().create_physical_plan(plan, &self.state).await;
        planned.map_err(|error| planning_error(&error, &self.snapshot.catalog))
    }

    fn execution(&self, plan: Arc<dyn ExecutionPlan>, again: Option<Arc<Again>>) -> Execution {
        let task = Arc::new(TaskContext::from(&self.state).with_runtime(Arc::clone(&self.runtime)));
        Execution { executor: Arc::clone(&self.executor), plan, task, again }
    }
}

/// Plans a query on the snapshot that it needs. Its rows are exact: they may be written somewhere.
pub(crate) async fn plan(run: &Run, query: Box<Query>, hints: &Hints) -> Result<Planned> {
    plan_tree(run, Tree::Statement(Box::new(ast::Statement::Query(query))), hints, None).await
}

pub(crate) async fn plan_tree(run: &Run, tree: Tree, hints: &Hints, accuracy: Option<Accuracy>) -> Result<Planned> {
    let mut tree = tree;
    let brought = catalog_query(run, &mut tree, hints)?;
    // A plan has no place for bounds: they are the value, which must then be exact.
    let accuracy = accuracy.filter(|_| !brought.has_bounds);
    let (references, _) = resolve_table_references(&tree, true).map_err(|error| error_of(&error))?;
    run.scope.await_own_writes().await?;
    let snapshot = pin(run, &references, hints).await?;
    // What a query of the catalog became depends on more than definitions and settings.
    let is_of_others = brought.of_catalog || run.state().has_own_definitions();
    let described = run.described.lock().take().filter(|_| !is_of_others);
    let plan = described.as_ref().and_then(|described| described.plan(&snapshot.catalog, &run.settings));
    let source = match plan {
        Some(plan) => Source::Plan(Box::new(plan.clone())),
        None => Source::Tree(Box::new(tree)),
    };
    let text = to_be_kept(run, &snapshot, &references, hints).filter(|_| !is_of_others);
    let mut unplanned = unplanned(run, source, brought.of_catalog, snapshot, hints, accuracy)?;
    unplanned.kept = text.map(|text| (text, Arc::clone(run.engine().point_plans())));
    unplanned.plan().await
}

/// A query on a snapshot that is pinned, to be planned when it is known that it must be; then it is exact.
pub(crate) fn plan_later(run: &Run, query: Box<Query>, snapshot: &Arc<Snapshot>, hints: &Hints) -> Result<Unplanned> {
    let mut tree = Tree::Statement(Box::new(ast::Statement::Query(query)));
    let Brought { of_catalog, .. } = catalog_query(run, &mut tree, hints)?;
    unplanned(run, Source::Tree(Box::new(tree)), of_catalog, Arc::clone(snapshot), hints, None)
}

/// Plans a query of a statement that changes rows, on a snapshot that is pinned, beside tables that only it has.
pub(crate) async fn plan_given(
    run: &Run,
    query: Box<Query>,
    snapshot: &Arc<Snapshot>,
    given: GivenTables,
) -> Result<Planned> {
    // All rows, whatever the session's sample is: constraints look at every one.
    let hints = Hints { sample_fraction: Some("1".to_owned()), ..Hints::default() };
    let mut unplanned = plan_later(run, query, snapshot, &hints)?;
    let state = &mut unplanned.state;
    let namespace = Namespace::new(&snapshot.catalog, &run.scope.path(), state).of_named(run.named()).and(given);
    state.register_catalog_list(namespace.into_list());
    plan_by_keys(unplanned).await
}

fn unplanned(
    run: &Run,
    source: Source,
    of_catalog: bool,
    snapshot: Arc<Snapshot>,
    hints: &Hints,
    accuracy: Option<Accuracy>,
) -> Result<Unplanned> {
    let (mut state, runtime, used) = planner(run, &snapshot, hints, false, accuracy)?;
    if of_catalog {
        add_catalog_functions(run, &mut state, &snapshot)?;
    }
    let (token, executor) = (run.token.clone(), Arc::clone(run.engine().executor()));
    let patience = run.engine().patience(&run.settings);
    Ok(Unplanned { source, snapshot, state, runtime, used, token, executor, patience, kept: None })
}

fn add_catalog_functions(run: &Run, state: &mut SessionState, snapshot: &Snapshot) -> Result<()> {
    let admin = run.engine().admin().as_ref();
    let added = alluvia_pg_catalog::register(state, &snapshot.catalog, admin, &viewer(run));
    added.map_err(|error| error_of(&error))?;
    advisory::register(run, state)?;
    configured::register(run, state)?;
    register_sequences(run, state)
}

/// Brings a query to what can be planned.
pub(crate) fn catalog_query(run: &Run, tree: &mut Tree, hints: &Hints) -> Result<Brought> {
    let statement = match tree {
        Tree::Explain(explain) => explain.statement.as_mut(),
        other => other,
    };
    let Tree::Statement(statement) = statement else { return Ok(Brought::default()) };
    let ast::Statement::Query(query) = statement.as_mut() else { return Ok(Brought::default()) };
    refuse_ignored(query, run.engine().functions())?;
    if !run.settings.time_zone.is_utc() {
        compute_moments(query);
    }
    let has_bounds = rewrite_sureness(query)?;
    if has_bounds && sample_fraction_of(&run.settings, hints)? < 1.0 {
        return Err(Error::new(ErrorKind::NotSupported, "bounds of what sample_fraction leaves are not supported")
            .with_hint("SET sample_fraction = 1, and SET max_error for an estimate with bounds"));
    }
    let of_catalog = alluvia_pg_catalog::prepare(query, &viewer(run), || run.scope.settings_now())?;
    Ok(Brought { of_catalog, has_bounds })
}

/// A query's logical plan, for what it tells of types.
pub(crate) async fn logical_plan(run: &Run, query: Query, hints: &Hints) -> Result<LogicalPlan> {
    let mut tree = Tree::Statement(Box::new(ast::Statement::Query(Box::new(query))));
    let Brought { of_catalog, .. } = catalog_query(run, &mut tree, hints)?;
    let (references, _) = resolve_table_references(&tree, true).map_err(|error| error_of(&error))?;
    let snapshot = pin(run, &references, hints).await?;
    let (mut state, _, _) = planner(run, &snapshot, hints, true, None)?;
    if of_catalog {
        add_catalog_functions(run, &mut state, &snapshot)?;
    }
    plan_apart(run.token.clone(), async move {
        let plan = statement_to_plan(&state, tree).await;
        plan.map_err(|error| planning_error(&error, &snapshot.catalog))
    })
    .await
}

/// The columns that a query gives, without running it.
pub(crate) async fn schema_of(run: &Run, snapshot: &Arc<Snapshot>, query: &Query) -> Result<SchemaRef> {
    let mut query = query.clone();
    rewrite_sureness(&mut query)?;
    let tree = Tree::Statement(Box::new(ast::Statement::Query(Box::new(query))));
    let (state, _, _) = planner(run, snapshot, &Hints::default(), true, None)?;
    let snapshot = Arc::clone(snapshot);
    plan_apart(run.token.clone(), async move {
        let plan = statement_to_plan(&state, tree).await;
        let plan = plan.map_err(|error| planning_error(&error, &snapshot.catalog))?;
        Ok(Arc::new(plan.schema().as_arrow().clone()))
    })
    .await
}

/// What plans a statement on a snapshot; where `describes`, for its types alone.
pub(crate) fn planner(
    run: &Run,
    snapshot: &Arc<Snapshot>,
    hints: &Hints,
    describes: bool,
    accuracy: Option<Accuracy>,
) -> Result<(SessionState, Arc<RuntimeEnv>, Arc<UsedCounters>)> {
    let context = statement_context(run, snapshot, hints, accuracy)?;
    let used = Arc::clone(&context.used);
    let samples = SamplePlanner::new(Arc::clone(&context), run.engine().number(), describes);
    let (state, runtime) = planning_state(run, context, samples)?;
    Ok((state, runtime, used))
}

/// What a statement on a snapshot carries to its scans.
pub(crate) fn statement_context(
    run: &Run,
    snapshot: &Arc<Snapshot>,
    hints: &Hints,
    accuracy: Option<Accuracy>,
) -> Result<Arc<StatementContext>> {
    let (pending, has_own_definitions) = match &run.state().transaction {
        Transaction::Open(open) => {
            let reads = |table: &TableId| snapshot.tables.contains_key(table);
            (open.pending(&snapshot.catalog, reads)?, open.has_own_definitions())
        }
        _ => Default::default(),
    };
    let temporary = {
        let mut state = run.state();
        let ids: Vec<TableId> = snapshot.tables.keys().copied().filter(|table| is_temporary(*table)).collect();
        ids.into_iter().filter_map(|table| Some((table, state.temporary.read(table)?))).collect()
    };
    // What is kept between statements is of definitions that are everybody's.
    let uses_kept = !has_own_definitions;
    let used = UsedCounters::new(snapshot);
    let sample_fraction = sample_fraction_of(&run.settings, hints)?;
    let context = Arc::new(StatementContext {
        snapshot: Arc::clone(snapshot),
        store: Arc::clone(run.engine().read()),
        used: Arc::clone(&used),
        pending,
        temporary,
        sample_fraction,
        cuboids: Arc::clone(run.engine().cuboids()),
        skipping: (run.settings.predicate_cache && uses_kept).then(|| Arc::clone(run.engine().predicates())),
        scans: Arc::clone(run.engine().scans()),
        index: IndexUse {
            // The index knows of all rows.
            rule: run.settings.index_rule && uses_kept && sample_fraction >= 1.0,
            cuboids: run.settings.cuboids,
            accuracy,
            threads: run.settings.threads,
            kept: Arc::clone(run.engine().kept()),
        },
    });
    run.engine().queries().reads(run.query_id, &used);
    Ok(context)
}

/// Who looks at PostgreSQL's catalog.
fn viewer(run: &Run) -> Viewer {
    Viewer { authoriser: run.scope.authoriser(), system: system::listed() }
}

/// What the statement of a context carries to system tables and to PostgreSQL's catalog.
fn system_contexts(run: &Run, context: &StatementContext) -> (SystemContext, CatalogContext) {
    let of_catalog = CatalogContext {
        catalog: Arc::clone(&context.snapshot.catalog),
        admin: Arc::clone(run.engine().admin()),
        locks: Arc::clone(run.engine().sessions().locks()),
        settings: Arc::new(run.scope.settings_now()),
        viewer: viewer(run),
    };
    let of_system = SystemContext {
        snapshot: Arc::clone(&context.snapshot),
        used: Arc::clone(&context.used),
        admin: Arc::clone(&of_catalog.admin),
        clock: Arc::clone(run.engine().read().clock()),
        queries: Arc::clone(run.engine().queries()),
        sessions: Arc::clone(run.engine().sessions()),
        cuboids: Arc::clone(run.engine().cuboids()),
        predicates: Arc::clone(run.engine().predicates()),
        settings: Arc::clone(&of_catalog.settings),
        authoriser: of_catalog.viewer.authoriser.clone(),
    };
    (of_system, of_catalog)
}

/// What plans the statement of a context.
pub(crate) fn planning_state(
    run: &Run,
    context: Arc<StatementContext>,
    samples: SamplePlanner,
) -> Result<(SessionState, Arc<RuntimeEnv>)> {
    let catalog = Arc::clone(&context.snapshot.catalog);
    let (mut state, runtime) = run.engine().statement_state(&run.settings);
    let merged = Arc::new(MergedColumns::default());
    for planner in [Arc::new(samples) as Arc<dyn RelationPlanner>, merged] {
        state.register_relation_planner(planner).map_err(|error| error_of(&error))?;
    }
    let (of_system, of_catalog) = system_contexts(run, &context);
    state.config_mut().set_extension(Arc::new(of_system));
    state.config_mut().set_extension(Arc::new(of_catalog));
    state.config_mut().set_extension(context);
    let namespace = Namespace::new(&catalog, &run.scope.path(), &state).of_named(run.named());
    state.register_catalog_list(namespace.into_list());
    Ok((state, runtime))
}

/// What bringing a query to what can be planned has shown.
#[derive(Clone, Copy, Default)]
pub(crate) struct Brought {
    /// It is one of PostgreSQL's catalog.
    pub(crate) of_catalog: bool,
    /// It asks how sure values are.
    pub(crate) has_bounds: bool,
}

/// How exact a planned query's values must be; `None` is exact. Whoever refines a statement takes what is not refined
/// for exact.
pub(crate) fn accuracy_of(run: &Run) -> Option<Accuracy> {
    run.accuracy.filter(|_| run.refining.get().is_none())
}

/// No tree that the dialect lets through plans a write; if one did, it would bypass transactions.
fn refuse_writes(plan: &LogicalPlan) -> Result<()> {
    let reads = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    reads.verify_plan(plan).map_err(|_| Error::new(ErrorKind::NotSupported, "a write inside a query is not supported"))
}
