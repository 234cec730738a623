//! CALL of users' procedures, and DO.
//!
//! Invariants:
//! - Outside of a transaction a CALL is one: all of it is committed, or nothing. Within one it is a part of it, and an error fails it.
//! - Where others were in its way it is run again from its start, if it is a transaction of its own at READ COMMITTED: nothing of it has
//!   happened. It is not run again for any other reason.
//! - However it ends (error, cancel, panic, a client that has gone), a transaction that it has opened is over.
//! - What a procedure does is asked of who calls it, statement by statement.

mod host;

use crate::session::constraints::settle_due;
use crate::session::define::routines::{compiled, compiled_block};
use crate::session::routines::host::{Called, SessionHost};
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::select::shown_names::answer;
use crate::session::state::scope::Scope;
use crate::session::state::transaction::Transaction;
use crate::session::statement::dispatch::learn_definitions;
use crate::session::transaction::{begin, check_transaction, commit, pin_transaction, rollback};
use alluvia_procedures::{Notice, Outputs, ProcedureDef, plain_arguments};
use alluvia_syntax::statement::Modes;
use alluvia_syntax::statements::routines::CallProcedure;
use alluvia_syntax::{Hints, Kind, parameters};
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::ArrayRef;
use arrow::compute::concat_batches;
use datafusion::common::ScalarValue;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// How often a CALL is run while others are in its way.
const TRIES_MAX: u32 = 20;
/// What is waited before the second try; before each further one it is twice as long, up to the longest.
const FIRST_WAIT: Duration = Duration::from_micros(200);
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// CALL or DO, with a value for each of its statement's parameters.
pub(crate) fn call(run: Arc<Run>, kind: Kind, values: Vec<ScalarValue>) -> BoxFuture<'static, Result<Outcome>> {
    Box::pin(async move {
        let scope = &run.scope;
        check_transaction(scope, &kind)?;
        pin_transaction(scope).await?;
        if let Transaction::Open(open) = &mut run.state().transaction {
            open.has_run = true;
        }
        if run.engine().read().is_remote() {
            learn_definitions(&run, &run.engine().read().catalog()).await?;
        }
        if scope.in_transaction() {
            return once(&run, &kind, &values).await;
        }
        let mut wait = FIRST_WAIT;
        for left in (0..TRIES_MAX).rev() {
            match alone(&run, &kind, &values).await {
                Err((error, true)) if left > 0 && error.kind() == ErrorKind::Conflict => {}
                done => return done.map_err(|(error, _)| error),
            }
            run.unpin();
            run.engine().sessions().locks().release_after(scope.id, 0);
            tokio::time::sleep(wait).await;
            run.token.check()?;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
        Err(Error::internal("a CALL has come to no end"))
    })
}

/// Ends the transaction that a CALL has opened, whatever ends the CALL.
struct Opened<'a>(&'a Scope);

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        if self.0.in_transaction() {
            drop(rollback(self.0));
        }
    }
}

/// Runs it as a transaction of its own. An error tells whether it sees what others commit, so that it may be run again.
async fn alone(run: &Arc<Run>, kind: &Kind, values: &[ScalarValue]) -> Result<Outcome, (Error, bool)> {
    let scope = &run.scope;
    let opened = Opened(scope);
    begin(scope, Modes::default()).await.map_err(|error| (error, false))?;
    let sees_commits = matches!(&run.state().transaction, Transaction::Open(open) if open.sees_commits());
    let done = match once(run, kind, values).await {
        // What waits for COMMIT is looked at now.
        Ok(outcome) => match settle_due(run, true).await {
            Ok(()) => commit(run).await.map(|_| outcome),
            Err(error) => Err(error),
        },
        error => error,
    };
    drop(opened);
    done.map_err(|error| (error, sees_commits))
}

/// Runs it in the session's transaction.
async fn once(run: &Arc<Run>, kind: &Kind, values: &[ScalarValue]) -> Result<Outcome> {
    let notices = Mutex::default();
    let outcome = match kind {
        Kind::CallProcedure(call) => {
            let outputs = called(run, call, values, Called { around: 0, notices: &notices }).await?;
            match outputs {
                None => Outcome::done("CALL"),
                Some(outputs) => {
                    let (schema, row) = (outputs.row.schema(), outputs.row);
                    let rows = futures::stream::once(async move { Ok(row) });
                    Outcome::rows("CALL", Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
                }
            }
        }
        Kind::Do(block) => {
            let kept = compiled_block(run, &ProcedureDef::of_block(block)?)?;
            let host = SessionHost::new(run, &kept, Called { around: 0, notices: &notices });
            kept.compiled().call(&host, &[]).await?;
            Outcome::done("DO")
        }
        _ => return Err(Error::internal("a statement that is no CALL was called")),
    };
    let notices: Vec<Notice> = notices.into_inner();
    Ok(notices.into_iter().fold(outcome, Outcome::with_raised))
}

/// Calls a procedure, of which so many run around.
async fn called(
    run: &Arc<Run>,
    call: &CallProcedure,
    values: &[ScalarValue],
    within: Called<'_>,
) -> Result<Option<Outputs>> {
    let kept = compiled(run, &call.name)?;
    let values = match plain_arguments(call, values) {
        Some(values) => values,
        None => computed(run, call, values).await?,
    };
    let arguments: Vec<_> = call.names.iter().cloned().zip(values).collect();
    let host = SessionHost::new(run, &kept, within);
    kept.compiled().call(&host, &arguments).await
}

/// The values of arguments that are computed, by a statement of their own.
async fn computed(run: &Arc<Run>, call: &CallProcedure, values: &[ScalarValue]) -> Result<Vec<ScalarValue>> {
    let Some(query) = call.arguments.clone() else { return Ok(Vec::new()) };
    let mut kind = Kind::Query(query);
    parameters::bind(&mut kind, values, false)?;
    let Kind::Query(query) = kind else { return Err(Error::internal("a query with values is none")) };
    let inner = run.within(Arc::clone(&run.text));
    let outcome = answer(&inner, query, &Hints::default()).await?;
    let schema = outcome.rows.as_ref().map(|rows| rows.schema());
    let schema = schema.ok_or_else(|| Error::internal("a query has no rows"))?;
    let batches = outcome.collect().await?;
    let all = concat_batches(&schema, &batches).map_err(|error| Error::internal(error.to_string()))?;
    let value = |column: &ArrayRef| {
        ScalarValue::try_from_array(column, 0).map_err(|error| Error::internal(error.strip_backtrace()))
    };
    all.columns().iter().map(value).collect()
}
