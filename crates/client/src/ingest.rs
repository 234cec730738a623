//! Rows on their way to the server.
//!
//! Invariants:
//! - A stream of requests can only end, and an end would mean that the rows are complete. So one that fails sends what the server cannot
//!   read, and thereby nothing is applied; the failure itself is the error that is given.
//! - Batches may differ in their schemas: one that differs from the one before comes after a schema of its own.
//! - Rows that are slow to come, such as those of a pipe, are not taken for ones that never will: whoever sends them says that it is there
//!   every [`REST_EVERY`], where a server waits for `transfer_timeout`.

use crate::failure::not_understood;
use crate::session::Session;
use alluvia_types::{Error, Result};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::sql::{
    Any, CommandStatementIngest, DoPutUpdateResult, ProstMessageExt, TableDefinitionOptions, TableExistsOption,
    TableNotExistOption,
};
use arrow_flight::{FlightData, FlightDescriptor};
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt, TryStreamExt, future, stream};
use parking_lot::Mutex;
use prost::Message;
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Where the server says which version a batch has become, and that it had become that before.
const VERSION: &str = "alluvia-version";
const DUPLICATE: &str = "alluvia-duplicate";
/// Tells the last batch of a producer.
const PRODUCER: &str = "alluvia.producer";
/// How often a server hears of rows that do not come yet.
const REST_EVERY: Duration = Duration::from_secs(15);
/// No header of a message of Arrow's, whatever it says.
const UNREADABLE: &[u8] = b"the rows are not complete";

/// What became of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ingested {
    /// How many there were.
    pub rows: u64,
    /// The version of their batch; `None` if there were no rows, or if they wait for the transaction's COMMIT.
    pub version: Option<u64>,
    /// Whether a batch of this number was there before: these rows were not applied again.
    pub duplicate: bool,
}

/// The number that a producer gives a batch, so that one which is sent again is not applied twice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Number {
    /// Who counts.
    pub producer: String,
    /// A higher one shuts out the lower ones.
    pub epoch: u64,
    /// From 1 on.
    pub sequence: u64,
}

/// What is said of rows beside what they are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IngestOptions {
    /// The schema of the table; none: it is looked up along the session's path.
    pub schema: Option<String>,
    /// The number of their batch: outside of a transaction, into a table that is there.
    pub number: Option<Number>,
    /// What becomes of rows whose keys are there: `error`, `nothing`, `replace`; none: what their table says.
    pub on_conflict: Option<String>,
    /// What rows do that do not say it in a column `_op`: `insert`, `upsert`, `patch`, `delete`.
    pub op: Option<String>,
}

/// Why rows were not complete.
pub(crate) type Broken = Arc<Mutex<Option<Error>>>;

impl Session {
    /// Takes rows into a table as one atomic batch. With `created`, a table that does not exist is created with the batch, with columns
    /// like these. An error of `rows` ends it with nothing applied, and is the error given.
    pub async fn ingest<S>(&self, table: &str, created: Option<SchemaRef>, rows: S) -> Result<Ingested>
    where
        S: Stream<Item = Result<RecordBatch>> + Send + 'static,
    {
        self.ingest_with(table, created, &IngestOptions::default(), rows).await
    }

    /// As [`Session::ingest`], into a table that is there, as the batch of this number: outside of a transaction.
    pub async fn ingest_numbered<S>(&self, table: &str, number: &Number, rows: S) -> Result<Ingested>
    where
        S: Stream<Item = Result<RecordBatch>> + Send + 'static,
    {
        let options = IngestOptions { number: Some(number.clone()), ..IngestOptions::default() };
        self.ingest_with(table, None, &options, rows).await
    }

