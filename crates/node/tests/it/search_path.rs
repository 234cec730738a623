//! Search paths: one text in two sessions is two tables, whatever is kept of it between statements; names that programs hand in;
//! schemas across a reopening.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::support::real::block_on;
use crate::support::shown_rows as rows;
use alluvia_copy::Hints;
use alluvia_node::Database;
use alluvia_query::{Ingest, ScalarValue, Session};
use alluvia_syntax::copy::options::CopyOptions;
use alluvia_syntax::names::{RelationName, name_in_text};
use alluvia_types::ErrorKind;
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use std::sync::Arc;

async fn run(session: &Session, statements: &[&str]) {
    for sql in statements {
        session.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

/// A session whose names are looked up along this path.
async fn along(db: &Database, path: &str) -> Session {
    let session = db.session();
    session.sql(&format!("SET search_path = {path}")).await.unwrap();
    session
}

#[test]
fn what_is_kept_of_a_text_is_of_its_path() {
    let scratch = tempfile::tempdir().unwrap();
    let db = Database::open(scratch.path().join("db")).unwrap();
    block_on(async {
        for (schema, value) in [("a", 1), ("b", 2)] {
            run(
                &db.session(),
                &[
                    &format!("CREATE SCHEMA {schema}"),
                    &format!(
                        "CREATE TABLE {schema}.t (id BIGINT PRIMARY KEY, g TEXT, v BIGINT) \
                         WITH (dimensions = 'g', measures = 'v')"
                    ),
                    &format!("INSERT INTO {schema}.t VALUES (1, 'x', {value}), (2, 'y', {value}0)"),
                ],
            )
            .await;
        }
        run(&db.session(), &["CALL alluvia.merge()", "CALL alluvia.pin_cuboid('a.t', 'g', 'v')"]).await;
        let (of_a, of_b) = (along(&db, "a").await, along(&db, "b").await);
        let texts = [
            // By the index, and by a cuboid.
            ("SELECT g, sum(v) FROM t GROUP BY g ORDER BY g", ["x|1", "y|10"], ["x|2", "y|20"]),
            // By a point plan.
            ("SELECT id, v FROM t WHERE id = 1", ["1|1", ""], ["1|2", ""]),
            ("SELECT id, v FROM t WHERE id = 2", ["2|10", ""], ["2|20", ""]),
            // By an outline.
            ("SELECT id, v FROM thin(t, max_rows => 9) ORDER BY id", ["1|1", "2|10"], ["1|2", "2|20"]),
            // By a plan.
            ("SELECT id, v + 0 FROM t AS u ORDER BY id", ["1|1", "2|10"], ["1|2", "2|20"]),
        ];
        for (sql, first, second) in texts {
            // Again and again, by turns: what the one has left behind is not the other's.
            for _ in 0..3 {
                let wanted =
                    |rows: [&'static str; 2]| rows.into_iter().filter(|row| !row.is_empty()).collect::<Vec<_>>();
                assert_eq!(rows(&of_a, sql).await, wanted(first), "{sql}");
                assert_eq!(rows(&of_b, sql).await, wanted(second), "{sql}");
            }
        }
        // The same of a statement that is prepared, and described, once.
        let prepared = of_a.prepare("SELECT v FROM t WHERE id = $1").unwrap();
        let one = [ScalarValue::Int64(Some(1))];
        of_a.describe(prepared.statement(), &[]).await.unwrap();
        for (path, value) in [("a", 1), ("b", 2), ("a", 1), ("b", 2)] {
            of_a.sql(&format!("SET search_path = {path}")).await.unwrap();
            let answer = of_a.execute_prepared(&prepared, &one).await.unwrap().collect().await.unwrap();
            assert_eq!(answer[0].column(0).as_primitive::<Int64Type>().values(), &[value], "{path}");
        }
        // A table that comes before on the path is taken from then on.
        let both = along(&db, "c, b").await;
        assert_eq!(rows(&both, "SELECT id, v FROM t WHERE id = 1").await, ["1|2"]);
        assert_eq!(rows(&both, "SELECT sum(v) FROM t").await, ["22"]);
        run(
            &db.session(),
            &["CREATE SCHEMA c", "CREATE TABLE c.t (id BIGINT PRIMARY KEY, v BIGINT)", "INSERT INTO c.t VALUES (1, 7)"],
        )
        .await;
        assert_eq!(rows(&both, "SELECT id, v FROM t WHERE id = 1").await, ["1|7"]);
        assert_eq!(rows(&both, "SELECT sum(v) FROM t").await, ["7"]);
    });
}

#[test]
fn programs_name_tables_with_their_schemas() {
    let scratch = tempfile::tempdir().unwrap();
    let db = Database::open(scratch.path().join("db")).unwrap();
    block_on(async {
        let session = db.session();
        run(&session, &["CREATE SCHEMA s", "CREATE TABLE s.t (id BIGINT)", "CREATE TABLE \"s.t\" (id BIGINT)"]).await;
        let batch =
            || RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef)]).unwrap();
        let stream = || futures::stream::iter([Ok(batch())]);
        let named = || RelationName::in_schema("s", "t");
        session.append(named(), vec![batch()]).await.unwrap();
        assert_eq!(session.append_stream(name_in_text("s.t"), stream()).await.unwrap().rows, 2);
        let schema = batch().schema();
        session.append_to_new(RelationName::in_schema("s", "made"), &schema, stream()).await.unwrap();
        session.append_creating(RelationName::in_schema("s", "made"), &schema, stream()).await.unwrap();
        let body = Ingest {
            table: name_in_text("s.t"),
            columns: Vec::new(),
            options: CopyOptions::default(),
            is_array: false,
            key: None,
            name: "the body".to_owned(),
            bytes_max: 1 << 20,
            hints: Hints::default(),
        };
        session.ingest(body, Box::new("7\n".as_bytes())).await.unwrap();
        // A bare name is exact: a dot is a part of it.
        session.append("s.t", vec![batch()]).await.unwrap();
        assert_eq!(session.table_schema(named()).unwrap().fields().len(), 1);
        let count = |table: &str| format!("SELECT count(*) FROM {table}");
        assert_eq!(rows(&session, &count("s.t")).await, ["5"]);
        assert_eq!(rows(&session, &count("s.made")).await, ["4"]);
        assert_eq!(rows(&session, &count("\"s.t\"")).await, ["2"]);
        let missing = session.append(RelationName::in_schema("nos", "t"), vec![batch()]).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::UndefinedTable);
        let missing = session.append_to_new(RelationName::in_schema("nos", "t"), &schema, stream()).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::UndefinedSchema);
        // Files, and back.
        let file = scratch.path().join("t.csv");
        let file = file.to_str().unwrap();
        session.sql(&format!("COPY s.t TO '{file}'")).await.unwrap();
        session.sql(&format!("COPY s.made FROM '{file}'")).await.unwrap();
        assert_eq!(rows(&session, &count("s.made")).await, ["9"]);
        session.sql("CALL alluvia.purge('s.t')").await.unwrap();
    });
}

