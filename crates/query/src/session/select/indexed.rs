//! Statements that the index answers, without a plan.
//!
//! Invariants:
//! - A statement that the index does not answer is planned, on the same snapshot.
//! - The index answers nothing of a table while the open transaction has changed rows of the table, which are in no index,
//!   or in it and gone, and nothing at all while the transaction has definitions of its own.

use crate::answer::{
    Asking, Bound, CachedStatement, SchemaKey, Statement, bind_at, recognise, run as find_exactly, run_within,
    simple_views,
};
use crate::engine::Engine;
use crate::execution::blocking::blocking;
use crate::result_names::named_first;
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::select::pin::{own_freshness, pin, read_of, reference_of, sample_fraction_of};
use crate::session::select::planning::schema_of;
use crate::session::state::transaction::Transaction;
use crate::used::UsedCounters;
use alluvia_catalog::Dictionaries;
use alluvia_snapshot::{Snapshot, TableRead};
use alluvia_syntax::Hints;
use alluvia_syntax::names::is_ambiguous;
use alluvia_syntax::units::parse_freshness;
use alluvia_tree::Counters;
use alluvia_types::Result;
use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::format::ExplainStatementOptions;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::sqlparser::ast::{Expr, Ident, Query, SelectItem, SetExpr};
use std::sync::Arc;
use tracing::{Instrument, field, info_span};

/// A recognised statement on its snapshot.
pub(crate) struct Ready {
    statement: Arc<Statement>,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) read: Arc<TableRead>,
    pub(crate) bound: Arc<Bound>,
    /// Of all that it tells or looks at.
    pub(crate) schema: SchemaRef,
}

impl Ready {
    /// The columns of its answer.
    pub(crate) fn shown(&self) -> SchemaRef {
        match self.statement.hidden.len() {
            0 => Arc::clone(&self.schema),
            hidden => {
                let shown = self.schema.fields().len().saturating_sub(hidden);
                let fields: Vec<_> = self.schema.fields()[..shown].to_vec();
                Arc::new(Schema::new_with_metadata(fields, self.schema.metadata().clone()))
            }
        }
    }
}

/// What the index gave.
pub(crate) struct Found {
    batch: RecordBatch,
    counters: Counters,
    /// Answered by a cuboid.
    by_cuboid: bool,
    used: Arc<UsedCounters>,
}

impl Found {
    /// The answer of a statement.
    pub(crate) fn into_outcome(self, run: &Run, ready: Ready, hints: &Hints) -> Result<Outcome> {
        let Found { batch, by_cuboid, used, .. } = self;
        // By a text others would be answered to whom it means the same; beside temporary tables it may mean another table.
        let is_of_all = run.state().temporary.is_empty();
        *run.cached.lock() = match is_of_all {
            true => cached_statement(ready, hints, by_cuboid)?.map(Arc::new),
            false => None,
        };
        let rows = RecordBatchStreamAdapter::new(batch.schema(), futures::stream::once(async { Ok(batch) }));
        // Who takes what was reached is told that it is not what was asked for.
        let missed = used.sample().filter(|sample| !sample.holds).map(|sample| sample.to_string());
        let outcome = Outcome::rows("SELECT", Box::pin(rows)).with_used(used);
        Ok(missed.into_iter().fold(outcome, Outcome::with_notice))
    }
}

/// The answer, if the index can give it.
pub(crate) async fn answer_by_index(run: &Run, query: &Query, hints: &Hints) -> Result<Option<Outcome>> {
    let Some(ready) = ready(run, query, hints).await? else { return Ok(None) };
    answer_ready(run, ready, hints).await
}

/// Whether this session, as it is set, may be answered as another was before.
pub(crate) fn may_answer_again(run: &Run, cached: &CachedStatement) -> Result<bool> {
    let is_alone = matches!(run.state().transaction, Transaction::None);
    if !run.settings.time_zone.is_utc() && cached.statement().goes_by_clocks(&cached.entry().def) {
        return Ok(false);
    }
    let is_planned = cached.statement().looks_further() && run.accuracy.is_none();
    Ok(is_alone && !is_planned && may_answer(run, &cached.hints)?)
}

