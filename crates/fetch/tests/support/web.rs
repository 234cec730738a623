//! A web host of this machine, which answers as a test tells it.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};

/// Answers every request with what `answer` makes of its path, as long as the process lives.
pub fn host(answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
            let first = lines.next().unwrap_or_default();
            // To the end of the head, or the asker finds the connection reset.
            let _ = lines.by_ref().find(String::is_empty);
            let _ = stream.write_all(&answer(first.split(' ').nth(1).unwrap_or_default()));
        }
    });
    address
}

/// A file.
pub fn plain(body: impl AsRef<[u8]>) -> Vec<u8> {
    announced(body.as_ref(), body.as_ref().len())
}

/// A file that is said to have so many bytes.
pub fn announced(body: &[u8], bytes: usize) -> Vec<u8> {
    [format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n").as_bytes(), body].concat()
}

/// The way to elsewhere.
pub fn elsewhere(place: &str) -> Vec<u8> {
    format!("HTTP/1.1 302 Found\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n").into_bytes()
}
