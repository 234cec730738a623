//! Edits of the manifest: computed on the newest base, made durable, then shown to readers.
//!
//! Invariants:
//! - What an edit starts from is what the last one that succeeded has left, in memory. The file is not asked: where an edit has
//!   failed it may hold that edit, whose rows are in no base.
//! - Segments that an edit brings are in its manifest or go: at once where it certainly failed, else with the next edit that
//!   succeeds. Until then the manifest on disk may name them (P3). So do files of keys that others took the place of.

use crate::handover::{Edited, Handover, Unnoted};
use crate::pipeline::{Pipeline, Retired};
use alluvia_catalog::Catalog;
use alluvia_snapshot::{Base, ClosedTable, KeyGuard, KillsFile, Manifest, ProducerState, Spaces, kills};
use alluvia_storage::NotReplaced;
use alluvia_tree::{Dead, Segment, SegmentMeta};
use alluvia_types::{Error, Result, SegmentId, TableId, Version, planted};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Files of a table's kills past which they are written anew as one.
const KILLS_FILES_MAX: usize = 16;

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
    ///
    /// `handover` says which rows have moved. Where dead rows have moved without notes, or what a table loses is needed by the log, nothing
    /// is done, and what was brought is retired.
    pub(crate) fn edit(
        &self,
        checkpoint: Option<Checkpoint>,
        brought: Vec<Arc<Segment>>,
        handover: &Handover,
        edit: impl FnOnce(&mut Base) -> Vec<Arc<Segment>>,
    ) -> Result<Edited> {
        let install = |base: Base, keys: Vec<KeyGuard<'_>>| self.views.install(base, &handover.moves, keys);
        self.edit_with(checkpoint, brought, handover, edit, install)
    }

    /// The same; `install` shows the new base to readers, under the locks of the tables of `handover`.
    pub(crate) fn edit_with(
        &self,
        checkpoint: Option<Checkpoint>,
        brought: Vec<Arc<Segment>>,
        handover: &Handover,
        edit: impl FnOnce(&mut Base) -> Vec<Arc<Segment>>,
        install: impl FnOnce(Base, Vec<KeyGuard<'_>>),
    ) -> Result<Edited> {
        let mut editing = self.editing.lock();
        // Until readers are switched no row is killed by a place that it is about to leave.
        let locks = self.views.keys().locks(&handover.tables());
        let keys = locks.lock();
        let has_dead = |unnoted: &Unnoted| unnoted.has_dead(&self.views.kills_of(unnoted.table));
        let is_behind = |table: TableId| self.views.has_passed_over(table) && !planted("passed over row comes back");
        if handover.unnoted.iter().any(has_dead) || handover.loses.is_some_and(is_behind) {
            brought.iter().for_each(|segment| segment.retire());
            return Ok(Edited::Again);
        }
        let mut base = Base::clone(&self.views.base());
        let sorted_through = base.through;
        let mut gone = edit(&mut base);
        let is_sort = checkpoint.is_some();
        let checkpoint = checkpoint.unwrap_or_else(|| editing.checkpoint.clone());
        base.through = checkpoint.through;
        let mut old_kills: Vec<PathBuf> = Vec::new();
        let is_dropped = |table: TableId| checkpoint.catalog.by_id(table).is_none();
        for (id, table) in base.tables.extract_if(.., |&table, _| is_dropped(table)) {
            gone.extend(table.sorted.iter().chain(table.merged()).cloned());
            old_kills.extend(table.kills.iter().map(|file| kills::path(&self.dir, id, file.number)));
        }
        // One that the log creates is not in the definitions of a merge.
        let is_gone = |&table: &TableId, _: &mut ClosedTable| is_sort && is_dropped(table);
        let closed: Vec<(TableId, ClosedTable)> = base.closed.extract_if(.., is_gone).collect();
        for (id, table) in &closed {
            old_kills.extend(table.files.kills.iter().map(|file| kills::path(&self.dir, *id, file.number)));
        }
        let new_kills = match self.write_kills(&mut base, sorted_through, handover, &mut old_kills) {
            Ok(written) => written,
            Err(error) => {
                brought.iter().for_each(|segment| segment.retire());
                return Err(error);
            }
        };
        if is_sort {
            // What was caught up with is in files, as all is.
            base.complete = base.through;
            base.tables.values_mut().for_each(|files| files.held = None);
        }
        // A sort may add some meanwhile: what that makes old is of the next manifest.
        let (named_keys, old_keys) = self.keys.lock().named();
        let manifest = Manifest {
            database: self.database,
            through: checkpoint.through,
            next_segment: self.next_segment.load(Ordering::Relaxed),
            next_table: self.next_table.load(Ordering::Relaxed),
            next_kills: self.next_kills.load(Ordering::Relaxed),
            keys: Some(if planted("keys not named") { Vec::new() } else { named_keys }),
            marked: self.log.has_mark(),
            held: base.held().cloned(),
            catalog: Catalog::clone(&checkpoint.catalog),
            producers: if planted("producers not named") { BTreeMap::new() } else { checkpoint.producers.clone() },
            tables: base.files().into_iter().filter(|(table, _)| !is_dropped(*table)).collect(),
        };
        if let Err(NotReplaced { error, is_kept }) = manifest.store(self.tree().disk.as_ref(), &self.dir) {
            match is_kept {
                true => {
                    brought.iter().for_each(|segment| segment.retire());
                    self.remove_files(&new_kills);
                }
                false => editing.unsure.extend(brought),
            }
            return Err(error);
        }
        install(base, keys);
        self.remove_files(&old_kills);
        closed.iter().flat_map(|(_, table)| table.segments()).for_each(|meta| self.tree().remove_files(meta));
        let old_keys = self.keys.lock().forget_old(old_keys);
        self.remove_files(&old_keys);
        let known = std::mem::replace(&mut editing.checkpoint, checkpoint).catalog;
        gone.append(&mut editing.unsure);
        self.retire(&gone);
        let tables = known.tables().map(|entry| entry.def.id).chain(gone.iter().map(|segment| segment.meta().table));
        let mut tables: BTreeSet<TableId> = tables.collect();
        // The log has what came after a merge's checkpoint, and what it names is needed until a sort's lets go of it.
        if is_sort {
            tables.append(&mut editing.written);
        }
        self.forget_tables(&editing.checkpoint.catalog, tables);
        Ok(Edited::Done)
    }

    /// Writes the kills that no file of the base tells of yet, through the base's version, and names them there. Where a
    /// table has too many files, all its kills are written anew, and the old files are added to `old`. Returns the files
    /// that were written; after an error there are none.
    fn write_kills(
        &self,
        base: &mut Base,
        sorted_through: Version,
        handover: &Handover,
        old: &mut Vec<PathBuf>,
    ) -> Result<Vec<PathBuf>> {
        let mut written = Vec::new();
        let through = match planted("kills file short") {
            true => Version(base.through.0.saturating_sub(1)),
            false => base.through,
        };
        let complete = base.complete.max(sorted_through);
        for (&table, files) in &mut base.tables {
            let known_through = files.held.unwrap_or(complete);
            files.dropped += handover.gone(table);
            let kills = self.views.kills_of(table);
            let moves = handover.moves.iter().find(|moves| moves.table == table);
            if kills.is_empty() && moves.is_none() {
                continue;
            }
            let after = moves.map(|moves| moves.kills_after(&kills));
            // Also where no row is dead any more: files that tell of none go.
            let is_folded =
                files.kills.len() >= KILLS_FILES_MAX || after.as_ref().is_some_and(|after| after.is_empty());
            let mut told: Vec<(SegmentId, Vec<(u64, Version)>)> = Vec::new();
            let segments: BTreeSet<SegmentId> =
                files.sorted.iter().chain(files.merged()).map(|segment| segment.meta().id).collect();
            let current: Vec<(SegmentId, &Arc<Dead>)> = match &after {
                Some(after) => after.iter().map(|(&segment, dead)| (segment, dead)).collect(),
                None => kills.segments().collect(),
            };
            for (segment, dead) in current.into_iter().filter(|(segment, _)| segments.contains(segment)) {
                // Of a segment that is new all is; of the others what came since the last sort.
                let is_new = is_folded || kills.of(segment).is_none_or(|known| !Arc::ptr_eq(known, dead));
                let above = if is_new { Version(0) } else { known_through };
                let mut rows: Vec<(u64, Version)> = dead.kills_between(above, through).collect();
                if !rows.is_empty() {
                    rows.sort_unstable();
                    told.push((segment, rows));
                }
            }
            if is_folded {
                old.extend(files.kills.drain(..).map(|file| kills::path(&self.dir, table, file.number)));
            }
            if told.is_empty() {
                continue;
            }
            let number = self.next_kills.fetch_add(1, Ordering::Relaxed);
            match kills::write(self.tree().disk.as_ref(), &self.dir, table, number, &told) {
                Ok(checks) => files.kills.push(KillsFile { number, checks }),
                Err(error) => {
                    self.remove_files(&written);
                    return Err(error);
                }
            }
            written.push(kills::path(&self.dir, table, number));
        }
        Ok(written)
    }

    /// Removes files that no manifest names. What is left behind goes when the database is next opened.
    fn remove_files(&self, files: &[PathBuf]) {
        for file in files {
            let _ = self.tree().disk.remove(file);
        }
    }

    /// Retires segments that no manifest names any more, and remembers them until their files are gone.
    fn retire(&self, gone: &[Arc<Segment>]) {
        let mut retired = self.retired.lock();
        retired.retain(|one| one.files.strong_count() > 0 || self.has_files(one.id));
        for segment in gone {
            segment.retire();
            for segment in std::iter::once(segment).chain(segment.rungs().iter().map(|rung| &rung.segment)) {
                let SegmentMeta { table, id, .. } = *segment.meta();
                retired.push(Retired { table, id, files: Arc::downgrade(segment.held_files()) });
            }
        }
    }

    /// Removes the dictionary files of a table, but for that of one generation.
    pub(crate) fn remove_dictionaries(&self, table: TableId, but: Option<u32>) -> Result<()> {
        let disk = &self.tree().disk;
        let entries = disk.read_dir(&self.dir).map_err(|error| Error::io(&self.dir, "listing", &error))?;
        for entry in entries {
            let is_gone = |(of, generation): (TableId, u32)| of == table && but != Some(generation);
            if Spaces::table_of_file(&entry.name).is_some_and(is_gone) {
                let path = self.dir.join(&entry.name);
                disk.remove(&path).map_err(|error| Error::io(&path, "removing", &error))?;
            }
        }
        Ok(())
    }

    /// Whether a segment has a file.
    pub(crate) fn has_files(&self, id: SegmentId) -> bool {
        let tree = self.tree();
        tree.disk.exists(&tree.parquet_path(id)) || tree.disk.exists(&tree.side_path(id))
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
            let _ = self.remove_dictionaries(table, None);
        }
    }
}
