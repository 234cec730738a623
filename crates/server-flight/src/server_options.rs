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
    /// Connections at once, and tokens at once.
    pub connections_max: usize,
    /// What a new connection has to log in.
    pub authentication_timeout: Duration,
    /// What a statement may take, unless its role or client sets another limit; zero is no limit.
    pub statement_timeout: Duration,
    /// A connection without a call for so long is closed; zero never does. Its token stays good.
    pub idle_timeout: Duration,
    /// A transaction of a client that is not used for so long is rolled back; zero never is.
    pub transaction_idle_timeout: Duration,
    /// A token that is not used for so long is no more, with its session, its transactions and prepared statements.
    pub session_timeout: Duration,
    /// A token is no more when it is so old, however much it is used; zero is any age.
    pub token_lifetime: Duration,
    /// A statement that has begun, and whose rows nobody fetches for so long, is ended.
    pub ticket_timeout: Duration,
    /// A client that sends nothing more of its rows, or takes nothing of an answer, for so long is gone.
    pub transfer_timeout: Duration,
    /// The longest message, and the most bytes of parameters.
    pub message_bytes_max: usize,
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
            authentication_timeout: Duration::from_secs(10),
            statement_timeout: Duration::from_secs(3_600),
            idle_timeout: Duration::from_secs(8 * 3_600),
            transaction_idle_timeout: Duration::from_secs(600),
            session_timeout: Duration::from_secs(3_600),
            token_lifetime: Duration::from_secs(24 * 3_600),
            ticket_timeout: Duration::from_secs(60),
            transfer_timeout: Duration::from_secs(60),
            message_bytes_max: 64 << 20,
            stop_wait: Duration::from_secs(10),
        }
    }
}
