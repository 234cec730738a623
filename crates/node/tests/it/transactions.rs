//! Definitions and rows of one transaction: nobody else's until COMMIT, all or nothing after it, also over a restart. The model is
//! the same statements without a transaction.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::support::real::block_on;
use crate::support::{Random, shown_rows as rows, variable};
use alluvia_node::{Database, DatabaseOptions};
use alluvia_query::{Client, Session};
use alluvia_syntax::copy::streams::Streams;
use alluvia_types::{Error, ErrorKind, Result};
use std::io::Cursor;
use std::path::Path;

fn options() -> DatabaseOptions {
    DatabaseOptions { memory_limit_bytes: 256 << 20, threads: 2, ..DatabaseOptions::default() }
}

fn open(dir: &Path) -> Database {
    Database::open_with(dir, options()).unwrap()
}

async fn run(session: &Session, sql: &str) -> Result<()> {
    session.sql(sql).await?.collect().await.map(|_| ())
}

async fn all(session: &Session, script: &[&str]) {
    for statement in script {
        run(session, statement).await.unwrap_or_else(|error| panic!("{statement}\n{error}"));
    }
}

async fn copy_in(session: &Session, sql: &str, text: &str) -> Result<()> {
    let statement = session.parse(sql)?.remove(0);
    let stdin = Cursor::new(text.as_bytes().to_vec());
    let streams = Streams { stdin: Some(Box::new(stdin)), stdout: None };
    session.execute_with(statement, streams).await.map(|_| ())
}

async fn refused(session: &Session, sql: &str) -> ErrorKind {
    run(session, sql).await.unwrap_err().kind()
}

#[test]
fn a_table_and_its_rows_are_one_batch_and_nobody_elses_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    block_on(async {
        let (writer, reader) = (db.session(), db.session());
        run(&writer, "BEGIN").await.unwrap();
        run(&writer, "CREATE TABLE t (a INT, b TEXT) WITH (dimensions = 'b', measures = 'a')").await.unwrap();
        copy_in(&writer, "COPY t FROM STDIN (FORMAT csv)", "1,x\n2,y\n").await.unwrap();
        run(&writer, "INSERT INTO t VALUES (3, 'x')").await.unwrap();
        assert_eq!(rows(&writer, "SELECT b, sum(a) FROM t GROUP BY b ORDER BY b").await, ["x|4", "y|2"]);
        assert_eq!(refused(&reader, "SELECT * FROM t").await, ErrorKind::UndefinedTable);
        assert!(rows(&reader, "SELECT relname FROM pg_class WHERE relname = 't'").await.is_empty());
        let before = db.engine().figures().visible.0;
        run(&writer, "COMMIT").await.unwrap();
        assert_eq!(db.engine().figures().visible.0, before + 1);
        assert_eq!(rows(&reader, "SELECT b, sum(a) FROM t GROUP BY b ORDER BY b").await, ["x|4", "y|2"]);
        // A COPY that fails fails the transaction, and leaves what a savepoint found.
        all(&writer, &["BEGIN", "CREATE TABLE u (a INT)", "INSERT INTO u VALUES (1)", "SAVEPOINT s"]).await;
        let bad = copy_in(&writer, "COPY u FROM STDIN (FORMAT csv, HEADER false)", "2\nthree\n").await.unwrap_err();
        assert_eq!(bad.kind().sqlstate(), "22P02");
        assert_eq!(refused(&writer, "SELECT * FROM u").await, ErrorKind::FailedTransaction);
        all(&writer, &["ROLLBACK TO s", "COMMIT"]).await;
        assert_eq!(rows(&reader, "SELECT * FROM u").await, ["1"]);
    });
}

