//! The estimator on trees made by hand, and meters in plans that run.

use super::estimate::{Input, Operator, Role, Work, work};
use super::meter::Meter;
use super::{KnownOperators, Pipelines};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::datasource::MemTable;
use datafusion::physical_plan::{ExecutionPlan, displayable, execute_stream};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;
use std::sync::Arc;

/// Plans without operators of others.
const DATAFUSION_ALONE: KnownOperators = KnownOperators { answers_alone: |_| false, part_rows: |_| None };

fn operator(role: Role, foreseen: Option<u64>, inputs: Vec<Input>) -> (Operator, Arc<Meter>) {
    let meter = Meter::new(1);
    meter.begin();
    (Operator { role, meter: Some(Arc::clone(&meter)), foreseen, inputs }, meter)
}

fn source(rows: u64) -> (Operator, Arc<Meter>) {
    operator(Role::Source(None), Some(rows), Vec::new())
}

fn streamed(operator: Operator) -> Input {
    Input { operator, is_held: false }
}

fn held(operator: Operator) -> Input {
    Input { operator, is_held: true }
}

fn known(done: f64, total: f64) -> Work {
    Work { done, total: Some(total) }
}

const SORTS: Role = Role::Keeps { at_most: None };
const FILTERS: Role = Role::Passes { as_many: false };
const GROUPS: Role = Role::Groups { of_partitions: None, at_most: None };

#[test]
fn a_sort_gives_as_many_rows_as_it_takes_and_so_it_is_half_of_the_work() {
    let (table, read) = source(1_000);
    let (sort, sorted) = operator(SORTS, None, vec![streamed(table)]);
    let now = || work(&sort, 0, None);
    assert_eq!(now(), known(0.0, 2_000.0));
    read.add(500);
    assert_eq!(now(), known(500.0, 2_000.0));
    // There were fewer rows than the optimizer took there to be.
    read.add(300);
    read.end();
    assert_eq!(now(), known(800.0, 1_600.0));
    sorted.add(400);
    assert_eq!(now(), known(1_200.0, 1_600.0));
    sorted.add(400);
    sorted.end();
    assert_eq!((now(), now().share()), (known(1_600.0, 1_600.0), Some(1.0)));
}

#[test]
fn what_a_filter_lets_through_is_foreseen_less_and_seen_more_the_longer_it_runs() {
    let (table, read) = source(1_000);
    let (filter, passed) = operator(FILTERS, Some(900), vec![streamed(table)]);
    let (sort, _) = operator(SORTS, None, vec![streamed(filter)]);
    let now = || work(&sort, 0, None).total;
    assert_eq!(now(), Some(1_900.0));
    read.add(500);
    passed.add(50);
    assert_eq!(now(), Some(1_000.0 + 50.0 + 450.0));
    read.add(500);
    passed.add(50);
    read.end();
    passed.end();
    assert_eq!(now(), Some(1_100.0));
    // Of what nobody foresees it is taken that it goes on as it went.
    let (table, read) = source(1_000);
    let (filter, passed) = operator(FILTERS, None, vec![streamed(table)]);
    let (sort, _) = operator(SORTS, None, vec![streamed(filter)]);
    assert_eq!(work(&sort, 0, None).total, Some(2_000.0));
    read.add(250);
    passed.add(10);
    assert_eq!(work(&sort, 0, None).total, Some(1_040.0));
}

#[test]
fn a_join_is_driven_by_its_table_and_then_by_what_is_looked_up_in_it() {
    let ((table, built), (probes, probed)) = (source(100), source(1_000));
    let (join, joined) = operator(FILTERS, Some(4_000), vec![held(table), streamed(probes)]);
    let (sort, _) = operator(SORTS, None, vec![streamed(join)]);
    built.add(100);
    built.end();
    assert_eq!(work(&sort, 0, None), known(100.0, 1_100.0 + 4_000.0));
    probed.add(500);
    joined.add(1_000);
    // What is held is of no pipeline above: half of the rows that are looked up have been.
    assert_eq!(work(&sort, 0, None), known(600.0, 1_100.0 + 1_000.0 + 2_000.0));
}

