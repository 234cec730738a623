//! Statements over the drawn rows of one box: their plans are known but for the rows.
//!
//! Invariants:
//! - A statement that has no outline is planned in full, on the same snapshot. So is one whose outline cannot be made:
//!   planning it in full tells the error.
//! - No outline is used while the open transaction has definitions of its own.

use crate::errors::error_of;
use crate::execution::blocking::blocking;
use crate::execution::planning::plan_apart;
use crate::sample::{DrawnQuery, DrawnRows, OUTLINE_TEXT_BYTES_MAX, Outline, OutlineKey, SamplePlanner};
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::select::pin::{pin, read_of, reference_of};
use crate::session::select::planning::{Brought, catalog_query, planning_state, statement_context};
use crate::session::state::temporary::is_temporary;
use crate::table::AlluviaTable;
use alluvia_merged::statement_to_plan;
use alluvia_snapshot::Snapshot;
use alluvia_syntax::Hints;
use alluvia_types::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::execute_stream;
use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::{self, Query};
use std::collections::HashMap;
use std::sync::Arc;

/// The answer, if the statement has an outline.
pub(crate) async fn answer_by_outline(run: &Run, query: &Query, hints: &Hints) -> Result<Option<Outcome>> {
    // What is kept is of sessions in UTC.
    if !run.settings.short_path || !run.settings.time_zone.is_utc() || run.state().has_own_definitions() {
        return Ok(None);
    }
    let Some(asked) = DrawnQuery::of(query) else { return Ok(None) };
    run.scope.await_own_writes().await?;
    let table = reference_of(asked.table());
    let snapshot = pin(run, std::slice::from_ref(&table), hints).await?;
    let Some(entry) = read_of(&snapshot, asked.table(), &run.scope.path()).map(|read| Arc::clone(&read.entry)) else {
        return Ok(None);
    };
    if is_temporary(entry.def.id) {
        return Ok(None);
    }
    let Some(filters) = asked.filters(&entry.def) else { return Ok(None) };
    let text = asked.text();
    if text.len() > OUTLINE_TEXT_BYTES_MAX {
        return Ok(None);
    }
    let key =
        OutlineKey { table: entry.def.id, changed_at: entry.changed_at, batch_size: run.settings.batch_size, text };
    let outline = match run.engine().outlines().get(&key) {
        Some(known) => known,
        None => {
            // What cannot be planned is told by the general way.
            let Ok(made) = outline(run, &asked, &snapshot, hints).await else { return Ok(None) };
            let made = made.map(Arc::new);
            run.engine().outlines().insert(key, made.clone());
            made
        }
    };
    let Some(outline) = outline else { return Ok(None) };
    let context = statement_context(run, &snapshot, hints, None)?;
    let used = Arc::clone(&context.used);
    let rows = DrawnRows {
        functions: Arc::clone(run.engine().functions()),
        context,
        rows: asked.rows(&entry.def, run.engine().number()),
        table: AlluviaTable::new(entry),
        filters: filters.into(),
        threads: run.settings.threads,
    };
    let task = TaskContext::new(
        None,
        String::new(),
        outline.config().clone(),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        run.engine().statement_runtime(&run.settings),
    );
    // Blocks are chosen by summaries, which may have to be read.
    let plan = blocking(move || outline.over(&rows).map_err(|error| error_of(&error))).await?;
    let Some(plan) = plan else { return Ok(None) };
    let rows = execute_stream(plan, Arc::new(task)).map_err(|error| error_of(&error))?;
    run.engine().outlines().answers();
    Ok(Some(Outcome::rows("SELECT", rows).with_used(used)))
}

/// Plans what is around the rows; `None` if that is no outline.
async fn outline(
    run: &Run,
    asked: &DrawnQuery<'_>,
    snapshot: &Arc<Snapshot>,
    hints: &Hints,
) -> Result<Option<Outline>> {
    let mut tree = Tree::Statement(Box::new(ast::Statement::Query(Box::new(asked.without_box()))));
    let Brought { of_catalog: false, has_bounds: false } = catalog_query(run, &mut tree, hints)? else {
        return Ok(None);
    };
    let context = statement_context(run, snapshot, hints, None)?;
    let samples = SamplePlanner::new(Arc::clone(&context), run.engine().number(), false).leaving_gap();
    let (mut state, _) = planning_state(run, context, samples)?;
    // Its rows are few, and what operators learn while they run must not outlive them.
    let config = run.engine().functions().config().clone();
    let mut config = config.with_batch_size(run.settings.batch_size).with_target_partitions(1);
    let optimizer = &mut config.options_mut().optimizer;
    optimizer.enable_dynamic_filter_pushdown = false;
    optimizer.enable_join_dynamic_filter_pushdown = false;
    optimizer.enable_topk_dynamic_filter_pushdown = false;
    optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    let options = state.config_mut().options_mut();
    *options = config.options().as_ref().clone();
    plan_apart(run.token.clone(), async move {
        let plan = statement_to_plan(&state, tree).await.map_err(|error| error_of(&error))?;
        let plan = state.create_physical_plan(&plan).await.map_err(|error| error_of(&error))?;
        Ok(Outline::new(plan, config))
    })
    .await
}
