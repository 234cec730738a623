//! The port by which a procedure runs statements: what sessions implement.

use crate::program::Embedded;
use alluvia_types::Result;
use arrow::record_batch::RecordBatch;
use datafusion_common::ScalarValue;
use std::future::Future;
use std::pin::Pin;

/// How deep procedures may call one another: each call stands on the stack of those around it.
pub const CALLS_MAX: usize = 32;

/// What a host is still doing.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Runs what a procedure is made of, in a session and its transaction.
pub trait Host: Send + Sync {
    /// Runs a statement with values: one for each of its parameters. All of it is done when it gives its answer. A CALL is run with
    /// one more procedure [around](Host::calls_around).
    fn run<'a>(&'a self, statement: &'a Embedded, values: &'a [ScalarValue]) -> Pending<'a, Answer>;

    /// Tells the client, unless it does not want to hear of that level.
    fn notice(&self, notice: Notice);

    /// An error if the statement that calls the procedure is cancelled, or has run for too long.
    fn check_stop(&self) -> Result<()>;

    /// How many procedures run around the one that is called.
    fn calls_around(&self) -> usize;

    /// Variables hold so many bytes more from now on; an error if that is more than those of all procedures that run may hold.
    fn hold(&self, bytes: u64) -> Result<()>;

    /// So many of them are free again.
    fn free(&self, bytes: u64);
}

/// What a statement gave.
#[derive(Clone, Default, Debug)]
pub struct Answer {
    /// Rows that it gave, or changed where it gives none.
    pub row_count: u64,
    /// The rows that it gave, by a query or by RETURNING; of a CALL the one of its outputs. Of no rows one empty batch, where they have
    /// columns: a record has its fields from it.
    pub rows: Vec<RecordBatch>,
    /// Of a CALL: for each column, which of the arguments in their written order it belongs to ([`Outputs`](crate::Outputs)).
    pub outputs: Vec<Option<usize>>,
}

/// How grave what is raised is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// DEBUG.
    Debug,
    /// LOG: for the server's log.
    Log,
    /// INFO: the client always hears of it.
    Info,
    /// NOTICE.
    Notice,
    /// WARNING.
    Warning,
    /// EXCEPTION: an error, which no host is told as a notice.
    Exception,
}

impl Level {
    /// As the protocol has it.
    pub fn name(self) -> &'static str {
        match self {
            Level::Debug => "DEBUG",
            Level::Log => "LOG",
            Level::Info => "INFO",
            Level::Notice => "NOTICE",
            Level::Warning => "WARNING",
            Level::Exception => "ERROR",
        }
    }
}

/// What RAISE tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notice {
    /// How grave it is.
    pub level: Level,
    /// The message.
    pub message: String,
    /// Its SQLSTATE.
    pub sqlstate: String,
    /// USING DETAIL.
    pub detail: Option<String>,
    /// USING HINT.
    pub hint: Option<String>,
}
