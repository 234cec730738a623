//! One connection after its start: messages in turn, until the client ends it or is gone.
//!
//! Invariants:
//! - After an error in the extended protocol everything is passed over until Sync; each Sync and each simple query is answered by one
//!   ReadyForQuery.
//! - While a statement runs the socket is watched: a client that has gone cancels it.
//! - Portals end with their transaction, and with the savepoint after which they were made once that is rolled back to.

use crate::cancel::Registered;
use crate::extended::{PORTALS, PREPARED};
use crate::io::{Io, gone, is_gone, stalled};
use crate::kept::Kept;
use crate::portal::{Portal, Prepared};
use crate::report::Reported;
use crate::server::{ServerOptions, Shared};
use crate::wire::{Message, Severity};
use alluvia_access::{Stopping, reached};
use alluvia_query::{Outcome, Session, TransactionStatus};
use alluvia_syntax::{Command, Statement};
use alluvia_types::{Error, ErrorKind, Result};
use std::sync::Arc;
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

/// A connection that has logged in.
pub(crate) struct Connection {
    pub(crate) io: Io,
    pub(crate) session: Arc<Session>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) reported: Reported,
    pub(crate) prepared: Kept<Arc<Prepared>>,
    pub(crate) portals: Kept<Portal>,
    /// An error came in the extended protocol, and Sync did not yet.
    pub(crate) skipping: bool,
    /// A transaction that the client did not begin: statements of one pipeline.
    pub(crate) implicit: bool,
    /// When the time of the last statement is over, by the monotonic clock.
    pub(crate) until: Option<Duration>,
    /// The span of the messages up to the next Sync.
    pipeline: Span,
    /// BEGIN, COMMIT, ROLLBACK.
    pub(crate) brackets: [Statement; 3],
    _registered: Registered,
}

fn stopped() -> Error {
    Error::new(ErrorKind::Shutdown, "the server is stopping")
}

impl Connection {
    pub(crate) fn new(
        io: Io,
        session: Arc<Session>,
        shared: Arc<Shared>,
        registered: Registered,
    ) -> Result<Connection> {
        let parse = |sql: &str| Ok::<_, Error>(session.parse(sql)?.remove(0));
        let brackets = [parse("BEGIN")?, parse("COMMIT")?, parse("ROLLBACK")?];
        Ok(Connection {
            io,
            session,
            shared,
            reported: Reported::default(),
            prepared: Kept::new(&PREPARED),
            portals: Kept::new(&PORTALS),
            skipping: false,
            implicit: false,
            until: None,
            pipeline: Span::none(),
            brackets,
            _registered: registered,
        })
    }

    /// Serves it until it ends. An error is one that ends the connection; it is told to the client if that is there, and reads
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

    /// Runs a statement while the socket is watched. What the session prepared is forgotten where the statement says so.
    pub(crate) async fn run(&mut self, statement: Statement) -> Result<Outcome> {
        self.run_of(statement, None).await
    }

    /// Runs a text that [`Session::knows`] while the socket is watched.
    pub(crate) async fn run_known(&mut self, text: &str) -> Result<Outcome> {
        self.begin_time();
        let (session, text) = (Arc::clone(&self.session), text.to_owned());
        self.watched(async move { session.sql(&text).await }).await
    }

    fn begin_time(&mut self) {
        self.tell_progress_from_now();
        let time = self.session.statement_timeout();
        self.until = (!time.is_zero()).then(|| self.shared.now().saturating_add(time));
    }

    /// As [`Connection::run`], of a statement that is the only one of a text.
    pub(crate) async fn run_of(&mut self, statement: Statement, alone: Option<&str>) -> Result<Outcome> {
        let command = statement.command();
        let outside = self.session.transaction_status() == TransactionStatus::Idle;
        match &command {
            // As in PostgreSQL, which warns and goes on; some drivers end transactions without looking.
            Command::Commit if outside => {
                self.warn("25P01", "there is no transaction in progress");
                return Ok(Outcome::tagged("COMMIT"));
            }
            Command::Rollback if outside => {
                self.warn("25P01", "there is no transaction in progress");
                return Ok(Outcome::tagged("ROLLBACK"));
            }
            Command::Deallocate(Some(name)) if self.prepared.contains(name) => {
                self.prepared.remove(name);
                return Ok(Outcome::tagged("DEALLOCATE"));
            }
            _ => {}
        }
        self.begin_time();
        let session = Arc::clone(&self.session);
        let alone = alone.filter(|_| matches!(command, Command::Query)).map(str::to_owned);
        let outcome = self.watched(async move {
            match alone {
                Some(text) => session.execute_alone(&text, statement).await,
                None => session.execute(statement).await,
            }
        });
        let outcome = outcome.await?;
        match command {
            Command::Deallocate(None) => self.prepared.clear(),
            Command::Discard => {
                self.prepared.clear();
                self.portals.clear();
                self.report_settings();
            }
            Command::Set => self.report_settings(),
            Command::RollbackTo => {
                // What was made since the savepoint is gone, as in PostgreSQL; what was made before stays, and goes on.
                let kept = self.session.savepoints();
                self.portals.retain(|portal| portal.savepoints < kept);
                self.report_settings();
            }
            // RELEASE: what was made since belongs to what is around the savepoint.
            Command::Savepoint => {
                let most = self.session.savepoints();
                self.portals.values_mut().for_each(|portal| portal.savepoints = portal.savepoints.min(most));
            }
            Command::Commit | Command::Rollback => {
                self.portals.clear();
                self.report_settings();
            }
            _ => {}
        }
        Ok(outcome)
    }

    /// Sends rows if they are many, as long as their statement has time: a client that takes nothing does not keep it. What is cut
    /// by that ends the connection.
    pub(crate) async fn send_if_long(&mut self, until: Option<Duration>) -> Result<()> {
        let Some(until) = until.filter(|_| self.io.is_long()) else { return self.io.flush_if_long().await };
        let left = until.saturating_sub(self.shared.now());
        timeout(left, self.io.flush()).await.unwrap_or_else(|_| Err(stalled()))
    }

    /// Waits for work of the session, and tells how far it is if the client wants that; if the client goes meanwhile, the work is
    /// cancelled and its end waited for.
    pub(crate) async fn watched<T>(&mut self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::pin!(work);
        let mut is_telling = false;
        loop {
            let due = self.progress_due();
            let client_goes = async {
                match is_telling {
                    true => self.io.attended().await,
                    false => self.io.closed().await,
                }
            };
            tokio::select! {
                biased;
                result = &mut work => return result,
                () = client_goes => {
                    self.session.cancel_handle().cancel();
                    let _ = work.await;
                    return Err(gone());
                }
                () = due => {
                    self.tell_progress();
                    is_telling = true;
                }
            }
        }
    }
}
