//! By which names, and by which definitions, a statement reads what it may: of views, whose tables are pinned for their readers, too.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::nested::open;
use crate::support::shown_rows;
use crate::views::{all, refused, run, session_of};
use alluvia_types::ErrorKind;

#[tokio::test(flavor = "multi_thread")]
async fn no_name_leads_past_a_view_to_the_table_below() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = open(&dir);
    let first = db.session();
    all(
        &first,
        "CREATE TABLE secret (a INT, b INT); INSERT INTO secret VALUES (1, 1), (2, 2); CREATE TABLE own (a INT, b INT);
         CREATE VIEW filtered AS SELECT a, b FROM secret WHERE a = 1; CREATE ROLE reader LOGIN PASSWORD 'x';
         GRANT SELECT ON filtered TO reader; ALTER TABLE own OWNER TO reader; GRANT CREATE ON DATABASE alluvia TO reader",
    )
    .await;
    let reader = session_of(&db, "reader");
    assert_eq!(shown_rows(&reader, "SELECT a FROM filtered").await, ["1"]);
    for schema in ["search path", "\u{1}search path", "given", "\u{1}given", "\u{1}"] {
        for sql in [
            format!("SELECT z.* FROM filtered, \"{schema}\".secret z"),
            format!("SELECT z.* FROM filtered, alluvia.\"{schema}\".secret z"),
            format!("SELECT (SELECT max(a) FROM \"{schema}\".secret) FROM filtered"),
            format!("SELECT * FROM filtered WHERE a IN (SELECT a FROM \"{schema}\".\"target\")"),
            format!("WITH z AS (SELECT * FROM \"{schema}\".secret) SELECT z.* FROM filtered, z"),
            format!("CREATE VIEW more AS SELECT * FROM \"{schema}\".secret"),
            format!("CREATE TABLE more AS SELECT z.* FROM filtered, \"{schema}\".secret z"),
            format!("INSERT INTO own SELECT z.* FROM filtered, \"{schema}\".secret z"),
            format!("UPDATE own SET a = z.a FROM filtered, \"{schema}\".\"target\" z"),
            format!("DELETE FROM own USING filtered, \"{schema}\".secret z WHERE own.a = z.a"),
        ] {
            refused(&reader, &sql, ErrorKind::UndefinedTable, "").await;
        }
    }
    for schema in ["\u{1}search path", "\u{1}given"] {
        refused(&first, &format!("CREATE SCHEMA \"{schema}\""), ErrorKind::InvalidDefinition, "").await;
    }
    // A query of WITH has its name, and no table's rows.
    let itself = "WITH RECURSIVE secret AS (SELECT * FROM secret) SELECT z.* FROM filtered, secret z";
    let within = "WITH RECURSIVE secret(a) AS ((SELECT a FROM secret UNION ALL (WITH secret AS (SELECT 1 AS a) SELECT a FROM secret)) \
                  UNION ALL SELECT a + 1 FROM secret WHERE a < 0) SELECT z.a FROM filtered, secret z";
    for sql in [itself, within] {
        let error = run(&reader, sql).await.expect_err(sql);
        assert_ne!(error.kind(), ErrorKind::Internal, "{sql}\n{error}");
    }
    // What it may name beside the view it reads.
    all(&first, "GRANT SELECT ON secret TO reader").await;
    assert_eq!(shown_rows(&reader, "SELECT count(*) FROM filtered, public.secret z").await, ["2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_view_reads_now_is_what_its_owner_is_asked_about() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = open(&dir);
    let first = db.session();
    all(
        &first,
        "CREATE TABLE secret (a INT); INSERT INTO secret VALUES (42); CREATE TABLE gone (a INT); INSERT INTO gone VALUES (7);
         CREATE ROLE maker LOGIN PASSWORD 'x'; CREATE ROLE reader LOGIN PASSWORD 'x'; GRANT CREATE ON DATABASE alluvia TO maker;
         CREATE VIEW allowed AS SELECT a FROM secret; GRANT SELECT ON allowed TO maker",
    )
    .await;
    let maker = session_of(&db, "maker");
    all(
        &maker,
        "CREATE VIEW v AS SELECT a FROM secret; GRANT SELECT ON v TO reader;
         CREATE VIEW over_gone AS SELECT a FROM gone; GRANT SELECT ON over_gone TO reader",
    )
    .await;
    all(&first, "CREATE VIEW above AS SELECT a FROM v; GRANT SELECT ON above TO reader").await;
    const ASKED: [(&str, &str); 4] = [
        ("SELECT a FROM v", "table 'secret'"),
        ("SELECT count(*) FROM v", "table 'secret'"),
        ("SELECT a FROM above", "table 'secret'"),
        ("SELECT a FROM over_gone", "table 'gone'"),
    ];
    let mut older = Vec::new();
    for (sql, table) in ASKED {
        let reader = session_of(&db, "reader");
        refused(&reader, sql, ErrorKind::Forbidden, table).await;
        // Definitions are those of now, also in a transaction.
        all(&reader, "BEGIN").await;
        older.push(reader);
    }
    // The same table, by a view that the maker may read; and none at all.
    all(
        &maker,
        "CREATE OR REPLACE VIEW v AS SELECT a FROM allowed; CREATE OR REPLACE VIEW over_gone AS SELECT 1::INT AS a",
    )
    .await;
    all(&first, "DROP TABLE gone").await;
    let newer = session_of(&db, "reader");
    for (reader, (sql, _)) in older.iter().zip(ASKED) {
        run(reader, sql).await.expect(sql);
        run(&newer, sql).await.expect(sql);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_schema_of_a_view_is_asked_about_by_the_name_that_it_has_now() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = open(&dir);
    let first = db.session();
    all(
        &first,
        "CREATE ROLE reader LOGIN PASSWORD 'x'; CREATE SCHEMA s; GRANT USAGE ON SCHEMA s TO reader;
         CREATE VIEW s.v AS SELECT 1 AS a; GRANT SELECT ON s.v TO reader",
    )
    .await;
    let reader = session_of(&db, "reader");
    all(&reader, "BEGIN; SELECT a FROM s.v").await;
    all(&first, "ALTER SCHEMA s RENAME TO renamed").await;
    all(&reader, "SELECT a FROM renamed.v").await;
    all(&first, "REVOKE USAGE ON SCHEMA renamed FROM reader").await;
    refused(&reader, "SELECT a FROM renamed.v", ErrorKind::Forbidden, "schema renamed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_makes_a_view_may_look_into_the_schemas_that_it_reads() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = open(&dir);
    let first = db.session();
    all(
        &first,
        "CREATE ROLE maker LOGIN PASSWORD 'x'; GRANT CREATE ON DATABASE alluvia TO maker;
         CREATE SCHEMA s; CREATE TABLE s.t (a INT); CREATE VIEW s.v AS SELECT a FROM s.t",
    )
    .await;
    let maker = session_of(&db, "maker");
    const MADE: [&str; 3] = [
        "CREATE VIEW w AS SELECT a FROM s.t",
        "CREATE OR REPLACE VIEW w AS SELECT a FROM s.v",
        "CREATE TEMP VIEW x AS SELECT (SELECT max(a) FROM s.t) AS a",
    ];
    for sql in MADE {
        refused(&maker, sql, ErrorKind::Forbidden, "permission denied for schema s").await;
    }
    all(&first, "GRANT USAGE ON SCHEMA s TO maker").await;
    for sql in MADE {
        run(&maker, sql).await.expect(sql);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_asks_about_the_schema_that_new_relations_were_moved_into() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = open(&dir);
    let first = db.session();
    all(&first, "CREATE ROLE maker LOGIN PASSWORD 'x'; GRANT CREATE ON DATABASE alluvia TO maker; CREATE SCHEMA s")
        .await;
    for (make, moved) in [
        ("CREATE TABLE t (a INT)", "ALTER TABLE t SET SCHEMA s"),
        ("CREATE VIEW v AS SELECT 1 AS a", "ALTER VIEW v SET SCHEMA s"),
    ] {
        let maker = session_of(&db, "maker");
        for is_allowed in [false, true] {
            all(&first, "GRANT USAGE, CREATE ON SCHEMA s TO maker").await;
            all(&maker, &format!("BEGIN; {make}; {moved}")).await;
            if is_allowed {
                all(&maker, "COMMIT").await;
            } else {
                all(&first, "REVOKE CREATE ON SCHEMA s FROM maker").await;
                refused(&maker, "COMMIT", ErrorKind::Forbidden, "permission denied for schema s").await;
            }
        }
    }
}
