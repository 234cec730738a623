//! The one error type that users see.
//!
//! A kind says what the caller can do about it; the message names the thing; the hint says what to do. The table
//! [`ErrorKind::sqlstate`] is the only mapping from kinds to PostgreSQL SQLSTATEs. Programmer errors assert instead.

use std::fmt;

/// What `Result` means in every room.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Coarse kinds of failure, by what the caller can do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ErrorKind {
    /// The text is not SQL of our dialect.
    Syntax,
    /// No such table.
    UndefinedTable,
    /// No such column.
    UndefinedColumn,
    /// Several tables have a column of that name.
    AmbiguousColumn,
    /// Columns that are no key, where a key is needed.
    NoKey,
    /// No such function.
    UndefinedFunction,
    /// Something else that was named does not exist.
    UndefinedObject,
    /// No such database: there is one.
    UndefinedDatabase,
    /// No such schema.
    UndefinedSchema,
    /// A schema of that name exists.
    DuplicateSchema,
    /// A name that only the system may give.
    ReservedName,
    /// A table of that name exists.
    DuplicateTable,
    /// A column of that name exists.
    DuplicateColumn,
    /// A table, dimension or option is declared wrongly.
    InvalidDefinition,
    /// A definition that needs itself: a view that reads itself.
    RecursiveDefinition,
    /// What is named is of another kind than the statement is for: DROP TABLE of a view.
    WrongObject,
    /// A query in WITH names itself where it must not.
    InvalidRecursion,
    /// A column is used as it is where rows are grouped by others.
    NotGrouped,
    /// A value, a file or an argument is not what it has to be.
    InvalidValue,
    /// A text is not written as values of its type are.
    InvalidText,
    /// A text is no time or interval.
    InvalidDatetime,
    /// A time, or a field of one, is none that there is.
    DatetimeRange,
    /// An argument of a function that the function does not take.
    InvalidArgument,
    /// A type that has no cast to another.
    CannotCoerce,
    /// An escape in JSON stands for a character that no text holds.
    UntranslatableCharacter,
    /// Bytes are no value of their type in its binary format.
    InvalidBinary,
    /// A text is no regular expression.
    InvalidPattern,
    /// A value, or the result of arithmetic, does not fit its type.
    OutOfRange,
    /// A text has more characters than its column takes.
    TooLong,
    /// Division by zero.
    DivisionByZero,
    /// The percentage of a TABLESAMPLE is not one.
    InvalidSample,
    /// The seed of a TABLESAMPLE is not one.
    InvalidSampleSeed,
    /// A subquery that is used as a value has more than one row.
    TooManyRows,
    /// NULL in a NOT NULL column.
    NotNull,
    /// A row whose key is there.
    UniqueViolation,
    /// A row refers to one that is not there.
    ForeignKeyViolation,
    /// What a foreign key refers to is no key.
    InvalidForeignKey,
    /// A row of which a condition of its table is false.
    CheckViolation,
    /// A value for a column that is always numbered.
    GeneratedAlways,
    /// A sequence has no more values.
    SequenceLimit,
    /// Types do not fit together.
    DatatypeMismatch,
    /// Understood, and refused by name: not built.
    NotSupported,
    /// Unknown setting, or a value it does not take.
    InvalidSetting,
    /// BEGIN inside a transaction, COMMIT outside one.
    Transaction,
    /// A statement in a transaction that has failed.
    FailedTransaction,
    /// A transaction in which nothing came for longer than its session lets it wait.
    IdleTransaction,
    /// What a transaction is can be said only before its first query.
    ActiveTransaction,
    /// A statement that writes in a transaction that only reads.
    ReadOnlyTransaction,
    /// No savepoint of that name in the transaction.
    UndefinedSavepoint,
    /// The statement has a parameter that no value was given for.
    UndefinedParameter,
    /// No prepared statement of that name.
    UndefinedStatement,
    /// A prepared statement of that name exists.
    DuplicateStatement,
    /// No cursor or portal of that name.
    UndefinedCursor,
    /// A cursor or portal of that name exists.
    DuplicateCursor,
    /// Something else of that name exists.
    DuplicateObject,
    /// It cannot go while others depend on it.
    DependentObjects,
    /// Sessions wait for one another's locks.
    Deadlock,
    /// A lock that another session holds, and that was not to be waited for, or not for so long.
    LockNotAvailable,
    /// A batch was refused because what it was checked against has changed; try again.
    Conflict,
    /// The producer's epoch is over, or its sequence skips a number.
    Producer,
    /// A sequence has given the session no value yet.
    SequenceUnused,
    /// What is named is not in a state to do that: a view takes no rows.
    ObjectState,
    /// The user cancelled the statement.
    Cancelled,
    /// `statement_timeout` ran out.
    Timeout,
    /// The statement's or the database's memory is used up.
    OutOfMemory,
    /// A sample does not reach `max_error`, and nothing else was to be tried.
    Inaccurate,
    /// A text, a body or a message is longer than it may be.
    TooLarge,
    /// More work is under way than is allowed.
    Busy,
    /// No room on the disk; the database is read-only until there is.
    DiskFull,
    /// A file could not be read or written.
    Io,
    /// Data on disk is not what was written.
    Corrupt,
    /// Another process has the data directory.
    Locked,
    /// The data directory is of another format version.
    IncompatibleFormat,
    /// An fsync failed: nothing is acknowledged until the database is reopened.
    Poisoned,
    /// The client does not keep to its protocol.
    Protocol,
    /// Wrong name or password.
    Authentication,
    /// The role may not do that.
    Forbidden,
    /// Text from a client is not UTF-8.
    Encoding,
    /// The server is stopping, or ends the connection.
    Shutdown,
    /// An error that a procedure raised; which it is, its own SQLSTATE says.
    Raised,
    /// A query of a procedure that must have a row has none.
    NoDataFound,
    /// A query of a procedure that must have one row has several.
    SeveralRows,
    /// A condition that a procedure asserts is not true.
    AssertFailed,
    /// No branch of a procedure's CASE fits, and it has no ELSE.
    CaseNotFound,
    /// NULL where a procedure must have a value.
    NullNotAllowed,
    /// Procedures call one another deeper than they may.
    TooDeep,
    /// A defect in Alluvia.
    Internal,
}

