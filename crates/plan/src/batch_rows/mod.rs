//! How many rows a statement's batches have: fewer where its rows are wide.
//!
//! Operators hold several batches each, which nobody counts: of 1,000 columns 8,192 rows are 80 MB. So batches are bounded by their bytes,
//! which are foreseen by types; a text of unknown length counts little.

use alluvia_functions::output_size::StatementLimits;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, Result};
use datafusion::config::ConfigNonZeroUsize;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;

/// Bytes of a batch at most.
const BATCH_BYTES_MAX: u64 = 8 << 20;
/// What a statement of little memory may have in a batch all the same.
const BATCH_BYTES_MIN: u64 = 1 << 20;
/// A batch's share of what its statement may hold.
const SHARE: u64 = 32;
/// Rows of a batch at least: each batch costs some work for every column.
const ROWS_MIN: u64 = 16;
/// What is foreseen of a value without a fixed width.
const VALUE_BYTES: u64 = 32;

/// Sets the rows of the batches of an optimized plan, before its operators are chosen: at most as many as are set.
pub fn fit_batches(state: &mut SessionState, plan: &LogicalPlan) -> Result<()> {
    let mut widest = 0;
    plan.apply_with_subqueries(|plan| {
        widest = widest.max(row_bytes(plan.schema()));
        Ok(TreeNodeRecursion::Continue)
    })?;
    let options = state.config_mut().options_mut();
    let limit = options.extensions.get::<StatementLimits>().map_or(u64::MAX, |limits| limits.memory_bytes);
    let bytes = (limit / SHARE).clamp(BATCH_BYTES_MIN, BATCH_BYTES_MAX);
    let rows = (bytes / widest.max(1)).max(ROWS_MIN) as usize;
    if rows < options.execution.batch_size.get() {
        options.execution.batch_size = ConfigNonZeroUsize::try_new(rows)?;
    }
    Ok(())
}

/// Bytes of a row, about.
fn row_bytes(schema: &DFSchema) -> u64 {
    let width =
        |data_type: &arrow::datatypes::DataType| data_type.primitive_width().map_or(VALUE_BYTES, |width| width as u64);
    schema.fields().iter().map(|field| width(field.data_type())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::prelude::{SessionConfig, SessionContext};

    fn rows_of(columns: usize, memory_bytes: u64) -> usize {
        let mut config = SessionConfig::new().with_batch_size(8192);
        config.options_mut().extensions.insert(StatementLimits::new(memory_bytes));
        let context = SessionContext::new_with_config(config);
        let list = (0..columns).map(|at| format!("{at}::bigint AS c{at}")).collect::<Vec<_>>().join(", ");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let plan = runtime.block_on(context.state().create_logical_plan(&format!("SELECT {list}"))).unwrap();
        let mut state = context.state();
        fit_batches(&mut state, &plan).unwrap();
        state.config().batch_size()
    }

    #[test]
    fn wide_rows_come_in_small_batches_and_others_as_they_did() {
        assert_eq!(rows_of(10, u64::MAX), 8192);
        assert_eq!(rows_of(128, u64::MAX), 8192);
        assert_eq!(rows_of(1000, u64::MAX), (8 << 20) / 8000);
        assert_eq!(rows_of(1000, 64 << 20), (2 << 20) / 8000);
        assert_eq!(rows_of(10, 1 << 20), 8192, "little memory alone makes no small batches of narrow rows");
    }
}
