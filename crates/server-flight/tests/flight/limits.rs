//! Clients that send too much, too little, or nothing; and the server's end.

use crate::support::{Client, fetch, serve, serve_with, state, status, text};
use alluvia_server_flight::ServerOptions;
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use futures::StreamExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code;
use tonic::transport::Endpoint;

const RUNNING: &str =
    "SELECT count(*) FROM alluvia.sessions WHERE sql LIKE '%888888888888%' AND sql NOT LIKE '%sessions%'";

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_reads_loses_its_answer() {
    let options = ServerOptions { transfer_timeout: Duration::from_millis(500), ..ServerOptions::default() };
    let served = serve_with(options).await;
    let channel = Endpoint::from_shared(format!("http://{}", served.address)).unwrap();
    let channel = channel.initial_stream_window_size(65_535).connect().await.unwrap();
    let mut client = Client::new(channel);
    let sql = "SELECT value, repeat('x', 1000) AS t FROM generate_series(1, 888888888888)".to_owned();
    let info = client.execute(sql, None).await.unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let mut rows = client.inner_mut().do_get(ticket).await.unwrap().into_inner();
    // It has begun, and nobody takes anything: the statement ends.
    served.becomes(RUNNING, 0).await;
    let failed = loop {
        match rows.message().await {
            Ok(Some(_)) => {}
            Ok(None) => break None,
            Err(failed) => break Some(failed),
        }
    };
    let failed = failed.expect("half an answer was taken for the whole");
    assert_eq!(failed.code(), Code::DeadlineExceeded);
    assert!(failed.message().contains("given up") && failed.message().contains("transfer_timeout"), "{failed:?}");
    assert!(text(&mut client, "SELECT 1 AS a").await.contains("| 1 |"));
}

