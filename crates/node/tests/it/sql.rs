//! What SQL says where a script of statements and answers does not reach: the same definition from its own text, producers
//! across a reopening, the bounds of declarations.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::support::real::block_on;
use crate::support::shown_rows as rows;
use alluvia_node::Database;
use alluvia_query::ScalarValue;
use alluvia_snapshot::Read;
use alluvia_space::TableDef;
use alluvia_types::{ErrorKind, TableId};
use arrow::datatypes::SchemaRef;
use std::path::Path;

/// A table's definition but for what no text can say.
fn definition(db: &Database, name: &str) -> TableDef {
    let entry = db.core().catalog().table(name).cloned().unwrap();
    TableDef { id: TableId(0), seed: 0, ..entry.def.as_ref().clone() }
}

#[test]
fn the_text_of_show_create_table_makes_the_same_table() {
    let definitions = [
        ("plain", "CREATE TABLE plain (a INT)"),
        (
            "every",
            "CREATE TABLE every (a BOOLEAN NOT NULL, b SMALLINT, c INT, d BIGINT, e REAL, f DOUBLE, g DECIMAL(10, 2), h DATE, \
             i TIMESTAMP, j TIMESTAMPTZ NOT NULL, k TEXT, l BYTEA, m DECIMAL(38, 38))",
        ),
        (
            "It's \"all\" of it",
            "CREATE TABLE \"It's \"\"all\"\" of it\" (\"order\" TEXT, \"Some 'Column'\" TEXT NOT NULL, at TIMESTAMP, day DATE, \
             price DECIMAL(18, 2), rate DOUBLE, n INT, user_id BIGINT) WITH (\
             dimensions = 'path(\"order\", \"Some ''Column''\"); time(at: year, quarter, month, day, hour, minute); \
             day(day: year, month from 2020-01-01 to 2030-01-01); price(price: linear 0..1000, 4, 8, 12); rate(rate: linear); \
             n(n: quantiles (1, 5, 25), 1, 2); user_id(user_id: hash 4, 8)', \
             measures = 'price, n', curve = 'z', freshness = '1.5s', ladder = '1/2')",
        ),
        (
            "learnt",
            "CREATE TABLE learnt (a INT, b INT) WITH (dimensions = 'a(a: quantiles); b', freshness = 'merged', ladder = '1/4')",
        ),
    ];
    let scratch = tempfile::tempdir().unwrap();
    let db = Database::open(scratch.path().join("db")).unwrap();
    block_on(async {
        let session = db.session();
        for (name, create) in definitions {
            session.sql(create).await.unwrap_or_else(|error| panic!("{create}\n{error}"));
            let quoted = format!("\"{}\"", name.replace('"', "\"\""));
            let first = definition(&db, name);
            let text = first.show_create();
            assert_eq!(rows(&session, &format!("SHOW CREATE TABLE {quoted}")).await, [format!("{name}|{text}")]);
            session.sql(&format!("DROP TABLE {quoted}")).await.unwrap();
            session.sql(&text).await.unwrap_or_else(|error| panic!("{text}\n{error}"));
            assert_eq!(definition(&db, name), first, "{text}");
        }
    });
}

/// Opens the database, and sends these values as batches of producer `p`; gives the notices of each.
fn send(dir: &Path, values: &[i32]) -> Vec<usize> {
    let db = Database::open(dir).unwrap();
    block_on(async {
        let session = db.session();
        session.sql("CREATE TABLE IF NOT EXISTS t (a INT)").await.unwrap();
        session.sql("SET producer = 'p'").await.unwrap();
        let mut notices = Vec::new();
        for value in values {
            let outcome = session.sql(&format!("INSERT INTO t VALUES ({value})")).await.unwrap();
            notices.push(outcome.notices().len());
        }
        notices
    })
}

