//! Edits of the manifest: computed on the newest base, made durable, then shown to readers.

use crate::pipeline::Pipeline;
use alluvia_catalog::Catalog;
use alluvia_snapshot::{Base, Manifest, ProducerState, Spaces};
use alluvia_tree::Segment;
use alluvia_types::{Result, TableId, Version};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a new manifest says beside the files.
#[derive(Debug, Clone)]
pub(crate) struct Checkpoint {
    pub(crate) through: Version,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) producers: BTreeMap<String, ProducerState>,
}

impl Pipeline {
    /// Runs `edit` on a copy of the newest base, writes the manifest, and installs it (P1). Segments that `edit` returns
    /// are no longer named; they are retired once the manifest is durable (P3). A sort brings a new checkpoint; a merge
    /// keeps the last one.
    pub(crate) fn edit(
        &self,
        checkpoint: Option<Checkpoint>,
        edit: impl FnOnce(&mut Base) -> Result<Vec<Arc<Segment>>>,
    ) -> Result<()> {
        let _editing = self.editing.lock();
        let mut base = Base::clone(&self.views.base());
        let mut gone = edit(&mut base)?;
        let disk = self.tree().disk.as_ref();
        let checkpoint = match checkpoint {
            Some(checkpoint) => checkpoint,
            None => {
                let current = Manifest::load(disk, &self.dir)?.expect("an open database has a manifest");
                Checkpoint {
                    through: current.through,
                    catalog: Arc::new(current.catalog),
                    producers: current.producers,
                }
            }
        };
        base.through = checkpoint.through;
        let dropped: Vec<TableId> =
            base.tables.keys().copied().filter(|&table| checkpoint.catalog.by_id(table).is_none()).collect();
        for table in &dropped {
            if let Some(table) = base.tables.remove(table) {
                gone.extend(table.sorted.iter().chain(table.merged()).cloned());
            }
        }
        let manifest = Manifest {
            database: self.database,
            through: checkpoint.through,
            next_segment: self.next_segment.load(Ordering::Relaxed),
            next_table: self.next_table.load(Ordering::Relaxed),
            catalog: Catalog::clone(&checkpoint.catalog),
            producers: checkpoint.producers,
            tables: base.tables.iter().map(|(&id, table)| (id, table.files())).collect(),
        };
        // If this fails the new manifest may or may not be the one on disk: nothing that either names is deleted. The
        // next edit writes the whole manifest again; what neither names by then goes at the next open (P4).
        manifest.store(disk, &self.dir)?;
        self.views.install(base);
        gone.iter().for_each(|segment| segment.retire());
        for table in dropped {
            self.views.spaces().forget(table);
            // A reader may still hold the dictionaries; they are in memory. A file left behind goes at the next open.
            let _ = disk.remove(&Spaces::path(&self.dir, table));
        }
        Ok(())
    }
}
