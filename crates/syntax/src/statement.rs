//! A statement: parsed, checked for what is not built, not yet bound to any table.

use crate::copy::options::{CopyOptions, Direction, Format};
use crate::copy::statement::{CopyStatement, CopyWhat, Source, Target};
use crate::parameters;
use crate::result_names::ResultNames;
use crate::statements::alter::AlterTable;
use crate::statements::changes::{Conflict, Delete, Update};
use crate::statements::cuboid_name::CuboidName;
use crate::statements::definitions::CreateTable;
use crate::statements::locking::Locking;
use crate::statements::maintenance::{CreateIndex, DropIndex};
use crate::statements::merge::Merge;
use crate::statements::parse::query_of_table;
use crate::statements::plain_insert::LiteralRows;
use crate::statements::roles::RoleStatement;
use crate::statements::routines::{CallProcedure, DoBlock, RoutineStatement};
use crate::statements::rules::Overriding;
use crate::statements::schemas::SchemaStatement;
use crate::statements::views::{AlterView, CreateView};
use crate::tokens::hints::Hints;
use alluvia_catalog::RelationName;
use alluvia_types::{Error, Result};
use datafusion_common::ScalarValue;
use datafusion_common::format::ExplainStatementOptions;
use sqlparser::ast::{Expr, Ident, Query};
use std::sync::Arc;

/// One parsed statement; run it with `Session::execute`.
#[derive(Clone, Debug)]
pub struct Statement {
    /// The statement as it was written, without the semicolon; secrets are left out.
    pub text: Arc<str>,
    /// What the comments `/*+ ... */` behind SELECT ask for.
    pub hints: Hints,
    /// What the statement does, with its syntax trees.
    pub kind: Kind,
    /// Parameters that have no value yet.
    pub parameters: usize,
    /// Words, literals and signs that its tree was made of; 0 of an INSERT of literals, which has none.
    pub tokens: usize,
    /// Whether it names something of PostgreSQL's catalog, of which lists are written out elsewhere.
    pub names_catalog: bool,
    /// What the columns of its answer are called, where it is not what planning calls them.
    pub names: Option<Arc<ResultNames>>,
}

/// What a token leaves in a tree. Measured: a list of numbers keeps 216 bytes for each number and each comma.
const TOKEN_BYTES: usize = 256;

impl Statement {
    /// The statement as it was written, without the semicolon.
    pub fn sql(&self) -> &str {
        &self.text
    }

    /// What it holds, in bytes, about: its text, its tree by the tokens that it was made of, and the places of literals. Values in the place
    /// of parameters are not counted, nor what planning makes of it.
    pub fn bytes(&self) -> usize {
        let places = match &self.kind {
            Kind::Insert(Insert { source: InsertSource::Literals(rows), .. }) => rows.bytes(),
            _ => 0,
        };
        self.text.len() + TOKEN_BYTES * self.tokens + places
    }

    /// Whether it takes long enough for a progress display: COPY and CREATE TABLE AS.
    pub fn has_progress(&self) -> bool {
        match &self.kind {
            Kind::Copy(_) => true,
            Kind::CreateTable(create) => create.query.is_some(),
            _ => false,
        }
    }

    /// How many parameters ($1, $2, ...) it has: the highest number in it. 0 once they are bound.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// The statement with values in the place of its parameters: value i for parameter $i+1. Text stands for a string literal,
    /// which takes the type of what it meets. The statement itself is left as it is, to be bound again.
    pub fn bind(&self, values: &[ScalarValue]) -> Result<Statement> {
        let mut bound = self.clone();
        if self.parameters > values.len() {
            return Err(parameters::missing(values.len() + 1));
        }
        if self.parameters > 0 {
            parameters::bind(&mut bound.kind, values, self.names_catalog)?;
            bound.parameters = 0;
            // Another statement, with other values than the next: whoever knows statements by their texts tells them apart.
            bound.text = Arc::from(&*self.text);
        }
        Ok(bound)
    }

