//! `POST /query`: one statement, its answer.
//!
//! A request is a session of its own, so statements about sessions and transactions are refused by name rather than forgotten with it.
//!
//! Invariants:
//! - A request that is refused is read on for a while, so that a client which sends all before it reads gets to see why; not so one
//!   that has not shown its password.
//! - What a statement's JSON holds is counted before it is taken apart: memory is spent on at most [`JSON_VALUES_MAX`] values.

use crate::answer::{Encoder, ending, headers};
use crate::auth::{Peer, user};
use crate::cancellation::watched;
use crate::events;
use crate::failure::Failure;
use crate::media::{Answer, StatementBody};
use crate::request::{Pieces, drain, query_pairs, refuse_length, session, twice};
use crate::shared::Shared;
use crate::statement::{Chunks, StatementRequest};
use crate::statuses::Refusal;
use alluvia_query::{Outcome, Prepared, ScalarValue, from_datafusion};
use alluvia_syntax::Command;
use alluvia_types::{Error, ErrorKind, Result};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, Version};
use axum::response::Response;
use futures::StreamExt;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;
use tracing::Instrument;

/// Pieces of an answer that wait for the client.
const WAITING: usize = 2;

/// Parameters that a statement may have, as in PostgreSQL's protocol.
const PARAMETERS_MAX: usize = 65_535;
/// Values that a statement's JSON may have in all: parameters, settings, and the statement itself.
const JSON_VALUES_MAX: usize = PARAMETERS_MAX + 1_000;

/// What the last bytes of an answer that fails get to leave.
const FLUSHED_IN: Duration = Duration::from_millis(20);

/// The handler.
pub(crate) async fn query(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let asked = match accept(&shared, &parts).await {
        Ok(asked) => asked,
        Err(failure) => {
            // Nobody keeps a connection by a body who has not shown a password.
            if failure.error.kind() != ErrorKind::Authentication {
                drain(&mut body.into_data_stream()).await;
            }
            return Err(failure);
        }
    };
    let Accepted { user, peer, answer, kind, mut settings } = asked;
    let mut pieces = Pieces::new(body, shared.options.statement_bytes_max as u64, shared.options.transfer_timeout);
    let text = match pieces.text().await {
        Ok(text) => text,
        Err(failure) => {
            pieces.drain().await;
            return Err(failure);
        }
    };
    let (sql, values) = match kind {
        StatementBody::Text => (text, Vec::new()),
        StatementBody::Json => {
            let stated = Stated::read(&text)?;
            for (name, value) in stated.settings {
                if settings.iter().any(|(known, _)| *known == name) {
                    return Err(twice(&name));
                }
                settings.push((name, value));
            }
            (stated.sql, stated.parameters)
        }
    };
    let session = session(&shared, user, peer.0.to_string(), &settings)?;
    let prepared = session.prepare(&sql)?;
    refuse_sessions(&prepared)?;
    let asked = StatementRequest { session, prepared, values };
    let (send, mut chunks) = mpsc::channel(WAITING);
    let mut response = if answer == Answer::Events {
        tokio::spawn(async move { events::run(&shared, &asked, &send).await }.in_current_span());
        Response::default()
    } else {
        let (tell, told) = oneshot::channel();
        tokio::spawn(async move { run(&shared, &asked, answer, tell, &send).await }.in_current_span());
        told.await.map_err(|_| Error::internal("a statement ended without an answer"))??
    };
    if response.status() == StatusCode::OK {
        *response.body_mut() = Body::from_stream(futures::stream::poll_fn(move |context| chunks.poll_recv(context)));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(answer.content_type()));
    }
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// What a request says before its body.
struct Accepted {
    user: String,
    peer: Peer,
    answer: Answer,
    kind: StatementBody,
    settings: Vec<(String, String)>,
}

/// Everything that can be refused before the body.
async fn accept(shared: &Arc<Shared>, parts: &Parts) -> Result<Accepted, Failure> {
    let peer = parts.extensions.get::<Peer>().copied().ok_or_else(|| Error::internal("a request from nowhere"))?;
    let user = user(shared, &parts.headers, peer).await?;
    let answer = Answer::of(&parts.headers)?;
    if parts.version < Version::HTTP_11 {
        return Err(Failure::request(
            "the request line",
            "an answer over HTTP/1.0 could be cut without being seen to be",
        )
        .with_refusal(Refusal::Version)
        .with_hint("use HTTP/1.1"));
    }
    let kind = StatementBody::of(&parts.headers)?;
    let settings = query_pairs(parts)?;
    refuse_length(&parts.headers, shared.options.statement_bytes_max as u64)?;
    Ok(Accepted { user, peer, answer, kind, settings })
}

