//! Routes: the handler of each path.

use crate::failure::Failure;
use crate::ingest::ingest;
use crate::metrics::{healthz, metrics, readyz};
use crate::query::query;
use crate::shared::Shared;
use crate::statuses::{INGEST, METRICS, QUERY, Refusal};
use alluvia_types::{Error, ErrorKind};
use axum::Router;
use axum::http::Uri;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use std::sync::Arc;

/// What is answered, for people and programs.
const OPENAPI: &str = include_str!("../../../docs/openapi.yaml");

/// All routes.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route(QUERY, post(query))
        .route(INGEST, post(ingest))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route(METRICS, get(metrics))
        .route("/openapi.yaml", get(openapi))
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .with_state(shared)
}

async fn openapi() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/yaml")], OPENAPI)
}

async fn unknown(uri: Uri) -> Failure {
    Failure::from(Error::new(ErrorKind::UndefinedObject, format!("there is nothing at {}", uri.path())))
        .of("the path")
        .with_hint("/openapi.yaml describes what there is")
}

async fn wrong_method() -> Failure {
    Failure::request("the method", "this path is not asked with this method")
        .with_refusal(Refusal::Method)
        .with_hint("the header Allow lists the right ones")
}
