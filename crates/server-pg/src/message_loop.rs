//! The message loop of a connection after its start: messages in turn, until the client ends the connection or is gone.
//!
//! Invariant: after an error in the extended protocol everything is passed over until Sync; each Sync and each simple query is answered by
//! one ReadyForQuery.

use crate::connection::Connection;
use crate::io::is_gone;
use crate::server_options::ServerOptions;
use crate::wire::{Message, Severity};
use alluvia_access::{Stopping, reached};
use alluvia_query::TransactionStatus;
use alluvia_types::{Error, ErrorKind, Result};
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tracing::{Instrument, Span, info_span};

/// What says how long a connection may be idle.
#[derive(Clone, Copy)]
enum Patience {
    /// The session, of its transactions.
    Session,
    /// This setting of the server.
    Server(&'static str),
}

/// The error that ends a connection which was idle for longer than that lets it.
fn idle_for_too_long(patience: Patience) -> Error {
    match patience {
        Patience::Session => Error::new(
            ErrorKind::IdleTransaction,
            "the connection was idle in a transaction for too long",
        )
        .with_hint(
            "what the transaction did is rolled back; idle_in_transaction_session_timeout says how long it may wait",
        ),
        Patience::Server(setting) => Error::new(ErrorKind::Shutdown, "the connection was idle for too long")
            .with_hint(format!("the server ends connections that are idle for {setting}")),
    }
}

fn stopped() -> Error {
    Error::new(ErrorKind::Shutdown, "the server is stopping")
}

impl Connection {
    /// Serves the connection until it ends. An error is one that ends the connection; it is told to the client if that is there, and reads
    /// within `last_wait`.
    pub(crate) async fn serve(mut self, last_wait: Duration) {
        let mut stop = self.shared.stop.clone();
        let cancel = self.session.cancel_handle();
        let served = {
            let messages = self.messages();
            tokio::pin!(messages);
            tokio::select! {
                served = &mut messages => served,
                () = reached(&mut stop, Stopping::All) => {
                    cancel.cancel();
                    // Ends by itself once the statement has: whether it committed is told.
                    timeout(last_wait, messages).await.unwrap_or_else(|_| Err(stopped()))
                }
            }
        };
        if let Err(error) = served
            && !is_gone(&error)
        {
            self.io.out.error(Severity::Fatal, &error);
            let _ = timeout(last_wait, self.io.flush()).await;
        }
    }

    /// The next message, unless the connection was idle for too long or the server stops.
    async fn next(&mut self) -> Result<Message> {
        let limit = self.idle_limit();
        let mut stop = self.shared.stop.clone();
        let too_long = async {
            match limit {
                Some((time, patience)) => {
                    sleep(time).await;
                    idle_for_too_long(patience)
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            message = self.io.next() => message,
            () = reached(&mut stop, Stopping::Idle) => Err(stopped()),
            error = too_long => Err(error),
        }
    }

    /// How long the connection may be idle, and what says so: less where others wait for what it holds. `None` is for ever.
    fn idle_limit(&self) -> Option<(Duration, Patience)> {
        let ServerOptions { idle_timeout, transaction_idle_timeout, .. } = self.shared.options;
        let in_transaction = self.session.in_transaction();
        let holds_something = in_transaction || self.portals.values().any(|portal| portal.begun.is_some());
        let with_something = Patience::Server("transaction_idle_timeout, with an open transaction or portal");
        let limits = [
            (in_transaction, self.session.idle_transaction_timeout(), Patience::Session),
            (true, idle_timeout, Patience::Server("idle_timeout")),
            (holds_something, transaction_idle_timeout, with_something),
        ];
        let holding = limits.into_iter().filter(|(holds, time, _)| *holds && !time.is_zero());
        holding.map(|(_, time, patience)| (time, patience)).min_by_key(|(time, _)| *time)
    }

    async fn messages(&mut self) -> Result<()> {
        self.ready().await?;
        loop {
            match self.next().await? {
                Message::Terminate => return Ok(()),
                Message::Query(sql) => {
                    self.skipping = false;
                    self.simple(&sql).instrument(info_span!(parent: None, "simple query", kind = "server")).await?;
                    self.ready().await?;
                }
                Message::Sync => {
                    self.skipping = false;
                    let span = std::mem::replace(&mut self.pipeline, Span::none());
                    match self.end_implicit().instrument(span).await {
                        Ok(()) => {}
                        Err(error) if is_gone(&error) => return Err(error),
                        Err(error) => self.io.out.error(Severity::Error, &error),
                    }
                    self.ready().await?;
                }
                // What is left of a COPY that failed.
                Message::CopyData(_) | Message::CopyDone | Message::CopyFail(_) => {}
                Message::Password(_) => {
                    return Err(Error::new(ErrorKind::Protocol, "a password comes where none is asked for"));
                }
                Message::FunctionCall => {
                    let error = Error::new(ErrorKind::NotSupported, "function calls by number are not supported");
                    self.io.out.error(Severity::Error, &error.with_hint("write SELECT function(...)"));
                    self.ready().await?;
                }
                Message::Flush if !self.skipping => self.io.flush().await?,
                _ if self.skipping => {}
                message => {
                    if self.pipeline.is_none() {
                        self.pipeline = info_span!(parent: None, "pipeline", kind = "server");
                    }
                    let span = self.pipeline.clone();
                    if let Err(error) = self.extended(message).instrument(span).await {
                        if is_gone(&error) {
                            return Err(error);
                        }
                        self.session.fail_transaction();
                        self.io.out.error(Severity::Error, &error);
                        self.skipping = true;
                    }
                    // A pipeline may be of any length before it is asked for its answers.
                    self.io.flush_if_long().await?;
                }
            }
        }
    }

    /// ReadyForQuery. Portals outlive it only in a transaction.
    pub(crate) async fn ready(&mut self) -> Result<()> {
        let status = match self.session.transaction_status() {
            TransactionStatus::Idle => b'I',
            TransactionStatus::Open => b'T',
            TransactionStatus::Failed => b'E',
        };
        if status == b'I' {
            self.portals.clear();
        }
        self.io.out.ready(status);
        self.io.flush_if_long().await
    }
}
