//! Clients that would have the server remember much for them: what they send before a log-in, do not read, or have kept.

use crate::access::passwords;
use crate::raw_messages::{RawClient, message, startup};
use crate::support::{serve, serve_with, texts};
use alluvia_server_pg::ServerOptions;
use std::time::Duration;
use tokio::io::AsyncWriteExt;

const MEGABYTE: usize = 1 << 20;

/// What the server says against something, and its SQLSTATE.
fn refusal(messages: &[(u8, Vec<u8>)]) -> String {
    let error = messages.iter().find(|(kind, _)| *kind == b'E');
    error.map(|(_, body)| String::from_utf8_lossy(body).into_owned()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_not_logged_in_sends_little() {
    let served = serve_with(ServerOptions { access: passwords(), ..ServerOptions::default() }).await;
    let asked = async || {
        let mut raw = RawClient::connect(&served).await;
        raw.send_raw(&startup("alluvia")).await;
        assert_eq!(raw.receive().await.map(|(kind, _)| kind), Some(b'R'));
        raw
    };
    // Refused before any of it comes.
    let mut raw = asked().await;
    raw.send_raw(&[&b"p"[..], &65_536u32.to_be_bytes()].concat()).await;
    let told = refusal(&raw.until_ready().await);
    assert!(told.contains("\0C08P01\0") && told.contains("65535"), "{told}");
    // Taken, and looked at.
    let mut raw = asked().await;
    raw.send(b'p', &[0; 65_531]).await;
    let told = refusal(&raw.until_ready().await);
    assert!(told.contains("\0C08P01\0") && told.contains("mechanism"), "{told}");
    // Who has logged in sends what the server takes.
    let mut config = served.config();
    config.password("right \u{e4}");
    let client = served.client_with(&config).await.unwrap();
    let long = format!("SELECT length('{}')", "x".repeat(3 * MEGABYTE));
    assert_eq!(texts(&client, &long).await, [(3 * MEGABYTE).to_string()]);
}

/// A statement of so many columns that a few thousand descriptions of it are more than a socket holds.
fn wide() -> Vec<u8> {
    let columns: Vec<String> = (0..100).map(|at| format!("{at} AS a_column_with_a_long_name_{at}")).collect();
    message(b'P', format!("wide\0SELECT {}\0\0\0", columns.join(", ")).as_bytes())
}

#[tokio::test(flavor = "multi_thread")]
async fn who_never_reads_is_closed_and_their_transaction_rolled_back() {
    let transfer_timeout = Duration::from_millis(300);
    let served = serve_with(ServerOptions { transfer_timeout, ..ServerOptions::default() }).await;
    let client = served.client().await;
    client.batch_execute("CREATE TABLE t (a INT)").await.unwrap();
    let (describe, flush) = (message(b'D', b"Swide\0"), message(b'H', b""));
    // Whether answers are asked for or not.
    for asked in [[describe.clone(), flush].concat(), describe] {
        let mut raw = RawClient::start(&served).await;
        for sql in [&b"BEGIN\0"[..], b"INSERT INTO t VALUES (1)\0"] {
            raw.send(b'Q', sql).await;
            assert_eq!(raw.kinds().await, "CZ");
        }
        raw.send_raw(&wide()).await;
        let many = asked.repeat(1_000);
        let ends = async { while raw.0.write_all(&many).await.is_ok() {} };
        tokio::time::timeout(Duration::from_secs(120), ends).await.expect("its connection ends");
        let others = "SELECT count(*) FROM alluvia.sessions WHERE user_name = 'me'";
        while texts(&client, others).await != ["0"] {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(texts(&client, "SELECT count(*) FROM t").await, ["0"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_pipeline_is_answered_as_it_comes() {
    let served = serve().await;
    let mut raw = RawClient::start(&served).await;
    // 20 MB of answers, of which none is asked for before the last.
    raw.send_raw(&[wide(), message(b'D', b"Swide\0").repeat(5_000), message(b'S', b"")].concat()).await;
    assert_eq!(raw.kinds().await, format!("1{}Z", "tT".repeat(5_000)));
    let text = "SET application_name = 'a'; SET application_name = 'b';".repeat(2_000);
    raw.send(b'Q', format!("{text}\0").as_bytes()).await;
    assert_eq!(raw.kinds().await.matches('C').count(), 4_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn prepared_statements_have_a_bound_in_bytes() {
    let served = serve().await;
    let mut raw = RawClient::start(&served).await;
    let parse = async |raw: &mut RawClient, name: &str, megabytes: usize| {
        let sql = format!("{name}\0SELECT '{}'\0\0\0", "x".repeat(megabytes * MEGABYTE));
        raw.send_raw(&[message(b'P', sql.as_bytes()), message(b'S', b"")].concat()).await;
        raw.until_ready().await
    };
    let is_taken = |messages: &[(u8, Vec<u8>)]| messages[0].0 == b'1';
    assert!(is_taken(&parse(&mut raw, "a", 8).await) && is_taken(&parse(&mut raw, "b", 7).await));
    // 16 MB are allowed, and these are not texts alone.
    let refused = parse(&mut raw, "c", 1).await;
    let told = refusal(&refused);
    assert!(told.contains("\0C54000\0") && told.contains("16777216") && told.contains("DEALLOCATE"), "{told}");
    // What is run once may be long; and nothing of it stays.
    for _ in 0..2 {
        assert!(is_taken(&parse(&mut raw, "", 17).await));
    }
    assert!(!is_taken(&parse(&mut raw, "c", 1).await));
    raw.send(b'Q', b"DEALLOCATE b\0").await;
    assert_eq!(raw.kinds().await, "CZ");
    assert!(is_taken(&parse(&mut raw, "c", 7).await) && !is_taken(&parse(&mut raw, "d", 1).await));
    raw.send_raw(&[message(b'C', b"Sa\0"), message(b'S', b"")].concat()).await;
    assert_eq!(raw.kinds().await, "3Z");
    assert!(is_taken(&parse(&mut raw, "d", 8).await) && !is_taken(&parse(&mut raw, "e", 1).await));
    raw.send(b'Q', b"DEALLOCATE ALL\0").await;
    assert_eq!(raw.kinds().await, "CZ");
    assert!(is_taken(&parse(&mut raw, "e", 15).await));
}

#[tokio::test(flavor = "multi_thread")]
async fn trees_of_prepared_statements_count_and_texts_too_dense_are_refused() {
    let served = serve().await;
    let mut raw = RawClient::start(&served).await;
    let parse = async |raw: &mut RawClient, name: &str, numbers: usize| {
        let sql = format!("{name}\0SELECT 1 IN ({})\0\0\0", vec!["1"; numbers].join(","));
        raw.send_raw(&[message(b'P', sql.as_bytes()), message(b'S', b"")].concat()).await;
        raw.until_ready().await
    };
    // 100 kB of text.
    let refused = parse(&mut raw, "a", 50_000).await;
    let told = refusal(&refused);
    assert!(told.contains("\0C54000\0") && told.contains("16777216") && told.contains("DEALLOCATE"), "{told}");
    // What was refused takes no room.
    for (name, numbers) in [("", 50_000), ("a", 20_000), ("", 50_000)] {
        assert_eq!(parse(&mut raw, name, numbers).await[0].0, b'1', "{name:?}");
    }
    // 1.2 MB of text, with or without a name.
    let refused = parse(&mut raw, "", 600_000).await;
    let told = refusal(&refused);
    assert!(told.contains("\0C54000\0") && told.contains("1000000 tokens") && told.contains("COPY"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_portals_have_a_bound_in_bytes() {
    let served = serve().await;
    let mut raw = RawClient::start(&served).await;
    let (sync, execute) = (message(b'S', b""), message(b'E', b"\0\0\0\0\0"));
    let bind = |portal: &str, megabytes: usize| {
        let value = vec![b'x'; megabytes * MEGABYTE];
        let length = (value.len() as u32).to_be_bytes();
        let names = format!("{portal}\0length\0");
        message(b'B', &[names.as_bytes(), b"\0\0\0\x01", &length, &value, b"\0\0"].concat())
    };
    // A text.
    raw.send(b'P', b"length\0SELECT length($1)\0\0\x01\0\0\0\x19").await;
    raw.send_raw(&[bind("a", 8), bind("b", 7), bind("c", 1), bind("d", 1), sync.clone()].concat()).await;
    let messages = raw.until_ready().await;
    let kinds: String = messages.iter().map(|(kind, _)| char::from(*kind)).collect();
    assert_eq!(kinds, "122EZ");
    let told = refusal(&messages);
    assert!(told.contains("\0C54000\0") && told.contains("16777216") && told.contains("Close"), "{told}");
    // They went with the end of the pipeline. What is closed makes room; the one without a name is not counted.
    let close = message(b'C', b"Pa\0");
    let unnamed = bind("", 17);
    raw.send_raw(&[bind("a", 8), bind("b", 7), close, bind("c", 8), unnamed.clone(), unnamed, execute, sync].concat())
        .await;
    let messages = raw.until_ready().await;
    let kinds: String = messages.iter().filter(|(kind, _)| *kind != b'N').map(|(kind, _)| char::from(*kind)).collect();
    assert_eq!(kinds, "223222DCZ");
    let row = &messages.iter().find(|(kind, _)| *kind == b'D').unwrap().1;
    assert!(row.ends_with((17 * MEGABYTE).to_string().as_bytes()));
}
