//! Traces: what `tracing` spans of the other rooms become on their way to an OpenTelemetry collector.
//!
//! Invariants:
//! - Nothing waits for a collector: spans go into a bounded queue, and what finds no room there, or no collector, is dropped and
//!   counted.
//! - A trace is exported whole or not at all: whether it is, is decided with its first span. A client that sends the header
//!   `traceparent` (W3C Trace Context) decides itself, and its trace goes on here.
//! - Spans of Alluvia's rooms alone are exported, of level INFO and above; without an exporter none is made.
//!
//! Fields of a span become attributes; three mean something: `traceparent`, `error` (the span failed), and `kind = "server"`.
//!
//! Written here rather than taken from opentelemetry-otlp: docs/DEPENDENCIES.md says why.

mod context;
mod export;
mod layer;
mod message;

pub use export::{Endpoint, Exporter};
pub use layer::Spans;

/// Spans that wait to be exported.
const QUEUE_SPANS: usize = 16_384;

/// What makes spans of `tracing` into traces, and what sends them. `share` of the traces that no client decides about are sent; the
/// exporter runs on the current tokio runtime.
pub fn traces(endpoint: Endpoint, share: f64) -> (Spans, Exporter) {
    let (queue, queued) = tokio::sync::mpsc::channel(QUEUE_SPANS);
    let spans = Spans::new(queue, share);
    let exporter = Exporter::start(endpoint, queued, spans.dropped());
    (spans, exporter)
}
