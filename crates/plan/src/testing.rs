//! What the tests of these rules share: a session that has them all, small tables, answers as numbers, and how questions are chosen.

use crate::rules::{StopChecks, configure, register, with_rules};
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::prelude::{SessionConfig, SessionContext};
use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;
use std::cmp::Ordering;
use std::sync::Arc;

/// A whole number, or NULL.
pub(crate) type Value = Option<i64>;

/// A session without tables.
pub(crate) fn context() -> SessionContext {
    let mut config = SessionConfig::new().with_target_partitions(2);
    config.options_mut().sql_parser.dialect = datafusion::config::Dialect::PostgreSQL;
    configure(&mut config);
    let builder = with_rules(SessionStateBuilder::new().with_config(config).with_default_features(), StopChecks::NEVER);
    let mut state = builder.build();
    register(&mut state).expect("functions");
    SessionContext::new_with_state(state)
}

/// Rows of BIGINT columns of these names.
pub(crate) fn table<const N: usize>(names: [&str; N], rows: &[[Value; N]]) -> RecordBatch {
    let column = |at: usize| Arc::new(rows.iter().map(|row| row[at]).collect::<Int64Array>()) as ArrayRef;
    let columns = names.iter().enumerate().map(|(at, name)| (*name, column(at), true));
    RecordBatch::try_from_iter_with_nullable(columns).expect("columns are of one length")
}

/// The answer.
pub(crate) async fn batches(context: &SessionContext, sql: &str) -> Result<Vec<RecordBatch>, String> {
    let batches = async { context.sql(sql).await?.collect().await };
    batches.await.map_err(|error| format!("{error}: {sql}"))
}

/// The answer as whole numbers, in its order; truth is 1 and 0.
pub(crate) async fn rows(context: &SessionContext, sql: &str) -> Result<Vec<Vec<Value>>, String> {
    let mut rows = Vec::new();
    for batch in batches(context, sql).await? {
        let columns: Vec<Int64Array> = batch
            .columns()
            .iter()
            .map(|column| cast(column, &DataType::Int64).expect("numbers").as_primitive::<Int64Type>().clone())
            .collect();
        let value = |column: &Int64Array, row| (!column.is_null(row)).then(|| column.value(row));
        rows.extend(
            (0..batch.num_rows()).map(|row| columns.iter().map(|column| value(column, row)).collect::<Vec<_>>()),
        );
    }
    Ok(rows)
}

/// The whole number that is nearest to `of / unit`; of two the even one, or the one further from zero.
pub(crate) fn nearest(of: i64, unit: i64, to_even: bool) -> i64 {
    let (below, rest) = (of.div_euclid(unit), of.rem_euclid(unit));
    let is_above = match (2 * rest).cmp(&unit) {
        Ordering::Less => false,
        Ordering::Greater => true,
        Ordering::Equal if to_even => below % 2 != 0,
        Ordering::Equal => of > 0,
    };
    below + i64::from(is_above)
}

/// The same questions each time, unless `ALLUVIA_TEST_SEED` says others, or `ALLUVIA_TEST_STATEMENTS` more.
pub(crate) fn questions() -> ProptestConfig {
    let variable = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let seed = RngSeed::Fixed(variable("ALLUVIA_TEST_SEED").unwrap_or(1));
    let cases = variable("ALLUVIA_TEST_STATEMENTS").unwrap_or(40) as u32;
    ProptestConfig {
        cases,
        rng_seed: seed,
        failure_persistence: None,
        max_global_rejects: 100_000,
        ..ProptestConfig::default()
    }
}

/// A plan of one partition.
pub(crate) fn coalesced(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    Arc::new(CoalescePartitionsExec::new(plan))
}

/// A runtime of one thread.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}
