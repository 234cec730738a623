//! The table that a call is: planned as one scan for each rung that may be read.

use super::LIMIT_COLUMN;
use super::exec::{Level, Shown, ThinExec};
use crate::table::{AlluviaTable, Behind, Draw, Part, StatementContext, least, sql_schema};
use alluvia_space::weight::weight_limit;
use alluvia_tree::{DeadRows, SegmentRows, rung_limit, rung_rate};
use alluvia_types::Error;
use alluvia_values::errors::wrap;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::default_table_source::provider_as_source;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Column, Result};
use datafusion::datasource::TableType;
use datafusion::execution::SessionState;
use datafusion::logical_expr::logical_plan::{Filter, SubqueryAlias};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableScanBuilder, lit};
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// How many rows are shown.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Bound {
    /// As many as fit into so many.
    Rows(u64),
    /// This share of them.
    Fraction(f64),
}

/// The rows of a call.
#[derive(Debug)]
pub(super) struct ThinTable {
    /// The table under its WHERE, as planned from the text.
    rows: LogicalPlan,
    table: AlluviaTable,
    bound: Bound,
    schema: SchemaRef,
    /// The session's sample, of which this is one.
    fraction: f64,
    levels: Vec<Level>,
}

impl ThinTable {
    /// The rows that `bound` leaves of `rows`, which are of `table`.
    pub(super) fn new(rows: LogicalPlan, table: AlluviaTable, bound: Bound, statement: &StatementContext) -> ThinTable {
        let mut fields = sql_schema(&table.entry().def).fields().to_vec();
        fields.push(Arc::new(Field::new(LIMIT_COLUMN, DataType::Float64, false)));
        let fraction = statement.sample_fraction;
        let levels = match bound {
            Bound::Rows(rows) => levels(&table, statement, rows),
            Bound::Fraction(_) => Vec::new(),
        };
        ThinTable { rows, table, bound, schema: Arc::new(Schema::new(fields)), fraction, levels }
    }

    /// The rows of one draw: these columns, and the weight behind.
    fn drawn(&self, draw: Draw, columns: &[usize]) -> Result<LogicalPlanBuilder> {
        let rows = redraw(&self.rows, &self.table.drawn(Draw { behind: Behind::Weights, ..draw }))?;
        let weight = rows.schema().fields().len() - 1;
        let column = |index: &usize| Expr::Column(Column::from(rows.schema().qualified_field(*index)));
        let shown: Vec<Expr> = columns.iter().chain([&weight]).map(column).collect();
        LogicalPlanBuilder::from(rows).project(shown)
    }
}

/// Shares of banded segments' rows above the thickest rung that a table has unless told otherwise; as rungs would be numbered.
const BANDED_RUNGS: [u32; 2] = [1, 2];

/// What to read in which order, so that `rows` matching rows of least weight are surely found: first what has no ladder, then of
/// what has one the rungs, the thinnest that may hold enough first.
pub(in crate::sample) fn levels(table: &AlluviaTable, statement: &StatementContext, rows: u64) -> Vec<Level> {
    let all = weight_limit(statement.sample_fraction);
    let def = &table.entry().def;
    let Some(read) = statement.snapshot.tables.get(&def.id) else { return Vec::new() };
    let mut levels = Vec::new();
    let laddered = || read.segments.iter().filter(|read| !read.segment.rungs().is_empty());
    let is_loose = read.segments.len() > laddered().count() || !read.tail.is_empty();
    if is_loose || statement.pending.contains_key(&def.id) || laddered().count() == 0 {
        levels.push(Level { part: Part::Loose, below: all });
    }
    let live = |read: &SegmentRows| read.segment.meta().rows - read.dead.as_ref().map_or(0, DeadRows::count);
    let laddered_rows: u64 = laddered().map(live).sum();
    let mut rungs: Vec<u32> =
        laddered().flat_map(|read| read.segment.rungs()).map(|rung| rung.rung).chain([0]).collect();
    // What cannot be opened fails where it is read.
    if laddered().all(|read| read.segment.bands().is_ok_and(|bands| bands.is_some())) {
        rungs.extend(BANDED_RUNGS);
    }
    rungs.sort_unstable_by(|a, b| b.cmp(a));
    rungs.dedup();
    let may_hold = |rung: &u32| *rung == 0 || laddered_rows as f64 * rung_rate(*rung) >= rows as f64;
    if laddered().count() > 0 {
        for rung in rungs.into_iter().skip_while(|rung| !may_hold(rung)) {
            let below = least(rung_limit(rung), all);
            levels.push(Level { part: Part::Laddered, below });
            if below == all {
                break;
            }
        }
    }
    levels
}

