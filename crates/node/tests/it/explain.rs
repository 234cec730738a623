//! EXPLAIN ANALYZE says what a statement used, whatever is left of its plan; why the index answered or did not; why values are exact.

use crate::index_answers::explained;
use alluvia_node::Database;
use alluvia_query::{Session, Used};
use alluvia_snapshot::Admin;
use alluvia_types::Stage;
use arrow::array::AsArray;
use futures::TryStreamExt;

/// The lines of the plan, and what the statement used.
async fn lines(session: &Session, sql: &str) -> (Vec<String>, Option<Used>) {
    let mut outcome = session.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let rows = outcome.rows.take().expect("rows");
    let batches: Vec<_> = rows.try_collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let texts = batches.iter().flat_map(|batch| batch.column(1).as_string::<i32>().iter().flatten().map(str::to_owned));
    let texts: Vec<String> = texts.collect();
    (texts.iter().flat_map(|text| text.lines()).map(str::to_owned).collect(), outcome.used())
}

/// What a line says behind its name, with the lines that go on from it.
fn told(lines: &[String], name: &str) -> String {
    let begins = |line: &&String| line.starts_with(name);
    let at = lines.iter().position(|line| begins(&line)).unwrap_or_else(|| panic!("{name}: {lines:#?}"));
    let more = lines[at + 1..].iter().take_while(|line| line.starts_with(' '));
    let text = lines[at].trim_start_matches(name).trim().to_owned();
    more.fold(text, |text, line| format!("{text} {}", line.trim()))
}