/// Runs a statement: tells its head, then sends its rows.
async fn run(
    shared: &Arc<Shared>,
    asked: &StatementRequest,
    answer: Answer,
    tell: oneshot::Sender<Result<Response, Failure>>,
    chunks: &Chunks,
) {
    let begun = begin(shared, asked, answer, chunks).await;
    let (mut outcome, mut encoder, response) = match begun {
        Ok((outcome, Some(encoder), response)) => (outcome, encoder, response),
        Ok((_, None, response)) => return drop(tell.send(Ok(response))),
        Err(failure) => return drop(tell.send(Err(failure))),
    };
    if tell.send(Ok(response)).is_err() {
        return;
    }
    match rest(shared, asked, &mut outcome, &mut encoder, chunks).await {
        Ok(()) => match encoder.finish(&outcome) {
            Ok(last) => drop(chunks.send(Ok(last)).await),
            Err(error) => drop(chunks.send(Err(error)).await),
        },
        Err(error) => {
            let last = encoder.fail(&Failure::from(error.clone()));
            drop(chunks.send(Ok(last)).await);
            // An error ends the connection with what is still in its buffer; while the body gives nothing, that is sent.
            drop(chunks.reserve_many(WAITING).await);
            sleep(FLUSHED_IN).await;
            drop(chunks.send(Err(error)).await);
        }
    }
}