    /// What sort of statement it is, for whoever must know before it runs.
    pub fn command(&self) -> Command {
        match &self.kind {
            Kind::Query(_) | Kind::Locking(_) | Kind::Fetch { .. } => Command::Query,
            Kind::Explain { .. }
            | Kind::Describe(_)
            | Kind::ShowTables
            | Kind::ShowCreate(_)
            | Kind::Setting(SettingCommand::Show(_) | SettingCommand::ShowAll) => Command::Show,
            // What reads the table that it writes is no part of another's transaction.
            Kind::Insert(Insert { conflict: None, returning: None, .. }) => Command::Insert,
            Kind::Insert(_) | Kind::Update(_) | Kind::Delete(_) | Kind::Truncate(_) | Kind::Merge(_) => Command::Change,
            Kind::Begin(_) => Command::Begin,
            Kind::Commit => Command::Commit,
            Kind::Rollback => Command::Rollback,
            Kind::Savepoint(_) | Kind::Release(_) => Command::Savepoint,
            Kind::RollbackTo(_) => Command::RollbackTo,
            Kind::Setting(_) | Kind::SetConstraints(_) => Command::Set,
            Kind::Discard(Discard::All) => Command::Discard,
            Kind::Deallocate(name) => Command::Deallocate(name.clone()),
            Kind::Copy(copy) => match copy.as_ref() {
                CopyStatement::From { source: Source::Stdin, .. } => Command::CopyIn,
                CopyStatement::To { target: Target::Stdout, .. } => Command::CopyOut,
                _ => Command::Other,
            },
            _ => Command::Other,
        }
    }

    /// COPY FROM STDIN or TO STDOUT as PostgreSQL's clients mean it, which differs in its defaults, and its options. Rows in the
    /// binary format are to be handed in as text.
    pub fn client_copy(&self) -> Result<(Statement, CopyOptions)> {
        let mut statement = self.clone();
        let Kind::Copy(copy) = &mut statement.kind else {
            return Err(Error::internal("a statement that is no COPY was taken for one"));
        };
        let asked = match copy.as_mut() {
            CopyStatement::From { options, streams, .. } => {
                // Each run has its own.
                *streams = Arc::default();
                let asked = options.of_client(Direction::From)?;
                *options = asked.clone();
                if asked.format == Some(Format::Binary) {
                    options.format = Some(Format::Text);
                }
                asked
            }
            CopyStatement::To { options, .. } => {
                let asked = options.of_client(Direction::To)?;
                *options = asked.clone();
                asked
            }
        };
        Ok((statement, asked))
    }

    /// The query whose rows a COPY ... TO writes.
    pub fn copied_query(&self) -> Result<Statement> {
        let Kind::Copy(copy) = &self.kind else {
            return Err(Error::internal("a statement that is no COPY was taken for one"));
        };
        let query = match copy.as_ref() {
            CopyStatement::To { what: CopyWhat::Query(query), .. } => query.clone(),
            CopyStatement::To { what: CopyWhat::Table { name, columns }, .. } => query_of_table(name, columns)?,
            CopyStatement::From { .. } => return Err(Error::internal("a COPY FROM has no query")),
        };
        Ok(Statement { kind: Kind::Query(query), text: Arc::from(&*self.text), ..self.clone() })
    }

    /// Whether it reads rows from standard input: COPY ... FROM STDIN.
    pub fn reads_stdin(&self) -> bool {
        match &self.kind {
            Kind::Copy(copy) => matches!(**copy, CopyStatement::From { source: Source::Stdin, .. }),
            _ => false,
        }
    }
}

/// Sorts of statements that clients treat differently.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// A query: rows, and nothing changes.
    Query,
    /// SHOW, DESCRIBE, EXPLAIN: rows, and nothing changes.
    Show,
    /// INSERT of rows that come beside those that are there.
    Insert,
    /// UPDATE, DELETE, TRUNCATE, MERGE, and INSERT with ON CONFLICT or RETURNING; it gives rows if it has RETURNING.
    Change,
    /// BEGIN.
    Begin,
    /// COMMIT.
    Commit,
    /// ROLLBACK.
    Rollback,
    /// SAVEPOINT or RELEASE.
    Savepoint,
    /// ROLLBACK TO a savepoint, which undoes settings too.
    RollbackTo,
    /// SET or RESET.
    Set,
    /// DISCARD ALL: the session is as new, its prepared statements included.
    Discard,
    /// DEALLOCATE of a prepared statement, which whoever prepared it does; `None` is ALL.
    Deallocate(Option<String>),
    /// COPY FROM STDIN.
    CopyIn,
    /// COPY TO STDOUT.
    CopyOut,
    /// Anything else; it gives no rows, apart from CALL of some procedures.
    Other,
}

