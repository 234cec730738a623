//! MERGE, UPDATE ... FROM and DELETE ... USING that join their table by its whole key read the rows of the keys that come, and do what they do
//! where the condition is written so that the whole table is read: the model is the same statement in another database.
//!
//! `ALLUVIA_TEST_STATEMENTS=10000` runs at least so many; `ALLUVIA_TEST_SEED` begins elsewhere; a failure prints its statement.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::support::real::{block_on, open, tag};
use crate::support::{Random, shown_rows, variable};
use alluvia_query::Session;
use arrow::util::display::{ArrayFormatter, FormatOptions};

const TABLES: [&str; 6] = [
    "CREATE TABLE a (id BIGINT PRIMARY KEY, n INT, note TEXT)",
    "INSERT INTO a SELECT i, (i * 7919 % 1000)::int, 'note ' || i::text FROM generate_series(1, 4000) AS g(i)",
    "CREATE TABLE b (w SMALLINT, name TEXT, n INT, note TEXT, PRIMARY KEY (w, name))",
    "INSERT INTO b SELECT (i % 60)::smallint, 'y' || (i / 60)::text, (i % 1000)::int, 'b' FROM generate_series(0, 2999) AS g(i)",
    "CREATE TABLE c (price DECIMAL(9, 2) PRIMARY KEY, n INT, note TEXT)",
    "INSERT INTO c SELECT (i * 0.25)::decimal(9, 2), (i % 1000)::int, 'c' FROM generate_series(0, 2999) AS g(i)",
];

/// Types of what the keys are compared with.
const TYPES: [&str; 5] = ["SMALLINT", "INT", "BIGINT", "DECIMAL(12, 3)", "DOUBLE PRECISION"];

/// Changes between which statements are run.
const CHANGES: [&str; 8] = [
    "CALL alluvia.merge()",
    "DELETE FROM a WHERE id % 11 = 3; DELETE FROM b WHERE n % 7 = 2; DELETE FROM c WHERE price < 5",
    "INSERT INTO a SELECT i, 1, 'tail' FROM generate_series(4001, 4100) AS g(i) ON CONFLICT DO NOTHING",
    "UPDATE a SET n = n + 1 WHERE id BETWEEN 10 AND 30; UPDATE b SET n = 3 WHERE w = 5",
    "CALL alluvia.flush()",
    "INSERT INTO b VALUES (5, '', 1, NULL), (-3, 'y1', 2, 'low'); INSERT INTO c VALUES (-2.5, 1, 'low')",
    "CALL alluvia.merge()",
    "ALTER TABLE a ADD COLUMN added TEXT; ALTER TABLE b RENAME COLUMN note TO remark; ALTER TABLE b RENAME COLUMN remark TO note",
];

/// A table, its columns of which rows are inserted, what these get, and conditions by its key and by what is no column of it.
struct Keyed {
    name: &'static str,
    inserted: (&'static str, &'static str),
    conditions: &'static [(&'static str, &'static str)],
}

static KEYED: [Keyed; 3] = [
    Keyed {
        name: "a",
        inserted: ("(id, n, note)", "(s.x, s.z, s.y)"),
        conditions: &[
            ("t.id = s.x", "t.id + 0 = s.x"),
            ("s.x = t.id AND s.z < 90", "s.x = t.id + 0 AND s.z < 90"),
            ("t.id = s.x + 1", "t.id + 0 = s.x + 1"),
        ],
    },
    Keyed {
        name: "b",
        inserted: ("(w, name, n)", "(s.x, s.y, s.z)"),
        conditions: &[
            ("t.w = s.x AND t.name = s.y", "t.w + 0 = s.x AND t.name || '' = s.y"),
            ("t.name = s.y AND t.w = 7", "t.name || '' = s.y AND t.w + 0 = 7"),
            (
                "t.w = s.x AND t.name = s.y AND t.n < s.z * 20",
                "t.w + 0 = s.x AND t.name || '' = s.y AND t.n < s.z * 20",
            ),
        ],
    },
    Keyed {
        name: "c",
        inserted: ("(price, n)", "(s.x, s.z)"),
        conditions: &[
            ("t.price = s.x", "t.price + 0 = s.x"),
            ("t.price = s.x AND t.n > 3", "t.price + 0 = s.x AND t.n > 3"),
        ],
    },
];

