//! Errors as clients get them: a status, and `{"error": {"code", "message", "hint", "where"}}`.
//!
//! Invariant: [`status_of`] is the only mapping from kinds to statuses; docs/OPERATIONS.md has the same table, and a test
//! compares them.

use alluvia_types::{Error, ErrorKind};
use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};

/// The HTTP status of an error of this kind.
pub fn status_of(kind: ErrorKind) -> StatusCode {
    use ErrorKind::*;
    match kind {
        Syntax | UndefinedColumn | UndefinedFunction | DuplicateColumn | InvalidDefinition | InvalidValue
        | InvalidText | NotGrouped | NotNull | DatatypeMismatch | InvalidSetting | Transaction | FailedTransaction
        | ReadOnlyTransaction | UndefinedSavepoint | UndefinedParameter | Protocol | Encoding | InvalidSample
        | InvalidSampleSeed | InvalidPattern | TooManyRows | OutOfRange | DivisionByZero => StatusCode::BAD_REQUEST,
        Authentication => StatusCode::UNAUTHORIZED,
        Forbidden => StatusCode::FORBIDDEN,
        UndefinedTable | UndefinedObject | UndefinedDatabase | UndefinedStatement | UndefinedCursor => {
            StatusCode::NOT_FOUND
        }
        DuplicateTable | DuplicateStatement | DuplicateCursor | DuplicateObject | DependentObjects | Conflict
        | Producer => StatusCode::CONFLICT,
        TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Inaccurate => StatusCode::UNPROCESSABLE_ENTITY,
        // What nginx says of a client that does not wait for its answer.
        Cancelled => StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST),
        Timeout => StatusCode::GATEWAY_TIMEOUT,
        NotSupported => StatusCode::NOT_IMPLEMENTED,
        OutOfMemory | DiskFull => StatusCode::INSUFFICIENT_STORAGE,
        Busy | Locked | Poisoned | Shutdown => StatusCode::SERVICE_UNAVAILABLE,
        Io | Corrupt | IncompatibleFormat | Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// A request that is refused, or a statement that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    /// Where another status says more than the kind's.
    status: Option<StatusCode>,
    /// The part of the request that is wrong.
    place: Option<String>,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { error, status: None, place: None }
    }
}

impl Failure {
    /// A request that does not say what is wanted as it has to.
    pub(crate) fn request(place: impl Into<String>, message: impl Into<String>) -> Failure {
        Failure::from(Error::new(ErrorKind::Protocol, message)).of(place)
    }

    /// Names the part of the request that is wrong.
    pub(crate) fn of(mut self, place: impl Into<String>) -> Failure {
        self.place = Some(place.into());
        self
    }

    /// With another status than its kind's.
    pub(crate) fn with_status(mut self, status: StatusCode) -> Failure {
        self.status = Some(status);
        self
    }

    /// Says what to do.
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Failure {
        self.error = self.error.with_hint(hint);
        self
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status.unwrap_or_else(|| status_of(self.error.kind()))
    }

    /// What the body holds under `error`.
    pub(crate) fn to_json(&self) -> Value {
        let mut error = Map::new();
        error.insert("code".to_owned(), self.error.kind().sqlstate().into());
        error.insert("message".to_owned(), self.error.message().into());
        if let Some(hint) = self.error.hint() {
            error.insert("hint".to_owned(), hint.into());
        }
        if let Some(place) = &self.place {
            error.insert("where".to_owned(), place.as_str().into());
        }
        Value::Object(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = self.status();
        let body = serde_json::json!({ "error": self.to_json() });
        let mut response = Response::new(Body::from(format!("{body}\n")));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"alluvia\", charset=\"UTF-8\""));
        }
        if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of docs/OPERATIONS.md says what the server does, for every kind.
    #[test]
    fn the_documented_statuses_are_the_ones_sent() {
        let docs = include_str!("../../../docs/OPERATIONS.md");
        let row = |status: StatusCode| {
            let row = docs.lines().find(|line| line.starts_with(&format!("| {} |", status.as_u16())));
            row.unwrap_or_else(|| panic!("docs/OPERATIONS.md has no row for {status}"))
        };
        for kind in ErrorKind::ALL {
            let documented = row(status_of(kind));
            assert!(documented.contains(kind.sqlstate()), "{kind:?} {}: {documented}", kind.sqlstate());
        }
    }
}
