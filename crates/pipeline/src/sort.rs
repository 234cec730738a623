//! The sort cycle: the tail, through one version, becomes sorted segments.

use crate::chunk::{Sorted, fixed, pieces, sorted_chunk};
use crate::editor::Checkpoint;
use crate::handover::{Edited, Handover, Noted, Unnoted, is_noted, without_dead};
use crate::pipeline::Pipeline;
use crate::workers::scatter;
use alluvia_catalog::DictionaryMark;
use alluvia_snapshot::{Cut, KEYS_KEPT, Moves, Space, TableBase};
use alluvia_space::{KeyRange, TableDef};
use alluvia_tree::{LadderWriter, Segment, SegmentMeta, SegmentWriter, TreeContext};
use alluvia_types::{Error, Result, SegmentId, Stage, TableId, Version, planted};
use arrow::record_batch::RecordBatch;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rows of one table for one new segment.
struct Piece {
    id: SegmentId,
    def: Arc<TableDef>,
    space: Arc<Space>,
    rows: Vec<RecordBatch>,
    /// Whether the moves of its rows are noted.
    is_noted: bool,
}

/// What the manifest says of a table beside its segments.
struct Durable {
    table: TableId,
    mark: DictionaryMark,
    ranges: Option<Vec<KeyRange>>,
}

/// Segments, and the rows of them that are noted.
type Written = (Vec<Arc<Segment>>, Vec<(TableId, Noted)>);

impl Pipeline {
    /// Sorts the tail through the version that is visible now, a step for each worker at a time, and lets the log go through it. Returns
    /// whether there was anything to do.
    pub fn sort(&self) -> Result<bool> {
        let _one = self.sorting.lock();
        let until = self.views.visible();
        let (mut is_done, mut notes_all) = (false, false);
        loop {
            let cut = self.views.cut(self.workers.width());
            let through = cut.through;
            if through == cut.base.through {
                return Ok(is_done);
            }
            match self.sort_cut(cut, notes_all)? {
                Edited::Done if through >= until => return Ok(true),
                Edited::Done => (is_done, notes_all) = (true, false),
                Edited::Again => notes_all = true,
            }
        }
    }

