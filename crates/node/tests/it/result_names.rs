//! An answer's columns have PostgreSQL's names, whichever way it comes: by a plan, by the index, by a cuboid without waiting, by a kept
//! point read, described, prepared, from a cursor, refined; and so have views and tables that are made of queries.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::support::real::{block_on, open, tag};
use alluvia_query::{Outcome, Refining, ScalarValue, Session};
use arrow::datatypes::SchemaRef;
use futures::StreamExt;

const TABLE: &str = "CREATE TABLE sales (id BIGINT PRIMARY KEY, country TEXT, city TEXT, price DOUBLE, n INT)";
const BOXES: &str = "CREATE TABLE boxes (country TEXT, city TEXT, price DOUBLE, n INT) \
                     WITH (dimensions = 'store(country, city)', measures = 'price, n')";

fn names(schema: &SchemaRef) -> Vec<String> {
    schema.fields().iter().map(|field| field.name().clone()).collect()
}

/// The names of an outcome, which its rows have, too.
async fn of_outcome(outcome: Outcome) -> Vec<String> {
    let schema = outcome.rows.as_ref().map(|rows| rows.schema()).expect("it has rows");
    for batch in outcome.collect().await.unwrap() {
        assert_eq!(names(&batch.schema()), names(&schema));
    }
    names(&schema)
}

async fn asked(session: &Session, sql: &str) -> Vec<String> {
    of_outcome(session.sql(sql).await.unwrap_or_else(|error| panic!("{sql}\n{error}"))).await
}

#[test]
fn every_way_to_an_answer_names_its_columns_alike() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    block_on(async {
        let session = db.session();
        for sql in [TABLE, BOXES] {
            tag(&session, sql).await;
        }
        let rows = "SELECT i, 'c' || i % 7, 'x' || i % 70, i * 0.5, i % 9 FROM generate_series(1, 5000) AS s (i)";
        tag(&session, &format!("INSERT INTO sales {rows}")).await;
        tag(&session, &format!("INSERT INTO boxes {}", rows.replacen("i, ", "", 1))).await;
        tag(&session, "CALL alluvia.merge()").await;
        let statements = [
            ("SELECT count(*), sum(price), avg(n) FROM boxes WHERE country = 'c1'", "count sum avg"),
            (
                "SELECT country, sum(n), sum(price) FROM boxes GROUP BY country ORDER BY sum(n) LIMIT 3",
                "country sum sum",
            ),
            ("SELECT city, count(*) FROM boxes GROUP BY city HAVING count(*) > 2 ORDER BY avg(n), city", "city count"),
            ("SELECT country, count(*) AS rows FROM boxes GROUP BY 1", "country rows"),
            ("SELECT n + 1, upper(country), price::int, 1 FROM sales WHERE id = 5", "?column? upper price ?column?"),
            ("SELECT *, n::text FROM sales WHERE id = 5", "id country city price n n"),
            (
                "SELECT a.n::text, b.n::text, a.n, NULL, NULL FROM sales a JOIN sales b USING (id) LIMIT 1",
                "n n n ?column? ?column?",
            ),
            ("SELECT sum(n) FROM sales UNION ALL SELECT 1", "sum"),
        ];
        for (sql, wanted) in statements {
            let wanted: Vec<&str> = wanted.split(' ').collect();
            // The second and third time it is known by its text.
            for _ in 0..3 {
                assert_eq!(asked(&session, sql).await, wanted, "{sql}");
            }
            let prepared = session.prepare(sql).unwrap();
            let described = session.describe(prepared.statement(), &[]).await.unwrap();
            assert_eq!(names(&described.columns.unwrap()), wanted, "described: {sql}");
            for _ in 0..2 {
                let outcome = session.execute_prepared(&prepared, &[]).await.unwrap();
                assert_eq!(of_outcome(outcome).await, wanted, "prepared: {sql}");
            }
            tag(&session, "BEGIN").await;
            tag(&session, &format!("DECLARE c CURSOR FOR {sql}")).await;
            assert_eq!(asked(&session, "FETCH ALL FROM c").await, wanted, "a cursor: {sql}");
            tag(&session, "COMMIT").await;
            let refined = session.parse(sql).unwrap().remove(0);
            match session.refine_statement(refined).await.unwrap() {
                Refining::Rows(outcome) => assert_eq!(of_outcome(outcome).await, wanted, "refined: {sql}"),
                Refining::Looks(mut looks) => {
                    while let Some(look) = looks.next().await {
                        assert_eq!(names(&look.unwrap().rows.schema()), wanted, "a look: {sql}");
                    }
                }
            }
        }
        tag(&session, "CALL alluvia.build_cuboids()").await;
        for (sql, wanted) in statements {
            for _ in 0..2 {
                assert_eq!(asked(&session, sql).await.join(" "), wanted, "beside cuboids: {sql}");
            }
        }
        let prepared = session.prepare("SELECT count(*), sum(price) FROM boxes WHERE country = $1").unwrap();
        for country in ["c1", "c2", "c3"] {
            let outcome = session.execute_prepared(&prepared, &[ScalarValue::from(country)]).await.unwrap();
            assert_eq!(of_outcome(outcome).await, ["count", "sum"]);
        }
        let returned = "INSERT INTO sales VALUES (9001, 'a', 'b', 1, 1) RETURNING n + 1, upper(city), id";
        assert_eq!(asked(&session, returned).await, ["?column?", "upper", "id"]);
        assert_eq!(asked(&session, "DELETE FROM sales WHERE id = 9001 RETURNING n::text").await, ["n"]);
    });
}

#[test]
fn views_and_tables_that_are_made_of_queries_have_these_names() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    block_on(async {
        let session = db.session();
        tag(&session, TABLE).await;
        let query = "SELECT country, count(*), sum(n), upper(country) FROM sales GROUP BY country";
        tag(&session, &format!("CREATE VIEW v AS {query}")).await;
        tag(&session, &format!("CREATE VIEW w (place) AS {query}")).await;
        tag(&session, &format!("CREATE TABLE t AS {query}")).await;
        tag(&session, &format!("CREATE TEMP TABLE own AS {query}")).await;
        for (from, wanted) in [
            ("v", "country count sum upper"),
            ("w", "place count sum upper"),
            ("t", "country count sum upper"),
            ("own", "country count sum upper"),
        ] {
            assert_eq!(asked(&session, &format!("SELECT * FROM {from}")).await.join(" "), wanted);
        }
        assert_eq!(asked(&session, "SELECT count, sum FROM v ORDER BY upper").await, ["count", "sum"]);
        for sql in ["CREATE TABLE u AS SELECT sum(n), sum(price) FROM sales", "CREATE VIEW u AS SELECT 1, 2"] {
            let error = session.sql(sql).await.unwrap_err();
            assert_eq!(error.kind().sqlstate(), "42701", "{sql}: {error}");
        }
    });
}
