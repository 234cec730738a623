//! Temporary tables give what stored ones give, to the session that has them and to nobody else; nothing of the database knows of
//! them, and nothing of them is left.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::support::real::{block_on, open, run, tag};
use crate::support::{Random, shown_rows as rows, variable};
use alluvia_node::{Database, DatabaseOptions};
use alluvia_query::Session;
use alluvia_types::ErrorKind;
use std::collections::BTreeMap;
use std::path::Path;

/// What a statement comes to: its tag, or its kind of error.
async fn outcome(session: &Session, sql: &str) -> std::result::Result<String, ErrorKind> {
    run(session, sql).await.map_err(|error| error.kind())
}

const KEYS: u64 = 40;

/// A random statement, of a table that is called `{}` in it.
fn statement(random: &mut Random, has_key: bool) -> String {
    let (id, n) = (random.below(KEYS), random.below(100));
    let from = random.below(KEYS);
    let until = from + random.below(8);
    let text = "text ".repeat(random.below(60) as usize);
    match random.below(12) {
        0 | 1 => format!("INSERT INTO {{}} VALUES ({id}, '{text}', {n}), ({}, 'b', {n})", id + KEYS),
        2 => format!("INSERT INTO {{}} SELECT i + {id}, '{text}' || i, {n} FROM generate_series(1, 5) AS s (i)"),
        3 if has_key => format!("INSERT INTO {{}} VALUES ({id}, 'c', {n}), ({from}, 'd', 1) ON CONFLICT DO NOTHING"),
        4 if has_key => format!(
            "INSERT INTO {{}} AS t VALUES ({id}, '{text}', {n}) ON CONFLICT (id) DO UPDATE SET n = t.n + excluded.n, g = excluded.g"
        ),
        5 => format!("UPDATE {{}} SET n = n + 1, g = g || '.' WHERE id BETWEEN {from} AND {until}"),
        6 => format!("UPDATE {{}} SET id = id + {n} WHERE id = {id}"),
        7 => format!("DELETE FROM {{}} WHERE id BETWEEN {from} AND {until} AND n % 2 = 0"),
        8 => format!("DELETE FROM {{}} WHERE id IN (SELECT id FROM {{}} WHERE n > {n}) AND id % 3 = 0"),
        9 if has_key => format!(
            "MERGE INTO {{}} USING (VALUES ({id}, {n}), ({from}, 2)) AS s (id, n) ON {{}}.id = s.id \
             WHEN MATCHED AND s.n % 2 = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET n = s.n \
             WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'm', s.n)"
        ),
        10 if random.below(8) == 0 => "TRUNCATE {}".to_owned(),
        _ => format!("INSERT INTO {{}} SELECT id + 200, g, n FROM {{}} WHERE id = {id}"),
    }
}

/// Both tables have the same rows, to every way of reading them.
async fn check(session: &Session, stored: &str, temporary: &str) {
    for sql in [
        "SELECT id, g, n FROM {} ORDER BY id, n, g",
        "SELECT count(*), sum(n), min(id), max(g) FROM {}",
        "SELECT n % 5, count(*), sum(id) FROM {} GROUP BY n % 5 ORDER BY 1",
        "SELECT a.id, count(*) FROM {} AS a JOIN {} AS b USING (n) GROUP BY a.id ORDER BY 1, 2",
        "SELECT id FROM {} WHERE n > 50 AND g LIKE 't%' ORDER BY id DESC, n LIMIT 3",
        "SELECT count(*) FROM {} WHERE id = 7",
    ] {
        let (of_stored, of_temporary) = (sql.replace("{}", stored), sql.replace("{}", temporary));
        assert_eq!(rows(session, &of_stored).await, rows(session, &of_temporary).await, "{of_temporary}");
    }
}

