//! The k-way merge itself: streams chunks of the inputs, in key order, into one segment and its ladder.
//!
//! Memory is one chunk per input and one for the output, whatever their sizes and whatever is dead; of wide rows these have only what decides
//! their order ([`super::budget`], [`crate::wide`]); and 40 bytes for each row where moves are noted. Rows of equal keys keep the
//! order of the inputs, oldest first, so a table without an order keeps that of arrival. Segments of tables with dimensions
//! are banded, unless a block of texts does not fit in memory: rows are gathered in key order, and brought into bands before they are moved.

use super::budget::{Shape, shape_of};
use super::plan::Run;
use crate::chunk::internal;
use crate::handover::codes_of;
use crate::options::PipelineOptions;
use crate::wide::{coded, places};
use alluvia_keys::RowPlace;
use alluvia_snapshot::{Space, TableKills};
use alluvia_space::key_code::KeyCode;
use alluvia_space::weight::weight;
use alluvia_space::{LevelCodes, ORDINAL_COLUMN, TableDef, VERSION_COLUMN};
use alluvia_tree::{
    BLOCK_ROWS, Dead, LadderWriter, OrderedChunk, RowChunk, Segment, SegmentCursor, SegmentMeta, SegmentValues,
    TreeContext, WideWriter, by_band,
};
use alluvia_types::{Error, Result, SegmentId, Stage, Version};
use arrow::array::{Array, AsArray, UInt64Array};
use arrow::compute::interleave;
use arrow::datatypes::UInt64Type;
use arrow::record_batch::RecordBatch;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

/// Rows of the inputs that are dead.
#[derive(Debug)]
pub(super) struct DeadInputs {
    pub(super) kills: TableKills,
    /// What was killed by then is dead for everybody, and left out.
    pub(super) horizon: Version,
}

/// Whether all rows of a segment are dead for everybody.
pub(super) fn is_all_dead(segment: &Segment, dead: &Dead, horizon: Version) -> bool {
    let rows = segment.meta().rows;
    dead.rows() == rows && dead.rows_by(horizon) == rows
}

/// What a merge has made.
#[derive(Debug)]
pub(super) struct Merged {
    /// `None` if all rows were dead.
    pub(super) segment: Option<Arc<Segment>>,
    /// Where its rows were, in its order; empty where that is not noted.
    pub(super) from: Vec<RowPlace>,
    /// The codes of their keys, of a table with a key.
    pub(super) codes: Vec<KeyCode>,
    /// Rows that were left out.
    pub(super) gone: u64,
}

/// One input: its current chunk, the next row in it, and what follows.
struct Input {
    cursor: SegmentCursor,
    segment: SegmentId,
    /// Its dead rows, where they are left out.
    dead: Option<Arc<Dead>>,
    /// Index into the output's list of open chunks.
    chunk: usize,
    next: usize,
}

/// Chunks that rows of the output are taken from, and the rows taken so far.
struct Gather {
    chunks: Vec<Arc<OrderedChunk>>,
    /// The segment of each chunk.
    segments: Vec<SegmentId>,
    /// Chunk, and place in it.
    rows: Vec<(usize, usize)>,
    chunk_rows: usize,
    /// The seed of weights, of a banded output.
    seed: Option<u64>,
    /// Whether it is told where the rows were.
    is_noted: bool,
}