#[test]
fn schemas_are_there_again_after_reopening() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("db");
    block_on(async {
        {
            let db = Database::open(&dir).unwrap();
            let session = db.session();
            run(
                &session,
                &[
                    "CREATE ROLE ann",
                    "CREATE SCHEMA s AUTHORIZATION ann",
                    "CREATE SCHEMA gone",
                    "CREATE TABLE s.t (id SERIAL, a INT)",
                    "INSERT INTO s.t (a) VALUES (1)",
                    "CALL alluvia.merge()",
                    "ALTER SCHEMA s RENAME TO s2",
                    "DROP SCHEMA gone",
                ],
            )
            .await;
            drop(session);
        }
        for reopened in 1..=2 {
            let db = Database::open(&dir).unwrap();
            let session = db.session();
            let schemas =
                "SELECT schema_name, schema_owner FROM information_schema.schemata WHERE schema_name LIKE 's%'";
            assert_eq!(rows(&session, schemas).await, ["s2|ann"]);
            session.sql("INSERT INTO s2.t (a) VALUES (2)").await.unwrap();
            assert_eq!(rows(&session, "SELECT count(*) FROM s2.t").await, [(reopened + 1).to_string()]);
            session.sql(&format!("CREATE SCHEMA next{reopened}")).await.unwrap();
            // Its number is no table's.
            session.sql(&format!("CREATE TABLE next{reopened}.t (a INT)")).await.unwrap();
            drop(session);
        }
    });
}
