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
use parking_lot::Mutex;
use prost::Message;
use std::collections::HashMap;

/// Statements that are kept, and the longest text of one.
const KEPT_MAX: usize = 64;
const KEPT_BYTES_MAX: usize = 64 << 10;
/// Actions of Flight SQL.
const CREATE: &str = "CreatePreparedStatement";
const FORGET: &str = "ClosePreparedStatement";

/// The prepared statements of a session.
#[derive(Default)]
pub(crate) struct Prepared {
    turn: tokio::sync::Mutex<()>,
    /// The server's handles, by text.
    kept: Mutex<HashMap<String, Bytes>>,
}

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

impl Prepared {
    /// Keeps a handle; gives one that had to make room.
    fn keep(&self, sql: &str, handle: Bytes) -> Option<Bytes> {
        let mut kept = self.kept.lock();
        let evicted = match kept.len() < KEPT_MAX {
            true => None,
            false => kept.keys().next().cloned().and_then(|any| kept.remove(&any)),
        };
        kept.insert(sql.to_owned(), handle);
        evicted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_are_kept_and_the_rest_are_given_up() {
        let prepared = Prepared::default();
        let handles: Vec<Bytes> = (0..KEPT_MAX + 10).map(|at| at.to_string().into()).collect();
        let evicted = handles.iter().filter_map(|handle| prepared.keep(&format!("SELECT {handle:?}"), handle.clone()));
        assert_eq!(evicted.count(), 10);
        assert_eq!(prepared.kept.lock().len(), KEPT_MAX);
    }
}
