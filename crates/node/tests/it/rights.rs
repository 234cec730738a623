//! Who may do what: every kind of statement with every privilege, and what becomes of roles in crashes and restarts.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::support::real::block_on;
use crate::support::shown_rows as rows;
use crate::support::web::{host, plain};
use alluvia_access::LogIn;
use alluvia_copy::Hints;
use alluvia_node::{Database, DatabaseOptions, ServedOptions};
use alluvia_query::{Client, Ingest, Session};
use alluvia_storage::{Disk, FaultDisk, RealDisk, Survival};
use alluvia_syntax::copy::options::CopyOptions;
use alluvia_syntax::copy::streams::Streams;
use alluvia_types::{Clock, Error, ErrorKind, ManualClock, Result};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn options() -> DatabaseOptions {
    DatabaseOptions { memory_limit_bytes: 1 << 30, threads: 2, ..DatabaseOptions::default() }
}

/// A database on the real disk, whose time passes when it is told to.
fn timed(dir: &Path, options: DatabaseOptions) -> (Database, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let there = Arc::clone(&clock) as Arc<dyn Clock>;
    (Database::open_on(Arc::new(RealDisk::new()), there, dir, options).unwrap(), clock)
}

fn session_of(db: &Database, user: &str) -> Session {
    let session = db.session();
    session.introduce(Client { user: user.to_owned(), protocol: "postgresql", address: "10.0.0.1:77".to_owned() });
    session
}

async fn run(session: &Session, sql: &str) -> Result<()> {
    session.sql(sql).await?.collect().await.map(|_| ())
}

async fn all(session: &Session, script: &str) {
    for statement in script.split(';').filter(|statement| !statement.trim().is_empty()) {
        run(session, statement).await.unwrap_or_else(|error| panic!("{statement}\n{error}"));
    }
}

/// What makes a statement possible: the GRANT, as a superuser writes it.
const SELECT_A: &str = "GRANT SELECT ON a TO r";
const SELECT_B: &str = "GRANT SELECT ON b TO r";
const INSERT_A: &str = "GRANT INSERT ON a TO r";
const CREATE: &str = "GRANT CREATE ON DATABASE alluvia TO r";
const READ_FILES: &str = "GRANT pg_read_server_files TO r";
const WRITE_FILES: &str = "GRANT pg_write_server_files TO r";
const READ_URLS: &str = "GRANT pg_read_server_urls TO r";
const OWN_A: &str = "ALTER TABLE a OWNER TO r";
const SUPER: &str = "ALTER ROLE r SUPERUSER";
/// All of them but the last, with which everything is possible.
const GRANTS: [&str; 8] = [SELECT_A, SELECT_B, INSERT_A, CREATE, READ_FILES, WRITE_FILES, READ_URLS, OWN_A];