#[test]
fn an_aggregate_has_at_most_the_groups_that_memory_has_room_for() {
    let (table, read) = source(1_000_000);
    let (groups, given) = operator(GROUPS, Some(1_000_000), vec![streamed(table)]);
    let now = |held_bytes| work(&groups, held_bytes, None);
    assert_eq!(now(0), known(0.0, 2_000_000.0));
    read.add(500_000);
    // 100 groups by now, so perhaps twice as many; in gigabytes there may be one for each row.
    assert_eq!(now(3_200), known(500_000.0, 1_000_200.0));
    assert_eq!(now(3_usize << 30), known(500_000.0, 2_000_000.0));
    read.add(500_000);
    read.end();
    given.add(60);
    assert_eq!(now(1_280), known(1_000_060.0, 1_000_100.0));
    given.end();
    assert_eq!(now(1_usize << 30).share(), Some(1.0));
}

#[test]
fn groups_of_partitions_come_together_between_at_once_and_not_at_all() {
    let (table, read) = source(1_000);
    let (partial, grouped) = operator(GROUPS, None, vec![streamed(table)]);
    let spread =
        Operator { role: Role::Passes { as_many: true }, meter: None, foreseen: None, inputs: vec![streamed(partial)] };
    let whole = Role::Groups { of_partitions: Some(4), at_most: None };
    let (last, given) = operator(whole, None, vec![streamed(spread)]);
    read.add(1_000);
    read.end();
    grouped.add(400);
    grouped.end();
    assert_eq!(work(&last, 0, None), known(1_400.0, 1_400.0 + 200.0));
    given.add(300);
    assert_eq!(work(&last, 0, None), known(1_700.0, 1_700.0), "there are more than was thought");
}

#[test]
fn what_ended_early_leaves_nothing_to_do_below() {
    let (table, read) = source(1_000_000);
    let (limit, passed) = operator(FILTERS, Some(10), vec![streamed(table)]);
    read.add(8_192);
    passed.add(10);
    assert!(work(&limit, 0, None).share() < Some(0.01));
    passed.end();
    assert_eq!(work(&limit, 0, None), known(8_192.0, 8_192.0));
}

#[test]
fn what_nothing_bounds_is_unknown_until_it_has_ended() {
    let (series, given) = operator(Role::Source(None), None, Vec::new());
    let (filter, passed) = operator(FILTERS, None, vec![streamed(series)]);
    let (sort, _) = operator(SORTS, None, vec![streamed(filter)]);
    given.add(70);
    passed.add(7);
    assert_eq!(work(&sort, 0, None), Work { done: 70.0, total: None });
    given.end();
    passed.end();
    assert_eq!(work(&sort, 0, None), known(70.0, 77.0));
}

#[test]
fn the_index_stands_for_an_aggregate_until_it_refuses() {
    let (table, read) = (source(1_000), Meter::new(1));
    let unread = Operator { meter: Some(Arc::clone(&read)), ..table.0 };
    let aggregate =
        Operator { role: GROUPS, meter: Some(Meter::new(1)), foreseen: None, inputs: vec![streamed(unread)] };
    let (small, keys) = source(10);
    let (answer, given) = operator(Role::Stands, Some(5), vec![streamed(aggregate), held(small)]);
    keys.add(10);
    keys.end();
    assert_eq!(work(&answer, 0, None), Work { done: 10.0, total: None }, "nobody knows what it takes");
    given.add(2);
    assert_eq!(work(&answer, 0, None), known(12.0, 15.0));
    // Refused: now the aggregate's table is what there is to do.
    read.begin();
    read.add(500);
    assert_eq!(work(&answer, 0, None).done, 510.0);
    assert!(work(&answer, 0, None).total >= Some(1_010.0));
}

#[test]
fn rows_that_are_to_be_written_are_done_when_they_are() {
    let (table, read) = source(1_000);
    read.add(1_000);
    read.end();
    assert_eq!(work(&table, 0, Some(0)), known(1_000.0, 2_000.0));
    assert_eq!(work(&table, 0, Some(250)).share(), Some(0.625));
    assert_eq!(work(&table, 0, Some(1_000)).share(), Some(1.0));
}

const ROWS: i64 = 40_000;

