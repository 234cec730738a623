//! Statements with parameters: prepared once at the server, and kept there while they are asked for.
//!
//! Invariants:
//! - Values and the call that runs with them are two calls; statements with parameters of one session take turns, so that none runs with
//!   another's.
//! - What is kept at the server is bounded, and less than it keeps.

use crate::answer::Answer;
use crate::failure::not_understood;
use crate::ingest::{Broken, messages};
use crate::session::{Begun, Bounds, Session};
use alluvia_types::{ErrorKind, Result};
use arrow::array::RecordBatch;
use arrow_flight::sql::{
    ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult,
    Any, CommandPreparedStatementQuery, ProstMessageExt,
};
use bytes::Bytes;
use futures::stream;
use prost::Message;

/// The longest text of a statement that is kept.
const KEPT_BYTES_MAX: usize = 64 << 10;
/// Actions of Flight SQL.
const CREATE: &str = "CreatePreparedStatement";
const FORGET: &str = "ClosePreparedStatement";

impl Session {
    /// Runs one statement with the values of one row: column i has that of parameter $i+1.
    pub async fn execute_with(&self, sql: &str, values: &RecordBatch) -> Result<Answer> {
        self.begin_with(sql, values, Bounds::Columns).await?.answer()
    }

    pub(crate) async fn begin_with(&self, sql: &str, values: &RecordBatch, bounds: Bounds) -> Result<Begun> {
        let _turn = self.prepared.turn.lock().await;
        let kept = self.prepared.kept.lock().get(sql).cloned();
        if let Some(handle) = kept {
            match self.run_with(&handle, values, bounds).await {
                // The server has forgotten it, and nothing has run.
                Err(error) if error.kind() == ErrorKind::UndefinedStatement => {
                    self.prepared.kept.lock().remove(sql);
                }
                answered => return answered,
            }
        }
        let handle = self.prepare(sql).await?;
        let answered = self.run_with(&handle, values, bounds).await;
        if answered.is_ok() && sql.len() <= KEPT_BYTES_MAX {
            let evicted = self.prepared.keep(sql, handle);
            if let Some(evicted) = evicted {
                self.forget(evicted).await;
            }
        } else {
            self.forget(handle).await;
        }
        answered
    }

    async fn run_with(&self, handle: &Bytes, values: &RecordBatch, bounds: Bounds) -> Result<Begun> {
        let query = CommandPreparedStatementQuery { prepared_statement_handle: handle.clone() }.as_any();
        let rows = stream::iter([Ok(values.clone())]);
        let sent = messages(query.clone(), None, rows, Broken::default());
        let bound = self.client.clone().do_put(self.request(sent)).await;
        let mut bound = bound.map_err(|status| self.failed(&status))?.into_inner();
        while bound.message().await.map_err(|status| self.failed(&status))?.is_some() {}
        self.begin_command(query, bounds).await
    }

    async fn prepare(&self, sql: &str) -> Result<Bytes> {
        let asked = ActionCreatePreparedStatementRequest { query: sql.to_owned(), transaction_id: None };
        let results = self.act(CREATE, asked.as_any().encode_to_vec().into()).await?;
        let made = results.first().and_then(|body| Any::decode(body.clone()).ok());
        let made = made.and_then(|any| any.unpack::<ActionCreatePreparedStatementResult>().ok().flatten());
        let made = made.ok_or_else(|| not_understood("a prepared statement has no handle"))?;
        Ok(made.prepared_statement_handle)
    }

    /// The server need not keep it any more; where it does all the same, it does so for as long as the session.
    async fn forget(&self, handle: Bytes) {
        let asked = ActionClosePreparedStatementRequest { prepared_statement_handle: handle };
        let _ = self.act(FORGET, asked.as_any().encode_to_vec().into()).await;
    }
}
