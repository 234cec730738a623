//! Requests that two programs could read in two ways are refused (RFC 9112, RFC 6454), wherever on a connection they come; all others on
//! it are answered in their order.

#![allow(clippy::disallowed_methods)] // time passes on the real machine

use crate::client::{Answered, answered};
use crate::support::{Served, serve, serve_with};
use alluvia_server_http::ServerOptions;
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const GOOD: &str = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// All answers on a connection, each with its length.
fn all_answered(mut all: &[u8]) -> Vec<Answered> {
    let mut answers = Vec::new();
    while !all.is_empty() {
        let end = all.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        let head = String::from_utf8_lossy(&all[..end]).to_ascii_lowercase();
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
        let length: usize = length.unwrap_or_else(|| panic!("no length: {head}")).parse().unwrap();
        let (one, rest) = all.split_at(end + length);
        answers.push(answered(one));
        all = rest;
    }
    answers
}

/// Sends these bytes, `piece` at a time, and gives the answers to them.
async fn talk(served: &Served, bytes: &[u8], piece: usize) -> Vec<Answered> {
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    for part in bytes.chunks(piece) {
        // The server may have refused what came before.
        if stream.write_all(part).await.is_err() {
            break;
        }
        if piece < bytes.len() {
            tokio::task::yield_now().await;
        }
    }
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all).await;
    all_answered(&all)
}

fn post(headers: &str, body: &str) -> String {
    format!("POST /query HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n{body}")
}

