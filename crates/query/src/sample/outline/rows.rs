//! The rows of an outline: scans of the drawn table, as the general way plans them.

use super::super::thin::{Bound, LIMIT_COLUMN, LevelScan, Shown, ThinExec, levels, shown_of};
use crate::sample::outline::drawn_query::Rows;
use crate::table::{AlluviaTable, Behind, Draw, StatementContext, share};
use alluvia_space::weight::weight_limit;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, lit};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use std::sync::Arc;

/// Of more rows to be read than this the general way's plan, which has as many threads above its scan as below, is worth its planning.
const ROWS_MAX: u64 = 1 << 18;

/// As many rows as one thread reads before another has begun.
const ONE_THREAD_ROWS: f64 = 65_536.0;

/// The rows of one statement.
#[derive(Clone, Debug)]
pub(crate) struct DrawnRows {
    /// What knows the functions that every statement has.
    pub(crate) functions: Arc<SessionState>,
    pub(crate) context: Arc<StatementContext>,
    pub(crate) table: AlluviaTable,
    pub(crate) filters: Arc<[Expr]>,
    pub(crate) rows: Rows,
    pub(crate) threads: usize,
}

impl DrawnRows {
    /// The scan of these columns, which are called as in `schema`; `None` if it reads too many rows.
    pub(super) fn scan(&self, wanted: &[usize], schema: SchemaRef) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let limit_at = self.table.entry().def.columns.len();
        let fraction = match self.rows {
            Rows::Sampled(draw) => return self.few(self.draw(draw, wanted)?),
            Rows::Thinned(Bound::Rows(rows)) if rows > ROWS_MAX => return Ok(None),
            Rows::Thinned(Bound::Rows(rows)) => return self.lightest(rows, wanted, limit_at, schema).map(Some),
            Rows::Thinned(Bound::Fraction(fraction)) => fraction.min(self.context.sample_fraction),
        };
        let draw = Draw { below: weight_limit(fraction), ..Draw::default() };
        let (columns, shown) = shown_of(wanted, limit_at);
        let rows = self.draw(draw, &columns)?;
        if columns.len() == wanted.len() {
            return self.few(rows);
        }
        let schema = rows.schema();
        let show = |shown: &Shown| -> (Arc<dyn PhysicalExpr>, String) {
            match *shown {
                Shown::Limit => (lit(fraction), LIMIT_COLUMN.to_owned()),
                Shown::Column(at) => {
                    let name = schema.field(at).name();
                    (Arc::new(Column::new(name, at)), name.clone())
                }
            }
        };
        let shown: Vec<_> = shown.iter().map(show).collect();
        self.few(Arc::new(ProjectionExec::try_new(shown, rows)?))
    }

    /// A plan, if what has been planned reads few rows.
    fn few(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        Ok((self.context.used.used().rows_to_read <= ROWS_MAX).then_some(plan))
    }

    /// The `rows` rows of least weight. Thicker rungs are not even looked at before they are known to be needed.
    fn lightest(
        &self,
        rows: u64,
        wanted: &[usize],
        limit_at: usize,
        schema: SchemaRef,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let levels = levels(&self.table, &self.context, rows);
        let (mut columns, shown) = shown_of(wanted, limit_at);
        // The weights stand behind.
        columns.push(limit_at);
        let of = self.clone();
        let scan = LevelScan::new(move |level| {
            let draw = Draw { below: level.below, part: level.part, behind: Behind::Weights, ..Draw::default() };
            of.draw(draw, &columns)
        });
        let fraction = self.context.sample_fraction;
        Ok(Arc::new(ThinExec::asking(scan, levels, shown, schema, rows, fraction)))
    }

    fn draw(&self, draw: Draw, columns: &[usize]) -> Result<Arc<dyn ExecutionPlan>> {
        let table = self.table.drawn(draw);
        let few = self.rows_about(&draw) <= ONE_THREAD_ROWS;
        let threads = if few { 1 } else { self.threads };
        let session = self.functions.as_ref();
        let scan = table.scan_of(session, &self.context, threads, columns, &self.filters, None)?;
        // Weights are told apart below the columns where few rows are drawn, as in any plan.
        FilterPushdown::new().optimize(scan, session.config_options())
    }

    /// How many rows a draw has of the table, about.
    fn rows_about(&self, draw: &Draw) -> f64 {
        let Some(read) = self.context.snapshot.tables.get(&self.table.entry().def.id) else { return 0.0 };
        let segments: u64 = read.segments.iter().map(|read| read.segment.meta().rows).sum();
        let tail: usize = read.tail.iter().map(|run| run.rows.num_rows()).sum();
        // What is drawn under another seed is looked for among all rows.
        (segments as f64 + tail as f64) * share(draw.below)
    }
}
