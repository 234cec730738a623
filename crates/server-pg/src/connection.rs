//! A connection that has logged in: its session, its prepared statements and portals, and the running of a statement for it.
//!
//! Invariants:
//! - While a statement runs the socket is watched: a client that has gone cancels it.
//! - Portals end with their transaction, and with the savepoint after which they were made once that is rolled back to.

use crate::bounded_map::BoundedMap;
use crate::cancel::Registered;
use crate::io::{Io, gone, stalled};
use crate::portal::{PORTALS, PREPARED, Portal, Prepared, ToRun};
use crate::recent::Recent;
use crate::report::Reporter;
use crate::shared::Shared;
use alluvia_query::{Outcome, Session, TransactionStatus};
use alluvia_syntax::{Command, Statement};
use alluvia_types::{Error, Result};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tracing::Span;

/// A connection that has logged in.
pub(crate) struct Connection {
    pub(crate) io: Io,
    pub(crate) session: Arc<Session>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) reporter: Reporter,
    pub(crate) prepared: BoundedMap<Arc<Prepared>>,
    pub(crate) recent: Recent,
    pub(crate) portals: BoundedMap<Portal>,
    /// An error came in the extended protocol, and Sync did not yet.
    pub(crate) skipping: bool,
    /// A transaction that the client did not begin: statements of one pipeline.
    pub(crate) implicit: bool,
    /// When the time of the last statement is over, by the monotonic clock.
    pub(crate) until: Option<Duration>,
    /// The span of the messages up to the next Sync.
    pub(crate) pipeline: Span,
    /// BEGIN, COMMIT, ROLLBACK.
    pub(crate) brackets: [Statement; 3],
    _registered: Registered,
}

impl Connection {
    /// A connection whose client has logged in.
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
            reporter: Reporter::default(),
            prepared: BoundedMap::new(&PREPARED),
            recent: Recent::default(),
            portals: BoundedMap::new(&PORTALS),
            skipping: false,
            implicit: false,
            until: None,
            pipeline: Span::none(),
            brackets,
            _registered: registered,
        })
    }

    /// Runs a statement while the socket is watched. What the session prepared is forgotten where the statement says so.
    pub(crate) async fn run(&mut self, to_run: ToRun) -> Result<Outcome> {
        self.run_of(to_run, None).await
    }

    /// Runs a text that [`Session::knows`] while the socket is watched.
    pub(crate) async fn run_known(&mut self, text: &str) -> Result<Outcome> {
        self.begin_time();
        let (session, text) = (Arc::clone(&self.session), text.to_owned());
        self.watched(async move { session.sql(&text).await }).await
    }

    fn begin_time(&mut self) {
        self.reporter.begin_progress(&self.session, self.shared.now());
        let time = self.session.statement_timeout();
        self.until = (!time.is_zero()).then(|| self.shared.now().saturating_add(time));
    }

    /// As [`Connection::run`], of a statement that is the only one of a text.
    pub(crate) async fn run_of(&mut self, to_run: ToRun, alone: Option<&str>) -> Result<Outcome> {
        let command = to_run.statement().command();
        let outside = self.session.transaction_status() == TransactionStatus::Idle;
        match &command {
            // As in PostgreSQL, which warns and goes on; some drivers end transactions without looking.
            Command::Commit if outside => {
                self.warn_no_transaction();
                return Ok(Outcome::tagged("COMMIT"));
            }
            Command::Rollback if outside => {
                self.warn_no_transaction();
                return Ok(Outcome::tagged("ROLLBACK"));
            }
            Command::Deallocate(Some(name)) if self.prepared.contains(name) => {
                self.prepared.remove(name);
                return Ok(Outcome::tagged("DEALLOCATE"));
            }
            _ => {}
        }
        if command == Command::Query {
            self.reporter.begins(to_run.statement().sql());
        }
        self.begin_time();
        let session = Arc::clone(&self.session);
        let alone = alone.filter(|_| matches!(command, Command::Query)).map(str::to_owned);
        let outcome = self.watched(async move {
            match (to_run, alone) {
                (ToRun::Whole(statement), Some(text)) => session.execute_alone(&text, *statement).await,
                (ToRun::Whole(statement), None) => session.execute(*statement).await,
                (ToRun::Kept(prepared, values), _) => session.execute_prepared(&prepared, &values).await,
            }
        });
        let outcome = outcome.await?;
        match command {
            Command::Deallocate(None) => self.prepared.clear(),
            Command::Discard => {
                self.prepared.clear();
                self.portals.clear();
                self.reporter.settings(&self.session, &mut self.io.out);
            }
            Command::Set => self.reporter.settings(&self.session, &mut self.io.out),
            Command::RollbackTo => {
                // What was made since the savepoint is gone, as in PostgreSQL; what was made before stays, and goes on.
                let kept = self.session.savepoints();
                self.portals.retain(|portal| portal.savepoints < kept);
                self.reporter.settings(&self.session, &mut self.io.out);
            }
            // RELEASE: what was made since belongs to what is around the savepoint.
            Command::Savepoint => {
                let most = self.session.savepoints();
                self.portals.values_mut().for_each(|portal| portal.savepoints = portal.savepoints.min(most));
            }
            Command::Commit | Command::Rollback => {
                self.portals.clear();
                self.reporter.settings(&self.session, &mut self.io.out);
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
            let due = self.reporter.progress_due(self.shared.now());
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
                    self.reporter.progress(&self.session, self.shared.now(), &mut self.io.out);
                    is_telling = true;
                }
            }
        }
    }

    fn warn_no_transaction(&mut self) {
        self.reporter.warning("25P01", "there is no transaction in progress", &mut self.io.out);
    }

    /// Commits the transaction of a pipeline, or rolls it back if it failed.
    pub(crate) async fn end_implicit(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.implicit) {
            return Ok(());
        }
        let failed = self.session.transaction_status() != TransactionStatus::Open;
        let end = self.brackets[if failed { 2 } else { 1 }].clone();
        let session = Arc::clone(&self.session);
        let ended = self.watched(async move { session.execute(end).await }).await;
        self.portals.clear();
        ended.map(drop)
    }
}
