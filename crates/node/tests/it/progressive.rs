//! Answers that get better while they are waited for: every refinement is of one version, bounds never widen, the last one is the answer,
//! and whoever stops has stopped everything.

#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::estimates::{ask, database};
use alluvia_node::{Database, DatabaseOptions};
use alluvia_query::{IntervalKind, Refinement, Refining, Session};
use alluvia_types::{ErrorKind, Result};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use futures::StreamExt;
use std::time::Duration;

async fn session(db: &Database) -> Session {
    let session = db.session();
    session.sql("SET cuboids = off").await.expect("sets");
    session
}

async fn refinements(session: &Session, sql: &str) -> Vec<Refinement> {
    let refinements = session.refine(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let refinements: Vec<Result<Refinement>> = refinements.collect().await;
    refinements.into_iter().collect::<Result<_>>().unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn items(count: usize) -> String {
    let items: Vec<String> = (0..count).map(|item| format!("'item {item}'")).collect();
    format!("item IN ({})", items.join(", "))
}

fn numbers(column: &ArrayRef) -> Vec<Option<f64>> {
    let numbers = cast(column, &DataType::Float64).expect("numbers");
    numbers.as_primitive::<Float64Type>().iter().collect()
}

/// Each row's first column, and its bounds of a column.
fn bounds(refinement: &Refinement, column: usize) -> Vec<(String, f64, f64)> {
    let names = cast(refinement.rows.column(0), &DataType::Utf8).expect("texts");
    let bounds = refinement.bounds[column].as_ref().expect("an estimate has bounds");
    assert_eq!(bounds.lower.data_type(), refinement.rows.column(column).data_type());
    let (lower, upper) = (numbers(&bounds.lower), numbers(&bounds.upper));
    let (lower, upper) = (lower.into_iter().map(Option::unwrap), upper.into_iter().map(Option::unwrap));
    let names: Vec<String> = names.as_string::<i32>().iter().map(|name| name.unwrap_or("").to_owned()).collect();
    names.into_iter().zip(lower).zip(upper).map(|((name, lower), upper)| (name, lower, upper)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn refinements_get_better_and_end_in_the_answer() {
    let (_dir, db) = database().await;
    let (plain, progressive) = (session(&db).await, session(&db).await);
    for (sql, estimated) in [
        ("SELECT count(DISTINCT item) FROM sales".to_owned(), false),
        (format!("SELECT country, count(*), avg(price) FROM sales WHERE {} GROUP BY country", items(150)), true),
        (
            format!(
                "SELECT country, sum(cents) FROM sales WHERE {} GROUP BY country ORDER BY sum(cents) DESC LIMIT 3",
                items(200)
            ),
            true,
        ),
        ("SELECT country, sum(cents) AS s FROM sales GROUP BY country HAVING sum(cents) > count(*)".to_owned(), false),
        ("SELECT max(price) FROM sales WHERE item = 'item 3'".to_owned(), false),
        ("SELECT 1 AS a".to_owned(), false),
        ("SHOW threads".to_owned(), false),
    ] {
        let looks = refinements(&progressive, &sql).await;
        let last = looks.last().expect("an answer");
        assert!(last.is_last && last.is_exact() && last.error == 0.0 && last.fraction == 1.0, "{sql}");
        if sql.contains("FROM sales") {
            let (expected, used) = ask(&plain, &sql).await;
            assert_eq!(last.version, Some(used.version));
            assert_eq!(last.rows.num_rows(), expected.num_rows(), "{sql}");
            if sql.contains("ORDER BY") || !sql.contains("GROUP BY") {
                // Floats are added in another order.
                for (found, expected) in last.rows.columns().iter().zip(expected.columns()) {
                    match expected.data_type() {
                        DataType::Float64 => {
                            let pairs = numbers(found).into_iter().zip(numbers(expected));
                            assert!(pairs.into_iter().all(|(a, b)| (a.unwrap() / b.unwrap() - 1.0).abs() < 1e-12));
                        }
                        _ => assert_eq!(found, expected, "{sql}"),
                    }
                }
            }
        }
        if !estimated {
            assert_eq!(looks.len(), 1, "{sql}");
            assert_eq!(looks[0].bounds.iter().flatten().count(), 0);
            continue;
        }
        assert!(looks.len() >= 3, "{} refinements of {sql}", looks.len());
        let column = last.rows.num_columns() - 1;
        for (before, after) in looks.iter().zip(&looks[1..]) {
            assert!(before.fraction < after.fraction && before.elapsed <= after.elapsed && !before.is_last);
            assert!(before.look < after.look || after.is_exact());
            assert!(matches!(before.kind, IntervalKind::Planned { looks } if looks == before.looks));
            assert!((before.confidence, before.version) == (0.95, after.version));
            assert_eq!(before.rows.schema(), after.rows.schema());
            let known = bounds(before, column);
            let mut held = 0;
            for (name, lower, upper) in bounds(after, column) {
                let Some((_, least, most)) = known.iter().find(|(known, ..)| *known == name) else { continue };
                held += usize::from(*least <= lower && upper <= *most);
            }
            // The first three may be others each time.
            assert!(held * 10 >= known.len() * 8 || sql.contains("LIMIT"), "{held} of {}", known.len());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_refinements_are_of_one_version_while_rows_arrive() {
    let (_dir, db) = database().await;
    let (writer, progressive) = (db.session(), session(&db).await);
    let sql = format!("SELECT count(*) FROM sales WHERE {}", items(150));
    let (before, _) = ask(&session(&db).await, &sql).await;
    let mut looks = progressive.refine(&sql).await.expect("begins");
    let mut seen = Vec::new();
    while let Some(refinement) = looks.next().await {
        seen.push(refinement.expect("goes on"));
        let row = "INSERT INTO sales VALUES ('2024-05-05', 'country 3', 'city 60', 'item 7', 1.0, 1)";
        writer.sql(row).await.expect("inserts");
    }
    assert!(seen.len() >= 3);
    assert!(seen.iter().all(|refinement| refinement.version == seen[0].version));
    assert_eq!(seen.last().expect("the answer").rows.column(0), before.column(0));
    assert_eq!(looks.outcome().used().expect("it reads").version, seen[0].version.expect("it reads"));
    // The session has gone on with what was written since.
    let (after, _) = ask(&progressive, &sql).await;
    let count = |rows: &arrow::array::RecordBatch| rows.column(0).as_primitive::<Int64Type>().value(0);
    assert_eq!(count(&after), count(&before) + seen.len() as i64);
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_of_one_name_are_refined_as_others_are() {
    let (_dir, db) = database().await;
    let progressive = session(&db).await;
    let sql = format!("SELECT sum(cents) AS n, count(*) AS n FROM sales WHERE {}", items(150));
    let looks = refinements(&progressive, &sql).await;
    assert!(looks.len() > 1 && looks[0].bounds.iter().all(Option::is_some), "{looks:?}");
    let last = looks.last().expect("an answer");
    assert!(last.is_exact() && last.rows.num_columns() == 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_that_is_enough_ends_it() {
    let (_dir, db) = database().await;
    let progressive = session(&db).await;
    progressive.sql("SET max_error = 0.05").await.expect("sets");
    progressive.sql("SET confidence = 0.9").await.expect("sets");
    let sql = format!("SELECT sum(cents) FROM sales WHERE {}", items(150));
    let looks = refinements(&progressive, &sql).await;
    let last = looks.last().expect("an answer");
    assert!(last.is_last && !last.is_exact() && last.error <= 0.05 && last.confidence == 0.9 && last.fraction < 0.5);
    assert!(looks[..looks.len() - 1].iter().all(|refinement| !refinement.is_last && refinement.error > 0.05 / 1.05));
    let sample = "SELECT count(*) FROM alluvia.queries WHERE sample LIKE 'sample of rungs%'";
    assert_eq!(ask_count(&db, sample).await, 1);
}

async fn ask_count(db: &Database, sql: &str) -> i64 {
    let rows = db.session().sql(sql).await.expect("asks").collect().await.expect("answers");
    rows[0].column(0).as_primitive::<Int64Type>().value(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_stops_has_stopped_everything() {
    let (_dir, db) = database().await;
    let progressive = session(&db).await;
    let sql = format!("SELECT country, sum(price) FROM sales WHERE {} GROUP BY country", items(150));
    // Dropped after the first.
    let mut looks = progressive.refine(&sql).await.expect("begins");
    let first = looks.next().await.expect("one").expect("goes on");
    assert!(!first.is_last);
    drop(looks);
    let running = "SELECT count(*) FROM alluvia.queries WHERE status = 'running' AND sql LIKE 'SELECT country%'";
    assert_eq!(ask_count(&db, running).await, 0);
    // Cancelled, as by another client.
    let mut looks = progressive.refine(&sql).await.expect("begins");
    looks.next().await.expect("one").expect("goes on");
    progressive.cancel_handle().cancel();
    let error = looks.next().await.expect("its end").expect_err("cancelled");
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert!(looks.next().await.is_none());
    // Timed out while nobody reads.
    progressive.sql("SET statement_timeout = '300ms'").await.expect("sets");
    let mut looks = progressive.refine(&sql).await.expect("begins");
    looks.next().await.expect("one").expect("goes on");
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(looks.next().await.expect("its end").expect_err("timed out").kind(), ErrorKind::Timeout);
    progressive.sql("RESET statement_timeout").await.expect("sets");
    assert_eq!(refinements(&progressive, &sql).await.last().map(Refinement::is_exact), Some(true));
}

/// What the index cannot write down is planned, on the same snapshot.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_the_index_cannot_give_is_that_of_a_plan() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Database::open_with(dir.path().join("db"), DatabaseOptions::default()).expect("opens");
    let (plain, progressive) = (session(&db).await, session(&db).await);
    plain.sql("CREATE TABLE big (k TEXT, n BIGINT) WITH (dimensions = 'k', measures = 'n')").await.expect("creates");
    let rows = "INSERT INTO big SELECT 'k' || (value * 7919 % 1000), 50000000000000 FROM generate_series(1, 900000)";
    plain.sql(rows).await.expect("inserts");
    plain.sql("CALL alluvia.merge()").await.expect("merges");
    // More than a BIGINT holds.
    let sql = "SELECT sum(n) FROM big WHERE k < 'k7'";
    plain.sql("SET short_path = off").await.expect("sets");
    let expected = match plain.sql(sql).await {
        Ok(outcome) => outcome.collect().await,
        Err(error) => Err(error),
    };
    let found: Vec<Result<Refinement>> = match progressive.refine(sql).await {
        Ok(looks) => looks.collect().await,
        Err(error) => vec![Err(error)],
    };
    assert_eq!(found.len(), 1);
    match (expected, &found[0]) {
        (Ok(expected), Ok(found)) => assert_eq!(expected[0], found.rows),
        (Err(expected), Err(found)) => assert_eq!(expected.kind(), found.kind()),
        (expected, found) => panic!("{expected:?}, but {found:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_are_refined_if_they_are_estimated_and_run_if_they_are_not() {
    let (_dir, db) = database().await;
    let progressive = session(&db).await;
    assert!(!progressive.is_progressive());
    progressive.sql("SET progressive = on").await.expect("sets");
    assert!(progressive.is_progressive());
    let parse = |sql: &str| progressive.parse(sql).expect("parses").remove(0);
    let refining = progressive.refine_statement(parse("CREATE TABLE other (a INT)")).await.expect("creates");
    assert!(matches!(refining, Refining::Rows(outcome) if outcome.tag == "CREATE TABLE"));
    let prepared = progressive.prepare("SELECT count(*) FROM sales WHERE country < $1").expect("parses");
    let value = alluvia_query::ScalarValue::Utf8(Some("country 7".to_owned()));
    let refining = progressive.refine_prepared(&prepared, &[value]).await.expect("begins");
    assert!(matches!(refining, Refining::Looks(_)));
    drop(refining);
    let error = progressive.refine_prepared(&prepared, &[]).await.expect_err("a value lacks");
    assert_eq!(error.kind(), ErrorKind::Syntax);
    assert_eq!(
        progressive.refine("SELECT nothing FROM sales").await.expect_err("no column").kind(),
        ErrorKind::UndefinedColumn
    );
}