/// Merges runs into one segment with its ladder, whose ids `new_id` gives.
pub(super) fn merge_runs(
    tree: &TreeContext,
    new_id: impl FnMut() -> SegmentId,
    def: &TableDef,
    space: &Space,
    runs: &[Run],
    options: &PipelineOptions,
    dead: Option<&DeadInputs>,
) -> Result<Merged> {
    let horizon = dead.map_or(Version(0), |dead| dead.horizon);
    // What has only dead rows is not read.
    let dead_of = |run: &Run| dead.and_then(|dead| dead.kills.of(run.segment.meta().id)).cloned();
    let is_read = |run: &&Run| !dead_of(run).is_some_and(|dead| is_all_dead(&run.segment, &dead, horizon));
    let (runs, unread): (Vec<&Run>, Vec<&Run>) = runs.iter().partition(is_read);
    let mut gone = rows_of(&unread);
    if runs.is_empty() {
        return Ok(Merged { segment: None, from: Vec::new(), codes: Vec::new(), gone });
    }
    let Shape { def: read, chunk_rows, values } = shape_of(tree, &runs, def, options)?;
    let can_be_banded = values.as_ref().is_none_or(|values| WideWriter::can_be_banded(tree, values));
    let is_banded = can_be_banded && !def.dimensions.is_empty();
    let rows = rows_of(&runs);
    let mut writer = LadderWriter::create(tree, new_id, def, Stage::Merged, None, rows, options.rung_rows_min)?;
    if is_banded {
        writer = writer.banded();
    }
    let seed = is_banded.then_some(def.seed);
    let is_wide = values.is_some();
    let mut writer = Writer::new(tree, writer, values, def, space, &runs)?;
    let mut notes = Notes { def: &read, is_noted: dead.is_some(), from: Vec::new(), codes: Vec::new(), written: 0 };
    let rows = Vec::with_capacity(chunk_rows);
    let is_noted = dead.is_some() || is_wide;
    let mut gather = Gather { chunks: Vec::new(), segments: Vec::new(), rows, chunk_rows, seed, is_noted };
    let mut inputs: Vec<Input> = Vec::with_capacity(runs.len());
    // Smallest key first; among equal keys the older input.
    let mut heap: BinaryHeap<Reverse<(u128, usize)>> = BinaryHeap::with_capacity(runs.len());
    for run in runs {
        let mut cursor = SegmentCursor::new(&run.segment, &read, &space.dictionaries, run.rows.clone(), chunk_rows)?;
        let segment = run.segment.meta().id;
        let dead = dead_of(run);
        if let Some(chunk) = next_of(&mut cursor, dead.as_ref(), horizon, &mut gone)? {
            heap.push(Reverse((chunk.key(0), inputs.len())));
            inputs.push(Input { cursor, segment, dead, chunk: gather.chunks.len(), next: 0 });
            gather.push(segment, chunk);
        }
    }
    while let Some(Reverse((_, at))) = heap.pop() {
        // The winner keeps going while it is not above the next best: runs of one input cost no heap work.
        let bound = heap.peek().map(|&Reverse(best)| best);
        loop {
            let input = &mut inputs[at];
            let chunk = Arc::clone(&gather.chunks[input.chunk]);
            let mut row = input.next;
            while row < chunk.len() && gather.rows.len() < gather.chunk_rows {
                let place = chunk.place(row);
                if bound.is_some_and(|bound| (chunk.rows().keys[place], at) > bound) {
                    break;
                }
                gather.rows.push((input.chunk, place));
                row += 1;
            }
            input.next = row;
            if gather.rows.len() == gather.chunk_rows {
                notes.write(&mut writer, gather.take()?)?;
                gather.forget_finished(&mut inputs);
                continue;
            }
            if row < chunk.len() {
                heap.push(Reverse((chunk.key(row), at)));
                break;
            }
            match next_of(&mut input.cursor, input.dead.as_ref(), horizon, &mut gone)? {
                Some(next) => {
                    input.chunk = gather.chunks.len();
                    input.next = 0;
                    gather.push(input.segment, next);
                }
                None => break,
            }
        }
    }
    if !gather.rows.is_empty() {
        notes.write(&mut writer, gather.take()?)?;
    }
    let Notes { from, codes, written, .. } = notes;
    if written == 0 {
        return Ok(Merged { segment: None, from, codes, gone });
    }
    let segment = Some(Segment::open_written(tree, writer.finish()?)?);
    Ok(Merged { segment, from, codes, gone })
}

fn rows_of(runs: &[&Run]) -> u64 {
    runs.iter().map(|run| run.rows.end - run.rows.start).sum()
}

/// Where the rows go.
enum Writer {
    Rows(Box<LadderWriter>),
    /// With the inputs by their ids.
    Wide(Box<WideWriter>, HashMap<SegmentId, u32>),
}

impl Writer {
    fn new(
        tree: &TreeContext,
        ladder: LadderWriter,
        values: Option<SegmentValues>,
        def: &TableDef,
        space: &Space,
        runs: &[&Run],
    ) -> Result<Writer> {
        let Some(values) = values else { return Ok(Writer::Rows(Box::new(ladder))) };
        let inputs = runs.iter().map(|run| run.segment.meta().id).zip(0..).collect();
        let writer = WideWriter::new(tree, ladder, Box::new(values), coded(def, space, None)?);
        Ok(Writer::Wide(Box::new(writer), inputs))
    }

    fn write(&mut self, chunk: &RowChunk, from: &[RowPlace]) -> Result<()> {
        match self {
            Writer::Rows(writer) => writer.write(chunk),
            Writer::Wide(writer, inputs) => writer.write(chunk, &places(inputs, from)?),
        }
    }

    fn finish(self) -> Result<SegmentMeta> {
        match self {
            Writer::Rows(writer) => writer.finish(),
            Writer::Wide(writer, _) => writer.finish(),
        }
    }
}

/// What is noted of rows on their way out.
struct Notes<'a> {
    def: &'a TableDef,
    is_noted: bool,
    from: Vec<RowPlace>,
    codes: Vec<KeyCode>,
    written: usize,
}

impl Notes<'_> {
    fn write(&mut self, writer: &mut Writer, (chunk, from): (RowChunk, Vec<RowPlace>)) -> Result<()> {
        self.written += chunk.len();
        writer.write(&chunk, &from)?;
        if self.is_noted {
            self.codes.extend(codes_of(self.def, &chunk)?);
            self.from.extend(from);
        }
        Ok(())
    }
}

