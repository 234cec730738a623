//! The head of a request, read strictly: what two programs on its way could read in two ways is refused.
//!
//! hyper takes a line that ends with LF alone, several fields where one can count, `identity, chunked`, and any authority in the target. A
//! proxy that reads one of these otherwise than this server could be made to pass a request within another one's body (RFC 9112, 11.2), or
//! past what it checks of hosts and origins.
//!
//! Invariant: [`check`] knows as much of a head as says where its body ends and whom it is for. All else is hyper's.

use crate::failure::Failure;
use alluvia_types::{Error, ErrorKind};

/// Where messages say that the fault is.
const PLACE: &str = "the request's head";
/// Fields of which one counts: of two, programs take the first, the last, or both.
const SINGLE: [&str; 7] =
    ["host", "origin", "content-length", "transfer-encoding", "content-type", "authorization", "idempotency-key"];

/// How the body behind a head ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BodyEnd {
    /// After so many bytes.
    Length(u64),
    /// With a chunk of none.
    LastChunk,
}

/// A head that is not read.
pub(crate) fn malformed(message: &str) -> Failure {
    Failure::request(PLACE, format!("the request cannot be read: {message}"))
}

/// What a client is told that speaks something else.
pub(crate) fn no_http() -> Failure {
    malformed("it is no HTTP/1.1")
        .with_hint("a request begins with METHOD PATH HTTP/1.1; an encrypted one is for a server with a certificate")
}

/// A head that is longer than is taken.
pub(crate) fn too_long() -> Failure {
    Failure::from(Error::new(ErrorKind::TooLarge, "the request's head is too long"))
        .of(PLACE)
        .with_refusal(crate::statuses::Refusal::Head)
        .with_hint("send statements, and what belongs to them, in the body")
}

/// Reads a head, all lines of which end with CR LF, from its first line to the empty one.
pub(crate) fn check(head: &[u8]) -> Result<BodyEnd, Failure> {
    let mut lines = head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let line = RequestLine::of(lines.next().unwrap_or_default())?;
    let mut found: [Option<&[u8]>; SINGLE.len()] = [None; SINGLE.len()];
    for line in lines.filter(|line| !line.is_empty()) {
        let (name, value) = field(line)?;
        let Some(at) = SINGLE.iter().position(|known| name.eq_ignore_ascii_case(known.as_bytes())) else { continue };
        if found[at].replace(value).is_some() {
            return Err(malformed(&format!("the header {} is stated twice", SINGLE[at])));
        }
    }
    let [host, _, length, coding, ..] = found;
    line.check_host(host)?;
    body_end(length, coding, line.is_old)
}

/// What is looked at of a request's first line.
struct RequestLine<'a> {
    method: &'a [u8],
    target: &'a [u8],
    /// HTTP/1.0.
    is_old: bool,
}

impl RequestLine<'_> {
    fn of(line: &[u8]) -> Result<RequestLine<'_>, Failure> {
        let mut parts = line.split(|byte| *byte == b' ');
        let (Some(method), Some(target), Some(version), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(no_http());
        };
        let is_old = version == b"HTTP/1.0";
        if !is_name(method) || !(is_old || version == b"HTTP/1.1") {
            return Err(no_http());
        }
        Ok(RequestLine { method, target, is_old })
    }

    /// The authority, if the target states one.
    fn authority(&self) -> Result<Option<&[u8]>, Failure> {
        let target = self.target;
        if target.starts_with(b"/") || (target == b"*" && self.method == b"OPTIONS") {
            return Ok(None);
        }
        for scheme in [&b"http://"[..], b"https://"] {
            let Some((start, rest)) = target.split_at_checked(scheme.len()) else { continue };
            if start.eq_ignore_ascii_case(scheme) {
                let end = rest.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(rest.len());
                return Ok(Some(&rest[..end]));
            }
        }
        Err(malformed("its target is neither a path nor a URL").with_hint("a path begins with /"))
    }

    /// Whom the request is for is said once, or twice alike.
    fn check_host(&self, host: Option<&[u8]>) -> Result<(), Failure> {
        if host.is_none() && !self.is_old {
            return Err(malformed("the header host is missing"));
        }
        let host = host.unwrap_or_default();
        // A comma, which a name may have by the letter, is how some programs make one field of two.
        let is_host = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+;=%[]:".contains(byte);
        if !host.iter().all(is_host) {
            return Err(malformed("the header host is no host, with or without a port"));
        }
        match self.authority()? {
            Some(authority) if !authority.eq_ignore_ascii_case(host) => {
                Err(malformed("its target names another host than the header host"))
            }
            _ => Ok(()),
        }
    }
}

/// Name and value of a line.
fn field(line: &[u8]) -> Result<(&[u8], &[u8]), Failure> {
    if line.starts_with(b" ") || line.starts_with(b"\t") {
        return Err(malformed("a header goes on in a second line"));
    }
    let colon = line.iter().position(|byte| *byte == b':');
    let colon = colon.ok_or_else(|| malformed("a line is no header: it has no colon"))?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    if !is_name(name) {
        return Err(malformed(
            "the name of a header is empty, or has a character that no name has, as a space before the colon",
        ));
    }
    Ok((name, value.trim_ascii()))
}

