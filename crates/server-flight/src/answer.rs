//! Answers of statements before their rows are sent: what a statement gave, and what is told of it after its rows.

use crate::refinements::RefinedAnswer;
use alluvia_query::Outcome;
use alluvia_types::Result;
use arrow::datatypes::SchemaRef;
use serde_json::{Value, json};

/// An answer before its first row is taken.
pub(crate) struct PendingAnswer {
    pub(crate) source: AnswerSource,
    /// As its rows are sent.
    pub(crate) schema: SchemaRef,
}

/// What an answer is made of.
pub(crate) enum AnswerSource {
    Rows(Outcome),
    Refined(Box<RefinedAnswer>),
}

impl AnswerSource {
    /// What is told beside rows.
    pub(crate) fn outcome(&self) -> &Outcome {
        match self {
            AnswerSource::Rows(outcome) => outcome,
            AnswerSource::Refined(refined) => refined.outcome(),
        }
    }
}

impl PendingAnswer {
    /// Waits until the first of its rows are there.
    pub(crate) async fn ready(&mut self) -> Result<()> {
        match &mut self.source {
            AnswerSource::Rows(outcome) => outcome.ready().await,
            AnswerSource::Refined(_) => Ok(()),
        }
    }
}

/// What a statement gave.
pub(crate) enum StatementResult {
    /// Rows, which are made as they are taken.
    Rows(PendingAnswer),
    /// None: how many rows it changed (-1 where nobody counts), and what is told of it.
    Done(i64, Value),
}

/// What is told of a statement after its rows; the names are HTTP's.
pub(crate) fn ending(outcome: &Outcome) -> Value {
    let used = outcome.used().map(|used| used.to_json());
    json!({ "tag": outcome.tag, "notices": outcome.notices(), "used": used })
}
