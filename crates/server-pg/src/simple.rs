//! The simple protocol: a text with any number of statements.
//!
//! Each statement is a batch of its own, but that several of which one is an INSERT are one transaction, as in PostgreSQL: applied
//! together or not at all. Where one of them is anything but a query, INSERT, SHOW or SET (DDL, COPY, BEGIN itself) each stands for itself.

use crate::connection::Connection;
use crate::io::is_gone;
use crate::portal::{Answer, Sent, ToRun};
use crate::wire::Severity;
use alluvia_query::{Outcome, TransactionStatus};
use alluvia_syntax::{Command, Statement};
use alluvia_types::Result;

impl Connection {
    /// Runs all statements of a text. `Err` ends the connection; a statement's own error is told to the client.
    pub(crate) async fn simple(&mut self, sql: &str) -> Result<()> {
        match self.script(sql).await {
            Ok(()) => Ok(()),
            Err(error) if is_gone(&error) => Err(error),
            Err(error) => {
                self.session.fail_transaction();
                self.io.out.error(Severity::Error, &error);
                if self.implicit {
                    self.implicit = false;
                    let rollback = self.brackets[2].clone();
                    self.session.execute(rollback).await?;
                }
                Ok(())
            }
        }
    }

    async fn script(&mut self, sql: &str) -> Result<()> {
        self.end_implicit().await?;
        let text = alone(sql);
        if self.session.knows(text) {
            let outcome = self.run_known(text).await?;
            let tag = self.answer(outcome).await?;
            self.io.out.complete(&tag);
            return Ok(());
        }
        let statements = self.session.parse(sql)?;
        if statements.is_empty() {
            self.io.out.plain(b'I');
            return Ok(());
        }
        if are_one_transaction(&statements) && self.session.transaction_status() == TransactionStatus::Idle {
            let begin = self.brackets[0].clone();
            self.session.execute(begin).await?;
            self.implicit = true;
        }
        let last = statements.len() - 1;
        for (at, statement) in statements.into_iter().enumerate() {
            let tag = self.one(statement, (last == 0).then_some(text)).await?;
            if at == last && self.implicit {
                // Committed before the last statement is said to be done.
                self.implicit = false;
                let commit = self.brackets[1].clone();
                self.run(ToRun::Whole(Box::new(commit))).await?;
            }
            self.io.out.complete(&tag);
            self.io.flush_if_long().await?;
        }
        Ok(())
    }

    /// Runs one statement, which is a text's only one if that is given, and sends its rows; gives its tag.
    async fn one(&mut self, statement: Statement, alone: Option<&str>) -> Result<String> {
        match statement.command() {
            Command::CopyIn => return self.copy_in(statement).await,
            Command::CopyOut => return self.copy_out(statement).await,
            _ => {}
        }
        let outcome = self.run_of(ToRun::Whole(Box::new(statement)), alone).await?;
        self.answer(outcome).await
    }

    /// Sends the rows of an outcome; gives its tag.
    async fn answer(&mut self, outcome: Outcome) -> Result<String> {
        let mut answer = Answer::new(outcome, None, &[], self.until)?;
        if let Some(fields) = answer.fields() {
            self.io.out.row_description(&fields);
        }
        let sent = self.send_rows(&mut answer, 0).await?;
        self.reporter.outcome(&answer.outcome, &mut self.io.out);
        self.reporter.query_ended(&self.session, &mut self.io.out);
        Ok(match sent {
            Sent::All(tag) => tag,
            Sent::Enough => answer.outcome.tag.clone(),
        })
    }
}

/// A text without what may be around its only statement.
fn alone(sql: &str) -> &str {
    let text = sql.trim();
    text.strip_suffix(';').unwrap_or(text).trim_end()
}

/// Whether statements are one transaction.
fn are_one_transaction(statements: &[Statement]) -> bool {
    let commands: Vec<Command> = statements.iter().map(Statement::command).collect();
    let can_be = |command: &Command| matches!(command, Command::Query | Command::Show | Command::Insert | Command::Set);
    commands.len() > 1 && commands.contains(&Command::Insert) && commands.iter().all(can_be)
}