#[test]
fn a_restart_keeps_what_was_committed_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let of_t = "SELECT id, c, b FROM t ORDER BY id";
    let committed = ["1|NULL|NULL", "2|NULL|NULL", "3|30|NULL", "4|40|400"];
    {
        let db = open(dir.path());
        block_on(async {
            let session = db.session();
            all(&session, &["CREATE TABLE t (a INT, b TEXT)", "INSERT INTO t VALUES (1, 'one')"]).await;
            // Rows before, between and after what alters their table; a table that comes and goes; one in the place of another.
            all(
                &session,
                &[
                    "BEGIN",
                    "INSERT INTO t VALUES (2, 'two')",
                    "ALTER TABLE t ADD COLUMN c INT",
                    "INSERT INTO t VALUES (3, 'three', 30)",
                    "ALTER TABLE t DROP COLUMN b",
                    "ALTER TABLE t ADD COLUMN b INT",
                    "ALTER TABLE t RENAME COLUMN a TO id",
                    "INSERT INTO t VALUES (4, 40, 400)",
                    "CREATE TABLE passing (a INT)",
                    "INSERT INTO passing VALUES (1)",
                    "DROP TABLE passing",
                    "CREATE TABLE made AS SELECT id, c FROM t WHERE c IS NOT NULL",
                    "ALTER TABLE made ADD COLUMN d TEXT",
                    "COMMIT",
                ],
            )
            .await;
            assert_eq!(rows(&session, of_t).await, committed);
            all(&session, &["BEGIN", "CREATE TABLE lost (a INT)", "INSERT INTO lost VALUES (1)", "DROP TABLE made"])
                .await;
            assert_eq!(rows(&session, "SELECT * FROM lost").await, ["1"]);
        });
    }
    let db = open(dir.path());
    block_on(async {
        let session = db.session();
        assert_eq!(rows(&session, of_t).await, committed);
        assert_eq!(rows(&session, "SELECT * FROM made ORDER BY id").await, ["3|30|NULL", "4|40|NULL"]);
        for name in ["lost", "passing"] {
            assert_eq!(refused(&session, &format!("SELECT * FROM {name}")).await, ErrorKind::UndefinedTable);
        }
        run(&session, "CALL alluvia.merge()").await.unwrap();
        assert_eq!(rows(&session, of_t).await, committed);
    });
}

#[test]
fn who_makes_a_table_in_a_transaction_owns_it_and_may_what_they_might_outside() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    block_on(async {
        let admin = db.session();
        let script = [
            "CREATE ROLE r LOGIN",
            "CREATE ROLE other LOGIN",
            "GRANT CREATE ON DATABASE alluvia TO r",
            "CREATE TABLE secret (a INT)",
        ];
        all(&admin, &script).await;
        let session_of = |user: &str| {
            let session = db.session();
            session.introduce(Client { user: user.to_owned(), protocol: "postgresql", address: String::new() });
            session
        };
        let (r, other) = (session_of("r"), session_of("other"));
        all(&r, &["BEGIN", "CREATE TABLE mine (a INT)", "INSERT INTO mine VALUES (1)", "SAVEPOINT s"]).await;
        for sql in ["SELECT * FROM secret", "DROP TABLE secret", "CREATE TABLE stolen AS SELECT * FROM secret"] {
            assert_eq!(refused(&r, sql).await, ErrorKind::Forbidden, "{sql}");
            run(&r, "ROLLBACK TO s").await.unwrap();
        }
        all(&r, &["ALTER TABLE mine ADD COLUMN b INT", "CREATE TABLE too AS SELECT * FROM mine", "DROP TABLE too"])
            .await;
        // What is revoked is gone at once.
        run(&admin, "REVOKE CREATE ON DATABASE alluvia FROM r").await.unwrap();
        assert_eq!(refused(&r, "CREATE TABLE more (a INT)").await, ErrorKind::Forbidden);
        run(&r, "ROLLBACK TO s").await.unwrap();
        assert_eq!(refused(&r, "COMMIT").await, ErrorKind::Forbidden);
        assert_eq!(refused(&r, "SELECT * FROM mine").await, ErrorKind::UndefinedTable);
        run(&admin, "GRANT CREATE ON DATABASE alluvia TO r").await.unwrap();
        all(&r, &["BEGIN", "CREATE TABLE mine (a INT)", "INSERT INTO mine VALUES (1)", "COMMIT"]).await;
        assert_eq!(rows(&r, "SELECT * FROM mine").await, ["1"]);
        assert_eq!(refused(&other, "SELECT * FROM mine").await, ErrorKind::Forbidden);
        assert_eq!(rows(&admin, "SELECT tableowner FROM pg_tables WHERE tablename = 'mine'").await, ["r"]);
        // A table that has another owner meanwhile is not the transaction's to change any more.
        for change in ["DROP TABLE mine", "ALTER TABLE mine ADD COLUMN b INT"] {
            all(&r, &["BEGIN", change]).await;
            run(&admin, "ALTER TABLE mine OWNER TO other").await.unwrap();
            assert_eq!(refused(&r, "COMMIT").await, ErrorKind::Forbidden, "{change}");
            assert_eq!(rows(&other, "SELECT * FROM mine").await, ["1"], "{change}");
            run(&admin, "ALTER TABLE mine OWNER TO r").await.unwrap();
        }
        // It is the role of the statement that may or may not, and not that of its COMMIT.
        run(&admin, "GRANT other TO r").await.unwrap();
        all(&r, &["BEGIN", "ALTER TABLE mine ADD COLUMN c INT", "SET ROLE other", "COMMIT", "RESET ROLE"]).await;
        assert_eq!(rows(&r, "SELECT * FROM mine").await, ["1|NULL"]);
    });
}

