//! Sending answers: the rows of a statement on their way to a client.
//!
//! Invariants:
//! - An answer is not held whole: a batch is made when the client has taken what was made before it. A client that takes nothing for
//!   `transfer_timeout` has lost its answer.
//! - What a statement used, and notices, come with the last message, a batch without rows, as JSON in `app_metadata`.

use crate::answer::{AnswerSource, PendingAnswer, ending};
use crate::caller::Caller;
use crate::failure::{of_flight, status};
use crate::messages::{Messages, one_batch};
use crate::plain_types::plain_batches;
use crate::shared::Shared;
use alluvia_access::{Stopping, gone, reached};
use alluvia_query::{Outcome, from_datafusion};
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow_flight::FlightData;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use bytes::Bytes;
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

/// Messages that wait for the client.
const WAITING: usize = 2;

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
    pub(crate) fn begin(self, answer: PendingAnswer) -> Messages<FlightData> {
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

    async fn all(&self, answer: PendingAnswer, send: &mpsc::Sender<FlightData>) -> Result<()> {
        let PendingAnswer { mut source, schema } = answer;
        match &mut source {
            AnswerSource::Rows(outcome) => self.rows(outcome, &schema, send).await?,
            AnswerSource::Refined(refined) => {
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
            message.app_metadata = ending(source.outcome()).to_string().into();
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
