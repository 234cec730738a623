//! Statements that the index answers, without a plan.
//!
//! Invariants:
//! - A statement that the index does not answer is planned, on the same snapshot.
//! - The index answers nothing of a table while the open transaction has changed rows of the table, which are in no index,
//!   or in it and gone, and nothing at all while the transaction has definitions of its own.

use crate::answer::{
    Asking, Bound, CachedStatement, Declined, SchemaKey, Statement, WhyExact, bind_at, recognise, run as find_exactly,
    run_within, simple_views,
};
use crate::engine::Engine;
use crate::execution::blocking::blocking;
use crate::result_names::named_first;
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::select::pin::{own_freshness, pin, read_of, reference_of, sample_fraction_of};
use crate::session::select::planning::{accuracy_of, schema_of};
use crate::session::state::transaction::Transaction;
use crate::used::UsedCounters;
use alluvia_catalog::Dictionaries;
use alluvia_snapshot::{Snapshot, TableRead};
use alluvia_space::TableDef;
use alluvia_syntax::Hints;
use alluvia_syntax::names::is_ambiguous;
use alluvia_syntax::units::parse_freshness;
use alluvia_tree::Counters;
use alluvia_types::Result;
use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
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
    pub(crate) batch: RecordBatch,
    pub(crate) counters: Counters,
    /// Answered by a cuboid.
    pub(crate) by_cuboid: bool,
    /// Why it is exact, where it might have been estimated.
    pub(crate) why_exact: Option<WhyExact>,
    pub(crate) used: Arc<UsedCounters>,
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
    Ok(is_alone && !is_planned && allowed(run, &cached.hints)?.is_ok())
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

/// Why a statement is planned, and the table that it asks.
pub(crate) struct WhyPlanned {
    why: Declined,
    def: Option<Arc<TableDef>>,
}

impl WhyPlanned {
    /// In words.
    pub(crate) fn text(&self) -> String {
        self.why.text(self.def.as_deref())
    }

    /// Of a statement that the index could not answer when it was asked.
    pub(crate) fn by_value(ready: &Ready) -> WhyPlanned {
        WhyPlanned { why: Declined::Value, def: Some(Arc::clone(&ready.read.entry.def)) }
    }
}

impl From<Declined> for WhyPlanned {
    fn from(why: Declined) -> WhyPlanned {
        WhyPlanned { why, def: None }
    }
}

/// The statement on its snapshot; `None` if the index cannot answer it.
pub(crate) async fn ready(run: &Run, query: &Query, hints: &Hints) -> Result<Option<Ready>> {
    Ok(ready_or_planned(run, query, hints).await?.ok())
}

/// The statement on its snapshot, or why the index cannot answer it.
pub(crate) async fn ready_or_planned(run: &Run, query: &Query, hints: &Hints) -> Result<Result<Ready, WhyPlanned>> {
    if let Err(why) = allowed(run, hints)? {
        return Ok(Err(why.into()));
    }
    // Planning tells an exact answer's HAVING, and its order by what is not shown.
    let may_look_further = run.accuracy.is_some() || run.refining.get().is_some();
    let may_be = |statement: &Statement| may_look_further || !statement.looks_further();
    let known = run.cached.lock().take();
    let statement = match &known {
        Some(known) => Arc::clone(known.statement()),
        None => match recognise(query) {
            Err(why) => return Ok(Err(why.into())),
            Ok(statement) => match through_views(run, statement)? {
                None => return Ok(Err(Declined::View.into())),
                Some(statement) => Arc::new(statement),
            },
        },
    };
    if !may_be(&statement) {
        return Ok(Err(Declined::LooksFurther.into()));
    }
    let Some((snapshot, read)) = pinned(run, &statement, hints).await? else {
        return Ok(Err(Declined::NotInSnapshot.into()));
    };
    let planned = |why: Declined| Ok(Err(WhyPlanned { why, def: Some(Arc::clone(&read.entry.def)) }));
    // Answers without a plan are for clocks of UTC; plans know the session's.
    if !run.settings.time_zone.is_utc() && statement.goes_by_clocks(&read.entry.def) {
        return planned(Declined::Clocks);
    }
    if let Transaction::Open(open) = &run.state().transaction
        && open.has_changes(&snapshot.catalog, read.entry.def.id)?
    {
        return planned(Declined::OwnChanges);
    }
    let Some(dictionaries) = &read.dictionaries else {
        return planned(match read.entry.def.dimensions.is_empty() {
            true => Declined::NoDimensions,
            false => Declined::NoDictionaries,
        });
    };
    let holds = |known: &Arc<CachedStatement>| {
        known.holds(&snapshot.catalog) && known.is_of(&read.entry) && known.codes_by(dictionaries)
    };
    if let Some(known) = known.filter(holds)
        && let Some(bound) = known.bound(&[], moment(run.engine()))
    {
        let schema = Arc::clone(&known.schema);
        return Ok(Ok(Ready { statement, snapshot, read: Arc::new(read), bound, schema }));
    }
    let bound = match bind_at(&statement, &read.entry, dictionaries, moment(run.engine())) {
        Ok(bound) => bound,
        Err(why) => return planned(why),
    };
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
    Ok(Ok(Ready { statement, snapshot, read: Arc::new(read), bound: Arc::new(bound), schema }))
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
fn allowed(run: &Run, hints: &Hints) -> Result<Result<(), Declined>> {
    Ok(if !run.settings.short_path {
        Err(Declined::ShortPath)
    } else if run.state().has_own_definitions() {
        Err(Declined::OwnDefinitions)
    } else if sample_fraction_of(&run.settings, hints)? < 1.0 {
        Err(Declined::SampleFraction)
    } else {
        Ok(())
    })
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

/// The answer; `None` if it turns out that the index cannot give it.
pub(crate) async fn find(run: &Run, ready: &Ready) -> Result<Option<Found>> {
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
    let accuracy = accuracy_of(run);
    let found = blocking(move || {
        let asking = Asking { bound: &bound, read: &read, version, kept: &kept, threads };
        match accuracy {
            Some(accuracy) => {
                let found = run_within(&asking, &schema, &accuracy)?;
                Ok(found.map(|(batch, counters, sample)| (batch, counters, sample.map_err(Some))))
            }
            None => {
                let found = find_exactly(&asking, &schema)?;
                Ok(found.map(|(batch, counters)| (batch, counters, Err(None))))
            }
        }
    });
    let Some((batch, counters, sample)) = found.await? else { return Ok(None) };
    if let Ok(sample) = sample {
        used.set_sample(sample);
    }
    used.add_counters(&counters);
    Ok(Some(Found { batch, counters, by_cuboid: false, why_exact: sample.err().flatten(), used }))
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
    let why_exact = run.accuracy.map(|_| WhyExact::Cuboid);
    Ok(Some(Found { batch, counters: Counters::default(), by_cuboid: true, why_exact, used }))
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
