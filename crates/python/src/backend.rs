//! The backend of a session, in which statements run: a database in this process, or a server.
//!
//! Invariant: what Python sees is the same of both. What one of them cannot do it refuses by name.

use crate::answer::{Answer, Refining};
use crate::database::Shared;
use crate::progress::{self, ProgressRow};
use crate::{embedded, remote};
use alluvia_client::IngestOptions;
use alluvia_copy::progress::CancelHandle;
use alluvia_query::ScalarValue;
use alluvia_space::RowPolicy;
use alluvia_syntax::names::RelationName;
use alluvia_syntax::{Command, Statement};
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::Stream;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::Mutex;

/// Rows that were taken, and the version of their batch if they are one.
pub(crate) type Taken = (u64, Option<u64>);

/// A session's other end.
#[derive(Clone)]
pub(crate) enum Backend {
    Embedded(Arc<alluvia_query::Session>),
    Remote(Arc<alluvia_client::Session>),
}

impl Backend {
    /// Runs a statement, or several without parameters, of which the last one's answer is given.
    pub(crate) async fn run(&self, shared: &Shared, sql: &str, values: &[ScalarValue]) -> Result<Answer> {
        match self {
            Backend::Embedded(session) => embedded::run(session, shared, sql, values).await,
            Backend::Remote(session) => remote::run(session, sql, values).await,
        }
    }

    /// Begins a statement whose answer is wanted as far as it is known.
    pub(crate) async fn refine(&self, shared: &Shared, sql: &str, values: &[ScalarValue]) -> Result<Refining> {
        match self {
            Backend::Embedded(session) => embedded::refine(session, shared, sql, values).await,
            Backend::Remote(session) => remote::refine(session, sql, values).await,
        }
    }

    /// Takes rows into a table. With `created`, one that does not exist is created with columns like these.
    pub(crate) async fn append<S>(
        self,
        table: RelationName,
        created: Option<SchemaRef>,
        policy: RowPolicy,
        rows: S,
    ) -> Result<Taken>
    where
        S: Stream<Item = Result<RecordBatch>> + Send + 'static,
    {
        match self {
            Backend::Embedded(session) => embedded::append(&session, table, created, policy, rows).await,
            Backend::Remote(session) => {
                let options = IngestOptions {
                    schema: table.schema,
                    number: None,
                    on_conflict: policy.on_conflict.map(|on_conflict| on_conflict.name().to_owned()),
                    op: policy.op.map(|op| op.name().to_owned()),
                };
                let taken = session.ingest_with(&table.name, created, &options, rows).await?;
                Ok((taken.rows, taken.version))
            }
        }
    }

    /// `idle`, `open` or `failed`.
    pub(crate) async fn transaction(&self) -> Result<String> {
        match self {
            Backend::Embedded(session) => Ok(embedded::transaction(session).to_owned()),
            Backend::Remote(session) => Ok(session.state().await?.transaction),
        }
    }

    /// The session's time zone, by its name.
    pub(crate) async fn time_zone(&self) -> Result<String> {
        match self {
            Backend::Embedded(session) => Ok(session.time_zone().name().to_owned()),
            Backend::Remote(session) => Ok(session.state().await?.time_zone),
        }
    }

    /// How far the running statement is, or the last one.
    pub(crate) async fn progress(&self) -> Result<ProgressRow> {
        match self {
            Backend::Embedded(session) => Ok(embedded::progress(session)),
            Backend::Remote(session) => Ok(progress::of_state(&session.state().await?)),
        }
    }

    /// Whether its server does not know it any more.
    pub(crate) fn is_lost(&self) -> bool {
        match self {
            Backend::Embedded(_) => false,
            Backend::Remote(session) => session.is_lost(),
        }
    }

    /// What stops its statements.
    pub(crate) fn stopper(&self, runtime: &Handle) -> Stopper {
        match self {
            Backend::Embedded(session) => Stopper::Embedded(session.cancel_handle()),
            Backend::Remote(session) => {
                Stopper::Remote { session: Arc::clone(session), runtime: runtime.clone(), asking: Arc::default() }
            }
        }
    }
}

/// Stops whatever statement a session runs, from whatever thread, without waiting for it.
pub(crate) enum Stopper {
    Embedded(CancelHandle),
    Remote {
        session: Arc<alluvia_client::Session>,
        runtime: Handle,
        /// Held while the server is asked: one question at a time is enough, however often it is asked.
        asking: Arc<Mutex<()>>,
    },
}

impl Stopper {
    pub(crate) fn cancel(&self) {
        match self {
            Stopper::Embedded(handle) => handle.cancel(),
            Stopper::Remote { session, runtime, asking } => {
                let Ok(asked) = Arc::clone(asking).try_lock_owned() else { return };
                let session = Arc::clone(session);
                runtime.spawn(async move {
                    // A server that does not hear it has ended the statement, or is away.
                    let _ = session.cancel().await;
                    drop(asked);
                });
            }
        }
    }

    /// Waits until a server that was asked has heard it: what begins then is not what was to be stopped.
    pub(crate) async fn heard(&self) {
        match self {
            Stopper::Embedded(_) => {}
            Stopper::Remote { asking, .. } => drop(asking.lock().await),
        }
    }
}

/// Whether a statement may have parameters, and may be kept parsed.
pub(crate) fn is_kept(statement: &Statement) -> bool {
    statement.parameters() > 0 || statement.command() == Command::Query
}

/// The error of values for so many statements that take none.
pub(crate) fn superfluous(statements: usize, given: usize) -> Error {
    let what = match statements {
        1 => "the statement has no parameters".to_owned(),
        several => format!("{several} statements take no parameters"),
    };
    Error::new(ErrorKind::Syntax, format!("{what}, and {given} values are given"))
}