/// The answer to a statement that the index has answered before and may answer again; `None` if what is known of it
/// holds no more.
pub(crate) async fn answer_again(run: &Run, cached: &CachedStatement) -> Result<Option<Outcome>> {
    let statement = cached.statement();
    let Some((snapshot, read)) = pinned(run, statement, &cached.hints).await? else { return Ok(None) };
    let codes = |dictionaries: &Arc<Dictionaries>| cached.codes_by(dictionaries);
    if !cached.holds(&snapshot.catalog) || !cached.is_of(&read.entry) || !read.dictionaries.as_ref().is_some_and(codes)
    {
        return Ok(None);
    }
    let Some(bound) = cached.bound(&[], moment(run.engine())) else { return Ok(None) };
    let (statement, schema) = (Arc::clone(statement), Arc::clone(&cached.schema));
    let ready = Ready { statement, snapshot, read: Arc::new(read), bound, schema };
    answer_ready(run, ready, &cached.hints).await
}

async fn answer_ready(run: &Run, ready: Ready, hints: &Hints) -> Result<Option<Outcome>> {
    let span = info_span!(
        "index answer",
        table = %ready.statement.table,
        by_cuboid = field::Empty,
        nodes.covered = field::Empty,
        nodes.cut = field::Empty,
        rows.filtered = field::Empty
    );
    let Some(found) = find(run, &ready).instrument(span.clone()).await? else { return Ok(None) };
    span.record("by_cuboid", found.by_cuboid)
        .record("nodes.covered", found.counters.covered)
        .record("nodes.cut", found.counters.cut)
        .record("rows.filtered", found.counters.rows_filtered);
    drop(span);
    found.into_outcome(run, ready, hints).map(Some)
}

/// EXPLAIN [ANALYZE] of a statement that the index answers.
pub(crate) async fn explain_by_index(
    run: &Run,
    query: &Query,
    options: &ExplainStatementOptions,
    hints: &Hints,
) -> Result<Option<Outcome>> {
    if options.verbose || options.format.is_some() {
        return Ok(None);
    }
    let Some(ready) = ready(run, query, hints).await? else { return Ok(None) };
    let mut plan = format!("IndexAnswer: {}", ready.bound.describe());
    if options.analyze {
        let Some(found) = find(run, &ready).await? else { return Ok(None) };
        let Counters { disjoint, covered, cut, rows_filtered, blocks_skipped, tail_rows, .. } = found.counters;
        let used = found.used.used();
        // Nodes that values are estimated of were cut, too, but not read.
        let (drawn, interval) = match &used.sample {
            Some(sample) => (sample.nodes_drawn, format!("{}, rungs {}", sample.interval(), sample.rungs())),
            None => (0, "exact".to_owned()),
        };
        let cut = cut + drawn;
        let drawn = if used.sample.is_some() { format!(" (drawn from: {drawn})") } else { String::new() };
        plan += &format!(
            "\n  cuboid: {}\n  nodes: covered={covered}, disjoint={disjoint}, cut={cut}{drawn}; blocks_skipped={blocks_skipped}\n  \
             rows: filtered={rows_filtered}, tail={tail_rows}, returned={}\n  interval: {interval}\n  used: {used}",
            if found.by_cuboid { "resident" } else { "none" },
            found.batch.num_rows(),
        );
    }
    let kind = if options.analyze { "Plan with Metrics" } else { "physical_plan" };
    let row = vec![Some(kind.to_owned()), Some(plan)];
    Ok(Some(Outcome::table("EXPLAIN", &["plan_type", "plan"], vec![row])))
}

