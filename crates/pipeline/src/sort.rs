//! The sort cycle: the whole tail, through one version, becomes sorted segments.

use crate::chunk::{fixed, pieces, sorted_chunk};
use crate::editor::Checkpoint;
use crate::pipeline::Pipeline;
use crate::workers::scatter;
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

/// What a sort adds to a table.
#[derive(Default)]
struct Addition {
    segments: Vec<Arc<Segment>>,
    space: Option<Arc<Space>>,
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
        let mut additions: BTreeMap<TableId, Addition> = BTreeMap::new();
        let mut work = Vec::new();
        for (table, rows) in cut.tails {
            let Some(entry) = cut.catalog.by_id(table) else { continue };
            let space = self.views.spaces().get(&entry.def)?;
            let def = Arc::new(fixed(&entry.def, &space, &rows));
            additions.entry(table).or_default().space = Some(Arc::clone(&space));
            for rows in pieces(rows, self.options.segment_rows)? {
                let (def, space) = (Arc::clone(&def), Arc::clone(&space));
                work.push(Piece { id: self.new_segment(), def, space, rows });
            }
        }
        let tree = self.tree().clone();
        let written = scatter(self.workers.as_ref(), work, move |piece| {
            write_piece(&tree, &piece).map(|segment| (piece.def.id, segment))
        });
        let mut failure = None;
        for result in written {
            match result {
                Ok((table, segment)) => additions.entry(table).or_default().segments.push(segment),
                Err(error) => failure = Some(error),
            }
        }
        let written: Vec<Arc<Segment>> = additions.values().flat_map(|added| added.segments.clone()).collect();
        let abandon = || written.iter().for_each(|segment| segment.retire());
        if let Some(error) = failure {
            abandon();
            return Err(error);
        }
        for (_, table, segments) in cut.attached {
            let Some(entry) = cut.catalog.by_id(table) else { continue };
            let addition = additions.entry(table).or_default();
            addition.segments.extend(segments);
            addition.space = Some(self.views.spaces().get(&entry.def)?);
        }
        let mut additions_durable = Vec::new();
        for (table, addition) in additions {
            let Some(space) = addition.space else { continue };
            let mark = match space.dictionaries.persist() {
                Ok(mark) => mark,
                Err(error) => {
                    abandon();
                    return Err(error);
                }
            };
            additions_durable.push((table, addition.segments, mark, space.ranges().map(<[KeyRange]>::to_vec)));
        }
        let through = cut.through;
        let checkpoint = Checkpoint { through, catalog: cut.catalog, producers: cut.producers };
        self.edit(Some(checkpoint), |base| {
            for (table, segments, mark, ranges) in additions_durable {
                let base: &mut TableBase = base.tables.entry(table).or_default();
                base.dictionary = Some(mark);
                base.ranges = ranges;
                base.sorted.extend(segments);
            }
            Ok(Vec::new())
        })?;
        self.log.remove_through(through)?;
        Ok(true)
    }
}

fn write_piece(tree: &TreeContext, piece: &Piece) -> Result<Arc<Segment>> {
    let chunk = sorted_chunk(&piece.def, &piece.space, &piece.rows)?;
    let mut writer = SegmentWriter::create(tree, piece.id, &piece.def, Stage::Sorted, None)?;
    writer.write(&chunk)?;
    Segment::open(tree, writer.finish()?)
}
