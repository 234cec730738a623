//! Point reads that share kept plans, against a session that plans each of them: generated statements with literals and with
//! parameters, in and out of transactions, while rows lie in the tail and in segments and are changed.
//!
//! `ALLUVIA_TEST_STATEMENTS=100000` asks at least so many; `ALLUVIA_TEST_SEED` begins elsewhere; a failure prints its statement.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::support::real::block_on;
use crate::support::{Random, shown_rows, variable};
use alluvia_node::{Database, DatabaseOptions};
use alluvia_query::{Outcome, ScalarValue, Session};
use alluvia_types::Result;
use arrow::datatypes::SchemaRef;
use arrow::util::pretty::pretty_format_batches;

/// What is selected, and from which table.
const SELECTS: [&str; 22] = [
    "SELECT * FROM a",
    "SELECT name FROM a",
    "SELECT id, n FROM a",
    "SELECT n + 1, name || 'x' AS label, 5 FROM a",
    "SELECT id = 5 AS five, -n FROM a",
    "SELECT a.name, a.id FROM a",
    "SELECT t.name AS id, t.n FROM a AS t",
    "SELECT name, name FROM a",
    "SELECT n, n FROM a",
    "SELECT upper(name), length(name), coalesce(n, 0) FROM a",
    "SELECT 10 / n FROM a",
    "SELECT n * 2000000000 FROM a",
    "SELECT CASE WHEN n > 3 THEN name END, n IS NULL, n BETWEEN 2 AND 7 FROM a",
    "SELECT price, price / 2, day, day + 1, flag, NOT flag FROM a",
    "SELECT n::text, price::int FROM a",
    "SELECT now() > '2020-01-01', n FROM a",
    "SELECT current_user, n FROM a",
    "SELECT random() < 2, n FROM a",
    "SELECT count(*), max(n) FROM a",
    "SELECT DISTINCT n FROM a",
    "SELECT missing FROM a",
    "SELECT (SELECT max(n) FROM a), name FROM a",
];

/// What follows the condition on the key.
const RESTS: [&str; 16] = [
    "",
    "",
    "",
    " LIMIT 1",
    " LIMIT 5",
    " LIMIT 0",
    " OFFSET 1",
    " AND n > 3",
    " AND n > 3 AND name LIKE 'name%'",
    " AND 10 / n > 2",
    " AND name = 'name 4'",
    " AND flag",
    " AND id > 3",
    " OR n = 2",
    " ORDER BY n",
    ";",
];

/// The key's condition, with `@` for its value: the last two are not about one key.
const CONDITIONS: [&str; 11] = [
    "id = @",
    "id = @",
    "id = @",
    "id=@",
    "(id = @)",
    "id = -@",
    "@ = id",
    "id IN (@)",
    "id = @ + 0",
    "id >= @ AND id <= 4",
    "NOT id = @",
];

/// How many of them are about one key.
const OF_ONE_KEY: usize = 9;

const VALUES: [&str; 12] =
    ["1", "4", "5", "007", "77", "150", "1000", "'4'", "4.0", "4.5", "NULL", "9223372036854775808"];

struct PointStatement {
    sql: String,
    values: Vec<ScalarValue>,
}

fn generated(random: &mut Random) -> PointStatement {
    match random.below(8) {
        0..4 => return plain(random),
        4 => return of_pairs(random),
        _ => {}
    }
    let value = random.pick(&VALUES);
    let (select, rest) = (random.pick(&SELECTS), random.pick(&RESTS));
    // Which of several rows a bound leaves is open.
    let is_bounded = rest.contains("LIMIT") || rest.contains("OFFSET");
    let conditions = if is_bounded { &CONDITIONS[..OF_ONE_KEY] } else { &CONDITIONS[..] };
    let condition = random.pick(conditions);
    if random.below(3) > 0 {
        return PointStatement {
            sql: format!("{select} WHERE {}{rest}", condition.replace('@', value)),
            values: Vec::new(),
        };
    }
    let number = random.below(200) as i64;
    let value = match random.below(6) {
        0 => ScalarValue::Int32(Some(number as i32)),
        1 => ScalarValue::Int64(None),
        2 => ScalarValue::from("4"),
        3 => ScalarValue::Float64(Some(4.0)),
        _ => ScalarValue::Int64(Some(number)),
    };
    PointStatement { sql: format!("{select} WHERE {}{rest}", condition.replace('@', "$1")), values: vec![value] }
}

/// Of few kinds, so that many texts are alike.
fn plain(random: &mut Random) -> PointStatement {
    let select = random.pick(&SELECTS[..6]);
    let rest = random.pick(&["", "", " AND n > 3", " LIMIT 1"]);
    let number = random.below(160) as i64;
    match random.below(2) {
        0 => PointStatement { sql: format!("{select} WHERE id = {number}{rest}"), values: Vec::new() },
        _ => PointStatement {
            sql: format!("{select} WHERE id = $1{rest}"),
            values: vec![ScalarValue::Int64(Some(number))],
        },
    }
}