#[test]
fn a_producer_that_sends_again_after_a_reopening_is_understood() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("db");
    assert_eq!(send(&dir, &[1, 2]), [0, 0]);
    // The session counts from 1 again, so the first two are the same batches as before.
    assert_eq!(send(&dir, &[1, 2, 3]), [1, 1, 0]);
    assert_eq!(send(&dir, &[1, 2, 3, 4]), [1, 1, 1, 0]);
    let db = Database::open(&dir).unwrap();
    block_on(async {
        let session = db.session();
        assert_eq!(rows(&session, "SELECT a FROM t ORDER BY a").await, ["1", "2", "3", "4"]);
        // A batch that skips a number is refused; a new epoch takes over and shuts out the old one.
        for (epoch, sequence, kind) in
            [(1, 9, Some(ErrorKind::Producer)), (2, 1, None), (1, 5, Some(ErrorKind::Producer))]
        {
            session.sql("SET producer = 'p'").await.unwrap();
            session.sql(&format!("SET producer_epoch = {epoch}")).await.unwrap();
            session.sql(&format!("SET producer_sequence = {sequence}")).await.unwrap();
            let result = session.sql("INSERT INTO t VALUES (5)").await;
            assert_eq!(result.err().map(|error| error.kind()), kind, "epoch {epoch}, sequence {sequence}");
        }
        assert_eq!(rows(&session, "SELECT count(*) FROM t").await, ["5"]);
        // A batch without rows has its number, too, so that the next one follows it.
        session.sql("SET producer_epoch = 2").await.unwrap();
        let empty = scratch.path().join("empty.csv");
        std::fs::write(&empty, "a\n").unwrap();
        let copy = format!("COPY t FROM '{}'", empty.display());
        for (sequence, batch) in [
            (2, "INSERT INTO t SELECT 6 WHERE false"),
            (3, copy.as_str()),
            // A transaction that writes nothing is no batch.
            (4, "BEGIN; SELECT 1; COMMIT"),
            (4, "INSERT INTO t VALUES (6)"),
        ] {
            session.sql(&format!("SET producer_sequence = {sequence}")).await.unwrap();
            for statement in session.parse(batch).unwrap() {
                session.execute(statement).await.unwrap();
            }
        }
        let none = futures::stream::iter(Vec::new());
        session.append_stream("t", none).await.unwrap();
        assert_eq!(rows(&session, "SHOW producer_sequence").await, ["6"]);
        // Whatever statement has a number that was used, its answer says so.
        for statement in [
            "INSERT INTO t VALUES (7)",
            "INSERT INTO t SELECT 7",
            "CREATE TABLE u (a INT)",
            "CREATE TABLE u AS SELECT 1 AS a",
            "DROP TABLE t",
            "ALTER TABLE t ADD COLUMN b INT",
        ] {
            session.sql("SET producer_sequence = 4").await.unwrap();
            let outcome = session.sql(statement).await.unwrap();
            let told = outcome.notices().iter().filter(|notice| notice.contains("had sent this batch before")).count();
            assert_eq!(told, 1, "{statement}: {:?}", outcome.notices());
        }
        assert_eq!(rows(&session, "SELECT count(*) FROM t").await, ["6"]);
        assert_eq!(rows(&session, "SELECT max(a) FROM t").await, ["6"]);
    });
}

#[test]
fn a_table_has_up_to_64_dimensions() {
    let create = |count: usize| {
        let list =
            |each: &dyn Fn(usize) -> String, between: &str| (0..count).map(each).collect::<Vec<String>>().join(between);
        let (columns, dimensions) = (list(&|at| format!("c{at} INT"), ", "), list(&|at| format!("c{at}"), "; "));
        format!("CREATE TABLE t{count} ({columns}) WITH (dimensions = '{dimensions}')")
    };
    let scratch = tempfile::tempdir().unwrap();
    let db = Database::open(scratch.path().join("db")).unwrap();
    block_on(async {
        let session = db.session();
        let error = session.sql(&create(65)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidDefinition);
        assert!(error.message().contains("at most 64 dimensions") && error.hint().is_some(), "{error}");
        session.sql(&create(64)).await.unwrap();
        for row in 0..50 {
            let values: Vec<String> = (0..64).map(|at| ((row * at) % 7).to_string()).collect();
            session.sql(&format!("INSERT INTO t64 VALUES ({})", values.join(", "))).await.unwrap();
        }
        session.sql("CALL alluvia.merge()").await.unwrap();
        assert_eq!(rows(&session, "SELECT count(*) FROM t64 WHERE c63 = 0 AND c1 = 3").await, ["7"]);
        assert_eq!(rows(&session, "SELECT count(*), sum(c62) FROM t64 WHERE c1 = 2").await, ["7|35"]);
        assert_eq!(rows(&session, "SELECT count(*) FROM alluvia.dimensions WHERE table_name = 't64'").await, ["64"]);
    });
}

#[test]
fn what_a_killed_process_spilled_is_gone_when_the_database_is_opened() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("db");
    drop(Database::open(&dir).unwrap());
    let left = dir.join("spill").join("body-1-0");
    std::fs::create_dir_all(dir.join("spill")).unwrap();
    std::fs::write(&left, b"half of a body").unwrap();
    let db = Database::open(&dir).unwrap();
    assert!(!left.exists());
    block_on(async { assert_eq!(rows(&db.session(), "SELECT 1").await, ["1"]) });
}