/// The statement on its snapshot; `None` if the index cannot answer it.
pub(crate) async fn ready(run: &Run, query: &Query, hints: &Hints) -> Result<Option<Ready>> {
    if !may_answer(run, hints)? {
        return Ok(None);
    }
    // Planning tells an exact answer's HAVING, and its order by what is not shown.
    let may_look_further = run.accuracy.is_some() || run.refining.get().is_some();
    let may_be = |statement: &Statement| may_look_further || !statement.looks_further();
    let known = run.cached.lock().take();
    let recognised = match &known {
        Some(known) => Some(Arc::clone(known.statement())),
        None => {
            let Some(statement) = recognise(query) else { return Ok(None) };
            through_views(run, statement)?.map(Arc::new)
        }
    };
    let Some(statement) = recognised.filter(|statement| may_be(statement)) else { return Ok(None) };
    let Some((snapshot, read)) = pinned(run, &statement, hints).await? else { return Ok(None) };
    // Answers without a plan are for clocks of UTC; plans know the session's.
    if !run.settings.time_zone.is_utc() && statement.goes_by_clocks(&read.entry.def) {
        return Ok(None);
    }
    if let Transaction::Open(open) = &run.state().transaction
        && open.has_changes(&snapshot.catalog, read.entry.def.id)?
    {
        return Ok(None);
    }
    let Some(dictionaries) = &read.dictionaries else { return Ok(None) };
    let holds = |known: &Arc<CachedStatement>| {
        known.holds(&snapshot.catalog) && known.is_of(&read.entry) && known.codes_by(dictionaries)
    };
    if let Some(known) = known.filter(holds)
        && let Some(bound) = known.bound(&[], moment(run.engine()))
    {
        let schema = Arc::clone(&known.schema);
        return Ok(Some(Ready { statement, snapshot, read: Arc::new(read), bound, schema }));
    }
    let Some(bound) = bind_at(&statement, &read.entry, dictionaries, moment(run.engine())) else { return Ok(None) };
    let key = key_of(&statement, &read, query);
    // What may be the text of other items, too, tells no names.
    let is_known_by_text = !key.labels.iter().any(|label| is_ambiguous(label));
    let schema = match run.engine().schemas().get(&key).filter(|_| is_known_by_text) {
        Some(schema) => schema,
        None => {
            let schema = match statement.hidden.is_empty() {
                true => schema_of(run, &snapshot, query).await?,
                false => schema_of(run, &snapshot, &telling_all(&statement, query)).await?,
            };
            run.engine().schemas().insert(key, Arc::clone(&schema));
            schema
        }
    };
    let shown = schema.fields().len().saturating_sub(statement.hidden.len());
    let schema = named_first(&schema, run.names.get().map(AsRef::as_ref), shown);
    Ok(Some(Ready { statement, snapshot, read: Arc::new(read), bound: Arc::new(bound), schema }))
}

/// A statement over a view as one over the table that the view reads; `None` where the planner must tell what the view is.
fn through_views(run: &Run, statement: Statement) -> Result<Option<Statement>> {
    let authoriser = run.scope.resolver()?;
    let Some(views) = simple_views(authoriser.catalog(), authoriser.path(), &statement.table)? else { return Ok(None) };
    Ok(views.iter().try_fold(statement, |statement, (view, simple)| statement.through(view, simple)))
}

/// The moment that `now()` is in a statement that begins, in microseconds since 1970.
fn moment(engine: &Engine) -> i64 {
    engine.read().clock().wall_micros()
}

/// Whether the index may answer at all: it knows all rows, and of samples nothing.
fn may_answer(run: &Run, hints: &Hints) -> Result<bool> {
    let may_answer = run.settings.short_path && !run.state().has_own_definitions();
    Ok(may_answer && sample_fraction_of(&run.settings, hints)? >= 1.0)
}

/// The snapshot that a statement reads, and its table there, once the session's own writes are visible.
async fn pinned(run: &Run, statement: &Statement, hints: &Hints) -> Result<Option<(Arc<Snapshot>, TableRead)>> {
    run.scope.await_own_writes().await?;
    let path = run.scope.path();
    let table = reference_of(statement.named());
    let snapshot = pin(run, std::slice::from_ref(&table), hints).await?;
    // What was bound through a view is of the definitions that it was bound by.
    if statement.view.as_ref().is_some_and(|view| !view.holds(&snapshot.catalog, &path)) {
        return Ok(None);
    }
    let read = read_of(&snapshot, &statement.table, &path).cloned();
    Ok(read.map(|read| (snapshot, read)))
}

