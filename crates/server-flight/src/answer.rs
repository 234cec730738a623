//! Answers: rows on their way to a client.
//!
//! Invariants:
//! - An answer is not held whole: a batch is made when the client has taken what was made before it. A client that takes nothing for
//!   `transfer_timeout` has lost its answer.
//! - Columns have types that every client of Arrow knows: no views, no dictionaries.
//! - What an answer is of (version, lag, stage) is in its schema's metadata; what it used, and notices, come with its last message, a
//!   batch without rows, as JSON in `app_metadata`.

use crate::failure::{of_flight, status};
use crate::login::Caller;
use crate::server::Shared;
use crate::statement::{Given, Waiting};
use alluvia_access::{Stopping, gone, reached};
use alluvia_query::{Outcome, Used, from_datafusion};
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use arrow_flight::FlightData;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::utils::batches_to_flight_data;
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;
use tonic::Status;

/// Messages that wait for the client.
const WAITING: usize = 2;
/// The most text of one column in a batch: plain text columns count bytes in 32 bits.
const TEXT_BYTES_MAX: usize = 1 << 30;

/// What a client is sent, message by message.
pub(crate) type Messages<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// A few messages.
pub(crate) fn messages<T: Send + 'static>(all: Vec<T>) -> Messages<T> {
    Box::pin(stream::iter(all.into_iter().map(Ok)))
}

/// The type that every client knows, of the same values.
fn plain_type(data_type: &DataType) -> DataType {
    let field = |field: &FieldRef| -> FieldRef {
        Arc::new(field.as_ref().clone().with_data_type(plain_type(field.data_type())))
    };
    match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::Dictionary(_, values) => plain_type(values),
        DataType::List(inner) | DataType::ListView(inner) => DataType::List(field(inner)),
        DataType::LargeList(inner) | DataType::LargeListView(inner) => DataType::LargeList(field(inner)),
        DataType::FixedSizeList(inner, size) => DataType::FixedSizeList(field(inner), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect::<Fields>()),
        other => other.clone(),
    }
}

/// The schema of the same rows in plain types.
pub(crate) fn plain(schema: &Schema) -> Schema {
    let field = |field: &FieldRef| field.as_ref().clone().with_data_type(plain_type(field.data_type()));
    Schema::new(schema.fields().iter().map(field).collect::<Vec<Field>>())
}

/// The schema of an answer, which says what it is of.
pub(crate) fn plain_schema(schema: &Schema, tag: &str, used: Option<Used>) -> SchemaRef {
    let mut metadata = vec![("alluvia.tag".to_owned(), tag.to_owned())];
    if let Some(used) = used {
        metadata.push(("alluvia.version".to_owned(), used.version.0.to_string()));
        metadata.push(("alluvia.lag_seconds".to_owned(), format!("{:.6}", used.lag.as_secs_f64())));
        metadata.push(("alluvia.stage".to_owned(), used.stage.to_string()));
    }
    Arc::new(plain(schema).with_metadata(metadata.into_iter().collect()))
}

/// What is told of a statement after its rows; the names are HTTP's.
pub(crate) fn ending(outcome: &Outcome) -> Value {
    let used = outcome.used().map(|used| used.to_json());
    json!({ "tag": outcome.tag, "notices": outcome.notices(), "used": used })
}

/// At most so many bytes has the text of a column that is made plain.
fn text_bytes(array: &ArrayRef) -> usize {
    // The low half of a view is its length.
    let length = |view: &u128| *view as u32 as usize;
    match array.data_type() {
        DataType::Utf8View => array.as_string_view().views().iter().map(length).sum(),
        DataType::BinaryView => array.as_binary_view().views().iter().map(length).sum(),
        DataType::Dictionary(..) => {
            let values = array.as_any_dictionary().values();
            let longest = match values.data_type() {
                DataType::Utf8View => values.as_string_view().views().iter().map(length).max(),
                DataType::Utf8 => {
                    values.as_string::<i32>().value_offsets().windows(2).map(|pair| (pair[1] - pair[0]) as usize).max()
                }
                _ => None,
            };
            longest.unwrap_or(0).saturating_mul(array.len())
        }
        _ => 0,
    }
}