/// Of the table whose key is a number and a text.
fn of_pairs(random: &mut Random) -> PointStatement {
    let select = random.pick(&["SELECT * FROM b", "SELECT v FROM b", "SELECT y || v FROM b", "SELECT b.x FROM b"]);
    let x = random.pick(&["1", "2", "3", "32767", "32768", "-1", "2147483648"]);
    let y = random.pick(&["'a'", "'b''c'", "'ä'", "''", "'none'", "NULL", "5", "E'a'"]);
    let sql = match random.below(5) {
        0 => format!("{select} WHERE x = {x} AND y = {y}"),
        1 => format!("{select} WHERE y = {y} AND x = {x} AND v <> 'z'"),
        2 => format!("{select} WHERE x = {x}"),
        3 => format!("{select} WHERE x = {x} AND y = $1"),
        _ => format!("{select} WHERE y = $1 AND x = $2"),
    };
    let text = ScalarValue::from(random.pick(&["a", "b'c", "none"]));
    let values = match (sql.contains("$1"), sql.contains("$2")) {
        (true, true) => vec![text, ScalarValue::Int32(Some(random.below(4) as i32))],
        (true, false) => vec![text],
        _ => Vec::new(),
    };
    PointStatement { sql, values }
}

async fn outcome(session: &Session, asked: &PointStatement) -> Result<Outcome> {
    match asked.values.as_slice() {
        [] => session.sql(&asked.sql).await,
        values => session.execute_prepared(&session.prepare(&asked.sql)?, values).await,
    }
}

async fn answer(session: &Session, asked: &PointStatement) -> Result<(SchemaRef, String)> {
    let outcome = outcome(session, asked).await?;
    let schema = outcome.rows.as_ref().expect("a query has columns").schema();
    let shown = pretty_format_batches(&outcome.collect().await?).expect("shows").to_string();
    // Without rows there may be a batch without any, or none.
    let mut rows: Vec<&str> = shown.lines().skip(3).filter(|line| line.starts_with('|')).collect();
    // What is not about one key has several rows, in any order.
    rows.sort_unstable();
    Ok((schema, rows.join("\n")))
}

async fn compare(fast: &Session, general: &Session, asked: &PointStatement) {
    let (found, expected) = (answer(fast, asked).await, answer(general, asked).await);
    match (found, expected) {
        (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{} {:?}", asked.sql, asked.values),
        (Err(found), Err(expected)) => {
            let same = (found.kind(), found.message()) == (expected.kind(), expected.message());
            assert!(same, "{} {:?}\n{found}\n{expected}", asked.sql, asked.values);
        }
        (found, expected) => panic!("{} {:?}\n{found:?}\n{expected:?}", asked.sql, asked.values),
    }
}

async fn all(session: &Session, script: &[&str]) {
    for statement in script {
        let done = async { session.sql(statement).await?.collect().await };
        done.await.unwrap_or_else(|error| panic!("{statement}\n{error}"));
    }
}

fn database() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let options = DatabaseOptions { memory_limit_bytes: 256 << 20, threads: 2, ..DatabaseOptions::default() };
    let db = Database::open_with(dir.path(), options).unwrap();
    (dir, db)
}

const TABLES: [&str; 4] = [
    "CREATE TABLE a (id BIGINT PRIMARY KEY, name TEXT, n INT, price DOUBLE, day DATE, flag BOOLEAN)",
    "CREATE TABLE b (x SMALLINT, y TEXT, v TEXT, PRIMARY KEY (x, y))",
    "INSERT INTO a SELECT i, 'name ' || i::text, CASE WHEN i % 7 > 0 THEN i % 7 - 1 END, i / 4.0, DATE '2026-01-01' + i::int, i % 2 = 0 \
     FROM generate_series(1, 100) AS s(i)",
    "INSERT INTO b VALUES (1, 'a', 'va'), (2, 'b''c', 'vb'), (3, 'ä', 'vc'), (1, '', 'z'), (32767, 'a', NULL)",
];

/// Changes between which statements are asked.
const CHANGES: [&str; 8] = [
    "CALL alluvia.merge()",
    "UPDATE a SET name = 'new ' || id::text WHERE id IN (4, 5, 77)",
    "DELETE FROM a WHERE id = 77 OR n = 5",
    "INSERT INTO a (id, name) VALUES (150, 'tail'), (77, 'again')",
    "ALTER TABLE a ADD COLUMN added TEXT",
    "CALL alluvia.flush()",
    "ALTER TABLE a RENAME COLUMN name TO label; ALTER TABLE a RENAME COLUMN label TO name",
    "CALL alluvia.merge()",
];

