//! Health and metrics: `/healthz`, `/readyz`, `/metrics`.
//!
//! Invariants:
//! - Every figure is counted where the thing happens; none is estimated.
//! - Tables are named to superusers and members of `pg_monitor` alone, and to this machine if the server's options say so.
//! - The number of time series is bounded by the number of tables: labels come from fixed lists, apart from tables' names.

use crate::auth::{Peer, watcher};
use crate::failure::Failure;
use crate::request_counts::RequestCounts;
use crate::shared::Shared;
use alluvia_query::{Figures, LATENCY_SECONDS};
use alluvia_types::{Error, Stage};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use serde_json::json;
use std::fmt::Write;
use std::sync::Arc;

fn answer(status: StatusCode, content_type: &'static str, body: String) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// The process answers.
pub(crate) async fn healthz() -> Response {
    answer(StatusCode::OK, "application/json", "{\"status\":\"alive\"}\n".to_owned())
}

/// Statements are taken, and batches too.
pub(crate) async fn readyz(State(shared): State<Arc<Shared>>) -> Response {
    let figures = shared.engine.figures();
    let reason = figures.read_only.map(|_| "writes are refused; alluvia.settings says why");
    let (status, word) = match reason {
        None => (StatusCode::OK, "ready"),
        Some(_) => (StatusCode::SERVICE_UNAVAILABLE, "not ready"),
    };
    let body = json!({ "status": word, "version": figures.visible.0, "reason": reason });
    answer(status, "application/json", format!("{body}\n"))
}

/// Everything that is counted, as Prometheus reads it.
pub(crate) async fn metrics(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response, Failure> {
    let peer = request.extensions().get::<Peer>().copied();
    let peer = peer.ok_or_else(|| Error::internal("a request from nowhere"))?;
    watcher(&shared, request.headers(), peer).await?;
    let text = text(&shared.engine.figures(), shared.connections.count(), &shared.requests);
    Ok(answer(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text))
}

/// Families of figures in Prometheus's text format.
#[derive(Default)]
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels: Vec<String> = labels.iter().map(|(name, text)| format!("{name}=\"{}\"", quoted(text))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }
}

fn text(figures: &Figures, (connections, busy): (usize, usize), requests: &RequestCounts) -> String {
    let mut out = Text::default();
    out.family("alluvia_statements_total", "counter", "Statements that have ended, by kind and outcome.");
    for kind in &figures.statements {
        for (outcome, count) in &kind.outcomes {
            out.sample("alluvia_statements_total", &[("kind", kind.kind), ("outcome", outcome)], count);
        }
    }
    let name = "alluvia_statement_seconds";
    out.family(name, "histogram", "How long statements took, to their last row.");
    for kind in &figures.statements {
        let mut through = 0;
        for (bound, count) in LATENCY_SECONDS.iter().zip(&kind.latency) {
            through += count;
            out.sample(&format!("{name}_bucket"), &[("kind", kind.kind), ("le", &bound.to_string())], through);
        }
        let count: u64 = kind.latency.iter().sum();
        out.sample(&format!("{name}_bucket"), &[("kind", kind.kind), ("le", "+Inf")], count);
        out.sample(&format!("{name}_sum"), &[("kind", kind.kind)], kind.seconds);
        out.sample(&format!("{name}_count"), &[("kind", kind.kind)], count);
    }
    out.family("alluvia_http_requests_total", "counter", "Requests that were answered, by route and status.");
    for ((route, status), count) in requests.all() {
        out.sample("alluvia_http_requests_total", &[("route", route), ("status", &status.to_string())], count);
    }
    out.one("alluvia_http_connections", "gauge", "HTTP connections that are open.", connections);
    out.one("alluvia_http_connections_busy", "gauge", "HTTP connections that have a request under way.", busy);
    out.family("alluvia_sessions", "gauge", "Sessions that are open, by protocol.");
    for (protocol, count) in &figures.sessions {
        out.sample("alluvia_sessions", &[("protocol", protocol)], count);
    }
    out.one("alluvia_batches_total", "counter", "Batches that became visible since the start.", figures.batches);
    out.one("alluvia_rows_ingested_total", "counter", "Rows that became visible since the start.", figures.rows);
    out.one(
        "alluvia_bytes_ingested_total",
        "counter",
        "Bytes of these in the log and in staged segments.",
        figures.bytes,
    );
    out.one(
        "alluvia_log_syncs_total",
        "counter",
        "Groups of batches that the log has made durable, each by one fsync, since the database was made.",
        figures.log_syncs,
    );
    out.one("alluvia_visible_version", "gauge", "The newest version that queries can see.", figures.visible.0);
    out.one("alluvia_tail_bytes", "gauge", "Rows that are in memory and the log only.", figures.tail_bytes);
    out.one(
        "alluvia_tail_bytes_max",
        "gauge",
        "Where writers wait for a sort; above half of it they wait for their turn.",
        figures.tail_bytes_max,
    );
    out.one("alluvia_writers_waiting", "gauge", "Writers that wait for room in the tail.", figures.writers_waiting);
    out.one("alluvia_log_bytes", "gauge", "Bytes of the log on disk.", figures.log_bytes);
    out.one("alluvia_read_only", "gauge", "1 while writes are refused.", u8::from(figures.read_only.is_some()));
    out.one(
        "alluvia_pipeline_failing",
        "gauge",
        "1 if the last sort or merge failed.",
        u8::from(figures.pipeline_error.is_some()),
    );
    out.family("alluvia_memory_bytes", "gauge", "Memory, by what holds it.");
    let memory = [
        ("queries", figures.query_bytes),
        ("cache", figures.cache_bytes),
        ("cuboids", figures.cuboid_bytes),
        ("tail", figures.tail_bytes),
        ("keys", figures.key_bytes),
        ("dead rows", figures.kill_bytes),
    ];
    for (use_of, bytes) in memory {
        out.sample("alluvia_memory_bytes", &[("use", use_of)], bytes);
    }
    type Value = fn(&alluvia_query::StageFigures) -> String;
    let families: [(&str, &str, Value); 5] = [
        ("alluvia_stage_watermark", "The version through which a stage of a table is complete.", |s| {
            s.watermark.0.to_string()
        }),
        ("alluvia_stage_lag_seconds", "How long ago the first batch that the stage lacks became visible.", |s| {
            s.lag.as_secs_f64().to_string()
        }),
        ("alluvia_stage_rows", "Rows that live in a stage.", |s| s.rows.to_string()),
        ("alluvia_stage_bytes", "Bytes of them.", |s| s.bytes.to_string()),
        ("alluvia_stage_parts", "Segments, or runs of the tail.", |s| s.parts.to_string()),
    ];
    for (name, help, value) in families {
        out.family(name, "gauge", help);
        for stage in &figures.stages {
            let word = match stage.stage {
                Stage::Ingested => "ingested",
                Stage::Sorted => "sorted",
                Stage::Merged => "merged",
            };
            out.sample(name, &[("table", &stage.table), ("stage", word)], value(stage));
        }
    }
    out.0
}