/// Rows in plain types; several batches where one could not hold their text.
pub(crate) fn plain_batches(batch: &RecordBatch, schema: &SchemaRef) -> Result<Vec<RecordBatch>> {
    let rows = batch.num_rows();
    if rows > 1 && batch.columns().iter().map(text_bytes).max().unwrap_or(0) > TEXT_BYTES_MAX {
        let (first, second) = (batch.slice(0, rows / 2), batch.slice(rows / 2, rows - rows / 2));
        let mut all = plain_batches(&first, schema)?;
        all.extend(plain_batches(&second, schema)?);
        return Ok(all);
    }
    let column = |(array, field): (&ArrayRef, &FieldRef)| match array.data_type() == field.data_type() {
        true => Ok(Arc::clone(array)),
        false => cast(array, field.data_type()),
    };
    let columns = batch.columns().iter().zip(schema.fields()).map(column).collect::<Result<Vec<ArrayRef>, _>>();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let made = columns
        .and_then(|columns| RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options))
        .map_err(|error| Error::internal(format!("rows of an answer could not be made plain: {error}")))?;
    Ok(vec![made])
}

/// What an answer that is being sent has to do with others.
pub(crate) struct Sending {
    pub(crate) shared: Arc<Shared>,
    pub(crate) caller: Arc<Caller>,
    /// The key of its ticket.
    pub(crate) ticket: Bytes,
    /// Told when somebody cancels it.
    pub(crate) end: Arc<Notify>,
}

impl Sending {
    /// Sends an answer.
    pub(crate) fn begin(self, answer: Waiting) -> Messages<FlightData> {
        let (send, mut sent) = mpsc::channel(WAITING);
        // How it ends is told beside the channel, which may be full: else what was cut would end as what is whole does.
        let ending = Arc::new(Mutex::new(Some(Error::internal("an answer ended without saying how"))));
        let told = Arc::clone(&ending);
        tokio::spawn(async move {
            let result = self.all(answer, &send).await;
            *ending.lock() = result.err();
            drop(send);
            self.caller.login.sent(&self.ticket, self.shared.now());
        });
        Box::pin(stream::poll_fn(move |context| {
            let polled = sent.poll_recv(context);
            polled.map(|message| message.map(Ok).or_else(|| Some(Err(status(&told.lock().take()?)))))
        }))
    }

    async fn all(&self, answer: Waiting, send: &mpsc::Sender<FlightData>) -> Result<()> {
        let Waiting { mut given, schema } = answer;
        match &mut given {
            Given::Rows(outcome) => self.rows(outcome, &schema, send).await?,
            Given::Refined(refined) => {
                let mut is_first = true;
                while let Some(refinement) = self.unless_ended(send, refined.next()).await?.transpose()? {
                    for message in refined.messages(&refinement, is_first)? {
                        self.one(message, send).await?;
                    }
                    is_first = false;
                }
            }
        }
        let mut last = one_batch(&schema, RecordBatch::new_empty(Arc::clone(&schema)))?;
        if let Some(mut message) = last.pop() {
            message.app_metadata = ending(given.outcome()).to_string().into();
            self.one(message, send).await?;
        }
        Ok(())
    }

    async fn rows(&self, outcome: &mut Outcome, schema: &SchemaRef, send: &mpsc::Sender<FlightData>) -> Result<()> {
        let rows = outcome.rows.take().ok_or_else(|| Error::internal("an answer has no rows"))?;
        let there = Arc::clone(schema);
        let batches = rows.flat_map(move |batch| {
            let made = batch.map_err(from_datafusion).and_then(|batch| plain_batches(&batch, &there));
            stream::iter(match made {
                Ok(all) => all.into_iter().map(Ok).collect(),
                Err(error) => vec![Err(FlightError::from_external_error(Box::new(error)))],
            })
        });
        let mut encoded = FlightDataEncoderBuilder::new().with_schema(Arc::clone(schema)).build(batches);
        while let Some(message) = self.unless_ended(send, encoded.next()).await? {
            self.one(message.map_err(of_flight)?, send).await?;
        }
        Ok(())
    }

