//! Parts of requests: what the query string sets, and bodies read within bounds.

use crate::auth::PROTOCOL;
use crate::failure::Failure;
use crate::shared::Shared;
use crate::statuses::Refusal;
use alluvia_query::{Client, Session};
use alluvia_types::{Error, ErrorKind};
use axum::body::{Body, BodyDataStream};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use axum::http::request::Parts;
use bytes::Bytes;
use futures::StreamExt;
use percent_encoding::percent_decode_str;
use std::time::Duration;
use tokio::time::timeout;

/// What is read, and thrown away, of a body whose request is refused: most clients send it all before they read the answer.
const DRAINED_BYTES_MAX: usize = 64 << 20;
const DRAINED_FOR: Duration = Duration::from_secs(2);

/// Names and values of the query string, in their order. One that comes twice is refused, since one of the two would be ignored.
pub(crate) fn query_pairs(parts: &Parts) -> Result<Vec<(String, String)>, Failure> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for part in parts.uri.query().unwrap_or_default().split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let decoded = |text: &str| {
            let spaces = text.replace('+', " ");
            let decoded = percent_decode_str(&spaces).decode_utf8();
            decoded.map(|text| text.into_owned()).map_err(|_| {
                Failure::from(Error::new(ErrorKind::Encoding, format!("{text} is not UTF-8"))).of("the query string")
            })
        };
        let (name, value) = (decoded(name)?, decoded(value)?);
        if pairs.iter().any(|(known, _)| *known == name) {
            return Err(twice(&name));
        }
        pairs.push((name, value));
    }
    Ok(pairs)
}

/// Something that is stated twice.
pub(crate) fn twice(name: &str) -> Failure {
    Failure::from(Error::new(ErrorKind::InvalidSetting, format!("{name} is stated twice"))).of(name)
}

/// A session for one request, with its settings.
pub(crate) fn session(
    shared: &Shared,
    user: String,
    address: String,
    settings: &[(String, String)],
) -> Result<Session, Failure> {
    let session = shared.engine.session();
    session.limit_statements(shared.options.statement_timeout);
    session.introduce(Client { user, protocol: PROTOCOL, address });
    for (name, value) in settings {
        session.start_with(name, value).map_err(|error| Failure::from(error).of(format!("setting {name}")))?;
    }
    Ok(session)
}

/// The error of a body that is longer than it may be.
pub(crate) fn too_large(bytes_max: u64) -> Error {
    Error::new(ErrorKind::TooLarge, format!("the body has more than {bytes_max} bytes"))
        .with_hint("send it in parts, or raise the server's limit (alluvia config lists the settings)")
}

/// Refuses a body that says itself that it is too long.
pub(crate) fn refuse_length(headers: &HeaderMap, bytes_max: u64) -> Result<(), Failure> {
    let stated: Option<u64> = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    match stated {
        Some(length) if length > bytes_max => Err(Failure::from(too_large(bytes_max)).of("the body")),
        _ => Ok(()),
    }
}

/// A body, a piece at a time: within its bound, and not slower than the server waits.
pub(crate) struct Pieces {
    stream: BodyDataStream,
    left: u64,
    bytes_max: u64,
    wait: Duration,
}

impl Pieces {
    /// Of a body of at most `bytes_max` bytes.
    pub(crate) fn new(body: Body, bytes_max: u64, wait: Duration) -> Pieces {
        Pieces { stream: body.into_data_stream(), left: bytes_max, bytes_max, wait }
    }

    /// The next piece; `None` at the end of the whole body.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        let seconds = self.wait.as_secs();
        let piece = timeout(self.wait, self.stream.next()).await.map_err(|_| {
            let message = format!("nothing more of the body came for {seconds} seconds");
            Failure::from(Error::new(ErrorKind::Timeout, message)).of("the body").with_refusal(Refusal::Stalled)
        })?;
        match piece {
            None => Ok(None),
            Some(Err(error)) => Err(Failure::request("the body", format!("the body ended before its end: {error}"))),
            Some(Ok(bytes)) => {
                let left = self.left.checked_sub(bytes.len() as u64);
                self.left = left.ok_or_else(|| Failure::from(too_large(self.bytes_max)).of("the body"))?;
                Ok(Some(bytes))
            }
        }
    }

    /// Reads on what is still sent, for a while, and throws it away.
    pub(crate) async fn drain(&mut self) {
        drain(&mut self.stream).await;
    }

    /// Reads all that is left, and throws it away.
    pub(crate) async fn pass_over(mut self) -> Result<(), Failure> {
        while self.next().await?.is_some() {}
        Ok(())
    }

    /// All of it as text.
    pub(crate) async fn text(&mut self) -> Result<String, Failure> {
        let mut all = Vec::new();
        while let Some(piece) = self.next().await? {
            all.extend_from_slice(&piece);
        }
        String::from_utf8(all).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            Failure::from(Error::new(ErrorKind::Encoding, format!("the body is not UTF-8 at byte {at}"))).of("the body")
        })
    }
}

/// Reads on what a refused request still sends, for a while.
pub(crate) async fn drain(stream: &mut BodyDataStream) {
    let rest = async {
        let mut bytes = 0;
        while let Some(Ok(piece)) = stream.next().await {
            bytes += piece.len();
            if bytes > DRAINED_BYTES_MAX {
                return;
            }
        }
    };
    let _ = timeout(DRAINED_FOR, rest).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;

    fn pairs(query: &str) -> Option<Vec<(String, String)>> {
        let (parts, ()) = Request::builder().uri(format!("/query?{query}")).body(()).unwrap().into_parts();
        query_pairs(&parts).ok()
    }

    #[test]
    fn query_strings_are_read_as_forms_write_them() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(pairs("a=1%202+3&%C3%A4=%26&b"), Some(vec![pair("a", "1 2 3"), pair("ä", "&"), pair("b", "")]));
        assert_eq!(pairs(""), Some(Vec::new()));
        assert_eq!(pairs("a=1&a=2"), None);
        assert_eq!(pairs("a=%FF"), None);
    }
}
