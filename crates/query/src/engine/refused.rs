//! Lines of the audit log for refused log-ins and statements.

use crate::audit::{Audit, AuditEvent};
use crate::clients::Client;
use crate::engine::Engine;
use alluvia_types::{Error, Result};
use std::net::IpAddr;
use std::time::Duration;

/// Writes that somebody was turned away who wanted to log in, unless there were too many from there.
pub(crate) fn write_log_in(
    engine: &Engine,
    user: &str,
    protocol: &'static str,
    peer: IpAddr,
    refused: &Error,
) -> Result<()> {
    let now = engine.read().clock().monotonic();
    write_left_out(engine, now)?;
    match engine.refusals().log_ins.has_line(peer, now) {
        true => log_in_audit(engine, user, protocol, Some(peer)).write("refused", None, Some(refused)),
        false => Ok(()),
    }
}

/// Writes that a statement of this user was refused, unless there were too many.
pub(crate) fn write_statement(engine: &Engine, user: &str, audit: &Audit, refused: &Error) -> Result<()> {
    let now = engine.read().clock().monotonic();
    write_left_out(engine, now)?;
    match engine.refusals().statements.has_line(user.to_owned(), now) {
        true => audit.write("refused", None, Some(refused)),
        false => Ok(()),
    }
}

/// Writes how many refusals have no lines.
pub(crate) fn write_left_out(engine: &Engine, now: Duration) -> Result<()> {
    for (peer, count) in engine.refusals().log_ins.left_out(now) {
        let of = if peer.is_some() { "of this address" } else { "of other addresses" };
        let message = format!("{count} refused log-ins {of} were left out");
        log_in_audit(engine, "", "", peer).saying(Some(&message)).write("left_out", None, None)?;
    }
    for (user, count) in engine.refusals().statements.left_out(now) {
        let of = if user.is_some() { "of this user" } else { "of other users" };
        let message = format!("{count} refused statements {of} were left out");
        let client = Client { user: user.unwrap_or_default(), protocol: "", address: String::new() };
        let audit = Audit::new(engine.read().clock(), engine.admin(), AuditEvent::Refused, &client);
        audit.saying(Some(&message)).write("left_out", None, None)?;
    }
    Ok(())
}

/// A line about who logs in, or tries to.
pub(crate) fn log_in_audit(engine: &Engine, user: &str, protocol: &'static str, peer: Option<IpAddr>) -> Audit {
    let address = peer.map_or_else(String::new, |peer| peer.to_string());
    let client = Client { user: user.to_owned(), protocol, address };
    Audit::new(engine.read().clock(), engine.admin(), AuditEvent::LogIn, &client)
}
