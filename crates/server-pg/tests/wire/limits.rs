//! Limits of clients: time of statements, of idleness, of idleness with something open.

use crate::raw_messages::RawClient;
use crate::support::{Served, serve_with, state, texts};
use alluvia_server_pg::ServerOptions;
use std::time::Duration;
use tokio_postgres::Client;

const LONG: &str = "SELECT count(*) FROM generate_series(1, 1000000000000)";

async fn with_statements_of(millis: u64) -> Served {
    let statement_timeout = Duration::from_millis(millis);
    serve_with(ServerOptions { statement_timeout, ..ServerOptions::default() }).await
}

/// Waits until the server has ended the connection.
async fn ends(client: &Client) {
    let closed = async {
        while !client.is_closed() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), closed).await.expect("its connection ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_have_a_time_that_roles_and_clients_change() {
    let served = with_statements_of(500).await;
    let client = served.client().await;
    assert_eq!(state(&client.batch_execute(LONG).await.unwrap_err()), "57014");
    assert_eq!(texts(&client, "SHOW statement_timeout").await, ["500ms"]);
    client.batch_execute("SET statement_timeout = '5s'; RESET statement_timeout").await.unwrap();
    assert_eq!(texts(&client, "SHOW statement_timeout").await, ["500ms"]);
    let session = served.db.session();
    session.sql("CREATE ROLE patient LOGIN").await.unwrap();
    session.sql("ALTER ROLE patient SET statement_timeout = '2h'").await.unwrap();
    let mut config = served.config();
    config.user("patient");
    assert_eq!(texts(&served.client_with(&config).await.unwrap(), "SHOW statement_timeout").await, ["120min"]);
    config.options("-c statement_timeout=0");
    assert_eq!(texts(&served.client_with(&config).await.unwrap(), "SHOW statement_timeout").await, ["0s"]);
    // Without a server there is no limit.
    assert_eq!(session.setting_value("statement_timeout").unwrap(), "0s");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_portal_and_an_open_copy_are_their_statements() {
    let served = with_statements_of(1_000).await;
    served.db.session().sql("CREATE TABLE t (a INT)").await.unwrap();
    let mut client = served.client().await;
    let transaction = client.transaction().await.unwrap();
    let portal = transaction.bind("SELECT value FROM generate_series(1, 1000000000000)", &[]).await.unwrap();
    assert_eq!(transaction.query_portal(&portal, 10).await.unwrap().len(), 10);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(state(&transaction.query_portal(&portal, 0).await.unwrap_err()), "57014");
    transaction.rollback().await.unwrap();
    // Rows that never come.
    let mut raw = RawClient::start(&served).await;
    raw.send(b'Q', b"COPY t FROM STDIN\0").await;
    raw.send(b'd', b"1\n").await;
    assert_eq!(raw.kinds().await, "GEZ");
    assert_eq!(texts(&client, "SELECT count(*) FROM t").await, ["0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_takes_nothing_keeps_its_statement_no_longer_than_others() {
    let served = with_statements_of(1_000).await;
    let client = served.client().await;
    let many = "SELECT repeat('x', 1000) AS x FROM generate_series(1, 100000000)";
    let mut stalled = [RawClient::start(&served).await, RawClient::start(&served).await];
    stalled[0].send(b'Q', format!("{many}\0").as_bytes()).await;
    stalled[1].send(b'Q', format!("COPY ({many}) TO STDOUT\0").as_bytes()).await;
    let begun = "SELECT count(*) FROM alluvia.queries WHERE sql LIKE '%100000000)%' AND sql NOT LIKE '%alluvia%'";
    while texts(&client, begun).await != ["2"] {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    while texts(&client, &format!("{begun} AND status = 'running'")).await != ["0"] {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // What is cut is not taken for whole: the connection ends before a last message.
    let [mut first, _second] = stalled;
    while let Some((kind, _)) = first.receive().await {
        assert!(kind != b'C' && kind != b'Z', "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_end_sooner_with_something_open() {
    let options = ServerOptions {
        idle_timeout: Duration::from_secs(3_600),
        transaction_idle_timeout: Duration::from_millis(300),
        ..ServerOptions::default()
    };
    let served = serve_with(options).await;
    let (idle, open, failed) = (served.client().await, served.client().await, served.client().await);
    idle.batch_execute("CREATE TABLE t (a INT)").await.unwrap();
    open.batch_execute("BEGIN; INSERT INTO t VALUES (1)").await.unwrap();
    failed.batch_execute("BEGIN").await.unwrap();
    failed.batch_execute("SELECT nothing").await.unwrap_err();
    // A portal whose rows were not all taken, with no transaction and no Sync.
    let mut raw = RawClient::start(&served).await;
    raw.send(b'P', b"\0SELECT value FROM generate_series(1, 100000)\0\0\0").await;
    raw.send(b'B', b"\0\0\0\0\0\0\0\0").await;
    raw.send(b'E', b"\0\0\0\0\x01").await;
    raw.send(b'H', b"").await;
    let mut kinds = String::new();
    while let Some((kind, body)) = raw.receive().await {
        kinds.push(char::from(kind));
        assert!(kind != b'E' || body.windows(5).any(|part| part == b"57P01"), "{}", String::from_utf8_lossy(&body));
    }
    assert!(kinds.ends_with("12DsE"), "{kinds}");
    ends(&open).await;
    ends(&failed).await;
    assert_eq!(texts(&idle, "SELECT count(*) FROM t").await, ["0"]);
    assert!(!idle.is_closed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_says_how_long_its_transactions_may_be_idle() {
    let served = serve_with(ServerOptions::default()).await;
    let (idle, failed, unlimited) = (served.client().await, served.client().await, served.client().await);
    idle.batch_execute("CREATE TABLE t (a INT)").await.unwrap();
    idle.batch_execute("SET idle_in_transaction_session_timeout = 300").await.unwrap();
    assert_eq!(texts(&idle, "SHOW idle_in_transaction_session_timeout").await, ["300ms"]);
    unlimited.batch_execute("SET idle_in_transaction_session_timeout = '300ms'").await.unwrap();
    unlimited.batch_execute("SET idle_in_transaction_session_timeout = 0").await.unwrap();
    unlimited.batch_execute("BEGIN").await.unwrap();
    failed.batch_execute("SET idle_in_transaction_session_timeout = '300ms'").await.unwrap();
    failed.batch_execute("BEGIN").await.unwrap();
    failed.batch_execute("SELECT nothing").await.unwrap_err();
    let mut raw = RawClient::start(&served).await;
    for sql in [
        &b"SET idle_in_transaction_session_timeout = '1s'\0"[..],
        b"BEGIN\0",
        b"INSERT INTO t VALUES (1)\0",
        b"SELECT a FROM t\0",
    ] {
        raw.send(b'Q', sql).await;
        assert!(raw.kinds().await.ends_with("CZ"));
    }
    let (kind, body) = raw.receive().await.unwrap();
    let told = String::from_utf8_lossy(&body);
    assert_eq!(kind, b'E');
    assert!(told.starts_with("SFATAL\0") && told.contains("\0C25P03\0"), "{told}");
    assert_eq!(raw.receive().await, None);
    ends(&failed).await;
    // What it did is rolled back; whoever has no transaction, or no limit, stays.
    assert_eq!(texts(&idle, "SELECT count(*) FROM t").await, ["0"]);
    assert_eq!(texts(&unlimited, "SELECT 1").await, ["1"]);
    // A role has it, too, and the server's own limit holds where it is the shorter one.
    let session = served.db.session();
    session.sql("CREATE ROLE hasty LOGIN").await.unwrap();
    session.sql("ALTER ROLE hasty SET idle_in_transaction_session_timeout = '300ms'").await.unwrap();
    let mut config = served.config();
    config.user("hasty");
    let hasty = served.client_with(&config).await.unwrap();
    hasty.batch_execute("BEGIN").await.unwrap();
    ends(&hasty).await;
    let transaction_idle_timeout = Duration::from_millis(300);
    let served = serve_with(ServerOptions { transaction_idle_timeout, ..ServerOptions::default() }).await;
    let patient = served.client().await;
    patient.batch_execute("SET idle_in_transaction_session_timeout = '1h'").await.unwrap();
    patient.batch_execute("BEGIN").await.unwrap();
    ends(&patient).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_end_in_time() {
    let options = ServerOptions {
        idle_timeout: Duration::from_millis(300),
        transaction_idle_timeout: Duration::ZERO,
        ..ServerOptions::default()
    };
    let served = serve_with(options).await;
    let (idle, open) = (served.client().await, served.client().await);
    open.batch_execute("BEGIN").await.unwrap();
    ends(&idle).await;
    ends(&open).await;
}
