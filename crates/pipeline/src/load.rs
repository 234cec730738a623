//! Staged loads: a large batch becomes synced segments before it has a version.
//!
//! Rows are gathered into runs; a full run is sorted and written by a worker while the next one fills. At most
//! `workers.width() + 1` runs are in memory. A row's ordinal is (segment id, position), which is unique for ever without
//! any agreement between the workers.
//!
//! Invariant: the runs of a load that is abandoned end soon. Between its steps, none of which is longer than a run's sort or its writing, a
//! job asks whether its load still is.

use crate::chunk::{Sorted, fixed, staged_chunk};
use crate::pipeline::Pipeline;
use crate::sort::write_sorted;
use crate::workers::Answer;
use alluvia_snapshot::{Load, RowChange, Space, StagedLoad, Staging, own_bytes};
use alluvia_space::{KeyLayout, ORDINAL_COLUMN, TableDef, VERSION_COLUMN};
use alluvia_tree::{LadderWriter, SegmentMeta};
use alluvia_types::{Error, ErrorKind, Result, SegmentId, Stage, TableId, Version};
use arrow::array::{ArrayRef, RecordBatchOptions, UInt64Array, new_null_array};
use arrow::compute::{SortColumn, concat_batches, lexsort_to_indices, take_record_batch};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::RecordBatch;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Stages one large batch of one table.
#[derive(Debug)]
pub struct Loader {
    pipeline: Arc<Pipeline>,
    def: Arc<TableDef>,
    checked_at: Version,
    space: Arc<Space>,
    run: Vec<RecordBatch>,
    run_rows: usize,
    run_bytes: usize,
    in_flight: usize,
    results: (Sender<Result<SegmentMeta>>, Receiver<Result<SegmentMeta>>),
    written: Vec<SegmentMeta>,
    /// Nobody wants what its jobs make any more.
    abandoned: Arc<AtomicBool>,
    finished: bool,
    staging: Staging,
    identities: Identities,
}

/// A run's bytes are looked at after each of so many pieces of it.
const PIECES_OF_A_RUN: usize = 8;

/// Where the versions and ordinals of a load's rows are from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Identities {
    /// Rows have none yet: the version of their batch, and ordinals that are made here.
    New,
    /// Rows come with those that they have elsewhere.
    Given,
}

impl Loader {
    /// Starts a load. The table need not exist yet: the batch may create it.
    pub fn begin(pipeline: Arc<Pipeline>, def: Arc<TableDef>, checked_at: Version) -> Result<Loader> {
        Loader::of(pipeline, def, checked_at, Identities::New)
    }

    /// Starts a copy of a table that is elsewhere, and not here: its rows come with `_version` and `_ordinal`, and keep them. All versions are
    /// below that of the batch that has the load.
    pub fn begin_copy(pipeline: Arc<Pipeline>, def: Arc<TableDef>) -> Result<Loader> {
        Loader::of(pipeline, def, Version(0), Identities::Given)
    }

    fn of(pipeline: Arc<Pipeline>, def: Arc<TableDef>, checked_at: Version, identities: Identities) -> Result<Loader> {
        pipeline.abandoned.lock().remove(&def.id);
        let space = pipeline.views.spaces().get(&def)?;
        let (staging, told) = Staging::begin();
        let mut loading = pipeline.loading.lock();
        loading.retain(|(_, load)| load.strong_count() > 0);
        loading.push((def.id, told));
        drop(loading);
        Ok(Loader {
            pipeline,
            def,
            checked_at,
            space,
            run: Vec::new(),
            run_rows: 0,
            run_bytes: 0,
            in_flight: 0,
            results: channel(),
            written: Vec::new(),
            abandoned: Arc::default(),
            finished: false,
            staging,
            identities,
        })
    }

    fn write_run(&mut self) -> Result<()> {
        if self.run_rows == 0 {
            return Ok(());
        }
        while self.in_flight > self.pipeline.workers.width() {
            self.collect_one()?;
        }
        let rows = std::mem::take(&mut self.run);
        (self.run_rows, self.run_bytes) = (0, 0);
        let def = Arc::new(fixed(&self.def, &self.space, &rows));
        let (pipeline, space) = (Arc::clone(&self.pipeline), Arc::clone(&self.space));
        let (id, answer) = (self.pipeline.new_segment(), Answer::new(self.results.0.clone()));
        let (abandoned, identities) = (Arc::clone(&self.abandoned), self.identities);
        self.in_flight += 1;
        let job = move || answer.send(write_run(&pipeline, id, &def, &space, rows, identities, &abandoned));
        self.pipeline.workers.spawn(Box::new(job));
        Ok(())
    }

    /// Waits for a job to end, however it does.
    fn collect_one(&mut self) -> Result<()> {
        let result = self.results.1.recv().expect("the loader holds a sender itself");
        self.in_flight -= 1;
        self.written.push(result?);
        Ok(())
    }
}

