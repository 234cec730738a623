//! `POST /query`: one statement, its answer.
//!
//! A request is a session of its own, so statements about sessions and transactions are refused by name rather than forgotten with it.

use crate::answer::{Encoder, ending, headers};
use crate::auth::{Peer, user};
use crate::events;
use crate::failure::Failure;
use crate::media::{Answer, StatementBody};
use crate::request::{Pieces, query_pairs, session, twice};
use crate::server::Shared;
use crate::work::watched;
use alluvia_query::{Command, Outcome, Prepared, ScalarValue, Session, from_datafusion};
use alluvia_types::{Error, ErrorKind, Result};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode, Version};
use axum::response::Response;
use bytes::Bytes;
use futures::StreamExt;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

/// Pieces of an answer that wait for the client.
const WAITING: usize = 2;

/// What the last bytes of an answer that fails get to leave.
const FLUSHED_IN: Duration = Duration::from_millis(20);

/// What sends an answer; closed once the client has gone.
pub(crate) type Chunks = mpsc::Sender<Result<Bytes>>;

/// A statement that is asked for.
pub(crate) struct Asked {
    pub(crate) session: Session,
    pub(crate) prepared: Prepared,
    pub(crate) values: Vec<ScalarValue>,
}

impl Asked {
    /// Runs it.
    pub(crate) async fn execute(&self) -> Result<Outcome> {
        self.session.execute_prepared(&self.prepared, &self.values).await
    }
}

/// The handler.
pub(crate) async fn query(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let peer = parts.extensions.get::<Peer>().copied().ok_or_else(|| Error::internal("a request from nowhere"))?;
    let user = user(&shared, &parts.headers, peer).await?;
    let answer = Answer::of(&parts.headers)?;
    if parts.version < Version::HTTP_11 {
        return Err(Failure::request(
            "the request line",
            "an answer over HTTP/1.0 could be cut without being seen to be",
        )
        .with_status(StatusCode::HTTP_VERSION_NOT_SUPPORTED)
        .with_hint("use HTTP/1.1"));
    }
    let kind = StatementBody::of(&parts.headers)?;
    let mut settings = query_pairs(&parts)?;
    let bytes_max = shared.options.statement_bytes_max as u64;
    let text = Pieces::new(body, &parts.headers, bytes_max, shared.options.transfer_timeout)?.text().await?;
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
    let asked = Asked { session, prepared, values };
    let (send, mut chunks) = mpsc::channel(WAITING);
    let mut response = if answer == Answer::Events {
        tokio::spawn(async move { events::run(&shared, &asked, &send).await });
        Response::default()
    } else {
        let (tell, told) = oneshot::channel();
        tokio::spawn(async move { run(&shared, &asked, answer, tell, &send).await });
        told.await.map_err(|_| Error::internal("a statement ended without an answer"))??
    };
    if response.status() == StatusCode::OK {
        *response.body_mut() = Body::from_stream(futures::stream::poll_fn(move |context| chunks.poll_recv(context)));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(answer.content_type()));
    }
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Runs a statement: tells its head, then sends its rows.
async fn run(
    shared: &Arc<Shared>,
    asked: &Asked,
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
    asked: &Asked,
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
    let mut encoder = Encoder::new(answer, &rows.schema())?;
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
    asked: &Asked,
    outcome: &mut Outcome,
    encoder: &mut Encoder,
    chunks: &Chunks,
) -> Result<()> {
    let Some(mut rows) = outcome.rows.take() else { return Ok(()) };
    loop {
        if let Some(piece) = encoder.written.take_if_long()
            && chunks.send(Ok(piece)).await.is_err()
        {
            return Err(crate::work::gone());
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
}
