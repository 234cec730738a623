//! Small batches of many sessions, staged and decided as one: what one fsync of a log is for many batches in one process.
//!
//! Sessions that write to a table while a batch of others is under way wait for it, and then go together: one of them leads, has the rows of
//! all staged and decided as one batch, and hands the lead on. So a batch has as many rows as came while the one before it was under way.
//!
//! Invariants:
//! - Only rows go together that ask for nothing but to come: no keys, no changes of definitions, no producer's number and no client's key.
//! - What refuses them together refuses nobody: each is sent alone then. Where nobody knows what became of them, all are told so.
//! - A session leads for one batch at most, its own rows among them.

use super::session::Gateway;
use alluvia_snapshot::{Committed, NewBatch, NewRows, RowChange, own_bytes};
use alluvia_types::{Error, ErrorKind, Result, TableId, Version};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// Rows of a batch that may go together with others, at most, and their bytes; larger ones gain nothing.
const ROWS_MAX: usize = 256;
const BYTES_MAX: usize = 64 << 10;
/// Batches that go together, at most: so they have 64 MiB, which is well below what a message may have.
const BATCHES_MAX: usize = 1024;
/// Where a shard was not reached, batches of its table go alone for so long: those of its other shards need not wait.
const APART: Duration = Duration::from_secs(10);

/// What a session that waits is told.
enum Told {
    /// Its rows are committed, or nobody knows.
    Done(Result<Committed>),
    /// It leads the next batch.
    Lead,
    /// It goes alone.
    Alone,
}

struct Waiting {
    rows: Vec<NewRows>,
    told: Sender<Told>,
}

#[derive(Default)]
struct OfTable {
    waiting: Vec<Waiting>,
    is_led: bool,
    /// Batches go alone until then.
    apart_until: Duration,
}

/// Who waits, by table and by the definition that rows were checked against.
#[derive(Default)]
pub(super) struct Together(Mutex<HashMap<(TableId, Version), OfTable>>);

impl std::fmt::Debug for Together {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Together").field("tables", &self.0.lock().len()).finish()
    }
}

impl Gateway {
    /// The table whose rows a batch has, if it may go together with others.
    pub(super) fn goes_together(&self, batch: &NewBatch) -> Option<(TableId, Version)> {
        let NewBatch { changes, rows, loads, producer, key, unwritten, heeds: _ } = batch;
        let is_plain = changes.is_empty() && loads.is_empty() && unwritten.is_empty();
        let first = rows.first()?;
        let (table, checked_at) = (first.table, first.checked_at);
        let is_insert = |rows: &NewRows| {
            let is_of_table = (rows.table, rows.checked_at) == (table, checked_at);
            is_of_table && rows.change == RowChange::Insert && rows.computed_at.is_none() && rows.ordinals.is_none()
        };
        let batches = || rows.iter().flat_map(|rows| &rows.batches);
        let count: usize = batches().map(|batch| batch.num_rows()).sum();
        let is_small = || batches().map(own_bytes).sum::<usize>() <= BYTES_MAX;
        let has_key = || self.image().catalog.by_id(table).is_none_or(|entry| entry.def.key.is_some());
        let may = is_plain && producer.is_none() && key.is_none() && (1..=ROWS_MAX).contains(&count);
        (may && rows.iter().all(is_insert) && is_small() && !has_key()).then_some((table, checked_at))
    }

    /// Commits rows together with those of others that come at the same time.
    pub(super) fn submit_together(&self, of: (TableId, Version), batch: NewBatch) -> Result<Committed> {
        let (told, answer) = channel();
        let rows = batch.rows.clone();
        let mut tables = self.together.0.lock();
        // Those of older definitions, and of tables that nobody writes, go.
        let now = self.clock.monotonic();
        tables.retain(|_, table| table.is_led || table.apart_until > now);
        let table = tables.entry(of).or_default();
        if table.apart_until > now {
            drop(tables);
            return self.submit_alone(batch).0;
        }
        table.waiting.push(Waiting { rows, told });
        let mut leads = !std::mem::replace(&mut table.is_led, true);
        drop(tables);
        loop {
            if leads {
                self.lead(of);
            }
            match answer.recv() {
                Ok(Told::Done(committed)) => return committed,
                Ok(Told::Lead) => leads = true,
                Ok(Told::Alone) => return self.submit_alone(batch).0,
                Err(_) => return Err(Error::internal("rows that were to be committed with others were forgotten")),
            }
        }
    }

    /// Has the rows of all who wait committed as one batch, and hands the lead on.
    fn lead(&self, of: (TableId, Version)) {
        let taken = {
            let mut tables = self.together.0.lock();
            let waiting = tables.get_mut(&of).map(|table| &mut table.waiting);
            waiting.map_or_else(Vec::new, |waiting| waiting.drain(..waiting.len().min(BATCHES_MAX)).collect::<Vec<_>>())
        };
        let rows = taken.iter().flat_map(|waiting| waiting.rows.iter().cloned()).collect();
        let (committed, is_known) = self.submit_alone(NewBatch { rows, ..NewBatch::default() });
        let is_alone = taken.len() == 1;
        let is_apart = committed.as_ref().is_err_and(|error| error.kind() == ErrorKind::Busy);
        for waiting in taken {
            let told = match &committed {
                Err(_) if is_known && !is_alone => Told::Alone,
                committed => Told::Done(committed.clone()),
            };
            // Whoever waits is there until it is told.
            let _ = waiting.told.send(told);
        }
        let mut tables = self.together.0.lock();
        let Some(table) = tables.get_mut(&of) else { return };
        table.apart_until = if is_apart { self.clock.monotonic() + APART } else { Duration::ZERO };
        table.is_led = table.waiting.first().is_some_and(|next| next.told.send(Told::Lead).is_ok());
    }
}
