//! Errors as clients get them: a status, and `{"error": {"code", "message", "hint", "where"}}`.
//!
//! Invariant: a status is the error's kind's, or a [`Refusal`]'s.

use crate::statuses::{Refusal, status_of};
use alluvia_types::{Error, ErrorKind};
use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};

/// A request that is refused, or a statement that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    /// Where its status says more than the kind's.
    refusal: Option<Refusal>,
    /// The part of the request that is wrong.
    place: Option<String>,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { error, refusal: None, place: None }
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
    pub(crate) fn with_refusal(mut self, refusal: Refusal) -> Failure {
        self.refusal = Some(refusal);
        self
    }

    /// Says what to do.
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Failure {
        self.error = self.error.with_hint(hint);
        self
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.refusal.map_or_else(|| status_of(self.error.kind()), Refusal::status)
    }

    /// What the body holds under `error`.
    pub(crate) fn to_json(&self) -> Value {
        let mut error = Map::new();
        error.insert("code".to_owned(), self.error.sqlstate().into());
        error.insert("message".to_owned(), self.error.message().into());
        if let Some(detail) = self.error.detail() {
            error.insert("detail".to_owned(), detail.into());
        }
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