/// What a statement does.
#[derive(Clone, Debug)]
pub enum Kind {
    /// SELECT, VALUES, WITH.
    Query(Box<Query>),
    /// SELECT ... FOR UPDATE, FOR SHARE.
    Locking(Box<Locking>),
    /// EXPLAIN of a query.
    Explain {
        /// The query whose plan is shown.
        query: Box<Query>,
        /// ANALYZE, VERBOSE and the format of the plan.
        options: ExplainStatementOptions,
    },
    /// INSERT.
    Insert(Insert),
    /// UPDATE.
    Update(Box<Update>),
    /// DELETE.
    Delete(Box<Delete>),
    /// TRUNCATE.
    Truncate(Vec<Delete>),
    /// MERGE.
    Merge(Box<Merge>),
    /// CREATE TABLE, with or without AS.
    CreateTable(Box<CreateTable>),
    /// DROP TABLE.
    DropTable {
        /// The tables to drop.
        names: Vec<RelationName>,
        /// Whether a table that does not exist is no error.
        if_exists: bool,
        /// CASCADE: whether the views that read them go, too.
        cascade: bool,
    },
    /// ALTER TABLE.
    AlterTable(Box<AlterTable>),
    /// CREATE VIEW.
    CreateView(Box<CreateView>),
    /// DROP VIEW.
    DropView {
        /// The views to drop.
        names: Vec<RelationName>,
        /// Whether a view that does not exist is no error.
        if_exists: bool,
        /// CASCADE: whether the views that read them go, too.
        cascade: bool,
    },
    /// ALTER VIEW.
    AlterView(AlterView),
    /// DESCRIBE of a table, which may be a system table; SHOW COLUMNS.
    Describe(RelationName),
    /// SHOW TABLES.
    ShowTables,
    /// SHOW CREATE TABLE, SHOW CREATE VIEW.
    ShowCreate(RelationName),
    /// SET, SHOW, RESET.
    Setting(SettingCommand),
    /// Roles and grants.
    Role(Box<RoleStatement>),
    /// Schemas.
    Schema(Box<SchemaStatement>),
    /// BEGIN, with what it says of the transaction.
    Begin(Modes),
    /// COMMIT.
    Commit,
    /// ROLLBACK.
    Rollback,
    /// SET CONSTRAINTS.
    SetConstraints(SetConstraints),
    /// SAVEPOINT.
    Savepoint(String),
    /// ROLLBACK TO a savepoint.
    RollbackTo(String),
    /// RELEASE of a savepoint.
    Release(String),
    /// COPY.
    Copy(Box<CopyStatement>),
    /// CALL of one of our procedures.
    Call(Procedure),
    /// CREATE and DROP PROCEDURE.
    Routine(Box<RoutineStatement>),
    /// CALL of a procedure that a user made.
    CallProcedure(Box<CallProcedure>),
    /// DO.
    Do(Box<DoBlock>),
    /// DROP ... IF EXISTS of what is not built, so that there is none of that name.
    DropNone {
        /// The command tag, such as `DROP VIEW`.
        command: &'static str,
        /// What is to be dropped.
        names: Vec<RelationName>,
    },
    /// VACUUM, ANALYZE, CLUSTER, REINDEX, CREATE INDEX.
    Idle(Box<Idle>),
    /// CREATE INDEX on columns.
    CreateIndex(Box<CreateIndex>),
    /// DROP INDEX.
    DropIndex(DropIndex),
    /// COMMENT ON.
    Comment(Comment),
    /// What is so already: UNLISTEN, where nobody listens.
    AsIs {
        /// The command tag, such as `UNLISTEN`.
        command: &'static str,
        /// What the client is told; `None` for nothing.
        notice: Option<String>,
    },
    /// DECLARE of a cursor.
    Declare(Declare),
    /// FETCH from a cursor.
    Fetch {
        /// The cursor.
        name: String,
        /// The number of rows to give.
        count: FetchCount,
    },
    /// CLOSE of a cursor; `None` is ALL.
    CloseCursor(Option<String>),
    /// DISCARD.
    Discard(Discard),
    /// DEALLOCATE; `None` is ALL.
    Deallocate(Option<String>),
    /// Understood, and refused when it is run, so that the rest of its script still runs.
    Refused(Error),
}

/// When constraints are checked, for the rest of a transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetConstraints {
    /// Which; `None` for all.
    pub names: Option<Vec<String>>,
    /// DEFERRED: at COMMIT.
    pub deferred: bool,
}

/// What a session forgets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Discard {
    /// Everything.
    All,
    /// Plans, of which none are kept that could be wrong.
    Plans,
    /// The last values of sequences.
    Sequences,
    /// Its temporary tables.
    Temporary,
}

/// What changes nothing here, if what it names is there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Idle {
    /// The command tag.
    pub command: &'static str,
    /// What it names.
    pub tables: Vec<IdleTable>,
    /// What the client is told.
    pub notice: String,
    /// Whether no transaction may hold it.
    pub is_alone: bool,
}

/// A table that such a statement names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdleTable {
    /// The table.
    pub table: RelationName,
    /// Its columns that are named.
    pub columns: Vec<String>,
}

