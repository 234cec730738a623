//! Statements that change rows that are there: UPDATE, DELETE, TRUNCATE, MERGE, and INSERT with ON CONFLICT or RETURNING.
//!
//! Invariants:
//! - What a statement changes is computed from one snapshot: the newest visible version, whatever freshness the session
//!   asks for, and all rows of it, whatever its sample. In a transaction it is the transaction's.
//! - What was computed from rows that others have changed since is refused, by whoever locks the rows or by the store. Outside of a
//!   transaction, and in one at READ COMMITTED, the statement is then run again, on a newer snapshot: nothing of it has happened.
//!   There PostgreSQL evaluates the condition again for the changed row alone (EvalPlanQual); here rows that have come to meet it
//!   since are changed, too.
//! - What constraints ask for is a part of the statement, and is run again with it.
//! - Everything that may refuse a statement, RETURNING included, comes before its batch is handed over.
//! - Within a transaction a statement reads what those before it have changed, and its own changes wait with theirs.

mod beside;
pub(crate) mod existing;
mod heap;
mod locked_within;
pub(crate) mod locking;
mod merge;
pub(crate) mod points;
mod reading;
mod returning;
mod truncate;
mod upsert;
mod written;

use crate::session::change::existing::{delete, update};
use crate::session::change::locked_within::{settled_delete, settled_update};
use crate::session::change::merge::merge;
use crate::session::change::truncate::truncate;
use crate::session::change::upsert::insert;
use crate::session::constraints::{concern, constrained, set_places};
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::select::pin::sample_fraction_of;
use crate::session::state::temporary::is_temporary;
use crate::session::state::transaction::Transaction;
use alluvia_catalog::authoriser::Need;
use alluvia_catalog::rights::Privilege;
use alluvia_catalog::{RelationName, TableEntry};
use alluvia_constraints::Doing;
use alluvia_snapshot::NewBatch;
use alluvia_syntax::Hints;
use alluvia_syntax::statement::Insert;
use alluvia_syntax::statements::changes::{Delete, Update};
use alluvia_syntax::statements::merge::Merge;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::not_supported;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::MutexGuard;

/// How often a statement is run while others are in its way.
const TRIES_MAX: u32 = 10;
/// The same of one that holds the locks of the rows it found, and meets others each time.
const TRIES_LOCKED_MAX: u32 = 100;
/// What is waited before the second try; before each further one it is twice as long. What was in the way is durable then.
const FIRST_WAIT: Duration = Duration::from_millis(1);

/// A statement that changes rows.
pub(crate) enum Change {
    /// UPDATE.
    Update(Box<Update>),
    /// DELETE.
    Delete(Box<Delete>),
    /// TRUNCATE, of at least one table.
    Truncate(Vec<Delete>),
    /// MERGE.
    Merge(Box<Merge>),
    /// INSERT with ON CONFLICT or RETURNING.
    Insert(Insert),
}

impl Change {
    fn tables(&self) -> Vec<&RelationName> {
        match self {
            Change::Update(update) => vec![&update.table],
            Change::Delete(delete) => vec![&delete.table],
            Change::Truncate(tables) => tables.iter().map(|delete| &delete.table).collect(),
            Change::Merge(merge) => vec![&merge.table],
            Change::Insert(insert) => vec![&insert.table],
        }
    }

    /// What it does with them first of all.
    fn need(&self) -> Need {
        match self {
            Change::Update(_) => Need::Privilege(Privilege::Update),
            Change::Delete(_) => Need::Privilege(Privilege::Delete),
            Change::Truncate(_) => Need::Privilege(Privilege::Truncate),
            Change::Merge(_) => Need::Definition,
            Change::Insert(_) => Need::Privilege(Privilege::Insert),
        }
    }

    async fn run(&self, run: &Arc<Run>, hints: &Hints) -> Result<Outcome> {
        match self {
            Change::Update(statement) if !statement.locked.is_empty() => {
                update(run, &settled_update(run, statement, hints).await?).await
            }
            Change::Delete(statement) if !statement.locked.is_empty() => {
                delete(run, &settled_delete(run, statement, hints).await?).await
            }
            Change::Update(statement) => update(run, statement).await,
            Change::Delete(statement) => delete(run, statement).await,
            Change::Truncate(tables) => truncate(run, tables).await,
            Change::Merge(statement) => merge(run, statement).await,
            Change::Insert(statement) => insert(run, statement, hints).await,
        }
    }
}

