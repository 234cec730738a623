//! Segments that are lost, and forgotten once somebody was told what goes with them.
//!
//! Invariants:
//! - Only a segment is forgotten whose rows are lost: that is looked at first, and told why. Where the Parquet file is whole, and its side
//!   file can be made anew, it is refused; and of a closed table what can be made anew is, before anybody is told what else is lost.
//! - The manifest stops naming it, remembers that it was there, and is durable before readers are switched; everything else stays.
//! - Kills of its rows mean nothing any more, and keys that lived there are not there: they may be inserted again.
//! - A row that was passed over for one of them (ON CONFLICT DO NOTHING) is sorted first: read from the log again it would be there.
//! - A table that was closed for it is open again, if that was all; else it stays closed for what is left, or until the next start, if
//!   the log has something of it.

use crate::handover::{Edited, Handover, Unnoted};
use crate::mend::sides::{sides, space_of};
use crate::open::{open_table, read_kills};
use crate::pipeline::Pipeline;
use alluvia_snapshot::{Base, ClosedTable, Forgotten, KeyGuard, TableBase, TableFiles};
use alluvia_tree::{Damage, Proof, RebuiltSide, Segment, SegmentMeta};
use alluvia_types::{Error, ErrorKind, Result, SegmentId, TableId, Version};
use std::sync::Arc;

/// How often all is sorted, where others go on writing.
const TRIES: usize = 16;

