//! Clients that send too much, too little, or nothing; and the server's end.

use crate::client::answered;
use crate::descriptors::descriptors;
use crate::support::{serve, serve_with};
use alluvia_server_http::ServerOptions;
use serde_json::json;
use std::io::Write;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn small() -> ServerOptions {
    ServerOptions { statement_bytes_max: 1000, body_bytes_max: 10_000, ..ServerOptions::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_over_the_limit_are_refused_before_they_are_kept() {
    let served = serve_with(small()).await;
    served.query("CREATE TABLE t (a INT)").await;
    let long = format!("SELECT 1 AS a -- {}", "x".repeat(2000));
    for chunked in [false, true] {
        let ask = served.ask("POST", "/query").body(long.clone());
        let ask = if chunked { ask.chunked() } else { ask };
        assert_eq!(ask.send().await.error(), (413, "54000".to_owned()), "chunked={chunked}");
        let ask = served.ask("POST", "/ingest/t").header("content-type", "text/csv").body("1\n".repeat(6000));
        let ask = if chunked { ask.chunked() } else { ask };
        assert_eq!(ask.send().await.error(), (413, "54000".to_owned()), "chunked={chunked}");
    }
    // A length that is only claimed.
    let mut claims = TcpStream::connect(served.address).await.unwrap();
    let head =
        "POST /ingest/t HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/csv\r\ncontent-length: 99999999999\r\n\r\n";
    claims.write_all(head.as_bytes()).await.unwrap();
    let mut all = vec![0; 2000];
    let count = claims.read(&mut all).await.unwrap();
    assert!(all[..count].starts_with(b"HTTP/1.1 413"));
    // A small body that unpacks to a large one.
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(&b"1\n".repeat(1_000_000)).unwrap();
    let packed = packed.finish().unwrap();
    assert!(packed.len() < 9000);
    let ask = served
        .ask("POST", "/ingest/t")
        .header("content-type", "text/csv")
        .header("content-encoding", "gzip")
        .body(packed);
    assert_eq!(ask.send().await.error(), (413, "54000".to_owned()));
    assert_eq!(served.rows("SELECT count(*) AS n FROM t").await, json!([{"n": 0}]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_http_is_answered_or_closed() {
    let served = serve_with(ServerOptions { header_timeout: Duration::from_millis(300), ..small() }).await;
    let many = format!("GET /healthz HTTP/1.1\r\nhost: x\r\n{}\r\n", "a: b\r\n".repeat(500));
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000));
    let cases: [&[u8]; 7] = [
        b"\0\0\0\x08\x04\xd2\x16\x2f",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /query HTTP/1.1\r\nhost: x\r\ncontent-length: -5\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost",
        many.as_bytes(),
        long.as_bytes(),
    ];
    for case in cases {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        let _ = stream.write_all(case).await;
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all).await;
        let status = all.split(|byte| *byte == b' ').nth(1).map(|status| status.first() == Some(&b'4'));
        assert_ne!(status, Some(false), "{}", String::from_utf8_lossy(&all));
    }
    let old = b"POST /query HTTP/1.0\r\nhost: localhost\r\ncontent-length: 8\r\n\r\nSELECT 1";
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(old).await.unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.unwrap();
    assert_eq!(answered(&all).status, 505);
    assert_eq!(served.rows("SELECT 1 AS a").await, json!([{"a": 1}]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_stalls_or_ends_early_applies_nothing() {
    let served =
        serve_with(ServerOptions { transfer_timeout: Duration::from_millis(300), ..ServerOptions::default() }).await;
    served.query("CREATE TABLE t (a INT)").await;
    let head =
        "POST /ingest/t HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/csv\r\ncontent-length: 10\r\n\r\n1\n2\n";
    let mut stalls = TcpStream::connect(served.address).await.unwrap();
    stalls.write_all(head.as_bytes()).await.unwrap();
    let mut ends = TcpStream::connect(served.address).await.unwrap();
    ends.write_all(head.as_bytes()).await.unwrap();
    ends.shutdown().await.unwrap();
    drop(ends);
    let mut all = Vec::new();
    stalls.read_to_end(&mut all).await.unwrap();
    assert_eq!(answered(&all).status, 408, "{}", String::from_utf8_lossy(&all));
    let open = "SELECT count(*) AS n FROM alluvia.queries WHERE status = 'running' AND sql LIKE 'INGEST%'";
    while served.rows(open).await != json!([{"n": 0}]) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(served.rows("SELECT count(*) AS n FROM t").await, json!([{"n": 0}]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_reads_is_gone_in_the_end() {
    let served =
        serve_with(ServerOptions { transfer_timeout: Duration::from_millis(300), ..ServerOptions::default() }).await;
    let stream = served
        .ask("POST", "/query")
        .header("accept", "text/csv")
        .body("SELECT repeat('x', 1000) AS x FROM generate_series(1, 100000000)")
        .begin()
        .await;
    let running = "SELECT count(*) AS n FROM alluvia.queries WHERE status = 'running' AND sql LIKE 'SELECT repeat%'";
    while served.rows(running).await != json!([{"n": 1}]) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    while served.rows(running).await != json!([{"n": 0}]) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(stream);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_send_nothing_do_not_keep_others_out() {
    let served = serve_with(ServerOptions { connections_max: 5, ..ServerOptions::default() }).await;
    let mut open = Vec::new();
    for _ in 0..300 {
        open.push(TcpStream::connect(served.address).await.unwrap());
    }
    assert_eq!(served.rows("SELECT 1 AS a").await, json!([{"a": 1}]));
    // Busy ones keep their places.
    drop(open);
    let mut busy = Vec::new();
    for count in 1..=5 {
        let ask = served.ask("POST", "/query").body("SELECT count(*) FROM generate_series(1, 1000000000000)");
        busy.push(ask.begin().await);
        // One whose request has not been read yet would make room.
        while !served.db.engine().figures().sessions.contains(&("http", count)) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    loop {
        let answer = served.ask("GET", "/healthz").send().await;
        if answer.status == 503 {
            assert_eq!(answer.error(), (503, "53300".to_owned()));
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_lets_statements_finish_and_then_cancels_them() {
    let served = serve_with(ServerOptions { stop_wait: Duration::from_millis(700), ..ServerOptions::default() }).await;
    let _idle = TcpStream::connect(served.address).await.unwrap();
    let mut short =
        served.ask("POST", "/query").body("SELECT count(*) AS n FROM generate_series(1, 3000000)").begin().await;
    let mut long =
        served.ask("POST", "/query").body("SELECT count(*) FROM generate_series(1, 1000000000000)").begin().await;
    let running = "SELECT count(*) AS n FROM alluvia.queries WHERE sql LIKE '%000000)'";
    while served.rows(running).await != json!([{"n": 2}]) {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let stopped = tokio::spawn(served.stop());
    let (mut first, mut second) = (Vec::new(), Vec::new());
    short.read_to_end(&mut first).await.unwrap();
    long.read_to_end(&mut second).await.unwrap();
    assert_eq!(answered(&first).json()["rows"], json!([{"n": 3_000_000}]));
    assert_eq!(answered(&second).error(), (499, "57014".to_owned()));
    stopped.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_http_is_told_so_as_other_errors_are() {
    let served = serve().await;
    for (request, status, code) in [
        ("hello\r\n\r\n", 400, "08P01"),
        ("GET / HTTP/1.1\r\nno header\r\n\r\n", 400, "08P01"),
        ("\u{16}\u{3}\u{1}", 400, "08P01"),
        (&format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(200 << 10)), 431, "54000"),
    ] {
        // Also after requests that were answered.
        for before in ["", "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"] {
            let mut stream = TcpStream::connect(served.address).await.unwrap();
            stream.write_all(before.as_bytes()).await.unwrap();
            if !before.is_empty() {
                let mut one = vec![0; 1_000];
                let count = stream.read(&mut one).await.unwrap();
                assert_eq!(answered(&one[..count]).status, 200);
            }
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut all = Vec::new();
            let _ = stream.read_to_end(&mut all).await;
            let answer = answered(&all);
            assert_eq!(answer.error(), (status, code.to_owned()), "{request:.40}");
            assert_eq!((answer.content_type(), answer.whole), ("application/json", true), "{request:.40}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_serves_many_requests() {
    let served = serve().await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    for _ in 0..3 {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let mut buffer = vec![0; 1000];
        let count = stream.read(&mut buffer).await.unwrap();
        assert_eq!(answered(&buffer[..count]).status, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_sends_all_before_it_reads_is_told_why_it_was_refused() {
    let served = serve_with(small()).await;
    served.query("CREATE TABLE t (a INT)").await;
    let many = format!("SELECT 1 -- {}", "x".repeat(16 << 20));
    for (path, headers, status) in [
        ("/query", "content-type: text/plain", 413),
        ("/query", "content-type: text/plain\r\naccept: image/png", 406),
        ("/query", "content-type: image/png", 415),
        ("/query?a=1&a=2", "content-type: text/plain", 400),
        ("/ingest/t", "content-type: text/csv", 413),
        ("/ingest/t", "content-type: image/png", 415),
    ] {
        for length in [format!("content-length: {}", many.len()), "transfer-encoding: chunked".to_owned()] {
            let mut stream = TcpStream::connect(served.address).await.unwrap();
            let head = format!(
                "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n{length}\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            if length.starts_with('c') {
                stream.write_all(many.as_bytes()).await.unwrap();
            } else {
                let chunk = format!("{:x}\r\n{many}\r\n0\r\n\r\n", many.len());
                stream.write_all(chunk.as_bytes()).await.unwrap();
            }
            let mut all = Vec::new();
            stream.read_to_end(&mut all).await.unwrap();
            assert_eq!(answered(&all).status, status, "{path} {headers} {length}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_has_failed_is_answered_although_its_body_stalls() {
    let served =
        serve_with(ServerOptions { transfer_timeout: Duration::from_secs(3_600), ..ServerOptions::default() }).await;
    served.query("CREATE TABLE t (a INT)").await;
    let mut stalls = TcpStream::connect(served.address).await.unwrap();
    let head =
        "POST /ingest/t HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/csv\r\ncontent-length: 900000000\r\n\r\n";
    stalls.write_all(head.as_bytes()).await.unwrap();
    // Enough that rows are looked at before the end of the body, which never comes.
    stalls.write_all(format!("1\n{}", "four\n".repeat(4 << 20)).as_bytes()).await.unwrap();
    let mut all = vec![0; 4_000];
    let count = stalls.read(&mut all).await.unwrap();
    let told = String::from_utf8_lossy(&all[..count]);
    assert!(told.starts_with("HTTP/1.1 400") && told.contains("the body, line 2, column a"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_half_open_connections_starve_nobody() {
    let served = serve().await;
    // A request that is under way keeps its place.
    let mut busy =
        served.ask("POST", "/query").body("SELECT count(*) AS n FROM generate_series(1, 30000000)").begin().await;
    while !served.db.engine().figures().sessions.contains(&("http", 1)) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let count = descriptors();
    let mut open = Vec::with_capacity(count);
    let starts: [&[u8]; 3] = [b"", b"POST /que", b"POST /query HTTP/1.1\r\nhost: localhost\r\naccept:"];
    for at in 0..count {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        // Those that had to make room are closed already.
        let _ = stream.write_all(starts[at % starts.len()]).await;
        open.push(stream);
        if at % 1_000 == 0 {
            assert_eq!(served.rows("SELECT 1 AS a").await, json!([{"a": 1}]), "{at}");
        }
    }
    assert_eq!(served.rows("SELECT 2 AS a").await, json!([{"a": 2}]));
    let mut all = Vec::new();
    busy.read_to_end(&mut all).await.unwrap();
    let answer = answered(&all);
    assert!(answer.status == 200 && answer.whole, "{}", answer.text());
    println!("{count} half-open connections");
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_have_a_time_that_requests_change() {
    let statement_timeout = Duration::from_millis(300);
    let served = serve_with(ServerOptions { statement_timeout, ..ServerOptions::default() }).await;
    let long = "SELECT count(*) FROM generate_series(1, 1000000000000)";
    assert_eq!(served.ask("POST", "/query").body(long).send().await.error(), (504, "57014".to_owned()));
    let shown = served.ask("POST", "/query?statement_timeout=2h").body("SHOW statement_timeout").send().await;
    assert_eq!(shown.status, 200);
    assert!(shown.text().contains("120min"), "{}", shown.text());
}
