//! Plans that have run, as people read them: a tree of operators in plain words, with a few figures in columns.
//!
//! [`Shown::of`] looks at a plan and its metrics, [`Shown::draw`] makes lines of it. What an operator is called is in [`names`], how its
//! expressions are written in [`expressions`], which metrics are shown in [`figures`], where all that stands in [`tree`].
//!
//! Invariants:
//! - It looks at a plan and changes nothing of it; a plan of any operators can be shown.
//! - A figure is a metric as the operator has it, or is absent: none is worked out from others. Rows of a limit are those of all threads.
//! - An operator is left out only if it has one input and does nothing to rows but to move or to rename them.

mod expressions;
mod figures;
mod names;
mod tree;

pub use figures::{Figures, bytes, counted, grouped, millis, told};
pub use tree::{cut, wrapped};

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricsSet;
use std::sync::Arc;

/// An operator that has run, and those below it.
#[derive(Clone, Default, Debug)]
pub struct Shown {
    /// What it does, in a few words.
    pub title: String,
    /// What it has measured.
    pub figures: Figures,
    /// What else is worth a line.
    pub notes: Vec<String>,
    /// Where its rows are from.
    pub inputs: Vec<Shown>,
}

/// What is told of an operator that is known elsewhere.
#[derive(Debug)]
pub struct Described {
    /// What it does.
    pub title: String,
    /// What else is worth a line.
    pub notes: Vec<String>,
    /// Which of its inputs have run.
    pub inputs: Vec<usize>,
}

/// Who knows more operators than there are here: what is told of one with these metrics, if it is known.
pub type Known<'a> = dyn Fn(&dyn ExecutionPlan, &MetricsSet) -> Option<Described> + 'a;

impl Shown {
    /// A plan, when it has run.
    pub fn of(plan: &Arc<dyn ExecutionPlan>, known: &Known<'_>) -> Shown {
        let inputs = plan.children();
        if let [input] = inputs.as_slice()
            && names::only_moves(plan.as_ref(), input.as_ref())
        {
            let mut shown = Shown::of(input, known);
            // Each thread has a limit of its own, below; which rows are left of theirs is told by what brings them together.
            let rows = plan.metrics().filter(|_| plan.fetch().is_some()).and_then(|metrics| metrics.output_rows());
            shown.figures.rows = rows.map(|rows| rows as u64).or(shown.figures.rows);
            return shown;
        }
        let metrics = plan.metrics().unwrap_or_default();
        let figures = Figures::of(&metrics);
        if let Some(Described { title, notes, inputs: ran }) = known(plan.as_ref(), &metrics) {
            let inputs = ran.iter().filter_map(|&at| inputs.get(at)).map(|input| Shown::of(input, known)).collect();
            return Shown { title, figures, notes, inputs };
        }
        Shown {
            title: names::title_of(plan.as_ref(), &metrics),
            figures,
            notes: figures::notes_of(&metrics),
            inputs: inputs.into_iter().map(|input| Shown::of(input, known)).collect(),
        }
    }

    /// Itself and what is below.
    pub fn all(&self) -> Vec<&Shown> {
        let mut all = vec![self];
        let mut at = 0;
        while let Some(shown) = all.get(at).copied() {
            all.extend(&shown.inputs);
            at += 1;
        }
        all
    }
}