/// Runs a statement that changes rows, again where others have changed what it was computed from.
pub(crate) async fn change(run: &Arc<Run>, statement: Change, hints: &Hints) -> Result<Outcome> {
    refuse_inexact(run, hints)?;
    let need = statement.need();
    let entries = statement.tables().into_iter().map(|table| {
        run.scope.refuse_view(need, table)?;
        run.scope.table_for(Need::Definition, table)
    });
    let entries = entries.collect::<Result<Vec<_>>>()?;
    let is_temporary = entries.iter().any(|entry| is_temporary(entry.def.id));
    let is_alone = !run.state().is_open()? && !is_temporary;
    let locks = run.engine().sessions().locks();
    let held = locks.in_transaction(run.scope.id);
    let mut turn = None;
    let mut wait = FIRST_WAIT;
    for _ in 1..TRIES_MAX {
        match once(run, &statement, hints, is_temporary).await {
            Err(error) if error.kind() == ErrorKind::Conflict && is_alone => {}
            done => return done,
        }
        run.unpin();
        // Of several that are in each other's way, one goes on. Who waits for a turn holds no row: who has it may wait for that.
        if turn.is_none() {
            locks.release_after(run.scope.id, held);
            turn = Some(turns(run, &entries).await);
        }
        tokio::time::sleep(wait).await;
        run.token.check()?;
        wait *= 2;
    }
    let done = once(run, &statement, hints, is_temporary).await;
    drop(turn);
    done.map_err(|error| match error.kind() {
        ErrorKind::Conflict if is_alone => {
            let message = format!("{}, each of {TRIES_MAX} times that the statement was run", error.message());
            Error::new(ErrorKind::Conflict, message).with_hint("run it again when fewer others change these rows")
        }
        _ => error,
    })
}

/// Runs a statement, and what its constraints ask for. Whether they concern it is asked each time: a definition may be another by then.
async fn once(run: &Arc<Run>, statement: &Change, hints: &Hints, is_temporary: bool) -> Result<Outcome> {
    if is_temporary {
        return statement.run(run, hints).await;
    }
    let work = change_locked(run, statement, hints);
    match concern_change(run, statement)? {
        true => Box::pin(constrained(run, NewBatch::default(), work)).await.map(|(outcome, _)| outcome),
        false => work.await,
    }
}

/// Whether constraints concern what a statement does.
fn concern_change(run: &Run, statement: &Change) -> Result<bool> {
    let (table, is_update) = match statement {
        // It looks itself at what it does.
        Change::Truncate(_) => return Ok(false),
        Change::Insert(Insert { table, .. }) => (table, None),
        Change::Delete(delete) => (&delete.table, None),
        Change::Merge(merge) => (&merge.table, None),
        Change::Update(update) => (&update.table, Some(update)),
    };
    let entry = run.scope.table_for(Need::Definition, table)?;
    let set = is_update.and_then(|update| set_places(&entry, update));
    let doing = match (statement, &set) {
        (Change::Insert(_), _) => Doing::Inserts,
        (Change::Delete(_), _) => Doing::Deletes,
        (_, Some(set)) => Doing::Sets(set),
        _ => Doing::Any,
    };
    concern(run, &entry, doing)
}

/// Runs a statement; again where it has met others in a transaction that sees what they commit. What it finds stays locked then, so it
/// comes to its end as soon as no more rows come to meet its condition.
async fn change_locked(run: &Arc<Run>, statement: &Change, hints: &Hints) -> Result<Outcome> {
    let sees_commits = matches!(&run.state().transaction, Transaction::Open(open) if open.sees_commits());
    for _ in 1..TRIES_LOCKED_MAX {
        match statement.run(run, hints).await {
            Err(error) if error.kind() == ErrorKind::Conflict && sees_commits => {}
            done => return done,
        }
        run.unpin();
        run.token.check()?;
        // What was locked is visible. A definition that another session has changed is a conflict each time.
        tokio::task::yield_now().await;
    }
    statement.run(run, hints).await
}

/// Waits for the turns of tables: for each once, and for all in one order, so that no two wait for each other.
async fn turns<'a>(run: &'a Run, entries: &[Arc<TableEntry>]) -> Vec<MutexGuard<'a, ()>> {
    let mut turns: Vec<_> = entries.iter().map(|entry| run.engine().change_turn(entry.def.id)).collect();
    turns.sort_by_key(|turn| Arc::as_ptr(turn) as usize);
    turns.dedup_by_key(|turn| Arc::as_ptr(turn));
    let mut guards = Vec::with_capacity(turns.len());
    for turn in turns {
        guards.push(turn.lock().await);
    }
    guards
}

/// Refuses what would have a statement change what it has not read, or read what is no longer so.
fn refuse_inexact(run: &Run, hints: &Hints) -> Result<()> {
    const WHOLE: &str = "a statement that changes rows reads all of them, as they are now";
    if hints.freshness.is_some() {
        return Err(not_supported("the hint freshness in a statement that changes rows").with_hint(WHOLE));
    }
    if hints.sample_fraction.is_some() {
        return Err(not_supported("the hint sample_fraction in a statement that changes rows").with_hint(WHOLE));
    }
    if sample_fraction_of(&run.settings, hints)? < 1.0 {
        return Err(
            not_supported("changing rows by a sample of them").with_hint(format!("RESET sample_fraction: {WHOLE}"))
        );
    }
    Ok(())
}
