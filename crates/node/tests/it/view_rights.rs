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

