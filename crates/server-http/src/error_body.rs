//! Error bodies for requests that cannot be read as HTTP at all: such an error is told as all other errors are.
//!
//! hyper answers such a request by itself, with a status and no body, and no way to say otherwise. So what goes to the socket is looked at:
//! an answer of that kind is sent with a body in its place. What comes is looked at, too ([`RequestFramer`]): in the place of what hyper
//! would take and should not, it gets what it does not take.
//!
//! Invariants:
//! - Only the first bytes after all before them were flushed are looked at. There a head begins, or a chunk with its length: nothing of what
//!   a client stored, or asked for, can be taken for a head.
//! - What is replaced has no body and ends the connection: nothing comes after it. No handler answers so.

use crate::failure::Failure;
use crate::request_framer::{NONSENSE, RequestFramer};
use crate::request_head::{no_http, too_long};
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
    framer: RequestFramer,
    /// What is still to be read in the place of a fault.
    nonsense: &'static [u8],
}

impl<S> ErrorBodySocket<S> {
    pub(crate) fn new(inner: S) -> ErrorBodySocket<S> {
        ErrorBodySocket { inner, is_flushed: true, instead: None, framer: RequestFramer::new(), nonsense: NONSENSE }
    }
}

/// The answer with a body, if these bytes are all of one without that hyper made. `fault` is what was seen of the request, if anything was.
fn with_body(bytes: &[u8], fault: Option<&Failure>) -> Option<Vec<u8>> {
    let head = std::str::from_utf8(bytes).ok()?.strip_suffix("\r\n\r\n")?;
    let (first, headers) = head.split_once("\r\n")?;
    let told = match first.strip_prefix("HTTP/1.1 ")?.split(' ').next()? {
        "400" => no_http(),
        "414" | "431" => too_long(),
        _ => return None,
    };
    let failure = fault.unwrap_or(&told);
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
    let (status, length) = (failure.status(), body.len());
    let text = format!(
        "HTTP/1.1 {status}\r\n{kept}content-type: application/json\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
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
            self.instead = with_body(bytes, self.framer.fault()).map(|bytes| (bytes, 0));
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
        let this = &mut *self;
        let before = buffer.filled().len();
        loop {
            if this.framer.fault().is_some() && !this.nonsense.is_empty() {
                let (now, later) = this.nonsense.split_at(this.nonsense.len().min(buffer.remaining()));
                buffer.put_slice(now);
                this.nonsense = later;
                return Poll::Ready(Ok(()));
            }
            ready!(Pin::new(&mut this.inner).poll_read(context, buffer))?;
            let passed = this.framer.follow(&buffer.filled()[before..]);
            let came = buffer.filled().len() - before;
            buffer.set_filled(before + passed);
            // What comes behind a fault is thrown away, so that the client reads its answer; its end is passed on.
            if passed > 0 || came == 0 {
                return Poll::Ready(Ok(()));
            }
        }
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
        let told = String::from_utf8(with_body(BARE, None).unwrap()).unwrap();
        let (head, body) = told.split_once("\r\n\r\n").unwrap();
        assert!(
            head.starts_with("HTTP/1.1 400 Bad Request\r\ndate: Sun") && head.contains("connection: close"),
            "{head}"
        );
        assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
        let error: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(error["error"]["code"], "08P01");
        let long = String::from_utf8_lossy(BARE).replace("400 Bad Request", "431 Request Header Fields Too Large");
        assert!(String::from_utf8(with_body(long.as_bytes(), None).unwrap()).unwrap().contains("54000"));
        let told = String::from_utf8(with_body(BARE, Some(&too_long())).unwrap()).unwrap();
        assert!(told.starts_with("HTTP/1.1 431 Request Header Fields Too Large\r\n"), "{told}");
        for other in [
            &BARE[..BARE.len() - 1],
            b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            b"HTTP/1.1 400 Bad Request\r\ncontent-length: 5\r\n\r\n",
            b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\nhi",
            b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
            b"400\r\n\r\n",
            b"",
        ] {
            assert_eq!(with_body(other, None), None, "{}", String::from_utf8_lossy(other));
        }
    }

    #[tokio::test]
    async fn what_is_read_ends_with_nonsense_at_a_fault() {
        let (server, mut client) = duplex(64);
        let good = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
        let writing = tokio::spawn(async move {
            client.write_all(good).await.unwrap();
            client.write_all(b"GET / HTTP/1.1\n").await.unwrap();
            client.write_all(&[b'x'; 10_000]).await.unwrap();
        });
        let mut socket = ErrorBodySocket::new(server);
        let mut all = Vec::new();
        let mut few = [0; 3];
        loop {
            let count = socket.read(&mut few).await.unwrap();
            if count == 0 {
                break;
            }
            all.extend_from_slice(&few[..count]);
        }
        writing.await.unwrap();
        let wanted = [good.as_slice(), b"GET / HTTP/1.1", NONSENSE].concat();
        assert_eq!(String::from_utf8(all).unwrap(), String::from_utf8(wanted).unwrap());
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
        let wanted =
            [b"HTTP/1.1 200 OK\r\n\r\n".as_slice(), BARE, b"6b\r\n", BARE, &with_body(BARE, None).unwrap()].concat();
        assert_eq!(String::from_utf8(all).unwrap(), String::from_utf8(wanted).unwrap());
    }
}
