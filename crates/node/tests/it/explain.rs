//! EXPLAIN ANALYZE says what a statement used, whatever is left of its plan.

use crate::index_answers::explained;
use alluvia_node::Database;

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_no_rows_says_its_version_and_stage_too() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Database::open(dir.path()).expect("opens");
    let session = db.session();
    session.sql("CREATE TABLE t (a INT, b TEXT)").await.expect("creates");
    session.sql("INSERT INTO t VALUES (1, 'x'), (2, 'y')").await.expect("inserts");
    let wanted = "| Used ";
    for sql in ["SELECT count(*) FROM t", "SELECT a FROM t WHERE false", "SELECT a, b FROM t ORDER BY b"] {
        let plan = explained(&session, "EXPLAIN ANALYZE", sql).await.expect("is explained");
        let line = plan.lines().find(|line| line.starts_with(wanted)).unwrap_or_else(|| panic!("{sql}: {plan}"));
        assert!(line.contains("version 2, lag 0ns, stage ingested"), "{sql}: {line}");
    }
    for sql in ["EXPLAIN SELECT count(*) FROM t", "EXPLAIN ANALYZE SELECT 1"] {
        let plan = explained(&session, "", sql).await.expect("is explained");
        assert!(!plan.contains(wanted), "{sql}: {plan}");
    }
}
