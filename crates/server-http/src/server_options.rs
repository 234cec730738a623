//! The options of a server: who may ask, limits, and times.

use alluvia_access::{Access, Attempts, Tls};
use std::sync::Arc;
use std::time::Duration;

/// How a server serves.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Who may ask.
    pub access: Access,
    /// Wrong passwords by address, shared with the process's other servers.
    pub attempts: Arc<Attempts>,
    /// Certificate and key; with them all connections are encrypted, without them none.
    pub tls: Option<Tls>,
    /// Connections at once.
    pub connections_max: usize,
    /// What a statement may take, unless its role or request states another limit; zero is no limit.
    pub statement_timeout: Duration,
    /// What a client has to send the head of a request, and a connection to send the next one.
    pub header_timeout: Duration,
    /// A client that sends nothing more of a body, or takes nothing of an answer, for so long is gone.
    pub transfer_timeout: Duration,
    /// The longest statement.
    pub statement_bytes_max: usize,
    /// The longest body of rows, also unpacked.
    pub body_bytes_max: u64,
    /// Whether clients of this machine read `/metrics` without a password; all others have to be superusers or in `pg_monitor`.
    pub metrics_on_loopback: bool,
    /// What running statements get to finish when the server stops.
    pub stop_wait: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            access: Access::Trust,
            attempts: Arc::default(),
            tls: None,
            connections_max: 200,
            statement_timeout: Duration::from_secs(3_600),
            header_timeout: Duration::from_secs(30),
            transfer_timeout: Duration::from_secs(60),
            statement_bytes_max: 64 << 20,
            body_bytes_max: 1 << 30,
            metrics_on_loopback: false,
            stop_wait: Duration::from_secs(10),
        }
    }
}
