//! Reports to a client beside the rows: parameters of the session, notices, and how far a long statement is.

use crate::io::SEND_BYTES;
use crate::wire::{Out, Severity};
use alluvia_query::{Level, Outcome, Session};
use std::time::Duration;

/// The settings that PostgreSQL reports, by the names that it reports them under.
const REPORTED: [&str; 13] = [
    "application_name",
    "client_encoding",
    "DateStyle",
    "default_transaction_read_only",
    "in_hot_standby",
    "integer_datetimes",
    "IntervalStyle",
    "is_superuser",
    "server_encoding",
    "server_version",
    "session_authorization",
    "standard_conforming_strings",
    "TimeZone",
];

/// What was reported last, and what the client wants to be told.
#[derive(Default)]
pub(crate) struct Reporter {
    values: Vec<(&'static str, String)>,
    /// Whether notices are wanted: `client_min_messages`.
    notices: bool,
    warnings: bool,
    /// Whether it is to be told what each query used: `report`.
    used: bool,
    /// Whether a query runs that may set something.
    may_set: bool,
    /// How often the client is told how far a statement is, and when next, by the monotonic clock.
    progress: Option<(Duration, Duration)>,
}

impl Reporter {
    /// Reports the settings that are not what they were reported to be.
    pub(crate) fn settings(&mut self, session: &Session, out: &mut Out) {
        for name in REPORTED {
            let value = session.setting_value(&name.to_ascii_lowercase()).unwrap_or_default();
            match self.values.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) if *known == value => {}
                Some((_, known)) => {
                    out.parameter_status(name, &value);
                    *known = value;
                }
                None => {
                    out.parameter_status(name, &value);
                    self.values.push((name, value));
                }
            }
        }
        let least = session.setting_value("client_min_messages").unwrap_or_default();
        self.notices = !matches!(least.as_str(), "warning" | "error" | "fatal" | "panic");
        self.warnings = !matches!(least.as_str(), "error" | "fatal" | "panic");
        self.used = session.setting_value("report").is_ok_and(|report| report == "notice");
    }

    /// Tells what a statement has to tell, once it is over: its notices, and, to who wants to know, what it used of tables. Tools ask the
    /// catalog in many statements that nobody wrote: of those there is nothing to tell. Nobody takes an estimate for an exact answer:
    /// what it is from is told to all.
    pub(crate) fn outcome(&self, outcome: &Outcome, out: &mut Out) {
        for (at, notice) in outcome.notices().iter().enumerate() {
            match outcome.raised(at) {
                Some(raised) => {
                    let (severity, is_wanted) = match raised.level {
                        // As in PostgreSQL it is always told.
                        Level::Info => (Severity::Info, true),
                        Level::Warning => (Severity::Warning, self.warnings),
                        _ => (Severity::Notice, self.notices),
                    };
                    if is_wanted {
                        let more = (raised.detail.as_deref(), raised.hint.as_deref());
                        out.notice_with(severity, &raised.sqlstate, &raised.message, more);
                    }
                }
                None if self.notices => out.notice(Severity::Notice, "00000", notice),
                None => {}
            }
        }
        if !self.notices {
            return;
        }
        let Some(used) = outcome.used().filter(|used| used.of_tables) else { return };
        match used.sample {
            _ if self.used => out.notice(Severity::Notice, "00000", &format!("used {used}")),
            Some(sample) => out.notice(Severity::Notice, "00000", &format!("values are estimates: {sample}")),
            None => {}
        }
    }

    /// A query that may have set something by `set_config` is over.
    pub(crate) fn query_ended(&mut self, session: &Session, out: &mut Out) {
        if std::mem::take(&mut self.may_set) {
            self.settings(session, out);
        }
    }

    /// A query begins of this text. Long ones hold lists: nobody sets anything beside them.
    pub(crate) fn begins(&mut self, sql: &str) {
        const SETS: &[u8] = b"set_config";
        const LONG_BYTES: usize = 16 << 10;
        self.may_set |=
            sql.len() < LONG_BYTES && sql.as_bytes().windows(SETS.len()).any(|part| part.eq_ignore_ascii_case(SETS));
    }

    /// A statement begins: the client is told how far it is from time to time, if it wants to be.
    pub(crate) fn begin_progress(&mut self, session: &Session, now: Duration) {
        let every = session.progress_interval().filter(|_| self.notices);
        self.progress = every.map(|every| (every, now + every));
    }

    /// Completes when it is time to tell how far the statement is; never, if nobody wants to know.
    pub(crate) fn progress_due(&self, now: Duration) -> impl Future<Output = ()> + use<> {
        let wait = self.progress.map(|(_, at)| at.saturating_sub(now));
        async move {
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        }
    }

    /// Tells how far the statement is, unless the client has not taken what it was sent before.
    pub(crate) fn progress(&mut self, session: &Session, now: Duration, out: &mut Out) {
        if let Some((every, at)) = &mut self.progress {
            *at = now + *every;
        }
        if let Some(report) = session.report().filter(|_| out.bytes.len() < SEND_BYTES) {
            out.notice(Severity::Notice, "00000", &format!("progress: {report}"));
        }
    }

    /// Tells of something that may be wrong.
    pub(crate) fn warning(&self, sqlstate: &str, message: &str, out: &mut Out) {
        if self.warnings {
            out.notice(Severity::Warning, sqlstate, message);
        }
    }
}
