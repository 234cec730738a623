//! Rungs made anew from the segment that they hang from.
//!
//! Invariant: a rung has the rows of its segment below its limit, in their order, and says where each lies: what a ladder's writer has made
//! of the same rows ([`crate::LadderWriter`]).

use crate::chunk::RowChunk;
use crate::layout::{BLOCK_ROWS, rung_limit};
use crate::meta::{RungMeta, SegmentMeta};
use crate::segment::{Segment, identities_of};
use crate::verify::stored_columns;
use crate::writer::SegmentWriter;
use alluvia_space::weight::weight;
use alluvia_space::{LevelCodes, TableDef};
use alluvia_types::{Error, ErrorKind, Result, SegmentId, Version};
use std::sync::Arc;

/// A rung that is being written.
struct NewRung {
    rung: u32,
    limit: u64,
    writer: SegmentWriter,
    first_rows: Vec<u32>,
    places: Vec<u16>,
}

impl Segment {
    /// Writes rungs of these numbers, the thickest first. `table` has the definition, `new_id` gives ids that no other segment has or had.
    /// The files are durable when this returns; after an error there are none.
    ///
    /// # Errors
    /// `Corrupt` where the segment itself is damaged; `NotSupported` where it has columns that the table has no more.
    pub fn rebuild_rungs(
        self: &Arc<Segment>,
        table: &TableDef,
        rungs: &[u32],
        mut new_id: impl FnMut() -> SegmentId,
    ) -> Result<Vec<RungMeta>> {
        let (context, meta) = (self.context(), self.meta());
        let table = as_written(table, meta)?;
        let bands = self.bands()?;
        let mut new = Vec::with_capacity(rungs.len());
        for &rung in rungs {
            let writer = SegmentWriter::create(context, new_id(), &table, meta.stage, meta.fixed_version)?;
            let writer = writer.expecting(meta.rows.checked_shr(rung).unwrap_or(0));
            let writer = if bands.is_some() { writer.banded() } else { writer };
            let limit = rung_limit(rung).unwrap_or(u64::MAX);
            new.push(NewRung { rung, limit, writer, first_rows: Vec::new(), places: Vec::new() });
        }
        let columns = stored_columns(&table);
        let levels = table.levels().count();
        let mut reader = self.read_rows(&columns, 0..meta.rows, BLOCK_ROWS)?;
        for block in 0..self.blocks() {
            let keys = self.keys(block..block + 1)?;
            let codes = (0..levels).map(|level| self.codes(level, block)).collect::<Result<_>>()?;
            let rows = reader.next_batch()?.filter(|rows| rows.num_rows() == keys.len());
            let rows = rows.ok_or_else(|| self.not_cut_like(block))?;
            let identities = identities_of(&rows);
            let weights: Vec<u64> = identities.map(|(version, of)| weight(Version(version), of, table.seed)).collect();
            let chunk = RowChunk::new(rows, keys, LevelCodes { levels: codes });
            new.iter_mut().try_for_each(|rung| rung.add(&chunk, &weights))?;
        }
        let mut written: Vec<RungMeta> = Vec::with_capacity(new.len());
        for rung in new {
            match rung.finish() {
                Ok(rung) => written.push(rung),
                Err(error) => {
                    written.iter().for_each(|rung| context.remove_files(&rung.segment));
                    return Err(error);
                }
            }
        }
        Ok(written)
    }

    fn not_cut_like(&self, block: usize) -> Error {
        let path = self.context().parquet_path(self.meta().id);
        Error::new(ErrorKind::Corrupt, format!("{} is not cut like block {block}", path.display()))
    }
}

impl NewRung {
    /// Adds those rows of a block that are below its limit.
    fn add(&mut self, block: &RowChunk, weights: &[u64]) -> Result<()> {
        self.first_rows.push(self.writer.rows() as u32);
        let picked: Vec<u32> =
            (0..).zip(weights).filter(|(_, weight)| **weight < self.limit).map(|(row, _)| row).collect();
        self.places.extend(picked.iter().map(|&row| row as u16));
        if picked.is_empty() { Ok(()) } else { self.writer.write(&block.take(&picked)?) }
    }

    fn finish(mut self) -> Result<RungMeta> {
        self.first_rows.push(self.writer.rows() as u32);
        let segment = self.writer.finish_rung(&self.first_rows, &self.places)?;
        Ok(RungMeta { rung: self.rung, segment })
    }
}

/// The definition with the columns that a segment has.
pub(super) fn as_written(table: &TableDef, meta: &SegmentMeta) -> Result<TableDef> {
    let mut table = table.clone();
    table.columns.retain(|column| meta.columns.contains(&column.id));
    let has_all = table.columns.iter().map(|column| column.id).eq(meta.columns.iter().copied());
    if has_all {
        return Ok(table);
    }
    let message = format!("segment {} has columns that table {} has no more", meta.id, table.name);
    Err(Error::new(ErrorKind::NotSupported, message)
        .with_hint("the next merge of it writes its ladder anew; a side file is not made of it"))
}
