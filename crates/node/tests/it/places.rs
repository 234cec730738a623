//! Files and URLs in SQL: what clients of servers may name, and what becomes of the rows.
#![allow(clippy::disallowed_methods)] // users' files

use crate::support::real::block_on;
use crate::support::shown_rows;
use crate::support::web::{announced, elsewhere, host, plain};
use alluvia_node::{Database, DatabaseOptions, ServedOptions};
use alluvia_query::{Client, Session};
use alluvia_syntax::copy::streams::Streams;
use alluvia_types::{Error, ErrorKind, Result};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn open(dir: &Path, served: ServedOptions) -> Database {
    let options = DatabaseOptions { memory_limit_bytes: 1 << 30, threads: 2, served, ..DatabaseOptions::default() };
    Database::open_with(dir.join("db"), options).unwrap()
}

/// A client's session; nobody has set a password, so it is a superuser's.
fn client_of(db: &Database) -> Session {
    let session = db.session();
    session.introduce(Client { user: "alluvia".into(), protocol: "postgresql", address: "10.0.0.1:77".into() });
    session
}

async fn run(session: &Session, sql: &str) -> Result<()> {
    session.sql(sql).await?.collect().await.map(drop)
}

async fn refused(session: &Session, sql: &str) -> Error {
    match run(session, sql).await {
        Ok(()) => panic!("{sql} was not refused"),
        Err(error) => error,
    }
}

async fn count(db: &Database) -> String {
    shown_rows(&db.session(), "SELECT count(*) FROM t").await.remove(0)
}

const TABLE: &str = "CREATE TABLE t (a BIGINT, b TEXT)";

#[test]
fn a_client_s_session_names_no_file_and_no_url_unless_the_server_was_told() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path(), ServedOptions::default());
    let (file, out) = (dir.path().join("in.csv"), dir.path().join("out.csv"));
    fs::write(&file, "1,x\n").unwrap();
    let (file, out) = (file.display(), out.display());
    block_on(async {
        let (own, client) = (db.session(), client_of(&db));
        run(&own, TABLE).await.unwrap();
        let sibling = client.sibling().unwrap();
        for session in [&client, &sibling] {
            for (sql, setting) in [
                (format!("COPY t FROM '{file}'"), "copy_roots"),
                (format!("COPY t FROM '{}/*.csv'", dir.path().display()), "copy_roots"),
                (format!("COPY t FROM '{file}.missing.csv'"), "copy_roots"),
                (format!("COPY t TO '{out}'"), "copy_roots"),
                (format!("COPY (SELECT 1) TO '{out}'"), "copy_roots"),
                ("COPY t FROM 'https://data.example.org/in.csv'".to_owned(), "copy_hosts"),
                ("COPY t FROM 'http://127.0.0.1/in.csv'".to_owned(), "copy_hosts"),
            ] {
                let error = refused(session, &sql).await;
                assert_eq!((error.kind(), error.kind().sqlstate()), (ErrorKind::Forbidden, "42501"), "{sql}\n{error}");
                assert!(error.hint().unwrap().contains(setting), "{sql}\n{error}");
            }
        }
        // What it sends itself is its own; but not where bad rows of it would go.
        let stdin = |rows: &'static str| Streams { stdin: Some(Box::new(rows.as_bytes())), stdout: None };
        let copy = client.parse("COPY t FROM STDIN").unwrap().remove(0);
        client.execute_with(copy, stdin("2,y\n")).await.unwrap();
        let copy = format!("COPY t FROM STDIN (ON_ERROR skip, REJECTS '{out}')");
        let copy = client.parse(&copy).unwrap().remove(0);
        let error = client.execute_with(copy, stdin("3,z\nbad,z\n")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Forbidden);
        assert!(!dir.path().join("out.csv").exists());
        assert_eq!(count(&db).await, "1");
        // The process's own sessions may what the process may.
        run(&own, &format!("COPY t FROM '{file}'")).await.unwrap();
        run(&own, &format!("COPY t TO '{out}'")).await.unwrap();
        assert_eq!(count(&db).await, "2");
    });
}

#[test]
fn a_client_s_files_are_those_below_the_roots() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for name in ["in/sub", "in2", "out"] {
        fs::create_dir_all(at(name)).unwrap();
    }
    for name in ["in/a.csv", "in/sub/b.csv", "in2/a.csv", "secret.csv"] {
        fs::write(at(name), "1,x\n").unwrap();
    }
    std::os::unix::fs::symlink(at("secret.csv"), at("in/link.csv")).unwrap();
    let served = ServedOptions { copy_roots: vec![at("in"), at("out")], ..ServedOptions::default() };
    let db = open(dir.path(), served);
    block_on(async {
        let client = client_of(&db);
        run(&client, TABLE).await.unwrap();
        let from = |name: &str| format!("COPY t FROM '{}'", at(name).display());
        for (name, rows) in [("in/a.csv", "1"), ("in/sub/../sub/*.csv", "2"), ("in/**/[ab].csv", "4")] {
            run(&client, &from(name)).await.unwrap();
            assert_eq!(count(&db).await, rows, "{name}");
        }
        for name in
            ["in2/a.csv", "in/../in2/a.csv", "in/link.csv", "in/*.csv", "secret.csv", "*/a.csv", "db/spill/x.csv"]
        {
            assert_eq!(refused(&client, &from(name)).await.kind(), ErrorKind::Forbidden, "{name}");
        }
        let to = |name: &str| format!("COPY t TO '{}'", at(name).display());
        run(&client, &to("out/t.parquet")).await.unwrap();
        run(&client, &from("out/t.parquet")).await.unwrap();
        for name in ["t.csv", "in2/t.csv", "out/../t.csv", "out2/t.csv"] {
            assert_eq!(refused(&client, &to(name)).await.kind(), ErrorKind::Forbidden, "{name}");
        }
        assert_eq!(count(&db).await, "8");
        let rejects = format!("{} (ON_ERROR skip, REJECTS '{}')", from("in/a.csv"), at("bad.csv").display());
        assert_eq!(refused(&client, &rejects).await.kind(), ErrorKind::Forbidden);
        // Refusals are in the audit log, as any other.
        let audited = "SELECT count(*) > 5 FROM alluvia.audit WHERE event = 'refused' AND sqlstate = '42501'";
        assert_eq!(shown_rows(&db.session(), audited).await, ["true"]);
    });
}