#[test]
fn the_audit_log_names_the_role_that_each_statement_ran_as() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    block_on(async {
        let session = db.session();
        all(&session, &["CREATE ROLE one", "CREATE ROLE two", "CREATE TABLE t (a INT)", "CREATE TABLE u (a INT)"])
            .await;
        all(&session, &["ALTER TABLE t OWNER TO one", "ALTER TABLE u OWNER TO two"]).await;
        all(&session, &["BEGIN", "SET ROLE one", "ALTER TABLE t ADD COLUMN b INT", "SET ROLE two", "DROP TABLE u"])
            .await;
        all(&session, &["RESET ROLE", "CREATE TABLE v (a INT)", "COMMIT"]).await;
        let lines = "SELECT sql, role_name, outcome FROM alluvia.audit WHERE event = 'ddl' \
                     ORDER BY version DESC NULLS LAST, sql LIMIT 3";
        let wanted =
            ["ALTER TABLE t ADD COLUMN b INT|one|done", "CREATE TABLE v (a INT)|NULL|done", "DROP TABLE u|two|done"];
        assert_eq!(rows(&session, lines).await, wanted);
    });
}

#[test]
fn a_transaction_holds_as_much_as_it_may_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    block_on(async {
        let session = db.session();
        all(&session, &["CREATE TABLE t (a BIGINT)", "BEGIN", "SAVEPOINT s"]).await;
        let most = options().tail_bytes_max() / 4 / 8;
        let too_many = format!("INSERT INTO t SELECT value FROM generate_series(1, {})", most + 1_000);
        for sql in [too_many.clone(), too_many.replace("INSERT INTO t", "CREATE TABLE u AS")] {
            let error = run(&session, &sql).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
            assert!(error.hint().is_some_and(|hint| hint.contains("outside of a transaction")), "{error}");
            run(&session, "ROLLBACK TO s").await.unwrap();
        }
        run(&session, "COMMIT").await.unwrap();
        assert_eq!(rows(&session, "SELECT count(*) FROM t").await, ["0"]);
        assert_eq!(refused(&session, "SELECT * FROM u").await, ErrorKind::UndefinedTable);
        // A column that is added to rows that wait is theirs, too: 16 bytes each, where the rows have a bit.
        let narrow = format!("INSERT INTO narrow SELECT value % 2 = 0 FROM generate_series(1, {})", most / 2);
        all(&session, &["CREATE TABLE narrow (a BOOLEAN)", "BEGIN", &narrow, "SAVEPOINT s"]).await;
        assert_eq!(refused(&session, "ALTER TABLE narrow ADD COLUMN b TEXT").await, ErrorKind::OutOfMemory);
        all(&session, &["ROLLBACK TO s", "ALTER TABLE narrow ADD COLUMN b INT", "ROLLBACK"]).await;
        // And so are definitions.
        let columns: Vec<String> = (0..1_000).map(|at| format!("c{at} INT")).collect();
        let columns = columns.join(", ");
        run(&session, "BEGIN").await.unwrap();
        let mut made = 0;
        let error = loop {
            match run(&session, &format!("CREATE TABLE wide{made} ({columns})")).await {
                Ok(()) if made < 200 => made += 1,
                done => break done.unwrap_err(),
            }
        };
        assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
        run(&session, "ROLLBACK").await.unwrap();
    });
}

