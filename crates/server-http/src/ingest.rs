//! `POST /ingest/TABLE`: a body of rows, one atomic batch.
//!
//! Invariants:
//! - Without its whole body a request has ingested nothing: a client that goes, stalls or sends too much fails the batch.
//! - Memory is bounded: a client that sends faster than rows are taken waits.
//! - A batch that has failed is answered then, whatever the client does with the rest of its body.
//! - A key that is known is acknowledged with what its first batch was, and its body is not looked at.

use crate::auth::{Peer, user};
use crate::cancellation::watched;
use crate::failure::Failure;
use crate::media::{packing, rows_format};
use crate::request::{Pieces, drain, query_pairs, refuse_length, session};
use crate::shared::Shared;
use alluvia_access::gone;
use alluvia_copy::Hints;
use alluvia_query::{Ingest, Ingested, Session};
use alluvia_syntax::copy::options::{CopyOptions, Format, Header};
use alluvia_syntax::names::name_in_text;
use alluvia_types::{Error, ErrorKind, Result};
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::response::Response;
use bytes::{Buf, Bytes};
use serde_json::json;
use std::io::{self, Read};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use tracing::Instrument;

/// Pieces of a body that wait to be taken.
const WAITING: usize = 8;
/// What messages call the body; `where` in an error is what follows it.
const BODY: &str = "the body";
/// What there is here of what COPY's options are.
const HINTS: Hints =
    Hints { columns: "?columns=a,b", bad_row: "nothing was loaded; correct the row, and send all again" };
/// Parameters of the query string that say how CSV is read, and what rows do by key; others are settings.
const COPY_OPTIONS: [&str; 7] = ["header", "delimiter", "quote", "escape", "null", "on_conflict", "op"];
const KEY_HEADER: &str = "idempotency-key";

/// What the client's side tells the loader's; without `Done` the body is not whole.
enum Part {
    Data(Bytes),
    Done,
    Failed(Error),
}

/// The body as a blocking reader.
struct FromClient {
    parts: mpsc::Receiver<Part>,
    current: Bytes,
    done: bool,
}

impl Read for FromClient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() && !self.done {
            match self.parts.blocking_recv() {
                Some(Part::Data(bytes)) => self.current = bytes,
                Some(Part::Done) => self.done = true,
                Some(Part::Failed(error)) => return Err(io::Error::other(error)),
                None => return Err(io::Error::other(gone())),
            }
        }
        let count = self.current.len().min(buffer.len());
        self.current.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}