/// What is joined: the rows of `s`, fewer of them, groups, few constants, and more rows than are looked up.
const SOURCES: [&str; 7] = [
    "s",
    "s",
    "(SELECT * FROM s WHERE z > 30) AS s",
    "(SELECT x, y, max(z) AS z FROM s WHERE x IS NOT NULL GROUP BY x, y) AS s",
    "(SELECT s.x, s.y, u.z FROM s JOIN s AS u ON s.z = u.z) AS s",
    "(VALUES (7, 'y1', 40), (NULL, 'y2', 41), (9, NULL, 42), (7000, 'y9', 43)) AS s(x, y, z)",
    "(SELECT q.g AS x, 'y' || (q.g % 60)::text AS y, (q.g % 100)::int AS z FROM generate_series(1, 5000) AS q(g) WHERE q.g % 3 < 2) AS s",
];

const MERGES: [&str; 6] = [
    "WHEN MATCHED THEN UPDATE SET n = s.z, note = 'merged' WHEN NOT MATCHED AND s.x IS NOT NULL AND s.y IS NOT NULL THEN INSERT {columns} VALUES {values}",
    "WHEN MATCHED AND s.z % 3 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET n = t.n + 1",
    "WHEN NOT MATCHED AND s.z > 50 THEN INSERT {columns} VALUES {values}",
    "WHEN MATCHED AND t.n > 500 THEN DO NOTHING WHEN MATCHED THEN UPDATE SET note = s.y || '!' WHEN NOT MATCHED THEN DO NOTHING",
    "WHEN MATCHED AND s.z % 2 = 0 THEN DELETE WHEN NOT MATCHED BY SOURCE AND t.n = 999 THEN DELETE",
    "WHEN MATCHED THEN DELETE WHEN NOT MATCHED AND s.z < 3 THEN INSERT {columns} VALUES {values}",
];

/// A statement by the key, and in general.
fn statement(random: &mut Random) -> [String; 2] {
    let keyed = &KEYED[random.below(KEYED.len() as u64) as usize];
    let condition = keyed.conditions[random.below(keyed.conditions.len() as u64) as usize];
    let (table, source) = (keyed.name, random.pick(&SOURCES));
    let returning = random.below(2) == 0;
    let form = match random.below(9) {
        0..5 => {
            let (columns, values) = keyed.inserted;
            let clauses = random.pick(&MERGES).replace("{columns}", columns).replace("{values}", values);
            let returning = if returning { " RETURNING merge_action(), t.*, s.x, s.z" } else { "" };
            format!("MERGE INTO {table} AS t USING {source} ON {{on}} {clauses}{returning}")
        }
        5 => {
            let returning = if returning { " RETURNING t.*" } else { "" };
            format!("UPDATE {table} AS t SET n = t.n + 1, note = 'from' FROM {source} WHERE {{on}}{returning}")
        }
        6 => format!("UPDATE {table} AS t SET n = 5 FROM {source}, s AS u WHERE {{on}} AND u.z = s.z AND t.n < 900"),
        7 => {
            let returning = if returning { " RETURNING t.*" } else { "" };
            format!("DELETE FROM {table} AS t USING {source} WHERE {{on}} AND s.z < 20{returning}")
        }
        _ => format!("DELETE FROM {table} AS t WHERE t.n % 5 = 1 AND EXISTS (SELECT 1 FROM {source} WHERE {{on}})"),
    };
    [condition.0, condition.1].map(|on| form.replace("{on}", on))
}