/// Whether it is a `token` of HTTP.
fn is_name(bytes: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !bytes.is_empty() && bytes.iter().all(is_part)
}

fn body_end(length: Option<&[u8]>, coding: Option<&[u8]>, is_old: bool) -> Result<BodyEnd, Failure> {
    match (length, coding) {
        (None, None) => Ok(BodyEnd::Length(0)),
        (Some(_), Some(_)) => Err(malformed("it has both content-length and transfer-encoding")),
        (None, Some(_)) if is_old => Err(malformed("transfer-encoding is not of HTTP/1.0")),
        (None, Some(coding)) if coding.eq_ignore_ascii_case(b"chunked") => Ok(BodyEnd::LastChunk),
        (None, Some(_)) => Err(malformed("its transfer-encoding is not chunked alone")
            .with_hint("say how the body is packed in content-encoding")),
        (Some(length), None) => {
            let is_number = !length.is_empty() && length.iter().all(u8::is_ascii_digit);
            let number = std::str::from_utf8(length).ok().filter(|_| is_number).and_then(|text| text.parse().ok());
            number.map(BodyEnd::Length).ok_or_else(|| malformed("its content-length is no number of bytes"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(head: &str) -> Result<BodyEnd, String> {
        check(head.replace('\n', "\r\n").as_bytes()).map_err(|failure| failure.error.message().to_owned())
    }

    #[test]
    fn the_end_of_the_body_is_known() {
        for (rest, wanted) in [
            ("", BodyEnd::Length(0)),
            ("content-length: 0\n", BodyEnd::Length(0)),
            ("Content-Length:17 \t\naccept: a\naccept: b\n", BodyEnd::Length(17)),
            ("TRANSFER-ENCODING: \t Chunked\n", BodyEnd::LastChunk),
        ] {
            assert_eq!(of(&format!("POST / HTTP/1.1\nhost: x\n{rest}\n")), Ok(wanted), "{rest}");
        }
        assert_eq!(of("POST / HTTP/1.0\ncontent-length: 3\n\n"), Ok(BodyEnd::Length(3)));
        for rest in [
            "content-length: 5\ncontent-length: 5\n",
            "content-length: 5, 5\n",
            "content-length: +5\n",
            "content-length: -5\n",
            "content-length: \n",
            "content-length: 18446744073709551616\n",
            "content-length: 5\ntransfer-encoding: chunked\n",
            "transfer-encoding: identity, chunked\n",
            "transfer-encoding: gzip, chunked\n",
            "transfer-encoding: chunked, chunked\n",
            "transfer-encoding: chunked\ntransfer-encoding: chunked\n",
            "transfer-encoding: \"chunked\"\n",
            "transfer-encoding: \n",
        ] {
            assert!(of(&format!("POST / HTTP/1.1\nhost: x\n{rest}\n")).is_err(), "{rest}");
        }
        assert!(of("POST / HTTP/1.0\ntransfer-encoding: chunked\n\n").is_err());
    }

    #[test]
    fn a_request_is_for_one_host() {
        for (target, host) in [
            ("/", "localhost"),
            ("/a?b=http://other/", "[::1]:8080"),
            ("http://LOCALHOST:80/a", "localhost:80"),
            ("https://h?q", "h"),
            ("/", ""),
        ] {
            assert!(of(&format!("GET {target} HTTP/1.1\nhost: {host}\n\n")).is_ok(), "{target} {host}");
        }
        for (target, host) in [
            ("http://other/a", "localhost"),
            ("http://localhost@other/", "localhost"),
            ("http://", "localhost"),
            ("ftp://localhost/", "localhost"),
            ("localhost:80", "localhost:80"),
            ("*", "localhost"),
            ("", "localhost"),
            ("/", "a, b"),
            ("/", "a b"),
            ("/", "a/b"),
            ("/", "user@a"),
        ] {
            assert!(of(&format!("GET {target} HTTP/1.1\nhost: {host}\n\n")).is_err(), "{target} {host}");
        }
        assert!(of("OPTIONS * HTTP/1.1\nhost: a\n\n").is_ok());
        assert!(of("GET / HTTP/1.1\n\n").is_err() && of("GET / HTTP/1.0\n\n").is_ok());
        assert!(of("GET http://a/ HTTP/1.0\n\n").is_err(), "what is asked by name is looked at");
    }

    #[test]
    fn lines_are_lines_of_http() {
        for line in
            ["GET /", "GET / HTTP/2.0", "GET  / HTTP/1.1", "GET / HTTP/1.1 ", " GET / HTTP/1.1", "G(T / HTTP/1.1"]
        {
            assert!(of(&format!("{line}\nhost: a\n\n")).is_err(), "{line}");
        }
        for line in ["x", "x : y", ": y", " x: y", "\tx: y", "x\u{e4}: y", "x y: z"] {
            assert!(of(&format!("GET / HTTP/1.1\nhost: a\n{line}\n\n")).is_err(), "{line}");
        }
        for name in SINGLE {
            let twice = format!("GET / HTTP/1.1\nhost: a\n{name}: 1\n{}: 1\n\n", name.to_ascii_uppercase());
            assert!(of(&twice).unwrap_err().contains("twice"), "{name}");
        }
    }
}