/// The columns to read where these are wanted, of which the one at `limit_index` is the limit, and what is shown of them.
pub(in crate::sample) fn shown_of(wanted: &[usize], limit_index: usize) -> (Vec<usize>, Vec<Shown>) {
    let mut columns = Vec::with_capacity(wanted.len());
    let mut shown = Vec::with_capacity(wanted.len());
    for &index in wanted {
        if index == limit_index {
            shown.push(Shown::Limit);
        } else {
            shown.push(Shown::Column(columns.len()));
            columns.push(index);
        }
    }
    (columns, shown)
}

/// Plans a part. Optimizers go over it again in the statement's plan, and must not find joins there that filters already tie to their
/// scans: such joins cannot be turned around any more.
async fn planned(session: &dyn Session, plan: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(state) = session.as_any().downcast_ref::<SessionState>() else {
        return session.create_physical_plan(plan).await;
    };
    let mut state = state.clone();
    let optimizer = &mut state.config_mut().options_mut().optimizer;
    optimizer.enable_dynamic_filter_pushdown = false;
    optimizer.enable_join_dynamic_filter_pushdown = false;
    optimizer.enable_topk_dynamic_filter_pushdown = false;
    optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    state.create_physical_plan(plan).await
}

/// The same plan over another draw of its table.
fn redraw(plan: &LogicalPlan, table: &AlluviaTable) -> Result<LogicalPlan> {
    Ok(match plan {
        LogicalPlan::Filter(filter) => {
            let input = Arc::new(redraw(&filter.input, table)?);
            LogicalPlan::Filter(Filter::try_new(filter.predicate.clone(), input)?)
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let input = Arc::new(redraw(&alias.input, table)?);
            LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(input, alias.alias.clone())?)
        }
        LogicalPlan::TableScan(scan) => {
            let source = provider_as_source(Arc::new(table.clone()));
            LogicalPlan::TableScan(TableScanBuilder::new(scan.table_name.clone(), source).build()?)
        }
        _ => return Err(wrap(Error::internal("thin was planned over more than a table under a WHERE"))),
    })
}

