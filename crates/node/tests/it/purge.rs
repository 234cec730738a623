//! `CALL alluvia.purge`: nothing of what was deleted is left in the directory, whoever reads is waited for and told of, and who may not
//! delete may not purge.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::support::real::{block_on, open};
use crate::support::shown_rows as rows;
use alluvia_query::Session;
use alluvia_types::{ErrorKind, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Random, so that nothing compresses it.
const WHO: &str = "vK2p9XcQ7rLz4TfB";
const NOTE: &str = "m1Nw8Yd6HsJ3gE0a";

async fn run(session: &Session, sql: &str) -> Result<Vec<String>> {
    let outcome = session.sql(sql).await?;
    let notices = outcome.notices().to_vec();
    outcome.collect().await.map(|_| notices)
}

async fn all(session: &Session, script: &[&str]) {
    for statement in script {
        run(session, statement).await.unwrap_or_else(|error| panic!("{statement}\n{error}"));
    }
}

/// Files below a directory that have one of the marks.
fn marked(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(marked(&path));
            continue;
        }
        // A file may go while it is looked for.
        let Ok(bytes) = fs::read(&path) else { continue };
        let has = |mark: &str| bytes.windows(mark.len()).any(|window| window == mark.as_bytes());
        if has(WHO) || has(NOTE) {
            found.push(path);
        }
    }
    found
}

fn names(found: &[PathBuf]) -> Vec<String> {
    found.iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect()
}

async fn fill(session: &Session) {
    let insert = |from: u32, to: u32| {
        format!(
            "INSERT INTO v SELECT n, CASE WHEN n % 10 = 0 THEN '{WHO}' ELSE 'u' || n % 7 END, \
             CASE WHEN n % 10 = 0 THEN '{NOTE}' ELSE 'note ' || n END, n FROM generate_series({from}, {to}) AS s(n)"
        )
    };
    let create = "CREATE TABLE v (id BIGINT PRIMARY KEY, who TEXT, note TEXT, ms INT) \
                  WITH (dimensions = 'who', measures = 'ms')";
    all(session, &[create, &insert(1, 20_000), "CALL alluvia.merge()", &insert(20_001, 20_100)]).await;
}

const COUNTS: &str = "SELECT count(*), sum(ms) FROM v";
const BY_NAME: &str = "SELECT who, count(*) FROM v GROUP BY who ORDER BY who";

#[test]
fn nothing_is_left_of_a_person() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let (counts, by_name) = block_on(async {
        let session = db.session();
        fill(&session).await;
        // What is asked for is remembered, with its constants.
        let like = format!("SELECT count(*) FROM v WHERE note LIKE '%{NOTE}x%'");
        run(&session, &like).await.unwrap();
        db.engine().remember_predicates().unwrap();
        run(&session, &format!("DELETE FROM v WHERE who = '{WHO}'")).await.unwrap();
        let before = (rows(&session, COUNTS).await, rows(&session, BY_NAME).await);
        assert_eq!(before.0[0].split('|').next(), Some("18090"));
        let found = names(&marked(dir.path()));
        for kind in [".log", "dict-", "predicates"] {
            assert!(found.iter().any(|name| name.contains(kind)), "{kind}: {found:?}");
        }
        let notices = run(&session, "CALL alluvia.purge('v')").await.unwrap();
        assert!(notices[0].starts_with("table 'v': "), "{notices:?}");
        assert!(notices.last().unwrap().starts_with("not reached: copies and backups"), "{notices:?}");
        assert_eq!(marked(dir.path()), Vec::<PathBuf>::new());
        let after = (rows(&session, COUNTS).await, rows(&session, BY_NAME).await);
        assert_eq!(after, before);
        after
    });
    drop(db);
    assert_eq!(marked(dir.path()), Vec::<PathBuf>::new());
    let db = open(dir.path());
    block_on(async {
        let session = db.session();
        assert_eq!((rows(&session, COUNTS).await, rows(&session, BY_NAME).await), (counts, by_name.clone()));
        // Who comes again is somebody new.
        all(&session, &[&format!("INSERT INTO v VALUES (10, '{WHO}', 'back', 1)"), "CALL alluvia.merge()"]).await;
        let again = rows(&session, BY_NAME).await;
        assert_eq!(again.len(), by_name.len() + 1);
        assert!(again.contains(&format!("{WHO}|1")), "{again:?}");
        assert_eq!(rows(&session, &format!("SELECT note FROM v WHERE who = '{WHO}'")).await, ["back"]);
    });
}

#[test]
fn a_purge_waits_for_a_transaction_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    block_on(async {
        let (session, reader) = (db.session(), db.session());
        fill(&session).await;
        all(&reader, &["BEGIN ISOLATION LEVEL REPEATABLE READ", COUNTS]).await;
        let seen = rows(&reader, COUNTS).await;
        run(&session, &format!("DELETE FROM v WHERE who = '{WHO}'")).await.unwrap();
        run(&session, "SET statement_timeout = '1500ms'").await.unwrap();
        let error = run(&session, "CALL alluvia.purge('v')").await.expect_err("somebody reads");
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        let hint = error.hint().unwrap_or_default().to_owned();
        assert!(hint.contains(&format!("session {}, whose transaction reads version ", reader.id())), "{hint}");
        assert_eq!(rows(&reader, COUNTS).await, seen, "it keeps what it began with");
        assert!(!marked(dir.path()).is_empty());

        run(&session, "SET statement_timeout = 0").await.unwrap();
        let ends = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            run(&reader, "COMMIT").await
        };
        let (purged, ended) = tokio::join!(run(&session, "CALL alluvia.purge()"), ends);
        ended.unwrap();
        let notices = purged.unwrap();
        assert!(notices.iter().any(|notice| notice.contains("it has waited for session ")), "{notices:?}");
        assert_eq!(marked(dir.path()), Vec::<PathBuf>::new());
        assert_eq!(rows(&reader, COUNTS).await[0].split('|').next(), Some("18090"));
    });
}

/// What others write meanwhile is all there, also under a name that goes.
#[test]
fn writers_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    block_on(async {
        let (session, writer) = (db.session(), db.session());
        fill(&session).await;
        run(&session, &format!("DELETE FROM v WHERE who = '{WHO}'")).await.unwrap();
        let purges = async {
            for _ in 0..5 {
                run(&session, "CALL alluvia.purge('v')").await.unwrap();
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let writes = async {
            for n in 0..200 {
                let (id, name) = (100_000 + n, ["new", WHO, "u1"][n % 3]);
                run(&writer, &format!("INSERT INTO v VALUES ({id}, '{name}', 'w', 1)")).await.unwrap();
                if n % 7 == 0 {
                    run(&writer, &format!("DELETE FROM v WHERE id = {}", id - 3)).await.unwrap();
                }
            }
        };
        tokio::join!(purges, writes);
        let own = "SELECT who, count(*) FROM v WHERE id >= 100000 GROUP BY who ORDER BY who";
        let by_rows = "SELECT who, count(*) FROM (SELECT who || '' AS who FROM v WHERE id >= 100000) AS s \
                       GROUP BY who ORDER BY who";
        for _ in 0..2 {
            let found = rows(&session, own).await;
            assert_eq!(found, rows(&session, by_rows).await);
            let all: u64 = found.iter().map(|row| row.split('|').nth(1).unwrap().parse::<u64>().unwrap()).sum();
            assert_eq!(all, 200 - 28, "200 came, and of those behind the first 28 went");
            run(&session, "CALL alluvia.merge()").await.unwrap();
        }
    });
    drop(db);
    let report = alluvia_node::check(dir.path(), &mut |_| ()).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}
