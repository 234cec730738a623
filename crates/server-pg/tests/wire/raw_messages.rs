//! Messages as bytes: what no driver sends.

use crate::descriptors::descriptors;
use crate::support::{Served, serve, serve_with, texts};
use alluvia_server_pg::ServerOptions;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A connection without a driver.
pub struct RawClient(pub TcpStream);

impl RawClient {
    /// Has said nothing yet.
    pub async fn connect(served: &Served) -> RawClient {
        RawClient(TcpStream::connect(served.address).await.unwrap())
    }

    /// Logs in, up to the first ReadyForQuery.
    pub async fn start(served: &Served) -> RawClient {
        let mut raw = RawClient::connect(served).await;
        raw.send_raw(&startup("me")).await;
        assert_eq!(raw.until_ready().await.last().unwrap().1, b"I");
        raw
    }

    pub async fn send_raw(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
    }

    pub async fn send(&mut self, kind: u8, body: &[u8]) {
        self.send_raw(&message(kind, body)).await;
    }

    /// The next message; `None` at the end of the connection.
    pub async fn receive(&mut self) -> Option<(u8, Vec<u8>)> {
        let kind = self.0.read_u8().await.ok()?;
        let length = self.0.read_u32().await.ok()?;
        let mut body = vec![0; length as usize - 4];
        self.0.read_exact(&mut body).await.ok()?;
        Some((kind, body))
    }

    pub async fn until_ready(&mut self) -> Vec<(u8, Vec<u8>)> {
        let mut messages = Vec::new();
        while let Some(message) = self.receive().await {
            let is_ready = message.0 == b'Z';
            messages.push(message);
            if is_ready {
                break;
            }
        }
        messages
    }

    /// Kinds of messages up to ReadyForQuery, without notices.
    pub async fn kinds(&mut self) -> String {
        let messages = self.until_ready().await;
        messages.iter().filter(|(kind, _)| *kind != b'N').map(|(kind, _)| char::from(*kind)).collect()
    }
}

