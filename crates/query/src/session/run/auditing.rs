//! The audit log's lines about statements.
//!
//! Invariants:
//! - A change of definitions, roles or grants goes through `transaction::submit`, and so through [`audit_changes`].
//! - A line names the role that its statement ran as, whatever the session acts as when the transaction commits.

use crate::audit::{Audit, AuditEvent, is_refusal};
use crate::engine::refused::write_statement;
use crate::execution::blocking::blocking;
use crate::session::state::definitions::Definer;
use crate::session::state::scope::Scope;
use alluvia_catalog::Change;
use alluvia_catalog::authoriser::Authoriser;
use alluvia_snapshot::{Committed, NewBatch};
use alluvia_types::{Error, Result};
use std::sync::Arc;

fn audit_of(scope: &Scope, event: AuditEvent, sql: &str, authoriser: &Authoriser) -> Audit {
    Audit::new(scope.engine.read().clock(), scope.engine.admin(), event, &scope.client())
        .of_statement(scope.id, sql, authoriser)
}

/// Writes of each statement of a batch that it is about to change definitions or rights, if the batch does; then its
/// end is to be written, too.
pub(crate) async fn audit_changes(scope: &Scope, definers: &[Definer], batch: &NewBatch) -> Result<Vec<Audit>> {
    if batch.changes.is_empty() {
        return Ok(Vec::new());
    }
    let of_rights = batch.changes.iter().all(|change| matches!(change, Change::Rights { .. }));
    let event = if of_rights { AuditEvent::Rights } else { AuditEvent::Ddl };
    let authoriser = scope.authoriser();
    let audit = |definer: &Definer| audit_of(scope, event, &definer.text, &authoriser.acting_as(&definer.acting));
    let audits: Vec<Audit> = definers.iter().map(audit).collect();
    let begins = audits.clone();
    blocking(move || begins.iter().try_for_each(|audit| audit.write("begins", None, None))).await?;
    Ok(audits)
}

/// Writes that the session was refused something, if that is what the error says, unless its user was refused too
/// often. It stays refused if that fails.
pub(crate) async fn audit_refusal(scope: &Scope, text: &str, error: &Error) {
    if !is_refusal(error) {
        return;
    }
    let authoriser = scope.authoriser();
    let (audit, refused) = (audit_of(scope, AuditEvent::Refused, text, &authoriser), error.clone());
    let (engine, user) = (Arc::clone(&scope.engine), authoriser.session_user().to_owned());
    if let Err(error) = blocking(move || write_statement(&engine, &user, &audit, &refused)).await {
        tracing::error!(%error, "a refusal could not be written into the audit log");
    }
}

/// Writes what became of changes. They have become that: where the log cannot be written, the lines that they begin
/// must do.
pub(crate) async fn audit_ends(audits: Vec<Audit>, committed: &Result<Committed>) {
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
