//! HTTP statuses: the status of each kind of error, and the statuses that each route can answer with.
//!
//! Invariants:
//! - [`status_of`] is the only mapping from kinds to statuses, and [`Refusal`] has all others: no handler makes up one of its own.
//! - docs/OPERATIONS.md has the same table, and docs/openapi.yaml lists for each route what [`statuses_of`] gives for it; tests compare.

use alluvia_types::ErrorKind;
use axum::http::StatusCode;
use std::collections::BTreeSet;

/// The HTTP status of an error of this kind.
pub(crate) fn status_of(kind: ErrorKind) -> StatusCode {
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
        | Transaction
        | FailedTransaction
        | ReadOnlyTransaction
        | ActiveTransaction
        | UndefinedSavepoint
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
        | WrongObject => StatusCode::BAD_REQUEST,
        Authentication => StatusCode::UNAUTHORIZED,
        Forbidden => StatusCode::FORBIDDEN,
        UndefinedTable | UndefinedSchema | UndefinedObject | UndefinedDatabase | UndefinedStatement
        | UndefinedCursor => StatusCode::NOT_FOUND,
        DuplicateTable | DuplicateSchema | DuplicateStatement | DuplicateCursor | DuplicateObject
        | DependentObjects | Conflict | Deadlock | LockNotAvailable | UniqueViolation | Producer | SequenceUnused
        | ObjectState => StatusCode::CONFLICT,
        TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Inaccurate => StatusCode::UNPROCESSABLE_ENTITY,
        // What nginx says of a client that does not wait for its answer.
        Cancelled => StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST),
        Timeout => StatusCode::GATEWAY_TIMEOUT,
        NotSupported => StatusCode::NOT_IMPLEMENTED,
        OutOfMemory | DiskFull => StatusCode::INSUFFICIENT_STORAGE,
        Busy | Locked | Poisoned | Shutdown | IdleTransaction => StatusCode::SERVICE_UNAVAILABLE,
        Io | Corrupt | IncompatibleFormat | Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// A request that is refused with a status which says more than its error's kind does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// It comes from a page of another origin, or asks for a name that is not this machine's.
    Origin,
    /// The path is not asked with this method.
    Method,
    /// No answer is made in a format that the client takes.
    Accept,
    /// Nothing more of the body came.
    Stalled,
    /// The body is in a format, or packed in a way, that is not read.
    MediaType,
    /// Its address has sent too many wrong passwords.
    Guessing,
    /// Its head is too long.
    Head,
    /// An answer over its version of HTTP could be cut without being seen to be.
    Version,
}

impl Refusal {
    /// Every one, in the order of their declaration.
    pub(crate) const ALL: [Refusal; 8] = [
        Refusal::Origin,
        Refusal::Method,
        Refusal::Accept,
        Refusal::Stalled,
        Refusal::MediaType,
        Refusal::Guessing,
        Refusal::Head,
        Refusal::Version,
    ];

    /// Its status.
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Refusal::Origin => StatusCode::FORBIDDEN,
            Refusal::Method => StatusCode::METHOD_NOT_ALLOWED,
            Refusal::Accept => StatusCode::NOT_ACCEPTABLE,
            Refusal::Stalled => StatusCode::REQUEST_TIMEOUT,
            Refusal::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Refusal::Guessing => StatusCode::TOO_MANY_REQUESTS,
            Refusal::Head => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Refusal::Version => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
        }
    }
}

/// Runs one statement.
pub(crate) const QUERY: &str = "/query";
/// Takes one batch.
pub(crate) const INGEST: &str = "/ingest/{table}";
/// Tells what is counted.
pub(crate) const METRICS: &str = "/metrics";

/// Every status that an error of a route, named as the router names it, can have.
pub fn statuses_of(route: &str) -> BTreeSet<u16> {
    let kinds = ErrorKind::ALL.into_iter().filter(|kind| may_fail(route, *kind)).map(status_of);
    let refusals = Refusal::ALL.into_iter().filter(|refusal| may_refuse(route, *refusal)).map(Refusal::status);
    kinds.chain(refusals).map(|status| status.as_u16()).collect()
}

/// Whether a request of the route can end with an error of this kind.
fn may_fail(route: &str, kind: ErrorKind) -> bool {
    use ErrorKind::*;
    match kind {
        // What cannot be read as HTTP, and what there is no connection for, is answered before it is known what it asks for.
        Protocol | Busy => true,
        // Who asks is looked up, and a log-in is written into the audit log.
        Authentication | Forbidden | Io | DiskFull | Internal => matches!(route, QUERY | INGEST | METRICS),
        // Rows that come in are never estimated.
        Inaccurate => route == QUERY,
        _ => matches!(route, QUERY | INGEST),
    }
}

fn may_refuse(route: &str, refusal: Refusal) -> bool {
    match refusal {
        Refusal::Method | Refusal::Head => true,
        Refusal::Origin | Refusal::Guessing => matches!(route, QUERY | INGEST | METRICS),
        Refusal::Stalled | Refusal::MediaType => matches!(route, QUERY | INGEST),
        Refusal::Accept | Refusal::Version => route == QUERY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCS: &str = include_str!("../../../docs/OPERATIONS.md");

    /// The table of docs/OPERATIONS.md says what the server does, for every kind.
    #[test]
    fn the_documented_statuses_are_the_ones_sent() {
        let row = |status: StatusCode| {
            let row = DOCS.lines().find(|line| line.starts_with(&format!("| {} |", status.as_u16())));
            row.unwrap_or_else(|| panic!("docs/OPERATIONS.md has no row for {status}"))
        };
        for kind in ErrorKind::ALL {
            let documented = row(status_of(kind));
            assert!(documented.contains(kind.sqlstate()), "{kind:?} {}: {documented}", kind.sqlstate());
        }
    }

    #[test]
    fn no_refusal_is_missing_among_all_or_in_the_documents() {
        assert!(Refusal::ALL.iter().enumerate().all(|(place, &refusal)| refusal as usize == place));
        assert_eq!(Refusal::ALL.len(), Refusal::Version as usize + 1, "Version is declared last");
        let about_http = DOCS.split("\n## HTTP\n").nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap();
        for refusal in Refusal::ALL {
            let status = refusal.status().as_u16();
            assert!(about_http.contains(&status.to_string()), "{refusal:?} {status}");
        }
    }
}
