//! Answers of statements from either backend: rows, bounds of what is estimated in them, and what is told beside them.
//!
//! Invariant: bounds are told of estimates alone; an exact answer has none.

use crate::progress::{self, ProgressRow, Stopwatch};
use crate::waiting::droppable;
use alluvia_query::{Bounds, Outcome, Refinement, Used};
use arrow::array::RecordBatch;
use parking_lot::Mutex;
use pyo3::{PyResult, Python};
use std::sync::Arc;
use tokio::runtime::Handle;

/// Version, lag in seconds, stage, and the counts of [`alluvia_query::Used`] in its order.
pub(crate) type UsedRow = (u64, f64, String, u64, u64, u64, u64, u64, u64, u64);

/// What a statement gave.
pub(crate) enum Answer {
    /// Rows, which are read as they come.
    Rows(Outcome),
    /// Rows that may be estimates, all of them.
    Estimate(Box<Estimate>),
    /// Rows of a server's, which are read as they come.
    Remote(alluvia_client::Answer, Arc<alluvia_client::Session>),
}

/// What a statement that was asked to be refined has become.
pub(crate) enum Refining {
    Looks(alluvia_query::Refinements),
    /// A server's.
    Remote(alluvia_client::Refinements),
    /// It is never estimated: its answer is its only refinement.
    Rows(Answer),
}

/// An answer, or an estimate of it, with what its statement told by then.
pub(crate) struct Estimate {
    pub(crate) rows: RecordBatch,
    /// Of each column; empty of an exact answer.
    pub(crate) bounds: Vec<Option<Bounds>>,
    pub(crate) tag: String,
    pub(crate) notices: Vec<String>,
    pub(crate) used: Option<UsedRow>,
}

impl Estimate {
    /// A refinement of a statement of this process.
    pub(crate) fn new(refinement: Refinement, told: &Outcome) -> Estimate {
        let is_exact = refinement.is_exact();
        Estimate {
            rows: refinement.rows,
            bounds: if is_exact { Vec::new() } else { refinement.bounds },
            tag: told.tag.clone(),
            notices: told.notices().to_vec(),
            used: told.used().map(used_row),
        }
    }

    /// A refinement of a server's statement.
    pub(crate) fn of_refinement(
        rows: RecordBatch,
        bounds: Vec<Option<alluvia_client::Bounds>>,
        told: alluvia_client::StatementStatus,
    ) -> Estimate {
        Estimate::of_server(alluvia_client::Estimate { rows, bounds, told })
    }

    /// What a server has estimated.
    pub(crate) fn of_server(estimate: alluvia_client::Estimate) -> Estimate {
        let alluvia_client::Estimate { rows, bounds, told } = estimate;
        let bounds = bounds
            .into_iter()
            .map(|bounds| bounds.map(|alluvia_client::Bounds { lower, upper }| Bounds { lower, upper }));
        let used = told.used.as_ref().map(used_row_of_server);
        Estimate { rows, bounds: bounds.collect(), tag: told.tag, notices: told.notices, used }
    }
}

/// What a statement tells beside its rows.
pub(crate) enum OutcomeState {
    /// It may tell more.
    Still(Mutex<Outcome>),
    /// By then.
    Then { tag: String, notices: Vec<String>, used: Option<UsedRow> },
    /// A server tells it, the counts at the end.
    Remote { told: Arc<Mutex<alluvia_client::StatementStatus>>, session: Arc<alluvia_client::Session> },
}

impl OutcomeState {
    pub(crate) fn tag(&self) -> String {
        match self {
            OutcomeState::Still(outcome) => outcome.lock().tag.clone(),
            OutcomeState::Then { tag, .. } => tag.clone(),
            OutcomeState::Remote { told, .. } => told.lock().tag.clone(),
        }
    }

    pub(crate) fn notices(&self) -> Vec<String> {
        match self {
            OutcomeState::Still(outcome) => outcome.lock().notices().to_vec(),
            OutcomeState::Then { notices, .. } => notices.clone(),
            OutcomeState::Remote { told, .. } => told.lock().notices.clone(),
        }
    }

    pub(crate) fn used(&self) -> Option<UsedRow> {
        match self {
            OutcomeState::Still(outcome) => outcome.lock().used().map(used_row),
            OutcomeState::Then { used, .. } => used.clone(),
            OutcomeState::Remote { told, .. } => told.lock().used.as_ref().map(used_row_of_server),
        }
    }

    /// How far the statement is. A server is asked, which tells of the statement that its session has begun last: whether that is this
    /// one, `is_latest` says. One that does not answer is no news.
    pub(crate) fn progress(
        &self,
        py: Python<'_>,
        runtime: &Handle,
        time: &Stopwatch,
        is_latest: bool,
    ) -> PyResult<ProgressRow> {
        if let Some(ended) = time.ended() {
            return Ok(progress::of_end(ended, self.read()));
        }
        match self {
            OutcomeState::Still(outcome) => Ok(progress::of_report(&outcome.lock().report(time.elapsed()))),
            OutcomeState::Remote { session, .. } if is_latest => {
                let state = droppable(py, runtime, &mut |_| Ok(()), session.state())?;
                // The server may have ended it, and its last rows be on their way.
                let running = state.ok().filter(progress::is_running);
                Ok(running.map_or_else(|| progress::of_time(time.elapsed()), |state| progress::of_state(&state)))
            }
            OutcomeState::Then { .. } | OutcomeState::Remote { .. } => Ok(progress::of_time(time.elapsed())),
        }
    }

    /// What it has read, where that is known.
    fn read(&self) -> progress::Read {
        if let OutcomeState::Remote { told, .. } = self
            && !told.lock().is_complete
        {
            return None;
        }
        self.used().map(|used| (used.7, used.9))
    }
}

fn used_row(used: Used) -> UsedRow {
    (
        used.version.0,
        used.lag.as_secs_f64(),
        used.stage.to_string(),
        used.segments,
        used.segments_skipped,
        used.blocks_read,
        used.blocks_skipped,
        used.rows_read,
        used.tail_rows,
        used.bytes_read,
    )
}

fn used_row_of_server(used: &alluvia_client::Used) -> UsedRow {
    (
        used.version,
        used.lag.as_secs_f64(),
        used.stage.clone(),
        used.segments_read,
        used.segments_skipped,
        used.blocks_read,
        used.blocks_skipped,
        used.rows_read,
        used.tail_rows,
        used.bytes_read,
    )
}