/// The handler.
pub(crate) async fn ingest(
    State(shared): State<Arc<Shared>>,
    table: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Failure> {
    let Path(table) = table.map_err(|_| Failure::request("the path", "the table's name is not UTF-8"))?;
    let (parts, body) = request.into_parts();
    match accept(&shared, &parts, table).await {
        Ok((session, ingest, None)) => take(&shared, session, ingest, body).await,
        Ok((_, ingest, Some(before))) => {
            // Most clients send all of it before they read the answer.
            let pieces = Pieces::new(body, ingest.bytes_max, shared.options.transfer_timeout);
            pieces.pass_over().await.map_err(|failure| failure.of(BODY))?;
            Ok(answer(&before))
        }
        Err(failure) => {
            // Nobody keeps a connection by a body who has not shown a password.
            if failure.error.kind() != ErrorKind::Authentication {
                drain(&mut body.into_data_stream()).await;
            }
            Err(failure)
        }
    }
}

/// Everything that can be refused, or answered, before the body.
async fn accept(
    shared: &Arc<Shared>,
    parts: &Parts,
    table: String,
) -> Result<(Session, Ingest, Option<Ingested>), Failure> {
    let peer = parts.extensions.get::<Peer>().copied().ok_or_else(|| Error::internal("a request from nowhere"))?;
    let user = user(shared, &parts.headers, peer).await?;
    let is_array = rows_format(&parts.headers)? == Format::JsonArray;
    let format = if is_array { Format::JsonLines } else { rows_format(&parts.headers)? };
    let mut options =
        CopyOptions { format: Some(format), compression: packing(&parts.headers)?, ..CopyOptions::default() };
    if let Some(header) = parts.headers.get(CONTENT_TYPE).and_then(header_parameter) {
        options.header = header;
    }
    let (mut settings, mut columns) = (Vec::new(), Vec::new());
    for (name, value) in query_pairs(parts)? {
        if COPY_OPTIONS.contains(&name.as_str()) {
            let set = options.set(&name, Some(value.as_str()).filter(|value| !value.is_empty() || name == "null"));
            set.map_err(|error| Failure::from(error).of(format!("parameter {name}")))?;
        } else if name == "columns" {
            columns = value.split(',').map(|column| column.trim().to_owned()).collect();
        } else {
            settings.push((name, value));
        }
    }
    let key = match parts.headers.get(KEY_HEADER) {
        None => None,
        Some(value) => Some(key(value)?),
    };
    let bytes_max = shared.options.body_bytes_max;
    refuse_length(&parts.headers, bytes_max)?;
    let session = session(shared, user, peer.0.to_string(), &settings)?;
    let table = name_in_text(&table);
    let ingest = Ingest { table, columns, options, is_array, key, name: BODY.to_owned(), bytes_max, hints: HINTS };
    let before = session.ingested_before(&ingest)?;
    Ok((session, ingest, before))
}

/// Whether the first line is a header, as the media type says (RFC 4180).
fn header_parameter(media_type: &HeaderValue) -> Option<Header> {
    media_type.to_str().ok()?.split(';').skip(1).find_map(|parameter| {
        match parameter.trim().to_ascii_lowercase().as_str() {
            "header=absent" => Some(Header::No),
            "header=present" => Some(Header::Yes),
            _ => None,
        }
    })
}

fn key(value: &HeaderValue) -> Result<String, Failure> {
    let wrong = |what: &str| Failure::request("header Idempotency-Key", format!("the idempotency key {what}"));
    let text = value.to_str().map_err(|_| wrong("is not plain text"))?.trim();
    // The draft of the header has it in quotes; most clients send it without.
    let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    match text.len() {
        0 => Err(wrong("is empty")),
        1..=255 => Ok(text.to_owned()),
        bytes => Err(wrong(&format!("has {bytes} bytes, and 255 is the most"))),
    }
}

/// Takes the body.
async fn take(shared: &Arc<Shared>, session: Session, ingest: Ingest, body: Body) -> Result<Response, Failure> {
    let mut pieces = Pieces::new(body, ingest.bytes_max, shared.options.transfer_timeout);
    let (send, receive) = mpsc::channel(WAITING);
    let input = FromClient { parts: receive, current: Bytes::new(), done: false };
    let (mut tell, told) = oneshot::channel();
    let shared = Arc::clone(shared);
    let work = async move {
        let result = watched(&shared, &session, tell.closed(), session.ingest(ingest, Box::new(input))).await;
        drop(tell.send(result));
    };
    tokio::spawn(work.in_current_span());
    let mut failed = None;
    loop {
        let next = tokio::select! {
            biased;
            // The batch has ended without the rest of its body: the answer does not wait for a client that stalls.
            () = send.closed() => break,
            next = pieces.next() => next,
        };
        let part = match next {
            Ok(Some(bytes)) => Part::Data(bytes),
            Ok(None) => Part::Done,
            Err(failure) => {
                let part = Part::Failed(failure.error.clone());
                failed = Some(failure);
                part
            }
        };
        let is_last = !matches!(part, Part::Data(_));
        // Whoever does not take it has its own error.
        if send.send(part).await.is_err() || is_last {
            break;
        }
    }
    drop(send);
    let result = told.await.map_err(|_| Error::internal("a batch ended without an answer"))?;
    match (failed, result) {
        (Some(failure), Err(_)) => {
            if failure.error.kind() == ErrorKind::TooLarge {
                pieces.drain().await;
            }
            Err(failure.of(BODY))
        }
        (_, Ok(ingested)) => Ok(answer(&ingested)),
        (None, Err(error)) => {
            pieces.drain().await;
            Err(located(error))
        }
    }
}

/// The place in the body goes into `where`, too.
fn located(error: Error) -> Failure {
    let place = error.message().strip_prefix(BODY).and_then(|rest| rest.strip_prefix(", ")?.split(": ").next());
    let place = place.map(|place| format!("{BODY}, {place}"));
    let is_plain = error.kind() == ErrorKind::TooLarge;
    let failure = Failure::from(error);
    match place {
        Some(place) => failure.of(place),
        None if is_plain => failure.of(BODY),
        None => failure,
    }
}

fn answer(ingested: &Ingested) -> Response {
    let Ingested { rows, version, duplicate } = ingested;
    let body = json!({ "rows": rows, "version": version.map(|version| version.0), "duplicate": duplicate });
    let mut response = Response::new(Body::from(format!("{body}\n")));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_bounded_and_quotes_are_not_part_of_them() {
        let of = |text: &str| key(&HeaderValue::from_str(text).unwrap()).ok();
        assert_eq!(of("\"a b\""), Some("a b".to_owned()));
        assert_eq!(of("a"), Some("a".to_owned()));
        assert_eq!((of("\"\""), of(&"x".repeat(256))), (None, None));
    }

    #[test]
    fn a_media_type_says_whether_there_is_a_header() {
        for (text, says) in [
            ("text/csv", None),
            ("text/csv; header=absent", Some(Header::No)),
            ("text/csv; Header=Absent; charset=utf-8", Some(Header::No)),
            ("text/csv;charset=utf-8;header=present", Some(Header::Yes)),
        ] {
            assert_eq!(header_parameter(&HeaderValue::from_str(text).unwrap()), says, "{text}");
        }
    }

    #[test]
    fn the_place_of_a_bad_row_is_named_apart() {
        let place = |message: &str| located(Error::new(ErrorKind::InvalidValue, message)).to_json()["where"].clone();
        assert_eq!(place("the body, line 2, column a: 'four' is no INT"), "the body, line 2, column a");
        assert!(place("there is no table").is_null());
    }
}