    /// What comes next, unless nobody wants it any more.
    async fn unless_ended<T>(&self, send: &mpsc::Sender<FlightData>, next: impl Future<Output = T>) -> Result<T> {
        let mut stop = self.shared.stop.clone();
        tokio::select! {
            biased;
            () = send.closed() => Err(gone()),
            () = self.end.notified() => Err(Error::new(ErrorKind::Cancelled, "the statement was cancelled")),
            () = reached(&mut stop, Stopping::All) => Err(Error::new(ErrorKind::Shutdown, "the server is stopping")),
            next = next => Ok(next),
        }
    }

    async fn one(&self, message: FlightData, send: &mpsc::Sender<FlightData>) -> Result<()> {
        match timeout(self.shared.options.transfer_timeout, send.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(gone()),
            Err(_) => {
                let seconds = self.shared.options.transfer_timeout.as_secs_f64();
                let message = format!("the answer was given up: nobody took any of its rows for {seconds} seconds");
                Err(Error::new(ErrorKind::Timeout, message).with_hint(
                    "what a client does not read waits at the server once its own room is full (16 MB in ours); \
                     read answers to their end, close those that are not wanted, or raise transfer_timeout",
                ))
            }
        }
    }
}

/// A batch as messages: its schema's, and its own.
pub(crate) fn one_batch(schema: &Schema, batch: RecordBatch) -> Result<Vec<FlightData>> {
    batches_to_flight_data(schema, vec![batch])
        .map_err(|error| Error::internal(format!("a batch could not be encoded: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{DictionaryArray, Int64Array, StringArray, StringViewArray};
    use arrow::datatypes::Int32Type;

    #[test]
    fn plain_rows_are_the_same_rows() {
        let long = "a text that does not fit into a view";
        let views = StringViewArray::from(vec![Some("short"), None, Some(long)]);
        let coded: DictionaryArray<Int32Type> = vec![Some("x"), Some("y"), None].into_iter().collect();
        let batch = RecordBatch::try_from_iter([
            ("views", Arc::new(views) as ArrayRef),
            ("coded", Arc::new(coded) as ArrayRef),
            ("number", Arc::new(Int64Array::from(vec![1, 2, 3])) as ArrayRef),
        ])
        .unwrap();
        let schema = Arc::new(plain(&batch.schema()));
        let types: Vec<&DataType> = schema.fields().iter().map(|field| field.data_type()).collect();
        assert_eq!(types, [&DataType::Utf8, &DataType::Utf8, &DataType::Int64]);
        // From the second row on: views into buffers that hold more.
        let made = plain_batches(&batch.slice(1, 2), &schema).unwrap();
        assert_eq!(made.len(), 1);
        let text = |at: usize| made[0].column(at).as_string::<i32>().clone();
        assert_eq!(text(0), StringArray::from(vec![None, Some(long)]));
        assert_eq!(text(1), StringArray::from(vec![Some("y"), None]));
        assert_eq!(text_bytes(batch.column(0)), 5 + long.len());
    }

    #[test]
    fn lists_and_structs_become_plain_to_their_bottom() {
        let inner = Arc::new(Field::new("item", DataType::Utf8View, true));
        let nested = DataType::Struct(vec![Field::new("a", DataType::List(inner), true)].into());
        let plain_inner = Arc::new(Field::new("item", DataType::Utf8, true));
        assert_eq!(
            plain_type(&nested),
            DataType::Struct(vec![Field::new("a", DataType::List(plain_inner), true)].into())
        );
    }
}
