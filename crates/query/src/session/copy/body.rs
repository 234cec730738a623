//! Rows that a client sends as a body: one format, one table, one batch.
//!
//! Invariants:
//! - A body is one atomic batch, as a COPY without `BATCH_ROWS` is, and goes the same way.
//! - Of two batches with one key for one table the second is acknowledged as the first was, and not applied, for seven
//!   days.

use crate::session::constraints::{concern, constrained};
use crate::session::copy::mixed::{check_rights, hold_mixed};
use crate::session::copy::{copy_context, for_copy, store_of};
use crate::session::rules::rules_of;
use crate::session::run::Run;
use crate::session::run::runner::Runner;
use crate::session::state::scope::Scope;
use crate::session::transaction::check_outside;
use crate::session::transaction::submit::submit_empty;
use alluvia_catalog::RelationName;
use alluvia_catalog::authoriser::INSERT;
use alluvia_constraints::Doing;
use alluvia_copy::{BodyOptions, Hints, IntoTransaction, copy_from};
use alluvia_snapshot::{BatchKey, NewBatch};
use alluvia_syntax::copy::options::{CopyOptions, Direction};
use alluvia_syntax::copy::statement::Source;
use alluvia_syntax::copy::streams::Streams;
use alluvia_types::{Error, ErrorKind, Result, Version};
use parking_lot::Mutex;
use std::io::Read;
use std::sync::Arc;

/// What a body is, and where its rows go.
#[derive(Clone, Debug)]
pub struct Ingest {
    /// The table.
    pub table: RelationName,
    /// The columns that the fields go to; none: as in COPY.
    pub columns: Vec<String>,
    /// Format and dialect.
    pub options: CopyOptions,
    /// JSON comes as one array of objects rather than an object a line.
    pub is_array: bool,
    /// The client's key.
    pub key: Option<String>,
    /// What messages call the body.
    pub name: String,
    /// The most that it may unpack to.
    pub bytes_max: u64,
    /// What hints say.
    pub hints: Hints,
}

/// What became of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ingested {
    /// Rows of the batch.
    pub rows: u64,
    /// Its version; `None` for a body without rows.
    pub version: Option<Version>,
    /// Whether a batch with this key, or this number, was there before.
    pub duplicate: bool,
}

impl Ingest {
    fn key(&self, scope: &Scope) -> Result<Option<BatchKey>> {
        let entry = scope.table_for(INSERT, &self.table)?;
        Ok(self.key.as_ref().map(|key| BatchKey::new(entry.def.id, key)))
    }
}

/// The batch that had this key before; its body need not be looked at. Refuses what can be refused without the body.
pub(crate) fn ingested_before(scope: &Scope, ingest: &Ingest) -> Result<Option<Ingested>> {
    ingest.options.check(Direction::From, None)?;
    scope.check_writable("INSERT")?;
    let entry = scope.table_for(INSERT, &ingest.table)?;
    ingest.options.policy.check(&entry.def)?;
    check_rights(scope, &entry, ingest.options.policy)?;
    let Some(key) = ingest.key(scope)? else { return Ok(None) };
    if scope.state().settings.producer_mark().is_some() {
        return Err(Error::new(ErrorKind::InvalidSetting, "a batch has a key or a producer's number, and not both"));
    }
    let known = scope.engine.ingest().keyed(key);
    Ok(known.map(|known| Ingested { rows: known.rows, version: Some(known.version), duplicate: true }))
}

/// Takes a body's rows as one batch. Dropping the future stops it, and nothing is applied.
pub(crate) async fn ingest(runner: &Runner, ingest: Ingest, body: Box<dyn Read + Send>) -> Result<Ingested> {
    let text = format!("INGEST INTO {}", ingest.table);
    runner.run_for(&text, "INGEST", |run| async move { ingest_here(&run, ingest, body).await }).await
}

async fn ingest_here(run: &Arc<Run>, ingest: Ingest, body: Box<dyn Read + Send>) -> Result<Ingested> {
    check_outside(&run.scope, "a body of rows")?;
    run.scope.check_writable("INSERT")?;
    let key = ingest.key(&run.scope)?;
    let entry = run.scope.table_for(INSERT, &ingest.table)?;
    let streams = Mutex::new(Streams { stdin: Some(body), stdout: None });
    let mut context = copy_context(run, &streams);
    let (name, is_array, hints) = (ingest.name, ingest.is_array, ingest.hints);
    context.body = BodyOptions { name, bytes_max: Some(ingest.bytes_max), is_kept: true, is_array, hints };
    let mut options = ingest.options;
    options.time_zone = run.settings.time_zone.clone();
    let policy = options.policy;
    policy.check(&entry.def)?;
    check_rights(&run.scope, &entry, policy)?;
    let rules = rules_of(run, &entry).await?;
    context.rules = for_copy(&rules);
    if concern(run, &entry, Doing::Any)? {
        let held = Arc::new(Mutex::new(run.scope.held()));
        let destination = Box::new(IntoTransaction(Arc::clone(&held)));
        let work = async {
            let copied =
                copy_from(context, Arc::clone(&entry), ingest.columns, Source::Stdin, options, destination).await?;
            let rows = std::mem::take(&mut held.lock().batches);
            let passed_over = hold_mixed(run, &entry, policy, rows).await?;
            Ok(copied.rows.saturating_sub(passed_over))
        };
        let (rows, committed) = constrained(run, NewBatch { key, ..NewBatch::default() }, work).await?;
        let duplicate = committed.is_some_and(|committed| committed.duplicate);
        return Ok(Ingested { rows, version: committed.map(|committed| committed.version), duplicate });
    }
    let destination = Box::new(store_of(run, &entry, policy, rules, key));
    let report = copy_from(context, entry, ingest.columns, Source::Stdin, options, destination).await?;
    let committed = match report.committed {
        Some(committed) => Some(committed),
        None => submit_empty(run).await?,
    };
    let (rows, version) = (report.rows, committed.map(|committed| committed.version));
    match committed {
        Some(committed) if committed.duplicate => {
            let known = key.and_then(|key| run.engine().ingest().keyed(key));
            let rows = known.map_or(report.rows_repeated, |known| known.rows);
            Ok(Ingested { rows, version, duplicate: true })
        }
        _ => Ok(Ingested { rows, version, duplicate: false }),
    }
}
