//! Rows whose keys lie between two: by the order of keys and kept plans, by the order alone, and by looking at each row.
//!
//! `ALLUVIA_TEST_STATEMENTS=100000` asks at least so many; `ALLUVIA_TEST_SEED` begins elsewhere; a failure prints its statement.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::support::real::block_on;
use crate::support::{Random, shown_rows, variable};
use alluvia_node::{Database, DatabaseOptions};
use alluvia_query::{ScalarValue, Session};

const TABLES: [&str; 4] = [
    "CREATE TABLE r (id BIGINT PRIMARY KEY, place TEXT, name TEXT, n INT) WITH (dimensions = 'place_dim(place)', measures = 'n')",
    "INSERT INTO r SELECT i, 'place ' || (i * 7919 % 50)::text, 'name ' || i::text, CASE WHEN i % 9 > 0 THEN (i % 1000)::int END \
     FROM generate_series(1, 40000) AS s(i)",
    "CREATE TABLE p (w SMALLINT, d INT, v TEXT, PRIMARY KEY (w, d))",
    "INSERT INTO p SELECT (i % 40)::smallint, (i / 40 - 100)::int, 'v' || i::text FROM generate_series(0, 19999) AS s(i)",
];

/// Changes between which statements are asked.
const CHANGES: [&str; 8] = [
    "CALL alluvia.merge()",
    "UPDATE r SET n = n + 1, name = 'new' WHERE id BETWEEN 1000 AND 1300",
    "DELETE FROM r WHERE id % 11 = 3; DELETE FROM p WHERE w = 5 AND d < 50",
    "INSERT INTO r VALUES (1004, 'place 1', 'again', 4), (-5, 'place 2', 'low', NULL), (9223372036854775807, 'place 3', 'high', 1)",
    "CALL alluvia.flush()",
    "INSERT INTO p VALUES (5, 7, 'back'), (32767, -2147483648, 'edge')",
    "CALL alluvia.merge()",
    "ALTER TABLE r ADD COLUMN added TEXT",
];

const OF_R: [&str; 9] = [
    "SELECT * FROM r",
    "SELECT name, n + 1 AS more FROM r",
    "SELECT id FROM r",
    "SELECT count(*), sum(n) FROM r",
    "SELECT min(n), max(name), count(n), avg(n) FROM r",
    "SELECT sum(n) * 2 + count(*) AS both FROM r AS t",
    "SELECT count(DISTINCT n) FROM r",
    "SELECT place, count(*) FROM r",
    "SELECT bool_or(n > 500), string_agg(name, ',' ORDER BY id) FROM r",
];

/// A statement, the same so that no key is seen in it, and values of its parameters.
struct RangeStatement {
    sql: String,
    model: String,
    values: Vec<ScalarValue>,
}

fn one_of<const N: usize>(random: &mut Random, all: [i64; N]) -> i64 {
    all[random.below(N as u64) as usize]
}

fn of_r(random: &mut Random) -> RangeStatement {
    let select = random.pick(&OF_R);
    let drawn = random.below(40_000) as i64;
    let low = one_of(random, [drawn, 995, 39_990, -10, 9_223_372_036_854_775_800]);
    let width = one_of(random, [0, 1, 40, 900, 1_999]);
    let high = low.saturating_add(width);
    let rest = random.pick(&["", "", "", " AND n > 300", " AND name LIKE 'name%'"]);
    let condition = random.pick(&[
        "id >= @ AND id < #",
        "id >= @ AND id < #",
        "id > @ AND id <= #",
        "id BETWEEN @ AND #",
        "# > id AND @ <= id",
        "(id <= #) AND (id > @)",
        "id > @",
        "id < #",
        "id = @ AND id < #",
        "NOT id < @ AND id < #",
    ]);
    let behind = if select.contains("place,") { " GROUP BY place" } else { "" };
    let text = |column: &str, low: &str, high: &str| {
        let condition = condition.replace("id", column).replace('@', low).replace('#', high);
        format!("{select} WHERE {condition}{rest}{behind}")
    };
    let model = text("(id - 0)", &low.to_string(), &high.to_string());
    match random.below(2) {
        0 => RangeStatement { sql: text("id", &low.to_string(), &high.to_string()), model, values: Vec::new() },
        _ => {
            let mut values = vec![ScalarValue::Int64(Some(low)), ScalarValue::Int64(Some(high))];
            let (at_low, at_high) = match (condition.contains('@'), condition.contains('#')) {
                (true, true) => ("$1", "$2"),
                (true, false) => {
                    values.pop();
                    ("$1", "")
                }
                _ => {
                    values.remove(0);
                    ("", "$1")
                }
            };
            RangeStatement { sql: text("id", at_low, at_high), model, values }
        }
    }
}

