//! Where requests on a connection begin and end, so that each head is looked at before hyper has it.
//!
//! hyper reads on past the end of a request, and tells nobody of its bytes. So they are followed on their way to it: heads and the lines
//! between chunks byte by byte, bodies by their lengths.
//!
//! Invariants:
//! - What is passed on is what came, up to the byte that shows a fault; nothing after that byte is passed on.
//! - A request behind others on its connection is refused when it is its turn: those before it are answered first.
//! - Kept is one head, or one line, of [`HEAD_BYTES_MAX`] bytes at most.

use crate::failure::Failure;
use crate::request_head::{BodyEnd, check, malformed, too_long};

/// The longest head of a request.
pub(crate) const HEAD_BYTES_MAX: usize = 32 << 10;
/// What hyper gets in the place of a fault: it has no meaning in a head or between chunks, its LF alone none in what follows the length of a
/// chunk, and the end of a head makes hyper look.
pub(crate) const NONSENSE: &[u8] = b"\0\n\r\n\r\n";

/// What the next byte belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Head,
    /// A body with a length, or what is left of it.
    Body(u64),
    ChunkSize,
    Chunk(u64),
    /// The line end behind a chunk.
    ChunkEnd,
    Trailers,
}

/// The requests of one connection.
#[derive(Debug)]
pub(crate) struct RequestFramer {
    part: Part,
    /// The head or line up to here.
    text: Vec<u8>,
    /// Where a head begins in it, behind empty lines.
    head_at: usize,
    fault: Option<Failure>,
}

impl RequestFramer {
    pub(crate) fn new() -> RequestFramer {
        RequestFramer { part: Part::Head, text: Vec::new(), head_at: 0, fault: None }
    }

    /// What is wrong with the connection's last request.
    pub(crate) fn fault(&self) -> Option<&Failure> {
        self.fault.as_ref()
    }

    /// Follows the bytes; gives how many of them are passed on.
    pub(crate) fn follow(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while at < bytes.len() && self.fault.is_none() {
            let part = self.part;
            match part {
                Part::Body(left) | Part::Chunk(left) => {
                    let taken = left.min((bytes.len() - at) as u64);
                    at += taken as usize;
                    self.part = match (part, left - taken) {
                        (Part::Body(_), 0) => Part::Head,
                        (Part::Body(_), left) => Part::Body(left),
                        (_, 0) => Part::ChunkEnd,
                        (_, left) => Part::Chunk(left),
                    };
                }
                _ => match self.take(bytes[at]) {
                    Ok(()) => at += 1,
                    Err(fault) => self.fault = Some(fault),
                },
            }
        }
        at
    }

    /// Takes a byte of a line.
    fn take(&mut self, byte: u8) -> Result<(), Failure> {
        match (self.text.last(), byte) {
            (Some(b'\r'), b'\n') => {}
            (Some(b'\r'), _) => return Err(malformed("a CR is not followed by LF")),
            (_, b'\n') => return Err(malformed("a line ends with LF alone, not with CR LF")),
            (_, 0) => return Err(malformed("it has a byte of zero")),
            _ => {}
        }
        if self.text.len() == HEAD_BYTES_MAX {
            return Err(too_long());
        }
        self.text.push(byte);
        if byte == b'\n' { self.end_line() } else { Ok(()) }
    }

    /// Goes on to the next part, if the current one is whole.
    fn end_line(&mut self) -> Result<(), Failure> {
        let next = match self.part {
            Part::Head => {
                let head = &self.text[self.head_at..];
                // Some clients send empty lines before a request.
                if head == b"\r\n" {
                    self.head_at = self.text.len();
                    return Ok(());
                }
                if !head.ends_with(b"\r\n\r\n") {
                    return Ok(());
                }
                match check(head)? {
                    BodyEnd::Length(0) => Part::Head,
                    BodyEnd::Length(bytes) => Part::Body(bytes),
                    BodyEnd::LastChunk => Part::ChunkSize,
                }
            }
            Part::ChunkSize => match chunk_size(&self.text)? {
                0 => Part::Trailers,
                bytes => Part::Chunk(bytes),
            },
            Part::ChunkEnd if self.text == b"\r\n" => Part::ChunkSize,
            Part::ChunkEnd => return Err(malformed("a chunk is longer than it says")),
            Part::Trailers if self.text == b"\r\n" || self.text.ends_with(b"\r\n\r\n") => Part::Head,
            part => part,
        };
        if next != Part::Trailers || self.part != Part::Trailers {
            self.text.clear();
            self.head_at = 0;
        }
        self.part = next;
        Ok(())
    }
}

