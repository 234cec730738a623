//! `SET max_error`: estimates hold what they say, look like exact answers, and say what they are.

#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::support::Random;
use alluvia_node::{Database, DatabaseOptions};
use alluvia_query::{Session, Used};
use alluvia_snapshot::Store;
use alluvia_types::{ErrorKind, Stage};
use arrow::array::{AsArray, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema, TimeUnit};
use std::sync::Arc;

const CREATE: &str =
    "CREATE TABLE sales (sold_at TIMESTAMP, country TEXT, city TEXT, item TEXT, price DOUBLE, cents BIGINT NOT NULL, discount DOUBLE)
    WITH (dimensions = 'store(country, city); item; time(sold_at: year, month, day)', measures = 'price, cents, discount')";

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
    ];
    let places: Vec<u64> = (0..rows).map(|_| random.below(200)).collect();
    let times = (0..rows).map(|_| Some(1_700_000_000_000_000 + random.below(700) as i64 * day));
    let price = |random: &mut Random| (random.below(20) > 0).then(|| 1.0 + random.below(10_000) as f64 / 100.0);
    RecordBatch::try_new(
        Arc::new(Schema::new(fields)),
        vec![
            Arc::new(times.collect::<TimestampMicrosecondArray>()),
            Arc::new(places.iter().map(|place| Some(format!("country {}", place / 20))).collect::<StringArray>()),
            Arc::new(places.iter().map(|place| Some(format!("city {place}"))).collect::<StringArray>()),
            Arc::new((0..rows).map(|_| Some(format!("item {}", random.below(300)))).collect::<StringArray>()),
            Arc::new((0..rows).map(|_| price(random)).collect::<Float64Array>()),
            Arc::new((0..rows).map(|_| Some(random.below(5_000) as i64)).collect::<Int64Array>()),
            // No row has one.
            Arc::new(Float64Array::new_null(rows)),
        ],
    )
    .expect("fits")
}

pub async fn database() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Database::open_with(dir.path().join("db"), DatabaseOptions::default()).expect("opens");
    let session = db.session();
    session.sql(CREATE).await.expect("creates");
    let mut random = Random(0x5eed);
    for _ in 0..8 {
        let rows = batch(&mut random, 150_000);
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
    let outcome = session.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let schema = outcome.rows.as_ref().expect("rows").schema();
    // What was used is complete once the rows have ended.
    let used = outcome.used();
    let batches = outcome.collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    (concat_batches(&schema, &batches).expect("one schema"), used)
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
    near.sql("SET max_error = 0.05").await.expect("sets");
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
        assert!(sample.holds && sample.error <= 0.05 && sample.rows_drawn < sample.rows_cut / 2, "{sample}");
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
                    _ => assert!((estimate / truth - 1.0).abs() <= 0.1, "{sql}: {estimate} {truth}"),
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
    assert!(error > 0.0 && error <= 0.05 && !sure.column(1).as_boolean().value(0), "{error}");
    sampled += 1;
    // A sum of nothing is NULL, and no sample tells that: it is read.
    let nothing =
        format!("SELECT count(*), sum(discount), avg(discount), lower_bound(sum(discount)) FROM sales {filter}");
    let (found, used) = ask(&near, &nothing).await;
    assert!(used.sample.is_none() && (1..4).all(|column| found.column(column).is_null(0)), "{used}");
    // What a sample_fraction leaves has no bounds that anybody knows.
    near.sql("SET sample_fraction = 0.1").await.expect("sets");
    let refused = near.sql("SELECT upper_bound(sum(price)) FROM sales").await.expect_err("refused");
    assert_eq!(refused.kind(), ErrorKind::NotSupported);
    near.sql("SET sample_fraction = 1").await.expect("sets");
    let (log, _) = asked(&exact, "SELECT count(*) FROM alluvia.queries WHERE sample LIKE 'sample of rungs%'").await;
    assert_eq!(float(&log, 0, 0), f64::from(sampled));
    let plan = asked(&near, &format!("EXPLAIN ANALYZE SELECT count(*) FROM sales {filter}")).await.0;
    let plan = arrow::util::pretty::pretty_format_batches(&[plan]).expect("shows").to_string();
    assert!(plan.contains("relative error at most"), "{plan}");
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
    assert!(value("| intervals that hold") >= 80.0, "{shown}");
    assert_eq!(value("groups lost"), 0.0);
    let refused = session.verify("SELECT max(price) FROM sales", 5).await.expect_err("a maximum is not estimated");
    assert_eq!(refused.kind(), ErrorKind::NotSupported);
}
