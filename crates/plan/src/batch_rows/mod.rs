//! How many rows a statement's batches have: fewer where its rows are wide.
//!
//! Operators hold several batches each, which nobody counts: of 1,000 columns 8,192 rows are 80 MB, and so are 800 texts of 100 kB. So batches
//! are bounded by their bytes, which are foreseen by types, and by what tables know of the lengths of their texts.
//!
//! Invariants:
//! - A statement's batches have no more rows than are set, and as many where its rows are foreseen to be short.
//! - What is foreseen of a row is no less than its types tell.

mod row_bytes;

use alluvia_functions::output_size::StatementLimits;
use datafusion::common::Result;
use datafusion::config::ConfigNonZeroUsize;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{LogicalPlan, TableScan};
use row_bytes::{Widest, widest};

/// Bytes of a batch at most.
const BATCH_BYTES_MAX: u64 = 8 << 20;
/// What a statement of little memory may have in a batch all the same.
const BATCH_BYTES_MIN: u64 = 1 << 20;
/// A batch's share of what its statement may hold.
const SHARE: u64 = 32;
/// Rows of a batch of many columns at least: each batch costs some work for every column.
const ROWS_MIN: u64 = 16;

/// Tells of columns of a scan's table, by their places in its schema, how many bytes a value has, about; 0 of what is not known.
pub type ScanLengths<'a> = &'a dyn Fn(&TableScan, &[usize]) -> Result<Vec<u64>>;

/// Sets the rows of the batches of an optimized plan, before its operators are chosen: at most as many as are set.
pub fn fit_batches(state: &mut SessionState, plan: &LogicalPlan, lengths: ScanLengths<'_>) -> Result<()> {
    let Widest { by_types, by_lengths } = widest(plan, lengths)?;
    let options = state.config_mut().options_mut();
    let limit = options.extensions.get::<StatementLimits>().map_or(u64::MAX, |limits| limits.memory_bytes);
    let bytes = (limit / SHARE).clamp(BATCH_BYTES_MIN, BATCH_BYTES_MAX);
    let of_columns = (bytes / by_types.max(1)).max(ROWS_MIN);
    // A long text costs more than what a batch does.
    let of_texts = (bytes / by_lengths.max(1)).max(if by_lengths > by_types { 1 } else { ROWS_MIN });
    let rows = of_columns.min(of_texts) as usize;
    if rows < options.execution.batch_size.get() {
        options.execution.batch_size = ConfigNonZeroUsize::try_new(rows)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::datasource::MemTable;
    use datafusion::prelude::{SessionConfig, SessionContext};
    use std::sync::Arc;

    /// A table of a number and two texts, of which `b` is long.
    fn context(memory_bytes: u64) -> SessionContext {
        let mut config = SessionConfig::new().with_batch_size(8192);
        config.options_mut().extensions.insert(StatementLimits::new(memory_bytes));
        let context = SessionContext::new_with_config(config);
        let field = |name: &str, data_type| Field::new(name, data_type, true);
        let columns = [("n", DataType::Int64), ("a", DataType::Utf8View), ("b", DataType::Utf8View)];
        let schema = Arc::new(Schema::new(columns.map(|(name, data_type)| field(name, data_type)).to_vec()));
        let table = MemTable::try_new(schema, vec![vec![]]).unwrap();
        context.register_table("t", Arc::new(table)).unwrap();
        context
    }

    fn rows(sql: &str, memory_bytes: u64) -> usize {
        let context = context(memory_bytes);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let plan = runtime.block_on(context.state().create_logical_plan(sql)).unwrap();
        let mut state = context.state();
        let plan = state.optimize(&plan).unwrap();
        let lengths =
            |_: &TableScan, places: &[usize]| Ok(places.iter().map(|&place| [0, 20, 100_000][place]).collect());
        fit_batches(&mut state, &plan, &lengths).unwrap();
        state.config().batch_size()
    }

    fn rows_of(columns: usize, memory_bytes: u64) -> usize {
        let list = (0..columns).map(|at| format!("{at}::bigint AS c{at}")).collect::<Vec<_>>().join(", ");
        rows(&format!("SELECT {list}"), memory_bytes)
    }

    #[test]
    fn wide_rows_come_in_small_batches_and_others_as_they_did() {
        assert_eq!(rows_of(10, u64::MAX), 8192);
        assert_eq!(rows_of(128, u64::MAX), 8192);
        assert_eq!(rows_of(1000, u64::MAX), (8 << 20) / 8000);
        assert_eq!(rows_of(1000, 64 << 20), (2 << 20) / 8000);
        assert_eq!(rows_of(10, 1 << 20), 8192, "little memory alone makes no small batches of narrow rows");
    }

    #[test]
    fn long_texts_come_in_small_batches_where_they_are_read() {
        for sql in [
            "SELECT n, a FROM t",
            "SELECT a, count(*) FROM t GROUP BY a ORDER BY a",
            "SELECT x.a, y.a FROM t x JOIN t y ON x.n = y.n",
        ] {
            assert_eq!(rows(sql, u64::MAX), 8192, "{sql}");
        }
        let alone = (8 << 20) / 100_000;
        let cases = [
            ("SELECT b FROM t", alone),
            ("SELECT max(length(b)), count(DISTINCT b) FROM t", alone),
            ("SELECT n FROM t ORDER BY b", (8 << 20) / 100_008),
            ("SELECT n FROM t WHERE length(b) > 5", (8 << 20) / 100_008),
            ("SELECT count(*) FROM (SELECT a FROM t UNION ALL SELECT b FROM t) u WHERE length(a) > 1", alone),
            ("SELECT n FROM t WHERE a IN (SELECT upper(b) FROM t)", alone),
            ("SELECT b || a, b || 'x' FROM t", (8 << 20) / 200_000),
            ("SELECT x.b, y.b FROM t x JOIN t y ON x.n = y.n", (8 << 20) / 200_016),
            ("SELECT lag(b) OVER (ORDER BY n) FROM t", (8 << 20) / 200_008),
        ];
        for (sql, expected) in cases {
            assert_eq!(rows(sql, u64::MAX), expected, "{sql}");
        }
        assert_eq!(rows("SELECT b FROM t", 1 << 20), (1 << 20) / 100_000);
    }
}
