//! Views: answers and operators with and without them, whose rights hold, what other sessions do meanwhile, restarts.
//!
//! `ALLUVIA_TEST_SECONDS` and `ALLUVIA_TEST_SEED` are as for `index_answers`.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::index_answers::{agree, shown};
use crate::nested::{answer, open, plan, seconds, seed};
use crate::statements::{CREATE, rows};
use crate::support::{Random, shown_rows};
use crate::{nested, stars, statements};
use alluvia_node::{Database, DatabaseOptions};
use alluvia_query::{Client, Session};
use alluvia_snapshot::Admin;
use alluvia_types::{ErrorKind, Result, Stage};
use std::time::Instant;

pub(crate) async fn run(session: &Session, sql: &str) -> Result<()> {
    session.sql(sql).await?.collect().await.map(|_| ())
}

pub(crate) async fn all(session: &Session, script: &str) {
    for statement in script.split(';').filter(|statement| !statement.trim().is_empty()) {
        run(session, statement).await.unwrap_or_else(|error| panic!("{statement}\n{error}"));
    }
}

pub(crate) async fn refused(session: &Session, sql: &str, kind: ErrorKind, part: &str) {
    let error = run(session, sql).await.expect_err(sql);
    assert_eq!(error.kind(), kind, "{sql}\n{error}");
    assert!(error.to_string().contains(part), "{sql}\n{error}");
}

