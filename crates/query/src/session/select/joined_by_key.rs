//! Plans of statements that change rows, where the table is joined by its whole key (MERGE, UPDATE ... FROM, DELETE ... USING): the other side of
//! the join runs first, and of the table the rows are read that have its keys ([`KeyJoin`]).
//!
//! Invariants:
//! - The other side runs once: from then on its rows stand in the plan in its place, whatever is read of the table. Only a plan that lacks
//!   memory, and whose other side has more rows than are looked up, is begun anew as a whole.
//! - Of more keys than a share of the table's rows, or than are read one by one, the table is scanned.
//! - What a transaction has made of a definition the store does not know, and temporary tables have no index: these are scanned.

use crate::by_key::NamedKeys;
use crate::errors::error_of;
use crate::execution::Execution;
use crate::execution::planning::plan_apart;
use crate::session::select::planning::{Optimized, Planned, Unplanned};
use crate::table::{AlluviaTable, StatementContext};
use alluvia_change::{GIVEN, TARGET};
use alluvia_rows::is_waiting;
use alluvia_skipping::{BegunRows, KeyJoin, joined_scan};
use alluvia_types::{Error, Result};
use alluvia_values::errors::wrap;
use arrow::array::RecordBatch;
use datafusion::catalog::TableProvider;
use datafusion::common::stats::Precision;
use datafusion::common::{DataFusionError, Statistics};
use datafusion::datasource::source_as_provider;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use std::sync::Arc;
use tracing::{Instrument, info_span};

/// So many rows of the other side are looked up by their keys; of more the table is scanned.
const ROWS_MAX: u64 = 1 << 16;
/// And of no more than this share of the table's rows.
const ROWS_SHARE: u64 = 16;

/// A plan that is whole, or one whose join begins.
enum Step {
    Planned(Box<Planned>),
    Begins(Box<Begins>),
}

/// A plan that waits for the other side of its join.
struct Begins {
    optimized: Optimized,
    join: KeyJoin,
    table: AlluviaTable,
    source: Execution,
    foreseen: Arc<Statistics>,
    rows_max: usize,
}

/// Plans a query of a statement that changes rows.
pub(super) async fn plan_by_keys(unplanned: Unplanned) -> Result<Planned> {
    let token = unplanned.token.clone();
    let step = plan_apart(token.clone(), async move {
        let optimized = unplanned.optimized().await?;
        match Begins::of(optimized).await? {
            Ok(begins) => Ok(Step::Begins(Box::new(begins))),
            Err(optimized) => {
                let plan = optimized.plan.clone();
                Ok(Step::Planned(Box::new(optimized.planned(&plan).await?)))
            }
        }
    });
    let begins = match step.instrument(info_span!("planning")).await? {
        Step::Planned(planned) => return Ok(*planned),
        Step::Begins(begins) => begins,
    };
    let rows = begins.source.start()?;
    let (schema, asked) = (rows.schema(), token.clone());
    let rows = rows.map(move |batch| asked.check().map_err(wrap).and(batch));
    let rows = Box::pin(RecordBatchStreamAdapter::new(schema, rows));
    let memory = &begins.optimized.runtime.memory_pool;
    let rows = BegunRows::begin(rows, begins.rows_max, &begins.foreseen, memory).await;
    let rows = rows.map_err(|error| error_of(&error))?;
    plan_apart(token, begins.planned(rows)).instrument(info_span!("planning")).await
}

impl Begins {
    /// Whether a plan is one; it is given back where it is not.
    async fn of(optimized: Optimized) -> Result<Result<Begins, Optimized>> {
        let Some((join, table, rows_max)) = key_join(&optimized) else { return Ok(Err(optimized)) };
        let source = optimized.part(join.source()).await?;
        // Operators may give texts otherwise than plans say, which the rest of the plan would take for what they say.
        let (given, planned) = (source.plan.schema(), join.source().schema().as_arrow());
        if !given
            .fields()
            .iter()
            .map(|field| field.data_type())
            .eq(planned.fields().iter().map(|field| field.data_type()))
        {
            return Ok(Err(optimized));
        }
        let foreseen = StatisticsContext::new().compute(source.plan.as_ref(), &StatisticsArgs::new());
        let foreseen = foreseen.map_err(|error| error_of(&error))?;
        match foreseen.num_rows {
            Precision::Exact(rows) if rows > rows_max => Ok(Err(optimized)),
            _ => Ok(Ok(Begins { optimized, join, table, source, foreseen, rows_max })),
        }
    }

    /// The plan, when the other side has given its rows, or more of them than are looked up.
    async fn planned(self: Box<Begins>, rows: BegunRows) -> Result<Planned> {
        let Begins { mut optimized, join, table, .. } = *self;
        let whole = rows.whole();
        let keys = whole.as_deref().and_then(|rows| named_keys(&join, rows, &table));
        let table = keys.map(|keys| Arc::new(table.of_keys(keys)) as Arc<dyn TableProvider>);
        let rows: Arc<dyn TableProvider> = Arc::new(rows);
        let plan = join.replaced(optimized.plan.clone(), &rows, table.as_ref()).map_err(|error| error_of(&error))?;
        // Rows that are all there can be asked for again. Others are gone by then, and the other side runs anew.
        if whole.is_some() {
            optimized.plan = plan.clone();
        }
        optimized.planned(&plan).await
    }
}

/// The join of the table that a statement changes, the table, and of how many rows of the other side keys are looked up; `None` where the
/// table is scanned in any case.
fn key_join(optimized: &Optimized) -> Option<(KeyJoin, AlluviaTable, usize)> {
    let named = (GIVEN, TARGET);
    let scan = joined_scan(&optimized.plan, named)?;
    let provider = source_as_provider(&scan.source).ok()?;
    let table = provider.downcast_ref::<AlluviaTable>().filter(|table| !table.is_drawn())?;
    let context = StatementContext::of(&optimized.state).ok()?;
    let def = &table.entry().def;
    let read = context.snapshot.tables.get(&def.id)?;
    let is_found = !is_waiting(read.entry.changed_at) && !read.is_elsewhere && !context.temporary.contains_key(&def.id);
    let rows_max = (read.rows_at_most() / ROWS_SHARE).min(ROWS_MAX) as usize;
    if !is_found || rows_max == 0 {
        return None;
    }
    let join = KeyJoin::of(&optimized.plan, named, def, optimized.state.execution_props())?;
    Some((join, table.clone(), rows_max))
}

/// The keys of rows; `None` where one cannot be told, of which the join has to say what becomes.
fn named_keys(join: &KeyJoin, rows: &[RecordBatch], table: &AlluviaTable) -> Option<NamedKeys> {
    let keys = join.keys(rows).map_err(|error: DataFusionError| error_of(&error));
    let keys = keys.and_then(|keys| NamedKeys::of_rows(&keys, &table.entry().def));
    keys.unwrap_or_else(|error: Error| {
        tracing::debug!(%error, "keys of a join are not looked up");
        None
    })
}