/// A statement, and the grants of which it needs every one.
fn matrix(file: &str, out: &str, url: &str) -> Vec<(String, Vec<&'static str>)> {
    let cases: Vec<(&str, Vec<&'static str>)> = vec![
        ("SELECT 1", vec![]),
        ("SELECT * FROM a", vec![SELECT_A]),
        ("SELECT k, count(*), sum(v) FROM a GROUP BY k", vec![SELECT_A]),
        ("SELECT sum(v) FROM a WHERE k = 'x'", vec![SELECT_A]),
        ("SELECT count(*) FROM public.a", vec![SELECT_A]),
        ("SELECT 1 FROM a AS x JOIN b AS y ON x.k = y.k", vec![SELECT_A, SELECT_B]),
        ("SELECT (SELECT max(v) FROM b) FROM a", vec![SELECT_A, SELECT_B]),
        ("SELECT v FROM a WHERE k IN (SELECT k FROM b)", vec![SELECT_A, SELECT_B]),
        ("WITH b AS (SELECT * FROM a) SELECT count(*) FROM b", vec![SELECT_A]),
        ("WITH x AS (SELECT * FROM b) SELECT count(*) FROM x", vec![SELECT_B]),
        ("SELECT v FROM a UNION ALL SELECT v FROM b", vec![SELECT_A, SELECT_B]),
        ("SELECT v FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k)", vec![SELECT_A, SELECT_B]),
        ("SELECT * FROM a TABLESAMPLE BERNOULLI (50)", vec![SELECT_A]),
        ("SELECT * FROM thin(a, max_rows => 10)", vec![SELECT_A]),
        ("SELECT relname, (SELECT count(*) FROM a) FROM pg_class LIMIT 1", vec![SELECT_A]),
        ("EXPLAIN SELECT * FROM a", vec![SELECT_A]),
        ("EXPLAIN ANALYZE SELECT k, sum(v) FROM a GROUP BY k", vec![SELECT_A]),
        ("DECLARE c CURSOR WITH HOLD FOR SELECT * FROM a", vec![SELECT_A]),
        ("INSERT INTO a VALUES ('x', 1)", vec![INSERT_A]),
        ("INSERT INTO a SELECT * FROM b", vec![INSERT_A, SELECT_B]),
        ("INSERT INTO a SELECT k, v + 1 FROM a LIMIT 1", vec![INSERT_A, SELECT_A]),
        ("COPY a TO '{out}'", vec![SELECT_A, WRITE_FILES]),
        ("COPY (SELECT * FROM b) TO '{out}'", vec![SELECT_B, WRITE_FILES]),
        ("COPY a FROM '{file}' WITH (HEADER true)", vec![INSERT_A, READ_FILES]),
        (
            "COPY a FROM '{file}' WITH (HEADER true, ON_ERROR skip, REJECTS '{out}.rejects')",
            vec![INSERT_A, READ_FILES, WRITE_FILES],
        ),
        ("COPY a FROM '{file}' WITH (HEADER true, ON_ERROR skip)", vec![INSERT_A, READ_FILES, WRITE_FILES]),
        ("COPY a FROM '{url}' WITH (HEADER true)", vec![INSERT_A, READ_URLS]),
        ("COPY a FROM '{url}', '{file}' WITH (HEADER true)", vec![INSERT_A, READ_FILES, READ_URLS]),
        ("CREATE TABLE new (x INT)", vec![CREATE]),
        ("CREATE TABLE new AS SELECT * FROM b", vec![CREATE, SELECT_B]),
        ("ALTER TABLE a ADD COLUMN more INT", vec![OWN_A]),
        ("ALTER TABLE a RENAME TO c", vec![OWN_A]),
        ("ALTER TABLE a OWNER TO r", vec![OWN_A]),
        ("ALTER TABLE a OWNER TO CURRENT_USER", vec![OWN_A]),
        ("DROP TABLE a", vec![OWN_A]),
        ("DROP TABLE IF EXISTS a, nothing", vec![OWN_A]),
        ("GRANT SELECT ON a TO PUBLIC", vec![OWN_A]),
        ("REVOKE ALL ON a FROM PUBLIC", vec![OWN_A]),
        ("CALL alluvia.pin_cuboid('a', 'k')", vec![OWN_A]),
        ("ALTER TABLE a OWNER TO other", vec![SUPER]),
        ("GRANT SELECT ON ALL TABLES IN SCHEMA public TO PUBLIC", vec![SUPER]),
        ("GRANT CREATE ON DATABASE alluvia TO PUBLIC", vec![SUPER]),
        ("GRANT other TO r", vec![SUPER]),
        ("REVOKE other FROM r", vec![SUPER]),
        ("CREATE ROLE x", vec![SUPER]),
        ("DROP ROLE other", vec![SUPER]),
        ("ALTER ROLE other LOGIN", vec![SUPER]),
        ("ALTER ROLE r SUPERUSER", vec![SUPER]),
        ("ALTER ROLE r RENAME TO s", vec![SUPER]),
        ("ALTER ROLE other SET max_error = 0.1", vec![SUPER]),
        ("SET ROLE other", vec![SUPER]),
        ("SELECT * FROM alluvia.audit", vec![SUPER]),
        ("CALL alluvia.flush()", vec![SUPER]),
        ("CALL alluvia.merge()", vec![SUPER]),
        ("CALL alluvia.build_cuboids()", vec![SUPER]),
        ("ALTER ROLE r PASSWORD 'mine'", vec![]),
        ("ALTER ROLE r SET max_error = 0.1", vec![]),
        ("ALTER ROLE r RESET ALL", vec![]),
        ("DESCRIBE a", vec![]),
        ("SHOW TABLES", vec![]),
        ("SHOW CREATE TABLE a", vec![]),
        ("SHOW ALL", vec![]),
        ("SET max_error = 0.5", vec![]),
        ("SET ROLE r", vec![]),
        ("SELECT count(*) FROM alluvia.tables", vec![]),
        ("SELECT count(*) FROM pg_class", vec![]),
        ("BEGIN", vec![]),
        ("DISCARD ALL", vec![]),
    ];
    let filled = |sql: &str| sql.replace("{file}", file).replace("{out}", out).replace("{url}", url);
    cases.into_iter().map(|(sql, needs)| (filled(sql), needs)).collect()
}

