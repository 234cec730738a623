//! Counts of answered requests, by route and status.

use axum::http::StatusCode;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// The route that a path belongs to, for counting.
pub(crate) fn route_of(path: &str) -> &'static str {
    match path {
        "/query" => "/query",
        "/healthz" => "/healthz",
        "/readyz" => "/readyz",
        "/metrics" => "/metrics",
        "/openapi.yaml" => "/openapi.yaml",
        _ if path.starts_with("/ingest/") => "/ingest",
        _ => "other",
    }
}

/// Requests answered, by route and status.
#[derive(Default)]
pub(crate) struct RequestCounts {
    answered: Mutex<BTreeMap<(&'static str, u16), u64>>,
}

impl RequestCounts {
    /// Counts one.
    pub(crate) fn answered(&self, route: &'static str, status: StatusCode) {
        *self.answered.lock().entry((route, status.as_u16())).or_default() += 1;
    }

    /// All counts, in the order of routes and statuses.
    pub(crate) fn all(&self) -> BTreeMap<(&'static str, u16), u64> {
        self.answered.lock().clone()
    }
}