async fn find(run: &Run, ready: &Ready) -> Result<Option<Found>> {
    if run.settings.cuboids
        && let Some(found) = find_in_cuboids(run, ready).await?
    {
        return Ok(Some(found));
    }
    let Ready { snapshot, read, bound, schema, .. } = ready;
    let (read, bound, schema) = (Arc::clone(read), Arc::clone(bound), Arc::clone(schema));
    let used = UsedCounters::new(snapshot);
    run.engine().queries().reads(run.query_id, &used);
    let (kept, threads, version) = (Arc::clone(run.engine().kept()), run.settings.threads, snapshot.version);
    let accuracy = run.accuracy;
    let found = blocking(move || {
        let asking = Asking { bound: &bound, read: &read, version, kept: &kept, threads };
        match accuracy {
            Some(accuracy) => run_within(&asking, &schema, &accuracy),
            None => {
                let found = find_exactly(&asking, &schema)?;
                Ok(found.map(|(batch, counters)| (batch, counters, None)))
            }
        }
    });
    let Some((batch, counters, sample)) = found.await? else { return Ok(None) };
    if let Some(sample) = sample {
        used.set_sample(sample);
    }
    used.add_counters(&counters);
    Ok(Some(Found { batch, counters, by_cuboid: false, used }))
}

pub(crate) async fn find_in_cuboids(run: &Run, ready: &Ready) -> Result<Option<Found>> {
    let Ready { snapshot, read, bound, schema, .. } = ready;
    let exactly = matches!(run.state().transaction, Transaction::Open(_));
    let (cuboids, kept) = (Arc::clone(run.engine().cuboids()), Arc::clone(run.engine().kept()));
    let store = Arc::clone(run.engine().read());
    let answered = if cuboids.is_ready(bound, snapshot) {
        cuboids.answer(bound, snapshot, read, exactly, store.as_ref(), &kept, schema)?
    } else {
        // To catch up may take long.
        let (snapshot, read, bound) = (Arc::clone(snapshot), Arc::clone(read), Arc::clone(bound));
        let schema = Arc::clone(schema);
        blocking(move || cuboids.answer(&bound, &snapshot, &read, exactly, store.as_ref(), &kept, &schema)).await?
    };
    let Some((batch, version)) = answered else { return Ok(None) };
    let used = if version == snapshot.version {
        UsedCounters::new(snapshot)
    } else {
        // The cuboid was ahead: what the session has read now includes that.
        {
            let mut state = run.state();
            state.seen = state.seen.max(version);
        }
        UsedCounters::at(version, run.engine().read().lag(version), snapshot.stage)
    };
    run.engine().queries().reads(run.query_id, &used);
    Ok(Some(Found { batch, counters: Counters::default(), by_cuboid: true, used }))
}

/// The query with what it does not show as further columns: the planner knows their types.
fn telling_all(statement: &Statement, query: &Query) -> Query {
    let mut query = query.clone();
    // What else looks at them has been recognised, and may not find them under other names.
    query.order_by = None;
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.having = None;
        let named = |(place, expr): (usize, &Expr)| SelectItem::ExprWithAlias {
            expr: expr.clone(),
            alias: Ident::with_quote('"', format!("__hidden_{place}")),
        };
        select.projection.extend(statement.hidden.iter().enumerate().map(named));
    }
    query
}

/// What a statement that the index has answered needs to be asked again.
fn cached_statement(ready: Ready, hints: &Hints, by_cuboid: bool) -> Result<Option<CachedStatement>> {
    let Ready { statement, snapshot, read, bound, schema } = ready;
    let hinted = hints.freshness.as_deref().map(parse_freshness).transpose()?;
    let own = own_freshness(&read.entry)?;
    Ok(CachedStatement::new(&snapshot.catalog, &read, statement, bound, schema, hints.clone(), hinted, own, by_cuboid))
}

/// What the schema of the answer depends on.
fn key_of(statement: &Statement, read: &TableRead, query: &Query) -> SchemaKey {
    let labels = match query.body.as_ref() {
        SetExpr::Select(select) => {
            // What a column is called depends on what the table is called, too.
            let from = select.from.iter().map(|from| from.relation.to_string());
            select.projection.iter().map(ToString::to_string).chain(from).collect()
        }
        _ => Vec::new(),
    };
    SchemaKey {
        table: read.entry.def.id,
        changed_at: read.entry.changed_at,
        items: statement.items.clone(),
        groups: statement.groups.clone(),
        labels,
    }
}
