//! The door's half for SQL: statements that are run once, prepared, described, refined, verified.

use crate::session::door::Session;
use crate::session::prepared::bounded::{Answer, answer_prepared, answer_statement};
use crate::session::prepared::describe::{Described, describe};
use crate::session::prepared::refined::{Refinements, Refining, refine, refine_statement};
use crate::session::prepared::verify::verify;
use crate::session::prepared::{Prepared, execute_exactly, execute_prepared, prepare};
use crate::session::run::outcome::Outcome;
use crate::session::statement::{by_text, execute, parse};
use alluvia_syntax::copy::streams::Streams;
use alluvia_syntax::{Kind, Statement};
use alluvia_types::Result;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use futures::future::BoxFuture;

impl Session {
    /// All statements of a script. A syntax error anywhere refuses all of it; a statement that is merely not supported
    /// is refused when it is executed. Never panics, however deep the text.
    pub fn parse(&self, sql: &str) -> Result<Vec<Statement>> {
        parse(self.scope(), sql)
    }

    /// Parses and runs exactly one statement. One whose text the index has answered before is not parsed again.
    pub async fn sql(&self, sql: &str) -> Result<Outcome> {
        by_text::sql(&self.runner, sql).await
    }

    /// Whether the index has answered this text before, which is then one query and nothing else: [`Session::sql`] need
    /// not parse it.
    pub fn knows(&self, sql: &str) -> bool {
        self.scope().engine.cached_statements().get(sql).is_some()
    }

    /// Runs the one statement of a text. What the index answers is known by it from then on ([`Session::knows`]).
    pub async fn execute_alone(&self, sql: &str, statement: Statement) -> Result<Outcome> {
        by_text::execute_alone(&self.runner, sql, statement).await
    }

    /// Runs a statement. For a query, returns when its rows begin to come; the rest of the time passes in the stream.
    pub async fn execute(&self, statement: Statement) -> Result<Outcome> {
        execute(&self.runner, statement, None).await.map(|(outcome, _)| outcome)
    }

    /// As [`Session::execute`], with what `STDIN` and `STDOUT` are to the statement. Without, COPY refuses them.
    pub async fn execute_with(&self, mut statement: Statement, streams: Streams) -> Result<Outcome> {
        if let Kind::Copy(copy) = &mut statement.kind {
            copy.hand_in(streams);
        }
        self.execute(statement).await
    }

    /// Parses one statement, which may have parameters `$1, $2, ...` wherever a constant may stand in a query or in the
    /// rows of an INSERT. Run it with [`Session::execute_prepared`]. It may become wrong when definitions change; that
    /// shows when it is run.
    pub fn prepare(&self, sql: &str) -> Result<Prepared> {
        prepare(self.scope(), sql)
    }

    /// Runs a prepared statement with a value for each of its parameters. An aggregate whose shape is resident as a
    /// cuboid takes microseconds from the second time on.
    pub async fn execute_prepared(&self, prepared: &Prepared, values: &[ScalarValue]) -> Result<Outcome> {
        execute_prepared(&self.runner, prepared, values).await
    }

    /// As [`Session::execute_prepared`], without estimates, whatever `max_error` is: for rows that are written
    /// somewhere, as those of COPY.
    pub fn execute_exactly<'a>(
        &'a self,
        prepared: &'a Prepared,
        values: &'a [ScalarValue],
    ) -> BoxFuture<'a, Result<Outcome>> {
        Box::pin(execute_exactly(&self.runner, prepared, values))
    }

    /// As [`Session::execute_prepared`], for somebody who wants the bounds of what is estimated: under `max_error` with
    /// `error_action = 'escalate'` the statement is refined until that holds, which may read more than it does
    /// otherwise.
    pub fn answer_prepared<'a>(
        &'a self,
        prepared: &'a Prepared,
        values: &'a [ScalarValue],
    ) -> BoxFuture<'a, Result<Answer>> {
        Box::pin(answer_prepared(&self.runner, prepared, values))
    }

    /// The same of a statement, whose parameters are bound.
    pub fn answer_statement(&self, statement: Statement) -> BoxFuture<'_, Result<Answer>> {
        Box::pin(answer_statement(&self.runner, statement))
    }

    /// The types of a statement's parameters, and its columns. `known[i]` is what the caller knows of parameter i+1.
    /// Names that do not exist are errors here as they would be on execution; an open transaction stays as it is. It
    /// can be cancelled, and takes no longer than `statement_timeout`, as a statement; a statement whose rows are still
    /// being taken is left alone.
    pub fn describe<'a>(
        &'a self,
        statement: &'a Statement,
        known: &'a [Option<DataType>],
    ) -> BoxFuture<'a, Result<Described>> {
        Box::pin(describe(&self.runner, statement, known))
    }

    /// Runs one statement and gives its answer as far as it is known, better and better, until it is exact, or as near
    /// as the session's `max_error` asks. A statement that is never estimated gives one refinement, its answer, whose
    /// rows are gathered in memory; [`Session::progress`] and [`Session::report`] tell meanwhile how far it is. All
    /// intervals of a statement hold together, so one may stop at whichever, for whatever reason. An example that runs
    /// is in the documentation of `alluvia_node`.
    pub async fn refine(&self, sql: &str) -> Result<Refinements> {
        refine(&self.runner, sql).await
    }

    /// As [`Session::refine`], of a prepared statement with a value for each of its parameters, and with the rows of a
    /// statement that is never estimated as they come.
    pub async fn refine_prepared(&self, prepared: &Prepared, values: &[ScalarValue]) -> Result<Refining> {
        self.refine_statement(prepared.bind(values)?).await
    }

    /// As [`Session::refine`], with the rows of a statement that is never estimated as they come. Statements of any
    /// kind are run.
    pub fn refine_statement(&self, statement: Statement) -> BoxFuture<'_, Result<Refining>> {
        Box::pin(refine_statement(&self.runner, statement))
    }

    /// Asks a statement so many times, each time with rows drawn under another seed, and gives a table of figures: how
    /// often intervals held the exact answer, and how wide they were, beside normal theory's. `max_error`, `confidence`
    /// and `error_action` are the session's.
    pub fn verify<'a>(&'a self, sql: &'a str, trials: u64) -> BoxFuture<'a, Result<Outcome>> {
        Box::pin(verify(&self.runner, sql, trials))
    }
}
