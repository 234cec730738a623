//! Progress of a long statement, as notices while it runs.

use crate::raw_messages::RawClient;
use crate::support::{serve, serve_with};
use alluvia_server_pg::ServerOptions;
use std::time::Duration;

/// The text of a notice of progress.
fn progress(message: &(u8, Vec<u8>)) -> Option<String> {
    let text = String::from_utf8_lossy(&message.1);
    let field = text.split('\0').find_map(|field| field.strip_prefix("Mprogress: "));
    field.filter(|_| message.0 == b'N').map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_asks_is_told_how_far_a_long_statement_is() {
    let statement_timeout = Duration::from_secs(1);
    let served = serve_with(ServerOptions { statement_timeout, ..ServerOptions::default() }).await;
    let mut raw = RawClient::start(&served).await;
    let long = b"SELECT count(*) FROM generate_series(1, 1000000000000)\0";
    // It is off unless somebody asks.
    raw.send(b'Q', long).await;
    assert!(raw.until_ready().await.iter().all(|message| progress(message).is_none()));
    raw.send(b'Q', b"SET progress = '10ms'\0").await;
    raw.until_ready().await;
    raw.send(b'Q', long).await;
    let messages = raw.until_ready().await;
    let told: Vec<String> = messages.iter().filter_map(progress).collect();
    assert!(!told.is_empty());
    assert!(told.iter().all(|line| line.contains(" rows, ") && line.contains(" rows/s, running for ")), "{told:?}");
    // And the error, and that it is ready.
    let kinds: String = messages.iter().map(|(kind, _)| char::from(*kind)).filter(|kind| *kind != 'N').collect();
    assert!(kinds.ends_with("EZ"), "{kinds}");
    // Whoever wants no notices gets none.
    raw.send(b'Q', b"SET client_min_messages = 'error'\0").await;
    raw.until_ready().await;
    raw.send(b'Q', long).await;
    assert!(raw.until_ready().await.iter().all(|(kind, _)| *kind != b'N'));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_extended_protocol_and_copy_tell_too() {
    let served = serve().await;
    let mut raw = RawClient::start(&served).await;
    for sql in [&b"CREATE TABLE t (a INT)\0"[..], b"SET progress = '10ms'\0"] {
        raw.send(b'Q', sql).await;
        raw.until_ready().await;
    }
    // A COPY whose rows do not end: it is told until they do.
    raw.send(b'Q', b"COPY t FROM STDIN\0").await;
    raw.send(b'd', b"1\n2\n").await;
    let told = loop {
        let message = raw.receive().await.unwrap();
        if let Some(told) = progress(&message) {
            break told;
        }
    };
    assert!(told.contains(" rows/s, "), "{told}");
    raw.send(b'c', b"").await;
    assert!(raw.kinds().await.ends_with("CZ"));
    raw.send(b'Q', b"SET statement_timeout = '1s'\0").await;
    raw.until_ready().await;
    raw.send(b'P', b"\0SELECT count(*) FROM t a, generate_series(1, 1000000000000) b\0\0\0").await;
    raw.send(b'B', b"\0\0\0\0\0\0\0\0").await;
    raw.send(b'E', b"\0\0\0\0\0").await;
    raw.send(b'S', b"").await;
    let messages = raw.until_ready().await;
    assert!(messages.iter().filter_map(progress).next().is_some());
    let kinds: String = messages.iter().map(|(kind, _)| char::from(*kind)).filter(|kind| *kind != 'N').collect();
    assert_eq!(kinds, "12EZ");
}
