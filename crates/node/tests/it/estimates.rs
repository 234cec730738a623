//! `SET max_error`: estimates hold what they say, look like exact answers, and say what they are.

#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::support::Random;
use alluvia_node::{Database, DatabaseOptions};
use alluvia_pipeline::PipelineOptions;
use alluvia_query::{Answer, Refinement, Session, Used};
use alluvia_snapshot::Admin;
use alluvia_types::{ErrorKind, Stage};
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow::compute::{
    SortColumn, SortOptions, cast, concat_batches, filter_record_batch, lexsort_to_indices, nullif, take_record_batch,
};
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema, TimeUnit};
use arrow::util::display::array_value_to_string;
use futures::TryStreamExt;
use std::sync::Arc;
use std::time::Duration;

const CREATE: &str =
    "CREATE TABLE sales (sold_at TIMESTAMP, country TEXT, city TEXT, item TEXT, price DOUBLE, cents BIGINT NOT NULL, discount DOUBLE, bill DECIMAL(12, 2))
    WITH (dimensions = 'store(country, city); item; time(sold_at: year, month, day)', measures = 'price, cents, discount, bill')";

fn batch(random: &mut Random, rows: usize) -> RecordBatch {
    let day = 86_400_000_000i64;
    let fields = vec![
        Field::new("sold_at", DataType::Timestamp(TimeUnit::Microsecond, None), true),
        Field::new("country", DataType::Utf8, true),
        Field::new("city", DataType::Utf8, true),
        Field::new("item", DataType::Utf8, true),
        Field::new("price", DataType::Float64, true),
        Field::new("cents", DataType::Int64, false),
        Field::new("discount", DataType::Float64, true),
        Field::new("bill", DataType::Decimal128(12, 2), true),
    ];
    let places: Vec<u64> = (0..rows).map(|_| random.below(200)).collect();
    let times = (0..rows).map(|_| Some(1_700_000_000_000_000 + random.below(700) as i64 * day));
    let decimals = |cents: &Int64Array| {
        let bills = cents.values().iter().map(|&cents| (cents % 11 > 0).then_some(i128::from(cents) * 7 - 300));
        bills.collect::<Decimal128Array>().with_precision_and_scale(12, 2).expect("fits")
    };
    let price = |random: &mut Random| (random.below(20) > 0).then(|| 1.0 + random.below(10_000) as f64 / 100.0);
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(times.collect::<TimestampMicrosecondArray>()),
        Arc::new(places.iter().map(|place| Some(format!("country {}", place / 20))).collect::<StringArray>()),
        Arc::new(places.iter().map(|place| Some(format!("city {place}"))).collect::<StringArray>()),
        Arc::new((0..rows).map(|_| Some(format!("item {}", random.below(300)))).collect::<StringArray>()),
        Arc::new((0..rows).map(|_| price(random)).collect::<Float64Array>()),
        Arc::new((0..rows).map(|_| Some(random.below(5_000) as i64)).collect::<Int64Array>()),
        // No row has one.
        Arc::new(Float64Array::new_null(rows)),
    ];
    let bills = decimals(columns[5].as_primitive());
    columns.push(Arc::new(bills));
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("fits")
}

pub async fn database() -> (tempfile::TempDir, Database) {
    database_of(|rows| rows).await
}

/// Of which each batch is what is made of it.
async fn database_of(change: impl Fn(RecordBatch) -> RecordBatch) -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Database::open_with(dir.path().join("db"), DatabaseOptions::default()).expect("opens");
    let session = db.session();
    session.sql(CREATE).await.expect("creates");
    let mut random = Random(0x5eed);
    for _ in 0..8 {
        let rows = change(batch(&mut random, 150_000));
        session.append("sales", vec![rows]).await.expect("appends");
    }
    db.core().organise(Stage::Merged).expect("organises");
    // Some rows stay in the tail.
    session
        .sql("INSERT INTO sales VALUES ('2024-05-05', 'country 3', 'city 60', 'item 7', 12.5, 100)")
        .await
        .expect("inserts");
    (dir, db)
}

pub async fn ask(session: &Session, sql: &str) -> (RecordBatch, Used) {
    let (rows, used) = asked(session, sql).await;
    (rows, used.expect("it reads"))
}

async fn asked(session: &Session, sql: &str) -> (RecordBatch, Option<Used>) {
    let mut outcome = session.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let rows = outcome.rows.take().expect("rows");
    let schema = rows.schema();
    let batches: Vec<RecordBatch> = rows.try_collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    // What was used is complete once the rows have ended.
    (concat_batches(&schema, &batches).expect("one schema"), outcome.used())
}