    /// As [`Session::ingest`], of rows of which more is said.
    pub async fn ingest_with<S>(
        &self,
        table: &str,
        created: Option<SchemaRef>,
        options: &IngestOptions,
        rows: S,
    ) -> Result<Ingested>
    where
        S: Stream<Item = Result<RecordBatch>> + Send + 'static,
    {
        let mut said = HashMap::new();
        let mut say = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                said.insert(name.to_owned(), value);
            }
        };
        let number = options.number.as_ref();
        say("producer", number.map(|number| number.producer.clone()));
        say("producer_epoch", number.map(|number| number.epoch.to_string()));
        say("producer_sequence", number.map(|number| number.sequence.to_string()));
        say("on_conflict", options.on_conflict.clone());
        say("op", options.op.clone());
        self.send((options.schema.clone(), table), said, created, rows).await
    }

    /// The number of the last batch of a producer; `None` if it has none.
    pub async fn last_of(&self, producer: &str) -> Result<Option<Number>> {
        let told = self.act(PRODUCER, Bytes::copy_from_slice(producer.as_bytes())).await?;
        let Some(told) = told.first() else { return Ok(None) };
        let json: Value = serde_json::from_slice(told).map_err(|error| not_understood(&error.to_string()))?;
        match (json["epoch"].as_u64(), json["sequence"].as_u64()) {
            (Some(epoch), Some(sequence)) => Ok(Some(Number { producer: producer.to_owned(), epoch, sequence })),
            _ => Err(not_understood("a producer has no number")),
        }
    }

    async fn send<S>(
        &self,
        (schema, table): (Option<String>, &str),
        options: HashMap<String, String>,
        created: Option<SchemaRef>,
        rows: S,
    ) -> Result<Ingested>
    where
        S: Stream<Item = Result<RecordBatch>> + Send + 'static,
    {
        let missing = if created.is_some() { TableNotExistOption::Create } else { TableNotExistOption::Fail };
        let definition =
            TableDefinitionOptions { if_not_exist: missing as i32, if_exists: TableExistsOption::Append as i32 };
        let command = CommandStatementIngest {
            table_definition_options: Some(definition),
            table: table.to_owned(),
            schema,
            options,
            ..CommandStatementIngest::default()
        };
        let broken = Broken::default();
        let sent = messages(command.as_any(), created, rows, Arc::clone(&broken));
        let answer = self.client.clone().do_put(self.request(sent)).await;
        let failed = |status: &tonic::Status| broken.lock().take().unwrap_or_else(|| self.failed(status));
        let answer = answer.map_err(|status| failed(&status))?;
        let version = answer.metadata().get(VERSION).and_then(|version| version.to_str().ok()?.parse().ok());
        let duplicate = answer.metadata().contains_key(DUPLICATE);
        let counted = answer.into_inner().message().await.map_err(|status| failed(&status))?;
        let counted = counted.and_then(|result| DoPutUpdateResult::decode(result.app_metadata).ok());
        let counted = counted.ok_or_else(|| not_understood("rows were taken, and not counted"))?;
        Ok(Ingested { rows: counted.record_count.max(0) as u64, version, duplicate })
    }
}

/// What is sent: what the rows are for, and then the rows, which begin with their schema if it is known.
pub(crate) fn messages<S>(
    command: Any,
    schema: Option<SchemaRef>,
    rows: S,
    broken: Broken,
) -> impl Stream<Item = FlightData> + Send + 'static
where
    S: Stream<Item = Result<RecordBatch>> + Send + 'static,
{
    let descriptor = FlightDescriptor::new_cmd(command.encode_to_vec());
    let first = FlightData { flight_descriptor: Some(descriptor), ..FlightData::default() };
    let encoding = Encoding { rows: rows.boxed(), announced: schema, schema: None, queue: VecDeque::new(), broken };
    stream::once(future::ready(first)).chain(stream::unfold(Some(encoding), |encoding| async move {
        let mut encoding = encoding?;
        match encoding.next().await {
            Ok(Some(message)) => Some((message, Some(encoding))),
            Ok(None) => None,
            Err(error) => {
                *encoding.broken.lock() = Some(error);
                Some((FlightData { data_header: UNREADABLE.into(), ..FlightData::default() }, None))
            }
        }
    }))
}

struct Encoding {
    rows: BoxStream<'static, Result<RecordBatch>>,
    /// Known before the first row.
    announced: Option<SchemaRef>,
    /// The last one that was sent.
    schema: Option<SchemaRef>,
    queue: VecDeque<FlightData>,
    broken: Broken,
}