/// Up to the first rows, so that what fails early fails with a status.
async fn begin(
    shared: &Arc<Shared>,
    asked: &StatementRequest,
    answer: Answer,
    chunks: &Chunks,
) -> Result<(Outcome, Option<Encoder>, Response), Failure> {
    let mut outcome = watched(shared, &asked.session, chunks.closed(), asked.execute()).await?;
    let mut response = Response::default();
    headers(&outcome, response.headers_mut());
    let Some(rows) = outcome.rows.as_mut() else {
        if answer == Answer::Json {
            let mut whole = ending(&outcome, 0);
            whole["columns"] = Value::Array(Vec::new());
            whole["rows"] = Value::Array(Vec::new());
            let _ = chunks.send(Ok(format!("{whole}\n").into())).await;
        } else {
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        return Ok((outcome, None, response));
    };
    let mut encoder = Encoder::new(answer, &rows.schema(), asked.session.time_zone())?;
    let first = watched(shared, &asked.session, chunks.closed(), async {
        rows.next().await.transpose().map_err(from_datafusion)
    });
    if let Some(first) = first.await? {
        encoder.write(&first)?;
    }
    Ok((outcome, Some(encoder), response))
}

/// The rows after the first.
async fn rest(
    shared: &Arc<Shared>,
    asked: &StatementRequest,
    outcome: &mut Outcome,
    encoder: &mut Encoder,
    chunks: &Chunks,
) -> Result<()> {
    let Some(mut rows) = outcome.rows.take() else { return Ok(()) };
    loop {
        if let Some(piece) = encoder.written.take_if_long()
            && chunks.send(Ok(piece)).await.is_err()
        {
            return Err(alluvia_access::gone());
        }
        let next = async { rows.next().await.transpose().map_err(from_datafusion) };
        match watched(shared, &asked.session, chunks.closed(), next).await? {
            Some(batch) => encoder.write(&batch)?,
            None => return Ok(()),
        }
    }
}

fn refuse_sessions(prepared: &Prepared) -> Result<()> {
    let refused = |what: &str, hint: &str| {
        Err(Error::new(ErrorKind::NotSupported, format!("{what} over HTTP is not supported")).with_hint(hint))
    };
    let one = "a request is a session of its own: ";
    match prepared.statement().command() {
        Command::Set | Command::Discard => {
            refused("SET", &format!("{one}state settings in the query string or under settings"))
        }
        Command::Begin | Command::Commit | Command::Rollback | Command::Savepoint | Command::RollbackTo => refused(
            "a transaction",
            &format!("{one}a request to /ingest is one atomic batch; use PostgreSQL's protocol for more"),
        ),
        Command::Deallocate(_) => refused("DEALLOCATE", &format!("{one}nothing is prepared in it")),
        Command::CopyIn => refused("COPY FROM STDIN", "send the rows to /ingest/TABLE"),
        Command::CopyOut => refused("COPY TO STDOUT", "send the query, and state the format as Accept"),
        _ => Ok(()),
    }
}

/// A statement as JSON states it.
struct Stated {
    sql: String,
    parameters: Vec<ScalarValue>,
    settings: Vec<(String, String)>,
}

impl Stated {
    fn read(text: &str) -> Result<Stated, Failure> {
        let wrong = |place: &str, message: &str| {
            Failure::request(place, message)
                .with_hint(r#"the body is {"sql": "...", "parameters": [...], "settings": {"name": value}}"#)
        };
        if values_of(text) > JSON_VALUES_MAX {
            let message = format!("the body has more than {JSON_VALUES_MAX} values");
            return Err(Failure::from(Error::new(ErrorKind::TooLarge, message))
                .of("the body")
                .with_hint("rows go to /ingest/TABLE; a long list of constants is better joined as a table"));
        }
        let value: Value = serde_json::from_str(text).map_err(|error| {
            wrong(
                &format!("the body, line {}, column {}", error.line(), error.column()),
                &format!("the body is not JSON: {error}"),
            )
        })?;
        let Value::Object(members) = value else { return Err(wrong("the body", "the body is no object")) };
        let mut stated = Stated { sql: String::new(), parameters: Vec::new(), settings: Vec::new() };
        for (name, value) in members {
            match (name.as_str(), value) {
                ("sql", Value::String(sql)) => stated.sql = sql,
                ("parameters", Value::Array(values)) if values.len() > PARAMETERS_MAX => {
                    let message = format!("{} parameters are given, and {PARAMETERS_MAX} is the most", values.len());
                    return Err(Failure::from(Error::new(ErrorKind::TooLarge, message)).of("parameters"));
                }
                ("parameters", Value::Array(values)) => {
                    for (at, value) in values.into_iter().enumerate() {
                        let scalar = scalar(value).ok_or_else(|| {
                            wrong(&format!("parameters[{at}]"), "a parameter is null, a text, a number, true or false")
                        })?;
                        stated.parameters.push(scalar);
                    }
                }
                ("settings", Value::Object(settings)) => {
                    for (name, value) in settings {
                        let value = match value {
                            Value::String(text) => text,
                            Value::Number(number) => number.to_string(),
                            Value::Bool(value) => if value { "on" } else { "off" }.to_owned(),
                            _ => {
                                return Err(wrong(
                                    &format!("settings.{name}"),
                                    "a setting is a text, a number, true or false",
                                ));
                            }
                        };
                        stated.settings.push((name, value));
                    }
                }
                ("sql" | "parameters" | "settings", _) => {
                    return Err(wrong(&name, &format!("{name} has the wrong type")));
                }
                _ => return Err(wrong(&name, &format!("nothing is known by the name {name}"))),
            }
        }
        if stated.sql.is_empty() {
            return Err(wrong("sql", "there is no statement to run"));
        }
        Ok(stated)
    }
}

/// About how many values a JSON text has, at least as many as it has: each but the first comes after a comma, a colon or a bracket
/// that is in no text.
fn values_of(text: &str) -> usize {
    let (mut count, mut in_text, mut is_escaped) = (1, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            b',' | b':' | b'[' if !in_text => count += 1,
            _ => {}
        }
    }
    count
}

fn scalar(value: Value) -> Option<ScalarValue> {
    Some(match value {
        Value::Null => ScalarValue::Null,
        Value::Bool(value) => ScalarValue::Boolean(Some(value)),
        Value::String(text) => ScalarValue::Utf8(Some(text)),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), ..) => ScalarValue::Int64(Some(number)),
            (None, Some(number), _) => ScalarValue::UInt64(Some(number)),
            (None, None, number) => ScalarValue::Float64(Some(number?)),
        },
        Value::Array(_) | Value::Object(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_in_json_are_read_and_what_is_wrong_is_named() {
        let stated = Stated::read(
            r#"{"sql":"SELECT $1","parameters":[1,null,"x",1.5,true],"settings":{"freshness":"5s","threads":1}}"#,
        );
        let stated = stated.ok().unwrap();
        assert_eq!((stated.sql.as_str(), stated.parameters.len(), stated.settings.len()), ("SELECT $1", 5, 2));
        for (text, place) in [
            ("", "the body, line 1, column 0"),
            ("[1]", "the body"),
            ("{}", "sql"),
            (r#"{"sql":5}"#, "sql"),
            (r#"{"sql":"x","parameters":[1,[2]]}"#, "parameters[1]"),
            (r#"{"sql":"x","settings":{"a":null}}"#, "settings.a"),
            (r#"{"sql":"x","query":"y"}"#, "query"),
        ] {
            let failure = Stated::read(text).err().unwrap();
            assert_eq!((failure.status().as_u16(), failure.to_json()["where"].as_str()), (400, Some(place)), "{text}");
        }
    }

    #[test]
    fn the_values_of_a_body_are_bounded_before_they_are_made() {
        fn count(value: &Value) -> usize {
            1 + match value {
                Value::Array(values) => values.iter().map(count).sum(),
                Value::Object(members) => members.values().map(count).sum(),
                _ => 0,
            }
        }
        for text in [r#"{"a":[1,[2,"x,:[\\\",y"],{}],"b":null}"#, "[]", "[[],[]]", "7", r#"{"a":{"b":{}}}"#] {
            let value = serde_json::from_str(text).unwrap();
            assert!((count(&value)..=count(&value) + 4).contains(&values_of(text)), "{text}");
        }
        let body =
            |parameters: usize| format!(r#"{{"sql":"SELECT 1","parameters":[{}]}}"#, vec!["1"; parameters].join(","));
        assert_eq!(Stated::read(&body(PARAMETERS_MAX)).ok().unwrap().parameters.len(), PARAMETERS_MAX);
        for (text, place) in [
            (body(PARAMETERS_MAX + 1), "parameters"),
            (body(1_000_000), "the body"),
            (format!(r#"{{"x":{}"#, "[".repeat(1_000_000)), "the body"),
        ] {
            let failure = Stated::read(&text).err().unwrap();
            assert_eq!((failure.status().as_u16(), failure.to_json()["where"].as_str()), (413, Some(place)));
        }
    }
}