async fn sorted() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Database::open(dir.path().join("db")).expect("opens");
    let session = db.session();
    for sql in [
        "CREATE TABLE t (at TIMESTAMP, country TEXT, city TEXT, v DOUBLE, k BIGINT)
            WITH (dimensions = 'store(country, city); time(at: year, month)', measures = 'v')",
        "INSERT INTO t SELECT TIMESTAMP '2026-01-01' + value * INTERVAL '1 hour', 'c' || (value % 5), 'b' || (value % 50),
            value / 4.0, value FROM generate_series(1, 20000) AS s(value)",
    ] {
        session.sql(sql).await.expect("is done");
    }
    db.core().organise(Stage::Sorted).expect("organises");
    session.sql("INSERT INTO t VALUES ('2026-02-03', 'c1', 'b1', 1.5, -1)").await.expect("inserts");
    (dir, db)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_no_rows_says_its_version_and_stage_too() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Database::open(dir.path()).expect("opens");
    let session = db.session();
    session.sql("CREATE TABLE t (a INT, b TEXT)").await.expect("creates");
    session.sql("INSERT INTO t VALUES (1, 'x'), (2, 'y')").await.expect("inserts");
    for sql in ["SELECT count(*) FROM t", "SELECT a FROM t WHERE false", "SELECT a, b FROM t ORDER BY b"] {
        let (lines, _) = lines(&session, &format!("EXPLAIN ANALYZE {sql}")).await;
        assert_eq!(told(&lines, "Version:"), "2, 0 s behind, stage ingested", "{sql}: {lines:#?}");
        let full = explained(&session, "EXPLAIN ANALYZE VERBOSE", sql).await.expect("is explained");
        let line = full.lines().find(|line| line.starts_with("| Used ")).unwrap_or_else(|| panic!("{sql}: {full}"));
        assert!(line.contains("version 2, lag 0ns, stage ingested"), "{sql}: {line}");
    }
    for sql in ["EXPLAIN SELECT count(*) FROM t", "EXPLAIN ANALYZE SELECT 1", "EXPLAIN ANALYZE VERBOSE SELECT 1"] {
        let plan = explained(&session, "", sql).await.expect("is explained");
        assert!(!plan.contains("| Used ") && !plan.contains("Version:"), "{sql}: {plan}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_a_tree_whose_figures_are_what_was_used() {
    let (_dir, db) = sorted().await;
    let session = db.session();
    let sql = "EXPLAIN ANALYZE SELECT k % 7, max(v) FROM t WHERE country = 'c3' AND k > 100 GROUP BY 1";
    let (lines, used) = lines(&session, sql).await;
    let used = used.expect("it reads");
    let shown = lines.join("\n");
    assert!(lines.iter().all(|line| line.chars().count() <= 100), "{shown}");
    let words = lines[0].split_whitespace().collect::<Vec<_>>();
    assert_eq!(words, ["rows", "time", "bytes", "blocks", "skipped"], "{shown}");
    for line in ["Aggregate: max(v) by k % 7 ", "Filter: country = 'c3' AND k > 100 ", "Scan t: v, k, country "] {
        assert!(shown.contains(line), "{line}\n{shown}");
    }
    // Neither places of columns nor types of constants, nor names of operators' types.
    assert!(!shown.contains('@') && !shown.contains("Int64") && !shown.contains("Exec"), "{shown}");
    let scan = lines.iter().find(|line| line.contains("Scan t:")).expect("a scan");
    let figures: Vec<&str> = scan.split_whitespace().rev().take(2).collect();
    assert_eq!(figures, [used.blocks_skipped.to_string(), used.blocks_read.to_string()], "{shown}");
    assert!(told(&lines, "Read:").contains(&format!("{} of the tail", used.tail_rows)), "{shown}");
    assert_eq!(told(&lines, "Exact:"), "no error was allowed (max_error is 0)");
    assert!(told(&lines, "Time:").contains("planning"), "{shown}");
    // The last figures of a limit are those of all threads.
    let (lines, _) = self::lines(&session, "EXPLAIN ANALYZE SELECT k FROM t ORDER BY k DESC LIMIT 3").await;
    let top: Vec<&str> = lines[1].split_whitespace().collect();
    assert_eq!(top[..6], ["Top", "3", "by", "k", "DESC", "3"], "{lines:#?}");
    // A join has branches.
    let join = "EXPLAIN ANALYZE SELECT a.v FROM t a LEFT JOIN t b ON a.k = b.k + 1 WHERE a.k < 9";
    let shown = self::lines(&session, join).await.0.join("\n");
    assert!(shown.contains("Join: ") && shown.contains("├─ ") && shown.contains("└─ "), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_the_index_tells_what_it_did() {
    let (_dir, db) = sorted().await;
    let session = db.session();
    session.sql("SET cuboids = off").await.expect("sets");
    let sql = "SELECT country, sum(v) FROM t WHERE at >= '2026-03-01' GROUP BY country";
    let (lines, used) = lines(&session, &format!("EXPLAIN ANALYZE {sql}")).await;
    let (used, shown) = (used.expect("it reads"), lines.join("\n"));
    for line in
        ["Index answer on t: sum(v) by country ", "  where at >= '2026-03-01'", "  cuboid: none, cuboids is off"]
    {
        assert!(shown.contains(line), "{line}\n{shown}");
    }
    assert!(told(&lines, "Index:").starts_with("used"), "{shown}");
    // The tail may have been sorted meanwhile.
    let filtered = grouped(used.rows_read - used.tail_rows);
    assert!(shown.contains(&format!("rows: {filtered} filtered, {} of the tail", used.tail_rows)), "{shown}");
    // VERBOSE has the same answer, and all figures.
    let full = explained(&session, "EXPLAIN ANALYZE VERBOSE", sql).await.expect("is explained");
    for part in
        ["IndexAnswer: table=t", "time.month (from 2026-03)", "covered=", "cut=", "interval: exact", "used: version"]
    {
        assert!(full.contains(part), "{part}\n{full}");
    }
    // Within a plan, too.
    let having = "EXPLAIN ANALYZE SELECT country FROM t GROUP BY country HAVING sum(v) > 1";
    let (lines, _) = self::lines(&session, having).await;
    let shown = lines.join("\n");
    assert!(shown.contains("└─ Index answer on t: sum(v) by country ") && shown.contains(" of the tail"), "{shown}");
    assert!(told(&lines, "Index:").starts_with("used in the plan for 1 aggregate; planned: HAVING"), "{shown}");
    session.sql("CALL alluvia.build_cuboids()").await.expect("builds");
    session.sql("CALL alluvia.pin_cuboid('t', 'country')").await.expect("pins");
    session.sql("RESET cuboids").await.expect("sets");
    session.sql("SET max_error = 0.1").await.expect("sets");
    let (lines, _) = self::lines(&session, "EXPLAIN ANALYZE SELECT country, sum(v) FROM t GROUP BY country").await;
    assert!(lines.iter().any(|line| line.contains("cuboid: resident")), "{lines:#?}");
    assert_eq!(told(&lines, "Exact:"), "max_error is 0.1; a cuboid has the exact values");
}

/// As EXPLAIN writes it.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    match digits.len().checked_sub(3).filter(|&at| at > 0) {
        Some(at) => format!("{},{}", &digits[..at], &digits[at..]),
        None => digits,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_planned_says_why() {
    let (_dir, db) = sorted().await;
    let session = db.session();
    session.sql("CREATE TABLE plain (a INT, b TEXT)").await.expect("creates");
    session.sql("CREATE VIEW fewer AS SELECT DISTINCT country, v FROM t").await.expect("creates");
    for (sql, reason) in [
        ("SELECT k % 7, sum(v) FROM t GROUP BY 1", "a group that is neither a column nor date_trunc of one"),
        ("SELECT v + 1 FROM t", "a column of the answer that is neither"),
        ("SELECT country, sum(v + 1) FROM t GROUP BY country", "a column of the answer that is neither"),
        ("SELECT k, sum(v) FROM t GROUP BY k", "no level tells the group of k"),
        ("SELECT sum(k) FROM t", "k is no measure"),
        ("SELECT sum(v) FROM t WHERE k > 5", "no level tells the condition on k"),
        ("SELECT sum(v) FROM t WHERE k + v > 5", "a condition of a form that the index does not know"),
        ("SELECT DISTINCT k FROM t", "DISTINCT"),
        ("SELECT sum(a.v) FROM t a JOIN t b ON a.k = b.k", "more than one table"),
        ("SELECT sum(a.v) FROM t a, t b WHERE a.k = b.k", "more than one table"),
        ("WITH c AS (SELECT k FROM t) SELECT sum(k) FROM c", "more than one SELECT"),
        ("SELECT sum(v) FROM (SELECT v FROM t LIMIT 5) x", "it does not read a user's table"),
        ("SELECT k, sum(v) FROM t GROUP BY ROLLUP (k)", "a group that is neither"),
        ("SELECT b, count(*) FROM plain GROUP BY b", "the table has no dimensions"),
        ("SELECT country, sum(v) FROM fewer GROUP BY country", "a view that is more than"),
        ("SELECT /*+ sample_fraction(0.5) */ sum(v) FROM t", "sample_fraction leaves out rows"),
    ] {
        let (lines, _) = lines(&session, &format!("EXPLAIN ANALYZE {sql}")).await;
        let index = told(&lines, "Index:");
        assert!(index.starts_with(&format!("not used: {reason}")), "{sql}\n{lines:#?}");
    }
    let reason = async |session: &Session| {
        let (lines, _) = lines(session, "EXPLAIN ANALYZE SELECT country, sum(v) FROM t GROUP BY country").await;
        told(&lines, "Index:")
    };
    session.sql("SET short_path = off").await.expect("sets");
    assert_eq!(reason(&session).await, "used in the plan for 1 aggregate; planned: short_path is off");
    session.sql("SET index_rule = off").await.expect("sets");
    assert_eq!(reason(&session).await, "not used: short_path is off; index_rule is off");
    let other = db.session();
    other.sql("BEGIN").await.expect("begins");
    assert!(reason(&other).await.starts_with("used"));
    other.sql("INSERT INTO t VALUES ('2026-02-03', 'c1', 'b1', 1.5, -2)").await.expect("inserts");
    assert_eq!(reason(&other).await, "not used: the open transaction has changed rows of the table");
    other.sql("ROLLBACK").await.expect("ends");
    // A value that sums of floats do not add up exactly is only met when it is read.
    other.sql("INSERT INTO t VALUES ('2026-02-03', 'c1', 'b1', 'NaN'::DOUBLE, -3)").await.expect("inserts");
    assert!(reason(&other).await.contains("a value that sums do not hold"), "{}", reason(&other).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_be_estimated_says_why_it_is_exact() {
    let (_dir, db) = sorted().await;
    let session = db.session();
    for setting in ["SET cuboids = off", "SET max_error = 0.2"] {
        session.sql(setting).await.expect("sets");
    }
    for (sql, wanted) in [
        ("SELECT min(v) FROM t WHERE city <> 'b7'", "max_error is 0.2; only counts, sums and averages over few boxes"),
        ("SELECT sum(v) + 1 FROM t WHERE k > 7", "max_error is 0.2; only what the index answers is estimated"),
    ] {
        let (lines, _) = lines(&session, &format!("EXPLAIN ANALYZE {sql}")).await;
        assert!(told(&lines, "Exact:").starts_with(wanted), "{sql}\n{lines:#?}");
    }
    session.sql("SET sample_fraction = 0.5").await.expect("sets");
    let (lines, _) = lines(&session, "EXPLAIN ANALYZE SELECT sum(v) FROM t").await;
    assert_eq!(told(&lines, "Sample:"), "exact of the rows that sample_fraction = 0.5 leaves");
    session.sql("RESET sample_fraction").await.expect("sets");
    let (lines, _) = self::lines(&session, "EXPLAIN ANALYZE SELECT k FROM t TABLESAMPLE BERNOULLI (10)").await;
    assert_eq!(told(&lines, "Sample:"), "exact of the rows that were drawn");
}
