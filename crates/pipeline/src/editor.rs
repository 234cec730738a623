//! Edits of the manifest: computed on the newest base, made durable, then shown to readers.
//!
//! Invariants:
//! - What an edit starts from is what the last one that succeeded has left, in memory. The file is not asked: where an edit has
//!   failed it may hold that edit, whose rows are in no base.
//! - Segments that an edit brings are in its manifest or go: at once where it certainly failed, else with the next edit that
//!   succeeds. Until then the manifest on disk may name them (P3).

use crate::pipeline::Pipeline;
use alluvia_catalog::Catalog;
use alluvia_snapshot::{Base, Manifest, ProducerState, Spaces};
use alluvia_storage::NotReplaced;
use alluvia_tree::Segment;
use alluvia_types::{Result, TableId, Version};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a new manifest says beside the files.
#[derive(Debug, Clone)]
pub(crate) struct Checkpoint {
    pub(crate) through: Version,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) producers: BTreeMap<String, ProducerState>,
}

/// What edits hand on to each other.
#[derive(Debug)]
pub(crate) struct Editing {
    /// Of the manifest that the installed base is from.
    checkpoint: Checkpoint,
    /// What edits brought of which nobody knows whether their manifest is the one on disk.
    unsure: Vec<Arc<Segment>>,
    /// Tables whose dictionaries sorts have written since the checkpoint. Where such a sort failed, no manifest tells of them.
    written: BTreeSet<TableId>,
}

impl Editing {
    /// Begins with the manifest that the database was opened with.
    pub(crate) fn new(manifest: &Manifest) -> Editing {
        let checkpoint = Checkpoint {
            through: manifest.through,
            catalog: Arc::new(manifest.catalog.clone()),
            producers: manifest.producers.clone(),
        };
        Editing { checkpoint, unsure: Vec::new(), written: BTreeSet::new() }
    }
}

impl Pipeline {
    /// Runs `edit` on a copy of the newest base, writes the manifest, and installs it (P1). `brought` are the new segments among
    /// what `edit` adds. Segments that `edit` returns are no longer named; they are retired once the manifest is durable (P3). A
    /// sort brings a new checkpoint; a merge keeps the last one.
    pub(crate) fn edit(
        &self,
        checkpoint: Option<Checkpoint>,
        brought: Vec<Arc<Segment>>,
        edit: impl FnOnce(&mut Base) -> Vec<Arc<Segment>>,
    ) -> Result<()> {
        let mut editing = self.editing.lock();
        let mut base = Base::clone(&self.views.base());
        let mut gone = edit(&mut base);
        let is_sort = checkpoint.is_some();
        let checkpoint = checkpoint.unwrap_or_else(|| editing.checkpoint.clone());
        base.through = checkpoint.through;
        let is_dropped = |table: TableId| checkpoint.catalog.by_id(table).is_none();
        for (_, table) in base.tables.extract_if(.., |&table, _| is_dropped(table)) {
            gone.extend(table.sorted.iter().chain(table.merged()).cloned());
        }
        let manifest = Manifest {
            database: self.database,
            through: checkpoint.through,
            next_segment: self.next_segment.load(Ordering::Relaxed),
            next_table: self.next_table.load(Ordering::Relaxed),
            catalog: Catalog::clone(&checkpoint.catalog),
            producers: checkpoint.producers.clone(),
            tables: base.tables.iter().map(|(&id, table)| (id, table.files())).collect(),
        };
        if let Err(NotReplaced { error, is_kept }) = manifest.store(self.tree().disk.as_ref(), &self.dir) {
            match is_kept {
                true => brought.iter().for_each(|segment| segment.retire()),
                false => editing.unsure.extend(brought),
            }
            return Err(error);
        }
        self.views.install(base);
        let known = std::mem::replace(&mut editing.checkpoint, checkpoint).catalog;
        gone.append(&mut editing.unsure);
        gone.iter().for_each(|segment| segment.retire());
        let tables = known.tables().map(|entry| entry.def.id).chain(gone.iter().map(|segment| segment.meta().table));
        let mut tables: BTreeSet<TableId> = tables.collect();
        // The log has what came after a merge's checkpoint, and what it names is needed until a sort's lets go of it.
        if is_sort {
            tables.append(&mut editing.written);
        }
        self.forget_tables(&editing.checkpoint.catalog, tables);
        Ok(())
    }

    /// Notes tables whose dictionaries a sort is about to write.
    pub(crate) fn note_written(&self, tables: impl Iterator<Item = TableId>) {
        self.editing.lock().written.extend(tables);
    }

    /// Forgets the dictionaries of those of the tables, and of those that loads were abandoned of, that are not there (any more).
    fn forget_tables(&self, catalog: &Catalog, mut tables: BTreeSet<TableId>) {
        // Held to the end: a load that begins meanwhile waits, and begins with new dictionaries.
        let mut abandoned = self.abandoned.lock();
        tables.append(&mut abandoned);
        // One may have come after the checkpoint.
        let visible = self.views.catalog();
        tables.retain(|&table| catalog.by_id(table).is_none() && visible.by_id(table).is_none());
        for table in tables {
            self.views.spaces().forget(table);
            // A reader may still hold the dictionaries; they are in memory. A file left behind goes at the next open.
            let _ = self.tree().disk.remove(&Spaces::path(&self.dir, table));
        }
    }
}