#[async_trait]
impl TableProvider for ThinTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let wanted = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let (columns, shown) = shown_of(&wanted, self.schema.fields().len() - 1);
        let schema = Arc::new(self.schema.project(&wanted)?);
        let rows = match self.bound {
            Bound::Fraction(fraction) => {
                let fraction = fraction.min(self.fraction);
                let draw = Draw { below: weight_limit(fraction), ..Draw::default() };
                let rows = self.drawn(draw, &columns)?.build()?;
                let show = |shown: &Shown| match shown {
                    Shown::Column(at) => Expr::Column(Column::from(rows.schema().qualified_field(*at))),
                    Shown::Limit => lit(fraction).alias(LIMIT_COLUMN),
                };
                let shown: Vec<Expr> = shown.iter().map(show).collect();
                let plan = LogicalPlanBuilder::from(rows.clone()).project(shown)?.build()?;
                return planned(session, &plan).await;
            }
            Bound::Rows(rows) => rows,
        };
        let mut inputs = Vec::with_capacity(self.levels.len());
        for Level { part, below } in &self.levels {
            let draw = Draw { below: *below, part: *part, ..Draw::default() };
            let plan = self.drawn(draw, &columns)?.build()?;
            inputs.push(planned(session, &plan).await?);
        }
        Ok(Arc::new(ThinExec::new(inputs, self.levels.clone(), shown, schema, rows, self.fraction)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::testing::{Fixture, table};
    use alluvia_space::DataType as ColumnType;
    use alluvia_space::weight::weight;
    use alluvia_types::Version;
    use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
    use arrow::datatypes::{Float64Type, Int64Type};
    use datafusion::prelude::{SessionContext, col};

    /// The rows that a call shows, and their limit.
    async fn shown(session: &SessionContext, table: AlluviaTable, bound: u64) -> (Vec<i64>, Option<f64>) {
        let rows = session.table("t").await.expect("a table");
        let rows = rows.filter((col("n") % lit(3)).eq(lit(0))).expect("filters").logical_plan().clone();
        let statement = session.state().config().get_extension::<StatementContext>().expect("a statement");
        let thin = ThinTable::new(rows, table, Bound::Rows(bound), &statement);
        let found = session.read_table(Arc::new(thin)).expect("a table").collect().await.expect("runs");
        let mut numbers: Vec<i64> =
            found.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
        numbers.sort_unstable();
        let limits = found.iter().flat_map(|batch| batch.column(1).as_primitive::<Float64Type>().values().to_vec());
        (numbers, limits.reduce(f64::max))
    }

    #[tokio::test]
    async fn the_lightest_live_rows_are_shown() {
        const ROWS: u64 = 30_000;
        let def = table("t", &[("n", ColumnType::Int64)]);
        let rows = |first: u64, count: u64| {
            let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((first..first + count).map(|n| n as i64)));
            RecordBatch::try_new(def.storage_schema(), vec![numbers]).expect("one column")
        };
        let mut fixture = Fixture::new(def.clone(), "number(n: linear 0..100000)", &rows(0, ROWS));
        fixture.add_laddered_segment(&rows(0, ROWS), true);
        fixture.add_laddered_segment(&rows(ROWS, ROWS), false);
        fixture.add_laddered_segment(&rows(2 * ROWS, ROWS), true);
        fixture.add_tail(&rows(3 * ROWS, 100));
        // One segment has no dead rows, and is read by rungs.
        let dies = |segment: usize, n: u64| match segment {
            0 => n % 5 < 4,
            1 => n.is_multiple_of(1_000),
            _ => false,
        };
        let in_tail = |at: u64| (weight(Version(50), at, def.seed), (3 * ROWS + at) as i64);
        let mut live: Vec<(u64, i64)> = (0..100).map(in_tail).collect();
        for segment in 0..3 {
            for (row, place) in fixture.places(segment).into_iter().enumerate() {
                let n = segment as u64 * ROWS + place;
                match dies(segment, n) {
                    true => fixture.kill(segment, row as u64, Version(60)),
                    false => live.push((weight(Version(1), place, def.seed), n as i64)),
                }
            }
        }
        live.retain(|(_, n)| n % 3 == 0);
        live.sort_unstable();
        let (session, _) = fixture.session(&rows(0, 1));
        for bound in [10, 100, 1_000, 10_000, 19_000, 50_000] {
            let (found, limit) = shown(&session, AlluviaTable::new(fixture.entry()), bound as u64).await;
            assert!(found.len() <= bound);
            let below = limit.and_then(weight_limit);
            let lighter = live.iter().filter(|(weight, _)| below.is_none_or(|below| *weight < below));
            let mut wanted: Vec<i64> = lighter.map(|&(_, n)| n).collect();
            wanted.sort_unstable();
            assert_eq!(found, wanted, "{bound}");
            // The limit is the weight of the first row that does not fit, rounded down to a double.
            let next = live.get(bound).map(|(weight, _)| *weight);
            assert_eq!(next.is_some(), below.is_some(), "{bound}");
            assert!(next.zip(below).is_none_or(|(next, below)| below <= next && next - below <= 1 << 11), "{bound}");
        }
    }
}