    fn sort_cut(&self, cut: Cut, notes_all: bool) -> Result<Edited> {
        // Before the manifest: after it the log gives up the batches that have them.
        let oldest_micros = self.views.clock().wall_micros().saturating_sub(KEYS_KEPT.as_micros() as i64);
        let keys = if planted("forgotten key") { cut.keys.get(1..).unwrap_or_default() } else { &cut.keys };
        self.keys.lock().add(self.tree().disk.as_ref(), keys, oldest_micros)?;
        let mut spaces: BTreeMap<TableId, Arc<Space>> = BTreeMap::new();
        let mut work = Vec::new();
        let mut handover = Handover::default();
        for (table, rows) in cut.tails {
            let Some(entry) = cut.catalog.by_id(table) else { continue };
            let space = self.views.spaces().get(&entry.def)?;
            let kills = cut.kills.get(&table);
            let is_noted = notes_all || is_noted(&entry.def, kills);
            let rows = if is_noted {
                let mut moves = Moves::new(table, cut.through);
                let (rows, gone) = match kills {
                    Some(kills) => without_dead(rows, kills.tail(), &cut.askable, cut.through)?,
                    None => (rows, 0),
                };
                moves.add_gone(gone);
                handover.moves.push(moves);
                rows
            } else {
                handover.unnoted.push(Unnoted { table, segments: Vec::new(), tail_through: cut.through });
                rows
            };
            // Where all rows are left out, nothing is learnt of the table's ranges.
            let def = match rows.is_empty() {
                true => Arc::clone(&entry.def),
                false => Arc::new(fixed(&entry.def, &space, &rows)),
            };
            for rows in pieces(rows, self.options.segment_rows)? {
                let (def, space) = (Arc::clone(&def), Arc::clone(&space));
                work.push(Piece { id: self.new_segment(), def, space, rows, is_noted });
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
        let (written, noted) = self.write_pieces(work)?;
        for (table, Noted { segment, from, codes }) in noted {
            let moves = handover.moves.iter_mut().find(|moves| moves.table == table);
            moves.ok_or_else(|| Error::internal("rows were noted of no table"))?.add_output(segment, &from, codes);
        }
        self.note_written(spaces.keys().copied());
        // What is attached stays: the log names it.
        let durable = persist(spaces).inspect_err(|_| written.iter().for_each(|segment| segment.retire()))?;
        let through = cut.through;
        if planted("log let go before the manifest") {
            self.log.remove_through(through)?;
        }
        let checkpoint = Checkpoint { through, catalog: cut.catalog, producers: cut.producers };
        let edited = self.edit(Some(checkpoint), written.clone(), &handover, |base| {
            for Durable { table, mark, ranges } in durable {
                let base: &mut TableBase = base.tables.entry(table).or_default();
                (base.dictionary, base.ranges) = (Some(mark), ranges);
            }
            for segment in written.into_iter().chain(attached) {
                base.tables.entry(segment.meta().table).or_default().sorted.push(segment);
            }
            dropped
        })?;
        if edited == Edited::Again {
            return Ok(Edited::Again);
        }
        // The rows are where they belong: files of the log that stay longer are no failure of the sort, and the next one removes them.
        if let Err(error) = self.give_log_up() {
            tracing::warn!(%error, "files of the log that are not needed could not be removed; it is tried again");
        }
        Ok(Edited::Done)
    }

    /// Writes all pieces, or leaves none of them; and where the rows of those that are noted were.
    fn write_pieces(&self, work: Vec<Piece>) -> Result<Written> {
        let tree = self.tree().clone();
        let results = scatter(self.workers.as_ref(), work, move |piece| write_piece(&tree, &piece));
        let (mut written, mut all_noted, mut failure) = (Vec::with_capacity(results.len()), Vec::new(), None);
        for result in results {
            match result {
                Ok((segment, noted)) => {
                    all_noted.extend(noted.map(|noted| (segment.meta().table, noted)));
                    written.push(segment);
                }
                Err(error) => failure = Some(error),
            }
        }
        if let Some(error) = failure {
            written.iter().for_each(|segment| segment.retire());
            return Err(error);
        }
        Ok((written, all_noted))
    }
}

/// Makes durable what segments need of their tables' dictionaries.
fn persist(spaces: BTreeMap<TableId, Arc<Space>>) -> Result<Vec<Durable>> {
    let durable = |(table, space): (TableId, Arc<Space>)| -> Result<Durable> {
        let mark = space.dictionaries.persist()?;
        Ok(Durable { table, mark, ranges: space.ranges().map(<[KeyRange]>::to_vec) })
    };
    spaces.into_iter().map(durable).collect()
}

fn write_piece(tree: &TreeContext, piece: &Piece) -> Result<(Arc<Segment>, Option<Noted>)> {
    let sorted = sorted_chunk(tree, &piece.def, &piece.space, &piece.rows)?;
    let (chunk, def) = sorted.chunk(&piece.def);
    let noted = piece.is_noted.then(|| Noted::of_tail(piece.id, def, chunk)).transpose()?;
    let meta = write_sorted(tree, piece.id, &piece.def, None, sorted)?;
    Ok((Segment::open_written(tree, meta)?, noted))
}

/// Writes rows as a segment of the sorted stage, which has no ladder.
pub(crate) fn write_sorted(
    tree: &TreeContext,
    id: SegmentId,
    def: &TableDef,
    version: Option<Version>,
    sorted: Sorted,
) -> Result<SegmentMeta> {
    match sorted {
        Sorted::Rows(chunk) => {
            let mut writer = SegmentWriter::create(tree, id, def, Stage::Sorted, version)?;
            writer.write(&chunk)?;
            writer.finish()
        }
        Sorted::Wide(rows) => {
            let count = rows.chunk.len() as u64;
            rows.write(tree, LadderWriter::create(tree, || id, def, Stage::Sorted, version, count, u64::MAX)?)
        }
    }
}
