//! Writing of a segment together with its ladder, in one pass.
//!
//! A row's weight is computed once; the rows of a rung are picked from the chunk on its way into the segment, and the next
//! rung's from those. The segment that a rung hangs from is cut into blocks by row count, so where a block begins among the rung's
//! rows is counted while they come.

use super::{rung_limit, rungs_of};
use crate::chunk::RowChunk;
use crate::context::TreeContext;
use crate::layout::BLOCK_ROWS;
use crate::meta::{RungMeta, SegmentMeta};
use crate::writer::SegmentWriter;
use alluvia_space::weight::weight;
use alluvia_space::{LevelCodes, ORDINAL_COLUMN, TableDef, VERSION_COLUMN};
use alluvia_types::{Error, Result, SegmentId, Stage, Version};
use arrow::array::{Array, AsArray, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::UInt64Type;
use std::sync::Arc;

/// Writes one segment and its rungs. Dropped before [`LadderWriter::finish`], it removes its files.
#[derive(Debug)]
pub struct LadderWriter {
    context: TreeContext,
    segment: SegmentWriter,
    /// The thickest first.
    rungs: Vec<RungWriter>,
    seed: u64,
}

#[derive(Debug)]
struct RungWriter {
    rung: u32,
    writer: SegmentWriter,
    /// For each block of the segment, how many of the rung's rows lie before it.
    first_rows: Vec<u32>,
}

impl LadderWriter {
    /// Starts the files of a new segment of about `rows` rows, and of as many rungs, from the table's first on, as have about `rung_rows_min`
    /// rows. Its heavy rows are written down if there are no more rows than that. `new_id` gives ids that no other segment has or had. The
    /// rest is as in [`SegmentWriter::create`].
    pub fn create(
        context: &TreeContext,
        mut new_id: impl FnMut() -> SegmentId,
        table: &TableDef,
        stage: Stage,
        fixed_version: Option<Version>,
        rows: u64,
        rung_rows_min: u64,
    ) -> Result<LadderWriter> {
        let mut segment = SegmentWriter::create(context, new_id(), table, stage, fixed_version)?;
        let mut rungs = Vec::new();
        for rung in rungs_of(table.options.ladder.first_rung(), rows, rung_rows_min) {
            let writer = SegmentWriter::create(context, new_id(), table, stage, fixed_version)?;
            rungs.push(RungWriter { rung, writer, first_rows: Vec::new() });
        }
        if !rungs.is_empty() {
            // What is estimated has a ladder.
            segment = segment.with_heavy(rows);
        }
        Ok(LadderWriter { context: context.clone(), segment, rungs, seed: table.seed })
    }

    /// Adds rows, none of whose keys is below the last row's.
    pub fn write(&mut self, chunk: &RowChunk) -> Result<()> {
        let before = self.segment.rows();
        self.segment.write(chunk)?;
        if self.rungs.is_empty() || chunk.is_empty() {
            return Ok(());
        }
        let weights = weights_of(chunk, self.seed)?;
        let mut picked: Vec<u32> = (0..chunk.len() as u32).collect();
        // Where blocks of the segment begin in this chunk.
        let starts: Vec<u32> = (before.next_multiple_of(BLOCK_ROWS as u64)..before + chunk.len() as u64)
            .step_by(BLOCK_ROWS)
            .map(|row| (row - before) as u32)
            .collect();
        for rung in &mut self.rungs {
            let limit = rung_limit(rung.rung).unwrap_or(u64::MAX);
            picked.retain(|&row| weights[row as usize] < limit);
            let rows = rung.writer.rows() as u32;
            rung.first_rows.extend(starts.iter().map(|start| rows + picked.partition_point(|row| row < start) as u32));
            if !picked.is_empty() {
                rung.writer.write(&pick(chunk, &picked)?)?;
            }
        }
        Ok(())
    }

    /// Ends the segment and its rungs: all files and their directory are synced when this returns.
    pub fn finish(self) -> Result<SegmentMeta> {
        let LadderWriter { context, segment, rungs, .. } = self;
        let mut written: Vec<RungMeta> = Vec::with_capacity(rungs.len());
        let finish = || -> Result<SegmentMeta> {
            for RungWriter { rung, writer, mut first_rows } in rungs {
                first_rows.push(writer.rows() as u32);
                written.push(RungMeta { rung, segment: writer.finish_rung(&first_rows)? });
            }
            segment.finish()
        };
        match finish() {
            Ok(meta) => Ok(SegmentMeta { rungs: written, ..meta }),
            Err(error) => {
                // What is finished no longer removes itself.
                written.iter().for_each(|rung| context.remove_files(&rung.segment));
                Err(error)
            }
        }
    }
}

/// Each row's weight.
fn weights_of(chunk: &RowChunk, seed: u64) -> Result<Vec<u64>> {
    let column = |name: &str| {
        let column = chunk.rows.column_by_name(name).and_then(|column| column.as_primitive_opt::<UInt64Type>());
        column.ok_or_else(|| Error::internal(format!("rows for a ladder lack the column {name}")))
    };
    let (versions, ordinals) = (column(VERSION_COLUMN)?, column(ORDINAL_COLUMN)?);
    // Staged rows have no version yet, and need none.
    let version = |row: usize| if versions.is_valid(row) { versions.value(row) } else { 0 };
    let rows = ordinals.values().iter().enumerate();
    Ok(rows.map(|(row, &ordinal)| weight(Version(version(row)), ordinal, seed)).collect())
}

/// Some rows of a chunk, in its order.
fn pick(chunk: &RowChunk, rows: &[u32]) -> Result<RowChunk> {
    let failed = |error| Error::internal(format!("picking the rows of a rung: {error}"));
    let picked = take_record_batch(&chunk.rows, &UInt32Array::from(rows.to_vec())).map_err(failed)?;
    let keys = rows.iter().map(|&row| chunk.keys[row as usize]).collect();
    let level = |codes: &Vec<u32>| rows.iter().map(|&row| codes[row as usize]).collect();
    let codes = LevelCodes { levels: chunk.codes.levels.iter().map(level).collect() };
    Ok(RowChunk { rows: picked, keys, codes, coded: Arc::clone(&chunk.coded) })
}
