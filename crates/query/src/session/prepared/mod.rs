//! Statements that are prepared, described, refined or verified: all but running a text once.
//!
//! Invariants:
//! - A parameter stands for a constant: the statement means what its text would mean with the value written in its
//!   place. Values are put into the parsed tree; nothing is printed and parsed again.
//! - A prepared statement belongs to no session, and holds no snapshot.

pub(crate) mod bounded;
pub(crate) mod describe;
pub(crate) mod refined;
pub(crate) mod verify;

use crate::answer::{CachedStatement, Literal, Statement as Recognised, recognise};
use crate::session::change::points::{compiled, means, run_point};
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::run::runner::Runner;
use crate::session::select::by_key::PointRead;
use crate::session::state::scope::Scope;
use crate::session::statement::at_once::answer_at_once;
use crate::session::statement::dispatch::dispatch;
use crate::session::statement::{execute, parse_one};
use alluvia_catalog::TableEntry;
use alluvia_catalog::authoriser::Need;
use alluvia_points::PointStatement;
use alluvia_syntax::{Kind, Statement};
use alluvia_types::{Error, ErrorKind, Result};
use arrow::datatypes::{DataType as ArrowType, SchemaRef};
use datafusion::common::ScalarValue;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A statement that was parsed by [`Session::prepare`](crate::Session::prepare). Cheap to clone; any session of the
/// database may run it.
#[derive(Clone, Debug)]
pub struct Prepared {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    statement: Statement,
    /// With parameters, if it has any and the index may answer it.
    template: Option<Recognised>,
    cached: Mutex<Option<Arc<CachedStatement>>>,
    /// What it was compiled to by a definition of its table, if it was tried.
    point: Mutex<Option<Arc<PointStatement>>>,
    /// The schema of an answer from the tables that it was compiled for, and what it was compiled to then.
    shown: Mutex<Option<(Arc<PointStatement>, SchemaRef)>>,
    /// How often compiling it was in vain: it is tried again, for definitions change, and not for ever.
    in_vain: AtomicU32,
}

/// How often compiling a statement is tried.
const COMPILED_MAX: u32 = 8;

impl Prepared {
    /// What it is compiled to, if it is about rows that it names.
    fn point(&self, scope: &Scope) -> Option<Arc<PointStatement>> {
        let Inner { statement, point, in_vain, .. } = self.inner.as_ref();
        if statement.parameters() == 0 || in_vain.load(Ordering::Relaxed) >= COMPILED_MAX {
            return None;
        }
        let mut known = point.lock();
        let is_current = |point: &Arc<PointStatement>| {
            let catalog = scope.engine.read().catalog();
            let is_same =
                |entry: &TableEntry| catalog.by_id(entry.def.id).is_some_and(|now| now.changed_at == entry.changed_at);
            point.tables().iter().all(|(_, entry)| is_same(entry))
        };
        if known.as_ref().is_none_or(|known| !is_current(known)) {
            *known = compiled(scope, statement).map(Arc::new);
            if known.is_none() {
                in_vain.fetch_add(1, Ordering::Relaxed);
            }
        }
        known.clone()
    }

    /// The schema of what it is compiled to, if that is known.
    fn shown(&self, point: &Arc<PointStatement>) -> Option<SchemaRef> {
        let shown = self.inner.shown.lock();
        shown.as_ref().filter(|(of, _)| Arc::ptr_eq(of, point)).map(|(_, schema)| Arc::clone(schema))
    }

    /// Remembers that of an answer. Not of one of other tables, as another search path names them, nor of NULL, for which planning may
    /// choose other types.
    fn remember(&self, scope: &Scope, point: &Arc<PointStatement>, values: &[ScalarValue], outcome: &Outcome) {
        let Some(rows) = outcome.rows.as_ref().filter(|_| point.query().is_some()) else { return };
        if self.shown(point).is_some() || values.iter().any(ScalarValue::is_null) {
            return;
        }
        if means(scope, point, Need::Definition) {
            *self.inner.shown.lock() = Some((Arc::clone(point), rows.schema()));
        }
    }

    /// A statement that is parsed.
    pub fn of(statement: Statement) -> Prepared {
        let template = match &statement.kind {
            Kind::Query(query) if statement.parameters() > 0 => recognise(query).ok(),
            _ => None,
        };
        let (cached, point, in_vain) = (Mutex::default(), Mutex::default(), AtomicU32::new(0));
        let shown = Mutex::default();
        Prepared { inner: Arc::new(Inner { statement, template, cached, point, shown, in_vain }) }
    }

    /// The statement as it was written.
    pub fn sql(&self) -> &str {
        self.inner.statement.sql()
    }

    /// How many parameters it has: the highest number of its `$1, $2, ...`.
    pub fn parameters(&self) -> usize {
        self.inner.statement.parameters()
    }

    /// The parsed statement.
    pub fn statement(&self) -> &Statement {
        &self.inner.statement
    }

    /// The statement with a value for each of its parameters.
    pub(crate) fn bind(&self, values: &[ScalarValue]) -> Result<Statement> {
        self.check_count(values)?;
        self.inner.statement.bind(values)
    }

