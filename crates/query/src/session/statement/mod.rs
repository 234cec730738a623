//! Statements, from their texts to their outcomes.
//!
//! Invariants:
//! - A text is parsed whole before anything of it is run; one whose text the index has answered before is not parsed
//!   again.
//! - What is kept by a text is the statement alone: what stands beside it may be anything, and what is secret in it is
//!   not kept.

pub(crate) mod at_once;
pub(crate) mod by_text;
pub(crate) mod dispatch;

use crate::answer::CachedStatement;
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::run::runner::Runner;
use crate::session::select::by_key::PointRead;
use crate::session::state::scope::Scope;
use crate::session::statement::dispatch::dispatch;
use alluvia_syntax::{Kind, Statement};
use alluvia_types::{Error, ErrorKind, Result};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::Arc;

/// All statements of a script; a syntax error fails the open transaction.
pub(crate) fn parse(scope: &Scope, sql: &str) -> Result<Vec<Statement>> {
    let parsed = alluvia_syntax::script::parse(sql);
    if parsed.is_err() {
        scope.state().fail_transaction();
    }
    parsed
}

/// The statement of a text that has exactly one.
pub(crate) fn parse_one(scope: &Scope, sql: &str) -> Result<Statement> {
    let mut statements = parse(scope, sql)?;
    match statements.len() {
        1 => Ok(statements.remove(0)),
        0 => Err(Error::new(ErrorKind::Syntax, "there is no statement to run")),
        several => Err(Error::new(ErrorKind::Syntax, format!("one statement is wanted, and {several} are given"))
            .with_hint("run them one by one")),
    }
}

/// Runs a statement. For a query, returns when its rows begin to come; the rest of the time passes in the stream. Also
/// gives what it takes to ask again, if the index answered, as `known` may be from the last time.
pub(crate) fn execute(
    runner: &Runner,
    statement: Statement,
    known: Option<Arc<CachedStatement>>,
) -> BoxFuture<'_, Result<(Outcome, Option<Arc<CachedStatement>>)>> {
    Box::pin(async move {
        let text = Arc::clone(&statement.text);
        let cached = Mutex::new(None);
        let is_query = matches!(statement.kind, Kind::Query(_));
        let point = is_query.then(|| PointRead::of_text(&runner.scope, &text, &[])).flatten();
        let described = runner.described(&text).filter(|_| is_query);
        let work = |run: Arc<Run>| {
            let cached = &cached;
            async move {
                if let Some(point) = point
                    && let Some(outcome) = point.answer(&run).await?
                {
                    return Ok(outcome);
                }
                *run.cached.lock() = known;
                *run.described.lock() = described;
                let (outcome, made) = dispatch_cached(&run, statement).await;
                *cached.lock() = made;
                outcome
            }
        };
        let outcome = runner.run(&text, work).await?;
        let cached = cached.lock().take();
        Ok((outcome, cached))
    })
}

/// As [`dispatch`]; also what it takes to ask a query again. Other statements ask one on the way, and mean more than
/// its answer.
async fn dispatch_cached(run: &Arc<Run>, statement: Statement) -> (Result<Outcome>, Option<Arc<CachedStatement>>) {
    let is_query = matches!(statement.kind, Kind::Query(_));
    let outcome = dispatch(run, statement).await;
    (outcome, run.cached.lock().take().filter(|_| is_query))
}
