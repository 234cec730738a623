//! What statements write into the audit log.
//!
//! Invariant: whatever changes definitions, roles or grants goes through [`Session::submit`], and so through here.

use crate::rights::{Audit, AuditEvent, is_refusal, write_refused_statement};
use crate::session::core::{Session, blocking};
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

    /// Writes of each statement of a batch that it is about to change definitions or rights, if the batch does; then its end is to be
    /// written, too.
    pub(super) async fn audit_changes(&self, texts: &[Arc<str>], batch: &NewBatch) -> Result<Vec<Audit>> {
        if batch.changes.is_empty() {
            return Ok(Vec::new());
        }
        let of_rights = batch.changes.iter().all(|change| matches!(change, Change::Rights { .. }));
        let event = if of_rights { AuditEvent::Rights } else { AuditEvent::Ddl };
        let audits: Vec<Audit> = texts.iter().map(|text| self.audit_of(event, text)).collect();
        let begins = audits.clone();
        blocking(move || begins.iter().try_for_each(|audit| audit.write("begins", None, None))).await?;
        Ok(audits)
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

/// Writes what became of changes. They have become that: where the log cannot be written, the lines that they begin must do.
pub(super) async fn audit_ends(audits: Vec<Audit>, committed: &Result<Committed>) {
    if audits.is_empty() {
        return;
    }
    let (version, error) = match committed {
        Ok(committed) => (Some(committed.version), None),
        Err(error) => (None, Some(error.clone())),
    };
    let outcome = if error.is_some() { "failed" } else { "done" };
    let write = move || audits.iter().try_for_each(|audit| audit.write(outcome, version, error.as_ref()));
    if let Err(error) = blocking(write).await {
        tracing::error!(%error, "the end of a change could not be written into the audit log");
    }
}
