//! Messages that no client would send, in any order: the server answers or ends the connection, and goes on.

#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::random::Random;
use crate::support::{Served, serve_with, texts};
use alluvia_server_pg::ServerOptions;
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const TEXTS: [&str; 14] = [
    "SELECT 1",
    "SELECT $1::int + 1",
    "INSERT INTO t VALUES ($1, $2)",
    "INSERT INTO t VALUES (1, 'x')",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "COPY t FROM STDIN",
    "COPY t FROM STDIN (FORMAT binary)",
    "COPY t TO STDOUT (FORMAT csv)",
    "SELECT * FROM t WHERE a = $1",
    "SELECT relname FROM pg_class WHERE oid = 't'::regclass",
    "SET freshness = '1s'; SELECT 1; SELECT 1/0",
    "",
];

fn message(random: &mut Random) -> Vec<u8> {
    let name = |random: &mut Random| *random.pick(&[&b"\0"[..], b"a\0", b"b\0"]);
    let (kind, body) = match random.below(14) {
        0 => (b'Q', [random.pick(&TEXTS).as_bytes(), b"\0"].concat()),
        1 | 2 => {
            let types = *random.pick(&[
                &b"\0\0"[..],
                b"\0\x01\0\0\0\x17",
                b"\0\x02\0\0\0\x17\0\0\0\x19",
                b"\0\x01\0\0\x03\xef",
            ]);
            (b'P', [name(random), random.pick(&TEXTS).as_bytes(), b"\0", types].concat())
        }
        3 | 4 => {
            let values = *random.pick(&[
                &b"\0\0\0\0\0\0"[..],
                b"\0\0\0\x01\0\0\0\x017\0\0",
                b"\0\x01\0\x01\0\x01\0\0\0\x04\0\0\0\x07\0\x01\0\x01",
                b"\0\0\0\x02\xff\xff\xff\xff\0\0\0\x01x\0\0",
                b"\0\x01\0\x01\0\x01\0\0\0\x14\0\0\0\x01\0\0\0\0\0\0\0\x17\0\0\0\x01\0\0\0\x01\0\0",
            ]);
            (b'B', [name(random), name(random), values].concat())
        }
        5 => (b'D', [*random.pick(&[&b"S"[..], b"P"]), name(random)].concat()),
        6 | 7 => (b'E', [name(random), *random.pick(&[&b"\0\0\0\0"[..], b"\0\0\0\x01", b"\xff\xff\xff\xff"])].concat()),
        8 => (b'C', [*random.pick(&[&b"S"[..], b"P"]), name(random)].concat()),
        9 | 10 => (b'S', Vec::new()),
        11 => (b'd', random.pick(&[&b"1\tx\n"[..], b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\xff\xff", b"\xff"]).to_vec()),
        12 => (*random.pick(b"cH"), Vec::new()),
        _ => (b'f', b"why\0".to_vec()),
    };
    let mut bytes = [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), &body].concat();
    if random.below(12) == 0 {
        random.damage(&mut bytes);
    }
    bytes
}

/// One connection with some messages; gives all that came back.
async fn talk(served: &Served, random: &mut Random) -> Vec<u8> {
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let mut sent = [&(8u32 + 9).to_be_bytes()[..], &(3u32 << 16).to_be_bytes(), b"user\0me\0\0"].concat();
    if random.below(20) == 0 {
        random.damage(&mut sent);
    }
    for _ in 0..random.below(30) {
        sent.extend(message(random));
    }
    // Whatever is left open is closed by these, or by the end of what the client sends.
    sent.extend_from_slice(b"c\0\0\0\x04S\0\0\0\x04X\0\0\0\x04");
    let mut answer = Vec::new();
    let (mut read, mut write) = stream.split();
    let sending = async {
        // The server may have ended the connection already.
        let _ = write.write_all(&sent).await;
        let _ = write.shutdown().await;
    };
    let (_, received) = tokio::join!(sending, read.read_to_end(&mut answer));
    drop(received);
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn no_messages_harm_the_server() {
    let (mut random, time) = Random::of_environment();
    let options = ServerOptions { message_bytes_max: 1 << 20, ..ServerOptions::default() };
    let served = serve_with(options).await;
    let client = served.client().await;
    client.batch_execute("CREATE TABLE t (a INT, b TEXT)").await.unwrap();
    let (start, mut rounds) = (Instant::now(), 0);
    while start.elapsed() < time || rounds < 50 {
        let answer = talk(&served, &mut random).await;
        let is_defect = answer.windows(6).any(|part| part == b"CXX000");
        assert!(!is_defect, "round {rounds}: {}", String::from_utf8_lossy(&answer));
        rounds += 1;
    }
    assert_eq!(texts(&client, "SELECT 1").await, ["1"]);
    println!("{rounds} connections");
}
