//! Rows that a client sends with DoPut, decoded as they come.
//!
//! Invariants:
//! - A message is checked against its body and its schema before Arrow's reader has it, which allocates what it is told.
//! - A stream that the client breaks off, or lets rest ([`crate::interceptor`] times that), ends with an error: half of it is never taken for all.
//! - A panic of Arrow's reader is an error of what it read.

use crate::failure::{malformed, of_flight};
use alluvia_copy::{MessageChecks, caught};
use alluvia_types::{Error, Result};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::root_as_message;
use arrow_flight::decode::{DecodedPayload, FlightDataDecoder};
use arrow_flight::error::FlightError;
use arrow_flight::{FlightData, FlightDescriptor};
use futures::{Stream, StreamExt, stream};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::Streaming;

/// What a client sends with DoPut.
pub(crate) struct IncomingRows {
    decoder: FlightDataDecoder,
    schema: Option<SchemaRef>,
    /// Whether rows may come after another schema than those before.
    may_change: bool,
    is_over: bool,
}

/// The first message of DoPut, which says what the rest is for.
pub(crate) async fn first(messages: &mut Streaming<FlightData>) -> Result<FlightData> {
    let first = messages.message().await.map_err(|status| of_flight(FlightError::Tonic(Box::new(status))))?;
    first.ok_or_else(|| malformed("DoPut came without a message"))
}

/// What the message is for.
pub(crate) fn descriptor(message: &mut FlightData) -> Result<FlightDescriptor> {
    message.flight_descriptor.take().ok_or_else(|| malformed("the first message of DoPut has no descriptor"))
}

fn checked(checks: &mut MessageChecks, message: FlightData) -> Result<FlightData, FlightError> {
    let ours = |error: Error| FlightError::from_external_error(Box::new(error));
    let header = root_as_message(&message.data_header)
        .map_err(|error| FlightError::DecodeError(format!("a message cannot be read: {error}")))?;
    checks.check(&header, &message.data_body).map_err(ours)?;
    Ok(message)
}

impl IncomingRows {
    /// The rows of `first` and of all messages after it.
    pub(crate) fn new(first: FlightData, rest: Streaming<FlightData>) -> IncomingRows {
        let rest = rest.map(|message| message.map_err(|status| FlightError::Tonic(Box::new(status))));
        let all = stream::once(async { Ok(first) }).chain(rest);
        // A message without a header has a descriptor, or metadata, and no rows.
        let all = all.filter(|message| {
            let has_rows = message.as_ref().map_or(true, |message| !message.data_header.is_empty());
            async move { has_rows }
        });
        let mut checks = MessageChecks::default();
        let all = all.map(move |message| message.and_then(|message| checked(&mut checks, message)));
        let decoder = FlightDataDecoder::new(all);
        IncomingRows { decoder, schema: None, may_change: false, is_over: false }
    }

    /// A schema may come among the rows: those after it have that one. What Flight's own clients send never has.
    pub(crate) fn may_change(&mut self) {
        self.may_change = true;
    }

    /// The columns; `None` if the client sends none.
    pub(crate) async fn schema(&mut self) -> Result<Option<SchemaRef>> {
        if self.schema.is_some() {
            return Ok(self.schema.clone());
        }
        match self.payload().await {
            None => Ok(None),
            Some(Ok(DecodedPayload::Schema(schema))) => {
                self.schema = Some(Arc::clone(&schema));
                Ok(Some(schema))
            }
            Some(Ok(_)) => Err(malformed("rows came before their schema")),
            Some(Err(error)) => Err(error),
        }
    }

    async fn payload(&mut self) -> Option<Result<DecodedPayload>> {
        std::future::poll_fn(|context| self.poll_payload(context)).await
    }

    fn poll_payload(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<DecodedPayload>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let decoder = &mut self.decoder;
        let polled = caught(|| Ok::<_, ArrowError>(decoder.poll_next_unpin(context)));
        let polled = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(Some(Ok(message)))) => Some(Ok(message.payload)),
            Ok(Poll::Ready(Some(Err(error)))) => Some(Err(of_flight(error))),
            Ok(Poll::Ready(None)) => None,
            Err(error) => Some(Err(of_flight(FlightError::Arrow(error)))),
        };
        self.is_over = !matches!(polled, Some(Ok(_)));
        Poll::Ready(polled)
    }
}

impl Stream for IncomingRows {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let payload = match self.poll_payload(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(payload) => payload,
            };
            match payload {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(DecodedPayload::RecordBatch(batch))) => return Poll::Ready(Some(Ok(batch))),
                Some(Ok(DecodedPayload::None)) => {}
                Some(Ok(DecodedPayload::Schema(schema))) => {
                    if self.schema.is_some() && !self.may_change {
                        self.is_over = true;
                        return Poll::Ready(Some(Err(malformed("a second schema came among the rows"))));
                    }
                    self.schema = Some(schema);
                }
            }
        }
    }
}
