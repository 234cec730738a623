//! Passwords, tokens, TLS, and what may not be served without them.

use crate::support::{Bare, Client, Served, fetch, serve, serve_on, serve_with, state, text};
use alluvia_access::{Access, Attempts, Passwords, Tls, Verifier};
use alluvia_node::Database;
use alluvia_server_flight::{Server, ServerOptions};
use alluvia_types::ErrorKind;
use arrow_flight::error::FlightError;
use arrow_flight::{Action, Criteria, Empty, FlightDescriptor, Ticket};
use futures::{Stream, stream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Code, Request, Status};

fn passwords() -> Access {
    let mut passwords = Passwords::default();
    passwords.set("alluvia", Verifier::new("right \u{e4}").unwrap());
    Access::Passwords(passwords)
}

/// With the passwords of roles beside.
fn roles(db: &Database) -> ServerOptions {
    let Access::Passwords(file) = passwords() else { unreachable!("passwords") };
    let access = Access::Passwords(file.with_directory(db.engine().directory(["alluvia"])));
    ServerOptions { access, ..ServerOptions::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_right_password_gives_a_token() {
    let attempts = Arc::<Attempts>::default();
    let options = ServerOptions { access: passwords(), attempts: Arc::clone(&attempts), ..ServerOptions::default() };
    let served = serve_with(options).await;
    let mut client = served.client().await;
    for (user, password) in [("alluvia", "wrong"), ("nobody", "right \u{e4}"), ("alluvia", "")] {
        let failed = client.handshake(user, password).await.unwrap_err().to_string();
        assert!(failed.contains("password authentication failed"), "{failed}");
        assert!(client.token().is_none());
    }
    client.handshake("alluvia", "right \u{e4}").await.unwrap();
    assert!(client.token().unwrap().len() >= 24);
    let who = text(&mut client, "SELECT user_name FROM alluvia.sessions WHERE protocol = 'flight'").await;
    assert!(who.contains("| alluvia"), "{who}");
    // A password with each call does as well.
    let mut basic = served.client().await;
    basic.set_header("authorization", "Basic YWxsdXZpYTpyaWdodCDDpA==");
    assert!(text(&mut basic, "SELECT 1 AS a").await.contains("| 1 |"));
    // Who has guessed too often, over whatever protocol, waits, with the right password, too.
    for _ in 0..20 {
        drop(attempts.admit("127.0.0.1".parse().unwrap(), "alluvia", Duration::from_secs(1_000_000)));
    }
    let failed = served.client().await.handshake("alluvia", "right \u{e4}").await.unwrap_err().to_string();
    assert!(failed.contains("too many wrong passwords"), "{failed}");
    // A token that was given stays good.
    assert!(text(&mut client, "SELECT 1 AS a").await.contains("| 1 |"));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_answered_without_a_password_or_a_token() {
    let served = serve_with(ServerOptions { access: passwords(), ..ServerOptions::default() }).await;
    for token in [None, Some("made up"), Some("")] {
        let mut client = served.client().await;
        if let Some(token) = token {
            client.set_token(token.to_owned());
        }
        let failed = client.execute("SELECT 1".to_owned(), None).await.unwrap_err();
        assert_eq!(state(failed), (Code::Unauthenticated, "28P01".to_owned()));
        assert_eq!(
            state(client.execute_update("CREATE TABLE t (a INT)".to_owned(), None).await.unwrap_err()).0,
            Code::Unauthenticated
        );
        assert_eq!(state(client.prepare("SELECT 1".to_owned(), None).await.unwrap_err()).0, Code::Unauthenticated);
        assert_eq!(state(client.begin_transaction().await.unwrap_err()).0, Code::Unauthenticated);
        let inner = client.inner_mut();
        let codes = [
            inner.do_get(Ticket::default()).await.err().unwrap().code(),
            inner.get_schema(FlightDescriptor::default()).await.err().unwrap().code(),
            inner.poll_flight_info(FlightDescriptor::default()).await.err().unwrap().code(),
            inner.list_flights(Criteria::default()).await.err().unwrap().code(),
            inner.list_actions(Empty {}).await.err().unwrap().code(),
            inner.do_action(Action::default()).await.err().unwrap().code(),
        ];
        assert_eq!(codes, [Code::Unauthenticated; 6]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_expire_and_their_number_is_bounded() {
    let options =
        ServerOptions { session_timeout: Duration::from_millis(300), connections_max: 3, ..ServerOptions::default() };
    let served = serve_with(options).await;
    let mut client = served.client().await;
    client.handshake("me", "").await.unwrap();
    assert!(text(&mut client, "SELECT 1 AS a").await.contains("| 1 |"));
    served.becomes("SELECT count(*) FROM alluvia.sessions WHERE user_name = 'me'", 0).await;
    assert_eq!(state(client.execute("SELECT 1".to_owned(), None).await.unwrap_err()).0, Code::Unauthenticated);
    // Each handshake gives another; the longest idle makes room.
    let mut tokens = Vec::new();
    for _ in 0..5 {
        client.clear_token();
        client.handshake("me", "").await.unwrap();
        tokens.push(client.token().unwrap().clone());
    }
    tokens.sort();
    tokens.dedup();
    assert_eq!(tokens.len(), 5);
    assert!(served.number("SELECT count(*) FROM alluvia.sessions WHERE user_name = 'me'").await <= 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_good_while_its_user_would_be_let_in() {
    let served = serve_on(roles).await;
    served.sql("CREATE TABLE t (v INT); GRANT SELECT ON t TO PUBLIC; CREATE ROLE ada LOGIN PASSWORD 'old'").await;
    let mut admin = served.client().await;
    admin.handshake("alluvia", "right \u{e4}").await.unwrap();
    let (unknown, forbidden) =
        ((Code::Unauthenticated, "28P01".to_owned()), (Code::PermissionDenied, "42501".to_owned()));
    for (change, wanted, undone) in [
        ("ALTER ROLE ada NOLOGIN", &unknown, "ALTER ROLE ada LOGIN"),
        ("REVOKE CONNECT ON DATABASE alluvia FROM PUBLIC", &forbidden, "GRANT CONNECT ON DATABASE alluvia TO PUBLIC"),
        ("ALTER ROLE ada RENAME TO eve", &unknown, "ALTER ROLE eve RENAME TO ada"),
        ("ALTER ROLE ada PASSWORD NULL", &unknown, "ALTER ROLE ada PASSWORD 'old'"),
        // The same one, set again, is another.
        ("ALTER ROLE ada PASSWORD 'old'", &unknown, "SELECT 1"),
        ("DROP ROLE ada", &unknown, "CREATE ROLE ada LOGIN PASSWORD 'old'"),
    ] {
        let mut client = served.client().await;
        client.handshake("ada", "old").await.unwrap();
        for _ in 0..2 {
            assert!(text(&mut client, "SELECT count(*) AS n FROM t").await.contains("| 0 |"), "{change}");
        }
        client.execute_update("BEGIN".to_owned(), None).await.unwrap();
        served.sql(change).await;
        let refused = client.execute("SELECT count(*) FROM t".to_owned(), None).await.unwrap_err();
        assert_eq!(&state(refused), wanted, "{change}");
        // It has ended, with what was kept for it.
        served.becomes("SELECT count(*) FROM alluvia.sessions WHERE user_name = 'ada'", 0).await;
        served.sql(undone).await;
        assert_eq!(state(client.execute("SELECT 1".to_owned(), None).await.unwrap_err()), unknown, "{change}");
        assert!(text(&mut admin, "SELECT 1 AS a").await.contains("| 1 |"), "another's stays good");
    }
}

/// On one connection a name may become another's.
#[tokio::test(flavor = "multi_thread")]
async fn a_login_without_a_token_is_of_a_role_and_not_of_a_name() {
    let served = serve_on(roles).await;
    let created = "CREATE TABLE t (v INT); CREATE ROLE ada LOGIN PASSWORD 'old'; CREATE ROLE bob LOGIN PASSWORD 'new'; \
        GRANT SELECT, INSERT ON t TO ada";
    served.sql(created).await;
    let rows = "SELECT count(*) AS n FROM t";
    let mut client = served.client().await;
    // ada:old
    client.set_header("authorization", "Basic YWRhOm9sZA==");
    client.execute("BEGIN".to_owned(), None).await.unwrap();
    client.execute("INSERT INTO t VALUES (1)".to_owned(), None).await.unwrap();
    assert!(text(&mut client, rows).await.contains("| 1 |"), "calls of one connection share a transaction");
    served.sql("ALTER ROLE ada RENAME TO eve; ALTER ROLE bob RENAME TO ada").await;
    // ada:new
    client.set_header("authorization", "Basic YWRhOm5ldw==");
    let refused = client.execute(rows.to_owned(), None).await.unwrap_err();
    assert_eq!(state(refused), (Code::PermissionDenied, "42501".to_owned()), "what was granted is eve's");
    served.becomes("SELECT count(*) FROM alluvia.sessions WHERE state = 'idle in transaction'", 0).await;
    served.sql("GRANT SELECT ON t TO ada").await;
    assert!(text(&mut client, rows).await.contains("| 0 |"), "eve's transaction is rolled back");
    // Another role of the same name begins anew, and is not told that it is gone.
    let again =
        "REVOKE SELECT ON t FROM ada; DROP ROLE ada; CREATE ROLE ada LOGIN PASSWORD 'new'; GRANT SELECT ON t TO ada";
    served.sql(again).await;
    assert!(text(&mut client, rows).await.contains("| 0 |"));
    served.becomes("SELECT count(*) FROM alluvia.sessions WHERE protocol = 'flight'", 1).await;
}

/// Asks something by the client's token.
async fn ask(client: &mut Client) -> Result<(), FlightError> {
    let info = client.execute("SELECT 1 AS a".to_owned(), None).await?;
    fetch(client, info).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_ends_at_its_age_however_much_it_is_used() {
    let options = ServerOptions { token_lifetime: Duration::from_secs(1), ..ServerOptions::default() };
    let served = serve_with(options).await;
    let ended = (Code::Unauthenticated, "28P01".to_owned());
    let ends = async {
        // Whoever logs in again has another token, which is good as long.
        for _ in 0..2 {
            let mut client = served.client().await;
            client.handshake("me", "").await.unwrap();
            // On a busy machine a token may be too old before it is used: then another is.
            while let Err(error) = ask(&mut client).await {
                assert_eq!(state(error), ended);
                client.clear_token();
                client.handshake("me", "").await.unwrap();
            }
            let refused = loop {
                if let Err(error) = ask(&mut client).await {
                    break state(error);
                }
            };
            assert_eq!(refused, ended);
        }
    };
    tokio::time::timeout(Duration::from_secs(60), ends).await.expect("a token has no age, or is never good");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_can_be_ended() {
    let served = serve().await;
    let mut client = served.client().await;
    client.handshake("me", "").await.unwrap();
    client.execute("SET freshness = '5s'".to_owned(), None).await.unwrap();
    let close = Action { r#type: "CloseSession".to_owned(), body: Default::default() };
    let result = client.do_action(close).await.unwrap().message().await.unwrap().unwrap();
    assert_eq!(&result.body[..], [8, 1]);
    assert_eq!(state(client.execute("SELECT 1".to_owned(), None).await.unwrap_err()).0, Code::Unauthenticated);
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
async fn with_a_certificate_nothing_is_served_in_the_clear() {
    let tls = Tls::new(include_bytes!("certificate.pem"), include_bytes!("key.pem")).unwrap();
    let options = ServerOptions {
        tls: Some(tls),
        authentication_timeout: Duration::from_millis(500),
        ..ServerOptions::default()
    };
    let served = serve_with(options).await;
    let plain = tonic::transport::Endpoint::from_shared(format!("http://{}", served.address)).unwrap();
    let failed = match plain.connect().await {
        Err(_) => true,
        Ok(channel) => Client::new(channel).execute("SELECT 1".to_owned(), None).await.is_err(),
    };
    assert!(failed);
    // What is no TLS, or stops in its midst, is closed.
    let mut silent = TcpStream::connect(served.address).await.unwrap();
    silent.write_all(&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01]).await.unwrap();
    let mut all = Vec::new();
    let _ = silent.read_to_end(&mut all).await;
    assert!(served.number("SELECT count(*) FROM alluvia.sessions WHERE protocol = 'flight'").await == 0);
}

/// Calls a method with these messages, whatever it takes; gives how it is refused.
async fn refusal(
    served: &Served,
    method: &str,
    authorization: Option<&str>,
    messages: impl Stream<Item = Vec<u8>> + Send + 'static,
) -> Status {
    let mut grpc = Grpc::new(served.channel().await);
    grpc.ready().await.unwrap();
    let mut request = Request::new(messages);
    if let Some(value) = authorization {
        request.metadata_mut().insert("authorization", value.parse().unwrap());
    }
    let path = PathAndQuery::try_from(format!("/arrow.flight.protocol.FlightService/{method}")).unwrap();
    let call = grpc.streaming(request, path, Bare);
    let answered = tokio::time::timeout(Duration::from_secs(60), call).await;
    let answered = answered.unwrap_or_else(|_| panic!("{method} waits for a message that does not come"));
    match answered {
        Err(status) => status,
        Ok(response) => response.into_inner().message().await.err().unwrap_or_else(|| panic!("{method} was let in")),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_let_in_is_told_before_the_message_is_read() {
    let options = ServerOptions {
        access: passwords(),
        transfer_timeout: Duration::from_secs(600),
        authentication_timeout: Duration::from_secs(600),
        ..ServerOptions::default()
    };
    let served = serve_with(options).await;
    let methods =
        ["GetFlightInfo", "PollFlightInfo", "GetSchema", "DoGet", "DoAction", "ListFlights", "DoPut", "Nothing"];
    for method in methods {
        for authorization in [None, Some("Bearer made-up"), Some("Basic YWxsdXZpYQ")] {
            // A message that never comes to its end: who waits for it never answers.
            let failed = refusal(&served, method, authorization, stream::pending()).await;
            assert_eq!(failed.code(), Code::Unauthenticated, "{method}: {failed:?}");
            assert_eq!(failed.metadata().get("alluvia-sqlstate").unwrap(), "28P01", "{method}");
        }
        // Messages without end: no more of them are taken than lie in HTTP/2's window.
        let taken = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&taken);
        let endless = stream::repeat_with(move || {
            counted.fetch_add(1, Ordering::SeqCst);
            vec![0; 1 << 20]
        });
        assert_eq!(refusal(&served, method, None, endless).await.code(), Code::Unauthenticated, "{method}");
        assert!(taken.load(Ordering::SeqCst) <= 20, "{method}: {taken:?}");
    }
    // A handshake's messages are not read either, and its headers tell who comes.
    let endless = stream::repeat_with(|| vec![0; 1 << 20]);
    assert_eq!(refusal(&served, "Handshake", None, endless).await.code(), Code::Unauthenticated);
    served.client().await.handshake("alluvia", "right \u{e4}").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_which_nothing_more_comes_is_given_up() {
    let options = ServerOptions { transfer_timeout: Duration::from_millis(300), ..ServerOptions::default() };
    let served = serve_with(options).await;
    let failed = refusal(&served, "GetFlightInfo", None, stream::pending()).await;
    assert_eq!(failed.code(), Code::DeadlineExceeded, "{failed:?}");
}
