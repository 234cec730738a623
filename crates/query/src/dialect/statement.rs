//! A statement: parsed, checked for what is not built, not yet bound to any table.

use crate::copy::{CopyStatement, Source};
use crate::dialect::definitions::{AlterTable, CreateTable};
use crate::dialect::hints::Hints;
use alluvia_types::Error;
use datafusion::common::format::ExplainStatementOptions;
use datafusion::sql::sqlparser::ast::{Expr, Ident, Query};
use std::sync::Arc;

/// One parsed statement; run it with [`Session::execute`](crate::Session::execute).
#[derive(Clone, Debug)]
pub struct Statement {
    pub(crate) text: Arc<str>,
    pub(crate) hints: Hints,
    pub(crate) kind: Kind,
}

impl Statement {
    /// The statement as it was written, without the semicolon.
    pub fn sql(&self) -> &str {
        &self.text
    }

    /// Whether it takes long enough for a progress display: COPY and CREATE TABLE AS.
    pub fn has_progress(&self) -> bool {
        match &self.kind {
            Kind::Copy(_) => true,
            Kind::CreateTable(create) => create.query.is_some(),
            _ => false,
        }
    }

    /// Whether it reads rows from standard input: COPY ... FROM STDIN.
    pub fn reads_stdin(&self) -> bool {
        match &self.kind {
            Kind::Copy(copy) => matches!(**copy, CopyStatement::From { source: Source::Stdin, .. }),
            _ => false,
        }
    }
}

/// What a statement does.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// SELECT, VALUES, WITH.
    Query(Box<Query>),
    /// EXPLAIN of a query.
    Explain { query: Box<Query>, options: ExplainStatementOptions },
    /// INSERT.
    Insert(Insert),
    /// CREATE TABLE, with or without AS.
    CreateTable(Box<CreateTable>),
    /// DROP TABLE.
    DropTable { names: Vec<String>, if_exists: bool },
    /// ALTER TABLE.
    AlterTable(AlterTable),
    /// DESCRIBE of a table, SHOW COLUMNS.
    Describe(TableName),
    /// SHOW TABLES.
    ShowTables,
    /// SHOW CREATE TABLE.
    ShowCreate(String),
    /// SET, SHOW, RESET.
    Setting(SettingCommand),
    /// BEGIN.
    Begin,
    /// COMMIT.
    Commit,
    /// ROLLBACK.
    Rollback,
    /// COPY.
    Copy(Box<CopyStatement>),
    /// CALL alluvia.flush() or alluvia.merge().
    Call(Procedure),
    /// Understood, and refused when it is run, so that the rest of its script still runs.
    Refused(Error),
}

/// A table that may be a system table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TableName {
    /// `public` or `alluvia`.
    pub(crate) schema: String,
    /// The table.
    pub(crate) table: String,
}

/// INSERT INTO a user table.
#[derive(Clone, Debug)]
pub(crate) struct Insert {
    pub(crate) table: String,
    /// The column list, if one is written.
    pub(crate) columns: Option<Vec<Ident>>,
    pub(crate) source: Box<Query>,
}

/// What a SET, SHOW or RESET does.
#[derive(Clone, Debug)]
pub(crate) enum SettingCommand {
    /// SET [LOCAL] name = value.
    Set { name: String, value: SettingValue, local: bool },
    /// SHOW name.
    Show(String),
    /// SHOW ALL.
    ShowAll,
    /// RESET name.
    Reset(String),
    /// RESET ALL.
    ResetAll,
}

/// A value as SET takes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum SettingValue {
    /// A string, a number or a bare word, as text.
    Text(String),
    /// DEFAULT.
    Default,
}

/// What CALL can run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Procedure {
    /// Sort what has arrived.
    Flush,
    /// Merge what has arrived.
    Merge,
    /// Build the cuboids that are wanted.
    BuildCuboids,
}

/// The text of a literal: a string, a number (with a sign), a word or a boolean.
pub(crate) fn literal_text(expr: &Expr) -> Option<String> {
    use datafusion::sql::sqlparser::ast::{UnaryOperator, Value};
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => Some(text.clone()),
            Value::SingleQuotedString(text)
            | Value::EscapedStringLiteral(text)
            | Value::UnicodeStringLiteral(text)
            | Value::NationalStringLiteral(text) => Some(text.clone()),
            Value::DollarQuotedString(text) => Some(text.value.clone()),
            Value::Boolean(value) => Some(value.to_string()),
            _ => None,
        },
        Expr::Identifier(ident) => Some(ident.value.clone()),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match expr.as_ref() {
            Expr::Value(value) => match &value.value {
                Value::Number(text, _) => Some(format!("-{text}")),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}
