//! What a client is told beside its rows: parameters of the session, notices, and how far a long statement is.

use crate::connection::Connection;
use crate::io::SEND_BYTES;
use crate::wire::Severity;
use alluvia_query::Outcome;
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

/// What was reported last.
#[derive(Default)]
pub(crate) struct Reported {
    values: Vec<(&'static str, String)>,
    /// Whether notices are wanted: `client_min_messages`.
    notices: bool,
    warnings: bool,
    /// How often the client is told how far a statement is, and when next, by the monotonic clock.
    progress: Option<(Duration, Duration)>,
}

impl Connection {
    /// Reports the settings that are not what they were reported to be.
    pub(crate) fn report_settings(&mut self) {
        for name in REPORTED {
            let value = self.session.setting_value(&name.to_ascii_lowercase()).unwrap_or_default();
            match self.reported.values.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) if *known == value => {}
                Some((_, known)) => {
                    self.io.out.parameter_status(name, &value);
                    *known = value;
                }
                None => {
                    self.io.out.parameter_status(name, &value);
                    self.reported.values.push((name, value));
                }
            }
        }
        let least = self.session.setting_value("client_min_messages").unwrap_or_default();
        self.reported.notices = !matches!(least.as_str(), "warning" | "error" | "fatal" | "panic");
        self.reported.warnings = !matches!(least.as_str(), "error" | "fatal" | "panic");
    }

    /// Tells what a statement has to tell, once it is over: its notices, and what it used of tables. Tools ask the catalog in many
    /// statements that nobody wrote: of those there is nothing to tell.
    pub(crate) fn tell(&mut self, outcome: &Outcome) {
        if !self.reported.notices {
            return;
        }
        for notice in outcome.notices() {
            self.io.out.notice(Severity::Notice, "00000", notice);
        }
        if let Some(used) = outcome.used().filter(|used| used.of_tables) {
            self.io.out.notice(Severity::Notice, "00000", &format!("used {used}"));
        }
    }

    /// A statement begins: the client is told how far it is from time to time, if it wants to be.
    pub(crate) fn tell_progress_from_now(&mut self) {
        let every = self.session.progress_interval().filter(|_| self.reported.notices);
        self.reported.progress = every.map(|every| (every, self.shared.now() + every));
    }

    /// Completes when it is time to tell how far the statement is; never, if nobody wants to know.
    pub(crate) fn progress_due(&self) -> impl Future<Output = ()> + use<> {
        let wait = self.reported.progress.map(|(_, at)| at.saturating_sub(self.shared.now()));
        async move {
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        }
    }

    /// Tells how far the statement is, unless the client has not taken what it was sent before.
    pub(crate) fn tell_progress(&mut self) {
        if let Some((every, at)) = &mut self.reported.progress {
            *at = self.shared.now() + *every;
        }
        if let Some(report) = self.session.report().filter(|_| self.io.out.bytes.len() < SEND_BYTES) {
            self.io.out.notice(Severity::Notice, "00000", &format!("progress: {report}"));
        }
    }

    /// Tells of something that may be wrong.
    pub(crate) fn warn(&mut self, sqlstate: &str, message: &str) {
        if self.reported.warnings {
            self.io.out.notice(Severity::Warning, sqlstate, message);
        }
    }
}