/// A table of so many rows in four partitions.
fn context() -> SessionContext {
    let context =
        SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2).with_batch_size(1_000));
    let batch = |first: i64| {
        let column =
            |of: fn(i64) -> i64| -> ArrayRef { Arc::new((first..first + ROWS / 4).map(of).collect::<Int64Array>()) };
        let columns = [("k", column(|n| n * 7_919 % ROWS)), ("v", column(|n| n))];
        RecordBatch::try_from_iter(columns).expect("two columns")
    };
    let partitions: Vec<Vec<RecordBatch>> = (0..4).map(|part| vec![batch(part * ROWS / 4)]).collect();
    let schema = partitions[0][0].schema();
    let table = MemTable::try_new(schema, partitions).expect("one schema");
    context.register_table("t", Arc::new(table)).expect("a new table");
    context
}

async fn planned(context: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    let frame = context.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    frame.create_physical_plan().await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

#[tokio::test]
async fn plans_with_meters_give_the_same_rows_and_tell_how_far_they_are_while_they_do() {
    let context = context();
    let memory = Arc::clone(&context.runtime_env().memory_pool);
    // With those that give many batches once all is read: these go on telling.
    for (sql, rows, goes_on) in [
        ("SELECT * FROM t ORDER BY k", ROWS, true),
        ("SELECT k, count(*) FROM t GROUP BY k", ROWS, true),
        ("SELECT k % 100, sum(v) FROM t GROUP BY 1 ORDER BY 2", 100, false),
        ("SELECT a.v FROM t a JOIN t b ON a.k = b.v ORDER BY b.k", ROWS, true),
        ("SELECT a.v FROM t a JOIN (SELECT 1 AS x UNION ALL SELECT 2) b ON a.v < b.x", 3, false),
        ("SELECT sum(v) OVER (PARTITION BY k % 7) FROM t", ROWS, false),
        ("SELECT v FROM t WHERE v > (SELECT avg(v) FROM t) ORDER BY v DESC LIMIT 10", 10, false),
        ("SELECT v FROM t UNION SELECT v + 1 FROM t", ROWS + 1, true),
    ] {
        let plan = planned(&context, sql).await;
        let pipelines = Pipelines::default();
        let metered = pipelines.meter(Arc::clone(&plan), &memory, &DATAFUSION_ALONE);
        let text = |plan: &Arc<dyn ExecutionPlan>| displayable(plan.as_ref()).indent(true).to_string();
        assert_eq!(text(&metered), text(&plan));
        let mut stream = execute_stream(metered, context.task_ctx()).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let (mut count, mut told) = (0, Vec::new());
        while let Some(batch) = stream.next().await {
            count += batch.unwrap_or_else(|error| panic!("{sql}: {error}")).num_rows();
            let share = pipelines.fraction(None, None);
            told.push(share.unwrap_or_else(|| panic!("{sql}: all is known of a table in memory")));
        }
        assert_eq!(count as i64, rows, "{sql}");
        assert!(told.is_sorted() && told.iter().all(|share| (0.0..1.0).contains(share)), "{sql}: {told:?}");
        assert_eq!(pipelines.fraction(None, None), Some(0.99), "{sql}");
        if goes_on {
            assert!(told[0] < 0.95 && told[told.len() - 1] > told[0], "{sql}: {told:?}");
        }
    }
}

#[tokio::test]
async fn a_plan_of_a_row_or_of_unknown_length_tells_nothing() {
    let context = context();
    let memory = Arc::clone(&context.runtime_env().memory_pool);
    let recursive = "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 9) SELECT * FROM n";
    for sql in ["SELECT 1", recursive] {
        let pipelines = Pipelines::default();
        let plan = pipelines.meter(planned(&context, sql).await, &memory, &DATAFUSION_ALONE);
        assert_eq!(pipelines.fraction(None, Some(0.5)), None, "{sql}");
        let rows: Vec<_> = execute_stream(plan, context.task_ctx()).expect("runs").collect().await;
        assert!(rows.iter().all(Result::is_ok), "{sql}");
    }
    // Without a plan, scans tell.
    assert_eq!(Pipelines::default().fraction(None, Some(0.5)), Some(0.5));
}