impl ErrorKind {
    /// Every kind, in the order of their declaration.
    pub const ALL: [ErrorKind; 87] = [
        ErrorKind::Syntax,
        ErrorKind::UndefinedTable,
        ErrorKind::UndefinedColumn,
        ErrorKind::AmbiguousColumn,
        ErrorKind::NoKey,
        ErrorKind::UndefinedFunction,
        ErrorKind::UndefinedObject,
        ErrorKind::UndefinedDatabase,
        ErrorKind::UndefinedSchema,
        ErrorKind::DuplicateSchema,
        ErrorKind::ReservedName,
        ErrorKind::DuplicateTable,
        ErrorKind::DuplicateColumn,
        ErrorKind::InvalidDefinition,
        ErrorKind::RecursiveDefinition,
        ErrorKind::WrongObject,
        ErrorKind::InvalidRecursion,
        ErrorKind::NotGrouped,
        ErrorKind::InvalidValue,
        ErrorKind::InvalidText,
        ErrorKind::InvalidDatetime,
        ErrorKind::DatetimeRange,
        ErrorKind::InvalidArgument,
        ErrorKind::CannotCoerce,
        ErrorKind::UntranslatableCharacter,
        ErrorKind::InvalidBinary,
        ErrorKind::InvalidPattern,
        ErrorKind::OutOfRange,
        ErrorKind::TooLong,
        ErrorKind::DivisionByZero,
        ErrorKind::InvalidSample,
        ErrorKind::InvalidSampleSeed,
        ErrorKind::TooManyRows,
        ErrorKind::NotNull,
        ErrorKind::UniqueViolation,
        ErrorKind::ForeignKeyViolation,
        ErrorKind::InvalidForeignKey,
        ErrorKind::CheckViolation,
        ErrorKind::GeneratedAlways,
        ErrorKind::SequenceLimit,
        ErrorKind::DatatypeMismatch,
        ErrorKind::NotSupported,
        ErrorKind::InvalidSetting,
        ErrorKind::Transaction,
        ErrorKind::FailedTransaction,
        ErrorKind::IdleTransaction,
        ErrorKind::ActiveTransaction,
        ErrorKind::ReadOnlyTransaction,
        ErrorKind::UndefinedSavepoint,
        ErrorKind::UndefinedParameter,
        ErrorKind::UndefinedStatement,
        ErrorKind::DuplicateStatement,
        ErrorKind::UndefinedCursor,
        ErrorKind::DuplicateCursor,
        ErrorKind::DuplicateObject,
        ErrorKind::DependentObjects,
        ErrorKind::Deadlock,
        ErrorKind::LockNotAvailable,
        ErrorKind::Conflict,
        ErrorKind::Producer,
        ErrorKind::SequenceUnused,
        ErrorKind::ObjectState,
        ErrorKind::Cancelled,
        ErrorKind::Timeout,
        ErrorKind::OutOfMemory,
        ErrorKind::Inaccurate,
        ErrorKind::TooLarge,
        ErrorKind::Busy,
        ErrorKind::DiskFull,
        ErrorKind::Io,
        ErrorKind::Corrupt,
        ErrorKind::Locked,
        ErrorKind::IncompatibleFormat,
        ErrorKind::Poisoned,
        ErrorKind::Protocol,
        ErrorKind::Authentication,
        ErrorKind::Forbidden,
        ErrorKind::Encoding,
        ErrorKind::Shutdown,
        ErrorKind::Raised,
        ErrorKind::NoDataFound,
        ErrorKind::SeveralRows,
        ErrorKind::AssertFailed,
        ErrorKind::CaseNotFound,
        ErrorKind::NullNotAllowed,
        ErrorKind::TooDeep,
        ErrorKind::Internal,
    ];

