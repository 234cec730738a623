//! The sort cycle: the whole tail, through one version, becomes sorted segments.

use crate::chunk::{fixed, pieces, sorted_chunk};
use crate::editor::Checkpoint;
use crate::pipeline::Pipeline;
use crate::workers::scatter;
use alluvia_catalog::DictionaryMark;
use alluvia_snapshot::{KEYS_KEPT, Space, TableBase};
use alluvia_space::{KeyRange, TableDef};
use alluvia_tree::{Segment, SegmentWriter, TreeContext};
use alluvia_types::{Result, SegmentId, Stage, TableId};
use arrow::record_batch::RecordBatch;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rows of one table for one new segment.
struct Piece {
    id: SegmentId,
    def: Arc<TableDef>,
    space: Arc<Space>,
    rows: Vec<RecordBatch>,
}

/// What the manifest says of a table beside its segments.
struct Durable {
    table: TableId,
    mark: DictionaryMark,
    ranges: Option<Vec<KeyRange>>,
}

impl Pipeline {
    /// Sorts the tail through the newest visible version, and lets the log go through it. Returns whether there was
    /// anything to do.
    pub fn sort(&self) -> Result<bool> {
        let _one = self.sorting.lock();
        let cut = self.views.cut();
        if cut.through == cut.base.through {
            return Ok(false);
        }
        // Before the manifest: after it the log gives up the batches that have them.
        let oldest_micros = self.views.clock().wall_micros().saturating_sub(KEYS_KEPT.as_micros() as i64);
        self.keys.lock().add(self.tree().disk.as_ref(), &cut.keys, oldest_micros)?;
        let mut spaces: BTreeMap<TableId, Arc<Space>> = BTreeMap::new();
        let mut work = Vec::new();
        for (table, rows) in cut.tails {
            let Some(entry) = cut.catalog.by_id(table) else { continue };
            let space = self.views.spaces().get(&entry.def)?;
            let def = Arc::new(fixed(&entry.def, &space, &rows));
            for rows in pieces(rows, self.options.segment_rows)? {
                let (def, space) = (Arc::clone(&def), Arc::clone(&space));
                work.push(Piece { id: self.new_segment(), def, space, rows });
            }
            spaces.insert(table, space);
        }
        let (mut attached, mut dropped) = (Vec::new(), Vec::new());
        for (_, table, segments) in cut.attached {
            match cut.catalog.by_id(table) {
                Some(entry) => {
                    spaces.insert(table, self.views.spaces().get(&entry.def)?);
                    attached.extend(segments);
                }
                None => dropped.extend(segments),
            }
        }
        let written = self.write_pieces(work)?;
        self.note_written(spaces.keys().copied());
        // What is attached stays: the log names it.
        let durable = persist(spaces).inspect_err(|_| written.iter().for_each(|segment| segment.retire()))?;
        let through = cut.through;
        let checkpoint = Checkpoint { through, catalog: cut.catalog, producers: cut.producers };
        self.edit(Some(checkpoint), written.clone(), |base| {
            for Durable { table, mark, ranges } in durable {
                let base: &mut TableBase = base.tables.entry(table).or_default();
                (base.dictionary, base.ranges) = (Some(mark), ranges);
            }
            for segment in written.into_iter().chain(attached) {
                base.tables.entry(segment.meta().table).or_default().sorted.push(segment);
            }
            dropped
        })?;
        // The rows are where they belong: files of the log that stay longer are no failure of the sort, and the next one removes them.
        if let Err(error) = self.log.remove_through(through) {
            tracing::warn!(%error, "files of the log that are not needed could not be removed; it is tried again");
        }
        Ok(true)
    }

    /// Writes all pieces, or leaves none of them.
    fn write_pieces(&self, work: Vec<Piece>) -> Result<Vec<Arc<Segment>>> {
        let tree = self.tree().clone();
        let results = scatter(self.workers.as_ref(), work, move |piece| write_piece(&tree, &piece));
        let (mut written, mut failure) = (Vec::with_capacity(results.len()), None);
        for result in results {
            match result {
                Ok(segment) => written.push(segment),
                Err(error) => failure = Some(error),
            }
        }
        if let Some(error) = failure {
            written.iter().for_each(|segment| segment.retire());
            return Err(error);
        }
        Ok(written)
    }
}

/// OutputSize durable what segments need of their tables' dictionaries.
fn persist(spaces: BTreeMap<TableId, Arc<Space>>) -> Result<Vec<Durable>> {
    let durable = |(table, space): (TableId, Arc<Space>)| -> Result<Durable> {
        let mark = space.dictionaries.persist()?;
        Ok(Durable { table, mark, ranges: space.ranges().map(<[KeyRange]>::to_vec) })
    };
    spaces.into_iter().map(durable).collect()
}

fn write_piece(tree: &TreeContext, piece: &Piece) -> Result<Arc<Segment>> {
    let chunk = sorted_chunk(&piece.def, &piece.space, &piece.rows)?;
    let mut writer = SegmentWriter::create(tree, piece.id, &piece.def, Stage::Sorted, None)?;
    writer.write(&chunk)?;
    Segment::open_written(tree, writer.finish()?)
}
