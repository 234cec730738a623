//! Damage that is mended: what of a segment's files can be made anew is, and what cannot be is forgotten by who is told what is lost.
//!
//! Invariants:
//! - Rungs and side files are made anew without being asked: no row is in them alone. Meanwhile answers are right, or are refused.
//! - A segment whose rows are lost stays named, and its table closed or refusing, until somebody says that it is to be forgotten.
//! - New files are durable before the manifest, or the name of the file that they replace, tells of them. A crash leaves what was there.
//! - Merges do not run meanwhile: nobody else replaces the same segments.
//! - The files that both have stay until nobody has the old one or the new one ([`Segment::reopen`]).
//!
//! At a start (`sides`) side files come first, since a table does not open without them; rungs are done without, and made while the
//! database is open ([`Pipeline::mend`]), as is what a read finds damaged.

mod forget;
mod sides;

pub use forget::Lost;
pub use sides::{rebuilt, sides, space_of};

use crate::chunk::fixed;
use crate::handover::Handover;
use crate::pipeline::Pipeline;
use alluvia_snapshot::TableBase;
use alluvia_space::TableDef;
use alluvia_tree::{Damage, RungMeta, Segment, SegmentMeta};
use alluvia_types::{Error, ErrorKind, Result, TableId, planted};
use std::sync::Arc;

/// A segment of which something was made anew.
struct Mended {
    old: Arc<Segment>,
    new: Arc<Segment>,
    /// Rungs of the old one that are no more, if they are open.
    gone: Vec<Arc<Segment>>,
    /// Those of the new one that nothing names yet.
    brought: Vec<Arc<Segment>>,
}

impl Pipeline {
    /// Makes side files and rungs anew that reads have found damaged, and rungs that the start has not found. Tells what was done, a
    /// sentence each. What could not be done is told once, and not tried again until the next start.
    ///
    /// # Errors
    /// Those of the disk; and of writing the manifest.
    pub fn mend(&self) -> Result<Vec<String>> {
        let mut told = Vec::new();
        if !self.has_damaged() {
            return Ok(told);
        }
        let _one = self.merging.lock();
        let base = self.views.base();
        for (&table, files) in base.tables.iter().filter(|(table, _)| !base.closed.contains_key(table)) {
            for segment in files.sorted.iter().chain(files.merged()).filter(|segment| self.is_to_mend(segment)) {
                let id = segment.meta().id;
                match self.mend_segment(table, segment, &mut told) {
                    Ok(()) => {}
                    Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NotSupported) => {
                        told.push(format!("segment {id} could not be mended: {error}"));
                        self.unmendable.lock().insert(id);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(told)
    }

    fn has_damaged(&self) -> bool {
        let base = self.views.base();
        let segments =
            |files: &TableBase| files.sorted.iter().chain(files.merged()).any(|segment| self.is_to_mend(segment));
        base.tables.values().any(segments)
    }

    fn is_to_mend(&self, segment: &Arc<Segment>) -> bool {
        let is_damaged = segment.is_damaged() || !lacking(segment).is_empty();
        is_damaged && !self.unmendable.lock().contains(&segment.meta().id)
    }

    fn mend_segment(&self, table: TableId, segment: &Arc<Segment>, told: &mut Vec<String>) -> Result<()> {
        let Some(entry) = self.views.catalog().by_id(table).cloned() else { return Ok(()) };
        // As they are read at a start: values of a damaged file do not become members of those that are in use.
        let files = self.views.base().tables.get(&table).map(TableBase::files).unwrap_or_default();
        let (tree, mut meta) = (self.tree(), segment.meta().clone());
        if segment.is_damaged() {
            let damage = Damage::find(tree, &meta)?;
            if let Some(error) = damage.parquet {
                return Err(error);
            }
            if damage.side.is_some() {
                let (def, dictionaries) = space_of(&self.dir, tree, &entry.def, &files)?;
                let (mended, sentence) = rebuilt(tree, &meta, &def, &dictionaries)?;
                told.push(sentence);
                meta = mended;
            }
        }
        let space = self.views.spaces().get(&entry.def)?;
        let mended = self.with_rungs(segment, meta, &fixed(&entry.def, &space, &[]), told)?;
        self.swap(table, mended)
    }

    /// The segment with new files in the place of rungs that are lacking. `meta` says what of it is whole.
    fn with_rungs(
        &self,
        old: &Arc<Segment>,
        mut meta: SegmentMeta,
        def: &TableDef,
        told: &mut Vec<String>,
    ) -> Result<Mended> {
        let tree = self.tree();
        let lacking = lacking(old);
        let whole = Segment::open(tree, meta.clone())?;
        let new_id = || self.new_segment();
        let rungs: Vec<RungMeta> = whole.rebuild_rungs(def, &lacking, new_id)?;
        for rung in &rungs {
            let (of, number) = (meta.id, rung.rung);
            told.push(format!("rung {number} of segment {of} of table '{}' was made anew from its segment", def.name));
        }
        let gone = old.rungs().iter().filter(|rung| lacking.contains(&rung.rung));
        let gone: Vec<Arc<Segment>> = gone.map(|rung| Arc::clone(&rung.segment)).collect();
        meta.rungs.retain(|rung| !lacking.contains(&rung.rung));
        meta.rungs.extend(rungs.iter().cloned());
        meta.rungs.sort_by_key(|rung| rung.rung);
        // Who has a snapshot with the old one reads its files as long as he likes.
        let new = match planted("mended segment has files of its own") {
            true => Segment::open(tree, meta)?,
            false => old.reopen(meta)?,
        };
        let is_new = |id| rungs.iter().any(|rung| rung.segment.id == id);
        let brought = new.rungs().iter().filter(|rung| is_new(rung.segment.meta().id));
        let brought = brought.map(|rung| Arc::clone(&rung.segment)).collect();
        Ok(Mended { old: Arc::clone(old), new, gone, brought })
    }

    /// Readers get the new one.
    fn swap(&self, table: TableId, mended: Mended) -> Result<()> {
        let Mended { old, new, gone, brought } = mended;
        let nobodys = brought.clone();
        self.edit(None, brought, &Handover::default(), |base| {
            let files = base.tables.get_mut(&table);
            let place = files.and_then(|files| files.all_mut().find(|segment| Arc::ptr_eq(segment, &old)));
            match place {
                Some(place) => {
                    *place = new;
                    gone
                }
                // The table was dropped meanwhile.
                None => nobodys,
            }
        })
        .map(drop)
    }
}

/// Rungs that the manifest names, and that are not there, or known to be damaged.
fn lacking(segment: &Segment) -> Vec<u32> {
    let is_whole = |number: u32| segment.rungs().iter().any(|rung| rung.rung == number && !rung.segment.is_damaged());
    segment.meta().rungs.iter().map(|rung| rung.rung).filter(|&number| !is_whole(number)).collect()
}

/// Why a table is told of that is not mended.
pub(crate) fn not_proven(meta: &SegmentMeta) -> Error {
    let message = format!(
        "the side file of segment {} is lost, and nothing says whether the Parquet file beside it is what was written",
        meta.id
    );
    Error::new(ErrorKind::Corrupt, message).with_hint(
        "restore the side file from a copy; or read the Parquet file with any tool, and forget the segment (`alluvia repair`, or CALL \
         alluvia.forget_segment)",
    )
}