    /// The PostgreSQL SQLSTATE of this kind.
    pub fn sqlstate(self) -> &'static str {
        use ErrorKind::*;
        match self {
            Syntax => "42601",
            UndefinedTable => "42P01",
            UndefinedColumn => "42703",
            AmbiguousColumn => "42702",
            NoKey => "42P10",
            UndefinedFunction => "42883",
            UndefinedObject => "42704",
            UndefinedDatabase => "3D000",
            UndefinedSchema => "3F000",
            DuplicateSchema => "42P06",
            ReservedName => "42939",
            DuplicateTable => "42P07",
            DuplicateColumn => "42701",
            InvalidDefinition => "42P16",
            RecursiveDefinition => "42P17",
            WrongObject => "42809",
            InvalidRecursion => "42P19",
            NotGrouped => "42803",
            InvalidValue => "22000",
            InvalidText => "22P02",
            InvalidDatetime => "22007",
            DatetimeRange => "22008",
            InvalidArgument => "22023",
            CannotCoerce => "42846",
            UntranslatableCharacter => "22P05",
            InvalidBinary => "22P03",
            InvalidPattern => "2201B",
            OutOfRange => "22003",
            TooLong => "22001",
            DivisionByZero => "22012",
            InvalidSample => "2202H",
            InvalidSampleSeed => "2202G",
            TooManyRows => "21000",
            NotNull => "23502",
            UniqueViolation => "23505",
            ForeignKeyViolation => "23503",
            InvalidForeignKey => "42830",
            CheckViolation => "23514",
            GeneratedAlways => "428C9",
            SequenceLimit => "2200H",
            SequenceUnused | ObjectState => "55000",
            DatatypeMismatch => "42804",
            NotSupported => "0A000",
            InvalidSetting => "22023",
            Transaction => "25000",
            FailedTransaction => "25P02",
            IdleTransaction => "25P03",
            ActiveTransaction => "25001",
            ReadOnlyTransaction => "25006",
            UndefinedSavepoint => "3B001",
            UndefinedParameter => "42P02",
            UndefinedStatement => "26000",
            DuplicateStatement => "42P05",
            UndefinedCursor => "34000",
            DuplicateCursor => "42P03",
            DuplicateObject => "42710",
            DependentObjects => "2BP01",
            Deadlock => "40P01",
            LockNotAvailable => "55P03",
            Conflict => "40001",
            Producer => "55000",
            Cancelled | Timeout => "57014",
            OutOfMemory => "53200",
            Inaccurate | TooLarge => "54000",
            Busy => "53300",
            DiskFull => "53100",
            Io => "58030",
            Corrupt => "XX001",
            Locked => "55006",
            IncompatibleFormat => "58P01",
            Poisoned => "58000",
            Protocol => "08P01",
            Authentication => "28P01",
            Forbidden => "42501",
            Encoding => "22021",
            Shutdown => "57P01",
            Raised => "P0001",
            NoDataFound => "P0002",
            SeveralRows => "P0003",
            AssertFailed => "P0004",
            CaseNotFound => "20000",
            NullNotAllowed => "22004",
            TooDeep => "54001",
            Internal => "XX000",
        }
    }
}

/// A failure: kind, message, and perhaps a hint.
#[derive(Clone)]
pub struct Error {
    inner: Box<Inner>,
}

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
    sqlstate: Option<Box<str>>,
    context: Option<String>,
}

/// "Too many open files", of this process and of the system, as Unix numbers them.
const EMFILE: i32 = 24;
const ENFILE: i32 = 23;