#[test]
fn statements_on_a_temporary_table_do_what_they_do_on_a_stored_one() {
    let seed = variable("ALLUVIA_TEST_SEED").unwrap_or(0x7e3b);
    let statements = variable("ALLUVIA_TEST_STATEMENTS").unwrap_or(250);
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let mut random = Random(seed);
    block_on(async {
        let session = db.session();
        for (has_key, key) in [(true, " PRIMARY KEY"), (false, "")] {
            let columns = format!("(id BIGINT{key}, g TEXT, n BIGINT)");
            let (stored, temporary) = (format!("stored_{has_key}"), format!("temporary_{has_key}"));
            tag(&session, &format!("CREATE TABLE {stored} {columns}")).await;
            tag(&session, &format!("CREATE TEMP TABLE {temporary} {columns}")).await;
            // Little enough that rows lie in files now and then.
            tag(&session, "SET temporary_memory = '1MB'").await;
            let mut open = false;
            for _ in 0..statements {
                let sql = match random.below(10) {
                    0 if !open => "BEGIN".to_owned(),
                    0 => random.pick(&["COMMIT", "COMMIT", "ROLLBACK"]).to_owned(),
                    1 if open => random.pick(&["SAVEPOINT s", "ROLLBACK TO s", "SAVEPOINT u"]).to_owned(),
                    _ => statement(&mut random, has_key),
                };
                if sql.contains("{}") {
                    let of_stored = outcome(&session, &sql.replace("{}", &stored)).await;
                    // Both fail, or none, and the transaction with them.
                    if of_stored.is_err() && open {
                        tag(&session, "ROLLBACK").await;
                        open = false;
                        check(&session, &stored, &temporary).await;
                        continue;
                    }
                    let of_temporary = outcome(&session, &sql.replace("{}", &temporary)).await;
                    assert_eq!(of_stored, of_temporary, "{sql}");
                } else {
                    match outcome(&session, &sql).await {
                        Ok(tag) => match tag.as_str() {
                            "BEGIN" => open = true,
                            "COMMIT" => open = false,
                            "ROLLBACK" if sql == "ROLLBACK" => open = false,
                            _ => {}
                        },
                        // There was no such savepoint.
                        Err(_) => {
                            tag(&session, "ROLLBACK").await;
                            open = false;
                        }
                    }
                }
                check(&session, &stored, &temporary).await;
            }
            if open {
                tag(&session, "ROLLBACK").await;
            }
            check(&session, &stored, &temporary).await;
        }
    });
}

#[test]
fn an_error_of_a_statement_or_of_a_commit_takes_back_what_it_did_to_temporary_tables() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    block_on(async {
        let (session, other) = (db.session(), db.session());
        tag(&session, "CREATE TABLE t (id BIGINT PRIMARY KEY)").await;
        tag(&session, "CREATE TEMP TABLE x (id BIGINT PRIMARY KEY)").await;
        tag(&session, "INSERT INTO x VALUES (3000)").await;
        // The last of its rows, which come in several batches, is there.
        let many =
            "INSERT INTO x SELECT CASE WHEN i = 30000 THEN 3000 ELSE -i END FROM generate_series(1, 30000) AS s (i)";
        assert_eq!(outcome(&session, many).await, Err(ErrorKind::UniqueViolation));
        assert_eq!(rows(&session, "SELECT count(*) FROM x").await, ["1"]);
        tag(&session, "BEGIN").await;
        tag(&session, "INSERT INTO x VALUES (1)").await;
        tag(&session, "INSERT INTO t VALUES (1)").await;
        tag(&session, "CREATE TEMP TABLE y AS SELECT * FROM x").await;
        tag(&other, "ALTER TABLE t ADD COLUMN n INT").await;
        assert_eq!(outcome(&session, "COMMIT").await, Err(ErrorKind::Conflict));
        assert_eq!(rows(&session, "SELECT id FROM x").await, ["3000"]);
        assert_eq!(outcome(&session, "SELECT * FROM y").await, Err(ErrorKind::UndefinedTable));
        // A transaction that has failed is rolled back by its COMMIT.
        tag(&session, "BEGIN").await;
        tag(&session, "DELETE FROM x").await;
        assert_eq!(outcome(&session, "SELECT 1 / 0").await, Err(ErrorKind::DivisionByZero));
        assert_eq!(tag(&session, "COMMIT").await, "ROLLBACK");
        assert_eq!(rows(&session, "SELECT id FROM x").await, ["3000"]);
    });
}