/// A database as every case finds it: tables `a` and `b`, roles `r` and `other`.
async fn prepared(db: &Database) {
    let admin = db.session();
    all(
        &admin,
        "CREATE TABLE a (k TEXT, v BIGINT) WITH (dimensions = 'k', measures = 'v');
         CREATE TABLE b (k TEXT, v BIGINT) WITH (dimensions = 'k', measures = 'v');
         INSERT INTO a VALUES ('x', 1), ('y', 2); INSERT INTO b VALUES ('x', 3);
         CREATE ROLE r LOGIN; CREATE ROLE other; CALL alluvia.flush()",
    )
    .await;
}

/// Takes back what a case granted or did.
async fn cleared(db: &Database) {
    let admin = db.session();
    for sql in [
        "DROP TABLE IF EXISTS a, b, c, new",
        "DROP ROLE IF EXISTS r, s, x",
        "DROP ROLE IF EXISTS other",
        "REVOKE CREATE ON DATABASE alluvia FROM PUBLIC",
    ] {
        run(&admin, sql).await.unwrap_or_else(|error| panic!("{sql}\n{error}"));
    }
}

#[test]
fn every_kind_of_statement_needs_each_of_its_privileges_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("in.csv");
    std::fs::write(&file, "k,v\nz,9\n").unwrap();
    let out = dir.path().join("out.csv");
    let host = host(|_| plain("k,v\nz,9\n"));
    let served = ServedOptions {
        copy_roots: vec![dir.path().to_owned()],
        copy_hosts: vec![host.to_string()],
        ..ServedOptions::default()
    };
    let (db, clock) = timed(&dir.path().join("db"), DatabaseOptions { served, ..options() });
    let url = format!("http://{host}/in.csv");
    block_on(async {
        for (sql, needs) in matrix(&file.display().to_string(), &out.display().to_string(), &url) {
            let granted = |without: Option<&str>| -> Vec<&'static str> {
                let wanted = needs.iter().copied().filter(|need| Some(*need) != without);
                wanted.collect()
            };
            // With all that it needs, and with all but each.
            let mut tries: Vec<(Vec<&str>, bool)> = vec![(granted(None), true)];
            tries.extend(needs.iter().map(|need| (granted(Some(need)), false)));
            // With all that it does not need.
            if !needs.is_empty() {
                // An owner needs no grants.
                let on_a = [SELECT_A, INSERT_A].iter().any(|need| needs.contains(need));
                let is_other = |grant: &&str| !(needs.contains(grant) || *grant == OWN_A && on_a);
                tries.push((GRANTS.into_iter().filter(is_other).collect(), false));
            }
            for (grants, allowed) in tries {
                prepared(&db).await;
                // Within a minute not every refusal would have its line.
                clock.advance(Duration::from_secs(60));
                let admin = db.session();
                for grant in &grants {
                    run(&admin, grant).await.unwrap_or_else(|error| panic!("{grant}\n{error}"));
                }
                let session = session_of(&db, "r");
                let result = run(&session, &sql).await;
                match (&result, allowed) {
                    (Ok(()), true) => {}
                    (Err(error), false) if error.kind() == ErrorKind::Forbidden => {
                        assert!(error.hint().is_some(), "{sql}: {error}");
                        let audited = rows(
                            &admin,
                            "SELECT user_name, event, sqlstate, client_address FROM alluvia.audit LIMIT 1",
                        );
                        assert_eq!(audited.await, ["r|refused|42501|10.0.0.1:77"], "{sql}");
                    }
                    _ => panic!("{sql}\nwith {grants:?}, allowed: {allowed}\n{result:?}"),
                }
                drop(session);
                cleared(&db).await;
            }
        }
    });
}

#[test]
fn refused_statements_of_one_user_have_few_lines_a_minute_and_one_that_counts_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let (db, clock) = timed(&dir.path().join("db"), options());
    block_on(async {
        let admin = db.session();
        all(&admin, "CREATE TABLE t (v BIGINT); CREATE ROLE r LOGIN; CREATE ROLE s LOGIN").await;
        let lines = "SELECT user_name, outcome, count(*) FROM alluvia.audit WHERE event = 'refused' GROUP BY user_name, outcome \
                     ORDER BY user_name, outcome";
        let (r, s) = (session_of(&db, "r"), session_of(&db, "s"));
        for _ in 0..100 {
            assert_eq!(run(&r, "SELECT * FROM t").await.unwrap_err().kind(), ErrorKind::Forbidden);
        }
        assert_eq!(run(&s, "SELECT * FROM t").await.unwrap_err().kind(), ErrorKind::Forbidden);
        assert_eq!(rows(&admin, lines).await, ["r|refused|60", "s|refused|1"]);
        clock.advance(Duration::from_secs(60));
        assert!(run(&s, "SELECT * FROM t").await.is_err());
        assert_eq!(rows(&admin, lines).await, ["r|left_out|1", "r|refused|60", "s|refused|2"]);
        let told = rows(&admin, "SELECT message FROM alluvia.audit WHERE outcome = 'left_out'").await;
        assert_eq!(told, ["40 refused statements of this user were left out"]);
    });
}

