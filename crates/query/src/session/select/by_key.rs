//! Point reads that are answered by plans that were kept ([`crate::point`]).
//!
//! Invariants:
//! - Such an answer differs from no other: the rights are asked, the snapshot is the one that the statement would pin anyway,
//!   and what is read is counted.
//! - Nothing is answered so of a table while the open transaction has changed rows of it, nor while it has definitions of its own.

use crate::by_key::NamedKeys;
use crate::errors::error_of;
use crate::execution::blocking::blocking;
use crate::point::{PointPlan, PointText};
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::select::pin::{pin, read_of};
use crate::session::state::scope::Scope;
use crate::session::state::transaction::Transaction;
use crate::used::UsedCounters;
use alluvia_snapshot::Snapshot;
use alluvia_syntax::Hints;
use alluvia_syntax::alike::AlikeText;
use alluvia_types::{Error, Result};
use datafusion::common::{ScalarValue, TableReference};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use std::sync::Arc;

/// A plan that is kept, and the key that it is to read.
pub(crate) struct PointRead {
    plan: Arc<PointPlan>,
    key: NamedKeys,
}

impl PointRead {
    /// What a text asks for with these values for its parameters, if the plan of a text like it is kept.
    pub(crate) fn of_text(scope: &Scope, text: &str, parameters: &[ScalarValue]) -> Option<PointRead> {
        let plans = scope.engine.point_plans();
        if plans.is_empty() {
            return None;
        }
        let alike = AlikeText::new(text)?;
        let plan = plans.get(&alike)?;
        let key = plan.key(&alike, parameters)?;
        Some(PointRead { plan, key })
    }

    /// The answer; `None` where the general way must give it.
    pub(crate) async fn answer(self, run: &Run) -> Result<Option<Outcome>> {
        if !may_answer(run) {
            return Ok(None);
        }
        let PointRead { plan, key } = self;
        let name = plan.entry().def.name.clone();
        run.scope.await_own_writes().await?;
        let snapshot = pin(run, &[TableReference::bare(name.as_str())], &Hints::default()).await?;
        let Some(read) = read_of(&snapshot, &name) else { return Ok(None) };
        if !plan.holds(&read.entry, run.settings.memory_limit_bytes) {
            return Ok(None);
        }
        if let Transaction::Open(open) = &mut run.state().transaction {
            if open.has_changes(&snapshot.catalog, read.entry.def.id)? {
                return Ok(None);
            }
            open.has_run = true;
        }
        let used = UsedCounters::new(&snapshot);
        run.engine().queries().reads(run.query_id, &used);
        let (store, counted, of) = (Arc::clone(run.engine().read()), Arc::clone(&used), Arc::clone(&plan));
        let find = move || {
            let read = read_of(&snapshot, &name).ok_or_else(|| Error::internal("a table has left its snapshot"))?;
            let found = key.find(store.as_ref(), snapshot.version, read)?;
            let rows = read.rows_at(found.rows(), of.columns())?;
            let cost = found.cost(read);
            cost.count_planned(&counted);
            cost.count_read(&counted);
            of.answer(&rows).map_err(|error| error_of(&error))
        };
        // It may wait for files, and for writers of the table.
        let batch = blocking(find).await?;
        run.engine().point_plans().count();
        let rows = futures::stream::iter((batch.num_rows() > 0).then_some(Ok(batch)));
        let rows = RecordBatchStreamAdapter::new(Arc::clone(plan.schema()), rows);
        Ok(Some(Outcome::rows("SELECT", Box::pin(rows)).with_used(used)))
    }
}

/// Whether this session, as it is set, may be answered so.
fn may_answer(run: &Run) -> bool {
    let settings = &run.settings;
    // Plans are kept of sessions in UTC alone.
    let is_plain =
        settings.short_path && settings.sample_fraction >= 1.0 && run.accuracy.is_none() && settings.time_zone.is_utc();
    let state = run.state();
    is_plain
        && run.refining.get().is_none()
        && !state.has_own_definitions()
        && !matches!(state.transaction, Transaction::Failed(_))
}

/// The statement's text, if its plan is to be kept. What plans a part of another statement has that one's text, which begins
/// with another word.
pub(crate) fn to_be_kept(
    run: &Run,
    snapshot: &Snapshot,
    references: &[TableReference],
    hints: &Hints,
) -> Option<PointText> {
    let [table] = references else { return None };
    if !may_answer(run) || *hints != Hints::default() {
        return None;
    }
    let read = read_of(snapshot, table.table()).filter(|_| snapshot.tables.len() == 1)?;
    PointText::new(&run.text, &read.entry, run.settings.memory_limit_bytes, run.engine().point_plans())
}