impl Gather {
    fn push(&mut self, segment: SegmentId, chunk: OrderedChunk) {
        self.chunks.push(Arc::new(chunk));
        self.segments.push(segment);
    }

    /// The gathered rows as one chunk, and where they were, if that is noted.
    fn take(&mut self) -> Result<(RowChunk, Vec<RowPlace>)> {
        let mut rows = std::mem::take(&mut self.rows);
        if let Some(seed) = self.seed {
            self.bring_into_bands(&mut rows, seed)?;
        }
        let from = |&(chunk, place): &(usize, usize)| RowPlace::Segment {
            segment: self.segments[chunk],
            row: self.chunks[chunk].number(place) as u32,
        };
        let from = rows.iter().filter(|_| self.is_noted).map(from).collect();
        let chunks: Vec<&RowChunk> = self.chunks.iter().map(|chunk| chunk.rows()).collect();
        let first = *chunks.first().ok_or_else(|| Error::internal("a merge without chunks"))?;
        // Codes keep their values, so whichever input's these are.
        let coded = Arc::clone(&first.coded);
        let mut columns = Vec::with_capacity(first.rows.num_columns());
        for at in 0..first.rows.num_columns() {
            let parts: Vec<&dyn Array> = chunks.iter().map(|chunk| chunk.rows.column(at).as_ref()).collect();
            columns.push(interleave(&parts, &rows).map_err(internal)?);
        }
        let keys: Vec<&[u128]> = chunks.iter().map(|chunk| chunk.keys.as_slice()).collect();
        let keys = gathered(&keys, &rows);
        let level = |at: usize| {
            let codes: Vec<&[u32]> = chunks.iter().map(|chunk| chunk.codes.levels[at].as_slice()).collect();
            gathered(&codes, &rows)
        };
        let codes = LevelCodes { levels: (0..first.codes.levels.len()).map(level).collect() };
        let rows = RecordBatch::try_new(first.rows.schema(), columns).map_err(internal)?;
        self.rows = Vec::with_capacity(self.chunk_rows);
        Ok((RowChunk { rows, keys, codes, coded }, from))
    }

    /// Reorders the rows of each block.
    fn bring_into_bands(&self, rows: &mut [(usize, usize)], seed: u64) -> Result<()> {
        let hidden = |chunk: &'_ Arc<OrderedChunk>| -> Result<[UInt64Array; 2]> {
            let column = |name: &str| {
                let column = chunk.rows().rows.column_by_name(name);
                let column = column.and_then(|column| column.as_primitive_opt::<UInt64Type>()).cloned();
                column.ok_or_else(|| Error::internal(format!("rows of a merge lack the column {name}")))
            };
            Ok([column(VERSION_COLUMN)?, column(ORDINAL_COLUMN)?])
        };
        let hidden = self.chunks.iter().map(hidden).collect::<Result<Vec<_>>>()?;
        for block in rows.chunks_mut(BLOCK_ROWS) {
            let weight = |&(chunk, place): &(usize, usize)| {
                let [versions, ordinals] = &hidden[chunk];
                weight(Version(versions.value(place)), ordinals.value(place), seed)
            };
            let weights: Vec<u64> = block.iter().map(weight).collect();
            let banded: Vec<(usize, usize)> = by_band(&weights).iter().map(|&at| block[at as usize]).collect();
            block.copy_from_slice(&banded);
        }
        Ok(())
    }

    /// After a take: drops chunks that no input reads any more.
    fn forget_finished(&mut self, inputs: &mut [Input]) {
        let mut kept = Vec::with_capacity(inputs.len());
        self.segments.clear();
        for input in inputs {
            let chunk = Arc::clone(&self.chunks[input.chunk]);
            input.chunk = kept.len();
            kept.push(chunk);
            self.segments.push(input.segment);
        }
        self.chunks = kept;
    }
}

/// The next chunk of which rows are asked for, without those that are dead for everybody, which are counted.
fn next_of(
    cursor: &mut SegmentCursor,
    dead: Option<&Arc<Dead>>,
    horizon: Version,
    gone: &mut u64,
) -> Result<Option<OrderedChunk>> {
    while let Some(mut chunk) = cursor.next_ordered()? {
        if let Some(dead) = dead {
            *gone += chunk.leave_out(|row| dead.is_killed_by(row, horizon))?;
        }
        if !chunk.is_empty() {
            return Ok(Some(chunk));
        }
    }
    Ok(None)
}

fn gathered<T: Copy>(parts: &[&[T]], rows: &[(usize, usize)]) -> Vec<T> {
    rows.iter().map(|&(part, row)| parts[part][row]).collect()
}