/// What programs and servers ask for without the text of a statement.
#[test]
fn rows_from_programs_need_insert_however_they_come() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open_with(dir.path(), options()).unwrap();
    block_on(async {
        let admin = db.session();
        all(&admin, "CREATE TABLE t (v BIGINT); CREATE ROLE r LOGIN").await;
        let batch = || {
            let column: ArrayRef = Arc::new(Int64Array::from_iter_values([1]));
            RecordBatch::try_from_iter([("v", column)]).unwrap()
        };
        let session = session_of(&db, "r");
        for allowed in [false, true, false] {
            let answers = [
                session.append("t", vec![batch()]).await.map(|_| ()),
                session.append_stream("t", futures::stream::iter([Ok(batch())])).await.map(|_| ()),
                session
                    .ingest(
                        Ingest {
                            table: "t".into(),
                            columns: Vec::new(),
                            options: CopyOptions::default(),
                            is_array: false,
                            key: None,
                            name: "the body".to_owned(),
                            bytes_max: 1_000,
                            hints: Hints::default(),
                        },
                        Box::new("7\n".as_bytes()),
                    )
                    .await
                    .map(|_| ()),
                async {
                    let copy = session.parse("COPY t FROM STDIN")?.remove(0);
                    let streams = Streams { stdin: Some(Box::new("8\n".as_bytes())), stdout: None };
                    session.execute_with(copy, streams).await.map(|_| ())
                }
                .await,
                async {
                    let prepared = session.prepare("INSERT INTO t VALUES ($1)")?;
                    session.execute_prepared(&prepared, &[1_i64.into()]).await.map(|_| ())
                }
                .await,
                async {
                    let statement = session.parse("INSERT INTO t VALUES ($1)")?.remove(0);
                    session.describe(&statement, &[None]).await.map(|_| ())
                }
                .await,
            ];
            for (at, answer) in answers.into_iter().enumerate() {
                let refused = answer.as_ref().err().map(Error::kind);
                // The format of a body that is not stated is an error of its own, after the rights.
                let is_right =
                    if allowed { refused != Some(ErrorKind::Forbidden) } else { refused == Some(ErrorKind::Forbidden) };
                assert!(is_right, "{at}: {answer:?} (allowed: {allowed})");
            }
            let next = if allowed { "REVOKE INSERT ON t FROM r" } else { "GRANT INSERT ON t TO r" };
            run(&admin, next).await.unwrap();
        }
        // Nobody has read.
        let statement = session.parse("SELECT v FROM t").unwrap().remove(0);
        assert_eq!(session.describe(&statement, &[]).await.unwrap_err().kind(), ErrorKind::Forbidden);
    });
}

/// An answer that was ready at once for one role is not ready for another, nor for the same after a REVOKE.
#[test]
fn answers_that_are_kept_are_given_to_those_who_may_have_them() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open_with(dir.path(), options()).unwrap();
    block_on(async {
        let admin = db.session();
        prepared(&db).await;
        all(&admin, "GRANT SELECT ON a TO r; CREATE ROLE stranger LOGIN; CALL alluvia.pin_cuboid('a', 'k')").await;
        let sql = "SELECT sum(v) FROM a WHERE k = 'x'";
        let (reader, stranger) = (session_of(&db, "r"), session_of(&db, "stranger"));
        let prepared = stranger.prepare(sql).unwrap();
        for _ in 0..3 {
            assert_eq!(rows(&reader, sql).await, ["1"]);
            assert_eq!(rows(&admin, sql).await, ["1"]);
            assert_eq!(run(&stranger, sql).await.unwrap_err().kind(), ErrorKind::Forbidden);
            assert_eq!(stranger.execute_prepared(&prepared, &[]).await.unwrap_err().kind(), ErrorKind::Forbidden);
        }
        // Also within a transaction, whose snapshot is older.
        run(&reader, "BEGIN").await.unwrap();
        assert_eq!(rows(&reader, sql).await, ["1"]);
        run(&admin, "REVOKE SELECT ON a FROM r").await.unwrap();
        assert_eq!(run(&reader, sql).await.unwrap_err().kind(), ErrorKind::Forbidden);
        run(&reader, "ROLLBACK").await.unwrap();
        assert_eq!(run(&reader, sql).await.unwrap_err().kind(), ErrorKind::Forbidden);
    });
}