    /// Refuses more or fewer values than there are parameters.
    fn check_count(&self, values: &[ScalarValue]) -> Result<()> {
        let parameters = self.parameters();
        if values.len() == parameters {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Syntax,
            format!("the statement has {parameters} parameters, and {} values are given", values.len()),
        ))
    }
}

/// Parses one statement, which may have parameters.
pub(crate) fn prepare(scope: &Scope, sql: &str) -> Result<Prepared> {
    parse_one(scope, sql).map(Prepared::of)
}

/// Runs a prepared statement with a value for each of its parameters.
pub(crate) async fn execute_prepared(runner: &Runner, prepared: &Prepared, values: &[ScalarValue]) -> Result<Outcome> {
    let Inner { statement, template, cached, .. } = prepared.inner.as_ref();
    let parameters = statement.parameters();
    prepared.check_count(values)?;
    if let Kind::CallProcedure(_) = &statement.kind {
        // Its arguments are values as they are.
        let (kind, values) = (statement.kind.clone(), values.to_vec());
        return runner.run(statement.sql(), |run: Arc<Run>| (run.calls)(Arc::clone(&run), kind, values)).await;
    }
    let known = cached.lock().clone();
    if let Some(known) = &known
        && let Some(literals) = values.iter().map(literal_of).collect::<Option<Vec<Literal>>>()
        && let Some(outcome) = answer_at_once(runner, statement.sql(), known, &literals)?
    {
        // Whoever asks in a loop leaves the thread to others now and then.
        tokio::task::coop::consume_budget().await;
        return Ok(outcome);
    }
    if let Some(point) = PointRead::of_text(&runner.scope, statement.sql(), values) {
        let work = |run: Arc<Run>| async move {
            match point.answer(&run).await? {
                Some(outcome) => Ok(outcome),
                None => dispatch(&run, statement.bind(values)?).await,
            }
        };
        return runner.run(statement.sql(), work).await;
    }
    if let Some(point) = prepared.point(&runner.scope) {
        let (shown, compiled) = (prepared.shown(&point), point.as_ref());
        let work = |run: Arc<Run>| async move {
            match run_point(&run, statement, compiled, values, shown).await? {
                Some(outcome) => Ok(outcome),
                None => dispatch(&run, statement.bind(values)?).await,
            }
        };
        let outcome = runner.run(statement.sql(), work).await?;
        prepared.remember(&runner.scope, &point, values, &outcome);
        return Ok(outcome);
    }
    // With other values it is another statement.
    let known = known.filter(|_| parameters == 0);
    let (outcome, made) = execute(runner, statement.bind(values)?, known).await?;
    if let Some(made) = made.filter(|made| parameters == 0 || made.is_by_cuboid()) {
        *cached.lock() = match (parameters, template) {
            (0, _) => Some(made),
            (_, Some(template)) => Some(Arc::new(made.of_template(template.clone()))),
            (_, None) => None,
        };
    }
    Ok(outcome)
}

/// Runs a prepared statement within one that runs: of a procedure.
pub(crate) async fn execute_within(run: &Arc<Run>, prepared: &Prepared, values: &[ScalarValue]) -> Result<Outcome> {
    let statement = &prepared.inner.statement;
    prepared.check_count(values)?;
    if let Some(point) = PointRead::of_text(&run.scope, statement.sql(), values)
        && let Some(outcome) = point.answer(run).await?
    {
        return Ok(outcome);
    }
    if let Some(point) = prepared.point(&run.scope) {
        if let Some(outcome) = run_point(run, statement, &point, values, prepared.shown(&point)).await? {
            return Ok(outcome);
        }
        let outcome = dispatch(run, statement.bind(values)?).await?;
        prepared.remember(&run.scope, &point, values, &outcome);
        return Ok(outcome);
    }
    dispatch(run, statement.bind(values)?).await
}

/// The same without estimates, whatever `max_error` is: for rows that are written somewhere, as those of COPY.
pub(crate) async fn execute_exactly(runner: &Runner, prepared: &Prepared, values: &[ScalarValue]) -> Result<Outcome> {
    let statement = prepared.bind(values)?;
    let text = Arc::clone(&statement.text);
    let work = |mut run: Arc<Run>| async move {
        let own = Arc::get_mut(&mut run);
        own.ok_or_else(|| Error::internal("a statement was shared before it ran"))?.accuracy = None;
        dispatch(&run, statement).await
    };
    runner.run(&text, work).await
}

/// The value as the index reads constants; `None` where only a plan can.
fn literal_of(value: &ScalarValue) -> Option<Literal> {
    Some(match value {
        ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)) | ScalarValue::LargeUtf8(Some(text)) => {
            Literal::Text(text.clone())
        }
        ScalarValue::Boolean(Some(value)) => Literal::Boolean(*value),
        ScalarValue::Date32(Some(_)) => Literal::Date(text_of(value)?),
        ScalarValue::TimestampMicrosecond(Some(_), None) => Literal::Time(text_of(value)?),
        _ if value.data_type().is_integer() && !value.is_null() => Literal::Number(text_of(value)?),
        _ => return None,
    })
}

fn text_of(value: &ScalarValue) -> Option<String> {
    match value.cast_to(&ArrowType::Utf8).ok()? {
        ScalarValue::Utf8(text) => text,
        _ => None,
    }
}
