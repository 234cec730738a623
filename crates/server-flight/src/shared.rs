//! The state that all calls of a server share: options, engine, open connections, tokens, and the signal to stop.

use crate::connection::{Connections, logins};
use crate::server_options::ServerOptions;
use crate::tokens::Tokens;
use alluvia_access::{PasswordLogin, Stopping};
use alluvia_query::Engine;
use alluvia_types::{Clock, Result, SystemClock};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// The state that all calls share.
pub(crate) struct Shared {
    pub(crate) options: ServerOptions,
    pub(crate) engine: Arc<Engine>,
    pub(crate) password_login: PasswordLogin,
    clock: SystemClock,
    pub(crate) stop: watch::Receiver<Stopping>,
    pub(crate) connections: Connections,
    pub(crate) tokens: Tokens,
    /// The server ends when the last task that holds this has: every one that runs a statement does.
    _at_work: mpsc::Sender<()>,
}

impl Shared {
    /// Without connections and tokens yet. The server ends when all copies of `at_work` are dropped.
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
            connections: Connections::default(),
            tokens: Tokens::default(),
            _at_work: at_work,
        })
    }

    /// Time since some moment, for what is counted by time.
    pub(crate) fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    /// Ends what has waited too long.
    pub(crate) fn sweep(&self) {
        let (now, options) = (self.now(), &self.options);
        self.tokens.expire(now, options);
        self.tokens.expire_held(logins(&self.connections), now, options);
        if !options.idle_timeout.is_zero()
            && let Some(before) = now.checked_sub(options.idle_timeout)
        {
            self.connections.close_idle(before);
        }
    }
}