impl Error {
    /// A new error. The message names the thing and the place, in one sentence without a full stop.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        let (message, detail, hint) = (message.into(), None, None);
        Error { inner: Box::new(Inner { kind, message, detail, hint, sqlstate: None, context: None }) }
    }

    /// Adds what the user can do.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Error {
        self.inner.hint = Some(hint.into());
        self
    }

    /// Adds what it was about more closely, where that is too long for the message: the objects that depend on another.
    pub fn with_detail(mut self, detail: impl Into<String>) -> Error {
        self.inner.detail = Some(detail.into());
        self
    }

    /// Gives it an SQLSTATE that is not its kind's: the one that a procedure raised. What is no SQLSTATE, five digits and capital
    /// letters, changes nothing.
    pub fn with_sqlstate(mut self, sqlstate: &str) -> Error {
        if sqlstate.len() == 5 && sqlstate.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase()) {
            self.inner.sqlstate = Some(sqlstate.into());
        }
        self
    }

    /// Adds a line on where it happened, behind those of deeper places: the procedure and its line.
    pub fn with_context(mut self, line: impl Into<String>) -> Error {
        let line = line.into();
        self.inner.context = Some(match self.inner.context.take() {
            Some(deeper) => format!("{deeper}\n{line}"),
            None => line,
        });
        self
    }

    /// Puts `place: ` before the message; for adding the file, line or column as the error travels up.
    pub fn at(mut self, place: impl fmt::Display) -> Error {
        self.inner.message = format!("{place}: {}", self.inner.message);
        self
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// Its SQLSTATE: its kind's, unless it has one of its own.
    pub fn sqlstate(&self) -> &str {
        self.inner.sqlstate.as_deref().unwrap_or(self.inner.kind.sqlstate())
    }

    /// Where it happened, a line for each procedure, the deepest first; not part of its text.
    pub fn context(&self) -> Option<&str> {
        self.inner.context.as_deref()
    }

    /// The message without the hint.
    pub fn message(&self) -> &str {
        &self.inner.message
    }

    /// What it was about more closely, if there is something to say.
    pub fn detail(&self) -> Option<&str> {
        self.inner.detail.as_deref()
    }

    /// What the user can do, if there is something to say.
    pub fn hint(&self) -> Option<&str> {
        self.inner.hint.as_deref()
    }

    /// An I/O failure on `path`. "No space left" becomes [`ErrorKind::DiskFull`]; an error of ours that travelled in one arrives as
    /// it was.
    pub fn io(path: impl AsRef<std::path::Path>, doing: &str, error: &std::io::Error) -> Error {
        if let Some(own) = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
            return own.clone();
        }
        let path = path.as_ref().display();
        if matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded) {
            return Error::new(ErrorKind::DiskFull, format!("no space left while {doing} {path}"))
                .with_hint("free space on this disk; writes resume by themselves");
        }
        let failed = Error::new(ErrorKind::Io, format!("{doing} {path} failed: {error}"));
        if matches!(error.raw_os_error(), Some(EMFILE | ENFILE)) {
            return failed.with_hint("allow this process more open files: ulimit -n 65536, or LimitNOFILE of its unit");
        }
        match error.kind() {
            std::io::ErrorKind::PermissionDenied => {
                failed.with_hint("run it as the user who owns this, or give the user who runs it the right to it")
            }
            _ => failed,
        }
    }

    /// A defect in Alluvia; the message says which expectation did not hold.
    pub fn internal(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Internal, message).with_hint("this is a defect in Alluvia; please report it")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.inner.message)?;
        if let Some(detail) = &self.inner.detail {
            write!(f, "\n{detail}")?;
        }
        match &self.inner.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({}): {self}", self.inner.kind, self.sqlstate())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_kind_is_missing_among_all() {
        assert!(ErrorKind::ALL.iter().enumerate().all(|(place, &kind)| kind as usize == place));
        assert_eq!(ErrorKind::ALL.len(), ErrorKind::Internal as usize + 1, "Internal is declared last");
    }

    #[test]
    fn an_error_may_have_an_sqlstate_of_its_own_and_places() {
        let raised = Error::new(ErrorKind::Raised, "no").with_sqlstate("22012");
        assert_eq!((raised.kind(), raised.sqlstate()), (ErrorKind::Raised, "22012"));
        assert_eq!(raised.with_sqlstate("zero").sqlstate(), "22012");
        let placed = Error::new(ErrorKind::Raised, "no").with_context("p line 2").with_context("q line 1");
        assert_eq!((placed.context(), placed.to_string()), (Some("p line 2\nq line 1"), "no".to_owned()));
    }

    #[test]
    fn failures_of_files_say_what_to_do_where_something_can_be_done() {
        let of = |kind: std::io::ErrorKind| Error::io("/data/db/lock", "locking", &kind.into());
        let full = of(std::io::ErrorKind::StorageFull);
        assert_eq!((full.kind(), full.hint().is_some()), (ErrorKind::DiskFull, true));
        let denied = of(std::io::ErrorKind::PermissionDenied);
        assert!(denied.message().starts_with("locking /data/db/lock failed: "), "{denied}");
        assert!(denied.hint().is_some_and(|hint| hint.contains("as the user who owns this")), "{denied}");
        assert_eq!(of(std::io::ErrorKind::UnexpectedEof).hint(), None);
        let many = Error::io("/data/db/seg-1.side", "opening", &std::io::Error::from_raw_os_error(EMFILE));
        assert!(many.hint().is_some_and(|hint| hint.contains("ulimit -n")), "{many}");
    }
}
