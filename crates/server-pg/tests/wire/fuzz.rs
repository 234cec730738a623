//! Messages that no client would send, in any order, before a log-in and after it: the server answers or ends the connection, and goes
//! on.

#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::access::passwords;
use crate::random::Random;
use crate::raw_messages::startup;
use crate::support::{Served, serve_with, texts};
use alluvia_access::Tls;
use alluvia_server_pg::ServerOptions;
use std::time::{Duration, Instant};
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

/// What asks for encryption: TLS, and GSSAPI's.
const ENCRYPTIONS: [&[u8]; 2] = [b"\0\0\0\x08\x04\xd2\x16\x2f", b"\0\0\0\x08\x04\xd2\x16\x30"];

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
    // Neither is to be had here: the server says so, and waits for the next.
    let mut sent: Vec<u8> =
        (0..random.below(8).saturating_sub(5)).flat_map(|_| *random.pick(&ENCRYPTIONS)).copied().collect();
    sent.extend(startup("me"));
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

/// The client's first and last word of a SCRAM exchange. Nobody here knows the password: the proof is of the right length.
fn scram(random: &mut Random, answers: &[u8]) -> Vec<u8> {
    let answers = String::from_utf8_lossy(answers);
    let nonce = answers.rfind("r=").map(|at| answers[at + 2..].split(',').next().unwrap_or_default());
    let body = match nonce {
        None => {
            let mechanism =
                *random.pick(&["SCRAM-SHA-256", "SCRAM-SHA-256", "SCRAM-SHA-256", "SCRAM-SHA-256-PLUS", ""]);
            let first =
                *random.pick(&["n,,n=,r=abc", "n,,n=,r=abc", "y,,n=alluvia,r=abc", "p=tls-unique,,n=,r=abc", "n,,"]);
            let length = *random.pick(&[first.len() as u32, first.len() as u32, u32::MAX]);
            [mechanism.as_bytes(), b"\0", &length.to_be_bytes(), first.as_bytes()].concat()
        }
        Some(nonce) => {
            let proofs = ["A".repeat(43) + "=", "AAAA".to_owned(), "%".to_owned()];
            let proof = random.pick(&proofs);
            format!("{},r={nonce},p={proof}", random.pick(&["c=biws", "c=biws", "c=eSws", "c="])).into_bytes()
        }
    };
    [&b"p"[..], &(body.len() as u32 + 4).to_be_bytes(), &body].concat()
}

/// One connection that has to log in, and does not; gives all that came back.
async fn knock(served: &Served, random: &mut Random) -> Vec<u8> {
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let mut answers = Vec::new();
    // What asks for encryption, who it is, the first word, the last: one of them may be damaged, or be something else.
    let first = if random.below(3) == 0 { 0 } else { 1 };
    let odd = random.below(8);
    for step in first..4 {
        let mut bytes = match step {
            0 => random.pick(&ENCRYPTIONS).to_vec(),
            1 => startup("alluvia"),
            _ => scram(random, &answers),
        };
        if step == odd {
            match random.below(3) {
                0 => bytes = message(random),
                // A length that is not kept to.
                1 => bytes = [&b"p"[..], &(random.number() as u32).to_be_bytes(), b"SCRAM"].concat(),
                _ => random.damage(&mut bytes),
            }
        }
        // The server may have ended the connection already.
        let _ = stream.write_all(&bytes).await;
        if step == odd {
            let _ = stream.shutdown().await;
            let _ = stream.read_to_end(&mut answers).await;
            break;
        }
        let mut came = [0; 4_096];
        match stream.read(&mut came).await {
            Ok(count) if count > 0 => answers.extend_from_slice(&came[..count]),
            _ => break,
        }
    }
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn no_start_harms_the_server() {
    let (mut random, time) = Random::of_environment();
    let tls = Tls::new(include_bytes!("certificate.pem"), include_bytes!("key.pem")).unwrap();
    let served = serve_with(ServerOptions { access: passwords(), tls: Some(tls), ..ServerOptions::default() }).await;
    let mut config = served.config();
    config.password("right \u{e4}");
    let client = served.client_with(&config).await.unwrap();
    let (start, mut rounds) = (Instant::now(), 0);
    while start.elapsed() < time || rounds < 50 {
        let answer = knock(&served, &mut random).await;
        let is_defect = answer.windows(6).any(|part| part == b"CXX000");
        let is_in = answer.windows(9).any(|part| part == b"R\0\0\0\x08\0\0\0\0");
        assert!(!is_defect && !is_in, "round {rounds}: {}", String::from_utf8_lossy(&answer));
        rounds += 1;
        if rounds % 8 == 0 {
            // Who knows the password is let in, and the wrong ones are forgiven: so the next are looked at as well.
            let entered = async {
                while served.client_with(&config).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(120), entered).await.expect("the right password logs in");
        }
    }
    assert_eq!(texts(&client, "SELECT 1").await, ["1"]);
    println!("{rounds} connections that did not log in");
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
