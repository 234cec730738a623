//! Segments that are lost, and forgotten once somebody was told what goes with them.
//!
//! Invariants:
//! - Only a segment is forgotten whose files are damaged: that is looked at first, and told why.
//! - The manifest stops naming it, remembers that it was there, and is durable before readers are switched; everything else stays.
//! - Kills of its rows mean nothing any more, and keys that lived there are not there: they may be inserted again.
//! - A table that was closed for it is open again, if that was all; else it stays closed for what is left.

use crate::handover::{Handover, Unnoted};
use crate::open::{open_table, read_kills};
use crate::pipeline::Pipeline;
use alluvia_snapshot::{Base, ClosedTable, Forgotten, KeyGuard, TableBase};
use alluvia_tree::{Damage, Segment, SegmentMeta};
use alluvia_types::{Error, ErrorKind, Result, SegmentId, TableId, Version};
use std::sync::Arc;

/// What goes with a segment.
#[derive(Clone, Debug)]
pub struct Lost {
    /// Its rows.
    pub forgotten: Forgotten,
    /// What is damaged: it names the file.
    pub why: Error,
    /// Why its table is still closed, once the segment was forgotten; `None` where it is open.
    pub still_closed: Option<Error>,
}

impl Lost {
    /// Whether the rows are gone.
    pub fn verb(&self, is_told: bool) -> &'static str {
        if is_told { "has lost" } else { "would lose" }
    }
}

impl Pipeline {
    /// What would be lost with a segment of a table; with `is_told` it is forgotten.
    ///
    /// # Errors
    /// `UndefinedObject` where there is no such segment, `InvalidValue` where nothing of it is damaged; those of reading its files, and of
    /// writing the manifest.
    pub fn forget_segment(&self, table: TableId, segment: SegmentId, is_told: bool) -> Result<Lost> {
        let _one = self.merging.lock();
        let base = self.views.base();
        let meta = find(&base, table, segment).ok_or_else(|| no_segment(segment))?;
        let damage = Damage::find(self.tree(), &meta)?;
        let why = damage.parquet.or(damage.side).ok_or_else(|| is_whole(segment))?;
        let forgotten = Forgotten::new(&meta, self.dead_rows_of(&base, table, segment));
        let lost = Lost { forgotten, why, still_closed: None };
        match (is_told, base.closed.get(&table)) {
            (false, _) => Ok(lost),
            (true, Some(closed)) => self.forget_of_closed(table, closed, &meta, lost),
            (true, None) => self.forget_of_open(table, segment, lost),
        }
    }

    fn dead_rows_of(&self, base: &Base, table: TableId, segment: SegmentId) -> u64 {
        let Some(closed) = base.closed.get(&table) else {
            return self.views.kills_of(table).of(segment).map_or(0, |dead| dead.rows());
        };
        // What cannot be read tells of none.
        let rows = closed.files.segments().map(|meta| (meta.id, meta.rows)).collect();
        let dead = read_kills(self.tree().disk.as_ref(), &self.dir, table, &closed.files.kills, &rows, base.through);
        dead.ok().and_then(|dead| dead.get(&segment).map(|dead| dead.rows())).unwrap_or(0)
    }

    fn forget_of_open(&self, table: TableId, segment: SegmentId, lost: Lost) -> Result<Lost> {
        let forgotten = lost.forgotten;
        let edit = |base: &mut Base| {
            let Some(files) = base.tables.get_mut(&table) else { return Vec::new() };
            let gone = files.take(segment);
            files.forgotten.extend(gone.iter().map(|_| forgotten));
            gone.into_iter().collect()
        };
        self.edit_table(table, segment, edit)?;
        Ok(lost)
    }

    fn forget_of_closed(&self, table: TableId, closed: &ClosedTable, meta: &SegmentMeta, lost: Lost) -> Result<Lost> {
        let mut files = closed.files.clone();
        files.forget(meta.id, lost.forgotten.dead);
        let (disk, through) = (self.tree().disk.as_ref(), self.views.base().through);
        let opened = open_table(self.tree(), &files).and_then(|opened| {
            let rows = opened.rows_by_segment();
            Ok((read_kills(disk, &self.dir, table, &opened.kills, &rows, through)?, opened))
        });
        let still_closed = match opened {
            Ok((dead, opened)) => {
                // Whoever reads the table finds them.
                self.views.set_kills(table, dead);
                self.edit_table(table, meta.id, |base: &mut Base| {
                    if base.closed.remove(&table).is_some() {
                        let since = base.tables.remove(&table);
                        base.tables.insert(table, with_sorted_since(opened, since));
                    }
                    Vec::new()
                })?;
                None
            }
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                let still = ClosedTable { files, error: error.clone() };
                self.edit_table(table, meta.id, |base: &mut Base| {
                    if let Some(closed) = base.closed.get_mut(&table) {
                        *closed = still;
                    }
                    Vec::new()
                })?;
                Some(error)
            }
            Err(error) => return Err(error),
        };
        self.tree().remove_files(meta);
        Ok(Lost { still_closed, ..lost })
    }

    /// An edit after which a table has other rows.
    fn edit_table(
        &self,
        table: TableId,
        segment: SegmentId,
        edit: impl FnOnce(&mut Base) -> Vec<Arc<Segment>>,
    ) -> Result<()> {
        // No row of it is killed meanwhile.
        let unnoted = vec![Unnoted { table, segments: Vec::new(), tail_through: Version(0) }];
        let handover = Handover { moves: Vec::new(), unnoted };
        let install = |base: Base, keys: Vec<KeyGuard<'_>>| self.views.replace(base, table, segment, keys);
        self.edit_with(None, Vec::new(), &handover, edit, install).map(drop)
    }
}

/// A table that is open again, with what was sorted of it while it was closed.
fn with_sorted_since(mut table: TableBase, since: Option<TableBase>) -> TableBase {
    if let Some(since) = since {
        table.dictionary = since.dictionary.or(table.dictionary);
        table.ranges = since.ranges.or(table.ranges);
        table.dropped += since.dropped;
        table.kills.extend(since.kills);
        table.sorted.extend(since.sorted);
    }
    table
}

fn find(base: &Base, table: TableId, segment: SegmentId) -> Option<SegmentMeta> {
    let open = base.tables.get(&table).into_iter().flat_map(|files| files.sorted.iter().chain(files.merged()));
    let closed = base.closed.get(&table).into_iter().flat_map(ClosedTable::segments);
    open.map(|segment| segment.meta()).chain(closed).find(|meta| meta.id == segment).cloned()
}

fn no_segment(segment: SegmentId) -> Error {
    Error::new(ErrorKind::UndefinedObject, format!("the table has no segment {segment}"))
        .with_hint("alluvia.segments lists them; one that a load has brought a moment ago is one once it was sorted")
}

fn is_whole(segment: SegmentId) -> Error {
    Error::new(ErrorKind::InvalidValue, format!("segment {segment} is whole: all of its checksums hold"))
        .with_hint("nothing is lost, and nothing was changed; DELETE removes rows")
}
