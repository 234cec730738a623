//! Statements are run: parsed, bound to parameters, and executed in the turn of their lane.
//!
//! Invariants:
//! - Several rows of parameters are one batch: of the transaction, or of one of their own.
//! - A text is parsed in its lane's turn: one that cannot be fails the lane's transaction, and not beneath a statement that runs.
//! - A statement that would change what the protocol keeps track of (the end of a named transaction, COPY through the client) is
//!   refused by name.

use crate::answer::{AnswerSource, PendingAnswer, StatementResult, ending};
use crate::caller::Caller;
use crate::extensions::Bounds;
use crate::failure::refused;
use crate::lane::Lane;
use crate::lane_task::run_in_lane;
use crate::plain_types::plain_schema;
use crate::refinements::RefinedAnswer;
use crate::shared::Shared;
use alluvia_query::{Prepared, Refining, ScalarValue};
use alluvia_syntax::Command;
use alluvia_types::{Error, ErrorKind, Result};
use std::sync::Arc;

/// The tag of a statement whose transaction was to commit, and could not.
const ROLLED_BACK: &str = "ROLLBACK";

/// Runs a statement, for each row of parameters; without parameters, once. Bounds of what is estimated come as they are wanted.
pub(crate) async fn run(
    shared: &Arc<Shared>,
    caller: &Arc<Caller>,
    lane: &Arc<Lane>,
    prepared: Prepared,
    mut rows: Vec<Vec<ScalarValue>>,
    bounds: Bounds,
) -> Result<StatementResult> {
    refuse(lane, &prepared)?;
    if rows.len() < 2 {
        let values = rows.pop().unwrap_or_default();
        let work = move |lane: Arc<Lane>| async move { once(&lane, &prepared, &values, bounds).await };
        return run_in_lane(shared, caller, lane, work).await;
    }
    if prepared.statement().command() != Command::Insert {
        let message = format!("{} rows of parameters for one query are not supported", rows.len());
        return Err(Error::new(ErrorKind::NotSupported, message)
            .with_hint("run it once for each row; only INSERT takes several, as one batch"));
    }
    if lane.is_in_transaction() {
        return run_in_lane(shared, caller, lane, move |lane| async move { insert(&lane, &prepared, &rows).await })
            .await;
    }
    let own = lane.transaction(shared.now())?;
    let home = Arc::clone(lane);
    let work = move |own: Arc<Lane>| async move {
        let answered = insert(&own, &prepared, &rows).await?;
        own.session.sql("COMMIT").await?;
        home.session.follow(&own.session, true);
        Ok(answered)
    };
    run_in_lane(shared, caller, &own, work).await
}

/// Parses a text, and runs its statement once, in the lane's turn. `check` refuses what is not for the call.
pub(crate) async fn run_text(
    shared: &Arc<Shared>,
    caller: &Arc<Caller>,
    lane: &Arc<Lane>,
    sql: String,
    bounds: Bounds,
    check: fn(Command) -> Result<()>,
) -> Result<StatementResult> {
    let work = move |lane: Arc<Lane>| async move {
        let prepared = lane.session.prepare(&sql)?;
        check(prepared.statement().command())?;
        refuse(&lane, &prepared)?;
        once(&lane, &prepared, &[], bounds).await
    };
    run_in_lane(shared, caller, lane, work).await
}

async fn once(lane: &Lane, prepared: &Prepared, values: &[ScalarValue], bounds: Bounds) -> Result<StatementResult> {
    let outcome = match bounds {
        Bounds::None => lane.session.execute_prepared(prepared, values).await?,
        Bounds::Columns => lane.session.answer_prepared(prepared, values).await?.with_bounds()?,
        Bounds::Exact => lane.session.execute_exactly(prepared, values).await?,
        Bounds::Refinements => match lane.session.refine_prepared(prepared, values).await? {
            Refining::Rows(outcome) => outcome,
            Refining::Looks(refinements) => {
                let refined = Box::new(RefinedAnswer::begin(refinements).await?);
                let schema = Arc::clone(refined.schema());
                return Ok(StatementResult::Rows(PendingAnswer { source: AnswerSource::Refined(refined), schema }));
            }
        },
    };
    Ok(match &outcome.rows {
        Some(rows) => {
            let schema = plain_schema(&rows.schema(), &outcome.tag, outcome.used());
            StatementResult::Rows(PendingAnswer { source: AnswerSource::Rows(outcome), schema })
        }
        None => StatementResult::Done(count(&outcome.tag), ending(&outcome)),
    })
}

async fn insert(lane: &Lane, prepared: &Prepared, rows: &[Vec<ScalarValue>]) -> Result<StatementResult> {
    let mut all = 0;
    for (at, values) in rows.iter().enumerate() {
        let outcome = lane.session.execute_prepared(prepared, values).await;
        let outcome = outcome.map_err(|error| error.at(format!("row {} of the parameters", at + 1)))?;
        all += count(&outcome.tag).max(0);
    }
    Ok(StatementResult::Done(all, serde_json::json!({ "tag": format!("INSERT 0 {all}") })))
}

/// Ends a transaction.
pub(crate) async fn end(shared: &Arc<Shared>, caller: &Arc<Caller>, lane: &Arc<Lane>, is_commit: bool) -> Result<()> {
    let home = Arc::clone(&caller.login.lane);
    let work = move |own: Arc<Lane>| async move {
        own.end();
        let outcome = own.session.sql(if is_commit { "COMMIT" } else { "ROLLBACK" }).await?;
        let is_kept = is_commit && outcome.tag != ROLLED_BACK;
        home.session.follow(&own.session, is_kept);
        if is_commit && !is_kept {
            return Err(Error::new(
                ErrorKind::FailedTransaction,
                "a statement of the transaction had failed: it was rolled back, and nothing of it is there",
            ));
        }
        Ok(())
    };
    run_in_lane(shared, caller, lane, work).await
}

/// How many rows a command tag says were changed.
fn count(tag: &str) -> i64 {
    tag.rsplit(' ').next().and_then(|last| last.parse().ok()).unwrap_or(-1)
}

fn refuse(lane: &Lane, prepared: &Prepared) -> Result<()> {
    match prepared.statement().command() {
        Command::Begin | Command::Commit | Command::Rollback if lane.is_named() => Err(refused(
            "BEGIN, COMMIT or ROLLBACK within a transaction of the client",
            "the client ends it by its own call; clients call it commit() and rollback()",
        )),
        Command::CopyIn => {
            Err(refused("COPY FROM STDIN", "ingest the rows: clients call it adbc_ingest or bulk ingest"))
        }
        Command::CopyOut => Err(refused("COPY TO STDOUT", "run the query: its rows come as Arrow")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_say_how_many_rows_were_changed() {
        for (tag, rows) in [
            ("INSERT 0 5", 5),
            ("UPDATE 3", 3),
            ("DELETE 0", 0),
            ("COPY 100", 100),
            ("CREATE TABLE", -1),
            ("SET", -1),
            ("SELECT 7", 7),
        ] {
            assert_eq!(count(tag), rows, "{tag}");
        }
    }
}