/// Every file of a directory but the lock, with what is in it.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                all.insert(path.display().to_string(), std::fs::read(&path).unwrap_or_default());
            }
        }
    }
    all
}

fn spilled(dir: &Path) -> usize {
    files(&dir.join("spill")).len()
}

/// What was read may be let go a moment later.
async fn none_spilled(dir: &Path) {
    for _ in 0..250 {
        if spilled(dir) == 0 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("{} files are left", spilled(dir));
}

#[test]
fn nothing_of_the_database_knows_of_temporary_tables() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    block_on(async {
        let session = db.session();
        tag(&session, "CREATE TABLE t (id BIGINT, g TEXT)").await;
        tag(&session, "INSERT INTO t SELECT i, 'g' || i FROM generate_series(1, 1000) AS s (i)").await;
        tag(&session, "CALL alluvia.merge()").await;
        let log = dir.path().join("log");
        let before = files(&log);
        for sql in [
            "CREATE TEMP TABLE x (id BIGSERIAL PRIMARY KEY, g TEXT)",
            "INSERT INTO x (g) SELECT 'findable words ' || g FROM t",
            "UPDATE x SET g = g || '!' WHERE id % 2 = 0",
            "ALTER TABLE x ADD COLUMN n INT",
            "BEGIN",
            "DELETE FROM x WHERE id > 500",
            "CREATE TEMP TABLE y AS SELECT * FROM x",
            "COMMIT",
            "TRUNCATE x RESTART IDENTITY",
            "DROP TABLE x",
        ] {
            tag(&session, sql).await;
        }
        assert_eq!(rows(&session, "SELECT count(*) FROM y").await, ["500"]);
        assert!(files(&log) == before, "the log has changed");
        let words = b"findable words";
        let holds = |bytes: &Vec<u8>| bytes.windows(words.len()).any(|window| window == words);
        assert_eq!(files(dir.path()).into_iter().find(|(_, bytes)| holds(bytes)).map(|(name, _)| name), None);
    });
}

#[test]
fn rows_past_the_bound_lie_in_files_that_go_with_the_session() {
    let dir = tempfile::tempdir().unwrap();
    {
        let db = open(dir.path());
        block_on(async {
            let session = db.session();
            tag(&session, "SET temporary_memory = '1MB'").await;
            let many = "SELECT i, 'a text that is long enough to take some room, of number ' || i AS g FROM generate_series(1, 200000) AS s (i)";
            tag(&session, &format!("CREATE TEMP TABLE x AS {many}")).await;
            assert!(spilled(dir.path()) > 0, "nothing was spilled");
            let sums = "SELECT count(*), sum(i), count(DISTINCT g) FROM x";
            assert_eq!(rows(&session, sums).await, ["200000|20000100000|200000"]);
            assert_eq!(rows(&session, "SELECT i FROM x WHERE g LIKE '%number 77777'").await, ["77777"]);
            tag(&session, "DELETE FROM x WHERE i % 4 = 0").await;
            tag(&session, "UPDATE x SET g = 'short' WHERE i < 100").await;
            assert_eq!(rows(&session, "SELECT count(*), sum(i) FROM x").await, ["150000|15000000000"]);
            assert_eq!(rows(&session, "SELECT count(*) FROM x WHERE g = 'short'").await, ["75"]);
            // It reads itself while it is written.
            tag(&session, "INSERT INTO x SELECT i + 1000000, g FROM x WHERE i % 2 = 1").await;
            assert_eq!(rows(&session, "SELECT count(*) FROM x").await, ["250000"]);
            let before = spilled(dir.path());
            // What has read on keeps what it reads.
            let reading = session.sql("SELECT i, g FROM x").await.unwrap();
            tag(&session, "DROP TABLE x").await;
            let read: usize = reading.collect().await.unwrap().iter().map(|batch| batch.num_rows()).sum();
            assert_eq!(read, 250_000);
            assert!(before > 0);
            none_spilled(dir.path()).await;
            // All sessions together may spill so much.
            tag(&session, &format!("CREATE TEMP TABLE x AS {many}")).await;
            assert!(spilled(dir.path()) > 0);
            drop(session);
            none_spilled(dir.path()).await;
        });
    }
    // A process that was killed leaves files, which the next one removes.
    let left = dir.path().join("spill").join("datafusion-left");
    std::fs::create_dir_all(&left).unwrap();
    std::fs::write(left.join("rows"), b"rows").unwrap();
    let db = open(dir.path());
    assert_eq!(spilled(dir.path()), 0);
    drop(db);
}

