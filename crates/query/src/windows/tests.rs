//! Windows in runs beside the same windows over all at once.

use super::*;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::DataFusionError;
use datafusion::datasource::MemTable;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::collect;
use datafusion::prelude::{SessionConfig, SessionContext};
use proptest::prelude::*;

const WINDOWS: [&str; 16] = [
    "row_number() OVER (PARTITION BY k ORDER BY n, t)",
    "sum(n) OVER (PARTITION BY k)",
    "sum(n) OVER (ORDER BY n)",
    "sum(n) OVER (PARTITION BY t)",
    "count(*) OVER ()",
    "max(t) OVER (PARTITION BY k ORDER BY n, t ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING)",
    "lag(t, 2) OVER (ORDER BY n, t)",
    "lead(t) OVER (PARTITION BY k ORDER BY n, t)",
    "first_value(t) OVER (PARTITION BY k ORDER BY n, t)",
    "last_value(t) OVER (PARTITION BY k ORDER BY n, t ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)",
    "sum(n) FILTER (WHERE t > 'm') OVER (PARTITION BY k)",
    "count(*) FILTER (WHERE u IS NULL) OVER (ORDER BY n)",
    "sum(n) FILTER (WHERE u > 'p') OVER (PARTITION BY k ORDER BY n ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
    "ntile(3) OVER (PARTITION BY k ORDER BY n, t)",
    "sum(n) OVER (PARTITION BY k ORDER BY n RANGE BETWEEN 1 PRECEDING AND 2 FOLLOWING)",
    "percent_rank() OVER (PARTITION BY k, t ORDER BY n)",
];

type Row = (Option<i64>, i64, Option<String>, Option<String>);

fn table(rows: &[Row], rows_of_batch: usize) -> MemTable {
    let schema = Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, true),
        Field::new("n", DataType::Int64, false),
        Field::new("t", DataType::Utf8View, true),
        Field::new("u", DataType::Utf8View, true),
    ]));
    let batches = rows.chunks(rows_of_batch).map(|rows| {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>()),
            Arc::new(rows.iter().map(|row| Some(row.1)).collect::<Int64Array>()),
            Arc::new(rows.iter().map(|row| row.2.as_deref()).collect::<StringViewArray>()),
            Arc::new(rows.iter().map(|row| row.3.as_deref()).collect::<StringViewArray>()),
        ];
        RecordBatch::try_new(Arc::clone(&schema), columns).expect("columns of the schema")
    });
    let batches = batches.collect();
    MemTable::try_new(schema, vec![batches]).expect("batches of the schema")
}

fn context(rows: &[Row], batch_size: usize, memory_bytes: usize) -> SessionContext {
    let config = SessionConfig::new().with_batch_size(batch_size).with_target_partitions(1);
    let pool = Arc::new(GreedyMemoryPool::new(memory_bytes));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().expect("a runtime");
    let context = SessionContext::new_with_config_rt(config, runtime);
    context.register_table("r", Arc::new(table(rows, batch_size))).expect("a table");
    context
}

/// The rows of a query, with its windows in runs of so many bytes, or all at once.
async fn rows_of(context: &SessionContext, sql: &str, run_bytes: Option<usize>) -> Result<Vec<RecordBatch>> {
    let mut plan = context.sql(sql).await?.create_physical_plan().await?;
    if let Some(run_bytes) = run_bytes {
        plan = WindowsInRuns { run_bytes }.optimize(plan, &ConfigOptions::default())?;
    }
    collect(plan, context.task_ctx()).await
}

fn whole(batches: &[RecordBatch]) -> RecordBatch {
    concat_batches(&batches[0].schema(), batches).expect("batches of one schema")
}

