//! Error bodies for requests that cannot be read as HTTP at all: such an error is told as all other errors are.
//!
//! hyper answers such a request by itself, with a status and no body, and no way to say otherwise. So what goes to the socket is looked at:
//! an answer of that kind is sent with a body in its place.
//!
//! Invariants:
//! - Only the first bytes after all before them were flushed are looked at. There a head begins, or a chunk with its length: nothing of what
//!   a client stored, or asked for, can be taken for a head.
//! - What is replaced has no body and ends the connection: nothing comes after it. No handler answers so.

use crate::failure::Failure;
use crate::statuses::Refusal;
use alluvia_types::{Error, ErrorKind};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A socket on which answers without a body to what is no HTTP get one.
#[derive(Debug)]
pub(crate) struct ErrorBodySocket<S> {
    inner: S,
    /// Nothing was written since all before it was sent.
    is_flushed: bool,
    /// What is sent in the place of an answer, as far as it was not yet.
    instead: Option<(Vec<u8>, usize)>,
}

impl<S> ErrorBodySocket<S> {
    pub(crate) fn new(inner: S) -> ErrorBodySocket<S> {
        ErrorBodySocket { inner, is_flushed: true, instead: None }
    }
}

/// The answer with a body, if these bytes are all of one without that hyper made.
fn with_body(bytes: &[u8]) -> Option<Vec<u8>> {
    let head = std::str::from_utf8(bytes).ok()?.strip_suffix("\r\n\r\n")?;
    let (first, headers) = head.split_once("\r\n")?;
    let failure = match first.strip_prefix("HTTP/1.1 ")?.split(' ').next()? {
        "400" => Failure::request("the request's head", "the request cannot be read: it is no HTTP/1.1").with_hint(
            "a request begins with METHOD PATH HTTP/1.1; an encrypted one is for a server with a certificate",
        ),
        "414" | "431" => {
            let message = "the request's head is too long";
            Failure::from(Error::new(ErrorKind::TooLarge, message))
                .of("the request's head")
                .with_refusal(Refusal::Head)
                .with_hint("send statements, and what belongs to them, in the body")
        }
        _ => return None,
    };
    let is_bare = headers.split("\r\n").any(|line| line.eq_ignore_ascii_case("content-length: 0"));
    if !is_bare || headers.contains("\r\n\r\n") {
        return None;
    }
    let kept = headers.split("\r\n").filter(|line| {
        let name = line.split(':').next().unwrap_or_default();
        !["content-length", "content-type", "connection"].iter().any(|known| name.eq_ignore_ascii_case(known))
    });
    let kept: String = kept.map(|line| format!("{line}\r\n")).collect();
    let body = format!("{}\n", serde_json::json!({ "error": failure.to_json() }));
    let length = body.len();
    let text = format!(
        "{first}\r\n{kept}content-type: application/json\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    Some(text.into_bytes())
}

impl<S: AsyncWrite + Unpin> ErrorBodySocket<S> {
    /// Sends the rest of what is sent in the place of `count` bytes; ready once it is gone.
    fn poll_instead(&mut self, context: &mut Context<'_>, count: usize) -> Poll<io::Result<usize>> {
        while let Some((bytes, sent)) = &mut self.instead {
            let written = ready!(Pin::new(&mut self.inner).poll_write(context, &bytes[*sent..]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            *sent += written;
            if *sent == bytes.len() {
                self.instead = None;
            }
        }
        Poll::Ready(Ok(count))
    }

    /// Whether something else goes in the place of these bytes.
    fn replaces(&mut self, bytes: &[u8]) -> bool {
        if std::mem::take(&mut self.is_flushed) {
            self.instead = with_body(bytes).map(|bytes| (bytes, 0));
        }
        self.instead.is_some()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ErrorBodySocket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ErrorBodySocket<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.replaces(bytes) {
            return self.poll_instead(context, bytes.len());
        }
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = ready!(Pin::new(&mut self.inner).poll_flush(context));
        self.is_flushed = flushed.is_ok();
        Poll::Ready(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // Such an answer is all that there is to send.
        let mut filled = slices.iter().filter(|slice| !slice.is_empty());
        let only = match (filled.next(), filled.next()) {
            (Some(only), None) => Some(only),
            _ => None,
        };
        match only {
            Some(only) if self.replaces(only) => self.poll_instead(context, only.len()),
            _ => {
                self.is_flushed = false;
                Pin::new(&mut self.inner).poll_write_vectored(context, slices)
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    const BARE: &[u8] =
        b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\ndate: Sun, 22 Nov 2026 11:00:00 GMT\r\n\r\n";

    #[test]
    fn only_whole_answers_without_a_body_get_one() {
        let told = String::from_utf8(with_body(BARE).unwrap()).unwrap();
        let (head, body) = told.split_once("\r\n\r\n").unwrap();
        assert!(
            head.starts_with("HTTP/1.1 400 Bad Request\r\ndate: Sun") && head.contains("connection: close"),
            "{head}"
        );
        assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
        let error: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(error["error"]["code"], "08P01");
        let long = String::from_utf8_lossy(BARE).replace("400 Bad Request", "431 Request Header Fields Too Large");
        assert!(String::from_utf8(with_body(long.as_bytes()).unwrap()).unwrap().contains("54000"));
        for other in [
            &BARE[..BARE.len() - 1],
            b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            b"HTTP/1.1 400 Bad Request\r\ncontent-length: 5\r\n\r\n",
            b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\nhi",
            b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
            b"400\r\n\r\n",
            b"",
        ] {
            assert_eq!(with_body(other), None, "{}", String::from_utf8_lossy(other));
        }
    }

    /// What a client stored may look like an answer: it comes after a head, or after the length of its chunk.
    #[tokio::test]
    async fn what_comes_within_an_answer_is_left_as_it_is() {
        // So narrow that everything goes in pieces.
        let (server, mut client) = duplex(7);
        let writing = tokio::spawn(async move {
            let mut told = ErrorBodySocket::new(server);
            told.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            told.write_all(BARE).await.unwrap();
            told.flush().await.unwrap();
            told.write_all(b"6b\r\n").await.unwrap();
            told.write_all(BARE).await.unwrap();
            told.flush().await.unwrap();
            told.write_all(BARE).await.unwrap();
            told.flush().await.unwrap();
        });
        let mut all = Vec::new();
        client.read_to_end(&mut all).await.unwrap();
        writing.await.unwrap();
        let wanted = [b"HTTP/1.1 200 OK\r\n\r\n".as_slice(), BARE, b"6b\r\n", BARE, &with_body(BARE).unwrap()].concat();
        assert_eq!(String::from_utf8(all).unwrap(), String::from_utf8(wanted).unwrap());
    }
}