/// The number of bytes that a chunk has, by its first line.
fn chunk_size(line: &[u8]) -> Result<u64, Failure> {
    let end = line.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(line.len());
    let (digits, rest) = line.split_at(end);
    let size = std::str::from_utf8(digits).ok().and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let rest = rest.trim_ascii_start();
    match size {
        Some(size) if rest.is_empty() || rest.starts_with(b";") => Ok(size),
        _ => Err(malformed("the length of a chunk is no number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: [&str; 8] = [
        "GET / HTTP/1.1\r\nhost: a\r\n\r\n",
        "\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n\n\nab\0\r\r\n\n",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\n\n\n\r\n00A;x=\"y\"\r\nGET / HTTP\r\n0 ;z\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\nx: y\r\nz: w\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 24\r\n\r\nGET / HTTP/1.1\nhost: b\n\n",
        "PUT /x HTTP/1.0\r\ncontent-length: 1\r\n\r\n\n",
    ];

    /// A fault, and at which byte it shows.
    const BAD: [(&str, usize); 12] = [
        ("GET / HTTP/1.1\nhost: a\r\n\r\n", 14),
        ("GET / HTTP/1.1\r\nhost: a\n\r\n", 23),
        ("GET / HTTP/1.1\r\nhost: a\r\n\n", 25),
        ("\nGET / HTTP/1.1\r\nhost: a\r\n\r\n", 0),
        ("GET / HTTP/1.1\rhost: a\r\n\r\n", 15),
        ("GET / HTTP/1.1\r\nhost: \0a\r\n\r\n", 22),
        ("GET / HTTP/1.1\r\nhost: a\r\nhost: a\r\n\r\n", 35),
        ("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n", 57),
        ("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\n0\r\n\r\n", 60),
        ("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\r\nab\r\n", 62),
        ("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: y\n\r\n", 63),
        ("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n-1\r\n", 59),
    ];

    /// All that is passed on of bytes that come in pieces of this length.
    fn followed(bytes: &[u8], piece: usize) -> (usize, Option<String>) {
        let mut framer = RequestFramer::new();
        let passed = bytes.chunks(piece).map(|piece| framer.follow(piece)).sum();
        (passed, framer.fault().map(|fault| fault.error.message().to_owned()))
    }

    #[test]
    fn good_requests_pass_in_any_order_and_pieces() {
        for first in GOOD {
            for second in GOOD {
                let all = format!("{first}{second}{first}");
                for piece in [1, 2, 3, 7, all.len()] {
                    assert_eq!(followed(all.as_bytes(), piece), (all.len(), None), "{piece}: {all:?}");
                }
            }
        }
    }

    #[test]
    fn a_fault_stops_at_its_byte_wherever_it_comes() {
        for (bad, at) in BAD {
            for before in GOOD.iter().copied().chain([""]) {
                let all = format!("{before}{bad}{}", GOOD[0]);
                for piece in [1, 5, all.len()] {
                    let (passed, fault) = followed(all.as_bytes(), piece);
                    assert_eq!(passed, before.len() + at, "{piece}: {bad:?} {fault:?}");
                    assert!(fault.is_some(), "{bad:?}");
                }
            }
        }
    }

    #[test]
    fn what_never_ends_is_not_kept() {
        for start in [
            "GET /",
            "GET / HTTP/1.1\r\nhost: ",
            "\r\n",
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0;",
        ] {
            let mut framer = RequestFramer::new();
            framer.follow(start.as_bytes());
            let mut passed = 0;
            while framer.fault().is_none() {
                passed += framer.follow(b"x");
                assert!(framer.text.len() <= HEAD_BYTES_MAX && passed <= HEAD_BYTES_MAX);
            }
            assert_eq!(framer.fault().unwrap().status().as_u16(), 431, "{start}");
        }
        let mut framer = RequestFramer::new();
        assert_eq!(framer.follow("\r\n".repeat(HEAD_BYTES_MAX).as_bytes()), HEAD_BYTES_MAX);
    }
}