#[test]
fn a_user_sees_and_cancels_what_is_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open_with(dir.path(), options()).unwrap();
    block_on(async {
        let admin = db.session();
        prepared(&db).await;
        all(&admin, "GRANT SELECT ON a TO r; CREATE ROLE stranger LOGIN").await;
        let (reader, stranger) = (session_of(&db, "r"), session_of(&db, "stranger"));
        run(&reader, "SELECT * FROM a WHERE v % 12345 = 12345").await.unwrap();
        let queries = "SELECT count(*) FROM alluvia.queries WHERE sql LIKE '%12345' AND sql LIKE '% FROM a %'";
        let sessions = "SELECT count(*) > 1 FROM alluvia.sessions";
        let predicates = "SELECT count(*) > 0 FROM alluvia.predicate_cache";
        for (session, sees) in [(&admin, true), (&reader, true), (&stranger, false)] {
            assert_eq!(rows(session, queries).await, [if sees { "1" } else { "0" }]);
            assert_eq!(rows(session, predicates).await, [sees.to_string()]);
        }
        assert_eq!(rows(&admin, sessions).await, ["true"]);
        assert_eq!(rows(&stranger, sessions).await, ["false"]);
        let cancel = format!("CALL alluvia.cancel({})", reader.id());
        assert_eq!(run(&stranger, &cancel).await.unwrap_err().kind(), ErrorKind::Forbidden);
        // Nothing runs: whoever may ask is told that.
        assert_eq!(run(&admin, &cancel).await.unwrap_err().kind(), ErrorKind::UndefinedObject);
        let own = session_of(&db, "r");
        assert_eq!(run(&own, &cancel).await.unwrap_err().kind(), ErrorKind::UndefinedObject);
    });
}

#[test]
fn figures_of_a_table_are_told_to_those_who_may_read_it() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open_with(dir.path(), options()).unwrap();
    block_on(async {
        let admin = db.session();
        prepared(&db).await;
        all(
            &admin,
            "GRANT SELECT ON a TO r; CALL alluvia.pin_cuboid('a', 'k'); CALL alluvia.pin_cuboid('b', 'k');
             BEGIN; INSERT INTO a VALUES ('z', 9); INSERT INTO b VALUES ('z', 9); COMMIT; CALL alluvia.flush()",
        )
        .await;
        let reader = session_of(&db, "r");
        let tables = "SELECT table_name, coalesce(\"rows\", -1), bytes IS NULL FROM alluvia.tables ORDER BY 1";
        let of_schema = "SELECT relname, CAST(reltuples AS BIGINT), pg_table_size(oid) IS NULL FROM pg_class WHERE relname IN ('a', 'b') ORDER BY 1";
        let live = "SELECT relname, n_live_tup FROM pg_stat_user_tables ORDER BY 1";
        // The names of tables are everybody's.
        let cases: [(&str, &[&str], &[&str]); 7] = [
            (tables, &["a|3|false", "b|2|false"], &["a|3|false", "b|-1|true"]),
            (of_schema, &["a|3|false", "b|2|false"], &["a|3|false", "b|-1|true"]),
            (live, &["a|3", "b|2"], &["a|3", "b|0"]),
            ("SELECT table_name FROM alluvia.cuboids ORDER BY 1", &["a", "b"], &["a"]),
            ("SELECT DISTINCT table_name FROM alluvia.stages ORDER BY 1", &["a", "b"], &["a"]),
            ("SELECT DISTINCT table_name FROM alluvia.segments ORDER BY 1", &["a", "b"], &["a"]),
            // A batch of several tables has one number of rows.
            ("SELECT DISTINCT tables FROM alluvia.batches WHERE \"rows\" > 0 ORDER BY 1", &["a", "a, b", "b"], &["a"]),
        ];
        for (sql, of_admin, of_reader) in cases {
            assert_eq!(rows(&admin, sql).await, of_admin, "{sql}");
            assert_eq!(rows(&reader, sql).await, of_reader, "{sql}");
        }
        // Of a table that was dropped nobody knows who could read it.
        all(&admin, "DROP TABLE a").await;
        let dropped = "SELECT count(*) > 0 FROM alluvia.batches WHERE tables LIKE '%dropped%'";
        assert_eq!(
            (rows(&admin, dropped).await, rows(&reader, dropped).await),
            (vec!["true".to_owned()], vec!["false".to_owned()])
        );
    });
}

