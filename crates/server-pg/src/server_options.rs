//! The options of a server: who may connect, limits, and times.

use alluvia_access::{Access, Attempts, Tls};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How a server serves.
#[derive(Clone)]
pub struct ServerOptions {
    /// Who may connect.
    pub access: Access,
    /// Wrong passwords by address, shared with the process's other servers.
    pub attempts: Arc<Attempts>,
    /// Certificate and key; without, connections are in the clear.
    pub tls: Option<Tls>,
    /// Connections that may be logged in at once.
    pub connections_max: usize,
    /// What a client has to log in.
    pub authentication_timeout: Duration,
    /// What a statement may take, unless its role or client sets another limit; zero is no limit.
    pub statement_timeout: Duration,
    /// A connection that sends nothing for so long between statements is ended; zero never does.
    pub idle_timeout: Duration,
    /// Likewise one with an open transaction, or with a statement whose rows were not taken to their end.
    pub transaction_idle_timeout: Duration,
    /// A client that takes nothing of what it is sent for so long is gone.
    pub transfer_timeout: Duration,
    /// The longest message of a client that has logged in.
    pub message_bytes_max: usize,
    /// What running statements get to finish when the server stops.
    pub stop_wait: Duration,
}

impl fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerOptions")
            .field("access", &self.access)
            .field("tls", &self.tls.is_some())
            .field("connections_max", &self.connections_max)
            .finish_non_exhaustive()
    }
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            access: Access::Trust,
            attempts: Arc::default(),
            tls: None,
            connections_max: 200,
            authentication_timeout: Duration::from_secs(10),
            statement_timeout: Duration::from_secs(3_600),
            idle_timeout: Duration::from_secs(8 * 3_600),
            transaction_idle_timeout: Duration::from_secs(600),
            transfer_timeout: Duration::from_secs(60),
            message_bytes_max: 64 << 20,
            stop_wait: Duration::from_secs(10),
        }
    }
}
