//! What statements write into the audit log.
//!
//! Invariant: whatever changes definitions, roles or grants goes through [`Session::submit`], and so through here.

use crate::rights::{Audit, AuditEvent, is_refusal, write_refused_statement};
use crate::session::core::{Run, Session, blocking};
use alluvia_access::LogIn;
use alluvia_catalog::Change;
use alluvia_snapshot::{Committed, NewBatch};
use alluvia_types::{Error, Result};
use futures::future::BoxFuture;
use std::net::IpAddr;
use std::sync::Arc;

impl Session {
    /// As [`Engine::trusted`](crate::Engine::trusted), of whom the session was introduced to.
    pub fn trusted(&self, peer: IpAddr, kind: LogIn) -> BoxFuture<'static, ()> {
        let client = self.client();
        self.engine.trusted(&client.user, client.protocol, peer, kind)
    }

    fn audit_of(&self, event: AuditEvent, sql: &str) -> Audit {
        let authoriser = self.authoriser();
        Audit::new(self.engine.store(), event, &self.client()).of_statement(self.id, sql, &authoriser)
    }

    /// Writes that a batch is about to change definitions or rights, if it is; then its end is to be written, too.
    pub(super) async fn audit_change(&self, run: &Run, batch: &NewBatch) -> Result<Option<Audit>> {
        if batch.changes.is_empty() {
            return Ok(None);
        }
        let of_rights = batch.changes.iter().all(|change| matches!(change, Change::Rights { .. }));
        let event = if of_rights { AuditEvent::Rights } else { AuditEvent::Ddl };
        let audit = self.audit_of(event, &run.text);
        let begins = audit.clone();
        blocking(move || begins.write("begins", None, None)).await?;
        Ok(Some(audit))
    }

    /// Writes that the session was refused something, if that is what the error says, unless its user was refused too often. It
    /// stays refused if that fails.
    pub(super) async fn audit_refusal(&self, text: &str, error: &Error) {
        if !is_refusal(error) {
            return;
        }
        let (audit, refused) = (self.audit_of(AuditEvent::Refused, text), error.clone());
        let (engine, user) = (Arc::clone(&self.engine), self.authoriser().session_user().to_owned());
        if let Err(error) = blocking(move || write_refused_statement(&engine, &user, &audit, &refused)).await {
            tracing::error!(%error, "a refusal could not be written into the audit log");
        }
    }
}

/// Writes what became of a change. It has become that: where the log cannot be written, the line that it begins must do.
pub(super) async fn audit_end(audit: Audit, committed: &Result<Committed>) {
    let (version, error) = match committed {
        Ok(committed) => (Some(committed.version), None),
        Err(error) => (None, Some(error.clone())),
    };
    let outcome = if error.is_some() { "failed" } else { "done" };
    if let Err(error) = blocking(move || audit.write(outcome, version, error.as_ref())).await {
        tracing::error!(%error, "the end of a change could not be written into the audit log");
    }
}