#[test]
fn a_renamed_role_sees_what_is_its_own_and_nothing_of_its_names_next_owner() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open_with(dir.path(), options()).unwrap();
    block_on(async {
        let admin = db.session();
        all(&admin, "CREATE ROLE r LOGIN").await;
        let old = session_of(&db, "r");
        run(&old, "SELECT 11111").await.unwrap();
        all(&admin, "ALTER ROLE r RENAME TO s; CREATE ROLE r LOGIN").await;
        let (renamed, next) = (session_of(&db, "s"), session_of(&db, "r"));
        run(&next, "SELECT 22222").await.unwrap();
        let queries = "SELECT count(*) FILTER (WHERE sql = 'SELECT 11111'), count(*) FILTER (WHERE sql = 'SELECT 22222') FROM alluvia.queries";
        for (session, sees) in [(&admin, "1|1"), (&old, "1|0"), (&renamed, "1|0"), (&next, "0|1")] {
            assert_eq!(rows(session, queries).await, [sees]);
        }
        let sessions = "SELECT session_id FROM alluvia.sessions ORDER BY 1";
        for session in [&old, &renamed] {
            assert_eq!(rows(session, sessions).await, [old.id().to_string(), renamed.id().to_string()]);
        }
        assert_eq!(rows(&next, sessions).await, [next.id().to_string()]);
        let cancel = |session: &Session| format!("CALL alluvia.cancel({})", session.id());
        assert_eq!(run(&old, &cancel(&next)).await.unwrap_err().kind(), ErrorKind::Forbidden);
        assert_eq!(run(&next, &cancel(&old)).await.unwrap_err().kind(), ErrorKind::Forbidden);
        // Nothing runs there, which is told to those who may ask.
        assert_eq!(run(&renamed, &cancel(&old)).await.unwrap_err().kind(), ErrorKind::UndefinedObject);
    });
}

#[test]
fn a_session_whose_role_goes_may_nothing_also_when_the_name_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open_with(dir.path(), options()).unwrap();
    block_on(async {
        let admin = db.session();
        all(&admin, "CREATE ROLE r LOGIN; CREATE ROLE sleeper; CREATE TABLE t (v INT); GRANT SELECT ON t TO PUBLIC")
            .await;
        let old = session_of(&db, "r");
        assert_eq!(rows(&old, "SELECT count(*) FROM t").await, ["0"]);
        all(&admin, "DROP ROLE r; CREATE ROLE r LOGIN SUPERUSER").await;
        for sql in ["SELECT 1", "SELECT count(*) FROM t", "SET ROLE r", "BEGIN"] {
            assert_eq!(run(&old, sql).await.unwrap_err().kind(), ErrorKind::Forbidden, "{sql}");
        }
        assert_eq!(rows(&session_of(&db, "r"), "SELECT current_user").await, ["r"]);
        // Whoever may not log in is nobody, whoever says that they are.
        assert_eq!(run(&session_of(&db, "sleeper"), "SELECT 1").await.unwrap_err().kind(), ErrorKind::Forbidden);
        all(&admin, "REVOKE CONNECT ON DATABASE alluvia FROM PUBLIC; CREATE ROLE far LOGIN").await;
        assert_eq!(run(&session_of(&db, "far"), "SELECT 1").await.unwrap_err().kind(), ErrorKind::Forbidden);
        // Without a role, a name is trusted only while no server has said whom it trusts.
        assert_eq!(rows(&session_of(&db, "anybody"), "SHOW is_superuser").await, ["on"]);
        let _directory = db.engine().directory(["ops"]);
        assert_eq!(run(&session_of(&db, "anybody"), "SELECT 1").await.unwrap_err().kind(), ErrorKind::Forbidden);
        assert_eq!(rows(&session_of(&db, "ops"), "SHOW is_superuser").await, ["on"]);
        assert_eq!(rows(&db.session(), "SHOW is_superuser").await, ["on"]);
    });
}

#[test]
fn who_set_a_role_that_is_theirs_no_longer_can_go_back() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open_with(dir.path().join("db"), options()).unwrap();
        let admin = db.session();
        all(&admin, "CREATE TABLE t (a INT); CREATE ROLE g; CREATE ROLE ann LOGIN IN ROLE g; GRANT SELECT ON t TO g")
            .await;
        let ann = session_of(&db, "ann");
        all(&ann, "SET ROLE g; BEGIN; SELECT count(*) FROM t").await;
        all(&admin, "REVOKE g FROM ann").await;
        assert_eq!(run(&ann, "SELECT count(*) FROM t").await.unwrap_err().kind(), ErrorKind::Forbidden);
        all(&ann, "ROLLBACK; RESET ROLE; SELECT 1").await;
        assert_eq!(run(&ann, "SELECT count(*) FROM t").await.unwrap_err().kind(), ErrorKind::Forbidden);
        run(&admin, "EXPLAIN CREATE ROLE y PASSWORD 'not to be seen'").await.unwrap_err();
        assert_eq!(
            rows(&admin, "SELECT count(*) FROM alluvia.queries WHERE sql LIKE '%not to be ' || 'seen%'").await,
            ["0"]
        );
        let refused = run(&admin, "CREATE ROLE x IN ROLE alluvia").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidDefinition, "{refused}");
    });
}

