//! Spans of `tracing`, made into spans of OpenTelemetry as they close.
//!
//! Invariant: what a span costs does not depend on the collector: it is put into the queue, or counted as dropped.

use crate::context::{Ids, TraceContext};
use crate::message::{Attribute, KIND_INTERNAL, KIND_SERVER, STATUS_ERROR, Span, Status, Value};
use alluvia_types::{Clock, SystemClock};
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{FilterFn, LevelFilter};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// Fields that are no attributes.
const TRACEPARENT: &str = "traceparent";
const KIND: &str = "kind";
const ERROR: &str = "error";
/// The longest text of an attribute; what is longer is cut.
const TEXT_BYTES_MAX: usize = 4_096;

/// The layer that exports spans. Other layers, that of the log for one, keep filters of their own.
#[derive(Debug)]
pub struct Spans {
    queue: mpsc::Sender<Span>,
    dropped: Arc<AtomicU64>,
    clock: SystemClock,
    ids: Ids,
    share: f64,
}

/// A span that is open.
struct Open {
    context: TraceContext,
    parent: Option<[u8; 8]>,
    start_nanos: u64,
    start: Duration,
    fields: Fields,
}

#[derive(Default)]
struct Fields {
    attributes: Vec<Attribute>,
    traceparent: Option<TraceContext>,
    is_server: bool,
    error: Option<String>,
}

impl Spans {
    pub(crate) fn new(queue: mpsc::Sender<Span>, share: f64) -> Spans {
        Spans { queue, dropped: Arc::default(), clock: SystemClock::default(), ids: Ids::default(), share }
    }

