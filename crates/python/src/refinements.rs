//! Answers that get better while they are waited for.
//!
//! Invariants:
//! - The engine works while a thread waits for the next refinement, and stops when the object is closed or forgotten, or when Ctrl-C is
//!   pressed. A server works ahead of whoever waits, and is stopped likewise.
//! - Each refinement is a result of its own: it keeps its rows and bounds after the next one has come.

use crate::answer::{Estimate, Refining};
use crate::database::{Closing, Shared};
use crate::errors::OrRaise;
use crate::exclusive::Exclusive;
use crate::progress::Stopwatch;
use crate::rows::Rows;
use crate::waiting::{droppable, look_of};
use alluvia_query::Refinement;
use futures::StreamExt;
use pyo3::prelude::*;
use std::sync::{Arc, Weak};
use tokio::runtime::Handle;

/// Look, looks, kind, confidence, error, fraction, groups unseen, whether it is the last.
type Figures = (u32, u32, &'static str, f64, f64, f64, u64, bool);

/// Of an answer that was never estimated.
const EXACT: Figures = (0, 0, "exact", 1.0, 0.0, 1.0, 0, true);

/// What is left of a statement that is being refined; `None` after its last refinement.
type Left = Option<Refining>;

struct Inner {
    shared: Arc<Shared>,
    runtime: Handle,
    turn: Exclusive<Left>,
}

impl Closing for Inner {
    fn stop(&self) {}

    fn close(&self) {
        // Dropping them stops the statement; who has them out stops when he looks.
        self.turn.close();
    }
}

impl Inner {
    fn next(
        &self,
        py: Python<'_>,
        left: &mut Left,
        look: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Option<(Rows, Figures)>> {
        let mut shown = look_of(&look);
        let mut look = |py: Python<'_>| {
            self.turn.check_open().or_raise(py)?;
            shown(py)
        };
        let (estimate, figures) = match left {
            Some(Refining::Looks(refinements)) => {
                let next = droppable(py, &self.runtime, &mut look, refinements.next())?;
                let Some(refinement) = next.transpose().or_raise(py)? else {
                    *left = None;
                    return Ok(None);
                };
                let figures = figures_of(&refinement);
                if refinement.is_last {
                    // What it used is complete when the stream has ended.
                    droppable(py, &self.runtime, &mut look, refinements.next())?.transpose().or_raise(py)?;
                }
                (Estimate::new(refinement, refinements.outcome()), figures)
            }
            Some(Refining::Remote(refinements)) => {
                let next = droppable(py, &self.runtime, &mut look, refinements.next())?;
                let Some(refinement) = next.transpose().or_raise(py)? else {
                    *left = None;
                    return Ok(None);
                };
                let figures = figures_of_server(&refinement);
                if refinement.is_last {
                    droppable(py, &self.runtime, &mut look, refinements.next())?.transpose().or_raise(py)?;
                }
                (Estimate::of_refinement(refinement.rows, refinement.bounds, refinements.told()), figures)
            }
            _ => {
                let Some(Refining::Rows(answer)) = left.take() else { return Ok(None) };
                let rows = Rows::of(&self.shared, &self.runtime, answer, Stopwatch::begin());
                rows.hold_all(py, &mut look)?;
                return Ok(Some((rows, EXACT)));
            }
        };
        if figures.7 {
            *left = None;
        }
        // Python times refinements itself, from when the first one was asked for.
        Ok(Some((Rows::of_estimate(&self.shared, &self.runtime, estimate, Stopwatch::begin()), figures)))
    }
}

fn kind_of(is_exact: bool) -> &'static str {
    if is_exact { "exact" } else { "planned" }
}

fn figures_of(refinement: &Refinement) -> Figures {
    let Refinement { look, looks, confidence, error, fraction, groups_unseen, is_last, .. } = *refinement;
    (look, looks, kind_of(refinement.is_exact()), confidence, error, fraction, groups_unseen, is_last)
}

fn figures_of_server(refinement: &alluvia_client::Refinement) -> Figures {
    let alluvia_client::Refinement { look, looks, confidence, error, fraction, groups_unseen, is_last, .. } =
        *refinement;
    (look, looks, kind_of(refinement.is_exact), confidence, error, fraction, groups_unseen, is_last)
}

/// Refinements of one statement.
#[pyclass(frozen, module = "alluvia._alluvia")]
pub(crate) struct Refinements {
    inner: Arc<Inner>,
}

impl Refinements {
    /// Those of a statement that has begun.
    pub(crate) fn new(shared: &Arc<Shared>, runtime: &Handle, refining: Refining) -> Refinements {
        let turn = Exclusive::new("iterator of refinements", Some(refining));
        let inner = Arc::new(Inner { shared: Arc::clone(shared), runtime: runtime.clone(), turn });
        let user: Weak<dyn Closing> = Arc::downgrade(&inner) as Weak<dyn Closing>;
        shared.register(user);
        Refinements { inner }
    }
}

#[pymethods]
impl Refinements {
    /// Works until there is a better answer; `None` after the last one. An error or an exception closes.
    #[pyo3(signature = (look=None))]
    fn next(&self, py: Python<'_>, look: Option<Bound<'_, PyAny>>) -> PyResult<Option<(Rows, Figures)>> {
        let _busy = self.inner.shared.enter().or_raise(py)?;
        let mut left = self.inner.turn.take_out().or_raise(py)?;
        let next = self.inner.next(py, &mut left, look);
        match next {
            Ok(_) => self.inner.turn.bring_back(left),
            Err(_) => {
                self.inner.turn.close();
                py.detach(|| drop(left));
            }
        }
        next
    }

    /// Stops the statement.
    fn close(&self, py: Python<'_>) {
        if self.inner.shared.check_process().is_ok() {
            py.detach(|| self.inner.close());
        }
    }
}
