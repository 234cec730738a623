//! An HTTP client of few lines, which shows whether a body was whole.

use std::collections::HashMap;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A request that is being put together.
pub struct Asking {
    address: SocketAddr,
    head: String,
    body: Vec<u8>,
    chunked: bool,
}

/// An answer.
#[derive(Debug)]
pub struct Answered {
    pub status: u16,
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
    /// Whether the body had the end that its coding asks for.
    pub whole: bool,
}

impl Asking {
    pub fn new(address: SocketAddr, method: &str, path: &str) -> Asking {
        let head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
        Asking { address, head, body: Vec::new(), chunked: false }
    }

    pub fn header(mut self, name: &str, value: &str) -> Asking {
        self.head.push_str(&format!("{name}: {value}\r\n"));
        self
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Asking {
        self.body = body.into();
        self
    }

    /// Sends the body without its length.
    pub fn chunked(mut self) -> Asking {
        self.chunked = true;
        self
    }

    /// All that is sent.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head.clone().into_bytes();
        if self.chunked {
            bytes.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n");
            for chunk in self.body.chunks(1000) {
                bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                bytes.extend_from_slice(chunk);
                bytes.extend_from_slice(b"\r\n");
            }
            bytes.extend_from_slice(b"0\r\n\r\n");
        } else {
            bytes.extend_from_slice(format!("content-length: {}\r\n\r\n", self.body.len()).as_bytes());
            bytes.extend_from_slice(&self.body);
        }
        bytes
    }

    /// Sends it, and goes on with the open connection.
    pub async fn begin(self) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(&self.bytes()).await.unwrap();
        stream
    }

    /// Sends it and reads the answer.
    pub async fn send(self) -> Answered {
        let (bytes, address) = (self.bytes(), self.address);
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut from, mut to) = stream.into_split();
        // A server that refuses a body may not read it.
        let sending = tokio::spawn(async move {
            let _ = to.write_all(&bytes).await;
            to
        });
        let mut all = Vec::new();
        let _ = from.read_to_end(&mut all).await;
        drop(sending.await);
        answered(&all)
    }
}

/// Reads an answer out of all that a connection gave.
pub fn answered(all: &[u8]) -> Answered {
    let end = all.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no answer: {}", String::from_utf8_lossy(all)));
    let head = std::str::from_utf8(&all[..end]).unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let header = |line: &str| {
        let (name, value) = line.split_once(':').unwrap();
        (name.to_ascii_lowercase(), value.trim().to_owned())
    };
    let headers: HashMap<String, String> = lines.map(header).collect();
    let rest = &all[end + 4..];
    let (body, whole) = match headers.get("transfer-encoding") {
        Some(_) => unchunked(rest),
        None => {
            let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
            (rest.to_vec(), rest.len() == length)
        }
    };
    Answered { status, headers, body, whole }
}

fn unchunked(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    while let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        if length == 0 {
            return (body, &rest[end..] == b"\r\n\r\n");
        }
        let Some(chunk) = rest.get(end + 2..end + 2 + length) else { break };
        body.extend_from_slice(chunk);
        rest = rest.get(end + 4 + length..).unwrap_or_default();
    }
    (body, false)
}

impl Answered {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// Status and SQLSTATE of an error.
    pub fn error(&self) -> (u16, String) {
        (self.status, self.json()["error"]["code"].as_str().unwrap_or_default().to_owned())
    }

    pub fn content_type(&self) -> &str {
        self.headers.get("content-type").map_or("", |text| text.split(';').next().unwrap_or_default())
    }
}