    /// Spans that found no room.
    pub(crate) fn dropped(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.dropped)
    }

    /// Which spans are exported: those of Alluvia's rooms, of INFO and above. To be put onto the layer with `with_filter`.
    pub fn filter() -> FilterFn<fn(&Metadata<'_>) -> bool> {
        FilterFn::new(is_exported as fn(&Metadata<'_>) -> bool).with_max_level_hint(LevelFilter::INFO)
    }
}

fn is_exported(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && *metadata.level() <= Level::INFO && metadata.target().starts_with("alluvia_")
}

impl<S> Layer<S> for Spans
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let parent = span.parent().and_then(|parent| Some(parent.extensions().get::<Open>()?.context));
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let (from, is_sampled) = match (parent, fields.traceparent.take()) {
            (Some(from), _) | (None, Some(from)) => (Some(from), from.is_sampled),
            (None, None) => (None, false),
        };
        let (trace, is_sampled) = match from {
            Some(from) => (from.trace, is_sampled),
            None => self.ids.trace(self.share),
        };
        if !is_sampled {
            fields = Fields::default();
        }
        span.extensions_mut().insert(Open {
            context: TraceContext { trace, span: self.ids.span(), is_sampled },
            parent: from.map(|from| from.span),
            start_nanos: self.clock.wall_micros().unsigned_abs() * 1_000,
            start: self.clock.monotonic(),
            fields,
        });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut extensions = span.extensions_mut();
        if let Some(open) = extensions.get_mut::<Open>().filter(|open| open.context.is_sampled) {
            values.record(&mut open.fields);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(open) = span.extensions_mut().remove::<Open>().filter(|open| open.context.is_sampled) else { return };
        let Open { context, parent, start_nanos, start, fields } = open;
        let took = self.clock.monotonic().saturating_sub(start);
        let status = fields.error.map(|message| Status { message, code: STATUS_ERROR });
        let closed = Span {
            trace_id: context.trace.to_vec(),
            span_id: context.span.to_vec(),
            parent_span_id: parent.map_or_else(Vec::new, |parent| parent.to_vec()),
            name: span.name().to_owned(),
            kind: if fields.is_server { KIND_SERVER } else { KIND_INTERNAL },
            start_nanos,
            end_nanos: start_nanos + took.as_nanos() as u64,
            attributes: fields.attributes,
            status,
        };
        if self.queue.try_send(closed).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        let name = field.name();
        match (name, &value) {
            (TRACEPARENT, Value::Text(text)) => self.traceparent = TraceContext::parse(text),
            (KIND, Value::Text(text)) => self.is_server = text == "server",
            (ERROR, Value::Text(text)) => self.error = Some(text.clone()),
            _ => match self.attributes.iter_mut().find(|known| known.key == name) {
                Some(known) => *known = Attribute::new(name, value),
                None => self.attributes.push(Attribute::new(name, value)),
            },
        }
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, Value::Float(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, Value::Integer(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, Value::Integer(i64::try_from(value).unwrap_or(i64::MAX)));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, Value::Bool(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, Value::Text(value[..value.floor_char_boundary(TEXT_BYTES_MAX)].to_owned()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::{info_span, subscriber::with_default};
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::registry;

    /// The spans that some work makes, in the order in which they close.
    fn spans_of(share: f64, work: impl FnOnce()) -> Vec<Span> {
        let (queue, mut queued) = mpsc::channel(100);
        let layer = Spans::new(queue, share);
        with_default(registry().with(layer.with_filter(Spans::filter())), work);
        std::iter::from_fn(|| queued.try_recv().ok()).collect()
    }

    #[test]
    fn children_name_their_parents_and_fields_become_attributes() {
        let spans = spans_of(1.0, || {
            let outer =
                info_span!("outer", kind = "server", rows = tracing::field::Empty, error = tracing::field::Empty);
            outer.in_scope(|| drop(info_span!("inner", table = "t", share = 0.5)));
            drop(info_span!(parent: &outer, "beside"));
            outer.record("rows", 7_u64);
            outer.record("rows", 8_u64);
            outer.record("error", "it failed");
        });
        let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
        assert_eq!(names, ["inner", "beside", "outer"]);
        let outer = &spans[2];
        assert!(outer.parent_span_id.is_empty() && outer.kind == KIND_SERVER && outer.end_nanos >= outer.start_nanos);
        assert_eq!(outer.attributes, [Attribute::new("rows", Value::Integer(8))]);
        assert_eq!(outer.status.as_ref().map(|status| status.message.as_str()), Some("it failed"));
        for child in &spans[..2] {
            assert_eq!((&child.trace_id, &child.parent_span_id), (&outer.trace_id, &outer.span_id), "{}", child.name);
            assert!(child.start_nanos >= outer.start_nanos && child.status.is_none());
        }
        let attributes =
            [Attribute::new("table", Value::Text("t".to_owned())), Attribute::new("share", Value::Float(0.5))];
        assert_eq!(spans[0].attributes, attributes);
    }

    #[test]
    fn a_clients_trace_goes_on_if_it_is_recorded() {
        let parent = |flags: &str| format!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-{flags}");
        let work = |flags: &str| {
            let traceparent = parent(flags);
            let request = info_span!("request", traceparent);
            request.in_scope(|| drop(info_span!("statement")));
        };
        let spans = spans_of(0.0, || work("01"));
        assert_eq!(spans.len(), 2);
        assert!(spans.iter().all(|span| span.trace_id[..2] == [0x0a, 0xf7]));
        assert_eq!(spans[1].parent_span_id, [0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31]);
        assert!(spans[1].attributes.is_empty());
        assert!(spans_of(1.0, || work("00")).is_empty());
        // None of ours, and one that cannot be read, which is as none.
        assert!(spans_of(0.0, || work("")).is_empty());
        assert_eq!(spans_of(1.0, || work("")).len(), 2);
    }

    #[test]
    fn spans_of_others_and_details_are_left_out_and_what_finds_no_room_is_counted() {
        let spans = spans_of(1.0, || {
            drop(info_span!(target: "hyper::client", "theirs"));
            drop(tracing::debug_span!("detail"));
            tracing::warn!("no span");
        });
        assert!(spans.is_empty());
        let (queue, _queued) = mpsc::channel(1);
        let layer = Spans::new(queue, 1.0);
        let dropped = layer.dropped();
        with_default(registry().with(layer), || (0..3).for_each(|_| drop(info_span!("one"))));
        assert_eq!(dropped.load(Ordering::Relaxed), 2);
    }
}
