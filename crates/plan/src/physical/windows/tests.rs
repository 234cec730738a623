//! Windows in runs beside the same windows over all at once.

use super::shape::Shape;
use super::*;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray};
use arrow::compute::{concat_batches, sort_to_indices, take_record_batch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use datafusion::common::DataFusionError;
use datafusion::datasource::MemTable;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::collect;
use datafusion::prelude::{SessionConfig, SessionContext, col};
use proptest::prelude::*;

/// `i` is a key: what depends on the order of rows has it in its order.
const WINDOWS: [&str; 16] = [
    "row_number() OVER (PARTITION BY k ORDER BY n, i)",
    "sum(n) OVER (PARTITION BY k)",
    "sum(n) OVER (ORDER BY n)",
    "sum(n) OVER (PARTITION BY t)",
    "count(*) OVER ()",
    "max(t) OVER (PARTITION BY k ORDER BY n, i ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING)",
    "lag(t, 2) OVER (ORDER BY n, i)",
    "lead(t) OVER (PARTITION BY k ORDER BY t, i)",
    "first_value(t) OVER (PARTITION BY k ORDER BY n, i)",
    "last_value(t) OVER (PARTITION BY k ORDER BY n, i ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)",
    "sum(n) FILTER (WHERE t > 'm') OVER (PARTITION BY k)",
    "count(*) FILTER (WHERE u IS NULL) OVER (ORDER BY n)",
    "sum(n) FILTER (WHERE u > 'p') OVER (PARTITION BY k ORDER BY n, i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
    "ntile(3) OVER (PARTITION BY k ORDER BY t, i)",
    "sum(n) OVER (PARTITION BY k ORDER BY n RANGE BETWEEN 1 PRECEDING AND 2 FOLLOWING)",
    "percent_rank() OVER (PARTITION BY k, t ORDER BY n)",
];

type Row = (Option<i64>, i64, Option<String>, Option<String>);

fn table(rows: &[Row], rows_of_batch: usize) -> MemTable {
    let schema = Arc::new(Schema::new(vec![
        Field::new("i", DataType::Int64, false),
        Field::new("k", DataType::Int64, true),
        Field::new("n", DataType::Int64, false),
        Field::new("t", DataType::Utf8View, true),
        Field::new("u", DataType::Utf8View, true),
    ]));
    // Where rows come from joins, there are batches without any.
    let chunks = rows.chunks(rows_of_batch).chain([&rows[..0]]);
    let batches = chunks.enumerate().map(|(at, rows)| {
        let key = |row: usize| (at * rows_of_batch + row) as i64;
        let columns: Vec<ArrayRef> = vec![
            Arc::new((0..rows.len()).map(|row| Some(key(row))).collect::<Int64Array>()),
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

/// All rows, by their key; `None` if there are none.
fn whole(batches: &[RecordBatch]) -> Option<RecordBatch> {
    let batches: Vec<&RecordBatch> = batches.iter().filter(|batch| batch.num_rows() > 0).collect();
    let whole = concat_batches(&batches.first()?.schema(), batches).expect("batches of one schema");
    let order = whole.column_by_name("i").map(|key| sort_to_indices(key, None, None).expect("numbers"));
    order.map(|order| take_record_batch(&whole, &order).expect("rows that are there")).or(Some(whole))
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
        rows in prop::collection::vec((prop::option::weighted(0.8, 0..4_i64), 0..9_i64, text(), text()), 0..60),
        batch_size in prop::sample::select(vec![1_usize, 2, 3, 7, 64]),
        run_bytes in prop::sample::select(vec![0_usize, 1, 500, RUN_BYTES]),
        one in prop::sample::select(&WINDOWS[..]),
        other in prop::sample::select(&WINDOWS[..]),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let context = context(&rows, batch_size, usize::MAX);
        // `two` is a window over windows where the partitions differ.
        let sql = format!("SELECT *, {one} AS one, {other} AS two, row_number() OVER (PARTITION BY u ORDER BY n, i) AS three FROM r");
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
    for (partition_by, batch_size) in [("k", 512), ("k", 100), ("k", 1000), ("n", 1)] {
        let context = context(&rows, batch_size, 2 << 20);
        // Sorts would be counted, too.
        let (k, n) = (col("k").sort(true, false), col("n").sort(true, false));
        let ordered = table(&rows, batch_size).with_sort_order(vec![vec![k, n.clone()], vec![n]]);
        context.register_table("ordered", Arc::new(ordered)).expect("a table");
        let of_one = "SELECT sum(n) OVER (PARTITION BY k), t FROM (SELECT 1 AS k, n, t FROM r)";
        for sql in [of_one, "SELECT sum(n) OVER (), t FROM r"] {
            let error = rows_of(&context, sql, Some(1 << 18)).await.expect_err("rows of one partition of 20,000");
            assert!(matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)), "{error}");
            assert!(error.to_string().contains("WindowAggExec"), "{error}");
        }
        let windows = format!("SELECT sum(n) OVER (PARTITION BY {partition_by}) AS s, t FROM ordered");
        let sql = format!("SELECT sum(s), max(t) FROM ({windows})");
        let counted = whole(&rows_of(&context, &sql, Some(1 << 18)).await.expect("runs fit")).expect("a row");
        let rows_of_partition = if partition_by == "k" { 100 } else { 1 };
        let expected = rows_of_partition * (0..20_000_i64).sum::<i64>();
        assert_eq!(counted.column(0).as_primitive::<Int64Type>().value(0), expected);
        assert_eq!(context.runtime_env().memory_pool.reserved(), 0);
    }
}

#[tokio::test]
async fn what_has_no_rows_has_none() {
    let context = context(&[], 4, 1 << 20);
    for window in WINDOWS {
        let sql = format!("SELECT *, {window} FROM r");
        let found = rows_of(&context, &sql, Some(0)).await.expect("no rows");
        assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), 0);
    }
}

#[tokio::test]
async fn texts_within_lists_are_compact_and_counted_by_their_rows() {
    let context = context(&many_rows(300), 2, 32 << 20);
    let lists = "SELECT i, n, k, make_array(t, u) AS l, named_struct('t', t) AS s FROM r";
    let sums = (0..5).map(|at| format!("sum(n) OVER (ORDER BY n, k + {at}) AS c{at}")).collect::<Vec<_>>().join(", ");
    let sql = format!("SELECT *, lag(l) OVER (ORDER BY n DESC) FROM (SELECT *, {sums} FROM ({lists}))");
    let apart = rows_of(&context, &sql, Some(1 << 10)).await.expect("rows");
    assert_eq!(whole(&apart), whole(&rows_of(&context, &sql, None).await.expect("rows")));
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
    assert_eq!(read("row_number() OVER (PARTITION BY t ORDER BY n)").await, [3]);
    assert_eq!(read("row_number() OVER (PARTITION BY k ORDER BY u)").await, [4]);
    assert_eq!(read("max(u) OVER (PARTITION BY k)").await, [4]);
    assert_eq!(read("sum(n) OVER (PARTITION BY k)").await, [] as [usize; 0]);
    assert_eq!(read("sum(n) OVER (ORDER BY n ROWS 3 PRECEDING)").await, [] as [usize; 0]);
    // What a FILTER reads is not told.
    assert_eq!(read("sum(n) FILTER (WHERE t > 'a') OVER (PARTITION BY k)").await, [3, 4]);
    assert_eq!(read("sum(n) FILTER (WHERE t > 'a') OVER (ORDER BY n ROWS 3 PRECEDING)").await, [3, 4]);
    assert_eq!(read("sum(n) FILTER (WHERE t = ' filter: None }') OVER (PARTITION BY k)").await, [3, 4]);
}
