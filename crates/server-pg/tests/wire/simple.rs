//! The simple protocol: scripts, transactions, settings, cancelling, stopping.

use crate::support::{rows, serve, state, texts};
use std::time::Duration;
use tokio_postgres::{NoTls, SimpleQueryMessage};

#[tokio::test(flavor = "multi_thread")]
async fn a_script_gives_rows_and_tags() {
    let served = serve().await;
    let client = served.client().await;
    let messages = client
        .simple_query(
            "CREATE TABLE t (a INT, b TEXT); INSERT INTO t VALUES (1, 'x'), (2, NULL); SELECT * FROM t ORDER BY a",
        )
        .await
        .unwrap();
    let rows: Vec<(Option<String>, Option<String>)> = messages
        .iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some((row.get("a").map(Into::into), row.get("b").map(Into::into))),
            _ => None,
        })
        .collect();
    assert_eq!(rows, [(Some("1".into()), Some("x".into())), (Some("2".into()), None)]);
    let counts: Vec<u64> = messages
        .iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::CommandComplete(count) => Some(*count),
            _ => None,
        })
        .collect();
    assert_eq!(counts, [0, 2, 2]);
    client.simple_query("").await.unwrap();
    client.simple_query(" ; -- nothing\n ").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_have_their_sqlstate_and_the_connection_goes_on() {
    let served = serve().await;
    let client = served.client().await;
    client.batch_execute("CREATE TABLE t (a SMALLINT NOT NULL); CREATE TABLE short (b VARCHAR(2))").await.unwrap();
    for (sql, expected) in [
        ("INSERT INTO short VALUES ('abc')", "22001"),
        ("SELEKT 1", "42601"),
        ("SELECT * FROM nothing", "42P01"),
        ("SELECT b FROM t", "42703"),
        ("SELECT nothing(1)", "42883"),
        ("INSERT INTO t VALUES (40000)", "22003"),
        ("INSERT INTO t VALUES ('x')", "22P02"),
        ("INSERT INTO t VALUES (NULL)", "23502"),
        ("SELECT a, count(*) FROM t", "42803"),
        ("CREATE UNIQUE INDEX i ON t (a) WHERE a > 0", "0A000"),
        ("VACUUM nothing", "42P01"),
        ("CREATE INDEX i ON t (b)", "42703"),
        ("CREATE TABLE t (a INT)", "42P07"),
        ("SET freshnes = '1s'", "22023"),
        ("SELECT $1", "42P02"),
        ("FETCH 1 FROM nothing", "34000"),
        ("DEALLOCATE nothing", "26000"),
    ] {
        assert_eq!(state(&client.batch_execute(sql).await.unwrap_err()), expected, "{sql}");
        assert_eq!(texts(&client, "SELECT 7").await, ["7"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_is_one_batch_and_fails_as_a_whole() {
    let served = serve().await;
    let (client, other) = (served.client().await, served.client().await);
    client.batch_execute("CREATE TABLE t (a INT)").await.unwrap();
    client.batch_execute("BEGIN").await.unwrap();
    client.batch_execute("INSERT INTO t VALUES (1)").await.unwrap();
    client.batch_execute("INSERT INTO t VALUES (2)").await.unwrap();
    assert_eq!(texts(&other, "SELECT count(*) FROM t").await, ["0"]);
    assert_eq!(texts(&client, "SELECT count(*) FROM t").await, ["2"]);
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(texts(&other, "SELECT count(*) FROM t").await, ["2"]);

    client.batch_execute("BEGIN; INSERT INTO t VALUES (3)").await.unwrap();
    assert_eq!(state(&client.batch_execute("SELECT 1/0").await.unwrap_err()), "22012");
    assert_eq!(state(&client.batch_execute("SELECT 1").await.unwrap_err()), "25P02");
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(texts(&client, "SELECT count(*) FROM t").await, ["2"]);
    // As in PostgreSQL, these warn.
    client.batch_execute("COMMIT").await.unwrap();
    client.batch_execute("ROLLBACK").await.unwrap();

    // Several statements of one text are one transaction.
    assert!(client.batch_execute("INSERT INTO t VALUES (4); INSERT INTO t VALUES ('x')").await.is_err());
    assert_eq!(texts(&client, "SELECT count(*) FROM t").await, ["2"]);
    client.batch_execute("INSERT INTO t VALUES (4); INSERT INTO t VALUES (5)").await.unwrap();
    assert_eq!(texts(&client, "SELECT count(*) FROM t").await, ["4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_come_from_the_connection_and_from_set() {
    let served = serve().await;
    let mut config = served.config();
    config.application_name("tester").options("-c freshness=5s --statement-timeout=90s");
    let client = served.client_with(&config).await.unwrap();
    assert_eq!(texts(&client, "SHOW freshness").await, ["5s"]);
    assert_eq!(texts(&client, "SHOW application_name").await, ["tester"]);
    client.batch_execute("SET freshness = '1s'; RESET freshness").await.unwrap();
    assert_eq!(texts(&client, "SHOW freshness").await, ["5s"]);
    for sql in [
        "SET extra_float_digits = 3",
        "SET client_encoding TO 'UTF8'",
        "SET DateStyle = 'ISO, DMY'",
        "SET datestyle TO iso, mdy",
        "SET search_path TO \"$user\", public",
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SET NAMES 'UTF8'",
        "SET TIME ZONE 'UTC'",
        "SHOW transaction isolation level",
        "SHOW standard_conforming_strings",
        "SHOW server_version_num",
        "SHOW ALL",
        "RESET ALL",
        "DISCARD ALL",
        "DEALLOCATE ALL",
    ] {
        client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    for (sql, expected) in [
        ("SET client_encoding = 'LATIN1'", "22023"),
        ("SET nothing = 1", "22023"),
        ("SHOW nothing", "22023"),
        ("SET server_version = '9'", "22023"),
    ] {
        assert_eq!(state(&client.batch_execute(sql).await.unwrap_err()), expected, "{sql}");
    }
    // Names are looked up along the path that the connection, or else its role, begins with.
    for sql in ["CREATE SCHEMA s", "CREATE TABLE s.of_s (a INT)", "INSERT INTO s.of_s VALUES (1), (2)"] {
        client.batch_execute(sql).await.unwrap();
    }
    let mut along = served.config();
    along.options("-c search_path=s,public");
    let along = served.client_with(&along).await.unwrap();
    assert_eq!(texts(&along, "SHOW search_path").await, ["s, public"]);
    assert_eq!(texts(&along, "SELECT count(*) FROM of_s").await, ["2"]);
    assert_eq!(texts(&along, "SELECT current_schema()").await, ["s"]);
    let listed = "SELECT n.nspname AS \"Name\", pg_catalog.pg_get_userbyid(n.nspowner) AS \"Owner\" FROM \
                  pg_catalog.pg_namespace n WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' ORDER BY 1";
    assert_eq!(texts(&client, listed).await, ["alluvia", "public", "s"]);
    let mut wrong = served.config();
    wrong.options("-c nothing=1");
    assert_eq!(state(&served.client_with(&wrong).await.err().unwrap()), "22023");
    // A transaction takes back what was set in it.
    client.batch_execute("BEGIN; SET batch_size = 7; ROLLBACK").await.unwrap();
    assert_eq!(texts(&client, "SHOW batch_size").await, ["8192"]);
    client.batch_execute("BEGIN; SET LOCAL batch_size = 7").await.unwrap();
    assert_eq!(texts(&client, "SHOW batch_size").await, ["7"]);
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(texts(&client, "SHOW batch_size").await, ["8192"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn cursors_give_rows_a_few_at_a_time() {
    let served = serve().await;
    let client = served.client().await;
    let values: Vec<String> = (0..100).map(|value| format!("({value})")).collect();
    client.batch_execute(&format!("CREATE TABLE t (a INT); INSERT INTO t VALUES {}", values.join(","))).await.unwrap();
    assert_eq!(state(&client.batch_execute("DECLARE c CURSOR FOR SELECT 1").await.unwrap_err()), "25000");
    client.batch_execute("BEGIN; DECLARE c CURSOR FOR SELECT a FROM t ORDER BY a").await.unwrap();
    assert_eq!(texts(&client, "FETCH 3 FROM c").await, ["0", "1", "2"]);
    assert_eq!(texts(&client, "FETCH FORWARD 2 IN c").await, ["3", "4"]);
    assert_eq!(texts(&client, "FETCH NEXT FROM c").await, ["5"]);
    assert_eq!(texts(&client, "FETCH ALL FROM c").await.len(), 94);
    assert!(texts(&client, "FETCH 5 FROM c").await.is_empty());
    client.batch_execute("CLOSE c; COMMIT").await.unwrap();
    client.batch_execute("DECLARE h CURSOR WITH HOLD FOR SELECT a FROM t ORDER BY a").await.unwrap();
    assert_eq!(texts(&client, "FETCH 1 FROM h").await, ["0"]);
    client.batch_execute("CLOSE ALL").await.unwrap();
    assert_eq!(state(&client.batch_execute("FETCH 1 FROM h").await.unwrap_err()), "34000");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_request_ends_the_statement_and_nothing_else() {
    let served = serve().await;
    let client = served.client().await;
    let cancel = client.cancel_token();
    let endless = "SELECT count(*) FROM generate_series(1, 1000000000000) a";
    let running = tokio::spawn(async move {
        let error = client.batch_execute(endless).await.unwrap_err();
        (client, error)
    });
    // Once it runs it is in the table of statements.
    let watcher = served.client().await;
    let runs = "SELECT count(*) FROM alluvia.queries WHERE status = 'running' AND sql LIKE '%1000000000000%' AND sql NOT LIKE '%alluvia%'";
    while texts(&watcher, runs).await == ["0"] {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    cancel.cancel_query(NoTls).await.unwrap();
    let (client, error) = running.await.unwrap();
    assert_eq!(state(&error), "57014");
    assert_eq!(texts(&client, "SELECT 1").await, ["1"]);
    client.batch_execute("SET statement_timeout = 50").await.unwrap();
    assert_eq!(state(&client.batch_execute(endless).await.unwrap_err()), "57014");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_ends_its_connections_and_is_gone() {
    let served = serve().await;
    let client = served.client().await;
    let address = served.address;
    assert_eq!(texts(&client, "SELECT 1").await, ["1"]);
    served.stop().await;
    assert!(client.batch_execute("SELECT 1").await.is_err());
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_that_only_read_refuse_what_writes() {
    let served = serve().await;
    let mut client = served.client().await;
    client.batch_execute("CREATE TABLE t (a INT)").await.unwrap();
    let reading = client.build_transaction().read_only(true).start().await.unwrap();
    assert_eq!(reading.query_one("SELECT count(*) FROM t", &[]).await.unwrap().get::<_, i64>(0), 0);
    assert_eq!(state(&reading.execute("INSERT INTO t VALUES ($1)", &[&1i32]).await.unwrap_err()), "25006");
    reading.rollback().await.unwrap();
    // Refused before any row is asked for. By a client of its own: after a refused COPY this one takes what comes next for nobody's.
    let mut copying = served.client().await;
    let reading = copying.build_transaction().read_only(true).start().await.unwrap();
    let refused = reading.copy_in::<_, bytes::Bytes>("COPY t FROM STDIN").await.err().unwrap();
    assert_eq!(state(&refused), "25006");
    drop(reading);
    client.batch_execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY").await.unwrap();
    assert_eq!(state(&client.batch_execute("INSERT INTO t VALUES (1)").await.unwrap_err()), "25006");
    // Several in one text are a transaction of that default.
    assert_eq!(state(&client.batch_execute("SELECT 1; INSERT INTO t VALUES (1)").await.unwrap_err()), "25006");
    let writing = client.build_transaction().read_only(false).start().await.unwrap();
    assert_eq!(writing.execute("INSERT INTO t VALUES ($1)", &[&1i32]).await.unwrap(), 1);
    writing.commit().await.unwrap();
    assert_eq!(texts(&client, "SHOW transaction_read_only").await, ["on"]);
    client.batch_execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE").await.unwrap();
    client.batch_execute("INSERT INTO t VALUES (2)").await.unwrap();
    assert_eq!(texts(&client, "SELECT count(*) FROM t").await, ["2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn savepoints_bring_a_failed_transaction_back() {
    let served = serve().await;
    let mut client = served.client().await;
    client.batch_execute("CREATE TABLE t (a INT); CREATE TABLE u (b TEXT)").await.unwrap();
    assert_eq!(state(&client.batch_execute("SAVEPOINT s").await.unwrap_err()), "25000");
    let mut outer = client.transaction().await.unwrap();
    outer.execute("INSERT INTO t VALUES ($1)", &[&1i32]).await.unwrap();
    {
        let inner = outer.transaction().await.unwrap();
        inner.execute("INSERT INTO t VALUES ($1)", &[&2i32]).await.unwrap();
        inner.execute("INSERT INTO u VALUES ($1)", &[&"two"]).await.unwrap();
        assert_eq!(state(&inner.query("SELECT nothing FROM t", &[]).await.err().unwrap()), "42703");
        assert_eq!(state(&inner.query("SELECT 1", &[]).await.err().unwrap()), "25P02");
        inner.rollback().await.unwrap();
    }
    {
        let inner = outer.savepoint("named").await.unwrap();
        inner.execute("INSERT INTO u VALUES ($1)", &[&"three"]).await.unwrap();
        inner.commit().await.unwrap();
    }
    // As psycopg ends a block that failed: both in one text.
    outer.batch_execute("SAVEPOINT p; SET DateStyle = 'ISO'; INSERT INTO t VALUES (4)").await.unwrap();
    assert_eq!(state(&outer.batch_execute("INSERT INTO t VALUES ('x')").await.unwrap_err()), "22P02");
    assert_eq!(state(&outer.batch_execute("RELEASE p").await.unwrap_err()), "25P02");
    outer.batch_execute("ROLLBACK TO p; RELEASE p").await.unwrap();
    assert_eq!(state(&outer.batch_execute("ROLLBACK TO p").await.unwrap_err()), "3B001");
    outer.rollback().await.unwrap();
    assert_eq!(texts(&client, "SELECT count(*) FROM t").await, ["0"]);

    let mut outer = client.transaction().await.unwrap();
    outer.execute("INSERT INTO t VALUES ($1)", &[&1i32]).await.unwrap();
    let inner = outer.transaction().await.unwrap();
    inner.execute("INSERT INTO u VALUES ($1)", &[&"gone"]).await.unwrap();
    // Dropped without a commit, it is rolled back.
    drop(inner);
    outer.execute("INSERT INTO u VALUES ($1)", &[&"kept"]).await.unwrap();
    outer.commit().await.unwrap();
    assert_eq!(texts(&client, "SELECT a FROM t").await, ["1"]);
    assert_eq!(texts(&client, "SELECT b FROM u").await, ["kept"]);
    assert_eq!(texts(&client, "SELECT count(DISTINCT version) FROM alluvia.batches WHERE rows = 2").await, ["1"]);
}

/// A query that the index has answered is not parsed again; it means what it meant, for whoever asks.
#[tokio::test(flavor = "multi_thread")]
async fn a_query_is_answered_again_by_its_text() {
    let served = serve().await;
    let client = served.client().await;
    let session = served.db.session();
    let text = "SELECT count(*), sum(quantity) FROM again WHERE city IN ('city 1', 'city 5')";
    for sql in [
        "CREATE TABLE again (city TEXT, quantity INT) WITH (dimensions = 'city', measures = 'quantity')",
        "INSERT INTO again VALUES ('city 1', 1), ('city 2', 2), ('city 5', 5)",
        "CALL alluvia.merge()",
    ] {
        rows(&client, sql).await;
    }
    assert!(!session.knows(text));
    assert_eq!(rows(&client, &format!("{text};\n")).await, [["2", "6"]]);
    assert!(session.knows(text));
    assert_eq!(rows(&client, text).await, [["2", "6"]]);
    rows(&client, "INSERT INTO again VALUES ('city 5', 50)").await;
    assert_eq!(rows(&client, &format!(" {text} ;")).await, [["3", "56"]]);
    let other = served.client().await;
    assert_eq!(rows(&other, text).await, [["3", "56"]]);
    rows(&other, "BEGIN").await;
    rows(&other, "INSERT INTO again VALUES ('city 1', 100)").await;
    assert_eq!(rows(&other, text).await, [["4", "156"]]);
    rows(&other, "ROLLBACK").await;
    rows(&client, "DROP TABLE again").await;
    assert_eq!(state(&other.simple_query(text).await.unwrap_err()), "42P01");
    // Another statement beside it: both are parsed.
    assert_eq!(rows(&other, &format!("SELECT 7; {}", "SELECT 8")).await, [["7"], ["8"]]);
    served.stop().await;
}