/// Rows of the other side, some without values, some several times.
fn source_rows(random: &mut Random, data_type: &str) -> String {
    let count = 1 + random.below(12);
    let value = |random: &mut Random| match random.below(12) {
        0 => "NULL".to_owned(),
        1 if data_type != "SMALLINT" => (3_990 + random.below(40)).to_string(),
        2 if data_type == "BIGINT" => (1u64 << 40).to_string(),
        3 if data_type.starts_with('D') => format!("{}.25", random.below(60)),
        _ => random.below(60).to_string(),
    };
    let row = |random: &mut Random| {
        let y = if random.below(10) == 0 { "NULL".to_owned() } else { format!("'y{}'", random.below(30)) };
        format!("({}, {y}, {})", value(random), random.below(100))
    };
    let mut rows: Vec<String> = (0..count).map(|_| row(random)).collect();
    if random.below(4) == 0 {
        rows.push(rows[0].clone());
    }
    rows.join(", ")
}

/// What a statement says and gives, or its error.
async fn done(session: &Session, sql: &str) -> Result<(String, Vec<String>), String> {
    let run = async {
        let outcome = session.sql(sql).await?;
        let tag = outcome.tag.clone();
        Ok::<_, alluvia_types::Error>((tag, outcome.collect().await?))
    };
    let (tag, batches) = run.await.map_err(|error| format!("{:?}", error.kind()))?;
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in &batches {
        let columns = batch.columns().iter();
        let columns: Vec<_> =
            columns.map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap()).collect();
        rows.extend(
            (0..batch.num_rows())
                .map(|row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|")),
        );
    }
    rows.sort_unstable();
    Ok((tag, rows))
}

async fn all(session: &Session, script: &str) {
    for statement in script.split(';').filter(|statement| !statement.trim().is_empty()) {
        tag(session, statement.trim()).await;
    }
}

async fn contents(session: &Session) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for sql in ["SELECT * FROM a ORDER BY id", "SELECT * FROM b ORDER BY w, name", "SELECT * FROM c ORDER BY price"] {
        all.push(shown_rows(session, sql).await);
    }
    all
}

/// Rows that a statement has read.
async fn rows_read(session: &Session, sql: &str) -> u64 {
    let outcome = session.sql(sql).await.unwrap_or_else(|error| panic!("{sql}\n{error}"));
    outcome.used().expect("it reads").rows_read
}