/// COMMENT ON.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Comment {
    /// What is commented.
    pub on: Commented,
    /// The comment; `None` takes it away.
    pub text: Option<String>,
}

/// What a comment is on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Commented {
    /// A table.
    Table(RelationName),
    /// A view.
    View(RelationName),
    /// A column of a table or a view.
    Column {
        /// The table.
        table: RelationName,
        /// The column.
        column: String,
    },
    /// A schema.
    Schema(String),
    /// The database.
    Database(String),
}

impl Kind {
    /// What a statement that writes is called; `None` for one that a transaction may hold that only reads. As in PostgreSQL, files are
    /// not the database's: COPY TO reads. Sorting and merging, and building what is kept of answers, change no answer.
    pub fn writes(&self) -> Option<&'static str> {
        match self {
            Kind::Locking(locking) => Some(locking.name()),
            Kind::Insert(_) => Some("INSERT"),
            Kind::Update(_) => Some("UPDATE"),
            Kind::Delete(_) => Some("DELETE"),
            Kind::Truncate(_) => Some("TRUNCATE"),
            Kind::Merge(_) => Some("MERGE"),
            Kind::CreateTable(create) if create.query.is_some() => Some("CREATE TABLE AS"),
            Kind::CreateTable(_) => Some("CREATE TABLE"),
            Kind::DropTable { .. } => Some("DROP TABLE"),
            Kind::DropNone { command, .. } => Some(*command),
            Kind::Idle(idle) => Some(idle.command).filter(|command| *command == "CREATE INDEX"),
            Kind::CreateIndex(_) => Some("CREATE INDEX"),
            Kind::DropIndex(_) => Some("DROP INDEX"),
            Kind::Comment(_) => Some("COMMENT"),
            Kind::AlterTable(_) => Some("ALTER TABLE"),
            Kind::CreateView(_) => Some("CREATE VIEW"),
            Kind::DropView { .. } => Some("DROP VIEW"),
            Kind::AlterView(_) => Some("ALTER VIEW"),
            Kind::Role(statement) => Some(statement.command()),
            Kind::Schema(statement) => Some(statement.command()),
            Kind::Routine(statement) => Some(statement.command()),
            Kind::Copy(copy) if copy.is_from() => Some("COPY FROM"),
            Kind::Call(procedure) => match procedure {
                Procedure::PinCuboid(_)
                | Procedure::UnpinCuboid(_)
                | Procedure::DropCuboid(_)
                | Procedure::Purge(_)
                | Procedure::ForgetSegment { .. } => Some("CALL"),
                Procedure::Flush | Procedure::Merge | Procedure::BuildCuboids | Procedure::Cancel(_) => None,
            },
            Kind::Query(_)
            | Kind::Explain { .. }
            // What they run says it by itself.
            | Kind::CallProcedure(_)
            | Kind::Do(_)
            | Kind::Describe(_)
            | Kind::ShowTables
            | Kind::ShowCreate(_)
            | Kind::Setting(_)
            | Kind::Begin(_)
            | Kind::SetConstraints(_)
            | Kind::Commit
            | Kind::Rollback
            | Kind::Savepoint(_)
            | Kind::RollbackTo(_)
            | Kind::Release(_)
            | Kind::Copy(_)
            | Kind::Declare(_)
            | Kind::Fetch { .. }
            | Kind::CloseCursor(_)
            | Kind::Discard(_)
            | Kind::Deallocate(_)
            | Kind::AsIs { .. }
            | Kind::Refused(_) => None,
        }
    }

    /// Whether it is about the session or its transaction alone: what may come before a transaction is told what it is.
    pub fn is_about_session(&self) -> bool {
        matches!(self, Kind::Setting(_) | Kind::Begin(_) | Kind::Savepoint(_) | Kind::RollbackTo(_) | Kind::Release(_))
    }
}

/// INSERT INTO a user table.
#[derive(Clone, Debug)]
pub struct Insert {
    /// The user table.
    pub table: RelationName,
    /// The column list, if one is written.
    pub columns: Option<Vec<Ident>>,
    /// Where the rows come from.
    pub source: InsertSource,
    /// OVERRIDING: what becomes of values for numbered columns.
    pub overriding: Option<Overriding>,
    /// What becomes of rows whose key is there; `None` for what their table says.
    pub conflict: Option<Box<Conflict>>,
    /// `SELECT ... FROM table AS alias`, of the rows as they are then.
    pub returning: Option<Box<Query>>,
}

/// Where INSERT has its rows from.
#[derive(Clone, Debug)]
pub enum InsertSource {
    /// Literals that its text has, which no tree was made of.
    Literals(LiteralRows),
    /// A query; VALUES is one.
    Query(Box<Query>),
}