fn get(headers: &str) -> String {
    format!("GET /healthz HTTP/1.1\r\n{headers}\r\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_be_read_in_two_ways_is_refused() {
    let served = serve().await;
    let smuggled = "0\r\n\r\nGET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let refused = [
        // RFC 9112, 3.2: one host, and the one of the target.
        get(""),
        get("host: localhost\r\nhost: localhost\r\n"),
        get("host: localhost\r\nHOST: evil.example\r\n"),
        get("host: localhost, evil.example\r\n"),
        get("host: local host\r\n"),
        "GET http://evil.example/healthz HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(),
        "GET http://localhost@evil.example/healthz HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(),
        "CONNECT localhost:80 HTTP/1.1\r\nhost: localhost:80\r\n\r\n".to_owned(),
        // RFC 6454, 7: one origin.
        get("host: localhost\r\norigin: http://localhost\r\norigin: http://localhost\r\n"),
        get("host: localhost\r\norigin: http://localhost\r\nOrigin: http://evil.example\r\n"),
        get("host: localhost\r\nauthorization: Basic YTpi\r\nauthorization: Basic YTpj\r\n"),
        // RFC 9112, 2.2: lines end with CR LF.
        "GET /healthz HTTP/1.1\nhost: localhost\n\n".to_owned(),
        "GET /healthz HTTP/1.1\r\nhost: localhost\n\r\n".to_owned(),
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\n".to_owned(),
        "\nGET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(),
        get("host: localhost\r\nx: a\rb\r\n"),
        // RFC 9112, 5: fields.
        get("host: localhost\r\nx: a\r\n b\r\n"),
        get("host: localhost\r\nx : a\r\n"),
        get("host: localhost\r\n: a\r\n"),
        get("host: localhost\r\nx y: a\r\n"),
        get("host: localhost\r\nx: a\0b\r\n"),
        get(" host: localhost\r\n"),
        "GET  /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(),
        "GET /healthz\t HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(),
        // RFC 9112, 6: where the body ends.
        post("transfer-encoding: identity, chunked\r\n", smuggled),
        post("transfer-encoding: identity\r\ntransfer-encoding: chunked\r\n", smuggled),
        post("transfer-encoding: chunked, identity\r\n", smuggled),
        post("transfer-encoding: gzip, chunked\r\n", smuggled),
        post("transfer-encoding: xchunked\r\n", smuggled),
        post("transfer-encoding: chunked\r\ncontent-length: 5\r\n", smuggled),
        post("content-length: 5\r\ntransfer-encoding: chunked\r\n", smuggled),
        post("content-length: 8\r\ncontent-length: 8\r\n", "SELECT 1"),
        post("content-length: 8\r\ncontent-length: 3\r\n", "SELECT 1"),
        post("content-length: 8, 8\r\n", "SELECT 1"),
        post("content-length: +8\r\n", "SELECT 1"),
        post("content-length: 0x8\r\n", "SELECT 1"),
        post("content-length: 18446744073709551624\r\n", "SELECT 1"),
        "POST /query HTTP/1.0\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n".to_owned(),
        // RFC 9112, 7.1: chunks.
        post("transfer-encoding: chunked\r\n", "8\nSELECT 1\r\n0\r\n\r\n"),
        post("transfer-encoding: chunked\r\n", "8;a\nSELECT 1\r\n0\r\n\r\n"),
        post("transfer-encoding: chunked\r\n", "8\r\nSELECT 1\n0\r\n\r\n"),
        post("transfer-encoding: chunked\r\n", "8\r\nSELECT 1\r\n0\n\n"),
        post("transfer-encoding: chunked\r\n", "8\r\nSELECT 1\r\n0\r\nx: y\n\r\n"),
        post("transfer-encoding: chunked\r\n", "9\r\nSELECT 1\r\n0\r\n\r\n"),
        post("transfer-encoding: chunked\r\n", "0x8\r\nSELECT 1\r\n0\r\n\r\n"),
        post("transfer-encoding: chunked\r\n", "\r\nSELECT 1\r\n0\r\n\r\n"),
        post("transfer-encoding: chunked\r\n", "10000000000000008\r\nSELECT 1\r\n0\r\n\r\n"),
    ];
    for request in &refused {
        for before in ["", GOOD] {
            for piece in [usize::MAX, 1] {
                // Whatever comes behind it is of no request.
                let bytes = format!("{before}{request}{GOOD}");
                let answers = talk(&served, bytes.as_bytes(), piece.min(bytes.len())).await;
                let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
                let wanted: &[u16] = if before.is_empty() { &[400] } else { &[200, 400] };
                assert_eq!(statuses, wanted, "{piece} {bytes:?}");
                let last = answers.last().unwrap();
                assert_eq!((last.error(), last.content_type()), ((400, "08P01".to_owned()), "application/json"));
            }
        }
    }
    assert_eq!(served.rows("SELECT 1 AS a").await, json!([{"a": 1}]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_says_what_is_wrong() {
    let served = serve().await;
    for (request, word) in [
        (get("host: localhost\r\nhost: localhost\r\n"), "host is stated twice"),
        (get(""), "host is missing"),
        ("GET /healthz HTTP/1.1\n".to_owned(), "LF alone"),
        (post("transfer-encoding: identity, chunked\r\n", ""), "not chunked alone"),
        ("GET http://evil.example/ HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(), "another host"),
    ] {
        let answers = talk(&served, request.as_bytes(), request.len()).await;
        assert!(answers[0].text().contains(word), "{request:?}: {}", answers[0].text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_on_one_connection_are_answered_in_their_order() {
    let served = serve().await;
    assert_eq!(served.query("CREATE TABLE t (a INT)").await.status, 200);
    let ingest =
        |rest: String| format!("POST /ingest/t HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/csv\r\n{rest}");
    let sized = |body: &str| ingest(format!("content-length: {}\r\n\r\n{body}", body.len()));
    let chunked = |chunks: &str| ingest(format!("Transfer-Encoding: Chunked\r\n\r\n{chunks}"));
    let requests = [
        (GOOD.to_owned(), 200),
        (format!("\r\n{GOOD}"), 200),
        // Lines of bodies end as they like; an empty one is a row of NULL.
        (sized("1\n2\n"), 200),
        (sized("3\r\n\r\n"), 200),
        (chunked("4\r\n4\n5\n\r\n2;x=y\r\n6\n\r\n0\r\n\r\n"), 200),
        (chunked("2\r\n7\n\r\n0\r\ntrailer: x\r\n\r\n"), 200),
        (sized("no number\n"), 400),
        (sized(""), 200),
        ("GET /nothing HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(), 404),
        ("GET http://localhost/healthz HTTP/1.1\r\nhost: LOCALHOST\r\n\r\n".to_owned(), 200),
        ("DELETE /query HTTP/1.1\r\nhost: localhost\r\ncontent-length: 43\r\n\r\nGET /healthz HTTP/1.1\nhost: localhost\n\n\n\n\n\n".to_owned(), 405),
    ];
    let last = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let bytes = requests.iter().map(|(request, _)| request.as_str()).collect::<String>() + last;
    let mut times = 0;
    for piece in [bytes.len(), 1, 17, 400] {
        let answers = talk(&served, bytes.as_bytes(), piece).await;
        let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        let wanted: Vec<u16> = requests.iter().map(|(_, status)| *status).chain([200]).collect();
        assert_eq!(statuses, wanted, "{piece}");
        times += 1;
    }
    assert_eq!(
        served.rows("SELECT count(*) AS n, sum(a) AS s FROM t").await,
        json!([{"n": 8 * times, "s": 28 * times}])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_that_are_too_long_or_never_end_are_ended() {
    let served =
        serve_with(ServerOptions { header_timeout: Duration::from_millis(400), ..ServerOptions::default() }).await;
    let long = "x".repeat(40 << 10);
    for request in [
        get(&format!("host: localhost\r\nx: {long}\r\n")),
        get(&format!("host: localhost\r\n{long}: x\r\n")),
        get(&format!("host: localhost\r\n{}", "x: y\r\n".repeat(8 << 10))),
        get(&format!("host: localhost\r\n{}", "x: y\r\n".repeat(101))),
        format!("GET /{long} HTTP/1.1\r\nhost: localhost\r\n\r\n"),
        format!("{long} / HTTP/1.1\r\nhost: localhost\r\n\r\n"),
        "\r\n".repeat(20 << 10),
    ] {
        for before in ["", GOOD] {
            let bytes = format!("{before}{request}");
            let answers = talk(&served, bytes.as_bytes(), bytes.len()).await;
            let last = answers.last().unwrap();
            assert_eq!(last.error(), (431, "54000".to_owned()), "{:.60}", request);
        }
    }
    // A byte now and then is no request.
    for start in ["G", "GET /healthz HTTP/1.1\r\nx: "] {
        for before in ["", GOOD] {
            let mut stream = TcpStream::connect(served.address).await.unwrap();
            stream.write_all(format!("{before}{start}").as_bytes()).await.unwrap();
            let begun = Instant::now();
            while stream.write_all(b"x").await.is_ok() {
                assert!(begun.elapsed() < Duration::from_secs(20), "{start}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
    assert_eq!(served.rows("SELECT 1 AS a").await, json!([{"a": 1}]));
}