/// A statement that may or may not fit what there is.
fn statement(random: &mut Random) -> String {
    let table = random.pick(&["t", "u", "v"]);
    let column = random.pick(&["a", "b", "c"]);
    match random.below(11) {
        0 => format!("CREATE TABLE {table} (a INT, b TEXT) WITH (dimensions = 'b', measures = 'a')"),
        1 => format!("CREATE TABLE {table} AS SELECT * FROM {}", random.pick(&["t", "u", "v"])),
        2 => format!("DROP TABLE {table}"),
        3 => format!("ALTER TABLE {table} ADD COLUMN {column} {}", random.pick(&["INT", "TEXT"])),
        4 => format!("ALTER TABLE {table} DROP COLUMN {column}"),
        5 => format!("ALTER TABLE {table} RENAME COLUMN {column} TO {}", random.pick(&["a", "b", "c", "d"])),
        6 => format!("ALTER TABLE {table} RENAME TO {}", random.pick(&["t", "u", "v"])),
        7 => format!("INSERT INTO {table} SELECT * FROM {}", random.pick(&["t", "u", "v"])),
        _ => format!("INSERT INTO {table} ({column}) VALUES ({}), (NULL)", random.below(20)),
    }
}

/// The columns and rows of every table, in an order of their own.
async fn looked(session: &Session) -> Vec<String> {
    let columns = "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'public' \
                   ORDER BY table_name, ordinal_position";
    let mut found = rows(session, columns).await;
    for table in rows(session, "SELECT table_name FROM alluvia.tables ORDER BY table_name").await {
        let mut of_table = rows(session, &format!("SELECT * FROM {table}")).await;
        of_table.sort();
        found.extend(of_table);
        found.extend(rows(session, &format!("SELECT count(*) FROM {table}")).await);
    }
    found
}

/// Statements in a transaction, each behind a savepoint; the model runs each by itself. What ROLLBACK TO undoes, the model never runs.
#[test]
fn statements_of_a_transaction_do_what_they_do_without_one() {
    for seed in 1..=variable("ALLUVIA_TEST_STATEMENTS").unwrap_or(12) {
        let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (seed << 7));
        let dir = tempfile::tempdir().unwrap();
        let (path, model_path) = (dir.path().join("db"), dir.path().join("model"));
        let expected = {
            let (db, model) = (open(&path), open(&model_path));
            block_on(async {
                let (session, plain) = (db.session(), model.session());
                let mut told = Vec::new();
                let start = "CREATE TABLE t (a INT, b TEXT) WITH (dimensions = 'b', measures = 'a')";
                for session in [&session, &plain] {
                    all(session, &[start, "INSERT INTO t VALUES (1, 'x'), (2, NULL)"]).await;
                    if seed & 1 == 0 {
                        run(session, "CALL alluvia.merge()").await.unwrap();
                    }
                }
                run(&session, "BEGIN").await.unwrap();
                for step in 0..25 {
                    let sql = statement(&mut random);
                    told.push(sql.clone());
                    run(&session, "SAVEPOINT s").await.unwrap();
                    let done = run(&session, &sql).await;
                    let is_undone = done.is_ok() && random.below(5) == 0;
                    if is_undone || done.is_err() {
                        run(&session, "ROLLBACK TO s").await.unwrap();
                    }
                    if is_undone {
                        told.push("-- undone".to_owned());
                    } else {
                        let wanted = run(&plain, &sql).await;
                        let kind = |done: &Result<()>| done.as_ref().map_err(Error::kind).copied();
                        assert_eq!(kind(&done), kind(&wanted), "seed {seed}: {told:#?}\n{done:?}\n{wanted:?}");
                    }
                    if step % 5 == 4 {
                        assert_eq!(looked(&session).await, looked(&plain).await, "seed {seed}: {told:#?}");
                    }
                }
                run(&session, "COMMIT").await.unwrap();
                let found = looked(&session).await;
                assert_eq!(found, looked(&plain).await, "seed {seed}: {told:#?}");
                found
            })
        };
        let db = open(&path);
        assert_eq!(block_on(looked(&db.session())), expected, "seed {seed}, after a restart");
    }
}
