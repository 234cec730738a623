//! Statements and answers of the shell, whichever connection runs and gives them.
//!
//! Invariant: a statement's text is the whole of what was written; secrets are in it, which the parsed one leaves out.

use super::Format;
use super::estimate::{Estimate, bounds_of};
use alluvia_query::{Outcome, Refinement, from_datafusion};
use alluvia_syntax::Command;
use alluvia_syntax::copy::here::CopyHere;
use alluvia_types::Result;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use std::sync::Arc;

/// One statement.
pub struct Statement {
    pub text: String,
    /// `None` of what cannot be parsed here: a server, which may be newer, says what it is.
    pub parsed: Option<alluvia_syntax::Statement>,
    /// Whether the files that it names are this machine's, wherever it runs.
    pub is_here: bool,
}

impl Statement {
    /// As it was written.
    pub fn of(text: String, parsed: Option<alluvia_syntax::Statement>) -> Statement {
        Statement { text, parsed, is_here: false }
    }

    /// What sort of statement it is.
    pub fn command(&self) -> Command {
        self.parsed.as_ref().map_or(Command::Other, alluvia_syntax::Statement::command)
    }

    /// What is done here of it, where the table is at a server: of a COPY with a standard stream, or of files that are this machine's.
    pub fn copy_here(&self) -> Result<Option<CopyHere>> {
        let is_here = self.is_here || matches!(self.command(), Command::CopyIn | Command::CopyOut);
        match self.parsed.as_ref().filter(|_| is_here) {
            Some(parsed) => parsed.copy_here(&self.text),
            None => Ok(None),
        }
    }

    /// Whether it reads rows from standard input.
    pub fn reads_stdin(&self) -> bool {
        self.parsed.as_ref().is_some_and(alluvia_syntax::Statement::reads_stdin)
    }

    /// Whether it is known to write to standard output, where answers are written in this form.
    pub fn writes(&self, format: Format) -> bool {
        format == Format::Table || matches!(self.command(), Command::Query | Command::Show | Command::CopyOut)
    }

    /// Whether it is a COPY, in whatever direction.
    pub fn is_copy(&self) -> bool {
        let begins = |sql: &str| sql.get(..4).is_some_and(|word| word.eq_ignore_ascii_case("copy"));
        self.parsed.as_ref().is_some_and(|parsed| begins(parsed.sql()))
    }
}

/// What a statement gave.
pub struct Answer {
    /// As PostgreSQL's command tag.
    pub tag: String,
    /// `None` of a statement that returns none.
    pub rows: Option<Rows>,
    ending: Box<dyn FnOnce() -> Ending + Send>,
}

/// What a statement has told when its rows have ended.
#[derive(Default)]
pub struct Ending {
    /// Things to know that are not rows.
    pub notices: Vec<String>,
    /// Whether something in its rows is estimated.
    pub is_estimate: bool,
}

/// Rows as they come. Dropping them stops their statement.
pub struct Rows {
    pub schema: SchemaRef,
    pub batches: BoxStream<'static, Result<RecordBatch>>,
}

impl Answer {
    /// Of a statement that has ended.
    pub fn done(tag: String, notices: Vec<String>) -> Answer {
        let ending = Ending { notices, ..Ending::default() };
        Answer { tag, rows: None, ending: Box::new(move || ending) }
    }

    /// What it has told; all of it, once the rows have ended.
    pub fn end(self) -> Ending {
        (self.ending)()
    }

    /// All rows.
    pub async fn collect(self) -> Result<Vec<RecordBatch>> {
        match self.rows {
            Some(rows) => rows.batches.try_collect().await,
            None => Ok(Vec::new()),
        }
    }
}

impl From<Outcome> for Answer {
    fn from(mut outcome: Outcome) -> Answer {
        let rows = outcome.rows.take().map(|rows| Rows {
            schema: rows.schema(),
            batches: rows.map(|batch| batch.map_err(from_datafusion)).boxed(),
        });
        let tag = outcome.tag.clone();
        let ending = move || Ending {
            notices: outcome.notices().to_vec(),
            is_estimate: outcome.used().is_some_and(|used| used.sample.is_some()),
        };
        Answer { tag, rows, ending: Box::new(ending) }
    }
}

impl From<alluvia_client::Answer> for Answer {
    fn from(answer: alluvia_client::Answer) -> Answer {
        let told = answer.told();
        let tag = told.lock().tag.clone();
        let schema = Arc::clone(answer.schema());
        let rows = answer.has_rows().then(|| Rows { schema, batches: answer.into_rows() });
        let ending = move || {
            let told = told.lock();
            Ending {
                notices: told.notices.clone(),
                is_estimate: told.used.as_ref().is_some_and(|used| used.is_estimate),
            }
        };
        Answer { tag, rows, ending: Box::new(ending) }
    }
}

/// What a statement gave to somebody who wants to see how far its values may be off.
pub enum Bounded {
    /// Exact, or not a query.
    Rows(Answer),
    /// All rows, some of whose values are estimates, and what else the statement told.
    Estimate(Estimate, Vec<String>),
}

impl Bounded {
    /// Of this process.
    pub fn of(answer: alluvia_query::Answer) -> Result<Bounded> {
        Ok(match answer {
            alluvia_query::Answer::Refined(refinement, outcome) if !refinement.is_exact() => {
                Bounded::Estimate(Estimate::from(*refinement), outcome.notices().to_vec())
            }
            answer => Bounded::Rows(answer.with_bounds()?.into()),
        })
    }

    /// Of a server.
    pub async fn of_server(answer: alluvia_client::Answer) -> Result<Bounded> {
        if !answer.is_estimate() {
            return Ok(Bounded::Rows(answer.into()));
        }
        let estimate = answer.estimate().await?;
        let notices = estimate.told.notices.clone();
        Ok(Bounded::Estimate(estimate.into(), notices))
    }
}

/// What a statement that was asked to be refined has become.
pub enum Refining {
    /// Estimates that get better until the answer. Dropping them stops their statement.
    Looks(BoxStream<'static, Result<Refinement>>),
    /// It is never estimated: the answer as ever.
    Rows(Answer),
}

impl From<alluvia_query::Refining> for Refining {
    fn from(refining: alluvia_query::Refining) -> Refining {
        match refining {
            alluvia_query::Refining::Looks(refinements) => Refining::Looks(refinements.boxed()),
            alluvia_query::Refining::Rows(outcome) => Refining::Rows(outcome.into()),
        }
    }
}

impl From<alluvia_client::Refining> for Refining {
    fn from(refining: alluvia_client::Refining) -> Refining {
        match refining {
            alluvia_client::Refining::Looks(refinements) => Refining::Looks(refinements.map_ok(of_server).boxed()),
            alluvia_client::Refining::Rows(answer) => Refining::Rows(answer.into()),
        }
    }
}

/// A refinement of a server's, as those of this process are.
fn of_server(told: alluvia_client::Refinement) -> Refinement {
    let bounds = told.bounds.into_iter().map(|bounds| bounds.map(bounds_of));
    Refinement {
        rows: told.rows,
        bounds: bounds.collect(),
        look: told.look,
        looks: told.looks,
        kind: match told.is_exact {
            true => alluvia_query::IntervalKind::Exact,
            false => alluvia_query::IntervalKind::Planned { looks: told.looks },
        },
        confidence: told.confidence,
        error: told.error,
        fraction: told.fraction,
        groups_unseen: told.groups_unseen,
        version: told.version.map(alluvia_types::Version),
        elapsed: told.elapsed,
        is_last: told.is_last,
    }
}