#[test]
fn settings_of_a_role_are_what_its_sessions_begin_with() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open_with(dir.path(), options()).unwrap();
    block_on(async {
        let admin = db.session();
        all(&admin, "CREATE ROLE r LOGIN; ALTER ROLE r SET max_error = 0.01; ALTER ROLE r SET freshness = '5s'").await;
        let session = session_of(&db, "r");
        assert_eq!(rows(&session, "SHOW max_error").await, ["0.01"]);
        // A client's own come after them, and RESET goes back to those.
        session.start_with("max_error", "0.2").unwrap();
        run(&session, "SET max_error = 0.3").await.unwrap();
        run(&session, "RESET max_error").await.unwrap();
        assert_eq!(rows(&session, "SHOW max_error").await, ["0.2"]);
        assert_eq!(rows(&session, "SHOW freshness").await, ["5s"]);
        assert_eq!(rows(&admin, "SHOW max_error").await, ["0"]);
        run(&admin, "ALTER ROLE r RESET ALL").await.unwrap();
        assert_eq!(rows(&session_of(&db, "r"), "SHOW max_error").await, ["0"]);
        assert_eq!(rows(&session, "SHOW freshness").await, ["5s"]);
    });
}

/// Everything that is known of roles and grants, as SQL shows it.
async fn shown(db: &Database) -> Vec<String> {
    let admin = db.session();
    let mut all = Vec::new();
    for sql in [
        "SELECT oid, rolname, rolsuper, rolcanlogin, rolconfig FROM pg_roles ORDER BY 1",
        "SELECT roleid, member FROM pg_auth_members ORDER BY 1, 2",
        "SELECT relname, relowner, relacl FROM pg_class WHERE relnamespace = 2200 ORDER BY 1",
        "SELECT datacl FROM pg_database",
    ] {
        all.extend(rows(&admin, sql).await);
    }
    all
}

const HISTORY: &str = "CREATE TABLE t (v INT); CREATE TABLE u (v INT); CREATE ROLE g; CREATE ROLE r LOGIN PASSWORD 'secret word' IN ROLE g;
    ALTER ROLE r SET max_error = 0.25; GRANT SELECT, INSERT ON t, u TO g; REVOKE INSERT ON u FROM g; GRANT UPDATE ON t TO PUBLIC;
    ALTER TABLE u OWNER TO g; CREATE ROLE gone; GRANT SELECT ON t TO gone; DROP ROLE gone; DROP TABLE u;
    GRANT CREATE ON DATABASE alluvia TO r; CREATE ROLE late";

#[test]
fn roles_survive_restarts_from_the_log_and_from_the_manifest() {
    let dir = tempfile::tempdir().unwrap();
    let mut before = Vec::new();
    for round in 0..3 {
        let db = Database::open_with(dir.path(), options()).unwrap();
        block_on(async {
            if round == 0 {
                all(&db.session(), HISTORY).await;
                before = shown(&db).await;
            }
            assert_eq!(shown(&db).await, before, "round {round}");
            // The next one finds them in the manifest.
            run(&db.session(), "CALL alluvia.flush()").await.unwrap();
            let events =
                rows(&db.session(), "SELECT count(*) FROM alluvia.audit WHERE event = 'rights' AND outcome = 'done'")
                    .await;
            assert_eq!(events, ["12"], "round {round}");
        });
    }
    // Of the password nothing is anywhere but what it is checked by.
    let mut files = vec![dir.path().to_owned()];
    let mut verifiers = 0;
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let has = |wanted: &[u8]| bytes.windows(wanted.len()).any(|window| window == wanted);
        assert!(!has(b"secret word"), "{}", path.display());
        verifiers += usize::from(has(b"SCRAM-SHA-256$"));
    }
    assert!(verifiers > 0);
}

