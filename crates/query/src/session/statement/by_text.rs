//! Statements by their texts: a statement that the index has answered is known by its text, and a point read by a text like it;
//! neither is parsed again.

use crate::answer::CachedStatement;
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::run::runner::Runner;
use crate::session::select::by_key::PointRead;
use crate::session::select::indexed::{answer_again, may_answer_again};
use crate::session::statement::at_once::answer_at_once;
use crate::session::statement::dispatch::dispatch;
use crate::session::statement::{dispatch_cached, execute, parse_one};
use alluvia_syntax::Statement;
use alluvia_types::Result;
use parking_lot::Mutex;
use std::sync::Arc;

/// Parses and runs exactly one statement. One whose text the index has answered before is not parsed again.
pub(crate) async fn sql(runner: &Runner, sql: &str) -> Result<Outcome> {
    if let Some(cached) = runner.scope.engine.cached_statements().get(sql) {
        if cached.is_by_cuboid()
            && let Some(outcome) = answer_at_once(runner, sql, &cached, &[])?
        {
            tokio::task::coop::consume_budget().await;
            return Ok(outcome);
        }
        return sql_again(runner, sql, &cached).await;
    }
    if let Some(point) = PointRead::of_text(&runner.scope, sql, &[]) {
        let work = |run: Arc<Run>| async move {
            match point.answer(&run).await? {
                Some(outcome) => Ok(outcome),
                None => dispatch(&run, parse_one(&run.scope, sql)?).await,
            }
        };
        return runner.run(sql, work).await;
    }
    execute_alone(runner, sql, parse_one(&runner.scope, sql)?).await
}

/// Runs the one statement of a text. What the index answers is known by it from then on.
pub(crate) async fn execute_alone(runner: &Runner, sql: &str, statement: Statement) -> Result<Outcome> {
    let text = Arc::clone(&statement.text);
    let (outcome, cached) = execute(runner, statement, None).await?;
    // Beside the statement's text may be anything, and what is secret in it is not kept.
    if let Some(cached) = cached.filter(|_| *text == *sql) {
        runner.scope.engine.cached_statements().insert(&text, cached);
    }
    Ok(outcome)
}

/// Runs a text whose statement the index has answered before. Where it cannot be answered so again, it is parsed again.
async fn sql_again(runner: &Runner, sql: &str, cached: &CachedStatement) -> Result<Outcome> {
    let made = Mutex::new((None, false));
    let work = |run: Arc<Run>| {
        let made = &made;
        async move {
            let may = may_answer_again(&run, cached)?;
            if may && let Some(outcome) = answer_again(&run, cached).await? {
                *made.lock() = (run.cached.lock().take(), false);
                return Ok(outcome);
            }
            let (outcome, parsed) = dispatch_cached(&run, parse_one(&run.scope, sql)?).await;
            let is_refused = may && parsed.is_none();
            *made.lock() = (parsed, is_refused);
            outcome
        }
    };
    let outcome = runner.run(sql, work).await?;
    let known = runner.scope.engine.cached_statements();
    match made.into_inner() {
        // It is known as well as it can be.
        (Some(made), _) if made.is_same_way_as(cached) => {}
        (Some(made), _) => known.insert(&Arc::from(sql), made),
        // Whatever the index refuses it would refuse again.
        (None, true) => known.remove(sql),
        // It was not asked: this session's state or settings want another way.
        (None, false) => {}
    }
    Ok(outcome)
}
