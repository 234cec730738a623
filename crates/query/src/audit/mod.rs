//! The audit log: who logged in, what definitions, roles and grants became, what was refused.
//!
//! Invariants:
//! - A line is durable before the client is told what it says. A change of definitions has two: one before it is committed, so that no
//!   crash can leave a change without a line, and one that says what became of it.
//! - Lines are added, never changed. Each is one JSON object; the texts of statements are without passwords, since they were parsed so.

use crate::clients::Client;
use alluvia_catalog::authoriser::Authoriser;
use alluvia_snapshot::Admin;
use alluvia_types::{Clock, Error, ErrorKind, Result, Version};
use alluvia_values::excerpt::cut;
use arrow::temporal_conversions::timestamp_us_to_datetime;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

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
pub(crate) struct Line {
    /// In UTC, to the microsecond.
    pub(crate) at: String,
    pub(crate) event: String,
    pub(crate) outcome: String,
    pub(crate) user: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<String>,
    pub(crate) protocol: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sql: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sqlstate: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
}

/// Writes lines about one client.
#[derive(Clone, Debug)]
pub(crate) struct Audit {
    clock: Arc<dyn Clock>,
    admin: Arc<dyn Admin>,
    line: Line,
}

impl Audit {
    /// About this client.
    pub(crate) fn new(clock: &Arc<dyn Clock>, admin: &Arc<dyn Admin>, event: AuditEvent, client: &Client) -> Audit {
        let line = Line {
            event: event.name().to_owned(),
            user: client.user.clone(),
            protocol: client.protocol.to_owned(),
            address: (!client.address.is_empty()).then(|| client.address.clone()),
            ..Line::default()
        };
        Audit { clock: Arc::clone(clock), admin: Arc::clone(admin), line }
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
        line.at = shown(self.clock.wall_micros());
        line.outcome = outcome.to_owned();
        line.version = version.map(|version| version.0);
        line.sqlstate = error.map(|error| error.sqlstate().to_owned());
        // Of whatever length the text is that the error quotes: a line is bounded.
        line.message = error.map(|error| cut(error.message()).to_owned()).or(line.message.take());
        let mut text =
            serde_json::to_vec(&line).map_err(|error| Error::internal(format!("a line of the audit log: {error}")))?;
        text.push(b'\n');
        self.admin.audit(&text)
    }
}

/// As RFC 3339 has times.
fn shown(micros: i64) -> String {
    let time = timestamp_us_to_datetime(micros);
    time.map_or_else(|| micros.to_string(), |time| time.format("%Y-%m-%dT%H:%M:%S%.6fZ").to_string())
}

/// Whether these bytes are a line of the audit log, as this version or an earlier one writes it; without the newline.
pub fn is_audit_line(bytes: &[u8]) -> bool {
    serde_json::from_slice::<Line>(bytes).is_ok_and(|line| !line.event.is_empty())
}

/// Whether an error is a refusal that belongs into the audit log.
pub(crate) fn is_refusal(error: &Error) -> bool {
    error.kind() == ErrorKind::Forbidden
}