#[tokio::test(flavor = "multi_thread")]
async fn long_messages_and_many_values_are_refused() {
    let served = serve_with(ServerOptions { message_bytes_max: 100_000, ..ServerOptions::default() }).await;
    served.sql("CREATE TABLE t (a BIGINT)").await;
    let mut client = served.client().await;
    let long = format!("SELECT 1 -- {}", "x".repeat(200_000));
    let failed = status(client.execute(long, None).await.unwrap_err());
    assert!(matches!(failed.code(), Code::OutOfRange | Code::ResourceExhausted), "{failed:?}");
    let mut insert = client.prepare("INSERT INTO t VALUES ($1)".to_owned(), None).await.unwrap();
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..5_000));
    insert.set_parameters(RecordBatch::try_from_iter([("a", numbers)]).unwrap()).unwrap();
    assert_eq!(state(insert.execute_update().await.unwrap_err()), (Code::ResourceExhausted, "54000".to_owned()));
    assert_eq!(served.count("t").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_for_a_login_is_bounded() {
    let served = serve().await;
    let mut client = served.client().await;
    let mut opened = 0;
    let failed = loop {
        match client.begin_transaction().await {
            Ok(_) => opened += 1,
            Err(failed) => break failed,
        }
    };
    assert_eq!((opened, state(failed).0), (16, Code::ResourceExhausted));
    let mut waiting = 0;
    let failed = loop {
        match client.execute("SELECT 1".to_owned(), None).await {
            Ok(_) => waiting += 1,
            Err(failed) => break failed,
        }
    };
    assert_eq!((waiting, state(failed).0), (100, Code::ResourceExhausted));
    // Trees count: 40 kB of text, and 10 MB.
    let dense = format!("SELECT 1 IN ({})", vec!["1"; 20_000].join(","));
    let prepared = client.prepare(dense.clone(), None).await.unwrap();
    assert_eq!(state(client.prepare(dense, None).await.map(drop).unwrap_err()).0, Code::ResourceExhausted);
    drop(prepared);
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_do_not_starve_who_is_logged_in() {
    let options = ServerOptions {
        connections_max: 20,
        authentication_timeout: Duration::from_secs(60),
        ..ServerOptions::default()
    };
    let served = serve_with(options).await;
    let mut client = served.client().await;
    assert!(text(&mut client, "SELECT 1 AS a").await.contains("| 1 |"));
    client.execute("SET freshness = '7s'".to_owned(), None).await.unwrap();
    let mut strangers = Vec::new();
    for _ in 0..300 {
        strangers.push(TcpStream::connect(served.address).await.unwrap());
    }
    // The same connection still: its session is the connection's.
    assert!(text(&mut client, "SHOW freshness").await.contains("7s"));
    assert!(text(&mut served.client().await, "SELECT 2 AS a").await.contains("| 2 |"));
    // The first of them had to make room.
    let mut all = Vec::new();
    let closed = tokio::time::timeout(Duration::from_secs(20), strangers[0].read_to_end(&mut all)).await;
    assert!(closed.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_log_in_in_time_is_closed() {
    let options = ServerOptions { authentication_timeout: Duration::from_millis(300), ..ServerOptions::default() };
    let served = serve_with(options).await;
    for sent in [&b""[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", &[0xff; 500]] {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        let _ = stream.write_all(sent).await;
        let mut all = Vec::new();
        let closed = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut all)).await;
        assert!(closed.is_ok(), "{sent:?}");
    }
    let mut client = served.client().await;
    assert!(text(&mut client, "SELECT 1 AS a").await.contains("| 1 |"));
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert!(text(&mut client, "SELECT 1 AS a").await.contains("| 1 |"), "who is known stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_ends_statements_and_then_the_server() {
    let served = serve_with(ServerOptions { stop_wait: Duration::from_millis(300), ..ServerOptions::default() }).await;
    let mut client = served.client().await;
    let sql = "SELECT value FROM generate_series(1, 888888888888)".to_owned();
    let info = client.execute(sql.clone(), None).await.unwrap();
    let mut rows = client.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
    rows.next().await.unwrap().unwrap();
    let mut idle = served.client().await;
    assert!(text(&mut idle, "SELECT 1 AS a").await.contains("| 1 |"));
    let reading = tokio::spawn(async move { while let Some(Ok(_)) = rows.next().await {} });
    let stopped = tokio::time::timeout(Duration::from_secs(30), served.stop()).await;
    assert!(stopped.is_ok());
    reading.await.unwrap();
    assert!(client.execute(sql, None).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_have_a_time_and_transactions_that_nobody_uses_are_rolled_back() {
    let options = ServerOptions {
        statement_timeout: Duration::from_secs(1),
        transaction_idle_timeout: Duration::from_millis(1_500),
        ..ServerOptions::default()
    };
    let served = serve_with(options).await;
    served.sql("CREATE TABLE t (a INT)").await;
    let mut client = served.client().await;
    let sql = "SELECT count(*) AS n FROM generate_series(1, 888888888888)".to_owned();
    let failed = match client.execute(sql, None).await {
        Err(failed) => failed,
        Ok(info) => fetch(&mut client, info).await.unwrap_err(),
    };
    assert_eq!(state(failed), (Code::DeadlineExceeded, "57014".to_owned()));
    let transaction = client.begin_transaction().await.unwrap();
    let insert = "INSERT INTO t VALUES (1)".to_owned();
    let mut prepared = client.prepare(insert.clone(), Some(transaction.clone())).await.unwrap();
    prepared.execute_update().await.unwrap();
    let open = "SELECT count(*) FROM alluvia.sessions WHERE state = 'idle in transaction'";
    assert_eq!(served.number(open).await, 1);
    // Also where a prepared statement still holds it.
    served.becomes(open, 0).await;
    let failed = client.execute_update(insert, Some(transaction)).await.unwrap_err();
    assert_eq!(state(failed), (Code::NotFound, "42704".to_owned()));
    drop(prepared);
    assert_eq!(served.count("t").await, 0);
    // One that SQL began ends with its login, so that its COMMIT does not look like one.
    let mut client = served.client().await;
    client.handshake("me", "").await.unwrap();
    for sql in ["BEGIN", "INSERT INTO t VALUES (2)"] {
        client.execute_update(sql.to_owned(), None).await.unwrap();
    }
    assert_eq!(served.number(open).await, 1);
    served.becomes(open, 0).await;
    let failed = client.execute_update("COMMIT".to_owned(), None).await.unwrap_err();
    assert_eq!(state(failed).1, "28P01");
    assert_eq!(served.count("t").await, 0);
    // That of a login which belongs to its connection can only be ended: nothing meant for it is committed by itself.
    for authorization in [None, Some("Basic bWU6")] {
        let mut client = served.client().await;
        if let Some(authorization) = authorization {
            client.set_header("authorization", authorization);
        }
        let mut run =
            async |sql: &str| client.execute_update(sql.to_owned(), None).await.map_err(|error| state(error).1);
        for sql in ["SET confidence = 0.8", "BEGIN", "SET confidence = 0.99", "INSERT INTO t VALUES (3)"] {
            run(sql).await.unwrap();
        }
        assert_eq!(served.number(open).await, 1);
        served.becomes(open, 0).await;
        assert_eq!(run("INSERT INTO t VALUES (4)").await.unwrap_err(), "25P02");
        assert_eq!(run("COMMIT").await.unwrap_err(), "25P02");
        assert_eq!(served.count("t").await, 0);
        run("INSERT INTO t VALUES (5)").await.unwrap();
        assert!(text(&mut client, "SHOW confidence").await.contains("0.8"), "the session and its settings stay");
        served.sql("DROP TABLE t; CREATE TABLE t (a INT)").await;
    }
}
