//! The state that all requests of a server share: options, engine, open connections, counts of requests, and the signal to stop.

use crate::request_counts::RequestCounts;
use crate::server_options::ServerOptions;
use alluvia_access::{ConnectionSlot, OpenConnections, PasswordLogin, Stopping};
use alluvia_query::Engine;
use alluvia_types::{Clock, Result, SystemClock};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// The state that all requests share.
pub(crate) struct Shared {
    pub(crate) options: ServerOptions,
    pub(crate) engine: Arc<Engine>,
    pub(crate) password_login: PasswordLogin,
    clock: SystemClock,
    pub(crate) stop: watch::Receiver<Stopping>,
    pub(crate) connections: OpenConnections<Arc<ConnectionSlot>>,
    pub(crate) requests: RequestCounts,
    /// The server ends when the last task that holds this has: every one that runs a statement does.
    _at_work: mpsc::Sender<()>,
}

impl Shared {
    /// Without connections yet. The server ends when all copies of `at_work` are dropped.
    pub(crate) fn new(
        options: ServerOptions,
        engine: Arc<Engine>,
        stop: watch::Receiver<Stopping>,
        at_work: mpsc::Sender<()>,
    ) -> Result<Shared> {
        Ok(Shared {
            options,
            engine,
            password_login: PasswordLogin::new()?,
            clock: SystemClock::default(),
            stop,
            connections: OpenConnections::default(),
            requests: RequestCounts::default(),
            _at_work: at_work,
        })
    }

    /// Time since some moment, for what is counted by time.
    pub(crate) fn now(&self) -> Duration {
        self.clock.monotonic()
    }
}
