//! Messages of Arrow Flight and Flight SQL: commands are read, schemas and batches are written.

use crate::failure::malformed;
use alluvia_types::{Error, Result};
use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::sql::{Any, Command};
use arrow_flight::utils::batches_to_flight_data;
use arrow_flight::{FlightData, IpcMessage, SchemaAsIpc};
use bytes::Bytes;
use futures::{Stream, stream};
use prost::Message;
use std::pin::Pin;
use tonic::Status;

/// What a client is sent, message by message.
pub(crate) type Messages<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// A few messages.
pub(crate) fn messages<T: Send + 'static>(all: Vec<T>) -> Messages<T> {
    Box::pin(stream::iter(all.into_iter().map(Ok)))
}

/// A message within another.
pub(crate) fn any(bytes: &[u8]) -> Result<Any> {
    Any::decode(bytes).map_err(|error| malformed(format!("a command cannot be read: {error}")))
}

/// A command of Flight SQL.
pub(crate) fn command(bytes: &[u8]) -> Result<Command> {
    Command::try_from(any(bytes)?).map_err(|error| malformed(format!("a command cannot be read: {error}")))
}

/// A schema as a message of Arrow's.
pub(crate) fn encoded(schema: &Schema) -> Result<Bytes> {
    let options = IpcWriteOptions::default();
    let message: std::result::Result<IpcMessage, _> = SchemaAsIpc::new(schema, &options).try_into();
    let IpcMessage(bytes) = message.map_err(|error| Error::internal(format!("a schema was not encoded: {error}")))?;
    Ok(bytes)
}

/// A batch as messages: its schema's, and its own.
pub(crate) fn one_batch(schema: &Schema, batch: RecordBatch) -> Result<Vec<FlightData>> {
    batches_to_flight_data(schema, vec![batch])
        .map_err(|error| Error::internal(format!("a batch could not be encoded: {error}")))
}