/// What goes with a segment.
#[derive(Clone, Debug)]
pub struct Lost {
    /// Its rows.
    pub forgotten: Forgotten,
    /// What is damaged: it names the file.
    pub why: Error,
    /// What else of its table was damaged and has been made anew, a sentence each.
    pub mended: Vec<String>,
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
    /// What would be lost with a segment of a table; with `is_told` it is forgotten. `flush` makes visible what has a version.
    ///
    /// # Errors
    /// `UndefinedObject` where there is no such segment, `InvalidValue` where nothing of it is damaged, or it can be made anew;
    /// `ObjectState` where others write without end; those of reading its files, and of writing the manifest.
    pub fn forget_segment(
        &self,
        table: TableId,
        segment: SegmentId,
        is_told: bool,
        flush: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Lost> {
        for _ in 0..TRIES {
            if let Some(lost) = self.forget_if_sorted(table, segment, is_told)? {
                return Ok(lost);
            }
            flush()?;
            self.sort()?;
        }
        Err(is_written(segment))
    }

    /// The same; `None` where something is to be sorted first.
    fn forget_if_sorted(&self, table: TableId, segment: SegmentId, is_told: bool) -> Result<Option<Lost>> {
        let _one = self.merging.lock();
        let base = self.views.base();
        let meta = find(&base, table, segment).ok_or_else(|| no_segment(segment))?;
        let damage = Damage::find(self.tree(), &meta)?;
        if damage.parquet.is_none() && damage.side.is_some() {
            self.check_lost(&base, table, &meta)?;
        }
        let why = damage.parquet.or(damage.side).ok_or_else(|| is_whole(segment))?;
        let forgotten = Forgotten::new(&meta, self.dead_rows_of(&base, table, segment));
        let lost = Lost { forgotten, why, mended: Vec::new(), still_closed: None };
        match (is_told, base.closed.get(&table)) {
            (false, _) => Ok(Some(lost)),
            (true, Some(closed)) => self.forget_of_closed(table, closed, &meta, lost).map(Some),
            (true, None) => self.forget_of_open(table, segment, lost),
        }
    }

    /// Refuses where a side file can be made of the Parquet file: no row is lost.
    fn check_lost(&self, base: &Base, table: TableId, meta: &SegmentMeta) -> Result<()> {
        let Some(entry) = self.views.catalog().by_id(table).cloned() else { return Ok(()) };
        let closed = base.closed.get(&table);
        let files = closed.map(|closed| closed.files.clone()).or_else(|| Some(base.tables.get(&table)?.files()));
        let (def, dictionaries) = space_of(&self.dir, self.tree(), &entry.def, &files.unwrap_or_default())?;
        match RebuiltSide::new(self.tree(), meta, &def, &dictionaries) {
            Ok(side) if side.proof() != Proof::None => Err(is_mended(meta.id, closed.is_some())),
            Ok(_) => Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NotSupported) => Ok(()),
            Err(error) => Err(error),
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

    fn forget_of_open(&self, table: TableId, segment: SegmentId, lost: Lost) -> Result<Option<Lost>> {
        let forgotten = lost.forgotten;
        let edit = |base: &mut Base| {
            let Some(files) = base.tables.get_mut(&table) else { return Vec::new() };
            let gone = files.take(segment);
            files.forgotten.extend(gone.iter().map(|_| forgotten));
            gone.into_iter().collect()
        };
        let loses = Handover { loses: Some(table), ..Handover::default() };
        match self.edit_table(&loses, table, segment, edit)? {
            Edited::Done => Ok(Some(lost)),
            Edited::Again => Ok(None),
        }
    }

    fn forget_of_closed(&self, table: TableId, closed: &ClosedTable, meta: &SegmentMeta, lost: Lost) -> Result<Lost> {
        let mut files = closed.files.clone();
        if files.forget(meta.id, lost.forgotten.dead).is_none() {
            // One that a record of the log names: whoever reads that passes it over.
            files.forgotten.push(lost.forgotten);
        }
        let mut mended = Vec::new();
        if let Some(entry) = self.views.catalog().by_id(table) {
            files = sides(&self.dir, self.tree(), &entry.def, &files, &mut mended)?;
        }
        let (disk, through) = (self.tree().disk.as_ref(), self.views.base().through);
        let opened = open_table(self.tree(), &files).and_then(|opened| {
            let rows = opened.rows_by_segment();
            Ok((read_kills(disk, &self.dir, table, &opened.kills, &rows, through)?, opened))
        });
        let still_closed = match opened {
            // What the log has of it is read by a start alone.
            Ok(_) if files.held.is_some() => {
                let error = at_next_start(meta.id);
                self.keep_closed(table, meta.id, files, &error)?;
                Some(error)
            }
            Ok((dead, opened)) => {
                // Whoever reads the table finds them.
                self.views.set_kills(table, dead);
                self.edit_table(&of_closed(table), table, meta.id, |base: &mut Base| {
                    if base.closed.remove(&table).is_some() {
                        let since = base.tables.remove(&table);
                        base.tables.insert(table, with_sorted_since(opened, since));
                    }
                    Vec::new()
                })?;
                None
            }
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                self.keep_closed(table, meta.id, files, &error)?;
                Some(error)
            }
            Err(error) => return Err(error),
        };
        self.tree().remove_files(meta);
        Ok(Lost { mended, still_closed, ..lost })
    }

    /// Its files are others, and it stays closed.
    fn keep_closed(&self, table: TableId, segment: SegmentId, files: TableFiles, error: &Error) -> Result<()> {
        self.edit_table(&of_closed(table), table, segment, |base: &mut Base| {
            if let Some(closed) = base.closed.get_mut(&table) {
                closed.staged.retain(|meta| meta.id != segment);
                (closed.files, closed.error) = (files, error.clone());
            }
            Vec::new()
        })
        .map(drop)
    }

    /// An edit after which a table, which `handover` has, has other rows: none of it is killed meanwhile.
    fn edit_table(
        &self,
        handover: &Handover,
        table: TableId,
        segment: SegmentId,
        edit: impl FnOnce(&mut Base) -> Vec<Arc<Segment>>,
    ) -> Result<Edited> {
        let install = |base: Base, keys: Vec<KeyGuard<'_>>| self.views.replace(base, table, segment, keys);
        self.edit_with(None, Vec::new(), handover, edit, install)
    }
}

/// Locks a table of which nobody writes rows.
fn of_closed(table: TableId) -> Handover {
    let unnoted = vec![Unnoted { table, segments: Vec::new(), tail_through: Version(0) }];
    Handover { unnoted, ..Handover::default() }
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

fn at_next_start(segment: SegmentId) -> Error {
    let message =
        format!("segment {segment} is forgotten; what the log has of the table since is read at the next start");
    Error::new(ErrorKind::Corrupt, message)
}

fn is_mended(segment: SegmentId, is_closed: bool) -> Error {
    let message = format!("no row of segment {segment} is lost: its side file can be made anew of its Parquet file");
    let hint = match is_closed {
        true => "forget what else of the table is lost, or start again: it is made anew then",
        false => "a running database makes it anew by itself: run the statement again that has met it",
    };
    Error::new(ErrorKind::InvalidValue, message).with_hint(hint)
}

fn is_written(segment: SegmentId) -> Error {
    let message = format!(
        "segment {segment} is not forgotten: while it is, rows come again and again that are passed over since their keys are there"
    );
    Error::new(ErrorKind::ObjectState, message).with_hint("call it again while nobody writes the table")
}

fn is_whole(segment: SegmentId) -> Error {
    Error::new(ErrorKind::InvalidValue, format!("segment {segment} is whole: all of its checksums hold"))
        .with_hint("nothing is lost, and nothing was changed; DELETE removes rows")
}
