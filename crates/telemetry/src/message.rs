//! The messages of OTLP that carry spans: opentelemetry-proto v1, `collector/trace/v1/trace_service.proto` and what it names.
//!
//! Numbers of fields are those of the standard; what is never sent is left out, as protobuf lets it be.

use prost::{Message, Oneof};

/// `ExportTraceServiceRequest`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Export {
    #[prost(message, repeated, tag = "1")]
    pub(crate) resources: Vec<ResourceSpans>,
}

/// `ResourceSpans`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub(crate) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) scopes: Vec<ScopeSpans>,
}

/// `Resource`: which process.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub(crate) attributes: Vec<Attribute>,
}

/// `ScopeSpans`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    pub(crate) scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) spans: Vec<Span>,
}

/// `InstrumentationScope`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Scope {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
}

/// `Span.SpanKind`.
pub(crate) const KIND_INTERNAL: i32 = 1;
pub(crate) const KIND_SERVER: i32 = 2;

/// `Span`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Span {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) span_id: Vec<u8>,
    /// Empty for the first span of a trace.
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub(crate) name: String,
    #[prost(int32, tag = "6")]
    pub(crate) kind: i32,
    #[prost(fixed64, tag = "7")]
    pub(crate) start_nanos: u64,
    #[prost(fixed64, tag = "8")]
    pub(crate) end_nanos: u64,
    #[prost(message, repeated, tag = "9")]
    pub(crate) attributes: Vec<Attribute>,
    #[prost(message, optional, tag = "15")]
    pub(crate) status: Option<Status>,
}

/// `Status.StatusCode.STATUS_CODE_ERROR`.
pub(crate) const STATUS_ERROR: i32 = 2;

/// `Status`; absent unless the span failed.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Status {
    #[prost(string, tag = "2")]
    pub(crate) message: String,
    #[prost(int32, tag = "3")]
    pub(crate) code: i32,
}

/// `KeyValue`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Attribute {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) value: Option<AnyValue>,
}

/// `AnyValue`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct AnyValue {
    #[prost(oneof = "Value", tags = "1, 2, 3, 4")]
    pub(crate) value: Option<Value>,
}

/// What a value is.
#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Value {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(int64, tag = "3")]
    Integer(i64),
    #[prost(double, tag = "4")]
    Float(f64),
}

impl Attribute {
    /// A name and its value.
    pub(crate) fn new(key: &str, value: Value) -> Attribute {
        Attribute { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes made with the standard's own definitions (opentelemetry-proto 1.37.0 of PyPI, `SerializeToString`).
    #[test]
    fn the_bytes_are_the_standards() {
        let span = Span {
            trace_id: vec![1; 16],
            span_id: vec![2; 8],
            parent_span_id: vec![3; 8],
            name: "scan".to_owned(),
            kind: KIND_SERVER,
            start_nanos: 1_000,
            end_nanos: 2_000,
            attributes: vec![
                Attribute::new("rows", Value::Integer(7)),
                Attribute::new("table", Value::Text("t".to_owned())),
                Attribute::new("is", Value::Bool(true)),
                Attribute::new("share", Value::Float(0.5)),
            ],
            status: Some(Status { message: "no".to_owned(), code: STATUS_ERROR }),
        };
        let scope = Scope { name: "alluvia".to_owned(), version: "1".to_owned() };
        let resource = Resource { attributes: vec![Attribute::new("service.name", Value::Text("a".to_owned()))] };
        let scopes = vec![ScopeSpans { scope: Some(scope), spans: vec![span] }];
        let export = Export { resources: vec![ResourceSpans { resource: Some(resource), scopes }] };
        let hex: String = export.encode_to_vec().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, include_str!("../tests/golden/export.hex").trim());
    }
}