impl Encoding {
    async fn next(&mut self) -> Result<Option<FlightData>> {
        if let Some(schema) = self.announced.take() {
            let encoder = FlightDataEncoderBuilder::new().with_schema(Arc::clone(&schema));
            self.queue
                .extend(encoder.build(stream::empty()).try_collect::<Vec<_>>().await.map_err(|error| unsent(&error))?);
            self.schema = Some(schema);
        }
        while self.queue.is_empty() {
            // Of rows that are there already nobody waits for a timer.
            let next = match self.rows.next().now_or_never() {
                Some(next) => next,
                None => match timeout(REST_EVERY, self.rows.next()).await {
                    Ok(next) => next,
                    // A message with nothing in it, which servers pass over.
                    Err(_) => return Ok(Some(FlightData::default())),
                },
            };
            let Some(batch) = next.transpose()? else { return Ok(None) };
            let schema = batch.schema();
            let encoder = FlightDataEncoderBuilder::new().build(stream::iter([Ok(batch)]));
            let mut messages: VecDeque<_> = encoder.try_collect().await.map_err(|error| unsent(&error))?;
            if self.schema.as_ref() == Some(&schema) {
                messages.pop_front();
            }
            self.schema = Some(schema);
            self.queue = messages;
        }
        Ok(self.queue.pop_front())
    }
}

fn unsent(error: &FlightError) -> Error {
    Error::internal(format!("rows cannot be sent: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_types::ErrorKind;
    use arrow::array::{ArrayRef, Int64Array, StringArray};
    use arrow_flight::decode::{DecodedPayload, FlightDataDecoder};

    fn batch(name: &str, column: ArrayRef) -> RecordBatch {
        RecordBatch::try_from_iter([(name, column)]).unwrap()
    }

    fn sent(schema: Option<SchemaRef>, rows: Vec<Result<RecordBatch>>) -> (Vec<FlightData>, Option<Error>) {
        let broken = Broken::default();
        let command = CommandStatementIngest::default().as_any();
        let messages = messages(command, schema, stream::iter(rows), Arc::clone(&broken));
        let all: Vec<FlightData> = messages.collect().now_or_never().unwrap();
        assert!(all[0].flight_descriptor.is_some() && all[0].data_header.is_empty());
        let error = broken.lock().take();
        (all[1..].to_vec(), error)
    }

    fn decoded(messages: Vec<FlightData>) -> Result<Vec<String>, FlightError> {
        let decoder = FlightDataDecoder::new(stream::iter(messages.into_iter().map(Ok)));
        let shown = decoder.map_ok(|message| match message.payload {
            DecodedPayload::Schema(schema) => format!("schema {}", schema.field(0).name()),
            DecodedPayload::RecordBatch(batch) => format!("{} rows", batch.num_rows()),
            DecodedPayload::None => "nothing".to_owned(),
        });
        shown.try_collect().now_or_never().unwrap()
    }

    #[test]
    fn a_schema_comes_before_the_first_rows_that_have_it_and_not_again() {
        let numbers = || Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef;
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
        let rows = vec![Ok(batch("a", numbers())), Ok(batch("a", numbers())), Ok(batch("b", texts))];
        let expected = ["schema a", "2 rows", "2 rows", "schema b", "1 rows"];
        let (messages, error) = sent(None, rows.clone());
        assert_eq!((decoded(messages).unwrap(), error.is_none()), (expected.map(str::to_owned).to_vec(), true));
        let announced = Some(batch("a", numbers()).schema());
        assert_eq!(decoded(sent(announced.clone(), rows).0).unwrap(), expected);
        // Without rows there is only what is known of them.
        assert_eq!(decoded(sent(announced, Vec::new()).0).unwrap(), ["schema a"]);
        assert!(sent(None, Vec::new()).0.is_empty());
    }

    #[test]
    fn rows_that_break_are_not_merely_ended() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let fails = Err(Error::new(ErrorKind::Cancelled, "the program stopped"));
        let (messages, error) = sent(None, vec![Ok(batch("a", numbers)), fails]);
        assert_eq!(error.unwrap().message(), "the program stopped");
        assert_eq!(messages.len(), 3);
        assert!(decoded(messages).is_err());
    }
}