#[test]
fn what_has_no_room_is_refused_by_name_and_leaves_the_table_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let options = DatabaseOptions {
        memory_limit_bytes: 256 << 20,
        threads: 2,
        spill_bytes_max: 2 << 20,
        ..DatabaseOptions::default()
    };
    let db = Database::open_with(dir.path(), options).unwrap();
    block_on(async {
        let session = db.session();
        tag(&session, "SET temporary_memory = '1MB'").await;
        tag(&session, "CREATE TEMP TABLE x (a TEXT)").await;
        tag(&session, "INSERT INTO x VALUES ('kept')").await;
        let many = "INSERT INTO x SELECT md5(i::text) || md5((i + 1)::text) FROM generate_series(1, 400000) AS s (i)";
        let error = run(&session, many).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert!(error.message().contains("temporary table \"x\""), "{error}");
        assert_eq!(rows(&session, "SELECT a FROM x").await, ["kept"]);
        // What was there may have made room for what then had none.
        tag(&session, "DROP TABLE x").await;
        none_spilled(dir.path()).await;
        tag(&session, "CREATE TEMP TABLE k (a BIGINT PRIMARY KEY)").await;
        let error = run(&session, "INSERT INTO k SELECT i FROM generate_series(1, 100000) AS s (i)").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert!(error.message().contains("keys of temporary table \"k\""), "{error}");
        assert_eq!(rows(&session, "SELECT count(*) FROM k").await, ["0"]);
        tag(&session, "INSERT INTO k VALUES (1)").await;
    });
}

#[test]
fn siblings_begin_with_the_tables_of_their_session_and_leave_theirs() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    block_on(async {
        let session = db.session();
        tag(&session, "CREATE TEMP TABLE x (a INT)").await;
        tag(&session, "INSERT INTO x VALUES (1)").await;
        let sibling = session.sibling().unwrap();
        tag(&sibling, "BEGIN").await;
        tag(&sibling, "INSERT INTO x VALUES (2)").await;
        tag(&sibling, "CREATE TEMP TABLE y AS SELECT a FROM x").await;
        assert_eq!(rows(&session, "SELECT a FROM x ORDER BY a").await, ["1"]);
        tag(&sibling, "COMMIT").await;
        session.follow(&sibling, true);
        drop(sibling);
        assert_eq!(rows(&session, "SELECT a FROM x ORDER BY a").await, ["1", "2"]);
        assert_eq!(rows(&session, "SELECT a FROM y ORDER BY a").await, ["1", "2"]);
        let sibling = session.sibling().unwrap();
        tag(&sibling, "DROP TABLE y").await;
        session.follow(&sibling, false);
        assert_eq!(rows(&session, "SELECT count(*) FROM y").await, ["2"]);
    });
}