fn of_p(random: &mut Random) -> RangeStatement {
    let select = random.pick(&["SELECT * FROM p", "SELECT count(*), max(v) FROM p", "SELECT v FROM p"]);
    let (w, d) = (one_of(random, [5, 0, 39, 40, 32_767]), random.below(500) as i64 - 101);
    let condition = random.pick(&[
        "[w] = @",
        "[w] = @ AND [d] > #",
        "[w] = @ AND [d] >= # AND [d] < 300",
        "[w] > @ AND [d] = #",
        "[w] = @ AND [d] = #",
    ]);
    let text = |w_is: &str, d_is: &str| {
        let condition = condition.replace('@', &w.to_string()).replace('#', &d.to_string());
        format!("{select} WHERE {}", condition.replace("[w]", w_is).replace("[d]", d_is))
    };
    RangeStatement { sql: text("w", "d"), model: text("(w - 0)", "(d - 0)"), values: Vec::new() }
}

async fn answer(session: &Session, sql: &str, values: &[ScalarValue]) -> String {
    let run = async {
        match values {
            [] => session.sql(sql).await?.collect().await,
            values => session.execute_prepared(&session.prepare(sql)?, values).await?.collect().await,
        }
    };
    let batches = run.await.unwrap_or_else(|error| panic!("{sql} {values:?}\n{error}"));
    let shown = arrow::util::pretty::pretty_format_batches(&batches).expect("shows").to_string();
    let mut rows: Vec<&str> = shown.lines().skip(3).filter(|line| line.starts_with('|')).collect();
    let cells = |row: &&str| row.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    rows.sort_unstable();
    let mut rows: Vec<String> = rows.iter().map(|row| cells(row).join("|")).collect();
    rows.sort_unstable();
    rows.join("\n")
}

async fn all(session: &Session, script: &str) {
    for statement in script.split(';').filter(|statement| !statement.trim().is_empty()) {
        let done = async { session.sql(statement).await?.collect().await };
        done.await.unwrap_or_else(|error| panic!("{statement}\n{error}"));
    }
}

#[test]
fn what_lies_between_two_keys_is_found_by_every_way() {
    let dir = tempfile::tempdir().unwrap();
    let options = DatabaseOptions { memory_limit_bytes: 256 << 20, threads: 2, ..DatabaseOptions::default() };
    let db = Database::open_with(dir.path(), options).unwrap();
    let mut random = Random(variable("ALLUVIA_TEST_SEED").unwrap_or(1));
    let each = variable("ALLUVIA_TEST_STATEMENTS").unwrap_or(900) / CHANGES.len() as u64 + 1;
    block_on(async {
        let (fast, general) = (db.session(), db.session());
        for script in TABLES {
            all(&fast, script).await;
        }
        all(&general, "SET short_path = off").await;
        for change in CHANGES {
            all(&fast, change).await;
            let in_transaction = random.below(3) == 0;
            if in_transaction {
                all(&fast, "BEGIN; UPDATE r SET name = 'own' WHERE id BETWEEN 990 AND 1010; DELETE FROM p WHERE w = 39 AND d > 0").await;
            }
            for _ in 0..each {
                let RangeStatement { sql, model, values } =
                    if random.below(4) == 0 { of_p(&mut random) } else { of_r(&mut random) };
                let expected = answer(&fast, &model, &[]).await;
                assert_eq!(answer(&fast, &sql, &values).await, expected, "{sql} {values:?}");
                if !in_transaction {
                    assert_eq!(answer(&general, &sql, &values).await, expected, "planned: {sql} {values:?}");
                }
            }
            if in_transaction {
                all(&fast, "ROLLBACK").await;
            }
        }
        let plan = shown_rows(&general, "EXPLAIN SELECT name FROM r WHERE id >= 5 AND id < 9").await.join("\n");
        assert!(plan.contains("key range"), "{plan}");
        let before = db.engine().points_answered();
        for low in [5, 700] {
            answer(
                &fast,
                &format!("SELECT sum(n) AS added, count(*) FROM r WHERE id >= {low} AND id < {}", low + 50),
                &[],
            )
            .await;
        }
        assert_eq!(db.engine().points_answered() - before, 1, "the second is not planned");
    });
    let answered = db.engine().points_answered();
    assert!(answered > each, "{answered} of {each} for each of {} states", CHANGES.len());
}