fn text() -> impl Strategy<Value = Option<String>> {
    prop_oneof![
        1 => Just(None),
        3 => "[a-z]{0,3}".prop_map(Some),
        2 => "[a-z]{13,40}".prop_map(Some),
        1 => Just(Some("what more than one row has".to_owned())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn windows_in_runs_give_what_windows_give(
        rows in prop::collection::vec((prop::option::weighted(0.8, 0..4_i64), 0..9_i64, text(), text()), 1..60),
        batch_size in prop::sample::select(vec![1_usize, 2, 3, 7, 64]),
        run_bytes in prop::sample::select(vec![0_usize, 1, 500, RUN_BYTES]),
        one in prop::sample::select(&WINDOWS[..]),
        other in prop::sample::select(&WINDOWS[..]),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let context = context(&rows, batch_size, usize::MAX);
        // `two` is a window over windows where the partitions differ.
        let sql = format!("SELECT *, {one} AS one, {other} AS two, row_number() OVER (PARTITION BY u ORDER BY n, t, k) AS three FROM r");
        let apart = runtime.block_on(rows_of(&context, &sql, Some(run_bytes))).expect("rows");
        let at_once = runtime.block_on(rows_of(&context, &sql, None)).expect("rows");
        prop_assert_eq!(whole(&apart), whole(&at_once));
        for column in apart.iter().flat_map(RecordBatch::columns) {
            if let Some(texts) = column.as_string_view_opt() {
                // Of its own rows, and of what the next batch waits for.
                prop_assert!(texts.data_buffers().len() <= column.len() + 1);
            }
        }
    }
}

/// Partitions of a hundred rows with texts of a hundred bytes.
fn many_rows(rows: usize) -> Vec<Row> {
    let row = |row: usize| {
        let long = |of: &str| Some(format!("{of}{row:0>99}"));
        (Some((row / 100) as i64), row as i64, long("t"), long("u"))
    };
    (0..rows).map(row).collect()
}

#[tokio::test]
async fn a_run_is_counted_and_ends_with_its_partition() {
    let rows = many_rows(20_000);
    // What is sorted would be counted, too: the table is not in the order that is asked for by itself.
    let of_partitions = "SELECT sum(n) OVER (PARTITION BY k), t FROM (SELECT 1 AS k, n, t FROM r)";
    let in_all = "SELECT sum(n) OVER (), t FROM r";
    let runs = "SELECT sum(c) FROM (SELECT count(*) OVER (PARTITION BY k ORDER BY n) AS c, t FROM r)";
    let context = context(&rows, 512, 8 << 20);
    for sql in [of_partitions, in_all] {
        let error = rows_of(&context, sql, Some(1 << 20)).await.expect_err("rows of one partition of 20,000");
        assert!(matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)), "{error}");
        assert!(error.to_string().contains("WindowAggExec"), "{error}");
    }
    let counted = rows_of(&context, runs, Some(1 << 20)).await.expect("runs fit");
    let counted = whole(&counted).column(0).as_primitive::<arrow::datatypes::Int64Type>().value(0);
    assert_eq!(counted, 200 * 5050);
    assert_eq!(context.runtime_env().memory_pool.reserved(), 0);
}

#[tokio::test]
async fn texts_that_no_window_reads_wait_beside_it() {
    let read = async |window: &str| {
        let context = context(&many_rows(10), 4, usize::MAX);
        let sql = format!("SELECT *, {window} FROM r");
        let plan = context.sql(&sql).await.expect("a query").create_physical_plan().await.expect("a plan");
        let mut read = None;
        let found = plan.transform_down(|plan| {
            read = read.take().or_else(|| Shape::of(&plan).map(|shape| shape.read_columns()));
            Ok(Transformed::no(plan))
        });
        found.map(|_| read.expect("a window")).expect("a plan")
    };
    assert_eq!(read("row_number() OVER (PARTITION BY k ORDER BY n)").await, [] as [usize; 0]);
    assert_eq!(read("row_number() OVER (PARTITION BY t ORDER BY n)").await, [2]);
    assert_eq!(read("row_number() OVER (PARTITION BY k ORDER BY u)").await, [3]);
    assert_eq!(read("max(u) OVER (PARTITION BY k)").await, [3]);
    assert_eq!(read("sum(n) OVER (PARTITION BY k)").await, [] as [usize; 0]);
    assert_eq!(read("sum(n) OVER (ORDER BY n ROWS 3 PRECEDING)").await, [] as [usize; 0]);
    // What a FILTER reads is not told.
    assert_eq!(read("sum(n) FILTER (WHERE t > 'a') OVER (PARTITION BY k)").await, [2, 3]);
    assert_eq!(read("sum(n) FILTER (WHERE t > 'a') OVER (ORDER BY n ROWS 3 PRECEDING)").await, [2, 3]);
    assert_eq!(read("sum(n) FILTER (WHERE t = ' filter: None }') OVER (PARTITION BY k)").await, [2, 3]);
}
