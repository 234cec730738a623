//! Writing of a segment together with its ladder, in one pass.
//!
//! A row's weight is computed once; the rows of a rung are picked from the chunk on its way into the segment, and the
//! next rung's from those, and so the bands of a banded segment are counted. The segment that a rung hangs from is cut
//! into blocks by row count, so where a block begins among the rung's rows is counted while they come.

use super::SegmentWriter;
use crate::chunk::RowChunk;
use crate::context::TreeContext;
use crate::layout::{BLOCK_ROWS, BandCounter, rung_limit, rungs_of};
use crate::meta::{RungMeta, SegmentMeta};
use alluvia_space::weight::weight;
use alluvia_space::{ORDINAL_COLUMN, TableDef, VERSION_COLUMN};
use alluvia_types::{Error, Result, SegmentId, Stage, Version, planted};
use arrow::array::{Array, AsArray};
use arrow::datatypes::UInt64Type;

/// Writes one segment and its rungs. Dropped before [`LadderWriter::finish`], it removes its files.
#[derive(Debug)]
pub struct LadderWriter {
    context: TreeContext,
    pub(crate) segment: SegmentWriter,
    /// The thickest first.
    pub(crate) rungs: Vec<RungWriter>,
    /// Of a banded segment.
    bands: Option<BandCounter>,
    seed: u64,
}

#[derive(Debug)]
pub(crate) struct RungWriter {
    rung: u32,
    pub(crate) writer: SegmentWriter,
    /// Rows that were picked for it.
    rows: u32,
    /// For each block of the segment, how many of the rung's rows lie before it.
    first_rows: Vec<u32>,
    /// Of each row its number within its block of the segment.
    places: Vec<u16>,
}

impl LadderWriter {
    /// Starts the files of a new segment of about `rows` rows, and of as many rungs, from the table's first on, as have
    /// about `rung_rows_min` rows. Its heavy rows are written down if there are no more rows than that. `new_id` gives
    /// ids that no other segment has or had. The rest is as in [`SegmentWriter::create`].
    pub fn create(
        context: &TreeContext,
        mut new_id: impl FnMut() -> SegmentId,
        table: &TableDef,
        stage: Stage,
        fixed_version: Option<Version>,
        rows: u64,
        rung_rows_min: u64,
    ) -> Result<LadderWriter> {
        let mut segment = SegmentWriter::create(context, new_id(), table, stage, fixed_version)?.expecting(rows);
        let mut rungs = Vec::new();
        for rung in rungs_of(table.options.ladder.first_rung(), rows, rung_rows_min) {
            let writer = SegmentWriter::create(context, new_id(), table, stage, fixed_version)?.expecting(rows >> rung);
            rungs.push(RungWriter { rung, writer, rows: 0, first_rows: Vec::new(), places: Vec::new() });
        }
        if !rungs.is_empty() {
            // What is estimated has a ladder.
            segment = segment.with_heavy(rows);
        }
        Ok(LadderWriter { context: context.clone(), segment, rungs, bands: None, seed: table.seed })
    }

    /// Makes the segment a banded one: the rows of each of its blocks, none of whose keys is below one of the block
    /// before, come in the order that [`crate::by_band`] gives, and all chunks but the last are whole blocks.
    pub fn banded(self) -> LadderWriter {
        let LadderWriter { context, segment, rungs, seed, .. } = self;
        let banded = |rung: RungWriter| RungWriter { writer: rung.writer.banded(), ..rung };
        let rungs = rungs.into_iter().map(banded).collect();
        LadderWriter {
            context,
            segment: segment.banded().in_blocks(),
            rungs,
            bands: Some(BandCounter::default()),
            seed,
        }
    }

    /// Adds rows, none of whose keys is below the last row's, or those of a banded segment.
    pub fn write(&mut self, chunk: &RowChunk) -> Result<()> {
        let before = self.segment.rows();
        self.segment.write(chunk)?;
        let picked = self.pick(chunk, before)?;
        for (rung, picked) in self.rungs.iter_mut().zip(picked).filter(|(_, picked)| !picked.is_empty()) {
            rung.writer.write(&chunk.take(&picked)?)?;
        }
        Ok(())
    }

    /// The places of those rows of a chunk that go into each rung; `before` rows of the segment came before it. It counts them, and the
    /// bands.
    pub(crate) fn pick(&mut self, chunk: &RowChunk, before: u64) -> Result<Vec<Vec<u32>>> {
        if (self.rungs.is_empty() && self.bands.is_none()) || chunk.is_empty() {
            return Ok(Vec::new());
        }
        let weights = weights_of(chunk, self.seed)?;
        if let Some(bands) = &mut self.bands {
            assert!(before.is_multiple_of(BLOCK_ROWS as u64), "chunks of a banded segment are whole blocks");
            assert!(bands.add(&weights), "the rows of a banded block lie in bands");
        }
        let mut picked: Vec<u32> = (0..chunk.len() as u32).collect();
        // Where blocks of the segment begin in this chunk.
        let starts: Vec<u32> = (before.next_multiple_of(BLOCK_ROWS as u64)..before + chunk.len() as u64)
            .step_by(BLOCK_ROWS)
            .map(|row| (row - before) as u32)
            .collect();
        let mut of_rungs = Vec::with_capacity(self.rungs.len());
        for rung in &mut self.rungs {
            let limit = rung_limit(rung.rung).unwrap_or(u64::MAX);
            picked.retain(|&row| weights[row as usize] < limit);
            let rows = rung.rows;
            rung.first_rows.extend(starts.iter().map(|start| rows + picked.partition_point(|row| row < start) as u32));
            rung.places.extend(picked.iter().map(|&row| ((before + u64::from(row)) % BLOCK_ROWS as u64) as u16));
            rung.rows += picked.len() as u32;
            of_rungs.push(picked.clone());
        }
        Ok(of_rungs)
    }

    /// Ends the segment and its rungs: all files and their directory are synced when this returns.
    pub fn finish(self) -> Result<SegmentMeta> {
        let LadderWriter { context, segment, rungs, bands, .. } = self;
        let mut written: Vec<RungMeta> = Vec::with_capacity(rungs.len());
        let finish = || -> Result<SegmentMeta> {
            for RungWriter { rung, writer, mut first_rows, places, .. } in rungs {
                first_rows.push(writer.rows() as u32);
                written.push(RungMeta { rung, segment: writer.finish_rung(&first_rows, &places)? });
            }
            match bands {
                Some(bands) => segment.finish_banded(&bands.finish()),
                None => segment.finish(),
            }
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
    if planted("weight from dimensions") {
        let codes = &chunk.codes.levels;
        return Ok(rows
            .map(|(row, _)| weight(Version(0), codes.first().map_or(0, |of| of[row].into()), seed))
            .collect());
    }
    Ok(rows.map(|(row, &ordinal)| weight(Version(version(row)), ordinal, seed)).collect())
}