impl Load for Loader {
    fn append(&mut self, rows: RecordBatch) -> Result<()> {
        // A run has at most a piece more than it may.
        let piece_bytes = (self.pipeline.options.run_bytes / PIECES_OF_A_RUN).max(1);
        let piece_rows = rows.num_rows().div_ceil(own_bytes(&rows).div_ceil(piece_bytes).max(1)).max(1);
        let mut rest = rows;
        while rest.num_rows() > 0 {
            let room = self.pipeline.options.segment_rows - self.run_rows;
            let taken = rest.slice(0, rest.num_rows().min(room).min(piece_rows));
            rest = rest.slice(taken.num_rows(), rest.num_rows() - taken.num_rows());
            self.run_rows += taken.num_rows();
            self.run_bytes += own_bytes(&taken);
            self.run.push(taken);
            if self.run_rows == self.pipeline.options.segment_rows || self.run_bytes > self.pipeline.options.run_bytes {
                self.write_run()?;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<StagedLoad> {
        self.write_run()?;
        while self.in_flight > 0 {
            self.collect_one()?;
        }
        let dictionary = self.space.dictionaries.persist()?;
        // A load without rows fixes nothing: ranges are learnt from rows.
        let ranges = self.space.ranges().map(<[_]>::to_vec).unwrap_or_default();
        self.finished = true;
        let mut segments = std::mem::take(&mut self.written);
        segments.sort_by_key(|meta| meta.id);
        let rows = segments.iter().map(|meta| meta.rows).sum();
        let (table, checked_at, change) = (self.def.id, self.checked_at, RowChange::of_table(&self.def));
        let staging = self.staging.clone();
        Ok(StagedLoad { table, checked_at, segments, dictionary, ranges, rows, change, staging })
    }
}

impl Drop for Loader {
    /// An abandoned load removes what it staged (P4).
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        self.abandoned.store(true, Ordering::Relaxed);
        while self.in_flight > 0 {
            // What failed has left nothing, and whoever drops a load has been told, or does not ask.
            let _ = self.collect_one();
        }
        discard_of(&self.pipeline, self.def.id, &self.written);
    }
}

/// Removes what was staged and no log record names, nor will (P4).
pub fn discard(pipeline: &Pipeline, loads: &[StagedLoad]) {
    loads.iter().for_each(|load| discard_of(pipeline, load.table, &load.segments));
}

fn discard_of(pipeline: &Pipeline, table: TableId, segments: &[SegmentMeta]) {
    segments.iter().for_each(|meta| pipeline.tree().remove_files(meta));
    pipeline.abandoned.lock().insert(table);
}

fn write_run(
    pipeline: &Pipeline,
    id: SegmentId,
    def: &TableDef,
    space: &Space,
    rows: Vec<RecordBatch>,
    identities: Identities,
    abandoned: &AtomicBool,
) -> Result<SegmentMeta> {
    let asked = || if abandoned.load(Ordering::Relaxed) { Err(given_up()) } else { Ok(()) };
    asked()?;
    let with_identity = match identities {
        Identities::New => with_new_identities(id, rows)?,
        Identities::Given => in_order(&rows)?,
    };
    let tree = pipeline.tree();
    let sorted = staged_chunk(tree, def, space, &with_identity, &|| pipeline.views.unsorted_bytes())?;
    drop(with_identity);
    asked()?;
    let version = match identities {
        Identities::New => Some(Version(0)),
        Identities::Given => None,
    };
    if KeyLayout::new(def).is_ordered() {
        return write_sorted(tree, id, def, version, sorted);
    }
    // A large segment without an order of its own is never rewritten: it becomes a merged one as it is, so it has its ladder
    // from the start.
    let mut own = Some(id);
    let new_id = || own.take().unwrap_or_else(|| pipeline.new_segment());
    let (rows, rung_rows_min) = (sorted.chunk(def).0.len() as u64, pipeline.options.rung_rows_min);
    let mut writer = LadderWriter::create(tree, new_id, def, Stage::Sorted, version, rows, rung_rows_min)?;
    match sorted {
        Sorted::Rows(chunk) => {
            writer.write(&chunk)?;
            writer.finish()
        }
        Sorted::Wide(rows) => rows.write(tree, writer),
    }
}

/// Rows in the order of their identities, as rows of the tail are.
fn in_order(rows: &[RecordBatch]) -> Result<Vec<RecordBatch>> {
    let Some(first) = rows.first() else { return Ok(Vec::new()) };
    let joined = concat_batches(first.schema_ref(), rows).map_err(crate::chunk::internal)?;
    let column = |name: &str| -> Result<SortColumn> {
        let column = joined.column_by_name(name).cloned();
        let values = column.ok_or_else(|| Error::internal(format!("rows that are copied have no {name}")))?;
        Ok(SortColumn { values, options: None })
    };
    let order = lexsort_to_indices(&[column(VERSION_COLUMN)?, column(ORDINAL_COLUMN)?], None);
    let ordered = order.and_then(|order| take_record_batch(&joined, &order));
    Ok(vec![ordered.map_err(crate::chunk::internal)?])
}

/// Rows with the hidden columns: no version yet, and ordinals that no other row has.
fn with_new_identities(id: SegmentId, rows: Vec<RecordBatch>) -> Result<Vec<RecordBatch>> {
    let mut with_identity = Vec::with_capacity(rows.len());
    let mut position = id.0 << 32;
    for batch in rows {
        let count = batch.num_rows();
        let mut fields = batch.schema().fields().to_vec();
        fields.push(Arc::new(Field::new(VERSION_COLUMN, DataType::UInt64, true)));
        fields.push(Arc::new(Field::new(ORDINAL_COLUMN, DataType::UInt64, false)));
        let mut columns = batch.columns().to_vec();
        columns.push(new_null_array(&DataType::UInt64, count));
        columns.push(Arc::new(UInt64Array::from_iter_values(position..position + count as u64)) as ArrayRef);
        position += count as u64;
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options);
        with_identity.push(batch.map_err(crate::chunk::internal)?);
    }
    Ok(with_identity)
}

/// Why a job of an abandoned load made nothing. Nobody is told.
fn given_up() -> Error {
    Error::new(ErrorKind::Cancelled, "the load was abandoned")
}