/// What the audit log's lines are, byte for byte: other programs read them.
#[test]
fn lines_of_the_audit_log_are_as_they_are_specified() {
    let spill = tempfile::tempdir().unwrap();
    let options = DatabaseOptions { spill_dir: Some(spill.path().into()), ..options() };
    let (disk, clock) = (FaultDisk::new(), Arc::new(ManualClock::default()));
    let there = Arc::clone(&clock) as Arc<dyn Clock>;
    let db = Database::open_on(Arc::clone(&disk) as Arc<dyn Disk>, there, Path::new("/db"), options).unwrap();
    block_on(async {
        let admin = db.session();
        all(&admin, "CREATE TABLE t (v INT); CREATE ROLE r LOGIN PASSWORD 'word'; CREATE ROLE late").await;
    });
    block_on(async {
        let session = session_of(&db, "r");
        assert!(run(&session, "SELECT * FROM t").await.is_err());
    });
    let (near, far) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
    block_on(async {
        // Without passwords: a connection each, and requests of an hour together.
        for (user, protocol, kind) in [
            ("r", "postgresql", LogIn::Lasting),
            ("r", "postgresql", LogIn::Lasting),
            ("anonymous", "http", LogIn::Request),
            ("anonymous", "http", LogIn::Request),
            ("late", "flight", LogIn::Lasting),
        ] {
            db.engine().trusted(user, protocol, near, kind).await;
        }
    });
    // With passwords: a token each, and of those that are refused few lines, with one that says how many there were.
    let directory = db.engine().directory(["alluvia"]);
    directory.admit("r", "flight", near, LogIn::Lasting).unwrap();
    directory.admit("r", "flight", near, LogIn::Lasting).unwrap();
    assert!(directory.admit("late", "postgresql", near, LogIn::Lasting).is_err());
    (0..25).for_each(|_| directory.refused("nobody", "http", far, "wrong password"));
    clock.advance(Duration::from_secs(60));
    directory.admit("alluvia", "http", near, LogIn::Request).unwrap();
    directory.admit("alluvia", "http", near, LogIn::Request).unwrap();
    let file = disk.open(Path::new("/db/audit/00000001.ndjson")).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    // 01 is the same without chains, which are sha256sum's.
    let (found, wanted) = (String::from_utf8(bytes).unwrap(), include_str!("../golden/audit-02.ndjson"));
    assert_eq!(found.lines().collect::<Vec<_>>(), wanted.lines().collect::<Vec<_>>());
    let unchained = |line: &str| {
        line.split(",\"after\"").next().and_then(|line| line.split(",\"chain\"").next()).map(|line| format!("{line}}}"))
    };
    let unchained: Vec<String> = wanted.lines().filter_map(unchained).collect();
    assert_eq!(unchained, include_str!("../golden/audit-01.ndjson").lines().collect::<Vec<_>>());
    let shown = "SELECT count(*), count(sqlstate), count(DISTINCT client_address) FROM alluvia.audit";
    assert_eq!(block_on(rows(&db.session(), shown)), [format!("{}|13|3", wanted.lines().count())]);
}

/// Each statement is one batch: after a loss of power at any call of the disk, a prefix of them has happened, and each that was
/// acknowledged; and each that happened has a line in the audit log.
#[test]
fn a_crash_leaves_a_prefix_of_the_changes_of_roles() {
    let spill = tempfile::tempdir().unwrap();
    let options = DatabaseOptions { spill_dir: Some(spill.path().into()), ..options() };
    let open = |disk: &Arc<FaultDisk>| {
        let clock = Arc::new(ManualClock::default());
        Database::open_on(Arc::clone(disk) as Arc<dyn Disk>, clock, Path::new("/db"), options.clone())
    };
    let statements: Vec<&str> = HISTORY.split(';').map(str::trim).collect();
    // What is shown after each statement.
    let disk = FaultDisk::new();
    let mut states = Vec::new();
    let db = open(&disk).unwrap();
    block_on(async {
        states.push(shown(&db).await);
        for sql in &statements {
            run(&db.session(), sql).await.unwrap();
            states.push(shown(&db).await);
        }
    });
    drop(db);
    let calls = disk.calls();
    let mut partly = 0;
    for at in (1..calls).step_by(calls as usize / 40 + 1) {
        let disk = FaultDisk::new();
        disk.fail_after(at);
        let mut acknowledged = 0;
        if let Ok(db) = open(&disk) {
            block_on(async {
                for sql in &statements {
                    if run(&db.session(), sql).await.is_err() {
                        break;
                    }
                    acknowledged += 1;
                }
            });
        }
        partly += usize::from(acknowledged > 0 && acknowledged < statements.len());
        for survival in [Survival::SyncedOnly, Survival::Torn { seed: at }] {
            let db = open(&disk.after_power_loss(survival)).unwrap();
            block_on(async {
                let found = shown(&db).await;
                let happened = states.iter().skip(acknowledged).take(2).position(|state| *state == found);
                let happened =
                    happened.unwrap_or_else(|| panic!("power lost at {at}, {acknowledged} acknowledged: {found:?}"));
                let lines = "SELECT count(*) FROM alluvia.audit WHERE outcome = 'begins'";
                let lines: usize = rows(&db.session(), lines).await[0].parse().unwrap();
                assert!(lines >= acknowledged + happened, "power lost at {at}: {lines} lines");
            });
        }
    }
    assert!(partly > 5, "{partly}");
}
