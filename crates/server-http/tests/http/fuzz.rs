//! Requests that no client would send, and bodies of rows that are damaged: the server answers or ends the connection, and goes on.
//! Bodies begin as those of the tests of ingest.

#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::ingest::{bodies, packed};
use crate::random::Random;
use crate::support::{Served, serve_with};
use alluvia_server_http::ServerOptions;
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Connections at once.
const AT_ONCE: usize = 8;

const TARGETS: [&str; 14] = [
    "POST /query",
    "POST /query?freshness=1s",
    "POST /query?statement_timeout=1s&freshness=%31s",
    "POST /query?a=%FF&a=+&=&%",
    "POST /ingest/t",
    "POST /ingest/t?columns=a,b&header=false",
    "POST /ingest/t?delimiter=;&null=",
    "POST /ingest/%74?producer=p&producer_sequence=1",
    "POST /ingest/nothing",
    "GET /metrics",
    "GET /healthz",
    "GET /openapi.yaml",
    "DELETE /query",
    "OPTIONS *",
];

const HEADERS: [&str; 30] = [
    "accept: */*",
    "accept: text/csv;q=0.5, application/json;q=nan, */*;q=-1",
    "accept: application/vnd.apache.arrow.stream",
    "accept: application/vnd.apache.parquet",
    "accept: text/event-stream",
    "accept: ,;=,,text/*;;q=",
    "content-type: text/csv; header=absent",
    "content-type: text/csv; charset=\"utf-8",
    "content-type: application/json",
    "content-type: application/x-ndjson; charset=latin1",
    "content-type: ;;",
    "content-encoding: gzip",
    "content-encoding: zstd",
    "content-encoding: gzip, zstd",
    "idempotency-key: k",
    "idempotency-key: \"",
    "idempotency-key: \"\"\"",
    "authorization: Basic",
    "authorization: Basic ====",
    "authorization: Bearer YTpi",
    "origin: http://localhost",
    "origin: null",
    "host: evil.example",
    "transfer-encoding: chunked",
    "transfer-encoding: gzip, chunked",
    "content-length: 0",
    "content-length: 18446744073709551616",
    "expect: 100-continue",
    "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "connection: upgrade, keep-alive",
];

const STATEMENTS: [&str; 10] = [
    "SELECT 1 AS a",
    "SELECT * FROM t LIMIT 3",
    "SELECT $1",
    "SELECT a FROM t; SELECT 2",
    "SET freshness = '1s'",
    "COPY t FROM STDIN",
    "{\"sql\":\"SELECT $1 + 1 AS a\",\"parameters\":[41],\"settings\":{\"freshness\":\"merged\"}}",
    "{\"sql\":\"SELECT $1\",\"parameters\":[null,1e400,-0,\"\\ud800\",{}]}",
    "{\"sql\":1,\"sql\":2,\"settings\":{\"\":[]}}",
    "",
];

/// All bytes of one request.
fn request(random: &mut Random, rows: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let target = *random.pick(&TARGETS);
    let (content_type, mut body) = match target.contains("/ingest") {
        true => {
            let (content_type, body) = random.pick(rows);
            (*content_type, body.clone())
        }
        false => {
            let text = *random.pick(&STATEMENTS);
            (if text.starts_with('{') { "application/json" } else { "text/plain" }, text.as_bytes().to_vec())
        }
    };
    for _ in 0..random.below(4) {
        random.damage(&mut body);
    }
    let mut head =
        format!("{target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: {content_type}\r\n");
    for encoding in ["gzip", "zstd"] {
        if random.below(6) == 0 {
            body = packed(&body, encoding);
            head.push_str(&format!("content-encoding: {encoding}\r\n"));
            if random.below(3) == 0 {
                random.damage(&mut body);
            }
            break;
        }
    }
    for _ in 0..random.below(3) {
        let header: &str = random.pick::<&str>(&HEADERS);
        head.push_str(header);
        head.push_str("\r\n");
    }
    let is_chunked = random.below(4) == 0;
    match is_chunked {
        true => head.push_str("transfer-encoding: chunked\r\n\r\n"),
        false => head.push_str(&format!("content-length: {}\r\n\r\n", body.len())),
    }
    let mut bytes = head.into_bytes();
    if random.below(10) == 0 {
        random.damage(&mut bytes);
    }
    if is_chunked {
        for chunk in body.chunks(1 + random.below(2_000)) {
            bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            bytes.extend_from_slice(chunk);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
    } else {
        bytes.extend_from_slice(&body);
    }
    if random.below(20) == 0 {
        random.damage(&mut bytes);
    }
    bytes
}

/// Sends it, and gives all that came back.
async fn talk(served: &Served, request: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let (mut read, mut write) = stream.split();
    let mut answer = Vec::new();
    // The server may have ended the connection already.
    let sending = async { drop(write.write_all(request).await) };
    let ((), received) = tokio::join!(sending, read.read_to_end(&mut answer));
    drop(received);
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn no_requests_harm_the_server() {
    let (mut random, time) = Random::of_environment();
    let options = ServerOptions {
        body_bytes_max: 1 << 20,
        statement_bytes_max: 1 << 20,
        // A request that is cut is not waited for.
        header_timeout: Duration::from_millis(100),
        transfer_timeout: Duration::from_millis(100),
        ..ServerOptions::default()
    };
    let served = serve_with(options).await;
    assert_eq!(served.query("CREATE TABLE t (a INT NOT NULL, b TEXT)").await.status, 200);
    let rows = bodies();
    let (start, mut count, mut answered) = (Instant::now(), 0, [0; 6]);
    while start.elapsed() < time || count < 100 {
        let requests: Vec<Vec<u8>> = (0..AT_ONCE).map(|_| request(&mut random, &rows)).collect();
        let answers = futures::future::join_all(requests.iter().map(|request| talk(&served, request))).await;
        for (request, answer) in requests.iter().zip(answers) {
            let status = answer.strip_prefix(b"HTTP/1.1 ").and_then(|rest| rest.first()).map_or(0, |byte| byte - b'0');
            answered[usize::from(status).min(5)] += 1;
            let is_defect = answer.windows(5).any(|part| part == b"XX000") || answer.starts_with(b"HTTP/1.1 500");
            let (request, answer) = (String::from_utf8_lossy(request), String::from_utf8_lossy(&answer));
            assert!(!is_defect, "request {count}:\n{request}\n{answer}");
            count += 1;
        }
    }
    assert_eq!(served.rows("SELECT 1 AS a").await, json!([{"a": 1}]));
    assert!(answered[2] > 0 && answered[4] > 0, "{answered:?}");
    println!("{count} requests; answered by none, 1xx, 2xx, ...: {answered:?}");
}
