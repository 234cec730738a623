//! Point reads that are answered by plans that were kept ([`crate::point`]).
//!
//! Invariants:
//! - Such an answer differs from no other: the rights are asked, the snapshot is the one that the statement would pin anyway,
//!   and what is read is counted.
//! - Nothing is answered so of a table while the open transaction has changed rows of it, nor while it has definitions of its own.

use crate::answer::view_by_key;
use crate::by_key::FoundRows;
use crate::errors::error_of;
use crate::execution::blocking::blocking;
use crate::point::{PointKeys, PointPlan, PointText, key_names};
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::select::origins::origin;
use crate::session::select::pin::{named, pin, read_of, reference_of};
use crate::session::state::scope::Scope;
use crate::session::state::transaction::Transaction;
use crate::session::transaction::pin_transaction;
use crate::used::UsedCounters;
use alluvia_snapshot::{Snapshot, TableRead};
use alluvia_syntax::Hints;
use alluvia_syntax::alike::AlikeText;
use alluvia_types::{Error, Result};
use arrow::array::RecordBatch;
use datafusion::common::{ScalarValue, TableReference};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use std::sync::Arc;

/// A plan that is kept, and the keys that it is to read.
pub(crate) struct PointRead {
    plan: Arc<PointPlan>,
    keys: PointKeys,
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
        let keys = plan.keys(&alike, parameters)?;
        Some(PointRead { plan, keys })
    }

    /// The answer; `None` where the general way must give it.
    pub(crate) async fn answer(self, run: &Run) -> Result<Option<Outcome>> {
        if !may_answer(run) {
            return Ok(None);
        }
        let PointRead { plan, keys } = self;
        // Along this session's path, and by the definitions of now, its name may mean another table.
        pin_transaction(&run.scope).await?;
        run.scope.await_own_writes().await?;
        let snapshot = pin(run, &[reference_of(plan.name())], &Hints::default()).await?;
        let path = run.scope.path();
        let found = match plan.view() {
            None => read_of(&snapshot, plan.name(), &path),
            // What was planned through a view is of the definitions that it was planned by.
            Some(view) if view.holds(&snapshot.catalog, &path) => snapshot.tables.get(&plan.entry().def.id),
            Some(_) => None,
        };
        let Some(read) = found else { return Ok(None) };
        let table = read.entry.def.id;
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
        let (keys, columns_of) = (Arc::new(keys), Arc::clone(&plan));
        let keys_of = Arc::clone(&keys);
        let in_memory = keys.read_now(store.as_ref(), snapshot.version, read, of.row_columns())?;
        let answer = move |found: &FoundRows, rows: &RecordBatch, read: &TableRead| {
            let cost = found.cost(read);
            cost.count_planned(&counted);
            cost.count_read(&counted);
            of.answer(rows, &keys).map_err(|error| error_of(&error))
        };
        let batch = match in_memory {
            Some((found, rows)) => answer(&found, &rows, read)?,
            None => {
                let find = move || {
                    let read = snapshot.tables.get(&table);
                    let read = read.ok_or_else(|| Error::internal("a table has left its snapshot"))?;
                    let Some(found) = keys_of.find(store.as_ref(), snapshot.version, read)? else { return Ok(None) };
                    let rows = read.rows_in(found.rows(), columns_of.row_columns())?;
                    answer(&found, &rows, read).map(Some)
                };
                // It may wait for files, and for writers of the table.
                let Some(batch) = blocking(find).await? else { return Ok(None) };
                batch
            }
        };
        run.engine().point_plans().count();
        let rows = futures::stream::iter((batch.num_rows() > 0).then_some(Ok(batch)));
        let rows = RecordBatchStreamAdapter::new(Arc::clone(plan.schema()), rows);
        let (def, columns) = (&plan.entry().def, plan.columns());
        let places = plan.shown_places().map(|at| columns.get(at?).and_then(|place| origin(def, *place)));
        let outcome = Outcome::rows("SELECT", Box::pin(rows)).with_used(used);
        Ok(Some(outcome.with_origins(places.collect())))
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
        // Beside temporary tables a text may mean another table.
        && state.temporary.is_empty()
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
    let (name, path) = (named(table), run.scope.path());
    let mut tables = snapshot.tables.values();
    let (Some(read), None) = (tables.next(), tables.next()) else { return None };
    let view = match snapshot.catalog.view(&name, &path) {
        Some(_) => {
            let key = key_names(&read.entry.def)?;
            Some(view_by_key(&snapshot.catalog, &path, &name, &key).ok()??)
        }
        None => None,
    };
    let memory = run.settings.memory_limit_bytes;
    let text = PointText::new(&run.text, name, view, &read.entry, memory, run.engine().point_plans())?;
    Some(text.shown_as(run.names.get().cloned()))
}
