//! Failures of calls as errors.
//!
//! A status that the server made has the error's SQLSTATE in its metadata, and message and hint as text; any other status is of the
//! connection, or of something between.

use alluvia_types::{Error, ErrorKind};
use arrow_flight::error::FlightError;
use std::error::Error as _;
use tonic::{Code, Status};

/// Where a status has its SQLSTATE.
const SQLSTATE: &str = "alluvia-sqlstate";
/// What is between a message and its hint.
const HINT: &str = "\nhint: ";

/// The error of a status.
pub(crate) fn of_status(status: &Status) -> Error {
    let state = status.metadata().get(SQLSTATE).and_then(|state| state.to_str().ok());
    let Some(state) = state else { return of_connection(status) };
    let (message, hint) = match status.message().rsplit_once(HINT) {
        Some((message, hint)) => (message, Some(hint)),
        None => (status.message(), None),
    };
    let error = match kind_of(state, status.code()) {
        Some(kind) => Error::new(kind, message),
        // A newer server's.
        None => Error::new(ErrorKind::Internal, format!("{message} (SQLSTATE {state})")),
    };
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

/// The kind that has this SQLSTATE; where several have it, the code tells which.
fn kind_of(state: &str, code: Code) -> Option<ErrorKind> {
    match (state, code) {
        ("57014", Code::DeadlineExceeded) => Some(ErrorKind::Timeout),
        ("54000", Code::ResourceExhausted) => Some(ErrorKind::TooLarge),
        _ => ErrorKind::ALL.into_iter().find(|kind| kind.sqlstate() == state),
    }
}

/// The error of a status that no server of ours made.
fn of_connection(status: &Status) -> Error {
    let mut said = status.message().to_owned();
    let mut cause = status.source();
    while let Some(error) = cause {
        // The connector's own, which says what to do.
        if let Some(own) = own(error) {
            return own;
        }
        let text = error.to_string();
        if !said.contains(&text) {
            said = format!("{said}: {text}");
        }
        cause = error.source();
    }
    match status.code() {
        Code::OutOfRange | Code::ResourceExhausted => {
            Error::new(ErrorKind::TooLarge, format!("a message is longer than is taken: {said}"))
        }
        Code::Unimplemented => {
            Error::new(ErrorKind::NotSupported, format!("the server does not know the call: {said}"))
                .with_hint("is it alluvia serve, and not an older one?")
        }
        _ => lost(&said),
    }
}

/// The connection is no more.
fn lost(said: &str) -> Error {
    Error::new(ErrorKind::Io, format!("the connection to the server failed: {said}"))
        .with_hint("what a statement under way was to change may have been applied, or not")
}

/// No connection came to be.
pub(crate) fn unreachable(place: &str, error: &tonic::transport::Error) -> Error {
    let mut said = String::new();
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(own) = own(error) {
            return own.at(place);
        }
        said = error.to_string();
        cause = error.source();
    }
    Error::new(ErrorKind::Io, format!("there is no connection to {place}: {said}")).with_hint(
        "alluvia serve says where it listens to Flight SQL; with a certificate it speaks TLS alone: grpc+tls://",
    )
}

/// An error of ours among the causes of another.
fn own(error: &(dyn std::error::Error + 'static)) -> Option<Error> {
    if let Some(own) = error.downcast_ref::<Error>() {
        return Some(own.clone());
    }
    // `source()` of an I/O error is that of what it wraps.
    error.downcast_ref::<std::io::Error>()?.get_ref()?.downcast_ref::<Error>().cloned()
}

/// The error of a stream of messages.
pub(crate) fn of_flight(error: &FlightError) -> Error {
    match error {
        FlightError::Tonic(status) => of_status(status),
        other => not_understood(&other.to_string()),
    }
}

/// The server, or what calls itself so, does not keep to the protocol.
pub(crate) fn not_understood(what: &str) -> Error {
    Error::new(ErrorKind::Protocol, format!("the server was not understood: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::metadata::{MetadataMap, MetadataValue};

    fn told(code: Code, message: &str, state: &'static str) -> Error {
        let mut metadata = MetadataMap::new();
        metadata.insert(SQLSTATE, MetadataValue::from_static(state));
        of_status(&Status::with_metadata(code, message, metadata))
    }

    #[test]
    fn the_servers_words_are_the_errors() {
        let error = told(Code::NotFound, "there is no table 't'\nhint: create it", "42P01");
        assert_eq!((error.kind(), error.message()), (ErrorKind::UndefinedTable, "there is no table 't'"));
        assert_eq!(error.hint(), Some("create it"));
        for (code, state, kind) in [
            (Code::Cancelled, "57014", ErrorKind::Cancelled),
            (Code::DeadlineExceeded, "57014", ErrorKind::Timeout),
            (Code::FailedPrecondition, "54000", ErrorKind::Inaccurate),
            (Code::ResourceExhausted, "54000", ErrorKind::TooLarge),
        ] {
            assert_eq!(told(code, "x", state).kind(), kind);
        }
        let newer = told(Code::Internal, "x", "ZZ999");
        assert!(newer.kind() == ErrorKind::Internal && newer.message().contains("ZZ999"));
    }

    #[test]
    fn every_kind_comes_back_as_one_of_its_sqlstate() {
        for kind in ErrorKind::ALL {
            assert_eq!(told(Code::Unknown, "x", kind.sqlstate()).kind().sqlstate(), kind.sqlstate());
        }
    }

    #[test]
    fn other_failures_are_the_connections() {
        for (code, kind) in [
            (Code::Unavailable, ErrorKind::Io),
            (Code::Unknown, ErrorKind::Io),
            (Code::Cancelled, ErrorKind::Io),
            (Code::OutOfRange, ErrorKind::TooLarge),
            (Code::Unimplemented, ErrorKind::NotSupported),
        ] {
            assert_eq!(of_status(&Status::new(code, "gone")).kind(), kind);
        }
    }
}