/// The first message of who wants a session.
pub fn startup(user: &str) -> Vec<u8> {
    let body = [&(3u32 << 16).to_be_bytes()[..], b"user\0", user.as_bytes(), b"\0\0"].concat();
    [&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat()
}

/// Any later one.
pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_error_everything_is_skipped_until_sync() {
    let served = serve().await;
    let mut raw = RawClient::start(&served).await;
    raw.send(b'Q', b"CREATE TABLE t (a INT)\0").await;
    assert_eq!(raw.kinds().await, "CZ");
    let parse = |sql: &str| message(b'P', &[b"\0", sql.as_bytes(), b"\0\0\0"].concat());
    let bind = message(b'B', b"\0\0\0\0\0\0\0\0");
    let execute = message(b'E', b"\0\0\0\0\0");
    let sync = message(b'S', b"");
    let good = [parse("INSERT INTO t VALUES (1)"), bind.clone(), execute.clone()].concat();
    let bad = [parse("INSERT INTO t VALUES ('x')"), bind.clone(), execute.clone()].concat();
    // All of a pipeline, or nothing of it.
    raw.send_raw(&[good.clone(), bad, good.clone(), sync.clone()].concat()).await;
    assert_eq!(raw.kinds().await, "12C12EZ");
    raw.send_raw(&[good.clone(), good.clone(), sync.clone()].concat()).await;
    assert_eq!(raw.kinds().await, "12C12CZ");
    let client = served.client().await;
    assert_eq!(texts(&client, "SELECT count(*) FROM t").await, ["2"]);
    // Describe and Close of what is not there, an empty text, a portal that is used up.
    raw.send_raw(&[message(b'D', b"Snone\0"), sync.clone()].concat()).await;
    assert_eq!(raw.kinds().await, "EZ");
    raw.send_raw(&[message(b'C', b"Snone\0"), parse(""), bind.clone(), execute.clone(), sync.clone()].concat()).await;
    assert_eq!(raw.kinds().await, "312IZ");
    raw.send_raw(&[parse("SELECT 1"), bind, message(b'D', b"P\0"), execute.clone(), execute, sync].concat()).await;
    assert_eq!(raw.kinds().await, "12TDCCZ");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_portal_tells_the_columns_of_returning_and_changes_nothing_before_it_is_executed() {
    let served = serve().await;
    let mut raw = RawClient::start(&served).await;
    raw.send(b'Q', b"CREATE TABLE t (a INT PRIMARY KEY, b INT)\0").await;
    assert_eq!(raw.kinds().await, "CZ");
    let parse = |sql: &str| message(b'P', &[b"\0", sql.as_bytes(), b"\0\0\0"].concat());
    let (bind, describe) = (message(b'B', b"\0\0\0\0\0\0\0\0"), message(b'D', b"P\0"));
    let (execute, sync) = (message(b'E', b"\0\0\0\0\0"), message(b'S', b""));
    let insert = "INSERT INTO t VALUES (1, 2), (2, 3) RETURNING b";
    raw.send_raw(&[parse(insert), bind.clone(), describe.clone(), sync.clone()].concat()).await;
    assert_eq!(raw.kinds().await, "12TZ");
    let client = served.client().await;
    assert_eq!(texts(&client, "SELECT count(*) FROM t").await, ["0"]);
    for (sql, kinds) in [
        (insert, "12TDDCZ"),
        ("UPDATE t SET b = 4 RETURNING *", "12TDDCZ"),
        ("UPDATE t SET b = 5", "12nCZ"),
        ("DELETE FROM t WHERE a = 1 RETURNING a + 1", "12TDCZ"),
    ] {
        let whole = [parse(sql), bind.clone(), describe.clone(), execute.clone(), sync.clone()].concat();
        raw.send_raw(&whole).await;
        assert_eq!(raw.kinds().await, kinds, "{sql}");
    }
    assert_eq!(texts(&client, "SELECT a FROM t").await, ["2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn portals_go_with_the_savepoint_after_which_they_were_made() {
    let served = serve().await;
    let mut raw = RawClient::start(&served).await;
    let sync = message(b'S', b"");
    let open = |portal: &str| {
        let parse = message(b'P', b"\0SELECT value FROM generate_series(1, 100)\0\0\0");
        let bind = message(b'B', &[portal.as_bytes(), b"\0\0\0\0\0\0\0\0"].concat());
        [parse, bind].concat()
    };
    let take = |portal: &str| message(b'E', &[portal.as_bytes(), b"\0\0\0\0\x02"].concat());
    let asked = async |raw: &mut RawClient, messages: &[Vec<u8>]| {
        raw.send_raw(&messages.concat()).await;
        raw.kinds().await
    };
    let simple = |sql: &str| vec![message(b'Q', &[sql.as_bytes(), b"\0"].concat())];
    assert_eq!(asked(&mut raw, &simple("BEGIN")).await, "CZ");
    assert_eq!(asked(&mut raw, &[open("before"), take("before"), sync.clone()]).await, "12DDsZ");
    assert_eq!(asked(&mut raw, &simple("SAVEPOINT a")).await, "CZ");
    assert_eq!(asked(&mut raw, &[open("within"), take("within"), sync.clone()]).await, "12DDsZ");
    assert_eq!(asked(&mut raw, &simple("ROLLBACK TO a")).await, "CZ");
    assert_eq!(asked(&mut raw, &[take("before"), sync.clone()]).await, "DDsZ");
    // 34000, which fails the transaction; what was made before goes on once that is undone.
    assert_eq!(asked(&mut raw, &[take("within"), sync.clone()]).await, "EZ");
    assert_eq!(asked(&mut raw, &simple("ROLLBACK TO a")).await, "CZ");
    assert_eq!(asked(&mut raw, &[take("before"), sync.clone()]).await, "DDsZ");
    // The name can be used again. What is released belongs to what is around it: to `a`, and then to the transaction.
    assert_eq!(asked(&mut raw, &simple("SAVEPOINT b")).await, "CZ");
    assert_eq!(asked(&mut raw, &[open("within"), take("within"), sync.clone()]).await, "12DDsZ");
    assert_eq!(asked(&mut raw, &simple("RELEASE b")).await, "CZ");
    assert_eq!(asked(&mut raw, &[take("within"), sync.clone()]).await, "DDsZ");
    assert_eq!(asked(&mut raw, &simple("ROLLBACK TO a")).await, "CZ");
    assert_eq!(asked(&mut raw, &[take("within"), sync.clone()]).await, "EZ");
    assert_eq!(asked(&mut raw, &simple("ROLLBACK TO a")).await, "CZ");
    assert_eq!(asked(&mut raw, &[open("within"), take("within"), sync.clone()]).await, "12DDsZ");
    assert_eq!(asked(&mut raw, &simple("RELEASE a")).await, "CZ");
    assert_eq!(asked(&mut raw, &simple("SAVEPOINT a")).await, "CZ");
    // Of two savepoints with one name the later is meant. A portal that rolls back goes with what it undoes.
    let back = message(b'P', b"\0ROLLBACK TO a\0\0\0");
    let bind = message(b'B', b"back\0\0\0\0\0\0\0\0");
    assert_eq!(asked(&mut raw, &[back, bind, take("back"), sync.clone()]).await, "12CZ");
    assert_eq!(asked(&mut raw, &[take("within"), take("before"), sync.clone()]).await, "DDsDDsZ");
    assert_eq!(asked(&mut raw, &[take("back"), sync.clone()]).await, "EZ");
    assert_eq!(asked(&mut raw, &simple("ROLLBACK")).await, "CZ");
    assert_eq!(asked(&mut raw, &[take("before"), sync]).await, "EZ");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_lists_are_sent_whole_or_not_at_all() {
    let served = serve().await;
    let mut raw = RawClient::start(&served).await;
    let in_binary = |sql: &str| {
        let parse = message(b'P', &[b"\0", sql.as_bytes(), b"\0\0\0"].concat());
        let bind = message(b'B', b"\0\0\0\0\0\0\0\x01\0\x01");
        [parse, bind, message(b'D', b"P\0"), message(b'E', b"\0\0\0\0\0"), message(b'S', b"")].concat()
    };
    raw.send_raw(&in_binary("SELECT [[1,2],[3]]")).await;
    let messages = raw.until_ready().await;
    let kinds: String = messages.iter().map(|(kind, _)| char::from(*kind)).collect();
    assert_eq!(kinds, "12TEZ");
    let error = String::from_utf8_lossy(&messages[3].1);
    assert!(error.contains("C0A000\0") && error.contains("has no binary form"), "{error}");
    // Rows before it are sent; of its own nothing is.
    let sql = "SELECT CASE WHEN value < 300 THEN [[1,2],[3,4]] ELSE [[1,2],[3]] END FROM generate_series(1, 400)";
    raw.send_raw(&in_binary(sql)).await;
    assert_eq!(raw.kinds().await, format!("12T{}EZ", "D".repeat(299)));
    raw.send(b'Q', b"COPY (SELECT [[1,2],[3]]) TO STDOUT (FORMAT binary)\0").await;
    assert_eq!(raw.kinds().await, "HEZ");
    // An array of BIGINT, of two dimensions, without NULLs, with two from 1 on in each.
    raw.send_raw(&in_binary("SELECT [[1,2],[3,4]]")).await;
    let messages = raw.until_ready().await;
    let row = &messages.iter().find(|(kind, _)| *kind == b'D').unwrap().1;
    let words: Vec<u32> = row[6..].chunks(4).map(|four| u32::from_be_bytes(four.try_into().unwrap())).collect();
    assert_eq!(words, [2, 0, 20, 2, 1, 2, 1, 8, 0, 1, 8, 0, 2, 8, 0, 3, 8, 0, 4]);
    let client = served.client().await;
    assert_eq!(texts(&client, "SELECT [[1,2],[3]]").await, ["{{1,2},{3}}"]);
    let described = client.prepare("SELECT [[1,2],[3,4]]").await.unwrap();
    assert_eq!(described.columns()[0].type_(), &tokio_postgres::types::Type::INT8_ARRAY);
}

#[tokio::test(flavor = "multi_thread")]
async fn values_that_cannot_be_read_have_their_sqlstate() {
    let served = serve().await;
    let mut raw = RawClient::start(&served).await;
    // Types by their numbers: 23 is INT, 1700 is NUMERIC. A format of 0 is text, of 1 binary.
    let cases: [(u32, u16, &[u8], &str); 6] = [
        (23, 1, b"\0\0\0", "22P03"),
        (23, 1, b"\0\0\0\0\0", "22P03"),
        (1700, 1, b"\0\x01\0\0", "22P03"),
        (23, 0, b"seven", "22P02"),
        (1700, 0, b"1234567890123456789012345678901234567890.5", "22003"),
        (1700, 1, b"\0\x01\0\x0b\0\0\0\0\0\x01", "22003"),
    ];
    for (type_oid, format, value, expected) in cases {
        let parse = message(b'P', &[&b"\0SELECT $1\0\0\x01"[..], &type_oid.to_be_bytes()].concat());
        let values = [&[0u8, 1][..], &(value.len() as u32).to_be_bytes(), value, b"\0\0"].concat();
        let bind = message(b'B', &[&b"\0\0\0\x01"[..], &format.to_be_bytes(), &values].concat());
        raw.send_raw(&[parse, bind, message(b'S', b"")].concat()).await;
        let messages = raw.until_ready().await;
        let kinds: String = messages.iter().map(|(kind, _)| char::from(*kind)).collect();
        assert_eq!(kinds, "1EZ");
        let told = String::from_utf8_lossy(&messages[1].1);
        assert!(told.contains(&format!("\0C{expected}\0Mparameter $1: ")), "{expected}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_messages_end_their_connection_alone() {
    let served = serve_with(ServerOptions { message_bytes_max: 1 << 20, ..ServerOptions::default() }).await;
    let client = served.client().await;
    let cases: [&[u8]; 7] = [
        b"Q\0\0\0\x03",
        b"Q\x7f\xff\xff\xffSELECT",
        b"Q\0\0\0\x08SELE",
        b"Q\0\0\0\x07\xff\xfe\0",
        b"B\0\0\0\x06\0\0",
        b"\0\0\0\0\0\0\0\0",
        b"~\0\0\0\x04",
    ];
    for case in cases {
        let mut raw = RawClient::start(&served).await;
        raw.send_raw(case).await;
        let (kind, body) = raw.receive().await.unwrap();
        assert_eq!(kind, b'E', "{case:?}");
        assert!(body.windows(5).any(|part| part == b"08P01" || part == b"22021"), "{}", String::from_utf8_lossy(&body));
        assert_eq!(raw.receive().await, None);
    }
    for first in
        [&b"\0\0\0\x08\0\0\0\0"[..], b"\x7f\xff\xff\xff\0\0\0\0", b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x09\0\x03\0\0x"]
    {
        let mut raw = RawClient::connect(&served).await;
        raw.send_raw(first).await;
        assert_eq!(raw.receive().await.map(|(kind, _)| kind), Some(b'E'), "{first:?}");
    }
    assert_eq!(texts(&client, "SELECT 1").await, ["1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_never_log_in_do_not_keep_others_out() {
    let served = serve_with(ServerOptions { connections_max: 3, ..ServerOptions::default() }).await;
    let client = served.client().await;
    let mut open = Vec::new();
    for _ in 0..400 {
        open.push(TcpStream::connect(served.address).await.unwrap());
    }
    assert_eq!(texts(&client, "SELECT 1").await, ["1"]);
    let second = served.client().await;
    assert_eq!(texts(&second, "SELECT 2").await, ["2"]);
    let third = served.client().await;
    let fourth = served.client_with(&served.config()).await;
    assert_eq!(crate::support::state(&fourth.err().unwrap()), "53300");
    drop(third);
    // Its place is given back.
    while served.client_with(&served.config()).await.is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_cancels_what_runs_for_it() {
    let served = serve().await;
    let mut raw = RawClient::start(&served).await;
    raw.send(b'Q', b"SELECT count(*) FROM generate_series(1, 1000000000000)\0").await;
    let client = served.client().await;
    let running = "SELECT count(*) FROM alluvia.queries WHERE status = 'running' AND sql LIKE '%1000000000000)' AND sql NOT LIKE '%alluvia%'";
    while texts(&client, running).await == ["0"] {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(raw);
    while texts(&client, running).await != ["0"] {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_half_open_connections_starve_nobody() {
    let served = serve().await;
    let client = served.client().await;
    let count = descriptors();
    let mut open = Vec::with_capacity(count);
    let starts: [&[u8]; 4] = [b"", b"\0\0\0", b"\0\0\0\x40\0\x03\0\0user\0me", b"\0\0\0\x08\x04\xd2\x16\x2f"];
    for at in 0..count {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        // Those that had to make room are closed already.
        let _ = stream.write_all(starts[at % starts.len()]).await;
        open.push(stream);
        if at % 1_000 == 0 {
            assert_eq!(texts(&client, "SELECT 1").await, ["1"], "{at}");
            let another = served.client().await;
            assert_eq!(texts(&another, "SELECT 2").await, ["2"], "{at}");
        }
    }
    assert_eq!(texts(&client, "SELECT 3").await, ["3"]);
    println!("{count} half-open connections");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_cut_mid_way_applies_nothing() {
    let served = serve().await;
    let client = served.client().await;
    client.batch_execute("CREATE TABLE t (a INT)").await.unwrap();
    let parse = message(b'P', b"\0INSERT INTO t VALUES (1)\0\0\0");
    let bind = message(b'B', b"\0\0\0\0\0\0\0\0");
    let execute = message(b'E', b"\0\0\0\0\0");
    let copy =
        [message(b'Q', b"COPY t FROM STDIN\0"), message(b'd', b"1\n2\n"), message(b'd', b"3\n"), message(b'c', b"")];
    let wholes = [
        message(b'Q', b"INSERT INTO t VALUES (1)\0"),
        [parse, bind, execute].concat(),
        copy.concat(),
        [message(b'Q', b"BEGIN\0"), message(b'Q', b"INSERT INTO t VALUES (1)\0"), message(b'Q', b"COMMIT\0")].concat(),
    ];
    for whole in wholes {
        for cut in [whole.len() - 1, whole.len() - 5, whole.len() / 2, 1] {
            let mut raw = RawClient::start(&served).await;
            raw.send_raw(&whole[..cut]).await;
            raw.0.shutdown().await.unwrap();
            // Until the server has ended it, too.
            while raw.receive().await.is_some() {}
        }
    }
    assert_eq!(texts(&client, "SELECT count(*) FROM t").await, ["0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_reads_harms_nobody_and_ends_when_it_goes() {
    let served = serve().await;
    let client = served.client().await;
    let mut raw = RawClient::start(&served).await;
    raw.send(b'Q', b"SELECT repeat('x', 1000) AS x FROM generate_series(1, 100000000)\0").await;
    let running = "SELECT count(*) FROM alluvia.queries WHERE status = 'running' AND sql LIKE 'SELECT repeat%'";
    while texts(&client, running).await != ["1"] {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for _ in 0..20 {
        assert_eq!(texts(&client, "SELECT 1").await, ["1"]);
    }
    assert_eq!(
        texts(&client, running).await,
        ["1"],
        "it waits for its client, and holds no more than is on the way to it"
    );
    drop(raw);
    while texts(&client, running).await != ["0"] {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
