//! Sessions: a login of the server's, by its token.
//!
//! Invariants:
//! - A session that is held is not idle to the server: it is asked for its state every [`TOUCH_EVERY`].
//! - A session that the server does not know any more (it was restarted, or made room) is lost: nothing of it is made up again, and
//!   whoever holds it is told once and can see it.
//! - Statements of one session take turns where they take several calls; the server has the rest of them take turns.

use crate::answer::Answer;
use crate::failure::{not_understood, of_status};
use crate::prepared_handles::PreparedHandles;
use alluvia_types::{Error, ErrorKind, Result};
use arrow::datatypes::Schema;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::{Any, CommandStatementQuery, ProstMessageExt};
use arrow_flight::{Action, FlightData, FlightDescriptor, Ticket};
use bytes::Bytes;
use prost::Message;
use serde_json::Value;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tonic::metadata::{AsciiMetadataValue, MetadataValue};
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};

/// How often the server hears of a session that is held.
const TOUCH_EVERY: Duration = Duration::from_secs(60);
/// Says how estimates and their bounds are wanted.
const BOUNDS: &str = "alluvia-bounds";
/// Actions of ours.
const STATE: &str = "alluvia.session";
const CANCEL: &str = "alluvia.cancel";
/// Flight's.
const CLOSE: &str = "CloseSession";

/// How bounds of estimates are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bounds {
    None,
    Columns,
    Refinements,
    /// Nothing is estimated.
    Exact,
}

impl Bounds {
    /// As the header says it.
    fn said(self) -> Option<&'static str> {
        match self {
            Bounds::None => None,
            Bounds::Columns => Some("columns"),
            Bounds::Refinements => Some("refinements"),
            Bounds::Exact => Some("exact"),
        }
    }
}

/// A statement that has begun, or has run.
pub(crate) enum Begun {
    /// It has no rows.
    Done(Answer),
    /// Rows with this schema come.
    Rows(Schema, Box<Streaming<FlightData>>),
}

impl Begun {
    pub(crate) fn answer(self) -> Result<Answer> {
        match self {
            Begun::Done(answer) => Ok(answer),
            Begun::Rows(schema, messages) => Answer::of(&schema, *messages),
        }
    }
}

/// How a session stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// `idle`, `open` or `failed`.
    pub transaction: String,
    /// `idle` (nothing runs), `running`, `finishing` or `committing`.
    pub phase: String,
    /// Rows that the running statement, or the last one, has taken in, put out or read.
    pub rows: u64,
    /// Bytes of files and segments that it has read.
    pub bytes_done: u64,
    /// Bytes of its input; 0 where that is not known.
    pub bytes_total: u64,
    /// Since the running statement began; `None` where none runs.
    pub elapsed: Option<Duration>,
    /// Its rows in the mean since then.
    pub rows_per_second: Option<f64>,
    /// The share of the running statement that is done, from 0 to 1; `None` where nobody knows, and where none runs.
    pub fraction: Option<f64>,
    /// What is left of it if it goes on as it went; `None` where nobody knows.
    pub left: Option<Duration>,
    /// Whether the session asks whoever shows answers to show refinements: its setting `progressive`.
    pub is_progressive: bool,
    /// The session's time zone, by its name; empty where the server does not say.
    pub time_zone: String,
}

/// A session at the server. Threads may share one.
pub struct Session {
    pub(crate) client: FlightServiceClient<Channel>,
    authorization: AsciiMetadataValue,
    pub(crate) prepared: PreparedHandles,
    is_lost: AtomicBool,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("is_lost", &self.is_lost()).finish_non_exhaustive()
    }
}

/// A header that shows who calls, and is not shown to anybody else.
pub(crate) fn authorization(text: &str) -> Result<AsciiMetadataValue> {
    let mut value = MetadataValue::try_from(text).map_err(|_| not_understood("a token is no header"))?;
    value.set_sensitive(true);
    Ok(value)
}

impl Session {
    pub(crate) fn begin(client: FlightServiceClient<Channel>, authorization: AsciiMetadataValue) -> Arc<Session> {
        let session =
            Session { client, authorization, prepared: PreparedHandles::default(), is_lost: AtomicBool::new(false) };
        let session = Arc::new(session);
        tokio::spawn(touching(Arc::downgrade(&session)));
        session
    }

