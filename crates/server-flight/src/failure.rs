//! Errors as gRPC's statuses: one table of codes.
//!
//! A status carries the error's message, its hint, and under `alluvia-sqlstate` in its metadata the SQLSTATE.

use alluvia_types::{Error, ErrorKind};
use arrow_flight::error::FlightError;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

/// Where a status has its SQLSTATE.
const SQLSTATE: &str = "alluvia-sqlstate";
/// Statuses travel as headers, of which clients take few kilobytes, and every byte may be sent as three.
const MESSAGE_BYTES_MAX: usize = 2_000;

/// The gRPC code of an error of this kind.
pub(crate) fn code_of(kind: ErrorKind) -> Code {
    use ErrorKind::*;
    match kind {
        Syntax
        | UndefinedColumn
        | AmbiguousColumn
        | UndefinedFunction
        | DuplicateColumn
        | InvalidDefinition
        | InvalidRecursion
        | InvalidValue
        | InvalidText
        | InvalidDatetime
        | DatetimeRange
        | UntranslatableCharacter
        | InvalidArgument
        | CannotCoerce
        | InvalidBinary
        | NotGrouped
        | NotNull
        | NoKey
        | DatatypeMismatch
        | InvalidSetting
        | UndefinedParameter
        | Protocol
        | Encoding
        | InvalidSample
        | InvalidSampleSeed
        | InvalidPattern
        | TooManyRows
        | OutOfRange
        | TooLong
        | DivisionByZero
        | ForeignKeyViolation
        | InvalidForeignKey
        | CheckViolation
        | GeneratedAlways
        | SequenceLimit
        | ReservedName
        | RecursiveDefinition
        | Raised
        | NoDataFound
        | SeveralRows
        | AssertFailed
        | CaseNotFound
        | NullNotAllowed
        | TooDeep
        | WrongObject => Code::InvalidArgument,
        Authentication => Code::Unauthenticated,
        Forbidden => Code::PermissionDenied,
        UndefinedTable | UndefinedSchema | UndefinedObject | UndefinedDatabase | UndefinedStatement
        | UndefinedCursor => Code::NotFound,
        DuplicateTable | DuplicateSchema | DuplicateStatement | DuplicateCursor | DuplicateObject | UniqueViolation => {
            Code::AlreadyExists
        }
        Conflict | Deadlock | LockNotAvailable => Code::Aborted,
        Producer | Transaction | FailedTransaction | ReadOnlyTransaction | ActiveTransaction | UndefinedSavepoint
        | DependentObjects | Inaccurate | SequenceUnused | ObjectState => Code::FailedPrecondition,
        Cancelled => Code::Cancelled,
        Timeout => Code::DeadlineExceeded,
        NotSupported => Code::Unimplemented,
        OutOfMemory | DiskFull | TooLarge | Busy => Code::ResourceExhausted,
        Locked | Poisoned | Shutdown | IdleTransaction => Code::Unavailable,
        Corrupt => Code::DataLoss,
        Io | IncompatibleFormat | Internal => Code::Internal,
    }
}

/// An error as it is sent.
pub(crate) fn status(error: &Error) -> Status {
    let mut metadata = MetadataMap::new();
    let sqlstate = MetadataValue::try_from(error.sqlstate());
    metadata.insert(SQLSTATE, sqlstate.unwrap_or(MetadataValue::from_static(error.kind().sqlstate())));
    let mut message = error.to_string();
    if message.len() > MESSAGE_BYTES_MAX {
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
        message.push_str("...");
    }
    Status::with_metadata(code_of(error.kind()), message, metadata)
}

/// The error of a message that does not say what it has to.
pub(crate) fn malformed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Protocol, message)
}

/// What is understood, and refused by name.
pub(crate) fn refused(what: &str, hint: &str) -> Error {
    Error::new(ErrorKind::NotSupported, format!("{what} is not supported over Flight SQL")).with_hint(hint)
}

/// The error of a list of the catalog that could not be made: a defect, since its rows are ours.
pub(crate) fn unmade(error: FlightError) -> Error {
    Error::internal(format!("a list could not be made: {error}"))
}

/// The error that a stream of Flight's messages ended with.
pub(crate) fn of_flight(error: FlightError) -> Error {
    let unreadable = |what: String| {
        Error::new(ErrorKind::InvalidValue, format!("this is no Arrow stream: {what}"))
            .with_hint("is it complete, and is it what Arrow's own writers write?")
    };
    match error {
        FlightError::ExternalError(inner) => match inner.downcast::<Error>() {
            Ok(own) => *own,
            Err(other) => malformed(format!("the stream ended before its end: {other}")),
        },
        FlightError::Tonic(status) => match status.code() {
            Code::OutOfRange | Code::ResourceExhausted => {
                Error::new(ErrorKind::TooLarge, format!("a message is longer than is taken: {}", status.message()))
                    .with_hint("send batches of fewer rows, or raise message_bytes_max")
            }
            Code::Cancelled | Code::Aborted => alluvia_access::gone(),
            Code::DeadlineExceeded => Error::new(ErrorKind::Timeout, status.message()),
            _ => malformed(format!("the stream ended before its end: {}", status.message())),
        },
        FlightError::Arrow(error) => unreadable(error.to_string()),
        FlightError::DecodeError(what) | FlightError::ProtocolError(what) | FlightError::NotYetImplemented(what) => {
            unreadable(what)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the protocol writes its codes.
    fn name_of(code: Code) -> String {
        let mut name = String::new();
        for letter in format!("{code:?}").chars() {
            if letter.is_uppercase() && !name.is_empty() {
                name.push('_');
            }
            name.push(letter.to_ascii_uppercase());
        }
        name
    }

    /// The table of docs/OPERATIONS.md says what the server does, for every kind.
    #[test]
    fn the_documented_codes_are_the_ones_sent() {
        let docs = include_str!("../../../docs/OPERATIONS.md");
        for kind in ErrorKind::ALL {
            let name = name_of(code_of(kind));
            let row = docs.lines().find(|line| line.starts_with(&format!("| {name} |")));
            let row = row.unwrap_or_else(|| panic!("docs/OPERATIONS.md has no row for {name}"));
            assert!(row.contains(kind.sqlstate()), "{kind:?} {}: {row}", kind.sqlstate());
        }
    }

    #[test]
    fn a_status_says_all_that_the_error_does_within_bounds() {
        let error = Error::new(ErrorKind::UndefinedTable, "there is no table 't'").with_hint("create it");
        let sent = status(&error);
        assert_eq!((sent.code(), sent.message()), (Code::NotFound, "there is no table 't'\nhint: create it"));
        assert_eq!(sent.metadata().get(SQLSTATE).unwrap(), "42P01");
        let long = status(&Error::new(ErrorKind::Syntax, "ä".repeat(5_000)));
        assert!(long.message().len() < MESSAGE_BYTES_MAX + 4 && long.message().ends_with("ä..."));
    }
}
