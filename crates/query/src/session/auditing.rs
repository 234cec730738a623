//! What statements write into the audit log.
//!
//! Invariants:
//! - Whatever changes definitions, roles or grants goes through [`Session::submit`], and so through here.
//! - A line names the role that its statement ran as, whatever the session acts as when the statement's transaction commits.

use crate::audit::{Audit, AuditEvent, is_refusal};
use crate::engine::refused::write_statement;
use crate::execution::blocking::blocking;
use crate::rights::Authoriser;
use crate::session::core::{Run, Session};
use alluvia_access::LogIn;
use alluvia_catalog::Change;
use alluvia_snapshot::{Committed, NewBatch};
use alluvia_types::{Error, Result};
use futures::future::BoxFuture;
use std::net::IpAddr;
use std::sync::Arc;

/// A statement that changes definitions, and who it is that does.
#[derive(Clone, Debug)]
pub(crate) struct Definer {
    pub(super) text: Arc<str>,
    /// Of SET ROLE, when the statement ran; empty for none.
    pub(super) acting: Arc<str>,
}

impl Definer {
    /// A statement on its way.
    pub(super) fn of(run: &Run) -> Definer {
        Definer { text: Arc::clone(&run.text), acting: Arc::clone(&run.settings.role) }
    }
}

impl Session {
    /// As [`Engine::trusted`](crate::Engine::trusted), of whom the session was introduced to.
    pub fn trusted(&self, peer: IpAddr, kind: LogIn) -> BoxFuture<'static, ()> {
        let client = self.client();
        self.engine.trusted(&client.user, client.protocol, peer, kind)
    }

    fn audit_of(&self, event: AuditEvent, sql: &str, authoriser: &Authoriser) -> Audit {
        Audit::new(self.engine.read().clock(), self.engine.admin(), event, &self.client())
            .of_statement(self.id, sql, authoriser)
    }

    /// Writes of each statement of a batch that it is about to change definitions or rights, if the batch does; then its end is to be
    /// written, too.
    pub(super) async fn audit_changes(&self, definers: &[Definer], batch: &NewBatch) -> Result<Vec<Audit>> {
        if batch.changes.is_empty() {
            return Ok(Vec::new());
        }
        let of_rights = batch.changes.iter().all(|change| matches!(change, Change::Rights { .. }));
        let event = if of_rights { AuditEvent::Rights } else { AuditEvent::Ddl };
        let authoriser = self.authoriser();
        let audit = |definer: &Definer| self.audit_of(event, &definer.text, &authoriser.acting_as(&definer.acting));
        let audits: Vec<Audit> = definers.iter().map(audit).collect();
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
        let authoriser = self.authoriser();
        let (audit, refused) = (self.audit_of(AuditEvent::Refused, text, &authoriser), error.clone());
        let (engine, user) = (Arc::clone(&self.engine), authoriser.session_user().to_owned());
        if let Err(error) = blocking(move || write_statement(&engine, &user, &audit, &refused)).await {
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
