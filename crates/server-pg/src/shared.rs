//! The state that all connections of a server share: options, the maker of sessions, cancel keys, log-ins under way, and the signal to stop.

use crate::cancel::Cancels;
use crate::pending_logins::PendingLogins;
use crate::server_options::ServerOptions;
use alluvia_access::{Decoys, Stopping};
use alluvia_query::Session;
use alluvia_types::{Clock, Result, SystemClock};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::watch;

/// Connections that may be logging in at once.
const PENDING_LOGINS_MAX: usize = 256;

/// The state that all connections share.
pub(crate) struct Shared {
    pub(crate) options: ServerOptions,
    pub(crate) sessions: Box<dyn Fn() -> Session + Send + Sync>,
    pub(crate) cancels: Arc<Cancels>,
    pub(crate) decoys: Decoys,
    clock: SystemClock,
    pub(crate) stop: watch::Receiver<Stopping>,
    logged_in: AtomicUsize,
    pub(crate) pending_logins: PendingLogins,
}

impl Shared {
    /// Without connections yet.
    pub(crate) fn new(
        options: ServerOptions,
        sessions: impl Fn() -> Session + Send + Sync + 'static,
        stop: watch::Receiver<Stopping>,
    ) -> Result<Shared> {
        Ok(Shared {
            options,
            sessions: Box::new(sessions),
            cancels: Arc::default(),
            decoys: Decoys::new()?,
            clock: SystemClock::default(),
            stop,
            logged_in: AtomicUsize::new(0),
            pending_logins: PendingLogins::new(PENDING_LOGINS_MAX),
        })
    }

    /// Time since some moment, for what is counted by time.
    pub(crate) fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    /// Counts a connection that logs in; `None` if there are enough.
    pub(crate) fn log_in(self: &Arc<Shared>) -> Option<LoggedIn> {
        let count = self.logged_in.fetch_add(1, Ordering::SeqCst);
        let counted = LoggedIn(Arc::clone(self));
        (count < self.options.connections_max).then_some(counted)
    }
}

/// A connection counted among those that are logged in, until this is dropped.
pub(crate) struct LoggedIn(Arc<Shared>);

impl Drop for LoggedIn {
    fn drop(&mut self) {
        self.0.logged_in.fetch_sub(1, Ordering::SeqCst);
    }
}