    /// Whether the server is known not to know it any more.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::SeqCst)
    }

    /// Runs one statement without parameters, with bounds of what is estimated in it. Returns when its rows begin to come.
    pub async fn execute(&self, sql: &str) -> Result<Answer> {
        self.begin_text(sql, Bounds::Columns).await?.answer()
    }

    /// As [`Session::execute`], without bounds: an estimate may then be made of fewer rows.
    pub async fn execute_plainly(&self, sql: &str) -> Result<Answer> {
        self.begin_text(sql, Bounds::None).await?.answer()
    }

    /// As [`Session::execute`], without estimates, whatever the session's `max_error` is: for rows that are written somewhere.
    pub async fn execute_exactly(&self, sql: &str) -> Result<Answer> {
        self.begin_text(sql, Bounds::Exact).await?.answer()
    }

    pub(crate) async fn begin_text(&self, sql: &str, bounds: Bounds) -> Result<Begun> {
        let query = CommandStatementQuery { query: sql.to_owned(), transaction_id: None };
        self.begin_command(query.as_any(), bounds).await
    }

    /// Begins what a command asks for.
    pub(crate) async fn begin_command(&self, command: Any, bounds: Bounds) -> Result<Begun> {
        let mut request = self.request(FlightDescriptor::new_cmd(command.encode_to_vec()));
        if let Some(said) = bounds.said() {
            request.metadata_mut().insert(BOUNDS, MetadataValue::from_static(said));
        }
        let info = self.client.clone().get_flight_info(request).await;
        let info = info.map_err(|status| self.failed(&status))?.into_inner();
        let Some(ticket) = info.endpoint.first().and_then(|endpoint| endpoint.ticket.clone()) else {
            return Ok(Begun::Done(Answer::without_rows(&info.app_metadata)?));
        };
        let schema = info.try_decode_schema().map_err(|error| not_understood(&error.to_string()))?;
        // At once: a ticket is good for a while, and what it stands for is kept at the server.
        let request: Request<Ticket> = self.request(ticket);
        let rows = self.client.clone().do_get(request).await.map_err(|status| self.failed(&status))?;
        Ok(Begun::Rows(schema, Box::new(rows.into_inner())))
    }

    /// Stops what runs, whoever runs it in this session.
    pub async fn cancel(&self) -> Result<()> {
        self.act(CANCEL, Bytes::new()).await.map(drop)
    }

    /// How the session stands now, also while a statement runs.
    pub async fn state(&self) -> Result<State> {
        let told = self.act(STATE, Bytes::new()).await?;
        let told = told.first().ok_or_else(|| not_understood("a session has no state"))?;
        let json: Value = serde_json::from_slice(told).map_err(|error| not_understood(&error.to_string()))?;
        let text = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
        let count = |name: &str| json[name].as_u64().unwrap_or_default();
        let time = |name: &str| json[name].as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        Ok(State {
            transaction: text("transaction"),
            phase: text("phase"),
            rows: count("rows"),
            bytes_done: count("bytes_done"),
            bytes_total: count("bytes_total"),
            elapsed: time("elapsed_seconds"),
            rows_per_second: json["rows_per_second"].as_f64(),
            fraction: json["fraction"].as_f64(),
            left: time("seconds_left"),
            is_progressive: json["progressive"].as_bool().unwrap_or_default(),
            time_zone: text("time_zone"),
        })
    }

    /// Ends it: what runs is stopped, what is open is rolled back.
    pub async fn close(&self) -> Result<()> {
        self.act(CLOSE, Bytes::new()).await.map(drop)
    }

    /// Has an action done; gives its results.
    pub(crate) async fn act(&self, name: &str, body: Bytes) -> Result<Vec<Bytes>> {
        let action = Action { r#type: name.to_owned(), body };
        let results = self.client.clone().do_action(self.request(action)).await;
        let mut results = results.map_err(|status| self.failed(&status))?.into_inner();
        let mut all = Vec::new();
        while let Some(result) = results.message().await.map_err(|status| self.failed(&status))? {
            all.push(result.body);
        }
        Ok(all)
    }

    /// A call of this session's.
    pub(crate) fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.metadata_mut().insert("authorization", self.authorization.clone());
        request
    }

    /// The error of a call.
    pub(crate) fn failed(&self, status: &Status) -> Error {
        let error = of_status(status);
        if error.kind() != ErrorKind::Authentication {
            return error;
        }
        self.is_lost.store(true, Ordering::SeqCst);
        Error::new(ErrorKind::Authentication, format!("the session has ended at the server: {}", error.message()))
            .with_hint("its settings, and a transaction that was open, are gone: begin another session")
    }
}

/// Keeps a session from being idle, while somebody holds it.
async fn touching(session: Weak<Session>) {
    loop {
        tokio::time::sleep(TOUCH_EVERY).await;
        let Some(session) = session.upgrade().filter(|session| !session.is_lost()) else { return };
        // A server that is away for a while is asked again.
        let _ = session.state().await;
    }
}