/// DECLARE name CURSOR [WITH HOLD] FOR query.
#[derive(Clone, Debug)]
pub struct Declare {
    /// The cursor.
    pub name: String,
    /// WITH HOLD: whether the cursor stays open after its transaction.
    pub hold: bool,
    /// The query whose rows are fetched.
    pub query: Box<Query>,
}

/// How many rows a FETCH gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FetchCount {
    /// The next so many.
    Rows(usize),
    /// All that are left.
    All,
}

/// What a SET, SHOW or RESET does.
#[derive(Clone, Debug)]
pub enum SettingCommand {
    /// `SET [LOCAL] name = value`.
    Set {
        /// The setting, in small letters.
        name: String,
        /// The value that is assigned.
        value: SettingValue,
        /// LOCAL: whether the value ends with the transaction.
        local: bool,
    },
    /// SHOW name.
    Show(String),
    /// SHOW ALL.
    ShowAll,
    /// RESET name.
    Reset(String),
    /// RESET ALL.
    ResetAll,
    /// SET TRANSACTION or, of all that follow, SET SESSION CHARACTERISTICS.
    Modes {
        /// What is said.
        modes: Modes,
        /// Whether all transactions that follow are meant, and not the current one.
        of_session: bool,
    },
}

/// What is said of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Modes {
    /// READ ONLY or READ WRITE; `None` if neither is written.
    pub access: Option<Access>,
    /// ISOLATION LEVEL; `None` if none is written.
    pub isolation: Option<Isolation>,
}

/// What a transaction sees of others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum Isolation {
    /// Each statement sees what was committed when it began. READ UNCOMMITTED is this, too.
    #[default]
    ReadCommitted,
    /// All statements see one version, and rows that others have changed since are not changed.
    RepeatableRead,
    /// As if there were no others: what it has read is as it was at COMMIT.
    Serializable,
}

impl Isolation {
    /// As SHOW has it.
    pub fn name(self) -> &'static str {
        match self {
            Isolation::ReadCommitted => "read committed",
            Isolation::RepeatableRead => "repeatable read",
            Isolation::Serializable => "serializable",
        }
    }

    /// As SET takes it.
    pub fn of_name(name: &str) -> Option<Isolation> {
        match name.to_ascii_lowercase().as_str() {
            "read uncommitted" | "read committed" => Some(Isolation::ReadCommitted),
            "repeatable read" => Some(Isolation::RepeatableRead),
            "serializable" => Some(Isolation::Serializable),
            _ => None,
        }
    }
}

/// Whether a transaction writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// READ ONLY: statements that write are refused.
    ReadOnly,
    /// READ WRITE: statements may write.
    ReadWrite,
}

/// A value as SET takes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SettingValue {
    /// A string, a number or a bare word, as text.
    Text(String),
    /// DEFAULT.
    Default,
}

/// What CALL can run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Procedure {
    /// Sort what has arrived.
    Flush,
    /// Merge what has arrived.
    Merge,
    /// Build the cuboids that are wanted.
    BuildCuboids,
    /// Build a cuboid and keep it.
    PinCuboid(CuboidName),
    /// Let a pinned cuboid be evicted again.
    UnpinCuboid(CuboidName),
    /// Forget a cuboid.
    DropCuboid(CuboidName),
    /// End what a session runs.
    Cancel(u64),
    /// Remove from the files what was deleted: of a table, or of all that the user may delete from.
    Purge(Option<RelationName>),
    /// Drop a segment whose rows are lost, or say what would be lost.
    ForgetSegment {
        /// Its table.
        table: RelationName,
        /// Its number.
        segment: u64,
        /// Whether to do it.
        is_told: bool,
    },
}

/// The text of a string literal.
pub fn text_of(expr: &Expr) -> Option<String> {
    use sqlparser::ast::Value;
    let Expr::Value(value) = expr else { return None };
    match &value.value {
        Value::SingleQuotedString(text)
        | Value::EscapedStringLiteral(text)
        | Value::UnicodeStringLiteral(text)
        | Value::NationalStringLiteral(text) => Some(text.clone()),
        Value::DollarQuotedString(text) => Some(text.value.clone()),
        _ => None,
    }
}

/// The text of a literal: a string, a number (with a sign), a word or a boolean.
pub fn literal_text(expr: &Expr) -> Option<String> {
    use sqlparser::ast::{UnaryOperator, Value};
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => Some(text.clone()),
            Value::Boolean(value) => Some(value.to_string()),
            _ => text_of(expr),
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
