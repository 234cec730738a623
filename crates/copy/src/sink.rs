//! Rows on their way into a batch: few travel in the log, many are staged as segments.
//!
//! Invariants:
//! - Memory holds at most `inline_bytes_max` of rows, and what staging holds.
//! - A sink that is dropped before it is committed leaves nothing: its staged segments are removed with it. So do the rows of a finished
//!   one, until a batch has taken them: whoever waits for the end of staging may be gone when it comes.

use alluvia_snapshot::{Ingest, Load, NewBatch, NewRows, RowChange, StagedLoad};
use alluvia_space::TableDef;
use alluvia_types::{Error, ErrorKind, Result, Version};
use alluvia_values::compact::compact;
use alluvia_values::widths::written_bytes;
use arrow::array::RecordBatch;
use std::sync::Arc;

/// What a COPY keeps in memory before it stages: below this, a log record is cheaper than a segment.
pub const INLINE_BYTES_MAX: usize = 8 << 20;

/// Takes the rows of one table for one batch.
pub struct Sink {
    ingest: Arc<dyn Ingest>,
    table: Arc<TableDef>,
    checked_at: Version,
    /// What the rows do to those that are there.
    change: RowChange,
    inline_bytes_max: usize,
    held: Vec<RecordBatch>,
    held_bytes: usize,
    load: Option<Box<dyn Load>>,
}

/// The rows of a finished sink.
#[derive(Debug)]
pub enum SinkRows {
    /// There were none.
    Nothing,
    /// For the log.
    Inline(NewRows),
    /// Already in synced segments.
    Staged(Staged),
}

/// Segments that no batch names yet.
#[derive(Debug)]
pub struct Staged {
    ingest: Arc<dyn Ingest>,
    /// `None` once a batch has taken them.
    load: Option<StagedLoad>,
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Some(load) = self.load.take() {
            self.ingest.discard(NewBatch { loads: vec![load], ..NewBatch::default() });
        }
    }
}

impl Sink {
    /// Empty. `checked_at` as in [`NewRows::checked_at`].
    pub fn new(ingest: Arc<dyn Ingest>, table: Arc<TableDef>, checked_at: Version, inline_bytes_max: usize) -> Sink {
        let change = RowChange::of_table(&table);
        Sink { ingest, table, checked_at, change, inline_bytes_max, held: Vec::new(), held_bytes: 0, load: None }
    }

    /// Of rows that do this to those that are there, and not what their table says.
    pub fn changing(self, change: RowChange) -> Sink {
        Sink { change, ..self }
    }

    /// The rows that it holds, which go on in another way.
    ///
    /// # Errors
    /// `OutOfMemory` if there were too many to be held: they are staged.
    pub fn take_held(&mut self) -> Result<Vec<RecordBatch>> {
        if self.load.is_some() {
            let message = "rows that say in _op what they do come after many that do not";
            return Err(Error::new(ErrorKind::OutOfMemory, message)
                .with_hint("send them in batches of their own, or say in _op what the others do"));
        }
        self.held_bytes = 0;
        Ok(std::mem::take(&mut self.held))
    }

    /// Adds rows in the table's storage schema, text as plain or dictionary. Blocks while segments are written.
    pub fn append(&mut self, rows: RecordBatch) -> Result<()> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        if let Some(load) = &mut self.load {
            return load.append(rows);
        }
        // What a batch in the log holds is written out, whatever rows share here.
        let written = usize::try_from(written_bytes(&rows)).unwrap_or(usize::MAX);
        self.held_bytes = self.held_bytes.saturating_add(rows.get_array_memory_size().max(written));
        self.held.push(rows);
        if self.held_bytes > self.inline_bytes_max {
            let mut load = self.ingest.begin_load(&self.table, self.checked_at)?;
            self.held_bytes = 0;
            for rows in self.held.drain(..) {
                load.append(rows)?;
            }
            self.load = Some(load);
        }
        Ok(())
    }

    /// Syncs what is staged. Blocks.
    pub fn finish(self) -> Result<SinkRows> {
        if let Some(load) = self.load {
            let load = StagedLoad { change: self.change, ..load.finish()? };
            return Ok(SinkRows::Staged(Staged { ingest: self.ingest, load: Some(load) }));
        }
        if self.held.is_empty() {
            return Ok(SinkRows::Nothing);
        }
        let batches = self.held.iter().map(compact).collect::<Result<Vec<RecordBatch>>>()?;
        let rows = NewRows::insert(self.table.id, self.checked_at, batches);
        Ok(SinkRows::Inline(NewRows { change: self.change, ..rows }))
    }
}

impl SinkRows {
    /// Puts the rows into a batch.
    pub fn add_to(self, batch: &mut NewBatch) {
        match self {
            SinkRows::Nothing => {}
            SinkRows::Inline(rows) => batch.rows.push(rows),
            SinkRows::Staged(mut staged) => batch.loads.extend(staged.load.take()),
        }
    }
}
