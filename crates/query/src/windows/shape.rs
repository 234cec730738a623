//! What a window takes: which columns go through it, and where its runs may end.

use super::compact::{beside_views, bytes_of, compact, emptied, is_view};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::partition;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::window::{StandardWindowExpr, WindowExpr};
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};
use std::sync::Arc;

/// Of one operator.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    /// Columns of the input that are views, in their order.
    views: Vec<View>,
    /// What partitions are told apart by, where each comes at one piece; empty where none may end a run.
    partition_by: Vec<Arc<dyn PhysicalExpr>>,
    /// Whether the operator takes in all before it gives a row.
    takes_all: bool,
}

#[derive(Clone, Copy, Debug)]
struct View {
    column: usize,
    is_read: bool,
}

impl Shape {
    /// Of an operator; `None` if it is no window.
    pub(super) fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Shape> {
        let (windows, input, takes_all, is_sorted) = match plan.downcast_ref::<WindowAggExec>() {
            Some(window) => (window.window_expr(), window.input(), true, true),
            None => {
                let window = plan.downcast_ref::<BoundedWindowAggExec>()?;
                (window.window_expr(), window.input(), false, window.input_order_mode == InputOrderMode::Sorted)
            }
        };
        let partition_by = windows.first().filter(|_| is_sorted).map_or(&[][..], |window| window.partition_by());
        Some(Shape { views: views_of(&input.schema(), windows), partition_by: partition_by.to_vec(), takes_all })
    }

    /// Columns of texts that the operator reads.
    #[cfg(test)]
    pub(super) fn read_columns(&self) -> Vec<usize> {
        self.views.iter().filter(|view| view.is_read).map(|view| view.column).collect()
    }

    /// The batch with compact texts.
    pub(super) fn compacted(&self, batch: RecordBatch) -> Result<RecordBatch> {
        self.with_views(batch, |_, array| compact(array))
    }

    /// What goes through the operator: texts that it does not read are empty.
    pub(super) fn given(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        self.with_views(batch.clone(), |view, array| if view.is_read { Arc::clone(array) } else { emptied(array) })
    }

    /// The columns that wait beside the operator.
    pub(super) fn waiting(&self, batch: &RecordBatch) -> Vec<ArrayRef> {
        self.views.iter().map(|view| Arc::clone(batch.column(view.column))).collect()
    }

    /// The rows that the operator gave, with the columns that waited for them.
    pub(super) fn together(&self, made: RecordBatch, waiting: Vec<ArrayRef>) -> Result<RecordBatch> {
        let mut waiting = waiting.into_iter();
        self.with_views(made, |_, array| waiting.next().unwrap_or_else(|| Arc::clone(array)))
    }

    fn with_views(&self, batch: RecordBatch, mut each: impl FnMut(View, &ArrayRef) -> ArrayRef) -> Result<RecordBatch> {
        if self.views.is_empty() {
            return Ok(batch);
        }
        let (schema, mut columns, rows) = batch.into_parts();
        for view in &self.views {
            columns[view.column] = each(*view, &columns[view.column]);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
    }

    /// Where the last partition of a batch begins, if another one comes before it and runs may end.
    pub(super) fn last_partition(&self, batch: &RecordBatch) -> Result<Option<usize>> {
        if self.partition_by.is_empty() || batch.num_rows() < 2 {
            return Ok(None);
        }
        let keys = self.partition_by.iter().map(|key| key.evaluate(batch)?.into_array(batch.num_rows()));
        let ranges = partition(&keys.collect::<Result<Vec<_>>>()?)?.ranges();
        Ok(ranges.last().map(|last| last.start).filter(|start| *start > 0))
    }

    /// Bytes of a batch's rows.
    pub(super) fn bytes(&self, batch: &RecordBatch) -> usize {
        batch.columns().iter().map(bytes_of).sum()
    }

    /// Bytes that the operator may keep of what it is given until its run ends, of `bytes` in all.
    pub(super) fn kept_bytes(&self, given: &RecordBatch, bytes: usize) -> usize {
        if self.takes_all {
            // The batches, and what they are put together to.
            return 2 * bytes;
        }
        self.views.iter().filter(|view| view.is_read).map(|view| beside_views(given.column(view.column))).sum()
    }
}

fn views_of(schema: &SchemaRef, windows: &[Arc<dyn WindowExpr>]) -> Vec<View> {
    let columns = schema.fields().iter().enumerate().filter(|(_, field)| is_view(field.data_type()));
    let columns: Vec<usize> = columns.map(|(column, _)| column).collect();
    if columns.is_empty() {
        return Vec::new();
    }
    let is_told = windows.iter().all(tells_what_it_reads);
    let read = windows.iter().map(|window| window.all_expressions()).flat_map(|all| {
        all.args.into_iter().chain(all.partition_by_exprs).chain(all.order_by_exprs).collect::<Vec<_>>()
    });
    let read: Vec<usize> = read.flat_map(|of| collect_columns(&of)).map(|column| column.index()).collect();
    columns.into_iter().map(|column| View { column, is_read: !is_told || read.contains(&column) }).collect()
}

/// Whether `all_expressions` has all that a window reads. A FILTER is not among them, and there is no way to ask for it but the form
/// for debugging (DataFusion 55.2), whose last field but one it is; one that ends in another way is taken for one that has a filter.
fn tells_what_it_reads(window: &Arc<dyn WindowExpr>) -> bool {
    if window.as_any().is::<StandardWindowExpr>() {
        return true;
    }
    let form = format!("{window:?}");
    let rest = form.rsplit_once(" filter: ").map_or("", |(_, rest)| rest);
    ["None }", "None, is_constant_in_partition: true }", "None, is_constant_in_partition: false }"].contains(&rest)
}
