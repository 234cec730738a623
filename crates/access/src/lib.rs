//! Access to servers of every protocol: users and roles with their password verifiers, counts of wrong passwords, certificates,
//! listening, the bound on open connections, cancelling, and how servers stop.
//!
//! Invariants:
//! - A password is never kept, only a verifier from which it cannot be had; what is compared is compared in constant time.
//! - Guessing is slow, whatever the protocol and the number of connections: all servers of a process share one [`Attempts`].
//! - No server listens where other machines can reach it unless clients must log in, over TLS (`check_address`).

mod attempts;
mod basic_auth;
mod cancellation;
mod directory;
mod guess_rate;
mod listener;
mod log_ins;
mod open_connections;
mod password_login;
mod passwords;
mod refusals;
mod scram;
mod stopping;
mod tls;
mod write_timeout;

pub use attempts::Attempts;
pub use basic_auth::credentials;
pub use cancellation::{gone, watched};
pub use directory::{Directory, LogIn};
pub use listener::Listener;
pub use log_ins::LogIns;
pub use open_connections::{Busy, ConnectionSlot, OpenConnections};
pub use password_login::{LogInAttempt, PasswordLogin, Rejected};
pub use passwords::{Access, Passwords};
pub use refusals::{Minutes, Refusals};
pub use scram::{Decoys, Exchange, MECHANISM, Verifier, random_password};
pub use stopping::{Stopping, reached, stop};
pub use tls::{Tls, check_address};
pub use write_timeout::WriteTimeout;
