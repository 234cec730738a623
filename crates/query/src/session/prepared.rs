//! Statements that are parsed once and run many times, and answers that need no more than a cuboid.
//!
//! Invariants:
//! - A parameter stands for a constant: the statement means what its text would mean with the value written in its place. Values
//!   are put into the parsed tree; nothing is printed and parsed again.
//! - What is answered at once is answered as ever: in turn, recorded in `alluvia.queries`, never below what the session has read
//!   or written, and not inside a transaction, which reads one version.

use crate::answer::{CachedStatement, Literal, Statement as Recognised, recognise};
use crate::execution::guard::guarded;
use crate::session::core::{Run, Session};
use crate::session::outcome::Outcome;
use crate::session::transaction::Transaction;
use crate::system::kind_of;
use crate::used::UsedCounters;
use alluvia_syntax::{Kind, Statement};
use alluvia_types::{Error, ErrorKind, Result, Stage};
use alluvia_values::excerpt::cut;
use arrow::datatypes::DataType as ArrowType;
use datafusion::common::ScalarValue;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tracing::info_span;

/// A statement that was parsed by [`Session::prepare`]. Cheap to clone; any session of the database may run it.
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
}

impl Prepared {
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

impl Session {
    /// Parses one statement, which may have parameters `$1, $2, ...` wherever a constant may stand in a query or in the rows of an
    /// INSERT. Run it with [`Session::execute_prepared`]. It may become wrong when definitions change; that shows when it is run.
    pub fn prepare(&self, sql: &str) -> Result<Prepared> {
        let statement = self.parse_one(sql)?;
        let template = match &statement.kind {
            Kind::Query(query) if statement.parameters() > 0 => recognise(query),
            _ => None,
        };
        Ok(Prepared { inner: Arc::new(Inner { statement, template, cached: Mutex::default() }) })
    }

    /// Runs a prepared statement with a value for each of its parameters. An aggregate whose shape is resident as a cuboid takes
    /// microseconds from the second time on.
    pub async fn execute_prepared(&self, prepared: &Prepared, values: &[ScalarValue]) -> Result<Outcome> {
        let Inner { statement, template, cached } = prepared.inner.as_ref();
        let parameters = statement.parameters();
        prepared.check_count(values)?;
        let known = cached.lock().clone();
        if let Some(known) = &known
            && let Some(literals) = values.iter().map(literal_of).collect::<Option<Vec<Literal>>>()
            && let Some(outcome) = self.answer_at_once(statement.sql(), known, &literals)?
        {
            // Whoever asks in a loop leaves the thread to others now and then.
            tokio::task::coop::consume_budget().await;
            return Ok(outcome);
        }
        // With other values it is another statement.
        let known = known.filter(|_| parameters == 0);
        let (outcome, made) = self.execute_cached(statement.bind(values)?, known).await?;
        if let Some(made) = made.filter(|made| parameters == 0 || made.is_by_cuboid()) {
            *cached.lock() = match (parameters, template) {
                (0, _) => Some(made),
                (_, Some(template)) => Some(Arc::new(made.of_template(template.clone()))),
                (_, None) => None,
            };
        }
        Ok(outcome)
    }

    /// As [`Session::execute_prepared`], without estimates, whatever `max_error` is: for rows that are written somewhere, as those of COPY.
    pub fn execute_exactly<'a>(
        &'a self,
        prepared: &'a Prepared,
        values: &'a [ScalarValue],
    ) -> BoxFuture<'a, Result<Outcome>> {
        Box::pin(async move {
            let statement = prepared.bind(values)?;
            let text = Arc::clone(&statement.text);
            let work = |mut run: Arc<Run>| async move {
                let own = Arc::get_mut(&mut run);
                own.ok_or_else(|| Error::internal("a statement was shared before it ran"))?.accuracy = None;
                self.dispatch(&run, statement).await
            };
            self.run(&text, work).await
        })
    }

    /// The answer to a statement that a cuboid has answered before, if one can again; then nothing was waited for.
    pub(super) fn answer_at_once(
        &self,
        text: &str,
        cached: &CachedStatement,
        parameters: &[Literal],
    ) -> Result<Option<Outcome>> {
        let Ok(_turn) = self.turn.try_lock() else { return Ok(None) };
        let store = self.engine.read();
        // Who may not is refused the general way.
        let authoriser = self.authoriser();
        if !cached.holds(authoriser.catalog()) || !authoriser.may_read(cached.entry()) {
            return Ok(None);
        }
        let (freshness, seen) = {
            let state = self.state.lock();
            let settings = &state.settings;
            let is_plain = matches!(state.transaction, Transaction::None) && state.unseen.is_none();
            if !is_plain || !settings.short_path || !settings.cuboids || settings.sample_fraction < 1.0 {
                return Ok(None);
            }
            (cached.hinted.or(settings.freshness).unwrap_or(cached.own), state.seen)
        };
        let clock = store.clock();
        let (start, start_micros) = (clock.monotonic(), clock.wall_micros());
        let required = store.required(freshness, seen);
        let (cuboids, kept) = (self.engine.cuboids(), self.engine.kept());
        let answered = guarded(|| match cached.bound(parameters, start_micros) {
            None => Ok(None),
            Some(bound) => cuboids.answer_at_once(&bound, required, store.as_ref(), kept, &cached.schema),
        })??;
        let Some((batch, version)) = answered else { return Ok(None) };
        {
            let mut state = self.state.lock();
            state.seen = state.seen.max(version);
        }
        self.forget_progress();
        let used = UsedCounters::at(version, store.lag(version), Stage::Ingested);
        let took: Duration = clock.monotonic().saturating_sub(start);
        // It has no parts worth a span, and none is made for what a cuboid did not answer after all.
        drop(info_span!(
            "statement",
            session = self.id,
            db.query.text = cut(text),
            by_cuboid = true,
            rows = batch.num_rows()
        ));
        self.engine.statements().ended(kind_of(text), took, Ok(()));
        let client = self.client();
        let by = (self.id, client.user.as_str(), self.place.entry.who());
        self.engine.queries().ran(by, text, start_micros, took, batch.num_rows() as u64, &used);
        let rows = RecordBatchStreamAdapter::new(batch.schema(), futures::stream::once(async { Ok(batch) }));
        Ok(Some(Outcome::rows("SELECT", Box::pin(rows)).with_used(used)))
    }
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
