//! Roles that a database keeps itself, beside the users of the passwords' file.
//!
//! Invariant: whether somebody who has shown a password may go on is asked each time ([`Directory::admit`]), and told to whoever
//! keeps the audit log before the client is told.

use crate::scram::Verifier;
use alluvia_types::Result;
use std::fmt;
use std::net::IpAddr;

/// What a log-in is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogIn {
    /// Something that lasts, and whose requests show nothing any more: a connection, a token.
    Lasting,
    /// One of many requests, each of which shows the password.
    Request,
}

/// The port to them. What is told to the audit log may block: it is on disk before it is answered.
pub trait Directory: fmt::Debug + Send + Sync {
    /// What is known of a role's password; `None` if it has none, or if there is no such role.
    fn verifier(&self, role: &str) -> Option<Verifier>;

    /// Whether `user` may log in, as [`Directory::admit`] decides it; nothing is written.
    fn may_log_in(&self, user: &str) -> Result<()>;

    /// A client has shown that it is `user`: gives whether it may log in. `protocol` is one of a session's `Client`.
    fn admit(&self, user: &str, protocol: &'static str, peer: IpAddr, kind: LogIn) -> Result<()>;

    /// A client was turned away.
    fn refused(&self, user: &str, protocol: &'static str, peer: IpAddr, reason: &str);
}