/// How many operators of a plan are the index's.
fn answers_of(plan: &str) -> usize {
    plan.matches("IndexAnswer").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_of_a_view_is_answered_as_if_it_were_asked_of_the_table() {
    let mut random = Random(seed());
    let dir = tempfile::tempdir().expect("a directory");
    let db = open(&dir);
    let session = db.session();
    run(&session, CREATE).await.expect("creates");
    stars::small_tables(&session, &mut random).await;
    stars::unique_tables(&session).await;
    run(&session, &rows(&mut random, 3_000)).await.expect("inserts");
    // Views that are the tables: by all columns, by a view of it, and by a condition that all rows pass.
    all(
        &session,
        "CREATE VIEW of_sales AS SELECT * FROM sales;
         CREATE VIEW of_view AS SELECT * FROM of_sales AS v;
         CREATE VIEW where_sales AS SELECT * FROM sales WHERE country IS NULL OR country IS NOT NULL;
         CREATE VIEW of_shops AS SELECT * FROM shops;
         CREATE VIEW of_shelves AS SELECT id, hall, width FROM shelves",
    )
    .await;
    db.core().organise(Stage::Merged).expect("organises");
    // Which shapes are resident by when is up to the machine.
    run(&session, "SET cuboids = off").await.expect("sets");
    let (time, start, mut asked, mut answered) = (seconds(15), Instant::now(), 0, 0);
    while start.elapsed() < time || asked < 100 {
        let sql = match random.below(3) {
            0 => nested::statement(&mut random),
            1 => stars::statement(&mut random),
            _ => statements::aggregate(&mut random),
        };
        let view = random.pick(&["of_sales", "of_view", "where_sales"]);
        let through = sql
            .replace("FROM sales", &format!("FROM {view}"))
            .replace("JOIN shops ", "JOIN of_shops ")
            .replace("JOIN shelves ", "JOIN of_shelves ");
        // A column may be named with its table, which is called otherwise then.
        if through.contains("sales.") {
            continue;
        }
        let (expected_schema, expected) = answer(&session, &sql).await;
        let (schema, found) = answer(&session, &through).await;
        let names = |schema: &arrow::datatypes::SchemaRef| {
            schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect::<Vec<_>>()
        };
        assert_eq!(names(&schema), names(&expected_schema), "{through}");
        let is_ordered = sql.contains("LIMIT");
        let (found, expected) = (shown(&found, is_ordered), shown(&expected, is_ordered));
        assert!(agree(&found, &expected), "{through}\n{found:?}\n{expected:?}");
        let (with, without) = (plan(&session, "EXPLAIN", &through).await, plan(&session, "EXPLAIN", &sql).await);
        assert_eq!(answers_of(&with), answers_of(&without), "{through}\n{with}\n{without}");
        asked += 1;
        answered += usize::from(answers_of(&with) > 0);
    }
    println!("{asked} statements, {answered} with answers of the index");
    assert!(answered * 4 > asked, "the index had a part in {answered} of {asked} statements only");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_box_through_a_view_with_conditions_and_names_of_its_own_is_the_index_s() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = open(&dir);
    let session = db.session();
    all(
        &session,
        "CREATE TABLE s (country TEXT, city TEXT, cents BIGINT) WITH (dimensions = 'store(country, city)', measures = 'cents');
         INSERT INTO s VALUES ('Chile', 'Lima', 1), ('Chile', 'Talca', 2), ('Peru', 'Lima', 4), (NULL, NULL, 8);
         CREATE TABLE regions (town TEXT, region TEXT);
         INSERT INTO regions VALUES ('Lima', 'north'), ('Talca', 'south');
         CREATE VIEW named AS SELECT city AS town, cents AS price, country FROM s WHERE country IS NOT NULL;
         CREATE VIEW narrow AS SELECT price AS p, town AS t FROM named WHERE country = 'Chile';
         CREATE VIEW star AS SELECT r.region, n.price, n.country FROM named n JOIN regions r ON n.town = r.town;
         CREATE VIEW sums AS SELECT country, sum(cents) AS total FROM s GROUP BY country",
    )
    .await;
    db.core().organise(Stage::Merged).expect("organises");
    for (sql, answer, count) in [
        ("SELECT sum(price) FROM named WHERE town = 'Lima'", "5", 1),
        ("SELECT sum(p) FROM narrow WHERE t = 'Lima'", "1", 1),
        ("SELECT count(*) FROM narrow", "2", 1),
        ("SELECT max(total) FROM sums WHERE country = 'Chile'", "3", 1),
        ("SELECT sum(price) FROM star WHERE region = 'north'", "5", 1),
        ("SELECT sum(price) FROM star WHERE region = 'north' AND country = 'Peru'", "4", 1),
    ] {
        for _ in 0..3 {
            assert_eq!(shown_rows(&session, sql).await, [answer], "{sql}");
        }
        let plan = plan(&session, "EXPLAIN", sql).await;
        assert!(answers_of(&plan) >= count, "{sql}\n{plan}");
    }
    // What is kept by a text is of the definitions of then.
    all(&session, "CREATE OR REPLACE VIEW narrow AS SELECT price AS p, town AS t FROM named WHERE country = 'Peru'")
        .await;
    assert_eq!(shown_rows(&session, "SELECT sum(p) FROM narrow WHERE t = 'Lima'").await, ["4"]);
    assert_eq!(shown_rows(&session, "SELECT count(*) FROM narrow").await, ["1"]);
    all(&session, "ALTER TABLE s RENAME COLUMN cents TO money; ALTER TABLE s RENAME TO sold").await;
    assert_eq!(shown_rows(&session, "SELECT sum(p) FROM narrow WHERE t = 'Lima'").await, ["4"]);
    assert_eq!(shown_rows(&session, "SELECT sum(price) FROM star WHERE region = 'south'").await, ["2"]);
    let plan = plan(&session, "EXPLAIN", "SELECT sum(p) FROM narrow WHERE t = 'Lima'").await;
    assert_eq!(answers_of(&plan), 1, "{plan}");
    // Another session's changes are seen by the next statement.
    let other = db.session();
    all(&other, "INSERT INTO sold VALUES ('Peru', 'Lima', 100)").await;
    assert_eq!(shown_rows(&session, "SELECT sum(p) FROM narrow").await, ["104"]);
    // A point read, by plans that are kept.
    all(
        &session,
        "CREATE TABLE k (id BIGINT PRIMARY KEY, n INT, other BIGINT);
         INSERT INTO k VALUES (1, 10, 2), (2, 20, 1), (3, -5, 3);
         CREATE VIEW by_key AS SELECT id, n + 1 AS m FROM k WHERE n > 0;
         CREATE VIEW plain_key AS SELECT id, n FROM k WHERE n > 0;
         CREATE VIEW turned AS SELECT other AS id, id AS kk, n FROM k WHERE id = 2",
    )
    .await;
    let before = db.engine().points_answered();
    for (id, by_key, plain, turned) in
        [(1, vec!["11"], vec!["10"], vec!["20"]), (2, vec!["21"], vec!["20"], vec![]), (3, vec![], vec![], vec![])]
    {
        for _ in 0..2 {
            let ask = |select: &str| format!("SELECT {select} WHERE id = {id}");
            assert_eq!(shown_rows(&session, &ask("m FROM by_key")).await, by_key);
            assert_eq!(shown_rows(&session, &ask("n FROM plain_key")).await, plain);
            assert_eq!(shown_rows(&session, &ask("n FROM turned")).await, turned);
        }
    }
    // A view that computes columns is planned each time.
    assert!(db.engine().points_answered() >= before + 4, "{}", db.engine().points_answered() - before);
    all(&session, "CREATE OR REPLACE VIEW plain_key AS SELECT id, (-n)::INT AS n FROM k").await;
    assert_eq!(shown_rows(&session, "SELECT n FROM plain_key WHERE id = 3").await, ["5"]);
}

pub(crate) fn session_of(db: &Database, user: &str) -> Session {
    let session = db.session();
    session.introduce(Client { user: user.to_owned(), protocol: "postgresql", address: "10.0.0.1:77".to_owned() });
    session
}

#[tokio::test(flavor = "multi_thread")]
async fn who_reads_a_view_needs_a_right_to_it_and_its_owner_to_what_it_reads() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = DatabaseOptions { memory_limit_bytes: 1 << 30, threads: 2, ..DatabaseOptions::default() };
    let db = Database::open_with(dir.path().join("db"), options).expect("opens");
    let first = db.session();
    all(
        &first,
        "CREATE ROLE maker LOGIN PASSWORD 'x'; CREATE ROLE reader LOGIN PASSWORD 'x';
         GRANT CREATE ON DATABASE alluvia TO maker;
         CREATE TABLE t (a TEXT, b BIGINT) WITH (dimensions = 'a', measures = 'b'); INSERT INTO t VALUES ('x', 1), ('y', 2)",
    )
    .await;
    db.core().organise(Stage::Merged).expect("organises");
    let (maker, reader) = (session_of(&db, "maker"), session_of(&db, "reader"));
    // To make it nothing of what it reads need be allowed.
    all(&maker, "CREATE VIEW v AS SELECT a, b FROM t").await;
    const ASKED: [&str; 4] = [
        "SELECT * FROM v",
        "SELECT sum(b) FROM v WHERE a = 'x'",
        "SELECT count(*) FROM v",
        "SELECT 1 FROM v AS x, v AS y",
    ];
    for sql in ASKED {
        refused(&maker, sql, ErrorKind::Forbidden, "table 't'").await;
        refused(&reader, sql, ErrorKind::Forbidden, "view 'v'").await;
    }
    all(&first, "GRANT SELECT ON t TO maker").await;
    for sql in ASKED {
        run(&maker, sql).await.expect(sql);
        run(&first, sql).await.expect(sql);
        refused(&reader, sql, ErrorKind::Forbidden, "view 'v'").await;
    }
    refused(&reader, "GRANT SELECT ON v TO reader", ErrorKind::Forbidden, "view 'v'").await;
    all(&maker, "GRANT SELECT ON v TO reader").await;
    for sql in ASKED {
        for _ in 0..3 {
            run(&reader, sql).await.expect(sql);
        }
        let direct = sql.replace(" v", " t");
        refused(&reader, &direct, ErrorKind::Forbidden, "table 't'").await;
    }
    refused(&reader, "SELECT count(*) FROM v, t", ErrorKind::Forbidden, "table 't'").await;
    refused(&reader, "SELECT (SELECT max(b) FROM t) FROM v", ErrorKind::Forbidden, "table 't'").await;
    for sql in ["DROP VIEW v", "ALTER VIEW v RENAME TO w", "CREATE OR REPLACE VIEW v AS SELECT a, b FROM t"] {
        refused(&reader, sql, ErrorKind::Forbidden, "").await;
    }
    // A view on the view is read by its own owner's right to the lower one.
    all(&first, "GRANT CREATE ON DATABASE alluvia TO reader").await;
    all(&reader, "CREATE VIEW upper AS SELECT b FROM v").await;
    run(&reader, "SELECT sum(b) FROM upper").await.expect("may");
    all(&first, "REVOKE SELECT ON t FROM maker").await;
    for sql in ["SELECT sum(b) FROM upper", "SELECT sum(b) FROM v WHERE a = 'x'", "SELECT * FROM v"] {
        refused(&reader, sql, ErrorKind::Forbidden, "table 't'").await;
    }
    all(&first, "ALTER VIEW v OWNER TO alluvia").await;
    run(&reader, "SELECT sum(b) FROM upper").await.expect("may");
    all(&first, "REVOKE SELECT ON v FROM reader").await;
    refused(&reader, "SELECT sum(b) FROM upper", ErrorKind::Forbidden, "view 'v'").await;
    // What its owner may drop goes with the views of others.
    all(&first, "ALTER TABLE t OWNER TO maker").await;
    all(&maker, "DROP TABLE t CASCADE").await;
    refused(&first, "SELECT * FROM upper", ErrorKind::UndefinedTable, "upper").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_of_two_sessions_conflict_where_a_view_is_between() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = open(&dir);
    let (one, other) = (db.session(), db.session());
    all(&one, "CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 2); CREATE VIEW v AS SELECT a FROM t").await;
    // What one makes of what the other drops.
    all(&one, "BEGIN; CREATE VIEW w AS SELECT b FROM t").await;
    assert_eq!(shown_rows(&one, "SELECT b FROM w").await, ["2"]);
    refused(&other, "SELECT b FROM w", ErrorKind::UndefinedTable, "w").await;
    all(&other, "ALTER TABLE t DROP COLUMN b").await;
    refused(&one, "COMMIT", ErrorKind::Conflict, "w").await;
    all(&one, "BEGIN; DROP VIEW v; DROP TABLE t").await;
    all(&other, "CREATE VIEW x AS SELECT a FROM t").await;
    refused(&one, "COMMIT", ErrorKind::Conflict, "x").await;
    // Both replace it.
    all(&one, "BEGIN; CREATE OR REPLACE VIEW v AS SELECT (-a)::INT AS a FROM t").await;
    assert_eq!(shown_rows(&one, "SELECT a FROM v").await, ["-1"]);
    assert_eq!(shown_rows(&other, "SELECT a FROM v").await, ["1"]);
    all(&other, "CREATE OR REPLACE VIEW v AS SELECT (a + 1)::INT AS a FROM t").await;
    refused(&one, "COMMIT", ErrorKind::Conflict, "v").await;
    assert_eq!(shown_rows(&one, "SELECT a FROM v").await, ["2"]);
    // Both take its name.
    all(&one, "BEGIN; CREATE VIEW y AS SELECT 1 AS a").await;
    all(&other, "CREATE TABLE y (a INT)").await;
    refused(&one, "COMMIT", ErrorKind::Conflict, "y").await;
    // Savepoints.
    all(&one, "BEGIN; SAVEPOINT s; DROP VIEW v; ROLLBACK TO s; CREATE VIEW z AS SELECT a FROM v; COMMIT").await;
    assert_eq!(shown_rows(&other, "SELECT a FROM z").await, ["2"]);
    // Rows that only the transaction sees are seen through the view.
    all(&one, "BEGIN; INSERT INTO t VALUES (40)").await;
    assert_eq!(shown_rows(&one, "SELECT sum(a) FROM z").await, ["43"]);
    assert_eq!(shown_rows(&other, "SELECT sum(a) FROM z").await, ["2"]);
    all(&one, "ROLLBACK").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn views_are_there_after_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = open(&dir);
    let session = db.session();
    all(
        &session,
        "CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 2);
         CREATE VIEW v AS SELECT t.a, b FROM t; ALTER TABLE t RENAME TO u; ALTER TABLE u RENAME COLUMN a TO c;
         CREATE VIEW w AS SELECT a FROM v",
    )
    .await;
    drop(session);
    drop(db);
    for organise in [false, true] {
        let db = open(&dir);
        let session = db.session();
        assert_eq!(shown_rows(&session, "SELECT a, b FROM v").await, ["1|2"]);
        assert_eq!(shown_rows(&session, "SELECT a FROM w").await, ["1"]);
        refused(&session, "DROP TABLE u", ErrorKind::DependentObjects, "view w depends on view v").await;
        if organise {
            // The number of a new relation is no view's.
            all(&session, "CREATE TABLE more (a INT); CREATE VIEW of_more AS SELECT * FROM more").await;
            assert_eq!(shown_rows(&session, "SELECT count(*) FROM of_more").await, ["0"]);
        } else {
            db.core().organise(Stage::Merged).expect("organises");
        }
        drop(session);
        drop(db);
    }
}
