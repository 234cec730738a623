//! What procedures run on: a session and its transaction.
//!
//! Invariants:
//! - A statement of a procedure is run as a prepared one: with its own snapshot at READ COMMITTED, with rights, locks and the transaction's
//!   own rows; but all of its rows are there before the procedure goes on, and none of them is estimated.
//! - The rows of one statement are held within the session's `memory_limit`, and so are the variables of all procedures that run.

use crate::errors::from_datafusion;
use crate::session::prepared::{Prepared, execute_within};
use crate::session::routines::called;
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use alluvia_procedures::{Answer, Embedded, Host, Kept, Level, Notice, Pending};
use alluvia_syntax::Kind;
use alluvia_syntax::units::show_bytes;
use alluvia_types::{Error, ErrorKind, Result};
use arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use futures::StreamExt;
use parking_lot::Mutex;
use std::sync::Arc;

/// What is told in the place of a statement that has nothing to say of itself.
const NOTHING_SPECIAL: &str = "00000";

/// What a procedure is called by.
#[derive(Clone, Copy)]
pub(super) struct Called<'a> {
    /// Procedures that run around it.
    pub(super) around: usize,
    pub(super) notices: &'a Mutex<Vec<Notice>>,
}

/// The host of one procedure that runs.
pub(super) struct SessionHost<'a> {
    run: &'a Arc<Run>,
    kept: &'a Kept,
    by: Called<'a>,
}

impl<'a> SessionHost<'a> {
    pub(super) fn new(run: &'a Arc<Run>, kept: &'a Kept, by: Called<'a>) -> SessionHost<'a> {
        if by.around == 0 {
            run.held_by_call.begin();
        }
        SessionHost { run, kept, by }
    }

    fn tell(&self, notice: Notice) {
        self.run.held_by_call.tell(&mut self.by.notices.lock(), notice);
    }

    async fn answer(&self, statement: &Embedded, values: &[ScalarValue]) -> Result<Answer> {
        let inner = Arc::new(self.run.within(Arc::clone(&statement.statement.text)));
        if let Kind::CallProcedure(call) = &statement.statement.kind {
            let by = Called { around: self.by.around + 1, notices: self.by.notices };
            let outputs = called(&inner, call, values, by).await?;
            return Ok(outputs.map_or_else(Answer::default, |outputs| Answer {
                row_count: 1,
                rows: vec![outputs.row],
                outputs: outputs.arguments,
            }));
        }
        let prepared = self.kept.prepared(statement, |embedded| Prepared::of(embedded.statement.clone()))?;
        let outcome = execute_within(&inner, prepared, values).await?;
        for message in outcome.notices() {
            let (message, sqlstate) = (message.clone(), NOTHING_SPECIAL.to_owned());
            self.tell(Notice { level: Level::Notice, message, sqlstate, detail: None, hint: None });
        }
        rows_of(outcome, self.run.settings.memory_limit_bytes).await
    }
}

impl Host for SessionHost<'_> {
    fn run<'a>(&'a self, statement: &'a Embedded, values: &'a [ScalarValue]) -> Pending<'a, Answer> {
        Box::pin(self.answer(statement, values))
    }

    fn notice(&self, notice: Notice) {
        match notice.level {
            Level::Debug => {}
            Level::Log => tracing::info!(sqlstate = notice.sqlstate, message = notice.message, "raised by a procedure"),
            _ => self.tell(notice),
        }
    }

    fn check_stop(&self) -> Result<()> {
        self.run.token.check()
    }

    fn calls_around(&self) -> usize {
        self.by.around
    }

    fn hold(&self, bytes: u64) -> Result<()> {
        self.run.held_by_call.hold(bytes, self.run.settings.memory_limit_bytes)
    }

    fn free(&self, bytes: u64) {
        self.run.held_by_call.free(bytes);
    }
}

/// All rows of a statement, if they are not too many to hold.
async fn rows_of(outcome: Outcome, bytes_max: u64) -> Result<Answer> {
    // `INSERT 0 5`: the last word says how many.
    let told = outcome.tag.rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0);
    let Some(mut stream) = outcome.rows else { return Ok(Answer { row_count: told, ..Answer::default() }) };
    let (mut rows, mut bytes, mut row_count) = (Vec::new(), 0u64, 0u64);
    while let Some(batch) = stream.next().await {
        let batch = batch.map_err(from_datafusion)?;
        bytes += batch.get_array_memory_size() as u64;
        row_count += batch.num_rows() as u64;
        if bytes > bytes_max {
            let most = show_bytes(bytes_max);
            let message = format!("a statement of a procedure has given more rows than memory_limit ({most}) holds");
            return Err(Error::new(ErrorKind::OutOfMemory, message)
                .with_hint("a procedure holds all rows of a statement: select fewer, or SET memory_limit higher"));
        }
        rows.push(batch);
    }
    if rows.is_empty() {
        rows.push(RecordBatch::new_empty(stream.schema()));
    }
    Ok(Answer { row_count, rows, outputs: Vec::new() })
}