#[test]
fn a_url_is_loaded_in_every_format_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let files: Vec<_> = ["csv", "tsv.gz", "ndjson.zst", "parquet", "arrow"].map(|kind| format!("t.{kind}")).into();
    let (names, folder) = (files.clone(), dir.path().to_owned());
    let web = host(move |path| match path.split('?').next().unwrap_or_default().trim_start_matches('/') {
        "moved.csv" => elsewhere("/t.csv"),
        "away.csv" => elsewhere("http://169.254.169.254/t.csv"),
        "cut.csv" => announced(b"1,x\n2,y\n", 100),
        "long.csv" => plain("1,x\n".repeat(100_000)),
        "bad.csv" => plain("1,x\nwrong,y\n"),
        name if names.iter().any(|known| known == name) => plain(fs::read(folder.join(name)).unwrap()),
        _ => b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec(),
    });
    let served =
        ServedOptions { copy_hosts: vec![web.to_string()], copy_url_bytes_max: 100_000, ..ServedOptions::default() };
    let db = open(dir.path(), served);
    block_on(async {
        let (own, client) = (db.session(), client_of(&db));
        run(&own, TABLE).await.unwrap();
        run(&own, "INSERT INTO t VALUES (1, 'x'), (2, NULL), (3, 'a, b')").await.unwrap();
        for file in &files {
            run(&own, &format!("COPY (SELECT * FROM t ORDER BY a) TO '{}'", at(file).display())).await.unwrap();
        }
        let url = |name: &str| format!("http://{web}/{name}");
        for name in files.iter().map(String::as_str).chain(["t.parquet?key=secret", "moved.csv"]) {
            run(&own, "DROP TABLE t").await.unwrap();
            run(&own, TABLE).await.unwrap();
            run(&client, &format!("COPY t FROM '{}'", url(name)))
                .await
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            let rows = shown_rows(&client, "SELECT a, b FROM t ORDER BY a").await;
            assert_eq!(rows, ["1|x", "2|NULL", "3|a, b"], "{name}");
        }
        for (name, want) in [
            ("away.csv", ErrorKind::Forbidden),
            ("cut.csv", ErrorKind::Io),
            ("long.csv", ErrorKind::TooLarge),
            ("bad.csv", ErrorKind::InvalidText),
            ("none.csv", ErrorKind::Io),
        ] {
            // Also where something came before it.
            let error = refused(&client, &format!("COPY t FROM '{}', '{}'", url("a/../t.csv"), url(name))).await;
            assert_eq!(error.kind(), want, "{name}: {error}");
        }
        assert_eq!(count(&db).await, "3");
        assert_eq!(
            refused(&client, &format!("COPY t FROM 'http://localhost:{}/t.csv'", web.port())).await.kind(),
            ErrorKind::Forbidden
        );
        // The process's own sessions may ask anybody, for as much as there is.
        run(&own, &format!("COPY t FROM 'http://localhost:{}/long.csv'", web.port())).await.unwrap();
        assert_eq!(count(&db).await, "100003");
        let folders = fs::read_dir(at("db/spill")).unwrap();
        let left: usize = folders.map(|folder| fs::read_dir(folder.unwrap().path()).unwrap().count()).sum();
        assert_eq!(left, 0);
    });
}

#[test]
fn a_fetch_that_is_cancelled_ends_and_applies_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let count_of = Arc::clone(&asked);
    // What is read never ends: the host keeps the connection, and says nothing more.
    let web = host(move |_| {
        count_of.fetch_add(1, Ordering::SeqCst);
        loop {
            std::thread::park();
        }
    });
    let served = ServedOptions { copy_hosts: vec![web.to_string()], ..ServedOptions::default() };
    let db = open(dir.path(), served);
    block_on(async {
        let client = client_of(&db);
        run(&client, TABLE).await.unwrap();
        let handle = client.cancel_handle();
        let cancelled = async {
            while asked.load(Ordering::SeqCst) == 0 {
                tokio::task::yield_now().await;
            }
            handle.cancel();
        };
        let sql = format!("COPY t FROM 'http://{web}/t.csv'");
        let (copied, ()) = tokio::join!(run(&client, &sql), cancelled);
        assert_eq!(copied.unwrap_err().kind(), ErrorKind::Cancelled);
        assert_eq!(count(&db).await, "0");
    });
}