#[test]
fn point_reads_by_kept_plans_give_what_planning_gives() {
    let (_dir, db) = database();
    let seed = variable("ALLUVIA_TEST_SEED").unwrap_or(1);
    let each = variable("ALLUVIA_TEST_STATEMENTS").unwrap_or(1_000) / (CHANGES.len() as u64 + 1) + 1;
    block_on(async {
        let (fast, general) = (db.session(), db.session());
        all(&fast, &TABLES).await;
        all(&general, &["SET short_path = off"]).await;
        let mut random = Random(seed);
        for change in std::iter::once("").chain(CHANGES) {
            for statement in change.split(';').filter(|statement| !statement.is_empty()) {
                all(&fast, &[statement]).await;
            }
            // Both see the change that one has made.
            let in_transaction = random.below(2) == 0;
            if in_transaction {
                all(&fast, &["BEGIN"]).await;
                all(&general, &["BEGIN"]).await;
            }
            for _ in 0..each {
                let asked = generated(&mut random);
                // An error ends a transaction, of both.
                if in_transaction {
                    all(&fast, &["SAVEPOINT s"]).await;
                    all(&general, &["SAVEPOINT s"]).await;
                }
                compare(&fast, &general, &asked).await;
                if in_transaction {
                    all(&fast, &["ROLLBACK TO s"]).await;
                    all(&general, &["ROLLBACK TO s"]).await;
                }
            }
            if in_transaction {
                all(&fast, &["COMMIT"]).await;
                all(&general, &["COMMIT"]).await;
            }
        }
    });
    let answered = db.engine().points_answered();
    assert!(answered > each / 2, "{answered} of {each} for each of {} states", CHANGES.len() + 1);
}

#[test]
fn texts_that_are_alike_share_a_plan_and_others_do_not() {
    let (_dir, db) = database();
    block_on(async {
        let session = db.session();
        all(&session, &TABLES).await;
        let answered = async |sql: &str| {
            let before = db.engine().points_answered();
            let rows = shown_rows(&session, sql).await;
            (rows.join(","), db.engine().points_answered() - before)
        };
        assert_eq!(answered("SELECT name FROM a WHERE id = 4").await, ("name 4".into(), 0));
        assert_eq!(answered("SELECT name FROM a WHERE id = 5").await, ("name 5".into(), 1));
        assert_eq!(answered("SELECT name FROM a WHERE id = 5000;").await, (String::new(), 1));
        assert_eq!(answered("SELECT name FROM a WHERE id = 4.0").await, ("name 4".into(), 0));
        assert_eq!(answered("SELECT name FROM a WHERE id = '4'").await, ("name 4".into(), 0));
        // Another literal is another plan.
        assert_eq!(answered("SELECT id = 4 FROM a WHERE id = 4").await, ("true".into(), 0));
        assert_eq!(answered("SELECT id = 5 FROM a WHERE id = 4").await, ("false".into(), 0));
        assert_eq!(answered("SELECT id = 5 FROM a WHERE id = 5").await, ("true".into(), 1));
        // What the text does not say beyond doubt is planned.
        assert_eq!(answered("SELECT name FROM a WHERE id = 4 AND id < 9").await, ("name 4".into(), 0));
        assert_eq!(answered("SELECT name FROM a WHERE id = 9 AND id < 9").await, (String::new(), 0));
        let prepared = session.prepare("SELECT v FROM b WHERE y = $1 AND x = $2").unwrap();
        let read = async |y: &str, x: i32| {
            let before = db.engine().points_answered();
            let values = [ScalarValue::from(y), ScalarValue::Int32(Some(x))];
            let rows = session.execute_prepared(&prepared, &values).await.unwrap().collect().await.unwrap();
            (rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), db.engine().points_answered() - before)
        };
        assert_eq!(read("a", 1).await, (1, 1), "it is compiled, and not planned first");
        assert_eq!(read("b'c", 2).await, (1, 1));
        assert_eq!(read("b'c", 1).await, (0, 1));
        assert_eq!(read("a", 40_000).await, (0, 0), "no SMALLINT");
    });
}

#[test]
fn kept_plans_ask_for_rights_and_see_what_the_transaction_wrote() {
    let (_dir, db) = database();
    block_on(async {
        let session = db.session();
        all(&session, &TABLES).await;
        all(&session, &["CREATE ROLE clerk", "SELECT name FROM a WHERE id = 4", "SET ROLE clerk"]).await;
        let refused = session.sql("SELECT name FROM a WHERE id = 5").await.unwrap_err();
        assert_eq!(refused.kind().sqlstate(), "42501");
        all(&session, &["RESET ROLE", "BEGIN", "INSERT INTO a (id, name) VALUES (900, 'mine')"]).await;
        assert_eq!(shown_rows(&session, "SELECT name FROM a WHERE id = 900").await, ["mine"]);
        all(&session, &["ROLLBACK"]).await;
        assert!(shown_rows(&session, "SELECT name FROM a WHERE id = 900").await.is_empty());
        all(&session, &["DROP TABLE a"]).await;
        let gone = session.sql("SELECT name FROM a WHERE id = 5").await.unwrap_err();
        assert_eq!(gone.kind().sqlstate(), "42P01");
    });
}
