//! The audit log: who logged in, what definitions, roles and grants became, what was refused.
//!
//! Invariants:
//! - A line is durable before the client is told what it says. A change of definitions has two: one before it is committed, so that no
//!   crash can leave a change without a line, and one that says what became of it.
//! - Lines are added, never changed. Each is one JSON object; the texts of statements are without passwords, since they were parsed so.

use crate::rights::Authoriser;
use crate::session::Client;
use crate::system::{Cell, Kind};
use crate::table::StatementContext;
use alluvia_snapshot::Store;
use alluvia_types::{Error, ErrorKind, Result, Version};
use alluvia_values::excerpt::cut;
use arrow::compute::kernels::cast_utils::string_to_timestamp_nanos;
use arrow::temporal_conversions::timestamp_us_to_datetime;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Bytes of it that `alluvia.audit` shows: the newest.
const SHOWN_BYTES_MAX: u64 = 16 << 20;

/// Columns of `alluvia.audit`.
pub(crate) const AUDIT: &[(&str, Kind)] = &[
    ("at", Kind::Time),
    ("event", Kind::Text),
    ("outcome", Kind::Text),
    ("user_name", Kind::Text),
    ("role_name", Kind::Text),
    ("protocol", Kind::Text),
    ("client_address", Kind::Text),
    ("session_id", Kind::Count),
    ("sql", Kind::Text),
    ("version", Kind::Count),
    ("sqlstate", Kind::Text),
    ("message", Kind::Text),
];

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AuditEvent {
    /// A client logged in, or was turned away.
    LogIn,
    /// Tables are made, changed or dropped.
    Ddl,
    /// Roles, grants or owners change.
    Rights,
    /// The role may not do what it asked for.
    Refused,
}

impl AuditEvent {
    fn name(self) -> &'static str {
        match self {
            AuditEvent::LogIn => "log_in",
            AuditEvent::Ddl => "ddl",
            AuditEvent::Rights => "rights",
            AuditEvent::Refused => "refused",
        }
    }
}

/// One line.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Line {
    /// In UTC, to the microsecond.
    at: String,
    event: String,
    outcome: String,
    user: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<String>,
    protocol: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sql: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sqlstate: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// Writes lines about one client.
#[derive(Clone, Debug)]
pub(crate) struct Audit {
    store: Arc<dyn Store>,
    line: Line,
}

impl Audit {
    /// About this client.
    pub(crate) fn new(store: &Arc<dyn Store>, event: AuditEvent, client: &Client) -> Audit {
        let line = Line {
            event: event.name().to_owned(),
            user: client.user.clone(),
            protocol: client.protocol.to_owned(),
            address: (!client.address.is_empty()).then(|| client.address.clone()),
            ..Line::default()
        };
        Audit { store: Arc::clone(store), line }
    }

    /// In this session, for this statement, by whom and with whose rights.
    pub(crate) fn of_statement(mut self, session: u64, sql: &str, authoriser: &Authoriser) -> Audit {
        let (user, role) = (authoriser.session_user(), authoriser.current_user());
        self.line.session = Some(session);
        self.line.sql = Some(cut(sql).to_owned());
        self.line.user = user.to_owned();
        self.line.role = (role != user).then(|| role.to_owned());
        self
    }

    /// With something that is said beside what happened.
    pub(crate) fn saying(mut self, message: Option<&str>) -> Audit {
        self.line.message = message.map(str::to_owned);
        self
    }

    /// Adds the line. Blocks until it is durable.
    pub(crate) fn write(&self, outcome: &str, version: Option<Version>, error: Option<&Error>) -> Result<()> {
        let mut line = self.line.clone();
        line.at = shown(self.store.clock().wall_micros());
        line.outcome = outcome.to_owned();
        line.version = version.map(|version| version.0);
        line.sqlstate = error.map(|error| error.kind().sqlstate().to_owned());
        // Of whatever length the text is that the error quotes: a line is bounded.
        line.message = error.map(|error| cut(error.message()).to_owned()).or(line.message.take());
        let mut text =
            serde_json::to_vec(&line).map_err(|error| Error::internal(format!("a line of the audit log: {error}")))?;
        text.push(b'\n');
        self.store.audit(&text)
    }
}

/// As RFC 3339 has times.
fn shown(micros: i64) -> String {
    let time = timestamp_us_to_datetime(micros);
    time.map_or_else(|| micros.to_string(), |time| time.format("%Y-%m-%dT%H:%M:%S%.6fZ").to_string())
}

/// The rows of `alluvia.audit`, newest first; for superusers. A line that cannot be read is shown as it is.
pub(crate) fn rows(context: &StatementContext) -> Result<Vec<Vec<Cell>>> {
    context.authoriser.superuser("read the audit log")?;
    let text = context.store.audited(SHOWN_BYTES_MAX)?;
    let row = |bytes: &[u8]| {
        let line = serde_json::from_slice::<Line>(bytes).unwrap_or_else(|_| Line {
            event: "unreadable".to_owned(),
            message: Some(String::from_utf8_lossy(bytes).into_owned()),
            ..Line::default()
        });
        let text = |text: String| (!text.is_empty()).then_some(text);
        vec![
            string_to_timestamp_nanos(&line.at).map_or(Cell::Null, |nanos| Cell::Time(nanos / 1_000)),
            line.event.into(),
            text(line.outcome).into(),
            text(line.user).into(),
            line.role.into(),
            text(line.protocol).into(),
            line.address.into(),
            line.session.into(),
            line.sql.into(),
            line.version.into(),
            line.sqlstate.into(),
            line.message.into(),
        ]
    };
    Ok(text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).rev().map(row).collect())
}

/// Whether these bytes are a line of the audit log, as this version or an earlier one writes it; without the newline.
pub fn is_audit_line(bytes: &[u8]) -> bool {
    serde_json::from_slice::<Line>(bytes).is_ok_and(|line| !line.event.is_empty())
}

/// Whether an error is a refusal that belongs into the audit log.
pub(crate) fn is_refusal(error: &Error) -> bool {
    error.kind() == ErrorKind::Forbidden
}