#[test]
fn columns_of_one_name_are_described_and_shown_as_they_were_written() {
    let names_of =
        |schema: &SchemaRef| schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<String>>();
    let scratch = tempfile::tempdir().unwrap();
    let db = Database::open(scratch.path().join("db")).unwrap();
    block_on(async {
        let session = db.session();
        session.sql("CREATE TABLE t (a INT, b TEXT) WITH (dimensions = 'b', measures = 'a')").await.unwrap();
        session.sql("INSERT INTO t VALUES (1, 'x'), (2, 'y'), (4, 'x')").await.unwrap();
        session.sql("CALL alluvia.merge()").await.unwrap();
        for (sql, names, first) in [
            ("SELECT a, a FROM t ORDER BY a", ["a", "a"].as_slice(), "1|1"),
            ("SELECT *, upper(b) AS b FROM t ORDER BY a", &["a", "b", "b"], "1|x|X"),
            ("SELECT upper(t.b) AS b, a FROM t ORDER BY t.b DESC", &["b", "a"], "Y|2"),
            ("SELECT a::text, 7 AS n FROM t ORDER BY a", &["a", "n"], "1|7"),
            // The index answers these, as a cuboid the next time.
            ("SELECT min(a) AS m, max(a) AS m FROM t", &["m", "m"], "1|4"),
            ("SELECT b AS k, sum(a) AS k FROM t GROUP BY b ORDER BY 1", &["k", "k"], "x|5"),
        ] {
            let prepared = session.prepare(sql).unwrap();
            let described = session.describe(prepared.statement(), &[]).await.unwrap().columns.unwrap();
            assert_eq!(names_of(&described), names, "{sql}");
            for _ in 0..3 {
                for outcome in [session.sql(sql).await, session.execute_prepared(&prepared, &[]).await] {
                    let rows = outcome.unwrap().rows.unwrap();
                    assert_eq!(names_of(&rows.schema()), names, "{sql}");
                }
                assert_eq!(rows(&session, sql).await[0], first, "{sql}");
            }
        }
        // What another way refused stays refused in its own words.
        let error = session.sql("SELECT a, a, c FROM t").await.unwrap_err();
        assert!(error.message().contains("no column c"), "{error}");
    });
}

#[test]
fn what_was_described_runs_by_the_rows_definitions_and_settings_of_now() {
    let scratch = tempfile::tempdir().unwrap();
    let db = Database::open(scratch.path().join("db")).unwrap();
    block_on(async {
        let (session, other) = (db.session(), db.session());
        session.sql("CREATE TABLE t (a INT, b TEXT)").await.unwrap();
        session.sql("INSERT INTO t VALUES (1, 'x')").await.unwrap();
        let prepared = session.prepare("SELECT * FROM t WHERE a > 0 ORDER BY a").unwrap();
        let run = async || {
            let outcome = session.execute_prepared(&prepared, &[]).await?;
            let width = outcome.rows.as_ref().map(|rows| rows.schema().fields().len());
            let rows: usize = outcome.collect().await?.iter().map(|batch| batch.num_rows()).sum();
            Ok::<_, alluvia_types::Error>((width, rows))
        };
        let describe = async || {
            session.describe(prepared.statement(), &[]).await.unwrap().columns.map(|columns| columns.fields().len())
        };
        assert_eq!(describe().await, Some(2));
        assert_eq!(run().await.unwrap(), (Some(2), 1));
        // Rows that have come since.
        other.sql("INSERT INTO t VALUES (2, 'y')").await.unwrap();
        assert_eq!(run().await.unwrap(), (Some(2), 2));
        // A definition of another session, and one of a transaction that is rolled back.
        other.sql("ALTER TABLE t ADD COLUMN c INT").await.unwrap();
        assert_eq!(run().await.unwrap(), (Some(3), 2));
        assert_eq!(describe().await, Some(3));
        session.sql("BEGIN").await.unwrap();
        session.sql("ALTER TABLE t ADD COLUMN d INT").await.unwrap();
        assert_eq!(run().await.unwrap(), (Some(4), 2));
        assert_eq!(describe().await, Some(4));
        session.sql("ROLLBACK").await.unwrap();
        assert_eq!(run().await.unwrap(), (Some(3), 2));
        // A sample that the session sets afterwards.
        assert_eq!(describe().await, Some(3));
        session.sql("SET sample_fraction = 0.000001").await.unwrap();
        assert_eq!(run().await.unwrap(), (Some(3), 0));
        session.sql("RESET sample_fraction").await.unwrap();
        // The table is gone, and there is another of its name.
        assert_eq!(describe().await, Some(3));
        other.sql("DROP TABLE t").await.unwrap();
        assert_eq!(run().await.unwrap_err().kind(), ErrorKind::UndefinedTable);
        other.sql("CREATE TABLE t (a BIGINT)").await.unwrap();
        assert_eq!(run().await.unwrap(), (Some(1), 0));
        // Definitions of a transaction lie over those of others, which change below them.
        session.sql("BEGIN").await.unwrap();
        session.sql("CREATE TABLE own (a INT)").await.unwrap();
        assert_eq!(describe().await, Some(1));
        other.sql("ALTER TABLE t ADD COLUMN e INT").await.unwrap();
        assert_eq!(run().await.unwrap().1, 0);
        session.sql("ROLLBACK").await.unwrap();
        assert_eq!(run().await.unwrap(), (Some(2), 0));
        // A statement that was described with values in the place of its parameters.
        other.sql("INSERT INTO t VALUES (2, 3)").await.unwrap();
        let prepared = session.prepare("SELECT e FROM t WHERE a = $1").unwrap();
        let bound = prepared.statement().bind(&[ScalarValue::Int64(Some(1))]).unwrap();
        session.describe(&bound, &[]).await.unwrap();
        let outcome = session.execute_prepared(&prepared, &[ScalarValue::Int64(Some(2))]).await.unwrap();
        assert_eq!(outcome.collect().await.unwrap().iter().map(|batch| batch.num_rows()).sum::<usize>(), 1);
    });
}