#[test]
fn what_is_joined_by_the_key_changes_what_is_joined_in_general() {
    let (dir, model_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (db, model_db) = (open(dir.path()), open(model_dir.path()));
    let mut random = Random(variable("ALLUVIA_TEST_SEED").unwrap_or(1).max(1));
    let each = variable("ALLUVIA_TEST_STATEMENTS").unwrap_or(240) / CHANGES.len() as u64 + 1;
    block_on(async {
        let (by_key, general) = (db.session(), model_db.session());
        let both = [&by_key, &general];
        for session in both {
            for script in TABLES {
                all(session, script).await;
            }
        }
        let (mut failed, mut went_well) = (0, 0);
        for change in CHANGES {
            for session in both {
                all(session, change).await;
            }
            let mut left = each;
            while left > 0 {
                let data_type = random.pick(&TYPES);
                let rows = source_rows(&mut random, data_type);
                let made = format!(
                    "DROP TABLE IF EXISTS s; CREATE TABLE s (x {data_type}, y TEXT, z INT); INSERT INTO s VALUES {rows}"
                );
                let in_transaction = random.below(3) == 0;
                let level = random.pick(&[
                    "BEGIN",
                    "BEGIN ISOLATION LEVEL REPEATABLE READ",
                    "BEGIN ISOLATION LEVEL READ COMMITTED",
                ]);
                for session in both {
                    all(session, &made).await;
                    if in_transaction {
                        all(session, level).await;
                        all(session, "UPDATE a SET n = 0 WHERE id = 7; DELETE FROM a WHERE id = 9").await;
                        all(session, "INSERT INTO b VALUES (7, 'y3', 1, 'own') ON CONFLICT DO NOTHING; DELETE FROM b WHERE w = 7 AND n > 900").await;
                    }
                }
                let mut is_over = false;
                for _ in 0..1 + random.below(4) {
                    left = left.saturating_sub(1);
                    let [sql, model] = statement(&mut random);
                    let context = format!("{data_type}: {rows}\nin a transaction: {in_transaction}\n{sql}\n{model}");
                    let (found, expected) = (done(&by_key, &sql).await, done(&general, &model).await);
                    // Of several errors any may be told.
                    if found.is_ok() || expected.is_ok() {
                        assert_eq!(found, expected, "{context}");
                    }
                    failed += u64::from(found.is_err());
                    went_well += u64::from(found.is_ok());
                    // A transaction ends with its first error.
                    is_over = found.is_err() && in_transaction;
                    if is_over {
                        break;
                    }
                    if random.below(6) == 0 {
                        let is_same = contents(&by_key).await == contents(&general).await;
                        assert!(is_same, "the tables differ after\n{context}");
                    }
                }
                if in_transaction {
                    let end = if is_over || random.below(2) == 0 { "ROLLBACK" } else { "COMMIT" };
                    for session in both {
                        all(session, end).await;
                    }
                }
            }
            assert!(contents(&by_key).await == contents(&general).await, "the tables differ behind {change}");
        }
        assert!(went_well > failed, "{went_well} went well, and {failed} failed");
    });
}

#[test]
fn the_rows_of_the_keys_are_read_and_no_others() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    block_on(async {
        let session = db.session();
        for script in TABLES {
            all(&session, script).await;
        }
        all(
            &session,
            "CREATE TABLE s (x INT, y TEXT, z INT); INSERT INTO s VALUES (7, 'y0', 1), (9, 'y1', 2), (5000, 'y2', 3)",
        )
        .await;
        all(&session, "CALL alluvia.merge()").await;
        for sql in [
            "MERGE INTO a AS t USING s ON t.id = s.x WHEN MATCHED THEN UPDATE SET n = s.z WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.x, s.z)",
            "UPDATE a SET n = s.z FROM s WHERE a.id = s.x",
            "DELETE FROM a USING s WHERE a.id = s.x AND s.z = 2",
            "MERGE INTO b AS t USING (VALUES (7, 'y0'), (9, 'y1')) AS s(x, y) ON t.name = s.y AND t.w = s.x WHEN MATCHED THEN DELETE",
            "UPDATE b SET n = s.z FROM s WHERE b.w = 8 AND b.name = s.y",
            "MERGE INTO c AS t USING s ON t.price = s.x WHEN MATCHED THEN UPDATE SET n = s.z + 1",
            // The other side is as it was when it was asked, which is once.
            "UPDATE a SET n = (s.r * 1000)::int FROM (SELECT 11 AS x, random() AS r) AS s WHERE a.id = s.x RETURNING a.n = (s.r * 1000)::int",
        ] {
            let read = rows_read(&session, sql).await;
            assert!((1..60).contains(&read), "{read} rows: {sql}");
        }
        let sql = "UPDATE a SET note = s.r::text FROM (SELECT x, random() AS r FROM s) AS s WHERE a.id = s.x RETURNING a.note = s.r::text";
        assert_eq!(shown_rows(&session, sql).await, ["true", "true"]);
        for sql in [
            "MERGE INTO a AS t USING s ON t.id + 0 = s.x WHEN MATCHED THEN UPDATE SET n = s.z",
            "MERGE INTO a AS t USING s ON t.id = s.x WHEN NOT MATCHED BY SOURCE AND t.n = -1 THEN DELETE",
            "UPDATE b SET n = 1 FROM s WHERE b.w = s.x",
            "MERGE INTO a AS t USING (SELECT g AS x FROM generate_series(1, 3000) AS q(g)) AS s ON t.id = s.x WHEN MATCHED THEN UPDATE SET n = t.n + 1",
        ] {
            let read = rows_read(&session, sql).await;
            assert!(read > 2_000, "{read} rows: {sql}");
        }
        // Rows that a row of the other side has already changed.
        let error = session
            .sql("MERGE INTO a AS t USING (VALUES (7), (7)) AS s(x) ON t.id = s.x WHEN MATCHED THEN DELETE")
            .await;
        assert_eq!(error.err().map(|error| error.kind()), Some(alluvia_types::ErrorKind::TooManyRows));
    });
}