fn float(batch: &RecordBatch, column: usize, row: usize) -> f64 {
    match batch.column(column).data_type() {
        DataType::Int64 => batch.column(column).as_primitive::<Int64Type>().value(row) as f64,
        _ => batch.column(column).as_primitive::<Float64Type>().value(row),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn estimates_look_like_exact_answers_and_hold_them() {
    let (_dir, db) = database().await;
    let (exact, near) = (db.session(), db.session());
    for session in [&exact, &near] {
        session.sql("SET cuboids = off").await.expect("sets");
    }
    near.sql("SET max_error = 0.1").await.expect("sets");
    let items: Vec<String> = (0..150).map(|item| format!("'item {item}'")).collect();
    let filter = format!("WHERE item IN ({})", items.join(", "));
    let mut sampled = 0;
    let (mut bounds, mut missed) = (0, 0);
    for sql in [
        format!("SELECT count(*), sum(price), avg(price), sum(cents), count(price) FROM sales {filter}"),
        format!(
            "SELECT count(*) AS n, lower_bound(count(*)), upper_bound(count(*)), relative_error(count(*)), is_exact(count(*)) FROM sales {filter}"
        ),
        format!(
            "SELECT country, sum(cents), lower_bound(sum(cents)), upper_bound(sum(cents)) FROM sales {filter} GROUP BY country ORDER BY country"
        ),
        format!(
            "SELECT country, avg(price) AS mean, lower_bound(avg(price)) AS low, upper_bound(avg(price)) AS high FROM sales {filter} GROUP BY country ORDER BY 1"
        ),
    ] {
        let (expected, exact_used) = ask(&exact, &sql).await;
        let (found, used) = ask(&near, &sql).await;
        assert_eq!(exact_used.sample, None, "nothing is approximate unasked");
        assert_eq!(found.schema(), expected.schema(), "{sql}");
        assert_eq!(found.num_rows(), expected.num_rows(), "{sql}");
        let Some(sample) = used.sample else { continue };
        sampled += 1;
        assert!(sample.holds && sample.error <= 0.1 && sample.rows_drawn < sample.rows_cut / 2, "{sample}");
        assert!(used.to_string().contains("sample of rungs 1/"), "{used}");
        for row in 0..found.num_rows() {
            for column in 0..found.num_columns() {
                let is_number = matches!(found.column(column).data_type(), DataType::Int64 | DataType::Float64);
                let name = found.schema().field(column).name().clone();
                if !is_number || name.contains("relative") {
                    continue;
                }
                let (estimate, truth) = (float(&found, column, row), float(&expected, column, row));
                match name.as_str() {
                    _ if name.contains("lower") || name == "low" => {
                        bounds += 1;
                        missed += u32::from(estimate > truth);
                    }
                    _ if name.contains("upper") || name == "high" => {
                        bounds += 1;
                        missed += u32::from(estimate < truth);
                    }
                    _ => assert!((estimate / truth - 1.0).abs() <= 0.2, "{sql}: {estimate} {truth}"),
                }
            }
        }
    }
    assert_eq!(sampled, 4, "statements were sampled");
    // Each value's interval holds 95 times in a hundred, and the values of one sample are right or wrong together.
    assert!(missed * 4 <= bounds, "{missed} of {bounds} bounds do not hold");
    let sure = format!("SELECT relative_error(count(*)), is_exact(count(*)), count(*) FROM sales {filter}");
    let (sure, used) = ask(&near, &sure).await;
    assert!(used.sample.is_some(), "{used}");
    let error = float(&sure, 0, 0);
    assert!(error > 0.0 && error <= 0.1 && !sure.column(1).as_boolean().value(0), "{error}");
    sampled += 1;
    // A sum of nothing is NULL. No sample tells that, but the summaries do where no row has a value.
    let nothing = format!(
        "SELECT count(*), sum(discount), avg(discount), lower_bound(sum(discount)), relative_error(avg(discount)), is_exact(count(discount)) FROM sales {filter}"
    );
    let (found, used) = ask(&near, &nothing).await;
    assert!(used.sample.is_some() && (1..4).all(|column| found.column(column).is_null(0)), "{used}");
    assert!(float(&found, 4, 0) == 0.0 && found.column(5).as_boolean().value(0));
    sampled += 1;
    // What a sample_fraction leaves has no bounds that anybody knows.
    near.sql("SET sample_fraction = 0.1").await.expect("sets");
    let refused = near.sql("SELECT upper_bound(sum(price)) FROM sales").await.expect_err("refused");
    assert_eq!(refused.kind(), ErrorKind::NotSupported);
    near.sql("SET sample_fraction = 1").await.expect("sets");
    let (log, _) = asked(&exact, "SELECT count(*) FROM alluvia.queries WHERE sample LIKE 'sample of rungs%'").await;
    assert_eq!(float(&log, 0, 0), f64::from(sampled));
    let plan = asked(&near, &format!("EXPLAIN ANALYZE VERBOSE SELECT count(*) FROM sales {filter}")).await.0;
    let plan = arrow::util::pretty::pretty_format_batches(&[plan]).expect("shows").to_string();
    assert!(plan.contains("relative error at most"), "{plan}");
}

/// Boxes that share no row are drawn from together: what several of them cut is one stratum.
#[tokio::test(flavor = "multi_thread")]
async fn an_or_of_several_levels_is_estimated_as_a_whole() {
    let (_dir, db) = database().await;
    let (exact, near) = exact_and_near(&db).await;
    let filter = format!("{} OR country IN ('country 2', 'country 7')", some_items(150));
    for (sql, groups) in [
        (format!("SELECT count(*), sum(cents), avg(price) FROM sales WHERE {filter}"), 0),
        (
            format!("SELECT country, count(*), sum(cents) FROM sales WHERE {filter} GROUP BY country ORDER BY country"),
            1,
        ),
    ] {
        let ((expected, _), (found, used)) = (ask(&exact, &sql).await, ask(&near, &sql).await);
        let sample = used.sample.unwrap_or_else(|| panic!("{sql}: {used}"));
        assert!(sample.holds && sample.error <= 0.1 && sample.rows_drawn < sample.rows_cut / 2, "{sql}: {sample}");
        assert_eq!((found.schema(), found.num_rows()), (expected.schema(), expected.num_rows()), "{sql}");
        for column in groups..found.num_columns() {
            for (near, truth) in numbers(&found, column).into_iter().zip(numbers(&expected, column)) {
                assert!((near / truth - 1.0).abs() <= 0.2, "{sql}: {near} {truth}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_sample_does_not_reach_is_exact_or_refused_or_marked() {
    let (_dir, db) = database().await;
    let (exact, near) = (db.session(), db.session());
    for session in [&exact, &near] {
        session.sql("SET cuboids = off").await.expect("sets");
    }
    near.sql("SET max_error = 0.000001").await.expect("sets");
    let sql = "SELECT sum(price) FROM sales WHERE item IN ('item 1', 'item 2', 'item 3')";
    let (expected, _) = ask(&exact, sql).await;
    let (found, used) = ask(&near, sql).await;
    assert_eq!((found, used.sample), (expected.clone(), None));
    near.sql("SET error_action = 'error'").await.expect("sets");
    let error = near.sql(sql).await.expect_err("the error cannot be reached");
    assert_eq!((error.kind(), error.kind().sqlstate()), (ErrorKind::Inaccurate, "54000"));
    assert!(
        error.message().contains("max_error 0.000001") && error.message().contains("a sample reaches 0."),
        "{error}"
    );
    near.sql("SET error_action = 'mark'").await.expect("sets");
    let (found, used) = ask(&near, sql).await;
    assert!((float(&found, 0, 0) / float(&expected, 0, 0) - 1.0).abs() < 0.2);
    assert!(used.to_string().contains("NOT within max_error"), "{used}");
    let outcome = near.sql(sql).await.expect("answers");
    assert!(outcome.notices().iter().any(|notice| notice.contains("NOT within max_error")), "{:?}", outcome.notices());
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_counts_what_holds() {
    let (_dir, db) = database().await;
    let session = db.session();
    let items: Vec<String> = (0..100).map(|item| format!("'item {item}'")).collect();
    let sql = format!("SELECT sum(price), count(*) FROM sales WHERE item IN ({})", items.join(", "));
    let refused = session.verify(&sql, 5).await.expect_err("without an error to reach");
    assert_eq!(refused.kind(), ErrorKind::InvalidSetting);
    session.sql("SET max_error = 0.03").await.expect("sets");
    let table = session.verify(&sql, 20).await.expect("verifies").collect().await.expect("verifies");
    let shown = arrow::util::pretty::pretty_format_batches(&table).expect("shows").to_string();
    let value = |figure: &str| {
        let line = shown.lines().find(|line| line.contains(figure)).unwrap_or_else(|| panic!("{figure}: {shown}"));
        line.split('|').nth(2).expect("a value").trim().trim_end_matches(" %").parse::<f64>().expect("a number")
    };
    assert_eq!(value("from a sample") + value("answered exactly"), 20.0);
    assert!(value("from a sample") > 0.0 && value("values estimated") == 2.0 * value("from a sample"), "{shown}");
    // 40 values: nearly all hold.
    assert!(value("| intervals that hold  ") >= 80.0, "{shown}");
    assert_eq!(value("groups lost"), 0.0);
    // By look, and of each group by itself: here of one value in each trial.
    let held = |line: &str| -> Option<(f64, u64)> {
        let (share, values) = line.split('|').nth(2)?.trim().split_once(" % of ")?;
        Some((share.parse().ok()?, values.parse().ok()?))
    };
    let looks: u64 =
        shown.lines().filter(|line| line.contains("stopped at look")).map(|line| held(line).expect("a share").1).sum();
    assert_eq!(looks as f64, value("values estimated"), "{shown}");
    let by_country = format!("SELECT country, avg(price) FROM sales WHERE {} GROUP BY country", some_items(100));
    session.sql("SET max_error = 0.1").await.expect("sets");
    let table = session.verify(&by_country, 20).await.expect("verifies").collect().await.expect("verifies");
    let shown = arrow::util::pretty::pretty_format_batches(&table).expect("shows").to_string();
    let least = shown.lines().find(|line| line.contains("held least often: avg(price) of (country "));
    let (share, values) = least.and_then(held).unwrap_or_else(|| panic!("{shown}"));
    assert!((50.0..=100.0).contains(&share) && (1..=20).contains(&values), "{shown}");
    let refused = session.verify("SELECT max(price) FROM sales", 5).await.expect_err("a maximum is not estimated");
    assert_eq!(refused.kind(), ErrorKind::NotSupported);
}

/// The numbers of a column.
fn numbers(batch: &RecordBatch, column: usize) -> Vec<f64> {
    let numbers = cast(batch.column(column), &DataType::Float64).expect("numbers");
    numbers.as_primitive::<Float64Type>().iter().map(|number| number.expect("not NULL")).collect()
}

/// The first columns of the rows that pass.
fn passing(batch: &RecordBatch, columns: usize, passes: impl Fn(usize) -> bool) -> RecordBatch {
    let passes: BooleanArray = (0..batch.num_rows()).map(|row| Some(passes(row))).collect();
    let passing = filter_record_batch(batch, &passes).expect("filters");
    passing.project(&(0..columns).collect::<Vec<_>>()).expect("projects")
}

fn some_items(count: usize) -> String {
    let items: Vec<String> = (0..count).map(|item| format!("'item {item}'")).collect();
    format!("item IN ({})", items.join(", "))
}

/// Sessions that answer exactly and within 10 %, without cuboids.
async fn exact_and_near(db: &Database) -> (Session, Session) {
    let (exact, near) = (db.session(), db.session());
    for session in [&exact, &near] {
        session.sql("SET cuboids = off").await.expect("sets");
    }
    near.sql("SET max_error = 0.1").await.expect("sets");
    (exact, near)
}

/// A group of no values is NULL, and the others are estimated all the same, where nothing that was not read may have values of it.
#[tokio::test(flavor = "multi_thread")]
async fn groups_without_values_are_null_and_keep_no_others_from_being_estimated() {
    let values = "avg(price), sum(price), count(price), relative_error(avg(price)), is_exact(avg(price)), is_exact(sum(price)), is_exact(count(price))";
    let filter = some_items(150);
    let sql = format!("SELECT country, {values} FROM sales WHERE {filter} GROUP BY country ORDER BY country");
    let (_dir, db) = database().await;
    let (exact, near) = exact_and_near(&db).await;
    // It is in the tail alone.
    let insert = "INSERT INTO sales (sold_at, country, city, item, cents) VALUES ('2024-05-05', 'country new', 'city new', 'item 7', 1)";
    exact.sql(insert).await.expect("inserts");
    for action in ["escalate", "mark", "error"] {
        near.sql(&format!("SET error_action = '{action}'")).await.expect("sets");
        let (found, used) = ask(&near, &sql).await;
        let sample = used.sample.unwrap_or_else(|| panic!("{action}: {used}"));
        assert!(sample.holds && sample.error > 0.0 && sample.error <= 0.1, "{sample}");
        let last = found.num_rows() - 1;
        let name = array_value_to_string(found.column(0), last).expect("a text");
        assert_eq!((last, name.as_str()), (10, "country new"));
        assert!(found.column(1).is_null(last) && found.column(2).is_null(last));
        assert_eq!((float(&found, 3, last), float(&found, 4, last)), (0.0, 0.0));
        let is_exact = |row: usize| [5, 6, 7].map(|column| found.column(column).as_boolean().value(row));
        assert!(is_exact(last) == [true; 3] && (0..last).all(|row| is_exact(row) == [false; 3]));
    }
    // Two are in merged segments; one of them has a value in the tail.
    let (_dir, db) = database_of(|rows| {
        let lacks = |country: &Option<&str>| matches!(country, Some("country 3" | "country 5"));
        let lacking = rows.column(1).as_string::<i32>().iter().map(|country| Some(lacks(&country)));
        let price = nullif(rows.column(4), &lacking.collect::<BooleanArray>()).expect("as long");
        let mut columns = rows.columns().to_vec();
        columns[4] = price;
        RecordBatch::try_new(rows.schema(), columns).expect("fits")
    })
    .await;
    let (exact, near) = exact_and_near(&db).await;
    let (expected, _) = ask(&exact, &sql).await;
    for action in ["escalate", "mark"] {
        near.sql(&format!("SET error_action = '{action}'")).await.expect("sets");
        let (found, used) = ask(&near, &sql).await;
        assert_eq!((found.num_rows(), found.column(0)), (10, expected.column(0)), "{used}");
        for row in 0..10 {
            for (column, flag) in [(1, 5), (2, 6), (3, 7)] {
                let is_exact = found.column(flag).as_boolean().value(row);
                let is_null = [&found, &expected].map(|rows| rows.column(column).is_null(row));
                assert!(is_null[0] == is_null[1] || !is_exact, "{action}, row {row}: {used}");
                let is_same = || (float(&found, column, row) - float(&expected, column, row)).abs() < 1e-6;
                assert!(!is_exact || is_null[0] || is_same(), "{action}, row {row}: {used}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_statement_can_be_exact_whatever_its_session_allows() {
    let (_dir, db) = database().await;
    let (exact, near) = exact_and_near(&db).await;
    let sql = format!("SELECT count(*), sum(cents) FROM sales WHERE {}", some_items(150));
    let prepared = near.prepare(&sql).expect("parses");
    let mut outcome = near.execute_exactly(&prepared, &[]).await.expect("runs");
    let rows: Vec<RecordBatch> = outcome.rows.take().expect("rows").try_collect().await.expect("gives them");
    assert!(outcome.used().expect("it reads").sample.is_none());
    assert_eq!(rows[0].columns(), ask(&exact, &sql).await.0.columns());
    assert!(ask(&near, &sql).await.1.sample.is_some(), "the session's next one is estimated");
}

/// What columns are called, and of which types they are.
fn columns_of(batch: &RecordBatch) -> Vec<(String, DataType)> {
    batch.schema().fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect()
}

/// Which rows pass.
type Passes<'a> = Box<dyn Fn(usize) -> bool + 'a>;

/// One seed is one sample: what HAVING and ORDER BY do to an estimate can be done again to the whole of it.
#[tokio::test(flavor = "multi_thread")]
async fn having_and_order_are_those_of_the_estimate() {
    let (_dir, db) = database().await;
    let (exact, near) = exact_and_near(&db).await;
    let from = format!("FROM sales WHERE {} GROUP BY country", some_items(150));
    let all = format!(
        "SELECT country, sum(cents), lower_bound(sum(cents)), upper_bound(sum(cents)), relative_error(sum(cents)), count(*) {from} ORDER BY country"
    );
    let (all, used) = ask(&near, &all).await;
    assert!(used.sample.is_some() && all.num_rows() == 10, "{used}");
    let [sums, lower, upper, errors, counts] = [1, 2, 3, 4, 5].map(|column| numbers(&all, column));
    let middle = |values: &[f64]| {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted[5]
    };
    let (sum, low, high, error, count) =
        (middle(&sums), middle(&lower), middle(&upper), middle(&errors), middle(&counts));
    let cases: Vec<(String, Passes<'_>)> = vec![
        (format!("sum(cents) >= {sum} AND count(*) > 0"), Box::new(|row| sums[row] >= sum)),
        (format!("lower_bound(sum(cents)) > {low} AND count(*) > 0"), Box::new(|row| lower[row] > low)),
        (format!("NOT (upper_bound(sum(cents)) < {high}) AND count(*) > 0"), Box::new(|row| upper[row] >= high)),
        (
            format!("relative_error(sum(cents)) < {error} OR count(*) = {count}"),
            Box::new(|row| errors[row] < error || counts[row] == count),
        ),
        (format!("NOT is_exact(sum(cents)) AND count(*) BETWEEN 1 AND {count}"), Box::new(|row| counts[row] <= count)),
        (format!("{sum} < s AND count(*) > 0"), Box::new(|row| sums[row] > sum)),
        ("is_exact(count(*)) = false".to_owned(), Box::new(|_| false)),
    ];
    let mut filtered = 0;
    for (having, passes) in &cases {
        let sql = format!("SELECT country, sum(cents) AS s {from} HAVING {having} ORDER BY country");
        let (found, used) = ask(&near, &sql).await;
        let (expected, _) = ask(&exact, &sql).await;
        assert_eq!(columns_of(&found), columns_of(&expected), "{sql}");
        if having.contains("= false") {
            // A comparison of another kind: exact.
            assert_eq!((found, used.sample), (expected, None), "{sql}");
            continue;
        }
        assert!(used.sample.is_some(), "{sql}: {used}");
        let chosen = passing(&all, 2, passes);
        assert_eq!(found.columns(), chosen.columns(), "{sql}");
        assert!(!having.contains(">= ") || (1..10).contains(&found.num_rows()), "{sql}: {} rows", found.num_rows());
        filtered += usize::from(found.num_rows() < 10);
    }
    assert!(filtered >= 3, "{filtered} conditions left something out");
    // By what is not shown: the columns are those that are asked for.
    let sql = format!("SELECT country, count(*) {from} ORDER BY sum(cents) DESC, country LIMIT 3");
    let (found, used) = ask(&near, &sql).await;
    assert!(used.sample.is_some(), "{used}");
    assert_eq!(columns_of(&found), columns_of(&ask(&exact, &sql).await.0));
    let by_sum = SortColumn {
        values: Arc::clone(all.column(1)),
        options: Some(SortOptions { descending: true, nulls_first: true }),
    };
    let order = lexsort_to_indices(&[by_sum], Some(3)).expect("sorts");
    let first = take_record_batch(&all, &order).expect("takes");
    assert_eq!(found.column(0).as_ref(), first.column(0).as_ref());
    // Nothing but what is not shown is estimated.
    let sql = format!("SELECT country {from} HAVING count(*) > 1 ORDER BY country");
    let (found, used) = ask(&near, &sql).await;
    assert!(used.sample.is_some() && found.num_columns() == 1 && found.num_rows() == 10, "{used}");
    // What is computed from estimates is exact.
    for sql in [
        format!("SELECT country, sum(cents) {from} HAVING sum(cents) / count(*) > 2400 ORDER BY country"),
        format!(
            "SELECT country, sum(cents) {from} HAVING upper_bound(sum(cents)) > 2 * lower_bound(count(*)) ORDER BY 1"
        ),
        format!("SELECT country, sum(cents) - count(*) {from} ORDER BY country"),
    ] {
        let (found, used) = ask(&near, &sql).await;
        assert_eq!((found, used.sample), (ask(&exact, &sql).await.0, None), "{sql}");
    }
    // Refinements are filtered one by one; the last is the exact answer, with what HAVING leaves of that.
    let sql = format!("SELECT country, sum(cents) {from} HAVING sum(cents) > {sum} ORDER BY count(*), country");
    let refinements: Vec<Refinement> = exact.refine(&sql).await.expect("refines").try_collect().await.expect("refines");
    assert!(refinements.len() > 1 && refinements.iter().all(|refinement| refinement.rows.num_columns() == 2));
    let last = refinements.last().expect("an answer");
    assert!(last.is_exact());
    assert_eq!(last.rows.columns(), ask(&exact, &sql).await.0.columns());
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_counts_what_was_drawn_from_and_names_the_interval() {
    let (_dir, db) = database().await;
    let (exact, near) = exact_and_near(&db).await;
    let sql = format!("EXPLAIN ANALYZE VERBOSE SELECT count(*), sum(cents) FROM sales WHERE {}", some_items(150));
    let shown = async |session: &Session| {
        let plan = asked(session, &sql).await.0;
        arrow::util::pretty::pretty_format_batches(&[plan]).expect("shows").to_string()
    };
    let number = |plan: &str, before: &str| {
        let after = plan.split(before).nth(1).unwrap_or_else(|| panic!("{before}: {plan}"));
        after.chars().take_while(char::is_ascii_digit).collect::<String>().parse::<u64>().expect("a number")
    };
    let plan = shown(&near).await;
    assert!(plan.contains("interval: look 1 of 2 planned at confidence 0.95, rungs 1/"), "{plan}");
    let short = asked(&near, &sql.replace(" VERBOSE", "")).await.0;
    let short = arrow::util::pretty::pretty_format_batches(&[short]).expect("shows").to_string();
    for told in ["Estimate: within ", " % of the exact values, each at confidence 0.95", "rows, rungs 1/", " estimated"]
    {
        assert!(short.contains(told), "{told}: {short}");
    }
    let drawn = number(&plan, "(drawn from: ");
    // Of 1.2M rows in blocks of 8,192, or in nodes of 16 of them.
    assert!(drawn > 0 && drawn <= number(&plan, "cut=") && drawn < 200, "{plan}");
    let plan = shown(&exact).await;
    assert!(plan.contains("interval: exact") && !plan.contains("drawn from"), "{plan}");
    assert!(number(&plan, "cut=") > 20, "{plan}");
}

/// Averages of decimals, which have more digits than the decimals.
#[tokio::test(flavor = "multi_thread")]
async fn averages_of_decimals_are_estimated() {
    let (_dir, db) = database().await;
    let (exact, near) = exact_and_near(&db).await;
    let sql = format!(
        "SELECT avg(bill), lower_bound(avg(bill)), upper_bound(avg(bill)), sum(bill) FROM sales WHERE {}",
        some_items(150)
    );
    let ((expected, _), (found, used)) = (ask(&exact, &sql).await, ask(&near, &sql).await);
    assert_eq!(found.schema(), expected.schema());
    assert!(used.sample.is_some(), "{used}");
    let (found, expected) = ([0, 1, 2].map(|column| numbers(&found, column)[0]), numbers(&expected, 0)[0]);
    assert!((found[0] / expected - 1.0).abs() <= 0.2, "{found:?} {expected}");
    assert!(found[1] <= found[0] && found[0] <= found[2], "{found:?}");
}

/// The table that sales are joined to: five brands and two kinds of items.
async fn dimensions(session: &Session) {
    session.sql("CREATE TABLE goods (item TEXT, brand TEXT, kind INT)").await.expect("creates");
    let goods: Vec<String> =
        (0..300).map(|item| format!("('item {item}', 'brand {}', {})", item % 5, item / 5 % 2)).collect();
    session.sql(&format!("INSERT INTO goods VALUES {}", goods.join(", "))).await.expect("inserts");
}

#[tokio::test(flavor = "multi_thread")]
async fn star_joins_are_estimated_as_a_whole() {
    let (_dir, db) = database().await;
    let (exact, near) = exact_and_near(&db).await;
    dimensions(&exact).await;
    let from = "FROM sales s JOIN goods g ON s.item = g.item WHERE g.kind = 1";
    for (sql, groups) in [
        (format!("SELECT count(*), sum(s.cents) {from}"), 0),
        (format!("SELECT g.brand, sum(s.cents), count(*) {from} GROUP BY g.brand ORDER BY g.brand"), 1),
        (format!("SELECT s.country, avg(s.price), count(*) {from} GROUP BY s.country ORDER BY s.country"), 1),
        (
            format!(
                "SELECT g.brand AS b, sum(s.cents) AS t {from} GROUP BY g.brand HAVING sum(s.cents) > 1000 ORDER BY b"
            ),
            1,
        ),
        ("SELECT count(*), sum(cents) FROM sales WHERE item IN (SELECT item FROM goods WHERE kind = 1)".to_owned(), 0),
    ] {
        let ((expected, _), (found, used)) = (ask(&exact, &sql).await, ask(&near, &sql).await);
        let sample = used.sample.unwrap_or_else(|| panic!("{sql}: {used}"));
        assert!(sample.holds && sample.error <= 0.1 && sample.rows_drawn < sample.rows_cut / 2, "{sql}: {sample}");
        assert_eq!(found.schema(), expected.schema(), "{sql}");
        assert_eq!(found.columns()[..groups], expected.columns()[..groups], "{sql}: no group is lost");
        for column in groups..found.num_columns() {
            for (near, truth) in numbers(&found, column).into_iter().zip(numbers(&expected, column)) {
                assert!((near / truth - 1.0).abs() <= 0.2, "{sql}: {near} {truth}");
            }
        }
    }
    // In a plan bounds are the value, which is exact then; so is what something is computed from, and what is written somewhere.
    for sql in [
        format!("SELECT g.brand, lower_bound(sum(s.cents)) {from} GROUP BY g.brand ORDER BY g.brand"),
        format!("SELECT g.brand, sum(s.cents) - count(*) {from} GROUP BY g.brand ORDER BY g.brand"),
        format!("SELECT max(t) FROM (SELECT g.brand, sum(s.cents) AS t {from} GROUP BY g.brand) x"),
    ] {
        let ((expected, _), (found, used)) = (ask(&exact, &sql).await, ask(&near, &sql).await);
        assert_eq!((found, used.sample), (expected, None), "{sql}");
    }
    let sql = format!("SELECT g.brand, sum(s.cents) AS t {from} GROUP BY g.brand");
    near.sql("CREATE TABLE totals (brand TEXT, t BIGINT)").await.expect("creates");
    near.sql(&format!("INSERT INTO totals {sql}")).await.expect("inserts");
    let totals = ask(&exact, "SELECT brand, t FROM totals ORDER BY brand").await.0;
    let expected = ask(&exact, &format!("{sql} ORDER BY 1")).await.0;
    assert_eq!(totals.columns(), expected.columns());
    // Whoever wants bounds takes an answer without them for exact.
    let prepared = near.prepare(&format!("{sql} ORDER BY 1")).expect("prepares");
    let Answer::Rows(answer) = near.answer_prepared(&prepared, &[]).await.expect("answers") else {
        panic!("a plan is not refined")
    };
    let rows = concat_batches(&expected.schema(), &answer.collect().await.expect("answers")).expect("one schema");
    assert_eq!(rows, expected);
    // What is not reached is read in full.
    near.sql("SET max_error = 0.000001").await.expect("sets");
    let (found, used) = ask(&near, &format!("{sql} ORDER BY 1")).await;
    assert_eq!((found, used.sample), (expected, None));
    let plan = {
        near.sql("SET max_error = 0.1").await.expect("sets");
        let plan = asked(&near, &format!("EXPLAIN (ANALYZE, FORMAT indent) {sql}")).await.0;
        arrow::util::pretty::pretty_format_batches(&[plan]).expect("shows").to_string()
    };
    for shown in ["interval=look 1 of 2 planned", "drawn_from=", "rungs=1/", "interval=exact", "snapshot=version"] {
        assert!(plan.contains(shown), "{shown}: {plan}");
    }
}

/// What is below a NULL in the middle of a path may be under any parent: a sample looks for it as for the others.
#[tokio::test(flavor = "multi_thread")]
async fn groups_below_a_null_are_not_lost() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Database::open_with(dir.path().join("db"), DatabaseOptions::default()).expect("opens");
    let session = db.session();
    let create = "CREATE TABLE t (region TEXT, country TEXT, city TEXT, item TEXT, x DOUBLE) \
        WITH (dimensions = 'g(region, country, city); item', measures = 'x')";
    session.sql(create).await.expect("creates");
    let mut random = Random(0x105e);
    let name = |name: &str| Field::new(name, DataType::Utf8, true);
    let fields =
        vec![name("region"), name("country"), name("city"), name("item"), Field::new("x", DataType::Float64, true)];
    let schema = Arc::new(Schema::new(fields));
    for number in 0..8 {
        let count = 150_000;
        // Of a city without a country there is one row.
        let lost = |row: usize| (row == 0 && number % 2 == 0).then_some(number);
        let texts = |of: &mut dyn FnMut(usize) -> String| -> ArrayRef {
            Arc::new((0..count).map(|row| Some(of(row))).collect::<StringArray>())
        };
        let places: Vec<u64> = (0..count).map(|_| random.below(8)).collect();
        let of_lost = |row: usize, text: String, lost_text: &dyn Fn(i32) -> String| lost(row).map_or(text, lost_text);
        let country = |row: usize| lost(row).is_none().then(|| format!("country {}", places[row] / 2));
        let columns: Vec<ArrayRef> = vec![
            texts(&mut |row| if lost(row).is_some() || places[row] < 4 { "R" } else { "Q" }.to_owned()),
            Arc::new((0..count).map(country).collect::<StringArray>()),
            texts(&mut |row| of_lost(row, format!("city {}", places[row]), &|lost| format!("lost {lost}"))),
            texts(&mut |row| of_lost(row, format!("item {}", random.below(300)), &|_| "item 1".to_owned())),
            Arc::new((0..count).map(|row| Some(1.0 + (row % 7) as f64)).collect::<Float64Array>()),
        ];
        let rows = RecordBatch::try_new(Arc::clone(&schema), columns).expect("fits");
        session.append("t", vec![rows]).await.expect("appends");
    }
    db.core().organise(Stage::Merged).expect("organises");
    let (exact, near) = exact_and_near(&db).await;
    let sql = "SELECT city, count(*) FROM t WHERE region = 'R' AND item LIKE 'item 1%' GROUP BY city ORDER BY city";
    let ((expected, _), (found, used)) = (ask(&exact, sql).await, ask(&near, sql).await);
    assert_eq!(expected.num_rows(), 4 + 4);
    assert_eq!(found.column(0), expected.column(0), "{used}");
}

/// The units that a range of times ends within are read in full before anything is drawn: where they are most of what there is to read,
/// the rest is read, too.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_mostly_edges_of_a_range_is_not_sampled() {
    let dir = tempfile::tempdir().expect("a directory");
    // All rows are in one segment, however busy the machine is.
    let never = Duration::from_secs(86_400);
    let pipeline = PipelineOptions {
        sort_interval: never,
        sort_bytes: 1 << 40,
        merge_interval: never,
        merge_segments: 1_000,
        ..PipelineOptions::default()
    };
    let options = DatabaseOptions { pipeline, ..DatabaseOptions::default() };
    let db = Database::open_with(dir.path().join("db"), options).expect("opens");
    let session = db.session();
    let create = "CREATE TABLE seen (at TIMESTAMP, item TEXT, x DOUBLE) WITH (dimensions = 'time(at: year); item', measures = 'x')";
    session.sql(create).await.expect("creates");
    let fields = vec![
        Field::new("at", DataType::Timestamp(TimeUnit::Microsecond, None), true),
        Field::new("item", DataType::Utf8, true),
        Field::new("x", DataType::Float64, true),
    ];
    let schema = Arc::new(Schema::new(fields));
    // From 2023 to 2025.
    let count = 150_000;
    for first in (0..12).map(|batch| batch * count) {
        let rows = first..first + count;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(
                rows.clone()
                    .map(|n| Some(1_672_531_200_000_000 + n * 52_000_000))
                    .collect::<TimestampMicrosecondArray>(),
            ),
            Arc::new(rows.clone().map(|n| Some(format!("item {}", n * 7_919 % 300))).collect::<StringArray>()),
            Arc::new(rows.map(|n| Some((n % 97) as f64)).collect::<Float64Array>()),
        ];
        let rows = RecordBatch::try_new(Arc::clone(&schema), columns).expect("fits");
        session.append("seen", vec![rows]).await.expect("appends");
    }
    db.core().organise(Stage::Merged).expect("organises");
    let (exact, near) = exact_and_near(&db).await;
    let sql = |low: &str, end: &str| {
        format!("SELECT count(*), sum(x) FROM seen WHERE at >= '{low}' AND at < '{end}' AND item LIKE 'item 1%'")
    };
    let (found, used) = ask(&near, &sql("2024-01-01", "2025-01-01")).await;
    assert!(used.sample.is_some() && found.num_rows() == 1, "{used}");
    let edges = sql("2023-03-04 05:06:07", "2025-09-08 07:06:05");
    let ((expected, _), (found, used)) = (ask(&exact, &edges).await, ask(&near, &edges).await);
    assert_eq!((found, used.sample), (expected, None));
}

/// Cities of ten countries have eight names among them: a name's rows are estimated together, whichever of its members they are of.
#[tokio::test(flavor = "multi_thread")]
async fn names_under_several_parents_are_estimated() {
    let with_shared_names = |rows: RecordBatch| {
        let mut columns = rows.columns().to_vec();
        let names = (0..rows.num_rows()).map(|row| Some(format!("city {}", row % 8)));
        columns[2] = Arc::new(names.collect::<StringArray>());
        RecordBatch::try_new(rows.schema(), columns).expect("fits")
    };
    let (_dir, db) = database_of(with_shared_names).await;
    let (exact, near) = exact_and_near(&db).await;
    // So much that a sample pays although the table is small.
    near.sql("SET max_error = 0.3").await.expect("sets");
    // A name that segments have, under a parent that they lack.
    exact
        .sql("INSERT INTO sales VALUES ('2024-05-05', 'country 99', 'city 5', 'item 7', 1, 1)")
        .await
        .expect("inserts");
    let from = format!("FROM sales WHERE {}", some_items(150));
    let sql = format!("SELECT city, count(*), sum(cents), avg(price) {from} GROUP BY city ORDER BY city");
    let ((expected, _), (found, used)) = (ask(&exact, &sql).await, ask(&near, &sql).await);
    let sample = used.sample.unwrap_or_else(|| panic!("{used}"));
    assert!(sample.holds && sample.error <= 0.3 && sample.rows_drawn < sample.rows_cut / 2, "{sample}");
    // One for each name, and one that only the tail has.
    assert_eq!((expected.num_rows(), found.column(0)), (8 + 1, expected.column(0)));
    for column in 1..4 {
        for (near, truth) in numbers(&found, column).into_iter().zip(numbers(&expected, column)) {
            assert!((near / truth - 1.0).abs() <= 0.6, "column {column}: {near} {truth}");
        }
    }
    let bounds = format!(
        "SELECT city, lower_bound(sum(cents)), upper_bound(sum(cents)), is_exact(sum(cents)) {from} GROUP BY city ORDER BY city"
    );
    let (found, used) = ask(&near, &bounds).await;
    let estimated = found.column(3).as_boolean().iter().filter(|is_exact| *is_exact == Some(false)).count();
    assert!(used.sample.is_some() && estimated >= 8, "{estimated} {used}");
    let intervals = numbers(&found, 1).into_iter().zip(numbers(&found, 2));
    let held =
        intervals.zip(numbers(&expected, 2)).filter(|((low, high), truth)| low <= truth && truth <= high).count();
    assert!(held >= 7, "{held} of 9 hold");
    // Of a level without such names, too, the rows of a member that only the tail has are all there are.
    let by_country = format!("SELECT country, count(*), is_exact(count(*)) {from} GROUP BY country ORDER BY country");
    let ((whole, _), (found, used)) = (ask(&exact, &by_country).await, ask(&near, &by_country).await);
    assert!(used.sample.is_some() && found.column(0) == whole.column(0), "{used}");
    assert_eq!((numbers(&found, 1).last(), found.column(2).as_boolean().iter().last()), (Some(&1.0), Some(Some(true))));
    // With the parents, and with a condition on them: no group is lost, nor is one of another parent shown.
    for sql in [
        format!("SELECT country, city, count(*) {from} GROUP BY country, city ORDER BY country, city"),
        format!("SELECT city, count(*) {from} AND country IN ('country 2', 'country 7') GROUP BY city ORDER BY city"),
        format!("SELECT city, count(*) {from} GROUP BY city HAVING count(*) > 100 ORDER BY city"),
    ] {
        let (expected, found) = (ask(&exact, &sql).await.0, ask(&near, &sql).await.0);
        let named = expected.num_columns() - 1;
        assert_eq!(found.columns()[..named], expected.columns()[..named], "{sql}");
    }
    // The last refinement is the exact answer.
    let refinements: Vec<Refinement> = exact.refine(&sql).await.expect("refines").try_collect().await.expect("refines");
    assert!(refinements.len() > 1, "nothing was refined");
    // Those before it have each name once, and no name that there is not.
    let names = |rows: &RecordBatch| -> Vec<Option<String>> {
        rows.column(0).as_string_view().iter().map(|name| name.map(str::to_owned)).collect()
    };
    for Refinement { rows, .. } in &refinements {
        let (found, all) = (names(rows), names(&expected));
        assert!(found.is_sorted_by(|one, next| one < next) && found.iter().all(|name| all.contains(name)), "{found:?}");
    }
    let last = refinements.last().expect("an answer");
    assert_eq!(last.rows.columns()[..3], expected.columns()[..3]);
    let table = near.verify(&sql, 10).await.expect("verifies").collect().await.expect("verifies");
    let shown = arrow::util::pretty::pretty_format_batches(&table).expect("shows").to_string();
    let value = |figure: &str| {
        let line = shown.lines().find(|line| line.contains(figure)).unwrap_or_else(|| panic!("{figure}: {shown}"));
        line.split('|').nth(2).expect("a value").trim().parse::<f64>().expect("a number")
    };
    assert!(value("from a sample") > 0.0 && value("groups lost") == 0.0, "{shown}");
}
