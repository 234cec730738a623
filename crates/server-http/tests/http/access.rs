//! Passwords, TLS, other origins, and what may not be served without them.

use crate::client::Answered;
use crate::support::{Served, serve, serve_on, serve_with};
use alluvia_access::{Access, Attempts, Passwords, Tls, Verifier};
use alluvia_server_http::{Server, ServerOptions};
use alluvia_types::ErrorKind;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn passwords() -> Access {
    let mut passwords = Passwords::default();
    passwords.set("alluvia", Verifier::new("right \u{e4}").unwrap());
    Access::Passwords(passwords)
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_right_password_is_answered() {
    let attempts = Arc::<Attempts>::default();
    let options = ServerOptions { access: passwords(), attempts: Arc::clone(&attempts), ..ServerOptions::default() };
    let served = serve_with(options).await;
    let ask = |scheme: &str, credentials: &str| {
        let header = format!("{scheme} {}", BASE64.encode(credentials));
        served
            .ask("POST", "/query")
            .header("authorization", &header)
            .body("SELECT user_name, protocol FROM alluvia.sessions")
            .send()
    };
    for scheme in ["Basic", "Bearer", "basic"] {
        let answer = ask(scheme, "alluvia:right \u{e4}").await;
        assert_eq!(answer.json()["rows"], serde_json::json!([{"user_name": "alluvia", "protocol": "http"}]));
    }
    for wrong in ["alluvia:wrong", "nobody:right \u{e4}", "alluvia:", "alluvia"] {
        assert_eq!(ask("Basic", wrong).await.error(), (401, "28P01".to_owned()), "{wrong}");
    }
    let nothing = served.query("SELECT 1").await;
    assert_eq!((nothing.status, nothing.headers["www-authenticate"].starts_with("Basic")), (401, true));
    for (path, status) in [("/metrics", 401), ("/healthz", 200), ("/readyz", 200), ("/openapi.yaml", 200)] {
        assert_eq!(served.ask("GET", path).send().await.status, status, "{path}");
    }
    let ingest = served.ask("POST", "/ingest/t").header("content-type", "text/csv").body("1\n").send();
    assert_eq!(ingest.await.status, 401);
    // Who has guessed too often, over whatever protocol, waits, with the right password, too: else it would be told which one is right.
    for _ in 0..20 {
        drop(attempts.admit("127.0.0.1".parse().unwrap(), "alluvia", std::time::Duration::from_secs(1_000_000)));
    }
    assert_eq!(ask("Basic", "alluvia:wrong").await.status, 429);
    assert_eq!(ask("Basic", "alluvia:right \u{e4}").await.status, 429);
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_of_the_database_ask_with_their_passwords_and_do_what_they_were_granted() {
    let served = serve_on(|db| {
        let Access::Passwords(file) = passwords() else { unreachable!("passwords") };
        let access = Access::Passwords(file.with_directory(db.engine().directory(["alluvia"])));
        ServerOptions { access, ..ServerOptions::default() }
    })
    .await;
    let ask = |credentials: &str, path: &str, content: &str, body: &str| {
        let header = format!("Basic {}", BASE64.encode(credentials));
        served.ask("POST", path).header("authorization", &header).header("content-type", content).body(body).send()
    };
    let admin = |sql: &'static str| ask("alluvia:right \u{e4}", "/query", "application/sql", sql);
    for sql in [
        "CREATE TABLE sales (price DOUBLE)",
        "CREATE ROLE grafana LOGIN PASSWORD 'word'",
        "ALTER ROLE grafana SET max_error = 0.01",
        "GRANT SELECT ON sales TO grafana",
    ] {
        let answer = admin(sql).await;
        assert_eq!(answer.status, 200, "{sql}: {}", answer.text());
    }
    let role = |sql: &'static str| ask("grafana:word", "/query", "application/sql", sql);
    for _ in 0..2 {
        assert_eq!(role("SELECT count(*) AS n FROM sales").await.json()["rows"], serde_json::json!([{"n": 0}]));
        assert_eq!(role("SHOW max_error").await.json()["rows"], serde_json::json!([{"max_error": "0.01"}]));
        assert_eq!(role("INSERT INTO sales VALUES (1)").await.error(), (403, "42501".to_owned()));
        let ingest = ask("grafana:word", "/ingest/sales", "text/csv", "price\n1\n").await;
        assert_eq!(ingest.error(), (403, "42501".to_owned()));
    }
    // What is counted names all tables.
    let metrics = |credentials: &'static str| ask_metrics(&served, credentials);
    assert_eq!(metrics("alluvia:right \u{e4}").await.status, 200);
    assert_eq!(metrics("grafana:word").await.error(), (403, "42501".to_owned()));
    assert_eq!(admin("GRANT pg_monitor TO grafana").await.status, 200);
    assert!(metrics("grafana:word").await.text().contains("alluvia_stage_rows{table=\"sales\""));
    assert_eq!(admin("REVOKE pg_monitor FROM grafana").await.status, 200);
    assert_eq!(metrics("grafana:word").await.status, 403);
    let log_ins =
        "SELECT count(*) AS n FROM alluvia.audit WHERE event = 'log_in' AND outcome = 'ok' AND user_name = 'grafana'";
    assert_eq!(admin(log_ins).await.json()["rows"], serde_json::json!([{"n": 1}]), "requests of an hour are one");
    assert_eq!(admin("ALTER ROLE grafana PASSWORD 'other'").await.status, 200);
    assert_eq!(role("SELECT 1").await.error(), (401, "28P01".to_owned()), "what was right is no longer");
    let again = |sql: &'static str| ask("grafana:other", "/query", "application/sql", sql);
    assert_eq!(again("SELECT 1").await.status, 200);
    assert_eq!(admin("ALTER ROLE grafana NOLOGIN").await.status, 200);
    assert_eq!(again("SELECT 1").await.error(), (401, "28P01".to_owned()));
}

async fn ask_metrics(served: &Served, credentials: &str) -> Answered {
    let header = format!("Basic {}", BASE64.encode(credentials));
    served.ask("GET", "/metrics").header("authorization", &header).send().await
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_are_for_everybody_on_this_machine_where_the_options_say_so() {
    let served =
        serve_with(ServerOptions { access: passwords(), metrics_on_loopback: true, ..ServerOptions::default() }).await;
    assert_eq!(served.ask("GET", "/metrics").send().await.status, 200);
    // Nobody's page, and nothing else.
    let page = served.ask("GET", "/metrics").header("origin", "https://evil.example").send().await;
    assert_eq!(page.status, 403);
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.unwrap();
    assert!(all.starts_with(b"HTTP/1.1 403"));
    assert_eq!(served.query("SELECT 1").await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_addresses_need_passwords_and_tls() {
    let served = serve().await;
    let tls = Tls::new(include_bytes!("certificate.pem"), include_bytes!("key.pem")).unwrap();
    for (access, tls, allowed) in [
        (Access::Trust, None, false),
        (Access::Trust, Some(tls.clone()), false),
        (passwords(), None, false),
        (passwords(), Some(tls), true),
    ] {
        let options = ServerOptions { access, tls, ..ServerOptions::default() };
        let bound = Server::bind("0.0.0.0:0".parse().unwrap(), options, Arc::clone(served.db.engine())).await;
        assert_eq!(bound.as_ref().err().map(|error| error.kind()), (!allowed).then_some(ErrorKind::InvalidSetting));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn guesses_at_once_are_as_few_as_guesses_in_turn() {
    let served = serve_with(ServerOptions { access: passwords(), ..ServerOptions::default() }).await;
    let guess = |at: usize| {
        let header = format!("Basic {}", BASE64.encode(format!("alluvia:guess {at}")));
        served.ask("POST", "/query").header("authorization", &header).body("SELECT 1 AS a").send()
    };
    let answers = futures::future::join_all((0..60).map(guess)).await;
    let told = |status: u16| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!((told(401), told(429)), (20, 40));
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_certificate_nothing_is_answered_in_the_clear() {
    let tls = Tls::new(include_bytes!("certificate.pem"), include_bytes!("key.pem")).unwrap();
    let served = serve_with(ServerOptions { tls: Some(tls), ..ServerOptions::default() }).await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all).await;
    assert!(!all.starts_with(b"HTTP"), "{}", String::from_utf8_lossy(&all));
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_origins_cannot_ask() {
    let served = serve().await;
    let ask = |origin: &str| served.ask("POST", "/query").header("origin", origin).body("SELECT 1 AS a").send();
    assert_eq!(ask("https://evil.example").await.error(), (403, "28P01".to_owned()));
    assert_eq!(ask(&format!("http://{}", served.address)).await.status, 200);
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.unwrap();
    assert!(all.starts_with(b"HTTP/1.1 403"));
    // Nothing allows other origins to read answers.
    let options = served.ask("OPTIONS", "/query").header("origin", &format!("http://{}", served.address)).send().await;
    assert_eq!(options.status, 405);
    assert!(!options.headers.keys().any(|name| name.starts_with("access-control")));
}
