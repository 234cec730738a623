//! What a window takes: which columns go through it, and where its runs may end.

use crate::physical::compact::{bytes_of, bytes_of_views, compact, emptied, has_views};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::{concat, partition};
use arrow::datatypes::{Field, SchemaRef};
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::window::{StandardWindowExpr, WindowExpr};
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};
use std::sync::Arc;

/// What partitions of rows are told apart by: an array for each expression.
pub type Keys = Vec<ArrayRef>;

/// Of one operator.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Columns of the input that have views, in their order.
    views: Vec<View>,
    /// What partitions are told apart by, where each comes at one piece; empty where none may end a run.
    partition_by: Vec<Arc<dyn PhysicalExpr>>,
    input_columns: usize,
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
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Shape> {
        let (windows, input, takes_all, is_sorted) = match plan.downcast_ref::<WindowAggExec>() {
            Some(window) => (window.window_expr(), window.input(), true, true),
            None => {
                let window = plan.downcast_ref::<BoundedWindowAggExec>()?;
                (window.window_expr(), window.input(), false, window.input_order_mode == InputOrderMode::Sorted)
            }
        };
        let partition_by = windows.first().filter(|_| is_sorted).map_or(&[][..], |window| window.partition_by());
        let (schema, partition_by) = (input.schema(), partition_by.to_vec());
        let input_columns = schema.fields().len();
        Some(Shape { views: views_of(&schema, windows), partition_by, input_columns, takes_all })
    }

    /// Columns of texts that the operator reads.
    #[cfg(test)]
    pub(super) fn read_columns(&self) -> Vec<usize> {
        self.views.iter().filter(|view| view.is_read).map(|view| view.column).collect()
    }

    /// The batch with compact texts.
    pub(super) fn compacted(&self, batch: RecordBatch) -> Result<RecordBatch> {
        self.with_views(batch, |_, array, _| compact(array))
    }

    /// What goes through the operator: texts that it does not read are empty.
    pub fn output(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        self.with_views(batch.clone(), |view, array, field| match view.is_read {
            true => Ok(Arc::clone(array)),
            false => emptied(array, field),
        })
    }

    /// The columns that wait beside the operator.
    pub fn waiting(&self, batch: &RecordBatch) -> Vec<ArrayRef> {
        self.views.iter().map(|view| Arc::clone(batch.column(view.column))).collect()
    }

    /// The rows that the operator gave, with the columns that waited for them.
    pub fn joined(&self, made: RecordBatch, waiting: Vec<ArrayRef>) -> Result<RecordBatch> {
        let (schema, mut columns, rows) = made.into_parts();
        for (view, waited) in self.views.iter().zip(waiting) {
            columns[view.column] = waited;
        }
        for result in &mut columns[self.input_columns..] {
            *result = compact(result)?;
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
    }

    fn with_views(
        &self,
        batch: RecordBatch,
        mut each: impl FnMut(View, &ArrayRef, &Field) -> Result<ArrayRef>,
    ) -> Result<RecordBatch> {
        if self.views.is_empty() {
            return Ok(batch);
        }
        let (schema, mut columns, rows) = batch.into_parts();
        for view in &self.views {
            columns[view.column] = each(*view, &columns[view.column], schema.field(view.column))?;
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
    }

    /// Where the last partition of a batch begins behind the rows before it, whose last keys these are; `None` if it goes on from there, and
    /// where no partition may end a run.
    pub(super) fn last_partition(&self, batch: &RecordBatch, before: Option<&Keys>) -> Result<Option<usize>> {
        let Some(before) = before.filter(|_| batch.num_rows() > 0) else { return Ok(None) };
        let keys = self.keys(batch)?;
        let behind = before.iter().zip(&keys).map(|(before, own)| concat(&[before.as_ref(), own.as_ref()]));
        let ranges = partition(&behind.collect::<std::result::Result<Vec<_>, _>>()?)?.ranges();
        Ok(ranges.last().filter(|last| last.start > 0).map(|last| last.start - 1))
    }

    /// The keys of a batch's last row; `None` where no partition may end a run.
    pub(super) fn last_keys(&self, batch: &RecordBatch) -> Result<Option<Keys>> {
        let last = batch.num_rows().checked_sub(1).filter(|_| !self.partition_by.is_empty());
        last.map(|last| self.keys(&batch.slice(last, 1))).transpose()
    }

    fn keys(&self, batch: &RecordBatch) -> Result<Keys> {
        self.partition_by.iter().map(|key| key.evaluate(batch)?.into_array(batch.num_rows())).collect()
    }

    /// Bytes that are held until the operator has given the rows of a batch, as it was and as it goes through, and bytes that it may keep
    /// until its run ends.
    pub fn held_bytes(&self, batch: &RecordBatch, given: &RecordBatch) -> (usize, usize) {
        let waiting: usize = self.views.iter().map(|view| bytes_of(batch.column(view.column))).sum();
        let through: usize = given.columns().iter().map(bytes_of).sum();
        // The batches and what they are put together to; or as its input, and of each partition.
        let operator = 2 * through;
        if self.takes_all {
            return (waiting, operator);
        }
        let read = self.views.iter().filter(|view| view.is_read);
        (waiting + operator, read.map(|view| bytes_of_views(given.column(view.column))).sum())
    }
}

fn views_of(schema: &SchemaRef, windows: &[Arc<dyn WindowExpr>]) -> Vec<View> {
    let columns = schema.fields().iter().enumerate().filter(|(_, field)| has_views(field.data_type()));
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
