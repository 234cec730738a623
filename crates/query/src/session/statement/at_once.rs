//! Answers that need no more than a cuboid, given without waiting.
//!
//! Invariant: such an answer differs from no other: it is given in turn, recorded in `alluvia.queries`, never below
//! what the session has read or written, and not inside a transaction, which may have changed what it
//! reads.

use crate::answer::{CachedStatement, Literal};
use crate::execution::guard::guarded;
use crate::session::run::outcome::Outcome;
use crate::session::run::runner::Runner;
use crate::session::state::scope::Scope;
use crate::session::state::transaction::Transaction;
use crate::system::kind_of;
use crate::used::UsedCounters;
use alluvia_types::{Result, Stage};
use alluvia_values::excerpt::cut;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use std::time::Duration;
use tracing::info_span;

/// The answer to a statement that a cuboid has answered before, if one can again; then nothing was waited for.
pub(crate) fn answer_at_once(
    runner: &Runner,
    text: &str,
    cached: &CachedStatement,
    parameters: &[Literal],
) -> Result<Option<Outcome>> {
    runner.at_once(|| answer(&runner.scope, text, cached, parameters))
}

fn answer(scope: &Scope, text: &str, cached: &CachedStatement, parameters: &[Literal]) -> Result<Option<Outcome>> {
    let engine = &scope.engine;
    let store = engine.read();
    // Who may not is refused the general way.
    let authoriser = scope.authoriser();
    let may_read = match &cached.statement().view {
        Some(view) => {
            let is_same = view.holds(authoriser.catalog(), authoriser.path());
            // What its owner may is as it was: so are all definitions.
            is_same && view.id().is_some_and(|id| authoriser.may_read_view(id))
        }
        None => authoriser.may_read(cached.entry()),
    };
    if !cached.holds(authoriser.catalog()) || !may_read {
        return Ok(None);
    }
    // Along this session's path its name may mean another table.
    let named = authoriser.catalog().found(&cached.statement().table, authoriser.path());
    if !named.is_some_and(|entry| cached.is_of(entry)) {
        return Ok(None);
    }
    let (freshness, seen) = {
        let state = scope.state();
        let settings = &state.settings;
        let is_plain = matches!(state.transaction, Transaction::None) && state.unseen.is_none();
        if !settings.time_zone.is_utc() && cached.statement().goes_by_clocks(&cached.entry().def) {
            return Ok(None);
        }
        if !is_plain || !settings.short_path || !settings.cuboids || settings.sample_fraction < 1.0 {
            return Ok(None);
        }
        (cached.hinted.or(settings.freshness).unwrap_or(cached.own), state.must_see())
    };
    let clock = store.clock();
    let (start, start_micros) = (clock.monotonic(), clock.wall_micros());
    let required = store.required(freshness, seen);
    let (cuboids, kept) = (engine.cuboids(), engine.kept());
    let answered = guarded(|| match cached.bound(parameters, start_micros) {
        None => Ok(None),
        Some(bound) => cuboids.answer_at_once(&bound, required, store.as_ref(), kept, &cached.schema),
    })??;
    let Some((batch, version)) = answered else { return Ok(None) };
    scope.state().has_read(version);
    let used = UsedCounters::at(version, store.lag(version), Stage::Ingested);
    let took: Duration = clock.monotonic().saturating_sub(start);
    // It has no parts worth a span, and none is made for what a cuboid did not answer after all.
    drop(info_span!(
        "statement",
        session = scope.id,
        db.query.text = cut(text),
        by_cuboid = true,
        rows = batch.num_rows()
    ));
    engine.statements().ended(kind_of(text), took, Ok(()));
    let client = scope.client();
    let by = (scope.id, client.user.as_str(), scope.entry.who());
    engine.queries().ran(by, text, start_micros, took, batch.num_rows() as u64, &used);
    let rows = RecordBatchStreamAdapter::new(batch.schema(), futures::stream::once(async { Ok(batch) }));
    Ok(Some(Outcome::rows("SELECT", Box::pin(rows)).with_used(used)))
}
